"""Example 5 of the paper: two Gaussians that were sampled mostly between their centres, found again by EM."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from paper.experiment import Cell, Experiment, Scores
from vardi import GaussianMixture, datasets, debias
from vardi.errors import NotIdentifiableError

METHODS = ("EM on unbiased data", "EM", "debiased EM")
COORDINATES = ("left x0", "left x1", "right x0", "right x1")


def run(seeds: np.random.SeedSequence, trees: int) -> Scores:
    """Return how far the centroids of EM lie from the true ones, and where they lie.

    The model ``"GaussianMixture"`` has the mean distance of the two centroids to the true centres that they match
    best, the models ``"centroid left x0"`` and so on have the coordinates. In about one draw of five the samples cannot
    be compared: no row of one lies where its neighbour could have drawn it. Debiased EM then has no score (NaN).
    """
    seed = int(seeds.generate_state(1)[0])
    design = datasets.two_gaussians(seed=seed)
    pool = np.concatenate(list(design.samples.values()))
    centroids = {
        "EM on unbiased data": fitted_mixture(design.test).means_,
        "EM": fitted_mixture(pool).means_,
    }
    try:
        weights = debias(design.samples, design.biases).weights
        centroids["debiased EM"] = fitted_mixture(pool, weights).means_
    except NotIdentifiableError:
        centroids["debiased EM"] = np.full((2, 2), np.nan)
    scores: dict[Cell, float] = {}
    for method in METHODS:
        matched, distance = match(centroids[method], design.truth["centres"])
        scores[_cell("GaussianMixture", method)] = distance
        for name, coordinate in zip(COORDINATES, matched.ravel().tolist(), strict=True):
            scores[_cell(f"centroid {name}", method)] = coordinate
    return scores


def fitted_mixture(rows: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> GaussianMixture:
    """Fit two Gaussians, the best of three starts, as every method of this experiment does."""
    with threadpool_limits(limits=1):  # a few hundred rows: threads would mostly wait for one another
        return GaussianMixture(2, n_init=3, random_state=0).fit(rows, sample_weight=weights)


def match(centroids: NDArray[np.float64], centres: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the centroids in the order of the centres they match best, and their mean distance to these.

    Examples
    --------
    >>> import numpy as np
    >>> match(np.array([[1.0, 0.0], [0.0, 3.0]]), np.array([[0.0, 0.0], [1.0, 0.0]]))
    (array([[0., 3.],
           [1., 0.]]), 1.5)
    """
    if np.isnan(centroids).any():
        return centroids, float("nan")
    distances = cdist(centres, centroids)
    rows, columns = linear_sum_assignment(distances)
    return centroids[columns], float(distances[rows, columns].mean())


def _cell(model: str, method: str) -> Cell:
    return Cell("clusters", "TwoGaussians", "", model, method)


CLUSTERS = Experiment("clusters", run)
