"""The loss of one row at a time: only such a loss has a mean over the population that weights can give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from sklearn.base import is_classifier, is_regressor

from vardi._types import Floats
from vardi.errors import MismatchError, VardiError, suggest

_EPSILON = float(np.finfo(np.float64).eps)  # a probability of zero counts as this one, as in scikit-learn


@dataclass(frozen=True)
class Loss:
    """A loss of rows, smaller is better.

    Attributes
    ----------
    name : str
        How it is asked for.
    method : str
        What it asks of the fitted model.
    of : callable
        (y, what the method returned, classes of the model) -> a loss for each row.
    """

    name: str
    method: str
    of: Callable[[NDArray[Any], NDArray[Any], Any], Any]

    def __call__(self, model: Any, X: Any, y: Any) -> Floats:
        """Return the loss of each row under a fitted model."""
        if not hasattr(model, self.method):
            raise MismatchError(
                f"The loss {self.name!r} asks for {self.method}, which {type(model).__name__} does not have. Give "
                f"another scoring: {_listed()}.",
                expected=(self.method,),
                got=(type(model).__name__,),
            )
        needs_y = self.method in ("predict", "predict_proba")
        if needs_y and y is None:
            raise MismatchError(
                f"The loss {self.name!r} compares predictions with y, and y is None. Give y, or "
                "scoring='negative_log_likelihood' for a density, 'distortion' for clusters.",
                expected=("y",),
                got=(None,),
            )
        response = np.asarray(getattr(model, self.method)(X))
        losses = np.asarray(self.of(np.asarray(y), response, getattr(model, "classes_", None)))
        if losses.ndim == 2 and len(losses) == len(response):  # several outcomes: each counts the same
            losses = losses.mean(axis=1)
        if losses.shape != (len(response),):
            raise MismatchError(
                f"The loss {self.name!r} returned values of shape {losses.shape} for {len(response)} rows. It must "
                "return one for each row: a figure that is a mean already cannot be weighted.",
                expected=(len(response),),
                got=losses.shape,
            )
        bad = int(np.count_nonzero(~np.isfinite(losses.astype(np.float64))))
        if bad:
            raise VardiError(
                f"The loss {self.name!r} of {type(model).__name__} is missing or infinite on {bad} of {len(losses)} "
                "held-out rows, so it has no mean. Look at the predictions there, or give another scoring."
            )
        return losses.astype(np.float64)


def _hits(y: NDArray[Any], classes: Any) -> NDArray[np.bool_]:
    return np.asarray(y)[:, None] == np.asarray(classes)[None, :]


def _log_loss(y: NDArray[Any], p: NDArray[Any], classes: Any) -> Any:
    return -np.log(np.clip((p * _hits(y, classes)).sum(axis=1), _EPSILON, 1.0))


def _brier(y: NDArray[Any], p: NDArray[Any], classes: Any) -> Any:
    hits = _hits(y, classes)
    total = ((p - hits) ** 2).sum(axis=1) + ~hits.any(axis=1)  # a class that was not trained on: probability zero
    return total / 2.0 if len(classes) == 2 else total


def _poisson(y: NDArray[Any], mean: NDArray[Any], _: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):  # a mean of zero or less has no deviance: told by the caller
        return np.where(mean > 0, 2.0 * (xlogy(y, y / mean) - y + mean), np.inf)


LOSSES = {
    loss.name: loss
    for loss in (
        Loss("squared_error", "predict", lambda y, mean, _: (y - mean) ** 2),
        Loss("absolute_error", "predict", lambda y, mean, _: np.abs(y - mean)),
        Loss("poisson_deviance", "predict", _poisson),
        Loss("zero_one", "predict", lambda y, label, _: y != label),
        Loss("log_loss", "predict_proba", _log_loss),
        Loss("brier", "predict_proba", _brier),
        Loss("negative_log_likelihood", "score_samples", lambda _, log_density, __: -log_density),
        Loss("distortion", "transform", lambda _, distances, __: distances.min(axis=1) ** 2),
    )
}

SAME = {  # scikit-learn's means of these losses
    "neg_mean_squared_error": "squared_error",
    "neg_mean_absolute_error": "absolute_error",
    "neg_mean_poisson_deviance": "poisson_deviance",
    "accuracy": "zero_one",
    "neg_log_loss": "log_loss",
    "neg_brier_score": "brier",
}


def as_loss(scoring: Any, estimator: Any) -> Loss:
    """Return the loss that was asked for, or that suits the estimator."""
    if isinstance(scoring, str):
        return _named(scoring)
    if scoring is None:
        return LOSSES[_suited(estimator)]
    if callable(scoring) and not hasattr(scoring, "_score_func"):
        name = getattr(scoring, "__name__", type(scoring).__name__)
        return Loss(name, "predict", lambda y, prediction, _: scoring(y, prediction))
    raise MismatchError(
        f"scoring came as {type(scoring).__name__}. Give {_listed()}, or a function (y_true, y_pred) that returns a "
        "loss for each row.",
        expected=LOSSES,
        got=(type(scoring).__name__,),
    )


def _named(scoring: str) -> Loss:
    if scoring in LOSSES:
        return LOSSES[scoring]
    if scoring in SAME:
        reason = f" is a mean over rows, turned so that greater is better. The loss of one row is {SAME[scoring]!r}."
    else:
        reason = f" is no loss of one row, so it has no mean over the population.{suggest(scoring, LOSSES)}"
    raise MismatchError(
        f"scoring={scoring!r}{reason} Give {_listed()}, or a function (y_true, y_pred) that returns a loss for each "
        "row.",
        expected=LOSSES,
        got=(scoring,),
    )


def _suited(estimator: Any) -> str:
    if is_classifier(estimator):
        return "zero_one"
    if is_regressor(estimator):
        return "squared_error"
    if hasattr(estimator, "score_samples"):
        return "negative_log_likelihood"
    raise MismatchError(
        f"{type(estimator).__name__} is no classifier, no regressor and no density, so there is no loss that goes "
        f"without saying. Give scoring: {_listed()}.",
        expected=LOSSES,
        got=(None,),
    )


def _listed() -> str:
    return ", ".join(map(repr, LOSSES))
