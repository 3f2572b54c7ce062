"""Indicator biases: a matrix of booleans."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.bars import BARS
from benchmarks.dense import peer_records, record, times_of
from benchmarks.peers import BAYESMBAR, FASTMBAR, PYMBAR, PYMBAR_ROBUST, VARDI, contestants, ours
from benchmarks.problems import Floats, Problem, intervals
from benchmarks.records import Record, Report, Settings, ratio
from benchmarks.timing import Contestant, race

ROWS, PEER_ROWS = 8_000_000, 200_000
ZERO = -1000.0  # e^ZERO is 0 in double precision, and no peer subtracts infinities
PEERS = (PYMBAR, PYMBAR_ROBUST, FASTMBAR, BAYESMBAR)
READ = "one read, n weights filled (NumPy)"


def indicator(settings: Settings) -> Report:
    """Time a solve with indicator biases, against one read of the matrix and against the peers."""
    problem = intervals(settings.rows(ROWS, least=400))
    n = len(problem.source)
    timings = race([ours(problem, log=False), Contestant(READ, partial(_read_and_fill, problem.matrix))], settings)
    records = [
        record(problem.label, timings[VARDI], problem.log()),
        Record(problem.label, READ, timings[READ].times, note="rows as words of 32 bits: their largest, then np.full"),
    ]
    few = problem if settings.full else intervals(settings.rows(PEER_ROWS, least=40))
    beside = _beside_peers(few, settings)
    factor = n / len(few.source)
    scaled = [
        Record(problem.label, r.who, r.times.scaled(factor), note=f"SCALED: {factor:.3g} times the time above")
        for r in beside
        if r.who != VARDI and r.times and factor > 1
    ]
    peer = times_of(scaled or beside, FASTMBAR.who)
    note = f"its time scaled from n = {len(few.source):,}" if scaled else ""
    return Report(
        "indicator",
        "Four samples through overlapping intervals: a matrix of booleans, omega given to vardi. The peers get log "
        f"omega with {ZERO:g} in the place of -inf (its exp is 0).",
        (*records, *beside, *scaled),
        (
            ratio(
                f"{problem.label}: whole call over {READ}",
                timings[VARDI].times,
                timings[READ].times,
                BARS["indicator-read"],
            ),
            ratio(
                f"{problem.label}: speed over {FASTMBAR.who}",
                peer,
                timings[VARDI].times,
                note=note if peer else "not installed, or it failed",
                race=True,
            ),
        ),
        (f"Peers ran at n = {len(few.source):,}, their times are scaled linearly; --full runs them all the way.",)
        if scaled
        else (),
    )


def _beside_peers(problem: Problem, settings: Settings) -> list[Record]:
    log_problem = problem.log()
    floored = Problem(np.maximum(log_problem.matrix, ZERO), problem.source)
    timings = race([ours(problem, log=False), *contestants(PEERS, floored)], settings)
    return peer_records(problem.label, timings, PEERS, log_problem)


def _read_and_fill(matrix: NDArray[np.bool_]) -> tuple[np.uint32, Floats]:
    return matrix.view(np.uint32).max(), np.full(len(matrix), 1.0)
