"""Where a pool of lazy frames is solved: in memory if it has few distinct rows, otherwise in its engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vardi._inputs.engine.distinct import DistinctRows, distinct_rows
from vardi._inputs.engine.pool import most_cells
from vardi._rows.dense import Dense
from vardi._rows.engine.joint import EngineRows
from vardi._rows.engine.model import families_on
from vardi._rows.engine.subsample import subsample
from vardi._rows.engine.united import united
from vardi._rows.joint import Joint
from vardi._rows.point import Model
from vardi._rows.queries import Queries
from vardi._types import Floats

if TYPE_CHECKING:
    from vardi._inputs.engine.pool import LazyPool

WORTHWHILE = 4  # rows for each distinct one above which collapsing pays


def few_rows(pool: LazyPool) -> tuple[DistinctRows, bool]:
    """Return all distinct rows of a pool, or a small part of its rows; and whether these are all of them."""
    if pool.distinct is not None:
        return pool.distinct, True
    rows, distinct = subsample(pool)
    columns = list(pool.declared.columns)
    if WORTHWHILE * distinct <= pool.lengths.sum() and distinct <= (limit := most_cells(len(columns))):
        collapsed = distinct_rows(pool.parts, columns, limit)
        if collapsed is not None:
            return collapsed, True
    return rows, False


def in_memory(pool: LazyPool, found: DistinctRows, *, is_all: bool) -> Dense:
    """Return rows with the biases among their columns; with counts that make them stand for all if they are some."""
    rows = Dense(np.ascontiguousarray(found.matrix[:, : len(pool.names)]), found.source, found.counts)
    return rows if is_all else rows.standing_for(pool.sizes)


def joint_rows(
    pool: LazyPool, frames: Queries, model: Model, found: DistinctRows, few: Dense, *, is_all: bool
) -> Joint | EngineRows:
    """Return rows with parameters and known moments: in memory if these are all distinct rows, else in the engine.

    Parameters
    ----------
    pool, frames, model : LazyPool, Queries, Model
        The pool, its frames with features, and which coordinates they depend on.
    found, few : DistinctRows, Dense
        Some rows with all their columns, and the same with their biases, standing for all.
    is_all : bool
        Whether these are all distinct rows.
    """
    features = pool.places(name for names in pool.declared.features.values() for name in names)
    families = families_on(model.families, found.matrix[:, features])
    joint = Joint(few, families, replace(model.known, values=functions_on(pool, found)))
    if is_all:
        return joint
    if len(model.coordinates) > model.coordinates.samples:  # otherwise the rows with their biases alone are summed
        frames = Queries(united(frames.parts), frames.sizes, frames.dependence)
    return EngineRows(frames, model, lambda: joint, pool.reach)


def functions_on(pool: LazyPool, rows: DistinctRows) -> Floats:
    """Return the functions with known means on some rows, of shape (n, M); for a bias its known factor."""
    return rows.matrix[:, pool.places(pool.declared.function_columns)]
