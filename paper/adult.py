"""Table 1, lower half, and table 4: income in the census, with bias on education or on age.

The printed Adult half of table 1 mixes two protocols, each of which fits some of its rows but not the others:

- the logistic regressions fit reading A: "12+ years of education" is ``education-num >= 12``, scores are accuracies;
- the forests fit reading B: twelve *school years*, which is ``education-num >= 9``, regression forests, and scores that
  are R^2, among the people without a missing category.

Both readings are run in full, and shown side by side; table 1 takes each printed row from the reading that it
fits. All 14 columns are inputs, categories as the numbers of their alphabetical order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

from paper.boston import forests
from paper.experiment import Cell, Experiment, Scores
from paper.trial import (
    Floats,
    Learner,
    Predictions,
    Rows,
    Trial,
    accuracy,
    error_rate,
    explained,
    forest,
    plain,
)
from vardi import debias_matrix
from vardi.datasets import adult

READING_A, READING_B = "12+ years, accuracy", "12 school years, R2"
AGE_TREES = 10
MISSING = "?"


@cache
def _census() -> tuple[Any, Floats, Floats]:
    """Return the table, its inputs as numbers, and whether income exceeds 50K."""
    people = adult(backend="numpy")
    columns = [people[name] for name in people.dtype.names if name != "income"]
    codes = [np.unique(column, return_inverse=True)[1] if column.dtype.kind == "U" else column for column in columns]
    return people, np.column_stack(codes).astype(np.float64), (people["income"] == ">50K").astype(np.float64)


def _complete(people: Any) -> NDArray[np.bool_]:
    texts = [people[name] for name in people.dtype.names if people[name].dtype.kind == "U"]
    return np.all([column != MISSING for column in texts], axis=0)


def draw(group: NDArray[np.bool_], among: NDArray[np.intp], sizes: tuple[int, int], tested: int, seed: int) -> Trial:
    """Set test rows aside; of the rest, draw a sample within the group and a small one from all.

    Parameters
    ----------
    group : array of bool
        Who belongs to the group, among all people of the census.
    among : array of int
        The people included.
    sizes : tuple of int
        Rows of the sample of the group, and of the unbiased sample.
    tested : int
        Rows of the test.
    seed : int
        Seed of the draws.
    """
    _, x, y = _census()
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(among)
    test, train = shuffled[:tested], shuffled[tested:]
    rows = np.concatenate(
        [
            rng.choice(train[group[train]], sizes[0], replace=False),
            rng.choice(train, sizes[1], replace=False),
        ]
    )
    source = np.repeat([0, 1], sizes)
    omega = np.column_stack([group[rows], np.ones(len(rows))]).astype(np.float64)
    return Trial(
        pool=Rows(x[rows], y[rows], np.asarray(debias_matrix(omega, source).weights)),
        unbiased=source == 1,
        test=Rows(x[test], y[test]),
    )


def _logistic(C: float) -> LogisticRegression:
    return LogisticRegression(C=C, solver="liblinear")


def _probability(name: str, C: float) -> Learner:
    """Return a logistic regression that predicts probabilities, as a regression forest does."""

    def learn(rows: Rows, x: Floats) -> Predictions:
        model = _logistic(C).fit(rows.x, rows.y, sample_weight=rows.weights)
        return {name: model.predict_proba(x)[:, 1]}

    return learn


STRENGTHS = (0.1, 1, 10)


def _run_education(seeds: np.random.SeedSequence, trees: int) -> Scores:
    people, _, _ = _census()
    first, second = seeds.generate_state(2).tolist()
    years, everyone = people["education-num"], np.arange(len(people))
    by_accuracy = draw(years >= 12, everyone, (5900, 100), 1500, first).scores(
        (
            *(plain(f"LogReg C={C}", _logistic(C)) for C in STRENGTHS),
            forest(forests(trees), RandomForestClassifier(random_state=first)),
        ),
        accuracy,
    )
    by_r2 = draw(years >= 9, np.flatnonzero(_complete(people)), (5900, 100), 1500, second).scores(
        (
            *(_probability(f"LogReg C={C}", C) for C in STRENGTHS),
            forest(forests(trees), RandomForestRegressor(random_state=second)),
        ),
        explained,
    )
    readings = {
        Cell("adult_readings", "Adult", reading, model, method): score
        for reading, scores in ((READING_A, by_accuracy), (READING_B, by_r2))
        for (model, method), score in scores.items()
    }
    printed = {
        Cell("table1", "Adult", "", cell.model, cell.method): score
        for cell, score in readings.items()
        if cell.scenario == reading_of(cell.model)
    }
    return printed | readings


def reading_of(model: str) -> str:
    """Return the reading that a model's printed row fits."""
    return READING_A if model.startswith("LogReg") else READING_B


def _run_age(seeds: np.random.SeedSequence, trees: int) -> Scores:
    people, _, _ = _census()
    seed = int(seeds.generate_state(1)[0])
    middle_age = (people["age"] >= 38) & (people["age"] <= 58)
    learners: Sequence[Learner] = (
        plain("LogReg", _logistic(1)),
        forest({"RF": min(AGE_TREES, trees)}, RandomForestClassifier(random_state=seed)),
    )
    scores = draw(middle_age, np.arange(len(people)), (9900, 100), 5000, seed).scores(learners, error_rate)
    return {Cell("table4_age", "Adult", "", model, method): score for (model, method), score in scores.items()}


ADULT = Experiment("adult", _run_education)
AGE = Experiment("age", _run_age)
