"""A table in Parquet that stays in its engine: the whole debias over one plain query of the same columns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import vardi
from benchmarks.bars import BARS
from benchmarks.peers import VARDI, installed
from benchmarks.records import Record, Report, Settings, Target, ratio
from benchmarks.table import BIASES, write_table
from benchmarks.timing import Contestant, Timing, race

ROWS = 50_000_000
REFITS = 1000
PLAIN = {"conditions": "one group-by", "numbers": "one query that sums the biases by label"}


@dataclass(frozen=True)
class Engine:
    """Where the table is scanned.

    Attributes
    ----------
    needs : str
        The module that the engine requires.
    scan : callable
        From the path to a lazy frame.
    plain : mapping from kind to callable
        From the frame to its count and two sums by source, collected.
    """

    who: str
    needs: str
    scan: Callable[[Path], Any]
    plain: Mapping[str, Callable[[Any], Any]]


def _polars_scan(path: Path) -> Any:
    return import_module("polars").scan_parquet(path)


def _polars_columns(frame: Any) -> Any:
    pl = import_module("polars")
    return frame.group_by("source").agg(pl.len(), pl.col("x").sum(), pl.col("y").sum()).collect()


def _polars_biases(frame: Any) -> Any:
    pl = import_module("polars")
    panel = pl.col("x") + 0.1
    return (
        frame.group_by("source").agg(pl.len(), panel.sum().alias("panel"), (panel**2).sum().alias("survey")).collect()
    )


def _duckdb_scan(path: Path) -> Any:
    return import_module("duckdb").read_parquet(str(path))


def _duckdb(sums: str, frame: Any) -> Any:
    return frame.aggregate(f"source, count(*), {sums}").fetchall()


ENGINES = (
    Engine("Polars", "polars", _polars_scan, {"conditions": _polars_columns, "numbers": _polars_biases}),
    Engine(
        "DuckDB",
        "duckdb",
        _duckdb_scan,
        {
            "conditions": partial(_duckdb, "sum(x), sum(y)"),
            "numbers": partial(_duckdb, "sum(x + 0.1), sum((x + 0.1)**2)"),
        },
    ),
)


def parquet(settings: Settings) -> Report:
    """Time a debias of a table on disk with biases of both kinds, and its bootstrap, in every engine."""
    n = settings.rows(ROWS, least=3000)
    if not installed("pyarrow"):
        return Report("parquet", "Not run: PyArrow, which writes the table, is not installed.")
    engines = [engine for engine in ENGINES if installed(engine.needs)]
    records = [
        Record(f"n = {n:,}", engine.who, note=f"not installed: {engine.needs}")
        for engine in ENGINES
        if engine not in engines
    ]
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, n)
        size = path.stat().st_size / 2**20
        for kind in BIASES:
            timings = _race(kind, engines, path, settings)
            records += [_record(f"{kind}, n = {n:,}", timing) for timing in timings.values()]
            targets += _targets(kind, f"{kind}, n = {n:,}", engines, timings)
            if kind == "conditions":
                found, judged = _refits(n, engines, timings, settings)
                records += found
                targets += judged
    return Report(
        "parquet",
        f"Three samples in one table of {size:,.0f} MB, a label and two columns, with biases that are conditions "
        f"({', '.join(BIASES['conditions'].values())}) or numbers ({', '.join(BIASES['numbers'].values())}). The whole "
        "debias, from the scan to the certified solution, over one group-by by label with the count and the sums of "
        "the columns that the conditions read, or of the numbers.",
        tuple(records),
        tuple(targets),
    )


def _race(kind: str, engines: list[Engine], path: Path, settings: Settings) -> dict[str, Timing]:
    field = []
    for engine in engines:
        frame = engine.scan(path)
        field.append(Contestant(_who(VARDI, engine), partial(vardi.debias, frame, BIASES[kind], source="source")))
        field.append(Contestant(_who(PLAIN[kind], engine), partial(engine.plain[kind], frame)))
    return race(field, settings)


def _who(what: str, engine: Engine) -> str:
    return f"{engine.who}: {what}"


def _record(work: str, timing: Timing) -> Record:
    accuracy = timing.result.solution.residual if isinstance(timing.result, vardi.DebiasedSample) else None
    return Record(work, timing.who, timing.times, accuracy, note=timing.failure)


def _targets(kind: str, work: str, engines: list[Engine], timings: Mapping[str, Timing]) -> list[Target]:
    targets = [
        ratio(
            f"{engine.who}, {work}: whole debias over {PLAIN[kind]}",
            timings[_who(VARDI, engine)].times,
            timings[_who(PLAIN[kind], engine)].times,
            BARS.get(f"{kind}-{engine.needs}"),
        )
        for engine in engines
    ]
    if kind == "numbers" and len(engines) == len(ENGINES):
        polars, duckdb = (timings[_who(VARDI, engine)].times for engine in engines)
        targets.append(ratio(f"{work}: time in DuckDB over time in Polars", duckdb, polars))
    return targets


def _refits(
    n: int, engines: list[Engine], timings: Mapping[str, Timing], settings: Settings
) -> tuple[list[Record], list[Target]]:
    work = f"conditions, n = {n:,}, {REFITS:,} bootstrap refits"
    fits = {_who(VARDI, engine): timings[_who(VARDI, engine)].result for engine in engines}
    field = [Contestant(who, partial(fit.bootstrap, None, REFITS)) for who, fit in fits.items() if fit is not None]
    found = race(field, settings)
    return (
        [_record(work, timing) for timing in found.values()],
        [Target(f"{who}, {work}", timing.times.median, unit="s") for who, timing in found.items() if timing.times],
    )
