"""The rows of some samples in an engine at the solution for all; `vardi._rows.among` has the formulas.

These rows have another weight and other columns x. Influence values are functions of the rows of all frames that are 0
on the frames of other samples, so estimates from different samples can be subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.part import PREFIX, Part
from vardi._rows.contract import Means
from vardi._rows.engine.functions import EngineFunction, EngineValues
from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.moments import EngineMoments, total
from vardi._rows.engine.point import EnginePoint
from vardi._types import Floats

SHARE, WEIGHT, X = f"{PREFIX}share", f"{PREFIX}r_among", f"{PREFIX}x_among_{{}}"


class PointAmong(EnginePoint):
    """The columns of rows at a point for some samples: 1 / S^A times a scale, and x^A."""

    def __init__(self, model: EngineModel, v: Floats, states: Sequence[int], scale: float) -> None:
        super().__init__(model, v)
        whole, at = super().x, model.coordinates
        share, weight = nw.col(SHARE), super().weight
        places = {k: range(at.theta.start + p.start, at.theta.start + p.stop) for k, p in model.places.items()}
        seen = {k: whole(k) / share for k in states}
        for k in [k for k in places if k in states]:
            seen |= {j: whole(k) * t / share for j, t in zip(places[k], self.gradient(k), strict=True)}
        self.stages += [
            {SHARE: total([whole(k) for k in states])},
            {WEIGHT: weight / share * scale, **{X.format(j): one for j, one in seen.items()}},
        ]
        self.active = np.array(sorted(seen))

    @property
    def weight(self) -> nw.Expr:
        """The weight among the samples."""
        return nw.col(WEIGHT)

    def x(self, coordinate: int) -> nw.Expr:
        """Return one active coordinate of x^A."""
        return nw.col(X.format(coordinate))

    @property
    def weight_of_epsilon(self) -> Floats:
        """The effect of known values on S^A: nothing."""
        return np.zeros(self.model.coordinates.uncertain)


class EngineAmong(EngineMoments):
    """The rows of some samples, with weights of mean 1 over the pool.

    Parameters
    ----------
    whole : EngineMoments
        The frames of all samples at the solution.
    states : sequence of int
        The places of the samples.
    names : tuple of str
        Their names.
    """

    def __init__(self, whole: EngineMoments, states: Sequence[int], names: tuple[str, ...]) -> None:
        super().__init__(whole.model, whole.point.v)
        self._pool, self.states, self.recorded_by = whole, list(states), names
        self.parts = tuple(part.of_samples(states) for part in whole.parts if set(part.codes.values()) & set(states))
        self.scale = 1.0
        self.point = PointAmong(whole.model, whole.point.v, states, 1.0)
        masses = [part.sums([part.times_count(self.point.weight)], self.point) for part in self.parts]
        self.scale = float(self.n / np.sum(masses))
        self.point = PointAmong(whole.model, whole.point.v, states, self.scale)

    @property
    def whole(self) -> EngineMoments:
        """The frames of all samples, on which influence values are defined."""
        return self._pool

    def uncovered(self) -> dict[str, int]:
        """Return how many rows of other samples none of these could have drawn."""
        share = total([self._pool.point.x(k) for k in self.states])
        found: dict[str, int] = {}
        for part in self._pool.parts:
            labels = {code: str(part.name if label is None else label) for label, code in part.codes.items()}
            asked = {"rows": Aggregate(nw.when(share > 0.0).then(nw.lit(0)).otherwise(nw.lit(1)))}
            found |= {labels[code]: int(row["rows"]) for code, row in part.by_sample(asked, self._pool.point)}
        return {name: count for name, count in found.items() if count}

    def means(self, functions: Sequence[EngineFunction]) -> Means:
        """Return eta, and whether functions are shares, of the rows of the samples."""
        found = super().means(functions)
        return Means(found.mean, found.strays, found.events, float(self.sizes[self.states].sum()))

    def influence(self, functions: Sequence[EngineFunction], eta: Floats, b: Floats) -> EngineValues:
        """Return phi of all rows of the pool, as functions that are 0 on the rows of other samples."""
        moved = tuple(self._less(function, float(own)) for function, own in zip(functions, eta, strict=True))
        return EngineValues(moved, np.eye(len(moved)), np.zeros(len(moved)), b)

    def _less(self, function: EngineFunction, eta: float) -> EngineFunction:
        """Return (f - eta) r^A / r."""
        ratio = self.scale / total([self._pool.point.x(k) for k in self.states])

        def value(part: Part) -> nw.Expr:
            mine = [label for label, code in part.codes.items() if code in self.states]
            if not mine:
                return nw.lit(0.0)
            found = (function(part) - eta) * ratio
            if len(mine) == len(part.codes) or part.label is None:
                return found
            return nw.when(nw.col(part.label).is_in(mine)).then(found).otherwise(nw.lit(0.0))

        return EngineFunction(value)
