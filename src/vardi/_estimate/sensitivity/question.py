"""A question about the sensitivity of a fit, checked before anything is computed, and its answer for a target."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from vardi._estimate.estimates import Estimate
from vardi._estimate.sensitivity.result import FURTHEST, Kind, Sensitivity, require_number
from vardi._estimate.sensitivity.worst import End, Errors, Estimand, FirstOrder, Mean, Reweighed, Search, Worst
from vardi._estimate.tangent import Influence
from vardi._inputs.pool import Name
from vardi._types import Floats
from vardi.errors import MismatchError
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._fit.solved import Solved


@dataclass(frozen=True)
class Question:
    """How far an estimate of a fit moves, at which factors, for which errors, and when it reaches a threshold."""

    solved: Solved
    gammas: Floats
    errors: Errors
    threshold: float | None

    @classmethod
    def of(
        cls,
        solved: Solved,
        gammas: float | Sequence[float],
        samples: Sequence[Name] | None,
        kind: Kind,
        threshold: float | None,
    ) -> Question:
        """Return the question; raise if it is invalid."""
        threshold = None if threshold is None else require_number(threshold)
        return cls(solved, _factors(gammas), Errors.of(solved, samples, kind), threshold)

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
        first_order = FirstOrder(start.value, start.phi, steepest)
        if not self.solved.data.in_memory:
            return first_order, steepest, "Refits need rows in memory, but these are in their engine."
        if not tangent.is_plain:
            note = "Known values and parameters would have to be refitted, so the range is given to first order."
            return first_order, steepest, note
        if isinstance(target, Mean) and errors.reweighs:
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
        variances = [tangent.measure.whole.spread(end.phi + unmoved).covariance[0, 0] + of_known for end in ends]
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
