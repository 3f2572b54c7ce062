r"""Means that a model assists: what it predicts over all samples, and what it misses in those that have the column.

.. math::

    \hat\eta = E\,\hat y + E^A (y - \hat y),\qquad \phi = \phi_{\hat y} + \phi^A_{y - \hat y},

with E the mean by the weights of all samples and :math:`E^A` that by the weights of those that recorded y. Each
:math:`\hat y` comes from models that have not seen its row: rows of A get the one of their fold, others the mean of
all. So the second term takes away what the model gets wrong, and the error holds whether it is right or not. Where all
samples have y the model drops out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags

from vardi._estimate.domains import Found, assisted_in_domains, found_in_domains
from vardi._estimate.estimates import Estimate
from vardi._estimate.weight_routing import fit_weighted, takes_weights
from vardi._inputs.domains import By
from vardi._inputs.folds import dealt_out
from vardi._inputs.frames import as_frame
from vardi._inputs.frames.functions import bias_of, is_function
from vardi._types import Floats
from vardi.biases._values import is_missing
from vardi.errors import MismatchError, MissingValuesError, suggest
from vardi.errors._texts import show

FOLDS = 5
LEAST_ROWS = 4  # of a fold that a model is tried on


class Assisted:
    """A model that assists means of what some samples have recorded.

    Parameters
    ----------
    whole : InMemory
        The rows of all samples.
    estimator : regressor or classifier
        The model.
    columns : sequence of str or None
        What it sees; all columns of numbers that all samples have by default.
    """

    def __init__(self, whole: Any, estimator: Any, columns: Sequence[str] | None) -> None:
        self.whole, self.estimator, self.columns = whole, estimator, columns
        self.name = type(estimator).__name__

    def mean(self, asked: Any, values: Any, level: float) -> Estimate:
        """Return the mean of values, given the rows of the samples that have recorded them."""
        plain = asked.tangent.estimates(asked.functions(values), level)[0]
        predicted = predictions(self.whole, asked, values, self.estimator, self.columns)
        mean, moved = self.whole.tangent.influence(predicted[:, None])
        missed, moved_too = asked.tangent.influence((asked.values(values) - predicted)[:, None])
        found = Estimate.from_influence(float(mean[0] + missed[0]), moved + moved_too, level)
        return replace(found, among=plain.among, plain=plain)

    def in_domains(
        self,
        asked: Any,
        values: Any,
        told: tuple[By, Sequence[Any], int],
        plain: Found,
        factor: float | Estimate | None,
    ) -> Found:
        """Return numbers of the domains that columns tell apart, given those without the model."""
        by, keys, base = told
        predicted = predictions(self.whole, asked, values, self.estimator, self.columns)
        everywhere, domains = self.whole.domains(self._of_pool(predicted), by, base)
        of_all = found_in_domains(self.whole.tangent, domains, plain.level, factor)
        _, domains = asked.domains(self._of_pool(asked.values(values) - predicted), by, base)
        missed = found_in_domains(asked.tangent, domains, plain.level, factor)
        place = {key: j for j, key in enumerate(everywhere)}
        return assisted_in_domains(of_all, missed, np.array([place[key] for key in keys]), plain)

    def _of_pool(self, values: Floats) -> Floats:
        """Return values of the rows that the fit rests on for all of the pool, 0 on others."""
        if self.whole.kept is None:
            return values
        found = np.zeros(len(self.whole))
        found[self.whole.kept] = values
        return found


def predictions(whole: Any, asked: Any, values: Any, estimator: Any, columns: Sequence[str] | None) -> Floats:
    """Return what models that have not seen a row predict for it, for all rows that the fit rests on.

    Parameters
    ----------
    whole, asked : InMemory
        The rows of all samples, and those of the samples that have recorded the values.
    values : str, expression or array
        What is modelled.
    estimator : regressor or classifier
        The model.
    columns : sequence of str or None
        What it sees; all columns of numbers that all samples have by default.
    """
    chance = is_classifier(estimator)
    if not chance and not is_regressor(estimator):
        raise MismatchError(
            f"assisted_by is {type(estimator).__name__}, which predicts no numbers. Give a regressor, or a classifier "
            "for values of 0 and 1.",
            expected=("regressor", "classifier"),
            got=(type(estimator).__name__,),
        )
    y, measure = asked.values(values), asked.tangent.measure
    inside = np.ones(len(y), bool) if measure.inside is None else measure.inside
    if chance and not np.isin(y[inside], (0.0, 1.0)).all():
        raise MismatchError(
            f"assisted_by is {type(estimator).__name__}, a classifier, and the values are not all 0 or 1. Give a "
            "regressor, or ask for the mean of a condition.",
            expected=(0, 1),
            got=tuple(np.unique(y[inside])[:3].tolist()),
        )
    if inside.sum() < LEAST_ROWS * FOLDS:
        raise MismatchError(
            f"The values are recorded on {int(inside.sum())} rows, too few for {FOLDS} folds of a model. Ask without "
            "assisted_by.",
            expected=(LEAST_ROWS * FOLDS,),
            got=(int(inside.sum()),),
        )
    X, weights = _features(whole, values, estimator, columns), measure.weights * measure.counts
    strata = whole.source * 2 + (y > 0) if chance else whole.source
    fold = dealt_out(whole.source, whole.dependence, strata, FOLDS, np.random.default_rng(0))
    found = np.zeros(len(y))
    for k in range(FOLDS):
        train, mine = np.flatnonzero(inside & (fold != k)), np.flatnonzero(inside & (fold == k))
        model = _fitted(estimator, _taken(X, train), y[train], weights[train])
        for rows, share in ((mine, 1.0), (np.flatnonzero(~inside), 1.0 / FOLDS)):
            if len(rows):
                found[rows] += share * _predicted(model, _taken(X, rows))
    return found


def _fitted(estimator: Any, X: Any, y: Floats, weights: Floats) -> Any:
    """Return a fitted clone; one that takes no weights has a larger error, and not a wrong one."""
    y = y.astype(np.int64) if is_classifier(estimator) else y
    return fit_weighted(estimator, X, y, weights, {}) if takes_weights(estimator) else clone(estimator).fit(X, y)


def _predicted(model: Any, X: Any) -> Floats:
    if not is_classifier(model) or not hasattr(model, "predict_proba"):
        return np.asarray(model.predict(X), np.float64)
    chances = np.asarray(model.predict_proba(X), np.float64)
    return np.asarray(chances[:, np.asarray(model.classes_) == 1].sum(axis=1))


def _features(whole: Any, values: Any, estimator: Any, columns: Sequence[str] | None) -> Any:
    """Return what the model sees of the rows that the fit rests on, in the user's library where it names columns."""
    pool = whole.pool
    shared = [name for name in (pool.frames[0].columns if pool.frames else ()) if _in_all(pool, name)]
    read = set(bias_of(values, shared).columns) if is_function(values) else set()
    if columns is None:
        read |= set((whole.dependence.named if whole.dependence is not None else {}).values())
        columns = [name for name in shared if name not in read and pool.column(name).dtype.kind in "fiub"]
    names = [columns] if isinstance(columns, str) else list(columns)
    lacking = [name for name in names if name not in shared]
    if lacking or not names:
        raise MismatchError(
            f"The model is to see {lacking[0]!r}, which is no column of every sample. These have {show(shared)}."
            f"{suggest(lacking[0], shared)}"
            if lacking
            else f"No column of numbers is in every sample for the model to see. These have {show(shared)}: name some "
            "with columns=, and give a model that encodes them.",
            expected=shared,
            got=names,
        )
    kept = np.arange(len(pool)) if whole.kept is None else np.flatnonzero(whole.kept)
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


def _in_all(pool: Any, name: str) -> bool:
    return all(name in frame.columns for frame in pool.frames)


def _gaps(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype.kind in "iub":
        return np.zeros(len(column), bool)
    return np.fromiter((is_missing(value) for value in column.tolist()), bool, len(column))


def _taken(X: Any, rows: NDArray[np.int64]) -> Any:
    return X[rows] if isinstance(X, np.ndarray) else as_frame(X).take(rows)
