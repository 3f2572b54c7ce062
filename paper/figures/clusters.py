"""Clusters found by EM, with and without bias in the sample, with and without weights."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from paper.clusters import fitted_mixture, match
from paper.figures.style import INK, MUTED, POOL, POPULATION, in_this_look, light_grid, new_figure
from vardi import GaussianMixture, datasets, debias

SEED = 2  # a draw whose samples can be compared

CAPTION = (
    "Two Gaussians at (−1.5, −2) and (1.5, 2). Left: 360 rows without bias, on which vanilla EM finds the centroids. "
    "Right: 30 rows with x₀ ≤ −0.5, 300 with −0.7 ≤ x₀ ≤ 0.7 and 30 with x₀ ≥ 0.5. Vanilla EM is drawn to the middle; "
    "debiased EM, which sees the same rows with their weights (the area of a dot), is not. Ellipses are two standard "
    "deviations wide each way."
)


@in_this_look
def clusters() -> Figure:
    """Draw the centroids of vanilla EM on unbiased rows, and of vanilla and debiased EM on biased rows."""
    design = datasets.two_gaussians(seed=SEED)
    centres = design.truth["centres"]
    pool = np.concatenate(list(design.samples.values()))
    weights = debias(design.samples, design.biases).weights

    figure = new_figure(3.9)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _rows(left, design.test, np.ones(len(design.test)))
    _mixture(left, fitted_mixture(design.test), centres, MUTED, "EM")
    _rows(right, pool, weights)
    for edge in (-0.7, 0.7):
        right.axvline(edge, color="#afb8c1", lw=0.8, zorder=0)
    for x, rows in zip((-2.95, 0.0, 2.95), design.samples.values(), strict=True):
        right.text(x, -5.05, f"{len(rows)} rows", ha="center", color=MUTED, fontsize=6.5)
    _mixture(right, fitted_mixture(pool), centres, POOL, "EM")
    _mixture(right, fitted_mixture(pool, weights), centres, POPULATION, "debiased EM")
    for ax, title in ((left, "Unbiased rows"), (right, "Biased rows")):
        ax.scatter(centres[:, 0], centres[:, 1], s=110, marker="+", color=INK, lw=1.4, label="true centres", zorder=5)
        ax.set(title=title, xlabel="$x_0$", xlim=(-5.2, 5.2), ylim=(-5.3, 5.9))
        ax.set_aspect("equal")
        light_grid(ax, "both")
        ax.legend(loc="upper left", handletextpad=0.3, borderaxespad=0.1)
    left.set_ylabel("$x_1$")
    return figure


def _rows(ax: Axes, rows: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
    for weight in np.unique(weights):  # few: the biases are indicators; dots of one size are one shape in the file
        x, y = rows[weights == weight].T
        ax.scatter(x, y, s=6.0 * weight, color="#8c959f", alpha=0.55, lw=0, zorder=1)


def _mixture(ax: Axes, model: GaussianMixture, centres: NDArray[np.float64], colour: str, label: str) -> None:
    _, distance = match(model.means_, centres)
    ax.scatter(
        model.means_[:, 0],
        model.means_[:, 1],
        s=42,
        color=colour,
        edgecolor="white",
        lw=0.8,
        zorder=4,
        label=f"{label}: off by {distance:.2f}",
    )
    for mean, covariance in zip(model.means_, model.covariances_, strict=True):
        variances, axes = np.linalg.eigh(covariance)
        width, height = 4.0 * np.sqrt(variances)
        angle = float(np.degrees(np.arctan2(axes[1, 0], axes[0, 0])))
        ax.add_patch(Ellipse(tuple(mean), width, height, angle=angle, fill=False, ec=colour, lw=1.3, zorder=3))
