"""How rows that stay in an engine depend on one another: by columns of their frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from vardi._inputs.dependence import (
    DeclaredDependence,
    Depends,
    missing_labels,
    no_column,
    refuse_together,
    remaining_of,
    tied_times,
    warn_of_few_clusters,
)
from vardi._inputs.engines import LENGTH, Aggregate
from vardi._inputs.lazy_columns import as_column
from vardi._inputs.lazy_part import PREFIX, Change, Part, sums_by_sample
from vardi._inputs.partitions import with_place
from vardi.biases._compile import NarwhalsTarget
from vardi.errors import MismatchError, TooLargeError

if TYPE_CHECKING:
    from vardi._inputs.lazy_pool import LazyPool

SERIES_APART = 2**32  # distance between the numbers of batches of two series
UNIT, CELL, PLACE = f"{PREFIX}unit", f"{PREFIX}cell", f"{PREFIX}in_time"
ROWS, DISTINCT, MISSING = f"{PREFIX}rows", f"{PREFIX}distinct_{{}}", f"{PREFIX}missing_{{}}"


class EngineDependence(DeclaredDependence[str]):
    """What was declared by the names of columns."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns by which sums of influence values are taken within samples."""
        return (UNIT, *([CELL] if self.strata else []))

    def units(self, part: Part, rows_a_value: Sequence[int]) -> Change:
        """Return the change that adds the unit of each row, and its stratum, to a frame.

        In a series the unit is the row's place in time, divided by how many rows of its sample make up a value.
        """
        columns = {CELL: nw.col(self.strata)} if self.strata else {}
        if self.clusters:
            columns[UNIT] = nw.col(self.clusters)
        order = self.order
        if self.clusters or order is None:
            return lambda frame: frame.with_columns(**columns)
        by = [] if part.label is None else [part.label]
        columns[UNIT] = (nw.col(PLACE) // part.of_sample(rows_a_value)).cast(nw.Int64)
        return lambda frame: with_place(frame, PLACE, order, by).with_columns(**columns)


def as_engine_dependence(pool: LazyPool, depends: Depends) -> EngineDependence:
    """Return how rows in an engine depend on one another, after a check by one query for each frame."""
    named = depends.named
    if not named:
        return EngineDependence.none(len(pool.names))
    refuse_together(named, counted=any(part.counted for part in pool.parts))
    if "strata" in named and "clusters" not in named:
        raise MismatchError(
            "strata= without clusters= needs the deviation of every row within its stratum, but the rows are "
            "lazy frames. Collect the columns you need, or name the column that identifies a row as clusters=."
        )
    columns = {what: _column(what, getattr(depends, what)) for what in named if what != "population"}
    for what, column in columns.items():
        _require_column(pool.parts, what, column)
    remaining = remaining_of(pool.names, pool.sizes, depends.population)
    if columns:
        _look(pool, columns)
    return EngineDependence(columns.get("clusters"), columns.get("series"), columns.get("strata"), remaining, named)


def _column(what: str, given: object) -> str:
    if given is True:
        raise MismatchError(
            f"{what} was given as True, but the rows are lazy frames. An engine keeps no order of rows: name the "
            "column that orders them."
        )
    return as_column(what, given)


def _require_column(parts: Sequence[Part], what: str, column: str) -> None:
    if not all(column in part.schema for part in parts):
        raise no_column(column, list(dict.fromkeys(name for part in parts for name in part.schema)), what)
    kinds = [part.schema[column] for part in parts]
    if what == "series" and not all(kind.is_numeric() or kind.is_temporal() for kind in kinds):
        raise MismatchError(
            f"series= names {column!r}, which holds {kinds[0]} and has no order in time. Give numbers or dates."
        )


def _look(pool: LazyPool, columns: Mapping[str, str], most: int = 1_000_000) -> None:
    """Refuse missing labels, tied times and more clusters than sums are held, by one query for each frame."""

    def asked(part: Part) -> dict[str, Aggregate]:
        target, terms = NarwhalsTarget(part.schema), {ROWS: LENGTH}
        for what, column in columns.items():
            terms[DISTINCT.format(what)] = Aggregate(column, "n_unique")
            terms[MISSING.format(what)] = Aggregate(target.is_missing(column).cast(nw.Int64))
        return terms

    found = sums_by_sample(pool.parts, len(pool.names), asked)
    for what in columns:
        if missing := int(found[MISSING.format(what)].sum()):
            raise missing_labels(missing, what)
    if "series" in columns:
        tied = found[ROWS] - found[DISTINCT.format("series")]
        for k in np.flatnonzero(tied > 0).tolist():
            raise tied_times(int(tied[k]), pool.names[k], np.nan)
    if "clusters" in columns:
        clusters = found[DISTINCT.format("clusters")].astype(np.int64)
        if clusters.sum() > most:
            raise _too_many_clusters(columns["clusters"], int(clusters.sum()))
        warn_of_few_clusters(pool.names, clusters, pool.sizes, columns["clusters"])


def _too_many_clusters(column: str, found: int) -> TooLargeError:
    """Return the error for clusters whose sums would not fit in memory."""
    return TooLargeError(
        f"{column!r} has {found:,} clusters, and a sum for each would have to be held at once. Leave clusters= out if "
        "rows do not depend on one another; otherwise use a column of larger clusters.",
        bytes=8 * found,
    )
