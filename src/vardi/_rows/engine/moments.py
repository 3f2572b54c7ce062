r"""Moments and deviations of functions at a solution, asked of an engine.

.. math::

    \eta = \frac1n \sum_i c_i f_i / S_i,\qquad a = \sum_i c_i x_i (f_i - \eta) / S_i,\qquad
    \phi_i = (f_i - \eta)/S_i + q_i'b,

with :math:`q_i` equal to :math:`x_i` minus the gradient of the own bias in theta. A mean takes one query for each part,
a the second, the covariance the third.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.part import PREFIX, Change, Part, with_columns
from vardi._rows.contract import Coordinates, Deviations, Evenness, Means, Moments
from vardi._rows.engine.functions import ONE, ZERO, EngineFunction, EngineValues, Reads
from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.point import EnginePoint
from vardi._rows.engine.united import can_unite, united
from vardi._rows.engine.units import evenness_over_clusters, sums_over_units
from vardi._rows.units import Units
from vardi._rows.variance import ALIKE, BIN, KINDS, NOTHING, Spread, factors_of, hill, spread_of_samples, unit_of
from vardi._types import Floats
from vardi.errors._refusals import not_finite

#: Frames that are asked, and functions of their rows.
Joined: TypeAlias = tuple[Sequence[Part], tuple[EngineFunction, ...]]

VALUE = f"{PREFIX}value_{{}}"
DEVIATION = f"{PREFIX}deviation_{{}}"
LOG, PLACE = f"{PREFIX}log", f"{PREFIX}place"
JOINED = 8  # unions of frames that are kept
TOGETHER = 16  # estimates whose covariances are asked for at once
LARGE = 2.0**200  # deviations whose fourth powers, and sums of these, do not overflow


class EngineMoments:
    """Frames at a point at which the weights 1 / S have mean 1.

    Parameters
    ----------
    model : EngineModel
        The frames, the families and what is known.
    v : ndarray of shape (d,)
        The point.
    """

    recorded_by: tuple[str, ...] = ()  # the samples in question, if not all

    def __init__(self, model: EngineModel, v: Floats) -> None:
        self.model, self.point = model, EnginePoint(model, v)
        self.parts, self.sizes, self.n = model.parts, model.sizes, model.n
        self.dependence = model.dependence
        self._joined: dict[tuple[EngineFunction, ...], Joined] = {}
        self._last: tuple[EngineValues, Spread, Floats, bool] | None = None
        self._last_units: tuple[EngineValues, Units, Floats] | None = None

    @property
    def whole(self) -> EngineMoments:
        """The frames of all samples, on which influence values are defined: these."""
        return self

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

    def joined(self, influence: EngineValues) -> tuple[Sequence[Part], EngineValues]:
        """Return many frames as one, and influence values of its rows; as they are where they cannot be joined."""
        parts, functions = self.together(influence.functions)
        return parts, replace(influence, functions=functions)

    # the basis for estimates

    def mean(self, functions: Sequence[EngineFunction]) -> Floats:
        """Return eta of functions; the values of those with a name must be finite."""
        return self.moments(functions).total / self.n

    def means(self, functions: Sequence[EngineFunction]) -> Means:
        """Return eta, and whether functions are shares, with the query for the means."""
        found = self._totals(functions, shares=True)
        return Means(found[0] / self.n, found[1], found[2], self.n)

    def holds(self, functions: Sequence[EngineFunction], j: int) -> EngineFunction:
        """Return the indicator of the rows that a share counts: the share itself."""
        return functions[j]

    def range(self, functions: Sequence[EngineFunction], j: int) -> tuple[float, float]:
        """Return the smallest and the largest value of a function."""
        parts, (function,) = self.together([functions[j]])
        asked = [
            part.aggregates({"low": Aggregate(f, "min"), "high": Aggregate(f, "max")}, self.point)
            for part, f in ((part, function(part)) for part in parts)
        ]
        return min(float(one["low"]) for one in asked), max(float(one["high"]) for one in asked)

    @cached_property
    def evenness(self) -> Evenness:
        """How evenly the weights are spread over all rows, or clusters of them."""
        return self.evenness_of(ONE)

    @property
    def in_clusters(self) -> bool:
        """Whether rows lie in clusters."""
        return self.dependence.clusters is not None

    def evenness_of(self, holds: EngineFunction) -> Evenness:
        """Return how evenly the weights are spread over some rows, or clusters of them."""
        if self.dependence.clusters:
            return evenness_over_clusters(self, self.dependence.clusters, holds)
        found, r = Evenness(0.0, 0.0, 0.0), self.point.weight
        parts, (holds,) = self.together([holds])
        for part in parts:
            mine = holds(part) * r
            asked = {"mass": part.times_count(mine), "squares": part.times_count(mine * r)}
            sums = {name: Aggregate(term) for name, term in asked.items()} | {"largest": Aggregate(mine, "max")}
            found += Evenness(**part.aggregates(sums, self.point))
        return found

    def among(self, holds: EngineFunction, base: EngineFunction) -> tuple[float, float, Evenness] | None:
        """Return how many rows of a base meet a condition and do not, and its weights; None if others meet it, too."""
        total, evenness, r = np.zeros(3), Evenness(0.0, 0.0, 0.0), self.point.weight
        for part in self.parts:
            mine, inside = part.times_count(holds(part)), base(part)
            asked = {
                "beyond": Aggregate(mine * (1.0 - inside)),
                "events": Aggregate(mine * inside),
                "rows": Aggregate(part.times_count(inside)),
                "mass": Aggregate(part.times_count(inside * r)),
                "squares": Aggregate(part.times_count(inside * r * r)),
                "largest": Aggregate(inside * r, "max"),
            }
            found = part.aggregates(asked, self.point)
            total += [found["beyond"], found["events"], found["rows"]]
            evenness += Evenness(*(float(found[name]) for name in ("mass", "squares", "largest")))
        beyond, events, rows = total.tolist()
        if not beyond and self.dependence.clusters:
            evenness = evenness_over_clusters(self, self.dependence.clusters, base)
        return None if beyond else (events, rows - events, evenness)

    def against(self, functions: Sequence[EngineFunction], eta: Floats) -> Floats:
        """Return a = sum_i c_i x_i (f_i - eta) / S_i, of shape (d, m)."""
        return self.moments(functions, eta).against

    def influence(self, functions: Sequence[EngineFunction], eta: Floats, b: Floats) -> EngineValues:
        """Return phi_i = (f_i - eta) / S_i + q_i'b, to be computed where it is summed."""
        return EngineValues(tuple(functions), np.eye(len(functions)), eta, b)

    def covariance(self, influence: EngineValues) -> Floats:
        """Return the covariance of estimates, with several queries if they are more than one query can take."""
        m = len(influence.eta)
        if m <= TOGETHER:
            return self.spread(influence).covariance
        found, pieces = np.zeros((m, m)), np.array_split(np.arange(m), -(-2 * m // TOGETHER))
        for one, other in combinations(pieces, 2):
            both = np.concatenate([one, other])
            found[np.ix_(both, both)] = self.spread(influence[:, both]).covariance
        return found

    def spread(self, influence: EngineValues, *, joint: bool = True) -> Spread:
        r"""Return the covariance of estimates, and what it rests on.

        .. math::

            V = \sum_k \frac{n_k}{n_k - 1}\,\frac{1}{n^2} \sum_{i \in D_k} c_i (\phi_i - \bar\phi_k)(\phi_i -
            \bar\phi_k)'.

        A sample of a single row has no deviation from its own mean; there :math:`\bar\phi_k` is the mean under the
        fitted law of the sample, and the factor is 1. If fourth powers may over- or underflow, the query is repeated
        in other units. Covariances that are not asked for are NaN: each takes a sum.
        Rows that depend on one another are summed by cluster, or by time.
        """
        if self.dependence.in_units:
            units, sums = self._over_units(influence)
            return units.spread(sums, self.n)
        if self._last is None or self._last[0] is not influence or self._last[3] < joint:
            scale = np.ones(len(influence.eta))
            found, centres = self._from_means(influence, joint=joint)
            largest = np.abs(np.where(np.isfinite(found.low), [found.low, found.high], 0.0)).max(axis=(0, 1))
            if ((largest > LARGE) | ((largest > 0) & (largest < 1.0 / LARGE))).any():
                scale = unit_of(largest)
                found, centres = self._from_means(influence @ np.diag(1.0 / scale), joint=joint)
            self._last = influence, self.spread_of(found, scale), (centres + self._means(found)) * scale, joint
        return self._last[1]

    def tail(self, influence: EngineValues, j: int) -> float:
        """Return the tail index of the influence values of an estimate, with queries for each part."""
        if self.dependence.in_units:
            units, sums = self._over_units(influence)
            return units.tail(sums[:, [j]])
        spread = self.spread(influence, joint=False)
        assert self._last is not None
        centres, unit = self._last[2][:, [j]], float(spread.scale[j]) * self.n
        unit *= math.sqrt(spread.squares[j] / self.n)
        found: dict[int, Floats] = {}
        parts, influence = self.joined(influence)
        for part in parts:
            change = self.with_deviations(part, influence[:, [j]], centres)
            least = math.exp(BIN * NOTHING)
            size = nw.col(DEVIATION.format(0)).abs() / unit
            size = size / nw.max_horizontal(self.point.weight, nw.lit(1.0)) if self._has_few_weights else size
            logs = nw.when(size > least).then(size).otherwise(nw.lit(least)).log()
            placed = with_columns({LOG: logs})
            binned = with_columns({PLACE: (nw.col(LOG) / BIN).floor().cast(nw.Int64)})
            asked = {"rows": part.rows, "logs": Aggregate(part.times_count(nw.col(LOG)))}
            for _, row in part.by_sample(asked, self.point, change, placed, binned, key=PLACE):
                found[row[PLACE]] = found.get(row[PLACE], np.zeros(2)) + np.array([row["rows"], row["logs"]], float)
        sums = np.array(list(found.values()))
        return hill(np.array(list(found), float), sums[:, 0], sums[:, 1])

    def _over_units(self, influence: EngineValues) -> tuple[Units, Floats]:
        """Return units of rows that depend on one another, and sums of influence values over them."""
        if self._last_units is None or self._last_units[0] is not influence:
            centres = self._centres(influence)
            changes = [self.with_deviations(part, influence, centres) for part in self.parts]
            found = sums_over_units(self, changes, [DEVIATION.format(j) for j in range(len(influence.eta))])
            self._last_units = influence, found.units, found.totals
        return self._last_units[1:]

    @cached_property
    def _has_few_weights(self) -> bool:
        """Whether weights have only a few values, which do not make a tail: see ``WeightedRows.tail``."""
        kinds = [
            part.aggregates({"kinds": Aggregate(self.point.weight, "n_unique")}, self.point)["kinds"]
            for part in self.parts
        ]
        return bool(sum(kinds) <= min(KINDS, self.n / ALIKE))

    def _from_means(self, influence: EngineValues, *, joint: bool) -> tuple[Deviations, Floats]:
        """Return sums of deviations from centres, the means of the samples up to rounding, and the centres."""
        centres = self._centres(influence)
        return self.deviations_of(influence, centres, joint=joint), centres

    def _centres(self, influence: EngineValues) -> Floats:
        """Return the means under the fitted laws, up to rounding; those of single rows exactly."""
        single = (self.sizes > 0) & (self.sizes < 2)
        centres = influence.b[self.coordinates.u].copy()
        if single.any():
            centres[single] = self.law_means(influence)[single]
        return centres

    def _means(self, found: Deviations) -> Floats:
        """Return the means of deviations within samples; zero for a single row, which keeps its centre."""
        return np.where((self.sizes >= 2)[:, None], found.totals / np.maximum(self.sizes, 1.0)[:, None], 0.0)

    def spread_of(self, found: Deviations, scale: Floats) -> Spread:
        """Return a spread in units of a scale, from sums of deviations in these units."""
        sizes, mean = self.sizes, self._means(found)
        size = np.maximum(sizes, 1.0)
        products = found.products - size[:, None, None] * mean[:, :, None] * mean[:, None, :]
        squares = np.diagonal(found.products, axis1=1, axis2=2)
        fourths = found.fourths - 4.0 * mean * found.cubes + 6.0 * mean**2 * squares - 3.0 * size[:, None] * mean**4
        factors = factors_of(sizes) * self.dependence.remaining
        covariance = np.tensordot(factors / self.n**2, products, axes=1)
        within = np.maximum(np.diagonal(products, axis1=1, axis2=2), 0.0) / self.n**2
        with np.errstate(over="ignore"):
            covariance = covariance * np.outer(scale, scale)
        total = np.maximum(fourths, 0.0).sum(axis=0) / self.n**4
        return spread_of_samples(covariance, scale, within, total, sizes, factors)

    def squares(self, functions: Sequence[EngineFunction], eta: Floats) -> Floats:
        r"""Return :math:`\sum_i c_i (f_i - \eta)(f_i - \eta)' / S_i^2`, of shape (m, m)."""
        m = len(functions)
        upper = np.triu_indices(m)
        summed = np.zeros(len(upper[0]))
        parts, functions = self.together(functions)
        for part in parts:
            columns = {VALUE.format(j): (f(part) - float(eta[j])) * self.point.weight for j, f in enumerate(functions)}
            g = [nw.col(name) for name in columns]
            terms = [part.times_count(g[a] * g[b]) for a, b in zip(*upper, strict=True)]
            summed += part.sums(terms, self.point, with_columns(columns))
        found = np.zeros((m, m))
        found[upper] = summed
        return found + np.triu(found, 1).T

    # the contract

    def moments(self, functions: Sequence[EngineFunction], eta: Floats | None = None) -> Moments:
        """Return sums of functions, or of their deviations from eta against x; a query for each part."""
        m, d = len(functions), len(self.coordinates)
        if eta is None:
            return Moments(self._totals(functions)[0], np.zeros((d, m)))
        parts, functions = self.together(functions)
        asked = [(part, *self.terms(part, functions, eta)) for part in parts]
        moments = self.placed(np.sum([part.sums(terms, self.point, values) for part, terms, values in asked], axis=0))
        return Moments(moments.total + eta * self.n, moments.against)

    def terms(
        self, part: Part, functions: Sequence[EngineFunction], eta: Floats
    ) -> tuple[list[nw.Expr], Change | None]:
        """Return the terms to sum over a part for the moments of functions minus eta, and the columns they need."""
        values = {
            VALUE.format(j): part.times_count((f(part) - float(eta[j])) * self.point.weight)
            for j, f in enumerate(functions)
        }
        x = [self.point.x(i) for i in self.point.active.tolist()]
        x += [self.point.weight] if self.coordinates.uncertain else []
        terms = [nw.col(name) for name in values]
        return terms + [nw.col(name) * one for one in x for name in values], with_columns(values)

    def placed(self, sums: Floats) -> Moments:
        """Return the sums of the terms as moments, each in its place; linear in the sums."""
        active = self.point.active
        rows = 1 + len(active) + bool(self.coordinates.uncertain)
        found = sums.reshape(rows, -1)
        against = np.zeros((len(self.coordinates), found.shape[1]))
        against[active] = found[1 : 1 + len(active)]
        against[self.coordinates.epsilon] = np.outer(self.point.weight_of_epsilon, found[-1])
        return Moments(found[0], against)

    def deviations_of(self, influence: EngineValues, centres: Floats, *, joint: bool = True) -> Deviations:
        """Return sums of powers and, if asked for (else NaN), of products of influence values minus centres."""
        K, m = self.coordinates.samples, len(influence.eta)
        upper = [(i, j) for i in range(m) for j in range(i, m if joint else i + 1)]
        totals, products = np.zeros((K, m)), np.zeros((K, m, m))
        cubes, fourths = np.zeros((K, m)), np.zeros((K, m))
        low, high = np.full((K, m), np.inf), np.full((K, m), -np.inf)
        parts, influence = self.joined(influence)
        for part in parts:
            change = self.with_deviations(part, influence, centres)
            d = [nw.col(DEVIATION.format(j)) for j in range(m)]
            terms = {f"t_{j}": one for j, one in enumerate(d)}
            terms |= {f"p_{i}_{j}": d[i] * d[j] for i, j in upper}
            terms |= {f"c_{j}": one * one * one for j, one in enumerate(d)}
            terms |= {f"f_{j}": one * one * one * one for j, one in enumerate(d)}
            queries = {name: Aggregate(part.times_count(term)) for name, term in terms.items()}
            queries |= {f"low_{j}": Aggregate(DEVIATION.format(j), "min") for j in range(m)}
            queries |= {f"high_{j}": Aggregate(DEVIATION.format(j), "max") for j in range(m)}
            for code, row in part.by_sample(queries, self.point, change):
                totals[code] += [row[f"t_{j}"] for j in range(m)]
                cubes[code] += [row[f"c_{j}"] for j in range(m)]
                fourths[code] += [row[f"f_{j}"] for j in range(m)]
                low[code] = np.minimum(low[code], [row[f"low_{j}"] for j in range(m)])
                high[code] = np.maximum(high[code], [row[f"high_{j}"] for j in range(m)])
                for i, j in upper:
                    products[code, i, j] += row[f"p_{i}_{j}"]
        if not joint:
            products[:, ~np.eye(m, dtype=bool)] = np.nan
        products = np.triu(products) + np.transpose(np.triu(products, 1), (0, 2, 1))
        return Deviations(totals, products, cubes, fourths, low, high)

    def law_means(self, influence: EngineValues) -> Floats:
        """Return the mean of phi under the fitted law of each sample, sum_i c_i p_ik phi_i / n_k, of shape (K, m)."""
        K, m = self.coordinates.samples, len(influence.eta)
        sampled, found = self.point.sampled.tolist(), np.zeros((K, m))
        parts, influence = self.joined(influence)
        for part in parts:
            change = self.with_deviations(part, influence, np.zeros((K, m)))
            d = [part.times_count(nw.col(DEVIATION.format(j))) for j in range(m)]
            sums = part.sums([one * self.point.x(k) for k in sampled for one in d], self.point, change)
            found[sampled] += sums.reshape(-1, m)
        return found / np.where(self.sizes > 0, self.sizes, 1.0)[:, None]

    def with_deviations(self, part: Part, influence: EngineValues, centres: Floats) -> Change | None:
        """Return the step that adds phi minus a centre for each sample to a frame that has the columns of the point."""
        columns = {}
        for j in range(len(influence.eta)):
            phi = self._phi(part, influence, j)
            for code in part.codes.values():
                if centres[code, j]:
                    mine = part.only(code, nw.lit(float(centres[code, j])))
                    assert mine is not None
                    phi = phi - mine
            columns[DEVIATION.format(j)] = phi
        return with_columns(columns)

    def _phi(self, part: Part, influence: EngineValues, j: int) -> nw.Expr:
        point, b = self.point, influence.b[:, j]
        constant = float(point.weight_of_epsilon @ b[self.coordinates.epsilon]) - float(influence.eta[j])
        used = [a for a in np.flatnonzero(influence.coefficients[:, j]).tolist() if influence.functions[a] is not ZERO]
        terms = [_times(influence.functions[a](part), float(influence.coefficients[a, j])) for a in used]
        f = total([*terms, nw.lit(constant)]) if terms else nw.lit(constant)
        moved = [point.x(i) * float(b[i]) for i in point.active.tolist() if b[i]]
        own = point.own(part, b)
        phi = total([f * point.weight, *moved])
        return phi if own is None else phi - own

    def _totals(self, functions: Sequence[EngineFunction], *, shares: bool = False) -> Floats:
        """Return sum_i c_i f_i / S_i, or refuse missing or infinite values; if asked, with what identifies shares."""
        named = [j for j, function in enumerate(functions) if function.name is not None]
        m, kinds = len(functions), 3 if shares else 1
        found = np.zeros(kinds * m + len(named))
        parts, functions = self.together(functions)
        for part in parts:
            values = [f(part) for f in functions]
            terms = [part.times_count(f * self.point.weight) for f in values]
            if shares:
                terms += [(f * (1.0 - f)).abs() for f in values]
                terms += [part.times_count((f != 0.0).cast(nw.Float64)) for f in values]
            found += part.sums([*terms, *(is_endless(values[j]) for j in named)], self.point)
        for j, endless in zip(named, found[kinds * m :], strict=True):
            if endless:
                raise not_finite(int(endless), functions[j].name)
        return found[: kinds * m].reshape(kinds, m)


def total(terms: Sequence[nw.Expr]) -> nw.Expr:
    """Return a sum of terms, nested as little as possible: engines limit the depth of an expression."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return total(terms[:half]) + total(terms[half:])


def _column(name: str, function: EngineFunction) -> EngineFunction:
    return EngineFunction(lambda part: nw.col(name), function.name, Reads.OURS)


def _times(term: nw.Expr, factor: float) -> nw.Expr:
    return term if factor == 1.0 else term * factor


def is_endless(f: nw.Expr) -> nw.Expr:
    """Return 1 where a value is not finite, else 0; a null, as Spark gives for a division by zero, is not."""
    return nw.when(f.abs() < float("inf")).then(nw.lit(0.0)).otherwise(nw.lit(1.0))
