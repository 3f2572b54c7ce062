"""Bars and shifts -> geometry: rows by weight, shares of samples, changes of means on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vardi._facts.account import SampleFacts
from vardi._facts.columns import ColumnFacts
from vardi._facts.numbers import interval, number, rows_text, share, with_error
from vardi._facts.weights import Weights
from vardi.errors._texts import count
from vardi.report._axes import Box, Tick, ticks


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
    """A bar of the histogram, and what it says."""

    x: float
    width: float
    blocks: tuple[Block, ...]
    title: str


@dataclass(frozen=True)
class Histogram(Box):
    """Rows by weight."""

    bars: tuple[Column, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    one: float | None


def histogram(weights: Weights) -> Histogram:
    """Draw rows by weight: equal steps of the log of the weight, or one bar for each of a few weights."""
    size, left, right, top, bottom = (480.0, 250.0), 52.0, 472.0, 12.0, 208.0
    totals = [sum(bar.rows) for bar in weights.bars]
    y_ticks = ticks(0.0, max(totals), 4)
    most = max(max(totals), y_ticks[-1][0]) or 1.0
    each = (right - left) / len(weights.bars)
    gap = min(0.25 * each, 12.0) if weights.is_discrete else 1.0
    wide = min(each - gap, 64.0)
    bars = []
    for k, bar in enumerate(weights.bars):
        x, y, blocks = left + k * each + (each - wide) / 2, bottom, []
        for series, rows in enumerate(bar.rows):
            tall = (bottom - top) * rows / most
            if tall > 0:
                y -= tall
                blocks.append(Block(round(x, 1), round(y, 2), round(wide, 1), round(tall, 2), series))
        to = "" if weights.is_discrete else f" to {number(bar.high)}"
        own = zip(weights.series, bar.rows, strict=True)
        named = ", ".join(f"{count(rows)} of {name}" for name, rows in own if rows)
        split = f" ({named})" if len(weights.series) > 1 and named else ""
        title = (
            f"Weight {number(bar.low)}{to}: {rows_text(sum(bar.rows))}{split}, {share(bar.weight_share)} of all weight"
        )
        bars.append(Column(round(left + k * each, 1), round(each, 1), tuple(blocks), title))
    return Histogram(
        *(*size, left, right, top, bottom),
        bars=tuple(bars),
        x_ticks=_weight_ticks(weights, left, right, each),
        y_ticks=tuple(Tick(round(bottom - (bottom - top) * at / most, 1), text) for at, text in y_ticks),
        one=_place_of_one(weights, left, right),
    )


def _weight_ticks(weights: Weights, left: float, right: float, each: float) -> tuple[Tick, ...]:
    if weights.is_discrete:
        every = max(1, math.ceil(46.0 / each))
        return tuple(
            Tick(round(left + (k + 0.5) * each, 1), f"{bar.low:.3g}")
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
    return tuple(Tick(round(left + (right - left) * (p - low) / (high - low), 1), f"{10**p:.3g}") for p in inside)


def _place_of_one(weights: Weights, left: float, right: float) -> float | None:
    if weights.is_discrete:
        return None
    low, high = math.log10(weights.bars[0].low), math.log10(weights.bars[-1].high)
    return round(left + (right - left) * -low / (high - low), 1) if low < 0 < high else None


@dataclass(frozen=True)
class Pair:
    """Two bars, for the rows and for the weight of a sample, in per cent of the longest."""

    rows: float
    weight: float


def pairs(samples: Sequence[SampleFacts]) -> tuple[Pair, ...]:
    """Put the shares of all samples on one scale."""
    longest = max(max(sample.share, sample.weight_share) for sample in samples)
    return tuple(
        Pair(round(100 * sample.share / longest, 2), round(100 * sample.weight_share / longest, 2))
        for sample in samples
    )


@dataclass(frozen=True)
class Dumbbell:
    """Where the pool, the population and its interval stand on the common scale, in per cent of its width."""

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
    ends = [end for span in spans if span is not None for end in span if math.isfinite(end)]
    low, high = min([-0.1, *ends]), max([0.1, *ends])
    margin = 0.06 * (high - low)
    low, high = low - margin, high + margin

    def place(value: float) -> float:
        return round(100.0 * (value - low) / (high - low), 2)

    rows = (
        span and Dumbbell(place(0.0), place(span[0]), place(span[1]), place(span[2]), title(variable))
        for variable, span in zip(variables, spans, strict=True)
    )
    return Dumbbells(tuple(rows), tuple(Tick(place(at), text) for at, text in ticks(low, high, 5)))


def title(variable: ColumnFacts) -> str:
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
