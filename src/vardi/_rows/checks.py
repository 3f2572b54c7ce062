"""Checks for invalid values of biases, and for rows that their own sample cannot have drawn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from vardi._machine import map_blocks
from vardi._types import Integers
from vardi.errors._refusals import impossible_rows, invalid_bias
from vardi.errors._texts import LISTED

MODERATE = (1e-100, 1e100)  # omega of rows under their own bias, and the largest omega, used without scaling
LOG_MODERATE = (np.log(MODERATE[0]), np.log(MODERATE[1]))


class Biases(Protocol):
    """K biases of n rows: an array of shape (n, K), or columns that read like one."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def T(self) -> Iterable[NDArray[Any]]: ...  # noqa: N802 the name that arrays have
    def __getitem__(self, rows: Any, /) -> NDArray[Any]: ...


class BiasColumns:
    """Columns of n rows, some of which are read as if they were one matrix: it is never made as a whole."""

    def __init__(self, columns: Sequence[NDArray[Any]]) -> None:
        self.T, self.dtype = columns, np.result_type(*columns)
        self.shape = (len(columns[0]), len(columns))

    def __getitem__(self, rows: slice | Integers) -> NDArray[Any]:
        return np.column_stack([column[rows] for column in self.T])


class FoundValues(TypedDict):
    """What a holder of rows needs to know about its values: see :class:`~vardi._rows.base.Rows`."""

    log: bool
    moderate: bool
    positive: bool


class Range(NamedTuple):
    """The smallest and the largest value of some rows, and the smallest that a row has under its own bias."""

    low: float
    high: float
    own: float


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
        """Refuse invalid values of bias k; ``rows`` are their places, if not in order."""
        bad = np.flatnonzero(np.isnan(values) | (values == np.inf) | (False if self.log else values < 0))
        if not len(bad):
            return
        order = np.argsort(bad if rows is None else rows[bad])
        places = self._places((bad if rows is None else rows[bad])[order])
        such = "such row" if len(places) == 1 else "such rows"
        where = f"{self._said(places[0], k)} ({len(places)} {such})"
        raise invalid_bias(self.names[k], values[bad[order[0]]], where, log=self.log, rows=places[:LISTED])


def own_of(part: NDArray[Any], source: Integers) -> NDArray[Any]:
    """Return the value of each row under the bias of its own sample."""
    if source[0] == source[-1] and (source == source[0]).all():  # the usual case: samples one after the other
        return part[:, source[0]]
    return part[np.arange(len(part)), source]


def extremes(part: NDArray[Any], source: Integers) -> Range:
    """Return the extremes of some rows; NaN if there is one."""
    return Range(float(part.min()), float(part.max()), float(own_of(part, source).min()))


def together(parts: Iterable[Range]) -> Range:
    """Return the extremes of all parts; NaN if one of them has it."""
    lows, highs, owns = np.array(list(parts)).T
    return Range(float(lows.min()), float(highs.max()), float(owns.min()))
