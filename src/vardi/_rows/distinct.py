"""Equal rows of one sample collapsed into counts: what makes a solve over 10^8 rows a solve over a handful."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._machine import blocks, map_blocks
from vardi._rows.base import Biases
from vardi._types import Floats, Integers
from vardi.biases._values import are_once

PROBE = 2048  # rows looked at before all are
LONGER = 16  # times as many are looked at if biases may be indicators
WORTHWHILE = 4  # rows for each distinct one above which collapsing pays
RARE = 16  # one row in this many may be of a kind that the probe missed
MOST_INDICATORS = 8  # whose pattern is one byte


@dataclass(frozen=True)
class Distinct:
    """A row of each kind, and for every row of the pool the number of its kind, in as few bytes as suffice."""

    first: Integers
    inverse: NDArray[Any]
    tallies: Integers | None = None

    def counts(self, counts: Floats) -> Floats:
        """Return how many rows of the pool each distinct row stands for."""
        if self.tallies is not None and are_once(counts):
            return self.tallies.astype(np.float64)
        return np.bincount(self.inverse, counts, minlength=len(self.first)).astype(np.float64)


def distinct(source: Integers, biases: Biases, zero: float = 0.0) -> Distinct | None:
    """Find the distinct rows of labels and biases; None if it does not pay.

    A probe shows which kinds occur. A few indicators are distinguished by their pattern. Otherwise each row goes to
    the kind with the nearest random projection. It is compared with its kind, so the answer is exact; the few rows that
    the probe missed are grouped by a hash.
    """
    n = len(source)
    probe, shown = _probe(source, biases, PROBE)
    if len(shown) * WORTHWHILE > len(probe) and n < LONGER * PROBE * WORTHWHILE:
        return None
    indicators = Indicators(biases, probe, zero)
    if len(shown) * WORTHWHILE > len(probe):  # with many samples of a few patterns each, a small probe repeats few
        if not indicators.plausible:
            return None
        probe, shown = _probe(source, biases, LONGER * PROBE)
        if len(shown) * WORTHWHILE > len(probe):
            return None
    if (found := indicator_kinds(source, indicators)) is not None:
        return found
    first = probe[shown]
    keys, order = np.unique(_project(source[first], biases[first]), return_index=True)  # 0.0 and -0.0: one kind
    first, between = first[order], (keys[1:] + keys[:-1]) / 2.0
    kinds, labels = biases[first], source[first]
    inverse = np.empty(n, np.int64)

    def block(rows: slice) -> Integers:
        part = biases[rows]
        inverse[rows] = kind = np.searchsorted(between, _project(source[rows], part))
        return rows.start + _unlike(source[rows], part, labels[kind], kinds.take(kind, axis=0))

    strangers = np.concatenate(list(map_blocks(block, n, biases.shape[1])))
    if len(strangers) * RARE > n:
        return None
    if len(strangers):
        labels, others = source[strangers], biases[strangers]
        _, rare, number = np.unique(_hashes(labels, others), return_index=True, return_inverse=True)
        if len(_unlike(labels, others, labels[rare][number], others[rare][number])):
            return None
        inverse[strangers] = len(first) + number
        first = np.concatenate([first, strangers[rare]])
        used = np.bincount(inverse, minlength=len(first)) > 0  # if projections tie, rows may miss their kind
        first, inverse = first[used], (np.cumsum(used) - 1)[inverse]
    return Distinct(first, inverse) if len(first) * WORTHWHILE <= n else None


def _probe(source: Integers, biases: Biases, rows: int) -> tuple[Integers, Integers]:
    """Return evenly spaced rows, about as many as asked for, and where among them each kind is first."""
    probe = np.arange(0, len(source), max(len(source) // rows, 1))
    return probe, np.unique(_hashes(source[probe], biases[probe]), return_index=True)[1]


def _project(source: Integers, biases: NDArray[Any]) -> Floats:
    """Return the rows' product with random numbers, the same for equal rows up to rounding."""
    weights = np.random.default_rng(85).uniform(0.5, 1.0, biases.shape[1] + 1)
    return np.asarray(biases @ weights[1:] + source * weights[0])


def _unlike(source: Integers, biases: NDArray[Any], labels: Integers, kinds: NDArray[Any]) -> Integers:
    """Return where rows differ from their kinds; usually nowhere, so that is checked first."""
    is_other, differs = source != labels, biases != kinds
    if not (is_other.any() or differs.any()):
        return np.empty(0, np.int64)
    return np.flatnonzero(is_other | differs.any(axis=1))


def distinct_sparse(matrix: sparse.csr_array, source: Integers) -> Distinct | None:
    """Find the distinct rows of a CSR array in canonical format, each with its label, as ``distinct`` does."""
    lengths = np.diff(matrix.indptr)
    multipliers = _multipliers(matrix.shape[1] + 2)
    hashes = source.astype(np.uint64) * multipliers[-1] + lengths.astype(np.uint64) * multipliers[-2]
    filled = np.flatnonzero(lengths)
    hashes[filled] += np.add.reduceat(_bits(matrix.data) * multipliers[matrix.indices], matrix.indptr[filled])
    probe = hashes[:: max(len(hashes) // PROBE, 1)]
    if len(np.unique(probe)) * WORTHWHILE > len(probe):
        return None
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    found = Distinct(first, inverse)
    kind = found.first[found.inverse]  # the row that stands for each row
    if len(found.first) * WORTHWHILE > len(hashes) or not np.array_equal(lengths[kind], lengths):
        return None
    entries = np.arange(matrix.nnz) + np.repeat(matrix.indptr[kind] - matrix.indptr[:-1], lengths)
    same = (
        np.array_equal(source[kind], source)
        and np.array_equal(matrix.indices[entries], matrix.indices)
        and np.array_equal(matrix.data[entries], matrix.data)
    )
    return found if same else None


def _multipliers(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(85).integers(2**63, 2**64, count, dtype=np.uint64) | np.uint64(1)


def _hashes(source: Integers, biases: NDArray[Any]) -> NDArray[np.uint64]:
    """Return sum_k m_k bits(column_k) modulo 2^64 of labels and biases, with odd multipliers m_k."""
    columns = [source, *biases.T]
    terms = (_bits(column) * m for column, m in zip(columns, _multipliers(len(columns)), strict=True))
    return np.asarray(sum(terms, start=np.uint64(0)))


def _bits(column: NDArray[Any]) -> NDArray[np.uint64]:
    if column.dtype.kind != "f":
        return column.astype(np.uint64)
    bits = np.ascontiguousarray(column, np.float64).view(np.uint64)
    return bits ^ (bits >> np.uint64(32))  # low bits of round numbers are zero: products would stay in the top


class Indicators:
    """Biases that are each zero or a constant, as a boolean for each row and bias.

    Every row that is read is checked: each value is zero or its column's constant, so what follows from the booleans
    is exact.

    Parameters
    ----------
    biases : Biases
        The biases, zero where a row cannot be drawn.
    probe : ndarray of int
        Rows to take the constants from.
    zero : float
        How zero is written: 0, or -inf for logs.
    """

    def __init__(self, biases: Biases, probe: Integers, zero: float) -> None:
        self.biases, self.zero, self.K = biases, zero, biases.shape[1]
        self.width = max(self.K * biases.dtype.itemsize // 8, 1)  # of a row, in numbers of eight bytes
        shown = biases[probe].astype(np.float64)
        others = [column[column != zero] for column in shown.T]
        self.constants = np.array([own[0] if len(own) else 1.0 for own in others])  # 1 for a bias that is zero on all
        self.plausible = bool(np.isfinite(self.constants).all()) and self.positive(probe) is not None

    def positive(self, rows: slice | Integers) -> NDArray[np.bool_] | None:
        """Return 1{omega_ik > 0} of some rows; None if another value occurs."""
        part = self.biases[rows]
        if part.dtype == np.bool_:
            return part
        # A comparison with a row goes through the array in steps of K numbers; with a scalar, all at once.
        same = self.constants[0] if (self.constants == self.constants[0]).all() else self.constants
        positive = np.equal(part, same)
        return positive if np.array_equal(positive, part != self.zero) else None


def indicator_kinds(source: Integers, indicators: Indicators) -> Distinct | None:
    """Find the distinct rows of labels and indicators of at most eight biases; None for more, or for other values.

    Row i has the code s_i 2^K + sum_k 2^k 1{omega_ik > 0}.
    """
    K, n = indicators.K, len(source)
    if K > MOST_INDICATORS or not indicators.plausible:
        return None
    codes: NDArray[Any] = np.empty(n, np.uint8 if K << K <= 256 else np.uint16)

    def block(rows: slice) -> Integers | None:
        positive = indicators.positive(rows)
        if positive is None:
            return None
        own = codes[rows]
        own[:] = source[rows]
        for column in positive.view(np.uint8).T[::-1]:
            own += own  # faster than a shift
            own |= column
        return _tallied(own, K << K)

    counts = []
    for tally in map_blocks(block, n, indicators.width):
        if tally is None:
            return None
        counts.append(tally)
    tallies = np.sum(counts, axis=0)
    first = _first_rows(codes, np.array(counts), blocks(n, indicators.width))
    return Distinct(first, _compacted(codes, tallies > 0), tallies[tallies > 0])


def _first_rows(codes: NDArray[Any], counts: Integers, places: list[slice]) -> Integers:
    """Return the first row of each code that occurs, from its counts in each block."""
    occurring = np.flatnonzero(counts.any(axis=0))
    first = [places[int(np.argmax(counts[:, code] > 0))] for code in occurring]
    return np.array([at.start + int(np.argmax(codes[at] == code)) for code, at in zip(occurring, first, strict=True)])


def _tallied(codes: NDArray[Any], kinds: int) -> Integers:
    """Return how often each code occurs; two codes of one byte are counted at once, as a code of two."""
    if codes.itemsize > 1:
        return np.bincount(codes, minlength=kinds)
    even = len(codes) // 2 * 2
    pairs = np.bincount(codes[:even].view(np.uint16), minlength=2**16).reshape(2**8, 2**8)
    return pairs.sum(axis=0) + pairs.sum(axis=1) + np.bincount(codes[even:], minlength=2**8)


def _compacted(codes: NDArray[Any], occurs: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the codes, renumbered from 0 in place."""
    table = (np.cumsum(occurs) - 1).astype(codes.dtype)

    def block(rows: slice) -> None:
        table.take(codes[rows], out=codes[rows], mode="clip")  # all are within bounds: no check

    for _ in map_blocks(block, len(codes), 1):
        pass
    return codes
