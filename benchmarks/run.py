"""Names and settings -> benchmarks -> results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from benchmarks.after_solve import errors, identify, questions
from benchmarks.blocks import blocks
from benchmarks.bootstrap import bootstrap
from benchmarks.dense import dense_log, dense_omega
from benchmarks.gram import gram
from benchmarks.growth import growth
from benchmarks.importing import importing
from benchmarks.indicator import indicator
from benchmarks.lazy import lazy
from benchmarks.machine import facts, versions
from benchmarks.many import many
from benchmarks.median import median
from benchmarks.memory import memory
from benchmarks.parquet import parquet
from benchmarks.physics import physics
from benchmarks.read import read
from benchmarks.records import Report, Run, Settings
from benchmarks.reporting import reporting
from benchmarks.small import small

BENCHMARKS: dict[str, Callable[[Settings], Report]] = {
    "dense-log": dense_log,
    "dense-omega": dense_omega,
    "gram": gram,
    "indicator": indicator,
    "memory": memory,
    "parquet": parquet,
    "bootstrap": bootstrap,
    "identify": identify,
    "report": reporting,
    "errors": errors,
    "questions": questions,
    "import": importing,
    "growth": growth,
    "read": read,
    "lazy": lazy,
    "median": median,
    "blocks": blocks,
    "many": many,
    "small": small,
    "physics": physics,
}
APART = frozenset({"physics"})
"""Those that run only if they are named: they have their own pages."""


def chosen(names: Sequence[str]) -> list[str]:
    """Return the benchmarks to run, in order: without names, all that have no page of their own."""
    return [name for name in BENCHMARKS if name in names or (not names and name not in APART)]


def run(
    names: Sequence[str], settings: Settings, command: str, on_start: Callable[[str, int], None] = lambda *_: None
) -> Run:
    """Run benchmarks, and return their results.

    Parameters
    ----------
    names : sequence of str
        Which ones.
    settings : Settings
        How large and how often.
    command : str
        Printed on the page.
    on_start : callable
        Called with the name and the position of each benchmark before it runs.
    """
    about_machine = facts(os.getloadavg()[0] if hasattr(os, "getloadavg") else None)
    reports, took = [], {}
    for place, name in enumerate(names):
        on_start(name, place)
        started = time.perf_counter()
        reports.append(_run(name, settings))
        took[name] = time.perf_counter() - started
    return Run(tuple(reports), settings, command, about_machine, versions(), took)


def _run(name: str, settings: Settings) -> Report:
    try:
        return BENCHMARKS[name](settings)
    except Exception as error:  # a failure should not discard the results of the others
        return Report(name, f"FAILED: {type(error).__name__}: {error}", failed=True)
