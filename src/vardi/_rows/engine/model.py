"""Parameters and known moments of rows in an engine: families whose features are columns of frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import PREFIX, with_columns
from vardi._rows.families import BiasFamily, Linear, Logistic, model_on
from vardi._rows.point import KnownMoments, Model
from vardi._rows.queries import Queries
from vardi._types import Floats
from vardi.biases import ParametricBias
from vardi.biases._expressions.families import Cells, ExpressionFamily

if TYPE_CHECKING:
    from vardi._inputs.engine.distinct import DistinctRows
    from vardi._inputs.engine.pool import LazyPool

STANDARD = "__vardi_z_{}"


def families_on(families: Mapping[int, BiasFamily], features: Floats) -> dict[int, BiasFamily]:
    """Return families on rows in memory, given all their features side by side, in the user's units."""
    found: dict[int, BiasFamily] = {}
    start = 0
    for k, family in families.items():
        assert isinstance(family, Linear | Logistic)  # of expressions
        end = start + len(family.z)
        found[k] = family.on(features[:, start:end])
        start = end
    return found


def model_of(pool: LazyPool, known: KnownMoments) -> tuple[Queries, Model]:
    """Return the frames and their model; features, if any, are scaled to mean 0 and deviation 1, by one query each."""
    features = pool.declared.features
    names = [name for columns in features.values() for name in columns]
    mean, deviation = _spread(pool, names)
    families: dict[int, BiasFamily] = {}
    standard, start = {}, 0
    for k, columns in features.items():
        bias, place = pool.biases[k], slice(start, start + len(columns))
        assert isinstance(bias, ParametricBias)
        if _is_of_indicators(bias):
            mean[place], deviation[place] = 0.0, 1.0
        z = tuple(STANDARD.format(j) for j in range(place.start, place.stop))
        families[k] = model_on(bias, z, mean[place], deviation[place], str(pool.names[k]))
        for j, name in zip(range(place.start, place.stop), columns, strict=True):
            standard[STANDARD.format(j)] = (nw.col(name) - float(mean[j])) / float(deviation[j])
        start = place.stop
    change = with_columns(standard)
    parts = pool.parts if change is None else tuple(part.map(change) for part in pool.parts)
    return Queries(parts, pool.sizes, pool.dependence), Model(pool.sizes, families, known)


def _is_of_indicators(bias: ParametricBias) -> bool:
    """Return whether the features of a family are 0 or 1, and are left so."""
    return isinstance(bias.family, Cells) or (isinstance(bias.family, ExpressionFamily) and bias.family.kind == "steps")


def _spread(pool: LazyPool, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return mean and deviation of columns over the pool; approximate ones do, since they only set theta's scale."""
    if not names:
        return np.empty(0), np.empty(0)
    places = [list(pool.declared.columns).index(name) for name in names]
    if pool.distinct is not None:
        return _spread_of(pool.distinct, places)
    middle = (pool.lows[places] + pool.highs[places]) / 2.0  # the centre about which squares lose the fewest digits
    total = np.zeros(2 * len(names))
    for part in pool.parts:
        columns = {f"{PREFIX}off_{j}": nw.col(name) - float(middle[j]) for j, name in enumerate(names)}
        off = [nw.col(name) for name in columns]
        terms = [part.times_count(one) for one in off] + [part.times_count(one * one) for one in off]
        total += part.sums(terms, with_columns(columns))
    mean, squares = total.reshape(2, -1) / pool.sizes.sum()
    return mean + middle, np.sqrt(np.maximum(squares - mean**2, 0.0))


def _spread_of(rows: DistinctRows, places: Sequence[int]) -> tuple[Floats, Floats]:
    columns = rows.matrix[:, places]
    mean = np.average(columns, axis=0, weights=rows.counts)
    return mean, np.sqrt(np.average((columns - mean) ** 2, axis=0, weights=rows.counts))
