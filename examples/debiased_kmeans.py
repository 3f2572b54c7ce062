"""Debiased k-means: where should four depots stand, when most known customers live in the east?

k-means minimises the mean squared distance to the nearest centre, a risk like any other. An app gives 900 customers,
all from the east (x0 >= 0); a telephone survey gives 100 from everywhere. Without weights three of four depots go east;
with the debiased weights they stand for all customers: ``vardi.DebiasedEstimator`` gives them to k-means.

    python examples/debiased_kmeans.py [FOLDER FOR THE FIGURE]
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

import vardi

TOWNS = np.array([[-4.0, 2.0], [-3.5, -2.0], [-1.5, 0.5], [1.5, -2.0], [3.0, 1.5], [4.5, -1.0]])
SHARES = np.array([0.25, 0.25, 0.15, 0.10, 0.15, 0.10])


def customers(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw the places of n customers."""
    return TOWNS[rng.choice(len(TOWNS), size=n, p=SHARES)] + 0.6 * rng.standard_normal((n, 2))


def main(folder: Path | None = None, seed: int = 0) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    drawn = customers(rng, 5000)
    samples = {"app": drawn[drawn[:, 0] >= 0][:900], "telephone": customers(rng, 100)}
    everyone = customers(rng, 20_000)
    pool = np.concatenate(list(samples.values()))
    source = np.repeat(list(samples), [len(rows) for rows in samples.values()])

    model = KMeans(4, n_init=10, random_state=0)
    debiased = vardi.DebiasedEstimator(model, biases={"app": "x0 >= 0", "telephone": 1}).fit(pool, source=source)
    fit = debiased.debiased_
    depots = {
        "pooled": model.fit(pool).cluster_centers_,
        "debiased": debiased.cluster_centers_,
        "best": model.fit(everyone).cluster_centers_,
    }
    cost = {name: float(nearest(everyone, centres).mean()) for name, centres in depots.items()}
    east = {name: int((centres[:, 0] > 0).sum()) for name, centres in depots.items()}

    print(
        f"customers in the east   {np.mean(pool[:, 0] >= 0):.0%} of the pool, {fit.omegas['app']:.0%} debiased, "
        f"{np.mean(everyone[:, 0] >= 0):.0%} in truth"
    )
    print("mean squared distance of all customers to the nearest of four depots")
    for name, label in {"pooled": "pooled rows", "debiased": "debiased", "best": "20,000 customers known"}.items():
        print(f"  {label:<24} {cost[name]:.2f}   ({east[name]} in the east)")
    if folder is not None:
        picture(folder / "debiased_kmeans.png", everyone[:700], pool, fit.weights, depots, cost)
    return cost


def nearest(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the squared distance of each row to the nearest centre."""
    return ((rows[:, None, :] - centres) ** 2).sum(axis=2).min(axis=1)


def picture(
    path: Path,
    everyone: np.ndarray,
    pool: np.ndarray,
    weights: np.ndarray,
    depots: dict[str, np.ndarray],
    cost: dict[str, float],
) -> None:
    from matplotlib import pyplot as plt
    from PIL import Image

    from vardi.plots import AFTER, BEFORE

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharex=True, sharey=True, layout="constrained")
    panels = (
        (axes[0], pool, 6.0, "The pool: 900 rows of the app, 100 of the telephone"),
        (axes[1], everyone, 6.0, "700 customers of the population"),
    )
    for ax, rows, size, title in panels:
        ax.scatter(*rows.T, s=size, color="#b4bac1", lw=0)
        for name, colour, marker in (("pooled", BEFORE, "s"), ("debiased", AFTER, "o"), ("best", "black", "+")):
            edge = {"lw": 2} if marker == "+" else {"edgecolor": "white"}
            label = f"{name}: cost {cost[name]:.2f}"
            ax.scatter(*depots[name].T, s=110, marker=marker, color=colour, label=label, zorder=3, **edge)
        ax.set_title(title, fontsize=10)
        ax.set(xlabel="x0 (west to east)")
    axes[0].set_ylabel("x1")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, title="depots from")
    figure.savefig(path, dpi=100)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
