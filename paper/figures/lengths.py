"""Length bias in several dimensions: errors and coverage over runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from paper.experiment import Cell
from paper.figures.style import INK, MUTED, POOL, POPULATION, in_this_look, light_grid, new_figure
from paper.lengths import BIASED_ROWS, DIMENSIONS, METHODS, UNBIASED_ROWS, cell, truths

COLOURS = dict(zip(METHODS, (POOL, MUTED, POPULATION), strict=True))
MARKERS = dict(zip(METHODS, ("o", "s", "D"), strict=True))
STEP = 0.24  # between the methods of one quantity

CAPTION = (
    f"Length bias in two and three dimensions (Example 1): {UNBIASED_ROWS} rows without bias, and for each coordinate "
    f"{BIASED_ROWS} rows drawn in proportion to it. Marks are the mean over runs of the error relative to the truth, "
    "bars hold 90% of the runs; on the right, how often the interval of nominal 95% covered the truth. The pool is "
    "biased upwards and its intervals miss; debiased errors centre on 0 and spread less than those of the unbiased "
    "rows alone."
)


@in_this_look
def lengths(scores: Mapping[Cell, ArrayLike]) -> Figure:
    """Draw the relative errors of each method over runs, with the coverage of its intervals beside.

    Parameters
    ----------
    scores : mapping from Cell to array of float
        All runs' scores of the experiment ``lengths``.
    """
    figure = new_figure(4.2)
    heights = [len(truths(dimensions)) for dimensions in DIMENSIONS]
    axes = figure.subplots(len(DIMENSIONS), 1, sharex=True, height_ratios=heights)
    for ax, dimensions in zip(axes, DIMENSIONS, strict=True):
        _panel(ax, dimensions, scores)
    axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, handletextpad=0.3, columnspacing=1.2)
    axes[-1].set_xlabel("error of the estimate (% of the truth)")
    return figure


def _panel(ax: Axes, dimensions: int, scores: Mapping[Cell, ArrayLike]) -> None:
    quantities = truths(dimensions)
    for place, (model, truth) in enumerate(quantities.items()):
        for shift, method in enumerate(METHODS):
            height = -place - (shift - 1) * STEP
            errors = 100.0 * np.asarray(scores[cell(dimensions, model, f"error, {method}")]) / truth
            coverage = float(np.mean(np.asarray(scores[cell(dimensions, model, f"coverage, {method}")], np.float64)))
            low, mean, high = np.quantile(errors, 0.05), errors.mean(), np.quantile(errors, 0.95)
            ax.plot([low, high], [height, height], color=COLOURS[method], lw=1.4, alpha=0.6)
            label = method if place == 0 else None
            ax.plot(mean, height, MARKERS[method], color=COLOURS[method], ms=5, ls="none", label=label)
            ax.text(
                1.01,
                height,
                f"{coverage:.0%}",
                transform=ax.get_yaxis_transform(),
                va="center",
                fontsize=7.5,
                color=COLOURS[method],
            )
    ax.axvline(0.0, color=INK, lw=0.9)
    ax.text(1.01, 0.62, "covered", transform=ax.get_yaxis_transform(), va="center", fontsize=7.5, color=INK)
    ax.set_yticks([-place for place in range(len(quantities))], list(quantities))
    ax.set(title=f"d = {dimensions}", ylim=(0.55 - len(quantities), 0.55))
    light_grid(ax, "x")
    ax.tick_params(axis="y", length=0)
