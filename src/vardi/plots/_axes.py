"""What every picture has: axes to draw on, and colours with a meaning."""

from __future__ import annotations

from typing import Any

BEFORE, AFTER = "#9a6700", "#0b5cad"  # the pool, the population
LINK = "#8c959f"
THRESHOLD = "#cf222e"


def axes_of(ax: Any) -> tuple[Any, Any]:
    """Return the axes that were given, or new ones, and their figure."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("Plots need matplotlib: pip install 'vardi[plot]'") from error
        _, ax = pyplot.subplots(layout="constrained")
    return ax, ax.figure
