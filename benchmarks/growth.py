"""Seconds against n and against K."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.dense import record
from benchmarks.peers import VARDI, ours
from benchmarks.problems import oscillators
from benchmarks.records import Record, Report, Settings, Target
from benchmarks.timing import race

ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
STATES = (5, 10, 20, 50, 100, 200, 500)
K_FIXED, N_FIXED = 10, 100_000


def growth(settings: Settings) -> Report:
    """Time solves of growing n and K."""
    sizes = [settings.rows(n, least=4 * K_FIXED) for n in ROWS]
    rows = [_timed(n, K_FIXED, settings) for n in sizes]
    n_fixed = settings.rows(N_FIXED, least=4 * max(STATES))
    states = [_timed(n_fixed, K, settings) for K in STATES]
    upper = len(ROWS) // 2
    targets = [
        Target(f"slope in n, K = {K_FIXED}, all sizes", _slope(sizes, rows), 1.05, 1.0, ""),
        Target(
            f"slope in n, K = {K_FIXED}, from n = {sizes[upper]:,} on",
            _slope(sizes[upper:], rows[upper:]),
            1.05,
            1.0,
            "",
            note="where the fixed cost of a call no longer flattens it",
        ),
        Target(
            f"slope in K, n = {n_fixed:,}, all sizes",
            _slope(STATES, states),
            1.3,
            unit="",
            note="a pass reads K, forms K^2; of hundreds of states it reads those that count",
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
    timing = race([ours(problem, log=True)], settings.repeats, settings.patience)[VARDI]
    return record(problem.label, timing, problem)


def _slope(sizes: Sequence[int], records: Sequence[Record]) -> float | None:
    points = [(size, r.seconds) for size, r in zip(sizes, records, strict=True) if r.seconds]
    if len({size for size, _ in points}) < 2:
        return None
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])
