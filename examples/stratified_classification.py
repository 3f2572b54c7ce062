"""Binary classification under stratified sampling: labelled examples come from strata of the input space.

The paper's Example 2: sample k holds labelled examples with inputs in the stratum X_k only, so omega_k = 1{x in X_k}.
Here 1,800 rows come from the right (x0 >= 0) and 200 from the left (x0 <= 0.5). A linear classifier cannot follow the
true border, which is bent; which line is best depends on where the population lives. Fitted to the pooled rows it suits
the right, at the cost of the left.

    python examples/stratified_classification.py [FOLDER FOR THE FIGURE]
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import vardi

BIASES = {"right": "x0 >= 0", "left": "x0 <= 0.5"}


def border(x0: np.ndarray) -> np.ndarray:
    return 1.5 * np.tanh(3 * x0)


def population(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw (x0, x1, y): y tells whether x1 is above the border, up to noise."""
    x = rng.standard_normal((n, 2))
    return np.column_stack([x, x[:, 1] - border(x[:, 0]) + 0.3 * rng.standard_normal(n) > 0])


def draw(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the two samples, and 20,000 rows of the population to test on."""
    rng = np.random.default_rng(seed)
    right, left = population(rng, 8000), population(rng, 2000)
    samples = {"right": right[right[:, 0] >= 0][:1800], "left": left[left[:, 0] <= 0.5][:200]}
    return samples, population(rng, 20_000)


def main(folder: Path | None = None, seed: int = 0) -> dict[str, float]:
    samples, test = draw(seed)
    pool = np.concatenate(list(samples.values()))
    fit = vardi.debias(samples, BIASES)

    models = {
        "pooled": LogisticRegression().fit(pool[:, :2], pool[:, 2]),
        "debiased": LogisticRegression().fit(pool[:, :2], pool[:, 2], sample_weight=fit.weights),
        "best": LogisticRegression().fit(test[:, :2], test[:, 2]),  # of 20,000 rows without bias
    }
    errors = {name: float(np.mean(model.predict(test[:, :2]) != test[:, 2])) for name, model in models.items()}

    pooled_share = np.mean(pool[:, 0] >= 0)
    print(f"share with x0 >= 0     pooled {pooled_share:.3f}, debiased {fit.omegas['right']:.3f}, truth 0.500")
    print("error of a linear classifier in the population")
    for name, label in {"pooled": "pooled rows", "debiased": "debiased", "best": "20,000 rows without bias"}.items():
        print(f"  {label:<26} {errors[name]:.1%}")
    if folder is not None:
        picture(folder / "stratified_classification.png", pool, models, errors)
    return errors


def picture(path: Path, pool: np.ndarray, models: dict[str, LogisticRegression], errors: dict[str, float]) -> None:
    from matplotlib import pyplot as plt
    from PIL import Image

    from vardi.plots import AFTER, BEFORE

    figure, ax = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    shown = np.concatenate([pool[:1800:4], pool[1800:]])
    for value, marker, colour, label in ((1, "o", "#57606a", "y = 1"), (0, "x", "#c4cad0", "y = 0")):
        rows = shown[shown[:, 2] == value]
        ax.scatter(rows[:, 0], rows[:, 1], s=9, marker=marker, color=colour, lw=0.8, label=label)
    x = np.array([-3.2, 3.4])
    styles = {"pooled": (BEFORE, "-"), "debiased": (AFTER, "-"), "best": ("black", "--")}
    curve = np.linspace(*x, 200)
    ax.plot(curve, border(curve), ":", color="black", lw=1.4, label="the true border")
    for name, (colour, line) in styles.items():
        (a, b), c = models[name].coef_[0], models[name].intercept_[0]
        ax.plot(x, -(c + a * x) / b, line, color=colour, lw=2.2, label=f"{name}: {errors[name]:.1%} wrong")
    ax.set(
        xlim=x,
        ylim=(-3.3, 3.3),
        xlabel="x0",
        ylabel="x1",
        title="200 rows from the left, 1,800 from the right (450 shown)",
    )
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
