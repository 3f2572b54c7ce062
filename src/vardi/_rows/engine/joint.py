"""The sums of one likelihood at v = (u, theta, mu, epsilon), queried from an engine: one query for each part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vardi._inputs.engine.part import OMEGA, Part
from vardi._rows.contract import Block, Coordinates, JointSums
from vardi._rows.dense import Dense
from vardi._rows.engine.lazy_rows import LazyRows
from vardi._rows.joint import Joint, JointRows
from vardi._rows.likelihood import likelihood
from vardi._rows.point import KnownMoments, Model, Point
from vardi._rows.queries import Queries
from vardi._types import Floats

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
            products_beside=sums.products_beside * square[coordinates.samples :],
            beside=sums.beside * square[coordinates.samples :],
        )


class EngineRows(JointRows):
    """Rows in an engine with parameters and known moments.

    Parameters
    ----------
    frames : Queries
        The frames.
    model : Model
        The families, with the names of columns, and what is known.
    few : callable
        Returns a small part of the rows in memory, for a start.
    reach : ndarray of shape (K, K), optional
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    """

    reading_dominates = True

    def __init__(self, frames: Queries, model: Model, few: Callable[[], Joint], reach: Floats | None = None) -> None:
        self.frames, self.model, self._few, self._reach = frames, model, few, reach
        self.sizes = model.sizes
        self._last: Last | None = None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def holder(self) -> Queries:
        """The frames."""
        return self.frames

    @cached_property
    def few(self) -> Joint:
        """A small part of the rows, in memory, with counts that make it stand for all."""
        return self._few()

    def with_model(self, change: Callable[[Model], Model]) -> EngineRows:
        """Return the same rows with another model."""
        return EngineRows(self.frames, change(self.model), lambda: self.few.with_model(change), self._reach)

    def rows_at(self, theta: Floats) -> LazyRows:
        """Return the rows with all biases at theta, on the user's scale."""
        assert self._reach is not None
        frames = Queries(self._parts_at(theta), self.sizes, self.frames.dependence)
        few = self.few.rows_at(theta)
        assert isinstance(few, Dense)
        return LazyRows(frames, self._reach, few, few.start)

    def _parts_at(self, theta: Floats) -> tuple[Part, ...]:
        """Return frames whose biases have their parameters fixed, on the user's scale: known biases like any others."""
        if not self.families:
            return tuple(self.frames.parts)
        alone = replace(self.model, known=KnownMoments.none())
        point = Point(alone, np.concatenate([np.zeros(len(self.sizes)), theta]))
        names = [OMEGA.format(k) for k in self.families]

        def biases(block: Block) -> Floats:
            return np.hstack([point.at(block).users_bias(k) for k in self.families])

        changed = [part.map(self.frames.adding(part, names, biases)) for part in self.frames.parts]
        return tuple(replace(part, formulas={}) for part in changed)

    def weights(self, v: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        return np.empty(0), float(np.log(self.joint_sums(v, objective=False).inverse / self.sizes.sum()))

    def joint_sums(self, v: Floats, *, objective: bool = True) -> JointSums:
        """Return all sums at v: a query for each part, unless the last point differs only in the gauge.

        ``log_mass`` is NaN unless the objective is asked for. It leaves out the known factors of own biases, which no
        coordinate moves, as in memory.
        """
        known = None if self._last is None else self._last.at(v, self.coordinates, objective=objective)
        if known is not None:
            return known
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self.frames.total(likelihood(Point(self.model, v), objective=objective)).checked
        if sums.positive:
            self._last = Last(v.copy(), sums, float(self.sizes.sum()))
        return sums
