"""
Debiased k-means
================

Where should four depots stand, when most known customers live in the east?

k-means minimises the mean squared distance to the nearest centre, a risk like any other. An app gives 900 customers,
all from the east (x0 >= 0); a telephone survey gives 100 from everywhere.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.cluster import KMeans

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
TOWNS = np.array([[-4.0, 2.0], [-3.5, -2.0], [-1.5, 0.5], [1.5, -2.0], [3.0, 1.5], [4.5, -1.0]])
SHARES = np.array([0.25, 0.25, 0.15, 0.10, 0.15, 0.10])
rng = np.random.default_rng(SEED)


def customers(n):
    """Draw the places of n customers."""
    return TOWNS[rng.choice(len(TOWNS), size=n, p=SHARES)] + 0.6 * rng.standard_normal((n, 2))


drawn = customers(5000)
samples = {"app": drawn[drawn[:, 0] >= 0][:900], "telephone": customers(100)}
everyone = customers(20_000)
pool = np.concatenate(list(samples.values()))
source = np.repeat(list(samples), [len(rows) for rows in samples.values()])

# %%
# :class:`vardi.DebiasedEstimator` debiases and gives the weights to k-means.

model = KMeans(4, n_init=10, random_state=0)
debiased = vardi.DebiasedEstimator(model, biases={"app": "x0 >= 0", "telephone": 1}).fit(pool, source=source)
share = debiased.fit_.normalisers()["app"].value
known, true = np.mean(pool[:, 0] >= 0), np.mean(everyone[:, 0] >= 0)
print(f"customers in the east: {known:.0%} of the pool, {share:.0%} debiased, {true:.0%} in truth")

# %%
# Without weights three of four depots go east.

depots = {
    "pooled": model.fit(pool).cluster_centers_,
    "debiased": debiased.cluster_centers_,
    "best": model.fit(everyone).cluster_centers_,
}
cost = {}
for name, centres in depots.items():
    cost[name] = float(((everyone[:, None, :] - centres) ** 2).sum(axis=2).min(axis=1).mean())
    east = int((centres[:, 0] > 0).sum())
    print(f"{name:<10} mean squared distance {cost[name]:.2f}, {east} of 4 in the east")

# %%

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained")
for ax, rows, title in ((axes[0], pool, "The pool"), (axes[1], everyone[:700], "700 customers of the population")):
    ax.scatter(*rows.T, s=6, color="#b4bac1", lw=0)
    for name, colour, marker in (("pooled", BEFORE, "s"), ("debiased", AFTER, "o"), ("best", "black", "+")):
        edge = {"lw": 2} if marker == "+" else {"edgecolor": "white"}
        label = f"{name}: cost {cost[name]:.2f}"
        ax.scatter(*depots[name].T, s=110, marker=marker, color=colour, label=label, zorder=3, **edge)
    ax.set(xlabel="x0 (west to east)", title=title)
axes[0].set_ylabel("x1")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, title="depots from")
plt.show()
