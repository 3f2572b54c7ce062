"""Scales, axes and paths of charts: templates write them as SVG, and place every mark by the scales."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from vardi._facts.account import SampleFacts
from vardi._facts.columns import ColumnFacts
from vardi._facts.distributions import Distribution, Weights
from vardi._facts.numbers import interval, number
from vardi.errors._texts import count

Marks = tuple[tuple[float, str], ...]
"""Round numbers along an axis, with their texts."""


@dataclass(frozen=True)
class Scale:
    """Map values to places, through their halves, since a difference of two values may overflow."""

    low: float
    high: float
    start: float
    end: float
    marks: Marks = ()

    def __call__(self, value: float) -> float:
        half_span = self.high / 2 - self.low / 2 or 1.0
        return round(self.start + (self.end - self.start) * ((value / 2 - self.low / 2) / half_span), 2)


@dataclass(frozen=True)
class Chart:
    """The size of a chart in pixels of a wide screen, the scales of its axes, and their titles."""

    x: Scale
    y: Scale
    x_title: str
    y_title: str
    width: float
    height: float

    @classmethod
    def of(
        cls,
        across: tuple[float, float, Marks],
        up: tuple[float, Marks],
        titles: tuple[str, str],
        width: float = 480.0,
        height: float = 262.0,
    ) -> Chart:
        """Return a chart of values between two ends, and from 0 up; there is room for the texts of its marks."""
        low, high, x_marks = across
        highest, y_marks = up
        left = round(32.0 + 9.4 * max(len(text) for _, text in y_marks), 1)  # the width of a digit on a phone
        x = Scale(low, high, left, width - 14.0, x_marks)
        y = Scale(0.0, max(highest, y_marks[-1][0]) or 1.0, height - 48.0, 12.0, y_marks)
        return cls(x, y, *titles, width, height)


def histogram(weights: Weights) -> tuple[Chart, float | None]:
    """Return the chart of rows by weight, a step for each bar, and the place of a weight of 1 if a line marks it."""
    bars, n = weights.bars, len(weights.bars)
    most, one = max(sum(bar.rows) for bar in bars), None
    if weights.is_discrete:
        every = math.ceil(n / 8)  # or their texts would touch
        marks = tuple((k + 0.5, _weight(bars[k].low)) for k in range(0, n, every))
        title = "weight"
    else:
        low, high = math.log10(bars[0].low), math.log10(bars[-1].high)
        step = Scale(low, high, 0.0, n)
        marks = tuple((step(place), _weight(10**place)) for place in _decades(low, high))
        one = step(0.0) if low < 0 < high else None
        title = "weight (log scale)"
    return Chart.of((0.0, n, marks), (most, ticks(0.0, most, 5)), (title, "rows")), one


def _decades(low: float, high: float) -> list[float]:
    """Return round places of a log scale."""
    if high - low < 0.9:
        places = [math.log10(at) for at, _ in ticks(10**low, 10**high, 5)]
    else:
        decades = range(math.floor(low), math.ceil(high) + 1)
        steps_of_decade = (1, 2, 5) if high - low < 2.5 else (1,)
        places = [math.log10(m * 10.0**d) for d in decades for m in steps_of_decade]
        places = places[:: max(1, math.ceil(len(places) / 12))]
    return [place for place in places if low - 1e-9 <= place <= high + 1e-9]


def _weight(value: float) -> str:
    if 1e-4 <= value < 1000:
        return f"{value:.3g}"
    return number(float(f"{value:.3g}")) if 1000 <= value < 1e9 else f"{value:.0e}".replace("-", "−")


def shares_of_samples(samples: Sequence[SampleFacts]) -> Chart:
    """Return the chart of the shares of rows and of weight of very many samples, a step for each."""
    most = max(max(one.share, one.weight_share) for one in samples)
    titles = f"{count(len(samples))} samples, neighbours side by side", "share"
    return Chart.of((0.0, len(samples), ()), (most, percents(most, 4)), titles, width=1000.0, height=230.0)


def share_scale(facts: Iterable[object], *names: str) -> Scale:
    """Return one scale for shares, in per cent of the width of a column: those that facts have under some names."""
    shares = [getattr(one, name) for one in facts for name in names]
    longest = max(filter(math.isfinite, shares), default=1.0) or 1.0
    marks = percents(longest, 4)
    return Scale(0.0, max(longest, marks[-1][0]), 0.0, 96.0, marks)  # the last text needs some room


def shift_scale(variables: Sequence[ColumnFacts]) -> Scale:
    """Return one scale of standard deviations for all changes, those of the pool at zero."""
    return _around([end for one in variables if one.spread for end in (one.shift, *shift_ends(one))])


def shift_ends(variable: ColumnFacts) -> tuple[float, float]:
    """Return the interval of a mean in standard deviations from the pool."""
    half = (variable.high / 2.0 - variable.low / 2.0) / variable.spread
    return variable.shift - half, variable.shift + half


def reach_scale(variables: Sequence[ColumnFacts], factors: Sequence[float]) -> Scale:
    """Return one scale of standard deviations for what wrong biases do to means, those of the pool at zero."""
    return _around([end for one in variables for factor in factors for end in reach_ends(one, factor)])


def reach_ends(variable: ColumnFacts, factor: float, far: float = 3.0) -> list[float]:
    """Return the range of a mean if biases are wrong, in standard deviations from the pool, and cut far off."""
    low, high = variable.shift - far, variable.shift + far
    ends = ((end - variable.pooled) / variable.spread for end in variable.if_wrong_by(factor))
    return [min(max(end, low), high) for end in ends]


def reach_text(variable: ColumnFacts, factor: float, far: float = 3.0) -> str:
    """Return the range of a mean if biases are wrong by up to a factor; first order, so not given far off."""
    if not math.log(factor) * variable.slope <= far * variable.spread:
        return f"beyond {far:g} standard deviations"
    low, high = variable.if_wrong_by(factor)
    scale = variable.stderr if variable.stderr > 0 else variable.spread / 100.0
    return interval(low, high, scale, percent=variable.is_share)


def _around(ends: Sequence[float]) -> Scale:
    """Return a scale around zero and these ends, in per cent of the width of a column."""
    inside = [end for end in ends if math.isfinite(end)]
    low, high = min([-0.1, *inside]), max([0.1, *inside])
    margin = 0.06 * (high - low)
    return Scale(low - margin, high + margin, 0.0, 100.0, ticks(low - margin, high + margin, 5))


class Strip(NamedTuple):
    """A strip of a chart that shows a tooltip, with the two points that it describes."""

    ends: tuple[float, float]
    at: float
    before: float
    after: float
    what: str
    band: tuple[float, float] | None = None


@dataclass(frozen=True)
class Curves:
    """Two distribution functions and a band, or two histograms, as paths."""

    chart: Chart
    before: str
    after: str
    band: str
    strips: tuple[Strip, ...]


def steps(distribution: Distribution, most: int = 48) -> Curves:
    """Draw distribution functions as steps, with no more than so many tooltips."""
    name, x, before, after = distribution.name, distribution.x, distribution.pooled, distribution.debiased
    up = (1.0, tuple((k / 4, f"{25 * k}%") for k in range(5)))
    chart = Chart.of((x[0], x[-1], ticks(x[0], x[-1], 5)), up, (name, "share at or below"))
    ends_of_band = enumerate(zip(distribution.low, distribution.high, strict=True))
    band = {k: (low, high) for k, (low, high) in ends_of_band if low is not None and high is not None}
    chosen = sorted({round(k * (len(x) - 1) / (most - 1)) for k in range(most)})
    ends = pairwise([x[0], *(x[a] / 2 + x[b] / 2 for a, b in pairwise(chosen)), x[-1]])
    strips = tuple(
        Strip(strip, x[k], before[k], after[k], f"{name} ≤ {number(x[k])}", band.get(k))
        for k, strip in zip(chosen, ends, strict=True)
    )
    of_pool, of_population = (_path(chart, zip(x, heights, strict=True)) for heights in (before, after))
    return Curves(chart, of_pool, of_population, _band_path(chart, x, band), strips)


def bins(distribution: Distribution) -> Curves:
    """Draw two histograms: that of the population filled, that of the pool as a line."""
    name, edges = distribution.name, distribution.bins.edges
    pooled, debiased = distribution.bins.pooled, distribution.bins.debiased
    low, high, highest = edges[0], edges[-1], max(*pooled, *debiased)
    chart = Chart.of((low, high, ticks(low, high, 5)), (highest, percents(highest, 5)), (name, "share of rows"))
    strips = tuple(
        Strip((a, b), a / 2 + b / 2, before, after, f"{name} from {number(a)} to {number(b)}")
        for (a, b), before, after in zip(pairwise(edges), pooled, debiased, strict=True)
    )
    ends = (low, 0.0), (high, 0.0)
    of_pool, of_population = (
        _path(chart, [ends[0], *zip(edges, own, strict=False), ends[1]]) for own in (pooled, debiased)
    )
    return Curves(chart, of_pool, of_population, "", strips)


def _path(chart: Chart, points: Iterable[tuple[float, float]]) -> str:
    """Return a path that holds each height until the next point."""
    first, *others = [(chart.x(x), chart.y(y)) for x, y in points]
    return "".join([f"M{first[0]:.1f} {first[1]:.1f}", *(f"H{x:.1f}V{y:.1f}" for x, y in others)])


def _band_path(chart: Chart, x: Sequence[float], band: dict[int, tuple[float, float]]) -> str:
    """Return the outline of a band: its upper end from each point on is that at the next, so far may functions rise."""
    places = list(band)
    if len(places) < 2:
        return ""
    highs = _path(chart, [(x[k], band[after][1]) for k, after in zip(places, [*places[1:], places[-1]], strict=True)])
    (last_x, last_y), *lows = [(chart.x(x[k]), chart.y(band[k][0])) for k in reversed(places)]
    return "".join([highs, f"L{last_x:.1f} {last_y:.1f}", *(f"V{y:.1f}H{at:.1f}" for at, y in lows), "Z"])


def percents(highest: float, most: int) -> Marks:
    """Return round shares up to the highest, with their texts.

    >>> percents(0.47, 3)
    ((0.0, '0%'), (0.2, '20%'), (0.4, '40%'))
    """
    return tuple((at / 100.0, f"{text}%") for at, text in ticks(0.0, 100.0 * highest, most))


def ticks(low: float, high: float, most: int = 6) -> Marks:
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
