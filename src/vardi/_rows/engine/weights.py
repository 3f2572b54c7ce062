"""Weights as a column of the user's frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import PREFIX, Part, with_columns
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.moments import EngineMoments
from vardi._types import Floats


def pooled_means(at: EngineMoments, functions: Sequence[EngineFunction]) -> Floats:
    """Return the means of functions over the pool as it came, without weights."""
    total = np.zeros(len(functions))
    parts, functions = at.together(functions)
    for part in parts:
        columns = {f"{PREFIX}value_{j}": f(part) for j, f in enumerate(functions)}
        total += part.sums([part.times_count(nw.col(name)) for name in columns], at.point, with_columns(columns))
    return total / at.n


def with_added(
    at: EngineMoments,
    names: Sequence[str],
    values: Callable[[Part], Mapping[str, nw.Expr]],
    dropped: Sequence[Part] = (),
) -> dict[int | None, Any]:
    """Return the user's frames, still lazy, with further columns, which are zero for rows outside the fit."""
    zeros = dict.fromkeys(names, nw.lit(0.0))
    frames = {part.code: part.with_added(values(part), at.point) for part in at.parts}
    return frames | {part.code: part.with_added(zeros) for part in dropped}
