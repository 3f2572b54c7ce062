"""The machine and the versions of a run, without any host name."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

from threadpoolctl import threadpool_info

NONE = "–"
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


def facts(load: float | None) -> dict[str, str]:
    """Return the facts about the machine for a page; ``load`` is its one-minute average before the run."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": f"{_proc('cpuinfo', 'model name') or platform.processor() or platform.machine()}, {cores()} cores",
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "BLAS": _blas(),
        "load before": NONE if load is None else f"{load:.2f} (one-minute average)",
    }


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    return {name: found for name in PACKAGES if (found := version(name))}


def version(name: str) -> str:
    """Return the installed version of a package; empty if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
