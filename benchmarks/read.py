"""A dense solve over one read of its matrix."""

from __future__ import annotations

import numpy as np

from benchmarks._peers import VARDI, ours, threads
from benchmarks._problems import oscillators
from benchmarks._records import Record, Report, Settings, Target
from benchmarks._timing import Contestant, race
from benchmarks.dense import record, speedup

CASES = ((1_000_000, 10, 6.0, 4.0), (200_000, 100, 20.0, 10.0))
READ = "one read (NumPy)"


def read(settings: Settings) -> Report:
    records: list[Record] = []
    targets: list[Target] = []
    for n, K, bar, goal in CASES:
        problem = oscillators(settings.rows(n, least=4 * K), K).exp()
        X, a, r = problem.matrix, np.ones(K), np.ones(len(problem.source))
        timings = race(
            [ours(problem, log=False), Contestant(READ, lambda X=X, a=a, r=r: (X @ a, r @ X))], settings.repeats
        )
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
