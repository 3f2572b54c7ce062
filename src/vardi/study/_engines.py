"""Reading the named files, and nothing else, by Polars or DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import narwhals as nw

from vardi.errors import StudyError, suggest
from vardi.study._data import Data, Engine

ROW = "__row__"
COUNTS = "__counts__"
FIRST_ROWS = 100_000
"""Rows of a text file from which a lazy engine takes the types of the columns."""

_EXTRAS = {"polars": "cli", "duckdb": "duckdb", "pyarrow": "cli"}
# DuckDB reads the database or the files it is given, and can do nothing else: no extension, no other file, no network.
_CLOSED = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


def package(name: str) -> Any:
    """Import an optional package, or say what brings it."""
    try:
        return import_module(name)
    except ImportError as error:
        extra = _EXTRAS[name.partition(".")[0]]
        raise ImportError(f"This needs {name}. Install it with: pip install 'vardi[{extra}]'", name=name) from error


@contextmanager
def reading(data: Data) -> Iterator[None]:
    """Turn what an engine says of a file that it cannot read into an error of the study."""
    try:
        yield
    except (ImportError, StudyError):
        raise
    except RecursionError as error:
        raise StudyError(f"{data} is nested too deeply to be read.") from error
    except Exception as error:
        if not is_engine_error(error):
            raise
        raise StudyError(f"{data} cannot be read as {data.format}: {first_line(error)}") from error


def is_engine_error(error: BaseException) -> bool:
    """Tell whether an exception was raised by Polars, DuckDB or PyArrow, or by the system under them."""
    if isinstance(error, BrokenPipeError):  # data are files, so that is an output that nobody reads any more
        return False
    modules = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return isinstance(error, OSError) or bool(modules & {"polars", "duckdb", "_duckdb", "pyarrow", "narwhals"})


def first_line(error: BaseException) -> str:
    """Return the first line of what an engine says, which is the part for people."""
    return str(error).strip().split("\n")[0].rstrip(".") + "."


def schema(data: Data, engine: Engine) -> nw.Schema:
    """Return the columns of some data with their types."""
    with reading(data):
        frame: Any = nw.from_native(_lazy(data, engine))
        return nw.Schema(frame.collect_schema())


def in_memory(data: Data, label: str | None) -> Any:
    """Return the rows as a frame of Polars."""
    with reading(data):
        frame = _relation(data).pl() if data.format == "duckdb" else _scan(data, None).collect()
    pl = package("polars")
    return frame if label is None else frame.with_columns(pl.col(label).cast(pl.String))


def left_in_place(data: Data, engine: Engine, label: str | None, *, counted: bool) -> Any:
    """Return the rows as a lazy frame, with their position and, where samples are counted, their counts."""
    with reading(data):
        if engine == "polars":
            frame: Any = nw.from_native(_scan(data, FIRST_ROWS).with_row_index(ROW))
        else:
            frame = nw.from_native(_relation(data).project(f'*, row_number() OVER () - 1 AS "{ROW}"'))
    frame = frame.with_columns(nw.col(ROW).cast(nw.Int64))
    if label is not None:
        frame = frame.with_columns(nw.col(label).cast(nw.String))
    if counted:
        count = nw.lit(1.0) if data.counts is None else nw.col(data.counts).cast(nw.Float64)
        frame = frame.with_columns(count.alias(COUNTS))
    return frame.to_native()


def tables(data: Data) -> list[str]:
    """Return the names of the tables of a database."""
    with reading(data):
        found = _database(data).execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()
    return [str(name) for (name,) in found]


def _lazy(data: Data, engine: Engine) -> Any:
    if engine == "duckdb" or data.format == "duckdb":
        return _relation(data)
    return _scan(data, None if engine == "memory" else FIRST_ROWS)


def _scan(data: Data, first_rows: int | None) -> Any:
    pl = package("polars")
    scans = []
    for path in data.files:
        if data.format == "csv":
            scans.append(pl.scan_csv(path, infer_schema_length=first_rows, glob=False))
        elif data.format == "parquet":
            scans.append(pl.scan_parquet(path, glob=False, hive_partitioning=False))
        else:
            scans.append(pl.scan_ndjson(path, infer_schema_length=first_rows))
    return scans[0] if len(scans) == 1 else pl.concat(scans, how="diagonal_relaxed")


def _relation(data: Data) -> Any:
    """Return a relation on a connection that can read these files and nothing else."""
    if data.format == "duckdb":
        connection = _database(data)
        name = str(data.table).replace('"', '""')
        return connection.sql(f'SELECT * FROM "{name}"')
    duckdb = package("duckdb")
    connection = duckdb.connect(":memory:", config=dict(_CLOSED))
    files = [str(path.resolve()) for path in data.files]
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    if data.format == "csv":
        return connection.read_csv(files, union_by_name=True, header=True)
    if data.format == "parquet":
        return connection.read_parquet(files, union_by_name=True, hive_partitioning=False)
    return connection.read_json(files, format="newline_delimited", union_by_name=True)


def _database(data: Data) -> Any:
    duckdb = package("duckdb")
    config = {**_CLOSED, "enable_external_access": "false", "lock_configuration": "true"}
    return duckdb.connect(str(data.files[0]), read_only=True, config=config)


def require_table(data: Data) -> str | None:
    """Return what is wrong with the table of a database, or None."""
    names = tables(data)
    if data.table in names:
        return None
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"{data.files[0].name} has no table {data.table!r}.{suggest(data.table, names)} It has: {listed or 'none'}."
