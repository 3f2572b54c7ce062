r"""The worst case at a given factor, in three ways: exact, attained by a search, or to first order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from vardi._estimate.sensitivity.errors_of_biases import Errors
from vardi._estimate.sensitivity.targets import Mean, Target
from vardi._estimate.tangent import Influence, Tangent
from vardi._machine.threads import single_threaded_blas
from vardi._rows.dense import Dense
from vardi._rows.weighted import Weighed, WeightedRows
from vardi._solve.laplacian import Laplacian, SingularError
from vardi._solve.newton import newton
from vardi._types import Floats, Integers

Method = Literal["sharp", "attained", "linear"]
STEPS = 100  # most moves of one search
HALVINGS = 8  # most halvings of a move that gains nothing
STATIONARY = 1e-6  # gain, as a share of the first-order bound, that is not worth another refit
NUMBERS, FEW = 4_000_000, 4  # held at once, but for a few numbers of each row


@dataclass(frozen=True)
class End:
    """The estimate at one end of the range, and the influence values of the rows there."""

    value: float
    phi: Floats
    point: Any = None


class Worst(Protocol):
    """A way to find the ends of the range."""

    @property
    def method(self) -> Method: ...

    def end(self, gamma: float, side: int, before: End) -> End:
        """Return the largest (side 1) or smallest (side -1) value; before is the end at a smaller gamma."""
        ...


@dataclass(frozen=True)
class Linear:
    """To first order: the value plus or minus log(gamma) times the slope."""

    value: float
    phi: Floats
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
    def _order(self) -> Any:
        return np.argsort(self.target.values, kind="stable")

    @cached_property
    def _pi(self) -> Floats:
        counts = self.influence.strata.counts
        return self.influence.weights * counts / self.influence.n

    def end(self, gamma: float, side: int, before: End) -> End:
        """Return the exact end."""
        order = self._order[::-side]  # rows with the factor gamma first
        pi, f = self._pi[order], self.target.values[order]
        mass, moment = np.cumsum(pi), np.cumsum(pi * f)
        upper = (moment * gamma + (moment[-1] - moment) / gamma) / (mass * gamma + (mass[-1] - mass) / gamma)
        raised = int(np.argmax(side * upper)) + 1
        factors = np.empty(len(order))
        factors[order] = np.where(np.arange(len(order)) < raised, gamma, 1.0 / gamma)
        r = self.influence.weights * factors
        r = r / float(np.sum(self._pi * factors))
        value, g = self.target(self._pi * factors / float(np.sum(self._pi * factors)))
        if side * value <= side * before.value:  # by rounding alone: ranges are nested
            return before
        rg = (r * g)[:, None]
        measure = self.influence.measure
        b = self.influence.jacobian.solve(measure.project(rg))
        return End(value, measure.influence(Weighed(rg), np.zeros(1), b))


@dataclass(frozen=True)
class Point:
    """The fit to biases with given errors; ``slopes`` are the derivatives of the value in these errors."""

    value: float
    errors: Floats
    v: Floats
    slopes: Floats
    phi: Floats


class Search:
    r"""Attained: errors are moved to where the slopes point, and the biases refitted, until nothing is gained.

    A move that gains nothing is halved. So the value never falls, and the search ends at errors that no small change
    improves: a local optimum of a problem that is not convex. Its value is attained by biases within the factor, but
    others may give a worse one.

    The rows are held as :math:`p_{il}` at the solution, so that :math:`p_{il} e^{\delta_{il}}` are biases of the order
    of 1 whose solution is near 0, and the weights are the fit's over their row sums.
    """

    method: Method = "attained"

    def __init__(self, influence: Tangent, target: Target, errors: Errors) -> None:
        self.target, self.errors = target, errors
        strata, sampled = influence.strata, influence.sampled
        self._P = influence.measure.mix(np.eye(len(influence.u))[:, sampled])
        self._weights = influence.weights
        self._source = (np.cumsum(sampled) - 1)[strata.source]
        self._counts = strata.counts
        self._m = strata.counts / influence.n
        self._n = influence.n

    @cached_property
    def base(self) -> Point:
        """The fit itself."""
        n, K = self._P.shape
        point = self._at(np.zeros((n, 1 if self.errors.common else K)), np.zeros(K))
        assert point is not None  # it was solved before
        return point

    def end(self, gamma: float, side: int, before: End) -> End:
        """Continue the search from the end at a smaller gamma, whose errors are allowed here too."""
        with single_threaded_blas():  # many small products: threads would wait for one another
            return self._end(gamma, side, before)

    def _end(self, gamma: float, side: int, before: End) -> End:
        reach = math.log(gamma)
        point: Point = self.base if before.point is None else before.point
        enough = STATIONARY * reach * float(np.abs(self.base.slopes).sum())
        for _ in range(STEPS):
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

    def _better(self, point: Point, move: Floats, side: int) -> Point | None:
        for halved in range(HALVINGS):
            there = self._at(point.errors + move / 2**halved, point.v)
            if there is not None and side * there.value > side * point.value:
                return there
        return None

    def _at(self, errors: Floats, v: Floats) -> Point | None:
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
            b = Laplacian(sums.shares, sums.gram).solve(p.T @ (rg * self._m) * self._n)
        except SingularError:
            return None
        phi = rg + p @ b
        p *= -self._m[:, None] * (phi[:, None] - b)
        return Point(value, errors, solution.u, self.errors.slopes(p), phi[:, None])


def slopes(rows: WeightedRows, influence: Influence, errors: Errors) -> Floats:
    """Return how far each estimate with the given influence values moves at worst, per unit of log Gamma."""
    counts, (n, m) = rows.strata.counts, influence.values.shape
    wrong = np.flatnonzero(rows.sizes > 0)[errors.wrong]
    chosen = np.zeros((len(influence.b), len(wrong)))
    chosen[wrong, np.arange(len(wrong))] = 1.0
    owns = [rows.along(b) for b in influence.b.T] if rows.has_parameters else []
    step = max(NUMBERS // n, FEW)
    total, common = np.zeros(m), np.zeros((n, m if errors.common else 0))
    for low in range(0, len(wrong), step):
        columns = wrong[low : low + step]

        def block(part: slice, p: Floats, columns: Integers = columns) -> Floats:
            found, shares = np.zeros(m), p * (counts[part] / rows.n)
            for j in range(m):
                moved = influence.values[part, j] - influence.b[columns, j, None]
                if owns:
                    moved += owns[j][0][part] - _columns(owns[j][1], columns, part)
                if errors.common:
                    common[part, j] += (shares * moved).sum(axis=0)
                else:
                    found[j] = np.vdot(shares, np.abs(moved, out=moved))
            return found

        total += rows.sum_mix(chosen[:, low : low + step], block)
    return np.asarray(np.abs(common).sum(axis=0)) if errors.common else total


def _columns(along: dict[int, Floats], states: Integers, part: slice) -> Floats:
    """Return b_theta't_il of some rows for some biases, zero for those without parameters."""
    nothing = np.zeros(part.stop - part.start)
    return np.stack([along[k][part] if k in along else nothing for k in states.tolist()])
