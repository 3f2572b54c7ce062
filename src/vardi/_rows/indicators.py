"""A few biases that are zero or a constant: a row's pattern is a machine word, and its kind a table's entry."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vardi._machine.threads import blocks, map_blocks
from vardi._types import Floats, Integers

WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}  # the type of a machine word of this many bytes


class Kinds(NamedTuple):
    """A row of each kind, the kind of each row, and how many rows are of each."""

    first: Integers
    inverse: NDArray[Any]
    tallies: Integers


class Indicators:
    """Biases that are each zero or a constant, as a boolean for each row and bias.

    Every row that is read is checked: each value is zero or its column's constant, so what follows from the booleans
    is exact.

    Parameters
    ----------
    biases : list of K arrays of length n, or array of shape (n, K)
        The biases, zero where a row cannot be drawn.
    probe : ndarray of int
        Rows to take the constants from.
    zero : float
        How zero is written: 0, or -inf for logs.
    """

    def __init__(self, biases: Any, probe: Integers, zero: float) -> None:
        self.biases, self.zero = biases, zero
        self.K = len(biases) if isinstance(biases, list) else int(biases.shape[1])
        self.constants = _constants(biases, probe, zero)
        self.plausible = bool(np.isfinite(self.constants).all()) and self.positive(probe) is not None

    def positive(self, rows: slice | Integers) -> NDArray[np.bool_] | None:
        """Return 1{omega_ik > 0} of some rows; None if another value occurs."""
        if isinstance(self.biases, list):
            part: Any = np.column_stack([column[rows] for column in self.biases])
        else:
            part = self.biases[rows]
        if part.dtype == np.bool_:
            return np.ascontiguousarray(part)
        # A comparison with a row goes through the array in steps of K numbers; with a scalar, all at once.
        same = self.constants[0] if (self.constants == self.constants[0]).all() else self.constants
        positive = np.equal(part, same)
        return positive if np.array_equal(positive, part != self.zero) else None


def indicator_kinds(source: Integers, indicators: Indicators) -> Kinds | None:
    """Find the distinct rows of labels and indicators of at most eight biases; None for more, or for other values.

    Row i has the code s_i 2^K + sum_k 2^k 1{omega_ik > 0}, computed from the row's bytes, one machine word, by a
    multiplication and a shift.
    """
    K, n = indicators.K, len(source)
    if max(WORDS) < K or not indicators.plausible:
        return None
    codes: NDArray[Any] = np.empty(n, np.uint8 if K << K <= 256 else np.uint16)

    def block(rows: slice) -> Integers | None:
        positive = indicators.positive(rows)
        if positive is None:
            return None
        np.left_shift(source[rows], K, out=codes[rows], casting="unsafe")
        codes[rows] |= _patterns(positive)
        return np.bincount(codes[rows], minlength=K << K)

    counts = []
    for tally in map_blocks(block, n, K):
        if tally is None:
            return None
        counts.append(tally)
    tallies = np.sum(counts, axis=0)
    first = _first_rows(codes, np.array(counts), blocks(n, K))
    return Kinds(first, _compacted(codes, tallies > 0), tallies[tallies > 0])


def _patterns(positive: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return sum_k 2^k b_k of at most eight booleans a row.

    A row's bytes are one machine word. The multiplier moves each byte to its own bit of the highest byte; no other
    products coincide, so nothing carries.
    """
    n, K = positive.shape
    width = min(w for w in WORDS if w >= K)
    if width > K or not positive.flags.c_contiguous:
        whole = np.zeros((n, width), np.bool_)
        whole[:, :K] = positive
        positive = whole
    word = WORDS[width]
    top = 8 * (width - 1)
    multiplier = sum(1 << (top - 7 * k) for k in range(width))
    return np.asarray((positive.view(word)[:, 0] * word(multiplier)) >> word(top), np.uint8)


def _constants(biases: Any, probe: Integers, zero: float) -> Floats:
    """Return the value of each bias where it is not zero in the probe; 1 if it is zero everywhere."""
    columns = biases if isinstance(biases, list) else biases.T
    shown = [column[probe].astype(np.float64) for column in columns]
    return np.array([column[column != zero][0] if (column != zero).any() else 1.0 for column in shown])


def _first_rows(codes: NDArray[Any], counts: Integers, places: list[slice]) -> Integers:
    """Return the first row of each code that occurs, from its counts in each block."""
    occurring = np.flatnonzero(counts.any(axis=0))
    first = [places[int(np.argmax(counts[:, code] > 0))] for code in occurring]
    return np.array([at.start + int(np.argmax(codes[at] == code)) for code, at in zip(occurring, first, strict=True)])


def _compacted(codes: NDArray[Any], occurs: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the codes, renumbered from 0 in place."""
    table = (np.cumsum(occurs) - 1).astype(codes.dtype)

    def block(rows: slice) -> None:
        table.take(codes[rows], out=codes[rows], mode="clip")  # all are within bounds: no check

    for _ in map_blocks(block, len(codes), 1):
        pass
    return codes
