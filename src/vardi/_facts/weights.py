"""How the weight is spread over rows and samples."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from vardi._facts.parts import Fit
from vardi._inputs.pool import Name
from vardi._rows.shares import edges_below
from vardi._rows.weights import WeightTable
from vardi._types import Floats, Integers
from vardi.errors._texts import LISTED


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


def weights_of(fit: Fit, bins: int = 24, most_values: int = 16, most_series: int = 5, top: float = 0.01) -> Weights:
    """Compute the spread of the weights: each has a bar of its own if they are few, and each sample a series.

    ``top`` is the share of rows that are called the top, which are at least ten.
    """
    table = fit.parts.weight_table()
    weights, counts = table.weights, table.counts
    sampled = [k for k, rows in enumerate(fit.sizes.values()) if rows]
    split = len(sampled) <= most_series
    series = tuple(str(fit.names[k]) for k in sampled) if split else ("all samples",)
    which = np.searchsorted(sampled, table.source) if split else np.zeros(len(weights), np.int64)
    values = _distinct(weights[:10_000])  # which usually show that they have many values
    values = values if len(values) > most_values else _distinct(weights)
    edges = _edges(weights, bins) if len(values) > most_values else None
    top_rows = max(top * counts.sum(), min(10, counts.sum()))
    return Weights(
        series,
        _bars(table, which, len(series), values, edges),
        edges is None,
        float(top_rows),
        _top(weights, counts, top_rows),
        tuple(fit.parts.largest_weights(LISTED)),
    )


def _distinct(weights: Floats, rounding: float = 1e-9) -> Floats:
    """Return the distinct weights, of those within rounding of one another the smallest."""
    values = np.unique(weights)
    return values[np.append(True, np.diff(values) > rounding * values[1:])]


def _edges(weights: Floats, bins: int) -> Floats:
    smallest = max(weights.min(), sys.float_info.min)  # a weight may underflow to 0
    return np.logspace(math.log10(smallest), math.log10(weights.max()), bins + 1)


def _bars(table: WeightTable, which: Integers, m: int, values: Floats, edges: Floats | None) -> tuple[Bar, ...]:
    if edges is None:
        place = np.searchsorted(values, table.weights, side="right") - 1
        lows = highs = values
    else:
        below = np.nextafter(edges, -np.inf)  # an edge is in the bin that it starts
        place = np.clip(edges_below(table.weights, below) - 1, 0, len(edges) - 2)
        lows, highs = edges[:-1], edges[1:]
    rows = np.bincount(place * m + which, table.counts, minlength=len(lows) * m).reshape(-1, m)
    mass = np.bincount(place, table.counts * table.weights, minlength=len(lows)) / (table.counts @ table.weights)
    return tuple(
        Bar(float(low), float(high), tuple(line), float(part))
        for low, high, line, part in zip(lows, highs, rows.tolist(), mass, strict=True)
    )


def _top(weights: Floats, counts: Floats, rows: float) -> float:
    """Return the share of the weight carried by the given number of rows of largest weight."""
    most = math.ceil(rows) if counts.min() >= 1.0 else len(weights)  # as counts are 1 or more, these are enough
    large = np.argpartition(-weights, most)[:most] if most < len(weights) else np.arange(len(weights))
    order = large[np.argsort(-weights[large], kind="stable")]
    through = np.cumsum(counts[order])
    taken = np.clip(rows - (through - counts[order]), 0.0, counts[order])
    return float(taken @ weights[order] / (counts @ weights))
