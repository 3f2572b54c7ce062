"""A pool of lazy frames as rows to solve: in memory if it has few distinct rows, otherwise in its engine.

A small part of the rows is drawn by their values: the same in every engine, and it shows how many are distinct.
Parameters multiply features that are columns of frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from vardi._inputs.engines import LazyFrame
from vardi._inputs.lazy_part import PREFIX, Change, DistinctRows, Part, distinct_rows, where, with_columns
from vardi._inputs.lazy_pool import most_cells
from vardi._rows.dense import Dense
from vardi._rows.families import BiasFamily, Linear, Logistic, model_on
from vardi._rows.joint import Joint
from vardi._rows.lazy_rows import EngineRows
from vardi._rows.point import KnownMoments, Model
from vardi._rows.queries import Queries
from vardi._rows.union import united
from vardi._types import Floats
from vardi.biases import ParametricBias
from vardi.biases._compile import literal
from vardi.biases._nodes import Cells, ExpressionFamily

if TYPE_CHECKING:
    from vardi._inputs.lazy_part import DistinctRows
    from vardi._inputs.lazy_pool import LazyPool

ROWS = 200_000  # of all samples together, in a small part of them
STANDARD, MIXTURE, SPREAD = "__vardi_z_{}", f"{PREFIX}mixture", f"{PREFIX}spread"


def families_on(families: Mapping[int, BiasFamily], features: Floats) -> dict[int, BiasFamily]:
    """Return families on rows in memory, given all their features side by side, in the user's units."""
    found, start = dict[int, BiasFamily](), 0
    for k, family in families.items():
        assert isinstance(family, Linear | Logistic)  # of expressions
        found[k] = family.on(features[:, start : start + len(family.z)])
        start += len(family.z)
    return found


def model_of(pool: LazyPool, known: KnownMoments) -> tuple[Queries, Model]:
    """Return the frames and their model; features, if any, are scaled to mean 0 and deviation 1, by one query each."""
    features = pool.declared.features
    names = [name for columns in features.values() for name in columns]
    mean, deviation = _spread(pool, names)
    families: dict[int, BiasFamily] = {}
    start = 0
    for k, columns in features.items():
        bias, place = pool.biases[k], slice(start, start + len(columns))
        assert isinstance(bias, ParametricBias)
        if _is_of_indicators(bias):
            mean[place], deviation[place] = 0.0, 1.0
        z = tuple(STANDARD.format(j) for j in range(start, place.stop))
        families[k] = model_on(bias, z, mean[place], deviation[place], str(pool.names[k]))
        start = place.stop
    standard = {
        STANDARD.format(j): (nw.col(name) - float(mean[j])) / float(deviation[j]) for j, name in enumerate(names)
    }
    parts = tuple(part.map(with_columns(standard)) for part in pool.parts) if standard else pool.parts
    return Queries(parts, pool.sizes, pool.dependence), Model(pool.sizes, families, known)


def _is_of_indicators(bias: ParametricBias) -> bool:
    """Return whether the features of a family are 0 or 1, and are left so."""
    return isinstance(bias.family, Cells) or (isinstance(bias.family, ExpressionFamily) and bias.family.kind == "steps")


def _spread(pool: LazyPool, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return mean and deviation of columns over the pool; approximate ones do, since they only set theta's scale."""
    if not names:
        return np.empty(0), np.empty(0)
    places = pool.places(names)
    if (rows := pool.distinct) is not None:
        columns = rows.matrix[:, places]
        mean = np.average(columns, axis=0, weights=rows.counts)
        return mean, np.sqrt(np.average((columns - mean) ** 2, axis=0, weights=rows.counts))
    middle = (pool.lows[places] + pool.highs[places]) / 2.0  # the centre about which squares lose the fewest digits
    total = np.zeros(2 * len(names))
    for part in pool.parts:
        off = [nw.col(name) - float(centre) for name, centre in zip(names, middle, strict=True)]
        total += part.sums([part.times_count(one) for one in (*off, *(one * one for one in off))])
    mean, squares = total.reshape(2, -1) / pool.sizes.sum()
    return mean + middle, np.sqrt(np.maximum(squares - mean**2, 0.0))


def subsample(pool: LazyPool, numbers: int = 4_000_000, first: int = 2_000) -> tuple[DistinctRows, float]:
    """Draw rows of every sample, with one query for each part; and estimate how many distinct ones there are in all.

    They hold no more numbers than that; of a sample of which none is drawn the first rows are taken.

    A row is drawn if trailing digits of its biases are below the wanted share of its sample. So the order of the rows
    does not matter; equal rows are drawn together or not at all, so distinct rows are drawn at the same rate, which
    tells their number.
    """
    columns, sampled = list(pool.declared.columns), pool.lengths > 0
    wanted = min(ROWS, numbers // len(columns)) / sampled.sum()
    shares = np.where(sampled, np.minimum(wanted / np.maximum(pool.lengths, 1.0), 1.0), 0.0)
    drawn = distinct_rows(pool.parts, columns, 2 * ROWS, partial(_drawn, _mixture(pool), shares.tolist()))
    rows = DistinctRows.none(len(columns)) if drawn is None else drawn
    distinct = np.inf if drawn is None else float((1.0 / shares[drawn.source]).sum())
    absent = set(np.flatnonzero(sampled).tolist()).difference(rows.source.tolist())
    for part in pool.parts:
        for label, code in part.codes.items():
            if code in absent:
                own = None if part.label is None else where(nw.col(part.label) == label)
                rows = rows.with_rows(part.first(columns, first, own), columns)
    for part in pool.parts:
        rows = _with_ends(pool, part, rows)
    return rows, distinct


def _with_ends(pool: LazyPool, part: Part, rows: DistinctRows, few: int = 2) -> DistinctRows:
    """Add a few rows at each end of a known function that no drawn row reaches, so that it is not constant."""
    columns, drawn = list(pool.declared.columns), rows.matrix
    for j in dict.fromkeys(pool.places(pool.declared.function_columns)):
        for end, reached in ((pool.lows[j], drawn[:, j].min()), (pool.highs[j], drawn[:, j].max())):
            if end != reached:
                at_end = where(nw.col(columns[j]) == literal(float(end)))
                rows = rows.with_rows(part.first(columns, few, at_end), columns)
    return rows


def _drawn(mixture: nw.Expr, shares: list[float], part: Part, fine: float = 2.0**30) -> Change | None:
    """Return the filter of a part that leaves the rows whose digits are below the share of their sample.

    The digits are those of logs of values, divided into fine steps.
    """
    own = {shares[code] for code in part.codes.values()}
    if min(own) >= 1:
        return None

    def change(frame: LazyFrame) -> LazyFrame:
        # Each step of the hash is its own column. DuckDB inlines a column into a condition every time that the
        # condition reads it, so the digits are compared once on all rows, and once more on the few that are left.
        digits = nw.col(SPREAD) - nw.col(SPREAD).floor()  # below 1, so a share of 1 draws all
        spread = frame.with_columns(**{MIXTURE: mixture}).with_columns(**{SPREAD: nw.col(MIXTURE).log() * fine})
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


def few_rows(pool: LazyPool, worthwhile: float = 4.0) -> tuple[DistinctRows, bool]:
    """Return all distinct rows of a pool, or a small part of its rows; and whether these are all of them.

    All of them are queried if that pays: if there are several rows for each distinct one.
    """
    if pool.distinct is not None:
        return pool.distinct, True
    rows, distinct = subsample(pool)
    columns = list(pool.declared.columns)
    if worthwhile * distinct <= pool.lengths.sum() and distinct <= (limit := most_cells(len(columns))):
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
    return EngineRows(frames, model, joint, pool.reach)


def functions_on(pool: LazyPool, rows: DistinctRows) -> Floats:
    """Return the functions with known means on some rows, of shape (n, M); for a bias its known factor."""
    return rows.matrix[:, pool.places(pool.declared.function_columns)]
