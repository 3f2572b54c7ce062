"""Load: 100,000 small fits in a row, a fit of 10^8 rows, and 2,000 samples, each with its time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

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
