"""What queries do to a frame where Dask's frames, asked partition by partition, go a way of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import narwhals as nw

from vardi._inputs.engine.aggregates import AggregateQuery
from vardi._inputs.engine.asking import LazyFrame
from vardi._inputs.engine.partitions import PartitionedAnswer, PartitionedFrame, PartitionStep, shown
from vardi._types import Floats
from vardi.biases._expressions.targets import literal


def as_lazy(native: Any) -> LazyFrame:
    """Return a frame of any library as a lazy one."""
    frame: LazyFrame = nw.from_native(native).lazy()
    if frame.implementation.is_dask():  # it has the methods that are used here, and no others
        return _lazy(PartitionedFrame(frame.to_native(), narrow=True))
    return frame


def aggregated(frame: LazyFrame, query: AggregateQuery) -> LazyFrame:
    """Return a query of aggregates."""
    own = _partitioned(frame)
    return query.of(frame) if own is None else _lazy(PartitionedAnswer(own, query))


def with_own(change: Callable[[LazyFrame], LazyFrame], read: Sequence[str], frame: LazyFrame) -> LazyFrame:
    """Return a frame of Dask with a change made to its partitions, as pandas: it reads some columns, or any if none."""
    own = _partitioned(frame)
    assert own is not None
    return _lazy(own.then(PartitionStep(change, shown(*read) if read else None)))


def with_interval(frame: LazyFrame, name: str, x: nw.Expr, edges: Floats) -> LazyFrame:
    """Add how many of increasing edges x is above."""
    own = _partitioned(frame)
    return (
        frame.with_columns(**{name: _interval(x, edges)}) if own is None else _lazy(own.with_interval(name, x, edges))
    )


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
    """Add the place of each row's value among the distinct values of a column, from 0 on."""
    own = _partitioned(frame)
    if own is None:
        return frame.with_columns(**{name: nw.col(column).rank("dense").cast(nw.Int64) - 1})
    return _lazy(own.with_rank(name, column))


def stacked(frames: Sequence[LazyFrame]) -> LazyFrame:
    """Return the rows of several frames of one engine as one frame."""
    if not any(isinstance(frame, PartitionedFrame) for frame in frames):
        return nw.concat(frames)
    return as_lazy(nw.concat([nw.from_native(frame.to_native()).lazy() for frame in frames]))


def _partitioned(frame: object) -> PartitionedFrame | None:
    return frame if isinstance(frame, PartitionedFrame) else None


def _lazy(own: PartitionedFrame | PartitionedAnswer) -> LazyFrame:
    return cast("LazyFrame", own)
