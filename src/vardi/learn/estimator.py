"""DebiasedEstimator: any scikit-learn estimator, fitted to the population behind biased samples."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, _estimator_has, check_is_fitted

from vardi._estimate.draws import draw
from vardi._estimate.weight_routing import Estimator, Rows, fit_weighted, request_weights, require_weight_use
from vardi._inputs.given import Biases, Known, Labels
from vardi.errors import MismatchError
from vardi.learn.resampler import Seed, as_generator
from vardi.learn.xy_pool import debias_rows, is_sparse, take, with_targets, without

__all__ = ["DebiasedEstimator"]

Answer: TypeAlias = Any  # of whatever type the inner estimator answers
Depends: TypeAlias = ArrayLike | bool

ROUTED = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score",
    "transform",
    "inverse_transform",
)
"""Methods that scikit-learn routes metadata to, and that call the same method of the inner estimator."""


def _delegate(name: str, says: str) -> Answer:
    """Return a method that passes its arguments to the fitted estimator, available if the inner one has it."""

    def method(self: DebiasedEstimator, X: Rows, *args: object, **params: object) -> Answer:
        check_is_fitted(self)
        return getattr(self.estimator_, name)(self._features(X), *args, **self._routed(name, params))

    method.__name__, method.__qualname__ = name, f"DebiasedEstimator.{name}"
    method.__doc__ = f"{says}, as the fitted inner estimator does; arguments are its own."
    return available_if(_estimator_has(name))(method)


@dataclass(eq=False, repr=False)
class DebiasedEstimator(BaseEstimator):  # type: ignore[misc]
    r"""Fit any estimator to the population, from samples that were drawn with known biases.

    The weights :math:`\pi_i` of :func:`vardi.debias` go to the inner estimator as ``sample_weight``, so it minimises
    the debiased risk :math:`\sum_i \pi_i\,\ell(\theta, z_i)`. In cross-validation they are computed from the training
    rows alone. Everything else (predict, transform, score, ...) is what the inner estimator has.

    Parameters
    ----------
    estimator : estimator
        Any learner, transformer or pipeline whose fit takes ``sample_weight``; it is cloned. In a pipeline the weights
        reach every step that takes them, and a warning names the steps that learn without.
    biases : mapping from label to bias, or list of biases
        As for :func:`vardi.debias`. They read the columns of X (``x0``, ``x1``, ... of an array) and the target. None
        is one sample without bias.
    known : mapping, optional
        What is known of the population, as for :func:`vardi.debias`.
    clusters, series : str, optional
        The column of X with the cluster of each row, or with its time, as for :func:`vardi.debias`: errors of
        ``fit_`` account for it, and the inner estimator does not see the column. Labels that are separate from X
        go to ``fit``.
    target : str, optional
        Name by which the biases read y. By default that of the series, else ``"y"``.
    resample : bool
        Draw as many rows as there are by weight (systematically, with replacement), and fit without weights: for
        learners that take no ``sample_weight``.
    random_state : int, RandomState, Generator or None
        For the draw of ``resample``.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone. Its other public attributes (``coef_``, ``staged_predict``, ...) can be read here too.
    fit_ : Weigher or None
        The fit without its rows: it weighs rows, and prints samples and normalisers with errors. None for truncated
        rows (:func:`vardi.window`), whose weight is no formula.
    verdict_ : Verdict
        Which rows connect the samples.
    classes_, n_features_in_, feature_names_in_
        As the fitted estimator has them.

    Notes
    -----
    Nothing that it keeps holds rows, so it pickles small. Ship ``estimator_``: it predicts without vardi.

    ``source``, ``clusters`` and ``series`` are metadata: to have ``source`` split along with the rows, give it to the
    fit of a search (``search.fit(X, y, source=source)``), to a pipeline as ``step__source``, or to
    ``cross_validate(..., params={"source": source})``; with metadata routing on, ask for it with
    ``set_fit_request(source=True)``. The same holds for the other two.

    ``score`` judges the rows it is given without weights, as that of the inner estimator does. Held-out rows of the
    pool are biased: score them with ``debiased_risk``.

    Examples
    --------
    An agency that sells houses of at most 22 only, and a small national survey:

    >>> import numpy as np
    >>> import pandas as pd
    >>> import vardi
    >>> from sklearn.linear_model import LinearRegression
    >>> from vardi.learn import DebiasedEstimator
    >>> design = vardi.datasets.house_prices(seed=0)
    >>> rows = pd.concat(design.samples.values())
    >>> source = np.repeat(list(design.samples), [len(sample) for sample in design.samples.values()])
    >>> model = DebiasedEstimator(LinearRegression(), biases={"agency": "MEDV <= 22", "national": 1})
    >>> X, y = rows[["RM", "LSTAT"]], rows["MEDV"]
    >>> model.fit(X, y, source=source).coef_.round(2)
    array([ 3.95, -0.84])
    >>> weights = model.fit_.weigh(rows)
    >>> LinearRegression().fit(X, y, sample_weight=weights).coef_.round(2)  # the same by hand
    array([ 3.95, -0.84])
    """

    estimator: Estimator
    _: KW_ONLY
    biases: Biases | None = None
    known: Known | None = None
    clusters: str | None = None
    series: str | None = None
    target: str | None = None
    resample: bool = False
    random_state: Seed = None

    def fit(
        self,
        X: Rows,
        y: Rows | None = None,
        source: Labels | None = None,
        *,
        clusters: ArrayLike | None = None,
        series: ArrayLike | bool | None = None,
        **params: object,
    ) -> Self:
        """Compute the weights, and fit a clone of the estimator with them.

        Parameters
        ----------
        X : array, sparse array or frame
            The rows of all samples.
        y : array, series or frame, optional
            Their targets. Samples without any (all missing) still help the weights of the others.
        source : array of labels, optional
            The sample of each row: a key of the biases. None if there is only one sample.
        clusters, series : array of labels or times, optional
            The cluster of each row, or its time within its sample (True: rows are in order), where no column of X
            is named for it.
        **params
            Further parameters of the inner estimator's fit. ``sample_weight`` is refused: the weights are those of
            the biases.
        """
        weighted = [name for name in params if name.split("__")[-1] == "sample_weight"]
        if weighted:
            raise MismatchError(
                f"{weighted[0]} was given to fit, but the weights of the rows follow from the biases, and the two "
                "would not agree. If rows stand for several, repeat them, or debias by hand: fit = vardi.debias(..., "
                "counts=counts), and give the estimator sample_weight=fit.weights * counts."
            )
        if isinstance(source, str):
            raise MismatchError(
                f"source is the string {source!r}. The labels are not a feature, so they are separate from X: give an "
                f"array with the label of each row, such as X[{source!r}], and leave that column out of X."
            )
        if not self.resample:
            require_weight_use(self.estimator)
        rows, targets = _as_rows(X), _as_rows(y)
        clusters, series = self._depends("clusters", clusters), self._depends("series", series)
        debiased = debias_rows(rows, targets, source, self.biases, self.target, self.known, clusters, series)
        X, rows = self._features(X), self._features(rows)
        recorded, places = with_targets(debiased, targets)
        weights = np.asarray(recorded.weights, np.float64)
        routed = self._routed("fit", params)
        if self.resample:
            places = draw(weights / weights.sum(), None, as_generator(self.random_state), method="systematic")
            routed = _check_method_params(rows, routed, indices=places)  # values for each row are drawn with them
            self.estimator_ = clone(self.estimator).fit(take(rows, places), take(targets, places), **routed)
        else:
            all_rows = X, y, weights
            some = all_rows if places is None else (take(rows, places), take(targets, places), weights[places])
            self.estimator_ = fit_weighted(self.estimator, *some, routed)
        self.verdict_ = debiased.identify()
        self.fit_ = debiased.weigher() if debiased.solved.has_formula else None
        return self

    def _depends(self, what: str, labels: Depends | None) -> Depends | None:
        """Return the labels that fit was given, or else the column that the estimator names."""
        column = getattr(self, what)
        if column is not None and labels is not None:
            raise MismatchError(
                f"{what} was given to fit, but the estimator already names the column {column!r} for it. Give one of "
                "them."
            )
        return column if labels is None else labels

    def _features(self, X: Rows) -> Rows:
        """Return rows without the columns of clusters and times, which are not features."""
        return without(X, self.clusters, self.series)

    def fit_transform(self, X: Rows, y: Rows | None = None, source: Labels | None = None, **params: Any) -> Answer:
        """Fit, and transform the rows; parameters as for :meth:`fit`."""
        return self.fit(X, y, source, **params).transform(X)

    def fit_predict(self, X: Rows, y: Rows | None = None, source: Labels | None = None, **params: Any) -> Answer:
        """Fit, and label the rows; parameters as for :meth:`fit`."""
        inner = self.fit(X, y, source, **params).estimator_
        return inner.labels_ if hasattr(inner, "labels_") and not self.resample else inner.predict(self._features(X))

    def score(self, X: Rows, y: Rows | None = None, **params: object) -> Answer:
        """Score rows, as the fitted inner estimator does: without weights, unless they are given."""
        check_is_fitted(self)
        return self.estimator_.score(self._features(X), y, **self._routed("score", params))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the container that ``transform`` returns: "default", "pandas" or "polars"."""
        for name in sorted({"estimator", "estimator_"} & vars(self).keys()):
            getattr(self, name).set_output(transform=transform)
        return self

    fit_transform = available_if(_estimator_has("transform"))(fit_transform)
    fit_predict = available_if(_estimator_has("fit_predict"))(fit_predict)
    score = available_if(_estimator_has("score"))(score)
    set_output = available_if(_estimator_has("set_output"))(set_output)
    predict = _delegate("predict", "Predict")
    predict_proba = _delegate("predict_proba", "Return probabilities of the classes")
    predict_log_proba = _delegate("predict_log_proba", "Return log probabilities of the classes")
    decision_function = _delegate("decision_function", "Return the decision function")
    score_samples = _delegate("score_samples", "Score each row")
    transform = _delegate("transform", "Transform rows")
    inverse_transform = _delegate("inverse_transform", "Undo the transform")

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata requests: ``source`` for itself, further metadata for the inner estimator."""
        router = MetadataRouter(owner=self).add_self_request(self)
        inner = self.estimator
        if get_config()["enable_metadata_routing"]:  # its weights come from here, so it requests none
            inner = request_weights(clone(inner), False)
        mapping = MethodMapping().add(caller="fit", callee="fit")
        mapping = mapping.add(caller="fit_transform", callee="fit").add(caller="fit_predict", callee="fit")
        for method in ROUTED:
            mapping = mapping.add(caller=method, callee=method)
        try:
            return router.add(estimator=inner, method_mapping=mapping)
        except NotImplementedError:  # some of scikit-learn's own, such as AdaBoost, route nothing
            return router

    def _routed(self, method: str, params: Mapping[str, object]) -> dict[str, object]:
        """Return parameters under the names that the inner estimator asks for."""
        if not (params and get_config()["enable_metadata_routing"]):
            return dict(params)
        consumed = self.get_metadata_routing().consumes(method, params)
        rest = {name: value for name, value in params.items() if name not in consumed}
        routed = process_routing(self, method, **{name: params[name] for name in consumed})
        return {**rest, **routed["estimator"][method]}

    def __getattr__(self, name: str) -> Answer:
        inner = self.__dict__.get("estimator_")
        if inner is None or name.startswith(("_", "fit", "partial_fit", "set_")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(inner, name)

    def __sklearn_tags__(self) -> Tags:
        tags = deepcopy(get_tags(self.estimator))
        tags.array_api_support = False
        tags.non_deterministic |= self.resample and self.random_state is None
        return tags


def _as_rows(rows: Rows | None) -> Rows | None:
    """Return frames, series and sparse arrays as they are, anything else as an array."""
    if rows is None or is_sparse(rows):
        return rows
    return np.asarray(rows) if nw.from_native(rows, pass_through=True, allow_series=True) is rows else rows
