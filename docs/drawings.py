"""The pictures of the pages, drawn by every build; ``python docs/drawings.py`` draws those that README.md shows.

For the report it needs Chromium and Playwright, which come with the extra ``test``.

Brown is the pooled sample as it is, blue the same rows with the debiased weights, black the population.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch
from PIL import Image
from scipy.stats import gaussian_kde, norm

import vardi
from vardi.plots import AFTER, BEFORE, SensitivityDisplay

SHADES = ("#0b5cad", "#9a6700", "#2f7d4f")
READABLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "vardi"}


def house_prices(path: Path) -> None:
    """Draw the prices of the pool, of the debiased sample, and of all 506 houses; and the three means."""
    design = vardi.datasets.house_prices(seed=0)
    fit = vardi.debias(design.samples, {"agency": "MEDV <= 22", "national": 1})
    pool = np.concatenate([rows["MEDV"] for rows in design.samples.values()])
    houses = vardi.datasets.boston()["MEDV"]
    estimate = fit.expectation("MEDV")
    x = np.linspace(0, 55, 300)
    with plt.rc_context(READABLE | {"font.size": 11}):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(10, 3.7), width_ratios=[1.7, 1], sharex=False, layout="constrained"
        )
        pooled = gaussian_kde(pool, 0.25)(x)
        left.fill_between(x, pooled, color=BEFORE, alpha=0.18, lw=0)
        left.plot(x, pooled, color=BEFORE, lw=2)
        left.plot(x, gaussian_kde(pool, 0.25, weights=fit.weights)(x), color=AFTER, lw=2.6)
        left.plot(x, gaussian_kde(houses, 0.25)(x), "--", color="black", lw=1.6)
        left.annotate("300 pooled rows", (23.6, 0.064), color=BEFORE, weight="bold")
        left.annotate("the same rows, debiased", (29.0, 0.026), color=AFTER, weight="bold")
        left.annotate("all 506 houses", (34.5, 0.0155), color="black")
        left.set(xlim=(0, 55), ylim=(0, None), yticks=[], xlabel="price (thousand dollars)")
        left.set_title("An agency gave 200 houses up to 22, a survey 100 at random", fontsize=11, loc="left")
        left.spines["left"].set_visible(False)
        errors = [1.96 * pool.std(ddof=1) / np.sqrt(len(pool)), 1.96 * estimate.stderr]
        for place, value, error, colour in ((2, pool.mean(), errors[0], BEFORE), (1, estimate.value, errors[1], AFTER)):
            right.errorbar(value, place, xerr=error, fmt="o", ms=9, lw=2.4, color=colour, capsize=5)
        right.axvline(houses.mean(), color="black", ls="--", lw=1.6)
        said = (f"pooled {pool.mean():.1f}", f"debiased {estimate.value:.1f} ± {estimate.stderr:.1f}")
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        right.text(pool.mean(), 2.2, said[0], color=BEFORE, weight="bold", ha="center")
        right.text(estimate.value, 1.2, said[1], color=AFTER, weight="bold", ha="center", bbox=box)
        right.text(houses.mean() + 0.15, 0.45, f"truth {houses.mean():.1f}", ha="left")
        right.set(ylim=(0.3, 2.6), xlim=(17, 27), yticks=[], xlabel="mean price, with 95% interval")
        right.spines["left"].set_visible(False)
        figure.savefig(path, dpi=150)
        plt.close(figure)
    _make_small(path)


def _make_small(path: Path) -> None:
    """Keep 96 colours of a picture: a third of the bytes."""
    Image.open(path).convert("RGB").quantize(96).save(path, optimize=True)


def report(folder: Path) -> None:
    """Take pictures of the demo's report down to its verdict, ``report.png`` and ``report-dark.png``."""
    from playwright.sync_api import sync_playwright

    with TemporaryDirectory() as place, sync_playwright() as driver:
        subprocess.run([sys.executable, "-m", "vardi", "demo", "--output", f"{place}/demo"], check=True)
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
            page = browser.new_page(viewport={"width": 1180, "height": 1000}, color_scheme=scheme)
            page.goto(Path(place, "demo", "report.html").as_uri())
            verdict = page.locator("#verdict").bounding_box()
            assert verdict is not None
            height = verdict["y"] + verdict["height"] + 18
            page.screenshot(path=folder / name, clip={"x": 40, "y": 0, "width": 1100, "height": height}, full_page=True)
            _make_small(folder / name)
        browser.close()


def overlap(path: Path) -> None:
    """Draw three designs: samples that can be compared, that share nothing, and that overlap one way."""
    cases = (
        ("Identified", ((-2.4, 0.4), (-0.6, 1.2), (0.5, 2.6)), {}),
        ("Not identified: two islands", ((-2.6, -1.1), (-1.6, -0.3), (0.6, 2.6)), {}),
        ("Not identified: one way only", ((-2.6, 2.6), (-1.9, -0.2), (1.2, 2.6)), {"A": (-1.9, 0.9)}),
    )
    x = np.linspace(-3, 3, 300)
    with plt.rc_context(READABLE):
        figure, axes = plt.subplots(
            2, 3, figsize=(10, 4.2), height_ratios=[1.7, 1], sharex="row", sharey="row", layout="constrained"
        )
        for (title, windows, drawn), above, below in zip(cases, axes[0], axes[1], strict=True):
            bounds = dict(zip("ABC", windows, strict=True))
            samples = {name: _rows_in(*drawn.get(name, ends), seed=ord(name)) for name, ends in bounds.items()}
            biases = {name: vardi.between("x", *ends) for name, ends in bounds.items()}
            verdict = vardi.identify(samples, biases)
            above.plot(x, norm.pdf(x), color="black", lw=1.4)
            for name, height, colour in zip("ABC", (-0.06, -0.135, -0.21), SHADES, strict=True):
                low, high = bounds[name]
                above.plot([low, high], [height] * 2, color=colour, lw=1.5, alpha=0.6)
                above.scatter(samples[name], np.full(len(samples[name]), height), s=16, color=colour, zorder=3)
                above.text(low - 0.12, height, name, color=colour, ha="right", va="center", weight="bold")
            above.set_title(title, fontsize=10.5, loc="left", weight="bold")
            above.set(yticks=[], ylim=(-0.27, 0.42), xticks=[])
            above.spines[["left", "bottom"]].set_visible(False)
            assert verdict.identified == (title == "Identified")
            _graph(below, np.argwhere(verdict.reach.toarray()))
        figure.savefig(path)
        plt.close(figure)


def _rows_in(low: float, high: float, seed: int) -> np.ndarray:
    u = np.random.default_rng(seed).uniform(norm.cdf(low), norm.cdf(high), 14)
    return np.asarray(norm.ppf(u))


def _graph(ax: Any, edges: np.ndarray) -> None:
    """Draw an arrow from each sample to those whose rows it could have drawn."""
    places = np.array([[-1.5, 0.0], [0.0, 0.0], [1.5, 0.0]])
    for k, l in edges:
        bend = 0.45 if abs(k - l) > 1 else 0.28
        arrow = FancyArrowPatch(
            places[k],
            places[l],
            connectionstyle=f"arc3,rad={-bend}",
            arrowstyle="-|>",
            mutation_scale=13,
            shrinkA=14,
            shrinkB=14,
            color="#57606a",
            lw=1.4,
        )
        ax.add_patch(arrow)
    for k, place in enumerate(places):
        ax.scatter(*place, s=480, color=SHADES[k], zorder=3)
        ax.text(*place, "ABC"[k], color="white", ha="center", va="center", weight="bold", zorder=4)
    ax.set(xlim=(-2.2, 2.2), ylim=(-0.9, 0.9))
    ax.axis("off")


def weights(path: Path) -> None:
    """Draw what weights do to a length-biased pool: the rows, the weight of a row, and the histogram after."""
    design = vardi.datasets.length_bias(seed=0)
    fit = vardi.debias(design.samples, design.biases)
    pool = np.concatenate(list(design.samples.values()))
    x = np.linspace(0.01, 13, 300)
    bins = np.arange(0, 14, 1.0)
    density = x**2 * np.exp(-x) / 2
    with plt.rc_context(READABLE):
        figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), sharex=True, layout="constrained")
        axes[0].hist(pool, bins, density=True, color=BEFORE, alpha=0.35)
        axes[0].set_title("The pool: long things are seen often", fontsize=10, loc="left")
        axes[1].plot(x, fit.weigh(x), color=AFTER, lw=2.2)
        axes[1].axhline(1.0, color="black", lw=1, ls=":")
        axes[1].set_title("The weight is a function of the row", fontsize=10, loc="left")
        axes[1].set(ylim=(0, None), ylabel="weight")
        axes[2].hist(pool, bins, density=True, weights=fit.weights, color=AFTER, alpha=0.35)
        axes[2].set_title("The same rows, weighed", fontsize=10, loc="left")
        for ax in (axes[0], axes[2]):
            ax.plot(x, density, "--", color="black", lw=1.5, label="the population")
            ax.set(yticks=[], ylim=(0, 0.3))
            ax.legend(frameon=False)
        for ax in axes:
            ax.set_xlabel("length")
        figure.savefig(path)
        plt.close(figure)


def effective_size(path: Path) -> None:
    """Draw how error and effective size depend on the width of an overlap."""
    widths = np.array([0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0])
    rng = np.random.default_rng(0)
    place, other = rng.random(400), rng.random(400)
    measured = []
    for width in widths:
        low, high = 0.5 + width / 2, 0.5 - width / 2
        with warnings.catch_warnings(action="ignore"):  # the warnings are what the picture is about
            fit = vardi.debias(
                {"low": place * low, "high": high + other * (1 - high)},
                {"low": f"x <= {low}", "high": f"x >= {high}"},
            )
            found = fit.diagnostics(["x"]).columns[0]
            measured.append((fit.trust.bridging, fit.effective_rows(), found.equivalent, found.stderr))
    bridging, kish, equivalent, _ = np.array(measured).T
    with plt.rc_context(READABLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
        left.plot(widths, kish, "-o", ms=4, color=BEFORE)
        left.plot(widths, equivalent, "-o", ms=4, color=AFTER)
        left.axhline(800, color="black", lw=1, ls=":")
        left.text(0.02, 815, "rows in the pool", fontsize=9)
        left.text(0.08, 630, "Kish: how unequal the weights are", color=BEFORE, weight="bold")
        left.text(0.34, 250, "equivalent rows, for the mean of x", color=AFTER, weight="bold")
        left.set(xlabel="width of the overlap", ylabel="rows", ylim=(0, 870))
        left.set_title("Two effective sizes of one pool", fontsize=10.5, loc="left")
        right.plot(widths, bridging, "-o", ms=4, color="#57606a")
        right.axhspan(0, 5, color="#cf222e", alpha=0.18, lw=0)
        right.axhspan(5, 15, color="#bf8700", alpha=0.18, lw=0)
        right.text(1.0, 2.9, "below 5: no error is given", va="center", ha="right", fontsize=9)
        right.text(1.0, 9.0, "below 15: a warning", va="center", ha="right", fontsize=9)
        right.set(xlabel="width of the overlap", ylabel="bridging rows", yscale="log", ylim=(2, 300))
        right.set_title("Rows that could as well be of the other sample", fontsize=10.5, loc="left")
        figure.savefig(path)
        plt.close(figure)


def sensitivity(path: Path) -> None:
    """Draw how far the mean price moves when the biases of both samples are wrong, and when the agency's alone is."""
    design = vardi.datasets.house_prices(seed=0)
    fit = vardi.debias(design.samples, design.biases)
    cases = {"Both biases may be wrong": None, "Only the agency's bias may be wrong": ["agency"]}
    with plt.rc_context(READABLE):
        figure, axes = plt.subplots(1, 2, figsize=(10, 3.7), sharey=True, layout="constrained")
        for ax, (title, samples) in zip(axes, cases.items(), strict=True):
            SensitivityDisplay.from_fit(fit, "MEDV", samples=samples, threshold=20, ax=ax)
            ax.set(title="", ylabel="mean price" if samples is None else "")
            ax.set_title(title, fontsize=10.5, loc="left")
            ax.legend(frameon=False, fontsize=9, loc="upper left")
        figure.savefig(path)
        plt.close(figure)


def draw_all(folder: Path) -> None:
    """Draw the pictures of the concept pages as SVG, and the figures of the paper that need no runs."""
    from paper.figures import FIGURES, save  # of the project's root, which is on the path of a build

    folder.mkdir(parents=True, exist_ok=True)
    for draw in (overlap, weights, effective_size, sensitivity):
        draw(folder / f"{draw.__name__}.svg")
    for stem, figure in FIGURES.items():
        if figure.needs is None:
            save(figure.draw(), folder, f"paper-{stem}")


if __name__ == "__main__":
    IMAGES = Path(__file__).parent / "images"
    house_prices(IMAGES / "house_prices.png")
    report(IMAGES)
