"""Lazy frames with a column for each bias, and how their rows depend on one another: checked by one query for each."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import narwhals as nw
import numpy as np

from vardi._inputs.by_row import shared_names
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
from vardi._inputs.engines import LENGTH, Aggregate, answering, collected, schema_of
from vardi._inputs.frames import NarwhalsFrame, require_read_as_names
from vardi._inputs.lazy_columns import DeclaredColumns, as_column
from vardi._inputs.lazy_part import PREFIX, Change, DistinctRows, Part, rows_by_value, sums_by_sample
from vardi._inputs.lazy_survey import Survey, survey
from vardi._inputs.partitions import as_lazy, with_place
from vardi._inputs.pool import Name, Pool, as_biases, as_named, require_biases_for, require_shared_columns
from vardi._machine import available_memory, require_memory
from vardi._types import Floats
from vardi.biases import Bias, LearnedBias, everywhere
from vardi.biases._compile import NarwhalsTarget
from vardi.biases._kinds import parts_of, with_parts
from vardi.biases._values import once
from vardi.errors import InvalidBiasError, MismatchError, TooLargeError
from vardi.errors._refusals import MOST, empty_pool, empty_samples, impossible_rows, invalid_bias, too_many
from vardi.errors._texts import show

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


def open_frames(samples: object, biases: object, *, source: object, counts: object) -> OpenFrames:
    """Check names and types of the columns of lazy samples, without a query."""
    label = None if source is None else as_column("source", source)
    counted = None if counts is None else as_column("counts", counts)
    by_name = as_named(biases, "biases")
    named = as_named(samples, "samples") if label is None else {}
    require_biases_for(named, by_name)
    names = (*named, *(name for name in by_name if name not in named))
    every = as_biases(by_name, names)
    computed = (with_parts(one, lambda part: everywhere() if isinstance(part, LearnedBias) else part) for one in every)
    _ = DeclaredColumns(tuple(map(str, names)), tuple(computed)).columns  # all of them can be
    codes = {name: k for k, name in enumerate(names)}
    if label is not None:
        parts = [opened(samples, label, codes, None)]
    else:
        parts = [opened(native, None, {None: codes[name]}, str(name)) for name, native in named.items()]
    return OpenFrames(names, every, tuple(parts), counted)


@dataclass(frozen=True)
class OpenFrames:
    """Frames of which only the names and types of columns were checked.

    Attributes
    ----------
    names : tuple
        One for each bias: the samples in their order, then the states that no sample was drawn from.
    biases : tuple of Bias
        One for each name.
    parts : tuple of Part
        The frames as the user gave them.
    counts : str or None
        Column of frequency weights.
    """

    names: tuple[Name, ...]
    biases: tuple[Bias, ...]
    parts: tuple[Part, ...]
    counts: str | None

    @property
    def learns(self) -> bool:
        """Whether a bias is to be learned."""
        return any(isinstance(part, LearnedBias) for bias in self.biases for part in parts_of(bias))

    def read(self, depends: Depends) -> dict[Name, NarwhalsFrame] | NarwhalsFrame:
        """Return the rows in memory, in the order in which the engine gives them, for a model to see."""
        for what in depends.named:
            if what != "population":
                _column(what, getattr(depends, what))
        numbers = sum(int(part.aggregates({ROWS: LENGTH})[ROWS]) * len(part.schema) for part in self.parts)
        require_memory(
            2 * 8 * numbers,  # as the engine gives them, and as NumPy has them
            "The rows of lazy frames, which a model is to see,",
            "Select fewer columns or rows of the frames before they are debiased.",
        )
        found = [nw.maybe_reset_index(collected(part.frame, part.name)) for part in self.parts]
        frames = [NarwhalsFrame(rows.to_native(), rows, is_read=True) for rows in found]
        return frames[0] if self.parts[0].label is not None else dict(zip(self.names, frames, strict=False))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that all frames have."""
        return shared_names([part.schema for part in self.parts])

    def rows_by_value(self, column: str) -> Mapping[Hashable, int]:
        """Return how many rows have each value of a column."""
        return rows_by_value(self.parts, column) or {}

    def kind(self, column: str) -> Literal["number", "condition", "other"]:
        """Return whether a column holds numbers, truth values, or something that has no mean."""
        kinds = [part.schema[column] for part in self.parts]
        if all(kind == nw.Boolean for kind in kinds):
            return "condition"
        return "number" if all(kind.is_numeric() or kind == nw.Boolean for kind in kinds) else "other"

    def survey(self, functions: Sequence[Bias | int] = ()) -> LazyPool:
        """Add biases, features and functions to the frames as columns, and check them by one query for each frame.

        If all of them are made of conditions, the query returns the distinct rows as well.
        """
        declared = DeclaredColumns(tuple(map(str, self.names)), self.biases, tuple(functions))
        columns = {part.name: tuple(schema_of(part.frame, part.name)) for part in self.parts}
        require_shared_columns(self.biases, self.names, columns)
        limit = most_cells(len(declared.columns))
        parts, surveys = zip(*(survey(part, declared, self.counts, limit) for part in self.parts), strict=True)
        no_rows = (), np.empty(0, np.int64), once(0)  # in memory
        dependence = EngineDependence.none(len(self.names))
        pool = LazyPool(self.names, self.biases, *no_rows, dependence, parts, declared, Survey.joined(surveys))
        _require_valid(pool)
        return pool


@dataclass(frozen=True)
class LazyPool(Pool):
    """A pool of lazy frames.

    Attributes
    ----------
    parts : tuple of Part
        The frames.
    declared : DeclaredColumns
        What their columns hold.
    groups : Survey
        Their rows in groups.
    dropped : tuple of Part
        Frames of samples that were left out.
    """

    parts: tuple[Part, ...]
    declared: DeclaredColumns
    groups: Survey
    dropped: tuple[Part, ...] = ()

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def places(self, columns: Iterable[str]) -> list[int]:
        """Return the places of some columns among the declared ones."""
        every = list(self.declared.columns)
        return [every.index(name) for name in columns]

    @cached_property
    def sizes(self) -> Floats:
        """The number of rows of each sample."""
        return self.groups.by_sample(self.groups.counts, len(self.names))

    @cached_property
    def lengths(self) -> Floats:
        """The number of rows of each sample, without counts."""
        return self.groups.by_sample(self.groups.rows, len(self.names))

    @cached_property
    def reach(self) -> Floats:
        """Counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        return self.groups.by_sample(self.groups.reach, len(self.names)).T

    @cached_property
    def lows(self) -> Floats:
        """The smallest value of each declared column."""
        return self.groups.low.min(axis=0)

    @cached_property
    def highs(self) -> Floats:
        """The largest value of each declared column."""
        return self.groups.high.max(axis=0)

    @cached_property
    def distinct(self) -> DistinctRows | None:
        """The distinct rows, if all rows of a group are equal; None if they are not."""
        groups = self.groups
        is_equal = bool((groups.low == groups.high).all())
        return DistinctRows(groups.low, groups.source, groups.counts).in_order() if is_equal else None

    def of_samples(self, codes: Sequence[int]) -> LazyPool:
        """Return the pool with the rows of some samples only; the others are states that were not sampled."""
        left = [part for part in self.parts if not set(codes).isdisjoint(part.codes.values())]
        return replace(
            self,
            parts=tuple(part.of_samples(codes) for part in left),
            dropped=(*self.dropped, *(part for part in self.parts if part not in left)),
            groups=self.groups.of(np.isin(self.groups.source, codes)),
        )

    def values_of(self, column: str, most: int = 10_000) -> Collection[Hashable] | None:
        """Query the distinct values of a column, by one query for each frame; None if there are too many."""
        if not all(column in part.schema for part in self.parts):
            return None
        return rows_by_value(self.parts, column, most)

    def sides(self, bounds: Sequence[tuple[str, float]]) -> Floats:
        """Query the number of rows below, at and above bounds, by one query for each frame."""
        columns = [(nw.col(column), bound) for column, bound in bounds]
        signs = [sign for column, bound in columns for sign in (column < bound, column == bound, column > bound)]

        def asked(part: Part) -> dict[str, Aggregate]:
            terms = [part.times_count(sign.cast(nw.Float64)) for sign in signs]
            return {f"{PREFIX}{j}": Aggregate(term) for j, term in enumerate(terms)}

        found = sums_by_sample(self.parts, len(self.names), asked)
        return np.array(list(found.values())).reshape(len(bounds), 3, -1)


def opened(native: object, label: str | None, codes: dict[Hashable, int], sample: str | None) -> Part:
    """Return a frame as it is; raise if its columns cannot be used."""
    if isinstance(native, np.ndarray):
        raise MismatchError(
            "A NumPy array cannot be combined with lazy frames, whose columns have names and types. Make it a frame."
        )
    with answering(sample):
        frame = as_lazy(native)
    schema = schema_of(frame, sample)
    require_read_as_names(schema, frame.implementation)
    ours = [column for column in schema if column.startswith(PREFIX)]
    if ours:
        raise MismatchError(f"Column names that begin with {PREFIX!r} are reserved by vardi. Rename {show(ours)}.")
    return Part(frame, label, codes, counted=False, name=sample)


def _require_valid(pool: LazyPool) -> None:
    """Refuse a frame or a sample without rows, an invalid value, and rows that their own sample's bias forbids."""
    for part in pool.parts:
        if not part.codes:
            raise empty_pool()
        for code in part.codes.values():
            own = pool.groups.of(pool.groups.source == code)
            if not len(own.source):
                raise empty_samples([pool.names[code]])
            _require_values(own, pool.declared, code)
    impossible = pool.sizes - np.diag(pool.reach)
    for k in np.flatnonzero((impossible > 0) & (pool.sizes > 0)).tolist():
        raise impossible_rows(pool.names[k], impossible[k])
    if pool.sizes.sum() > MOST:
        raise too_many(pool.sizes.sum())


def _require_values(mine: Survey, declared: DeclaredColumns, code: int) -> None:
    """Refuse a bias that is negative, and any column that is NaN or infinite, on some row of a sample."""
    owners = {name: k for k, names in declared.features.items() for name in names}
    for j, (column, holds) in enumerate(declared.columns.items()):
        low, high, rows = mine.low[:, j], mine.high[:, j], f"some rows of {declared.names[code]!r}"
        is_bias = j < len(declared.biases)
        if ((low >= 0 if is_bias else low > -np.inf) & (high < np.inf)).all():
            continue
        bottom = low.min() < 0 if is_bias else low.min() == -np.inf
        value = "NaN" if np.isnan(low).any() else float(low.min()) if bottom else float(high.max())
        if is_bias:
            raise invalid_bias(declared.names[j], value, rows)
        if column in owners:
            name, bias = declared.names[owners[column]], declared.biases[owners[column]]
            raise InvalidBiasError(
                f"The bias {bias} of {name!r} reads {holds}, which is {value} at {rows}. A bias needs finite numbers, "
                "and a power a column above zero, on the rows of every sample. Correct the column, or remove these "
                "rows.",
                sample=name,
            )
        raise InvalidBiasError(
            f"{holds}, whose mean is known, is {value} at {rows}, so no weights can meet it. Correct the column, or "
            "remove these rows.",
            sample=str(holds),
        )


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
            raise TooLargeError(
                f"{columns['clusters']!r} has {clusters.sum():,} clusters, and a sum for each would have to be held at "
                "once. Leave clusters= out if rows do not depend on one another; otherwise use a column of larger "
                "clusters.",
                bytes=8 * int(clusters.sum()),
            )
        warn_of_few_clusters(pool.names, clusters, pool.sizes, columns["clusters"])


def most_cells(columns: int, fraction: float = 0.25, copies: int = 6) -> int:
    """Return how many distinct rows, with this many columns, are brought into memory at most.

    A quarter of the memory available now, since the engine and the user's own data need some too, over what a cell
    needs: 8 bytes for each column, its count, its label and its hash, six times, since the engine's table, its answer,
    our matrix and its scaled copy coexist, and two are in transit. With 16 GB available and three columns that is 14
    million.
    """
    return max(int(fraction * available_memory() / (8 * (columns + 3) * copies)), 1)
