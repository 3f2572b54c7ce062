"""How the weight is spread over rows and samples."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np

from vardi._sums import Floats, Integers
from vardi.report._content import Bar, Weights

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

BINS = 24
MOST_VALUES = 16  # distinct weights up to which each has a bar of its own
MOST_SERIES = 5  # samples up to which bars are split by them
LARGEST = 10
TOP, FEW = 0.01, 10  # the share of the rows that is called the top, and how many rows at least
SAME = 1e-9  # relative distance below which two weights are one


def weights_of(fit: DebiasedSample) -> Weights:
    """Compute the spread of the weights of rows in memory."""
    influence = fit._influence
    weights, source = influence.weights, influence.strata.source
    counts = np.ones(len(weights)) if influence.strata.counts is None else influence.strata.counts
    sampled = np.flatnonzero(influence.sampled)
    split = len(sampled) <= MOST_SERIES
    series = tuple(str(fit.names[k]) for k in sampled.tolist()) if split else ("all samples",)
    which = np.searchsorted(sampled, source) if split else np.zeros(len(source), np.int64)
    values = _distinct(influence.row_weights)
    edges = _edges(weights) if len(values) > MOST_VALUES else None
    bars = _bars(weights, counts, which, len(series), values, edges)
    order = np.argsort(-weights, kind="stable")
    top_rows = max(TOP * counts.sum(), min(FEW, counts.sum()))
    return Weights(series, bars, edges is None, float(top_rows), _top(weights, counts, order, top_rows), _largest(fit))


def _distinct(weights: Floats) -> Floats:
    """Return the distinct weights, those within rounding of one another as one."""
    values = np.unique(weights)
    return values[np.append(True, np.diff(values) > SAME * values[1:])]


def _edges(weights: Floats) -> Floats:
    smallest = max(weights.min(), sys.float_info.min)  # a weight may be too small for a number, and then is 0
    low, high = math.log10(smallest), math.log10(weights.max())
    return np.logspace(low, high, BINS + 1)


def _bars(
    weights: Floats, counts: Floats, which: Integers, m: int, values: Floats, edges: Floats | None
) -> tuple[Bar, ...]:
    if edges is None:
        place = np.searchsorted(values, weights * (1.0 + SAME), side="right") - 1
        lows = highs = values
    else:
        place = np.clip(np.searchsorted(edges, weights, side="right") - 1, 0, BINS - 1)
        lows, highs = edges[:-1], edges[1:]
    rows = np.bincount(place * m + which, counts, minlength=len(lows) * m).reshape(-1, m)
    mass = np.bincount(place, counts * weights, minlength=len(lows)) / (counts @ weights)
    return tuple(
        Bar(float(low), float(high), tuple(line), float(part))
        for low, high, line, part in zip(lows, highs, rows.tolist(), mass, strict=True)
    )


def _top(weights: Floats, counts: Floats, order: Integers, rows: float) -> float:
    """Return the share of the weight that so many rows of largest weight carry."""
    through = np.cumsum(counts[order])
    taken = np.clip(rows - (through - counts[order]), 0.0, counts[order])
    return float(taken @ weights[order] / (counts @ weights))


def _largest(fit: DebiasedSample) -> tuple[tuple[int, str, float], ...]:
    weights = fit._weights
    order = np.argsort(-weights, kind="stable")[:LARGEST]
    return tuple((row, str(fit.names[fit._pool.source[row]]), float(weights[row])) for row in order.tolist())
