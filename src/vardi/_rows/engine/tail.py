"""The tail of the weights: how heavy it is, and whose rows are in it."""

from __future__ import annotations

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import Change
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.engine.point import MASS, WEIGHT
from vardi._rows.engine.search import first_reaching
from vardi.biases._expressions.targets import literal


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
    mass = nw.col(MASS)
    smallest = first_reaching(at.parts, lambda part: mass, lambda part: nw.lit(1.0), np.array([count + 1.0]), at.point)
    threshold = float(smallest[0])
    under = nw.when(mass < literal(threshold)).then(mass)
    above, distinct, logs = 0.0, 0.0, 0.0
    for part in at.parts:
        found = part.aggregates(
            {"rows": under.count(), "distinct": under.n_unique(), "logs": under.log().sum()}, at.point
        )
        above, distinct, logs = above + found["rows"], distinct + found["distinct"], logs + (found["logs"] or 0.0)
    blame = _samples_of_largest(at, shown)
    if distinct * 4 < count + 1:
        return np.nan, blame
    return float((above * np.log(threshold) - logs) / count), blame


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
