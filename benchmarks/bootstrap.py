"""A refit to resampled rows over one solve."""

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
TIMED, ALL = 320, 1000  # ten batches of 32 show what a draw takes beside what all of them share


def bootstrap(settings: Settings) -> Report:
    """Time the Bayesian bootstrap of the normalisers."""
    problem = oscillators(settings.rows(ROWS, least=4 * SAMPLES), SAMPLES)
    draws = ALL if settings.full else settings.rows(TIMED, least=8)
    what = f"fit.bootstrap(n={draws})"
    solve = partial(vardi.debias_matrix, problem.matrix, problem.source, log=True)
    timings = race([ours(problem, log=True), Contestant(what, partial(_refits, draws), prepare=solve)], settings)
    mine, refits = timings[VARDI], timings[what]
    one_draw = refits.times.scaled(1 / draws) if refits.times else None
    return Report(
        "bootstrap",
        "Harmonic oscillators, log omega given: the log normalisers refitted to resampled rows (Bayesian bootstrap).",
        (
            record(problem.label, mine, problem),
            Record(problem.label, what, refits.times, note=refits.failure),
            Record(problem.label, "a draw", one_draw, note=f"the {draws}th part of the line above"),
        ),
        (ratio(f"{problem.label}: a draw over one solve", one_draw, mine.times, BARS["bootstrap-draw"]),),
    )


def _refits(n: int, fit: Any) -> Any:
    return fit.bootstrap(None, n)
