"""Passes and memory of a fit in an engine, as the table grows: ``python -m benchmarks.lazy ENGINE KIND FILE``."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import vardi
from benchmarks.parquet import BIASES, ENGINES, write_table
from benchmarks.peers import VARDI, installed
from benchmarks.process import in_fresh_process, peak
from benchmarks.records import Record, Report, Settings, Target

ROWS = (10_000_000, 100_000_000)
# Not those that the rows were drawn with: what is measured does not depend on that.
CONTINUOUS = {"agency": "1", "panel": "x + 0.1", "survey": "(x + 0.1)**2"}
KINDS = {"conditions": BIASES, "numbers": CONTINUOUS}


def lazy(settings: Settings) -> Report:
    """Measure the largest size of a process that fits a table of ten and of a hundred million rows."""
    records: list[Record] = []
    targets: list[Target] = []
    engines = [engine.who for engine in ENGINES if installed(engine.needs) and installed("pyarrow")]
    sizes = [settings.rows(n, least=3000) for n in ROWS]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n}.parquet" for n in sizes]
        for path, n in zip(paths, sizes, strict=True):
            if engines:
                write_table(path, n)
        for who in engines:
            for kind in KINDS:
                found = [in_fresh_process("lazy", who, kind, path) for path in paths]
                records += [_record(f"{who}, {kind}, n = {n:,}", probe) for n, probe in zip(sizes, found, strict=True)]
                targets += _targets(f"{who}, {kind}", found)
    return Report(
        "lazy",
        "The largest size of a fresh process that fits a table on disk, Python and packages included, and how many "
        "queries it asks. Polars streams, its default; DuckDB has memory_limit = 1 GB, and does not keep what it has "
        "read. Conditions are those of the benchmark parquet; numbers vary with every row.",
        tuple(records),
        tuple(targets),
        () if engines else ("No engine is installed.",),
    )


def _record(work: str, probe: dict[str, Any]) -> Record:
    if "failed" in probe:
        return Record(work, VARDI, note=f"failed: {probe['failed']}")
    note = f"{probe['queries']} queries, {probe['peak'] / 1e6:.0f} MB"
    return Record(work, VARDI, probe["seconds"], probe["residual"], note=note)


def _targets(what: str, found: list[dict[str, Any]]) -> list[Target]:
    if any("failed" in probe for probe in found):
        return []
    few, many = found
    return [
        Target(f"{what}: passes over the rows", many["queries"], 6 if "numbers" in what else 1, None, ""),
        Target(f"{what}: memory at ten times the rows", many["peak"] / few["peak"]),
    ]


def probe(who: str, kind: str, path: str) -> dict[str, Any]:
    """Fit in this process, which was started for it, from what its command line says."""
    import narwhals as nw

    queries, collect = [0], nw.LazyFrame.collect

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        queries[0] += 1
        return collect(self, *arguments, **options)

    if who == "DuckDB":
        connection = import_module("duckdb").connect()
        connection.execute("SET memory_limit = '1GB'")
        connection.execute("SET enable_external_file_cache = false")
        frame = connection.read_parquet(path)
    else:
        frame = import_module("polars").scan_parquet(path)
    with mock.patch.object(nw.LazyFrame, "collect", counted):
        started = time.perf_counter()
        fit = vardi.debias(frame, KINDS[kind], source="source")
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "peak": peak(), "queries": queries[0], "residual": fit.solution.residual}


if __name__ == "__main__":
    print(json.dumps(probe(*sys.argv[1:])))
