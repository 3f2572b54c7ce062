"""Thousands of samples: ``python -m benchmarks.many DESIGN K ROWS``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import sparse

import vardi
from benchmarks.peers import VARDI
from benchmarks.process import forget_peak, in_fresh_process, peak, resident
from benchmarks.records import Record, Report, Settings, Times
from benchmarks.timing import timed

OVERLAP = 5.0  # biases that cover a row, on average


def many(settings: Settings) -> Report:
    """Solve designs with as many biases as rows, or nearly so, each in a fresh process."""
    records = []
    for design, about, K, n in (
        ("line", "sparse windows along a line, omega continuous", 10_000, 2_000_000),
        ("windows", "doubly truncated data, a window for each row", 20_000, 20_000),
    ):
        K = settings.rows(K, least=20)
        n = settings.rows(n, least=20 * K if design != "windows" else K)
        work = f"{about}: n = {n:,}, K = {K:,}"
        probe = in_fresh_process("many", design, K, n)
        if "failed" in probe:
            records.append(Record(work, VARDI, note=f"failed: {probe['failed']}"))
            continue
        note = f"{probe['pairs']:,} pairs of row and bias above zero; {probe['extra'] / 1e9:.2f} GB beyond the input"
        records.append(Record(work, VARDI, Times.of(probe), probe["residual"], note=note))
    return Report("many", "Whole calls with thousands of samples, certified as any other.", tuple(records))


def bumps(K: int, n: int) -> tuple[Any, np.ndarray, int]:
    """Bumps of width OVERLAP on a line, each with n / K rows: omega_k(x) falls off from the middle of bump k."""
    rng = np.random.default_rng(85)
    source = np.repeat(np.arange(K), n // K)
    x = source + OVERLAP * rng.random(len(source))
    nearest = np.floor(x).astype(np.int64)[:, None] - np.arange(int(OVERLAP) + 1)
    distance = x[:, None] - nearest
    inside = (nearest >= 0) & (nearest < K) & (distance <= OVERLAP)
    rows = np.broadcast_to(np.arange(len(x))[:, None], nearest.shape)[inside]
    values = 1.0 + np.sin(np.pi * distance[inside] / OVERLAP)
    omega = sparse.csr_array((values, (rows, nearest[inside])), shape=(len(x), K))
    return omega, source, omega.nnz


def _windows(K: int, n: int) -> tuple[Any, np.ndarray, int]:
    rng = np.random.default_rng(85)
    x = rng.random(n)
    width = max(0.03, 60 / n)  # so that a few windows are connected, too
    low = x - width * rng.random(n)
    return vardi.Windows(x, low, low + width), np.arange(K), int(n * n * width)


DESIGNS: dict[str, Callable[[int, int], tuple[Any, np.ndarray, int]]] = {
    "line": bumps,
    "windows": _windows,
}


def probe(design: str, K: str, n: str) -> dict[str, Any]:
    """Solve in this process, which was started for it, with the arguments of its command line."""
    omega, source, pairs = DESIGNS[design](int(K), int(n))
    before = resident()
    forget_peak()
    times, fit = timed(_fit, omega, source)
    return {
        **asdict(times),
        "extra": peak() - before,
        "pairs": pairs,
        "residual": fit.solution.residual,
    }


def _fit(omega: Any, source: np.ndarray) -> vardi.DebiasedSample:
    fit = vardi.debias_matrix(omega, source)
    assert len(fit.weights) == len(source)  # weights are computed on demand
    return fit


if __name__ == "__main__":
    print(json.dumps(probe(*sys.argv[1:])))
