"""A small part of the rows, drawn by their values: the same in every engine, and it shows how many are distinct."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.distinct import DistinctRows, distinct_rows, first_rows, matrix_of
from vardi._inputs.engine.part import PREFIX, Change, Part
from vardi._types import Floats, Integers
from vardi.biases._expressions.targets import literal

if TYPE_CHECKING:
    from vardi._inputs.engine.pool import LazyPool

ROWS = 200_000  # rows of all samples together
NUMBERS = 4_000_000  # and numbers in them
FIRST = 2_000  # rows taken from a sample of which none was drawn
ENDS = 2  # rows taken at an end of a known function that no drawn row reaches
FINE = 2.0**30  # steps into which the logs of values are divided
MIXTURE, SPREAD = f"{PREFIX}mixture", f"{PREFIX}spread"


@dataclass(frozen=True)
class Thinned:
    """Rows of every sample, and an estimate of how many distinct ones there are in all.

    Attributes
    ----------
    rows : DistinctRows
        The rows drawn, equal ones collapsed.
    distinct : float
        The estimated number of distinct rows in the whole pool.
    """

    rows: DistinctRows
    distinct: float


def thinned(pool: LazyPool) -> Thinned:
    """Draw rows of every sample, with one query for each part.

    A row is drawn if trailing digits of its biases are below the wanted share of its sample. So the order of the rows
    does not matter; equal rows are drawn together or not at all, so distinct rows are drawn at the same rate, which
    tells their number.
    """
    columns, K = list(pool.declared.columns), len(pool.names)
    sampled = pool.lengths > 0
    wanted = min(ROWS, NUMBERS // len(columns)) / sampled.sum()
    with np.errstate(divide="ignore"):
        shares = np.where(sampled, np.minimum(wanted / pool.lengths, 1.0), 0.0)
    mixture = _mixture(pool)

    def drawn(part: Part) -> Change | None:
        thresholds = {label: float(shares[code]) for label, code in part.codes.items()}
        if min(thresholds.values()) >= 1:
            return None
        return partial(_thinned, mixture, max(thresholds.values()), _by_label(part, thresholds))

    found = distinct_rows(pool.parts, columns, 2 * ROWS, drawn)
    matrices, sources, counts = [np.empty((0, len(columns)))], [np.empty(0, np.int64)], [np.empty(0)]
    if found is not None:
        matrices, sources, counts = [found.matrix], [found.source], [found.counts]
    drawn_of = np.bincount(sources[0], minlength=K)
    distinct = np.inf if found is None else float((drawn_of[sampled] / shares[sampled]).sum())
    for part in pool.parts:
        for label, code in part.codes.items():
            if sampled[code] and not drawn_of[code]:
                first = first_rows(part, label, columns, FIRST)
                matrices.append(first)
                sources.append(np.full(len(first), code))
                counts.append(np.ones(len(first)))
    for part in pool.parts:
        matrix, source = _ends(pool, part, np.concatenate(matrices))
        matrices.append(matrix)
        sources.append(source)
        counts.append(np.ones(len(source)))
    rows = DistinctRows(np.concatenate(matrices), np.concatenate(sources), np.concatenate(counts))
    return Thinned(rows, distinct)


def _ends(pool: LazyPool, part: Part, drawn: Floats) -> tuple[Floats, Integers]:
    """Return a row or two at each end of a known function that no drawn row reaches, so that it is not constant."""
    columns = list(pool.declared.columns)
    found, source = [np.empty((0, len(columns)))], [np.empty(0, np.int64)]
    for name in dict.fromkeys(pool.declared.function_columns):
        j = columns.index(name)
        for end, reached in ((pool.lows[j], drawn[:, j].min()), (pool.highs[j], drawn[:, j].max())):
            if end == reached:
                continue
            rows = part.ask(partial(_at_end, name, float(end), [*columns, *filter(None, [part.label])]))
            labels = [None] * len(rows) if part.label is None else rows.get_column(part.label).to_list()
            found.append(matrix_of(rows, columns))
            source.append(np.array([part.codes[label] for label in labels], np.int64))
    return np.concatenate(found), np.concatenate(source)


def _at_end(name: str, end: float, columns: list[str], frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return frame.filter(nw.col(name) == literal(end)).select(*columns).head(ENDS)


def _thinned(mixture: nw.Expr, most: float, threshold: nw.Expr | None, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return the rows whose digits are below the threshold of their label, or below the largest if all have that.

    Each step of the hash is its own column. DuckDB inlines a column into a condition every time that the condition
    reads it, so the digits are compared once on all rows, and once more on the few that are left.
    """
    digits = nw.col(SPREAD) - nw.col(SPREAD).floor()  # below 1, so a share of 1 draws all
    spread = frame.with_columns(**{MIXTURE: mixture}).with_columns(**{SPREAD: nw.col(MIXTURE).log() * FINE})
    few = spread.filter(digits < most)
    return few if threshold is None else few.filter(digits < threshold)


def _by_label(part: Part, thresholds: dict[Any, float]) -> nw.Expr | None:
    """Return the threshold of each row; None if all rows have the same."""
    *others, (_, otherwise) = thresholds.items()
    if all(threshold == otherwise for _, threshold in others):
        return None
    assert part.label is not None
    found: nw.Expr = nw.lit(otherwise)
    for label, threshold in others:
        found = nw.when(nw.col(part.label) == label).then(nw.lit(threshold)).otherwise(found)
    return found


def _mixture(pool: LazyPool) -> nw.Expr:
    """Return a positive number for each row that depends on all of its values, each on its own scale."""
    total: Any = None
    for j, (name, low, high) in enumerate(zip(pool.declared.columns, pool.lows, pool.highs, strict=True)):
        factor = 1.0 + np.sqrt(j + 2.0)  # no sum of biases is constant
        if j < len(pool.names) and high > 0:
            term = nw.col(name) * float(factor / high)
        elif j >= len(pool.names) and high > low:
            term = (nw.col(name) - float(low)) * float(factor / (high - low))
        else:
            continue
        total = term if total is None else total + term
    return total
