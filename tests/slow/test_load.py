"""Load: 100,000 small fits in a row, a fit of 10^8 rows, and 2,000 samples, each with its time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

MEASURE = """
import json, os, time
from pathlib import Path
import numpy as np
import vardi

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024

def say(**numbers):
    print(json.dumps(numbers))
"""


def measured(code):
    """Run lines in a process of their own, whose memory is nobody else's; return what they said."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE + textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout.splitlines()[-1])
    print("   ", ", ".join(f"{key} {value:,.4g}" for key, value in numbers.items()))
    return numbers


def test_a_hundred_thousand_small_fits():
    found = measured("""
        houses = vardi.datasets.house_prices(seed=0)
        prices = {name: rows["MEDV"].to_numpy() for name, rows in houses.samples.items()}
        x = np.concatenate(list(prices.values()))
        source = np.repeat([0, 1], [len(rows) for rows in prices.values()])
        omega = np.column_stack([x <= 22, np.ones(len(x))]).astype(float)
        first = vardi.debias_matrix(omega, source).weights
        for _ in range(2000):
            vardi.debias_matrix(omega, source).expectation(x)
        before, started = resident(), time.perf_counter()
        for _ in range(100_000):
            fit = vardi.debias_matrix(omega, source)
            fit.expectation(x)
        seconds = time.perf_counter() - started
        same = bool(np.array_equal(fit.weights, first))
        say(seconds=seconds, ms_each=seconds / 100, grown_MB=(resident() - before) / 1e6, same=same)
    """)
    assert found["same"]
    assert found["grown_MB"] < 5  # a row that each fit left behind would be 800 MB


@pytest.mark.skipif(
    os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 16e9, reason="10^8 rows of two floats need 16 GB"
)
def test_a_hundred_million_rows():
    found = measured("""
        n = 100_000_000
        rng = np.random.default_rng(0)
        x = rng.random(n, dtype=np.float32)
        half = n // 2
        x[:half] *= np.float32(0.6)
        x[half:] = np.float32(0.4) + np.float32(0.6) * x[half:]
        before, started = resident(), time.perf_counter()
        fit = vardi.debias({"low": x[:half], "high": x[half:]}, {"low": "x <= 0.6", "high": "x >= 0.4"})
        solved = time.perf_counter() - started
        weights = fit.weights
        ratio = fit.omegas["low"] / fit.omegas["high"]
        say(seconds=solved, with_weights=time.perf_counter() - started, peak_GB=(peak() - before) / 1e9,
            input_GB=x.nbytes / 1e9, mean=float(weights.mean()), residual=fit.solution.residual, ratio=ratio)
    """)
    assert found["residual"] < 1e-10
    assert found["mean"] == pytest.approx(1.0, abs=1e-9)
    assert found["ratio"] == pytest.approx(1.0, abs=5e-4)  # both cover 0.6 of [0, 1]


@pytest.mark.parametrize("log", [False, True], ids=["omega", "log omega"])
def test_two_thousand_samples(log):
    found = measured(f"""
        design = vardi.datasets.harmonic_oscillators(states=2000, rows_per_state=20, seed=0)
        matrix = design.omega if {log} else np.exp(design.omega)
        before, started = resident(), time.perf_counter()
        fit = vardi.debias_matrix(matrix, design.source, log={log})
        say(seconds=time.perf_counter() - started, peak_GB=(peak() - before) / 1e9, input_GB=matrix.nbytes / 1e9,
            residual=fit.solution.residual, certificate=fit.solution.certificate)
    """)
    assert found["residual"] < 1e-10
    assert found["certificate"] < 1.0  # a bound at all: overlap along 2,000 states in a row is faint


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_replicate_weights_of_five_million_rows(engine, tmp_path):
    """40 columns of 5 million numbers are 1.6 GB, of which nothing is held."""
    found = measured(f"""
        import duckdb, narwhals as nw, polars as pl
        folder = Path({str(tmp_path)!r})
        rng = np.random.default_rng(0)
        for name, shape in (("plain", 3), ("seen", 4)):
            x = rng.gamma(shape, size=2_500_000)
            rows = pl.DataFrame({{"id": np.arange(len(x)), "x": x, "y": x + rng.normal(size=len(x))}})
            rows.write_parquet(folder / f"{{name}}.parquet")
        del x, rows
        pl.Config.set_engine_affinity("streaming")
        connection = duckdb.connect()
        scan = pl.scan_parquet if {engine!r} == "polars" else lambda path: connection.read_parquet(str(path))
        samples = {{name: scan(folder / f"{{name}}.parquet") for name in ("plain", "seen")}}
        fit = vardi.debias(samples, {{"plain": 1, "seen": "x"}})
        estimate, before, started = fit.expectation("y"), peak(), time.perf_counter()
        made = fit.replicate_weights(40, id="id")
        seconds = time.perf_counter() - started
        names = [f"replicate_{{r + 1}}" for r in range(40)]
        asked = [nw.col(name).sum().alias(name) for name in names]
        asked += [(nw.col(name) * nw.col("y")).sum().alias(f"{{name}} y") for name in names]
        sums = sum(
            np.array(nw.from_native(frame).lazy().select(*asked).collect().row(0)) for frame in made.values()
        )
        means = sums[40:] / sums[:40]
        ratio = float(np.sqrt(np.mean((means - estimate.value) ** 2)) / estimate.stderr)
        say(seconds=seconds, grown_MB=(peak() - before) / 1e6, ratio=ratio, total=float(sums[:40].mean()))
    """)
    assert found["grown_MB"] < 400
    assert abs(found["ratio"] - 1) < 3 / np.sqrt(2 * 40)  # three deviations of an error by 40 replicates
    assert abs(found["total"] / 5_000_000 - 1) < 1e-9
