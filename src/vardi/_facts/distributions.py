"""Distribution functions before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vardi._estimate.cdf import Band
from vardi._facts.columns import Column, ColumnFacts
from vardi._facts.parts import Fit
from vardi._types import Floats

MOST_DISTRIBUTIONS = 6
POINTS = 160  # of a drawn distribution function
BINS = 24  # of a histogram
MAX_BANDED_ROWS, BANDS_BEYOND = 200_000, 2  # rows above which only so many bands are computed
EDGE = 0.005  # share of the rows beyond either end of the axis


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
    fit: Fit, columns: Sequence[Column], described: Sequence[ColumnFacts]
) -> tuple[tuple[Distribution, ...], str]:
    """Return the distribution functions of the columns that take more than two values, and a note on the others."""
    varied = [
        (column, facts)
        for column, facts in zip(columns, described, strict=True)
        if not facts.is_share and facts.spread > 0
    ]
    bands = MOST_DISTRIBUTIONS if len(fit) <= MAX_BANDED_ROWS else BANDS_BEYOND
    shown = tuple(
        _distribution(fit, column, facts, banded=k < bands)
        for k, (column, facts) in enumerate(varied[:MOST_DISTRIBUTIONS])
    )
    if not columns:
        return (), "There are no columns to draw."
    if not shown:
        return (), "No column takes more than two values, so there is no distribution to draw."
    more = len(varied) - len(shown)
    notes = [f"{more} more columns are not drawn; name columns in variables= to choose."] if more else []
    if len(shown) > bands:
        notes.append(f"Bands are computed for the first {bands} columns only: there are many rows.")
    return shown, " ".join(notes)


def _distribution(fit: Fit, column: Column, facts: ColumnFacts, *, banded: bool) -> Distribution:
    every, pooled, debiased = heights(fit, column, facts)
    inside = (np.maximum(pooled, debiased) > EDGE) & (np.minimum(pooled, debiased) < 1.0 - EDGE)
    first, last = int(inside.argmax()), len(inside) - 1 - int(inside[::-1].argmax())
    place = _grid(pooled[first : last + 1] + debiased[first : last + 1]) + first
    place = np.unique(np.append(place, min(last + 1, len(every) - 1)))
    x, height = every[place], debiased[place]
    before, after = tuple(pooled[place].tolist()), tuple(height.tolist())
    low, high = _ends(fit.parts.band(column) if banded else None, x)
    bins = _bins(every, pooled, debiased, first, int(place[-1]))
    return Distribution(facts.label, tuple(x.tolist()), before, after, low, high, bins)


def heights(fit: Fit, column: Column, facts: ColumnFacts) -> tuple[Floats, Floats, Floats]:
    """Return values of a column, and the shares of the pool and of the population at or below each."""
    table = fit.parts.value_table(column, facts.pooled, facts.spread)
    pooled, debiased = (np.minimum(np.cumsum(part) / part.sum(), 1.0) for part in (table.counts, table.mass))
    return table.x, pooled, debiased


def _bins(x: Floats, pooled: Floats, debiased: Floats, first: int, last: int) -> Bins:
    """Return the shares between the first and the last value; the edges for whole numbers lie halfway between them."""
    low, high = float(x[first]), float(x[last])
    shown = x[first : last + 1]
    if high - low < 2**52 and (shown == np.floor(shown)).all():
        width = max(math.ceil((high - low + 1.0) / BINS), 1)
        edges = low - 0.5 + width * np.arange(math.ceil((high - low + 1.0) / width) + 1.0)
    else:
        edges = np.linspace(0.0, 1.0, BINS + 1)
        edges = low * (1.0 - edges) + high * edges  # the difference of the ends may be infinite
        edges[0] = np.nextafter(low, -np.inf)  # an interval includes its upper edge, the first one both
    below = np.searchsorted(x, edges, "right")
    shares = (np.diff(np.append(0.0, heights)[below]) for heights in (pooled, debiased))
    return Bins(tuple(edges.tolist()), *(tuple(np.maximum(part, 0.0).tolist()) for part in shares))


def _ends(band: Band | None, x: Floats) -> Iterator[tuple[float | None, ...]]:
    """Yield the lower and the upper ends of the simultaneous band; None outside its range, and if there is no band."""
    if band is None or np.isnan(band.low).any():
        yield from [(None,) * len(x)] * 2
        return
    covered = (band.x[0] <= x) & (x <= band.x[-1])
    for ends in band(x):
        yield tuple(end if is_in else None for end, is_in in zip(ends.tolist(), covered.tolist(), strict=True))


def _grid(height: Floats) -> np.ndarray:
    """Return positions at which a function rises by about equal steps."""
    targets = np.linspace(height[0], height[-1], POINTS)
    return np.unique(np.minimum(np.searchsorted(height, targets), len(height) - 1))
