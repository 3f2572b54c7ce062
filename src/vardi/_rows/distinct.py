"""Equal rows of one sample collapsed into counts: what makes a solve over 10^8 rows a solve over a handful."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._sums import Floats, Integers
from vardi._threads import map_blocks

PROBE = 1024  # rows looked at before all are
WORTHWHILE = 4  # rows for each distinct one from which collapsing pays

Columns = Sequence[NDArray[Any]]


@dataclass(frozen=True)
class Distinct:
    """The first row of each kind, and for every row of the pool the number of its kind."""

    first: Integers
    inverse: Integers

    def counts(self, counts: Floats | None) -> Floats:
        """Return how many rows of the pool each distinct row stands for."""
        return np.bincount(self.inverse, counts, minlength=len(self.first)).astype(np.float64)


def distinct(columns: Columns) -> Distinct | None:
    """Find the distinct rows of some columns (label and biases); None where there are too many for it to pay.

    Rows are told apart by a 64-bit hash, and then each is compared with the one that stands for it: the answer is
    exact.
    """
    n = len(columns[0])
    probe = _hashes([column[:: max(n // PROBE, 1)] for column in columns])
    if len(np.unique(probe)) * WORTHWHILE > len(probe):
        return None
    found = _group(_hashes(columns))
    if len(found.first) * WORTHWHILE > n:
        return None
    kinds = [column[found.first] for column in columns]

    def same(rows: slice) -> bool:
        inverse = found.inverse[rows]
        return all(np.array_equal(kind[inverse], column[rows]) for kind, column in zip(kinds, columns, strict=True))

    return found if all(map_blocks(same, n, len(columns))) else None


def distinct_sparse(matrix: Any, source: Integers) -> Distinct | None:
    """Find the distinct rows of a CSR array in canonical format, each with its label, as ``distinct`` does."""
    lengths = np.diff(matrix.indptr)
    multipliers = _multipliers(matrix.shape[1] + 2)
    hashes = source.astype(np.uint64) * multipliers[-1] + lengths.astype(np.uint64) * multipliers[-2]
    filled = np.flatnonzero(lengths)
    hashes[filled] += np.add.reduceat(_bits(matrix.data) * multipliers[matrix.indices], matrix.indptr[filled])
    probe = hashes[:: max(len(hashes) // PROBE, 1)]
    if len(np.unique(probe)) * WORTHWHILE > len(probe):
        return None
    found = _group(hashes)
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


def _hashes(columns: Columns) -> NDArray[np.uint64]:
    """Return sum_k m_k bits(column_k) modulo 2^64, with odd multipliers m_k."""
    multipliers = _multipliers(len(columns))
    hashes = np.empty(len(columns[0]), np.uint64)

    def block(rows: slice) -> None:
        terms = (_bits(column[rows]) * m for column, m in zip(columns, multipliers, strict=True))
        hashes[rows] = sum(terms, start=np.uint64(0))

    for _ in map_blocks(block, len(hashes), len(columns)):
        pass
    return hashes


def _bits(column: NDArray[Any]) -> NDArray[np.uint64]:
    if column.dtype.kind != "f":
        return column.astype(np.uint64)
    bits = np.ascontiguousarray(column, np.float64).view(np.uint64)
    return bits ^ (bits >> np.uint64(32))  # the low bits of round numbers are zero: a product would stay in the top


def _group(hashes: NDArray[np.uint64]) -> Distinct:
    """Return equal hashes by number. A few distinct ones mostly differ in their leading bits, and need no sort."""
    for bits in (12, 20):
        slots = (hashes >> np.uint64(64 - bits)).astype(np.int32)
        first = np.zeros(2**bits, np.int64)
        first[slots[::-1]] = np.arange(len(slots) - 1, -1, -1)  # of equal slots the last write stays: the first row
        if np.array_equal(hashes[first][slots], hashes):
            used = np.flatnonzero(np.bincount(slots, minlength=2**bits))
            number = np.zeros(2**bits, np.int64)
            number[used] = np.arange(len(used))
            return Distinct(first[used], number[slots])
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    return Distinct(first, inverse)
