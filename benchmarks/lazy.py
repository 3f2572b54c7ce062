"""Passes and memory of a fit in an engine, as the table grows: ``python -m benchmarks.lazy ENGINE KIND FILE``."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import vardi
from benchmarks.parquet import ENGINES
from benchmarks.peers import VARDI, installed
from benchmarks.process import in_fresh_process, peak
from benchmarks.records import Record, Report, Settings, Target, Times
from benchmarks.table import BIASES, write_table
from benchmarks.timing import timed

ROWS, ALL_ROWS = (3_000_000, 30_000_000), (10_000_000, 100_000_000)


def lazy(settings: Settings) -> Report:
    """Measure the peak memory of a process that fits a table, and one of ten times as many rows."""
    records: list[Record] = []
    targets: list[Target] = []
    engines = [engine.who for engine in ENGINES if installed(engine.needs) and installed("pyarrow")]
    sizes = [settings.rows(n, least=3000) for n in (ALL_ROWS if settings.full else ROWS)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n}.parquet" for n in sizes]
        for path, n in zip(paths, sizes, strict=True):
            if engines:
                write_table(path, n)
        for who in engines:
            for kind in BIASES:
                found = [in_fresh_process("lazy", who, kind, path) for path in paths]
                records += [_record(f"{who}, {kind}, n = {n:,}", probe) for n, probe in zip(sizes, found, strict=True)]
                targets += _targets(who, kind, found)
    return Report(
        "lazy",
        "The largest size of a fresh process that fits a table on disk, Python and packages included, and how many "
        "queries it asks. Polars streams, its default; DuckDB has memory_limit = 1 GB, and does not keep what it has "
        "read. Biases are those of the benchmark parquet.",
        tuple(records),
        tuple(targets),
        () if settings.full else (f"--full goes on to n = {ALL_ROWS[-1]:,}.",),
    )


def _record(work: str, probe: dict[str, Any]) -> Record:
    if "failed" in probe:
        return Record(work, VARDI, note=f"failed: {probe['failed']}")
    note = f"queries: {probe['queries']}; {probe['peak'] / 1e6:.0f} MB"
    return Record(work, VARDI, Times.of(probe), probe["residual"], note=note)


def _targets(who: str, kind: str, found: list[dict[str, Any]]) -> list[Target]:
    few, many = found
    queries, growth = many.get("queries"), None
    if "peak" in few and "peak" in many:
        growth = many["peak"] / few["peak"]
    return [
        Target(f"{who}, {kind}: passes over the rows", queries, unit=""),
        Target(f"{who}, {kind}: memory at ten times the rows", growth),
    ]


def scan(who: str, path: str) -> Any:
    """Return a table on disk as a lazy frame, in DuckDB of one that keeps little in memory."""
    if who != "DuckDB":
        return import_module("polars").scan_parquet(path)
    connection = import_module("duckdb").connect()
    connection.execute("SET memory_limit = '1GB'")
    connection.execute("SET enable_external_file_cache = false")
    return connection.read_parquet(path)


@contextmanager
def counted_queries() -> Iterator[list[int]]:
    """Yield a list of one number: how many queries were asked so far."""
    import narwhals as nw

    queries, collect = [0], nw.LazyFrame.collect

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        queries[0] += 1
        return collect(self, *arguments, **options)

    with mock.patch.object(nw.LazyFrame, "collect", counted):
        yield queries


def probe(who: str, kind: str, path: str) -> dict[str, Any]:
    """Fit in this process, which was started for it, with the arguments of its command line."""
    frame = scan(who, path)
    with counted_queries() as queries:
        times, fit = timed(partial(vardi.debias, frame, BIASES[kind], source="source"))
    return {**asdict(times), "peak": peak(), "queries": queries[0], "residual": fit.solution.residual}


if __name__ == "__main__":
    print(json.dumps(probe(*sys.argv[1:])))
