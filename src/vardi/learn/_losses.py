"""Losses and scores of single rows: only these have a mean over the population that weights can estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.metrics._scorer import _BaseScorer

from vardi._estimate.weight_routing import Estimator, Rows
from vardi._types import Floats
from vardi.errors import MismatchError, VardiError, suggest

Scoring: TypeAlias = str | Callable[..., ArrayLike] | None

_EPSILON = float(np.finfo(np.float64).eps)  # a probability of zero counts as this one, as in scikit-learn


@dataclass(frozen=True)
class Loss:
    """A loss of rows, smaller is better; or a score by scikit-learn's name for its mean, greater is better.

    Attributes
    ----------
    name : str
        Its name as ``scoring``.
    methods : tuple of str
        Methods of the fitted model to call: the first of these that it has.
    of : callable
        (y, what the method returned) -> a loss for each row.
    is_negated : bool
        Whether what ``of`` returns is taken with the opposite sign.
    by_class : bool
        Whether y is given as an indicator of each of the model's classes.
    """

    name: str
    methods: tuple[str, ...]
    of: Callable[[np.ndarray, np.ndarray], ArrayLike]
    is_negated: bool = False
    by_class: bool = False

    def __call__(self, model: Estimator, X: Rows, y: Rows | None) -> Floats:
        """Return the loss of each row under a fitted model."""
        method = next((name for name in self.methods if hasattr(model, name)), None)
        if method is None:
            raise MismatchError(
                f"The loss {self.name!r} needs {' or '.join(self.methods)}, which {type(model).__name__} does not "
                f"have. Give another scoring: {listed_losses()}."
            )
        if method not in ("score_samples", "transform") and y is None:
            raise MismatchError(
                f"The loss {self.name!r} compares predictions with y, but y is None. Give y, or "
                "scoring='negative_log_likelihood' for a density, 'distortion' for clusters."
            )
        outcome, response = np.asarray(y), np.asarray(getattr(model, method)(X))
        if self.by_class:
            outcome = outcome[:, None] == np.asarray(getattr(model, "classes_", None))[None, :]
        with np.errstate(divide="ignore", invalid="ignore"):  # what has no loss, such as a mean of zero, is found below
            losses = np.asarray(self.of(outcome, response), np.float64)
            losses = -losses if self.is_negated else losses
        if losses.ndim == 2 and len(losses) == len(response):  # several outcomes: each counts the same
            losses = losses.mean(axis=1)
        if losses.shape != (len(response),):
            raise MismatchError(
                f"The loss {self.name!r} returned values of shape {losses.shape} for {len(response)} rows. It must "
                "return one for each row: a figure that is a mean already cannot be weighted."
            )
        bad = int(np.count_nonzero(~np.isfinite(losses)))
        if bad:
            raise VardiError(
                f"The loss {self.name!r} of {type(model).__name__} is missing or infinite on {bad} of {len(losses)} "
                "held-out rows, so it has no mean. Look at the predictions there, or give another scoring."
            )
        return losses


def _log_loss(hits: np.ndarray, p: np.ndarray) -> ArrayLike:
    return -np.log(np.clip((p * hits).sum(axis=1), _EPSILON, 1.0))


def _brier(hits: np.ndarray, p: np.ndarray) -> ArrayLike:
    total = ((p - hits) ** 2).sum(axis=1) + ~hits.any(axis=1)  # a class that was not trained on: probability zero
    return total / 2.0 if hits.shape[1] == 2 else total


def _poisson(y: np.ndarray, mean: np.ndarray) -> ArrayLike:
    return np.where(mean > 0, 2.0 * (xlogy(y, y / mean) - y + mean), np.inf)


def _gamma(y: np.ndarray, mean: np.ndarray) -> ArrayLike:
    return np.where((y > 0) & (mean > 0), 2.0 * (np.log(mean / y) + y / mean - 1.0), np.inf)


def _squared_log(y: np.ndarray, mean: np.ndarray) -> ArrayLike:
    return np.where((y > -1) & (mean > -1), (np.log1p(y) - np.log1p(mean)) ** 2, np.inf)


def _percentage(y: np.ndarray, mean: np.ndarray) -> ArrayLike:
    return np.abs(y - mean) / np.maximum(np.abs(y), _EPSILON)


def _accuracy(y: np.ndarray, label: np.ndarray) -> ArrayLike:
    return (y == label).reshape(len(label), -1).all(axis=1)  # with several labels, all have to be right


def _top_two(hits: np.ndarray, score: np.ndarray) -> ArrayLike:
    if score.ndim == 1:  # two classes, and both are among the first two
        return hits.any(axis=1)
    first = np.argsort(score, axis=1, kind="stable")[:, :-3:-1]
    return np.take_along_axis(hits, first, axis=1).any(axis=1)


def _of_labels(name: str, share: Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]) -> Loss:
    """Return a score of sets of labels: (in both, in y, predicted) -> how many of how many; 0 if there are none."""

    def of(y: np.ndarray, label: np.ndarray) -> ArrayLike:
        if y.ndim != 2:
            raise MismatchError(
                f"scoring={name!r} compares the labels of a row with those predicted, but y has one value for each "
                "row. Give y a column of zeros and ones for each label, or scoring='accuracy'."
            )
        part, whole = share((y * label).sum(axis=1), y.sum(axis=1), label.sum(axis=1))
        return np.divide(part, whole, out=np.zeros(len(y)), where=whole > 0)

    return Loss(name, ("predict",), of)


LOSSES = {
    loss.name: loss
    for loss in (
        Loss("squared_error", ("predict",), lambda y, mean: (y - mean) ** 2),
        Loss("absolute_error", ("predict",), lambda y, mean: np.abs(y - mean)),
        Loss("poisson_deviance", ("predict",), _poisson),
        Loss("zero_one", ("predict",), lambda y, label: y != label),
        Loss("log_loss", ("predict_proba",), _log_loss, by_class=True),
        Loss("brier", ("predict_proba",), _brier, by_class=True),
        Loss("negative_log_likelihood", ("score_samples",), lambda _, log_density: log_density, is_negated=True),
        Loss("distortion", ("transform",), lambda _, distances: distances.min(axis=1) ** 2),
    )
}
SCORES = {  # scikit-learn's names of means over rows
    score.name: score
    for score in (
        replace(LOSSES["squared_error"], name="neg_mean_squared_error", is_negated=True),
        replace(LOSSES["absolute_error"], name="neg_mean_absolute_error", is_negated=True),
        Loss("neg_mean_absolute_percentage_error", ("predict",), _percentage, is_negated=True),
        Loss("neg_mean_squared_log_error", ("predict",), _squared_log, is_negated=True),
        replace(LOSSES["poisson_deviance"], name="neg_mean_poisson_deviance", is_negated=True),
        Loss("neg_mean_gamma_deviance", ("predict",), _gamma, is_negated=True),
        Loss("accuracy", ("predict",), _accuracy),
        Loss("top_k_accuracy", ("decision_function", "predict_proba"), _top_two, by_class=True),
        replace(LOSSES["log_loss"], name="neg_log_loss", is_negated=True),
        replace(LOSSES["brier"], name="neg_brier_score", is_negated=True),
        _of_labels("precision_samples", lambda both, _, predicted: (both, predicted)),
        _of_labels("recall_samples", lambda both, true, _: (both, true)),
        _of_labels("f1_samples", lambda both, true, predicted: (2 * both, true + predicted)),
        _of_labels("jaccard_samples", lambda both, true, predicted: (both, true + predicted - both)),
    )
}


def as_loss(scoring: Scoring, estimator: Estimator | None) -> Loss:
    """Return the loss that was asked for, or the default for the estimator."""
    if isinstance(scoring, str):
        return _named(scoring)
    if scoring is None:
        return LOSSES[_suited(estimator)]
    if callable(scoring) and not isinstance(scoring, _BaseScorer):
        name = getattr(scoring, "__name__", type(scoring).__name__)
        return Loss(name, ("predict",), scoring)
    raise MismatchError(
        f"scoring was given as {type(scoring).__name__}. Give {listed_losses()}, or a function (y_true, y_pred) that "
        "returns a loss for each row."
    )


def _named(scoring: str) -> Loss:
    known = LOSSES | SCORES
    if scoring in known:
        return known[scoring]
    reason, remedy = f" is not a known loss.{suggest(scoring, (*LOSSES, *get_scorer_names()))}", ""
    if scoring in get_scorer_names():
        reason = " is not a mean over rows, so it is not a mean over the population either."
        if get_scorer(scoring)._accept_sample_weight():
            remedy = f" vardi.debiased_scorer({scoring!r}, fit=fit) weights its rows, but gives no standard error."
    raise MismatchError(
        f"scoring={scoring!r}{reason} Give {listed_losses()}, a function (y_true, y_pred) that returns a loss for each "
        f"row, or scikit-learn's {', '.join(map(repr, SCORES))}.{remedy}"
    )


def _suited(estimator: Estimator | None) -> str:
    if is_classifier(estimator):
        return "zero_one"
    if is_regressor(estimator):
        return "squared_error"
    if hasattr(estimator, "score_samples"):
        return "negative_log_likelihood"
    raise MismatchError(
        f"{type(estimator).__name__} is not a classifier, a regressor or a density, so there is no default loss. "
        f"Give scoring: {listed_losses()}."
    )


def listed_losses() -> str:
    """Return the names of the losses."""
    return ", ".join(map(repr, LOSSES))
