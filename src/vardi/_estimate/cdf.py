r"""The debiased distribution function, its quantiles, and a band that covers it everywhere at once.

With m points t, :math:`g_i` the first of these that the value of row i does not exceed (m beyond the last), and F the
function,

.. math:: \phi_i(t) = r_i (1\{g_i \le t\} - F(t)) + q_i'b(t) = M'z_i,\qquad z_i = (r_i e_{g_i}, q_i),

so the covariance of a band follows from sums of products of z, most of which are sums by cell: it takes neither n x m
numbers nor m x m products for each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from vardi._estimate.estimates import Estimate, Estimates
from vardi._estimate.intervals import REFUSED, FixedValue, Law, Student, quantile_of_student, warn_of_doubt
from vardi._estimate.tangent import Tangent
from vardi._inputs.pool import Name
from vardi._machine import require_memory
from vardi._rows.contract import Block
from vardi._rows.measure import Functions, Measure, as_functions
from vardi._rows.point import Seen
from vardi._rows.shares import Shares, shares_of
from vardi._types import Floats
from vardi.biases._values import as_array, as_numbers
from vardi.errors import MismatchError


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


@dataclass(frozen=True, eq=False)
class Steps:
    """Where the distribution function of a function of the rows steps.

    Attributes
    ----------
    function : Functions
        The function.
    shares : Shares
        The share of the population, or of the domain, up to a value of the function.
    inside : Functions or None
        1 on the rows of the domain whose distribution it is, and 0 on others; None for all rows.
    """

    function: Functions
    shares: Shares
    inside: Functions | None = None

    @classmethod
    def in_memory(
        cls, measure: Measure, values: Floats, inside: Floats | None = None, shares: Shares | None = None
    ) -> Steps:
        """Return the steps of a function in memory, in a domain if one is given; its shares may be known already."""
        domain = None if inside is None else as_functions(inside[:, None])
        if shares is None:
            mass = measure.weights * measure.counts
            some = measure.inside if inside is None else inside > 0.0
            kept = slice(None) if some is None else some
            total = measure.n if inside is None else float(mass[kept].sum())
            shares = shares_of(values[kept], [mass[kept]], np.array([total]))
        return cls(as_functions(values[:, None]), shares, domain)

    def below(self, points: Floats) -> Functions:
        """Return whether each row's value is at most each point; for a domain, with its indicator as last column."""
        x, inside = self.function, self.inside

        def make(block: Block, at: Seen) -> Floats:
            below: Floats = np.multiply(x.of(block, at) <= points, 1.0)
            if inside is None:
                return below
            there = inside.of(block, at)
            return np.hstack([below * there, there])

        return Functions((), len(points) + (inside is not None), make)

    def before_last(self, value: float) -> float:
        """Return a value, or the last one before the largest, where F is 1 and has no error."""
        smallest, largest = self.shares.ends
        return value if value < largest or smallest == largest else self.shares.next_to(largest, -1)

    def inverse(self, q: float, rounding: float = 1e-12) -> float:
        """Return the smallest x with F(x) >= q."""
        return float(self.shares.reaching(np.ones(1), np.array([q - rounding]))[0][0])


@dataclass(frozen=True, eq=False)
class Woodruff(Law):
    """The interval of a quantile: the quantiles at q -+ t times the error of F there.

    Attributes
    ----------
    steps : Steps
        Where F steps.
    q : float
        The probability whose quantile it is.
    share : Estimate
        F there.
    """

    steps: Steps = field(repr=False)
    q: float
    share: Estimate

    @property
    def student(self) -> Student | None:
        return self.share.law.student

    @property
    def exact(self) -> str:
        first, last = self.steps.shares.ends
        return super().exact if first == last else "both ends of its interval, since many rows have this value"

    @property
    def approximate(self) -> bool:
        """Whether that error ignores that of a learned bias."""
        return self.share.is_approximate

    def ends(self, value: float, stderr: float, level: float) -> tuple[float, float]:
        """Return the ends; infinite where F -+ its margin is beyond 0 or 1, NaN where F has no error."""
        margin = quantile_of_student(level, self.df) * self.share.stderr
        if math.isnan(margin):
            return math.nan, math.nan
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

    def __init__(self, tangent: Tangent, steps: Steps, names: Sequence[Name] = (), what: str = "") -> None:
        self._tangent, self._steps = tangent, steps
        self._names, self._what = names, what  # of the samples, and of the column, for warnings; none without names

    @property
    def x(self) -> Floats:
        """The values at which F steps, in order."""
        return self._every[0]

    @property
    def heights(self) -> Floats:
        """F at these values."""
        return self._every[1][:, 0]

    @cached_property
    def _every(self) -> tuple[Floats, Floats]:
        return self._steps.shares.every()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._steps.shares})"

    def __call__(self, t: Any, level: float = 0.95) -> Any:
        """Return F(t): an Estimate for a number, Estimates for several."""
        points = _points(t)
        estimates = self._at(points, level)
        self._warn([f"the share of {self._what} up to {one:g}" for one in points], estimates.laws)
        return estimates[0] if np.ndim(t) == 0 else estimates

    def _at(self, points: Floats, level: float) -> Estimates:
        """Return F at some points, without warnings."""
        of = self._tangent.estimates if self._steps.inside is None else self._tangent.ratios
        return of(self._steps.below(points), level)

    def _warn(self, what: Sequence[str], laws: Sequence[Law]) -> None:
        """Warn if errors rest on few rows, where the samples have names."""
        if self._names:
            warn_of_doubt(self._names, what, laws)

    def quantile(self, q: float, level: float = 0.95) -> Estimate:
        """Return the smallest x with F(x) >= q.

        Its interval is Woodruff's: the quantiles at q -+ t times the error of F there, which needs no density, with t
        of Student's t with the degrees of freedom of that error. The standard error is the half width of the interval
        at ``level`` over t. Where q -+ that margin lies beyond 0 or 1, the rows set no bound: that end is infinite, and
        there is no standard error. Where many rows have equal values, the interval may be a point, with error 0.
        """
        if np.ndim(q):
            raise MismatchError(f"quantile takes one probability, but {np.size(q)} were given. Ask for each in turn.")
        if not isinstance(q, int | float | np.number) or not 0.0 < q < 1.0:
            raise MismatchError(
                f"The quantile {q} is not between 0 and 1. Give a probability, such as 0.5 for the median."
            )
        value = self._steps.inverse(q)
        law = Woodruff(self._steps, q, self._at(np.array([self._steps.before_last(value)]), level)[0])
        if isinstance(law.share.law, FixedValue):
            return Estimate(value, 0.0, level, law=law.share.law, among=self._tangent.measure.recorded_by)
        self._warn([f"the quantile {q:g} of {self._what}"], [law])
        low, high = law.ends(value, math.nan, level)
        stderr = (high - low) / (2.0 * quantile_of_student(level, law.df)) if math.isfinite(high - low) else math.nan
        return Estimate(value, stderr, level, law=law, among=self._tangent.measure.recorded_by)

    def band(self, level: float = 0.95, *, draws: int = 1000, seed: int = 0) -> Band:
        r"""Return a band that covers the whole function at once.

        Its width is the same everywhere: :math:`F(t) \pm c`, with c the quantile of :math:`\sup_t |Z(t)|` over draws
        of the Gaussian process Z with the covariance of the estimated function, times the quantile of Student's t over
        that of the normal distribution, for the degrees of freedom of F at the median. (A width in standard errors
        would rest on those of the tails, to which few rows or clusters contribute.) It is given where F is from 0.02 to
        0.98, and from there follows for all t. Where F at the median has no standard error, the ends are NaN.

        Parameters
        ----------
        level : float
            Nominal coverage.
        draws : int
            How many draws of the process.
        seed : int
            Seed of the draws.
        """
        quantile_of_student(level)  # refuses an invalid level
        grid, value = self._grid()
        law = self._at(grid[[np.searchsorted(value, 0.5 - 1e-9)]] if value[-1] >= 0.5 else grid[[-1]], level)[0].law
        self._warn([f"the band of {self._what}"], [law])
        if law.df < REFUSED:
            return Band(grid, value, np.full(len(grid), np.nan), np.full(len(grid), np.nan), level)
        covariance = self._covariance(grid, value)
        free = np.diag(covariance) > 1e-14  # where F is 1, or known, its error is rounding
        wider = quantile_of_student(level, law.df) / quantile_of_student(level)
        margin = free * wider * _critical(covariance[np.ix_(free, free)], level, draws, seed)
        low, high = np.maximum(value - margin, 0.0), np.minimum(value + margin, 1.0)
        low = np.maximum.accumulate(low)  # a lower bound of F at a point holds beyond it
        high = np.minimum.accumulate(high[::-1])[::-1]
        return Band(grid, value, low, high, level)

    def _grid(self, most: int = 200, tail: float = 0.02) -> tuple[Floats, Floats]:
        """Return values evenly spaced among the distinct ones with F from ``tail`` to 1 - ``tail``, and F there."""
        grid = self._steps.shares.grid(most, tail)  # rows are few in the tails
        return grid, self._steps.shares.up_to(grid)[:, 0]

    def _covariance(self, grid: Floats, value: Floats) -> Floats:
        """Return the covariance of F at the points of a grid, where its values are known."""
        measure = self._tangent.measure
        is_small = len(measure.coordinates) <= len(grid) and len(measure.sizes) == len(measure.rows.sizes)
        if is_small and not measure.rows.dependence.in_units:
            return self._covariance_by_cells(grid, value)
        if measure.rows.dependence.in_units:
            one = np.ones((len(measure.rows.sizes), 1))
            units = len(measure.rows.over_units(lambda block: block.of_sample(one), 1)[0].rows)
            what = f"A band of {units:,} units at {len(grid)} points"
            require_memory(24 * units * len(grid), what, "Ask for the distribution function at some points.")
        eta, influence = self._tangent.influence(self._steps.below(grid))
        if self._steps.inside is not None:
            influence = influence @ (np.vstack([np.eye(len(grid)), -value]) / eta[-1])
        return influence.covariance()

    def _covariance_by_cells(self, grid: Floats, value: Floats) -> Floats:
        """Return the same from sums by sample and by cell of the grid."""
        measure, x, inside = self._tangent.measure, self._steps.function, self._steps.inside
        scale = 1.0 if inside is None else 1.0 / float(measure.mean(inside)[0])
        K, d, size = len(measure.sizes), len(measure.coordinates), len(grid) + 1
        every, leverage = np.eye(d), self._tangent.leverage
        root, is_q = measure.whole.root_of_rows(leverage), measure.through is measure.point  # x is q, without families
        is_q = is_q and not measure.point.model.families
        by_row = leverage is not None or measure.rows.dependence.is_finite  # else factors differ by sample alone

        def by_cell(block: Block) -> tuple[Floats, Floats]:
            at = measure.point.at(block)
            r = at.weight if inside is None else at.weight * inside.of(block, at) * scale
            r = block.let(r)
            key = block.interval(x.of(block, at), grid) * K + block.of_sample(np.arange(float(K))[:, None])
            columns = [r, r * r, at.x(every) * r, *([] if is_q else [measure.through.at(block).q(every) * r])]
            if by_row:
                factor = block.let(root(block) ** 2.0)
                r = block.let(r * factor)
                columns += [r, columns[1] * factor, measure.through.at(block).q(every) * r]
            return key, np.hstack(columns)

        def of_samples(block: Block) -> tuple[Floats, Floats]:
            q, own = block.let(measure.through.at(block).q(every)), block.let(root(block))
            scaled = block.let(q * own)
            return block.by_sample(np.hstack([q, scaled * own, own * own])), block.gram(scaled, scaled)

        keys, of_keys = measure.rows.grouped(by_cell, 3 * d)
        sums = np.zeros((size, K, of_keys.shape[1]))
        sums.reshape(size * K, -1)[np.array(keys, np.int64)] = of_keys
        of_x = sums[:, :, 2 : 2 + d].sum(axis=1)
        of_r, of_squares, of_q = sums[:, :, 0], sums[:, :, 1], sums[:, :, -d:]
        if by_row:
            of_r, of_squares = sums[:, :, -d - 2], sums[:, :, -d - 1]
        else:
            of_r, of_squares, of_q = (
                of_r * measure.factors,
                of_squares * measure.factors,
                of_q * measure.factors[:, None],
            )
        b = self._tangent.jacobian.solve((np.cumsum(of_x, axis=0)[:-1] - value[:, None] * of_x.sum(axis=0)).T)
        M = np.vstack([(np.arange(size)[:, None] <= np.arange(len(grid))) - value, b])
        totals, squares = measure.rows.total(of_samples, 2 * d)
        products = np.zeros((size + d, size + d))
        products[np.arange(size), np.arange(size)] = of_squares.sum(axis=1)
        products[:size, size:] = of_q.sum(axis=1)
        products[size:, :size], products[size:, size:] = products[:size, size:].T, squares
        T = np.hstack([sums[:, :, 0].T, totals[:, :d]]) @ M
        times_factors = np.hstack([of_r.T, totals[:, d:-1]]) @ M
        n, beyond = measure.sizes[:, None], b[measure.coordinates.epsilon]
        # a single row deviates from the mean under the fitted law of its sample
        centre = np.where((n > 0) & (n < 2), b[measure.coordinates.u], T / np.maximum(n, 1.0))
        mixed = times_factors.T @ centre
        V = M.T @ products @ M - mixed - mixed.T + (centre * totals[:, -1:]).T @ centre
        borrowed = 0.0 if leverage is None else leverage.borrowed.share
        return np.asarray(V * (1.0 + borrowed) + beyond.T @ beyond) / measure.n**2


def _points(t: Any) -> Floats:
    """Return the points at which a distribution function is evaluated; raise if they are not numbers."""
    points = as_numbers(np.atleast_1d(as_array(t, "What F is evaluated at")))
    if points is None or not points.size or np.isnan(points).any():
        raise MismatchError(f"F cannot be evaluated at {t!r}. Give a number, or several.")
    return points.astype(np.float64, copy=False)


def _critical(covariance: Floats, level: float, draws: int, seed: int) -> float:
    """Return the quantile of the largest absolute normal deviate."""
    if not len(covariance):
        return 0.0
    values, vectors = np.linalg.eigh(covariance)
    values = np.where(values > 1e-12 * values[-1], values, 0.0)  # the root of rounding would not be negligible
    root = (vectors * np.sqrt(values)) @ vectors.T  # does not depend on the signs of eigenvectors
    Z = np.random.default_rng(seed).standard_normal((draws, len(values))) @ root
    return float(np.quantile(np.abs(Z).max(axis=1), level))
