r"""
Label shift
===========

Three clinics see mostly the ill: a classifier for people of whom 85% are healthy.

The paper's Appendix B: in sample k class y has the share :math:`p_{ky}` instead of :math:`p_y`, and within classes
there is no bias. Then :math:`\omega_k = p_{ky} / p_y`, all normalisers are 1, and with :math:`p_{ky}` estimated by the
shares in the sample the weights have a closed form. Three clinics here: healthy people are 85% of the population, but
clinics see the ill, and one of them sees no healthy people at all.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
SHARES = {"healthy": 0.85, "mild": 0.10, "severe": 0.05}
CLINICS = {  # rows, and the shares that they are drawn with
    "town": (300, {"healthy": 0.5, "mild": 0.4, "severe": 0.1}),
    "university": (500, {"healthy": 0.1, "mild": 0.3, "severe": 0.6}),
    "ward": (200, {"healthy": 0.0, "mild": 0.5, "severe": 0.5}),
}
CENTRES = {"healthy": (0.0, 0.0), "mild": (2.0, 0.5), "severe": (1.2, 2.4)}
rng = np.random.default_rng(SEED)


def draw(n, shares):
    """Draw classes by their shares, and two measurements from each class's Gaussian."""
    state = rng.choice(list(shares), size=n, p=list(shares.values()))
    x = np.array([CENTRES[name] for name in state]) + rng.standard_normal((n, 2))
    return pd.DataFrame({"marker": x[:, 0], "pressure": x[:, 1], "state": state})


samples = {name: draw(rows, shares) for name, (rows, shares) in CLINICS.items()}
pool = pd.concat(samples.values(), ignore_index=True)
test = draw(20_000, SHARES)

# %%
# ``class_shift`` takes the shares in the sample and in the population.

seen = {name: {c: float((rows["state"] == c).mean()) for c in SHARES} for name, rows in samples.items()}
biases = {name: vardi.class_shift("state", shares, population=SHARES) for name, shares in seen.items()}
fit = vardi.debias(samples, biases)

closed = sum(len(samples[k]) / len(pool) * pool["state"].map(seen[k]) / pool["state"].map(SHARES) for k in samples)
off = float(np.abs(fit.weights.to_numpy() * closed - 1).max())
print(f"normalisers {', '.join(f'{omega:.9f}' for omega in fit.omegas.values())}")
print(f"weights agree with 1 / sum_k (n_k / n) p_ky / p_y to {off:.0e}\n")
print("share of   healthy    mild  severe")
print("pool     " + "".join(f"{(pool['state'] == c).mean():8.1%}" for c in SHARES))
print("debiased " + "".join(f"{np.average(pool['state'] == c, weights=fit.weights):8.1%}" for c in SHARES))
print("truth    " + "".join(f"{SHARES[c]:8.1%}" for c in SHARES))

# %%
# A classifier trained on the pool calls many healthy people ill.

features = ["marker", "pressure"]
models = {
    "pooled": LogisticRegression().fit(pool[features], pool["state"]),
    "debiased": LogisticRegression().fit(pool[features], pool["state"], sample_weight=fit.weights),
    "best": LogisticRegression().fit(test[features], test["state"]),
}
error = {name: float((model.predict(test[features]) != test["state"]).mean()) for name, model in models.items()}
for name, share in error.items():
    print(f"{name:<10} {share:.1%} of the population wrong")

# %%
# 600 people of the population, and what each model would call them.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), sharey=True, layout="constrained")
x, y = np.meshgrid(np.linspace(-3, 5, 400), np.linspace(-3, 5.5, 400))
grid = pd.DataFrame({"marker": x.ravel(), "pressure": y.ravel()})
marks = {"healthy": ("o", "#c4cad0"), "mild": ("^", "#57606a"), "severe": ("s", "#1f2328")}
places = {"healthy": (-2.7, -2.7), "mild": (3.6, -1.6), "severe": (3.0, 4.8)}
for ax, name, colour in ((axes[0], "pooled", BEFORE), (axes[1], "debiased", AFTER)):
    for state, (marker, shade) in marks.items():
        those = test.iloc[:600][test.iloc[:600]["state"] == state]
        ax.scatter(those["marker"], those["pressure"], s=13, marker=marker, color=shade, lw=0, label=state)
        ax.text(*places[state], state, color=colour, weight="bold")
    classes = np.searchsorted(models[name].classes_, models[name].predict(grid)).reshape(x.shape)
    for level in range(3):
        ax.contour(x, y, classes == level, levels=[0.5], colors=colour, linewidths=2)
    ax.set(xlabel="marker", xlim=(-3, 5), ylim=(-3, 5.5), title=f"{name}: {error[name]:.1%} wrong")
axes[0].set_ylabel("pressure")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()
