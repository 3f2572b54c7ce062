"""Axes of charts: round numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vardi._facts.numbers import number


@dataclass(frozen=True)
class Tick:
    """A place on an axis and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Scale:
    """Map values to an axis, through their halves, since a difference of two values may overflow."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        half_span = self.high / 2 - self.low / 2 or 1.0
        return self.start + (self.end - self.start) * ((value / 2 - self.low / 2) / half_span)

    def ticks(self, digits: int = 1) -> tuple[Tick, ...]:
        """Return round numbers along the axis."""
        return tuple(Tick(round(self(at), digits), text) for at, text in ticks(self.low, self.high, 5))


@dataclass(frozen=True)
class Axes:
    """The size of a chart, where its axes end, the marks of the upright one, and the value at its top."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    marks: tuple[tuple[float, str], ...]
    highest: float

    @classmethod
    def of(
        cls, highest: float, marks: tuple[tuple[float, str], ...], width: float = 480.0, height: float = 262.0
    ) -> Axes:
        """Leave room for the texts of the marks and for the titles of the axes."""
        left = 32.0 + 9.4 * max(len(text) for _, text in marks)  # the width of a digit on a phone
        return cls(width, height, left, width - 14.0, 12.0, height - 48.0, marks, max(highest, marks[-1][0]) or 1.0)

    def up(self, value: float) -> float:
        """Return the y of a value."""
        return round(self.bottom - (self.bottom - self.top) * (value / self.highest), 2)

    @property
    def y_ticks(self) -> tuple[Tick, ...]:
        """The marks of the upright axis in their places."""
        return tuple(Tick(self.up(at), text) for at, text in self.marks)


@dataclass(frozen=True)
class Chart(Axes):
    """A chart with the ticks of its horizontal axis, and the titles of both."""

    x_ticks: tuple[Tick, ...]
    x_title: str
    y_title: str


def percents(highest: float, most: int) -> tuple[tuple[float, str], ...]:
    """Return round shares up to the highest, with their texts.

    >>> percents(0.47, 3)
    ((0.0, '0%'), (0.2, '20%'), (0.4, '40%'))
    """
    return tuple((at / 100.0, f"{text}%") for at, text in ticks(0.0, 100.0 * highest, most))


def ticks(low: float, high: float, most: int = 6) -> tuple[tuple[float, str], ...]:
    """Return round numbers between two ends, with their texts.

    >>> ticks(0.0, 47.0)
    ((0.0, '0'), (10.0, '10'), (20.0, '20'), (30.0, '30'), (40.0, '40'))
    >>> ticks(-0.37, 0.42, 4)
    ((-0.2, '−0.2'), (0.0, '0'), (0.2, '0.2'), (0.4, '0.4'))
    >>> [text for _, text in ticks(780_000.0, 1_260_000.0, 5)]
    ['0.8M', '0.9M', '1.0M', '1.1M', '1.2M']
    """
    if not high > low:
        return ((low, number(low)),)
    rough = high / most - low / most  # the difference itself may be infinite
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    largest = max(abs(low), abs(high))
    return tuple((round(k * step, decimals + 2), _tick_text(k * step, step, largest)) for k in places)


def _tick_text(value: float, step: float, largest: float) -> str:
    """Return a number as all of its axis are written: in millions, or with powers of ten, where they are long."""
    if not value:
        return "0"
    millions = 1e6 <= largest < 1e9
    if not millions and not 1e-4 <= largest < 1e6:
        digits, power = f"{value:.3g}".partition("e")[::2]
        return (f"{digits}e{int(power)}" if power else digits).replace("-", "−")
    unit = 1e6 if millions else 1.0
    decimals = max(0, -math.floor(math.log10(step / unit) + 1e-9))
    return f"{value / unit:,.{decimals}f}{'M' if millions else ''}".replace("-", "−")
