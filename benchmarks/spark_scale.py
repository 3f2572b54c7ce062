"""The cost of a fit on a Spark cluster at growing sizes, and projected ones: ``python -m benchmarks.spark_scale``.

A small cluster of two workers is started on this machine. Executors' processor time is what Spark itself reports for
each task, so a busy machine hardly affects it; wall times it does affect.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.request import urlopen

import numpy as np

import vardi
from benchmarks.table import BIASES, write_table

ROWS = (1_000_000, 3_000_000, 9_000_000)
PROJECTED = (10**10, 10**12)
CORES = 1000
MASTER = "local-cluster[2,1,1024]"


@dataclass(frozen=True)
class Cost:
    """The cost of one fit.

    Attributes
    ----------
    rows, queries, tasks : int
        Rows of the table; queries, each a pass over it; tasks that they consist of.
    cpu : float
        Seconds of the executors' processors.
    wall : float
        Seconds of the whole call.
    read, crossed : int
        Bytes of the columns that the biases read, in all passes, and bytes of numbers that came back to the driver.
    """

    rows: int
    queries: int
    tasks: int
    cpu: float
    wall: float
    read: int
    crossed: int


def measure(session: Any, path: Path, rows: int, kind: str) -> Cost:
    """Fit one table, and ask Spark for its cost."""
    import narwhals as nw

    answers: list[int] = []
    collect = nw.LazyFrame.collect

    def kept(self: Any, *arguments: Any, **options: Any) -> Any:
        answer = collect(self, *arguments, **options)
        answers.append(8 * answer.shape[0] * answer.shape[1])
        return answer

    frame = session.read.parquet(str(path))
    before = _stages(session)
    started = time.perf_counter()
    with mock.patch.object(nw.LazyFrame, "collect", kept):
        vardi.debias(frame, BIASES[kind], source="source")
    wall = time.perf_counter() - started
    done = [stage for key, stage in _stages(session).items() if key not in before]
    tasks, cpu = (sum(stage[what] for stage in done) for what in ("numTasks", "executorCpuTime"))
    read = len(answers) * column_bytes(path, ("source", "x", "y") if kind == "conditions" else ("source", "x"))
    return Cost(rows, len(answers), int(tasks), cpu / 1e9, wall, read, sum(answers))


def column_bytes(path: Path, columns: tuple[str, ...]) -> int:
    """Return how many bytes the given columns of a table take on disk."""
    about = import_module("pyarrow.parquet").read_metadata(path)
    groups = [about.row_group(group) for group in range(about.num_row_groups)]
    found = [group.column(place) for group in groups for place in range(about.num_columns)]
    return int(sum(one.total_compressed_size for one in found if one.path_in_schema in columns))


def _stages(session: Any) -> dict[tuple[int, int], dict[str, Any]]:
    """Return what Spark reports about its finished stages."""
    context = session.sparkContext
    time.sleep(1.0)  # its report lags behind
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete") as answer:
        return {(stage["stageId"], stage["attemptId"]): stage for stage in json.load(answer)}


def report(kind: str, costs: list[Cost]) -> None:
    """Print what was measured, a line through it, and the projection to larger sizes."""
    print(f"\n{kind}, {', '.join(BIASES[kind].values())}")
    print(f"{'rows':>15} queries tasks  cpu s  wall s  MB read  MB back")
    for one in costs:
        line = f"{one.rows:15,} {one.queries:7} {one.tasks:5} {one.cpu:6.1f} {one.wall:7.1f}"
        print(f"{line} {one.read / 1e6:8.1f} {one.crossed / 1e6:8.2f}")
    rows, cpu = np.array([(one.rows, one.cpu / one.queries) for one in costs]).T
    slope, fixed = np.polyfit(rows, cpu, 1, w=1 / cpu)
    print(f"a query takes {max(fixed, 0):.2f} s and {slope * 1e9:.0f} ns a row of processor time")
    passes, size = costs[-1].queries, costs[-1].read / costs[-1].queries / costs[-1].rows
    for n in PROJECTED:
        seconds = passes * slope * n / CORES
        time_text = f"{passes} x {seconds / passes:,.0f} s = {seconds / 60:,.1f} minutes"
        print(f"{n:.0e} rows on {CORES:,} cores: {time_text}; {n * size * passes / 1e12:,.2f} TB read")


def cluster() -> Any:
    """Return the session of a cluster of two workers on this machine, started by the first call."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    sql = import_module("pyspark.sql")
    builder = sql.SparkSession.builder.master(MASTER).config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def main(sizes: tuple[int, ...]) -> None:
    """Measure every kind of bias at every size."""
    session = cluster()
    print(f"{MASTER}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            paths = {n: Path(folder) / f"{n}.parquet" for n in sizes}
            for n, path in paths.items():
                write_table(path, n)
            for kind in BIASES:
                measure(session, paths[sizes[0]], sizes[0], kind)  # the first call pays for what Java compiles
                report(kind, [measure(session, path, n, kind) for n, path in paths.items()])
    finally:
        session.stop()


if __name__ == "__main__":
    main(tuple(int(float(text)) for text in sys.argv[1:]) or ROWS)
