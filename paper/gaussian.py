"""Tables 2 and 3: predict the norm of a Gaussian vector, with bias on its norm or on its first component."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.svm import SVR

from paper.experiment import Cell, Experiment, Scores
from paper.trial import Floats, Rows, Trial, forest, mean_squared_error, plain
from vardi import debias
from vardi.datasets import gaussian_scenario

TREES = 10


def _norm(x: Floats) -> Floats:
    return np.asarray(np.linalg.norm(x, axis=1))


def draw(letter: str, seed: int) -> Trial:
    """Draw 1,000 training rows of a scenario, and 300 test rows."""
    design = gaussian_scenario(letter, seed=seed)
    fit = debias(design.samples, design.biases)
    x = np.concatenate(list(design.samples.values()))
    names = np.repeat(list(design.samples), [len(rows) for rows in design.samples.values()])
    return Trial(
        pool=Rows(x, _norm(x), np.asarray(fit.weights)),
        unbiased=names == "unbiased",
        test=Rows(design.test, _norm(design.test)),
    )


def _run(table: str, letters: str, seeds: np.random.SeedSequence, trees: int) -> Scores:
    scores = {}
    for letter, seed in zip(letters, seeds.generate_state(len(letters)).tolist(), strict=True):
        learners = (
            plain("LR", LinearRegression()),
            plain("KRR", KernelRidge(kernel="rbf")),
            plain("SVR", SVR(gamma="auto")),
            forest({"RF": min(TREES, trees)}, RandomForestRegressor(random_state=seed)),
        )
        for (model, method), score in draw(letter, seed).scores(learners, mean_squared_error).items():
            scores[Cell(table, "Gauss", letter, model, method)] = score
    return scores


def _norm_run(seeds: np.random.SeedSequence, trees: int) -> Scores:
    return _run("table2_norm", "abcdef", seeds, trees)


def _first_component_run(seeds: np.random.SeedSequence, trees: int) -> Scores:
    return _run("table3_first_component", "ghijkl", seeds, trees)


NORM = Experiment("norm", _norm_run)
FIRST_COMPONENT = Experiment("first-component", _first_component_run)
