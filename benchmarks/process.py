"""A measurement in its own process, so that its memory is not shared."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def in_fresh_process(module: str, *arguments: object) -> dict[str, Any]:
    """Run a module of this package, and return the JSON of its last line; ``failed`` has the reason if none."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    # An installed package has its bytecode beside it; a process that must not write it would compile it each time.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def resident() -> int:
    """Return the bytes of memory that this process holds now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak()


def peak() -> int:
    """Return the most bytes that this process has held."""
    # VmHWM before ru_maxrss: on Linux a process inherits its parent's peak in the latter.
    try:
        return _status("VmHWM")
    except (OSError, KeyError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_peak() -> None:
    """Reset the peak to what is held now, if the system allows it."""
    with contextlib.suppress(OSError):  # without it, the peak of loading the input counts if it is higher
        Path("/proc/self/clear_refs").write_text("5")


@contextlib.contextmanager
def watched_memory() -> Iterator[list[int]]:
    """Yield the initial and the peak bytes of memory that is not mapped files, sampled twenty times a second."""
    seen = [_anonymous(), _anonymous()]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            seen[1] = max(seen[1], _anonymous())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _anonymous() -> int:
    try:
        return _status("RssAnon")
    except (OSError, KeyError):
        return peak()


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":", 1) for line in lines if ":" in line)[key].split()[0]) * 1024
