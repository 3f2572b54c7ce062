"""House prices: what the agency never sells, and the effect of weights on its rows."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from paper.figures.style import FAINT, INK, MUTED, POOL, POPULATION, in_this_look, light_grid, new_figure
from vardi import datasets, debias

CHEAP = 22  # the agency sells up to here
SEED = 0

CAPTION = (
    "Left: median house prices of the 506 census tracts of Boston; the agency's sample is drawn from the brown part, "
    "at most 22 thousand dollars. Right: one draw of 200 rows of the agency and 100 of the national sample. Pooled "
    "they make houses look cheap; debiased, the same 300 rows follow the distribution of all tracts."
)


@in_this_look
def boston_prices() -> Figure:
    """Draw the histogram of prices with the cheap part marked, and the cdf of a pool before and after debiasing."""
    prices = datasets.boston("numpy")["MEDV"]
    figure = new_figure(2.9)
    histogram, cdf = figure.subplots(1, 2)
    _histogram(histogram, prices)
    _cdf(cdf, prices)
    return figure


def _histogram(ax: Axes, prices: NDArray[np.float64]) -> None:
    edges = np.arange(5.0, 51.0)  # bins hold their right end, so that a price of 22 is on the agency's side
    heights = np.histogram(-prices, -edges[::-1])[0][::-1]
    colours = [POOL if edge < CHEAP else FAINT for edge in edges[:-1]]
    ax.bar(edges[:-1], heights, width=0.9, align="edge", color=colours)
    share = float((prices <= CHEAP).mean())
    ax.text(4.6, heights.max() * 1.02, f"at most {CHEAP}: {share:.0%} of tracts", color=POOL, weight="bold", fontsize=8)
    ax.annotate("capped at 50", (49.5, heights[-1]), (49.9, heights[-1] + 3.5), ha="right", color=MUTED, fontsize=7.5)
    ax.set(title="All 506 tracts", xlabel="median price (1,000 dollars)", ylabel="tracts", xlim=(4, 51))
    ax.set_ylim(0, heights.max() * 1.12)
    light_grid(ax)


def _cdf(ax: Axes, prices: NDArray[np.float64]) -> None:
    design = datasets.house_prices(seed=SEED, backend="numpy")
    fit = debias(design.samples, design.biases)
    pool = np.concatenate([rows["MEDV"] for rows in design.samples.values()])
    lines = (
        ("pooled", pool, np.ones(len(pool)), POOL, "-"),
        ("debiased", pool, fit.weights, POPULATION, "-"),
        ("all 506 tracts", prices, np.ones(len(prices)), INK, (0, (4, 2))),
    )
    for label, values, weights, colour, style in lines:
        order = np.argsort(values)
        shares = np.cumsum(weights[order]) / weights.sum()
        mean = float(values @ weights / weights.sum())
        width = 1.1 if label.startswith("all") else 1.8
        ax.step(
            values[order],
            100 * shares,
            where="post",
            color=colour,
            ls=style,
            lw=width,
            label=f"{label}: mean {mean:.1f}",
        )
    ax.axvline(CHEAP, color=FAINT, lw=0.8, zorder=0)
    ax.set(
        title="One draw of 300 rows",
        xlabel="median price (1,000 dollars)",
        ylabel="rows at this price or below (%)",
        xlim=(4, 51),
    )
    ax.set_ylim(0, 101)
    ax.legend(loc="lower right")
    light_grid(ax)
