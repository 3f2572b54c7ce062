"""Numbers with their errors: Estimate, Estimates, and the arithmetic that carries errors along."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

import numpy as np

from vardi._estimate.intervals import (
    NEAR_ZERO,
    NORMAL,
    REFUSED,
    Affine,
    Fieller,
    FixedValue,
    Kind,
    Law,
    Share,
    ShareOf,
    Student,
    Transformed,
    any_number,
    of_census,
    quantile_of_student,
)
from vardi._estimate.tables import Record, Tabular, record_of
from vardi._tables import Note, Table, fragment
from vardi._types import Floats
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import show

if TYPE_CHECKING:
    from vardi._estimate.tangent import Influence
    from vardi._rows.contract import Spread

MUCH = 0.1  # difference that a model makes, relative to the error without it, above which both errors are shown
ROUNDING = 1e-12  # relative to what is added up: below it an error is only rounding
APPROXIMATE = "; its error is approximate"

Key = TypeVar("Key", bound=Hashable)

#: A function of two numbers that returns its value and its two derivatives.
Rule: TypeAlias = Callable[[float, float], tuple[float, float, float]]


@dataclass(frozen=True)
class Estimate:
    """A number that was estimated, with its standard error.

    Sums, differences, products and quotients of estimates of one fit carry their errors along, correlation included:
    each holds the influence of every row on it.

    Attributes
    ----------
    value : float
        The estimate.
    stderr : float
        Its standard error; NaN where it rests on too few rows to give one.
    interval : tuple of float
        Lower and upper end of the confidence interval.
    level : float
        Its nominal coverage.
    law : Law
        The law of the interval, at this level and at others: by default the normal distribution, as Student's t with
        infinite degrees of freedom.
    among : tuple of str
        The samples whose rows it is estimated from, where not all have recorded the values; empty for all.
    plain : Estimate or None
        Of a mean that a model assisted: the mean without it.

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
    law: Law = field(default=NORMAL, repr=False, compare=False)
    among: tuple[str, ...] = field(default=(), repr=False, compare=False)
    plain: Estimate | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        quantile_of_student(self.level)  # refuses an invalid level
        if math.isnan(self.interval[0]):
            object.__setattr__(self, "interval", self.law.ends(self.value, self.stderr, self.level))

    @classmethod
    def from_influence(cls, value: float, influence: Influence, level: float = 0.95) -> Estimate:
        """Return the estimate whose error is the deviation of its influence values."""
        return estimates_of(np.array([value]), influence, level)[0]

    @property
    def df(self) -> float:
        """Degrees of freedom of the standard error; infinite where its own error is not taken into account."""
        return self.law.df

    @property
    def is_approximate(self) -> bool:
        """Whether its error ignores that of something else that was estimated, such as a learned bias."""
        return bool(getattr(self.influence or self.law, "approximate", False))

    @property
    def z(self) -> float:
        """Value over standard error."""
        return self.value / self.stderr if self.stderr else math.nan

    def at(self, level: float) -> Estimate:
        """Return the same estimate with an interval of another level, made on the same scale."""
        return replace(self, level=level, interval=(math.nan, math.nan))

    def log(self) -> Estimate:
        """Return the estimate of the logarithm."""
        if isinstance(self.law, Transformed) and self.law.by is np.exp:
            return self.law.of.at(self.level)
        return self._map(math.log(self.value), 1.0 / self.value)

    def exp(self) -> Estimate:
        """Return the estimate of the exponential; its interval is that of the exponent, transformed."""
        with np.errstate(over="ignore"):  # beyond e^709 only the log is finite
            value = float(np.exp(self.value))
        return self._map(value, value, self.law if isinstance(self.law, FixedValue) else Transformed(self, np.exp))

    def __add__(self, other: Estimate | float) -> Estimate:
        return self._join(other, lambda a, b: (a + b, 1.0, 1.0))

    def __sub__(self, other: Estimate | float) -> Estimate:
        return self._join(other, lambda a, b: (a - b, 1.0, -1.0))

    def __mul__(self, other: Estimate | float) -> Estimate:
        return self._join(other, lambda a, b: (a * b, b, a))

    def __truediv__(self, other: Estimate | float) -> Estimate:
        ratio = self.over_positive(other)
        if ratio is NotImplemented or not isinstance(other, Estimate):
            return ratio
        is_near = abs(other.value) < NEAR_ZERO * other.stderr and not isinstance(other.law, Share)  # which is above 0
        if ratio.stderr > 0 and is_near:
            together = (self * (1.0 / self.stderr) + other * (1.0 / other.stderr)).stderr if self.stderr else 1.0
            covariance = (together**2 / 2.0 - 1.0) * self.stderr * other.stderr
            return ratio._over(self.value, other.value, (self.stderr**2, covariance, other.stderr**2))
        return ratio._share_among(self.law, other.law)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Estimate:
        return self * -1.0 + other

    def __rtruediv__(self, other: float) -> Estimate:
        found = self._map(other / self.value, -other / self.value**2)
        is_near = abs(self.value) < NEAR_ZERO * self.stderr and not isinstance(self.law, Share)
        return found._over(other, self.value, (0.0, 0.0, self.stderr**2)) if is_near else found

    def __neg__(self) -> Estimate:
        return self * -1.0

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if math.isnan(self.stderr):
            few = ": it rests on too few rows" if self.df < REFUSED else ""
            few = ": its denominator may be 0" if isinstance(self.law, Fieller) else few
            return f"{self.value:.4g} ({self._without_error() or f'no error can be given{few}'}{self._made_from()})"
        if isinstance(self.law, FixedValue):
            return f"{self.value:.6g} ({self.law.reason})"
        if not self.stderr:
            return f"{self.value:.6g} ({self.law.exact}{self._made_from()})"
        value, stderr, low, high = with_digits_of(self.stderr, self.value, self.stderr, *self.interval)
        law = self.law if isinstance(self.law, Share) else ""
        return f"{value} ± {stderr} ({100 * self.level:g}%: {low} to {high}{law}{self._made_from()})"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        value, _, rest = str(self).partition(" ")
        return fragment([Note(value, rest)])

    def _made_from(self) -> str:
        """Return which samples it is made from, if not all, and what it would be without the model, if that differs."""
        text = f"; from {show(self.among)}" if self.among else ""
        text += APPROXIMATE if self.is_approximate else ""
        if (
            self.plain is None
            or self.plain.is_approximate
            or abs(self.stderr - self.plain.stderr) <= MUCH * self.plain.stderr
        ):
            return text
        value, stderr = with_digits_of(self.plain.stderr, self.plain.value, self.plain.stderr)
        return f"{text}; {value} ± {stderr} without the model"

    def _without_error(self) -> str:
        """Return the interval or bound of an estimate without a standard error; an empty text if there is none."""
        if all(map(math.isfinite, self.interval)):
            low, high = self.interval
            return f"{100 * self.level:g}%: {low:.4g} to {high:.4g}; no error can be given"
        ends = [("at least", self.interval[0]), ("at most", self.interval[1])]
        return "".join(f"{100 * self.level:g}%: {side} {end:.4g}" for side, end in ends if math.isfinite(end))

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def _map(self, value: float, slope: float, law: Law | None = None) -> Estimate:
        influence = None if self.influence is None else self.influence @ np.array([[slope]])
        law = Student(self.df) if law is None else law
        plain = None if self.plain is None else self.plain._map(value + slope * (self.plain.value - self.value), slope)
        return Estimate(
            value, abs(slope) * self.stderr, self.level, influence=influence, law=law, among=self.among, plain=plain
        )

    def _join(self, other: Estimate | float, rule: Rule) -> Estimate:
        if not isinstance(other, Estimate):
            if not isinstance(other, int | float | np.number):
                return NotImplemented
            value, slope, _ = rule(self.value, float(other))
            keeps = isinstance(self.law, Student | FixedValue)
            return self._map(
                value, slope, self.law if keeps else Transformed(self, Affine(slope, value - slope * self.value))
            )
        self._require_one_fit_and_level(other)
        assert self.influence is not None
        assert other.influence is not None
        value, slope, slope_of_other = rule(self.value, other.value)
        influence = self.influence @ np.array([[slope]]) + other.influence @ np.array([[slope_of_other]])
        joined = Estimate.from_influence(value, influence, self.level)
        if joined.stderr <= ROUNDING * (abs(slope) * self.stderr + abs(slope_of_other) * other.stderr):
            return Estimate(value, 0.0, self.level, influence=influence)  # they cancel on every row
        return joined

    def over_positive(self, other: Estimate | float) -> Estimate:
        """Return the ratio to a number that is above zero, such as the mean of a positive column."""
        return self._join(other, lambda a, b: (a / b, 1.0 / b, -a / b / b))

    def _over(self, a: float, b: float, variances: tuple[float, float, float]) -> Estimate:
        """Return the ratio a / b with Fieller's interval, without an error where that is unbounded."""
        law = Fieller(a, b, variances, self.law.student or NORMAL)
        bounded = math.isfinite(law.ends(self.value, self.stderr, self.level)[0])
        return replace(self, law=law, stderr=self.stderr if bounded else math.nan, interval=(math.nan, math.nan))

    def _share_among(self, holds: Law, base: Law) -> Estimate:
        """Return the ratio, as a share if it is one: that of the base's rows on which the numerator holds."""
        if not isinstance(holds, Share) or not isinstance(base, Share) or holds.holds is None or base.holds is None:
            return self
        assert self.influence is not None
        measure, event = self.influence.measure, holds.holds
        within = measure.events_within(event, base.holds)
        if within is None:
            return self
        events, others, weights = within
        share = ShareOf(events, others, lambda: weights, lambda: measure.evenness_of(event))
        return estimates_of(np.array([self.value]), self.influence, self.level, [share])[0]

    def _require_one_fit_and_level(self, other: Estimate) -> None:
        influence, of_other = self.influence, other.influence
        if influence is None or of_other is None or influence.measure is not of_other.measure:
            raise MismatchError(
                "The estimates come from different fits, so their correlation is unknown. Combine estimates of one fit."
            )
        if self.level != other.level:
            raise MismatchError(
                f"The intervals of the estimates have levels {self.level:g} and {other.level:g}, but their combination "
                f"can have only one. Bring them to one level first, e.g. with .at({self.level:g})."
            )


@dataclass(frozen=True)
class Estimates(Tabular):
    """Several numbers that were estimated together.

    Attributes
    ----------
    values : ndarray of shape (m,)
        The estimates.
    covariance : ndarray of shape (m, m)
        Their covariance; NaN where they rest on too few rows to give one.
    level : float
        Nominal coverage of the intervals.
    errors : ndarray of shape (m,), optional
        Standard errors, where their squares overflow or underflow.
    laws : tuple of Law, optional
        The law of each interval; the normal distribution by default.
    among : tuple of str
        The samples whose rows they are estimated from, where not all; empty for all.
    names : tuple of str
        A name for each, if they have any: ``estimates["RM"]`` is the one of this name.
    """

    values: Floats
    covariance: Floats
    level: float = 0.95
    influence: Influence | None = field(default=None, repr=False, compare=False)
    errors: Floats | None = field(default=None, repr=False, compare=False)
    laws: tuple[Law, ...] = field(default=(), repr=False, compare=False)
    among: tuple[str, ...] = field(default=(), repr=False, compare=False)
    names: tuple[str, ...] = ()

    _called: ClassVar[str] = "estimate"

    @property
    def stderr(self) -> Floats:
        """Standard errors."""
        if self.errors is not None:
            return self.errors
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))  # rounding may take it below 0

    @property
    def df(self) -> Floats:
        """Degrees of freedom of each standard error."""
        return np.array([estimate.df for estimate in self])

    @property
    def interval(self) -> Floats:
        """Lower and upper ends, of shape (m, 2); each covers on its own, not all together."""
        return np.array([estimate.interval for estimate in self])

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Estimate]:
        return (self[j] for j in range(len(self)))

    def __getitem__(self, place: int | str) -> Estimate:
        """Return one of them, by its place or its name; differences and ratios carry their errors along."""
        j = place_of(place, self.names, self._called) if isinstance(place, str) else place
        influence = None if self.influence is None else self.influence.column(j)
        law = self.laws[j] if self.laws else NORMAL
        value, stderr = float(self.values[j]), float(self.stderr[j])
        return Estimate(value, stderr, self.level, influence=influence, law=law, among=self.among)

    def __str__(self) -> str:
        width = max(map(len, self.names), default=-2)
        return "\n".join(
            f"{name:<{width + 2}}{estimate}" for name, estimate in zip(self._labels(""), self, strict=True)
        )

    __repr__ = __str__

    def _labels(self, unnamed: str) -> Sequence[str]:
        return self.names or [unnamed.format(j) for j in range(len(self))]

    def _records(self) -> list[Record]:
        """Return a row for each estimate."""
        return [record_of(name, estimate) for name, estimate in zip(self._labels("{}"), self, strict=True)]

    def _repr_html_(self) -> str:
        labels, heading = self._labels("{}"), ["", *headings(self.level)]
        table = Table(heading, range(len(self)), lambda j: [labels[j], *cells_of(self[j])], "estimates")
        return fragment([table, f"From {show(self.among)}." if self.among else ""])


class EstimatesByName(dict[Key, Estimate], Tabular):
    """Estimates by the names of samples, states or parameters."""

    def _records(self) -> list[Record]:
        """Return a row for each estimate."""
        return [record_of(name, estimate) for name, estimate in self.items()]


def place_of(name: str, names: tuple[str, ...], what: str) -> int:
    """Return the place of an estimate, or raise an error that lists their names."""
    if name not in names:
        there = f"are {', '.join(map(repr, names))}" if names else "have no names, but places"
        raise MismatchError(f"No {what} {name!r}. The {what}s {there}.{suggest(name, names)}")
    return names.index(name)


def judged(
    values: Floats, errors: Floats, students: Sequence[Student], kinds: Sequence[Kind]
) -> tuple[tuple[Law, ...], Floats]:
    """Return the laws of estimates of some kinds, and their standard errors; NaN where these rest on too few rows."""
    numbers = zip(values.tolist(), errors.tolist(), students, kinds or [any_number] * len(values), strict=True)
    laws, stderr = zip(*(kind(value, error, student) for value, error, student, kind in numbers), strict=True)
    return laws, np.array(stderr)


def estimates_of(
    values: Floats,
    influence: Influence,
    level: float = 0.95,
    kinds: Sequence[Kind] = (),
    *,
    spread: Spread | None = None,
    among: tuple[str, ...] = (),
) -> Estimates:
    """Return values as estimates: their errors are those of their influence values, as far as their kinds have them.

    Parameters
    ----------
    values : ndarray of shape (m,)
        The values.
    influence : Influence
        How much each row moves them.
    level : float
        Coverage of the intervals.
    kinds : sequence of Kind
        What kind of number each is; none for numbers that are of no particular kind.
    spread : Spread, optional
        The variances of the influence values, if they are known already.
    among : tuple of str
        The samples whose rows they are made from, if not all.
    """
    spread = influence.spread() if spread is None else spread
    if influence.is_exact:
        kinds = [of_census] * len(values)
    laws, stderr = judged(values, spread.stderr, influence.laws(spread), kinds)
    return Estimates(values, as_shown(spread.covariance, stderr), level, influence, stderr, laws, among)


def as_shown(covariance: Floats, stderr: Floats) -> Floats:
    """Return a covariance with the variances of the standard errors that are shown; NaN where these are withheld."""
    withheld = np.isnan(stderr)
    shown = np.where(withheld | withheld[:, None], math.nan, covariance)
    with np.errstate(over="ignore"):
        np.fill_diagonal(shown, stderr**2)
    return shown


def headings(level: float) -> list[str]:
    """Return the headings of a table of estimates."""
    return ["estimate", "error", f"{100 * level:g}% interval"]


def cells_of(estimate: Estimate) -> list[str]:
    """Return value, error and interval as the cells of a table."""
    if isinstance(estimate.law, FixedValue):
        return [f"{estimate.value:.6g}", "-", estimate.law.reason.partition(",")[0].partition(":")[0]]
    if math.isnan(estimate.stderr) or not estimate.stderr:
        return [f"{estimate.value:.4g}", "-" if estimate.stderr else "0", "-"]
    value, stderr, low, high = with_digits_of(estimate.stderr, estimate.value, estimate.stderr, *estimate.interval)
    return [value, stderr, f"{low} to {high}"]


def with_digits_of(stderr: float, *numbers: float) -> list[str]:
    """Return numbers with as many decimals as show two digits of the error, or in powers of ten if these are many.

    >>> with_digits_of(196.2, 12779.4, -1234567.0), with_digits_of(0.031, 1234.5)
    (['12,779', '-1,234,567'], ['1,234.500'])
    """
    if not 1e-6 < stderr < 1e7:
        return [f"{number:.4g}" for number in numbers]
    decimals = max(0, 1 - math.floor(math.log10(stderr)))
    return [f"{number:,.{decimals}f}" for number in numbers]
