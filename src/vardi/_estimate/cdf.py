"""The debiased distribution function, its quantiles, and a band that covers it everywhere at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from vardi._estimate.estimates import Estimate
from vardi._estimate.intervals import quantile_of_normal
from vardi._estimate.tangent import Tangent
from vardi._rows.grouping import membership
from vardi._rows.weighted import WeightedRows
from vardi._types import Floats
from vardi.biases._values import as_array, as_numbers
from vardi.errors import MismatchError

GRID = 200  # points of a band
ROUNDING = 1e-9  # of a probability
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


class Steps(Protocol):
    """Where a distribution function steps, in memory or in an engine."""

    @property
    def x(self) -> Floats: ...
    @property
    def heights(self) -> Floats: ...
    def grid(self, most: int, tail: float) -> tuple[Floats, Floats]: ...
    def below(self, points: Floats) -> Any: ...
    def before_last(self, value: float) -> float: ...
    def inverse(self, q: float) -> float: ...
    def covariance(self, grid: Floats, value: Floats, tangent: Tangent) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Woodruff:
    """The interval of a quantile: the quantiles at q -+ z times the error of F there.

    Attributes
    ----------
    steps : Steps
        Where F steps.
    q : float
        Of which probability it is the quantile.
    stderr : float
        The error of F there.
    """

    steps: Steps = field(repr=False)
    q: float
    stderr: float

    df = math.inf

    def ends(self, value: float, stderr: float, level: float) -> tuple[float, float]:
        """Return the ends; infinite where F -+ its margin is beyond 0 or 1."""
        margin = quantile_of_normal(level) * self.stderr
        low = self.steps.inverse(self.q - margin) if self.q > margin else -math.inf
        high = self.steps.inverse(self.q + margin) if self.q + margin < 1.0 else math.inf
        return low, high


class DebiasedCdf:
    r"""The weighted distribution function of a column, :math:`F(t) = \sum_i \pi_i 1\{x_i \le t\}`.

    Examples
    --------
    >>> import vardi
    >>> design = vardi.datasets.length_bias(seed=1)
    >>> cdf = vardi.debias(design.samples, design.biases).cdf("x")
    >>> print(cdf(3.0))
    0.556 ± 0.026 (95%: 0.505 to 0.606)
    >>> print(cdf.quantile(0.5))
    2.72 ± 0.11 (95%: 2.58 to 3.00)
    """

    def __init__(self, tangent: Tangent, steps: Steps) -> None:
        self._tangent, self._steps = tangent, steps

    @property
    def x(self) -> Floats:
        """The values at which F steps, in order."""
        return self._steps.x

    @property
    def heights(self) -> Floats:
        """F at these."""
        return self._steps.heights

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._steps})"

    def __call__(self, t: Any, level: float = 0.95) -> Any:
        """Return F(t): an Estimate for a number, Estimates for several."""
        points = points_of(t)
        estimates = self._tangent.estimates(self._steps.below(points), level)
        return estimates[0] if np.ndim(t) == 0 else estimates

    def quantile(self, q: float, level: float = 0.95) -> Estimate:
        """Return the smallest x with F(x) >= q.

        Its interval is Woodruff's: the quantiles at q -+ z times the error of F there, which needs no density. The
        standard error is the half width of the interval at ``level`` over z. Where q -+ that margin lies beyond 0 or 1,
        the rows set no bound: that end is infinite, and there is no standard error.
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
        value = self._steps.inverse(q)
        law = Woodruff(self._steps, q, self(self._steps.before_last(value), level).stderr)
        low, high = law.ends(value, math.nan, level)
        stderr = (high - low) / (2.0 * quantile_of_normal(level)) if math.isfinite(high - low) else math.nan
        return Estimate(value, stderr, level, law=law)

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
        grid, value = self._steps.grid(GRID, TAIL)
        values, vectors = np.linalg.eigh(self._steps.covariance(grid, value, self._tangent))
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # the one that no sign of a vector changes
        Z = np.random.default_rng(seed).standard_normal((draws, len(grid))) @ root
        width = float(np.quantile(np.abs(Z).max(axis=1), level))
        return Band(grid, value, np.maximum(value - width, 0.0), np.minimum(value + width, 1.0), level)


class PoolSteps:
    """The steps of a function whose values on the rows of a pool are in memory.

    Parameters
    ----------
    rows : WeightedRows
        The rows at the solution.
    values : ndarray of shape (n,)
        The function.
    """

    def __init__(self, rows: WeightedRows, values: Floats) -> None:
        self._rows, self._values = rows, values
        counts = rows.strata.counts
        mass = rows.weights if counts is None else rows.weights * counts
        self.x, place = np.unique(values, return_inverse=True)
        self.heights = np.minimum(np.cumsum(np.bincount(place, mass)) / rows.n, 1.0)

    def __str__(self) -> str:
        return f"{len(self.x)} steps from {self.x[0]:.4g} to {self.x[-1]:.4g}"

    def grid(self, most: int, tail: float) -> tuple[Floats, Floats]:
        """Return values evenly spaced among the distinct ones with F from ``tail`` to 1 - ``tail``, and F there."""
        edge = tail - ROUNDING  # which a step may hit, but for rounding
        inner = np.flatnonzero((self.heights >= edge) & (self.heights <= 1.0 - edge))
        inner = inner if len(inner) else np.arange(len(self.x))
        chosen = inner[np.unique(np.linspace(0, len(inner) - 1, min(most, len(inner))).astype(int))]
        return self.x[chosen], self.heights[chosen]

    def below(self, points: Floats) -> Floats:
        """Return whether the value of each row is at most each point."""
        return (self._values[:, None] <= points).astype(np.float64)

    def before_last(self, value: float) -> float:
        """Return a value, or the last one before the largest, where F is 1 and has no error."""
        return value if value < self.x[-1] or len(self.x) == 1 else float(self.x[-2])

    def inverse(self, q: float) -> float:
        """Return the smallest x with F(x) >= q."""
        return float(self.x[min(int(np.searchsorted(self.heights, q - 1e-12)), len(self.x) - 1)])

    def covariance(self, grid: Floats, value: Floats, tangent: Tangent) -> Floats:
        r"""Return the covariance of F at the grid, from :math:`\phi_i(t) = r_i (1\{x_i \le t\} - F(t)) + q_i'b(t)`."""
        rows = self._rows
        r, (X, Q) = rows.weights, rows.seen()
        cells = membership(np.searchsorted(grid, self._values), len(grid) + 1, None)
        weighted = X * (r * rows.counts)[:, None]
        a = (np.cumsum(cells @ weighted, axis=0)[:-1] - value[:, None] * weighted.sum(axis=0)).T
        b = tangent.jacobian.solve(a)

        def block(part: slice) -> Floats:
            return r[part, None] * ((self._values[part, None] <= grid) - value) + Q[part] @ b

        beyond = b[rows.coordinates.epsilon]
        return rows.strata.covariance_of_blocks(block, len(r), len(grid)) + beyond.T @ beyond / rows.n**2
