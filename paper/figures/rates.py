"""Errors against the number of rows, and what a small overlap costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from paper.experiment import Cell
from paper.figures.style import INK, MUTED, in_this_look, light_grid, new_figure
from paper.rates import (
    EXCESS,
    EXPONENTS,
    KAPPAS,
    OMEGA,
    POOLED,
    POOLED_KAPPA,
    SIZES,
    SUP,
    UNBIASED,
    curves,
    scenario,
    slopes,
)

Floats = NDArray[np.float64]
Curves = Mapping[tuple[str, str], tuple[Floats, Floats]]

TITLES = {EXCESS: "Excess risk", SUP: "Sup distance of the cdf", OMEGA: "Error of log Ω"}
RATE_TEXT = {EXCESS: "$n^{-7/13}$", SUP: "$n^{-1/2}$", OMEGA: "$n^{-1/2}$"}
KAPPA_COLOURS = ("#9ecae1", "#5ba3d0", "#2f7ebc", "#0f5aa3", "#08306b")  # the smaller the overlap, the darker

CAPTION = (
    "Mean over runs of what the paper bounds by n to the −1/2, on log-log axes. X is uniform on (−1, 1); the rules are "
    "1{|x| > t}, and how far the left side counts against the right is known from the overlap of two strata only, an "
    "interval of mass κ. Top: against n, with the fitted slope of each line; dotted lines have the slope of the theory "
    "(−7/13 for the excess risk of this problem, whose minimum is so flat that it comes near the bound; −1/2 for the "
    "others). Debiased rows learn at the rate of unbiased rows; pooled rows without weights do not learn. Bottom: the "
    "factor in front of that rate grows as κ shrinks. Only numbers of rows at which every run was identifiable count."
)


@in_this_look
def rates(scores: Mapping[Cell, ArrayLike]) -> Figure:
    """Draw error against n for each overlap, and the factor in front of the rate against the overlap.

    Parameters
    ----------
    scores : mapping from Cell to array of float
        All runs' scores of the experiment ``rates``.
    """
    points, fitted = curves(scores), slopes(scores)
    figure = new_figure(6.2)
    axes = figure.subplots(2, 3, height_ratios=(1.75, 1.0))
    for (above, below), quantity in zip(axes.T, (EXCESS, SUP, OMEGA), strict=True):
        _against_n(above, quantity, points, fitted)
        _against_kappa(below, quantity, points)
    axes[0, 0].set_ylabel("mean over runs")
    return figure


def _against_n(ax: Axes, quantity: str, points: Curves, fitted: Mapping[tuple[str, str], float]) -> None:
    for name, style in _styles().items():
        if (name, quantity) in points:
            slope = f"{fitted[name, quantity]:z.2f}".replace("-", "−")
            ax.plot(*points[name, quantity], ms=2.6, **style | {"label": f"{style['label']}  {slope}"})
    _reference(ax, quantity, points)
    ax.set(xscale="log", yscale="log", xlabel="rows $n$", title=TITLES[quantity])
    ticks = SIZES[1::2]
    ax.set_xticks(ticks, [f"$2^{{{int(np.log2(n))}}}$" for n in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    light_grid(ax, "both")
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(-0.08, -0.2),
        fontsize=7,
        title="with fitted slopes",
        title_fontsize=7,
        alignment="left",
        labelspacing=0.25,
        handlelength=2.2,
    )


def _against_kappa(ax: Axes, quantity: str, points: Curves) -> None:
    """Draw the geometric mean over n of the mean score over the rate."""
    found = {kappa: points[scenario(kappa), quantity] for kappa in KAPPAS if (scenario(kappa), quantity) in points}
    factors = {kappa: _factor(*curve, quantity) for kappa, curve in found.items() if len(curve[0])}
    ax.plot(list(factors), list(factors.values()), color=MUTED, lw=1.0, zorder=1)
    for (kappa, factor), colour in zip(factors.items(), KAPPA_COLOURS, strict=False):
        ax.plot(kappa, factor, "o", color=colour, ms=5, zorder=2)
    if (UNBIASED, quantity) in points:
        level = _factor(*points[UNBIASED, quantity], quantity)
        ax.axhline(level, color=INK, lw=1.2)
        ax.text(KAPPAS[-1], 1.02 * level, "unbiased rows", ha="left", va="bottom", fontsize=7)
    power = RATE_TEXT[quantity].strip("$").replace("-", "")
    ax.set(xscale="log", yscale="log", xlabel="overlap κ", ylabel=f"error × ${power}$")
    ax.set_xticks(KAPPAS, [f"{kappa:g}" for kappa in KAPPAS])
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    ax.margins(y=0.12)
    light_grid(ax, "both")


def _reference(ax: Axes, quantity: str, points: Curves) -> None:
    """Draw a line with the slope of the theory below the others."""
    n = np.array([SIZES[0], SIZES[-1]], np.float64)
    lowest = min(
        float((means * sizes ** -EXPONENTS[quantity]).min())
        for (name, of), (sizes, means) in points.items()
        if of == quantity and name != POOLED and len(sizes)
    )
    line = 0.72 * lowest * n ** EXPONENTS[quantity]
    ax.plot(n, line, color=MUTED, lw=1.0, ls=":")
    ax.text(n[0], 0.5 * line[0], RATE_TEXT[quantity], color=MUTED, va="top", ha="left", fontsize=8)


def _factor(n: Floats, means: Floats, quantity: str) -> float:
    return float(np.exp(np.mean(np.log(means) - EXPONENTS[quantity] * np.log(n))))


def _styles() -> dict[str, dict[str, Any]]:
    lines: dict[str, dict[str, Any]] = {UNBIASED: {"color": INK, "marker": "s", "lw": 1.6, "label": "unbiased rows"}}
    for kappa, colour in zip(KAPPAS, KAPPA_COLOURS, strict=True):
        lines[scenario(kappa)] = {"color": colour, "marker": "o", "lw": 1.3, "label": f"κ = {kappa:g}"}
    lines[POOLED] = {"color": "#9a6700", "ls": "--", "lw": 1.3, "label": f"κ = {POOLED_KAPPA:g}, no weights"}
    return lines
