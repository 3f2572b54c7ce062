"""How much memory is available, and a refusal before more is allocated than that."""

from __future__ import annotations

import os
from pathlib import Path

from vardi.errors import TooLargeError

CGROUP = Path("/sys/fs/cgroup")
ALWAYS = 2**26  # bytes that are allocated without a check


def available_memory() -> int:
    """Return the bytes that this process could still allocate: of the machine, or of its container if that has less.

    Linux reports what is available; other systems mostly report the total, of which half is assumed. If nothing is
    known it is 2 GiB.
    """
    machine = _of_machine()
    container = _of_container()
    return machine if container is None else min(machine, container)


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse what needs more memory than is available, before any of it is allocated."""
    if needed <= ALWAYS:
        return
    available = available_memory()
    if needed > available:
        raise TooLargeError(
            f"{what} need {_shown(needed)} of memory, but {_shown(available)} is available. {remedy}", bytes=needed
        )


def _shown(size: int) -> str:
    return f"{size / 2**30:,.1f} GB" if size >= 2**30 / 10 else f"{size / 2**20:,.1f} MB"


def _of_machine() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return 2 * 2**30


def _of_container() -> int | None:
    try:
        limit = (CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((CGROUP / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(int(limit) - used, 0)
