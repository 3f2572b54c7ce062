"""Distributions of rows that stay in their engine: one GROUP BY of fine bins for each part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.part import PREFIX, Part
from vardi._inputs.engine.queries import aggregated
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.moments import EngineMoments
from vardi._types import Floats, Integers

FINE = 400  # bins per factor of e in the weight
LEAST = 800  # minus the log of a weight smaller than any other
BINS = 1000  # of a column, on either side of its centre
BIN, COUNTS, MASS, VALUE = (f"{PREFIX}{name}" for name in ("bin", "counts", "mass", "value"))
ROWS = f"{PREFIX}rows"


def weights_in_bins(at: EngineMoments) -> tuple[Floats, Integers, Floats]:
    """Return mean weight, sample and count of groups of rows: those of a sample with nearly equal weights."""
    bins = ((LEAST + at.point.weight.log()) * FINE).floor().cast(nw.Int64)
    found = [
        (code, row) for part in at.together()[0] for code, row in _asked(at, part, nw.lit(0.0), bins, by_sample=True)
    ]
    counts, mass = (np.array([row[name] for _, row in found], np.float64) for name in (COUNTS, MASS))
    return mass / counts, np.array([code for code, _ in found], np.int64), counts


def values_in_bins(
    at: EngineMoments, function: EngineFunction, centre: float, scale: float
) -> tuple[Floats, Floats, Floats]:
    r"""Return the largest value, the count and the weight of the rows in each bin of a function, in its order.

    Bins are of equal width in :math:`z / (1 + |z|)`, where z is the distance from the centre: fine where most rows are,
    and without ends. At the largest value of a bin the cumulative sums give the distribution function.
    """
    z = (nw.col(VALUE) - centre) / scale
    bins = ((z / (z.abs() + 1.0) + 1.0) * BINS).floor().cast(nw.Int64)
    total: dict[int, list[float]] = defaultdict(lambda: [-np.inf, 0.0, 0.0])
    parts, (function,) = at.together([function])
    for part in parts:
        for _, row in _asked(at, part, function(part), bins, by_sample=False):
            known = total[row[BIN]]
            known[:] = max(known[0], row[VALUE]), known[1] + row[COUNTS], known[2] + row[MASS]
    x, counts, mass = np.array([total[place] for place in sorted(total)], np.float64).T
    return x, counts, mass


def _asked(
    at: EngineMoments, part: Part, value: nw.Expr, bins: nw.Expr, *, by_sample: bool
) -> list[tuple[int, dict[str, Any]]]:
    """Query count, weight and largest value of the rows in each bin, with the position of their sample."""
    label = part.label if by_sample else None
    columns = {VALUE: value, COUNTS: part.count, MASS: part.times_count(at.point.weight)}
    asked = {VALUE: Aggregate(VALUE, "max"), COUNTS: Aggregate(COUNTS), MASS: Aggregate(MASS)}

    def query(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        weighed = at.point(frame).with_columns(**columns).with_columns(bins.alias(BIN))
        return aggregated(weighed, [*filter(None, (label, BIN))], asked)

    rows = part.ask(query).rows(named=True)
    return [(part.codes[row[label]] if label else next(iter(part.codes.values())), row) for row in rows]


def rows_by_text(parts: Sequence[Part], column: str, most: int) -> dict[str | None, float] | None:
    """Return how many rows have each text, or None for missing, with a query for each part.

    Return None if a column has more texts than ``most``: then it names units rather than categories.
    """
    found: dict[str | None, float] = defaultdict(float)
    for part in parts:
        asked = part.ask(partial(_grouped, part, column, most))
        for text, rows in zip(asked[column].to_list(), asked[ROWS].to_list(), strict=True):
            found[text] += float(rows)
        if len(found) > most:
            return None
    return dict(found)


def _grouped(part: Part, column: str, most: int, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    text = frame.with_columns(nw.col(column).cast(nw.String))
    return aggregated(text, [column], {ROWS: part.rows}, most + 1)
