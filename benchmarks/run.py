"""Names and settings -> benchmarks -> a page in Markdown."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from benchmarks.blocks import blocks
from benchmarks.dense import dense_log, dense_omega
from benchmarks.growth import growth
from benchmarks.indicator import indicator
from benchmarks.lazy import lazy
from benchmarks.many import many
from benchmarks.memory import memory
from benchmarks.parquet import parquet
from benchmarks.physics import physics
from benchmarks.read import read
from benchmarks.records import Report, Settings
from benchmarks.render import render
from benchmarks.small import small

BENCHMARKS: dict[str, Callable[[Settings], Report]] = {
    "dense-log": dense_log,
    "dense-omega": dense_omega,
    "physics": physics,
    "memory": memory,
    "read": read,
    "indicator": indicator,
    "parquet": parquet,
    "lazy": lazy,
    "blocks": blocks,
    "many": many,
    "small": small,
    "growth": growth,
}
FAILED = "FAILED"


def run(
    names: Sequence[str],
    settings: Settings,
    command: str,
    on_start: Callable[[str, int], None] = lambda *_: None,
    picture: str | None = None,
) -> tuple[str, list[Report]]:
    """Run benchmarks, and return the page and what was found.

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
    picture : str, optional
        File beside the page that :func:`benchmarks.draw.draw` will draw.
    """
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    reports = []
    for place, name in enumerate(names):
        on_start(name, place)
        reports.append(_run(name, settings))
    return render(reports, settings, command, load, picture), reports


def failed(reports: Sequence[Report]) -> list[str]:
    """Return the names of the benchmarks that failed."""
    return [report.name for report in reports if report.about.startswith(FAILED)]


def _run(name: str, settings: Settings) -> Report:
    try:
        return BENCHMARKS[name](settings)
    except Exception as error:  # one that fails should not cost the others their hour
        return Report(name, f"{FAILED}: {type(error).__name__}: {error}")
