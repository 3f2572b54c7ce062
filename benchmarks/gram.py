"""Solves of hundreds and thousands of samples over one gram of their size."""

from __future__ import annotations

from functools import partial

from benchmarks.bars import BARS
from benchmarks.dense import record
from benchmarks.peers import VARDI, ours
from benchmarks.problems import Floats, oscillators, tilts
from benchmarks.records import Record, Report, Settings, ratio
from benchmarks.timing import Contestant, race

ROWS, SAMPLES = 40_000, 2000
GRAM = "one gram X'X (NumPy, float64)"


WIDE = ((100_000, 500), (40_000, 2000))


def wide(settings: Settings) -> Report:
    """Time solves of samples that all overlap, where no gram is formed, against that gram."""
    records, targets = [], []
    for rows, samples in WIDE:
        K = settings.samples(samples)
        problem = tilts(settings.rows(rows, least=4 * K), K)
        timings = race([ours(problem, log=True), Contestant(GRAM, partial(_gram, problem.matrix))], settings)
        mine, product = timings[VARDI], timings[GRAM]
        records += [record(problem.label, mine, problem), Record(problem.label, GRAM, product.times)]
        targets.append(ratio(f"{problem.label}: whole call over {GRAM}", mine.times, product.times))
    about = "Normal laws of one variance with means from -1 to 1, all of which overlap; log omega given, whole calls."
    return Report("wide", about, tuple(records), tuple(targets))


def gram(settings: Settings) -> Report:
    """Time a solve against one product of its matrix with itself."""
    K = settings.samples(SAMPLES)
    problem = oscillators(settings.rows(ROWS, least=4 * K), K)
    timings = race([ours(problem, log=True), Contestant(GRAM, partial(_gram, problem.matrix))], settings)
    mine, product = timings[VARDI], timings[GRAM]
    return Report(
        "gram",
        "Harmonic oscillators, log omega given, whole calls.",
        (record(problem.label, mine, problem), Record(problem.label, GRAM, product.times)),
        (ratio(f"{problem.label}: whole call over {GRAM}", mine.times, product.times, BARS["gram"]),),
    )


def _gram(X: Floats) -> Floats:
    return X.T @ X
