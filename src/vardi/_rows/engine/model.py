"""Parameters and known moments of rows in an engine: families whose features are columns of frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from vardi._inputs.engine.dependence import EngineDependence
from vardi._inputs.engine.part import PREFIX, Part, with_columns
from vardi._rows.contract import Coordinates
from vardi._rows.families import BiasFamily, Linear, Logistic, model_on
from vardi._rows.point import KnownMoments, Model
from vardi._types import Floats
from vardi.biases import ParametricBias
from vardi.biases._expressions.cells import Cells
from vardi.biases._expressions.families import Family

if TYPE_CHECKING:
    from vardi._inputs.engine.distinct import DistinctRows
    from vardi._inputs.engine.pool import LazyPool

STANDARD = "__vardi_z_{}"


@dataclass(frozen=True)
class EngineModel:
    """Frames, and which parts of the model depend on which coordinates of a point.

    Attributes
    ----------
    parts : tuple of Part
        The frames, with features of mean 0 and standard deviation 1 as columns.
    sizes : ndarray of shape (K,)
        How many rows the rows of each sample stand for.
    families : mapping from int to BiasFamily
        The family of each bias that has one, with the names of these columns.
    known : KnownMoments
        What is known of the population, with the names of columns.
    dependence : EngineDependence
        How rows depend on one another.
    """

    parts: tuple[Part, ...]
    sizes: Floats
    families: Mapping[int, BiasFamily]
    known: KnownMoments
    dependence: EngineDependence

    @cached_property
    def model(self) -> Model:
        """The coordinates, and what depends on them."""
        return Model(self.sizes, self.families, self.known)

    @property
    def places(self) -> dict[int, slice]:
        """The place of each bias's parameters among all."""
        return self.model.places

    @property
    def coordinates(self) -> Coordinates:
        """The layout of a point."""
        return self.model.coordinates

    @property
    def n(self) -> float:
        """The number of rows, by their counts."""
        return float(self.sizes.sum())

    def families_on(self, features: Floats) -> dict[int, Linear | Logistic]:
        """Return the families on rows in memory, given all features side by side, in the user's units."""
        found, start = {}, 0
        for k, family in self.families.items():
            assert isinstance(family, Linear | Logistic)  # of expressions
            end = start + len(family.z)
            found[k] = family.on(features[:, start:end])
            start = end
        return found

    @classmethod
    def of(cls, pool: LazyPool, known: KnownMoments) -> EngineModel:
        """Scale the features of a pool, if any, to mean 0 and deviation 1, one query for each part."""
        features = pool.declared.features
        names = [name for columns in features.values() for name in columns]
        mean, deviation = _spread(pool, names)
        families, standard, start = {}, {}, 0
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
        return cls(parts, pool.sizes, families, known, pool.dependence)


def _is_of_indicators(bias: ParametricBias) -> bool:
    """Return whether the features of a family are 0 or 1, and are left so."""
    return isinstance(bias.family, Cells) or (isinstance(bias.family, Family) and bias.family.kind == "steps")


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
