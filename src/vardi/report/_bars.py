"""Bars and shifts -> geometry: rows by weight, shares of samples, changes of means on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vardi._facts.account import SampleFacts
from vardi._facts.columns import ColumnFacts
from vardi._facts.numbers import interval, number, rows_text, share, with_error
from vardi._facts.weights import Bar, Weights
from vardi.errors._texts import count
from vardi.report._axes import Chart, Frame, Tick, ticks
from vardi.report._content import Group

FAR = 3.0  # standard deviations beyond which no range for wrong biases is given


@dataclass(frozen=True)
class Block:
    """A part of a bar."""

    x: float
    y: float
    width: float
    height: float
    series: int


@dataclass(frozen=True)
class Column:
    """A bar of the histogram, and its tooltip."""

    x: float
    width: float
    blocks: tuple[Block, ...]
    title: str


@dataclass(frozen=True)
class Histogram(Chart):
    """Rows by weight."""

    bars: tuple[Column, ...]
    one: float | None


def histogram(weights: Weights) -> Histogram:
    """Draw rows by weight: equal steps of the log of the weight, or one bar for each of a few weights."""
    totals = [sum(bar.rows) for bar in weights.bars]
    marks = ticks(0.0, max(totals), 4)
    most = max(max(totals), marks[-1][0]) or 1.0
    frame = Frame.of(480.0, 262.0, [text for _, text in marks])
    each = (frame.right - frame.left) / len(weights.bars)
    gap = min(0.25 * each, 12.0) if weights.is_discrete else 1.0
    wide = min(each - gap, 64.0)
    bars = []
    for k, bar in enumerate(weights.bars):
        x, y, blocks = frame.left + k * each + (each - wide) / 2, frame.bottom, []
        for series, rows in enumerate(bar.rows):
            tall = (frame.bottom - frame.top) * rows / most
            if tall > 0:
                y -= tall
                blocks.append(Block(round(x, 1), round(y, 2), round(wide, 1), round(tall, 2), series))
        bars.append(Column(round(frame.left + k * each, 1), round(each, 1), tuple(blocks), _title(weights, bar)))
    return Histogram(
        **vars(frame),
        x_ticks=_weight_ticks(weights, frame.left, frame.right, each),
        y_ticks=tuple(Tick(frame.up(at / most), text) for at, text in marks),
        x_title=f"weight{'' if weights.is_discrete else ' (log scale)'}",
        y_title="rows",
        bars=tuple(bars),
        one=_place_of_one(weights, frame.left, frame.right),
    )


def _title(weights: Weights, bar: Bar) -> str:
    """Return a bar of the histogram in words."""
    to = "" if weights.is_discrete else f" to {number(bar.high)}"
    own = zip(weights.series, bar.rows, strict=True)
    named = ", ".join(f"{count(rows)} of {name}" for name, rows in own if rows)
    split = f" ({named})" if len(weights.series) > 1 and named else ""
    rows = rows_text(sum(bar.rows))
    return f"Weight {number(bar.low)}{to}: {rows}{split}, {share(bar.weight_share)} of all weight"


def _weight_ticks(weights: Weights, left: float, right: float, each: float) -> tuple[Tick, ...]:
    if weights.is_discrete:
        every = max(1, math.ceil(46.0 / each))
        return tuple(
            Tick(round(left + (k + 0.5) * each, 1), _weight(bar.low))
            for k, bar in enumerate(weights.bars)
            if k % every == 0
        )
    low, high = math.log10(weights.bars[0].low), math.log10(weights.bars[-1].high)
    if high - low < 0.9:
        places = [math.log10(at) for at, _ in ticks(10**low, 10**high, 5)]
    else:
        decades = range(math.floor(low), math.ceil(high) + 1)
        steps_of_decade = (1, 2, 5) if high - low < 2.5 else (1,)
        places = [math.log10(m * 10.0**d) for d in decades for m in steps_of_decade]
        places = places[:: max(1, math.ceil(len(places) / 12))]
    inside = [place for place in places if low - 1e-9 <= place <= high + 1e-9]
    return tuple(Tick(round(left + (right - left) * (p - low) / (high - low), 1), _weight(10**p)) for p in inside)


def _weight(value: float) -> str:
    if 1e-4 <= value < 1000:
        return f"{value:.3g}"
    return number(float(f"{value:.3g}")) if 1000 <= value < 1e9 else f"{value:.0e}".replace("-", "−")


def _place_of_one(weights: Weights, left: float, right: float) -> float | None:
    if weights.is_discrete:
        return None
    low, high = math.log10(weights.bars[0].low), math.log10(weights.bars[-1].high)
    return round(left + (right - left) * -low / (high - low), 1) if low < 0 < high else None


@dataclass(frozen=True)
class Pair:
    """Two bars, before and after, in per cent of the width of their column; with the ends of an interval if known."""

    before: float
    after: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Pairs:
    """Pairs of bars on one scale of shares."""

    rows: tuple[Pair, ...]
    ticks: tuple[Tick, ...]


def pairs(samples: Sequence[SampleFacts]) -> Pairs:
    """Put the shares of all samples, of the rows and of the weight, on one scale."""
    return _on_one_scale([(sample.share, sample.weight_share, math.nan, math.nan) for sample in samples])


def category_pairs(categories: Sequence[ColumnFacts]) -> Pairs:
    """Put the shares of all categories, in the pool and in the population, on one scale."""
    return _on_one_scale([(one.pooled, one.debiased, one.low, one.high) for one in categories])


def _on_one_scale(shares: Sequence[tuple[float, float, float, float]]) -> Pairs:
    longest = max((part for row in shares for part in row if math.isfinite(part)), default=1.0) or 1.0
    marks = ticks(0.0, 100.0 * longest, 4)
    scale = 96.0 / max(longest, marks[-1][0] / 100.0)  # the last text needs some room
    rows = tuple(Pair(*(round(scale * part, 2) for part in row)) for row in shares)
    return Pairs(rows, tuple(Tick(round(scale * at / 100.0, 2), f"{text}%") for at, text in marks))


@dataclass(frozen=True)
class Shares(Chart):
    """The shares of very many samples as bars side by side."""

    bars: tuple[Column, ...]


def shares(groups: Sequence[Group]) -> Shares:
    """Draw shares of rows and of weight of all samples that have rows, neighbours side by side."""
    samples = [line.sample for group in groups for line in group.lines if line.sample.rows]
    marks = ticks(0.0, 100.0 * max(max(one.share, one.weight_share) for one in samples), 4)
    most = max(*(max(one.share, one.weight_share) for one in samples), marks[-1][0] / 100.0)
    frame = Frame.of(1000.0, 230.0, [f"{text}%" for _, text in marks])
    each = (frame.right - frame.left) / len(samples)
    bars = []
    for k, one in enumerate(samples):
        x, wide = frame.left + k * each, 0.4 * each
        blocks = tuple(
            Block(round(x + (0.1 + 0.4 * series) * each, 2), frame.up(part / most), round(wide, 2), tall, series)
            for series, part in enumerate((one.share, one.weight_share))
            if (tall := round((frame.bottom - frame.top) * part / most, 2)) > 0
        )
        title = f"{one.name}: {share(one.share)} of the rows, {share(one.weight_share)} of the weight"
        bars.append(Column(round(x, 2), round(each, 2), blocks, title))
    return Shares(
        **vars(frame),
        x_ticks=(),
        y_ticks=tuple(Tick(frame.up(at / 100.0 / most), f"{text}%") for at, text in marks),
        x_title=f"{count(len(samples))} samples, neighbours side by side",
        y_title="share",
        bars=tuple(bars),
    )


@dataclass(frozen=True)
class Dumbbell:
    """The positions of the pool, the population and its interval on the common scale, in per cent of its width."""

    before: float
    after: float
    low: float
    high: float
    title: str


@dataclass(frozen=True)
class Dumbbells:
    """Changes of means in standard deviations, on one scale; a place for each variable, None for a constant."""

    rows: tuple[Dumbbell | None, ...]
    ticks: tuple[Tick, ...]


def dumbbells(variables: Sequence[ColumnFacts]) -> Dumbbells:
    """Put all changes on one scale of standard deviations."""
    spans = [_span(variable) for variable in variables]
    place = _Scale.around([end for span in spans if span is not None for end in span if math.isfinite(end)])
    rows = (
        span and Dumbbell(place(0.0), place(span[0]), place(span[1]), place(span[2]), shift_title(variable))
        for variable, span in zip(variables, spans, strict=True)
    )
    return Dumbbells(tuple(rows), place.ticks())


@dataclass(frozen=True)
class Reach:
    """How far wrong biases move a mean, on the common scale: ranges from the widest to the narrowest."""

    before: float
    after: float
    ranges: tuple[tuple[float, float], ...]
    title: str


@dataclass(frozen=True)
class Reaches:
    """What wrong biases do to means, in standard deviations from the pool, on one scale."""

    rows: tuple[Reach, ...]
    ticks: tuple[Tick, ...]


def reaches(variables: Sequence[ColumnFacts], factors: Sequence[float]) -> Reaches:
    """Put all ranges on one scale of standard deviations, that of the pool at zero."""
    spans = [
        [
            min(max((end - variable.pooled) / variable.spread, variable.shift - FAR), variable.shift + FAR)
            for factor in factors
            for end in variable.if_wrong_by(factor)
        ]
        for variable in variables
    ]
    scale = _Scale.around([end for span in spans for end in span if math.isfinite(end)])
    rows = []
    for variable, span in zip(variables, spans, strict=True):
        ranges = [(scale(low), scale(high)) for low, high in zip(span[::2], span[1::2], strict=True)]
        said = "; ".join(f"{factor:g}: {range_text(variable, factor)}" for factor in factors)
        title = f"{variable.label} if biases are wrong by up to {said}"
        rows.append(Reach(scale(0.0), scale(variable.shift), tuple(ranges[::-1]), title))
    return Reaches(tuple(rows), scale.ticks())


def range_text(variable: ColumnFacts, factor: float) -> str:
    """Return the range of a mean if biases are wrong by up to a factor; first order, so not given far off."""
    if not math.log(factor) * variable.slope <= FAR * variable.spread:
        return f"beyond {FAR:g} standard deviations"
    low, high = variable.if_wrong_by(factor)
    scale = variable.stderr if variable.stderr > 0 else variable.spread / 100.0
    return interval(low, high, scale, percent=variable.is_share)


@dataclass(frozen=True)
class _Scale:
    """A scale of standard deviations, in per cent of the width of a column."""

    low: float
    high: float

    @classmethod
    def around(cls, ends: Sequence[float]) -> _Scale:
        low, high = min([-0.1, *ends]), max([0.1, *ends])
        margin = 0.06 * (high - low)
        return cls(low - margin, high + margin)

    def __call__(self, value: float) -> float:
        return round(100.0 * (value - self.low) / (self.high - self.low), 2)

    def ticks(self) -> tuple[Tick, ...]:
        return tuple(Tick(self(at), text) for at, text in ticks(self.low, self.high, 5))


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
