"""The debiased risk is honest: 200 seeded repeats of two designs, against the exact risk of the models it judges.

X is uniform on (-2, 2), Y has a curved mean and a spread that grows with X, and a line is fitted. The risk over the
population of a line is an integral (Gauss-Legendre, exact to rounding), so no test set adds noise of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import StratifiedKFold

import vardi
from vardi.learn.risk import debiased_risk

REPEATS = 200
NODES, MASSES = np.polynomial.legendre.leggauss(200)


@dataclass(frozen=True)
class Case:
    """Biases as text and as functions of x and y, and the rows of each sample."""

    biases: dict
    tests: dict
    sizes: tuple


CASES = {
    "covariate strata": Case(
        {"low": "x0 < 0", "middle": "-1 < x0 and x0 < 1.2", "high": "x0 > 0.4"},
        {"low": lambda x, y: x < 0, "middle": lambda x, y: (x > -1) & (x < 1.2), "high": lambda x, y: x > 0.4},
        (500, 200, 150),
    ),
    "outcome selection": Case(
        {"all": "1", "high": "y > 1.3"},
        {"all": lambda x, y: x < 3, "high": lambda x, y: y > 1.3},
        (250, 450),
    ),
}


def mean_of(x):
    return 0.5 * x + np.sin(2 * x)


SPREADS = {"milder": (0.4, 0.2), "stronger": (0.2, 0.3)}  # spread a + b (x + 2); the milder one was tried first


def spread_of(x, noise):
    a, b = SPREADS[noise]
    return a + b * (x + 2)


def rows(case, seed, noise):
    rng = np.random.default_rng(seed)
    parts = []
    for test, size in zip(case.tests.values(), case.sizes, strict=True):
        x = rng.uniform(-2, 2, 12 * size)
        y = mean_of(x) + spread_of(x, noise) * rng.standard_normal(len(x))
        parts.append(np.column_stack([x, y])[test(x, y)][:size])
    pool = np.concatenate(parts)
    return pool[:, :1], pool[:, 1], np.repeat(list(case.biases), case.sizes)


def true_risk(model, noise):
    x = 2.0 * NODES
    return float(MASSES / 2 @ ((mean_of(x) - model.predict(x[:, None])) ** 2 + spread_of(x, noise) ** 2))


class Line(LinearRegression):
    """A line that keeps its clones, so that the models of the folds can be judged exactly."""

    fits: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        Line.fits.append(self)
        return super().fit(X, y, sample_weight=sample_weight)


class Cubic(Line):
    def fit(self, X, y, sample_weight=None):
        return super().fit(np.hstack([X, X**3]), y, sample_weight=sample_weight)

    def predict(self, X):
        return super().predict(np.hstack([X, X**3]))


def repeat(case, seed, noise):
    """Return how far each estimate is off, and its standard error."""
    X, y, source = rows(case, seed, noise)
    Line.fits.clear()
    risks = debiased_risk([Line(), Cubic()], X, y, source=source, biases=case.biases, random_state=seed)
    truths = np.array([true_risk(model, noise) for model in Line.fits]).reshape(2, 5).mean(axis=1)
    difference = risks[0] - risks[1]
    joined = np.column_stack([X, y])
    biases = {name: text.replace("y", "x1") for name, text in case.biases.items()}
    weights = np.asarray(vardi.debias(joined, biases, source=source).weights)
    whole = true_risk(LinearRegression().fit(X, y, sample_weight=weights), noise)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X, source))
    naive = [naive_error(X, y, folds, w, noise) for w in (weights, np.ones(len(y)))]
    return [
        (risks[0].value - truths[0], risks[0].stderr),
        (risks[0].value - whole, risks[0].stderr),
        (difference.value - (truths[0] - truths[1]), difference.stderr),
        *naive,
    ]


def naive_error(X, y, folds, weights, noise):
    """Return the mean of unweighted held-out losses less the true risk of the models, and its naive error."""
    losses, truths = np.empty(len(y)), []
    for train, test in folds:
        model = LinearRegression().fit(X[train], y[train], sample_weight=weights[train])
        losses[test] = (y[test] - model.predict(X[test])) ** 2
        truths.append(true_risk(model, noise))
    return losses.mean() - np.mean(truths), losses.std(ddof=1) / len(y) ** 0.5


@pytest.mark.filterwarnings("ignore:Row .* carries")  # a single far row now and then, as squared losses have them
@pytest.mark.filterwarnings("ignore:The largest weights")  # few levels of weight look like a tail now and then
@pytest.mark.parametrize("noise", SPREADS)
@pytest.mark.parametrize("name", CASES)
def test_the_debiased_risk_covers_and_naive_cross_validation_does_not(name, noise):
    results = np.array([repeat(CASES[name], seed, noise) for seed in range(REPEATS)])
    within = (np.abs(results[:, :, 0]) <= 2 * results[:, :, 1]).mean(axis=0)
    labels = ("debiased", "against the model of all rows", "difference", "naive, weighted", "naive, unweighted")
    for label, share, (off, error) in zip(labels, within, results.mean(axis=0), strict=True):
        spread = results[:, labels.index(label), 0].std()
        print(
            f"{name:18} {noise:9} {label:30} within 2 errors {share:.3f}  bias {off:+.4f}  sd {spread:.4f}  "
            f"error {error:.4f}"
        )
    debiased, whole, difference, naive, plain = within
    assert min(debiased, whole, difference) >= 0.9
    assert max(naive, plain) < 0.5
