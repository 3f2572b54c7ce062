"""Clustering: a Gaussian mixture of the population, from rows that lie mostly between its clusters.

The paper's Examples 4 and 5: two Gaussians at (-1.5, -2) and (1.5, 2), seen through the strips x0 <= -0.5 (30 rows),
-0.7 <= x0 <= 0.7 (300 rows) and x0 >= 0.5 (30 rows). EM minimises the mean of -log p(x), a risk like any other: with
the debiased weights it is the population's. Plain EM pulls the centres to where the rows are.

    python examples/clustering.py [FOLDER FOR THE FIGURE]
"""

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import vardi
from vardi.learn.mixture import GaussianMixture


def distance(means: np.ndarray, centres: np.ndarray) -> float:
    """Return the mean distance of the means to the centres that they match best."""
    distances = cdist(means, centres)
    return float(distances[linear_sum_assignment(distances)].mean())


def main(folder: Path | None = None, seed: int = 2) -> dict[str, float]:
    design = vardi.datasets.two_gaussians(seed=seed)
    centres = design.truth["centres"]
    pool = np.concatenate(list(design.samples.values()))
    fit = vardi.debias(design.samples, design.biases)
    ones = np.ones(len(design.test))  # what debias gives for one sample without bias

    def mixture(rows: np.ndarray, weights: np.ndarray | None) -> GaussianMixture:
        return GaussianMixture(2, covariance_type="tied", n_init=10, random_state=0).fit(rows, sample_weight=weights)

    panels = {
        "unbiased rows, plain EM": (design.test, None, mixture(design.test, None)),
        "unbiased rows, debiased EM": (design.test, ones, mixture(design.test, ones)),
        "biased rows, plain EM": (pool, None, mixture(pool, None)),
        "biased rows, debiased EM": (pool, fit.weights, mixture(pool, fit.weights)),
    }
    errors = {name: distance(model.means_, centres) for name, (_, _, model) in panels.items()}

    print("centres of two clusters; the truth is (-1.5, -2.0) and (1.5, 2.0)")
    for name, (_, _, model) in panels.items():
        first, second = sorted(tuple(mean.round(1).tolist()) for mean in model.means_)
        print(f"  {name:<27} {first!s:>12} and {second!s:>10}   off by {errors[name]:.2f}")

    bic = [GaussianMixture(m, n_init=5, random_state=0).fit(pool, sample_weight=fit.weights) for m in (1, 2, 3)]
    said = ", ".join(f"{model.n_components}: {model.bic(pool, fit.weights):.0f}" for model in bic)
    print(f"BIC on the debiased likelihood, by number of clusters (least is best)   {said}")
    if folder is not None:
        picture(folder / "clustering.png", panels, errors, centres)
    return errors


def picture(path: Path, panels: dict[str, tuple], errors: dict[str, float], centres: np.ndarray) -> None:
    from matplotlib import pyplot as plt
    from PIL import Image

    from vardi.plots import AFTER, BEFORE

    figure, axes = plt.subplots(2, 2, figsize=(8, 6.6), sharex=True, sharey=True, layout="constrained")
    for ax, (name, (rows, weights, model)) in zip(axes.flat, panels.items(), strict=True):
        colour = BEFORE if weights is None else AFTER
        sizes = 8.0 if weights is None else 8.0 * weights
        ax.scatter(rows[:, 0], rows[:, 1], s=sizes, color="#b4bac1", lw=0)
        ax.scatter(*centres.T, s=160, marker="+", color="black", lw=2, label="true centres", zorder=4)
        ax.scatter(*model.means_.T, s=110, color=colour, edgecolor="white", label="centres by EM", zorder=3)
        ax.set_title(f"{name}: off by {errors[name]:.2f}", fontsize=10)
        ax.legend(loc="upper left", fontsize=8)
    for ax in axes[1]:
        ax.set_xlabel("x0")
    for ax in axes[:, 0]:
        ax.set_ylabel("x1")
    figure.suptitle("Two clusters, seen without bias and mostly in the middle (area of a dot: its weight)", fontsize=11)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
