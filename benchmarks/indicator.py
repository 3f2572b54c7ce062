"""Indicator biases as a plain matrix of zeros and ones."""

from __future__ import annotations

import numpy as np

from benchmarks.dense import fastest, peer_records, record, speedup
from benchmarks.peers import FASTMBAR, PYMBAR, PYMBAR_ROBUST, VARDI, contestants, ours
from benchmarks.problems import Problem, intervals
from benchmarks.records import Record, Report, Settings, Target
from benchmarks.timing import race

ROWS = 10_000_000
SCALED = 10  # how many times fewer rows the peers get, unless all is run in full
ZERO = -1000.0  # e^ZERO is 0 in double precision, and no peer subtracts infinities
PEERS = (PYMBAR, PYMBAR_ROBUST, FASTMBAR)


def indicator(settings: Settings) -> Report:
    """Time a solve with indicator biases, against the peers."""
    n = settings.rows(ROWS, least=400)
    smaller = n if settings.full else max(n // SCALED, 40)
    records, targets = _side_by_side(smaller, settings)
    if smaller < n:
        problem = intervals(n)
        timing = race([ours(problem, log=False)], settings.repeats, settings.patience)[VARDI]
        mine = record(problem.label, timing, problem.log())
        scaled = [
            Record(problem.label, r.who, r.seconds * n / smaller, note=f"SCALED: {n // smaller} times the time above")
            for r in records
            if r.who != VARDI and r.seconds
        ]
        who = fastest(records, {peer.who for peer in PEERS})
        ratio = speedup([mine, *scaled], who) if who else None
        note = f"{who}, its time scaled from n = {smaller:,}" if who else "no peer is installed that solved it"
        target = Target(f"{problem.label}: speed over the fastest peer", ratio, 100, 1000, "x", True, note)
        records, targets = [*records, mine, *scaled], [*targets, target]
    return Report(
        "indicator",
        "Four samples through overlapping intervals: a float matrix of zeros and ones, omega given to vardi. The peers "
        f"get log omega with {ZERO:g} in the place of -inf (its exp is 0).",
        tuple(records),
        tuple(targets),
        ()
        if smaller == n
        else (f"Peers ran at n = {smaller:,} and their time at n = {n:,} is scaled linearly; --full runs them there.",),
    )


def _side_by_side(n: int, settings: Settings) -> tuple[list[Record], list[Target]]:
    problem = intervals(n)
    log_problem = problem.log()
    floored = Problem(np.maximum(log_problem.matrix, ZERO), problem.source)
    field = [ours(problem, log=False), *contestants(PEERS, floored)]
    timings = race(field, settings.repeats, settings.patience)
    records = peer_records(problem.label, timings, PEERS, log_problem)
    who = fastest(records, {peer.who for peer in PEERS})
    ratio = speedup(records, who) if who else None
    note = who or "no peer is installed that solved it"
    bar, goal = (100, 1000) if n >= ROWS else (None, None)  # the design names one size
    return records, [Target(f"{problem.label}: speed over the fastest peer", ratio, bar, goal, "x", True, note)]
