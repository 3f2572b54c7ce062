"""The median of a column in an engine, and its interval: ``python -m benchmarks.median ENGINE KIND FILE``."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import vardi
from benchmarks.bars import BARS
from benchmarks.lazy import counted_queries, scan
from benchmarks.parquet import ENGINES
from benchmarks.peers import VARDI, installed
from benchmarks.process import in_fresh_process
from benchmarks.records import Record, Report, Settings, Target, Times
from benchmarks.table import BIASES, write_table
from benchmarks.timing import timed

ROWS = 20_000_000


def median(settings: Settings) -> Report:
    """Count the queries that a median takes, with biases of both kinds, in every engine."""
    n = settings.rows(ROWS, least=3000)
    engines = [engine.who for engine in ENGINES if installed(engine.needs) and installed("pyarrow")]
    records: list[Record] = []
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        if engines:
            write_table(path, n)
        for who in engines:
            for kind in BIASES:
                work = f"{who}, {kind}, n = {n:,}"
                probe = in_fresh_process("median", who, kind, path)
                times = Times.of(probe) if "wall" in probe else None
                note = f"failed: {probe['failed']}" if "failed" in probe else f"queries: {probe['queries']}"
                records.append(Record(work, VARDI, times, note=note))
                targets.append(Target(f"{work}: queries for a median", probe.get("queries"), BARS["median"], ""))
    return Report(
        "median",
        'Time and queries of `fit.cdf("x").quantile(0.5)` after the fit, on the tables of the benchmark lazy.',
        tuple(records),
        tuple(targets),
    )


def probe(who: str, kind: str, path: str) -> dict[str, Any]:
    """Fit, and ask for the median, in this process, which was started for it."""
    fit = vardi.debias(scan(who, path), BIASES[kind], source="source")
    with counted_queries() as queries:
        times, _ = timed(lambda: fit.cdf("x").quantile(0.5))
    return {**asdict(times), "queries": queries[0]}


if __name__ == "__main__":
    print(json.dumps(probe(*sys.argv[1:])))
