"""The law of an estimate's error, which gives the ends of its interval at any level.

What kind of number an estimate is (a mean, a share, a known or a constant one) decides which law that is, which
standard error is shown, whether one is shown at all, and whether users are warned of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy

from vardi._inputs.pool import Name
from vardi._rows.contract import Evenness
from vardi.errors import MismatchError, WeakOverlapWarning
from vardi.errors._texts import show
from vardi.errors._warn import warn

if TYPE_CHECKING:
    from vardi._estimate.estimates import Estimate
    from vardi._rows.measure import Functions

REFUSED = 3.0  # degrees of freedom below which no standard error is given
DOUBTED = 10.0  # degrees of freedom below which it comes with a warning
HEAVY = 0.4  # tail index from which the variance may be infinite (Hill's estimate is biased low)
NEAR_ZERO = 4.0  # errors from zero below which a denominator may be 2 errors from it, and have been drawn far off
RARE = 5.0  # rows with (or without) an event below which they are counted out; bridging rows that chi-square needs
FEW = 20.0  # rows with (or without) an event below which a share has the interval of a count


def quantile_of_student(level: float, df: float = math.inf) -> float:
    """Return t such that Student's t lies within t of 0 with the given probability; it is normal by default."""
    if not isinstance(level, int | float | np.number) or not 0.0 < level < 1.0:
        raise MismatchError(
            f"The level {level} is not the probability of an interval. Give a number between 0 and 1, such as 0.95."
        )
    below = 0.5 + level / 2.0
    return float(scipy.special.ndtri(below) if math.isinf(df) else scipy.special.stdtrit(df, below))


class Law(ABC):
    """Gives the ends of an interval at any level, and says what its error rests on."""

    @property
    def student(self) -> Student | None:
        """Student's t with the degrees of freedom of the error; None where its own error is not taken into account."""
        return None

    @property
    def df(self) -> float:
        """Degrees of freedom of the standard error."""
        return math.inf if self.student is None else self.student.df

    @property
    def exact(self) -> str:
        """What it means that the error is zero."""
        return "the same on all rows"

    @abstractmethod
    def ends(self, value: float, stderr: float, level: float) -> tuple[float, float]:
        """Return the lower and the upper end."""


@dataclass(frozen=True)
class Student(Law):
    """Value plus and minus t standard errors, with Student's t.

    Attributes
    ----------
    df : float
        Degrees of freedom; infinite for the normal distribution.
    tail : float
        Hill's index of the influence values, whose variance is infinite from 1/2 on; NaN where their kurtosis is too
        small for it to matter.
    most : int
        The sample whose rows carry most of the variance; -1 if unknown.
    effective : tuple of float
        For time series, how many independent rows each sample is worth.
    of_counts : float
        Degrees of freedom of a count with this error: how few rows have large influence is left to the law of counts.
    unit : str
        What varies independently: "rows", or "clusters" or "groups" of them.
    """

    df: float = math.inf
    tail: float = math.nan
    most: int = -1
    effective: tuple[float, ...] = ()
    of_counts: float = math.inf
    unit: str = "rows"

    @property
    def student(self) -> Student:
        return self

    def ends(self, value: float, stderr: float, level: float) -> tuple[float, float]:
        half = quantile_of_student(level, self.df) * stderr
        return value - half, value + half


NORMAL = Student()


@dataclass(frozen=True)
class FixedValue(Law):
    """An interval of zero width: what was declared fixes the value, or another reason."""

    reason: str = "known, up to rounding"

    def ends(self, value: float, stderr: float, level: float) -> tuple[float, float]:
        return value, value


@dataclass(frozen=True, eq=False)
class Share(Law):
    r"""The interval of a share that is worth m rows: Wilson's, if many rows have it and many lack it.

    .. math::

        \frac{1}{1 + z^2 / m} \Bigl(p + \frac{z^2}{2m} \pm z \sqrt{\frac{p (1 - p)}{m} + \frac{z^2}{4m^2}}\Bigr)

    If few do, it is that of a count of mp among m (Korn and Graubard 1998). Each end lies between the two that Clopper
    and Pearson give with and without the count itself, as in the mid-P interval: their mean in log p for the lower end,
    and in log (1 - p) for the upper one. In both m is multiplied by :math:`(z / t)^2`, with t the quantile of Student's
    t with the degrees of freedom of the share's error.

    Attributes
    ----------
    rows : float
        The number m of rows that it is worth.
    events, others : float
        How many rows, counted, have the property and lack it.
    holds : Functions or None
        Which rows have it, in the language of the rows; None for a share of a part of the rows.
    student : Student
        Student's t with the degrees of freedom of its error.
    """

    rows: float
    events: float
    others: float
    holds: Functions | None = field(default=None, repr=False)
    student: Student = NORMAL

    def ends(self, value: float, stderr: float, level: float) -> tuple[float, float]:
        if self.df < REFUSED:
            return math.nan, math.nan
        z, t = (quantile_of_student(level, df) for df in (math.inf, self.df))
        p, m = min(max(value, 0.0), 1.0), self.rows * (z / t) ** 2
        is_few = 0.0 < min(self.events, self.others) < FEW and math.isfinite(m)
        low, high = (_ends_of_count if is_few else _ends_of_share)(p, m, level)
        return (low if self.events else 0.0), (high if self.others else 1.0)

    def __str__(self) -> str:
        rows, all_rows = min(self.events, self.others), self.events + self.others
        if rows >= RARE:
            return ""
        one, several = ("has", "have") if self.events == rows else ("lacks", "lack")
        few = f"{rows:g}" if rows else "none"
        return f"; {few} of {all_rows:,.0f} rows {one if rows == 1 else several} it"


#: What kind of number an estimate is: given its value, its error and Student's t with the latter's degrees of freedom,
#: it returns the law of the interval and the standard error, NaN where it rests on too few rows to give one.
Kind: TypeAlias = Callable[[float, float, Student], tuple[Law, float]]


def any_number(value: float, stderr: float, student: Student) -> tuple[Law, float]:
    """Of numbers that are of no other kind."""
    return student, math.nan if student.df < REFUSED else stderr


def known(value: float, stderr: float, student: Student) -> tuple[Law, float]:
    """Of values that what was declared fixes."""
    return FixedValue(), 0.0


def of_census(value: float, stderr: float, student: Student) -> tuple[Law, float]:
    """Of numbers that a census counts: whatever was drawn, there is nothing else."""
    return FixedValue("exact: the whole population was seen"), 0.0


def constant(df: float) -> Kind:
    """Return the kind of the mean of a function that is the same on all rows, with the degrees of freedom of these."""
    return lambda value, stderr, student: any_number(value, 0.0, Student(df))


def times(share: ShareOf, factor: float) -> Kind:
    """Return the kind of a share times a number."""
    from vardi._estimate.estimates import Estimate

    def kind(value: float, stderr: float, student: Student) -> tuple[Law, float]:
        law, error = share(value / factor, stderr / abs(factor), student)
        return Transformed(Estimate(value / factor, error, law=law), Affine(factor, 0.0)), error * abs(factor)

    return kind


@dataclass(frozen=True, eq=False)
class ShareOf:
    """The kind of a share of rows; their weights are looked at only if few rows have the property, or few lack it.

    If no row has it, or all do, nothing shows how heavy an exception would be: it is assumed to weigh no more than the
    heaviest row.

    Attributes
    ----------
    events, others : float
        How many rows, counted, have the property and lack it.
    base, having : callable
        Return how evenly the weights are spread over the rows that it is a share of, and over those that have it.
    holds : Functions or None
        Which rows have it, if it is a share of all rows.
    """

    events: float
    others: float
    base: Callable[[], Evenness]
    having: Callable[[], Evenness]
    holds: Functions | None = None

    def __call__(self, value: float, stderr: float, student: Student, few_rows: float = 10.0) -> tuple[Share, float]:
        rows, fewest = value * (1.0 - value) / stderr**2 if stderr > 0 else math.inf, min(self.events, self.others)
        # rows that have it may all be the largest, which is not a tail
        student = replace(student, df=student.of_counts if fewest < FEW else student.df, tail=math.nan)
        if student.df < REFUSED:
            return Share(rows, self.events, self.others, self.holds, student), math.nan
        if fewest < few_rows:  # else its own error gives the rows it is worth
            weights = self.base()
            if not fewest:
                rows = min(weights.effective, 1.0 / weights.heaviest)
            else:
                few = self.having() if self.events <= self.others else weights.without(self.having())
                rows = _rows_of_few(rows, weights, self.events + self.others, few, fewest)
        # half the width of the interval of one deviation, if all rows have it or none
        law = Share(rows, self.events, self.others, self.holds, student)
        return law, stderr if fewest else 0.5 / (rows + 1.0)


def _rows_of_few(rows: float, everywhere: Evenness, n: float, few: Evenness, k: float) -> float:
    r"""Return how many rows a share is worth if only few rows, k of n, have it or lack it.

    The error of so few reflects how heavy these events are. That is right if all events have about the same weight, as
    when a sample was drawn for them, but too optimistic if weights of events vary like all others and these k happen to
    be light: then the share is worth no more than Kish's effective number. The spread of their own weights, if there
    are several, decides between the two: :math:`1/m = (1 - \lambda) / m_{own} + \lambda / m_{Kish}`, with
    :math:`\lambda` the squared coefficient of variation of their weights over that of all rows, plus :math:`1/k^2`, at
    most 1.
    """
    spread, own_spread = everywhere.unevenness(n), few.unevenness(k) * k / (k - 1.0) if k > 1.0 else 0.0
    if not spread > 0.0:
        return rows
    shared = min(1.0, 1.0 / k**2 + own_spread / spread)
    return 1.0 / ((1.0 - shared) / rows + shared / min(rows, everywhere.effective))


def _ends_of_share(p: float, m: float, level: float) -> tuple[float, float]:
    """Return Wilson's ends."""
    z = quantile_of_student(level)
    centre, shrunk = p + z**2 / (2.0 * m), 1.0 + z**2 / m
    half = z * math.sqrt(p * (1.0 - p) / m + z**2 / (4.0 * m**2))
    return max(centre - half, 0.0) / shrunk, min((centre + half) / shrunk, 1.0)


def _ends_of_count(p: float, m: float, level: float) -> tuple[float, float]:
    """Return the ends for a count of mp among m; neither need be an integer."""
    quantile_of_student(level)  # refuses an invalid level
    k, beyond = m * p, 0.5 - level / 2.0
    inverse = scipy.special.betaincinv
    low = math.sqrt(inverse(k, m - k + 1.0, beyond) * inverse(k + 1.0, m - k, beyond))
    high = 1.0 - math.sqrt(inverse(m - k + 1.0, k, beyond) * inverse(m - k, k + 1.0, beyond))
    return min(low, p), max(high, p)


@dataclass(frozen=True)
class Transformed(Law):
    """The ends of another estimate's interval, transformed by a monotone function.

    Attributes
    ----------
    of : Estimate
        The other one.
    by : callable
        The function.
    """

    of: Estimate
    by: Callable[[float], float] | np.ufunc

    @property
    def student(self) -> Student | None:
        return self.of.law.student

    @property
    def exact(self) -> str:
        return self.of.law.exact

    def ends(self, value: float, stderr: float, level: float) -> tuple[float, float]:
        with np.errstate(over="ignore"):  # beyond e^709 only the log is finite
            first, second = (float(self.by(end)) for end in self.of.at(level).interval)
        return (second, first) if second < first else (first, second)


@dataclass(frozen=True)
class Fieller(Law):
    r"""The interval of a ratio a / b whose denominator is not far from zero: all :math:`\theta` within its errors.

    .. math:: (a - \theta b)^2 \le t^2 (V_{aa} - 2 \theta V_{ab} + \theta^2 V_{bb}).

    If b is within t errors of zero, it is unbounded, and both ends are infinite (Fieller 1954).

    Attributes
    ----------
    a, b : float
        Numerator and denominator.
    variances : tuple of float
        :math:`V_{aa}, V_{ab}, V_{bb}`.
    student : Student
        Student's t with the degrees of freedom of the ratio's error.
    """

    a: float
    b: float
    variances: tuple[float, float, float]
    student: Student = NORMAL

    def ends(self, value: float, stderr: float, level: float) -> tuple[float, float]:
        of_a, of_both, of_b = (quantile_of_student(level, self.df) ** 2 * one for one in self.variances)
        square, product = self.b**2 - of_b, self.a * self.b - of_both
        if square <= 0:
            return -math.inf, math.inf
        root = math.sqrt(max(product**2 - square * (self.a**2 - of_a), 0.0))
        return (product - root) / square, (product + root) / square


@dataclass(frozen=True)
class Affine:
    """The function slope x + shift."""

    slope: float
    shift: float

    def __call__(self, x: float) -> float:
        return self.slope * x + self.shift


def doubts(
    names: Sequence[Name], what: Sequence[str], laws: Sequence[Law], *, few_in_time: int = 30
) -> tuple[str, ...]:
    """Return the warnings about estimates with these laws: about the one with the fewest rows, and about heavy tails.

    Parameters
    ----------
    names : sequence
        The samples.
    what : sequence of str
        What the estimates are called.
    laws : sequence of Law
        The laws of their intervals.
    few_in_time : int
        Independent rows that a series is worth, below which its errors are rough.
    """
    students = [(name, law.student) for name, law in zip(what, laws, strict=True) if law.student is not None]
    messages = []
    few, student = min(students, key=lambda pair: float(f"{pair[1].df:.6g}"), default=("", NORMAL))  # up to rounding
    if student.df < DOUBTED:
        messages.append(_few(few, student, names))
    in_time = ((worth, name, k) for name, student in students for k, worth in enumerate(student.effective) if worth)
    worth, brief, k = min(in_time, key=lambda series: series[0], default=(math.inf, "", 0))
    if worth < few_in_time:
        messages.append(
            f"The rows of {str(names[k])!r} are so strongly correlated in time that for {brief} they are worth "
            f"{worth:.0f} independent ones, and fewer than {few_in_time} show only roughly how much they vary. Extend "
            "the series: rows in between would not help."
        )
    heavy, student = max(students, key=lambda pair: np.nan_to_num(pair[1].tail), default=("", NORMAL))
    if student.tail > HEAVY:
        messages.append(
            f"A few rows dominate {heavy}: the contributions of rows to it have tail index {student.tail:.2f}, and if "
            "that stays above 0.5 with more rows, the variance is infinite and the standard error too small. "
            f"{_remedy(student, names)}"
        )
    return tuple(messages)


def warn_of_doubt(names: Sequence[Name], what: Sequence[str], laws: Sequence[Law]) -> None:
    """Warn of errors that rest on few rows: one message, for the worst estimate of a call."""
    for message in doubts(names, what, laws)[:1]:
        warn(WeakOverlapWarning(message))


def _few(what: str, law: Student, names: Sequence[Name]) -> str:
    """Return the warning about an estimate that rests on few rows."""
    if not law.df and law.most >= 0 and law.unit != "rows":
        return f"No standard error is given for {what}: {one_unit(names[law.most], law.unit)}"
    df, remedy = f"{law.df:.1f} degrees of freedom", _remedy(law, names)
    if law.df < REFUSED:
        return f"No standard error is given for {what}: it rests on too few {law.unit} ({df}). {remedy}"
    return f"The standard error of {what} rests on few {law.unit} ({df}), so it is rough. {remedy}"


def one_unit(name: Name, unit: str = "clusters") -> str:
    """Return why nothing has an error if all rows of a sample are in one cluster, and what would help."""
    return (
        f"all rows of {show([name])} are in one {unit.removesuffix('s')}, which does not show how much {unit} vary. "
        f"Add {unit} to it, or fit the other samples without it."
    )


def _remedy(law: Student, names: Sequence[Name]) -> str:
    of = f" of {show([names[law.most]])}" if law.most >= 0 else ""
    return f"Add {law.unit} like those{of} that carry it, or a sample that draws such rows more often."
