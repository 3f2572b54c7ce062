"""Table 1, upper half: house prices in Boston, with an agency that sells cheap houses only."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.svm import SVR

from paper.experiment import Cell, Experiment, Scores
from paper.trial import Floats, Rows, Trial, forest, mean_squared_error, plain
from vardi import debias
from vardi.datasets import house_prices

FORESTS = (10, 100, 1000)


def forests(largest: int) -> dict[str, int]:
    """Return the paper's forests up to a number of trees, by name."""
    return {f"RF trees={trees}": trees for trees in FORESTS if trees <= largest}


def draw(seed: int) -> Trial:
    """Draw 200 of the cheap training houses, 100 of all of them, and 100 test houses."""
    design = house_prices(seed=seed, backend="numpy")
    pool = np.concatenate(list(design.samples.values()))
    fit = debias(design.samples, design.biases)
    return Trial(
        pool=Rows(_inputs(pool), pool["MEDV"], np.asarray(fit.weights)),
        unbiased=np.repeat(["agency", "national"], [200, 100]) == "national",
        test=Rows(_inputs(design.test), design.test["MEDV"]),
    )


def _inputs(houses: Any) -> Floats:
    return np.column_stack([houses[name] for name in houses.dtype.names if name != "MEDV"]).astype(np.float64)


def _run(seeds: np.random.SeedSequence, trees: int) -> Scores:
    seed = int(seeds.generate_state(1)[0])
    learners = (
        *(plain(f"RR alpha={alpha}", Ridge(alpha)) for alpha in (0, 0.1, 1)),
        *(plain(f"SVR C={C}", SVR(C=C, gamma="auto")) for C in (0.1, 1, 10)),
        forest(forests(trees), RandomForestRegressor(random_state=seed)),
    )
    scores = draw(seed).scores(learners, mean_squared_error)
    return {Cell("table1", "Boston", "", model, method): score for (model, method), score in scores.items()}


BOSTON = Experiment("boston", _run)
