"""One look for all figures, the same bytes for the same figure, and files that appear whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper.files import write
from vardi.plots import AFTER, BEFORE

Parameters = ParamSpec("Parameters")

PAGE_WIDTH = 7.2  # inches
PNG_DPI = 150

# The pool is brown and the population blue in every picture of vardi; samples have further colours of Okabe and Ito's
# palette, which colour-blind readers can distinguish.
POOL, POPULATION, INK, MUTED, FAINT = BEFORE, AFTER, "#1f2328", "#6e7781", "#d0d7de"
SAMPLES = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7")

_LOOK: Any = {  # a mapping of rc parameters
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.minor.width": 0.5,
    "ytick.minor.width": 0.5,
    "grid.color": "#e6e9ed",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "vardi",
    "svg.fonttype": "path",
}


@contextmanager
def look() -> Iterator[None]:
    """Apply the look of these figures within the block, whatever the user's settings."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_LOOK)
        yield


def in_this_look(draw: Callable[Parameters, Figure]) -> Callable[Parameters, Figure]:
    """Make a function draw its figure in this look."""

    @wraps(draw)
    def drawn(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Figure:
        with look():
            return draw(*args, **kwargs)

    return drawn


def new_figure(height: float) -> Figure:
    """Return an empty figure as wide as a page, ``height`` inches high, without a window."""
    return Figure(figsize=(PAGE_WIDTH, height), layout="constrained")


def light_grid(ax: Axes, axis: Any = "y") -> None:
    """Draw thin lines behind the data in place of ticks."""
    ax.grid(visible=True, axis=axis)
    ax.tick_params(axis=axis, length=0)


def save(figure: Figure, folder: Path, stem: str) -> tuple[Path, Path]:
    """Write the figure as ``stem.svg`` and ``stem.png``, in place of earlier ones, and return both paths.

    The same figure gives the same bytes: no date is written, and the names inside the SVG are not random.
    """
    svg, png = folder / f"{stem}.svg", folder / f"{stem}.png"
    drawn, painted = BytesIO(), BytesIO()
    with look():
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        figure.savefig(painted, format="png", dpi=PNG_DPI)
    write(svg, drawn.getvalue())
    write(png, painted.getvalue())
    return svg, png
