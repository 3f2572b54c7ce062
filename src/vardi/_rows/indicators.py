"""Biases that are zero or a constant, a few of them: a row's pattern is a small integer, its kind a table's entry."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vardi._machine.threads import blocks, map_blocks
from vardi._types import Floats, Integers

WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}  # what so many bytes are as one number
CODES = 4096  # labels times patterns up to which their counts are a table


class Kinds(NamedTuple):
    """A row of each kind, the kind of each row, and how many rows are of each."""

    first: Integers
    inverse: NDArray[Any]
    tallies: Integers


def indicator_kinds(source: Integers, biases: Any, probe: Integers, zero: float) -> Kinds | None:
    """Find the distinct rows of labels and biases, where each bias is zero or a constant.

    Row i has the code s_i 2^K + sum_k 2^k 1{omega_ik > 0}: of booleans, whose row is a machine word, a multiplication
    and a shift; else one product with the matrix. That each value is zero or its column's constant is checked for every
    row, so the answer is exact.

    Parameters
    ----------
    source : ndarray of int of shape (n,)
        Sample of each row.
    biases : list of K arrays of length n, or array of shape (n, K)
        The biases, zero where a row cannot be drawn.
    probe : ndarray of int
        Rows to take the constants from.
    zero : float
        What stands for zero: 0, or -inf where logs are given.

    Returns
    -------
    Kinds or None
        None where a bias is something else, or there are too many.
    """
    K = len(biases) if isinstance(biases, list) else biases.shape[1]
    if K << K > CODES:
        return None
    constants = _constants(biases, probe, zero)
    if not np.isfinite(constants).all():
        return None
    n = len(source)
    codes = np.empty(n, np.uint8 if K << K <= 256 else np.uint16)
    words = _words(biases)

    def block(rows: slice) -> Integers | None:
        if words is not None:
            code: Integers | None = _patterns(words[rows], K)
        else:
            code = _encode([b[rows] for b in biases] if isinstance(biases, list) else biases[rows], constants, zero)
        if code is None:
            return None
        mine = np.left_shift(source[rows], K, out=codes[rows], casting="unsafe")
        mine |= code.astype(codes.dtype)
        return np.bincount(mine, minlength=K << K)

    counts = []
    for found in map_blocks(block, n, K):
        if found is None:
            return None
        counts.append(found)
    tallies = np.sum(counts, axis=0)
    first = _first_rows(codes, np.array(counts), blocks(n, K))
    return Kinds(first, _compacted(codes, tallies > 0), tallies[tallies > 0])


def _constants(biases: Any, probe: Integers, zero: float) -> Floats:
    """Return the value of each bias where it is not zero, as the probe shows it; 1 where it shows none."""
    columns = biases if isinstance(biases, list) else biases.T
    shown = [column[probe].astype(np.float64) for column in columns]
    return np.array([column[column != zero][0] if (column != zero).any() else 1.0 for column in shown])


def _words(biases: Any) -> NDArray[Any] | None:
    """Return the rows of a matrix of booleans as machine words, one each; None where they are something else."""
    if isinstance(biases, list) or biases.dtype != np.bool_ or biases.shape[1] not in WORDS:
        return None
    return np.ascontiguousarray(biases).view(WORDS[biases.shape[1]]).ravel()


def _patterns(words: NDArray[Any], K: int) -> Integers:
    """Return sum_k 2^k b_k of words whose k-th byte is b_k, 0 or 1.

    The multiplier brings each byte to a bit of its own in the highest one; no two others meet, so nothing is carried.
    """
    top = 8 * (K - 1)
    multiplier = sum(1 << (top - 7 * k) for k in range(K))
    return np.asarray((words * words.dtype.type(multiplier)) >> words.dtype.type(top))


def _encode(part: Any, constants: Floats, zero: float) -> Integers | None:
    """Return sum_k 2^k 1{omega_ik > 0}; None where a value is neither zero nor the constant."""
    powers = 2.0 ** np.arange(len(constants))
    if isinstance(part, list):
        code = np.zeros(len(part[0]), np.int64)
        for column, constant, power in zip(part, constants.tolist(), powers.astype(np.int64), strict=True):
            positive = column == constant
            if not np.array_equal(positive, column != zero):
                return None
            code += positive * power
        return code
    # A comparison with a row goes through the array in steps of K numbers; with one number, all at once.
    same = constants[0] if (constants == constants[0]).all() else np.tile(constants, (len(part), 1))
    positive = part == same
    if not np.array_equal(positive, part != zero):
        return None
    return ((part @ (powers / constants) if zero == 0 else positive @ powers) + 0.5).astype(np.int64)


def _first_rows(codes: NDArray[Any], counts: Integers, places: list[slice]) -> Integers:
    """Return the first row of each code that occurs, from how often it does in each block."""
    occurring = np.flatnonzero(counts.any(axis=0))
    first = [places[int(np.argmax(counts[:, code] > 0))] for code in occurring]
    return np.array([at.start + int(np.argmax(codes[at] == code)) for code, at in zip(occurring, first, strict=True)])


def _compacted(codes: NDArray[Any], occurs: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the codes, renumbered from 0 on in their place."""
    table = (np.cumsum(occurs) - 1).astype(codes.dtype)

    def block(rows: slice) -> None:
        codes[rows] = table.take(codes[rows], mode="clip")  # all are within it; to check that costs more

    for _ in map_blocks(block, len(codes), 1):
        pass
    return codes
