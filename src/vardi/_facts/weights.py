"""How the weight is spread over rows and samples."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from vardi._facts.parts import Fit, WeightTable
from vardi._inputs.pool import Name
from vardi._types import Floats, Integers

BINS = 24
MOST_VALUES = 16  # distinct weights up to which each has a bar of its own
MOST_SERIES = 5  # samples up to which bars are split by them
LARGEST = 10
TOP, LEAST_TOP = 0.01, 10  # the share of the rows that is called the top, and how many rows at least
SEEN = 10_000  # rows at which weights are mostly known to have many values
SAME = 1e-9  # relative distance below which two weights are one


@dataclass(frozen=True)
class Bar:
    """Rows whose weight lies between two ends (or is one value), by sample; and their share of all weight."""

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
        What the rows of each bar are split by: the samples, or all in one where they are many.
    bars : tuple of Bar
        From the smallest weight to the largest.
    is_discrete : bool
        Whether each bar is a single weight.
    top_rows, top_share : float
        So many rows of largest weight carry this share of all weight.
    largest : tuple of (position in the pool, sample, weight)
        The largest weights; none where rows stay in an engine.
    """

    series: tuple[str, ...]
    bars: tuple[Bar, ...]
    is_discrete: bool
    top_rows: float
    top_share: float
    largest: tuple[tuple[int, Name, float], ...]


def weights_of(fit: Fit) -> Weights:
    """Compute the spread of the weights."""
    table = fit.parts.weight_table()
    weights, counts = table.weights, table.counts
    sampled = [k for k, rows in enumerate(fit.sizes.values()) if rows]
    split = len(sampled) <= MOST_SERIES
    series = tuple(str(fit.names[k]) for k in sampled) if split else ("all samples",)
    which = np.searchsorted(sampled, table.source) if split else np.zeros(len(weights), np.int64)
    values = _distinct(weights[:SEEN])
    values = values if len(values) > MOST_VALUES else _distinct(weights)
    edges = _edges(weights) if len(values) > MOST_VALUES else None
    top_rows = max(TOP * counts.sum(), min(LEAST_TOP, counts.sum()))
    return Weights(
        series,
        _bars(table, which, len(series), values, edges),
        edges is None,
        float(top_rows),
        _top(weights, counts, top_rows),
        tuple(fit.parts.largest_weights(LARGEST)),
    )


def _distinct(weights: Floats) -> Floats:
    """Return the distinct weights, those within rounding of one another as one."""
    values = np.unique(weights)
    return values[np.append(True, np.diff(values) > SAME * values[1:])]


def _edges(weights: Floats) -> Floats:
    smallest = max(weights.min(), sys.float_info.min)  # a weight may be too small for a number, and then is 0
    return np.logspace(math.log10(smallest), math.log10(weights.max()), BINS + 1)


def _bars(table: WeightTable, which: Integers, m: int, values: Floats, edges: Floats | None) -> tuple[Bar, ...]:
    if edges is None:
        place = np.searchsorted(values, table.weights * (1.0 + SAME), side="right") - 1
        lows = highs = values
    else:
        place = np.clip(np.searchsorted(edges, table.weights, side="right") - 1, 0, BINS - 1)
        lows, highs = edges[:-1], edges[1:]
    rows = np.bincount(place * m + which, table.counts, minlength=len(lows) * m).reshape(-1, m)
    mass = np.bincount(place, table.counts * table.weights, minlength=len(lows)) / (table.counts @ table.weights)
    return tuple(
        Bar(float(low), float(high), tuple(line), float(part))
        for low, high, line, part in zip(lows, highs, rows.tolist(), mass, strict=True)
    )


def _top(weights: Floats, counts: Floats, rows: float) -> float:
    """Return the share of the weight that so many rows of largest weight carry."""
    most = math.ceil(rows) if counts.min() >= 1.0 else len(weights)  # so many of the largest hold these rows
    large = np.argpartition(-weights, most)[:most] if most < len(weights) else np.arange(len(weights))
    order = large[np.argsort(-weights[large], kind="stable")]
    through = np.cumsum(counts[order])
    taken = np.clip(rows - (through - counts[order]), 0.0, counts[order])
    return float(taken @ weights[order] / (counts @ weights))
