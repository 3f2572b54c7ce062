"""The sums of one likelihood at v = (u, theta, mu, epsilon), queried from an engine: one query for each part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vardi._inputs.engine.part import OMEGA, Part
from vardi._rows.columns import Block
from vardi._rows.contract import Coordinates, JointSums
from vardi._rows.dense import Dense
from vardi._rows.engine.lazy_rows import LazyRows
from vardi._rows.engine.model import EngineModel
from vardi._rows.families import BiasFamily
from vardi._rows.joint import Joint
from vardi._rows.likelihood import likelihood
from vardi._rows.point import KnownMoments, Point
from vardi._rows.queries import Queries
from vardi._types import Floats, Integers

SAME = 1e-12  # relative error up to which two points count as equal up to a change of gauge


@dataclass(frozen=True)
class Last:
    """The sums at the last point, and from them those at points that differ only in the gauge.

    Along (1, 0, mu) every S is multiplied by the same number, so no new query is needed.
    """

    v: Floats
    sums: JointSums
    n: float

    def at(self, v: Floats, coordinates: Coordinates, *, objective: bool) -> JointSums | None:
        """Return the sums at v; None if it is another point, or the objective is unknown."""
        if objective and not np.isfinite(self.sums.log_mass):
            return None
        with np.errstate(invalid="ignore"):
            moved = (v - self.v)[coordinates.u]
        finite = np.isfinite(v[coordinates.u])
        if not np.array_equal(finite, np.isfinite(self.v[coordinates.u])) or np.ptp(moved[finite]) > SAME:
            return None
        shift = float(moved[finite].mean())
        there = self.v.copy()
        there[coordinates.mu] *= np.exp(shift)
        rest = slice(coordinates.samples, None)
        if not np.allclose(v[rest], there[rest], rtol=SAME, atol=0.0):
            return None
        return self._shifted(shift, coordinates)

    def _shifted(self, shift: float, coordinates: Coordinates) -> JointSums:
        if not shift:
            return self.sums
        factor = np.ones(len(coordinates))
        factor[coordinates.mu] = np.exp(-shift)
        square, sums = factor[:, None] * factor, self.sums
        return replace(
            sums,
            inverse=sums.inverse * float(np.exp(-shift)),
            log_mass=sums.log_mass + self.n * shift,
            x=sums.x * factor,
            gram=sums.gram * square,
            curvature=sums.curvature * square,
            information=sums.information * square,
        )


class EngineRows:
    """Rows in an engine with parameters and known moments, with the interface that Newton's method needs.

    Parameters
    ----------
    model : EngineModel
        The frames, the families and what is known.
    few : callable
        Returns a small part of the rows in memory, for a start.
    reach : ndarray of shape (K, K), optional
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    """

    reading_dominates = True

    def __init__(self, model: EngineModel, few: Callable[[], Joint], reach: Floats | None = None) -> None:
        self.model, self._few, self._reach = model, few, reach
        self.sizes, self.rows = model.sizes, Queries(model.parts, model.sizes, model.dependence)
        self._last: Last | None = None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def coordinates(self) -> Coordinates:
        """The layout of a point."""
        return self.model.coordinates

    @property
    def families(self) -> Mapping[int, BiasFamily]:
        """The family of each bias that has one."""
        return self.model.families

    @property
    def places(self) -> Mapping[int, slice]:
        """The place of each bias's parameters among all."""
        return self.model.places

    @property
    def means(self) -> Floats:
        """The known values."""
        return self.model.known.means

    @property
    def root(self) -> Floats:
        """R, with R R' their covariance."""
        return self.model.known.root

    @property
    def scaled(self) -> NDArray[np.bool_]:
        """Which parameters belong to columns of standard deviation 1."""
        return self.model.model.scaled

    @cached_property
    def few(self) -> Joint:
        """A small part of the rows, in memory, with counts that make it stand for all."""
        return self._few()

    def without_known(self) -> EngineRows:
        """Return the same rows without known values."""
        return EngineRows(replace(self.model, known=KnownMoments.none()), lambda: self.few.without_known(), self._reach)

    def masses_of(self, groups: Integers, v: Floats) -> Floats:
        """Return the share of the weight that each group of samples carries at a point."""
        point = Point(self.model.model, v)
        masses = np.zeros(int(groups.max()) + 1)
        np.add.at(masses, groups, self.rows.total(lambda block: block.by_sample(point.at(block).weight))[:, 0])
        return masses / masses.sum()

    def with_masses_of(self, groups: Integers, masses: Floats) -> EngineRows:
        """Return the same rows with only the masses of groups of samples known."""
        few = self.few.with_masses_of(groups, masses)
        model = replace(self.model, known=KnownMoments.of_groups(groups, masses))
        return EngineRows(model, lambda: few, self._reach)

    def with_tilts(self, states: Collection[int]) -> EngineRows:
        """Return the same rows with the families of some biases replaced by the tilts that they resemble."""
        model = replace(self.model, families=self.model.model.with_tilts(states).families)
        return EngineRows(model, lambda: self.few.with_tilts(states), self._reach)

    def with_values(self, means: Floats) -> EngineRows:
        """Return the same rows with other known values."""
        model = replace(self.model, known=self.model.known.with_means(means))
        return EngineRows(model, lambda: self.few.with_values(means), self._reach)

    def shift(self, theta: Floats) -> Floats:
        """Return the offset of log omega on the user's scale, for each bias."""
        return self.model.model.shift(theta)

    def rows_at(self, theta: Floats) -> LazyRows:
        """Return the rows with all biases at theta, on the user's scale."""
        assert self._reach is not None
        parts = self._parts_at(theta)
        few = self.few.rows_at(theta)
        assert isinstance(few, Dense)
        return LazyRows(parts, self.coordinates.samples, self.sizes, self._reach, few, few.start)

    def _parts_at(self, theta: Floats) -> tuple[Part, ...]:
        """Return frames whose biases have their parameters fixed, on the user's scale: known biases like any others."""
        if not self.families:
            return self.model.parts
        alone = replace(self.model.model, known=KnownMoments.none())
        point = Point(alone, np.concatenate([np.zeros(len(self.sizes)), theta]))
        names = [OMEGA.format(k) for k in self.families]

        def biases(block: Block) -> Floats:
            return np.hstack([point.at(block).users_bias(k) for k in self.families])

        return tuple(part.map(self.rows.adding(part, names, biases)) for part in self.model.parts)

    def weights(self, v: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        return np.empty(0), float(np.log(self.joint_sums(v, objective=False).inverse / self.model.n))

    def joint_sums(self, v: Floats, *, objective: bool = True) -> JointSums:
        """Return all sums at v: a query for each part, unless the last point differs only in the gauge.

        ``log_mass`` is NaN unless the objective is asked for. It leaves out the known factors of own biases, which no
        coordinate moves, as in memory.
        """
        known = None if self._last is None else self._last.at(v, self.coordinates, objective=objective)
        if known is not None:
            return known
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self.rows.total(likelihood(Point(self.model.model, v), objective=objective)).checked
        if sums.positive:
            self._last = Last(v.copy(), sums, self.model.n)
        return sums
