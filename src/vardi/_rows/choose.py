"""Check the biases of the pool for invalid values and impossible rows, and choose how to hold them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._machine import map_blocks
from vardi._rows.base import BiasColumns, Biases, Rows
from vardi._rows.dense import Dense
from vardi._rows.distinct import distinct, distinct_sparse
from vardi._rows.grouping import membership
from vardi._rows.sparse import MIN_SAMPLES, Sparse, Thinned
from vardi._rows.stored import Blocks, Kept, Reader, in_threads, places_kept
from vardi._rows.windows import Intervals, Windows
from vardi._types import Floats, Integers, Numbers
from vardi.errors import MismatchError, VardiError
from vardi.errors._refusals import impossible_rows, invalid_bias
from vardi.errors._texts import LISTED

MAX_UNCOLLAPSED_NUMBERS = 50_000  # numbers up to which collapsing rows gains nothing
MIN_SPARSE_SAMPLES = 64  # samples above which mostly empty columns are stored sparse
MODERATE = (1e-100, 1e100)  # omega of rows under their own bias, and the largest omega, used without scaling
LOG_MODERATE = (np.log(MODERATE[0]), np.log(MODERATE[1]))

#: The smallest and the largest value of some rows, and the smallest that a row has under its own bias.
Range: TypeAlias = tuple[float, float, float]


class FoundValues(TypedDict):
    """What a holder of rows needs to know about its values: see :class:`~vardi._rows.base.Rows`."""

    log: bool
    moderate: bool
    positive: bool


def as_rows(
    biases: Any,
    source: Integers,
    counts: Floats,
    names: Sequence[Hashable],
    *,
    log: bool = False,
    positions: Integers | None = None,
    also: Sequence[NDArray[Any]] = (),
    place: Callable[[int, int], str] | None = None,
) -> Rows:
    """Hold the biases of the pool in the way that is cheapest to sum over.

    Parameters
    ----------
    biases : list of K arrays of length n, or ndarray, Reader, Windows or SciPy sparse array of shape (n, K)
        omega_k(z_i), or their logs. What a sparse array does not store is omega = 0. What is read in blocks stays where
        it is.
    source : ndarray of int of shape (n,)
        Sample of each row.
    counts : ndarray of shape (n,), optional
        Frequency of each row, positive.
    names : sequence
        Names of the samples, for messages.
    log : bool
        Whether logs are given.
    positions : ndarray of int, optional
        The places of the rows in the pool, for messages, if they are not all of it.
    also : sequence of arrays of length n
        Further columns that must be equal for rows to be collapsed into one.
    place : callable, optional
        Describes the row at a position of the pool, and what a bias reads there, for messages.
    """
    checks = Checks(names, log, positions, place=place)
    if sparse.issparse(biases):
        return _sparse_rows(biases, source, counts, checks, collapse=not also)
    if isinstance(biases, Windows):
        return window_rows(biases, source, counts, checks)
    if isinstance(biases, Reader):
        return read_rows(biases, source, counts, checks)
    is_in_columns = isinstance(biases, list)
    held: Biases = BiasColumns(biases) if is_in_columns else biases
    n, K = held.shape
    compared = BiasColumns([*held.T, *_as_biases(also, checks.zero)]) if also else held
    if n * K > MAX_UNCOLLAPSED_NUMBERS and (kinds := distinct(source, compared, checks.zero)) is not None:
        labels, matrix = source[kinds.first], np.asarray(held[kinds.first], np.float64)
        try:
            found = checks.array(matrix, labels)  # every row is equal to one of these
        except VardiError:
            found = checks.array(held, source)  # its message has the place in the pool
        return _dense(K)(matrix, labels, kinds.counts(counts), inverse=kinds.inverse, **found)
    found = checks.array(held, source)
    if not is_in_columns:
        return _dense(K)(biases, source, counts, **found)
    if K >= MIN_SPARSE_SAMPLES and not log and sum(np.count_nonzero(column) for column in biases) < 0.1 * n * K:
        stored = [sparse.csc_array(np.asarray(column, np.float64)[:, None]) for column in biases]
        return Sparse(sparse.hstack(stored, format="csr"), source, counts, **found)
    matrix = np.column_stack([np.asarray(column, np.float64) for column in biases])
    return _dense(K)(matrix, source, counts, **found)


def _dense(K: int) -> type[Dense]:
    """Return the class that holds a dense matrix of K biases."""
    return Thinned if K >= MIN_SAMPLES else Dense


def _as_biases(columns: Sequence[NDArray[Any]], zero: float) -> list[NDArray[Any]]:
    """Return columns in which an omega of zero is written as in the biases."""
    return list(columns) if zero == 0.0 else [np.where(column == 0.0, zero, column) for column in columns]


def _sparse_rows(matrix: sparse.sparray, source: Integers, counts: Floats, checks: Checks, *, collapse: bool) -> Rows:
    matrix = sparse.csr_array(matrix, dtype=np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # do not sort the user's arrays
        matrix.sum_duplicates()
    found = checks.sparse(matrix, source)
    if collapse and matrix.nnz > MAX_UNCOLLAPSED_NUMBERS and (kinds := distinct_sparse(matrix, source)) is not None:
        return Sparse(matrix[kinds.first], source[kinds.first], kinds.counts(counts), inverse=kinds.inverse, **found)
    return Sparse(matrix, source, counts, **found)


def window_rows(windows: Windows, source: Integers, counts: Floats, checks: Checks) -> Intervals:
    """Hold windows, or refuse a row that lies outside the window of its sample."""
    if checks.log:
        raise MismatchError("Windows are 0 or 1, but log=True says that logs are given. Leave log out.")
    checks.own(windows[np.arange(len(source)), source].astype(np.float64), source)
    return Intervals(windows, source, counts, moderate=True)


def read_rows(reader: Reader, source: Integers, counts: Floats, checks: Checks) -> Blocks:
    """Check all rows in one pass, as an array in memory is checked, and keep some to start from."""
    n, K = reader.shape
    places = places_kept(source, K)
    kept = Kept(places, np.empty((len(places), K), reader.dtype))
    own = np.empty(n)

    def block(rows: slice, values: Numbers) -> tuple[Range, Floats]:
        first, last = np.searchsorted(places, [rows.start, rows.stop])
        kept.matrix[first:last] = values[places[first:last] - rows.start]
        own[rows] = own_of(values, source[rows])
        allowed = (values > checks.zero).astype(np.float64)
        return extremes(values, source[rows]), np.asarray(membership(source[rows], K, counts[rows]) @ allowed).T

    ranges, reach = list[Range](), np.zeros((K, K))
    for found, part in in_threads(block, reader.blocks(), K):
        ranges.append(found)
        reach += part
    low, high, least = together(ranges)
    if checks.refuses(low, high):
        checks.columns(reader[:, k] for k in range(K))
    checks.own(own, source)
    return Blocks(reader, source, counts, **checks.found(low, least, high), kept=kept, reach=reach)


@dataclass(frozen=True)
class Checks:
    """What messages need to know about the rows.

    Attributes
    ----------
    names : sequence
        Names of the biases.
    log : bool
        Whether values are logs.
    positions : ndarray of int or None
        The places of the rows in the whole, if they are not all of it.
    whole : str
        What the rows are a part of.
    place : callable, optional
        Describes the row at a position of the whole, and what a bias reads there.
    """

    names: Sequence[Hashable]
    log: bool
    positions: Integers | None = None
    whole: str = "the pool"
    place: Callable[[int, int], str] | None = None

    @property
    def zero(self) -> float:
        """The value that stands for omega = 0."""
        return -np.inf if self.log else 0.0

    def array(self, matrix: Biases, source: Integers) -> FoundValues:
        """Check n x K values, or refuse."""
        n, K = matrix.shape
        low, high, own = together(map_blocks(lambda rows: extremes(matrix[rows], source[rows]), n, K))
        if self.refuses(low, high):
            self.columns(matrix.T)
        if not own > self.zero:
            self.own(np.concatenate(list(map_blocks(lambda rows: own_of(matrix[rows], source[rows]), n, K))), source)
        return self.found(low, own, high)

    def sparse(self, matrix: Any, source: Integers) -> FoundValues:
        """Check a CSR array, or refuse."""
        low, high = (matrix.data.min(), matrix.data.max()) if matrix.nnz else (0.0, 0.0)
        if self.refuses(low, high):
            columns = matrix.tocsc()
            for k in range(len(self.names)):
                part = slice(columns.indptr[k], columns.indptr[k + 1])
                self.values(columns.data[part], k, columns.indices[part])
        own = np.full(len(source), self.zero)
        entries = np.repeat(np.arange(len(source)), np.diff(matrix.indptr))
        mine = matrix.indices == source[entries]
        own[entries[mine]] = matrix.data[mine]
        self.own(own, source)
        return {**self.found(self.zero, own.min(), high), "moderate": not self.log and self._moderate(own.min(), high)}

    def columns(self, columns: Iterable[NDArray[Any]]) -> None:
        """Refuse negative, NaN and infinite biases."""
        for k, column in enumerate(columns):
            self.values(np.asarray(column), k, None)

    def own(self, own: NDArray[Any], source: Integers) -> None:
        """Refuse rows that their own sample's bias forbids."""
        rows = np.flatnonzero(~(own > self.zero))
        if not len(rows):
            return
        k = int(source[rows[0]])
        rows = self._places(rows[source[rows] == k])
        raise impossible_rows(self.names[k], len(rows), f" (the first is {self._said(rows[0], k)})", rows[:LISTED])

    def refuses(self, low: float, high: float) -> bool:
        """Return whether the smallest and the largest value cannot both belong to biases."""
        return not (high < np.inf and (self.log or low >= 0))  # true for NaN, too

    def found(self, low: float, own: float, high: float) -> FoundValues:
        """Return what a holder of rows learns from extremes."""
        return {"log": self.log, "moderate": self._moderate(own, high), "positive": bool(low > self.zero)}

    def _moderate(self, own: float, high: float) -> bool:
        least, most = LOG_MODERATE if self.log else MODERATE
        return bool(own >= least and high <= most)

    def _places(self, rows: Integers) -> Integers:
        return rows if self.positions is None else self.positions[rows]

    def _said(self, row: int, k: int) -> str:
        return f"row {row} of {self.whole}" if self.place is None else self.place(int(row), k)

    def values(self, values: NDArray[Any], k: int, rows: Integers | None) -> None:
        """Refuse invalid values of bias k; ``rows`` are their places, if not all are there."""
        bad = np.flatnonzero(np.isnan(values) | (values == np.inf) | (False if self.log else values < 0))
        if not len(bad):
            return
        places = self._places(bad if rows is None else rows[bad])
        such = "such row" if len(places) == 1 else "such rows"
        where = f"{self._said(places[0], k)} ({len(places)} {such})"
        raise invalid_bias(self.names[k], values[bad[0]], where, log=self.log, rows=places[:LISTED])


def own_of(part: NDArray[Any], source: Integers) -> NDArray[Any]:
    """Return the value of each row under the bias of its own sample."""
    if source[0] == source[-1] and (source == source[0]).all():  # the usual case: samples one after the other
        return part[:, source[0]]
    return part[np.arange(len(part)), source]


def extremes(part: NDArray[Any], source: Integers) -> Range:
    """Return the extremes of some rows; NaN if there is one."""
    return float(part.min()), float(part.max()), float(own_of(part, source).min())


def together(parts: Iterable[Range]) -> Range:
    """Return the extremes of all parts; NaN if one of them has it."""
    lows, highs, owns = np.array(list(parts)).T
    return float(lows.min()), float(highs.max()), float(owns.min())
