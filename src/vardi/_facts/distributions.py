"""Distribution functions of columns before and after, and how the weight is spread over rows and samples."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vardi._estimate.cdf import Band
from vardi._facts.columns import ColumnFacts, Variable
from vardi._inputs.pool import Name
from vardi._rows.shares import Shares
from vardi._types import Floats
from vardi.errors._texts import LISTED

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample


@dataclass(frozen=True)
class Bins:
    """The shares of the pool and of the population in intervals of equal width, each including its upper edge."""

    edges: tuple[float, ...]
    pooled: tuple[float, ...]
    debiased: tuple[float, ...]


@dataclass(frozen=True)
class Distribution:
    """The distribution function of one column on a grid, before and after, and its histogram.

    ``low`` and ``high`` are the ends of the simultaneous band at x; None where it is not given.
    """

    name: str
    x: tuple[float, ...]
    pooled: tuple[float, ...]
    debiased: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    bins: Bins


def distributions(
    fit: DebiasedSample,
    columns: Sequence[Variable],
    described: Sequence[ColumnFacts],
    most: int = 6,
    most_banded: int = 200_000,
) -> tuple[tuple[Distribution, ...], str]:
    """Return the distribution functions of the columns that take more than two values, and a note on the others.

    With more than ``most_banded`` rows only the first two have bands.
    """
    varied = [
        (column, facts)
        for column, facts in zip(columns, described, strict=True)
        if not (facts.is_share or facts.category_of) and facts.spread > 0
    ]
    bands = most if len(fit) <= most_banded else 2
    chosen = [(*one, k < bands) for k, one in enumerate(varied[:most])]
    shown = tuple(fit.parts.each(lambda one: _distribution(fit, *one), chosen))
    if not columns:
        return (), "There are no columns to draw."
    if not shown:
        return (), "No column takes more than two values, so there is no distribution to draw."
    more = len(varied) - len(shown)
    notes = [f"{more} more columns are not drawn; name columns in variables= to choose."] if more else []
    if len(shown) > bands:
        notes.append(f"Bands are computed for the first {bands} columns only: there are many rows.")
    return shown, " ".join(notes)


def _distribution(
    fit: DebiasedSample, column: Variable, facts: ColumnFacts, banded: bool, points: int = 160
) -> Distribution:
    shares = fit.parts.shares(column, facts.pooled, facts.spread)
    first, last, end = _ends_of_axis(shares)
    ends = np.array([first, last, end])
    height = shares.up_to(ends)
    start, stop = height[:2].sum(axis=1).tolist()
    x, drawn = shares.reaching(np.ones(2), np.linspace(start, stop, points)[1:-1])  # they rise by about equal steps
    x, place = np.unique(np.append(ends, x), return_index=True)
    before, after = (tuple(part.tolist()) for part in np.vstack([height, drawn])[place].T)
    low, high = _ends(fit.parts.band(column, shares=shares) if banded else None, x)
    return Distribution(facts.label, tuple(x.tolist()), before, after, low, high, _bins(shares, first, end))


def _ends_of_axis(shares: Shares, edge: float = 0.005) -> tuple[float, float, float]:
    """Return the first value with this share of rows up to it, the last with it beyond, and the value after that."""
    starts = [shares.reaching(one, np.array([edge]), beyond=True)[0][0] for one in np.eye(2)]
    ends = [shares.reaching(one, np.array([1.0 - edge]))[0][0] for one in np.eye(2)]
    first, end = float(min(starts)), float(max(ends))
    if first < end:
        return first, shares.next_to(end, -1), end
    first, end = shares.reaching(np.ones(2), np.array([0.0, np.inf]))[0].tolist()  # nearly all rows have one value
    return first, end, end


def _bins(shares: Shares, low: float, high: float, most: int = 24) -> Bins:
    """Return the shares between the first and the last value, where edges of whole numbers lie between these."""
    if high - low < 2**52 and shares.are_whole(low, high):
        width = max(math.ceil((high - low + 1.0) / most), 1)
        edges = low - 0.5 + width * np.arange(math.ceil((high - low + 1.0) / width) + 1.0)
    else:
        edges = np.linspace(0.0, 1.0, most + 1)
        edges = low * (1.0 - edges) + high * edges  # the difference of the ends may be infinite
        edges[0] = np.nextafter(low, -np.inf)  # an interval has its upper edge, and the first one both
    between = np.maximum(np.diff(shares.up_to(edges), axis=0), 0.0)
    return Bins(tuple(edges.tolist()), *(tuple(part.tolist()) for part in between.T))


def _ends(band: Band | None, x: Floats) -> list[tuple[float | None, ...]]:
    """Return the lower and the upper ends of the simultaneous band; None outside its range, and without a band."""
    if band is None or np.isnan(band.low).any():
        return [(None,) * len(x)] * 2
    covered = ((band.x[0] <= x) & (x <= band.x[-1])).tolist()
    return [
        tuple(end if is_in else None for end, is_in in zip(ends.tolist(), covered, strict=True)) for ends in band(x)
    ]


@dataclass(frozen=True)
class Bar:
    """The number of rows with a weight between two ends (or a single weight), by sample, and their share of weight."""

    low: float
    high: float
    rows: tuple[float, ...]
    weight_share: float


@dataclass(frozen=True)
class Weights:
    """How the weight is spread.

    Attributes
    ----------
    series : tuple of str
        The samples that each bar is split by, or a single series for all if they are many.
    bars : tuple of Bar
        From the smallest weight to the largest.
    is_discrete : bool
        Whether each bar is a single weight.
    top_rows, top_share : float
        How many rows of largest weight carry which share of all weight.
    largest : tuple of (position in the pool, sample, weight)
        The largest weights; none if rows stay in an engine.
    """

    series: tuple[str, ...]
    bars: tuple[Bar, ...]
    is_discrete: bool
    top_rows: float
    top_share: float
    largest: tuple[tuple[int, Name, float], ...]


def weights_of(
    fit: DebiasedSample,
    bins: int = 24,
    most_values: int = 16,
    most_series: int = 5,
    top: float = 0.01,
    rounding: float = 1e-9,
) -> Weights:
    """Compute the spread of the weights: each has a bar of its own if they are few, and each sample a series.

    ``top`` is the share of rows that are called the top, which are at least ten.
    """
    table = fit.parts.weight_table()
    weights, counts = table.weights, table.counts
    mass, rows = float(counts @ weights), float(counts.sum())
    sampled = [k for k, size in enumerate(fit.sizes.values()) if size]
    split = len(sampled) <= most_series
    series = tuple(str(fit.names[k]) for k in sampled) if split else ("all samples",)
    which = np.searchsorted(sampled, table.source) if split else np.zeros(len(weights), np.int64)
    values = np.unique(weights)
    lows = highs = values[np.append(True, np.diff(values) > rounding * values[1:])]  # of those nearly equal, the least
    is_discrete = len(lows) <= most_values
    if not is_discrete:
        smallest = max(weights.min(), sys.float_info.min)  # a weight may underflow to 0
        edges = np.logspace(math.log10(smallest), math.log10(weights.max()), bins + 1)
        lows, highs = edges[:-1], edges[1:]
    below = np.nextafter(lows, -np.inf)  # a weight at a lower end is in the bar that it starts
    bar = np.maximum(np.searchsorted(below, weights) - 1, 0)
    by_series = np.bincount(bar * len(series) + which, counts, minlength=len(lows) * len(series))
    shares = np.bincount(bar, counts * weights, minlength=len(lows)) / mass
    heights = map(tuple, by_series.reshape(-1, len(series)).tolist())
    top_rows = max(top * rows, min(10.0, rows))
    heaviest = np.argsort(-weights, kind="stable")
    of_top = np.diff(np.minimum(np.cumsum(counts[heaviest]), top_rows), prepend=0.0)  # rows among the top
    return Weights(
        series,
        tuple(map(Bar, lows.tolist(), highs.tolist(), heights, shares.tolist())),
        is_discrete,
        top_rows,
        float(of_top @ weights[heaviest]) / mass,
        tuple(fit.parts.largest_weights(LISTED)),
    )
