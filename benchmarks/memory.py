"""Extra memory of a dense solve, each in its own process: ``python -m benchmarks.memory WHO FORM n K``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np

from benchmarks.bars import BARS
from benchmarks.peers import FASTMBAR, PYMBAR, VARDI, ours
from benchmarks.problems import oscillators
from benchmarks.process import forget_peak, in_fresh_process, peak, resident
from benchmarks.records import Record, Report, Settings, Target

SIZES = ((200_000, 50), (1_000_000, 10), (1_000_000, 50))
PEER_SIZE = SIZES[1]
PEERS = (PYMBAR, FASTMBAR)


def memory(settings: Settings) -> Report:
    """Measure the extra memory of dense solves."""
    records: list[Record] = []
    targets: list[Target] = []
    for form in ("omega", "log"):
        for n, K in SIZES:
            n = settings.rows(n, least=4 * K)
            found = _measure(VARDI, form, n, K)
            records.append(found)
            targets.append(Target(f"{found.work}: extra memory over the input", found.extra_memory, BARS["memory"]))
    n, K = PEER_SIZE
    n = settings.rows(n, least=4 * K)
    for peer in PEERS:
        work = _work("log", n, K)
        records.append(Record(work, peer.who, note=peer.missing) if peer.missing else _measure(peer.who, "log", n, K))
    return Report(
        "memory",
        "Highest resident memory during the solve, less what was resident before it with the input and joblib loaded "
        "and a tiny problem solved, as a multiple of the input matrix. The n weights that come back count as extra: "
        "1 / K.",
        tuple(records),
        tuple(targets),
        ("pymbar compiles for each shape, so its number holds what the compiler needs.",),
    )


def _work(form: str, n: int, K: int) -> str:
    return f"{'log omega' if form == 'log' else 'omega'}, n = {n:,}, K = {K}"


def _measure(who: str, form: str, n: int, K: int) -> Record:
    probe = in_fresh_process("memory", who, form, n, K)
    if "failed" in probe:
        return Record(_work(form, n, K), who, note=f"failed: {probe['failed']}")
    note = (
        f"{probe['extra'] / 2**20:.0f} MB over an input of {probe['input'] / 2**20:.0f} MB; the weights are {1 / K:g}x"
    )
    return Record(_work(form, n, K), who, None, None, probe["extra"] / probe["input"], note)


def probe(who: str, form: str, n: str, K: str) -> dict[str, int]:
    """Solve in this process, which was started for it, with the arguments of its command line."""
    size, solve = _solver(who, form, int(n), int(K))
    _, tiny = _solver(who, form, 20 * int(K), int(K))
    tiny()
    joblib.cpu_count()  # loaded by large solves only: packages do not count for a solve
    before = resident()
    forget_peak()
    solve()
    return {"input": size, "extra": max(peak() - before, 0)}


def _solver(who: str, form: str, n: int, K: int) -> tuple[int, Callable[[], Any]]:
    problem = oscillators(n, K)
    size = problem.matrix.nbytes
    if who == VARDI:
        if form == "omega":
            np.exp(problem.matrix, out=problem.matrix)
        return size, ours(problem, log=form == "log").call
    peer = next(peer for peer in PEERS if peer.who == who)
    np.negative(problem.matrix, out=problem.matrix)
    return size, peer.prepare(np.ascontiguousarray(problem.matrix.T), problem.sizes)


if __name__ == "__main__":
    print(json.dumps(probe(*sys.argv[1:])))
