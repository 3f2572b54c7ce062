"""Variances of rows in memory that depend on one another."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vardi._inputs.dependence import Dependence
from vardi._machine.memory import require_memory
from vardi._machine.threads import map_blocks
from vardi._rows.contract import Evenness
from vardi._rows.grouping import membership, sums_by_code
from vardi._rows.patches import LinearInfluence
from vardi._rows.series import batch_lengths, rows_a_value
from vardi._rows.steps import StepInfluence
from vardi._rows.units import Units
from vardi._rows.variance import Spread, Strata, Tilts
from vardi._types import Floats, Integers


def strata_of(source: Integers, sizes: Floats, counts: Floats, tilts: Tilts, dependence: Dependence) -> Strata:
    """Return the strata over which variances are taken."""
    if not dependence.in_units:
        return Strata(source, sizes, counts, tilts, dependence.remaining)
    return DependentRows(source, sizes, counts, tilts, dependence)


class DependentRows(Strata):
    """Rows in clusters, in series, or in strata of their samples: see :class:`~vardi._rows.units.Units`."""

    def __init__(self, source: Integers, sizes: Floats, counts: Floats, tilts: Tilts, dependence: Dependence) -> None:
        super().__init__(source, sizes, counts, tilts, dependence.remaining)
        self.dependence = dependence

    @cached_property
    def _entries(self) -> tuple[Integers, Units]:
        """The entry of each row, and the units."""
        given, source = self.dependence, self.source
        n, cell = len(source), source if given.strata is None else given.strata
        if given.order is not None:
            unit = _in_series(source, given.order)
        elif given.clusters is not None:
            unit = np.unique(given.clusters, return_inverse=True)[1]
        else:
            unit = np.arange(n)
        cell = np.unique(cell, return_inverse=True)[1]
        pair, first, entry = np.unique(
            unit * (int(cell.max()) + 1) + cell, return_index=True, return_inverse=True
        )  # sorted by unit
        rows = np.bincount(entry, self.counts, minlength=len(pair)).astype(np.float64)
        in_series = given.order is not None
        return entry, Units(unit[first], cell[first], source[first], rows, self.remaining, in_series)

    @property
    def units(self) -> Units:
        """The units over which sums are taken."""
        return self._entries[1]

    def covariance(self, influence: Floats) -> Floats:
        """Return V."""
        return self.spread(influence).covariance

    def spread(self, influence: Floats | LinearInfluence, *, joint: bool = True) -> Spread:
        """Return V, and what it rests on."""
        return self.units.spread(self._sums(influence), self.n)

    def tail(self, influence: Floats, weights: Floats | float = 1.0) -> float:
        """Return the tail index of sums over units, whatever the weights."""
        return self.units.tail(self._sums(influence))

    def evenness(self, r: Floats) -> Evenness:
        """Return how evenly weights are spread over clusters: all rows of one may share what no row of another has."""
        if self.dependence.clusters is None:
            return super().evenness(r)
        unit = np.unique(self.dependence.clusters, return_inverse=True)[1]
        masses = np.bincount(unit, r * self.counts)
        return Evenness(float(masses.sum()), float((masses**2).sum()), float(masses.max()))

    def covariance_of_steps(self, influence: StepInfluence) -> Floats:
        """Return V for the influence values of a distribution function, summed over units block by block."""
        entry, units = self._entries
        n, m = len(influence), len(influence.value)
        what = f"A band of {len(units.rows):,} units at {m} points"
        require_memory(24 * len(units.rows) * m, what, "Ask for the distribution function at some points.")
        if self._single.any():
            return self.covariance(influence.rows(slice(0, n)))
        sums = np.zeros((len(units.rows), m))

        def summed(rows: slice) -> tuple[Integers, Floats]:
            found, place = np.unique(entry[rows], return_inverse=True)
            counts = self.counts[rows]
            return found, np.asarray(membership(place, len(found), counts) @ influence.rows(rows))

        for found, part in map_blocks(summed, n, m):
            sums[found] += part
        return units.spread(sums, self.n).covariance

    def drawn(self, effective: Floats | None) -> tuple[Integers, Integers]:
        """Return what a bootstrap draws: the number of each row's unit, part by part, and the units of each part.

        In a series, units are batches of successive rows, as long as its effective size requires.
        """
        entry, units = self._entries
        if not units.in_series:
            order = np.argsort(units.part, kind="stable")
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            return place[units.unit[entry]], np.bincount(units.part)
        assert effective is not None
        assert self.dependence.order is not None
        unit = _in_series(self.source, self.dependence.order, batch_lengths(self.sizes, effective))
        firsts = np.unique(unit, return_index=True)[1]
        return unit, np.bincount(self.source[firsts], minlength=len(self.sizes))

    def _sums(self, influence: Floats | LinearInfluence) -> Floats:
        """Return sums of influence values over entries, for single rows minus their means under the fitted law."""
        values, (entry, units) = np.asarray(influence), self._entries
        if self._single.any():
            fitted = np.where(self._single[:, None], self._fitted(values) / self._sizes, 0.0)
            values = values - fitted[self.source]
        counted = values * self.counts[:, None]
        return sums_by_code(entry, counted, len(units.rows))


def _in_series(source: Integers, order: Integers, lengths: list[int] | None = None) -> Integers:
    """Return the value of a series that each row is summed to, numbered sample by sample in time order."""
    unit, first = np.empty(len(source), np.int64), 0
    rows = np.lexsort((order, source))
    ends = np.cumsum(np.bincount(source))
    for k, (low, high) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
        length = rows_a_value(high - low) if lengths is None else lengths[k]
        unit[rows[low:high]] = first + np.arange(high - low) // length
        first = int(unit[rows[high - 1]]) + 1 if high > low else first
    return unit
