"""Importing vardi over importing what it requires."""

from __future__ import annotations

from typing import Any

from benchmarks.bars import BARS
from benchmarks.process import in_fresh_process
from benchmarks.records import Record, Report, Settings, Times, ratio

NAME, PACKAGE, NEEDED = "from vardi import debias", "import vardi", "import numpy, scipy.sparse"
MODULES = {NAME: ("vardi:debias",), PACKAGE: ("vardi",), NEEDED: ("numpy", "scipy.sparse")}
PROCESSES = 15  # of each


def importing(settings: Settings) -> Report:
    """Time imports, each in a fresh process, by turns."""
    found: dict[str, list[dict[str, Any]]] = {who: [] for who in MODULES}
    for turn in range(max(PROCESSES // settings.shrink, 2) + 1):
        for who, names in MODULES.items():
            probe = in_fresh_process("import_probe", *names)
            if "failed" in probe:
                raise RuntimeError(f"{who}: {probe['failed']}")
            if turn:  # the first one compiles to bytecode and fills the page cache
                found[who].append(probe)
    times = {who: Times.of(*probes) for who, probes in found.items()}
    return Report(
        "import",
        "Seconds of the import statement alone, in a fresh process each time; the start of Python is left out.",
        tuple(Record("import", who, own) for who, own in times.items()),
        (ratio(f"{NAME} over {NEEDED}", times[NAME], times[NEEDED], BARS["import"]),),
        ("`import vardi` alone loads nothing before a name is asked for, so the bar is for the first name.",),
    )
