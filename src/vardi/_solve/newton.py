"""Sums -> Solution: Newton's method on the convex dual, with a step that is guaranteed to descend.

In counts (not shares) of rows, the dual is D(u) = sum_i c_i log S_i(u) - sum_k n_k u_k with gradient shares - sizes and
Hessian diag(shares) - gram. Its third derivative along any direction d is at most range(d) times the second, from which
everything here follows (pseudo-self-concordance; Bach 2010, "Self-concordant analysis for logistic regression"):

- a full Newton step delta descends by N^2 / 4 or more whenever R = range(delta) <= 1, without evaluating D;
- a step of length log(1 + R) / R always descends;
- range(u - u*) <= -log(1 - c N) where c^2 is the largest effective resistance of the Hessian's graph, which is never
  above 2 over the second eigenvalue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from vardi._machine import single_threaded_blas
from vardi._rows.base import Rows
from vardi._rows.contract import Sums
from vardi._rows.gram import MAX_SPECTRAL_SAMPLES, Laplacian, SingularError
from vardi._solve.identify import Joining, Name, Verdict, connected, cut_verdict, judge
from vardi._types import Floats, Integers
from vardi.errors import ConvergenceError

if TYPE_CHECKING:
    from vardi._solve.identify import AnyRows

GAP = 1e-9  # spectral gap below which the samples cannot be distinguished from disconnected ones
RANGE = 1e-6  # largest range of the last step
REUSED = 5e-3  # how far u may be from where the Hessian was computed
EXACT = 1e-13  # range of a step below which another is not worth its pass, however cheap
ROUNDED = 1e-9  # range of a step up to which failing to shrink may be due to rounding
MIN_SERIAL_SAMPLES, MAX_SERIAL_SAMPLES = 8, 1000  # samples between which linear algebra is done in one thread
LEVELS = 16, 64  # least and most rows for each row of the subsample
TELLING = 1000  # rows of a subsample for each sample, from which on more of them tell little more
LEAST = 100  # rows of each sample that a subsample should have
PATIENCE = 5  # steps without progress after which only rounding is left
NOISE = 1e10  # range of a step from which on it is the rounding of a Hessian that is singular
LOST = 1000  # self-consistent steps from points with a singular Hessian
LOST_SHARE = 1e-200  # rows in all below which sums of exps no longer tell how many, and sums of logs do
FAR = 1e-3  # share of the rows a sample should have below which Newton's model is unreliable
MIN_PROBED_ROWS = 10_000  # rows above which a few of them are checked for links first
PROBED_ROWS = 50  # rows of each sample that are usually enough to show that all are linked
THIN = 1e-6  # spectral gap of a point that may be on its way to infinity
MAX_DIRECT_NUMBERS = 200_000  # numbers up to which a subsample does not pay off
MIN_COSTLY_NUMBERS = 5_000_000  # numbers from which a pass costs too much to go beyond the tolerance


@dataclass(frozen=True)
class Solution:
    """Where the solver stopped, and how close that is.

    Attributes
    ----------
    u : ndarray of shape (K,)
        The dual point, log(lambda_k / Omega_k); -inf for a state that no sample was drawn from.
    converged : bool
        Whether residual, last step and spectral gap are all within their bounds.
    iterations : int
        Newton steps over all rows; steps on subsamples are not counted.
    residual : float
        max_k abs(Gamma_k - 1): the largest relative error of Vardi's equations at u.
    step : float
        Range of the Newton step at u, an estimate of range(u - u*).
    gap : float
        Spectral gap of the overlap matrix: 1 is perfect overlap, 0 none. For large pools to a relative 1e-3.
    certificate : float
        Upper bound on range(u - u*), and so on the log of every ratio of weights to its exact value, beside the
        rounding of logs so large that a weight has fewer digits (1e-16 times log omega).
    cut : ndarray of shape (K,)
        A number for each sample; its signs split the samples where they overlap least.
    point : ndarray or None
        All coordinates, if there are parameters or known values: u, theta, mu and epsilon, in the solver's scale.
    weights : ndarray or None
        Weight of each row at that point.
    """

    u: Floats
    converged: bool
    iterations: int
    residual: float
    step: float
    gap: float
    certificate: float
    cut: Floats
    point: Floats | None = field(default=None, repr=False)
    weights: Floats | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "did not converge"
        return (
            f"Solution({state} in {self.iterations} iterations, residual={self.residual:.1e}, "
            f"gap={self.gap:.2g}, certificate={self.certificate:.1e})"
        )


@dataclass(frozen=True)
class JointFit:
    """A solution in all coordinates, and the one from the samples alone.

    Attributes
    ----------
    solution : Solution
        At the known values and the estimated parameters.
    alone : ndarray or None
        The point without known values, with each group connected by overlap on its own scale; None if only known
        values identify the parameters.
    groups : ndarray of int or None
        The group of each bias within which samples can be compared by overlap; -1 for a state without rows. None if
        all biases are known and there is one group.
    joining : Joining or None
        How known values join the groups; None if there is only one.
    """

    solution: Solution
    alone: Floats | None = None
    groups: Integers | None = None
    joining: Joining | None = None


def shifted(solution: Solution, by: float) -> Solution:
    """Return a solution with a constant added to u, and the rounding of that sum added to the certificate."""
    u = solution.u + by
    sampled = np.isfinite(u)
    own = u[sampled] - by  # the rounding error of a sum is itself a floating-point number (Knuth 1969, 4.2.2)
    lost = (solution.u[sampled] - own) + (by - (u[sampled] - own))
    return replace(solution, u=u, certificate=solution.certificate + float(np.ptp(lost)))


def solve_plain(
    rows: AnyRows, names: Sequence[Name], tol: float, max_iterations: int, near: Mapping[Name, float] | None = None
) -> Solution | Verdict:
    """Return the solution of known biases alone, or the verdict that there is none.

    ``near`` are log normalisers near the solution, for some or all names, such as those of a part of the rows.
    """
    if not _are_linked(rows):
        return judge(rows, names)
    start = None if near is None else _start(rows, names, near)
    solution = solve(rows, tol=tol, max_iterations=max_iterations, start=start)
    # u still diverges while the equations nearly hold: the gap can only fall further (a minimum at infinity)
    runs_off = not solution.converged and solution.gap < THIN and solution.step >= 1.0 and solution.residual <= 1e-3
    if solution.gap < GAP or runs_off:
        return cut_verdict(judge(rows, names), solution.cut[rows.sizes > 0], solution.gap)
    if not solution.converged:
        raise ConvergenceError(
            f"Vardi's equations hold only to {solution.residual:.1e} after {solution.iterations} iterations, but "
            f"{tol:.0e} was asked for (spectral gap {solution.gap:.1e}). The samples overlap too little for the "
            "rounding of the sums, or the tolerance is below it. Raise tol or max_iterations, or add a sample "
            "between those that overlap least.",
            solution=solution,
        )
    return solution


def _are_linked(rows: AnyRows) -> bool:
    """Return whether all samples can be compared, judged by a few of their rows if these suffice."""
    if rows.positive:
        return True
    few = rows if len(rows) <= MIN_PROBED_ROWS else rows.subsample(0.0, least=PROBED_ROWS)  # their links are valid
    return connected(few.reach, few.sizes) or (few is not rows and connected(rows.reach, rows.sizes))


def _start(rows: AnyRows, names: Sequence[Name], near: Mapping[Name, float]) -> Floats | None:
    """Return u from log normalisers; those of new samples come from the weights of the others, None if undefined."""
    sampled, n = rows.sizes > 0, rows.sizes.sum()
    logs = np.array([near.get(name, np.nan) for name in names])
    told = sampled & np.isfinite(logs)
    new = sampled & ~told
    with np.errstate(divide="ignore", invalid="ignore"):
        log_shares = np.log(rows.sizes / n)
        u = np.where(told, log_shares - logs, -np.inf)
        if new.any():
            if not (isinstance(rows, Rows) and told.any()):
                return None  # nothing to go by, or an engine, which starts from a few of its rows
            others = rows.subset(np.flatnonzero(told[rows.source]))
            u[new] = log_shares[new] + np.log(n) - others.log_means(u)[new]
    return u if np.isfinite(u[sampled]).all() else None


def solve(rows: AnyRows, *, tol: float = 1e-10, max_iterations: int = 100, start: Floats | None = None) -> Solution:
    """Solve Vardi's system for all rows, from a given start or warm-started from a subsample.

    The rows are asked for in the form that is cheapest near the start, and again if the solution is so far from it that
    they should have another.
    """
    # Factors of a few hundred rows gain nothing from threads, which wait for one another on a busy machine.
    with single_threaded_blas() if MIN_SERIAL_SAMPLES < len(rows.sizes) < MAX_SERIAL_SAMPLES else nullcontext():
        first = rows.start() if start is None else start
        near = rows.settled(first)
        u, laplacian = _warm_start(near, first) if start is None else (first, None)
        solution = newton(near, u, laplacian, tol=tol, max_iterations=max_iterations)
        for _ in range(PATIENCE):
            again = rows.settled(solution.u)
            if again is near:
                break
            near, solution = again, newton(again, solution.u, tol=tol, max_iterations=max_iterations)
        return solution


def newton(
    rows: AnyRows, u: Floats, laplacian: Laplacian | None = None, *, tol: float = 1e-10, max_iterations: int = 100
) -> Solution:
    """Minimise the dual from u: as far as rounding allows if passes are cheap, otherwise to the tolerance.

    A Laplacian that is close to the Hessian at u saves its computation there.
    """
    previous, best, idle = np.inf, np.inf, 0
    # a pass may cost too much to go beyond the tolerance
    is_costly = rows.reading_dominates or len(rows) * len(rows.sizes) >= MIN_COSTLY_NUMBERS
    exact = max(EXACT, tol if is_costly else 0.0 if is_cheap(rows) else tol / 100)
    for step in _steps(rows, u, laplacian):
        solved = step.residual <= tol
        best, idle = (step.residual, 0) if step.residual < best / 2 else (best, idle + 1)
        if step.range <= RANGE and idle >= PATIENCE and not step.singular:  # as close as rounding of the sums allows
            break
        if solved and step.age < np.inf and step.range <= RANGE and (step.range <= exact or step.range > previous / 4):
            break
        if (step.singular and solved) or step.iterations >= max_iterations:
            break
        if solved and step.range > RANGE and step.laplacian.gap()[0] < GAP:  # they hold, but not at one point only
            break
        previous = step.range
    return _solution(rows, step, solved=step.residual <= tol and step.range <= RANGE)


def is_cheap(rows: AnyRows) -> bool:
    """Return whether passes over the rows cost next to nothing."""
    return len(rows) * len(rows.sizes) <= MAX_DIRECT_NUMBERS


def _warm_start(rows: AnyRows, first: Floats) -> tuple[Floats, Laplacian | None]:
    """Return u from a subsample of the rows, solved to well below its statistical error, and the Hessian there.

    It is the first u if a subsample would not pay off, or leaves samples without a link.
    """
    if is_cheap(rows) or LEAST * len(rows.sizes) > len(rows) / 4:
        return first, None
    fraction = float(np.clip(TELLING * len(rows.sizes) / len(rows), 1.0 / LEVELS[1], 1.0 / LEVELS[0]))
    smaller = rows.subsample(fraction, least=LEAST)
    if not connected(smaller.reach, smaller.sizes):
        return first, None
    error = 0.01 * smaller.sizes.sum() / len(smaller)  # the counts of a subsample are those of all rows
    for step in _steps(smaller, smaller.start()):
        if step.decrement < error or step.iterations == 20:
            break
    return (first, None) if step.singular else (step.u + step.delta, step.laplacian)


@dataclass(frozen=True)
class _Step:
    """A point u with the Newton step delta that leads on from it."""

    u: Floats
    delta: Floats
    laplacian: Laplacian
    age: float  # range of u's change since the Laplacian was computed; infinite for that of a subsample
    singular: bool
    gradient: Floats  # of the sampled states only
    residual: float
    iterations: int

    @property
    def range(self) -> float:
        return float(np.ptp(self.delta[np.isfinite(self.u)]))

    @property
    def decrement(self) -> float:
        """N^2 = gradient' H^+ gradient: twice the remaining descent of D, to second order."""
        return float(-self.gradient @ self.delta[np.isfinite(self.u)])


def _steps(rows: AnyRows, u: Floats, laplacian: Laplacian | None = None) -> Iterator[_Step]:
    """Walk down the dual, yielding each point before moving on.

    Where the Hessian is singular, as it may be far from the solution even if samples overlap well, self-consistent
    steps are taken: they descend from anywhere, if slowly. The walk ends if they do not lead out of there.

    Near the solution the Hessian of an earlier point is reused: within range d of it the Hessian changes by a factor of
    at most e^d, so each step still removes all but a share d of the error, for a pass that costs a fraction. The first
    step can use the Hessian of a subsample.
    """
    sizes = rows.sizes
    sampled = sizes > 0
    u = np.where(sampled, u, -np.inf)
    sums = _sums(rows, u, gram=laplacian is None)
    age, before = np.inf, np.inf
    iterations, lost = 0, LOST if is_cheap(rows) else PATIENCE
    while True:
        if (sums.shares[sampled] < FAR * sizes[sampled]).any():  # self-consistent step, which descends from anywhere
            u, before = _consistent(rows, u, sums), np.inf
            sums = _sums(rows, u)
            continue
        if sums.gram is not None:
            laplacian, age = Laplacian.of(sums, sampled), 0.0
        assert laplacian is not None
        step = _newton_step(u, sums, sizes, iterations, laplacian, age)
        if step.age and step.range > max(before / 4, ROUNDED):  # an old Hessian that misleads
            sums = _sums(rows, u)
            laplacian = Laplacian.of(sums, sampled)
            step = _newton_step(u, sums, sizes, iterations, laplacian, 0.0)
        yield step
        if step.singular:
            if lost == 0:
                return
            u, before, lost = _consistent(rows, u, sums), np.inf, lost - 1
            sums = _sums(rows, u)
            continue
        iterations += 1
        u, sums = _advance(rows, step)
        age, before = step.age + step.range, step.range


def _sums(rows: AnyRows, u: Floats, *, gram: bool = True, objective: bool = False) -> Sums:
    """Return sums at u.

    H is the Laplacian of links that are all positive, so H changes by no more than the share by which they do: a rough
    gram serves a search as well as an exact one. It is asked for where the gap is approximate anyway.
    """
    return rows.sums(u, gram=gram, objective=objective, rough=len(rows.sizes) > MAX_SPECTRAL_SAMPLES)


def _consistent(rows: AnyRows, u: Floats, sums: Sums) -> Floats:
    """Return the dual point at which each sample, taken alone, would have its own number of rows."""
    sampled = rows.sizes > 0
    shares = sums.shares[sampled]
    log_shares = np.log(shares) if shares.min() > LOST_SHARE else (rows.log_means(u) + u)[sampled]
    u = u.copy()
    u[sampled] += np.log(rows.sizes[sampled]) - log_shares
    return u


def _newton_step(u: Floats, sums: Sums, sizes: Floats, iterations: int, laplacian: Laplacian, age: float) -> _Step:
    sampled = sizes > 0
    gradient = (sums.shares - sizes)[sampled]
    delta, singular = np.zeros(len(u)), False
    try:
        delta[sampled] = -laplacian.solve(gradient)
    except SingularError:
        singular = True
    singular = singular or float(np.ptp(delta[sampled])) > NOISE
    residual = float(np.abs(gradient / sizes[sampled]).max())
    return _Step(u, delta, laplacian, age, singular, gradient, residual, iterations)


def _advance(rows: AnyRows, step: _Step) -> tuple[Floats, Sums]:
    """Take the full step, unless it is long and does not descend enough: then the step that is guaranteed to."""
    sampled = rows.sizes > 0
    curved = is_cheap(rows) or step.age + step.range > REUSED
    u = step.u + step.delta
    if step.range <= 1.0:
        return u, _sums(rows, u, gram=curved)
    here, there = rows.sums(step.u, gram=False), _sums(rows, u, gram=curved, objective=True)
    assert here.log_mass is not None
    assert there.log_mass is not None
    fall = here.log_mass - there.log_mass + rows.sizes[sampled] @ step.delta[sampled]
    if fall >= step.decrement / 4:  # false for NaN
        return u, there
    u = step.u + step.delta * (np.log1p(step.range) / step.range)
    return u, _sums(rows, u)


def _solution(rows: AnyRows, step: _Step, *, solved: bool) -> Solution:
    cut = np.zeros(len(step.u))
    gap, side = step.laplacian.gap()
    cut[rows.sizes > 0] = side if side[0] >= 0 else -side  # an eigenvector's sign is arbitrary: make the first positive
    if step.singular or gap < GAP:
        return Solution(step.u, False, step.iterations, step.residual, step.range, gap, np.inf, cut)
    # Rounding of the sums themselves: half a unit in the last place per addition, besides a few for each row.
    rounding = (4 + rows.additions / 2) * np.finfo(float).eps * np.sqrt(rows.sizes.sum() / gap)
    # Errors e_i of exponents, none above d_i, move the gradient by sum_i c_i V_i e_i with V_i = diag(p_i) - p_i p_i'.
    # Since H = sum_i c_i V_i, the norm of that is at most the root of sum_i c_i e_i'V_i e_i, and so of sum_i c_i d_i^2.
    rounding += np.finfo(float).eps / 2 * rows.exponents(step.u)
    resistance, decrement = (
        step.laplacian.largest_resistance(gap),
        float(step.gradient @ step.laplacian.solve(step.gradient)),
    )
    reach = np.exp(step.age) * np.sqrt(resistance) * (np.sqrt(max(decrement, 0.0)) + rounding)
    certificate = float(-np.log1p(-reach)) if reach < 1 else np.inf
    return Solution(step.u, solved, step.iterations, step.residual, step.range, gap, certificate, cut)
