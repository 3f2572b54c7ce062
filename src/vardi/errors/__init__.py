"""One class for each kind of failure. Each states fact, reason and remedy, and carries the data a program needs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from vardi.errors._texts import number_of_rows as number_of_rows  # messages import it from here
from vardi.errors._texts import suggest as suggest

if TYPE_CHECKING:
    from vardi._solve.identify import Verdict
    from vardi._solve.newton import Solution


class VardiError(ValueError):
    """Base of every error that vardi raises on purpose; each can be pickled with its data."""

    def __reduce__(self) -> tuple[Any, ...]:
        return BaseException.__new__, (type(self), *self.args), self.__dict__  # __init__ wants the data by name


class ExpressionError(VardiError):
    """A text expression that is not in the language of biases.

    Attributes
    ----------
    text : str
        The whole expression.
    offset : int
        Zero-based position of the place that is refused.
    """

    def __init__(self, message: str, *, text: str, offset: int) -> None:
        super().__init__(f"{message}\n    {text}\n    {' ' * offset}^")
        self.text = text
        self.offset = offset


class _AtRowsError(VardiError):
    """An error that names a sample and rows."""

    def __init__(self, message: str, *, sample: str | None = "", rows: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.sample = sample
        self.rows = tuple(int(row) for row in rows)


class InvalidBiasError(_AtRowsError):
    """A bias with a negative, NaN or infinite value, or one that cannot be used where it is given.

    Attributes
    ----------
    sample : str
        Name of the bias; empty if it belongs to no sample.
    rows : tuple of int
        Pool positions of the offending rows (at most the first ten); empty if no row is to blame.
    """


class ImpossibleRowError(_AtRowsError):
    """A row that its own sample's bias forbids, or that no bias covers.

    Attributes
    ----------
    sample : str or None
        Name of the sample that holds the rows; None for new rows, which belong to no sample.
    rows : tuple of int
        Pool positions of the offending rows (at most the first ten).
    """


class NotIdentifiableError(VardiError):
    """The samples cannot be compared: the overlap graph is not strongly connected, exactly or to rounding.

    Attributes
    ----------
    groups : tuple of tuple
        Names of the samples, in the groups within which they can be compared; where overlap is lost in rounding, the
        two sides of the weakest cut.
    verdict : Verdict
        The whole verdict, with the links there are and what would join the groups.
    """

    def __init__(self, message: str, *, groups: Iterable[Iterable[Hashable]], verdict: Verdict | None = None) -> None:
        super().__init__(message)
        self.groups = tuple(tuple(group) for group in groups)
        self.verdict = verdict


class UnidentifiedParametersError(NotIdentifiableError):
    """Parameters of a bias that the samples do not determine.

    Attributes
    ----------
    sample : str
        Name of the sample with the bias; empty where several are involved.
    parameters : tuple of str
        The parameters that cannot be distinguished from one another, or from a normaliser.
    """

    def __init__(
        self,
        message: str,
        *,
        sample: str,
        parameters: Iterable[str] = (),
        groups: Iterable[Iterable[Hashable]] = (),
        verdict: Verdict | None = None,
    ) -> None:
        super().__init__(message, groups=groups, verdict=verdict)
        self.sample = sample
        self.parameters = tuple(parameters)


class MismatchError(VardiError):
    """Labels, keys, columns or lengths that do not match; the message shows both sides."""


class MissingValuesError(VardiError):
    """Missing values where a bias needs a value.

    Attributes
    ----------
    columns : dict of str to int
        Each column with the number of its missing values.
    """

    def __init__(self, message: str, *, columns: dict[str, int]) -> None:
        super().__init__(message)
        self.columns = columns


class EmptySampleError(VardiError):
    """A sample without rows, or no sample at all.

    Attributes
    ----------
    samples : tuple of str
        Names of the empty samples.
    """

    def __init__(self, message: str, *, samples: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.samples = tuple(samples)


class InvalidCountsError(VardiError):
    """Frequency weights that are negative, NaN, infinite or not whole.

    Attributes
    ----------
    rows : tuple of int
        Pool positions of the offending rows (at most the first ten).
    """

    def __init__(self, message: str, *, rows: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.rows = tuple(int(row) for row in rows)


class InvalidKnownError(VardiError):
    """Known values that are invalid, that no weights on the rows can meet, or that contradict one another.

    Attributes
    ----------
    labels : tuple of str
        The names of the values to blame.
    allowed : dict of str to (float, float)
        The least and the largest value that the rows allow, where that is what is wrong.
    nearest : dict of str to float
        Values near those given that some weights on the rows meet, where the given ones cannot all be met at once.
    """

    def __init__(
        self,
        message: str,
        *,
        labels: Iterable[str],
        allowed: Mapping[str, tuple[float, float]] | None = None,
        nearest: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(message)
        self.labels = tuple(labels)
        self.allowed = dict(allowed or {})
        self.nearest = dict(nearest or {})


class NeedsRowsError(VardiError):
    """Something that needs rows in memory was asked of a lazy frame."""


class FewUnitsError(VardiError):
    """Replicates of too few rows or clusters, whose spread would be no standard error.

    Attributes
    ----------
    df : float
        How many degrees of freedom they leave; 0 if all rows of a sample are in one cluster.
    """

    def __init__(self, message: str, *, df: float) -> None:
        super().__init__(message)
        self.df = df


class TooLargeError(VardiError):
    """Something that needs more memory than there can be.

    Attributes
    ----------
    bytes : int
        How much it needs.
    """

    def __init__(self, message: str, *, bytes: int) -> None:
        super().__init__(message)
        self.bytes = bytes


class EngineError(VardiError):
    """An engine that could not compute what it was asked; its own error is the cause.

    Attributes
    ----------
    sample : str or None
        Name of the sample whose frame failed; None for one frame that holds all samples.
    """

    def __init__(self, message: str, *, sample: str | None = None) -> None:
        super().__init__(message)
        self.sample = sample


class WeightBlindError(VardiError):
    """A learner that takes no ``sample_weight``, so it would learn from the biased pool.

    Attributes
    ----------
    estimator : str
        The learner.
    """

    def __init__(self, message: str, *, estimator: str) -> None:
        super().__init__(message)
        self.estimator = estimator


class ConvergenceError(VardiError):
    """The equations could not be solved to the tolerance.

    Attributes
    ----------
    solution : Solution
        Where the solver stopped.
    """

    def __init__(self, message: str, *, solution: Solution) -> None:
        super().__init__(message)
        self.solution = solution


class OutputError(VardiError):
    """A file that cannot be written where it was asked for, or that already exists.

    Attributes
    ----------
    path : str
        The file.
    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class SavedFitError(VardiError):
    """A file that holds no fit, or one of a newer format, or one that was changed after it was saved.

    Attributes
    ----------
    path : str
        The file.
    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class StudyError(VardiError):
    """A study file that cannot be run; everything wrong with it is reported at once.

    Attributes
    ----------
    problems : tuple of str
        One line for each thing that is wrong, with its place in the file.
    """

    def __init__(self, message: str, *, problems: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class VardiWarning(UserWarning):
    """Base of every warning that vardi gives."""


class WeakOverlapWarning(VardiWarning):
    """Standard errors are doubtful or refused: samples hardly overlap, or a few rows carry the weight."""


class WeightBlindWarning(VardiWarning):
    """Steps of a pipeline that take no ``sample_weight``, so they learn from the biased pool."""


class WeakParametersWarning(VardiWarning):
    """The samples carry little information about a parameter of a bias."""


class ContradictedKnownWarning(VardiWarning):
    """The samples, by their biases, give values that are far from the known ones."""


class KnownOfAllWarning(VardiWarning):
    """Only the weights of all samples meet what is known of the population, but an estimate uses some of them alone."""


class SharedUnitsWarning(VardiWarning):
    """The same units are in two samples, by equal rows or by equal ids.

    Attributes
    ----------
    samples : tuple of str
        Names of the two samples that share most units.
    count : int
        How many units they share.
    """

    def __init__(self, message: str, *, samples: tuple[str, str], count: int) -> None:
        super().__init__(message)
        self.samples = samples
        self.count = count


class DroppedSamplesWarning(VardiWarning):
    """Samples were left out because they cannot be compared with the others."""
