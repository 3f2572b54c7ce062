"""A solve of thousands of samples over one gram of its size."""

from __future__ import annotations

from functools import partial

from benchmarks.bars import BARS
from benchmarks.dense import record
from benchmarks.peers import VARDI, ours
from benchmarks.problems import Floats, oscillators
from benchmarks.records import Record, Report, Settings, ratio
from benchmarks.timing import Contestant, race

ROWS, SAMPLES = 40_000, 2000
GRAM = "one gram X'X (NumPy, float64)"


def gram(settings: Settings) -> Report:
    """Time a solve against one product of its matrix with itself."""
    K = settings.samples(SAMPLES)
    problem = oscillators(settings.rows(ROWS, least=4 * K), K)
    timings = race([ours(problem, log=True), Contestant(GRAM, partial(_gram, problem.matrix))], settings)
    mine, product = timings[VARDI], timings[GRAM]
    return Report(
        "gram",
        "A chain of harmonic oscillators, each of which overlaps its neighbours; log omega given, whole calls.",
        (record(problem.label, mine, problem), Record(problem.label, GRAM, product.times)),
        (ratio(f"{problem.label}: whole call over {GRAM}", mine.times, product.times, BARS["gram"]),),
    )


def _gram(X: Floats) -> Floats:
    return X.T @ X
