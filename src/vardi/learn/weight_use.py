"""Which learners use weights: a guard before the fit, the way of the weights to every step, and a test of their use."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import DictVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import has_fit_parameter

from vardi._sums import Floats
from vardi.errors import MismatchError, VardiError, VardiWarning

__all__ = ["WeightBlindError", "WeightBlindWarning", "WeightUse", "check_weight_use"]

Finding = Literal["exact", "approximate", "ignored", "absent"]

EXACT = 1e-6
"""Up to this part of what the weights change, weighted and repeated rows count as the same fit."""

BLIND_BUT_RIGHT = (
    DictVectorizer,
    FrozenEstimator,
    GaussianRandomProjection,
    MaxAbsScaler,
    MinMaxScaler,
    MissingIndicator,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SparseRandomProjection,
)
"""Steps whose fit depends on which values occur at most, not on how often: no weight would change them."""


class WeightBlindError(VardiError):
    """A learner that takes no ``sample_weight``, so that it would learn from the biased pool.

    Attributes
    ----------
    estimator : str
        The learner.
    """

    def __init__(self, message: str, *, estimator: str) -> None:
        super().__init__(message)
        self.estimator = estimator


class WeightBlindWarning(VardiWarning):
    """Steps of a pipeline that take no ``sample_weight``, so that they learn from the biased pool."""


def takes_weights(estimator: Any) -> bool:
    """Tell whether the part that predicts can be fitted with weights.

    Of a pipeline that is the last step that depends on how often rows occur, of a union of transformers any of them,
    and of a meta-estimator that hands its fit parameters on, all that it wraps.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from vardi.learn.weight_use import takes_weights
    >>> takes_weights(Ridge()), takes_weights(make_pipeline(Ridge())), takes_weights(KNeighborsClassifier())
    (True, True, False)
    """
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    steps = [step for _, step in _steps(estimator)]
    if isinstance(estimator, Pipeline):
        return next((takes_weights(step) for step in reversed(steps) if not _is_indifferent(step)), False)
    if steps:
        return any(takes_weights(step) for step in steps)
    wrapped = _wrapped(estimator)
    return bool(wrapped) and all(takes_weights(part) for part in wrapped)


def blind_steps(estimator: Any) -> tuple[str, ...]:
    """Return the steps of pipelines that learn from how often rows occur, and take no weights.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler, StandardScaler
    >>> from vardi.learn.weight_use import blind_steps
    >>> blind_steps(make_pipeline(MinMaxScaler(), StandardScaler(), PCA(), Ridge()))
    ("'pca' (PCA)",)
    """
    return tuple(_blind(estimator, ""))


def require_weight_use(estimator: Any) -> None:
    """Refuse a learner that takes no weights, and warn of the steps of a pipeline that take none."""
    if not takes_weights(estimator):
        name = type(_last(estimator)).__name__
        raise WeightBlindError(
            f"{name} takes no sample_weight in fit, so it would learn from the biased pool and not from the "
            "population. Draw rows by weight instead: DebiasedEstimator(..., resample=True), or DebiasedResampler "
            "before it; or choose a learner that takes sample_weight.",
            estimator=name,
        )
    blind = blind_steps(estimator)
    if blind:
        one = len(blind) == 1
        warnings.warn(
            f"{', '.join(blind)} {'takes' if one else 'take'} no sample_weight, so {'it learns' if one else 'they learn'} "
            "from the biased pool; the other steps learn from the population. Use resample=True, which draws rows by "
            "weight for all steps, or steps that take sample_weight.",
            WeightBlindWarning,
            stacklevel=3,
        )


def fit_weighted(estimator: Any, X: Any, y: Any, weights: Floats, params: Mapping[str, Any]) -> Any:
    """Return a fitted clone of an estimator; the weights reach every step that takes ``sample_weight``.

    Without metadata routing they go to the steps of a pipeline as ``step__sample_weight``. A ColumnTransformer or a
    FeatureUnion hands nothing on that way, so routing is then switched on for this fit alone.
    """
    inner = clone(estimator)
    keys = _fit_keys(inner)
    if get_config()["enable_metadata_routing"] or keys is None:
        with config_context(enable_metadata_routing=True):
            request_weights(inner, True)
            return _fit(inner, X, y, {**params, "sample_weight": weights})
    return _fit(inner, X, y, {**params, **dict.fromkeys(keys, weights)})


def request_weights(estimator: Any, requested: bool) -> Any:
    """Set on an estimator and all its parts whether their fit asks for ``sample_weight``; routing must be on."""
    for part in (estimator, *estimator.get_params(deep=True).values()):
        if not isinstance(part, type) and hasattr(part, "set_fit_request") and has_fit_parameter(part, "sample_weight"):
            part.set_fit_request(sample_weight=requested)
            if requested and "sample_weight" in _unset(part, "score"):  # a search inside scores its folds
                part.set_score_request(sample_weight=True)
    return estimator


def _unset(part: Any, method: str) -> set[str]:
    requests = getattr(part._get_metadata_request(), method).requests
    return {name for name, value in requests.items() if value is None}


def _fit(estimator: Any, X: Any, y: Any, params: Mapping[str, Any]) -> Any:
    return estimator.fit(X, **params) if y is None else estimator.fit(X, y, **params)


def _steps(estimator: Any) -> list[tuple[str, Any]]:
    """Return the named parts of a pipeline or union of transformers that have a fit."""
    if isinstance(estimator, Pipeline):
        named = [(name, step) for name, step in estimator.steps]
    elif isinstance(estimator, ColumnTransformer):
        named = [(name, step) for name, step, _ in estimator.transformers] + [("remainder", estimator.remainder)]
    elif isinstance(estimator, FeatureUnion):
        named = [(name, step) for name, step in estimator.transformer_list]
    else:
        named = []
    return [(name, step) for name, step in named if hasattr(step, "fit")]


def _wrapped(estimator: Any) -> list[Any]:
    """Return what a meta-estimator hands its fit parameters on to."""
    parameters = signature(estimator.fit).parameters.values()
    if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return []
    single = [getattr(estimator, name, None) for name in ("estimator", "regressor", "final_estimator")]
    several = getattr(estimator, "estimators", None)
    listed = [item[-1] if isinstance(item, tuple) else item for item in several] if isinstance(several, list) else []
    return [part for part in (*single, *listed) if hasattr(part, "fit")]


def _last(estimator: Any) -> Any:
    """Return the learner that is to blame if an estimator takes no weights."""
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in _steps(estimator) if not _is_indifferent(step)]
        return _last(steps[-1]) if steps else estimator
    return next((_last(part) for part in _wrapped(estimator) if not takes_weights(part)), estimator)


def _is_indifferent(step: Any) -> bool:
    """Tell whether weights could not change the fit of a step."""
    if isinstance(step, OneHotEncoder | OrdinalEncoder) and not (step.min_frequency is step.max_categories is None):
        return False
    return isinstance(step, BLIND_BUT_RIGHT) or not get_tags(step).requires_fit


def _blind(estimator: Any, path: str) -> Iterator[str]:
    steps = _steps(estimator)
    for name, step in steps:
        yield from _blind(step, f"{path}__{name}" if path else name)
    for part in () if steps else _wrapped(estimator):
        yield from _blind(part, path)
    if path and not (steps or takes_weights(estimator) or _is_indifferent(estimator)):
        yield f"'{path}' ({type(estimator).__name__})"


def _fit_keys(estimator: Any) -> tuple[str, ...] | None:
    """Return the fit parameters through which weights reach every step without routing; None where routing must."""
    if has_fit_parameter(estimator, "sample_weight"):
        return ("sample_weight",)
    steps = _steps(estimator)
    if isinstance(estimator, Pipeline):
        keys = {name: _fit_keys(step) for name, step in steps}
        if None in keys.values():
            return None
        return tuple(f"{name}__{key}" for name, found in keys.items() for key in found or ())
    if steps:
        return None if any(_fit_keys(step) != () for _, step in steps) else ()
    found = {_fit_keys(part) for part in _wrapped(estimator)}
    if len(_wrapped(estimator)) <= 1 or found == {("sample_weight",)}:
        return found.pop() if found else ()
    return None


@dataclass(frozen=True)
class WeightUse:
    """What the repetition test found; prints as a sentence.

    Attributes
    ----------
    estimator : str
        The learner.
    finding : {"exact", "approximate", "ignored", "absent"}
        Weighting rows is repeating them; nearly so; changes nothing; or fit takes no ``sample_weight``.
    difference : float
        Largest difference of outputs between the weighted fit and the fit of repeated rows, as a part of the largest
        difference that repeating rows made; NaN where fit takes no weights.
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
        said = {
            "exact": "uses weights exactly: a row of weight 2 is the row twice",
            "approximate": f"uses weights approximately (difference {self.difference:.2g} of their effect)",
            "ignored": "ignores weights: it takes sample_weight, and the fit does not change",
            "absent": "takes no sample_weight",
        }[self.finding]
        steps = f"; {', '.join(self.blind_steps)} learn from the pool without weights" if self.blind_steps else ""
        return f"{self.estimator} {said}{steps}"


def check_weight_use(estimator: Any, X: Any = None, y: Any = None, *, seed: int = 0) -> WeightUse:
    """Test whether weights 0, 1, 2 and 3 do what leaving a row out or repeating it does.

    The estimator is fitted three times: to all rows with weights, to rows repeated so often, and to all rows without
    weights. It is used exactly if the first two agree to 1e-6 of what distinguishes the last two. An estimator that
    draws (rows, orders, starts) or stops early agrees with repeated rows only approximately.

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
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    weights = np.random.default_rng(seed).permutation(np.arange(n) % 4)  # 0, 1, 2 and 3, a quarter each
    places, kept = np.repeat(np.arange(n), weights), np.flatnonzero(weights)
    firsts = np.searchsorted(places, kept)  # where the repeated rows have each row that is kept
    weighted = _outputs(fit_weighted(model, X, y, weights.astype(np.float64), {}), X, kept)
    repeated = _outputs(_fit(clone(model), _taken(X, places), _taken(y, places), {}), X, firsts)
    plain = _outputs(_fit(clone(model), X, y, {}), X, kept)
    effect = _distance(repeated, plain)
    off = _distance(weighted, repeated)
    difference = off / effect if effect else off
    if difference <= EXACT:
        return WeightUse(name, "exact", difference, blind)
    ignored = _distance(weighted, plain) <= EXACT * effect
    return WeightUse(name, "ignored" if ignored else "approximate", difference, blind)


def example_rows(estimator: Any, seed: int = 0, n: int = 60) -> tuple[NDArray[Any], NDArray[Any]]:
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
        y: NDArray[Any] = np.argsort(np.argsort(score)) * (2 if binary else 3) // n
    else:
        y = X.sum(axis=1) / 5.0 + np.sin(X[:, 0]) + rng.standard_normal(n)
        y = np.exp(y / 10.0) if tags.target_tags.positive_only else y
        y = np.column_stack([y, y**2]) if not tags.target_tags.single_output else y
    return (X[:, 0] if tags.input_tags.one_d_array else X), y


def _seeded(estimator: Any, seed: int) -> Any:
    names = [name for name in estimator.get_params() if name.split("__")[-1] == "random_state"]
    return clone(estimator).set_params(**dict.fromkeys(names, seed))


def _outputs(model: Any, X: Any, places: NDArray[np.int64]) -> Floats:
    """Return what a fitted model says of the rows, in numbers that do not depend on how clusters are numbered."""
    if hasattr(model, "cluster_centers_"):
        centres = np.asarray(model.cluster_centers_, np.float64)
        return centres[np.lexsort(centres.T)]
    for method in ("predict_proba", "decision_function", "score_samples", "predict", "transform"):
        if hasattr(model, method) and not (method == "predict" and hasattr(model, "labels_")):
            return _numbers(getattr(model, method)(X))
    if not hasattr(model, "labels_"):
        raise MismatchError(
            f"{type(model).__name__} neither predicts, scores, transforms nor labels rows, so two fits cannot be "
            "compared.",
            expected=("predict", "transform", "score_samples", "labels_"),
            got=(),
        )
    labels = np.asarray(model.labels_)[places]
    return np.asarray(labels[:, None] == labels, np.float64)


def _numbers(values: Any) -> Floats:
    values = values.toarray() if sparse.issparse(values) else np.asarray(values)
    return values.astype(np.float64) if values.dtype.kind in "fiub" else np.unique(values, return_inverse=True)[1] * 1.0


def _taken(values: Any, places: NDArray[np.int64]) -> Any:
    return None if values is None else _safe_indexing(values, places)


def _distance(left: Floats, right: Floats) -> float:
    return float(np.abs(left - right).max()) if left.shape == right.shape else float("inf")
