r"""The worst case at a given factor, in three ways: exact, attained by a search, or to first order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.sensitivity.result import Kind, Method
from vardi._estimate.solved import SolvedFit
from vardi._estimate.tangent import Influence, Tangent
from vardi._inputs.pool import Name
from vardi._machine import single_threaded_blas
from vardi._rows.contract import Block, Kept
from vardi._rows.dense import Dense
from vardi._rows.gram import SingularError
from vardi._rows.measure import Measure, Values, weighed
from vardi._solve.laplacian import Laplacian
from vardi._solve.newton import newton
from vardi._types import Floats, Integers
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import show


@dataclass(frozen=True)
class Errors:
    """The errors considered: delta_l(z_i) = log of true over declared bias, within log Gamma of 0.

    Attributes
    ----------
    names : tuple
        The samples whose biases may be wrong.
    wrong : ndarray of bool of shape (K,)
        Which of the sampled biases these are.
    common : bool
        Whether a row's error is the same in all of them.
    """

    names: tuple[Name, ...]
    wrong: NDArray[np.bool_]
    common: bool

    @classmethod
    def of(cls, solved: SolvedFit, samples: Sequence[Name] | None, kind: Kind) -> Errors:
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
        return cls(tuple(name for name in sampled if name in wanted), wrong, kind == "common")

    @property
    def reweighs(self) -> bool:
        """Whether an error only divides the probability of its row, so that p_i and the normalisers' part stay."""
        return bool(self.wrong.all()) and (self.common or len(self.wrong) == 1)

    def slopes(self, G: Floats) -> Floats:
        """Return slopes in the errors, of shape (n, K) or (n, 1) if common, from slopes G in each delta_il."""
        of_wrong = np.where(self.wrong, G, 0.0)
        return of_wrong.sum(axis=1, keepdims=True) if self.common else of_wrong

    def spread(self, errors: Floats) -> Floats:
        """Return delta of shape (n, K)."""
        return np.where(self.wrong, errors, 0.0)


class Estimand(Protocol):
    r"""A number that the probabilities of the rows determine.

    It returns the number and for each row :math:`g_i`, with :math:`\sum_i \pi_i g_i = 0`, such that a change of the
    probabilities moves the number by :math:`\sum_i d\pi_i\,g_i`.
    """

    def __call__(self, pi: Floats) -> tuple[float, Floats]: ...


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


class Worst(Protocol):
    """A way to find the ends of the range."""

    @property
    def method(self) -> Method: ...

    def end(self, gamma: float, side: int, before: End) -> End:
        """Return the largest (side 1) or smallest (side -1) value; before is the end at a smaller gamma."""
        ...


@dataclass(frozen=True)
class FirstOrder:
    """To first order: the value plus or minus log(gamma) times the slope."""

    value: float
    phi: Values
    slope: float
    method: Method = "linear"

    def end(self, gamma: float, side: int, before: End) -> End:
        """Return the end of the first-order range, assuming that rows move it as they move the estimate."""
        return End(self.value + side * math.log(gamma) * self.slope, self.phi)


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
        r = self.influence.measure.weights * factors
        r = r / float(np.sum(self._pi * factors))
        value, g = self.target(self._pi * factors / float(np.sum(self._pi * factors)))
        if side * value <= side * before.value:  # by rounding alone: ranges are nested
            return before
        rg = (r * g)[:, None]
        measure = self.influence.measure
        b = self.influence.jacobian.solve(measure.project(rg))
        return End(value, measure.influence(weighed(rg), np.zeros(1), b))


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
        self._P = measure.mix(np.eye(len(sampled))[:, sampled])
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
        A = self._P * np.exp(self.errors.spread(errors))
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
        nowhere = np.zeros((len(self._measure.coordinates), 1))
        values = self._measure.influence(weighed(phi[:, None]), np.zeros(1), nowhere)
        return Reached(value, errors, solution.u, self.errors.slopes(p), values)


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
