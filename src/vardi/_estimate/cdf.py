"""The debiased distribution function, its quantiles, and a band that covers it everywhere at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._estimate.estimates import Estimate
from vardi._estimate.intervals import quantile_of_normal
from vardi._estimate.tangent import Tangent
from vardi._machine.threads import sum_blocks
from vardi._rows.grouping import membership, sums_by_code
from vardi._rows.measure import Measure
from vardi._rows.shares import Shares, edges_below, shares_of
from vardi._rows.steps import StepInfluence
from vardi._types import Floats, Integers
from vardi.biases._values import as_array, as_numbers
from vardi.errors import MismatchError

ALONE = np.ones(1)  # weights of shares where there is one measure
GRID = 200  # points of a band
ROUNDING = 1e-9  # of a probability
FIXED = 1e-7  # standard error of a probability up to which it is rounding: where F is 1, or known
TAIL = 0.02  # the band leaves out this much of the distribution at either end, where rows are few


@dataclass(frozen=True)
class Band:
    """A simultaneous confidence band, given at some points and, since a distribution function rises, everywhere.

    Between two successive points the function lies between its values at them, so there the band reaches from
    ``low[i]`` to ``high[i + 1]``. Called with t it returns its ends at t.

    Attributes
    ----------
    x : ndarray
        The points, in order.
    value, low, high : ndarray
        The estimated cdf at these, and the ends of the band.
    level : float
        Nominal probability that the band covers the whole cdf.

    Examples
    --------
    >>> import numpy as np
    >>> band = Band(np.array([1.0, 2.0]), np.array([0.3, 0.6]), np.array([0.2, 0.5]), np.array([0.4, 0.7]), 0.95)
    >>> low, high = band([0.5, 1.0, 1.5, 2.5])
    >>> low.tolist(), high.tolist()
    ([0.0, 0.2, 0.2, 0.5], [0.4, 0.4, 0.7, 1.0])
    """

    x: Floats
    value: Floats
    low: Floats
    high: Floats
    level: float

    def __call__(self, t: Any) -> tuple[Floats, Floats]:
        """Return the lower and the upper end at a number, or at several."""
        points = np.asarray(t, np.float64)
        low = np.append(0.0, self.low)[np.searchsorted(self.x, points, "right")]
        return low, np.append(self.high, 1.0)[np.searchsorted(self.x, points, "left")]

    @property
    def drawn(self) -> tuple[Floats, Floats, Floats]:
        """The band as steps: x, and the ends that hold from each point up to the next (``step="post"``)."""
        return self.x, self.low, np.append(self.high[1:], self.high[-1:])


def points_of(t: Any) -> Floats:
    """Return the points at which a distribution function is evaluated; raise if they are not numbers."""
    array = np.atleast_1d(as_array(t, "What F is evaluated at"))
    points = as_numbers(array)
    if points is None or not points.size or np.isnan(points).any():
        raise MismatchError(f"F cannot be evaluated at {t!r}. Give a number, or several.")
    return points.astype(np.float64, copy=False)


class Steps(Protocol):
    """Where a distribution function steps, in memory or in an engine."""

    @property
    def x(self) -> Floats: ...
    @property
    def heights(self) -> Floats: ...
    @property
    def is_of_domain(self) -> bool: ...
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
        The probability whose quantile it is.
    stderr : float
        The error of F there.
    approximate : bool
        Whether that ignores the error of a learned bias.
    """

    steps: Steps = field(repr=False)
    q: float
    stderr: float
    approximate: bool = False

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
        """F at these values."""
        return self._steps.heights

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._steps})"

    def __call__(self, t: Any, level: float = 0.95) -> Any:
        """Return F(t): an Estimate for a number, Estimates for several."""
        points = points_of(t)
        functions = self._steps.below(points)
        asked = self._tangent.ratios if self._steps.is_of_domain else self._tangent.estimates
        estimates = asked(functions, level)
        return estimates[0] if np.ndim(t) == 0 else estimates

    def quantile(self, q: float, level: float = 0.95) -> Estimate:
        """Return the smallest x with F(x) >= q.

        Its interval is Woodruff's: the quantiles at q -+ z times the error of F there, which needs no density. The
        standard error is the half width of the interval at ``level`` over z. Where q -+ that margin lies beyond 0 or 1,
        the rows set no bound: that end is infinite, and there is no standard error.
        """
        if np.ndim(q):
            raise MismatchError(f"quantile takes one probability, but {np.size(q)} were given. Ask for each in turn.")
        if not isinstance(q, int | float | np.number) or not 0.0 < q < 1.0:
            raise MismatchError(
                f"The quantile {q} is not between 0 and 1. Give a probability, such as 0.5 for the median."
            )
        value = self._steps.inverse(q)
        law = Woodruff(self._steps, q, self(self._steps.before_last(value), level).stderr, self._tangent.approximate)
        low, high = law.ends(value, math.nan, level)
        stderr = (high - low) / (2.0 * quantile_of_normal(level)) if math.isfinite(high - low) else math.nan
        return Estimate(value, stderr, level, law=law, among=self._tangent.measure.recorded_by)

    def band(self, level: float = 0.95, *, draws: int = 1000, seed: int = 0) -> Band:
        r"""Return a band that covers the whole function at once.

        With c the quantile of :math:`\sup_t |Z(t)| / \mathrm{se}(t)` over draws of the Gaussian process Z with the
        covariance of the estimated function, its ends are c standard errors away on the scale of
        :math:`\arcsin\sqrt F`, on which the error of a share depends least on the share. It is given where F is from
        0.02 to 0.98, and from there follows for all t.

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
        covariance = self._steps.covariance(grid, value, self._tangent)
        stderr = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        free = stderr > FIXED
        critical = _critical(covariance[np.ix_(free, free)], level, draws, seed)
        angle = np.arcsin(np.sqrt(value))
        margin = np.divide(critical * stderr, np.sin(2.0 * angle), out=np.zeros(len(grid)), where=free)
        low, high = np.sin(np.maximum(angle - margin, 0.0)) ** 2, np.sin(np.minimum(angle + margin, np.pi / 2)) ** 2
        low = np.maximum.accumulate(np.minimum(low, value))  # a lower bound of F at a point holds beyond it
        high = np.minimum.accumulate(np.maximum(high, value)[::-1])[::-1]
        return Band(grid, value, low, high, level)


def _critical(covariance: Floats, level: float, draws: int, seed: int) -> float:
    """Return the quantile of the largest absolute normal deviate, in units of standard errors."""
    if not len(covariance):
        return 0.0
    stderr = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(stderr, stderr))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # does not depend on the signs of eigenvectors
    Z = np.random.default_rng(seed).standard_normal((draws, len(stderr))) @ root
    return float(np.quantile(np.abs(Z).max(axis=1), level))


class PoolSteps:
    """The steps of a function whose values on the rows of a pool are in memory.

    Parameters
    ----------
    rows : Measure
        The rows at the solution.
    values : ndarray of shape (n,)
        The function.
    inside : ndarray of bool, optional
        The rows of the domain whose distribution it is; all rows by default.
    shares : Shares, optional
        The share of the population up to a value of the function, if it is known already.
    """

    def __init__(
        self,
        rows: Measure,
        values: Floats,
        inside: NDArray[np.bool_] | None = None,
        shares: Shares | None = None,
    ) -> None:
        self._rows, self._values, self._inside = rows, values, inside
        if shares is not None:
            self._shares, self._total = shares, rows.n
            return
        mass = rows.weights * rows.counts
        kept = slice(None) if rows.inside is None else rows.inside
        kept = kept if inside is None else inside
        self._total = rows.n if inside is None else float(mass[inside].sum())
        self._shares = shares_of(values[kept], [mass[kept]], np.array([self._total]))

    @property
    def x(self) -> Floats:
        """The values at which F steps, in order."""
        return self._every[0]

    @property
    def heights(self) -> Floats:
        """F at these."""
        return self._every[1][:, 0]

    @cached_property
    def _every(self) -> tuple[Floats, Floats]:
        return self._shares.every()

    @cached_property
    def _last(self) -> float:
        return float(self._shares.reaching(ALONE, np.array([np.inf]))[0][0])

    @property
    def is_of_domain(self) -> bool:
        """Whether it is the distribution in a domain."""
        return self._inside is not None

    def __str__(self) -> str:
        return f"{len(self.x)} steps from {self.x[0]:.4g} to {self.x[-1]:.4g}"

    def grid(self, most: int, tail: float) -> tuple[Floats, Floats]:
        """Return values evenly spaced among the distinct ones with F from ``tail`` to 1 - ``tail``, and F there."""
        edge = tail - ROUNDING  # a step may hit the tail exactly, up to rounding
        first = float(self._shares.reaching(ALONE, np.array([edge]))[0][0])
        beyond = float(self._shares.reaching(ALONE, np.array([1.0 - edge]), beyond=True)[0][0])
        inner = self._shares.between(first, self._shares.next_to(beyond, -1)) if first < beyond else self.x
        chosen = inner[np.unique(np.linspace(0, len(inner) - 1, min(most, len(inner))).astype(int))]
        return chosen, self._shares.up_to(chosen)[:, 0]

    def below(self, points: Floats) -> Floats:
        """Return whether each row's value is at most each point; for a domain, with its indicator as last column."""
        below = (self._values[:, None] <= points).astype(np.float64)
        return below if self._inside is None else np.column_stack([below, np.ones(len(below))]) * self._inside[:, None]

    def before_last(self, value: float) -> float:
        """Return a value, or the last one before the largest, where F is 1 and has no error."""
        alone = value < self._last or not self._shares.has_more_than(1)
        return value if alone else self._shares.next_to(self._last, -1)

    def inverse(self, q: float) -> float:
        """Return the smallest x with F(x) >= q."""
        return float(self._shares.reaching(ALONE, np.array([q - 1e-12]))[0][0])

    def covariance(self, grid: Floats, value: Floats, tangent: Tangent) -> Floats:
        r"""Return the covariance of F at the grid, from :math:`\phi_i(t) = r_i (1\{x_i \le t\} - F(t)) + q_i'b(t)`."""
        rows = self._rows
        r = rows.weights if self._inside is None else rows.weights * self._inside * (rows.n / self._total)
        cell = edges_below(self._values, grid)
        if len(rows.coordinates) <= len(grid):
            X, Q = rows.seen()
            by_cell = _by_cell(X, r, rows.counts, cell, len(grid) + 1)
            b = tangent.jacobian.solve((np.cumsum(by_cell, axis=0)[:-1] - value[:, None] * by_cell.sum(axis=0)).T)
            influence = StepInfluence(r, cell, Q, value, b)
        else:
            alone = StepInfluence(r, cell, np.empty((len(r), 0)), value, np.empty((0, len(grid))))
            b = tangent.jacobian.solve(rows.project(alone.rows(slice(None))))
            influence = StepInfluence(r, cell, rows.mix(b), value, np.eye(len(grid)))
        beyond = b[rows.coordinates.epsilon]
        return rows.strata.covariance_of_steps(influence) + beyond.T @ beyond / rows.n**2


def _by_cell(X: Any, r: Floats, counts: Floats, cell: Integers, size: int) -> Floats:
    """Return sum_i c_i r_i x_i over the rows of each cell, for x as an array or sparse."""
    if sparse.issparse(X):
        return np.asarray((membership(cell, size, r * counts) @ X).toarray())

    def block(part: slice) -> Floats:
        mass = r[part] * counts[part]
        return sums_by_code(cell[part], X[part] * mass[:, None], size)

    return sum_blocks(block, len(X), X.shape[1], sums=size * X.shape[1])
