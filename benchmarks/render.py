"""Reports -> Markdown."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from threadpoolctl import threadpool_info

from benchmarks.records import Record, Report, Settings, Target

PACKAGES = (
    "vardi",
    "numpy",
    "scipy",
    "scikit-learn",
    "narwhals",
    "joblib",
    "threadpoolctl",
    "pandas",
    "polars",
    "duckdb",
    "pyarrow",
    "pymbar",
    "jax",
    "jaxlib",
    "fastmbar",
    "bayesmbar",
    "numba",
    "alchemtest",
    "alchemlyb",
    "torch",
)
NONE = "–"


def render(
    reports: Sequence[Report], settings: Settings, command: str, load: float | None, picture: str | None = None
) -> str:
    """Return the whole page, with a picture beside it if there is one."""
    parts = [
        "# Benchmarks",
        "Written by the command below from one run on one machine; do not edit. Contestants are called in turn, and "
        "the best of their timed calls counts; compilation is left out by a first call. *Residual* is max "
        "|Gamma_k - 1|, the relative error of Vardi's system, computed for every solver by the same NumPy function.",
        _facts(settings, command, load),
        *([f"![Time against size, and every target over its bar]({picture})"] if picture else []),
        *(_section(report, judged=settings.shrink == 1) for report in reports),
    ]
    return "\n\n".join(parts) + "\n"


def _section(report: Report, *, judged: bool) -> str:
    parts = [f"## {report.name}", report.about]
    if report.records:
        parts.append(_records(report.records))
    if report.targets:
        parts.append(_targets(report.targets, judged=judged))
    return "\n\n".join([*parts, *report.remarks])


def _records(records: Sequence[Record]) -> str:
    head = ("work", "who", "time", "residual", "extra memory", "note")
    rows = [
        (
            r.work,
            r.who,
            _time(r.seconds),
            NONE if r.accuracy is None else f"{r.accuracy:.1e}",
            NONE if r.extra_memory is None else f"{r.extra_memory:.3g}x",
            r.note,
        )
        for r in records
    ]
    return table(head, rows, numbers=(2, 3, 4))


def _targets(targets: Sequence[Target], *, judged: bool) -> str:
    head = ("target", "measured", "bar", "goal", "verdict", "note")
    rows = [
        (
            t.what,
            _level(t.measured, t.unit),
            _level(t.bar, t.unit),
            _level(t.goal, t.unit),
            t.verdict if judged or t.measured is None else "not judged",  # the bars are for the sizes of the design
            t.note,
        )
        for t in targets
    ]
    return table(head, rows, numbers=(1, 2, 3))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> str:
    """Return a table, with the columns that hold numbers aligned to the right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(head))]
    lines = [head, rule, *([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def _level(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    number = f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
    return number + (unit if unit == "x" else f" {unit}").rstrip()


def _facts(settings: Settings, command: str, load: float | None) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts = {
        "command": f"`{command}`",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "sizes": "as named in the design" if settings.shrink == 1 else f"{settings.shrink} times smaller: a smoke test",
        "processor": f"{_proc('cpuinfo', 'model name') or platform.processor() or platform.machine()}, {cores} cores",
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "BLAS": _blas(),
        "load before": NONE if load is None else f"{load:.2f} (one-minute average)",
        "versions": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    }
    return table(("", ""), list(facts.items()), numbers=())


def version(name: str) -> str:
    """Return which version of a package is installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _blas() -> str:
    found = (pool for pool in threadpool_info() if pool["user_api"] == "blas")
    names = (
        f"{p['internal_api']} {p['version']} ({p.get('architecture', '?')}, {p['num_threads']} threads)" for p in found
    )
    return "; ".join(dict.fromkeys(names)) or NONE


def _memory() -> str:
    total = _proc("meminfo", "MemTotal")
    return f"{int(total.split()[0]) / 2**20:.1f} GB" if total else NONE


def _proc(file: str, key: str) -> str:
    try:
        lines = Path("/proc", file).read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")
