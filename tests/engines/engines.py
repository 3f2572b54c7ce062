"""Where rows can live: each engine makes a frame of its own from a table of Arrow, and gives rows back to compare."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from spark_cluster import SparkCluster


@dataclass(frozen=True)
class Engine:
    """One place for rows.

    Attributes
    ----------
    name : str
        For the ids of tests.
    frame : callable
        From a table of Arrow to a frame of the engine.
    lazy : bool
        Whether vardi leaves the rows where they are.
    streaming : bool
        Whether Polars is to stream.
    """

    name: str
    frame: Callable[[pa.Table], Any]
    lazy: bool
    streaming: bool = False

    def samples(self, tables: dict[Any, pa.Table]) -> dict[Any, Any]:
        """Return each table as a frame."""
        return {name: self.frame(table) for name, table in tables.items()}


@dataclass(frozen=True)
class Mixed(Engine):
    """Samples in different places: the first in one engine, the second in another, and so on."""

    places: tuple[Engine, ...] = ()

    def samples(self, tables: dict[Any, pa.Table]) -> dict[Any, Any]:
        """Return each table as a frame, going round the engines."""
        turns = [self.places[place % len(self.places)] for place in range(len(tables))]
        return {name: turn.frame(table) for turn, (name, table) in zip(turns, tables.items(), strict=True)}


LOCAL = ("numpy", "pandas", "polars", "polars-lazy", "polars-streaming", "pyarrow", "duckdb", "ibis", "dask", "mixed")
SPARK = ("spark", "mixed-spark")
ENGINES = (*LOCAL, *SPARK)
LAZY = tuple(name for name in ENGINES if name not in ("numpy", "pandas", "polars", "pyarrow"))
EVERY_PAIR = "VARDI_EVERY_PAIR" in os.environ  # as `make slow` sets it
QUICK_TO_ASK = ("polars-lazy", "duckdb", *(("dask",) if EVERY_PAIR else ()))  # and Dask, if there is time
ONE_FRAME = tuple(name for name in ENGINES if not name.startswith("mixed"))


def local_engine(name: str) -> Engine:
    """Return an engine that needs no cluster."""
    frame = {
        "numpy": as_structured,
        "pandas": as_pandas,
        "polars": pl.from_arrow,
        "polars-lazy": lambda table: pl.from_arrow(table).lazy(),
        "polars-streaming": lambda table: pl.from_arrow(table).lazy(),
        "pyarrow": lambda table: table,
        "duckdb": lambda table: duckdb_connection().from_arrow(table),
        "ibis": as_ibis,
        "dask": as_dask,
    }
    if name == "mixed":
        places = tuple(local_engine(place) for place in ("duckdb", "pandas", "polars-lazy", "ibis", "pyarrow"))
        return Mixed(name, frame["duckdb"], lazy=True, places=places)
    return Engine(name, frame[name], lazy=name in LAZY, streaming=name == "polars-streaming")


def spark_engine(name: str, cluster: SparkCluster) -> Engine:
    """Return an engine on a cluster."""
    spark = Engine("spark", lambda table: cluster.session().createDataFrame(table), lazy=True)
    if name == "spark":
        return spark
    return Mixed(name, spark.frame, lazy=True, places=(local_engine("duckdb"), spark, local_engine("pandas")))


def as_structured(table: pa.Table) -> np.ndarray:
    """Return an array with a field for each column; missing numbers are NaN, missing texts None."""
    arrays = {name: _as_array(table.column(name)) for name in table.column_names}
    rows = np.empty(table.num_rows, [(name, array.dtype) for name, array in arrays.items()])
    for name, array in arrays.items():
        rows[name] = array
    return rows


def _as_array(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_temporal(column.type):
        return column.to_numpy()
    if pa.types.is_string(column.type):
        return np.array(column.to_pylist(), object if column.null_count else None)
    return column.to_numpy()


def as_pandas(table: pa.Table) -> Any:
    """Return a frame of pandas, with dates as its own and an index that is not 0, 1, ..."""
    pytest.importorskip("pandas")
    frame = table.to_pandas(date_as_object=False)
    frame.index = [f"row {place}" for place in range(len(frame))]
    return frame


@cache
def duckdb_connection() -> Any:
    """Return the one connection whose relations the tests make."""
    return pytest.importorskip("duckdb").connect()


def as_ibis(table: pa.Table) -> Any:
    """Return a table of Ibis on its DuckDB."""
    ibis = pytest.importorskip("ibis", reason="Ibis' tests need it: pip install 'vardi[ibis]'")
    return ibis.memtable(table)


def as_dask(table: pa.Table) -> Any:
    """Return a frame of Dask in one partition or, with more rows, two, computed in the thread that asks."""
    frames = pytest.importorskip("dask.dataframe", reason="Dask's tests need it: pip install 'vardi[dask]'")
    dask = pytest.importorskip("dask")
    dask.config.set(scheduler="synchronous")
    return frames.from_pandas(table.to_pandas(date_as_object=False), npartitions=1 + (table.num_rows > 150))


def collected(native: Any) -> dict[str, list[Any]]:
    """Return a frame of any engine as lists, sorted by its column ``id``: engines need not keep an order."""
    rows: Any = nw.from_native(native).lazy().collect(backend="pyarrow").to_native()
    for place, kept in enumerate(rows.schema):
        if pa.types.is_timestamp(kept.type):  # pandas has no dates of its own
            rows = rows.set_column(place, kept.name, rows.column(kept.name).cast(pa.date32()))
    columns = rows.sort_by("id").to_pydict()
    columns.pop("__index_level_0__", None)  # of pandas
    return columns
