r"""Moments and deviations of functions at a solution, asked of an engine.

.. math::

    \eta = \frac1n \sum_i c_i f_i / S_i,\qquad a = \sum_i c_i x_i (f_i - \eta) / S_i,\qquad
    \phi_i = (f_i - \eta)/S_i + q_i'b,

with :math:`q_i` equal to :math:`x_i` less the gradient of the own bias in theta. A mean is one query for each part, a
its second, the covariance its third.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import PREFIX, Change, Part, with_columns
from vardi._rows.contract import Coordinates, Deviations, Moments
from vardi._rows.engine.functions import EngineFunction, EngineInfluence
from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.point import EnginePoint
from vardi._types import Floats
from vardi.errors._refusals import not_finite

VALUE = f"{PREFIX}value_{{}}"
DEVIATION = f"{PREFIX}deviation_{{}}"


class EngineMoments:
    """Frames at a point at which the weights 1 / S have mean 1.

    Parameters
    ----------
    model : EngineModel
        The frames, the families and what is known.
    v : ndarray of shape (d,)
        The point.
    """

    def __init__(self, model: EngineModel, v: Floats) -> None:
        self.model, self.point = model, EnginePoint(model, v)
        self.parts, self.sizes, self.n = model.parts, model.sizes, model.n
        self._last: tuple[EngineInfluence, Deviations] | None = None

    @property
    def coordinates(self) -> Coordinates:
        """How the point is laid out."""
        return self.model.coordinates

    # what estimates are made of

    def mean(self, functions: Sequence[EngineFunction]) -> Floats:
        """Return eta of functions; the values of those with a name must be finite."""
        return self.moments(functions).total / self.n

    def against(self, functions: Sequence[EngineFunction], eta: Floats) -> Floats:
        """Return a = sum_i c_i x_i (f_i - eta) / S_i, of shape (d, m)."""
        return self.moments(functions, eta).against

    def influence(self, functions: Sequence[EngineFunction], eta: Floats, b: Floats) -> EngineInfluence:
        """Return phi_i = (f_i - eta) / S_i + q_i'b, which is computed where it is summed."""
        return EngineInfluence(tuple(functions), np.eye(len(functions)), eta, b)

    def covariance(self, influence: EngineInfluence) -> Floats:
        r"""Return the covariance of estimates.

        .. math::

            V = \sum_k \frac{n_k}{n_k - 1}\,\frac{1}{n^2} \sum_{i \in D_k} c_i (\phi_i - \bar\phi_k)(\phi_i -
            \bar\phi_k)'.

        A sample of a single row has no deviation from its own mean; there :math:`\bar\phi_k` is the mean under the
        fitted law of the sample, and the factor is 1.
        """
        V = np.zeros((len(influence.eta), len(influence.eta)))
        for _, products, _, factor in self._within(influence):
            V += products * factor
        return V

    def single_rows(self, influence: EngineInfluence) -> Floats:
        """Return the share of each variance that the row farthest out of each sample carries, of shape (K, m).

        A row that stands for many is not one row: each of those has its part. After the covariance it takes no query.
        """
        largest, variances = np.zeros((len(self.sizes), len(influence.eta))), np.zeros(len(influence.eta))
        for k, products, ends, factor in self._within(influence):
            variances += np.diag(products) * factor
            largest[k] = (ends**2).max(axis=0) * factor
        return np.divide(largest, variances, out=np.zeros(largest.shape), where=variances > 0)

    def _within(self, influence: EngineInfluence) -> Iterator[tuple[int, Floats, Floats, float]]:
        """Yield each sample's products of deviations from its mean, its extreme deviations, and their factor in V."""
        single = (self.sizes > 0) & (self.sizes < 2)
        if self._last is None or self._last[0] is not influence:
            centres = influence.b[self.coordinates.u].copy()  # their means under the fitted laws, but for rounding
            if single.any():
                centres[single] = self.law_means(influence)[single]
            self._last = influence, self.deviations_of(influence, centres)
        found = self._last[1]
        for k in np.flatnonzero(self.sizes > 0).tolist():
            size, ends = self.sizes[k], np.stack([found.low[k], found.high[k]])
            if single[k]:
                yield k, found.products[k], ends, 1.0 / self.n**2
            else:
                mean = found.totals[k] / size
                products = found.products[k] - np.outer(found.totals[k], mean)
                yield k, products, ends - mean, size / (size - 1.0) / self.n**2

    # the contract

    def moments(self, functions: Sequence[EngineFunction], eta: Floats | None = None) -> Moments:
        """Return sums of functions, or of their deviations from eta against x; a query for each part."""
        m, d = len(functions), len(self.coordinates)
        if eta is None:
            return Moments(self._totals(functions), np.zeros((d, m)))
        asked = [(part, *self.terms(part, functions, eta)) for part in self.parts]
        moments = self.placed(np.sum([part.sums(terms, self.point, values) for part, terms, values in asked], axis=0))
        return Moments(moments.total + eta * self.n, moments.against)

    def terms(
        self, part: Part, functions: Sequence[EngineFunction], eta: Floats
    ) -> tuple[list[nw.Expr], Change | None]:
        """Return what to sum over a part for the moments of functions less eta, and the columns that it needs."""
        values = {
            VALUE.format(j): part.times_count((f(part) - float(eta[j])) * self.point.weight)
            for j, f in enumerate(functions)
        }
        x = [self.point.x(i) for i in self.point.active.tolist()]
        x += [self.point.weight] if self.coordinates.uncertain else []
        terms = [nw.col(name) for name in values]
        return terms + [nw.col(name) * one for one in x for name in values], with_columns(values)

    def placed(self, sums: Floats) -> Moments:
        """Return sums of the terms, each in its place; linear in the sums."""
        active = self.point.active
        rows = 1 + len(active) + bool(self.coordinates.uncertain)
        found = sums.reshape(rows, -1)
        against = np.zeros((len(self.coordinates), found.shape[1]))
        against[active] = found[1 : 1 + len(active)]
        against[self.coordinates.epsilon] = np.outer(self.point.weight_of_epsilon, found[-1])
        return Moments(found[0], against)

    def deviations(
        self, functions: Sequence[EngineFunction], eta: Floats, b: Floats, centres: Floats | None = None
    ) -> Deviations:
        """Return sums of powers and products of phi less centres of shape (K, m), within samples; b[u] by default."""
        return self.deviations_of(
            self.influence(functions, eta, b), b[self.coordinates.u] if centres is None else centres
        )

    def deviations_of(self, influence: EngineInfluence, centres: Floats) -> Deviations:
        """Return sums of powers and products of influence values less centres, within samples."""
        K, m = self.coordinates.samples, len(influence.eta)
        upper = [(i, j) for i in range(m) for j in range(i, m)]
        totals, products = np.zeros((K, m)), np.zeros((K, m, m))
        cubes, fourths = np.zeros((K, m)), np.zeros((K, m))
        low, high = np.full((K, m), np.inf), np.full((K, m), -np.inf)
        for part in self.parts:
            change = self.with_deviations(part, influence, centres)
            d = [nw.col(DEVIATION.format(j)) for j in range(m)]
            queries = {f"t_{j}": part.times_count(one).sum() for j, one in enumerate(d)}
            queries |= {f"p_{i}_{j}": part.times_count(d[i] * d[j]).sum() for i, j in upper}
            queries |= {f"c_{j}": part.times_count(one * one * one).sum() for j, one in enumerate(d)}
            queries |= {f"f_{j}": part.times_count(one * one * one * one).sum() for j, one in enumerate(d)}
            queries |= {f"low_{j}": one.min() for j, one in enumerate(d)}
            queries |= {f"high_{j}": one.max() for j, one in enumerate(d)}
            for code, row in part.by_sample(queries, self.point, change):
                totals[code] += [row[f"t_{j}"] for j in range(m)]
                cubes[code] += [row[f"c_{j}"] for j in range(m)]
                fourths[code] += [row[f"f_{j}"] for j in range(m)]
                low[code] = np.minimum(low[code], [row[f"low_{j}"] for j in range(m)])
                high[code] = np.maximum(high[code], [row[f"high_{j}"] for j in range(m)])
                for i, j in upper:
                    products[code, i, j] += row[f"p_{i}_{j}"]
        products = products + np.transpose(np.triu(products, 1), (0, 2, 1))
        return Deviations(totals, products, cubes, fourths, low, high)

    def law_means(self, influence: EngineInfluence) -> Floats:
        """Return the mean of phi under the fitted law of each sample, sum_i c_i p_ik phi_i / n_k, of shape (K, m)."""
        K, m = self.coordinates.samples, len(influence.eta)
        sampled, found = self.point.sampled.tolist(), np.zeros((K, m))
        for part in self.parts:
            change = self.with_deviations(part, influence, np.zeros((K, m)))
            d = [part.times_count(nw.col(DEVIATION.format(j))) for j in range(m)]
            sums = part.sums([one * self.point.x(k) for k in sampled for one in d], self.point, change)
            found[sampled] += sums.reshape(-1, m)
        return found / np.where(self.sizes > 0, self.sizes, 1.0)[:, None]

    def with_deviations(self, part: Part, influence: EngineInfluence, centres: Floats) -> Change | None:
        """Return what puts phi less a centre for each sample on a frame that has the columns of the point."""
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

    def _phi(self, part: Part, influence: EngineInfluence, j: int) -> nw.Expr:
        point, b = self.point, influence.b[:, j]
        constant = float(point.weight_of_epsilon @ b[self.coordinates.epsilon]) - float(influence.eta[j])
        used = np.flatnonzero(influence.coefficients[:, j]).tolist()
        terms = [_times(influence.functions[a](part), float(influence.coefficients[a, j])) for a in used]
        f = total([*terms, nw.lit(constant)]) if terms else nw.lit(constant)
        moved = [point.x(i) * float(b[i]) for i in point.active.tolist() if b[i]]
        own = point.own(part, b)
        phi = total([f * point.weight, *moved])
        return phi if own is None else phi - own

    def _totals(self, functions: Sequence[EngineFunction]) -> Floats:
        """Return sum_i c_i f_i / S_i, or refuse values that are missing or infinite."""
        named = [j for j, function in enumerate(functions) if function.name is not None]
        m, found = len(functions), np.zeros(len(functions) + len(named))
        for part in self.parts:
            terms = [part.times_count(f(part) * self.point.weight) for f in functions]
            found += part.sums([*terms, *(is_endless(functions[j](part)) for j in named)], self.point)
        for j, endless in zip(named, found[m:], strict=True):
            if endless:
                raise not_finite(int(endless), functions[j].name)
        return found[:m]


def total(terms: Sequence[nw.Expr]) -> nw.Expr:
    """Return a sum of terms that is no deeper than it must be: engines limit how deep an expression is."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return total(terms[:half]) + total(terms[half:])


def _times(term: nw.Expr, factor: float) -> nw.Expr:
    return term if factor == 1.0 else term * factor


def is_endless(f: nw.Expr) -> nw.Expr:
    """Return 1 where a value is no finite number, else 0; a null, as of a quotient by zero in Spark, is none."""
    return nw.when(f.abs() < float("inf")).then(nw.lit(0.0)).otherwise(nw.lit(1.0))
