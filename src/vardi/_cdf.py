"""The debiased distribution function, its quantiles, and a band that covers it everywhere at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vardi._arrays import as_array, as_numbers
from vardi._estimates import Estimate, quantile_of_normal
from vardi._influence import Influence
from vardi._rows.grouping import membership
from vardi._sums import Floats
from vardi.errors import MismatchError

GRID = 200  # points of a band
TAIL = 0.02  # the band leaves out this much of the distribution at either end: few rows speak there


@dataclass(frozen=True)
class Band:
    """A simultaneous confidence band.

    Attributes
    ----------
    x : ndarray
        Where the band is given; between these points the cdf is a step function of the rows.
    value, low, high : ndarray
        The cdf there, and the ends of the band.
    level : float
        Nominal probability that the band covers the whole cdf between its first and its last point.
    """

    x: Floats
    value: Floats
    low: Floats
    high: Floats
    level: float


def points_of(t: Any) -> Floats:
    """Return where a distribution function is asked for, or refuse what is no number."""
    array = np.atleast_1d(as_array(t, "What F is asked at"))
    points = as_numbers(array)
    if points is None or not points.size or np.isnan(points).any():
        raise MismatchError(
            f"F is asked at {t!r}. Give a number, or several.", expected=("numbers",), got=(str(array.dtype),)
        )
    return points.astype(np.float64, copy=False)


class DebiasedCdf:
    r"""The weighted distribution function of a column, :math:`F(t) = \sum_i \pi_i 1\{x_i \le t\}`.

    Examples
    --------
    >>> import vardi
    >>> design = vardi.datasets.length_bias(seed=1)
    >>> cdf = vardi.debias(design.samples, design.biases).cdf("x")
    >>> print(cdf(3.0))
    0.556 ± 0.026 (95%: 0.505 to 0.607)
    >>> print(cdf.quantile(0.5))
    2.72 ± 0.11 (95%: 2.58 to 3.00)
    """

    def __init__(self, influence: Influence, values: Floats, *, trusted: bool) -> None:
        self._influence, self._values, self._trusted = influence, values, trusted
        counts = influence.strata.counts
        mass = influence.weights if counts is None else influence.weights * counts
        self.x, place = np.unique(values, return_inverse=True)
        self.heights = np.minimum(np.cumsum(np.bincount(place, mass)) / influence.n, 1.0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.x)} steps from {self.x[0]:.4g} to {self.x[-1]:.4g})"

    def __call__(self, t: Any, level: float = 0.95) -> Any:
        """Return F(t): an Estimate for a number, Estimates for several."""
        points = points_of(t)
        below = (self._values[:, None] <= points).astype(np.float64)
        estimates = self._influence.estimates(below, level, trusted=self._trusted)
        return estimates[0] if np.ndim(t) == 0 else estimates

    def quantile(self, q: float, level: float = 0.95) -> Estimate:
        """Return the smallest x with F(x) >= q.

        Its interval is Woodruff's: the quantiles at q -+ z times the error of F there, which needs no density. The
        standard error is the half width of that interval over z. Where q -+ that margin lies beyond 0 or 1, the rows
        set no bound: that end is infinite, and there is no standard error.
        """
        if np.ndim(q):
            raise MismatchError(
                f"quantile takes one probability, and {np.size(q)} were given. Ask for each in turn.",
                expected=(1,),
                got=(np.size(q),),
            )
        if not isinstance(q, int | float | np.number) or not 0.0 < q < 1.0:
            raise MismatchError(
                f"The quantile {q} is not between 0 and 1. Give a probability, such as 0.5 for the median.",
                expected=("between 0 and 1",),
                got=(q,),
            )
        value = self._inverse(q)
        z = quantile_of_normal(level)
        margin = z * self(self._below(value), level).stderr
        if math.isnan(margin):
            return Estimate(value, math.nan, level)
        low = self._inverse(q - margin) if q > margin or not margin else -math.inf
        high = self._inverse(q + margin) if q + margin < 1.0 or not margin else math.inf
        stderr = (high - low) / (2.0 * z) if math.isfinite(high - low) else math.nan
        return Estimate(value, stderr, level, interval=(low, high))

    def band(self, level: float = 0.95, *, draws: int = 1000, seed: int = 0) -> Band:
        r"""Return a band that covers the whole function at once.

        The width is the same everywhere: the quantile of :math:`\sup_t |Z(t)|` over draws of the Gaussian process Z
        with the covariance of the estimated function.

        Parameters
        ----------
        level : float
            Nominal coverage.
        draws : int
            How many draws of the process.
        seed : int
            Seed of the draws.
        """
        quantile_of_normal(level)
        inner = self.x[(self.heights >= TAIL) & (self.heights <= 1.0 - TAIL)]
        inner = inner if len(inner) else self.x
        grid = inner[np.unique(np.linspace(0, len(inner) - 1, min(GRID, len(inner))).astype(int))]
        value = self.heights[np.searchsorted(self.x, grid)]
        if not self._trusted:
            return Band(grid, value, np.full(len(grid), math.nan), np.full(len(grid), math.nan), level)
        values, vectors = np.linalg.eigh(self._covariance(grid, value))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        Z = np.random.default_rng(seed).standard_normal((draws, len(grid))) @ root.T
        width = float(np.quantile(np.abs(Z).max(axis=1), level))
        return Band(grid, value, np.maximum(value - width, 0.0), np.minimum(value + width, 1.0), level)

    def _covariance(self, grid: Floats, value: Floats) -> Floats:
        r"""Return the covariance of F at the grid, from :math:`\phi_i(t) = r_i (1\{x_i \le t\} - F(t)) + p_i'b(t)`.

        Where shares are known, a regression on their cells y takes :math:`r_i B(t)'y_i` away.
        """
        influence, strata = self._influence, self._influence.strata
        K, r = len(influence.u), influence.weights
        counts = np.ones(len(r)) if strata.counts is None else strata.counts
        y = influence.controls()
        P = np.column_stack([influence.mix(np.eye(K)), r[:, None] * y])
        cells = membership(np.searchsorted(grid, self._values), len(grid) + 1, None)
        weighted = np.column_stack([P[:, :K], y]) * (r * counts)[:, None]
        moments = (np.cumsum(cells @ weighted, axis=0)[:-1] - value[:, None] * weighted.sum(axis=0)).T
        B = influence.coefficients(moments[K:] / influence.n)
        a = moments[:K] - (P[:, :K].T @ (y * (r * counts)[:, None])) @ B
        b = np.vstack([influence.solve(a), -B])

        def block(rows: slice) -> Floats:
            return r[rows, None] * ((self._values[rows, None] <= grid) - value) + P[rows] @ b

        return strata.covariance_of_blocks(block, len(r), len(grid))

    def _below(self, value: float) -> float:
        """Return a value, or the last one before the largest, where F is 1 and has no error."""
        return value if value < self.x[-1] or len(self.x) == 1 else float(self.x[-2])

    def _inverse(self, q: float) -> float:
        return float(self.x[min(int(np.searchsorted(self.heights, q - 1e-12)), len(self.x) - 1)])
