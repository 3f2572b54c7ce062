"""One draw of training and test rows, and each learner trained on it in the paper's three ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import BaseEnsemble

Floats: TypeAlias = NDArray[np.float64]
Predictions: TypeAlias = Mapping[str, Floats]
Score: TypeAlias = Callable[[Floats, Floats], float]

ERM, DEBIASED, UNBIASED = "ERM", "db-ERM", "ub-ERM"
METHODS = (ERM, DEBIASED, UNBIASED)


@dataclass(frozen=True)
class Rows:
    """Inputs, outputs, and the weights of the rows, if they have any."""

    x: Floats
    y: Floats
    weights: Floats | None = None


Learner: TypeAlias = Callable[[Rows, Floats], Predictions]


@dataclass(frozen=True)
class Trial:
    """A pool with its debiasing weights, which of its rows are unbiased, and test rows."""

    pool: Rows
    unbiased: NDArray[np.bool_]
    test: Rows

    def ways(self) -> Iterator[tuple[str, Rows]]:
        """Yield the rows that each method trains on; ub-ERM needs an unbiased sample."""
        yield ERM, Rows(self.pool.x, self.pool.y)
        yield DEBIASED, self.pool
        if self.unbiased.any():
            yield UNBIASED, Rows(self.pool.x[self.unbiased], self.pool.y[self.unbiased])

    def scores(self, learners: Sequence[Learner], score: Score) -> dict[tuple[str, str], float]:
        """Return the score on the test rows by model and method."""
        return {
            (model, method): score(self.test.y, predicted)
            for learner in learners
            for method, rows in self.ways()
            for model, predicted in learner(rows, self.test.x).items()
        }


def plain(name: str, estimator: Any) -> Learner:
    """Return a learner that is one scikit-learn estimator."""

    def learn(rows: Rows, x: Floats) -> Predictions:
        return {name: estimator.fit(rows.x, rows.y, sample_weight=rows.weights).predict(x)}

    return learn


def forest(names: Mapping[str, int], ensemble: BaseEnsemble) -> Learner:
    """Return a learner that grows one forest, and uses its first trees as the smaller ones.

    scikit-learn draws the seed of each tree in turn, so the first 10 trees of a forest of 1,000 are the forest of 10
    with the same random state.

    Parameters
    ----------
    names : mapping from name to int
        The models, and how many trees each has.
    ensemble : RandomForestRegressor or RandomForestClassifier
        The forest; the number of its trees is set here.
    """
    largest = max(names.values())

    def learn(rows: Rows, x: Floats) -> Predictions:
        grown = ensemble.set_params(n_estimators=largest).fit(rows.x, rows.y, sample_weight=rows.weights)
        sums = np.cumsum([_votes(tree, x) for tree in grown.estimators_], axis=0)
        means = {name: sums[trees - 1] / trees for name, trees in names.items()}
        if not hasattr(grown, "classes_"):
            return means
        return {name: grown.classes_[mean.argmax(axis=1)] for name, mean in means.items()}

    return learn


def _votes(tree: Any, x: Floats) -> Floats:
    values: Floats = tree.predict_proba(x) if hasattr(tree, "predict_proba") else tree.predict(x)
    return values


def mean_squared_error(y: Floats, predicted: Floats) -> float:
    """Return the mean of (y - f(x))^2."""
    return float(np.mean((y - predicted) ** 2))


def accuracy(y: Floats, predicted: Floats) -> float:
    """Return the share of rows that are predicted correctly, in percent."""
    return float(100 * np.mean(y == predicted))


def error_rate(y: Floats, predicted: Floats) -> float:
    """Return the share of rows that are predicted incorrectly, in percent."""
    return float(100 * np.mean(y != predicted))


def explained(y: Floats, predicted: Floats) -> float:
    """Return R^2, in percent."""
    return float(100 * (1 - np.mean((y - predicted) ** 2) / np.var(y)))
