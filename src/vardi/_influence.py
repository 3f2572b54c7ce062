r"""Influence values: how much each row moves an estimate, the estimation of the normalisers included.

For :math:`\eta = E_P f` with :math:`g = f - \eta`, :math:`r_i = \pi_i / m_i` the weights, and H the Hessian at the
solution:

.. math::

    a = \sum_i \pi_i p_i g_i,\qquad b = H^+ a,\qquad \phi_i = r_i g_i + p_i'b,\qquad
    \hat\eta - \eta \approx \sum_i m_i (\phi_i - E\phi_i).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from vardi._estimates import Estimates
from vardi._laplacian import Laplacian, restricted
from vardi._rows import Rows
from vardi._strata import Strata
from vardi._sums import Floats, Integers, Sums


class Influence:
    """A solution, seen as a map from functions on rows to estimates.

    Parameters
    ----------
    rows : Rows
        Rows as they were solved: perhaps collapsed, in which case ``rows.inverse`` leads back to the pool.
    u : ndarray
        The dual point in the gauge in which the weights have mean 1.
    weights : ndarray
        Weight of each row of ``rows``.
    source : ndarray of int
        Sample of each row of the pool.
    counts : ndarray or None
        Count of each row of the pool.
    """

    def __init__(self, rows: Rows, u: Floats, weights: Floats, source: Integers, counts: Floats | None) -> None:
        self.rows, self.u, self.row_weights = rows, u, weights
        self.strata = Strata(source, rows.sizes, counts, self)
        self.n = self.strata.n

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again: factors and products with a vector cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name not in ("sums", "laplacian")}

    @cached_property
    def sums(self) -> Sums:
        """Shares and gram at the solution."""
        return self.rows.sums(self.u)

    @cached_property
    def laplacian(self) -> Laplacian:
        """The Hessian in counts, n times H, of the sampled states."""
        return Laplacian(self.sums.shares[self.sampled], restricted(self.sums.gram, self.sampled))

    @property
    def sampled(self) -> np.ndarray:
        """Which biases have rows."""
        return self.rows.sizes > 0

    @property
    def weights(self) -> Floats:
        """Weight r_i of each row of the pool."""
        return self.spread(self.row_weights)

    def spread(self, values: Floats) -> Floats:
        """Return values of rows for all rows of the pool."""
        return self.rows.spread(values)

    def project(self, y: Floats) -> Floats:
        """Return sum_i c_i y_i p_i for y of shape (n, m) over the pool."""
        if self.rows.inverse is None:
            return self.rows.project(self.u, y)
        counted = y if self.strata.counts is None else y * self.strata.counts[:, None]
        kinds = len(self.rows)
        gathered = np.stack([np.bincount(self.rows.inverse, column, minlength=kinds) for column in counted.T], axis=1)
        assert self.rows.counts is not None
        return self.rows.project(self.u, gathered / self.rows.counts[:, None])

    def mix(self, b: Floats) -> Floats:
        """Return p_i'b for every row of the pool."""
        return self.spread(self.rows.mix(self.u, b))

    def solve(self, projected: Floats) -> Floats:
        """Return H^+ a for the sums of (n, m) functions, zero for states without rows."""
        b = np.zeros((len(self.u), projected.shape[1]))
        b[self.sampled] = np.column_stack([self.laplacian.solve(column) for column in projected[self.sampled].T])
        return b

    def of(self, values: Floats) -> tuple[Floats, Floats]:
        """Return eta (m,) and phi (n, m) for functions f of shape (n, m)."""
        return self.of_weighted(values * self.weights[:, None])

    def of_weighted(self, y: Floats) -> tuple[Floats, Floats]:
        """Return eta and phi for functions given as r_i f_i, which stays finite where f alone would not."""
        counted = y if self.strata.counts is None else y * self.strata.counts[:, None]
        eta = counted.sum(axis=0) / self.n
        rg = y - self.weights[:, None] * eta
        return eta, rg + self.carried(rg)

    def controls(self) -> Floats:
        """Return what estimates are regressed on, for every row of the pool, of shape (n, r): here nothing."""
        return np.empty((len(self.strata.source), 0))

    def coefficients(self, sums: Floats) -> Floats:
        """Return the coefficients B of that regression for sum_i pi_i y_i (f_i - eta), of shape (r, m)."""
        return sums

    def carried(self, rg: Floats) -> Floats:
        """Return p_i'b: what the rows move through the normalisers."""
        return self.mix(self.solve(self.project(rg)))

    def estimates(self, values: Floats, level: float, *, trusted: bool) -> Estimates:
        """Return the expectations of functions of shape (n, m)."""
        eta, phi = self.of(values)
        return Estimates(eta, self.covariance(phi, trusted=trusted), level, influence=phi, strata=self.strata)

    def covariance(self, phi: Floats, *, trusted: bool) -> Floats:
        """Return the covariance of the estimates with influence values phi, NaN where it is not to be trusted."""
        if not trusted:
            return np.full((phi.shape[1], phi.shape[1]), math.nan)
        return self.strata.covariance(phi)

    def model_covariance(self, rg: Floats) -> Floats:
        r"""Return :math:`\sum_i \pi_i^2 g_i g_i' + a'H^+a / n` (MBAR's form), which single rows do not trouble."""
        counted = rg if self.strata.counts is None else rg * self.strata.counts[:, None]
        projected = self.project(rg)
        return (counted.T @ rg + projected.T @ self.solve(projected)) / self.n**2
