"""Rows in memory, or read in blocks, as a question sees them: their columns are arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._inputs.dependence import Dependence
from vardi._machine import Scratch, map_blocks, sum_blocks
from vardi._rows.contract import (
    ByKey,
    Columns,
    Extremes,
    Grouped,
    Kept,
    Normalised,
    Probabilities,
    Question,
    Result,
    addable,
    pieces_of,
)
from vardi._rows.grouping import extremes_by_code, sums_by_code, sums_by_sample
from vardi._rows.units import Units, entries_of
from vardi._types import Floats, Integers, Numbers
from vardi.biases._values import are_once

if TYPE_CHECKING:
    from vardi._rows.base import Rows
    from vardi._rows.point import RowsAt


class Arrays:
    """Rows of a pool, whose biases are held in one of several forms.

    Parameters
    ----------
    rows : Rows
        The biases of the rows as they are solved. If equal rows are collapsed, ``rows.inverse`` leads back to the pool.
    source, counts : ndarray of shape (n,)
        Sample and count of each row of the pool.
    dependence : Dependence
        How rows of the pool depend on one another.
    samples : ndarray of int of shape (n,), optional
        The sample of each row as the user sees it, within which errors are taken; ``source`` by default.
    """

    def __init__(
        self, rows: Rows, source: Integers, counts: Floats, dependence: Dependence, samples: Integers | None = None
    ) -> None:
        self.rows, self.source, self.counts, self.sizes = rows, source, counts, rows.sizes
        self.dependence, self.samples, self.inverse = dependence, source if samples is None else samples, rows.inverse

    def __len__(self) -> int:
        return len(self.source)

    def total(self, question: Callable[[ArrayBlock], Result], width: int = 0, *, biases: bool = True) -> Result:
        """Return the sum of the answers of all blocks; ``width`` is how many columns it computes, besides biases."""
        of_block = self._answering(lambda block: addable(question(block)))
        if self.inverse is None and biases:
            return self.rows.total_of_blocks(of_block, width)
        return sum_blocks(lambda place: of_block(place, None), len(self), len(self.sizes) + width)

    def each(
        self, question: Callable[[ArrayBlock], Result], width: int = 0, *, biases: bool = True
    ) -> Iterator[Result]:
        """Yield the answer of each block, in their order."""
        of_block = self._answering(question)
        if self.inverse is None and biases:
            return self.rows.each_block(of_block, width)
        return map_blocks(lambda place: of_block(place, None), len(self), len(self.sizes) + width)

    def _answering(self, question: Callable[[ArrayBlock], Result]) -> Callable[[slice, Numbers | None], Result]:
        """Return what answers a question from the place of a block, and from what was read of it."""
        scratch = Scratch()

        def answer(place: slice, values: Numbers | None) -> Result:
            block = ArrayBlock(self, place, values, scratch)
            found = question(block)
            block.points.clear()  # these lead back to the block, which would keep its memory
            return found

        return answer

    def column(self, question: Callable[[ArrayBlock], Floats], m: int, *, biases: bool = True) -> Floats:
        """Return columns of all rows, of shape (n, m)."""
        found = np.empty((m, len(self))).T  # columns in one piece

        def fill(block: ArrayBlock) -> None:
            found[block.place] = question(block)

        for _ in self.each(fill, m, biases=biases):
            pass
        return found

    def grouped(self, question: Question[ByKey], width: int = 0, most: int | None = None) -> Grouped:
        """Return counted sums, and extremes, of columns by a key, which the question returns first."""
        return self.all_grouped([question], width)[0]

    def all_grouped(self, questions: Sequence[Question[ByKey]], width: int = 0) -> list[Grouped]:
        """Return the answers to several questions by keys of their own, from one pass over the rows."""

        def of_block(block: ArrayBlock) -> list[tuple[Floats, ...]]:
            return [block.grouped(question) for question in questions]

        return [_together(parts) for parts in zip(*self.each(of_block, width), strict=True)]

    def by_code(self, codes: Integers, size: int, question: Callable[[ArrayBlock], Floats], m: int) -> Floats:
        """Return counted sums of columns over the rows with each code below a size, of shape (size, m)."""
        sums = np.zeros((size, m))

        def of_block(block: ArrayBlock) -> tuple[Integers, Floats]:
            found, place = np.unique(codes[block.place], return_inverse=True)
            return found, sums_by_code(place, block.counted(question(block)), len(found))

        for found, part in self.each(of_block, m):
            sums[found] += part
        return sums

    def over_units(self, question: Callable[[ArrayBlock], Floats], m: int) -> tuple[Units, Floats]:
        """Return the units of rows that depend on one another, and counted sums of columns over these, (E, m)."""
        entry, units = self.entries
        return units, self.by_code(entry, len(units.rows), question, m)

    def over_clusters(self, question: Callable[[ArrayBlock], Floats], m: int) -> Floats:
        """Return counted sums of columns over clusters, of shape (clusters, m)."""
        assert self.dependence.clusters is not None
        clusters, code = np.unique(self.dependence.clusters, return_inverse=True)
        return self.by_code(code, len(clusters), question, m)

    def kinds_of(self, question: Callable[[ArrayBlock], Floats], most: int, *, biases: bool = True) -> int:
        """Return how many different numbers a column has, counting no further than beyond ``most``."""
        if not biases:  # mostly the first rows tell
            few = len(np.unique(self._answering(question)(slice(0, min(most + 1, len(self))), None)))
            if few > most:
                return few
        return len(np.unique(self.column(question, 1, biases=biases)))

    @cached_property
    def entries(self) -> tuple[Integers, Units]:
        """The entry of each row among the units of rows that depend on one another, and these units."""
        return entries_of(self.samples, self.counts, self.dependence)

    @cached_property
    def _is_once(self) -> bool:
        return are_once(self.counts)


class ArrayBlock:
    """Some rows of a pool in memory."""

    def __init__(self, rows: Arrays, place: slice, values: Numbers | None, scratch: Scratch) -> None:
        self.rows, self.place, self.K = rows, place, len(rows.sizes)
        self.counts = rows.counts[place]
        self._kinds: slice | Integers = place if rows.inverse is None else rows.inverse[place]
        self._values, self._scratch, self._made = values, scratch, 0
        self.points: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def source(self) -> Integers | int:
        """The sample of each row; a number if they are all of one, which is the rule."""
        source = self.rows.source[self.place]
        return int(source[0]) if len(source) and source[0] == source[-1] and (source == source[0]).all() else source

    def columns(self, values: Kept) -> Floats:
        return _two_dimensional(np.asarray(values[self.place], np.float64))

    def solved(self, values: Kept) -> Floats:
        if isinstance(self._kinds, slice):
            return _two_dimensional(values[self._kinds])
        return _two_dimensional(values.take(self._kinds, axis=0))

    def omega(self, k: int) -> Floats:
        return np.exp(self.log_omega()[:, [k]])

    def log_omega(self) -> Floats:
        return self.rows.rows.log_omega_of(self._kinds, self._values)

    def normalised(self, u: Floats, added: Mapping[int, Floats]) -> Normalised:
        self._made += 1  # each has scratch memory of its own
        number, scratch = self._made, self._scratch

        def space(name: str, shape: tuple[int, ...]) -> Floats:
            return scratch(f"{name}{number}", shape)

        return self.rows.rows.normalised(u, self._kinds, self._values, added, space)

    def tilts(self, rows: RowsAt, log_omegas: Floats) -> Floats:
        logs = self.log_omega() - (log_omegas - rows.model.shift(rows.theta)) - rows.log_mass
        for k, family in rows.families.items():
            logs[:, [k]] += family.log
        return np.exp(logs, out=logs)

    def of_sample(self, numbers: Floats) -> Floats:
        return np.broadcast_to(numbers[self.source], (len(self), numbers.shape[1]))

    def of_own(self, p: Probabilities) -> Floats:
        return p.column(self.source)

    def let(self, columns: Columns) -> Columns:
        return columns

    def counted(self, columns: Floats) -> Floats:
        return columns if self.rows._is_once else columns * self.counts[:, None]

    def sum(self, columns: Any) -> Floats:
        if not isinstance(columns, np.ndarray):
            return columns.sum(self.counts)
        return np.ascontiguousarray(self.counts) @ columns  # by BLAS, also counts of one that take no memory

    def gram(self, columns: Any, others: Any, precision: type[np.floating] = np.float64) -> Floats:
        if not isinstance(columns, np.ndarray):
            return columns.gram(self.counts, precision) if columns is others else columns.against(self.counted(others))
        if not isinstance(others, np.ndarray):
            return self.gram(others, columns).T
        return np.asarray(self.counted(columns).T @ others)

    def grouped(self, question: Question[ByKey]) -> tuple[Floats, ...]:
        """Return keys, and for each the sums and extremes of columns."""
        key, columns, *bounded = question(self)
        keys, place = _coded(key[:, 0])
        sums = np.hstack([self.by_code(place, piece, len(keys)) for piece in pieces_of(columns)])
        ends = bounded[0] if bounded else key[:, :0]
        return keys, sums, *extremes_by_code(place, ends, ends, len(keys))

    def by_code(self, codes: Integers, columns: Any, size: int) -> Floats:
        """Return the sums over the rows with each code below a size, of shape (size, m)."""
        if isinstance(columns, np.ndarray):
            return sums_by_code(codes, self.counted(columns), size)
        return np.asarray(columns.by_code(codes, self.counts, size))

    def products(self, p: Any, weights: Floats) -> Floats:
        found: Floats = p.products(self.counted(weights))
        return found

    def by_sample(self, columns: Floats) -> Floats:
        return sums_by_sample(self.counted(columns), self.source, self.K)

    def extremes(self, columns: Floats, states: Sequence[int] = ()) -> Extremes:
        chosen = np.broadcast_to(np.isin(self.source, states), len(self)) if len(states) else slice(None)
        rows = columns[chosen]
        return Extremes(rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf))

    def interval(self, column: Floats, edges: Floats) -> Floats:
        return np.searchsorted(edges, column).astype(np.float64)

    def unknown(self, columns: Floats) -> Floats:
        return np.count_nonzero(~np.isfinite(columns), axis=0).astype(np.float64)


def _together(parts: Sequence[tuple[Floats, ...]]) -> Grouped:
    """Return sums and extremes by key over all blocks."""
    all_keys, sums, low, high = (np.concatenate(part) for part in zip(*parts, strict=True))
    keys, place = np.unique(all_keys, return_inverse=True)
    ends = extremes_by_code(place, low, high, len(keys))
    return Grouped(keys.tolist(), np.hstack([sums_by_code(place, sums, len(keys)), *ends]))


def _coded(key: Floats) -> tuple[Floats, Integers]:
    """Return keys in order, and the place of each row's key; whole numbers of a small range need no sort."""
    low, high = key.min(initial=np.inf), key.max(initial=-np.inf)
    if 0 <= high - low <= len(key):
        place = (key - low).astype(np.int64)
        if (place == key - low).all():
            there = np.bincount(place) > 0
            return low + np.flatnonzero(there), (np.cumsum(there) - 1)[place]
    return np.unique(key, return_inverse=True)


def _two_dimensional(values: Floats) -> Floats:
    return values[:, None] if values.ndim == 1 else values
