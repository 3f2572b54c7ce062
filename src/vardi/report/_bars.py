"""Bars and shifts -> geometry: rows by weight, shares of samples, changes of means on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from vardi._facts.account import SampleFacts
from vardi._facts.columns import ColumnFacts
from vardi._facts.numbers import interval, number, rows_text, share, with_error
from vardi._facts.weights import Bar, Weights
from vardi.errors._texts import count
from vardi.report._axes import Axes, Chart, Scale, Tick, percents, ticks
from vardi.report._content import Group

FAR = 3.0  # standard deviations beyond which no range for wrong biases is given


@dataclass(frozen=True)
class BarPart:
    """A part of a bar."""

    x: float
    y: float
    width: float
    height: float
    series: int


@dataclass(frozen=True)
class DrawnBar:
    """A bar of the histogram, and its tooltip."""

    x: float
    width: float
    blocks: tuple[BarPart, ...]
    title: str


@dataclass(frozen=True)
class Bars(Chart):
    """Rows by weight, with the place of a weight of 1 if it has one, or the shares of very many samples."""

    bars: tuple[DrawnBar, ...]
    one: float | None = None


def histogram(weights: Weights) -> Bars:
    """Draw rows by weight: equal steps of the log of the weight, or one bar for each of a few weights."""
    most = max(sum(bar.rows) for bar in weights.bars)
    axes = Axes.of(most, ticks(0.0, most, 5))
    each = (axes.right - axes.left) / len(weights.bars)
    gap = min(0.25 * each, 12.0) if weights.is_discrete else 1.0
    wide = min(each - gap, 64.0)
    bars = []
    for k, bar in enumerate(weights.bars):
        x, y, blocks = axes.left + k * each + (each - wide) / 2, axes.bottom, []
        for series, rows in enumerate(bar.rows):
            tall = (axes.bottom - axes.top) * rows / axes.highest
            if tall > 0:
                y -= tall
                blocks.append(BarPart(round(x, 1), round(y, 2), round(wide, 1), round(tall, 2), series))
        bars.append(DrawnBar(round(axes.left + k * each, 1), round(each, 1), tuple(blocks), _title(weights, bar)))
    logs = None
    if not weights.is_discrete:
        logs = Scale(math.log10(weights.bars[0].low), math.log10(weights.bars[-1].high), axes.left, axes.right)
    return Bars(
        **vars(axes),
        x_ticks=_single_weights(weights, axes.left, each) if logs is None else _weights(logs),
        x_title=f"weight{'' if logs is None else ' (log scale)'}",
        y_title="rows",
        bars=tuple(bars),
        one=round(logs(0.0), 1) if logs is not None and logs.low < 0 < logs.high else None,
    )


def _title(weights: Weights, bar: Bar) -> str:
    """Return a bar of the histogram in words."""
    to = "" if weights.is_discrete else f" to {number(bar.high)}"
    own = zip(weights.series, bar.rows, strict=True)
    named = ", ".join(f"{count(rows)} of {name}" for name, rows in own if rows)
    split = f" ({named})" if len(weights.series) > 1 and named else ""
    rows = rows_text(sum(bar.rows))
    return f"Weight {number(bar.low)}{to}: {rows}{split}, {share(bar.weight_share)} of all weight"


def _single_weights(weights: Weights, left: float, each: float) -> tuple[Tick, ...]:
    every = max(1, math.ceil(46.0 / each))
    bars = list(enumerate(weights.bars))[::every]
    return tuple(Tick(round(left + (k + 0.5) * each, 1), _weight(bar.low)) for k, bar in bars)


def _weights(logs: Scale) -> tuple[Tick, ...]:
    low, high = logs.low, logs.high
    if high - low < 0.9:
        places = [math.log10(at) for at, _ in ticks(10**low, 10**high, 5)]
    else:
        decades = range(math.floor(low), math.ceil(high) + 1)
        steps_of_decade = (1, 2, 5) if high - low < 2.5 else (1,)
        places = [math.log10(m * 10.0**d) for d in decades for m in steps_of_decade]
        places = places[:: max(1, math.ceil(len(places) / 12))]
    inside = [place for place in places if low - 1e-9 <= place <= high + 1e-9]
    return tuple(Tick(round(logs(place), 1), _weight(10**place)) for place in inside)


def _weight(value: float) -> str:
    if 1e-4 <= value < 1000:
        return f"{value:.3g}"
    return number(float(f"{value:.3g}")) if 1000 <= value < 1e9 else f"{value:.0e}".replace("-", "−")


@dataclass(frozen=True)
class Pair:
    """Before and after, and the ends of an interval if known, in per cent of the width of their column."""

    before: float
    after: float
    low: float = math.nan
    high: float = math.nan
    title: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Reach:
    """How far wrong biases move a mean, on the common scale: ranges from the widest to the narrowest."""

    before: float
    after: float
    ranges: tuple[tuple[float, float], ...]
    title: str


Row = TypeVar("Row")


@dataclass(frozen=True)
class OnOneScale(Generic[Row]):
    """Rows of a table on one scale: shares, or standard deviations from the pool."""

    rows: tuple[Row, ...]
    ticks: tuple[Tick, ...]


def pairs(samples: Sequence[SampleFacts]) -> OnOneScale[Pair]:
    """Put the shares of all samples, of the rows and of the weight, on one scale."""
    return _shares_on_one_scale([(sample.share, sample.weight_share, math.nan, math.nan) for sample in samples])


def category_pairs(categories: Sequence[ColumnFacts]) -> OnOneScale[Pair]:
    """Put the shares of all categories, in the pool and in the population, on one scale."""
    return _shares_on_one_scale([(one.pooled, one.debiased, one.low, one.high) for one in categories])


def _shares_on_one_scale(shares: Sequence[tuple[float, float, float, float]]) -> OnOneScale[Pair]:
    longest = max((part for row in shares for part in row if math.isfinite(part)), default=1.0) or 1.0
    marks = percents(longest, 4)
    scale = 96.0 / max(longest, marks[-1][0])  # the last text needs some room
    rows = tuple(Pair(*(round(scale * part, 2) for part in row)) for row in shares)
    return OnOneScale(rows, tuple(Tick(round(scale * at, 2), text) for at, text in marks))


def shares(groups: Sequence[Group]) -> Bars:
    """Draw shares of rows and of weight of all samples that have rows, neighbours side by side."""
    samples = [line.sample for group in groups for line in group.lines if line.sample.rows]
    most = max(max(one.share, one.weight_share) for one in samples)
    axes = Axes.of(most, percents(most, 4), width=1000.0, height=230.0)
    each = (axes.right - axes.left) / len(samples)
    bars = []
    for k, one in enumerate(samples):
        x, wide = axes.left + k * each, 0.4 * each
        blocks = tuple(
            BarPart(round(x + (0.1 + 0.4 * series) * each, 2), axes.up(part), round(wide, 2), tall, series)
            for series, part in enumerate((one.share, one.weight_share))
            if (tall := round((axes.bottom - axes.top) * part / axes.highest, 2)) > 0
        )
        title = f"{one.name}: {share(one.share)} of the rows, {share(one.weight_share)} of the weight"
        bars.append(DrawnBar(round(x, 2), round(each, 2), blocks, title))
    title = f"{count(len(samples))} samples, neighbours side by side"
    return Bars(**vars(axes), x_ticks=(), x_title=title, y_title="share", bars=tuple(bars))


def dumbbells(variables: Sequence[ColumnFacts]) -> OnOneScale[Pair | None]:
    """Put all changes on one scale of standard deviations, those of the pool at zero; None for a constant."""
    spans = [_span(variable) for variable in variables]
    scale = _around([end for span in spans if span is not None for end in span if math.isfinite(end)])
    rows = (
        span and Pair(*(round(scale(end), 2) for end in (0.0, *span)), title=shift_title(variable))
        for variable, span in zip(variables, spans, strict=True)
    )
    return OnOneScale(tuple(rows), scale.ticks(2))


def reaches(variables: Sequence[ColumnFacts], factors: Sequence[float]) -> OnOneScale[Reach]:
    """Put what wrong biases do to means on one scale of standard deviations, those of the pool at zero."""
    spans = [
        [
            min(max((end - variable.pooled) / variable.spread, variable.shift - FAR), variable.shift + FAR)
            for factor in factors
            for end in variable.if_wrong_by(factor)
        ]
        for variable in variables
    ]
    scale = _around([end for span in spans for end in span if math.isfinite(end)])
    rows = []
    for variable, span in zip(variables, spans, strict=True):
        before, after, *ends = (round(scale(end), 2) for end in (0.0, variable.shift, *span))
        said = "; ".join(f"{factor:g}: {range_text(variable, factor)}" for factor in factors)
        title = f"{variable.label} if biases are wrong by up to {said}"
        ranges = tuple(zip(ends[::2], ends[1::2], strict=True))
        rows.append(Reach(before, after, ranges[::-1], title))
    return OnOneScale(tuple(rows), scale.ticks(2))


def range_text(variable: ColumnFacts, factor: float) -> str:
    """Return the range of a mean if biases are wrong by up to a factor; first order, so not given far off."""
    if not math.log(factor) * variable.slope <= FAR * variable.spread:
        return f"beyond {FAR:g} standard deviations"
    low, high = variable.if_wrong_by(factor)
    scale = variable.stderr if variable.stderr > 0 else variable.spread / 100.0
    return interval(low, high, scale, percent=variable.is_share)


def _around(ends: Sequence[float]) -> Scale:
    """Return a scale of standard deviations around zero and these ends."""
    low, high = min([-0.1, *ends]), max([0.1, *ends])
    margin = 0.06 * (high - low)
    return Scale(low - margin, high + margin, 0.0, 100.0)  # per cent of the width of a column


def shift_title(variable: ColumnFacts) -> str:
    """Return a variable, before and after, in words."""
    before = share(variable.pooled) if variable.is_share else number(variable.pooled)
    after = with_error(variable.debiased, variable.stderr, percent=variable.is_share)
    known = not math.isnan(variable.stderr)
    worth = f", worth {rows_text(round(variable.worth))} without bias" if known and variable.worth < math.inf else ""
    text = f"{variable.label}: {before} in the pool, {after} in the population{worth}"
    if known and variable.stderr:
        text += f" (95%: {interval(variable.low, variable.high, variable.stderr, percent=variable.is_share)})"
    return text


def _span(variable: ColumnFacts) -> tuple[float, float, float] | None:
    if not variable.spread:
        return None
    half = variable.high / 2.0 / variable.spread - variable.low / 2.0 / variable.spread
    return variable.shift, variable.shift - half, variable.shift + half
