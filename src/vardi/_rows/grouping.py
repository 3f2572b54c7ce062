"""Rows by sample: sizes, sums within samples, and a subsample that keeps every sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._types import Floats, Integers


def sizes_of(source: Integers, K: int, counts: Floats | None) -> Floats:
    """Return n_k, the (counted) number of rows of each sample."""
    return np.bincount(source, counts, minlength=K).astype(np.float64)


def membership(source: Integers, K: int, counts: Floats | None) -> sparse.csc_array:
    """Return the K x n matrix with c_i at (s_i, i): multiplied with a matrix of rows, it sums within samples."""
    data = np.ones(len(source)) if counts is None else counts
    return sparse.csc_array((data, source, np.arange(len(source) + 1)), shape=(K, len(source)))


def by_sample(source: Integers, K: int) -> list[Integers]:
    """Return the row numbers of each sample, in order."""
    if _is_sorted(source):
        order = np.arange(len(source))
    else:
        order = np.argsort(source.astype(np.int16) if K < 2**15 else source, kind="stable")  # 16 bits sort by radix
    return np.split(order, np.cumsum(np.bincount(source, minlength=K))[:-1])


def stratified(source: Integers, K: int, fraction: float, least: int) -> NDArray[np.intp]:
    """Return evenly spaced rows of every sample: the given fraction, but at least so many of each."""
    lengths = np.bincount(source, minlength=K)
    sizes = np.minimum(lengths, np.maximum(least, (lengths * fraction).astype(np.int64)))
    starts = np.cumsum(lengths) - lengths
    places = np.concatenate(
        [
            start + (np.arange(size) * (length / max(size, 1))).astype(np.intp)
            for start, size, length in zip(starts, sizes, lengths, strict=True)
        ]
    )
    if _is_sorted(source):  # the rule: samples one after the other
        return places
    return np.concatenate(by_sample(source, K))[places]


def _is_sorted(source: Integers) -> bool:
    return bool((source[1:] >= source[:-1]).all())
