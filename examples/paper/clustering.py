"""
Clustering with a Gaussian mixture
==================================

Two clusters that were sampled mostly between them, and still found where they are.

The paper's Examples 4 and 5: two Gaussians at (-1.5, -2) and (1.5, 2), seen through the strips x0 <= -0.5 (30 rows),
-0.7 <= x0 <= 0.7 (300 rows) and x0 >= 0.5 (30 rows). EM minimises the mean of -log p(x), a risk like any other: with
the debiased weights it is the population's. Plain EM pulls the centres to where the rows are.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 2
design = vardi.datasets.two_gaussians(seed=SEED)
centres = design.truth["centres"]
pool = np.concatenate(list(design.samples.values()))
fit = vardi.debias(design.samples, design.biases)
print(fit)

# %%
# :class:`vardi.GaussianMixture` is scikit-learn's, with ``sample_weight``. For comparison it also sees rows without
# bias, where weights of 1 change nothing.


def mixture(rows, weights):
    model = vardi.GaussianMixture(2, covariance_type="tied", n_init=10, random_state=0)
    return model.fit(rows, sample_weight=weights)


def distance(means):
    """Return the mean distance of the means to the centres that they match best."""
    distances = cdist(means, centres)
    return float(distances[linear_sum_assignment(distances)].mean())


ones = np.ones(len(design.test))
panels = {
    "unbiased rows, plain EM": (design.test, None, mixture(design.test, None)),
    "unbiased rows, debiased EM": (design.test, ones, mixture(design.test, ones)),
    "biased rows, plain EM": (pool, None, mixture(pool, None)),
    "biased rows, debiased EM": (pool, fit.weights, mixture(pool, fit.weights)),
}
off = {name: distance(model.means_) for name, (_, _, model) in panels.items()}
for name, (_, _, model) in panels.items():
    first, second = sorted(tuple(mean.round(1).tolist()) for mean in model.means_)
    print(f"{name:<27} {first!s:>12} and {second!s:>10}   off by {off[name]:.2f}")

# %%
# BIC counts Kish's effective rows, and is smallest for two clusters.

for clusters in (1, 2, 3):
    model = vardi.GaussianMixture(clusters, n_init=5, random_state=0).fit(pool, sample_weight=fit.weights)
    print(f"{clusters} clusters: BIC {model.bic(pool, fit.weights):.0f}")

# %%
# The area of a dot is its weight.

figure, axes = plt.subplots(2, 2, figsize=(9, 7), sharex=True, sharey=True, layout="constrained")
for ax, (name, (rows, weights, model)) in zip(axes.flat, panels.items(), strict=True):
    sizes = 8.0 if weights is None else 8.0 * weights
    ax.scatter(rows[:, 0], rows[:, 1], s=sizes, color="#b4bac1", lw=0)
    ax.scatter(*centres.T, s=160, marker="+", color="black", lw=2, label="true centres", zorder=4)
    colour = BEFORE if weights is None else AFTER
    ax.scatter(*model.means_.T, s=110, color=colour, edgecolor="white", label="centres by EM", zorder=3)
    ax.set_title(f"{name}: off by {off[name]:.2f}", fontsize=10)
    ax.legend(loc="upper left", fontsize=8)
plt.show()
