"""Rows whose biases are read block by block in every pass: a matrix that need not fit in memory."""

from __future__ import annotations

import functools
import operator
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np

from vardi._machine.threads import blocks, cores, executor, single_threaded_blas
from vardi._rows.checks import Checks
from vardi._rows.dense import Dense
from vardi._rows.grouping import membership, sizes_of, stratified
from vardi._rows.readers import Block, Reader
from vardi._types import Floats, Integers, Numbers
from vardi.errors import MismatchError, NeedsRowsError

GATHERED = 2**26  # numbers kept from the first pass to start from: half a gigabyte
FRACTION = 1 / 16  # share of the rows kept, within that limit
LEAST = 100  # rows of each sample kept at least, within that limit
ANSWER = 2**27  # numbers that one answer may hold: a gigabyte

Result = TypeVar("Result")


@dataclass(frozen=True)
class Kept:
    """Rows that the first pass left in memory, evenly spaced within each sample.

    Attributes
    ----------
    rows : ndarray of int
        Their positions, increasing.
    matrix : ndarray
        Their biases.
    """

    rows: Integers
    matrix: Numbers

    def __len__(self) -> int:
        return len(self.rows)

    def within(self, rows: Integers) -> Kept:
        """Return the kept rows among the given positions (increasing), by their places there."""
        place = np.searchsorted(rows, self.rows)
        inside = place < len(rows)
        inside[inside] = rows[place[inside]] == self.rows[inside]
        return Kept(place[inside], self.matrix[inside])

    def differs(self, place: slice, block: Numbers) -> int | None:
        """Return the first kept row in a block whose values differ from those of the first pass."""
        i = int(np.searchsorted(self.rows, place.start))
        if i == len(self.rows) or self.rows[i] >= place.stop:
            return None
        row = int(self.rows[i])
        now = block[row - place.start].astype(self.matrix.dtype)
        return None if np.array_equal(now, self.matrix[i]) else row


NONE_KEPT = Kept(np.empty(0, np.int64), np.empty((0, 0)))


class Blocks(Dense):
    """A matrix that is reread in every pass. What stays in memory: a few blocks, some rows to start from, O(n).

    Parameters
    ----------
    matrix : Reader
        omega or its log, block by block.
    source, counts, log, moderate, positive, inverse
        As for :class:`~vardi._rows.base.Rows`.
    kept : Kept, optional
        Rows to start from; if they are needed and not given, one pass gathers them.
    reach : ndarray of shape (K, K), optional
        What ``reach`` returns, if it is known.
    """

    reading_dominates = True

    def __init__(
        self,
        matrix: Reader,
        source: Integers,
        counts: Floats | None = None,
        *,
        log: bool = False,
        moderate: bool = False,
        positive: bool = False,
        inverse: Integers | None = None,
        kept: Kept = NONE_KEPT,
        reach: Floats | None = None,
    ) -> None:
        super().__init__(matrix, source, counts, log=log, moderate=moderate, positive=positive, inverse=inverse)
        self._kept, self._reach = kept, reach

    def reach(self) -> Floats:
        """Return the K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        return super().reach() if self._reach is None else self._reach

    def _recount(self) -> None:
        super()._recount()
        self._reach = None

    def start(self) -> Floats:
        """Return a first u, from the rows that are in memory."""
        return self.subsample(FRACTION, least=LEAST).start()

    def subsample(self, fraction: float, *, least: int) -> Dense:
        """Return the rows that are in memory, whatever the fraction, with counts that make them stand for all."""
        kept = self._kept if len(self._kept) else gathered(self.matrix, self.source)
        counts = self.counts[kept.rows]
        rows = Dense(
            kept.matrix, self.source[kept.rows], counts, log=self.log, moderate=self.moderate, positive=self.positive
        )
        return rows.standing_for(self.sizes)

    def subset(self, rows: Integers) -> Self:
        """Return some of the rows (positions, increasing), still read in blocks."""
        counts = self.counts[rows]
        part = self.with_rows(self.matrix[rows], self.source[rows], counts)
        kept = self._kept.within(rows)
        if (np.bincount(part.source[kept.rows], minlength=len(self.sizes))[part.sizes > 0]).all():
            part._kept = kept
        return part

    def log_omega(self) -> Floats:
        """Return log omega as one matrix, if that is not large."""
        self._require_room(len(self.sizes))
        return self._log(np.asarray(self.matrix.whole(), np.float64))

    def each_block(self, answer: Callable[[slice, Numbers | None], Result], width: int = 0) -> Iterator[Result]:
        """Apply a function to the place of each block and its values, as they are read."""
        return in_threads(answer, self._same_blocks(), len(self.sizes) + width)

    def total_of_blocks(self, answer: Callable[[slice, Numbers | None], Result], width: int = 0) -> Result:
        """Return the sum of a function of the place of each block and its values."""
        return functools.reduce(operator.add, self.each_block(answer, width))

    def _same_blocks(self) -> Iterator[Block]:
        for place, block in self.matrix.blocks():
            row = self._kept.differs(place, block)
            if row is not None:
                raise MismatchError(
                    f"Row {row if self.matrix.rows is None else self.matrix.rows[row]} of omega differs from the first "
                    "pass over the rows. They are read several times, and must be the same each time: fix the "
                    "seed of whatever generates them and keep their order, or write them to a file first."
                )
            yield place, block

    def _require_room(self, columns: int) -> None:
        if len(self) * columns > ANSWER:
            raise NeedsRowsError(
                f"This needs {columns} numbers for each of {len(self)} rows, {8e-9 * columns * len(self):.1f} GB at "
                "once, but omega is read in blocks because it may not fit in memory. Ask for fewer states at once, or "
                "fit a part of the rows that does fit."
            )


def in_threads(function: Callable[[slice, Numbers], Result], read: Iterator[Block], width: int) -> Iterator[Result]:
    """Apply the function to parts of all blocks in threads, with results in order, while this thread reads one ahead.

    Only this thread reads blocks, since a user's function or file may be bound to the thread that created it.
    """
    workers = cores()
    with single_threaded_blas(), executor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        for place, block in read:
            parts = blocks(len(block), width)
            for part in parts:
                rows = slice(place.start + part.start, place.start + part.stop)
                waiting.append(pool.submit(function, rows, block[part]))
            while len(waiting) > max(len(parts), 2 * workers):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def gathered(reader: Reader, source: Integers) -> Kept:
    """Return rows to start from, gathered in one pass."""
    places = _places(source, reader.shape[1])
    return Kept(places, reader[places].whole())


def _places(source: Integers, K: int) -> Integers:
    """Return evenly spaced rows of every sample, as many as may be kept."""
    fraction = min(FRACTION, GATHERED / (len(source) * K))
    return np.sort(stratified(source, K, fraction, max(1, min(LEAST, GATHERED // K**2))))


@dataclass(frozen=True)
class _Seen:
    """What the first pass finds in part of the rows."""

    low: float
    high: float
    reach: Floats  # K x K, or one row of it if all are alike

    def __add__(self, other: _Seen) -> _Seen:
        low, high = float(np.minimum(self.low, other.low)), float(np.maximum(self.high, other.high))  # keep NaN
        return _Seen(low, high, self.reach + other.reach)


def read_rows(reader: Reader, source: Integers, counts: Floats, checks: Checks) -> Blocks:
    """Check all rows in one pass, as an array in memory is checked, and keep some to start from."""
    n, K = reader.shape
    places = _places(source, K)
    kept = Kept(places, np.empty((len(places), K), reader.dtype))
    own = np.empty(n)

    def block(rows: slice, values: Numbers) -> _Seen:
        low, high = np.searchsorted(places, [rows.start, rows.stop])
        kept.matrix[low:high] = values[places[low:high] - rows.start]
        own[rows] = values[np.arange(len(values)), source[rows]]
        least, most = float(values.min()), float(values.max())
        return _Seen(least, most, reach(rows, values, least))

    def reach(rows: slice, values: Numbers, least: float) -> Floats:
        part = counts[rows]
        if least > checks.zero:
            return sizes_of(source[rows], K, part)
        return np.asarray(membership(source[rows], K, part) @ (values > checks.zero).astype(np.float64)).T

    seen = functools.reduce(operator.add, in_threads(block, reader.blocks(), K))
    if checks.refuses(seen.low, seen.high):
        checks.columns(reader[:, k] for k in range(K))
    checks.own(own, source)
    found = checks.found(seen.low, float(own.min()), seen.high)
    return Blocks(reader, source, counts, **found, kept=kept, reach=np.broadcast_to(seen.reach, (K, K)))
