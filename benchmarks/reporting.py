"""The report of a large fit over the solve and the expectations of its columns."""

from __future__ import annotations

import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import vardi
from benchmarks.bars import BARS
from benchmarks.peers import installed
from benchmarks.records import Record, Report, Settings, ratio
from benchmarks.timing import Contestant, race

ROWS = 3_000_000
BIASES = {"plain": "1", "long": "length", "longer": "length ** 2"}
NUMBERS = ("length", "age", "score", "children")
SOLVE, PAGE = "debias, expectations of the columns", "fit.report(path)"


def reporting(settings: Settings) -> Report:
    """Time the page of a fit of three samples in pandas."""
    needed = [module for module in ("pandas", "jinja2", "matplotlib") if not installed(module)]
    if needed:
        return Report("report", f"Not run: {', '.join(needed)} not installed (pip install 'vardi[bench]').")
    frames = samples_in_pandas(settings.rows(ROWS, least=3000) // len(BIASES))
    work = f"n = {sum(map(len, frames.values())):,}, K = {len(BIASES)}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        field = [
            Contestant(SOLVE, partial(_solve_and_expectations, frames)),
            Contestant(PAGE, lambda fit: fit.report(path, overwrite=True), partial(vardi.debias, frames, BIASES)),
        ]
        timings = race(field, settings)
    return Report(
        "report",
        f"Three samples in pandas, biases {', '.join(BIASES.values())}; {len(NUMBERS)} columns of numbers and one of "
        "texts. The solve is left out of the time of the report.",
        tuple(Record(work, who, timing.times, note=timing.failure) for who, timing in timings.items()),
        (ratio(f"{work}: report over {SOLVE}", timings[PAGE].times, timings[SOLVE].times, BARS["report"]),),
    )


def _solve_and_expectations(frames: dict[str, Any]) -> Any:
    return vardi.debias(frames, BIASES).expectations(list(NUMBERS))


def samples_in_pandas(n: int) -> dict[str, Any]:
    """Return n rows of each sample: lengths of Gamma laws, each biased by a power of the length."""
    pd = import_module("pandas")
    rng = np.random.default_rng(85)
    frames = {}
    for power, name in enumerate(BIASES):
        length = rng.gamma(2.0 + power, size=n)
        frames[name] = pd.DataFrame(
            {
                "length": length,
                "age": rng.normal(40.0 + length, 10.0),
                "score": rng.normal(size=n),
                "children": rng.integers(0, 6, n),
                "region": np.array(["north", "south", "east", "west"])[rng.integers(0, 4, n)],
            }
        )
    return frames
