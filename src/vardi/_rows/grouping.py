"""Rows by sample: sizes, sums within samples, and a subsample that keeps every sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._machine.threads import sum_blocks
from vardi._types import Floats, Integers
from vardi.biases._values import are_once

FIRST = 100  # values that are looked at before all others
MANY, MOST_WHOLE = 10_000, 2**16  # rows, and whole numbers from the least to the largest, that are counted
NARROW = 16  # columns up to which one after the other is reduced: rows at once take more than ten times as long


def sizes_of(source: Integers, K: int, counts: Floats) -> Floats:
    """Return n_k, the (counted) number of rows of each sample."""
    return np.bincount(source, None if are_once(counts) else counts, minlength=K).astype(np.float64)


def mean_over_counts(values: Floats, counts: Floats) -> float:
    """Return the mean of values over the counted rows, summed in blocks."""
    total = sum_blocks(lambda rows: float((counts[rows] * values[rows]).sum()), len(values), 1)
    return total / float(counts.sum())


def membership(source: Integers, K: int, counts: Floats | float = 1.0) -> sparse.csc_array:
    """Return the K x n matrix with c_i at (s_i, i): multiplied with a matrix of rows, it sums within samples."""
    data = np.ascontiguousarray(np.broadcast_to(counts, len(source)))
    return sparse.csc_array((data, source, np.arange(len(source) + 1)), shape=(K, len(source)))


def sums_by_code(codes: Integers, values: Floats, size: int) -> Floats:
    """Return sums of the rows with each code below a size, of shape (size, m)."""
    if values.shape[1] > NARROW:
        return np.asarray(membership(codes, size) @ values)
    sums = [np.bincount(codes, column, minlength=size) for column in values.T]
    return np.stack(sums, axis=1).astype(np.float64, copy=False) if sums else np.zeros((size, 0))


def extremes_by_code(codes: Integers, low: Floats, high: Floats, size: int) -> tuple[Floats, Floats]:
    """Return the smallest of some and the largest of other numbers of the rows with each code, of shape (size, m)."""
    lows, highs = np.full((low.shape[1], size), np.inf), np.full((high.shape[1], size), -np.inf)
    for found, column in zip(lows, low.T, strict=True):
        np.fmin.at(found, codes, column)  # a number may be missing
    for found, column in zip(highs, high.T, strict=True):
        np.fmax.at(found, codes, column)
    return lows.T, highs.T


def sums_by_sample(values: Floats, source: Integers | int, K: int) -> Floats:
    """Return sums of the rows of each sample, of shape (K, m); the source is a number if they all are of one."""
    if not isinstance(source, int):
        return sums_by_code(source, values, K)
    found = np.zeros((K, values.shape[1]))
    found[source] = [column.sum() for column in values.T] if values.shape[1] <= NARROW else values.sum(axis=0)
    return found


def by_sample(source: Integers, K: int) -> list[Integers]:
    """Return the row numbers of each sample, in order."""
    if is_sorted(source):
        order = np.arange(len(source))
    else:
        order = np.argsort(source.astype(np.int16) if K < 2**15 else source, kind="stable")  # 16 bits sort by radix
    return np.split(order, np.cumsum(np.bincount(source, minlength=K))[:-1])


def stratified(source: Integers, K: int, fraction: float, least: int) -> NDArray[np.intp]:
    """Return evenly spaced rows of every sample: the given fraction, but at least ``least`` of each."""
    lengths = np.bincount(source, minlength=K)
    sizes = np.minimum(lengths, np.maximum(least, (lengths * fraction).astype(np.int64)))
    starts = np.cumsum(lengths) - lengths
    places = np.concatenate(
        [
            start + (np.arange(size) * (length / max(size, 1))).astype(np.intp)
            for start, size, length in zip(starts, sizes, lengths, strict=True)
        ]
    )
    if is_sorted(source):  # the usual case: samples one after the other
        return places
    return np.concatenate(by_sample(source, K))[places]


def is_sorted(source: Integers) -> bool:
    """Return whether the rows of each sample follow one another, sample by sample."""
    return bool((source[1:] >= source[:-1]).all())


def are_whole(values: Floats) -> bool:
    """Return whether all are whole numbers; mostly the first ones tell that they are not."""
    return all(bool((part == np.floor(part)).all()) for part in (values[:FIRST], values[FIRST:]))


def sums_by_value(values: Floats, parts: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
    """Return the distinct values in order, and sums of other numbers of rows by value."""
    low = float(values.min(initial=np.inf))
    if len(values) >= MANY and float(values.max()) - low < MOST_WHOLE and are_whole(values):
        place = (values - low).astype(np.int64)  # whole numbers need not be sorted
        there = np.flatnonzero(np.bincount(place))
        sums = [np.bincount(place, part)[there].astype(np.float64, copy=False) for part in parts]
        return there.astype(np.float64) + low, sums
    order = np.argsort(values)
    x = values[order]
    starts = np.flatnonzero(np.append(True, x[1:] != x[:-1]))[: len(x)]
    return x[starts], [np.add.reduceat(part[order], starts) for part in parts]
