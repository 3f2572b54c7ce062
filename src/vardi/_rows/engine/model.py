"""Parameters and known moments of rows in an engine: expressions instead of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from vardi._inputs.engine.dependence import EngineDependence
from vardi._inputs.engine.part import OMEGA, PREFIX, Part, with_columns
from vardi._rows.contract import Coordinates
from vardi._rows.families import Linear, Logistic, model_on
from vardi._types import Floats
from vardi.biases import ParametricBias
from vardi.biases._expressions.cells import Cells
from vardi.biases._expressions.families import Family

if TYPE_CHECKING:
    from vardi._inputs.engine.distinct import DistinctRows
    from vardi._inputs.engine.pool import LazyPool

STANDARD = "__vardi_z_{}"


@dataclass(frozen=True)
class EngineFamily:
    """A family of biases whose features are columns of frames.

    Attributes
    ----------
    model : Linear or Logistic
        The family on no rows: its names, its scale and its starts.
    columns : tuple of str
        What its parameters multiply, except the intercept, with mean 0 and standard deviation 1.
    """

    model: Linear | Logistic
    columns: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self.model.names

    @property
    def tilt(self) -> EngineFamily:
        """The exponential tilt in the same columns; the family itself if it is one."""
        return EngineFamily(self.model.tilt, self.columns) if self.curved else self

    @property
    def scale(self) -> Floats:
        """The factors that turn theta into the user's parameters."""
        return self.model.scale

    @property
    def scaled(self) -> bool:
        """Whether theta belongs to columns with standard deviation 1."""
        return self.model.scaled

    def starts(self) -> Sequence[Floats]:
        """Return starting values of theta."""
        return self.model.starts()

    def offset(self, theta: Floats) -> float:
        """Return what to add to get log omega on the user's scale."""
        return self.model.offset(theta)

    def offset_gradient(self, theta: Floats) -> Floats:
        """Return the derivatives of the offset in theta."""
        return self.model.offset_gradient(theta)

    @property
    def curved(self) -> bool:
        """Whether log omega is not linear in theta."""
        return isinstance(self.model, Logistic)

    def on(self, features: Floats) -> Linear | Logistic:
        """Return the family on rows in memory, whose features are in the units of the user's columns."""
        return replace(self.model, z=(features - self.model.mean) / self.model.deviation)

    def predictor(self, theta: Floats) -> nw.Expr:
        """Return theta'z, with the intercept."""
        slopes = theta[1:] if self.curved else theta
        terms = [nw.col(name) * float(slope) for name, slope in zip(self.columns, slopes, strict=True)]
        return sum(terms, start=nw.lit(float(theta[0]))) if self.curved else sum(terms[1:], start=terms[0])


@dataclass(frozen=True)
class EngineKnown:
    r"""Known moments :math:`g = D'h - \tau` of functions h that are columns of frames.

    Attributes
    ----------
    columns : tuple of str
        The column of each h; for a bias with parameters that of its known factor.
    directions : ndarray of shape (M, m)
        D: which combinations of the functions are used; a bias with parameters is never combined with others.
    means : ndarray of shape (m,)
        tau, their means.
    root : ndarray of shape (m, r)
        R with R R' the covariance of tau; r = 0 if tau is exact.
    moving : mapping from int to int
        Moments that are the mean of a bias with parameters, with the position of that bias.
    """

    columns: tuple[str, ...]
    directions: Floats
    means: Floats
    root: Floats
    moving: Mapping[int, int]

    @classmethod
    def none(cls) -> EngineKnown:
        """Return the value for nothing known."""
        return cls((), np.empty((0, 0)), np.empty(0), np.empty((0, 0)), {})

    def moments(self, epsilon: Floats) -> list[nw.Expr | None]:
        """Return each g - R epsilon; None for one that moves with the parameters."""
        at = self.means + (self.root @ epsilon if len(epsilon) else 0.0)
        found: list[nw.Expr | None] = []
        for j, direction in enumerate(self.directions.T):
            if j in self.moving:
                found.append(None)
                continue
            used = np.flatnonzero(direction).tolist()
            terms = [_times(nw.col(self.columns[place]), float(direction[place])) for place in used]
            found.append(sum(terms[1:], start=terms[0]) - float(at[j]))
        return found


@dataclass(frozen=True)
class EngineModel:
    """Frames, and which parts of the model depend on which coordinates of a point.

    Attributes
    ----------
    parts : tuple of Part
        The frames, with features of mean 0 and standard deviation 1 as columns.
    sizes : ndarray of shape (K,)
        How many rows the rows of each sample stand for.
    families : mapping from int to EngineFamily
        The family of each bias that has one.
    known : EngineKnown
        What is known of the population.
    dependence : EngineDependence
        How rows depend on one another.
    """

    parts: tuple[Part, ...]
    sizes: Floats
    families: Mapping[int, EngineFamily]
    known: EngineKnown
    dependence: EngineDependence

    @cached_property
    def places(self) -> dict[int, slice]:
        """The place of each bias's parameters among all."""
        ends = np.cumsum([0, *(len(family.names) for family in self.families.values())]).tolist()
        return {k: slice(a, b) for k, a, b in zip(self.families, ends[:-1], ends[1:], strict=True)}

    @cached_property
    def coordinates(self) -> Coordinates:
        """The layout of a point."""
        parameters = sum(len(family.names) for family in self.families.values())
        return Coordinates(len(self.sizes), parameters, len(self.known.means), self.known.root.shape[1])

    @property
    def n(self) -> float:
        """The number of rows, by their counts."""
        return float(self.sizes.sum())

    def shift(self, theta: Floats) -> Floats:
        """Return the offset of log omega on the user's scale, for each bias."""
        shift = np.zeros(len(self.sizes))
        for k, family in self.families.items():
            shift[k] = family.offset(theta[self.places[k]])
        return shift

    def families_on(self, features: Floats) -> dict[int, Linear | Logistic]:
        """Return the families on rows in memory, given all features side by side, in the user's units."""
        found, start = {}, 0
        for k, family in self.families.items():
            end = start + len(family.columns)
            found[k] = family.on(features[:, start:end])
            start = end
        return found

    @classmethod
    def of(cls, pool: LazyPool, known: EngineKnown | None = None) -> EngineModel:
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
            model = model_on(bias, np.empty((0, len(columns))), mean[place], deviation[place], str(pool.names[k]))
            families[k] = EngineFamily(model, tuple(STANDARD.format(j) for j in range(place.start, place.stop)))
            for j, name in zip(range(place.start, place.stop), columns, strict=True):
                standard[STANDARD.format(j)] = (nw.col(name) - float(mean[j])) / float(deviation[j])
            start = place.stop
        change = with_columns(standard)
        parts = pool.parts if change is None else tuple(part.map(change) for part in pool.parts)
        return cls(parts, pool.sizes, families, EngineKnown.none() if known is None else known, pool.dependence)


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


def omega_column(k: int) -> nw.Expr:
    """Return the known factor of a bias."""
    return nw.col(OMEGA.format(k))


def _times(column: nw.Expr, factor: float) -> nw.Expr:
    return column if factor == 1.0 else column * factor
