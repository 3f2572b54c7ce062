"""A run -> a picture: how time grows, and how far ahead of the bars the ratios are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import Report, Run, Target

COLOUR, PALE, MISSED = "#1f5fa8", "#9aa5b1", "#b3261e"


def draw(run: Run, path: Path) -> None:
    """Draw times against n and K, and every target over its bar, as one SVG (needs matplotlib).

    Bars apply to the sizes of the design: if these were not run, there is nothing to judge.
    """
    from matplotlib.figure import Figure

    targets = [(report.name, target) for report in run.reports for target in report.targets if run.judged]
    measured = [(name, target) for name, target in targets if target.bar and target.measured is not None]
    figure = Figure(figsize=(13, max(4.0, 1.4 + 0.24 * len(measured))), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    _growth(left, next((report for report in run.reports if report.name == "growth"), None))
    if measured:
        _ratios(right, measured)
    else:
        right.set_axis_off()
    figure.savefig(path, format="svg", metadata={"Date": None})


def _growth(axes: Any, report: Report | None) -> None:
    axes.set_title("Time of a dense solve", loc="left")
    axes.set_xlabel("rows times samples, n K")
    axes.set_ylabel("seconds")
    points = [(label, record.seconds) for record in report.records if (label := _size(record.work))] if report else []
    for colour, name, chosen in (
        (COLOUR, "K = 10, n grows", [(n * K, s) for (n, K), s in points if K == 10 and s]),
        (PALE, "n = 100,000, K grows", [(n * K, s) for (n, K), s in points if n == 100_000 and s]),
    ):
        if len(chosen) > 1:
            x, y = np.array(sorted(dict(chosen).items())).T
            slope = np.polyfit(np.log(x), np.log(y), 1)[0]
            axes.loglog(x, y, "o-", color=colour, label=f"{name}: slope {slope:.2f}")
    if axes.lines:
        axes.legend(frameon=False, loc="lower right", fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)


def _size(work: str) -> tuple[int, int] | None:
    """Return n and K of a label such as 'n = 1,000, K = 10'."""
    parts = dict(part.split(" = ") for part in work.split(", ") if " = " in part)
    try:
        return int(parts["n"].replace(",", "")), int(parts["K"])
    except (KeyError, ValueError):
        return None


def _ratios(axes: Any, measured: Sequence[tuple[str, Target]]) -> None:
    axes.set_title("Times better than the bar", loc="left")
    for place, (_, target) in enumerate(measured):
        assert target.bar is not None
        assert target.measured is not None
        ahead = target.measured / target.bar.level
        ahead = ahead if target.bar.higher_is_better else 1 / ahead
        colour = COLOUR if ahead >= 1 else MISSED
        axes.plot([1.0, ahead], [place, place], color=colour, linewidth=4, solid_capstyle="butt")
        axes.plot([ahead], [place], "o", color=colour)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(_locator(1.0, 2.0, 5.0))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.set_yticks(range(len(measured)), [f"{name}: {target.what}" for name, target in measured], fontsize=7)
    axes.set_ylim(len(measured) - 0.5, -0.5)
    axes.set_xlabel("left of 1: not reached")
    axes.spines[["top", "right"]].set_visible(False)


def _locator(*digits: float) -> Any:
    from matplotlib.ticker import LogLocator

    return LogLocator(subs=digits)
