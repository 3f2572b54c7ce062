"""Biases that are zero or a constant: a row's pattern is a few machine words, and its kind often a table's entry."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vardi._machine.kernels import Take, kernels, packed
from vardi._machine.threads import blocks, map_blocks
from vardi._types import Floats, Integers

WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}  # the type of a machine word of this many bytes
CODES = 4096  # labels times patterns up to which their counts are a table


class Kinds(NamedTuple):
    """A row of each kind, the kind of each row, and how many rows are of each."""

    first: Integers
    inverse: NDArray[Any]
    tallies: Integers


class Indicators:
    """Biases that are each zero or a constant, as a bit for each row and bias.

    Every row that is read is checked: each value is zero or its column's constant, so what follows from the bits is
    exact.

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
        self.plausible = np.isfinite(self.constants).all() and self._positive(probe) is not None

    def patterns(self, rows: slice) -> NDArray[np.uint8] | None:
        """Return 1{omega_ik > 0} of some rows, eight biases to a byte; None if another value occurs."""
        words = self.row_words(rows)
        return None if words is None else packed(words)

    def row_words(self, rows: slice) -> NDArray[Any] | None:
        """Return the same, eight booleans to a machine word, or fewer in a smaller one."""
        positive = self._positive(rows) if self.plausible else None
        return None if positive is None else positive.view(WORDS[min(positive.shape[1], 8)])

    def words(self, n: int) -> list[NDArray[np.uint64]] | None:
        """Return the patterns of all n rows, 64 biases to a word; None if another value occurs."""
        if not self.plausible:
            return None
        found = np.zeros((n, 8 * -(-self.K // 64)), np.uint8)

        def block(rows: slice) -> bool:
            patterns = self.patterns(rows)
            if patterns is not None:
                found[rows, : patterns.shape[1]] = patterns
            return patterns is not None

        if not all(map_blocks(block, n, self.K)):
            return None
        return [np.ascontiguousarray(word) for word in found.view(np.uint64).T]

    def _positive(self, rows: slice | Integers) -> NDArray[np.bool_] | None:
        """Return 1{omega_ik > 0} of some rows, with as many columns as make up whole words."""
        if isinstance(self.biases, list):
            part: Any = np.column_stack([column[rows] for column in self.biases])
        else:
            part = self.biases[rows]
        width = next((w for w in WORDS if w >= self.K), -(-self.K // 8) * 8)
        if part.dtype == np.bool_ and width == self.K:
            return np.ascontiguousarray(part)
        positive = np.zeros((len(part), width), np.bool_)
        if part.dtype == np.bool_:
            positive[:, : self.K] = part
            return positive
        # A comparison with a row goes through the array in steps of K numbers; with a scalar, all at once.
        same = self.constants[0] if (self.constants == self.constants[0]).all() else self.constants
        np.equal(part, same, out=positive[:, : self.K])
        return positive if np.array_equal(positive[:, : self.K], part != self.zero) else None


def indicator_kinds(source: Integers, indicators: Indicators) -> Kinds | None:
    """Find the distinct rows of labels and indicators of a few biases; None if there are too many.

    Row i has the code s_i 2^K + sum_k 2^k 1{omega_ik > 0}, computed from the row's bytes, one machine word, by a
    multiplication and a shift.
    """
    K = indicators.K
    if K << K > CODES:
        return None
    n = len(source)
    codes = np.empty(n, np.uint8 if K << K <= 256 else np.uint16)
    tally = kernels(n, K).tally

    def block(rows: slice) -> Integers | None:
        words = indicators.row_words(rows)
        return None if words is None else tally(words[:, 0], source[rows], K, codes[rows])  # at most eight biases

    counts = []
    for found in map_blocks(block, n, K):
        if found is None:
            return None
        counts.append(found)
    tallies = np.sum(counts, axis=0)
    first = _first_rows(codes, np.array(counts), blocks(n, K))
    return Kinds(first, _compacted(codes, tallies > 0, kernels(n, K).take), tallies[tallies > 0])


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


def _compacted(codes: NDArray[Any], occurs: NDArray[np.bool_], take: Take) -> NDArray[Any]:
    """Return the codes, renumbered from 0 in place."""
    table = (np.cumsum(occurs) - 1).astype(codes.dtype)

    def block(rows: slice) -> None:
        take(table, codes[rows], codes[rows])

    for _ in map_blocks(block, len(codes), 1):
        pass
    return codes
