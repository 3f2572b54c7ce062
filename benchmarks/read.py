"""A dense solve over one read of its matrix."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.dense import record
from benchmarks.machine import cores
from benchmarks.peers import VARDI, ours
from benchmarks.problems import Floats, oscillators
from benchmarks.records import Record, Report, Settings, Target, ratio
from benchmarks.timing import Contestant, race

SIZES = ((1_000_000, 10), (200_000, 100))
READ = "one read (NumPy)"


def read(settings: Settings) -> Report:
    """Time a solve against two products with its matrix."""
    records: list[Record] = []
    targets: list[Target] = []
    for n, K in SIZES:
        problem = oscillators(settings.rows(n, least=4 * K), K).exp()
        X, a, r = problem.matrix, np.ones(K), np.ones(len(problem.source))
        timings = race([ours(problem, log=False), Contestant(READ, partial(_read_once, X, a, r))], settings)
        mine, once = timings[VARDI], timings[READ]
        records += [
            record(problem.label, mine, problem.log()),
            Record(problem.label, READ, once.times, note="X @ a, then r @ X"),
        ]
        targets.append(ratio(f"{problem.label}: solve over one read", mine.times, once.times))
    return Report(
        "read",
        f"Harmonic oscillators, omega given: the whole call over X @ a, then r @ X. Both have {cores()} threads.",
        tuple(records),
        tuple(targets),
    )


def _read_once(X: Floats, a: Floats, r: Floats) -> tuple[Floats, Floats]:
    return X @ a, r @ X
