"""Weighted PCA and density: the shape of the population, from rows that lie mostly in its middle.

P is a Gaussian whose long axis points 30 degrees upwards. Of the rows, 800 lie in the strip |x0| <= 0.5, where the
cloud looks upright, and 200 come without bias. Principal components are the eigenvectors of the covariance: weigh the
covariance, sum_i pi_i (x_i - m)(x_i - m)', and they are the population's. A kernel density takes the weights as they
are.

    python examples/weighted_pca_and_kde.py [FOLDER FOR THE FIGURE]
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.neighbors import KernelDensity

import vardi

ANGLE = 30.0
AXIS = np.array([np.cos(np.radians(ANGLE)), np.sin(np.radians(ANGLE))])
COVARIANCE = 0.5 * np.eye(2) + 3.5 * np.outer(AXIS, AXIS)


def first_axis(covariance: np.ndarray) -> tuple[float, float]:
    """Return the angle of the first principal component, in degrees, and its share of the variance."""
    values, vectors = np.linalg.eigh(covariance)
    return float(np.degrees(np.arctan2(vectors[1, -1], vectors[0, -1])) % 180), float(values[-1] / values.sum())


def main(folder: Path | None = None, seed: int = 0) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_normal([0, 0], COVARIANCE, size=8000)
    samples = {
        "strip": drawn[np.abs(drawn[:, 0]) <= 0.5][:800],
        "everywhere": rng.multivariate_normal([0, 0], COVARIANCE, size=200),
    }
    pool = np.concatenate(list(samples.values()))
    fit = vardi.debias(samples, {"strip": "abs(x0) <= 0.5", "everywhere": 1})

    covariances = {"pooled": np.cov(pool.T), "debiased": np.cov(pool.T, aweights=fit.weights), "truth": COVARIANCE}
    axes = {name: first_axis(covariance) for name, covariance in covariances.items()}

    x = np.linspace(-6, 6, 241)
    kernel = KernelDensity(bandwidth=0.35)
    densities = {
        "pooled": np.exp(kernel.fit(pool[:, :1]).score_samples(x[:, None])),
        "debiased": np.exp(kernel.fit(pool[:, :1], sample_weight=fit.weights).score_samples(x[:, None])),
        "truth": norm.pdf(x, scale=np.sqrt(COVARIANCE[0, 0])),
    }
    off = {name: float(np.abs(densities[name] - densities["truth"]).sum() * (x[1] - x[0])) for name in densities}

    print("                                    pooled   debiased   truth")
    print("first component, degrees            {:6.1f} {:10.1f} {:7.1f}".format(*(angle for angle, _ in axes.values())))
    print("  its share of the variance         {:6.1%} {:10.1%} {:7.1%}".format(*(share for _, share in axes.values())))
    print(f"density of x0, area between it and the truth   {off['pooled']:.2f} pooled, {off['debiased']:.2f} debiased")
    if folder is not None:
        picture(folder / "weighted_pca_and_kde.png", pool, fit.weights, covariances, axes, x, densities)
    return {f"{name} angle": angle for name, (angle, _) in axes.items()} | {
        f"{name} area": v for name, v in off.items()
    }


def picture(
    path: Path,
    pool: np.ndarray,
    weights: np.ndarray,
    covariances: dict[str, np.ndarray],
    axes: dict[str, tuple[float, float]],
    x: np.ndarray,
    densities: dict[str, np.ndarray],
) -> None:
    from matplotlib import pyplot as plt
    from PIL import Image

    from vardi.plots import AFTER, BEFORE

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.scatter(*pool.T, s=5 * weights, color="#b4bac1", lw=0)
    styles = {"pooled": (BEFORE, "-"), "debiased": (AFTER, "-"), "truth": ("black", "--")}
    for name, (colour, line) in styles.items():
        half = 2 * np.sqrt(np.linalg.eigvalsh(covariances[name])[-1])
        step = half * np.array([np.cos(np.radians(axes[name][0])), np.sin(np.radians(axes[name][0]))])
        ends = np.stack([-step, step])
        left.plot(*ends.T, line, color=colour, lw=2.4, label=f"{name}: {axes[name][0]:.0f}°")
        right.plot(x, densities[name], line, color=colour, lw=2.2, label=name)
    left.set(xlabel="x0", ylabel="x1", title="First principal component")
    right.set(xlabel="x0", ylabel="density", ylim=(0, None), title="Kernel density of x0")
    left.set(xlim=(-5, 5), ylim=(-4, 4), aspect="equal")
    right.set_box_aspect(0.8)
    for ax in (left, right):
        ax.legend(fontsize=9, loc="upper left")
    figure.savefig(path, dpi=100)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
