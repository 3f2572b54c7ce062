"""Shares of rows up to a value, under several measures at once: distribution functions of a column.

A few points of them are asked for, such as quantiles, of columns of millions of rows. To sort these takes a hundred
times as long as to add them up by cells of one width, after which only the cells that hold an answer are sorted.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from vardi._machine import map_blocks, sum_blocks
from vardi._rows.grouping import are_whole, sums_by_value
from vardi._types import Floats, Integers

CELLS = 2**16  # of one width
MANY = 50_000  # rows from which on cells pay
CROWDED = 32  # a cell with this part of the rows, or more, may leave as much to sort as there was
ROUNDING = 1e-9  # of a probability
LEAST = 1e-12  # what a share may lack to be 1
SEEN, BEYOND = 4096, 20  # rows that tell where most values are, and how many of them lie beyond either end


class Shares(ABC):
    """The share of each of p measures on the rows with a value up to x, as a function of x, wherever the rows are.

    All follows from the shares up to every distinct value; subclasses answer where these are too many.
    """

    def __str__(self) -> str:
        low, high = self.ends
        return f"{len(self.every()[0])} steps from {low:.4g} to {high:.4g}"

    @abstractmethod
    def every(self) -> tuple[Floats, Floats]:
        """Return the distinct values x in order, and the shares up to each, of shape (len(x), p)."""

    def of_measure(self, j: int) -> Shares:
        """Return the shares of one measure alone."""
        x, shares = self.every()
        return SharesByValue(x, shares[:, [j]])

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        x, _ = self.every()
        return float(x[0]), float(x[-1])

    def reaching(self, weights: Floats, targets: Floats, *, beyond: bool = False) -> tuple[Floats, Floats]:
        """Return the first x at which weighted sums of the shares are at least, or beyond, targets; and the shares.

        Where they are nowhere, it is the last x.
        """
        x, shares = self.every()
        found = np.searchsorted(shares @ weights, targets, "right" if beyond else "left")
        place = np.minimum(found, len(x) - 1)
        return x[place], shares[place]

    def up_to(self, points: Floats) -> Floats:
        """Return the shares up to points in order, of shape (len(points), p)."""
        x, shares = self.every()
        return np.vstack([np.zeros(shares.shape[1]), shares])[np.searchsorted(x, points, "right")]

    def next_to(self, x: float, step: int) -> float:
        """Return the distinct value before x (step -1) or after it (1), which is there; x need not be one."""
        values, _ = self.every()
        place = np.searchsorted(values, x, "left") - 1 if step < 0 else np.searchsorted(values, x, "right")
        return float(values[place])

    def has_more_than(self, most: int) -> bool:
        """Return whether there are more distinct values, or so many that they were not brought into memory."""
        return len(self.every()[0]) > most

    def between(self, low: float, high: float) -> Floats:
        """Return the distinct values from low to high."""
        x, _ = self.every()
        return x[np.searchsorted(x, low, "left") : np.searchsorted(x, high, "right")]

    def are_whole(self, low: float, high: float) -> bool:
        """Return whether all values from low to high are whole numbers."""
        return are_whole(self.between(low, high))

    def spaced(self, low: float, high: float, most: int) -> Floats:
        """Return values that are evenly spaced among the distinct ones from low to high, in order; so many at most."""
        inner = self.between(low, high)
        return inner[evenly(len(inner), most)]

    def grid(self, most: int, tail: float) -> Floats:
        """Return values evenly spaced among those with a share from ``tail`` to 1 - ``tail``, of one measure."""
        edge, alone = tail - ROUNDING, np.ones(1)  # a step may hit the tail exactly, up to rounding
        first = float(self.reaching(alone, np.array([edge]))[0][0])
        beyond = float(self.reaching(alone, np.array([1.0 - edge]), beyond=True)[0][0])
        return self.spaced(first, self.next_to(beyond, -1), most) if first < beyond else self.spaced(*self.ends, most)

    def of_equal_mass(self, most: int) -> tuple[Floats, Floats]:
        """Return the smallest and the largest value of cells of about equal mass; few values are a cell each."""
        high = np.unique(self.reaching(np.ones(1), np.linspace(0.0, 1.0, most + 1)[1:] * (1.0 - LEAST))[0])
        if not self.has_more_than(most):
            values = self.every()[0]
            return values, values
        return np.array([self.ends[0], *(self.next_to(one, 1) for one in high[:-1].tolist())]), high


def shares_of(values: Floats, masses: Sequence[Floats], totals: Floats | None = None) -> Shares:
    """Return the shares of rows up to a value, given their masses under each measure, and the totals of these."""
    totals = np.array([mass.sum() for mass in masses]) if totals is None else totals
    if len(values) >= MANY:
        cells = SharesByCell.of(values, masses, totals)
        if cells is not None:
            return cells
    x, sums = sums_by_value(values, masses)
    return SharesByValue(x, np.minimum(np.cumsum(np.stack(sums, axis=1), axis=0) / totals, 1.0))


class SharesByValue(Shares):
    """Shares up to all distinct values, or those that an engine gives."""

    def __init__(self, x: Floats, shares: Floats) -> None:
        self._x, self._shares = x, shares

    def every(self) -> tuple[Floats, Floats]:
        return self._x, self._shares


class SharesByCell(Shares):
    """Shares up to any value, from sums by cell.

    Parameters
    ----------
    values, masses : ndarray, sequence of ndarray
        Of the rows.
    totals : ndarray of shape (p,)
        What a share is of.
    start, scale : float
        The cell of x is scale (x - start), cut to a whole number and to the cells that there are: it never falls as x
        rises, also as computed.
    """

    def __init__(self, values: Floats, masses: Sequence[Floats], totals: Floats, start: float, scale: float) -> None:
        self._values, self._masses, self._totals, self._start, self._scale = values, masses, totals, start, scale
        self._found: dict[int, Integers] = {}  # the rows of cells that were asked for
        cells = map_blocks(lambda part: self._cells_of(values[part]).astype(np.uint16), len(values), 1)
        self._cell = np.concatenate(list(cells))
        self._rows = self._by_cell(None)
        sums = np.stack([self._by_cell(mass) for mass in masses], axis=1)
        self._below = np.vstack([np.zeros(len(masses)), np.cumsum(sums, axis=0)])  # before each cell, and after all

    def _by_cell(self, mass: Floats | None) -> NDArray[Any]:
        """Return how many rows each cell has, or their mass; in blocks, since only these are converted."""

        def block(part: slice) -> NDArray[Any]:
            return np.bincount(self._cell[part], None if mass is None else mass[part], minlength=CELLS)

        return sum_blocks(block, len(self._cell), 1, CELLS)

    @classmethod
    def of(cls, values: Floats, masses: Sequence[Floats], totals: Floats) -> SharesByCell | None:
        """Return them, or None where most rows lie in few cells."""
        seen = np.sort(values[:: max(len(values) // SEEN, 1)])
        start, end = float(seen[BEYOND]), float(seen[-1 - BEYOND])
        with np.errstate(over="ignore", divide="ignore"):
            scale = float(CELLS / np.subtract(end, start))
        if not (0.0 < scale < np.inf) or np.bincount(_cells(seen, start, scale)).max() * CROWDED > 2 * len(seen):
            return None
        found = cls(values, masses, totals, start, scale)
        return found if found._rows.max() * CROWDED <= len(values) else None

    def of_measure(self, j: int) -> Self:
        found = copy.copy(self)
        found._masses, found._totals, found._below = [self._masses[j]], self._totals[[j]], self._below[:, [j]]
        return found

    def _cells_of(self, x: Floats) -> Integers:
        return _cells(x, self._start, self._scale)

    def _rows_in(self, cells: Integers) -> Integers:
        """Return the rows of some cells, found in one pass unless they were asked for before."""
        asked, new = np.unique(cells).tolist(), np.zeros(CELLS, bool)
        new[[cell for cell in asked if cell not in self._found]] = True
        if new.any():
            every = map_blocks(lambda part: part.start + np.flatnonzero(new[self._cell[part]]), len(self._cell), 1)
            rows, places = np.concatenate(list(every)), np.flatnonzero(new)
            rows = rows[np.argsort(self._cell[rows], kind="stable")]
            self._found.update(zip(places.tolist(), np.split(rows, np.cumsum(self._rows[places])[:-1]), strict=True))
        return np.concatenate([self._found[cell] for cell in asked])

    def _near(self, cells: Integers) -> SharesByValue:
        """Return the shares up to the values in some cells, and in those with rows on either side of each."""
        occupied = np.flatnonzero(self._rows)
        place = np.searchsorted(occupied, cells)[:, None] + np.arange(-1, 2)
        rows = self._rows_in(occupied[np.unique(np.clip(place, 0, len(occupied) - 1))])
        x, sums = sums_by_value(self._values[rows], [mass[rows] for mass in self._masses])
        own = self._cells_of(x)
        within = np.cumsum(np.stack(sums, axis=1), axis=0)
        before = np.vstack([np.zeros(within.shape[1]), within])[np.searchsorted(own, own)]
        return SharesByValue(x, self._share(self._below[own] + (within - before)))

    def every(self) -> tuple[Floats, Floats]:
        x, sums = sums_by_value(self._values, self._masses)
        return x, self._share(np.cumsum(np.stack(sums, axis=1), axis=0))

    def has_more_than(self, most: int) -> bool:
        return int(np.count_nonzero(self._rows)) > most or super().has_more_than(most)

    @property
    def ends(self) -> tuple[float, float]:
        outer = self._values[self._rows_in(np.flatnonzero(self._rows)[[0, -1]])]
        return float(outer.min()), float(outer.max())

    def reaching(self, weights: Floats, targets: Floats, *, beyond: bool = False) -> tuple[Floats, Floats]:
        cells = np.searchsorted(self._share(self._below[1:]) @ weights, targets, "right" if beyond else "left")
        return self._near(cells).reaching(weights, targets, beyond=beyond)

    def up_to(self, points: Floats) -> Floats:
        return self._near(self._cells_of(points)).up_to(points)

    def next_to(self, x: float, step: int) -> float:
        return self._near(self._cells_of(np.array([x]))).next_to(x, step)

    def between(self, low: float, high: float) -> Floats:
        def inside(part: slice) -> Floats:
            own = self._values[part]
            return own[(own >= low) & (own <= high)]

        return np.unique(np.concatenate(list(map_blocks(inside, len(self._values), 1))))

    def are_whole(self, low: float, high: float) -> bool:
        def some(part: slice) -> bool:
            own = self._values[part]
            return are_whole(own[(own >= low) & (own <= high)])

        return some(slice(0, SEEN)) and all(map_blocks(some, len(self._values), 1))

    def _share(self, masses: Floats) -> Floats:
        return np.minimum(masses / self._totals, 1.0)


def evenly(count: int, most: int) -> Integers:
    """Return evenly spaced places among so many, at most ``most`` of them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


def _cells(x: Floats, start: float, scale: float) -> Integers:
    with np.errstate(over="ignore"):
        place = (x - start) * scale
    return np.clip(place, 0.0, CELLS - 1.0, out=place).astype(np.int64)
