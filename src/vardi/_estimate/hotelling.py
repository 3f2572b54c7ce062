r"""A test that several estimates at once differ from their values, where few rows show how much they vary.

With V the covariance of p estimates, :math:`c_i` the part of row i in their deviations (or that of a cluster) and
:math:`V_k` that of sample k, Hotelling's :math:`T^2` has

.. math::

    f = \min\Bigl\{\frac{p (p + 1)}{\sum_i d_i^2 - p / n},\ \frac{p (p + 1)}{\sum_k [\mathrm{tr}((V^{-1} V_k)^2) +
    (\mathrm{tr}\,V^{-1} V_k)^2] / (n_k - 1)}\Bigr\},\qquad d_i = c_i' V^{-1} c_i

degrees of freedom, and :math:`T^2 (f - p + 1) / (p f)` has the law F with p and f - p + 1. For p = 1 these are the
degrees of freedom of an estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from vardi._estimate.tangent import Influence
from vardi._types import Floats


@dataclass(frozen=True)
class Hotelling:
    """A test of p deviations from zero.

    Attributes
    ----------
    statistic : float
        :math:`T^2`.
    df : int
        p, how many of them are linearly independent.
    freedom : float
        f, the degrees of freedom of their covariance.
    """

    statistic: float
    df: int
    freedom: float

    @property
    def pvalue(self) -> float:
        """The p-value; NaN without deviations, or if the covariance has fewer degrees of freedom than these."""
        p, left = self.df, self.freedom - self.df + 1.0
        if not p or not left > 0.0:
            return math.nan
        if math.isinf(left):
            return float(scipy.special.chdtrc(p, self.statistic))
        return float(scipy.special.fdtrc(p, left, self.statistic * left / (p * self.freedom)))


def hotelling(
    influence: Influence, deviations: Floats, variance: Floats, least: Floats | float, *, rank_from: float = 1e-8
) -> Hotelling:
    """Return the test of deviations, given the influence on them and their whole covariance.

    Parameters
    ----------
    influence : Influence
        Of m estimates.
    deviations : ndarray of shape (m,)
        The estimates less their values.
    variance : ndarray of shape (m, m)
        Their covariance, that of the values included.
    least : ndarray of shape (m,) or float
        Variances up to which there is no information.
    rank_from : float
        Eigenvalues of the covariance, scaled to a unit diagonal, count from so much of the largest on, which is at
        least 1.
    """
    own = np.diag(variance)
    informed = own > least
    root = np.sqrt(np.where(informed, own, 1.0))
    values, vectors = np.linalg.eigh(np.where(np.outer(informed, informed), variance / np.outer(root, root), 0.0))
    kept = values > rank_from * float(values.max(initial=1e-300))
    whitening = np.where(informed, 1.0 / root, 0.0)[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    along = deviations @ whitening
    p = int(kept.sum())
    return Hotelling(float(along @ along), p, _freedom(influence @ whitening, p) if p else math.nan)


def _freedom(influence: Influence, p: int) -> float:
    """Return f of estimates whose covariance is the identity."""
    squares, parts, freedom, n = influence.measure.products(influence.values, influence.leverage)
    if (freedom <= 0).any():
        return 0.0
    with np.errstate(divide="ignore"):
        traces = np.einsum("bjl,blj->b", parts, parts) + np.trace(parts, axis1=1, axis2=2) ** 2
        by_rows = p * (p + 1.0) / (traces / freedom).sum()
    left = squares - p / n
    return float(min(p * (p + 1.0) / left, by_rows) if left > 0 else by_rows)
