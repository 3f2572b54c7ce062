"""What single precision would gain: one pass with its gram, as it is made and with all of it in float32."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers import VARDI, ours
from benchmarks.problems import Floats, oscillators
from benchmarks.records import Record, Report, Settings, ratio
from benchmarks.timing import Contestant, race
from vardi._machine.kernels import Kernels, kernels
from vardi._machine.threads import Scratch, sum_blocks

SIZES = ((1_000_000, 10), (200_000, 50), (100_000, 200))
DOUBLE, SINGLE = "a pass and its gram, float64 (as in vardi)", "a pass and its gram, float32 (NumPy)"


def precision(settings: Settings) -> Report:
    """Time the exps, masses, shares and gram of all rows in double and in single precision."""
    records, targets = [], []
    for n, K in SIZES:
        problem = oscillators(settings.rows(n, least=4 * K), K)
        logs, step = problem.matrix, np.ones(K)
        compiled = kernels(*logs.shape)
        called = {DOUBLE: partial(_double, logs, step, compiled), SINGLE: partial(_single, logs, step)}
        timings = race(
            [ours(problem, log=True), *(Contestant(who, call) for who, call in called.items())],
            settings,
        )
        solve, double, single = (timings[who].times for who in (VARDI, DOUBLE, SINGLE))
        wanted = called[DOUBLE]()
        root = np.sqrt(np.diag(wanted))
        off = float(np.abs((called[SINGLE]() - wanted) / (root[:, None] * root)).max())
        records += [
            Record(problem.label, VARDI, solve, note="the whole call"),
            Record(problem.label, DOUBLE, double),
            Record(
                problem.label, SINGLE, single, note=f"the gram, scaled to a unit diagonal, is off by up to {off:.0e}"
            ),
        ]
        targets.append(ratio(f"{problem.label}: the pass in float64 over that in float32", double, single))
        targets.append(ratio(f"{problem.label}: the pass in float64 over the whole call", double, solve))
    return Report(
        "precision",
        "Harmonic oscillators, log omega given: exps, masses, shares and gram of all rows at one point, in threads.",
        tuple(records),
        tuple(targets),
        (
            "A solve has one such pass, and two or three without a gram. Its certificate needs the gram to about a "
            "thousandth of the spectral gap, which rounding to float32 allows only where samples overlap well.",
        ),
    )


def _double(logs: Floats, step: Floats, steps: Kernels) -> Floats:
    scratch, reciprocals = Scratch(), np.empty(len(logs))

    def block(rows: slice) -> Floats:
        A = steps.exp(logs[rows], scratch("A", logs[rows].shape))
        return steps.curved(A, step, None, reciprocals[rows], A)[1]

    return sum_blocks(block, *logs.shape)


def _single(logs: Floats, step: Floats) -> Floats:
    short, room = step.astype(np.float32), Scratch()

    def block(rows: slice) -> Any:
        A = room("A", logs[rows].shape).view(np.float32)[:, : logs.shape[1]]
        np.exp(logs[rows], out=A, dtype=np.float32, casting="unsafe")
        r = np.float32(1.0) / (A @ short)
        A *= r[:, None]
        return (A.T @ A).astype(np.float64)

    return sum_blocks(block, *logs.shape)
