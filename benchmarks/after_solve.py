"""Questions to a fit of five hundred samples after its solve."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import vardi
from benchmarks.bars import BARS
from benchmarks.dense import record
from benchmarks.peers import VARDI, ours
from benchmarks.problems import oscillators
from benchmarks.records import Record, Report, Settings, ratio
from benchmarks.timing import Contestant, race

ROWS, SAMPLES = 100_000, 500


def identify(settings: Settings) -> Report:
    """Time the check of identifiability."""
    return _over_the_solve("identify", "fit.identify()", vardi.DebiasedSample.identify, settings)


def errors(settings: Settings) -> Report:
    """Time the errors of all normalisers."""
    ask = vardi.DebiasedSample.log_omega_covariance
    return _over_the_solve("errors", "fit.log_omega_covariance()", ask, settings)


def _over_the_solve(name: str, what: str, ask: Callable[[Any], Any], settings: Settings) -> Report:
    K = settings.samples(SAMPLES)
    problem = oscillators(settings.rows(ROWS, least=40 * K), K)
    solve = partial(vardi.debias_matrix, problem.matrix, problem.source, log=True)
    timings = race([ours(problem, log=True), Contestant(what, ask, prepare=solve)], settings)
    mine, asked = timings[VARDI], timings[what]
    return Report(
        name,
        f"Harmonic oscillators, log omega given. Each call of `{what}` asks a new fit, whose solve is not timed.",
        (record(problem.label, mine, problem), Record(problem.label, what, asked.times, note=asked.failure)),
        (ratio(f"{problem.label}: {what} over the solve", asked.times, mine.times, BARS[name]),),
    )
