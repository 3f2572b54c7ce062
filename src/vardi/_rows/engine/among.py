"""The rows of some samples in an engine at the solution for all, for queries that are not yet questions of columns."""

from __future__ import annotations

from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.point import PointAmong


class EngineAmong(EngineMoments):
    """The rows of some samples, with weights of mean 1 over the pool."""

    def __init__(self, model: EngineModel, point: PointAmong, names: tuple[str, ...]) -> None:
        super().__init__(model, point)
        self.recorded_by = names
        states = point.states
        self.parts = tuple(part.of_samples(states) for part in model.parts if set(part.codes.values()) & set(states))
