"""Frames of Dask, which are asked partition by partition: one task each, whose small answers are put together.

Dask takes seconds to plan a query with hundreds of expressions, one node of its graph each. So expressions are recorded
here, and narwhals evaluates all of them on each partition, a frame of pandas, in a single task. Partial sums, extremes
and counts are put together by the workers, a few at a time, and only the result comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import methodcaller
from typing import Any, TypeAlias, cast

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._inputs.engines import LENGTH, Aggregate, AggregateQuery, DataFrame, LazyFrame
from vardi._types import Floats
from vardi.biases._compile import literal

#: A frame of Dask, one of pandas, and a partition that Dask has yet to compute.
DaskFrame: TypeAlias = Any
PandasFrame: TypeAlias = Any
Partition: TypeAlias = Any

DISTINCT = "__vardi_distinct"
SHOWS_NAMES = repr(nw.col("x") + 1).startswith("col(x)")  # as narwhals does today; otherwise all columns are read


@dataclass(frozen=True, eq=False)
class PartitionStep:
    """What is done to the rows of a partition, each on its own.

    Attributes
    ----------
    change : callable
        From a frame to a frame, both of pandas.
    reads : str or None
        A text that shows each column it reads as ``col(name)``; None if it may read any.
    keeps : bool
        Whether the other columns are still there afterwards.
    """

    change: Callable[[LazyFrame], LazyFrame]
    reads: str | None
    keeps: bool = True


def _recorded(method: str, *, keeps: bool = True) -> Callable[..., PartitionedFrame]:
    """Return a method of lazy frames that is called on each partition."""

    def recorded(frame: PartitionedFrame, *terms: nw.Expr | str, **named: nw.Expr) -> PartitionedFrame:
        change = methodcaller(method, *terms, **named)
        return frame.then(PartitionStep(change, shown(*terms, *named.values()), keeps))

    return recorded


class PartitionedFrame:
    """A frame of Dask with those methods of a lazy frame of narwhals that are used here.

    Parameters
    ----------
    native : dask.dataframe.DataFrame
        The rows.
    steps : tuple of PartitionStep
        What is done to the rows of each partition.
    before : PartitionedFrame, optional
        The frame before the last of these steps.
    narrow : bool
        Whether Dask may be asked for some of the columns; not of sorted rows, of which it loses the order then.
    """

    implementation = nw.Implementation.DASK

    def __init__(
        self,
        native: DaskFrame,
        steps: tuple[PartitionStep, ...] = (),
        before: PartitionedFrame | None = None,
        *,
        narrow: bool = False,
    ) -> None:
        self._native, self._steps, self._before, self._narrow = native, steps, before, narrow
        self._numbered: dict[tuple[str, ...], PartitionedFrame] = {}  # to sort is expensive
        self._planned: dict[tuple[str, ...], list[Partition]] = {} if before is None else before._planned

    # row by row

    def then(self, step: PartitionStep) -> PartitionedFrame:
        """Return the frame with a step made on each partition."""
        return PartitionedFrame(self._native, (*self._steps, step), self, narrow=self._narrow)

    with_columns = _recorded("with_columns")
    filter = _recorded("filter")
    drop = _recorded("drop")
    select = _recorded("select", keeps=False)

    def with_place_among(self, values: np.ndarray, name: str, column: str) -> PartitionedFrame:
        """Return the frame with how many of some increasing values are below that of a column, found by a search."""
        return self.then(PartitionStep(partial(_placed, name, column, values), shown(column)))

    # across rows: what Dask has a way of its own for

    def head(self, n: int) -> PartitionedFrame:
        """Return the first rows."""
        return PartitionedFrame(self.to_native().head(n, npartitions=-1, compute=False))

    def sort(self, column: str) -> PartitionedFrame:
        """Return the rows in the order of a column."""
        return PartitionedFrame(self.to_native().sort_values(column))

    def unique(self) -> PartitionedFrame:
        """Return the rows without duplicates, in any order."""
        native = self.to_native()
        return PartitionedFrame(native.drop_duplicates(split_out=native.npartitions))

    def with_row_index(self, name: str, *, order_by: str, by: Sequence[str] = ()) -> PartitionedFrame:
        """Return the rows in the order of a column and numbered from 0 on, or from 0 on for each value of others."""
        asked = (name, order_by, *by)
        if asked not in self._numbered:
            rows = self.to_native().sort_values(order_by)
            ones = rows.assign(**{name: 1})
            places = (ones.groupby(list(by))[name] if by else ones[name]).cumsum() - 1
            self._numbered[asked] = PartitionedFrame(rows.assign(**{name: places}))
        return self._numbered[asked]

    # answers

    @cached_property
    def _empty(self) -> PandasFrame:
        """The frame without rows, as pandas has it."""
        return self._native._meta if self._before is None else _after(self._steps[-1:], self._before._empty)

    def collect_schema(self) -> nw.Schema:
        """Return names and types of the columns."""
        return nw.from_native(self._empty, eager_only=True).schema

    def to_native(self) -> DaskFrame:
        """Return the frame as Dask's own, not computed."""
        if not self._steps:
            return self._native
        return self._projected().map_partitions(partial(_after, self._steps), meta=self._empty)

    def collect(self) -> DataFrame:
        """Compute the rows."""
        return nw.from_native(self.to_native().compute(), eager_only=True)

    def answer(self, query: AggregateQuery, at_once: int = 16) -> DataFrame:
        """Compute aggregates that can be put together from those of partitions, of so many by one task."""
        from dask.delayed import delayed

        partial_answer = delayed(partial(_answer, self._steps, query), pure=False)
        put_together = delayed(partial(_together, query), pure=False)
        found = [partial_answer(partition) for partition in self._partitions(*query.asked.values(), *query.keys)]
        while len(found) > 1:
            found = [put_together(found[start : start + at_once]) for start in range(0, len(found), at_once)]
        answer = found[0].compute()
        return nw.from_native(_aggregates(query, self._empty) if answer is None else answer, eager_only=True)

    def aggregates(self, query: AggregateQuery) -> DataFrame:
        """Compute any aggregates; numbers of distinct values are those of rows without duplicates."""
        keys, asked = query.keys, query.asked
        rest = {name: one for name, one in asked.items() if one.how != "n_unique"}
        found = [self.answer(replace(query, asked=rest))] if rest else []
        for name, one in asked.items():
            if one.how == "n_unique":
                values = self.select(*keys, one.expression.alias(DISTINCT)).unique()
                found.append(values.answer(replace(query, asked={name: LENGTH})))
        if len(found) == 1:
            return found[0]
        if not keys:
            return nw.concat(found, how="horizontal").select(*asked)
        beside = nw.concat(found, how="diagonal")  # each number of a group once, and otherwise null
        return AggregateQuery(keys, {name: Aggregate(name, "max") for name in asked}).of(beside.lazy()).collect()

    def _partitions(self, *answer: Aggregate | str) -> list[Partition]:
        """Return the partitions with the columns that an answer reads, as Dask plans them: once for equal columns."""
        rows = self.then(PartitionStep(lambda frame: frame, shown(*answer), keeps=False))._projected()
        columns = tuple(rows.columns)
        if columns not in self._planned:
            self._planned[columns] = rows.to_delayed()
        return self._planned[columns]

    def _projected(self) -> DaskFrame:
        """Return the user's columns that steps read, so that files are not read in full."""
        last = next((place for place, step in enumerate(self._steps) if not step.keeps), None)
        read = [step.reads for step in self._steps[: None if last is None else last + 1]]
        if last is None or None in read or not (SHOWS_NAMES and self._narrow):
            return self._native
        text, columns = "\n".join(filter(None, read)), list(self._native.columns)
        needed = [name for name in columns if f"col({name})" in text]
        return self._native[needed or columns[:1]] if len(needed) < len(columns) else self._native


def _after(steps: Sequence[PartitionStep], rows: PandasFrame) -> PandasFrame:
    """Return a frame of pandas with steps made."""
    frame = _of_pandas(rows)
    with np.errstate(all="ignore"):  # tasks may run in threads of their own
        for step in steps:
            frame = step.change(frame)
        return frame.collect().to_native()


def _answer(steps: Sequence[PartitionStep], query: AggregateQuery, rows: PandasFrame) -> PandasFrame | None:
    """Return the aggregates of a partition, as a frame of pandas; None if it has no rows."""
    changed = _after(steps, rows.reset_index(drop=True))
    return _aggregates(query, changed) if len(changed) else None


def _aggregates(query: AggregateQuery, rows: PandasFrame, at_once: int = 64) -> PandasFrame:
    """Return the aggregates of a frame of pandas, some at once: it warns of results with more than 100 columns."""
    names = list(query.asked)
    pieces: list[DataFrame] = []
    with np.errstate(all="ignore"):
        for start in range(0, len(names), at_once):
            some = {name: query.asked[name] for name in names[start : start + at_once]}
            piece = replace(query, asked=some).of(_of_pandas(rows)).collect()
            pieces.append(piece.drop(*query.keys) if pieces else piece)
    return nw.concat(pieces, how="horizontal").to_native()


def _together(query: AggregateQuery, answers: Sequence[PandasFrame | None]) -> PandasFrame | None:
    """Return partial answers as one; None if there are none."""
    found = [nw.from_native(one, eager_only=True) for one in answers if one is not None]
    if not found:
        return None
    merged = {
        name: Aggregate(name, one.how if one.how in ("min", "max") else "sum") for name, one in query.asked.items()
    }
    return _aggregates(replace(query, asked=merged), nw.concat(found).to_native())


def _of_pandas(rows: PandasFrame) -> LazyFrame:
    return nw.from_native(rows, eager_only=True).lazy()


def _placed(name: str, column: str, among: NDArray[Any], frame: LazyFrame) -> LazyFrame:
    """Add how many of some increasing values are below that of a column."""
    rows = frame.collect()
    places = np.searchsorted(among, rows.get_column(column).to_numpy())
    return _of_pandas(rows.to_native().assign(**{name: places}))


def shown(*read: nw.Expr | Aggregate | str) -> str:
    """Return a text that shows each column that is read as ``col(name)``."""
    plain = [one.of if isinstance(one, Aggregate) else one for one in read]
    return "\n".join(f"col({one})" if isinstance(one, str) else repr(one) for one in plain)


def as_lazy(native: Any) -> LazyFrame:
    """Return a frame of any library as a lazy one."""
    frame: LazyFrame = nw.from_native(native).lazy()
    if frame.implementation.is_dask():  # it has the methods that are used here, and no others
        return _lazy(PartitionedFrame(frame.to_native(), narrow=True))
    return frame


def aggregated(frame: LazyFrame, query: AggregateQuery) -> DataFrame:
    """Compute a query of aggregates."""
    own = _partitioned(frame)
    return query.of(frame).collect() if own is None else own.aggregates(query)


def in_pandas(change: Callable[[LazyFrame], LazyFrame], read: Sequence[str], frame: LazyFrame) -> LazyFrame:
    """Return a frame of pandas, or of its partitions, with a change made: it reads some columns, or any if none."""
    own = _partitioned(frame)
    return change(frame) if own is None else _lazy(own.then(PartitionStep(change, shown(*read) if read else None)))


def with_interval(frame: LazyFrame, name: str, x: nw.Expr, edges: Floats) -> LazyFrame:
    """Add how many of increasing edges x is above."""
    own = _partitioned(frame)
    if own is None:
        return frame.with_columns(**{name: _interval(x, edges)})
    return _lazy(own.with_columns(**{name: x.cast(nw.Float64)}).with_place_among(edges, name, name))


def _interval(x: nw.Expr, edges: Floats) -> nw.Expr:
    """Return how many edges x is above, by bisection: an engine compares few of them for each row."""

    def between(low: int, high: int) -> nw.Expr:
        if low == high:
            return nw.lit(low, nw.Int32)
        middle = (low + high) // 2
        left, right = between(low, middle), between(middle + 1, high)
        return nw.when(x <= literal(edges[middle])).then(left).otherwise(right)

    return between(0, len(edges))


def with_place(frame: LazyFrame, name: str, column: str, by: Sequence[str]) -> LazyFrame:
    """Add the number of rows that come before each row in the order of a column, among those with equal labels."""
    own = _partitioned(frame)
    if own is None:
        return frame.with_columns(**{name: nw.col(column).cum_count().over(*by, order_by=column) - 1})
    return _lazy(own.with_row_index(name, order_by=column, by=by))


def with_rank(frame: LazyFrame, name: str, column: str) -> LazyFrame:
    """Add the place of each row's value among the distinct values of a column, from 0 on.

    The distinct values of a frame of Dask are brought into memory: they name clusters, whose sums are held there, too.
    """
    own = _partitioned(frame)
    if own is None:
        return frame.with_columns(**{name: nw.col(column).rank("dense").cast(nw.Int64) - 1})
    values = np.sort(own.select(column).unique().collect().get_column(column).to_numpy())
    return _lazy(own.with_place_among(values, name, column))


def stacked(frames: Sequence[LazyFrame]) -> LazyFrame:
    """Return the rows of several frames of one engine as one frame."""
    return as_lazy(nw.concat([nw.from_native(frame.to_native()).lazy() for frame in frames]))


def _partitioned(frame: object) -> PartitionedFrame | None:
    return frame if isinstance(frame, PartitionedFrame) else None


def _lazy(own: PartitionedFrame) -> LazyFrame:
    return cast("LazyFrame", own)
