"""Shares of rows that stay in an engine: sums by cells, which are made smaller where an answer lies.

A query sums the rows in thousands of cells of one width, and finds the smallest and the largest value of each. A cell
that holds an answer is divided again as long as it has several values, and too many rows to bring these into memory. So
a quantile takes a few queries, however many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from vardi._rows.contract import Block, Extremes, Kept
from vardi._rows.queries import Queries
from vardi._rows.shares import Shares, SharesByValue
from vardi._types import Floats
from vardi.errors import EngineError, TooLargeError

MOST_STEPS = 100_000  # distinct values brought into memory at most
CELLS = 4096  # of one width, into which a cell is divided
LARGEST = float(np.finfo(np.float64).max)


class Counted(NamedTuple):
    """Columns of a block: a value, the mass of its rows, and 1 where they count, else 0."""

    value: Floats
    mass: Floats
    inside: Floats


@dataclass(frozen=True, eq=False)
class Bracket:
    """Rows with values from low to high.

    Attributes
    ----------
    low, high : float
        The smallest and the largest of the values.
    rows, mass : float
        How many rows there are, counted, and their mass.
    held : tuple of two ndarrays, or None
        The distinct values in order, and their masses, if they are in memory.
    """

    low: float
    high: float
    rows: float
    mass: float
    held: tuple[Floats, Floats] | None = None

    @classmethod
    def of(cls, rows: float, mass: float, low: float, high: float) -> Bracket:
        """Return a cell, with its value if there is only one."""
        return cls(low, high, rows, mass, (np.array([low]), np.array([mass])) if low == high else None)

    def is_narrow(self, finest: float = 1e-306) -> bool:
        """Return whether it cannot be divided any further."""
        return 0.5 * self.high - 0.5 * self.low < finest * CELLS

    def place(self, x: Floats) -> Floats:
        """Return which part of the cell values are in: it never falls as they rise, also as computed."""
        width = 0.5 * self.high - 0.5 * self.low
        return np.minimum(np.floor((x * 0.5 - 0.5 * self.low) * (CELLS / width)), CELLS - 1.0)

    def holds(self, x: Floats) -> Floats:
        """Return 1 for values in the cell, and 0 for others."""
        found: Floats = np.multiply((x >= self.low) * 1.0, x <= self.high)
        return found


class SharesInEngine(Shares):
    """The shares of one measure up to a value.

    Parameters
    ----------
    rows : Queries
        The frames.
    counted : callable
        Returns the columns of a block.
    """

    def __init__(self, rows: Queries, counted: Callable[[Block], Counted]) -> None:
        self._queries, self._counted = rows, counted

    @classmethod
    def of_pool(cls, rows: Queries, function: Kept) -> SharesInEngine:
        """Return the shares of the rows as they came."""

        def counted(block: Block) -> Counted:
            once = block.of_sample(np.ones((block.K, 1)))
            return Counted(block.columns(function), once, once)

        return cls(rows, counted)

    def __str__(self) -> str:
        low, high = self.ends
        return f"steps from {low:.4g} to {high:.4g}"

    @cached_property
    def _whole(self) -> Bracket:
        """All rows."""

        def question(block: Block) -> tuple[Floats, Floats, Extremes]:
            x, mass, inside = self._counted(block)
            ends = np.hstack([np.where(inside, x, LARGEST), np.where(inside, x, -LARGEST)])
            return block.sum(mass), block.sum(inside), block.extremes(ends)

        mass, rows, ends = self._queries.total(question)
        return Bracket.of(float(rows[0]), float(mass[0]), float(ends.low[0]), float(ends.high[1]))

    @cached_property
    def _cells(self) -> list[Bracket]:
        """The cells that have rows, in order."""
        return [self._whole]

    @property
    def ends(self) -> tuple[float, float]:
        return self._whole.low, self._whole.high

    @property
    def _are_held(self) -> bool:
        """Whether all values are in memory."""
        return all(cell.held is not None for cell in self._cells)

    @property
    def _known(self) -> SharesByValue:
        """The shares as far as they are known: a cell whose values are not in memory is one step, at its end."""
        steps = [cell.held or (np.array([cell.high]), np.array([cell.mass])) for cell in self._cells]
        x, masses = (np.concatenate(one) for one in zip(*steps, strict=True))
        return SharesByValue(x, self._share(np.cumsum(masses))[:, None])

    def every(self) -> tuple[Floats, Floats]:
        if not self._are_held:
            held = self._hold([self._whole], MOST_STEPS)
            if not held:
                raise TooLargeError(
                    f"There are more than {MOST_STEPS:,} distinct values, so they stay in their engine. Ask for "
                    "quantiles, for F at some points, or for the band, which do not need them in memory.",
                    bytes=16 * MOST_STEPS,
                )
            self._cells = held
        return self._known.every()

    def reaching(self, weights: Floats, targets: Floats, *, beyond: bool = False) -> tuple[Floats, Floats]:
        while True:
            x, shares = self._known.reaching(weights, targets, beyond=beyond)
            asked = [cell for cell in self._cells if cell.held is None and cell.high in x]
            if not asked:
                return x, shares
            self._look_into(asked)

    def up_to(self, points: Floats) -> Floats:
        if self._are_held:
            return super().up_to(points)

        def question(block: Block) -> tuple[Floats, Floats]:
            x, mass, _ = self._counted(block)
            return block.interval(x, points), mass

        keys, sums = self._queries.grouped(question)
        masses = np.zeros(len(points) + 1)
        masses[np.array(keys, np.int64)] = sums[:, 0]
        return self._share(np.cumsum(masses)[:-1])[:, None]

    def next_to(self, x: float, step: int) -> float:
        if self._are_held:
            return super().next_to(x, step)

        def question(block: Block) -> Extremes:
            value, _, inside = self._counted(block)
            is_next = (value < x if step < 0 else value > x) * inside
            return block.extremes(np.where(is_next, value, LARGEST * step))

        ends = self._queries.total(question)
        return float(ends.high[0] if step < 0 else ends.low[0])

    def spaced(self, low: float, high: float, most: int) -> Floats:
        if self._are_held:
            return super().spaced(low, high, most)
        return self._queries.spaced(lambda block: self._value(block, np.nextafter(high, np.inf)), low, high, most)

    def grid(self, most: int, tail: float, rounding: float = 1e-12) -> Floats:
        try:
            return super().grid(most, tail)
        except EngineError:  # frames that no query can combine: then evenly by probability
            return np.unique(self.reaching(np.ones(1), np.linspace(tail, 1.0 - tail, most) - rounding)[0])

    def has_more_than(self, most: int) -> bool:
        return not self._are_held or super().has_more_than(most)

    def _share(self, masses: Floats) -> Floats:
        return np.minimum(masses / self._whole.mass, 1.0)

    def _value(self, block: Block, elsewhere: float) -> Floats:
        """Return the value of rows that count, and a number on others."""
        x, _, inside = self._counted(block)
        return np.where(inside, x, elsewhere)

    def _look_into(self, cells: Sequence[Bracket], at_once: int = 8) -> None:
        """Bring the values of some cells into memory, if they are few, and divide others."""
        few, crowded = list[Bracket](), [cell for cell in cells if cell.rows > MOST_STEPS and not cell.is_narrow()]
        for cell in [cell for cell in cells if cell not in crowded]:
            if not few or sum(one.rows for one in few) + cell.rows <= MOST_STEPS:
                few.append(cell)
        if few:
            self._replace(few, self._hold(few, None))
        if crowded:
            self._replace(crowded[:at_once], self._divide(crowded[:at_once]))

    def _replace(self, old: Sequence[Bracket], new: Sequence[Bracket]) -> None:
        kept = [cell for cell in self._cells if cell not in old]
        self._cells = sorted([*kept, *new], key=lambda cell: cell.low)

    def _hold(self, cells: Sequence[Bracket], most: int | None) -> list[Bracket]:
        """Return cells with their values; none if there are more than ``most``."""
        elsewhere = float(np.nextafter(cells[0].low, -np.inf))

        def question(block: Block) -> tuple[Floats, Floats]:
            x = self._value(block, elsewhere)
            chosen = sum((cell.holds(x) for cell in cells[1:]), start=cells[0].holds(x))
            return np.where(chosen, x, elsewhere), self._counted(block).mass

        keys, sums = self._queries.grouped(question, most=None if most is None else most + 1)
        x = np.array(keys, np.float64)
        order = np.argsort(x)[np.count_nonzero(x == elsewhere) :]
        if most is not None and len(order) > most:
            return []
        x, masses = x[order], sums[order, 0]
        slices = [slice(*np.searchsorted(x, [cell.low, np.nextafter(cell.high, np.inf)])) for cell in cells]
        return [replace(cell, held=(x[own], masses[own])) for cell, own in zip(cells, slices, strict=True)]

    def _divide(self, cells: Sequence[Bracket]) -> list[Bracket]:
        """Return smaller cells that have rows in place of some."""

        def question(block: Block) -> tuple[Floats, Floats, Floats]:
            x, mass, inside = self._counted(block)
            key = x * 0.0 - 1.0
            for j, cell in enumerate(cells):
                key = np.where(cell.holds(x) * inside, cell.place(x) + float(j * CELLS), key)
            return key, np.hstack([inside, mass]), x

        keys, sums = self._queries.grouped(question)
        return [Bracket.of(*row) for key, row in zip(keys, sums.tolist(), strict=True) if key >= 0]
