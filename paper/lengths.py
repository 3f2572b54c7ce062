r"""Example 1 of the paper: length bias in several dimensions, where the normalisers are the means themselves."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from paper.experiment import Cell, Experiment, Scores
from vardi import Estimate, datasets, debias
from vardi.errors import WeakOverlapWarning

DIMENSIONS = (2, 3)
UNBIASED_ROWS, BIASED_ROWS = 100, 200
METHODS = ("pooled", "unbiased rows alone", "debiased")
SQUARED_LENGTH = "mean squared length"


def run(seeds: np.random.SeedSequence, trees: int) -> Scores:
    """Return the errors of estimated means, and whether their intervals of nominal 95% covered the truth.

    In d dimensions there are 100 rows without bias, and for each coordinate 200 rows drawn in proportion to it. Every
    method has two scores: ``"error, debiased"`` is estimate minus truth, whose average over runs is the bias, and
    ``"coverage, debiased"`` is 1 or 0, whose average is the coverage.
    """
    scores: dict[Cell, float] = {}
    for dimensions, seed in zip(DIMENSIONS, seeds.generate_state(len(DIMENSIONS)).tolist(), strict=True):
        sizes = (UNBIASED_ROWS,) + (BIASED_ROWS,) * dimensions
        design = datasets.multivariate_length_bias(dimensions, sizes, seed)
        pool = _quantities(np.concatenate(list(design.samples.values())))
        fit = debias(design.samples, design.biases)
        with warnings.catch_warnings():
            # Users are warned of a row that carries much of a variance; here coverage shows the cost.
            warnings.simplefilter("ignore", WeakOverlapWarning)
            debiased = list(fit.expectations(pool))
        estimates = {
            "pooled": _plain(pool),
            "unbiased rows alone": _plain(pool[:UNBIASED_ROWS]),
            "debiased": debiased,
        }
        for place, (model, true) in enumerate(truths(dimensions).items()):
            for method in METHODS:
                estimate = estimates[method][place]
                low, high = estimate.interval
                scores[cell(dimensions, model, f"error, {method}")] = estimate.value - true
                scores[cell(dimensions, model, f"coverage, {method}")] = float(low <= true <= high)
    return scores


def truths(dimensions: int) -> dict[str, float]:
    """Return the quantities estimated and their values under P, where x_j is Gamma(2 + j) and E x_j = 2 + j.

    Examples
    --------
    >>> truths(2)
    {'mean of x0': 2.0, 'mean of x1': 3.0, 'mean squared length': 18.0}
    """
    shapes = [2.0 + j for j in range(dimensions)]
    means = {f"mean of x{j}": shape for j, shape in enumerate(shapes)}
    return means | {SQUARED_LENGTH: sum(shape * (shape + 1.0) for shape in shapes)}


def cell(dimensions: int, model: str, method: str) -> Cell:
    """Return the name of a score."""
    return Cell("lengths", "Gamma", f"d={dimensions}", model, method)


def _quantities(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.column_stack([rows, (rows**2).sum(axis=1)])


def _plain(values: NDArray[np.float64]) -> list[Estimate]:
    """Return the means of rows that are treated as an unbiased sample."""
    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return [Estimate(value, error) for value, error in zip(values.mean(axis=0).tolist(), errors.tolist(), strict=True)]


LENGTHS = Experiment("lengths", run)
