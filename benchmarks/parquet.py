"""A table in Parquet that stays in its engine: the whole debias over one plain group-by of the same columns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import vardi
from benchmarks.peers import VARDI, installed
from benchmarks.records import Record, Report, Settings, Target
from benchmarks.timing import Contestant, Timing, race

ROWS = 50_000_000
CHUNK = 1_000_000  # rows that are made and written at once
BIASES = {"agency": "x <= 0.6", "panel": "y >= 0.3", "survey": "x >= 0.2"}
REFITS = 1000
PLAIN = "one group-by"


@dataclass(frozen=True)
class Engine:
    """Where the table is scanned.

    Attributes
    ----------
    needs : str
        The module without which there is no such engine.
    scan : callable
        From the path to a lazy frame.
    plain : callable
        From the frame to its count and sums by source, collected.
    """

    who: str
    needs: str
    scan: Callable[[Path], Any]
    plain: Callable[[Any], Any]
    bar: float
    goal: float


def _polars_scan(path: Path) -> Any:
    return import_module("polars").scan_parquet(path)


def _polars_plain(frame: Any) -> Any:
    pl = import_module("polars")
    return frame.group_by("source").agg(pl.len(), pl.col("x").sum(), pl.col("y").sum()).collect()


def _duckdb_scan(path: Path) -> Any:
    return import_module("duckdb").read_parquet(str(path))


def _duckdb_plain(frame: Any) -> Any:
    return frame.aggregate("source, count(*), sum(x), sum(y)").fetchall()


ENGINES = (
    Engine("Polars", "polars", _polars_scan, _polars_plain, 1.5, 0.8),
    Engine("DuckDB", "duckdb", _duckdb_scan, _duckdb_plain, 3.0, 1.5),
)


def parquet(settings: Settings) -> Report:
    """Time a debias of a table on disk, and its bootstrap, in every engine."""
    n = settings.rows(ROWS, least=3000)
    if not installed("pyarrow"):
        return Report("parquet", "Not run: PyArrow, which writes the table, is not installed.")
    records: list[Record] = []
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, n)
        size = path.stat().st_size / 2**20
        for engine in ENGINES:
            if not installed(engine.needs):
                records.append(Record(f"n = {n:,}", engine.who, note=f"not installed: {engine.needs}"))
                continue
            found, judged = _in_engine(engine, engine.scan(path), n, settings)
            records += found
            targets += judged
    return Report(
        "parquet",
        f"Three samples in one table of {size:,.0f} MB, a label and two columns, with biases that are conditions: "
        f"{', '.join(BIASES.values())}. The whole debias, from the scan to the certified solution, over one group-by "
        "by label with the count and the sums of the columns that the biases read.",
        tuple(records),
        tuple(targets),
    )


def _in_engine(engine: Engine, frame: Any, n: int, settings: Settings) -> tuple[list[Record], list[Target]]:
    work = f"{engine.who}, n = {n:,}"
    debias = partial(vardi.debias, frame, BIASES, source="source")
    timings = race([Contestant(VARDI, debias), Contestant(PLAIN, partial(engine.plain, frame))], settings.repeats)
    mine, plain = timings[VARDI], timings[PLAIN]
    records = [
        Record(work, VARDI, mine.best, _residual(mine), note=mine.failure or f"best of {mine.calls}"),
        Record(work, PLAIN, plain.best, note=plain.failure or f"best of {plain.calls}"),
    ]
    ratio = mine.best / plain.best if mine.best and plain.best else None
    targets = [Target(f"{work}: whole debias over {PLAIN}", ratio, engine.bar, engine.goal)]
    if mine.result is not None:
        refits = race([Contestant(VARDI, partial(mine.result.bootstrap, None, REFITS))], 1)[VARDI]
        what = f"{work}: {REFITS:,} bootstrap refits"
        records.append(Record(f"{work}, {REFITS:,} bootstrap refits", VARDI, refits.best, note=refits.failure))
        targets.append(Target(what, refits.best, 10.0, 1.0, "s"))
    return records, targets


def _residual(timing: Timing) -> float | None:
    return None if timing.result is None else float(timing.result.solution.residual)


def write_table(path: Path, n: int, seed: int = 85) -> None:
    """Write n rows of three samples of uniform x and y, each drawn through its bias, by chunks of bounded memory."""
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    rng = np.random.default_rng(seed)
    writer = None
    for start in range(0, n, CHUNK):
        table = pa.table(_drawn(rng, min(CHUNK, n - start)))
        writer = parquet.ParquetWriter(path, table.schema) if writer is None else writer
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _drawn(rng: np.random.Generator, n: int) -> Mapping[str, Any]:
    kind, x, y = rng.integers(3, size=n), rng.random(n), rng.random(n)
    return {
        "source": np.array(list(BIASES))[kind],
        "x": np.select([kind == 0, kind == 2], [0.6 * x, 0.2 + 0.8 * x], x),
        "y": np.where(kind == 1, 0.3 + 0.7 * y, y),
    }
