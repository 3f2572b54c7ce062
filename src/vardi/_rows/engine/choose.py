"""Where a pool of lazy frames is solved: in memory if it has few distinct rows, otherwise in its engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vardi._inputs.engine.distinct import DistinctRows, distinct_rows
from vardi._inputs.engine.memory import most_cells
from vardi._rows.dense import Dense
from vardi._rows.engine.joint import EngineRows
from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.subsample import thinned
from vardi._rows.engine.united import united
from vardi._rows.joint import Joint, KnownColumns
from vardi._types import Floats

if TYPE_CHECKING:
    from vardi._inputs.engine.pool import LazyPool

WORTHWHILE = 4  # rows for each distinct one above which collapsing pays


def few_rows(pool: LazyPool) -> tuple[DistinctRows, bool]:
    """Return all distinct rows of a pool, or a small part of its rows; and whether these are all of them."""
    if pool.distinct is not None:
        return pool.distinct, True
    columns, sub = list(pool.declared.columns), thinned(pool)
    if WORTHWHILE * sub.distinct <= pool.lengths.sum() and sub.distinct <= (limit := most_cells(len(columns))):
        collapsed = distinct_rows(pool.parts, columns, limit)
        if collapsed is not None:
            return collapsed, True
    return sub.rows, False


def as_dense(rows: DistinctRows, K: int) -> Dense:
    """Return rows with the biases among their columns."""
    return Dense(np.ascontiguousarray(rows.matrix[:, :K]), rows.source, rows.counts)


def joint_rows(pool: LazyPool, model: EngineModel, found: DistinctRows, *, is_all: bool) -> Joint | EngineRows:
    """Return rows with parameters and known moments: in memory if these are all distinct rows, else in the engine."""
    few = _in_memory(pool, model, found)
    if is_all:
        return few
    base = as_dense(found, len(pool.names)).standing_for(pool.sizes)
    together = replace(model, parts=tuple(united(model.parts)))
    return EngineRows(together, lambda: Joint(base, few.families, few.known), pool.reach)


def functions_on(pool: LazyPool, rows: DistinctRows) -> Floats:
    """Return the functions with known means on some rows, of shape (n, M); for a bias its known factor."""
    columns = list(pool.declared.columns)
    return rows.matrix[:, [columns.index(name) for name in pool.declared.function_columns]]


def _in_memory(pool: LazyPool, model: EngineModel, rows: DistinctRows) -> Joint:
    columns, known = list(pool.declared.columns), model.known
    features = [columns.index(name) for names in pool.declared.features.values() for name in names]
    values = functions_on(pool, rows) @ known.directions if len(known.means) else np.empty((len(rows), 0))
    families = model.families_on(rows.matrix[:, features])
    return Joint(as_dense(rows, len(pool.names)), families, KnownColumns(values, known.means, known.root, known.moving))
