r"""Errors of normalisers in one pass over the rows, if a number for each row and bias would not fit in memory.

Row i has weight :math:`t_{ik} = r_i\omega_k(z_i) / \Omega_k` under state k, sampled or not, and at a solution
:math:`p_i = \Lambda t_i`. So the coordinates of a row are linear in :math:`y_i = (t_i, r_i)` and a few numbers for
parameters and known moments, and so is each of its influence values: :math:`\phi_i = M'y_i`. The sums of products of y
are then enough for every covariance; how many rows an error rests on takes fourth powers, so a second pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vardi._rows.contract import Coordinates
from vardi._rows.dense import Dense
from vardi._rows.grouping import membership
from vardi._rows.variance import Spread, factors_of, spread_of_samples, unit_of
from vardi._rows.weighted import WeightedRows
from vardi._types import Floats

ROUNDING = 1e-14  # of a sum of products, below which a difference of such sums is zero


@dataclass(frozen=True)
class Products:
    r"""Sums of products of the numbers :math:`y_i` of a row; additive over rows.

    Attributes
    ----------
    counted, scaled : ndarray of shape (w, w)
        :math:`\sum_i c_i y_i y_i'`, and the same with :math:`v_i` for :math:`c_i`, which turns squares into a variance.
    totals : ndarray of shape (K, w)
        :math:`\sum_i c_i y_i` within samples.
    """

    counted: Floats
    scaled: Floats
    totals: Floats

    def __add__(self, other: Products) -> Products:
        return Products(self.counted + other.counted, self.scaled + other.scaled, self.totals + other.totals)


class TiltedRows:
    """The rows of a fit as their weights under each state; functions are given by coefficients of y.

    Parameters
    ----------
    rows : Dense
        The biases at the solution, in memory or read in blocks.
    measure : WeightedRows
        The same rows at the solution, with parameters and known moments if there are any.
    log_omegas : ndarray of shape (K,)
        The log normalisers.
    log_weights : ndarray of shape (n,)
        The log weight of each row.
    """

    recorded_by: tuple[str, ...] = ()

    def __init__(self, rows: Dense, measure: WeightedRows, log_omegas: Floats, log_weights: Floats) -> None:
        self.sizes, self.n = measure.sizes, measure.n
        self.coordinates: Coordinates = measure.coordinates
        self._factors = factors_of(self.sizes) * measure.strata.remaining / self.n**2
        x, q = measure.rows.beside(measure.v)
        self._rows, self._r, self._beside = rows, measure.row_weights, np.column_stack([q, x])
        self._log_r = log_weights[:, None]
        self._counts = rows.counts
        self._log_omegas = np.where(np.isfinite(log_omegas), log_omegas, 0.0)  # a bias that covers no row has no tilt
        self._products = rows.total_of_logs(self._products_of)

    @property
    def whole(self) -> TiltedRows:
        """The rows of all samples: these."""
        return self

    def _y(self, part: slice, logs: Floats) -> Floats:
        """Return y of a block of rows, from their log omega."""
        K = len(self.sizes)
        y = np.empty((len(logs), K + 1 + self._beside.shape[1]))
        np.exp(logs - self._log_omegas + self._log_r[part], out=y[:, :K])
        y[:, K], y[:, K + 1 :] = self._r[part], self._beside[part]
        return y

    def _products_of(self, part: slice, logs: Floats) -> Products:
        y, c, source = self._y(part, logs), self._counts[part], self._rows.source[part]
        totals = np.asarray(membership(source, len(self.sizes), c) @ y)
        return Products((y.T * c) @ y, (y.T * (self._factors[source] * c)) @ y, totals)

    @property
    def tilts(self) -> Floats:
        """The functions omega_k / Omega_k, as coefficients of y; times r they are t."""
        K = len(self.sizes)
        return np.eye(len(self._products.counted), K)

    def mean(self, functions: Floats) -> Floats:
        """Return eta = sum_i c_i r_i f_i / n."""
        return np.asarray(self._products.totals.sum(axis=0) @ functions / self.n)

    def against(self, functions: Floats, eta: Floats) -> Floats:
        """Return a = sum_i c_i r_i (f_i - eta) x_i, of shape (d, m)."""
        return self._x.T @ self._products.counted @ self._less(functions, eta)

    def squares(self, functions: Floats, eta: Floats) -> Floats:
        """Return sum_i c_i r_i^2 (f_i - eta) (f_i - eta)'."""
        rg = self._less(functions, eta)
        return rg.T @ self._products.counted @ rg

    def influence(self, functions: Floats, eta: Floats, b: Floats) -> Floats:
        """Return phi, as coefficients of y."""
        return self._less(functions, eta) + self._q @ b

    def covariance(self, phi: Floats) -> Floats:
        """Return the covariance of the estimates with influence values phi: the formula of ``Strata``."""
        sizes, factors, sums = self.sizes, self._factors, self._products
        totals, means = sums.totals @ phi, self._means(phi)
        across = (factors[:, None] * means).T @ totals
        between = ((factors * sizes)[:, None] * means).T @ means
        covariance = phi.T @ sums.scaled @ phi - across - across.T + between
        size = np.abs(phi).T @ np.abs(sums.scaled) @ np.abs(phi)
        known = np.diag(covariance) <= ROUNDING * np.diag(size)  # exactly known: the variance is only rounding
        return np.where(known | known[:, None], 0.0, covariance)

    def _means(self, phi: Floats) -> Floats:
        """Return the mean of phi in each sample; for a single row, under its fitted law."""
        sizes, sums = self.sizes, self._products
        fitted = (self._x.T @ sums.counted @ phi)[: len(sizes)]
        return np.where((sizes < 2)[:, None], fitted, sums.totals @ phi) / np.where(sizes > 0, sizes, 1.0)[:, None]

    def spread(self, phi: Floats, *, joint: bool = True) -> Spread:
        """Return what the errors rest on, in another pass over the rows."""
        covariance = self.covariance(phi)
        moved = np.diag(covariance) > 0
        scale = unit_of(np.sqrt(np.where(moved, np.diag(covariance), 0.0)))
        K, unit, means = len(self.sizes), self.n * scale, self._means(phi)

        def powers(part: slice, logs: Floats) -> Floats:
            source, c = self._rows.source[part], self._counts[part]
            squares = np.square((self._y(part, logs) @ phi - means[source]) / unit)
            return np.vstack([membership(source, K, c) @ squares, c @ squares**2])

        sums = np.where(moved, self._rows.total_of_logs(powers), 0.0)
        return spread_of_samples(covariance, scale, sums[:K], sums[K], self.sizes, self._factors * self.n**2)

    def tail(self, phi: Floats, j: int) -> float:
        """Return NaN: a tail would take a pass for each estimate."""
        return np.nan

    def _less(self, functions: Floats, eta: Floats) -> Floats:
        """Return r (f - eta)."""
        rg = functions.copy()
        rg[len(self.sizes)] -= eta
        return rg

    @property
    def _x(self) -> Floats:
        """The coefficients of y for each coordinate of x."""
        return self._seen(len(self.sizes) + 1 + self._more)

    @property
    def _q(self) -> Floats:
        """The coefficients of y for each coordinate of q."""
        return self._seen(len(self.sizes) + 1)

    @property
    def _more(self) -> int:
        """The number of coordinates other than u."""
        return len(self.coordinates) - len(self.sizes)

    def _seen(self, first: int) -> Floats:
        K = len(self.sizes)
        seen = np.zeros((K + 1 + 2 * self._more, K + self._more))
        seen[np.arange(K), np.arange(K)] = self.sizes / self.n
        seen[first + np.arange(self._more), K + np.arange(self._more)] = 1.0
        return seen
