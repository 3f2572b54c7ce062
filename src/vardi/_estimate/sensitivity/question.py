r"""A question about the sensitivity of a fit, checked before anything is computed, and its answer for a target.

The worst case at a given factor is found in three ways: exactly, attained by a search, or to first order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.estimates import Estimate
from vardi._estimate.sensitivity.result import FURTHEST, Kind, Method, Sensitivity, require_number
from vardi._estimate.tangent import Influence, Tangent
from vardi._inputs.pool import Name
from vardi._machine import single_threaded_blas
from vardi._rows.contract import Block, Kept
from vardi._rows.dense import Dense
from vardi._rows.gram import Laplacian, SingularError
from vardi._rows.measure import Measure, Values, weighed
from vardi._solve.newton import newton
from vardi._types import Floats, Integers
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._fit.solved import Solved


@dataclass(frozen=True)
class Errors:
    """The errors considered: delta_l(z_i) = log of true over declared bias, within log Gamma of 0.

    Attributes
    ----------
    names : tuple
        The samples whose biases may be wrong.
    wrong : ndarray of bool of shape (K,)
        Which of the sampled biases these are.
    kind : {"free", "common"}
        Whether each bias errs on its own, or a row's error is the same in all of them.
    """

    names: tuple[Name, ...]
    wrong: NDArray[np.bool_]
    kind: Kind

    @classmethod
    def of(cls, solved: Solved, samples: Sequence[Name] | None, kind: Kind) -> Errors:
        """Return the errors of some samples' biases, by default of all; raise if they are invalid."""
        if kind not in ("free", "common"):
            raise MismatchError(
                f"kind is {kind!r}. Give 'free', where each bias errs on its own, or 'common', where all err alike."
            )
        measure = solved.tangent.measure
        sampled = [solved.names[k] for k in measure.states or range(len(measure.sizes)) if measure.sizes[k]]
        wanted = sampled if samples is None else [samples] if isinstance(samples, str) else list(samples)
        unknown = [name for name in wanted if name not in sampled]
        if unknown or not wanted:
            reason = f"No sample {unknown[0]!r} whose bias enters the weights" if wanted else "No sample was named"
            raise MismatchError(
                f"{reason}. The samples are {show(sampled)}.{suggest(unknown[0], sampled) if unknown else ''} Name "
                "those whose biases may be wrong, or leave samples out for all."
            )
        wrong = np.array([name in wanted for name in sampled])
        return cls(tuple(name for name in sampled if name in wanted), wrong, kind)

    @property
    def common(self) -> bool:
        """Whether a row's error is the same in all biases."""
        return self.kind == "common"


#: A number that the probabilities of the rows determine. It is given with :math:`g_i` of each row, where
#: :math:`\sum_i \pi_i g_i = 0`, such that a change of the probabilities moves the number by :math:`\sum_i d\pi_i\,g_i`.
Estimand: TypeAlias = Callable[[Floats], tuple[float, Floats]]


@dataclass(frozen=True)
class Mean:
    """The mean of a function, given in the language of the rows: g = f - mean."""

    function: Kept

    @property
    def values(self) -> Floats:
        """Its values on the rows, where these are in memory."""
        return np.asarray(self.function[:, 0])

    def __call__(self, pi: Floats) -> tuple[float, Floats]:
        """Return the mean and the deviations from it."""
        mean = float(np.sum(pi * self.values))
        return mean, self.values - mean


@dataclass(frozen=True)
class End:
    """The estimate at one end of the range, and the influence values of the rows there."""

    value: float
    phi: Values
    point: Reached | None = None


@dataclass(frozen=True)
class FirstOrder:
    """To first order: the value plus or minus log(gamma) times the slope."""

    start: End
    slope: float
    method: Method = "linear"

    def end(self, gamma: float, side: int, before: End) -> End:
        """Return the end of the first-order range, assuming that rows move it as they move the estimate.

        It is the largest (side 1) or smallest (side -1) value; before is the end at a smaller gamma.
        """
        return End(self.start.value + side * math.log(gamma) * self.slope, self.start.phi)


@dataclass(frozen=True)
class Reweighed:
    r"""Exact, where an error only divides the probability of its row by :math:`e^{\delta_i}`.

    The mean :math:`\sum_i \pi_i e^{-\delta_i} f_i / \sum_i \pi_i e^{-\delta_i}` is a ratio of linear functions of
    factors within :math:`[1/\Gamma, \Gamma]`. It is largest where the rows above some threshold of f have the factor
    :math:`\Gamma` and the others :math:`1/\Gamma`; all thresholds are tried.
    """

    influence: Tangent
    target: Mean
    method: Method = "sharp"

    @property
    def steepest(self) -> float:
        """How far the mean moves at most per unit of log gamma, to first order."""
        _, g = self.target(self._pi)
        return float(self._pi @ np.abs(g))

    @cached_property
    def _order(self) -> Integers:
        return np.argsort(self.target.values, kind="stable")

    @cached_property
    def _pi(self) -> Floats:
        measure = self.influence.measure
        return measure.weights * measure.counts / measure.n

    def end(self, gamma: float, side: int, before: End) -> End:
        """Return the exact end."""
        order = self._order[::-side]  # rows with the factor gamma first
        pi, f = self._pi[order], self.target.values[order]
        mass, moment = np.cumsum(pi), np.cumsum(pi * f)
        upper = (moment * gamma + (moment[-1] - moment) / gamma) / (mass * gamma + (mass[-1] - mass) / gamma)
        raised = int(np.argmax(side * upper)) + 1
        factors = np.empty(len(order))
        factors[order] = np.where(np.arange(len(order)) < raised, gamma, 1.0 / gamma)
        factors /= float(np.sum(self._pi * factors))
        value, g = self.target(self._pi * factors)
        if side * value <= side * before.value:  # by rounding alone: ranges are nested
            return before
        rg = (self.influence.measure.weights * factors * g)[:, None]
        return End(value, self.influence.influence_on(weighed(rg), np.zeros(1)).values)


@dataclass(frozen=True)
class Reached:
    """The fit to biases with given errors; ``slopes`` are the derivatives of the value in these errors."""

    value: float
    errors: Floats
    v: Floats
    slopes: Floats
    phi: Values


class Search:
    r"""Attained: errors are moved to where the slopes point, and the biases refitted, until nothing is gained.

    A move that gains nothing is halved. So the value never falls, and the search ends at errors that no small change
    improves: a local optimum of a problem that is not convex. Its value is attained by biases within the factor, but
    others may give a worse one.

    The rows are held as :math:`p_{il}` at the solution, so that :math:`p_{il} e^{\delta_{il}}` are biases of the order
    of 1 whose solution is near 0, and the weights are the fit's over their row sums.
    """

    method: Method = "attained"

    def __init__(self, influence: Tangent, target: Estimand, errors: Errors) -> None:
        self.target, self.errors, self._measure = target, errors, influence.measure
        measure, sampled = influence.measure, influence.hessian.sampled
        each = np.eye(len(sampled))[:, sampled]
        self._P = measure.column(lambda at: at.q(each), each.shape[1])
        self._weights, self._counts = measure.weights, measure.counts
        self._source = (np.cumsum(sampled) - 1)[measure.source]
        self._m, self._n = measure.counts / measure.n, measure.n

    @cached_property
    def base(self) -> Reached:
        """The fit itself."""
        n, K = self._P.shape
        point = self._at(np.zeros((n, 1 if self.errors.common else K)), np.zeros(K))
        assert point is not None  # it was solved before
        return point

    def end(self, gamma: float, side: int, before: End) -> End:
        """Continue the search from the end at a smaller gamma, whose errors are allowed here too."""
        with single_threaded_blas():  # many small products: threads would wait for one another
            return self._end(gamma, side, before)

    def _end(self, gamma: float, side: int, before: End, moves: int = 100, stationary: float = 1e-6) -> End:
        """Move while the gain, as a share of the first-order bound, is worth another refit."""
        reach = math.log(gamma)
        point = self.base if before.point is None else before.point
        enough = stationary * reach * float(np.abs(self.base.slopes).sum())
        for _ in range(moves):
            move = side * reach * np.sign(point.slopes) - point.errors
            if side * float(np.sum(point.slopes * move)) <= enough:
                break
            better = self._better(point, move, side)
            if better is None:
                break
            gained = side * (better.value - point.value)
            point = better
            if gained <= enough:
                break
        if side * point.value <= side * before.value:
            return End(before.value, before.phi, point)
        return End(point.value, point.phi, point)

    def _better(self, point: Reached, move: Floats, side: int, halvings: int = 8) -> Reached | None:
        for halved in range(halvings):
            there = self._at(point.errors + move / 2**halved, point.v)
            if there is not None and side * there.value > side * point.value:
                return there
        return None

    def _at(self, errors: Floats, v: Floats) -> Reached | None:
        """Refit to biases with these errors; None if the equations cannot be solved."""
        wrong = self.errors.wrong
        A = self._P * np.exp(np.where(wrong, errors, 0.0))
        rows = Dense(A, self._source, self._counts, moderate=True)
        solution = newton(rows, v)
        if not solution.converged:
            return None
        r = self._weights * np.exp(-rows.log_row_mass(solution.u))
        r = r / float(np.sum(self._m * r))
        value, g = self.target(self._m * r)
        sums = rows.sums(solution.u)
        p = A * np.exp(solution.u)
        p /= p.sum(axis=1, keepdims=True)
        rg = r * g
        try:
            b = Laplacian.of(sums, sums.shares > 0).solve(p.T @ (rg * self._m) * self._n)
        except SingularError:
            return None
        phi = rg + p @ b
        p *= -self._m[:, None] * (phi[:, None] - b)
        slopes = np.where(wrong, p, 0.0)
        slopes = slopes.sum(axis=1, keepdims=True) if self.errors.common else slopes
        nowhere = np.zeros((len(self._measure.coordinates), 1))
        values = self._measure.influence(weighed(phi[:, None]), np.zeros(1), nowhere)
        return Reached(value, errors, solution.u, slopes, values)


#: A way to find the ends of the range.
Worst: TypeAlias = FirstOrder | Reweighed | Search


def slopes(measure: Measure, influence: Influence, errors: Errors) -> Floats:
    r"""Return how far each estimate with the given influence values moves at worst, per unit of log Gamma.

    An error of :math:`\log\omega_l` on row i moves an estimate by

    .. math::

        G_{il} = -\frac{c_i}{n} p_{il} (\phi^x_i - b_l - b_\theta't_{il}),\qquad \phi^x_i = r_i (f_i - \eta) + x_i'b.
    """
    wrong, b, m = np.flatnonzero(measure.sizes > 0)[errors.wrong].tolist(), influence.b, influence.b.shape[1]
    theta, point = b[measure.coordinates.theta], measure.whole_point

    def question(block: Block) -> Floats:
        at = point.at(block)
        phi = block.let(influence.values.of(block) + at.own(b))
        gradients = []
        for k in wrong:
            less = b[k] if k not in at.families else at.families[k].gradient @ theta[at.model.places[k]] + b[k]
            gradients.append(at.p.column(k) * (phi - less))
        if errors.common:
            return block.sum(np.abs(sum(gradients[1:], start=gradients[0])))
        return block.sum(np.abs(np.hstack(gradients))).reshape(len(wrong), m).sum(axis=0)

    return measure.rows.total(question, m) / measure.n


class Question:
    """How far an estimate of a fit moves, at which factors, for which errors, and when it reaches a threshold.

    Whether it is valid is checked before anything is computed.
    """

    def __init__(
        self,
        solved: Solved,
        gammas: float | Sequence[float],
        samples: Sequence[Name] | None,
        kind: Kind,
        threshold: float | None,
    ) -> None:
        self.threshold = None if threshold is None else require_number(threshold)
        self.solved, self.gammas, self.errors = solved, _factors(gammas), Errors.of(solved, samples, kind)

    def answer(self, target: Estimand, estimate: Estimate, name: str, missed: Influence | None = None) -> Sensitivity:
        r"""Return the range of a target at every factor, given the fit's estimate of it with its influence values.

        Where a model assists the estimate, the target is what the model misses plus the mean of its predictions, which
        stays fixed; ``missed`` is the influence on the former. For the rows of some samples A, their bias as a whole,
        :math:`\sum_{l \in A} \lambda_l\omega_l / \Omega_l`, may be off by the factor, independently in each row.
        """
        assert estimate.influence is not None
        influence = estimate.influence if missed is None else missed
        start = End(estimate.value, influence.values)
        worst, steepest, note = self._worst(target, start, influence)
        lower, upper = (_path(worst, self.gammas, side, start) for side in (-1, 1))
        half = np.log(self.gammas) * steepest
        find = partial(tipping_point, worst, self.gammas, start)
        return Sensitivity(
            name=name,
            estimate=estimate,
            gammas=self.gammas,
            lower=np.array([end.value for end in lower]),
            upper=np.array([end.value for end in upper]),
            linear_lower=estimate.value - half,
            linear_upper=estimate.value + half,
            lower_stderr=self._stderrs(lower, estimate, start),
            upper_stderr=self._stderrs(upper, estimate, start),
            method=worst.method,
            kind=self.errors.kind,
            samples=self.errors.names,
            one_stderr_gamma=_one_stderr(estimate.stderr, steepest),
            threshold=self.threshold,
            tipping=None if self.threshold is None else find(self.threshold),
            find=find,
            note=note,
        )

    def _worst(
        self, target: Estimand, start: End, influence: Influence, most: int = 2_000_000
    ) -> tuple[Worst, float, str]:
        """Return how the ends of the range are found, how far they move at first per unit of log Gamma, and a note.

        Biases are refitted up to so many numbers (rows times samples).
        """
        tangent, errors = self.solved.tangent, self.errors
        if tangent.measure.states:
            assert isinstance(target, Mean)
            if not errors.wrong.all():
                raise MismatchError(
                    f"The values are recorded by {show(tangent.measure.recorded_by)}, and it is their bias as a whole "
                    f"that may be wrong, not that of {show(errors.names)} alone. Name all of them, or leave samples= "
                    "out."
                )
            reweighed = Reweighed(tangent, target)
            note = "The factor applies to their bias as a whole." if len(errors.wrong) > 1 else ""
            return reweighed, reweighed.steepest, note
        steepest = float(self.solved.slopes(influence, errors)[0])
        first_order = FirstOrder(start, steepest)
        if not self.solved.data.in_memory:
            return first_order, steepest, "Refits need rows in memory, but these are in their engine."
        if not tangent.is_plain:
            note = "Known values and parameters would have to be refitted, so the range is given to first order."
            return first_order, steepest, note
        # an error then only divides the probability of its row, so that p_i and the normalisers' part stay
        reweighs = errors.wrong.all() and (errors.common or len(errors.wrong) == 1)
        if isinstance(target, Mean) and reweighs:
            return Reweighed(tangent, target), steepest, ""
        numbers = len(self.solved) * len(errors.wrong)
        if numbers <= most:
            return Search(tangent, target, errors), steepest, ""
        note = f"Rows times samples are {numbers:,}, but biases are refitted only up to {most:,}: use fewer rows."
        return first_order, steepest, note

    def _stderrs(self, ends: list[End], estimate: Estimate, start: End) -> Floats:
        """Return the standard errors of the ends, due to the rows and to known values with an error."""
        assert estimate.influence is not None
        if math.isnan(estimate.stderr):
            return np.full(len(ends), math.nan)
        tangent, phi = self.solved.tangent, estimate.influence.values
        of_known = float((estimate.influence.beyond**2).sum()) / tangent.n**2
        unmoved = phi + start.phi @ -np.eye(1)  # of the mean of a model's predictions
        spreads = [tangent.measure.whole.spread(end.phi + unmoved, tangent.leverage) for end in ends]
        variances = [spread.covariance[0, 0] + of_known for spread in spreads]
        return np.sqrt(np.array(variances))


def _factors(gammas: float | Sequence[float]) -> Floats:
    factors = np.atleast_1d(np.asarray(gammas, np.float64))
    fine = factors.ndim == 1 and len(factors) and np.isfinite(factors).all() and factors[0] >= 1.0
    if not fine or (np.diff(factors) <= 0).any():
        raise MismatchError(
            f"gammas is {gammas!r}. A bias is wrong by a factor of 1 (not at all) or more: give finite numbers from 1 "
            "on, each larger than the one before."
        )
    return factors


def _path(worst: Worst, gammas: Floats, side: int, start: End) -> list[End]:
    """Return the ends at increasing factors, each searched from the previous one, so that ranges are nested."""

    def end(before: End, gamma: float) -> End:
        return start if gamma == 1.0 else worst.end(gamma, side, before)

    return list(accumulate(gammas.tolist(), end, initial=start))[1:]


def tipping_point(worst: Worst, gammas: Floats, start: End, value: float, close: float = 1e-4) -> float | None:
    """Return the smallest factor whose range reaches a value; None if none up to FURTHEST does.

    It is found by bisection, to the relative accuracy ``close``, between a factor that does not reach it and one that
    does.
    """
    if value == start.value:
        return 1.0
    side = 1 if value > start.value else -1
    low, end = 1.0, start
    for high in _tried(gammas):
        there = worst.end(high, side, end)
        if side * there.value >= side * value:
            break
        low, end = high, there
    else:
        return None
    while high > low * (1.0 + close):
        middle = math.sqrt(low * high)
        there = worst.end(middle, side, end)
        if side * there.value >= side * value:
            high = middle
        else:
            low, end = middle, there
    return high


def _tried(gammas: Floats, stride: float = 1.5) -> Iterator[float]:
    """Yield the factors that were asked for, and beyond them one after every ``stride``."""
    yield from gammas[gammas > 1.0].tolist()
    gamma = float(gammas[-1])
    while gamma < FURTHEST:
        gamma = min(gamma * stride, FURTHEST)
        yield gamma


def _one_stderr(stderr: float, steepest: float) -> float:
    if math.isnan(stderr):
        return math.nan
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return float(np.exp(np.float64(stderr) / steepest)) if stderr else 1.0
