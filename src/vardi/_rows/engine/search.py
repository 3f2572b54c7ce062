"""Order statistics of rows that stay in their engine: brackets are narrowed, a few dozen points at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.part import PREFIX, Change, Part, with_columns
from vardi._inputs.engine.queries import aggregated, with_interval
from vardi._types import Floats
from vardi.biases._expressions.targets import literal

POINTS = 32  # at which a query counts, for each quantile sought
BIN, VALUE, MASS = f"{PREFIX}bin", f"{PREFIX}value", f"{PREFIX}mass"


def first_reaching(
    parts: Sequence[Part],
    value: Callable[[Part], nw.Expr],
    mass: Callable[[Part], nw.Expr],
    targets: Floats,
    change: Change | None = None,
) -> Floats:
    """Return for each target the smallest value up to which the rows have that mass, or else the largest value.

    All targets are sought at once: in each round one query sums the mass between points of all brackets, and another
    finds the ends of the brackets that are left.
    """
    low, high = np.full(len(targets), -np.inf), np.full(len(targets), np.inf)
    smallest, largest = _ends(parts, value, low[:1], high[:1], change)
    found = np.full(len(targets), largest[0])
    smallest, largest = np.repeat(smallest, len(targets)), np.repeat(largest, len(targets))
    open_ = np.flatnonzero(smallest < largest)
    while len(open_):
        points = np.unique(np.concatenate([np.linspace(smallest[j], largest[j], POINTS) for j in open_]))
        below = np.cumsum(masses_between(parts, value, mass, points, change)[:-1])
        place = np.searchsorted(below, targets[open_])
        beyond = place >= len(points)
        found[open_[beyond]] = largest[open_[beyond]]
        open_, place = open_[~beyond], place[~beyond]
        low[open_] = np.where(place > 0, points[np.maximum(place - 1, 0)], -np.inf)
        high[open_] = points[place]
        smallest[open_], largest[open_] = _ends(parts, value, low[open_], high[open_], change)
        closed = smallest[open_] == largest[open_]
        found[open_[closed]] = smallest[open_[closed]]
        open_ = open_[~closed]
    return found


def masses_between(
    parts: Sequence[Part],
    value: Callable[[Part], nw.Expr],
    mass: Callable[[Part], nw.Expr],
    edges: Floats,
    change: Change | None = None,
) -> Floats:
    """Return the mass of rows in (.., e_0], (e_0, e_1], ..., beyond the last of increasing edges."""
    found = np.zeros(len(edges) + 1)
    for part in parts:
        answer = part.ask(partial(_summed, change, value(part), mass(part), edges))
        places = answer.get_column(BIN).to_numpy().astype(np.int64)
        np.add.at(found, places, answer.get_column(MASS).to_numpy().astype(np.float64))
    return found


def _summed(
    change: Change | None, x: nw.Expr, mass: nw.Expr, edges: Floats, frame: nw.LazyFrame[Any]
) -> nw.LazyFrame[Any]:
    changed = frame if change is None else change(frame)
    return aggregated(
        with_interval(changed, BIN, x, edges).with_columns(**{MASS: mass}), [BIN], {MASS: Aggregate(MASS)}
    )


def _ends(
    parts: Sequence[Part],
    value: Callable[[Part], nw.Expr],
    low: Floats,
    high: Floats,
    change: Change | None,
) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value in each bracket (low, high], which holds at least one."""
    smallest, largest = np.full(len(low), np.inf), np.full(len(low), -np.inf)
    x = nw.col(VALUE)
    asked: dict[str, Aggregate] = {}
    for j, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        inside = x
        if np.isfinite(a) or np.isfinite(b):
            above, below = x > literal(a), x <= literal(b)
            is_in = below if not np.isfinite(a) else above if not np.isfinite(b) else above & below
            inside = nw.when(is_in).then(x)
        asked |= {f"a_{j}": Aggregate(inside, "min"), f"b_{j}": Aggregate(inside, "max")}
    for part in parts:
        row = part.aggregates(asked, change, with_columns({VALUE: value(part)}))
        for j in range(len(low)):
            if row[f"a_{j}"] is not None and row[f"a_{j}"] == row[f"a_{j}"]:  # pandas gives NaN if none is inside
                smallest[j] = min(smallest[j], row[f"a_{j}"])
                largest[j] = max(largest[j], row[f"b_{j}"])
    return smallest, largest
