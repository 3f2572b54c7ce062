"""The cases that two versions run by turns: ``python -m benchmarks.turns.cases CASE SHRINK FOLDER`` is one turn.

The interpreter of either version runs them, so they call only public names of vardi that both have, and import nothing
that needs more. A new case is a function here and a line in CASES.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import platform
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import vardi
from benchmarks.lazy import counted_queries
from benchmarks.machine import versions
from benchmarks.many import bumps
from benchmarks.parquet import ENGINES
from benchmarks.problems import Problem, intervals, oscillators
from benchmarks.process import forget_peak, in_fresh_process, peak, resident
from benchmarks.records import Settings, Times
from benchmarks.reporting import BIASES as LENGTH_BIASES
from benchmarks.reporting import NUMBERS as REPORTED
from benchmarks.reporting import samples_in_pandas
from benchmarks.spark_scale import cluster
from benchmarks.table import BIASES, NUMBERS, write_table
from benchmarks.timing import timed

WARM_UP = 20  # times fewer rows in the call before the measured ones: loads code, starts threads
LONG = 5.0  # seconds of a call that is not repeated
TILTS = np.linspace(-1.0, 1.0, 30)
THIRTY = {f"sample {k}": f"exp({tilt:.4f} * x)" for k, tilt in enumerate(TILTS)}
SCAN = {engine.needs: engine.scan for engine in ENGINES}


class Meter:
    """What one process measured, by part of its case."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.parts: dict[str, dict[str, float]] = {}

    def time(self, part: str, call: Callable[..., Any], prepare: Callable[[], Any] | None = None) -> Any:
        """Time calls, each of what ``prepare`` makes untimed, and return what the last returned.

        The first call counts only if it is too long to be repeated: it may load code that only large problems need.
        """

        def once() -> tuple[Times, Any]:
            given = () if prepare is None else (prepare(),)
            gc.collect()
            return timed(call, *given)

        times, result = once()
        found = [times] if times.wall[0] >= LONG else []
        while not found or (len(found) < self.settings.calls and sum(t.wall[0] for t in found) < self.settings.turn):
            times, result = once()
            found.append(times)
        self.parts[part] = {
            "seconds": statistics.median(t.wall[0] for t in found),
            "processor": statistics.median(t.processor[0] for t in found),
        }
        return result

    def count(self, part: str, unit: str, number: float) -> None:
        """Keep a number that is not a time."""
        self.parts[part] = {unit: number}

    def debias_and_expectation(self, solve: Callable[[], Any], column: str) -> None:
        """Time a fit, and an expectation of a fit that was asked nothing before."""
        fits = [self.time("debias", solve)]
        self.time("expectation", lambda fit: fit.expectation(column), lambda: fits.pop() if fits else solve())


def solve(problem: Problem, log: bool) -> Any:
    """Return the fit of a matrix, with its weights."""
    fit = vardi.debias_matrix(problem.matrix, problem.source, log=log)
    assert len(fit.weights) == len(problem.source)  # weights are computed on demand
    return fit


def chain(meter: Meter, _: Path, n: int, K: int, log: bool = True) -> None:
    """Solve oscillators in a row, each of which overlaps its neighbours."""
    problem = oscillators(meter.settings.rows(n, least=4 * K), K)
    if not log:
        np.exp(problem.matrix, out=problem.matrix)
    meter.time("debias", partial(solve, problem, log))


def overlapping(meter: Meter, _: Path, K: int) -> None:
    """Solve normal laws of one variance with means from -1 to 1, all of which overlap."""
    rng = np.random.default_rng(85)
    source, means = np.repeat(np.arange(K), meter.settings.rows(100_000, least=4 * K) // K), np.linspace(-1.0, 1.0, K)
    x = rng.normal(means[source])
    meter.time("debias", partial(solve, Problem(means * x[:, None] - means**2 / 2, source), True))


def indicators(meter: Meter, _: Path) -> None:
    """Solve four intervals, given as booleans."""
    meter.time("debias", partial(solve, intervals(meter.settings.rows(8_000_000, least=400)), False))


def sixty_indicators(meter: Meter, _: Path) -> None:
    """Solve sixty intervals along a line, given as booleans."""
    rng = np.random.default_rng(85)
    low = np.arange(60) / 62
    source = np.repeat(np.arange(60), meter.settings.rows(1_000_000, least=6000) // 60)
    x = low[source] + 3 / 62 * rng.random(len(source))
    omega = (low <= x[:, None]) & (x[:, None] <= low + 3 / 62)
    meter.time("debias", partial(solve, Problem(omega, source), False))


def memory(meter: Meter, _: Path, n: int, K: int, log: bool) -> None:
    """Measure the most memory of a solve beyond what was there before it."""
    problem = oscillators(meter.settings.rows(n, least=4 * K), K)
    if not log:
        np.exp(problem.matrix, out=problem.matrix)
    solve(problem, log)  # loads what only large solves load
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)  # what the first solve freed is no memory of the second
    before = resident()
    forget_peak()
    solve(problem, log)
    meter.count("extra memory", "bytes", max(peak() - before, os.sysconf("SC_PAGE_SIZE")))


def bootstrap(meter: Meter, _: Path) -> None:
    """Refit to resampled rows 64 times."""
    problem = oscillators(meter.settings.rows(1_000_000, least=40), 10)
    meter.time("64 draws", lambda fit: fit.bootstrap(None, 64), partial(solve, problem, True))


def covariance(meter: Meter, _: Path) -> None:
    """Ask for the errors of the normalisers of five hundred samples."""
    problem = oscillators(meter.settings.rows(100_000, least=20_000), 500)
    meter.time("log_omega_covariance", lambda fit: fit.log_omega_covariance(), partial(solve, problem, True))


def known(meter: Meter, _: Path) -> None:
    """Solve fifteen hundred samples along a line, each of which reaches a few others, with three known values."""
    K = 1500
    omega, source, _pairs = bumps(K, meter.settings.rows(150_000, least=10 * K))
    x = np.random.default_rng(85).standard_normal(len(source))
    columns = sparse.csr_array(np.column_stack([x > 0, np.exp(x), np.abs(x)]))
    values = {"x > 0": 0.5, "exp(x)": float(np.exp(0.5)), "|x|": float(np.sqrt(2 / np.pi))}
    matrix, names = sparse.csr_array(sparse.hstack([omega, columns])), [*map(str, range(K)), *values]
    meter.time("debias", lambda: vardi.debias_matrix(matrix, source, names=names, known=values).weights)


def conditions(meter: Meter, folder: Path, engine: str) -> None:
    """Solve three samples through conditions."""
    frame = SCAN[engine](table(folder, meter.settings.rows(50_000_000, least=3000)))
    meter.time("debias", partial(vardi.debias, frame, BIASES["conditions"], source="source"))


def numbers(meter: Meter, folder: Path, engine: str) -> None:
    """Solve three samples with biases that vary with every row, and ask for a mean."""
    frame = SCAN[engine](table(folder, meter.settings.rows(50_000_000, least=3000)))
    meter.debias_and_expectation(partial(vardi.debias, frame, NUMBERS, source="source"), "y")


def thirty(meter: Meter, folder: Path, engine: str) -> None:
    """Solve thirty samples with biases that vary with every row, and ask for a mean."""
    frame = SCAN[engine](table_of_thirty(folder, meter.settings.rows(5_000_000, least=3000)))
    meter.debias_and_expectation(partial(vardi.debias, frame, THIRTY, source="source"), "y")


def median(meter: Meter, folder: Path, engine: str) -> None:
    """Ask for a median with its interval, and count the queries that it takes."""
    frame = SCAN[engine](table(folder, meter.settings.rows(20_000_000, least=3000)))

    def ask(fit: vardi.DebiasedSample) -> int:
        with counted_queries() as queries:
            fit.cdf("x").quantile(0.5)
        return queries[0]

    queries = meter.time("time of a median", ask, partial(vardi.debias, frame, NUMBERS, source="source"))
    meter.count("queries of a median", "queries", queries)


def spark(meter: Meter, folder: Path) -> None:
    """Solve three samples with biases that vary with every row on two workers, and ask for a mean."""
    session = cluster()
    atexit.register(session.stop)
    frame = session.read.parquet(str(table(folder, meter.settings.rows(5_000_000, least=3000))))
    meter.debias_and_expectation(partial(vardi.debias, frame, NUMBERS, source="source"), "y")
    for part in meter.parts.values():
        del part["processor"]  # the workers' is not this process's


def report(meter: Meter, _: Path) -> None:
    """Write the report of three samples in pandas, and make what it is compared with."""
    frames = samples_in_pandas(meter.settings.rows(3_000_000, least=3000) // 3)
    fit = partial(vardi.debias, frames, LENGTH_BIASES)
    meter.time("debias and expectations", lambda: fit().expectations(list(REPORTED)))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        meter.time("report", lambda fit: fit.report(page, overwrite=True), fit)


def importing(meter: Meter, _: Path) -> None:
    """Import the first public name, in further processes."""
    probes = [in_fresh_process("import_probe", "vardi:debias") for _ in range(meter.settings.calls)]
    meter.parts["from vardi import debias"] = {
        "seconds": statistics.median(probe["wall"][0] for probe in probes),
        "processor": statistics.median(probe["processor"][0] for probe in probes),
    }


Case = Callable[[Meter, Path], None]
CASES: dict[str, Case] = {
    "dense-50": partial(chain, n=200_000, K=50),
    "dense-10": partial(chain, n=1_000_000, K=10),
    "omega-10": partial(chain, n=1_000_000, K=10, log=False),
    "chain-2000": partial(chain, n=40_000, K=2000),
    "indicators-4": indicators,
    "memory-log": partial(memory, n=200_000, K=50, log=True),
    "memory-omega": partial(memory, n=1_000_000, K=10, log=False),
    "conditions-polars": partial(conditions, engine="polars"),
    "conditions-duckdb": partial(conditions, engine="duckdb"),
    "numbers-polars": partial(numbers, engine="polars"),
    "numbers-duckdb": partial(numbers, engine="duckdb"),
    "thirty-polars": partial(thirty, engine="polars"),
    "thirty-duckdb": partial(thirty, engine="duckdb"),
    "spark": spark,
    "bootstrap": bootstrap,
    "report": report,
    "import": importing,
    "median-polars": partial(median, engine="polars"),
    "median-duckdb": partial(median, engine="duckdb"),
    # Where a mechanism that was measured to gain less than it costs is gone
    "dense-2m": partial(chain, n=2_000_000, K=10),
    "overlap-200": partial(overlapping, K=200),
    "overlap-500": partial(overlapping, K=500),
    "chain-500": partial(chain, n=100_000, K=500),
    "indicators-60": sixty_indicators,
    "covariance-500": covariance,
    "known-1500": known,
}
APART = frozenset({"spark"})
"""Those that run only if they are named: Spark needs Java."""


def table(folder: Path, n: int) -> Path:
    """Return a table of three samples, which is written once."""
    return _written(folder / f"three-{n}.parquet", partial(write_table, n=n))


def table_of_thirty(folder: Path, n: int) -> Path:
    """Return a table of thirty normal samples, tilts of one another, which is written once."""

    def write(path: Path) -> None:
        import polars as pl

        rng = np.random.default_rng(85)
        k = rng.integers(len(TILTS), size=n)
        x = rng.normal(TILTS[k])
        frame = {"source": np.array(list(THIRTY))[k], "x": x, "y": x + rng.normal(size=n)}
        pl.DataFrame(frame).write_parquet(path)

    return _written(folder / f"thirty-{n}.parquet", write)


def _written(path: Path, write: Callable[[Path], None]) -> Path:
    if not path.exists():
        partly = path.with_suffix(".partly")
        write(partly)
        partly.rename(path)
    return path


def turn(case: str, shrink: str, folder: str) -> dict[str, dict[str, float]]:
    """Run a case in this process, which was started for it: once with few rows, then measured."""
    settings = Settings(int(shrink))
    meter = Meter(settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)
        CASES[case](Meter(replace(settings, shrink=WARM_UP * settings.shrink)), Path(folder))
        CASES[case](meter, Path(folder))
    return meter.parts


def about() -> dict[str, Any]:
    """Return which vardi this interpreter imports, and the versions of the packages beside it."""
    return {"vardi": vardi.__file__, "versions": {"Python": platform.python_version(), **versions()}}


if __name__ == "__main__":
    print(json.dumps(turn(*sys.argv[1:]) if sys.argv[1:] else about()))
