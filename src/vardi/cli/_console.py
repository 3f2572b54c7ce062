"""Where a command writes: results to standard output; warnings, errors and progress to standard error."""

from __future__ import annotations

import json
import math
import os
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from vardi.errors import VardiWarning

WIDE = 100_000
"""Columns of an output that is no terminal: nothing in it is wrapped or cut."""

DELAY = 1.0
"""Seconds of work before anything is said about it."""


def console(*, stderr: bool = False) -> Console:
    """Return a console that respects NO_COLOR and COLUMNS, and cuts nothing where it is piped."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def show(*parts: RenderableType) -> None:
    """Print results."""
    out = console()
    with out.capture() as capture:
        for part in parts:
            out.print(part, overflow="fold")
    printed = capture.get()
    if not out.is_terminal:
        printed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    out.file.write(printed)


def show_files(files: dict[str, Path]) -> None:
    """Print where outputs are, each on a line that is not broken."""
    for what, path in files.items():
        show_plain(f"{what:<8} {path}\n")


def show_plain(text: str) -> None:
    """Print a text as it is."""
    sys.stdout.write(text)


def show_json(content: dict[str, Any]) -> None:
    """Print one JSON object; numbers that are none become null."""
    sys.stdout.write(json.dumps(plain(content), ensure_ascii=False, indent=2) + "\n")


def plain(value: Any) -> Any:
    """Return a value in the terms of JSON."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if hasattr(value, "item"):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def complain(label: str, message: str, style: str) -> None:
    """Print a warning or an error, its lines wrapped between words and indented where they go on."""
    err = console(stderr=True)
    first, *rest = (f"{label}: {message}").split("\n")
    lines = [*_wrapped(first, err.width, ""), *(part for line in rest for part in _wrapped(line, err.width, "    "))]
    text = Text("\n".join(lines))
    text.stylize(style, 0, len(label) + 1)
    err.print(text, soft_wrap=True)


def _wrapped(line: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


@contextmanager
def warnings_as_lines() -> Iterator[list[str]]:
    """Gather vardi's warnings, and show each once as a line when the block ends, however it ends."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", VardiWarning)
        try:
            yield said
        finally:
            own = [one for one in caught if issubclass(one.category, VardiWarning)]
            said += dict.fromkeys(str(one.message) for one in own)
    for one in caught:
        if not issubclass(one.category, VardiWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    for message in said:
        complain("warning", message, "bold yellow")


@contextmanager
def progress(*, hidden: bool) -> Iterator[Callable[..., None]]:
    """Give a function that names the stage of the work; shown on a terminal once the work takes long."""
    err = console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    bar = Progress(*columns, console=err, transient=True, disable=hidden or not err.is_terminal)
    task = bar.add_task("", total=None)

    def stage(description: str, completed: int = 0, total: int | None = None) -> None:
        bar.update(task, description=description, completed=completed, total=total)

    clock = threading.Timer(DELAY, bar.start)
    clock.daemon = True
    clock.start()
    try:
        yield stage
    finally:
        clock.cancel()
        clock.join()
        bar.stop()
