"""Read the named files, and nothing else, with Polars or DuckDB."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw

from vardi._inputs.lazy_part import COUNTS, LABEL, ROW
from vardi._inputs.lazy_survey import quoted
from vardi.errors import StudyError, suggest
from vardi.errors._texts import first_of
from vardi.study._data import Data, Engine

if TYPE_CHECKING:
    import polars as pl
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

Lazy: TypeAlias = "pl.LazyFrame | DuckDBPyRelation"

FIRST_ROWS = 100_000
"""Rows of a text file from which a lazy engine infers the types of the columns."""

_EXTRAS = {"polars": "cli", "duckdb": "duckdb", "pyarrow": "cli"}
# DuckDB reads the database or the files it is given, and can do nothing else: no extension, no other file, no network.
_CLOSED = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}

# The same CSV dialect as Polars. DuckDB would guess another separator, a comment character, or lines to skip.
_DIALECT = (
    """delim = ',', quote = '"', escape = '"', comment = '', skip = 0, header = true, """
    "strict_mode = true, allow_quoted_nulls = false, union_by_name = true, nullstr = ['', 'NA']"
)
_MISSING = ["NA"]  # besides empty cells: what R writes
_DIGITS, _CODE = "^[0-9]+$", "^0[0-9]+$"
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
NOT_UTF8 = "it is not UTF-8 text. Save it as CSV UTF-8."
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}  # instead of commas
_REASONS = {
    "more fields than defined": "a row has more cells than the header.",
    "when sniffing file": "a row has more or fewer cells than the header, or a quote is not closed.",
    "invalid utf-8": NOT_UTF8,
    "not utf-8 encoded": NOT_UTF8,
    "empty CSV": "it is empty.",
    'could not parse `"': "a quote is not closed, or stands inside a cell.",
    "unterminated quote": "a quote is not closed.",
}


def package(name: str) -> ModuleType:
    """Import an optional package, or raise an error that names the extra to install."""
    try:
        return import_module(name)
    except ImportError as error:
        extra = _EXTRAS[name.partition(".")[0]]
        raise ImportError(f"This needs {name}. Install it with: pip install 'vardi[{extra}]'", name=name) from error


@contextmanager
def reading(data: Data) -> Iterator[None]:
    """Turn an engine's error about a file that it cannot read into a `StudyError`."""
    try:
        yield
    except (ImportError, StudyError):
        raise
    except RecursionError as error:
        raise StudyError(f"{data} is nested too deeply to be read.") from error
    except Exception as error:
        if not is_engine_error(error):
            raise
        raise StudyError(f"{data} cannot be read as {data.format}: {_reason(error)}") from error


def is_engine_error(error: BaseException) -> bool:
    """Return whether an exception was raised by Polars, DuckDB or PyArrow, or by the operating system under them."""
    if isinstance(error, BrokenPipeError):  # data are files, so this is an output whose reader has gone
        return False
    modules = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return isinstance(error, OSError) or bool(modules & {"polars", "duckdb", "_duckdb", "pyarrow", "narwhals"})


def first_line(error: BaseException) -> str:
    """Return the first line of an engine's message, which is the part meant for people."""
    return str(error).strip().split("\n")[0].rstrip(".") + "."


def _reason(error: BaseException) -> str:
    """Return why a file cannot be read, reworded where the engine's message would not help."""
    return next((ours for theirs, ours in _REASONS.items() if theirs in str(error)), first_line(error))


def schema(data: Data, engine: Engine) -> nw.Schema:
    """Return the columns of the data with their types."""
    with reading(data):
        return nw.Schema(nw.from_native(_rows(data, engine)).collect_schema())


def in_memory(data: Data, label: str | None) -> pl.DataFrame:
    """Return the rows as a Polars frame."""
    with reading(data):
        rows: Any = _rows(data, "memory")
        frame = without_intervals(rows).pl() if data.format == "duckdb" else rows.collect()
    pl = package("polars")
    return frame if label is None else frame.with_columns(pl.col(label).cast(pl.String))


def left_in_place(data: Data, engine: Engine, label: str | None, *, apart: bool, counted: bool) -> Lazy:
    """Return the rows as a lazy frame, with their positions and, if samples have counts, their counts.

    Labels become strings: in their column, or in another one if the study also reads that column as it is.
    """
    with reading(data):
        if engine == "polars" and data.format == "csv":
            _require_whole(data)
        elif data.format == "csv":
            _require_no_blank_lines(data)
        rows: Any = _rows(data, engine)
        if engine == "polars":
            rows = rows.with_row_index(ROW)
        else:
            rows = rows.project(f'*, row_number() OVER () - 1 AS "{ROW}"')
    frame = nw.from_native(rows).with_columns(nw.col(ROW).cast(nw.Int64))
    if label is not None and frame.collect_schema()[label] != nw.String:
        frame = frame.with_columns(nw.col(label).cast(nw.String).alias(LABEL if apart else label))
    if counted:
        count = nw.lit(1.0) if data.counts is None else nw.col(data.counts).cast(nw.Float64)
        frame = frame.with_columns(count.alias(COUNTS))
    return frame.to_native()


def streamed(data: Data) -> Lazy:
    """Return the rows as a lazy frame of Polars, or for a database of DuckDB."""
    return _rows(data, "duckdb" if data.format == "duckdb" else "polars")


def require_rows(data: Data, engine: Engine) -> None:
    """Refuse a CSV without rows: its columns would have no types."""
    if data.format != "csv":
        return
    with reading(data):
        first = nw.from_native(_rows(data, engine)).head(1).collect()
    if not len(first):
        remedy = "Leave the sample out; a bias without rows goes into [states.NAME]."
        raise StudyError(f"{data} has no rows below its header. {remedy}")


def require_header(data: Data, longest: int = 1 << 20) -> None:
    """Refuse a CSV whose header is not UTF-8, or is not separated by commas, as spreadsheets may write it.

    No more than the ``longest`` header is read, in bytes.
    """
    for path in data.files if data.format == "csv" else ():
        with path.open("rb") as file:
            first = file.readline(longest)
        try:
            line = codecs.getincrementaldecoder("utf-8")().decode(first)
        except UnicodeDecodeError:
            raise StudyError(f"{path.name} cannot be read as csv: {NOT_UTF8}") from None
        found = next((sign for sign in _SEPARATORS if "," not in line and sign in line), None)
        if found is not None:
            remedy = "Save it with commas; if this is the name of a column, rename that column."
            raise StudyError(f"The cells of {path.name} are separated by {_SEPARATORS[found]}. {remedy}")


def with_codes(data: Sequence[Data], engine: Engine) -> list[Data]:
    """Return the data with the columns that are codes in any of them: digits with leading zeros, such as 007.

    All rows in memory are looked at, but only those from which types are inferred if rows stay in place.
    """
    found: dict[str, None] = {}
    for one in data:
        with suppress(StudyError, ImportError):  # reported when the data are read
            found |= dict.fromkeys(_code_columns(one, engine) if one.format == "csv" else ())
    return [replace(one, codes=tuple(found)) if one.format == "csv" else one for one in data]


def first_text(data: Data, engine: Engine, column: str) -> str | None:
    """Return the first value of a text column that is not a number, if most of its values are numbers."""
    if data.format != "csv" or column in data.texts:
        return None
    with reading(data):
        values = _as_texts(data, engine).select(column).filter(~nw.col(column).is_null())
        is_number = nw.col(column).str.contains(_NUMBER)
        numbers = is_number.cast(nw.Int64).sum().alias("numbers")
        count, n = values.select(numbers, nw.len().alias("n")).collect().row(0)
        others = values.filter(~is_number).head(1).collect()
    return str(others.item()) if n and len(others) and 2 * (count or 0) > n else None


def _code_columns(data: Data, engine: Engine) -> list[str]:
    """Return the columns of a CSV that hold only digits, with a leading zero in at least one cell."""
    kinds = schema(data, engine).items()
    columns = [name for name, kind in kinds if kind.is_integer() or kind == nw.String]
    if not columns:
        return []
    codes = [nw.col(name).str.contains(_CODE) for name in columns]
    others = [~nw.col(name).str.contains(_DIGITS) for name in columns]
    sums = [is_one.cast(nw.Int64).sum().alias(str(j)) for j, is_one in enumerate((*codes, *others))]
    with reading(data):
        counts = _as_texts(data, engine).select(*sums).collect().row(0)
    n = len(columns)
    return [name for name, code, other in zip(columns, counts[:n], counts[n:], strict=True) if code and not other]


def _as_texts(data: Data, engine: Engine) -> nw.LazyFrame[Lazy]:
    """Return the cells of a CSV as they are written."""
    frame = nw.from_native(_rows(data, engine, as_texts=True))
    return frame if engine == "memory" else frame.head(FIRST_ROWS)


def _require_whole(data: Data) -> None:
    """Read all cells of a CSV once: a Polars query misses faults in cells that it skips, and surplus cells there."""
    pl = package("polars")
    for path in data.files:
        cells = pl.scan_csv(path, infer_schema=False, glob=False)
        cells.select(pl.all().str.len_bytes().sum()).collect(engine="streaming")


def _require_no_blank_lines(data: Data) -> None:
    """Refuse blank lines: DuckDB skips them, other readers see rows without values, and rows are numbered."""
    if len(_relation(data).columns) == 1:  # there DuckDB reads a blank line as a row, too
        return
    for path in data.files:
        if _has_blank_line(path):
            remedy = "Remove them: they are rows without values, and DuckDB would silently skip them."
            raise StudyError(f"{path.name} has blank lines. {remedy}")


def _has_blank_line(path: Path, size: int = 1 << 20) -> bool:
    """Return whether two line ends follow one another outside quotes, reading so many bytes at once."""
    quoted, text = False, b"\n"
    with path.open("rb") as file:
        while chunk := file.read(size):
            text += chunk
            if b"\n\n" in text or (b"\r" in text and b"\n\r\n" in text):
                outside = text.split(b'"')[int(quoted) :: 2]
                if any(b"\n\n" in piece or b"\n\r\n" in piece for piece in outside):
                    return True
            if b'"' in text:
                quoted ^= bool(text.count(b'"', 0, len(text) - 2) % 2)
            text = text[-2:]
    return False


def without_intervals(relation: DuckDBPyRelation) -> DuckDBPyRelation:
    """Return a relation in which columns of types that Polars lacks are cast to text."""
    kinds = zip(relation.columns, map(str, relation.types), strict=True)
    unknown = [name for name, kind in kinds if "INTERVAL" in kind or "UNION(" in kind]
    return nw.from_native(relation).with_columns(nw.col(*unknown).cast(nw.String)).to_native() if unknown else relation


def _rows(data: Data, engine: Engine, *, as_texts: bool = False) -> Lazy:
    """Return the rows as a lazy frame, of DuckDB for its databases also if they go into memory."""
    if engine == "duckdb" or data.format == "duckdb":
        return _relation(data, as_texts=as_texts)
    return _scan(data, None if engine == "memory" else FIRST_ROWS, as_texts=as_texts)


def _scan(data: Data, first_rows: int | None, *, as_texts: bool) -> pl.LazyFrame:
    pl = package("polars")
    scans = []
    for path in data.files:
        if data.format == "csv":
            header = pl.scan_csv(path, infer_schema=False, glob=False).collect_schema()  # all columns as text
            texts = {name: kind for name, kind in header.items() if name in data.texts}
            inferred = {"infer_schema": False} if as_texts else {"infer_schema_length": first_rows}
            options = {**inferred, "schema_overrides": texts, "null_values": _MISSING, "glob": False}
            scans.append(pl.scan_csv(path, **options))
        elif data.format == "parquet":
            scans.append(pl.scan_parquet(path, glob=False, hive_partitioning=False))
        else:
            scans.append(pl.scan_ndjson(path, infer_schema_length=first_rows))
    return scans[0] if len(scans) == 1 else pl.concat(scans, how="diagonal_relaxed")


def _relation(data: Data, *, as_texts: bool = False) -> DuckDBPyRelation:
    """Return a relation on a connection that can read these files and nothing else."""
    if data.format == "duckdb":
        connection = _database(data)
        name = quoted(str(data.table))
        return connection.sql(f"SELECT * FROM {name}")
    duckdb = package("duckdb")
    connection = duckdb.connect(":memory:", config=dict(_CLOSED))
    files = [str(path.resolve()) for path in data.files]
    listed = ", ".join(quoted(file, "'") for file in files)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    if data.format == "csv":
        return _read_csv(connection, data, listed, as_texts=as_texts)
    if data.format == "parquet":
        return connection.read_parquet(files, union_by_name=True, hive_partitioning=False)
    return connection.read_json(files, format="newline_delimited", union_by_name=True)


def _read_csv(connection: DuckDBPyConnection, data: Data, listed: str, *, as_texts: bool) -> DuckDBPyRelation:
    for path in data.files:
        if not path.stat().st_size:
            raise StudyError(f"{path.name} cannot be read as csv: it is empty.")
    # as SQL, since relations derived from the method read_csv lose the types that it was given
    every = ", all_varchar = true" if as_texts else ""
    relation = connection.sql(f"SELECT * FROM read_csv([{listed}], {_DIALECT}{every})")
    kinds = ", ".join(quoted(name, "'") + ": 'VARCHAR'" for name in data.texts if name in relation.columns)
    if kinds and not as_texts:
        relation = connection.sql(f"SELECT * FROM read_csv([{listed}], {_DIALECT}, types = {{{kinds}}})")
    names = zip(relation.columns, relation.types, strict=True)
    cells = [quoted(name) for name, kind in names if str(kind) == "VARCHAR"]
    replaced = ", ".join(f"nullif({cell}, 'NA') AS {cell}" for cell in cells)  # as Polars does
    return relation.project(f"* REPLACE ({replaced})") if replaced else relation


def _database(data: Data) -> DuckDBPyConnection:
    duckdb = package("duckdb")
    config = {**_CLOSED, "enable_external_access": "false", "lock_configuration": "true"}
    return duckdb.connect(str(data.files[0]), read_only=True, config=config)


def require_table(data: Data) -> str | None:
    """Return what is wrong with the table of a database, or None."""
    query = "SELECT table_schema = current_schema(), table_schema, table_name FROM information_schema.tables ORDER BY 3"
    with reading(data):
        found = _database(data).execute(query).fetchall()
    names = [str(name) for own, _, name in found if own]
    file = data.files[0].name
    if data.table in names:
        return None
    for _, place, name in found:
        if name == data.table:
            remedy = "vardi reads only tables of the schema 'main': create a view of it there."
            return f"The table {name!r} of {file} is in the schema {place!r}. {remedy}"
    return f"{file} has no table {data.table!r}.{suggest(data.table, names)} It has: {first_of(names) or 'none'}."
