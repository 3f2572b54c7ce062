"""What every picture needs: axes to draw on, colours with a meaning, and names that fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from vardi.errors._texts import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vardi._types import Floats


@dataclass(frozen=True)
class Palette:
    """A colour for each meaning: the pool, the population, links and threads, a threshold, and plain ink."""

    before: str
    after: str
    link: str
    threshold: str
    ink: str


LIGHT = Palette("#9a6700", "#0b5cad", "#8c959f", "#cf222e", "black")
DARK = Palette("#e3b341", "#58a6ff", "#8c959f", "#ff7b72", "white")
BEFORE, AFTER = LIGHT.before, LIGHT.after
LINE = 0.15
"""Inches that a line of small text takes."""


class Display(ABC):
    """A picture: what it shows, and once it is drawn its axes ``ax_`` and their figure ``figure_``."""

    @property
    def size(self) -> tuple[float, float] | None:
        """Width and height of a new figure in inches; None for the usual ones."""
        return None

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise ImportError("Plots need matplotlib: pip install 'vardi[plot]'") from error
            _, ax = pyplot.subplots(layout="constrained", figsize=self.size)
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax, DARK if is_dark(ax) else LIGHT)
        return self

    @abstractmethod
    def _draw(self, ax: Axes, colours: Palette) -> None:
        """Draw on axes, in colours that are visible on their background."""


def is_dark(ax: Axes) -> bool:
    """Return whether the background of axes is dark."""
    return brightness(background_of(ax)) < 0.5


def background_of(ax: Axes) -> tuple[float, ...]:
    """Return the colour behind axes: their own, or that of their figure if they are transparent."""
    from matplotlib.colors import to_rgba

    faces = [to_rgba(ax.get_facecolor()), to_rgba(ax.figure.get_facecolor())]
    return next((face for face in faces if face[3] > 0), (1.0, 1.0, 1.0, 1.0))


def brightness(colour: Sequence[float] | Floats) -> float:
    """Return how bright a colour is, from 0 to 1."""
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


def shortened(name: object) -> str:
    """Return a name that fits along an axis.

    >>> shortened("survey of the northern region 12"), shortened("agency")
    ('survey of t… region 12', 'agency')
    """
    return cut(name, 22)


def spread(count: int, inches: float) -> range:
    """Return which of the names, evenly spread, fit along a line of the given inches: all of them if they can.

    >>> list(spread(4, 5.0)), list(spread(60, 3.0))
    ([0, 1, 2, 3], [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 48, 51, 54, 57])
    """
    room = max(int(inches / LINE), 1)
    return range(0, count, -(-count // room) or 1)


def inches_of(ax: Axes) -> tuple[float, float]:
    """Return the width and the height of axes."""
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def labels(names: Sequence[object], inches: float) -> tuple[range, list[str]]:
    """Return which of the names fit along an axis of the given inches, and how they are written there."""
    places = spread(len(names), inches)
    return places, [shortened(names[place]) for place in places]
