"""The tail of the weights, found by searches: how heavy it is, and whose rows are in it."""

from __future__ import annotations

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import Change
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.engine.point import WEIGHT

POINTS = 32  # points that a search asks for at once


def weight_tail(at: EngineMoments, share: float, least: int, shown: int) -> tuple[float, list[int]]:
    """Return Hill's index of the largest weights, and the samples of the very largest.

    Parameters
    ----------
    at : EngineMoments
        The rows at the solution.
    share : float
        Of the rows, whose weights are the largest.
    least : int
        Rows below which there is no index: NaN, and the sample of the one largest weight. NaN too where a few values
        only are among the largest: weights of indicators are bounded.
    shown : int
        How many rows' samples are told.
    """
    n = sum(int(part.aggregates({"n": nw.len()})["n"]) for part in at.parts)
    if n < least:
        return np.nan, _samples_of_largest(at, 1)
    count = int(share * n)
    threshold = _kth_largest(at, count + 1)
    over = nw.when(nw.col(WEIGHT) > threshold).then(nw.col(WEIGHT))
    above, distinct, logs = 0.0, 0.0, 0.0
    for part in at.parts:
        asked = {"rows": over.count(), "distinct": over.n_unique(), "logs": over.log().sum()}
        found = part.aggregates(asked, at.point)
        above, distinct, logs = above + found["rows"], distinct + found["distinct"], logs + (found["logs"] or 0.0)
    blame = _samples_of_largest(at, shown)
    if distinct * 4 < count + 1:
        return np.nan, blame
    return float((logs - above * np.log(threshold)) / count), blame


def _kth_largest(at: EngineMoments, k: int) -> float:
    """Return the largest weight that at least k rows reach: a bracket is narrowed until one value is left in it."""
    r, low, high = nw.col(WEIGHT), 0.0, np.inf
    while True:
        inside = nw.when((r >= low) & (r < high)).then(r) if np.isfinite(high) else nw.when(r >= low).then(r)
        found = [part.aggregates({"low": inside.min(), "high": inside.max()}, at.point) for part in at.parts]
        smallest = min(end["low"] for end in found if end["low"] is not None)
        largest = max(end["high"] for end in found if end["high"] is not None)
        if smallest == largest:
            return float(smallest)
        points = np.unique(np.geomspace(smallest, largest, POINTS).clip(smallest, largest))
        reached = np.zeros(len(points))
        for part in at.parts:
            reached += part.sums([(r >= float(t)).cast(nw.Int64) for t in points], at.point)
        place = int(np.flatnonzero(reached >= k)[-1])
        if place + 1 == len(points):
            return float(largest)
        low, high = float(points[place]), float(points[place + 1])


def _samples_of_largest(at: EngineMoments, rows: int) -> list[int]:
    """Return the samples of the rows with the largest weights."""
    found: list[tuple[float, int]] = []
    for part in at.parts:
        columns = [WEIGHT, *([] if part.label is None else [part.label])]
        top = part.ask(_largest(at, columns, rows))
        labels = [None] * len(top) if part.label is None else top.get_column(part.label).to_list()
        found += [(r, part.codes[label]) for r, label in zip(top.get_column(WEIGHT).to_list(), labels, strict=True)]
    return sorted({code for _, code in sorted(found)[-rows:]})


def _largest(at: EngineMoments, columns: list[str], rows: int) -> Change:
    return lambda frame: at.point(frame).select(*columns).sort(WEIGHT, descending=True).head(rows)
