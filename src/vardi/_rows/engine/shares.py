"""Shares of rows that stay in an engine: sums by cells, which are made smaller where an answer lies.

A query sums the rows in thousands of cells of one width. A cell that holds an answer is divided again as long as it
has too many rows to bring their distinct values into memory. So a quantile takes a few queries, however many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from vardi._rows.columns import Block, Extremes, Kept
from vardi._rows.queries import Queries
from vardi._rows.shares import SharesByValue, SharesUpTo
from vardi._types import Floats, Integers
from vardi.errors import EngineError, TooLargeError

MOST_STEPS = 100_000  # distinct values brought into memory at most
CELLS = 4096  # of one width, into which a cell is divided
AT_ONCE = 8  # cells that one query divides
ROUNDING = 1e-12  # of a probability
FINEST = 1e306  # cells in half a unit
LARGEST = float(np.finfo(np.float64).max)


class Counted(NamedTuple):
    """Columns of a block: a value, the mass of its rows, and 1 where they count, if not all do; else 0."""

    value: Floats
    mass: Floats
    inside: Floats | None


@dataclass(frozen=True, eq=False)
class Bracket:
    """Rows with values in (low, high].

    Attributes
    ----------
    low, high : float
        The ends.
    rows, mass : float
        How many rows there are, counted, and their mass.
    depth : int
        How often a cell was divided for it.
    x, masses : ndarray, optional
        The distinct values in order, and their masses, if they are in memory.
    """

    low: float
    high: float
    rows: float
    mass: float
    depth: int = 0
    x: Floats | None = None
    masses: Floats | None = None

    @property
    def may_be_held(self) -> bool:
        """Whether it has few rows, or may have few distinct values: most rows crowd there after some divisions."""
        return self.rows <= MOST_STEPS or (self.depth > 0 and self.depth % 2 == 0) or self.is_narrow

    @property
    def is_narrow(self) -> bool:
        """Whether it cannot be divided any further."""
        return 0.5 * self.high - 0.5 * self.low < max(1.0 / FINEST, 2.0 * float(np.spacing(abs(self.high))))

    @property
    def start(self) -> float:
        """Half of about the lower end, with so few digits that every engine reads them alike."""
        return float(f"{0.5 * self.low:.15g}")

    @property
    def scale(self) -> float:
        """How many cells there are in half a unit."""
        return min(float(f"{CELLS / (0.5 * self.high - 0.5 * self.low):.3g}"), FINEST)

    def place(self, x: Floats) -> Floats:
        """Return which part of the cell values are in: it never falls as they rise, also as computed."""
        return np.minimum(np.maximum(np.floor((x * 0.5 - self.start) * self.scale), 0.0), CELLS - 1.0)

    def last_of(self, places: Floats) -> Floats:
        """Return the largest value in each part of the cell, or before it."""
        low, high = (np.full(len(places), _ordered(np.array([end]))[0]) for end in (self.low, self.high))
        low = np.where(self.place(_number(high)) <= places, high, low)
        for _ in range(64):  # bits
            middle = (low & high) + ((low ^ high) >> 1)
            is_low = self.place(_number(middle)) <= places
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        return _number(low)

    def holds(self, x: Floats) -> Floats:
        """Return 1 for values in the cell, and 0 for others."""
        found: Floats = np.multiply((x > self.low) * 1.0, x <= self.high)
        return found


class SharesInEngine(SharesUpTo):
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
            x = block.columns(function)
            return Counted(x, x * 0.0 + 1.0, None)

        return cls(rows, counted)

    def __str__(self) -> str:
        low, high = self.ends
        return f"steps from {low:.4g} to {high:.4g}"

    @cached_property
    def _whole(self) -> Bracket:
        """All rows."""

        def question(block: Block) -> tuple[Floats, Floats, Extremes]:
            x, mass, inside = self._counted(block)
            there = mass * 0.0 + 1.0 if inside is None else inside
            ends = [x, x] if inside is None else [np.where(inside, x, LARGEST), np.where(inside, x, -LARGEST)]
            return block.sum(mass), block.sum(there), block.extremes(np.hstack(ends))

        mass, rows, ends = self._queries.total(question)
        return Bracket(float(np.nextafter(ends.low[0], -np.inf)), float(ends.high[1]), float(rows[0]), float(mass[0]))

    @cached_property
    def _cells(self) -> list[Bracket]:
        """The cells that have rows, in order."""
        return [self._whole]

    @property
    def total(self) -> float:
        """The mass of all rows."""
        return self._whole.mass

    @property
    def ends(self) -> tuple[float, float]:
        return float(np.nextafter(self._whole.low, np.inf)), self._whole.high

    @property
    def _held(self) -> SharesByValue | None:
        """The shares up to all values, if these are in memory."""
        found = [(cell.x, cell.masses) for cell in self._cells if cell.x is not None and cell.masses is not None]
        if len(found) < len(self._cells):
            return None
        x, masses = (np.concatenate(one) for one in zip(*found, strict=True))
        return SharesByValue(x, self._share(np.cumsum(masses))[:, None])

    def every(self) -> tuple[Floats, Floats]:
        if self._held is None:
            held = self._hold([self._whole])
            if not held:
                raise TooLargeError(
                    f"There are more than {MOST_STEPS:,} distinct values, so they stay in their engine. Ask for "
                    "quantiles, for F at some points, or for the band, which do not need them in memory.",
                    bytes=16 * MOST_STEPS,
                )
            self._cells = held
        assert self._held is not None
        return self._held.every()

    def reaching(self, weights: Floats, targets: Floats, *, beyond: bool = False) -> tuple[Floats, Floats]:
        side: Literal["left", "right"] = "right" if beyond else "left"
        while True:
            below = np.cumsum([cell.mass for cell in self._cells])
            place = np.searchsorted(self._share(below) * weights[0], targets, side)
            cells = [self._cells[j] for j in np.minimum(place, len(self._cells) - 1).tolist()]
            asked = [cell for cell in dict.fromkeys(cells) if cell.x is None]
            if not asked:
                break
            self._look_into(sorted(asked, key=lambda cell: cell.low))
        found = np.empty((2, len(targets)))
        before = dict(zip(self._cells, np.append(0.0, below[:-1]).tolist(), strict=True))
        for j, cell in enumerate(cells):
            assert cell.x is not None
            assert cell.masses is not None
            shares = self._share(before[cell] + np.cumsum(cell.masses))
            own = min(int(np.searchsorted(shares * weights[0], targets[j], side)), len(cell.x) - 1)
            found[:, j] = cell.x[own], shares[own]
        return found[0], found[1][:, None]

    def up_to(self, points: Floats) -> Floats:
        if self._held is not None:
            return self._held.up_to(points)

        def question(block: Block) -> tuple[Floats, Floats]:
            x, mass, _ = self._counted(block)
            return block.interval(x, points), mass

        keys, sums = self._queries.grouped(question)
        masses = np.zeros(len(points) + 1)
        masses[np.array(keys, np.int64)] = sums[:, 0]
        return self._share(np.cumsum(masses)[:-1])[:, None]

    def next_to(self, x: float, step: int) -> float:
        if self._held is not None:
            return self._held.next_to(x, step)

        def question(block: Block) -> Extremes:
            value, _, inside = self._counted(block)
            beside = (value < x if step < 0 else value > x) * (1.0 if inside is None else inside)
            return block.extremes(np.where(beside, value, LARGEST * step))

        ends = self._queries.total(question)
        return float(ends.high[0] if step < 0 else ends.low[0])

    def spaced(self, low: float, high: float, most: int) -> Floats:
        if self._held is not None:
            return self._held.spaced(low, high, most)
        return self._queries.spaced(lambda block: self._value(block, np.nextafter(high, np.inf)), low, high, most)

    def grid(self, most: int, tail: float) -> Floats:
        try:
            return super().grid(most, tail)
        except EngineError:  # frames that no query can combine: then evenly by probability
            return np.unique(self.reaching(np.ones(1), np.linspace(tail, 1.0 - tail, most) - ROUNDING)[0])

    def has_more_than(self, most: int) -> bool:
        return self._held is None or self._held.has_more_than(most)

    def _share(self, masses: Floats) -> Floats:
        return np.minimum(masses / self.total, 1.0)

    def _value(self, block: Block, elsewhere: float) -> Floats:
        """Return the value of rows that count, and a number on others."""
        x, _, inside = self._counted(block)
        return x if inside is None else np.where(inside, x, elsewhere)

    def _look_into(self, cells: Sequence[Bracket]) -> None:
        """Bring the values of some cells into memory, if they are few, and divide others."""
        held, crowded = list[Bracket](), [cell for cell in cells if not cell.may_be_held]
        for cell in [cell for cell in cells if cell.may_be_held]:
            if not held or sum(one.rows for one in held) + cell.rows <= MOST_STEPS:
                held.append(cell)
        if held:
            found = self._hold(held)
            self._replace(held if found else (), found)
            crowded += [] if found else held
        if crowded:
            self._replace(crowded[:AT_ONCE], self._divide(crowded[:AT_ONCE]))

    def _replace(self, old: Sequence[Bracket], new: Sequence[Bracket]) -> None:
        kept = [cell for cell in self._cells if cell not in old]
        self._cells = sorted([*kept, *new], key=lambda cell: cell.low)

    def _hold(self, cells: Sequence[Bracket]) -> list[Bracket]:
        """Return cells with their values; none if these are too many."""
        elsewhere = cells[0].low

        def question(block: Block) -> tuple[Floats, Floats]:
            x = self._value(block, elsewhere)
            chosen = sum((cell.holds(x) for cell in cells[1:]), start=cells[0].holds(x))
            return np.where(chosen, x, elsewhere), self._counted(block).mass

        most = None if all(cell.is_narrow for cell in cells) else MOST_STEPS + 1
        keys, sums = self._queries.grouped(question, most=most)
        x = np.array(keys, np.float64)
        order = np.argsort(x)[np.count_nonzero(x == elsewhere) :]
        if most is not None and len(order) > MOST_STEPS:
            return []
        x, masses = x[order], sums[order, 0]
        ends = np.searchsorted(x, [[cell.low, cell.high] for cell in cells], "right").tolist()
        return [
            Bracket(cell.low, cell.high, cell.rows, cell.mass, cell.depth, x[a:b], masses[a:b])
            for cell, (a, b) in zip(cells, ends, strict=True)
        ]

    def _divide(self, cells: Sequence[Bracket]) -> list[Bracket]:
        """Return smaller cells that have rows in place of some."""

        def question(block: Block) -> tuple[Floats, Floats]:
            x, mass, inside = self._counted(block)
            key = x * 0.0 - 1.0
            for j, cell in enumerate(cells):
                there = cell.holds(x) if inside is None else cell.holds(x) * inside
                key = np.where(there, cell.place(x) + float(j * CELLS), key)
            return key, np.hstack([mass * 0.0 + 1.0, mass])

        keys, sums = self._queries.grouped(question)
        places, rows = np.array(keys, np.int64), list[Bracket]()
        for j, cell in enumerate(cells):
            own = np.flatnonzero(places // CELLS == j)
            parts = (places[own] % CELLS).astype(np.float64)
            low, high = np.where(parts > 0, cell.last_of(parts - 1.0), cell.low), cell.last_of(parts)
            for place, a, b in zip(own.tolist(), low.tolist(), high.tolist(), strict=True):
                rows.append(Bracket(a, b, float(sums[place, 0]), float(sums[place, 1]), cell.depth + 1))
        return rows


def _ordered(x: Floats) -> Integers:
    """Return whole numbers in the order of floats, successive ones for successive floats."""
    bits = x.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def _number(ordered: Integers) -> Floats:
    return (ordered ^ ((ordered >> 63) & np.int64(2**63 - 1))).view(np.float64)
