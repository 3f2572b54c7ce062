"""The repetition test: whether a learner treats a row of weight 2 like the same row twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from vardi._estimate.weight_routing import Estimator, Rows, blind_steps, fit_weighted, takes_weights
from vardi._types import Floats, Integers
from vardi.errors import MismatchError
from vardi.learn.xy_pool import is_sparse, take

__all__ = ["WeightUse", "check_weight_use"]

Finding = Literal["exact", "approximate", "ignored", "absent", "undecided"]


@dataclass(frozen=True)
class WeightUse:
    """What the repetition test found; prints as a sentence.

    Attributes
    ----------
    estimator : str
        The learner.
    finding : {"exact", "approximate", "ignored", "absent", "undecided"}
        Weighting rows is repeating them; nearly so; changes nothing; fit takes no ``sample_weight``; or not even
        repeating rows changed anything, so other rows are needed to decide.
    difference : float
        Largest difference of outputs between the weighted fit and the fit of repeated rows, as a part of the largest
        difference that repeating rows made; NaN if there is none.
    blind_steps : tuple of str
        Steps of a pipeline that learn from the data and take no weights.
    """

    estimator: str
    finding: Finding
    difference: float
    blind_steps: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.finding in ("exact", "approximate")

    def __str__(self) -> str:
        share = f"(difference {self.difference:.2g} of their effect)"
        finding = {
            "exact": "uses weights exactly: a row of weight 2 is the row twice",
            "approximate": f"uses weights {'approximately' if self.difference < 1 else 'in its own way'} {share}",
            "ignored": "ignores weights: it takes sample_weight, and the fit does not change",
            "absent": "takes no sample_weight",
            "undecided": "gives the same fit when rows are repeated, so these rows cannot show what weights do",
        }[self.finding]
        steps = f"; learning without weights: {', '.join(self.blind_steps)}" if self.blind_steps else ""
        return f"{self.estimator} {finding}{steps}"


def check_weight_use(estimator: Estimator, X: Rows | None = None, y: Rows | None = None, *, seed: int = 0) -> WeightUse:
    """Test whether weights 0, 1, 2 and 3 do what leaving a row out or repeating it does.

    The estimator is fitted three times: to all rows with weights, to rows repeated as often, and to all rows without
    weights. Weights are used exactly if the first two agree to 1e-6 of what distinguishes the last two. An estimator
    that draws (rows, orders, starts) or stops early agrees with repeated rows only approximately.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator; it is cloned, and its random states are fixed.
    X, y : arrays or frames, optional
        Rows to test with; by default 60 rows of the kind that the estimator's tags ask for.
    seed : int
        For the data, and for the estimator's ``random_state``.

    Returns
    -------
    WeightUse
        What was found; true if weights are used.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from vardi.learn import check_weight_use
    >>> print(check_weight_use(Ridge()))
    Ridge uses weights exactly: a row of weight 2 is the row twice
    >>> print(check_weight_use(KNeighborsClassifier()))
    KNeighborsClassifier takes no sample_weight
    """
    name, blind = type(estimator).__name__, blind_steps(estimator)
    if not takes_weights(estimator):
        return WeightUse(name, "absent", float("nan"), blind)
    model = _seeded(estimator, seed)
    if X is None:
        X, y = example_rows(model, seed)
    with np.errstate(all="ignore"):  # some estimators take the log of weight 0
        weighted, repeated, plain = _three_fits(model, X, y, seed)
    effect = _distance(repeated, plain)
    off = _distance(weighted, repeated)
    if not effect:
        return WeightUse(name, "undecided", float("nan"), blind)
    rounding = 1e-6 * effect  # fits that differ by at most this count as equal
    ignored = _distance(weighted, plain) <= rounding
    finding: Finding = "exact" if off <= rounding else "ignored" if ignored else "approximate"
    return WeightUse(name, finding, off / effect, blind)


def _three_fits(model: Estimator, X: Rows, y: Rows | None, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return a model's outputs for the rows after fitting them weighted, repeated, and as they are."""
    weights = np.random.default_rng(seed).permutation(np.arange(_num_samples(X)) % 4)  # a quarter each of 0, 1, 2, 3
    try:
        of_weights = fit_weighted(model, X, y, weights.astype(np.float64), {})
    except ValueError:  # some estimators refuse weight 0, such as those that draw rows by weight
        weights = np.maximum(weights, 1)
        of_weights = fit_weighted(model, X, y, weights.astype(np.float64), {})
    places, kept = np.repeat(np.arange(len(weights)), weights), np.flatnonzero(weights)
    of_copies = clone(model).fit(take(X, places), take(y, places))
    firsts = np.searchsorted(places, kept)  # where each row that is kept is first among the repeated ones
    of_rows = clone(model).fit(X, y)
    return _outputs(of_weights, X, kept), _outputs(of_copies, X, firsts), _outputs(of_rows, X, kept)


def example_rows(estimator: Estimator, seed: int = 0, n: int = 60) -> tuple[Floats, np.ndarray]:
    """Return rows of the kind that the tags of an estimator ask for: clouds around centres, and a target."""
    tags, rng = get_tags(estimator), np.random.default_rng(seed)
    columns = 1 if tags.input_tags.one_d_array else 3
    clusters = estimator.get_params().get("n_clusters") or 3
    group = rng.permutation(np.arange(n) % clusters)
    X = 10.0 * rng.standard_normal((clusters, columns))[group] + rng.standard_normal((n, columns))
    X = np.abs(X) if tags.input_tags.positive_only else X
    if tags.estimator_type == "classifier":
        binary = tags.classifier_tags is not None and not tags.classifier_tags.multi_class
        score = X[:, 0] + 10.0 * rng.standard_normal(n)  # the classes overlap, so that a fit has something to weigh
        y: np.ndarray = np.argsort(np.argsort(score)) * (2 if binary else 3) // n
    else:
        y = X.sum(axis=1) / 5.0 + np.sin(X[:, 0]) + rng.standard_normal(n)
        y = np.exp(y / 10.0) if tags.target_tags.positive_only else y
        y = np.column_stack([y, y**2]) if not tags.target_tags.single_output else y
    return (X[:, 0] if tags.input_tags.one_d_array else X), y


def _seeded(estimator: Estimator, seed: int) -> Estimator:
    names = [name for name in estimator.get_params() if name.split("__")[-1] == "random_state"]
    return clone(estimator).set_params(**dict.fromkeys(names, seed))


def _outputs(model: Estimator, X: Rows, places: Integers) -> Floats:
    """Return a fitted model's outputs for the rows, as numbers that do not depend on how clusters are numbered."""
    if hasattr(model, "cluster_centers_"):
        centres = np.asarray(model.cluster_centers_, np.float64)
        return centres[np.lexsort(centres.T)]
    for method in ("predict_proba", "decision_function", "score_samples", "predict", "transform"):
        if hasattr(model, method) and not (method == "predict" and hasattr(model, "labels_")):
            return _numbers(getattr(model, method)(X))
    if not hasattr(model, "labels_"):
        raise MismatchError(
            f"{type(model).__name__} neither predicts, scores, transforms nor labels rows, so two fits cannot be "
            "compared."
        )
    labels = np.asarray(model.labels_)[places]
    return np.asarray(labels[:, None] == labels, np.float64)


def _numbers(outputs: Rows) -> Floats:
    values = outputs.toarray() if is_sparse(outputs) else np.asarray(outputs)
    if values.dtype.kind not in "fiub":
        values = np.unique(values, return_inverse=True)[1]
    return np.asarray(values, np.float64)


def _distance(left: Floats, right: Floats) -> float:
    if left.shape != right.shape:
        return float("inf")
    return float(np.abs(np.nan_to_num(left) - np.nan_to_num(right)).max())  # NaN: out of an isotonic model's bounds
