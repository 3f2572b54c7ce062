"""How engines are asked: aggregates, declared so that those of several pieces can be put together, and errors.

This is the one place where an engine is queried: whatever it raises becomes an EngineError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import narwhals as nw
import numpy as np

from vardi.errors import EngineError, VardiError
from vardi.errors._texts import lines_of

#: Rows in an engine, which may be of any library.
LazyFrame: TypeAlias = nw.LazyFrame[Any]
#: What it answers.
DataFrame: TypeAlias = nw.DataFrame[Any]
#: How rows are aggregated: by the method of narwhals of this name.
How: TypeAlias = Literal["sum", "min", "max", "n_unique", "len"]


@dataclass(frozen=True, eq=False)
class Aggregate:
    """An aggregate of a column or an expression, over all rows or within groups.

    Attributes
    ----------
    of : nw.Expr or str
        The expression, or the name of a column.
    how : str
        The method of narwhals that aggregates it.
    """

    of: nw.Expr | str
    how: How = "sum"

    @property
    def expression(self) -> nw.Expr:
        """The expression; for a name, the column of that name."""
        return nw.col(self.of) if isinstance(self.of, str) else self.of

    def over(self, values: nw.Expr) -> nw.Expr:
        """Return the aggregate of some values."""
        found: nw.Expr = nw.len() if self.how == "len" else getattr(values, self.how)()
        return found


#: The number of rows.
LENGTH = Aggregate("", "len")


@dataclass(frozen=True, eq=False)
class AggregateQuery:
    """Aggregates by keys.

    Attributes
    ----------
    keys : sequence of str
        By which columns; none for all rows.
    asked : mapping from str to Aggregate
        What, by names.
    most : int or None
        How many groups at most.
    """

    keys: Sequence[str]
    asked: Mapping[str, Aggregate]
    most: int | None = None

    def of(self, frame: LazyFrame) -> LazyFrame:
        """Return the query of a frame.

        Within groups expressions are made columns first, because pandas aggregates only columns.
        """
        if not self.keys:
            return frame.select(*(one.over(one.expression).alias(name) for name, one in self.asked.items()))
        columns = {f"__vardi_of_{name}": one.of for name, one in self.asked.items() if isinstance(one.of, nw.Expr)}
        named = [
            one.over(nw.col(one.of if isinstance(one.of, str) else f"__vardi_of_{name}")).alias(name)
            for name, one in self.asked.items()
        ]
        found = (frame.with_columns(**columns) if columns else frame).group_by(*self.keys).agg(*named)
        return found if self.most is None else found.head(self.most)


def collected(frame: LazyFrame, sample: str | None = None) -> DataFrame:
    """Compute a lazy frame of a few rows, with the engine that the user has chosen for it."""
    with answering(sample):
        return frame.collect()


def gives_batches(frame: LazyFrame) -> bool:
    """Return whether an engine works in this process and gives rows as it computes them, without holding all.

    Before version 2 batches of Polars could wait forever for an expression that calls a function of Python.
    """
    kind = frame.implementation
    return kind.is_duckdb() or (kind.is_polars() and int(kind.to_native_namespace().__version__.split(".")[0]) >= 2)


def in_batches(frame: LazyFrame, rows: int, sample: str | None = None) -> Iterator[DataFrame]:
    """Yield a lazy frame of such an engine in batches of so many rows at most, as they are computed."""
    with answering(sample):
        native, is_polars = frame.to_native(), frame.implementation.is_polars()
        batches = iter(native.collect_batches(chunk_size=rows) if is_polars else native.to_arrow_reader(rows))
    while True:
        with answering(sample):
            batch = next(batches, None)
        if batch is None:
            return
        yield nw.from_arrow(batch, backend="polars" if is_polars else "pyarrow")


def schema_of(frame: LazyFrame, sample: str | None = None) -> nw.Schema:
    """Return names and types of the columns of a lazy frame."""
    with answering(sample):
        return frame.collect_schema()


@contextmanager
def answering(sample: str | None = None) -> Iterator[None]:
    """Turn what an engine raises into an `EngineError` that names the sample, or the one frame of all samples.

    An interrupt, a lack of memory, a package that is not installed and errors of this package pass through unchanged.
    """
    try:
        with np.errstate(all="ignore"):  # pandas computes with NumPy, and our checks find what is not finite
            yield
    except (VardiError, MemoryError, ImportError):
        raise
    except Exception as raised:
        if isinstance(raised.__cause__, KeyboardInterrupt):  # how DuckDB reports an interrupt
            raise raised.__cause__ from None
        error = _engine_s_own(raised)
        rows = "the frame of all samples" if sample is None else f"the rows of sample {sample!r}"
        kind = type(error).__module__.split(".")[0].lstrip("_")
        said = f"{type(error).__name__}: {_first_line(error)}"
        raise EngineError(
            f"The engine could not compute on {rows} ({'' if kind == 'builtins' else f'{kind} '}{said}). Nothing was "
            f"left half done. {_remedy(error)}",
            sample=sample,
        ) from error


def _engine_s_own(error: Exception) -> Exception:
    """Return the engine's own error if narwhals has replaced it by one of its own."""
    inner = error.__cause__ or error.__context__
    return inner if isinstance(inner, Exception) and type(error).__module__.startswith("narwhals") else error


def _first_line(error: Exception) -> str:
    lines = lines_of(error)
    if _is_of_java(error):  # the first line names a call; Java's causes follow, each with its stack
        lines = [line for line in lines if line.startswith((": ", "Caused by: "))][-1:] or lines
    return lines[0].removeprefix(": ").removeprefix("Caused by: ").rstrip(".")


def _is_of_java(error: Exception) -> bool:
    return type(error).__module__.startswith("py4j")


def _remedy(error: Exception) -> str:
    said = f"{type(error).__name__} {_first_line(error) if _is_of_java(error) else error}".lower()
    if "sparkcontext" in said or "py4jnetwork" in said or "connection refused" in said:
        return "The Spark session has ended: start one, recreate the frames in it, and debias again."
    if "memory" in said:
        return "Give the engine more memory or a directory to spill to, or let it stream."
    if isinstance(error, FileNotFoundError) or "no such file" in said or "no files found" in said:
        return "Check that the file is where the frame says, and stays there while the fit is used."
    if "connection" in said and ("closed" in said or "connect" in type(error).__name__.lower()):
        return "Keep the connection open as long as the fit is used, and recreate the frame."
    if "parquet" in said or "magic bytes" in said:
        return "Check that the file is complete and in the format it is read as."
    return "Collect the first rows of the frame in its engine to see more; the engine's own error is the cause of this."
