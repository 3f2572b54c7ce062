"""Passing weights to every step of a learner that takes them, and a guard against learners that take none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import StackingClassifier, StackingRegressor, VotingClassifier, VotingRegressor
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_selection import RFE, RFECV, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from vardi._types import Floats
from vardi.errors import WeightBlindError, WeightBlindWarning
from vardi.errors._warn import warn

Rows: TypeAlias = ArrayLike | sparse.sparray
"""Rows, or their targets, as scikit-learn takes them: an array, a frame or a series (all array-like), or sparse."""


class Estimator(Protocol):
    """What every estimator of scikit-learn has; its other methods depend on what it learns."""

    @property
    def fit(self) -> Callable[..., Estimator]: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # values of any type
    def get_metadata_routing(self) -> object: ...


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
"""Steps whose fit depends at most on which values occur, not on how often: no weight would change them."""

FORWARD_ANY = (GridSearchCV, RandomizedSearchCV, RFE, SelectFromModel, TransformedTargetRegressor)
FORWARD_WEIGHTS = (StackingClassifier, StackingRegressor, VotingClassifier, VotingRegressor)
"""Meta-estimators that pass fit parameters on even without routing: any of them, or ``sample_weight`` alone."""


def takes_weights(estimator: Estimator) -> bool:
    """Return whether the part that predicts can be fitted with weights.

    In a pipeline that part is the last step that depends on how often rows occur, in a union of transformers any of
    them, and in a meta-estimator that passes its fit parameters on, everything it wraps.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from vardi._estimate.weight_routing import takes_weights
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


def blind_steps(estimator: Estimator) -> tuple[str, ...]:
    """Return the steps of pipelines that learn from how often rows occur, yet take no weights.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler, StandardScaler
    >>> from vardi._estimate.weight_routing import blind_steps
    >>> blind_steps(make_pipeline(MinMaxScaler(), StandardScaler(), PCA(), Ridge()))
    ("'pca' (PCA)",)
    """
    return tuple(_blind(estimator, ""))


def require_weight_use(estimator: Estimator) -> None:
    """Refuse a learner that takes no weights, and warn of the steps of a pipeline that take none."""
    if not takes_weights(estimator):
        name = type(_last(estimator)).__name__
        raise WeightBlindError(
            f"{name} takes no sample_weight in fit, so it would learn from the biased pool, not from the "
            "population. Draw rows by weight instead: DebiasedEstimator(..., resample=True), or DebiasedResampler "
            "before it; or choose a learner that takes sample_weight.",
            estimator=name,
        )
    blind = blind_steps(estimator)
    if blind:
        message = (
            f"These take no sample_weight in fit, so they learn from the biased pool: {', '.join(blind)}. The other "
            "steps learn from the population. Use resample=True, which draws rows by weight for all steps, or steps "
            "that take sample_weight."
        )
        warn(WeightBlindWarning(message))


def fit_weighted(
    estimator: Estimator, X: Rows, y: Rows | None, weights: Floats, params: Mapping[str, object]
) -> Estimator:
    """Return a fitted clone of an estimator; the weights reach every step that takes ``sample_weight``.

    Without metadata routing they go to the steps of a pipeline as ``step__sample_weight``. Some estimators pass nothing
    on that way (ColumnTransformer, FeatureUnion, OneVsRestClassifier, ...): routing is then switched on for this fit.
    """
    inner = clone(estimator)
    keys = _fit_keys(inner)
    routed = keys is None or (get_config()["enable_metadata_routing"] and _routes(inner))
    with config_context(enable_metadata_routing=routed):
        if routed:
            request_weights(inner, True)
        names = ("sample_weight",) if routed or keys is None else keys
        return inner.fit(X, y, **params, **dict.fromkeys(names, weights))


def _routes(estimator: Estimator) -> bool:
    try:
        estimator.get_metadata_routing()
    except (AttributeError, NotImplementedError):  # some of scikit-learn's own, such as AdaBoost, do not route
        return False
    return True


def request_weights(estimator: Estimator, requested: bool) -> Estimator:
    """Set on an estimator and all its parts whether their fit asks for ``sample_weight``; routing must be on."""
    for part in (estimator, *estimator.get_params(deep=True).values()):
        if not isinstance(part, type) and hasattr(part, "set_fit_request") and has_fit_parameter(part, "sample_weight"):
            part.set_fit_request(sample_weight=requested)
            if requested and "sample_weight" in _unset(part, "score"):  # a search inside weighs its folds
                part.set_score_request(sample_weight=True)
    return estimator


def _unset(part: Any, method: str) -> set[str]:
    requests = getattr(part._get_metadata_request(), method).requests
    return {name for name, value in requests.items() if value is None}


def _steps(estimator: Estimator) -> list[tuple[str, Estimator]]:
    """Return the named parts of a pipeline or union of transformers that have a fit."""
    named: list[tuple[str, Estimator]] = []
    if isinstance(estimator, Pipeline):
        named = estimator.steps
    elif isinstance(estimator, ColumnTransformer):
        named = [(name, step) for name, step, _ in estimator.transformers] + [("remainder", estimator.remainder)]
    elif isinstance(estimator, FeatureUnion):
        named = estimator.transformer_list
    return [(name, step) for name, step in named if hasattr(step, "fit")]


def _wrapped(estimator: Estimator) -> list[Estimator]:
    """Return the estimators that a meta-estimator passes its fit parameters on to."""
    parameters = signature(estimator.fit).parameters.values()
    if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return []
    single = [getattr(estimator, name, None) for name in ("estimator", "regressor", "final_estimator")]
    several = getattr(estimator, "estimators", None)
    listed = [item[-1] if isinstance(item, tuple) else item for item in several] if isinstance(several, list) else []
    return [part for part in (*single, *listed) if hasattr(part, "fit")]


def _last(estimator: Estimator) -> Estimator:
    """Return the learner to blame if an estimator takes no weights."""
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in _steps(estimator) if not _is_indifferent(step)]
        return _last(steps[-1]) if steps else estimator
    return next((_last(part) for part in _wrapped(estimator) if not takes_weights(part)), estimator)


def _is_indifferent(step: Estimator) -> bool:
    """Return whether weights cannot change the fit of a step."""
    if isinstance(step, OneHotEncoder | OrdinalEncoder) and not (step.min_frequency is step.max_categories is None):
        return False
    return isinstance(step, BLIND_BUT_RIGHT) or not get_tags(step).requires_fit


def _blind(estimator: Estimator, path: str) -> Iterator[str]:
    steps = _steps(estimator)
    for name, step in steps:
        yield from _blind(step, f"{path}__{name}" if path else name)
    wrapped = [] if steps else _wrapped(estimator)
    for part in wrapped:
        yield from _blind(part, path)
    if path and not (steps or wrapped or takes_weights(estimator) or _is_indifferent(estimator)):
        yield f"'{path}' ({type(estimator).__name__})"


def _fit_keys(estimator: Estimator) -> tuple[str, ...] | None:
    """Return the fit parameters through which weights reach every step without routing; None if it takes routing."""
    if has_fit_parameter(estimator, "sample_weight"):
        return ("sample_weight",)
    steps = _steps(estimator)
    if isinstance(estimator, Pipeline):
        keys = {name: _fit_keys(step) for name, step in steps}
        if None in keys.values():
            return None
        return tuple(f"{name}__{key}" for name, inner in keys.items() for key in inner or ())
    if steps:
        return None if any(_fit_keys(step) != () for _, step in steps) else ()
    inner = {_fit_keys(part) for part in _wrapped(estimator)}
    forwards = isinstance(estimator, FORWARD_ANY) and not isinstance(estimator, RFECV)
    if forwards or (isinstance(estimator, FORWARD_WEIGHTS) and inner == {("sample_weight",)}):
        return inner.pop() if inner else ()
    return None if inner else ()
