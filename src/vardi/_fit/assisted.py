r"""Means assisted by a model: its mean prediction over all samples, plus its mean error in those with the column.

.. math::

    \hat\eta = E\,\hat y + E^A (y - \hat y),\qquad \phi = \phi_{\hat y} + \phi^A_{y - \hat y},

with E the mean by the weights of all samples and :math:`E^A` that by the weights of those that recorded y. Each
:math:`\hat y` comes from models that have not seen its row: rows of A get that of their fold, others the mean of all.
So the second term removes what the model gets wrong, and the error holds whether the model is right or not. If all
samples have y the model drops out.

With learned biases the first mean is that of the samples whose biases are known, by their own weights and with their
own tangent:

.. math::

    \hat\eta = E^{ref}\,\hat y + E^A (y - \hat y),

with the folds of the odds. Its derivative in the direction h(x) of an error in learned odds :math:`\omega_k` is
:math:`-E_P[(y - \hat y)\,p_k h]`, with :math:`p_k` the share of sample k in :math:`S^A`: zero if the model is right,
given what :math:`p_k` depends on. In the direction of an error in the model it is :math:`E^{ref} - E^A`: zero if the
odds are right. So the two errors multiply. If a known bias reads y itself, :math:`p_k` depends on it, and the model
that makes the derivative vanish is :math:`E_P[p_k y | x] / E_P[p_k | x]`: that of the rows of k with weights
:math:`1 / S^A`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from vardi._estimate.domains import DomainEstimates, assisted_in_domains
from vardi._estimate.estimates import Estimate
from vardi._estimate.tangent import Influence
from vardi._estimate.weight_routing import fit_weighted, takes_weights
from vardi._fit.learned import reference_of
from vardi._fit.solved import Keys, Solved
from vardi._inputs.dependence import dealt_out
from vardi._inputs.domains import By
from vardi._inputs.frames import as_frame
from vardi._inputs.given import Function, is_function, read_by
from vardi._types import Floats, Integers
from vardi.biases._learned import LEAVES, MANY_COLUMNS, ONE_THREAD, Encoding, cross_fitted, learned_of
from vardi.biases._values import is_missing
from vardi.errors import MismatchError, MissingValuesError, suggest
from vardi.errors._texts import show

FOLDS = 5
LEAST_ROWS = 4  # in each fold


class Assisted:
    """A model that assists means of values that some samples have recorded.

    Parameters
    ----------
    whole, asked : Solved
        The rows of all samples, and those of the samples that have recorded the values.
    values : str, expression or array
        The values.
    estimator : regressor, classifier or None
        The model; None for the default one, with learned biases.
    columns : sequence of str or None
        What it sees. By default all numeric columns that all samples have; for the default model, those that biases
        were learned from and those that known biases read.
    """

    def __init__(
        self, whole: Solved, asked: Solved, values: Function, estimator: Any, columns: Sequence[str] | None
    ) -> None:
        self.whole, self.asked, self.values = whole, asked, values
        self.columns = [columns] if isinstance(columns, str) else columns
        self.over = (
            whole if whole.data.reference is None else reference_of(whole, whole.data.reference.data.states)
        )  # what the model's mean is taken over
        self.learned = learned_of(whole.names, whole.pool.biases)
        self.read = set(read_by(values, whole.pool.columns)) if is_function(values) else set()
        self.encodes = estimator is None
        self.estimator = default_model(len(self._names(()))) if estimator is None else estimator
        self.name = type(self.estimator).__name__

    def _names(self, without: Collection[str]) -> list[str]:
        """Return the columns that the default model sees, those of known biases without some."""
        if self.columns is not None:
            return list(self.columns)
        own = [column for learned in self.learned.values() for column in learned.columns]
        known = [column for bias in self.whole.pool.biases for column in bias.columns if column not in without]
        return list(dict.fromkeys([*own, *known]))

    def told_by_reference(self, by: By | None, *, chosen: bool) -> Solved | None:
        """Return the known samples if these alone determine a mean: no learned one has it, or adds anything to it.

        The mean of a function of the columns that biases were learned from is that of the reference: the odds are free
        to make the learned samples agree with it.

        Parameters
        ----------
        by : By or None
            What defines the domains, if any.
        chosen : bool
            Whether the user chose the samples.
        """
        states, names = self.asked.data.states, self.whole.names
        learned = [self.learned[names[k]] for k in states if names[k] in self.learned]
        if not learned:
            return reference_of(self.whole, states)
        by_labels = by is not None and by.labels is not None
        if chosen or by_labels or not self.read or not set(self.over.data.states) <= set(states):
            return None
        read = self.read.union(() if by is None else by.columns)
        return self.over if all(read <= set(one.columns) for one in learned) else None

    def mean(self, level: float) -> Estimate:
        """Return the mean of the values."""
        return self.apart(level)[2]

    def apart(self, level: float) -> tuple[Floats, Influence, Estimate]:
        """Return the model's errors plus its mean prediction, the influence on the mean error, and the estimate."""
        plain = self.asked.tangent.estimates(self.asked.data.functions(self.values), level)[0]
        mean, moved = self.over.tangent.influence(self.predicted[:, None])
        missed, own = self.asked.tangent.influence(self.missed[:, None])
        influence = replace(moved + own, approximate=False)  # learning has no effect on it, to first order
        found = Estimate.from_influence(float(mean[0] + missed[0]), influence, level)
        return self.missed[:, None] + mean, own, replace(found, among=plain.among, plain=plain)

    def may_be_wrong(self, samples: Any) -> Any:
        """Return the samples whose biases may be wrong: by default the learned ones if all samples are in question."""
        if not self.asked.data.is_whole:
            return samples
        wanted = list(self.learned) if samples is None else [samples] if isinstance(samples, str) else list(samples)
        others = [name for name in wanted if name in self.whole.names and name not in self.learned]
        if others:
            raise MismatchError(
                f"The bias of {str(others[0])!r} is known, and others were learned by comparison with it: if it is "
                f"wrong, so are they. Name learned samples, {show(self.learned)}, or debias again with another bias "
                "for it."
            )
        return wanted

    def in_domains(
        self, by: By, keys: Keys, base: int, plain: DomainEstimates, factor: float | Estimate | None
    ) -> DomainEstimates:
        """Return the numbers of domains, given those without the model."""
        spread = self.whole.memory.kept.spread
        everywhere, of_all = self.over.in_domains(spread(self.predicted), by, base, plain.level, factor)
        _, missed = self.asked.in_domains(spread(self.missed), by, base, plain.level, factor)
        place = {key: j for j, key in enumerate(everywhere)}
        absent = [key for key in keys if key not in place]
        if absent:
            raise MismatchError(
                f"No row of {show(self.over.tangent.measure.recorded_by)} has {by.said(absent[0])}, so only a "
                "learned bias determines how much of the population that is. Use larger domains, or "
                "assisted_by=None."
            )
        return assisted_in_domains(of_all, missed, np.array([place[key] for key in keys]), plain)

    @property
    def missed(self) -> Floats:
        """What the model gets wrong on each row with values."""
        return self.asked.memory.values(self.values) - self.predicted

    @cached_property
    def predicted(self) -> Floats:
        """The prediction for each row in the fit, by models that have not seen it; others get the mean of all."""
        estimator, X = self.estimator, self._encoded() if self.encodes else self._features()
        chance = hasattr(estimator, "fit") and is_classifier(estimator)
        if not chance and not (hasattr(estimator, "fit") and is_regressor(estimator)):
            raise MismatchError(
                f"assisted_by is {self.name}, which does not predict numbers. Give a regressor, or a "
                "classifier for values of 0 and 1."
            )
        y, measure = self.asked.memory.values(self.values), self.asked.tangent.measure
        inside = np.ones(len(y), bool) if measure.inside is None else measure.inside
        if chance and not np.isin(y[inside], (0.0, 1.0)).all():
            raise MismatchError(
                f"assisted_by is {self.name}, a classifier, but the values are not all 0 or 1. Give a "
                "regressor, or ask for the mean of a condition."
            )
        if inside.sum() < LEAST_ROWS * FOLDS:
            raise MismatchError(
                f"The values are recorded on {int(inside.sum())} rows, too few for {FOLDS} folds of a model. Leave "
                "assisted_by out."
            )
        weights, teaches = measure.weights * measure.counts, self._teaches()

        def fitted(rows: NDArray[np.bool_]) -> Any:
            chosen = np.flatnonzero(rows & teaches)
            return _fitted(estimator, _taken(X, chosen), y[chosen], weights[chosen])

        def mean_of(models: Sequence[Any], rows: Integers) -> Floats:
            return np.mean([_predicted(model, _taken(X, rows)) for model in models], axis=0)

        fold = np.where(inside, self._folds(y if chance else np.zeros(len(y))), -1)
        with threadpool_limits(1 if self.encodes and len(fold) <= ONE_THREAD else None):
            return cross_fitted(fitted, mean_of, np.arange(len(y)), fold)[1]

    def _folds(self, y: Floats) -> Integers:
        """Return the fold of each row: that of the learned biases, or one dealt out within samples and kinds of y."""
        data = self.whole.memory
        if self.learned:
            return data.kept.of(next(iter(self.learned.values())).fold)
        return dealt_out(data.source, data.dependence, data.source * 2 + (y > 0), FOLDS, np.random.default_rng(0))

    def _teaches(self) -> NDArray[np.bool_]:
        """Return which rows the model may learn from: those of learned samples if a known bias reads the values."""
        names, source = self.whole.names, self.whole.memory.source
        learned = [name in self.learned for name in names]
        known = [bias for bias, is_learned in zip(self.whole.pool.biases, learned, strict=False) if not is_learned]
        if self.learned and any(self.read.intersection(bias.columns) for bias in known):
            return np.array(learned)[source]  # for the derivative to vanish (see above)
        return np.ones(len(source), bool)

    def _encoded(self) -> Floats:
        """Return columns of the rows in the fit as numbers, with an indicator for each value of a text column."""
        pool, names, said = self.whole.pool, self._names(self.read), "The model that assists means sees"
        rows = np.ones(len(pool), bool)
        X = Encoding.of(names, pool.column, rows, said, for_trees=len(names) <= MANY_COLUMNS)(pool.column)
        return self.whole.memory.kept.of(X)

    def _features(self) -> Any:
        """Return what the model sees of the rows in the fit, in the user's library if that has named columns."""
        pool, names = self.whole.pool, self.columns
        shared = [name for name in pool.frames[0].columns if all(name in frame.columns for frame in pool.frames)]
        if names is None:
            read = self.read.union(self.whole.data.dependence.named.values())
            names = [name for name in shared if name not in read and pool.column(name).dtype.kind in "fiub"]
        lacking = [name for name in names if name not in shared]
        if lacking or not names:
            raise MismatchError(
                f"The model is meant to see {lacking[0]!r}, which is not a column of every sample. The shared columns "
                f"are {show(shared)}.{suggest(lacking[0], shared)}"
                if lacking
                else f"No numeric column is in every sample for the model to see. The shared columns are "
                f"{show(shared)}: name some with columns=, and give a model that encodes them."
            )
        kept = self.whole.memory.kept.positions
        found = {name: pool.column(name)[kept] for name in names}
        gaps = {name: count for name, column in found.items() if (count := _missing(column))}
        if gaps and not get_tags(self.estimator).input_tags.allow_nan:
            said = ", ".join(f"{name!r} ({count})" for name, count in gaps.items())
            raise MissingValuesError(
                f"The model sees columns with missing values: {said}. Fill them in, leave these columns out, or give a "
                "model that takes them, such as gradient boosting.",
                columns=gaps,
            )
        frame = pool.whole()
        if frame is not None and hasattr(frame.native, "columns") and all(name in frame.columns for name in names):
            return _taken(nw.from_native(frame.native).select(*names).to_native(), kept)
        return np.column_stack(list(found.values()))


def default_model(columns: int) -> Any:
    """Return the default model with learned biases: gradient boosting, or a ridge regression for embeddings."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if columns > MANY_COLUMNS:
        return make_pipeline(StandardScaler(), RidgeCV(np.logspace(0.0, 5.0, 11)))
    # its errors at 500 and 2,000 rows of a curved function are .51 and .31; with the default 31 leaves .64 and .44
    return HistGradientBoostingRegressor(max_leaf_nodes=LEAVES, early_stopping=False, random_state=0)


def _fitted(estimator: Any, X: Any, y: Floats, weights: Floats) -> Any:
    """Return a fitted clone; a model that takes no weights makes the error larger, not wrong."""
    y = y.astype(np.int64) if is_classifier(estimator) else y
    return fit_weighted(estimator, X, y, weights, {}) if takes_weights(estimator) else clone(estimator).fit(X, y)


def _predicted(model: Any, X: Any) -> Floats:
    if not is_classifier(model) or not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(X), np.float64)
    chances = np.asarray(model.predict_proba(X), np.float64)
    return chances[:, np.asarray(model.classes_) == 1].sum(axis=1)


def _missing(column: np.ndarray) -> int:
    """Return how many values are missing."""
    return 0 if column.dtype.kind in "iub" else sum(map(is_missing, column.tolist()))


def _taken(X: Any, rows: NDArray[np.int64]) -> Any:
    return X[rows] if isinstance(X, np.ndarray) else as_frame(X).take(rows)
