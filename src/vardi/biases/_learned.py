r"""The unknown bias of a sample, learned by telling its rows apart from those of samples whose biases are known.

With the reference rows weighted so that they represent the population, a classifier of "the row belongs to the sample"
has the odds

.. math:: \frac{p(x)}{1 - p(x)} = \frac{\omega(x)\,dP / \Omega}{dP}\cdot c = c'\,\omega(x),

the bias up to a factor, which drops out. Without these weights the odds would be those against the biased reference.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vardi._types import Floats, Integers
from vardi.biases._compile import NumpyTarget
from vardi.biases._kinds import Bias, ValuesBias, parts_of
from vardi.biases._nodes import (
    Call,
    Column,
    Comparison,
    Constant,
    Node,
    arithmetic,
    column_named,
    column_text,
    total,
)
from vardi.biases._values import as_numbers
from vardi.errors import (
    InvalidBiasError,
    MissingValuesError,
    NotIdentifiableError,
    WeakOverlapWarning,
    WeightBlindError,
)
from vardi.errors._texts import cut, listed, more, width_of
from vardi.errors._warn import warn

CLIP = (0.02, 0.98)  # probabilities beyond which odds rest on almost no rows of one side
MANY_COLUMNS = 30  # above which rows are treated as embeddings, with a linear classifier
ONE_THREAD = 20_000  # rows up to which the threads of gradient boosting cost more than they gain
LEAVES = 4  # few, as a bias is smooth, and samples have hundreds to thousands of rows


Model = TypeVar("Model")
Read = Callable[[str], np.ndarray]
"""A column of some rows, by its name."""


class Classifier(Protocol):
    """A fitted classifier, as in scikit-learn."""

    def predict_proba(self, X: Floats) -> ArrayLike: ...


@dataclass(frozen=True)
class Encoding:
    """Columns as numbers: numeric ones as they are, others as an indicator for each value that occurs in some rows.

    Attributes
    ----------
    values : dict
        The values of each column; None for a numeric one.
    said : str
        What is done with a column, for messages.
    edges : dict
        For trees: where numeric columns with more than 255 values are cut into 255 steps. Boosting in scikit-learn
        would cut them itself but, with weighted rows, at the price of a sort for each cut.
    """

    values: dict[str, tuple[str, ...] | None]
    said: str
    edges: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(
        cls, names: Sequence[str], read: Read, rows: NDArray[np.bool_], said: str, *, for_trees: bool = False
    ) -> Encoding:
        """Return the encoding of columns with the values that occur in some rows."""
        values: dict[str, tuple[str, ...] | None] = {}
        edges: dict[str, Floats] = {}
        for name in names:
            column = read(name)
            numbers = as_numbers(column)
            values[name] = None if numbers is not None else tuple(sorted({str(value) for value in column[rows]}))
            if for_trees and numbers is not None and len(cuts := _edges(numbers[rows])):
                edges[name] = cuts
        return cls(values, said, edges)

    @property
    def named(self) -> list[str]:
        """The name of each column of the matrix."""
        names: list[str] = []
        for name, levels in self.values.items():
            names += [name] if levels is None else [f"{name} {level}" for level in levels]
        return names

    def __call__(self, read: Read) -> Floats:
        """Return columns of some rows as a matrix; raise if values are missing."""
        parts: list[Floats] = []
        for name, levels in self.values.items():
            column = read(name)
            missing = NumpyTarget({name: column}).missing([name])
            if missing:
                raise MissingValuesError(
                    f"{self.said} {name!r}, which is missing in {missing[name]} rows. Fill it in, remove these rows, "
                    "or leave this column out.",
                    columns=missing,
                )
            if levels is None:
                numbers = as_numbers(column)
                if numbers is None:
                    raise InvalidBiasError(f"The column {name!r} holds {column.dtype}, not numbers.")
                numbers = numbers.astype(np.float64)
                parts.append(_stepwise(numbers, self.edges[name]) if name in self.edges else numbers)
            else:
                texts = np.array([str(value) for value in column.tolist()], dtype=object)
                parts += [(texts == level).astype(np.float64) for level in levels]
        return np.column_stack(parts)


def _edges(x: np.ndarray, steps: int = 255) -> Floats:
    """Return where numbers are cut into steps with equally many distinct values; empty if they have fewer."""
    x = np.unique(x[np.isfinite(x)].astype(np.float64))
    if len(x) <= steps:
        return np.empty(0)
    return np.asarray(np.quantile(x, np.linspace(0.0, 1.0, steps + 1)[1:-1]))


def _stepwise(x: Floats, edges: Floats) -> Floats:
    """Return the middle of the step that each number is in; for the outer steps, their edge."""
    middles = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2.0, edges[-1:]])
    return np.asarray(middles[np.searchsorted(edges, x, side="right")])


def cross_fitted(
    fit: Callable[[NDArray[np.bool_]], Model],
    by: Callable[[Sequence[Model], np.ndarray], Floats],
    X: np.ndarray,
    folds: Integers,
) -> tuple[tuple[Model, ...], Floats]:
    """Return a model for each fold, and the value of each row by models that have not seen it.

    Parameters
    ----------
    fit : callable
        Returns the model of some rows.
    by : callable
        Returns the values of rows by the mean of some models.
    X : ndarray of shape (n, p) or (n,)
        All rows, or their positions.
    folds : ndarray of int
        The fold of each row; -1 for rows that no model is fitted to.
    """
    models = tuple(fit((folds >= 0) & (folds != fold)) for fold in range(int(folds.max()) + 1))
    values = np.empty(len(X))
    for fold, seen_by in [(-1, models), *enumerate((model,) for model in models)]:
        rows = folds == fold
        if rows.any():
            values[rows] = by(seen_by, X[rows])
    return models, values


@dataclass(frozen=True, repr=False)
class LearnedBias(Bias):
    """A bias that is learned; `learned` makes it.

    Attributes
    ----------
    names : tuple of str
        The columns that it depends on; none for all columns of an array.
    classifier, folds, random_state : estimator or None, int, int
        How it is learned.
    """

    names: tuple[str, ...]
    classifier: Classifier | None = field(default=None, compare=False)
    folds: int = 5
    random_state: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.folds, int) or isinstance(self.folds, bool) or self.folds < 2:
            raise InvalidBiasError(f"folds is {self.folds!r}. Give a whole number, 2 or more.")
        if self.classifier is not None:
            _require_classifier(self.classifier)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads of the rows of every sample."""
        return self.names

    def __str__(self) -> str:
        return f"learned({', '.join(map(column_text, self.names))})"

    def fitted(
        self,
        read: Read,
        names: Sequence[str],
        in_sample: NDArray[np.bool_],
        weights: Floats,
        folds: Integers,
        sample: str,
        reference: Sequence[str],
    ) -> LearnedValues:
        """Learn the odds of each row by models that have not seen it.

        Parameters
        ----------
        read : callable
            Returns a column of all rows of the pool, by its name.
        names : sequence of str
            The columns to read.
        in_sample : ndarray of bool
            Which rows are those of the sample.
        weights : ndarray
            The counts of the sample's rows, the debiased weights of the reference rows, and 0 for others.
        folds : ndarray of int
            The fold of each row.
        sample, reference : str, sequence of str
            The names of the sample and of the known samples, for messages.
        """
        used = weights > 0
        trees = self.classifier is None and len(names) <= MANY_COLUMNS
        encoding = Encoding.of(names, read, used, "The bias is learned from", for_trees=trees)
        X = encoding(read)
        self._require_rows(in_sample[used], folds[used], sample)
        models, p = cross_fitted(
            lambda rows: self._model(X[rows], in_sample[rows], weights[rows], len(names)),
            lambda models, X: _probabilities(models, X, sample),
            X,
            np.where(used, folds, -1),
        )
        check = _checked(encoding, X[used], models[0], p[used], in_sample[used], weights[used])
        if check.area > 0.999:  # the two sides have almost no rows in common
            raise _separated(sample, reference, names)
        if check.clipped > 0.05 * check.rows:
            warn(WeakOverlapWarning(f"The bias of {sample!r}, {self}: {check.said_of_clipping}"))
        return LearnedValues(_odds(p), self, encoding, models, sample, check, folds)

    def _require_rows(self, in_sample: NDArray[np.bool_], folds: Integers, sample: str) -> None:
        """Refuse a side that is not in every fold, or has almost no rows in each."""
        for side, rows in ((repr(sample), in_sample), ("the known samples together", ~in_sample)):
            count = int(rows.sum())
            if count < 2 * self.folds or len(np.unique(folds[rows])) < self.folds:
                raise InvalidBiasError(
                    f"The bias of {sample!r} is learned in {self.folds} folds of rows or whole clusters, but {side} "
                    f"has too few for that: {count} rows in {len(np.unique(folds[rows]))} folds. Give fewer folds.",
                    sample=sample,
                )

    def _model(self, X: Floats, in_sample: NDArray[np.bool_], weights: Floats, columns: int) -> Classifier:
        """Return a classifier in which both sides have the same weight, so that folds differ only in their rows."""
        from sklearn.base import clone
        from threadpoolctl import threadpool_limits

        model = self._default(columns) if self.classifier is None else clone(self.classifier)
        balanced = _halves(in_sample, weights) * in_sample.sum()
        key = "sample_weight" if not hasattr(model, "steps") else f"{model.steps[-1][0]}__sample_weight"
        with threadpool_limits(1 if len(X) <= ONE_THREAD else None):
            return model.fit(X, in_sample.astype(np.int64), **{key: balanced})

    def _default(self, columns: int) -> Any:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if columns > MANY_COLUMNS:
            return make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
        boosted = HistGradientBoostingClassifier(
            max_iter=30, max_leaf_nodes=LEAVES, early_stopping=False, random_state=self.random_state
        )
        # Errors of the log odds at 500 and 2,000 rows a side: with a sigmoid .35 and .21 (logistic selection), .41 and
        # .24 (a band); isotonic .39 and .25, .47 and .30; with 50 trees of 31 leaves .53 and .40, .66 and .47.
        return CalibratedClassifierCV(boosted, method="sigmoid", cv=3, ensemble=False)


@dataclass(frozen=True, eq=False, repr=False)
class LearnedValues(ValuesBias):
    """A learned bias with its values on the pool, and the models of its folds, which predict it on other rows.

    Attributes
    ----------
    declared : LearnedBias
        The bias as declared.
    encoding : Encoding
        How the models read columns.
    models : tuple
        One for each fold.
    sample : str
        The name of the sample.
    check : LearnedCheck
        How well its classifier does.
    fold : ndarray of int
        The fold of each row.
    """

    declared: LearnedBias
    encoding: Encoding
    models: tuple[Classifier, ...]
    sample: str
    check: LearnedCheck
    fold: Integers

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads of the rows of every sample."""
        return tuple(self.encoding.values)

    def on(self, read: Read) -> Floats:
        """Return the bias on other rows: the odds of the mean probability that the models predict."""
        return _odds(_probabilities(self.models, self.encoding(read), self.sample))

    def expression(self) -> Node | None:
        """Return the bias as an expression, if all models are logistic regressions, of standardised columns or not.

        It is :math:`1 / (1/p - 1)`, with p the mean over the models, clipped.
        """
        curves = [_curve(model, self.encoding, len(self.models)) for model in self.models]
        if any(curve is None for curve in curves):
            return None
        p = Call("max", (Call("min", (total([one for one in curves if one]), Constant(CLIP[1]))), Constant(CLIP[0])))
        odds = arithmetic(arithmetic(Constant(1), "/", p), "-", Constant(1))
        return arithmetic(Constant(1), "/", odds)

    def __str__(self) -> str:
        return str(self.declared)

    __repr__ = __str__


def _curve(model: Any, encoding: Encoding, models: int) -> Node | None:
    """Return the probability by a logistic regression, over the number of models, as an expression; None for others."""
    steps = [type(step).__name__ for _, step in model.steps] if hasattr(model, "steps") else [type(model).__name__]
    if steps not in (["LogisticRegression"], ["StandardScaler", "LogisticRegression"]) or len(model.classes_) != 2:
        return None
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    slopes, intercept = last.coef_[0], float(last.intercept_[0])
    if len(steps) == 2:
        scaler = model.steps[0][1]
        slopes = slopes if scaler.scale_ is None else slopes / scaler.scale_
        intercept -= 0.0 if scaler.mean_ is None else float(slopes @ scaler.mean_)
    terms: list[Node] = []
    for name, levels in encoding.values.items():
        column = Column(name)
        terms += [column] if levels is None else [Comparison(column, (("==", Constant(level)),)) for level in levels]
    against = [arithmetic(Constant(-b), "*", term) for b, term in zip(slopes.tolist(), terms, strict=True)]
    odds_against = Call("exp", (total([Constant(-intercept), *against]),))
    return arithmetic(Constant(1.0 / models), "/", arithmetic(Constant(1), "+", odds_against))


@dataclass(frozen=True)
class LearnedCheck:
    """How a bias was learned, and how well the probabilities of its classifier agree with the rows.

    Attributes
    ----------
    columns : tuple of str
        What it was learned from.
    classifier : str
        The classifier.
    rows, clipped : int
        Rows of the sample, and how many of them have a probability that was clipped to 0.02 or 0.98.
    clipped_reference : int
        The same number among the rows of the known samples.
    area : float
        The area under the curve: the chance that a row of the sample has a larger probability than one of the
        population. At 0.5 the sample was drawn as if at random; near 1 it hardly overlaps with the population.
    predicted, observed : tuple of float
        By bins of the probability: its mean, and the share of rows that are the sample's, both weighted so that
        sample and population each have half of the weight.
    errors : tuple of float
        The standard error of each observed share.
    in_bins : tuple of int
        How many rows each bin has.
    balance : dict from str to (float, float)
        By how many standard deviations the mean of each column in the sample differs from that of the population: as
        drawn, and with each row weighted by one over its odds. A text column has one for each of its values.
    """

    columns: tuple[str, ...]
    classifier: str
    rows: int
    clipped: int
    clipped_reference: int
    area: float
    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    errors: tuple[float, ...]
    in_bins: tuple[int, ...]
    balance: dict[str, tuple[float, float]]

    @property
    def off(self) -> int:
        """How many bins have an observed share that is more than two standard errors off; one in twenty by chance."""
        bins = zip(self.predicted, self.observed, self.errors, strict=True)
        return sum(abs(seen - p) > 2.0 * error for p, seen, error in bins)

    @property
    def said_of_clipping(self) -> str:
        """How many rows were clipped, why it matters, and what to do."""
        return (
            f"{self.clipped} of its {self.rows} rows ({self.clipped / self.rows:.1%}) have a probability outside "
            f"{CLIP[0]} to {CLIP[1]}, and were clipped to that range: almost no rows of the other side are left there "
            "to learn the bias from. Add rows like these from a known sample, or leave out what the known samples "
            "could not have drawn."
        )

    def __str__(self) -> str:
        lines = [
            f"learned from {listed(self.columns)} by {self.classifier}",
            f"area under the curve {self.area:.3f}; clipped {self.clipped} of {self.rows} rows of the sample, "
            f"{self.clipped_reference} of the reference",
            "predicted  observed  error   rows",
        ]
        bins = zip(self.predicted, self.observed, self.errors, self.in_bins, strict=True)
        lines += [f"{p:>9.3f}  {seen:>8.3f}  {error:>5.3f}  {rows:>5,}" for p, seen, error, rows in bins]
        lines.append(f"{self.off} of {len(self.in_bins)} are off by more than two errors, on held-out rows")
        ordered = sorted(self.balance, key=lambda name: -abs(self.balance[name][1]))
        furthest = ordered[:8]
        width = width_of("imbalance", furthest, 40)
        lines.append(f"{'imbalance':<{width}}    as drawn  weighted   (in standard deviations)")
        for name in furthest:
            before, after = self.balance[name]
            lines.append(f"{cut(name, width):<{width}}  {before:>+10.3f}  {after:>+8.3f}")
        return "\n".join([*lines, *more(ordered, len(furthest))])


def _halves(in_sample: NDArray[np.bool_], weights: Floats) -> Floats:
    """Return weights in proportion to those given, with which both sides weigh 1."""
    return np.where(in_sample, weights / weights[in_sample].sum(), weights / weights[~in_sample].sum())


def _checked(
    encoding: Encoding,
    X: Floats,
    model: Classifier,
    p: Floats,
    in_sample: NDArray[np.bool_],
    weights: Floats,
    bins: int = 10,
) -> LearnedCheck:
    """Compare probabilities, each by models that have not seen its row, with the rows' samples."""
    from sklearn.metrics import roc_auc_score

    halves = _halves(in_sample, weights)
    out = (p < CLIP[0]) | (p > CLIP[1])
    edges = np.unique(np.quantile(p, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
    place = np.searchsorted(edges, p, side="right")
    rows, mass, predicted, observed = (
        np.bincount(place, one, minlength=len(edges) + 1) for one in (None, halves, halves * p, halves * in_sample)
    )
    there = rows > 0
    share = observed / np.where(there, mass, 1.0)
    squares = np.bincount(place, (halves * (in_sample - share[place])) ** 2, minlength=len(edges) + 1)
    return LearnedCheck(
        tuple(encoding.values),
        _name_of(model),
        int(in_sample.sum()),
        int((out & in_sample).sum()),
        int((out & ~in_sample).sum()),
        float(roc_auc_score(in_sample, p, sample_weight=halves)),
        tuple((predicted[there] / mass[there]).tolist()),
        tuple(share[there].tolist()),
        tuple((np.sqrt(squares[there]) / mass[there]).tolist()),
        tuple(rows[there].tolist()),
        _balance(encoding.named, X, in_sample, weights, weights / _odds(p)),
    )


def _balance(
    names: Sequence[str], X: Floats, in_sample: NDArray[np.bool_], weights: Floats, weighted: Floats
) -> dict[str, tuple[float, float]]:
    """Return how far the means of a sample are from the population's, in standard deviations of the population."""
    centre = np.average(X[~in_sample], axis=0, weights=weights[~in_sample])
    spread = np.sqrt(np.average((X[~in_sample] - centre) ** 2, axis=0, weights=weights[~in_sample]))
    means = [np.average(X[in_sample], axis=0, weights=w[in_sample]) for w in (weights, weighted)]
    away = (np.transpose(means) - centre[:, None]) / np.where(spread > 0, spread, 1.0)[:, None]
    return {name: (before, after) for name, (before, after) in zip(names, away.tolist(), strict=True)}


def learned_of(names: Iterable[Hashable], biases: Iterable[Bias]) -> dict[Hashable, LearnedValues]:
    """Return each bias that was learned, by sample."""
    return {
        name: part
        for name, bias in zip(names, biases, strict=False)  # a matrix has no biases
        for part in parts_of(bias)
        if isinstance(part, LearnedValues)
    }


def checks_of(names: Iterable[Hashable], biases: Iterable[Bias]) -> dict[Hashable, LearnedCheck]:
    """Return how each learned bias was learned, by sample."""
    return {name: values.check for name, values in learned_of(names, biases).items()}


def _odds(p: Floats) -> Floats:
    p = np.clip(p, *CLIP)
    return p / (1.0 - p)


def _probabilities(models: Sequence[Classifier], X: Floats, sample: str) -> Floats:
    means: Floats = np.mean([np.asarray(model.predict_proba(X), np.float64)[:, 1] for model in models], axis=0)
    is_probability = (means >= 0) & (means <= 1)
    if not is_probability.all():
        raise InvalidBiasError(
            f"The classifier of {sample!r} gives {means[~is_probability][0]:g} as a probability. Give "
            "one whose predict_proba is between 0 and 1.",
            sample=sample,
        )
    return means


def _require_classifier(classifier: object) -> None:
    """Refuse a classifier without probabilities, or one that takes no weights."""
    from sklearn.utils.validation import has_fit_parameter

    name = type(classifier).__name__
    if not hasattr(classifier, "predict_proba"):
        raise InvalidBiasError(
            f"{name} has no predict_proba, but a bias is learned from probabilities: their odds are the bias. Give a "
            "classifier with probabilities, or wrap it in scikit-learn's CalibratedClassifierCV."
        )
    if not has_fit_parameter(classifier.steps[-1][1] if hasattr(classifier, "steps") else classifier, "sample_weight"):
        raise WeightBlindError(
            f"{name} takes no sample_weight in fit, so it would compare rows with the known samples as drawn, not "
            "with the population. Choose a classifier that takes sample_weight.",
            estimator=name,
        )


def _separated(sample: str, reference: Sequence[str], names: Sequence[str]) -> NotIdentifiableError:
    return NotIdentifiableError(
        f"By {listed(names)} the rows of {sample!r} can be told from those of {listed(map(repr, reference))} without "
        "error, so no known sample has rows like these, and it is unknown how likely others were to enter "
        f"{sample!r}. Leave out any column that only identifies where a row comes from (a label, an id), or add a "
        "known sample that overlaps.",
        groups=((sample,), tuple(reference)),
    )


def _name_of(model: object) -> str:
    if hasattr(model, "steps"):
        return " and ".join(type(step).__name__ for _, step in model.steps)
    inner = getattr(model, "estimator", None)
    return type(model).__name__ if inner is None else f"{type(inner).__name__}, calibrated"


def learned(
    columns: str | Sequence[str] | None = None,
    classifier: Classifier | None = None,
    folds: int = 5,
    random_state: int = 0,
) -> LearnedBias:
    r"""Return an unknown bias, to be learned by comparing its sample with samples whose biases are known.

    A probabilistic classifier distinguishes the sample's rows from those of the known samples, which are debiased first
    and enter with their debiased weights; the odds of a row by models that have not seen it,
    :math:`\omega(x) = p(x) / (1 - p(x))`, are its bias up to a constant. It is assumed that given these columns the
    selection does not depend on anything else of interest, and that the known samples have rows wherever this one has.

    Probabilities are clipped to 0.02 and 0.98 (a row is at most 49 times as frequent in the sample as in
    the population, or as rare); ``fit.learned`` counts the rows affected, and has the calibration of the
    classifier on held-out rows and the balance of the columns. Means, ``by=`` and totals are doubly robust by default
    (``assisted_by="auto"`` of :meth:`vardi.DebiasedSample.expectation`); everything else uses the weights alone,
    and its error, which leaves out the classifier's, says that it is approximate.

    Parameters
    ----------
    columns : str or sequence of str, optional
        Columns of numbers or text that all samples have. None means all columns of arrays (embeddings).
    classifier : scikit-learn classifier, optional
        With ``predict_proba``, and ``sample_weight`` in fit; it is cloned for each fold. By default gradient boosting
        whose probabilities are calibrated (a sigmoid), or with more than 30 columns a logistic regression of the
        standardised columns.
    folds : int
        How many; clusters stay whole.
    random_state : int
        Of folds and default classifier.

    Examples
    --------
    >>> import vardi
    >>> vardi.learned(["age", "region"])
    where('learned(age, region)')
    """
    several = columns if isinstance(columns, Iterable) and not isinstance(columns, str) else (columns,)
    names = () if columns is None else tuple(column_named(name).name for name in several)
    if columns is not None and not names:
        raise InvalidBiasError("learned has no column. Name what the selection may depend on.")
    return LearnedBias(names, classifier, folds, random_state)
