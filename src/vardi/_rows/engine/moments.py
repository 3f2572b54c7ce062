"""Frames of an engine at a point, for queries that are not yet questions of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import PREFIX, Part
from vardi._rows.contract import Coordinates
from vardi._rows.engine.functions import EngineFunction, Reads
from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.point import EnginePoint
from vardi._rows.engine.united import can_unite, united
from vardi._rows.point import Point, PointAmong
from vardi._types import Floats

#: Frames that are asked, and functions of their rows.
Joined: TypeAlias = tuple[Sequence[Part], tuple[EngineFunction, ...]]

JOINED = 8  # unions of frames that are kept


class EngineMoments:
    """Frames at a point at which the weights 1 / S have mean 1.

    Parameters
    ----------
    model : EngineModel
        The frames, the families and what is known.
    point : Point or PointAmong
        The point.
    """

    recorded_by: tuple[str, ...] = ()  # the samples in question, if not all

    def __init__(self, model: EngineModel, point: Point | PointAmong) -> None:
        self.model, self.point = model, EnginePoint(model, point)
        self.parts, self.sizes, self.n = model.parts, model.sizes, model.n
        self.dependence = model.dependence
        self._joined: dict[tuple[EngineFunction, ...], Joined] = {}

    @property
    def coordinates(self) -> Coordinates:
        """The layout of the point."""
        return self.model.coordinates

    def together(self, functions: Sequence[EngineFunction] = ()) -> Joined:
        """Return many frames as one, and functions of its rows; as they are where they cannot be joined."""
        if not can_unite(self.parts) or any(function.reads is Reads.BOTH for function in functions):
            return self.parts, tuple(functions)
        own = tuple(dict.fromkeys(function for function in functions if function.reads is Reads.USERS))
        if own not in self._joined:
            names = {f"{PREFIX}joined_{j}": function for j, function in enumerate(own)}
            parts = united(self.parts, names)
            made = tuple(_column(name, function) if len(parts) == 1 else function for name, function in names.items())
            if len(self._joined) == JOINED:
                self._joined.pop(next(iter(self._joined)))
            self._joined[own] = parts, made
        parts, made = self._joined[own]
        place = dict(zip(own, made, strict=True))
        return parts, tuple(place.get(function, function) for function in functions)

    def placed(self, sums: Floats) -> Floats:
        """Return sums of functions times 1, x and, with errors of known values, weights, as those against x."""
        active = self.point.active
        rows = 1 + len(active) + bool(self.coordinates.uncertain)
        found = sums.reshape(rows, -1)
        against = np.zeros((len(self.coordinates), found.shape[1]))
        against[active] = found[1 : 1 + len(active)]
        against[self.coordinates.epsilon] = np.outer(self.point.weight_of_epsilon, found[-1])
        return against


def _column(name: str, function: EngineFunction) -> EngineFunction:
    return EngineFunction(lambda part: nw.col(name), function.name, Reads.OURS)


def is_endless(f: nw.Expr) -> nw.Expr:
    """Return 1 where a value is not finite, else 0; a null, as Spark gives for a division by zero, is not."""
    return nw.when(f.abs() < float("inf")).then(nw.lit(0.0)).otherwise(nw.lit(1.0))
