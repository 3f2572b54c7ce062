"""Biases and known functions as functions of the rows of an engine, and how they move with the point."""

from __future__ import annotations

from collections.abc import Callable

import narwhals as nw
import numpy as np

from vardi._inputs.engine.columns import Declared
from vardi._inputs.engine.part import Part
from vardi._rows.engine.functions import EngineFunction, Reads
from vardi._rows.engine.moments import EngineMoments
from vardi._types import Floats


def bias_at(measure: EngineMoments, k: int) -> EngineFunction:
    """Return a bias at the parameters of a point, on the user's scale."""
    return EngineFunction(lambda part: measure.point.users_bias(k), reads=Reads.OURS)


def known_functions(measure: EngineMoments, declared: Declared) -> list[EngineFunction]:
    """Return the functions with known means; biases among them have the parameters of the point."""
    return [
        bias_at(measure, declared.moving[j])
        if j in declared.moving
        else EngineFunction(_column(name), reads=Reads.OURS)
        for j, name in enumerate(declared.function_columns)
    ]


def moved_mean(measure: EngineMoments, k: int) -> Floats:
    r"""Return :math:`\sum_i c_i r_i\,\partial\omega_k/\partial v`, by a query for each part; 0 except in theta."""
    model, point, moved = measure.model, measure.point, np.zeros(len(measure.coordinates))
    bias, place = bias_at(measure, k), model.places[k]
    omega, *means = measure.mean([bias, *(_times(bias, t) for t in point.gradient(k))])
    slope = model.families[k].offset_gradient(point.theta[place])
    moved[measure.coordinates.theta][place] = measure.n * (np.array(means) + omega * slope)
    return moved


def _column(name: str) -> Callable[[Part], nw.Expr]:
    return lambda part: nw.col(name)


def _times(function: EngineFunction, factor: nw.Expr) -> EngineFunction:
    return EngineFunction(lambda part: function(part) * factor, reads=Reads.OURS)
