"""Label shift: the classes have other shares in the training samples than in the population.

The paper's Appendix B: in sample k class y has the share p_ky instead of p_y, and within classes nothing is biased.
Then omega_k = p_ky / p_y, all normalisers are 1, and with p_ky estimated by the shares in the sample the weights need
no system: 1 / sum_k (n_k / n) p_ky / p_y. vardi gives the same numbers. Three clinics here: healthy people are 85% of
the population, but clinics see the ill, and one of them sees no healthy people at all.

    python examples/label_shift.py [FOLDER FOR THE FIGURE]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import vardi

SHARES = {"healthy": 0.85, "mild": 0.10, "severe": 0.05}
CLINICS = {  # rows, and the shares that they are drawn with
    "town": (300, {"healthy": 0.5, "mild": 0.4, "severe": 0.1}),
    "university": (500, {"healthy": 0.1, "mild": 0.3, "severe": 0.6}),
    "ward": (200, {"healthy": 0.0, "mild": 0.5, "severe": 0.5}),
}
CENTRES = {"healthy": (0.0, 0.0), "mild": (2.0, 0.5), "severe": (1.2, 2.4)}


def draw(rng: np.random.Generator, n: int, shares: dict[str, float]) -> pd.DataFrame:
    """Draw classes by their shares, and two measurements from each class's Gaussian."""
    state = rng.choice(list(shares), size=n, p=list(shares.values()))
    x = np.array([CENTRES[name] for name in state]) + rng.standard_normal((n, 2))
    return pd.DataFrame({"marker": x[:, 0], "pressure": x[:, 1], "state": state})


def main(folder: Path | None = None, seed: int = 0) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    samples = {name: draw(rng, rows, shares) for name, (rows, shares) in CLINICS.items()}
    test = draw(rng, 20_000, SHARES)
    pool = pd.concat(samples.values(), ignore_index=True)

    seen = {name: {c: float((rows["state"] == c).mean()) for c in SHARES} for name, rows in samples.items()}
    biases = {name: vardi.class_shift("state", shares, population=SHARES) for name, shares in seen.items()}
    fit = vardi.debias(samples, biases)
    closed = sum(len(samples[k]) / len(pool) * pool["state"].map(seen[k]) / pool["state"].map(SHARES) for k in samples)

    features = ["marker", "pressure"]
    pooled = LogisticRegression().fit(pool[features], pool["state"])
    debiased = LogisticRegression().fit(pool[features], pool["state"], sample_weight=fit.weights)
    best = LogisticRegression().fit(test[features], test["state"])
    found = {
        name: float((model.predict(test[features]) != test["state"]).mean())
        for name, model in {"pooled": pooled, "debiased": debiased, "best": best}.items()
    }
    found["off"] = float(np.abs(fit.weights.to_numpy() * closed - 1).max())

    print("share of        healthy    mild  severe")
    print("  pool       " + "".join(f"{(pool['state'] == c).mean():9.1%}" for c in SHARES))
    print("  debiased   " + "".join(f"{np.average(pool['state'] == c, weights=fit.weights):9.1%}" for c in SHARES))
    print("  truth      " + "".join(f"{SHARES[c]:9.1%}" for c in SHARES))
    print(f"normalisers {', '.join(f'{omega:.12f}' for omega in fit.omegas.values())}")
    print(f"weights agree with the closed form to {found['off']:.0e}")
    print("error in the population")
    print(f"  pooled rows {found['pooled']:.1%}, debiased {found['debiased']:.1%}, best {found['best']:.1%}")
    if folder is not None:
        picture(folder / "label_shift.png", test.iloc[:600], pooled, debiased, found)
    return found


def picture(
    path: Path, rows: pd.DataFrame, pooled: LogisticRegression, debiased: LogisticRegression, found: dict[str, float]
) -> None:
    from matplotlib import pyplot as plt
    from PIL import Image

    from vardi.plots import AFTER, BEFORE

    x, y = np.meshgrid(np.linspace(-3, 5, 400), np.linspace(-3, 5.5, 400))
    grid = pd.DataFrame({"marker": x.ravel(), "pressure": y.ravel()})
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), sharey=True, layout="constrained")
    marks = {"healthy": ("o", "#c4cad0"), "mild": ("^", "#57606a"), "severe": ("s", "#1f2328")}
    for ax, model, colour, name in ((axes[0], pooled, BEFORE, "pooled"), (axes[1], debiased, AFTER, "debiased")):
        for state, (marker, shade) in marks.items():
            those = rows[rows["state"] == state]
            ax.scatter(those["marker"], those["pressure"], s=13, marker=marker, color=shade, lw=0, label=state)
        classes = np.searchsorted(model.classes_, model.predict(grid)).reshape(x.shape)
        for level in range(3):
            ax.contour(x, y, classes == level, levels=[0.5], colors=colour, linewidths=2)
        for state, place in (("healthy", (-2.7, -2.7)), ("mild", (3.6, -1.6)), ("severe", (3.0, 4.8))):
            ax.text(*place, state, color=colour, weight="bold")
        ax.set(xlabel="marker", xlim=(-3, 5), ylim=(-3, 5.5), title=f"{name}: {found[name]:.1%} wrong")
    axes[0].set_ylabel("pressure")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle("600 people of the population, and what each model would call them", fontsize=11)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
