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
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.estimates import ROUNDING, Estimate, Estimates
from vardi._estimate.intervals import REFUSED, FixedValue, Law, Share, Student
from vardi._rows.contract import Evenness, Kept, Sums
from vardi._rows.gram import Gram
from vardi._rows.measure import Functions, Measure, Values, nothing
from vardi._rows.variance import Spread
from vardi._solve.laplacian import Laplacian
from vardi._types import Floats, Integers


class Solver(Protocol):
    """J at the solution."""

    def solve(self, a: Floats) -> Floats: ...


class SolvedRows(Protocol):
    """Rows of known biases, wherever they are."""

    sizes: Floats

    def settled(self, u: Floats) -> Self:
        """Return the rows in the form that suits a solution."""

    def sums(self, u: Floats, *, objective: bool = True) -> Sums:
        """Return the sums at u, with or without the objective."""


class Hessian:
    """J of a fit with known biases only: the Laplacian of the overlaps.

    Parameters
    ----------
    rows : SolvedRows
        The rows.
    u : ndarray
        The dual point.
    groups : ndarray of int, optional
        The group of each sample, where overlap does not join all of them; one group by default.
    """

    def __init__(self, rows: SolvedRows, u: Floats, groups: Integers | None = None) -> None:
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

    def gap(self) -> float:
        """Return the smallest spectral gap of a group; 1 where no two samples are compared."""
        return min((laplacian.gap()[0] for states, laplacian in self.blocks if states.sum() > 1), default=1.0)

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
    """

    measure: Measure
    values: Values
    b: Floats
    outside: Mapping[Hashable, Floats] = field(default_factory=dict)
    approximate: bool = False

    @property
    def beyond(self) -> Floats:
        """What known values move for each of their standard deviations, times n: of shape (r, m)."""
        return self.b[self.measure.coordinates.epsilon]

    def of_rows(self) -> Floats:
        """Return phi of rows in memory, of shape (n, m)."""
        return self.measure.rows_of(self.values)

    def column(self, j: int) -> Influence:
        """Return that of one estimate."""
        own = slice(j % self.b.shape[1], j % self.b.shape[1] + 1)
        outside = {name: moved[own] for name, moved in self.outside.items()}
        return Influence(self.measure, self.values[:, own], self.b[:, own], outside, self.approximate)

    def __matmul__(self, coefficients: Floats) -> Influence:
        """Return the influence on linear combinations of the estimates, with coefficients of shape (m, k)."""
        outside = {name: moved @ coefficients for name, moved in self.outside.items()}
        return Influence(self.measure, self.values @ coefficients, self.b @ coefficients, outside, self.approximate)

    def __add__(self, other: Influence) -> Influence:
        none = np.zeros(self.b.shape[1])
        both = {**self.outside, **other.outside}
        outside = {name: self.outside.get(name, none) + other.outside.get(name, none) for name in both}
        approximate = self.approximate or other.approximate
        return Influence(self.measure, self.values + other.values, self.b + other.b, outside, approximate)

    def covariance(self) -> Floats:
        """Return the covariance of the estimates."""
        return self.measure.covariance(self.values) + self._apart.T @ self._apart

    def spread(self, *, joint: bool = True) -> Spread:
        """Return the variances of the estimates and what they rest on; with covariances if ``joint``."""
        return self.measure.spread(self.values, joint=joint).beside(self._apart)

    @property
    def _apart(self) -> Floats:
        """What known values, and numbers measured independently of the rows, move: of shape (r, m)."""
        return np.vstack([self.beyond / self.measure.n, *self.outside.values()])

    def laws(self, spread: Spread, *, tails: bool = True, light: float = 15.0, settled: float = 50.0) -> list[Student]:
        """Return the laws of the estimates' intervals: Student's t, with the tail index where it may matter.

        No tail is heavy if the kurtosis of influence values is light, nor if degrees of freedom are many: these are
        rarely reached if the variance is infinite, since the kurtosis then grows like n.
        """
        df = spread.df
        suspect = (spread.kurtosis > light) & (df < settled) & tails
        most = spread.most if len(spread.carried) == len(self.measure.sizes) else -np.ones(len(df))
        places = np.flatnonzero(suspect).tolist()
        heavy = dict(zip(places, self.measure.tails(self.values, places) if places else (), strict=True))
        effective = spread.effective_in_time
        return [Student(float(own), heavy.get(j, math.nan), int(most[j]), effective[j]) for j, own in enumerate(df)]


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

    def influence(self, functions: Functions | Kept, moved: Floats | None = None) -> tuple[Floats, Influence]:
        """Return eta (m,) and the influence on it.

        For functions that depend on the point, ``moved`` holds the sums of their derivatives, (d, m).
        """
        eta = self.measure.mean(functions)
        return eta, self.influence_on(functions, eta, moved)

    def influence_on(self, functions: Functions | Kept, eta: Floats, moved: Floats | None = None) -> Influence:
        """Return the influence on means that are known already."""
        a = self.measure.against(functions, eta)
        b = self.jacobian.solve(a if moved is None else a - moved)
        return self.moved_by(functions, eta, b)

    def moved_by(self, functions: Functions | Kept, eta: Floats, b: Floats) -> Influence:
        """Return the influence of all rows of the pool, given their effect b through each coordinate."""
        values = self.measure.influence(functions, eta, b)
        return Influence(self.measure.whole, values, b, approximate=self.approximate)

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
        """Return expectations, each with the interval of its kind (share, known value or mean), and their spread."""
        measure, found = self.measure, self.measure.means(functions)
        influence = self.influence_on(functions, found.mean)
        spread = influence.spread()
        stderr, laws = spread.stderr, list[Law](influence.laws(spread))
        fixed: Sequence[bool] = ()
        if measure.coordinates.known:
            with np.errstate(over="ignore"):
                naive = np.diag(measure.squares(functions, found.mean))
            fixed = [
                is_small and len(set(measure.range(functions, j))) > 1
                for j, is_small in enumerate(self.is_fixed(spread, naive))
            ]
        for j, value in enumerate(found.mean.tolist()):
            if (len(declared) and declared[j]) or (fixed and fixed[j]):
                laws[j] = FixedValue()
            elif not found.strays[j]:
                events, holds = float(found.events[j]), measure.holds(functions, j)
                base = (lambda: measure.evenness) if measure.recorded_by else None
                share = Share.of(value, stderr[j], (events, found.rows - events), measure, holds, base)
                laws[j], stderr[j] = share, share.error(stderr[j])
            elif stderr[j] <= ROUNDING * abs(value) and len(set(measure.range(functions, j))) == 1:
                laws[j], stderr[j] = Student(found.rows - 1.0), 0.0
        made = estimates_with(found.mean, influence, spread.covariance, stderr, laws, level, measure.recorded_by)
        return made, spread

    def is_fixed(self, spread: Spread, naive: Floats, least: float = 1e-10) -> NDArray[np.bool_]:
        """Return where known values remove all error, given the variance if weights were known, times n²."""
        error = np.sqrt(naive) / self.n
        return np.asarray((error > 0) & np.isfinite(error) & (spread.stderr <= least * error))

    def apart(self, name: Hashable, value: float, stderr: float, level: float) -> Estimate:
        """Return a number measured independently of the rows."""
        whole = self.measure.whole
        b = np.zeros((len(whole.coordinates), 1))
        zero = whole.influence(nothing(1), np.zeros(1), b)
        influence = Influence(whole, zero, b, {name: np.array([stderr])})
        return Estimate(value, stderr, level, influence=influence)

    def ratios(self, functions: Functions | Kept, level: float) -> Estimates:
        """Return the expectations of all functions but the last over that of the last, the indicator of their rows."""
        found = self.measure.means(functions)
        base = found.mean[-1]
        values = found.mean[:-1] / base
        influence = self.influence_on(functions, found.mean)
        influence = influence @ (np.vstack([np.eye(len(values)), -values]) / base)
        spread = influence.spread()
        stderr, laws = spread.stderr, list[Law](influence.laws(spread))
        for j, value in enumerate(values.tolist()):
            if not found.strays[j]:
                events, others = float(found.events[j]), float(found.events[-1] - found.events[j])
                holds = self.measure.holds(functions, j)
                share = Share.of(
                    value, stderr[j], (events, others), self.measure, holds, lambda: self._evenness(functions)
                )
                laws[j], stderr[j] = share, share.error(stderr[j])
        return estimates_with(values, influence, spread.covariance, stderr, laws, level, self.measure.recorded_by)

    def _evenness(self, functions: Functions | Kept) -> Evenness:
        """Return how evenly the weights are spread over the rows on which the last function is 1."""
        holds = self.measure.holds(functions, -1)
        found = self.measure.events_within(holds, holds)
        assert found is not None
        return found[2]


def estimates_of(values: Floats, influence: Influence, level: float = 0.95) -> Estimates:
    """Return values as estimates whose errors are the deviations of their influence values."""
    spread = influence.spread()
    return estimates_with(values, influence, spread.covariance, spread.stderr, influence.laws(spread), level)


def estimates_with(
    values: Floats,
    influence: Influence,
    covariance: Floats,
    stderr: Floats,
    laws: Sequence[Law],
    level: float,
    among: tuple[str, ...] = (),
) -> Estimates:
    """Return values as estimates; errors that rest on too few rows are withheld."""
    withheld = np.array([law.df < REFUSED for law in laws])
    stderr = np.where(withheld, math.nan, stderr)
    covariance = np.where(withheld | withheld[:, None], math.nan, covariance)
    for j, law in enumerate(laws):
        if isinstance(law, Share) and law.is_one_sided:
            covariance[j, j] = stderr[j] ** 2
    return Estimates(values, covariance, level, influence, stderr, tuple(laws), among)
