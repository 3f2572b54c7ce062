"""Names and settings -> benchmarks -> a page in Markdown."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from vardi.bench._blocks import blocks
from vardi.bench._dense import dense_log, dense_omega
from vardi.bench._growth import growth
from vardi.bench._indicator import indicator
from vardi.bench._lazy import lazy
from vardi.bench._many import many
from vardi.bench._memory import memory
from vardi.bench._parquet import parquet
from vardi.bench._read import read
from vardi.bench._records import Report, Settings
from vardi.bench._render import render
from vardi.bench._small import small

BENCHMARKS: dict[str, Callable[[Settings], Report]] = {
    "dense-log": dense_log,
    "dense-omega": dense_omega,
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
        File beside the page that :func:`~vardi.bench.draw` will draw.
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
