"""A dense solve over one read of its matrix."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.dense import record, speedup
from benchmarks.peers import VARDI, ours, threads
from benchmarks.problems import Floats, oscillators
from benchmarks.records import Record, Report, Settings, Target
from benchmarks.timing import Contestant, race

CASES = ((1_000_000, 10, 6.0, 4.0), (200_000, 100, 20.0, 10.0))
READ = "one read (NumPy)"


def read(settings: Settings) -> Report:
    """Time a solve against two products with its matrix."""
    records: list[Record] = []
    targets: list[Target] = []
    for n, K, bar, goal in CASES:
        problem = oscillators(settings.rows(n, least=4 * K), K).exp()
        X, a, r = problem.matrix, np.ones(K), np.ones(len(problem.source))
        timings = race([ours(problem, log=False), Contestant(READ, partial(_read_once, X, a, r))], settings.repeats)
        found = [
            record(problem.label, timings[VARDI], problem.log()),
            Record(problem.label, READ, timings[READ].best, note="X @ a, then r @ X"),
        ]
        records += found
        reads = speedup(found, READ)
        targets.append(Target(f"{problem.label}: solve over one read", 1 / reads if reads else None, bar, goal))
    return Report(
        "read",
        f"Harmonic oscillators, omega given: the whole call over X @ a, then r @ X. Both have {threads()}.",
        tuple(records),
        tuple(targets),
    )


def _read_once(X: Floats, a: Floats, r: Floats) -> tuple[Floats, Floats]:
    return X @ a, r @ X
