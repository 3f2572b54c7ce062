r"""The bias of a sample that nobody knows, learned by telling its rows from those of samples whose biases are known.

With the reference rows weighted so that they speak for the population, a classifier of "the row is of the sample" has
the odds

.. math:: \frac{p(x)}{1 - p(x)} = \frac{\omega(x)\,dP / \Omega}{dP}\cdot c = c'\,\omega(x),

the bias up to a factor, which drops out. Without these weights the odds would be those against the biased reference.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._types import Floats, Integers
from vardi.biases._fitted import (
    LEAST_ROWS,
    Encoding,
    FittedBias,
    FittedValues,
    Read,
    cross_fitted,
    named,
    parts_of,
    written,
)
from vardi.biases._kinds import Bias
from vardi.errors import InvalidBiasError, NotIdentifiableError, WeakOverlapWarning, WeightBlindError
from vardi.errors._texts import listed
from vardi.errors._warn import warn

CLIP = (0.02, 0.98)  # probabilities beyond which odds rest on next to no row of one side
MANY_CLIPPED = 0.05  # share of a sample's rows from which clipping is warned of
SEPARATED = 0.999  # area under the curve from which the two sides have next to no row in common
MANY_COLUMNS = 30  # from which rows are taken for embeddings, which a linear classifier reads
BINS = 10  # of the calibration table
ONE_THREAD = 20_000  # rows up to which the threads of gradient boosting cost more than they gain
LINEAR_C = 0.1  # inverse strength of the ridge penalty on standardised embeddings
TREES, LEAVES = 30, 4  # few: a bias is smooth, and samples have hundreds to thousands of rows
INNER = 3  # folds in which a default classifier is calibrated


@dataclass(frozen=True, repr=False)
class LearnedBias(FittedBias):
    """A bias that is learned; `learned` makes it.

    Attributes
    ----------
    names : tuple of str
        The columns that it depends on; none for all columns of an array.
    classifier, folds, random_state : estimator or None, int, int
        How.
    """

    names: tuple[str, ...]
    classifier: Any = field(default=None, compare=False)
    folds: int = 5
    random_state: int = 0

    def __post_init__(self) -> None:
        self._require_folds()
        if self.classifier is not None:
            _require_classifier(self.classifier)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads of the rows of every sample."""
        return self.names

    def __str__(self) -> str:
        return written("learned", self.names)

    __repr__ = FittedBias.__repr__

    def fitted(
        self,
        read: Read,
        names: Sequence[str],
        own: NDArray[np.bool_],
        weights: Floats,
        strata: Integers,
        clusters: Integers | None,
        sample: str,
        reference: Sequence[str],
    ) -> LearnedValues:
        """Learn the odds, each row's by models that have not seen it.

        Parameters
        ----------
        read : callable
            A column of all rows of the pool, by its name.
        names : sequence of str
            The columns to read.
        own : ndarray of bool
            Which rows are those of the sample.
        weights : ndarray
            The counts of these; of the reference rows their debiased weights; 0 for others.
        strata, clusters : ndarray of int
            The sample of each row, and its cluster where there are some, which no two folds share.
        sample, reference : str, sequence of str
            The names of the sample and of those that are known, for messages.
        """
        used = weights > 0
        encoding = Encoding.of(names, read, used, "The bias is learned from")
        X, folds = encoding(read), np.full(len(own), -1)
        folds[used] = self._folds(own[used], strata[used], None if clusters is None else clusters[used], sample)
        models, p = cross_fitted(
            lambda rows: self._model(X[rows], own[rows], weights[rows], len(names)),
            lambda models, X: _probabilities(models, X, sample),
            X,
            folds,
        )
        check = _checked(names, models[0], p[used], own[used], weights[used])
        if check.area > SEPARATED:
            raise _separated(sample, reference, names)
        if check.clipped > MANY_CLIPPED * check.rows:
            warn(WeakOverlapWarning(f"The bias of {sample!r}, {self}: {check.said_of_clipping}"))
        return LearnedValues(_odds(p), self, encoding, models, sample, check)

    def _folds(
        self, own: NDArray[np.bool_], strata: Integers, clusters: Integers | None, sample: str
    ) -> NDArray[np.int64]:
        """Return folds in which each sample has its share, and every cluster is whole."""
        from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

        units = np.arange(len(own)) if clusters is None else clusters
        for side, rows in ((repr(sample), own), ("The known samples", ~own)):
            found = len(np.unique(units[rows]))
            if found < (LEAST_ROWS if clusters is None else 1) * self.folds:
                what = "rows" if clusters is None else "clusters"
                verb = "has" if side == repr(sample) else "have"
                raise InvalidBiasError(
                    f"{side} {verb} {found} {what}, too few for {self.folds} folds of a classifier. Give fewer folds.",
                    sample=sample,
                )
        labels = strata if np.bincount(strata)[np.unique(strata)].min() >= self.folds else own.astype(np.int64)
        kind = StratifiedKFold if clusters is None else StratifiedGroupKFold
        splits = kind(self.folds, shuffle=True, random_state=self.random_state).split(labels, labels, clusters)
        folds = np.empty(len(own), np.int64)
        for fold, (_, rows) in enumerate(splits):
            folds[rows] = fold
        return folds

    def _model(self, X: Floats, own: NDArray[np.bool_], weights: Floats, columns: int) -> Any:
        """Return a classifier of rows, in which both sides weigh the same: folds differ in nothing but their rows."""
        from sklearn.base import clone
        from threadpoolctl import threadpool_limits

        model = self._default(columns) if self.classifier is None else clone(self.classifier)
        balanced = np.where(own, weights / weights[own].sum(), weights / weights[~own].sum()) * own.sum()
        key = "sample_weight" if not hasattr(model, "steps") else f"{model.steps[-1][0]}__sample_weight"
        with threadpool_limits(1 if len(X) <= ONE_THREAD else None):
            return model.fit(X, own.astype(np.int64), **{key: balanced})

    def _default(self, columns: int) -> Any:
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if columns > MANY_COLUMNS:
            return make_pipeline(StandardScaler(), LogisticRegression(C=LINEAR_C, max_iter=1000))
        boosted = HistGradientBoostingClassifier(
            max_iter=TREES, max_leaf_nodes=LEAVES, early_stopping=False, random_state=self.random_state
        )
        # a sigmoid: at 500 and 2,000 rows a side its log odds were off by .35 and .21 (logistic selection), .41 and .24
        # (a band), isotonic ones by .39 and .25, .47 and .30; with 50 trees of 31 leaves .53 and .40, .66 and .47
        return CalibratedClassifierCV(boosted, method="sigmoid", cv=INNER, ensemble=False)

    def by(self, models: Sequence[Any], X: Floats, sample: str) -> Floats:
        """Return the odds of the mean probability by some models."""
        return _odds(_probabilities(models, X, sample))


@dataclass(frozen=True, eq=False, repr=False)
class LearnedValues(FittedValues):
    """A learned bias with its values on the pool, and how well its classifier is calibrated."""

    check: LearnedCheck


@dataclass(frozen=True)
class LearnedCheck:
    """How a bias was learned, and how well the probabilities of its classifier agree with what was seen.

    Attributes
    ----------
    columns : tuple of str
        What it was learned from.
    classifier : str
        By which classifier.
    rows, clipped : int
        Rows of the sample, and how many of them have a probability that was clipped to 0.02 or 0.98.
    clipped_reference : int
        How many rows of the known samples have.
    area : float
        The area under the curve: the chance that a row of the sample has a larger probability than one of the
        population. At 0.5 the sample was drawn as if at random; near 1 it has next to no overlap with the population.
    predicted, observed : tuple of float
        By bins of the probability: its mean, and the share of the rows that are the sample's, both weighted so that
        sample and population are halves.
    in_bins : tuple of int
        How many rows each bin has.
    """

    columns: tuple[str, ...]
    classifier: str
    rows: int
    clipped: int
    clipped_reference: int
    area: float
    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    in_bins: tuple[int, ...]

    @property
    def said_of_clipping(self) -> str:
        """How many rows were clipped, in words."""
        return (
            f"{self.clipped} of its {self.rows} rows ({self.clipped / self.rows:.1%}) have a probability beyond "
            f"{CLIP[0]} and {CLIP[1]}, and were clipped to these: there next to no row of the other side says what "
            "the bias is. Add known rows like these, or leave out what the known samples could not have drawn."
        )

    def __str__(self) -> str:
        lines = [
            f"learned from {listed(self.columns)} by {self.classifier}",
            f"area under the curve {self.area:.3f}; clipped {self.clipped} of {self.rows} rows of the sample, "
            f"{self.clipped_reference} of the reference",
            "predicted  observed   rows",
        ]
        bins = zip(self.predicted, self.observed, self.in_bins, strict=True)
        return "\n".join([*lines, *(f"{p:>9.3f}  {seen:>8.3f}  {rows:>5,}" for p, seen, rows in bins)])


def _checked(names: Sequence[str], model: Any, p: Floats, own: NDArray[np.bool_], weights: Floats) -> LearnedCheck:
    """Compare probabilities, each by models that have not seen its row, with what was seen."""
    from sklearn.metrics import roc_auc_score

    halves = np.where(own, weights / weights[own].sum(), weights / weights[~own].sum())
    out = (p < CLIP[0]) | (p > CLIP[1])
    edges = np.unique(np.quantile(p, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
    place = np.searchsorted(edges, p, side="right")
    rows, mass, predicted, observed = (
        np.bincount(place, one, minlength=len(edges) + 1) for one in (None, halves, halves * p, halves * own)
    )
    there = rows > 0
    return LearnedCheck(
        tuple(names),
        _name_of(model),
        int(own.sum()),
        int((out & own).sum()),
        int((out & ~own).sum()),
        float(roc_auc_score(own, p, sample_weight=halves)),
        tuple((predicted[there] / mass[there]).tolist()),
        tuple((observed[there] / mass[there]).tolist()),
        tuple(rows[there].tolist()),
    )


def checks_of(names: Iterable[Hashable], biases: Iterable[Bias]) -> dict[Hashable, LearnedCheck]:
    """Return how each bias was learned that was, by sample."""
    return {
        name: part.check
        for name, bias in zip(names, biases, strict=False)  # those of a matrix have none
        for part in parts_of(bias)
        if isinstance(part, LearnedValues)
    }


def learned_columns(biases: Sequence[Bias]) -> tuple[str, ...]:
    """Return the columns that biases were learned from; none where all are known.

    Where there are some, errors of plain estimates leave out that of the classifier. These are the columns that an
    assisted estimate, which is free of it in first order, regresses on.
    """
    checks = checks_of(range(len(biases)), biases).values()
    return tuple(dict.fromkeys(column for check in checks for column in check.columns))


def _odds(p: Floats) -> Floats:
    p = np.clip(p, *CLIP)
    return p / (1.0 - p)


def _probabilities(models: Sequence[Any], X: Floats, sample: str) -> Floats:
    found: Floats = np.mean([np.asarray(model.predict_proba(X), np.float64)[:, 1] for model in models], axis=0)
    if not ((found >= 0) & (found <= 1)).all():
        raise InvalidBiasError(
            f"The classifier of {sample!r} gives {found[~((found >= 0) & (found <= 1))][0]:g} for a probability. Give "
            "one whose predict_proba is from 0 to 1.",
            sample=sample,
        )
    return found


def _require_classifier(classifier: Any) -> None:
    """Refuse a classifier without probabilities, or one that takes no weights."""
    from sklearn.utils.validation import has_fit_parameter

    name = type(classifier).__name__
    if not hasattr(classifier, "predict_proba"):
        raise InvalidBiasError(
            f"{name} has no predict_proba, and a bias is learned from probabilities: their odds are the bias. Give a "
            "classifier with probabilities, or wrap it in scikit-learn's CalibratedClassifierCV.",
            sample="",
        )
    if not has_fit_parameter(classifier.steps[-1][1] if hasattr(classifier, "steps") else classifier, "sample_weight"):
        raise WeightBlindError(
            f"{name} takes no sample_weight in fit, so it would tell rows from the known samples as they came, and not "
            "from the population. Choose a classifier that takes sample_weight.",
            estimator=name,
        )


def _separated(sample: str, reference: Sequence[str], names: Sequence[str]) -> NotIdentifiableError:
    return NotIdentifiableError(
        f"By {listed(names)} the rows of {sample!r} can be told from those of {listed(map(repr, reference))} without "
        "error, so that no known sample has rows like these, and nothing says how likely others would have entered "
        f"{sample!r}. Leave out a column that only tells where a row comes from (a label, an id), or add a known "
        "sample that overlaps.",
        groups=((sample,), tuple(reference)),
    )


def _name_of(model: Any) -> str:
    inner = getattr(model, "estimator", None)
    if hasattr(model, "steps"):
        return " and ".join(type(step).__name__ for _, step in model.steps)
    return type(model).__name__ if inner is None else f"{type(inner).__name__}, calibrated"


def learned(
    columns: str | Sequence[str] | None = None, classifier: Any = None, folds: int = 5, random_state: int = 0
) -> LearnedBias:
    r"""Return the bias of a sample that nobody knows, to be learned beside samples whose biases are known.

    The sample's rows are told from those of the known samples, which are debiased first, by a probabilistic classifier
    in which the latter have their debiased weights; the odds of a row by models that have not seen it,
    :math:`\omega(x) = p(x) / (1 - p(x))`, are its bias up to a constant. It is assumed that given these columns the
    selection does not depend on anything else of interest, and that the known samples have rows wherever this one has.

    Probabilities are clipped to 0.02 and 0.98 (a row is at most 49 times as frequent in the sample as in the
    population, or as rare); ``fit.learned`` counts the rows that this touched and has a table of calibration, and
    ``fit.check_biases()`` compares the samples. Errors of estimates do not include that of the classifier.

    Parameters
    ----------
    columns : str or sequence of str, optional
        Columns of numbers or texts that all samples have. None is for arrays (embeddings): all their columns.
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
    names = () if columns is None else named(columns)
    if columns is not None and not names:
        raise InvalidBiasError("learned has no column. Name what the selection may depend on.", sample="")
    return LearnedBias(names, classifier, folds, random_state)
