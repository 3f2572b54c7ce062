"""Thousands of samples at full size, each in a process of its own, with its time and memory. Run by `make slow`."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

CHILD = """
import json, sys, time, warnings
from pathlib import Path
import numpy as np
from scipy import sparse
sys.path.insert(0, {tests!r})
import vardi
from oracle import certify
from many_samples import along_a_line, anywhere, doubly_truncated

found = dict()

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20

def timed(name, call):
    found[name + " before GB"] = peak()
    wall, processor = time.perf_counter(), time.process_time()
    result = call()
    found[name + " s"] = time.perf_counter() - wall
    found[name + " processor s"] = time.process_time() - processor
    found[name + " peak GB"] = peak()
    return result

def say(**more):
    print(json.dumps(found | more))
"""


def measured(code: str) -> dict[str, float]:
    """Run lines in a process of their own, print their figures, and return what they said."""
    lines = CHILD.format(tests=str(Path(__file__).parents[1])) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout.splitlines()[-1])
    print("\n   ", ", ".join(f"{key} {value:.3g}" for key, value in numbers.items()))
    return numbers


FIT = """
fit = timed("debias", lambda: vardi.debias_matrix(omega, source))
certify(fit, omega, source, rtol=1e-8)
x = np.linspace(0, 1, len(source))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
    mean = timed("expectation", lambda: fit.expectation(x))
    text = timed("print", lambda: str(fit))
verdict = timed("identify", fit.identify)
say(nonzeros=omega.nnz, residual=fit.solution.residual, certificate=fit.solution.certificate, gap=fit.solution.gap,
    stderr=mean.stderr, lines=len(text.splitlines()), letters=len(verdict.message))
"""


@pytest.mark.parametrize(
    ("design", "certificate"),
    [
        ("along_a_line(10_000, 200)", 1e-3),  # a chain of 10,000 links: rounding of each sum may add up along it
        ("along_a_line(10_000, 200, continuous=True)", 1e-3),
        ("anywhere(10_000, 200)", 1e-9),
    ],
)
def test_ten_thousand_sparse_samples_of_two_million_rows(design, certificate):
    found = measured(f"omega, source = {design}\n" + FIT)
    assert found["nonzeros"] > 9_900_000
    assert found["residual"] <= 1e-10
    assert found["certificate"] < certificate
    assert found["stderr"] > 0
    assert found["lines"] < 40
    assert found["letters"] < 300


@pytest.mark.parametrize("design", ["along_a_line(2000, 100, continuous=True)", "anywhere(2000, 100)"])
def test_two_thousand_sparse_samples(design):
    found = measured(f"omega, source = {design}\n" + FIT)
    assert found["residual"] <= 1e-10
    assert found["certificate"] < 1e-6


def test_two_thousand_dense_samples():
    """Gaussian kernels of which each row feels all: 200,000 x 2,000 numbers, 3.2 GB."""
    found = measured("""
        K, n = 2000, 200_000
        rng = np.random.default_rng(0)
        centres, source = np.linspace(-2, 2, K), np.repeat(np.arange(K), n // K)
        x = 0.8 * centres[source] + 0.9 * rng.standard_normal(n)
        omega = np.exp(-0.5 * ((x[:, None] - centres) / 1.5) ** 2)
        fit = timed("debias", lambda: vardi.debias_matrix(omega, source))
        off = float(np.abs(fit.probabilities @ omega / np.array(list(fit.omegas.values())) - 1).max())
        say(residual=fit.solution.residual, certificate=fit.solution.certificate, off=off)
    """)
    assert found["residual"] <= 1e-10
    assert found["certificate"] < 1e-6
    assert found["off"] < 1e-8


@pytest.mark.parametrize("width", [0.02, 0.15])
def test_twenty_thousand_windows_of_one_row_each(width):
    """Doubly truncated data: 11 and 83 million pairs of a row and a window that shows it, none of them stored."""
    found = measured(f"""
        from vardi._solve.identify import judge
        from vardi._solve.newton import solve
        from vardi._rows.windows import Intervals
        K = 20_000
        windows = doubly_truncated(K, {width})
        rows = timed("hold", lambda: Intervals(windows, np.arange(K), moderate=True))
        solution = timed("solve", lambda: solve(rows))
        verdict = timed("identify", lambda: judge(rows, [str(k) for k in range(K)]))
        weights, shift = rows.weights(solution.u)
        omegas = np.exp(-(solution.u + shift)) / K
        off, pairs = 0.0, 0
        for part in range(0, K, 1000):  # Omega_k = sum_i pi_i omega_k(z_i), from the definition
            seen = (windows.low[part : part + 1000] <= windows.x[:, None]) & (
                windows.x[:, None] <= windows.high[part : part + 1000]
            )
            off = max(off, float(np.abs((weights / K) @ seen / omegas[part : part + 1000] - 1).max()))
            pairs += int(seen.sum())
        say(pairs=pairs, residual=solution.residual, certificate=solution.certificate, gap=solution.gap, off=off,
            identified=bool(verdict), letters=len(verdict.message))
    """)
    assert found["identified"]
    assert found["residual"] <= 1e-10
    assert found["certificate"] < 1e-8
    assert found["off"] < 1e-9
    assert found["letters"] < 300


@pytest.mark.parametrize(
    "design", ["(*anywhere(10_000, 10), None)", "(doubly_truncated(20_000, 0.15), np.arange(20_000), 'windows')"]
)
def test_known_values_of_very_many_samples(design):
    """Three known values beside 10,000 sparse samples and 20,000 windows: no K x K array, of 1 to 3 GB."""
    found = measured(f"""
        omega, source, kind = {design}
        K = omega.shape[1]
        if kind:
            x, edges = omega.x, np.array([[0.3, 0.1, 0.6], [9.0, 0.5, 9.0]])
            values = np.diff((1 - (1 - np.minimum(edges, 0.8)) ** 2) / 0.96, axis=0)[0]
            columns = (edges[0] <= x[:, None]) & (x[:, None] <= edges[1])
            omega = vardi.Windows(x, np.append(omega.low, edges[0]), np.append(omega.high, edges[1]))
        else:
            x = np.random.default_rng(1).standard_normal(len(source))
            columns, values = np.column_stack([x > 0, np.exp(x), np.abs(x)]), [0.5, np.exp(0.5), np.sqrt(2 / np.pi)]
            omega = sparse.csr_array(sparse.hstack([omega, sparse.csr_array(columns)]))
        names = [str(k) for k in range(K)] + list("abc")
        warnings.simplefilter("ignore", vardi.VardiWarning)
        fit = timed("debias", lambda: vardi.debias_matrix(omega, source, names=names, known=dict(zip("abc", values))))
        mean = timed("expectation", lambda: fit.expectation(x))
        text = timed("print", lambda: str(fit))
        off = float(np.abs(fit.probabilities @ columns / values - 1).max())
        say(residual=fit.solution.residual, stderr=mean.stderr, df=fit.known.df, off=off, lines=len(text.splitlines()))
    """)
    assert found["residual"] <= 1e-10
    assert found["off"] < 1e-9
    assert found["df"] == 3
    assert found["stderr"] > 0
    assert found["lines"] < 60
    assert found["print peak GB"] < 0.6
