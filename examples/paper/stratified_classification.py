r"""
Classification under stratified sampling
========================================

A classifier trained mostly on one side of the plane, for people who live on both.

The paper's Example 2: sample k holds labelled examples with inputs in the stratum :math:`X_k` only, so that
:math:`\omega_k = 1\{x \in X_k\}`. Here 1,800 rows come from the right (x0 >= 0) and 200 from the left (x0 <= 0.5). A
linear classifier cannot follow the true border, which is bent; which line is best depends on where the population
lives. Fitted to the pooled rows it suits the right, at the cost of the left.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
rng = np.random.default_rng(SEED)


def border(x0):
    return 1.5 * np.tanh(3 * x0)


def population(n):
    """Draw (x0, x1, y): y tells whether x1 is above the border, up to noise."""
    x = rng.standard_normal((n, 2))
    return np.column_stack([x, x[:, 1] - border(x[:, 0]) + 0.3 * rng.standard_normal(n) > 0])


right, left = population(8000), population(2000)
samples = {"right": right[right[:, 0] >= 0][:1800], "left": left[left[:, 0] <= 0.5][:200]}
pool = np.concatenate(list(samples.values()))
test = population(20_000)

# %%
# The two strata overlap where 0 <= x0 <= 0.5, and through these rows they are compared.

fit = vardi.debias(samples, {"right": "x0 >= 0", "left": "x0 <= 0.5"})
print(fit.identify())
print(f"\nshare with x0 >= 0: pooled {np.mean(pool[:, 0] >= 0):.3f}, debiased {fit.omegas['right']:.3f}, truth 0.500")

# %%
# Three lines: of the pooled rows, of the same rows with weights, and of 20,000 rows without bias.

models = {
    "pooled": LogisticRegression().fit(pool[:, :2], pool[:, 2]),
    "debiased": LogisticRegression().fit(pool[:, :2], pool[:, 2], sample_weight=fit.weights),
    "best": LogisticRegression().fit(test[:, :2], test[:, 2]),
}
error = {name: float(np.mean(model.predict(test[:, :2]) != test[:, 2])) for name, model in models.items()}
for name, share in error.items():
    print(f"{name:<10} {share:.1%} of the population wrong")

# %%
# The picture shows every row of the left, and every fourth of the right.

figure, ax = plt.subplots(figsize=(8.5, 4.6), layout="constrained")
shown = np.concatenate([pool[:1800:4], pool[1800:]])
for value, marker, colour in ((1, "o", "#57606a"), (0, "x", "#c4cad0")):
    rows = shown[shown[:, 2] == value]
    ax.scatter(rows[:, 0], rows[:, 1], s=9, marker=marker, color=colour, lw=0.8, label=f"y = {value}")
ends = np.array([-3.2, 3.4])
curve = np.linspace(*ends, 200)
ax.plot(curve, border(curve), ":", color="black", lw=1.4, label="the true border")
for name, colour, line in (("pooled", BEFORE, "-"), ("debiased", AFTER, "-"), ("best", "black", "--")):
    (a, b), c = models[name].coef_[0], models[name].intercept_[0]
    ax.plot(ends, -(c + a * ends) / b, line, color=colour, lw=2.2, label=f"{name}: {error[name]:.1%} wrong")
ax.set(xlim=ends, ylim=(-3.3, 3.3), xlabel="x0", ylabel="x1")
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
plt.show()
