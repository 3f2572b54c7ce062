"""Seconds against n and against K."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.bars import BARS
from benchmarks.dense import record
from benchmarks.peers import VARDI, ours
from benchmarks.problems import oscillators
from benchmarks.records import Record, Report, Settings, Target
from benchmarks.timing import race

ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
SAMPLES = (5, 10, 20, 50, 100, 200, 500)
K_FIXED, N_FIXED = 10, 100_000


def growth(settings: Settings) -> Report:
    """Time solves of growing n and K."""
    sizes = [settings.rows(n, least=4 * K_FIXED) for n in ROWS]
    rows = [_timed(n, K_FIXED, settings) for n in sizes]
    samples = [settings.samples(K, least=2) for K in SAMPLES]
    n_fixed = settings.rows(N_FIXED, least=4 * max(samples))
    states = [_timed(n_fixed, K, settings) for K in samples]
    upper = len(ROWS) // 2
    targets = [
        Target(f"slope in n, K = {K_FIXED}, all sizes", _slope(sizes, rows), BARS["growth-rows"], ""),
        Target(
            f"slope in n, K = {K_FIXED}, from n = {sizes[upper]:,} on",
            _slope(sizes[upper:], rows[upper:]),
            BARS["growth-rows"],
            "",
            note="where the fixed cost of a call no longer flattens it",
        ),
        Target(
            f"slope in K from {samples[0]} to {samples[-1]}, n = {n_fixed:,}",
            _slope(samples, states),
            BARS["growth-samples"],
            "",
        ),
    ]
    return Report(
        "growth",
        "Harmonic oscillators, log omega given, whole calls. Slopes are least squares of log seconds on log size.",
        (*rows, *states),
        tuple(targets),
    )


def _timed(n: int, K: int, settings: Settings) -> Record:
    problem = oscillators(n, K)
    timing = race([ours(problem, log=True)], settings)[VARDI]
    return record(problem.label, timing, problem)


def _slope(sizes: Sequence[int], records: Sequence[Record]) -> float | None:
    return slope(sizes, [record.seconds for record in records])


def slope(sizes: Sequence[int], seconds: Sequence[float | None]) -> float | None:
    """Return the power of the size with which the time grows, by least squares on log-log; None for a single size."""
    points = [(size, took) for size, took in zip(sizes, seconds, strict=True) if took]
    if len({size for size, _ in points}) < 2:
        return None
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])
