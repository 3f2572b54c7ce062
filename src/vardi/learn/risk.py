r"""Honest evaluation: the risk of a learner over the population, from held-out rows of biased samples.

Cross-validation on the pooled rows estimates the risk under the mixture of the samples, not under the population. Here
the weights :math:`\pi_i` are computed once, on all rows; folds are split within each sample; and with :math:`\ell_i`
the loss of row i under the model that was trained without its fold,

.. math:: \hat R = \sum_i \pi_i \ell_i .

Its error is that of an expectation with f = l, the estimation of the normalisers included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.metrics._scorer import _BaseScorer
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import has_fit_parameter

from vardi._estimate.draws import Random
from vardi._estimate.weight_routing import Estimator, Rows, fit_weighted, require_weight_use
from vardi._fit.sample import DebiasedSample
from vardi._inputs.dependence import dealt_out
from vardi._inputs.given import Biases, ByRow, Known, Labels, Table
from vardi._types import Floats, Integers
from vardi.errors import InvalidBiasError, MismatchError, VardiWarning
from vardi.errors._warn import warn
from vardi.learn._losses import LOSSES, Scoring, as_loss, listed_losses
from vardi.learn.resampler import Seed, as_generator
from vardi.learn.xy_pool import debias_rows, joined, take, with_targets, without

Places: TypeAlias = NDArray[np.integer | np.bool_] | Sequence[int] | slice
Folds: TypeAlias = int | BaseCrossValidator | Iterable[tuple[Places, Places]]


def debiased_risk(
    estimator: Estimator | list[Estimator] | tuple[Estimator, ...],
    X: Rows,
    y: Rows | None = None,
    *,
    source: Labels | None = None,
    biases: Biases | None = None,
    known: Known | None = None,
    clusters: ByRow | None = None,
    series: ByRow | bool | None = None,
    scoring: Scoring = None,
    cv: Folds = 5,
    target: str | None = None,
    random_state: Seed = 0,
    level: float = 0.95,
) -> Any:
    r"""Estimate the risk of a learner over the population by cross-validation on biased samples.

    Parameters
    ----------
    estimator : estimator, or list of estimators
        Fitted with ``sample_weight``: the debiased weights of the training rows. One whose ``fit`` takes ``source``
        instead gets the labels of the training rows.
    X : array, sparse array or frame
        The rows of all samples.
    y : array, series or frame, optional
        Their targets. Samples without any (all missing) still help the weights of the others, whose risk it is.
    source : array of labels, or str
        The sample of each row, or the column of X that names it, which the estimator does not see.
    biases : mapping from name to bias, or list of biases
        As for :func:`vardi.debias`; they read the columns of X, and y by its name. By default those of the estimator,
        if it has any.
    known : mapping, optional
        What is known of the population, as for :func:`vardi.debias`. By default the estimator's
        own, with its biases.
    clusters, series : array, str or True, optional
        Rows that depend on one another, as for :func:`vardi.debias`: the error accounts for it, and folds hold out
        whole clusters, or stretches of a series. A column of X that is named is not seen by the estimator.
    scoring : str or callable, optional
        ``"squared_error"`` (regressors, by default), ``"absolute_error"``, ``"poisson_deviance"``, ``"zero_one"``
        (classifiers, by default), ``"log_loss"``, ``"brier"``, ``"negative_log_likelihood"`` (densities, by default),
        ``"distortion"`` (squared distance to the nearest centre), or a function (y_true, y_pred) that returns a loss
        for each row. Also scikit-learn's names of means over rows, with scikit-learn's sign: ``"accuracy"``,
        ``"top_k_accuracy"``, ``"neg_log_loss"``, ``"neg_brier_score"``, ``"neg_mean_squared_error"`` and the other
        ``"neg_mean_..."``, and for sets of labels ``"precision_samples"``, ``"recall_samples"``, ``"f1_samples"`` and
        ``"jaccard_samples"``. Others, such as ``"roc_auc"`` and ``"r2"``, are not means over rows:
        :func:`debiased_scorer` takes them.
    cv : int, splitter or iterable of (train, test)
        Folds within each sample, and for classifiers within each class of it; or a splitter, which gets these groups
        as its y, and clusters as its groups; or positions. Every row has to be held out; of one that is held out
        more often the mean loss counts.
    target : str, optional
        Name by which the biases read y. By default that of the series, else ``"y"``.
    random_state : int, RandomState, Generator or None
        For reproducible folds.
    level : float
        Coverage of the interval.

    Returns
    -------
    Estimate, or Estimates for a list of estimators
        :math:`\hat R`: its target is the mean risk over P (the mean score, by one of scikit-learn's names) of the
        models of the folds. Differences and ratios of the
        estimates of one list carry their errors along, correlation included.

    Examples
    --------
    More than half of the rows come from x0 < 0.45, where a line is nearly right:

    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> import vardi
    >>> from vardi.learn.risk import debiased_risk
    >>> design = vardi.datasets.strata((700, 240, 260), seed=0)
    >>> rows = np.concatenate(list(design.samples.values()))
    >>> source = np.repeat(list(design.samples), [len(sample) for sample in design.samples.values()])
    >>> models = [LinearRegression(), make_pipeline(PolynomialFeatures(2, include_bias=False), LinearRegression())]
    >>> risks = debiased_risk(models, rows[:, :1], rows[:, 1], source=source, biases=design.biases)
    >>> print(risks)
    0.330 ± 0.015 (95%: 0.301 to 0.359)
    0.255 ± 0.011 (95%: 0.233 to 0.277)
    >>> print(risks[0] - risks[1])  # a parabola does better over the population
    0.0744 ± 0.0094 (95%: 0.0559 to 0.0929)
    """
    estimators = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
    if not estimators:
        raise MismatchError("The list of estimators is empty. Give at least one.")
    for one in estimators:
        if not has_fit_parameter(one, "source"):
            require_weight_use(one)
    if biases is None:
        declaring = next((one for one in estimators if getattr(one, "biases", None)), None)
        biases, target = getattr(declaring, "biases", None), target or getattr(declaring, "target", None)
        known = getattr(declaring, "known", None) if known is None else known
    fit = debias_rows(X, y, source, biases, target, known, clusters, series)
    named = source is None or isinstance(source, str)
    labels = np.array(fit.names, dtype=object)[fit.solved.pool.source] if named else np.asarray(source)
    X = without(X, source, clusters, series)
    folds = list(_folds(fit, X, y, cv, as_generator(random_state), by_class=all(map(is_classifier, estimators))))
    recorded, places = with_targets(fit, y)
    if places is not None:
        folds = [(np.intersect1d(train, places), np.intersect1d(test, places)) for train, test in folds]
    weights, losses = np.asarray(recorded.weights), [as_loss(scoring, one) for one in estimators]
    total, times = np.zeros((len(fit), len(estimators))), np.zeros((len(fit), 1))
    seen = np.full(len(estimators), np.nan)  # mean losses on the rows that models of the first fold were trained on
    for train, test in folds:
        rows, held_out = (take(X, train), take(y, train)), (take(X, test), take(y, test))
        for j, (one, loss) in enumerate(zip(estimators, losses, strict=True)):
            trained = _trained(one, *rows, labels[train], weights[train])
            total[test, j] += loss(trained, *held_out)
            if np.isnan(seen[j]):
                seen[j] = np.average(loss(trained, *rows), weights=weights[train])
        times[test] += 1
    mean_losses = total / np.maximum(times, 1.0)  # rows of samples without targets are never held out
    estimates = recorded.expectations(mean_losses, level)
    _warn_of_learners_by_heart(estimators, seen, estimates.values)
    return estimates if isinstance(estimator, list | tuple) else estimates[0]


def _warn_of_learners_by_heart(
    estimators: Sequence[Estimator], seen: Floats, held_out: Floats, least: float = 0.1
) -> None:
    """Warn of learners whose loss on the rows that they learned from is below a share of that on held-out rows.

    Of two rows that are closest to one another each predicts the other: their losses are the same number.
    """
    for one, there, apart in zip(estimators, seen, held_out, strict=True):
        if abs(there) < least * abs(apart):
            warn(
                VardiWarning(
                    f"{type(one).__name__} learns its rows by heart (mean loss {there:.2g} on them, {apart:.2g} on "
                    "held-out rows), so held-out losses of neighbours repeat one another, and the standard error is "
                    "too small, by about a sixth in simulations. Restrict the learner, e.g. by a least number of "
                    "rows in a leaf."
                )
            )


def _trained(estimator: Estimator, X: Rows, y: Rows | None, labels: np.ndarray, weights: Floats) -> Estimator:
    if has_fit_parameter(estimator, "source"):  # it debiases by itself
        return clone(estimator).fit(X, y, source=labels)
    return fit_weighted(estimator, X, y, weights, {})


def _folds(
    fit: DebiasedSample, X: Rows, y: Rows | None, cv: Folds, rng: Random, *, by_class: bool
) -> Iterator[tuple[Integers, Integers]]:
    """Return positions of training and held-out rows; folds are split within samples."""
    n, strata = len(fit), fit.solved.pool.source
    if by_class and y is not None and np.ndim(y) == 1:
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        strata = strata * len(classes) + codes
    pairs: Iterable[tuple[Places, Places]]
    if isinstance(cv, int | np.integer):
        if not 2 <= cv <= n:
            raise MismatchError(f"cv is {cv}, but {n} rows can be split into 2 to {n} folds.")
        fold = dealt_out(fit.solved.pool.source, fit.solved.memory.dependence, strata, int(cv), rng)
        pairs = ((np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(cv)))
    else:
        pairs = cv.split(X, strata, fit.solved.memory.dependence.clusters) if hasattr(cv, "split") else cv
    held_out = np.zeros(n, bool)
    for train, test in pairs:
        train, test = np.arange(n)[train], np.arange(n)[test]
        if np.isin(test, train).any():
            raise MismatchError(
                "A fold of cv trains on rows that it also holds out, so their loss would be too small. Give folds "
                "that do not overlap."
            )
        held_out[test] = True
        yield train, test
    if not held_out.all():
        raise MismatchError(
            f"cv never holds out {int((~held_out).sum())} of {n} rows, and the risk over the population needs the loss "
            "of every row. Give folds that hold out each row."
        )


def debiased_scorer(scoring: Scoring = None, *, fit: DebiasedSample, target: str | None = None) -> DebiasedScorer:
    r"""Return a scorer for scikit-learn's searches that represents the population.

    The weight is a function of the row, so held-out rows have one:
    :math:`\sum_i w(z_i) s_i / \sum_i w(z_i)` over the rows of a fold, greater is better. Nothing has to be routed.

    Parameters
    ----------
    scoring : str or callable, optional
        A loss as for :func:`debiased_risk`, whose negative is the score; or one of scikit-learn's scorers, or its name,
        if its metric takes ``sample_weight``.
    fit : DebiasedSample
        The fit of all rows: ``vardi.debias`` of a frame with the features and the target.
    target : str, optional
        Name by which the biases read y. By default that of the series, else ``"y"``.

    Returns
    -------
    DebiasedScorer
        ``scorer(estimator, X, y, sample_weight=None)``. Weights that are given are taken as they are: where the biases
        read columns that X lacks, route those of the fit, with ``scorer.set_score_request(sample_weight=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GridSearchCV, StratifiedKFold
    >>> import vardi
    >>> from vardi.learn.risk import debiased_scorer
    >>> design = vardi.datasets.house_prices(seed=0)
    >>> fit = vardi.debias(design.samples, design.biases)
    >>> rows = pd.concat(design.samples.values())
    >>> source = np.repeat(list(design.samples), [len(sample) for sample in design.samples.values()])
    >>> folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(rows, source))  # within the samples
    >>> scorer = debiased_scorer("squared_error", fit=fit)
    >>> search = GridSearchCV(Ridge(), {"alpha": [1.0, 1000.0]}, scoring=scorer, cv=folds)
    >>> search.fit(rows[["RM", "LSTAT"]], rows["MEDV"], sample_weight=fit.weights).best_params_
    {'alpha': 1.0}
    """
    fit.solved.require_rows("A scorer")
    return DebiasedScorer(scoring, fit, target)


class DebiasedScorer:
    """The debiased mean score of a fitted estimator: what :func:`debiased_scorer` returns."""

    def __init__(self, scoring: Scoring, fit: DebiasedSample, target: str | None) -> None:
        self.scoring, self.fit, self.target = scoring, fit, target
        self._request = MetadataRequest(owner=self)
        self._metric = scoring if isinstance(scoring, _BaseScorer) else None
        if isinstance(scoring, str) and scoring not in LOSSES and scoring in get_scorer_names():
            self._metric = get_scorer(scoring)
        if self._metric is None and scoring is not None:
            as_loss(scoring, None)
        elif self._metric is not None and not self._metric._accept_sample_weight():
            raise MismatchError(
                f"The metric of {scoring} takes no sample_weight, so its rows cannot be weighted. Give one that does, "
                f"or a loss: {listed_losses()}."
            )

    def __call__(
        self, estimator: Estimator, X: Rows, y: Rows | None = None, *, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the score, greater is better; weights that are given are taken as they are."""
        weights = self._weights(X, y) if sample_weight is None else np.asarray(sample_weight)
        if self._metric is not None:
            return float(self._metric(estimator, X, y, sample_weight=weights))
        return -float(np.average(as_loss(self.scoring, estimator)(estimator, X, y), weights=weights))

    def set_score_request(self, *, sample_weight: bool | str | None) -> Self:
        """Ask for weights to be routed to the scorer: True, False, or the name under which they are passed."""
        self._request.score.add_request(param="sample_weight", alias=sample_weight)
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what is to be routed to the scorer."""
        return self._request

    def _accept_sample_weight(self) -> bool:
        return True  # called by scikit-learn's searches if routing is off

    def __sklearn_clone__(self) -> DebiasedScorer:
        return self  # the fit and its rows are not copied

    def __repr__(self) -> str:
        return f"debiased_scorer({self.scoring!r}, fit={self.fit!r})"

    def _weights(self, X: Rows, y: Rows | None) -> Floats:
        named = dict(zip(self.fit.names, self.fit.solved.pool.biases, strict=False))
        biases = {name: bias for name, bias in named.items() if self.fit.sizes[name] > 0}
        try:
            if not biases:
                raise MismatchError("The fit has its biases only as a matrix.")
            rows = joined(X, y, self.target, {**biases, **self.fit.solved.known_biases()})
            return np.asarray(self.fit.weigh(cast("Table", rows)))
        except (InvalidBiasError, MismatchError) as error:
            error.add_note(
                "To score rows that do not have what the biases read, route the weights of the fit: "
                "scorer.set_score_request(sample_weight=True), and search.fit(..., sample_weight=fit.weights)."
            )
            raise
