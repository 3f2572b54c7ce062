"""Regression with right-cut durations: studies that were stopped saw only what ended in time.

The paper's Example 3: study k was stopped at tau_k and holds the (x, T) with T <= tau_k, so omega_k = 1{T <= tau_k}.
Three studies, stopped after 2, 4 and 10 years (nothing lasts longer), give 600, 300 and 100 rows. The pooled rows make
durations look short, and the effect of x small.

    python examples/right_cut_durations.py [FOLDER FOR THE FIGURE]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

import vardi

STOPPED = {"short": (2.0, 600), "medium": (4.0, 300), "long": (10.0, 100)}  # the study's tau, and its rows


def population(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Draw x uniform on (0, 1), and T = 10 Beta(1 + 3 x, 3): the larger x, the longer it takes."""
    x = rng.random(n)
    return pd.DataFrame({"x": x, "time": 10 * rng.beta(1 + 3 * x, 3)})


def true_line() -> tuple[float, float]:
    """Return the slope and the mean of E[T | x] = 10 (1 + 3 x) / (4 + 3 x), by quadrature."""
    x = (np.arange(100_000) + 0.5) / 100_000
    mean = 10 * (1 + 3 * x) / (4 + 3 * x)
    return float(12 * np.mean((x - 0.5) * mean)), float(mean.mean())


def main(folder: Path | None = None, seed: int = 0) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    samples = {}
    for name, (tau, rows) in STOPPED.items():
        drawn = population(rng, 20 * rows)
        samples[name] = drawn[drawn["time"] <= tau].iloc[:rows].reset_index(drop=True)
    fit = vardi.debias(samples, {name: vardi.at_most("time", tau) for name, (tau, _) in STOPPED.items()})

    pool = pd.concat(samples.values())
    pooled = LinearRegression().fit(pool[["x"]], pool["time"])
    debiased = LinearRegression().fit(pool[["x"]], pool["time"], sample_weight=fit.weights)
    slope, mean = true_line()
    test = population(rng, 50_000)
    risk = {
        name: float(np.mean((test["time"] - model.predict(test[["x"]])) ** 2))
        for name, model in {"pooled": pooled, "debiased": debiased}.items()
    }
    least = float(np.mean((test["time"] - mean - slope * (test["x"] - 0.5)) ** 2))
    found = {
        "pooled slope": float(pooled.coef_[0]),
        "debiased slope": float(debiased.coef_[0]),
        "slope": slope,
        "pooled risk": risk["pooled"],
        "debiased risk": risk["debiased"],
        "least risk": least,
    }

    estimate = fit.expectation("time")
    print("                           pooled   debiased   truth")
    print(f"mean duration              {pool['time'].mean():6.2f} {estimate.value:10.2f} {mean:7.2f}")
    print(f"slope of duration on x     {found['pooled slope']:6.2f} {found['debiased slope']:10.2f} {slope:7.2f}")
    print(f"mean squared error         {risk['pooled']:6.2f} {risk['debiased']:10.2f} {least:7.2f}")
    print(f"\nmean duration with its error: {estimate}")
    if folder is not None:
        picture(folder / "right_cut_durations.png", fit, samples, pooled, debiased)
    return found


def picture(
    path: Path,
    fit: vardi.DebiasedSample,
    samples: dict[str, pd.DataFrame],
    pooled: LinearRegression,
    debiased: LinearRegression,
) -> None:
    from matplotlib import pyplot as plt
    from PIL import Image

    from vardi.plots import AFTER, BEFORE, CdfDisplay

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    shades = {"short": "#d0d7de", "medium": "#8c959f", "long": "#424a53"}
    for name, rows in samples.items():
        label = f"stopped at {STOPPED[name][0]:g}: {len(rows)} rows"
        left.scatter(rows["x"], rows["time"], s=8, color=shades[name], label=label)
    x = pd.DataFrame({"x": np.linspace(0, 1, 200)})
    left.plot(x["x"], pooled.predict(x), color=BEFORE, lw=2.2, label="least squares, pooled")
    left.plot(x["x"], debiased.predict(x), color=AFTER, lw=2.2, label="least squares, debiased")
    slope, mean = true_line()
    left.plot(x["x"], mean + slope * (x["x"] - 0.5), "--", color="black", lw=1.6, label="the population's line")
    left.set(xlabel="x", ylabel="duration", ylim=(0, 14.5), title="Duration by x")
    left.legend(fontsize=8, ncols=2, loc="upper left")
    CdfDisplay.from_fit(fit, "time", ax=right)
    right.set(title="Distribution of the durations", xlabel="duration")
    figure.savefig(path, dpi=100)
    plt.close(figure)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
