r"""
Weighted PCA and kernel density
===============================

The long axis and the density of a cloud, of which mostly a strip was seen.

P is a Gaussian whose long axis points 30 degrees upwards. Of the rows, 800 lie in the strip abs(x0) <= 0.5, where the
cloud looks upright, and 200 come without bias. Principal components are the eigenvectors of the covariance: weight the
covariance, :math:`\sum_i \pi_i (x_i - m)(x_i - m)'`, and they are the population's. A kernel density takes the weights
as they are.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.stats import norm
from sklearn.neighbors import KernelDensity

import vardi
from vardi.plots import AFTER, BEFORE

SEED = 0
axis = np.array([np.cos(np.radians(30)), np.sin(np.radians(30))])
covariance = 0.5 * np.eye(2) + 3.5 * np.outer(axis, axis)

rng = np.random.default_rng(SEED)
drawn = rng.multivariate_normal([0, 0], covariance, size=8000)
samples = {
    "strip": drawn[np.abs(drawn[:, 0]) <= 0.5][:800],
    "everywhere": rng.multivariate_normal([0, 0], covariance, size=200),
}
pool = np.concatenate(list(samples.values()))
fit = vardi.debias(samples, {"strip": "abs(x0) <= 0.5", "everywhere": 1})

# %%
# scikit-learn's PCA takes no weights, but ``np.cov`` does.

covariances = {"pooled": np.cov(pool.T), "debiased": np.cov(pool.T, aweights=fit.weights), "truth": covariance}
angle = {}
for name, matrix in covariances.items():
    values, vectors = np.linalg.eigh(matrix)
    angle[name] = float(np.degrees(np.arctan2(vectors[1, -1], vectors[0, -1])) % 180)
    print(f"{name:<10} first component at {angle[name]:.1f} degrees, {values[-1] / values.sum():.1%} of the variance")

# %%
# A kernel density takes ``sample_weight``.

x = np.linspace(-6, 6, 241)
kernel = KernelDensity(bandwidth=0.35)
densities = {
    "pooled": np.exp(kernel.fit(pool[:, :1]).score_samples(x[:, None])),
    "debiased": np.exp(kernel.fit(pool[:, :1], sample_weight=fit.weights).score_samples(x[:, None])),
    "truth": norm.pdf(x, scale=np.sqrt(covariance[0, 0])),
}
area = {name: float(np.abs(densities[name] - densities["truth"]).sum() * (x[1] - x[0])) for name in densities}
print(f"area between density and truth: {area['pooled']:.2f} pooled, {area['debiased']:.2f} debiased")

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.scatter(*pool.T, s=5 * fit.weights, color="#b4bac1", lw=0)
for name, colour, line in (("pooled", BEFORE, "-"), ("debiased", AFTER, "-"), ("truth", "black", "--")):
    half = 2 * np.sqrt(np.linalg.eigvalsh(covariances[name])[-1])
    step = half * np.array([np.cos(np.radians(angle[name])), np.sin(np.radians(angle[name]))])
    left.plot(*np.stack([-step, step]).T, line, color=colour, lw=2.4, label=f"{name}: {angle[name]:.0f}°")
    right.plot(x, densities[name], line, color=colour, lw=2.2, label=name)
left.set(xlabel="x0", ylabel="x1", title="First principal component", xlim=(-5, 5), ylim=(-4, 4), aspect="equal")
right.set(xlabel="x0", ylabel="density", ylim=(0, None), title="Kernel density of x0")
for ax in (left, right):
    ax.legend(fontsize=9, loc="upper left")
plt.show()
