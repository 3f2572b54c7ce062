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

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from vardi._estimate.domains import DomainEstimates, assisted_in_domains, estimates_in_domains
from vardi._estimate.estimates import Estimate
from vardi._estimate.tangent import Influence
from vardi._estimate.weight_routing import fit_weighted, takes_weights
from vardi._fit.learned import reference_of
from vardi._fit.solved import Solved
from vardi._inputs.by_row import KeptRows
from vardi._inputs.dependence import dealt_out
from vardi._inputs.domains import By
from vardi._inputs.frames import as_frame
from vardi._inputs.frames.frame import bias_of, is_function
from vardi._inputs.given import Function
from vardi._inputs.pool import Pool
from vardi._types import Floats, Integers
from vardi.biases._learned import LEAVES, MANY_COLUMNS, ONE_THREAD, Encoding, checks_of, learned_of
from vardi.biases._values import is_missing
from vardi.errors import MismatchError, MissingValuesError, suggest
from vardi.errors._texts import show

FOLDS = 5
LEAST_ROWS = 4  # in each fold


class Assisted:
    """A model that assists means of values that some samples have recorded.

    Parameters
    ----------
    whole : Solved
        The rows of all samples.
    estimator : regressor, classifier or None
        The model; None for the default one, with learned biases.
    columns : sequence of str or None
        What it sees. By default all numeric columns that all samples have; for the default model, those that biases
        were learned from and those that known biases read.
    """

    def __init__(self, whole: Solved, estimator: Any, columns: Sequence[str] | None) -> None:
        self.whole, self.columns = whole, columns
        self.over = (
            whole if whole.data.reference is None else reference_of(whole, whole.data.reference.data.states)
        )  # what the model's mean is taken over
        self.encodes = estimator is None
        self.estimator = default_model(len(self.names(()))) if estimator is None else estimator
        self.name = type(self.estimator).__name__

    def names(self, read: Iterable[str]) -> list[str]:
        """Return the columns that the default model sees, given those that the values are computed from."""
        if self.columns is not None:
            return [self.columns] if isinstance(self.columns, str) else list(self.columns)
        checks, biases = checks_of(self.whole.names, self.whole.pool.biases), self.whole.pool.biases
        own = dict.fromkeys(column for check in checks.values() for column in check.columns)
        known = [column for bias in biases for column in bias.columns if column not in read]
        return list(dict.fromkeys([*own, *known]))

    def told_by_reference(self, asked: Solved, values: Function, by: By | None, *, chosen: bool) -> Solved | None:
        """Return the known samples if these alone determine a mean: no learned one has it, or adds anything to it.

        The mean of a function of the columns that biases were learned from is that of the reference: the odds are free
        to make the learned samples agree with it.

        Parameters
        ----------
        asked : Solved
            The rows of the samples that have recorded the values.
        values : str, expression or array
            The values.
        by : By or None
            What defines the domains, if any.
        chosen : bool
            Whether the user chose the samples.
        """
        checks = checks_of(self.whole.names, self.whole.pool.biases)
        everyone = self.over.data.states
        learned = [checks[self.whole.names[k]] for k in asked.data.states if self.whole.names[k] in checks]
        if not learned:
            return reference_of(self.whole, asked.data.states)
        read = self._read(values)
        by_labels = by is not None and by.labels is not None
        if chosen or by_labels or not read or not set(everyone) <= set(asked.data.states):
            return None
        read |= set() if by is None else set(by.columns)
        return self.over if all(read <= set(check.columns) for check in learned) else None

    def _read(self, values: Function) -> set[str]:
        """Return the columns that values are computed from."""
        every = dict.fromkeys(column for frame in self.whole.pool.frames for column in frame.columns)
        return set(bias_of(values, every).columns) if is_function(values) else set()

    def mean(self, asked: Solved, values: Function, level: float) -> Estimate:
        """Return the mean of values, given the rows of the samples that have recorded them."""
        return self.apart(asked, values, level)[2]

    def apart(self, asked: Solved, values: Function, level: float) -> tuple[Floats, Influence, Estimate]:
        """Return the model's errors plus its mean prediction, the influence on the mean error, and the estimate."""
        plain = asked.tangent.estimates(asked.data.functions(values), level)[0]
        predicted = self._predictions(asked, values)
        mean, moved = self.over.tangent.influence(predicted[:, None])
        missed, own = asked.tangent.influence((asked.memory.values(values) - predicted)[:, None])
        influence = replace(moved + own, approximate=False)  # learning has no effect on it, to first order
        found = Estimate.from_influence(float(mean[0] + missed[0]), influence, level)
        found = replace(found, among=plain.among, plain=plain)
        return (asked.memory.values(values) - predicted)[:, None] + mean, own, found

    def may_be_wrong(self, asked: Solved, samples: Any) -> Any:
        """Return the samples whose biases may be wrong: by default the learned ones if all samples are in question."""
        if not asked.data.is_whole:
            return samples
        learned = list(checks_of(self.whole.names, self.whole.pool.biases))
        wanted = learned if samples is None else [samples] if isinstance(samples, str) else list(samples)
        others = [name for name in wanted if name in self.whole.names and name not in learned]
        if others:
            raise MismatchError(
                f"The bias of {str(others[0])!r} is known, and others were learned by comparison with it: if it is "
                f"wrong, so are they. Name learned samples, {show(learned)}, or debias again with another bias for it."
            )
        return wanted

    def _predictions(self, asked: Solved, values: Function) -> Floats:
        """Return predictions for each row by models that have not seen it; with learned biases, in the same folds."""
        whole, learned = self.whole, learned_of(self.whole.names, self.whole.pool.biases)
        if not learned:
            return predictions(
                whole, asked, values, self.estimator, _features(whole, values, self.estimator, self.columns)
            )
        read = self._read(values)
        names = self.names(read)
        X = _encoded(whole, names) if self.encodes else _features(whole, values, self.estimator, self.columns)
        fold = whole.memory.kept.of(next(iter(learned.values())).fold)
        biases, rows = zip(whole.names, whole.pool.biases, strict=False), None
        if read & {column for name, bias in biases if name not in learned for column in bias.columns}:
            # a known bias reads the values, so the model is fitted to the rows of learned samples (see above)
            rows = np.isin(whole.memory.source, [k for k, name in enumerate(whole.names) if name in learned])
        with threadpool_limits(1 if self.encodes and len(fold) <= ONE_THREAD else None):
            return predictions(whole, asked, values, self.estimator, X, fold, rows)

    def in_domains(
        self,
        asked: Solved,
        values: Any,
        told: tuple[By, Sequence[Any], int],
        plain: DomainEstimates,
        factor: float | Estimate | None,
    ) -> DomainEstimates:
        """Return the numbers of domains, given those without the model."""
        by, keys, base = told
        predicted = self._predictions(asked, values)
        everywhere, domains = self.over.data.domains(
            self.over.tangent.measure, self.whole.memory.kept.spread(predicted), by, base
        )
        of_all = estimates_in_domains(self.over.tangent, domains, plain.level, factor)
        _, domains = asked.data.domains(
            asked.tangent.measure, self.whole.memory.kept.spread(asked.memory.values(values) - predicted), by, base
        )
        missed = estimates_in_domains(asked.tangent, domains, plain.level, factor)
        place = {key: j for j, key in enumerate(everywhere)}
        absent = [key for key in keys if key not in place]
        if absent:
            raise MismatchError(
                f"No row of {show(self.over.tangent.measure.recorded_by)} has {by.said(absent[0])}, so only a "
                "learned bias determines how much of the population that is. Use larger domains, or "
                "assisted_by=None."
            )
        return assisted_in_domains(of_all, missed, np.array([place[key] for key in keys]), plain)


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


def predictions(
    whole: Solved,
    asked: Solved,
    values: Any,
    estimator: Any,
    X: Any,
    fold: Integers | None = None,
    trained_on: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return predictions for each row in the fit by models that have not seen it.

    Parameters
    ----------
    whole, asked : Solved
        The rows of all samples, and those of the samples that have recorded the values.
    values : str, expression or array
        What is modelled.
    estimator : regressor or classifier
        The model.
    X : array or frame
        What it sees of each row.
    fold : ndarray of int, optional
        The fold of each row; five are dealt out by default.
    trained_on : ndarray of bool, optional
        Which of the rows with values it may learn from; all by default.
    """
    chance = hasattr(estimator, "fit") and is_classifier(estimator)
    if not chance and not (hasattr(estimator, "fit") and is_regressor(estimator)):
        raise MismatchError(
            f"assisted_by is {type(estimator).__name__}, which does not predict numbers. Give a regressor, or a "
            "classifier for values of 0 and 1."
        )
    y, measure = asked.memory.values(values), asked.tangent.measure
    inside = np.ones(len(y), bool) if measure.inside is None else measure.inside
    if chance and not np.isin(y[inside], (0.0, 1.0)).all():
        raise MismatchError(
            f"assisted_by is {type(estimator).__name__}, a classifier, but the values are not all 0 or 1. Give a "
            "regressor, or ask for the mean of a condition."
        )
    if inside.sum() < LEAST_ROWS * FOLDS:
        raise MismatchError(
            f"The values are recorded on {int(inside.sum())} rows, too few for {FOLDS} folds of a model. Leave "
            "assisted_by out."
        )
    weights = measure.weights * measure.counts
    if fold is None:
        strata = whole.memory.source * 2 + (y > 0) if chance else whole.memory.source
        fold = dealt_out(whole.memory.source, whole.memory.dependence, strata, FOLDS, np.random.default_rng(0))
    teaches = inside if trained_on is None else inside & trained_on
    found, folds = np.zeros(len(y)), int(fold.max()) + 1
    for k in range(folds):
        train, mine = np.flatnonzero(teaches & (fold != k)), np.flatnonzero(inside & (fold == k))
        model = _fitted(estimator, _taken(X, train), y[train], weights[train])
        for rows, share in ((mine, 1.0), (np.flatnonzero(~inside), 1.0 / folds)):
            if len(rows):
                found[rows] += share * _predicted(model, _taken(X, rows))
    return found


def _fitted(estimator: Any, X: Any, y: Floats, weights: Floats) -> Any:
    """Return a fitted clone; a model that takes no weights makes the error larger, not wrong."""
    y = y.astype(np.int64) if is_classifier(estimator) else y
    return fit_weighted(estimator, X, y, weights, {}) if takes_weights(estimator) else clone(estimator).fit(X, y)


def _predicted(model: Any, X: Any) -> Floats:
    if not is_classifier(model) or not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(X), np.float64)
    chances = np.asarray(model.predict_proba(X), np.float64)
    return np.asarray(chances[:, np.asarray(model.classes_) == 1].sum(axis=1))


def _features(whole: Solved, values: Function, estimator: Any, columns: Sequence[str] | None) -> Any:
    """Return what the model sees of the rows in the fit, in the user's library if that has named columns."""
    pool = whole.pool
    shared = [name for name in (pool.frames[0].columns if pool.frames else ()) if _in_all(pool, name)]
    read = set(bias_of(values, shared).columns) if is_function(values) else set()
    if columns is None:
        read |= set(whole.data.dependence.named.values())
        columns = [name for name in shared if name not in read and pool.column(name).dtype.kind in "fiub"]
    names = [columns] if isinstance(columns, str) else list(columns)
    lacking = [name for name in names if name not in shared]
    if lacking or not names:
        raise MismatchError(
            f"The model is meant to see {lacking[0]!r}, which is not a column of every sample. The shared columns are "
            f"{show(shared)}.{suggest(lacking[0], shared)}"
            if lacking
            else f"No numeric column is in every sample for the model to see. The shared columns are {show(shared)}: "
            "name some with columns=, and give a model that encodes them."
        )
    kept = whole.memory.kept.positions
    found = {name: pool.column(name)[kept] for name in names}
    gaps = {name: int(_gaps(column).sum()) for name, column in found.items()}
    if any(gaps.values()) and not get_tags(estimator).input_tags.allow_nan:
        said = ", ".join(f"{name!r} ({count})" for name, count in gaps.items() if count)
        raise MissingValuesError(
            f"The model sees columns with missing values: {said}. Fill them in, leave these columns out, or give a "
            "model that takes them, such as gradient boosting.",
            columns={name: count for name, count in gaps.items() if count},
        )
    frame = pool.whole()
    if frame is not None and hasattr(frame.native, "columns") and all(name in frame.columns for name in names):
        return _taken(nw.from_native(frame.native).select(*names).to_native(), kept)
    return np.column_stack(list(found.values()))


def _encoded(whole: Solved, names: Sequence[str]) -> Floats:
    """Return columns of the rows in the fit as numbers, with an indicator for each value of a text column."""
    pool = whole.pool
    rows, said, trees = np.ones(len(pool), bool), "The model that assists means sees", len(names) <= MANY_COLUMNS
    X = Encoding.of(names, pool.column, rows, said, for_trees=trees)(pool.column)
    kept: KeptRows = whole.memory.kept
    return kept.of(X)


def _in_all(pool: Pool, name: str) -> bool:
    return all(name in frame.columns for frame in pool.frames)


def _gaps(column: np.ndarray) -> NDArray[np.bool_]:
    if column.dtype.kind in "iub":
        return np.zeros(len(column), bool)
    return np.fromiter((is_missing(value) for value in column.tolist()), bool, len(column))


def _taken(X: Any, rows: NDArray[np.int64]) -> Any:
    return X[rows] if isinstance(X, np.ndarray) else as_frame(X).take(rows)
