r"""
Length bias in several dimensions
=================================

Large units are seen more often, by each of several sizes; what are the mean sizes?

The paper's Example 1: one sample of P, and for each coordinate k a sample drawn in proportion to :math:`z_k`. The means
:math:`\mu_k` of the coordinates solve the system

.. math:: \mu_l = \sum_i z_{il} p_i, \qquad p_i = 1 / (n_0 + \sum_k n_k z_{ik} / \mu_k),

which has no closed form: it is Vardi's, and the :math:`\mu_k` are the normalisers. All samples except the first make
units look large.
"""

import numpy as np
from matplotlib import pyplot as plt

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
SIZES = (100, 400, 400, 400)  # without bias, then by each coordinate

design = vardi.datasets.multivariate_length_bias(3, SIZES, SEED)
pool = np.concatenate(list(design.samples.values()))
fit = vardi.debias(design.samples, design.biases)
print(fit)

# %%
# The paper's formula, written out, gives the same probabilities.

columns = ["x0", "x1", "x2"]
mu = np.array([fit.omegas[f"by {column}"] for column in columns])
p = 1 / (SIZES[0] + pool @ (np.array(SIZES[1:]) / mu))
off = float(max(np.abs(pool.T @ p - mu).max(), np.abs(p - fit.probabilities).max()))
print(f"equations and probabilities agree to {off:.0e}")

# %%
# The 100 rows without bias would be enough, but all 1,300 rows carry more information.

truth = np.array([design.truth[f"mean of {column}"] for column in columns])
alone = design.samples["unbiased"]
alone_mean, alone_stderr = alone.mean(axis=0), alone.std(axis=0, ddof=1) / np.sqrt(len(alone))
pooled, debiased = pool.mean(axis=0), fit.expectations(columns)
print("mean   truth   pooled   unbiased rows alone   debiased")
for j, column in enumerate(columns):
    clean = f"{alone_mean[j]:.2f} ± {alone_stderr[j]:.2f}"
    print(f"{column:<5} {truth[j]:6.2f} {pooled[j]:8.2f} {clean:>21}   {debiased[j]}")

# %%

figure, ax = plt.subplots(figsize=(8.5, 3.8), layout="constrained")
places = np.arange(len(columns))[::-1]
ax.scatter(pooled, places, s=60, color=BEFORE, label="pooled rows", zorder=3)
both = (
    ("the 100 unbiased rows alone (95%)", alone_mean, alone_stderr, "#57606a", -0.16),
    ("debiased, all 1,300 rows (95%)", debiased.values, debiased.stderr, AFTER, 0.0),
)
for label, values, stderr, colour, shift in both:
    ax.errorbar(values, places + shift, xerr=1.96 * stderr, fmt="o", ms=7, color=colour, capsize=4, label=label)
ax.vlines(truth, places - 0.3, places + 0.3, color="black", ls="--", label="truth")
ax.set_yticks(places, columns)
ax.set(xlabel="mean", ylim=(-0.5, len(columns) - 0.5), title="Means, when larger units are seen more often")
ax.legend(loc="upper right", fontsize=9)
plt.show()
