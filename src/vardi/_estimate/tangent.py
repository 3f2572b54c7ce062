r"""Influence values: how much each row moves an estimate, including through everything else that is estimated.

For :math:`\eta = E_P f`, with :math:`r_i` the weights, :math:`x_i` the gradient of :math:`\log S_i` at the solution and
J the derivative of the equations there:

.. math::

    a = \sum_i m_i r_i (f_i - \eta)\,x_i,\qquad b = J^{-1} a,\qquad \phi_i = r_i (f_i - \eta) + q_i'b,\qquad
    \hat\eta - \eta \approx \sum_i m_i (\phi_i - E\phi_i).

With known biases alone :math:`x_i = q_i = p_i` and J is the Hessian in u. Parameters and known moments only make these
vectors longer. A known value with an error moves the estimate too, by its part of b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.estimates import ROUNDING, Estimate, Estimates, estimates_of
from vardi._estimate.intervals import Kind, ShareOf, Student, any_number, constant, known, of_census, times
from vardi._rows.contract import Evenness, Kept, Means, Spread, Sums
from vardi._rows.gram import Gram, Laplacian
from vardi._rows.leverage import Leverage
from vardi._rows.measure import Functions, Measure, Values, added, as_functions, nothing
from vardi._rows.point import Point, PointAmong
from vardi._types import Floats, Integers

if TYPE_CHECKING:
    from vardi._solve.identify import AnyRows


class Solver(Protocol):
    """J at the solution."""

    def solve(self, a: Floats) -> Floats: ...


class Hessian:
    """J of a fit with known biases only: the Laplacian of the overlaps.

    Parameters
    ----------
    rows : Rows or LazyRows
        The rows.
    u : ndarray
        The dual point.
    groups : ndarray of int, optional
        The group of each sample, where overlap does not join all of them; one group by default.
    """

    def __init__(self, rows: AnyRows, u: Floats, groups: Integers | None = None) -> None:
        self.rows, self.u, self.groups = rows, u, groups

    def __getstate__(self) -> dict[str, object]:
        """Leave out what can be computed again: factors and products with a vector cannot be pickled."""
        return {"rows": self.rows, "u": self.u, "groups": self.groups}

    @property
    def sampled(self) -> NDArray[np.bool_]:
        """Which biases have rows."""
        return np.asarray(self.rows.sizes > 0)

    @cached_property
    def sums(self) -> Sums:
        """Shares and gram at the solution."""
        return self.rows.settled(self.u).sums(self.u, objective=False)

    @property
    def gram(self) -> Gram:
        """The gram at the solution."""
        gram = self.sums.gram
        assert gram is not None
        return gram

    @cached_property
    def laplacian(self) -> Laplacian:
        """The Hessian in counts, n times H, of the sampled states."""
        return Laplacian.of(self.sums, self.sampled)

    def solve(self, a: Floats) -> Floats:
        """Return H^+ a for a of shape (K, m), zero for states without rows, each group on its own."""
        b = np.zeros(a.shape)
        for states, laplacian in self.blocks:
            b[states] = laplacian.solve(a[states])
        return b

    @cached_property
    def blocks(self) -> list[tuple[NDArray[np.bool_], Laplacian]]:
        """The samples of each group of two or more, with their Laplacian."""
        if self.groups is None or self.groups.max() == 0:
            return [(self.sampled, self.laplacian)]
        members = [self.groups == label for label in range(int(self.groups.max()) + 1)]
        return [(states, Laplacian.of(self.sums, states)) for states in members if states.sum() > 1]


@dataclass(frozen=True, eq=False)
class Influence:
    """How much each row, and each known value with an error, moves some estimates.

    Attributes
    ----------
    measure : Measure
        The rows.
    values : Values
        phi of each row and estimate, as formulas.
    b : ndarray of shape (d, m)
        What the rows move through each coordinate of the point.
    outside : mapping from a name to ndarray of shape (m,)
        What numbers measured independently of the rows, and of one another, move for each of their standard deviations.
    approximate : bool
        Whether these values ignore something else that was estimated from the rows, such as a learned bias.
    leverage : Leverage, optional
        The part that each row has in its own fit, where more than normalisers was fitted.
    """

    measure: Measure
    values: Values
    b: Floats
    outside: Mapping[Hashable, Floats] = field(default_factory=dict)
    approximate: bool = False
    leverage: Leverage | None = None

    @property
    def beyond(self) -> Floats:
        """What known values move for each of their standard deviations, times n: of shape (r, m)."""
        return self.b[self.measure.coordinates.epsilon]

    @property
    def is_exact(self) -> bool:
        """Whether nothing can vary: the rows are the whole population, and known values have no error."""
        return self.measure.is_census and not self.outside and not self.beyond.any()

    def of_rows(self) -> Floats:
        """Return phi of rows in memory, of shape (n, m)."""
        return self.measure.arrays.column(self.values.of, self.values.width)

    def column(self, j: int) -> Influence:
        """Return that of one estimate."""
        m = self.b.shape[1]
        return self if m == 1 else self @ np.eye(m)[:, [j]]

    def __matmul__(self, coefficients: Floats) -> Influence:
        """Return the influence on linear combinations of the estimates, with coefficients of shape (m, k)."""
        outside = {name: slopes @ coefficients for name, slopes in self.outside.items()}
        values, b = self.values @ coefficients, self.b @ coefficients
        return replace(self, values=values, b=b, outside=outside)

    def __add__(self, other: Influence) -> Influence:
        outside, approximate = added(self.outside, other.outside), self.approximate or other.approximate
        values, b = self.values + other.values, self.b + other.b
        leverage = self.leverage or other.leverage
        return replace(self, values=values, b=b, outside=outside, approximate=approximate, leverage=leverage)

    def covariance(self) -> Floats:
        """Return the covariance of the estimates."""
        return self.spread().covariance

    def spread(self, *, joint: bool = True) -> Spread:
        """Return the variances of the estimates and what they rest on; with covariances if ``joint``."""
        apart = np.vstack([self.beyond / self.measure.n, *self.outside.values()])
        return self.measure.spread(self.values, self.leverage, joint=joint).beside(apart)

    def laws(self, spread: Spread, *, tails: bool = True, light: float = 15.0, settled: float = 50.0) -> list[Student]:
        """Return the laws of the estimates' intervals: Student's t, with the tail index where it may matter.

        No tail is heavy if the kurtosis of influence values is light, nor if degrees of freedom are many: these are
        rarely reached if the variance is infinite, since the kurtosis then grows like n.
        """
        df, dependence = (
            np.round(spread.df, 9),
            self.measure.rows.dependence,
        )  # four rows leave three, not a little less
        are_apart = not dependence.in_units or float(spread.effective.sum(axis=0).max()) == self.measure.n
        of_counts = spread.df_of_units if are_apart else df  # few clusters may have many of the events
        unmoved = spread.stderr <= ROUNDING  # of a share that no row has, or all have
        of_counts = np.where(unmoved, 0.0 if spread.alone else spread.effective.sum(axis=0) - 1.0, of_counts)
        unit = "rows" if dependence.clusters is None else "clusters"
        suspect = (spread.kurtosis > light) & (df < settled) & tails
        most = spread.most if len(spread.carried) == len(self.measure.sizes) else -np.ones(len(df))
        places = np.flatnonzero(suspect).tolist()
        heavy = dict(zip(places, spread.tails(places) if places else (), strict=True))
        effective = spread.effective_in_time
        return [
            Student(float(one), heavy.get(j, math.nan), int(most[j]), effective[j], float(of_counts[j]), unit)
            for j, one in enumerate(df)
        ]


class Tangent:
    """A solution, seen as a map from functions on rows to estimates.

    Parameters
    ----------
    measure : Measure
        The rows at the solution.
    jacobian : Solver
        J there.
    hessian : Hessian
        The Hessian in u of the overlaps; the same as J without parameters and known moments.
    approximate : bool
        Whether biases were learned from the same rows, which J ignores.
    """

    def __init__(self, measure: Measure, jacobian: Solver, hessian: Hessian, *, approximate: bool = False) -> None:
        self.measure, self.jacobian, self.hessian, self.approximate = measure, jacobian, hessian, approximate

    @property
    def n(self) -> float:
        """The number of rows, counted."""
        return self.measure.n

    @property
    def is_plain(self) -> bool:
        """Whether there are neither parameters nor known values, so that J is a Hessian."""
        return isinstance(self.jacobian, Hessian)

    @cached_property
    def leverage(self) -> Leverage | None:
        """The part that each row has in its own fit; None where only normalisers were fitted: it is then 1 / n_k."""
        return self.leverage_at(self.measure.whole_point)

    def leverage_at(self, point: Point | PointAmong) -> Leverage | None:
        """Return the leverage of all rows on the equations at a point."""
        at = point.model.coordinates
        if not (at.parameters or at.known):
            return None
        return Leverage(self.measure.whole, point, self.jacobian.solve(np.eye(len(at))))

    def influence(self, functions: Functions | Kept, derivatives: Floats | None = None) -> tuple[Floats, Influence]:
        """Return eta (m,) and the influence on it.

        For functions that depend on the point, ``derivatives`` holds the sums of their derivatives, (d, m).
        """
        eta = self.measure.mean(functions)
        return eta, self.influence_on(functions, eta, derivatives)

    def influence_on(self, functions: Functions | Kept, eta: Floats, derivatives: Floats | None = None) -> Influence:
        """Return the influence on means that are known already."""
        a = self.measure.against(functions, eta)
        b = self.jacobian.solve(a if derivatives is None else a - derivatives)
        return self.moved_by(functions, eta, b)

    def moved_by(self, functions: Functions | Kept, eta: Floats, b: Floats) -> Influence:
        """Return the influence of all rows of the pool, given their effect b through each coordinate."""
        values = self.measure.influence(functions, eta, b)
        return Influence(self.measure.whole, values, b, approximate=self.approximate, leverage=self.leverage)

    def of_coordinates(self, directions: Floats) -> Influence:
        """Return the influence on linear functions of the point itself, given by directions of shape (d, m)."""
        b = -self.n * self.jacobian.solve(directions)
        return self.moved_by(nothing(directions.shape[1]), np.zeros(directions.shape[1]), b)

    def estimates(self, functions: Functions | Kept, level: float, declared: Sequence[bool] = ()) -> Estimates:
        """Return the expectations of functions; ``declared`` marks expressions without a column."""
        return self.measured(functions, level, declared)[0]

    def measured(
        self, functions: Functions | Kept, level: float, declared: Sequence[bool] = ()
    ) -> tuple[Estimates, Spread]:
        """Return expectations, each with the interval of its kind, and their spread."""
        means = self.measure.means(functions)
        influence = self.influence_on(functions, means.mean)
        spread, among = influence.spread(), self.measure.recorded_by
        kinds = self.kinds(functions, means, spread, declared)
        return estimates_of(means.mean, influence, level, kinds, spread=spread, among=among), spread

    def kinds(
        self, functions: Functions | Kept, means: Means, spread: Spread, declared: Sequence[bool] = ()
    ) -> list[Kind]:
        """Return what kind of number each mean is: known, a share, the same on all rows, or none of these."""
        measure = self.measure
        if measure.whole.is_census:
            return [of_census] * len(means.mean)
        fixed = self.are_fixed(spread, lambda: np.diag(measure.squares(functions, means.mean)))

        def is_single(j: int) -> bool:
            return len(set(measure.range(functions, j))) == 1

        def kind(j: int) -> Kind:
            if (len(declared) and declared[j]) or (fixed[j] and not is_single(j)):
                return known
            share = self._share_times(functions, means, j)
            if share is not None:
                return share
            exact = spread.stderr[j] <= ROUNDING * abs(means.mean[j])
            return constant(min(means.rows - 1.0, self.of_units.df)) if exact and is_single(j) else any_number

        return [kind(j) for j in range(len(means.mean))]

    def _share_times(self, functions: Functions | Kept, means: Means, j: int) -> Kind | None:
        """Return the kind of a share, or of a number times one; None for other functions."""
        if not means.strays[j]:
            return self._share(functions, means, j)
        f = as_functions(functions)
        if means.events[j] == means.rows or f.weighed:  # nowhere 0
            return None
        low, high = self.measure.range(f, j)
        factor = low or high
        if low and high:  # neither is 0
            return None
        holds = Functions(f.values, 1, lambda block, at: f.of(block, at)[:, [j]] / factor)
        if self.measure.means(holds).strays[0]:
            return None
        return times(self._share(holds, Means(means.mean[[j]], np.zeros(1), means.events[[j]], means.rows), 0), factor)

    def _share(self, functions: Functions | Kept, means: Means, j: int, base: int | None = None) -> ShareOf:
        """Return the kind of a share of all rows, or of those on which the function at another place is 1."""
        measure, f = self.measure, as_functions(functions)
        holds = f.column(j)
        events, rows = float(means.events[j]), means.rows if base is None else float(means.events[base])

        def evenness() -> Evenness:
            return measure.evenness if base is None else measure.evenness_of(f.column(base))

        of_all = holds if base is None and not measure.recorded_by else None
        return ShareOf(events, rows - events, evenness, lambda: measure.evenness_of(holds), of_all)

    def are_fixed(self, spread: Spread, naive: Callable[[], Floats], least: float = 1e-10) -> NDArray[np.bool_]:
        """Return where known values remove all error, given the variance if weights were known, times n²."""
        if not self.measure.coordinates.known or (self.leverage is not None and self.leverage.borrowed.is_all):
            return np.zeros(len(spread.scale), bool)
        with np.errstate(over="ignore"):
            error = np.sqrt(naive()) / self.n
        return np.asarray((error > 0) & np.isfinite(error) & (spread.stderr <= least * error))

    @cached_property
    def of_units(self) -> Student:
        """Student's t with a degree of freedom less than there are units; none if a sample is a single one."""
        if not self.measure.rows.dependence.in_units:
            return Student(self.n - 1.0)
        unmoved = self.moved_by(nothing(1), np.zeros(1), np.zeros((len(self.measure.coordinates), 1)))
        return unmoved.laws(unmoved.spread(joint=False), tails=False)[0]

    def apart(self, name: Hashable, value: float, stderr: float, level: float) -> Estimate:
        """Return a number measured independently of the rows."""
        whole = self.measure.whole
        b = np.zeros((len(whole.coordinates), 1))
        zero = whole.influence(nothing(1), np.zeros(1), b)
        influence = Influence(whole, zero, b, {name: np.array([stderr])}, leverage=self.leverage)
        return Estimate(value, stderr, level, influence=influence)

    def ratios(self, functions: Functions | Kept, level: float) -> Estimates:
        """Return the expectations of all functions but the last over that of the last, the indicator of their rows."""
        means = self.measure.means(functions)
        m, base = len(means.mean) - 1, means.mean[-1]
        values = means.mean[:-1] / base
        influence = self.influence_on(functions, means.mean) @ (np.vstack([np.eye(m), -values]) / base)
        kinds = [any_number if means.strays[j] else self._share(functions, means, j, base=m) for j in range(m)]
        return estimates_of(values, influence, level, kinds, among=self.measure.recorded_by)
