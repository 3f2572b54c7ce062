"""Variances of rows in memory that depend on one another."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vardi._inputs.dependence import Dependence
from vardi._machine.memory import require_memory
from vardi._machine.threads import map_blocks
from vardi._rows.grouping import membership, sums_by_code
from vardi._rows.series import batch_lengths
from vardi._rows.steps import StepInfluence
from vardi._rows.units import Units, entries_of, in_series
from vardi._rows.variance import Strata, Tilts
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
        return entries_of(self.source, self.counts, self.dependence)

    @property
    def units(self) -> Units:
        """The units over which sums are taken."""
        return self._entries[1]

    def covariance(self, influence: Floats) -> Floats:
        """Return V."""
        return self.units.spread(self._sums(influence), self.n).covariance

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
        unit = in_series(self.source, self.dependence.order, batch_lengths(self.sizes, effective))
        firsts = np.unique(unit, return_index=True)[1]
        return unit, np.bincount(self.source[firsts], minlength=len(self.sizes))

    def _sums(self, influence: Floats) -> Floats:
        """Return sums of influence values over entries, for single rows minus their means under the fitted law."""
        values, (entry, units) = np.asarray(influence), self._entries
        if self._single.any():
            fitted = np.where(self._single[:, None], self._fitted(values) / self._sizes, 0.0)
            values = values - fitted[self.source]
        counted = values * self.counts[:, None]
        return sums_by_code(entry, counted, len(units.rows))
