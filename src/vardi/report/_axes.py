"""Axes of charts: round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vardi._facts.numbers import number

DIGIT = 8.2  # width of a digit of a tick's text


@dataclass(frozen=True)
class Tick:
    """A place on an axis and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Frame:
    """The size of a chart, and where its axes end."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @classmethod
    def of(cls, width: float, height: float, y_texts: Sequence[str]) -> Frame:
        """Leave room for the texts and titles of the axes."""
        left = 30.0 + DIGIT * max(map(len, y_texts))
        return cls(width, height, left, width - 14.0, 12.0, height - 48.0)

    def up(self, part: float) -> float:
        """Return the y of a fraction of the height."""
        return round(self.bottom - (self.bottom - self.top) * part, 2)


@dataclass(frozen=True)
class Chart(Frame):
    """A chart with the ticks and titles of its axes."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_title: str
    y_title: str


def ticks(low: float, high: float, most: int = 6) -> tuple[tuple[float, str], ...]:
    """Return round numbers between two ends, with their texts.

    >>> ticks(0.0, 47.0)
    ((0.0, '0'), (10.0, '10'), (20.0, '20'), (30.0, '30'), (40.0, '40'))
    >>> ticks(-0.37, 0.42, 4)
    ((-0.2, '−0.2'), (0.0, '0'), (0.2, '0.2'), (0.4, '0.4'))
    """
    if not high > low:
        return ((low, number(low)),)
    rough = high / most - low / most  # the difference itself may be infinite
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return tuple((round(k * step, decimals + 2), _tick_text(k * step, decimals)) for k in places)


def _tick_text(value: float, decimals: int) -> str:
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-").replace("-", "−")
    return f"{value:,.{decimals}f}".replace("-", "−") if value else "0"
