"""A thousand refits to resampled rows over one solve."""

from __future__ import annotations

from functools import partial
from typing import Any

import vardi
from benchmarks.bars import BARS
from benchmarks.dense import record
from benchmarks.peers import VARDI, ours
from benchmarks.problems import oscillators
from benchmarks.records import Record, Report, Settings, ratio
from benchmarks.timing import Contestant, race

ROWS, SAMPLES = 1_000_000, 10
REFITS, TIMED = 1000, 320  # ten batches of 32 show what a refit takes beside what all of them share


def bootstrap(settings: Settings) -> Report:
    """Time the Bayesian bootstrap of the normalisers."""
    problem = oscillators(settings.rows(ROWS, least=4 * SAMPLES), SAMPLES)
    timed = REFITS if settings.full else settings.rows(TIMED, least=8)
    what = f"fit.bootstrap(n={timed})"
    solve = partial(vardi.debias_matrix, problem.matrix, problem.source, log=True)
    timings = race([ours(problem, log=True), Contestant(what, partial(_refits, timed), prepare=solve)], settings)
    mine, refits = timings[VARDI], timings[what]
    all_refits = refits.times.scaled(REFITS / timed) if refits.times else None
    scaled = f"SCALED from {timed} refits" if timed < REFITS else ""
    return Report(
        "bootstrap",
        "Harmonic oscillators, log omega given: the log normalisers refitted to resampled rows (Bayesian bootstrap).",
        (
            record(problem.label, mine, problem),
            Record(problem.label, what, refits.times, note=refits.failure),
            Record(problem.label, f"{REFITS:,} refits", all_refits, note=scaled),
        ),
        (
            ratio(
                f"{problem.label}: {REFITS:,} refits over one solve", all_refits, mine.times, BARS["bootstrap"], scaled
            ),
        ),
    )


def _refits(n: int, fit: Any) -> Any:
    return fit.bootstrap(None, n)
