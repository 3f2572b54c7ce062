"""A small part of the rows, drawn by their values: the same in every engine, and it shows how many are distinct."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from vardi._inputs.engine.distinct import DistinctRows, distinct_rows
from vardi._inputs.engine.part import PREFIX, Change, Part, where
from vardi._inputs.engines import LazyFrame
from vardi.biases._expressions.targets import literal

if TYPE_CHECKING:
    from vardi._inputs.engine.pool import LazyPool

ROWS = 200_000  # rows of all samples together
NUMBERS = 4_000_000  # and numbers in them
FIRST = 2_000  # rows taken from a sample of which none was drawn
ENDS = 2  # rows taken at an end of a known function that no drawn row reaches
FINE = 2.0**30  # steps into which the logs of values are divided
MIXTURE, SPREAD = f"{PREFIX}mixture", f"{PREFIX}spread"


def subsample(pool: LazyPool) -> tuple[DistinctRows, float]:
    """Draw rows of every sample, with one query for each part; and estimate how many distinct ones there are in all.

    A row is drawn if trailing digits of its biases are below the wanted share of its sample. So the order of the rows
    does not matter; equal rows are drawn together or not at all, so distinct rows are drawn at the same rate, which
    tells their number.
    """
    columns, sampled = list(pool.declared.columns), pool.lengths > 0
    wanted = min(ROWS, NUMBERS // len(columns)) / sampled.sum()
    shares = np.where(sampled, np.minimum(wanted / np.maximum(pool.lengths, 1.0), 1.0), 0.0)
    drawn = distinct_rows(pool.parts, columns, 2 * ROWS, partial(_drawn, _mixture(pool), shares.tolist()))
    rows = DistinctRows.none(len(columns)) if drawn is None else drawn
    distinct = np.inf if drawn is None else float((1.0 / shares[drawn.source]).sum())
    absent = set(np.flatnonzero(sampled).tolist()).difference(rows.source.tolist())
    for part in pool.parts:
        for label, code in part.codes.items():
            if code in absent:
                own = None if part.label is None else where(nw.col(part.label) == label)
                rows = rows.with_rows(part.first(columns, FIRST, own), columns)
    for part in pool.parts:
        rows = _with_ends(pool, part, rows)
    return rows, distinct


def _with_ends(pool: LazyPool, part: Part, rows: DistinctRows) -> DistinctRows:
    """Add a row or two at each end of a known function that no drawn row reaches, so that it is not constant."""
    columns, drawn = list(pool.declared.columns), rows.matrix
    for j in dict.fromkeys(pool.places(pool.declared.function_columns)):
        for end, reached in ((pool.lows[j], drawn[:, j].min()), (pool.highs[j], drawn[:, j].max())):
            if end != reached:
                at_end = where(nw.col(columns[j]) == literal(float(end)))
                rows = rows.with_rows(part.first(columns, ENDS, at_end), columns)
    return rows


def _drawn(mixture: nw.Expr, shares: list[float], part: Part) -> Change | None:
    """Return the filter of a part that leaves the rows whose digits are below the share of their sample."""
    own = {shares[code] for code in part.codes.values()}
    if min(own) >= 1:
        return None

    def change(frame: LazyFrame) -> LazyFrame:
        # Each step of the hash is its own column. DuckDB inlines a column into a condition every time that the
        # condition reads it, so the digits are compared once on all rows, and once more on the few that are left.
        digits = nw.col(SPREAD) - nw.col(SPREAD).floor()  # below 1, so a share of 1 draws all
        spread = frame.with_columns(**{MIXTURE: mixture}).with_columns(**{SPREAD: nw.col(MIXTURE).log() * FINE})
        few = spread.filter(digits < max(own))
        return few if len(own) == 1 else few.filter(digits < part.of_sample(shares))

    return change


def _mixture(pool: LazyPool) -> nw.Expr:
    """Return a positive number for each row that depends on all of its values, each on its own scale."""
    total: nw.Expr = nw.lit(0.0)
    for j, (name, low, high) in enumerate(zip(pool.declared.columns, pool.lows, pool.highs, strict=True)):
        factor = 1.0 + np.sqrt(j + 2.0)  # no sum of biases is constant
        lowest = 0.0 if j < len(pool.names) else float(low)
        if high > lowest:
            total = total + (nw.col(name) - lowest) * float(factor / (high - lowest))
    return total
