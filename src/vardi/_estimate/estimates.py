"""Numbers with their errors: Estimate, Estimates, and the arithmetic that carries errors along."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from vardi._types import Floats
from vardi.errors import MismatchError

if TYPE_CHECKING:
    from vardi._estimate.tangent import Influence

ROUNDING = 1e-12  # of a value: below it an error says how numbers are rounded, and nothing of the rows


def quantile_of_normal(level: float) -> float:
    """Return z such that a normal variable lies within z standard deviations with the given probability."""
    if not isinstance(level, int | float | np.number) or not 0.0 < level < 1.0:
        raise MismatchError(
            f"The level {level} is no probability of an interval. Give a number between 0 and 1, such as 0.95.",
            expected=("between 0 and 1",),
            got=(level,),
        )
    return float(ndtri(0.5 + level / 2.0))


@dataclass(frozen=True)
class Estimate:
    """A number that was estimated, with its standard error.

    Sums, differences, products and quotients of estimates of one fit carry their errors along, correlation included:
    each knows the influence of every row on it.

    Attributes
    ----------
    value : float
        The estimate.
    stderr : float
        Its standard error; NaN where the samples overlap too little to give one.
    interval : tuple of float
        Lower and upper end of the confidence interval.
    level : float
        Its nominal coverage.

    Examples
    --------
    >>> from vardi import Estimate
    >>> print(Estimate(664.71, 8.12))
    664.7 ± 8.1 (95%: 648.8 to 680.6)
    """

    value: float
    stderr: float
    level: float = 0.95
    interval: tuple[float, float] = (math.nan, math.nan)
    influence: Influence | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if math.isnan(self.interval[0]):
            half = quantile_of_normal(self.level) * self.stderr
            object.__setattr__(self, "interval", (self.value - half, self.value + half))

    @classmethod
    def from_influence(
        cls, value: float, influence: Influence, level: float = 0.95, *, trusted: bool = True
    ) -> Estimate:
        """Return the estimate whose error is the deviation of its influence values."""
        stderr = math.sqrt(max(float(influence.covariance()[0, 0]), 0.0)) if trusted else math.nan
        return cls(float(value), stderr, level, influence=influence)

    @property
    def z(self) -> float:
        """Value over standard error."""
        return self.value / self.stderr if self.stderr else math.nan

    def at(self, level: float) -> Estimate:
        """Return the same estimate with an interval of another level."""
        return replace(self, level=level, interval=(math.nan, math.nan))

    def log(self) -> Estimate:
        """Return the estimate of the logarithm."""
        return self._map(math.log(self.value), 1.0 / self.value)

    def exp(self) -> Estimate:
        """Return the estimate of the exponential; its interval is that of the exponent, transformed."""
        with np.errstate(over="ignore"):  # beyond e^709 only the log has a number
            value, low, high = (float(x) for x in np.exp([self.value, *self.interval]))
            return replace(self._map(value, value), interval=(low, high))

    def __add__(self, other: Any) -> Estimate:
        return self._join(other, lambda a, b: (a + b, 1.0, 1.0))

    def __sub__(self, other: Any) -> Estimate:
        return self._join(other, lambda a, b: (a - b, 1.0, -1.0))

    def __mul__(self, other: Any) -> Estimate:
        return self._join(other, lambda a, b: (a * b, b, a))

    def __truediv__(self, other: Any) -> Estimate:
        return self._join(other, lambda a, b: (a / b, 1.0 / b, -a / b**2))

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Estimate:
        return self * -1.0 + other

    def __rtruediv__(self, other: float) -> Estimate:
        return self._map(other / self.value, -other / self.value**2)

    def __neg__(self) -> Estimate:
        return self * -1.0

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if math.isnan(self.stderr):
            return f"{self.value:.4g} ({self._one_sided() or 'no error can be given'})"
        if self.stderr <= ROUNDING * abs(self.value):
            return f"{self.value:.6g} (known, but for rounding)"
        value, stderr, low, high = with_digits_of(self.stderr, self.value, self.stderr, *self.interval)
        return f"{value} ± {stderr} ({100 * self.level:g}%: {low} to {high})"

    def _one_sided(self) -> str:
        """Return the bound that there is on one side only; an empty text where there is none."""
        ends = [("at least", self.interval[0]), ("at most", self.interval[1])]
        return "".join(f"{100 * self.level:g}%: {side} {end:.4g}" for side, end in ends if math.isfinite(end))

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def _map(self, value: float, slope: float) -> Estimate:
        influence = None if self.influence is None else self.influence @ np.array([[slope]])
        return Estimate(value, abs(slope) * self.stderr, self.level, influence=influence)

    def _join(self, other: Any, rule: Any) -> Estimate:
        if not isinstance(other, Estimate):
            if not isinstance(other, int | float | np.number):
                return NotImplemented
            value, slope, _ = rule(self.value, float(other))
            return self._map(value, slope)
        mine_of, others_of = self.influence, other.influence
        if mine_of is None or others_of is None or mine_of.measure is not others_of.measure:
            raise MismatchError(
                "The estimates come from different fits, so their correlation is unknown. Combine estimates of one "
                "fit.",
                expected=("estimates of one fit",),
                got=("estimates of different fits",),
            )
        value, mine, others = rule(self.value, other.value)
        trusted = not (math.isnan(self.stderr) or math.isnan(other.stderr))
        influence = mine_of @ np.array([[mine]]) + others_of @ np.array([[others]])
        return Estimate.from_influence(value, influence, self.level, trusted=trusted)


@dataclass(frozen=True)
class Estimates:
    """Several numbers that were estimated together.

    Attributes
    ----------
    values : ndarray of shape (m,)
        The estimates.
    covariance : ndarray of shape (m, m)
        Their covariance; NaN where the samples overlap too little to give one.
    level : float
        Nominal coverage of the intervals.
    """

    values: Floats
    covariance: Floats
    level: float = 0.95
    influence: Influence | None = field(default=None, repr=False, compare=False)

    @property
    def stderr(self) -> Floats:
        """Standard errors."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))  # which rounding may take below 0

    @property
    def interval(self) -> Floats:
        """Lower and upper ends, of shape (m, 2); each covers on its own, not all together."""
        half = quantile_of_normal(self.level) * self.stderr
        return np.column_stack([self.values - half, self.values + half])

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Estimate]:
        return (self[j] for j in range(len(self)))

    def __getitem__(self, j: int) -> Estimate:
        influence = None if self.influence is None else self.influence.column(j)
        return Estimate(float(self.values[j]), float(self.stderr[j]), self.level, influence=influence)

    def __str__(self) -> str:
        return "\n".join(str(estimate) for estimate in self)


def with_digits_of(stderr: float, *numbers: float) -> list[str]:
    """Return numbers with the decimals that show two digits of the error, or in powers of ten where these are many."""
    if not 1e-6 < stderr < 1e7:
        return [f"{number:.4g}" for number in numbers]
    decimals = max(0, 1 - math.floor(math.log10(stderr)))
    return [f"{number:.{decimals}f}" for number in numbers]
