"""New rows of a file or a table, with their weights by a saved fit: read and written as streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vardi._fit.weigher import Weigher
from vardi.errors import StudyError
from vardi.study._data import FORMATS, Data, find_files
from vardi.study._engines import package, reading, require_header, require_table, streamed

if TYPE_CHECKING:
    import polars as pl


def scanned(weigher: Weigher, path: Path, table: str | None) -> pl.LazyFrame:
    """Return the rows of a file with their weights, as a query of Polars that is still to be made.

    Columns that are text in the fit are read as text from a CSV, whatever they look like.
    """
    files = tuple(find_files(str(path), Path()))
    form = FORMATS[files[0].suffix.lower()]
    if (form == "duckdb") != (table is not None):
        remedy = "Name its table: --table NAME" if table is None else "Leave --table out"
        raise StudyError(f"{path} {'is a database' if table is None else 'has no tables'}. {remedy}.")
    texts = tuple(name for name, kind in weigher.schema.items() if kind in ("String", "Categorical"))
    data = Data(None, files, form, table, codes=texts)
    if form == "duckdb" and (problem := require_table(data)):
        raise StudyError(problem)
    require_header(data)
    with reading(data):
        weighed = weigher.weigh(streamed(data))
        frame: pl.LazyFrame = weighed.pl(lazy=True) if form == "duckdb" else weighed
    return frame


def rows_and_nulls(path: Path) -> tuple[int, int]:
    """Return how many rows a file of weighed rows has, and how many of them have no weight."""
    pl = package("polars")
    scan = {".parquet": pl.scan_parquet, ".csv": pl.scan_csv}.get(path.suffix.lower(), pl.scan_ndjson)
    weights = scan(path).select(rows=pl.len(), nulls=pl.col("weight").null_count())
    total, nulls = weights.collect(engine="streaming").row(0)
    return int(total), int(nulls)
