"""Questions to a fit of five hundred samples after its solve."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import vardi
from benchmarks.dense import record
from benchmarks.peers import VARDI, installed, ours
from benchmarks.problems import oscillators
from benchmarks.records import Record, Report, Settings, ratio
from benchmarks.timing import Contestant, race
from vardi.datasets import harmonic_oscillators

ROWS, SAMPLES = 100_000, 500
EXPECTATIONS = "debias, expectations of the columns"
OVER = {VARDI: "the solve", EXPECTATIONS: EXPECTATIONS}


def identify(settings: Settings) -> Report:
    """Time the check of identifiability."""
    return _over_the_solve("identify", "fit.identify()", vardi.DebiasedSample.identify, settings)


def errors(settings: Settings) -> Report:
    """Time the errors of all normalisers."""
    ask = vardi.DebiasedSample.log_omega_covariance
    return _over_the_solve("errors", "fit.log_omega_covariance()", ask, settings)


def questions(settings: Settings) -> Report:
    """Time what is asked most often, each of a new fit: a frame with the column that the biases read, and two more."""
    needed = [module for module in ("pandas", "jinja2", "matplotlib") if not installed(module)]
    if needed:
        return Report("questions", f"Not run: {', '.join(needed)} not installed (pip install 'vardi[bench]').")
    K = settings.samples(SAMPLES)
    n = settings.rows(ROWS, least=40 * K)
    frame, biases = _frame(n, K)
    work = f"n = {len(frame):,}, K = {K}"
    solve = partial(vardi.debias, frame, biases, source="source")
    columns = [name for name in frame.columns if name != "source"]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        asked: dict[str, Callable[[Any], Any]] = {
            "fit.summary()": lambda fit: fit.summary(),
            "fit.diagnostics()": lambda fit: fit.diagnostics(),
            "fit.log_normalisers()": lambda fit: fit.log_normalisers(),
            'fit.cdf("x").band()': lambda fit: fit.cdf("x").band(),
            'fit.check_biases("x")': lambda fit: fit.check_biases("x"),
            "fit.check_biases(), three columns": lambda fit: fit.check_biases(),
            "fit.report(path)": lambda fit: fit.report(Path(folder) / "report.html", overwrite=True),
        }
        field = [
            Contestant(VARDI, solve),
            Contestant(EXPECTATIONS, lambda: solve().expectations(columns)),
            *(Contestant(what, ask, prepare=solve) for what, ask in asked.items()),
        ]
        timings = race(field, replace(settings, calls=1, repeats=min(settings.repeats, 3)))
    under = {what: EXPECTATIONS if what == "fit.report(path)" else VARDI for what in asked}
    return Report(
        "questions",
        "Harmonic oscillators as a frame in pandas, omega given as arrays. Each question asks a new fit, whose solve "
        "is not timed.",
        tuple(Record(work, who, timing.times, note=timing.failure) for who, timing in timings.items()),
        tuple(
            ratio(f"{work}: {what} over {OVER[under[what]]}", timings[what].times, timings[under[what]].times)
            for what in asked
        ),
    )


def _frame(n: int, K: int) -> tuple[Any, dict[str, Any]]:
    """Return oscillators in a row as one frame, and their biases as values of its rows."""
    design = harmonic_oscillators(states=K, rows_per_state=max(n // K, 2), seed=85)
    rng = np.random.default_rng(85)
    x, names = design.rows, [str(k) for k in range(K)]
    frame = import_module("pandas").DataFrame(
        {
            "x": x,
            "age": rng.normal(40.0 + x, 10.0),
            "children": rng.integers(0, 6, len(x)),
            "source": np.array(names)[design.source],
        }
    )
    return frame, {name: np.exp(design.omega[:, k]) for k, name in enumerate(names)}


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
        (ratio(f"{problem.label}: {what} over the solve", asked.times, mine.times),),
    )
