"""Distributions of rows that stay in their engine: one GROUP BY of fine bins for each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate, How
from vardi._inputs.engine.distinct import rows_by_value
from vardi._inputs.engine.part import PREFIX, Groups, Part, with_columns
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.moments import EngineMoments
from vardi._types import Floats, Integers

FINE = 400  # bins per factor of e in the weight
LEAST = 800  # minus the log of a weight smaller than any other
BINS = 1000  # of a column, on either side of its centre
BIN, COUNTS, MASS, VALUE = (f"{PREFIX}{name}" for name in ("bin", "counts", "mass", "value"))
SUMMED: dict[str, How] = {VALUE: "max", COUNTS: "sum", MASS: "sum"}


def weights_in_bins(at: EngineMoments) -> tuple[Floats, Integers, Floats]:
    """Return mean weight, sample and count of groups of rows: those of a sample with nearly equal weights."""
    bins = ((LEAST + at.point.weight.log()) * FINE).floor().cast(nw.Int64)
    found = [_binned(at, part, nw.lit(0.0), bins) for part in at.together()[0]]
    counts, mass = (np.concatenate([one.numbers(name) for one in found]) for name in (COUNTS, MASS))
    return mass / counts, np.concatenate([one.source for one in found]), counts


def values_in_bins(
    at: EngineMoments, function: EngineFunction, centre: float, scale: float
) -> tuple[Floats, Floats, Floats]:
    r"""Return the largest value, the count and the weight of the rows in each bin of a function, in its order.

    Bins are of equal width in :math:`z / (1 + |z|)`, where z is the distance from the centre: fine where most rows are,
    and without ends. At the largest value of a bin the cumulative sums give the distribution function.
    """
    z = (nw.col(VALUE) - centre) / scale
    bins = ((z / (z.abs() + 1.0) + 1.0) * BINS).floor().cast(nw.Int64)
    parts, (function,) = at.together([function])
    found = np.concatenate([_binned(at, part, function(part), bins).matrix([BIN, *SUMMED]) for part in parts])
    places, place = np.unique(found[:, 0], return_inverse=True)
    x, sums = np.full(len(places), -np.inf), np.zeros((len(places), 2))
    np.maximum.at(x, place, found[:, 1])
    np.add.at(sums, place, found[:, 2:])
    return x, sums[:, 0], sums[:, 1]


def _binned(at: EngineMoments, part: Part, value: nw.Expr, bins: nw.Expr) -> Groups:
    """Query largest value, count and weight of the rows of each sample in each bin."""
    columns = {VALUE: value, COUNTS: part.count, MASS: part.times_count(at.point.weight)}
    asked = {name: Aggregate(name, how) for name, how in SUMMED.items()}
    return part.groups(asked, at.point, with_columns(columns), with_columns({BIN: bins}), key=BIN)


def rows_by_text(parts: Sequence[Part], column: str, most: int) -> Mapping[str | None, float] | None:
    """Return how many rows have each text, or None for missing, with a query for each part.

    Return None if a column has more texts than ``most``: then it names units rather than categories.
    """
    text = nw.col(column).cast(nw.String)
    return rows_by_value([part.map(lambda frame: frame.with_columns(text)) for part in parts], column, most)
