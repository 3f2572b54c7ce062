"""Where a command writes: results to standard output; warnings, errors and progress to standard error."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from vardi._tables import Note, Part, Table, as_text
from vardi.cli import is_utf8
from vardi.errors import OutputError, VardiWarning
from vardi.errors._texts import SHOWN

WIDE = 100_000
"""Width of an output that is not a terminal: nothing in it is wrapped or cut."""

DETAILS_OF_KNOWN = "vardi check lists the known values."

JSON_FORMAT = 1
"""Rises when an entry of what --json prints is renamed, removed or given another meaning; new entries may come."""

Message: TypeAlias = dict[str, str]
"""A warning: its code, by which a program tells it, and its message."""

STYLES = {"✓": "bold green", "✗": "bold red", "!": "bold yellow", "doubt:": "bold yellow"}
DELAY = 1.0
"""Seconds of work before progress is shown."""

Stage = Callable[..., None]
"""Name the stage of the work, and how much of how much of it is done."""


def console(stream: TextIO) -> Console:
    """Return a console that respects NO_COLOR and COLUMNS, and cuts nothing if its output is piped."""
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def show(*parts: str | Text) -> None:
    """Print results, wrapped between words."""
    for part in parts:
        _print(part)


def show_parts(parts: Iterable[Part], most: int = SHOWN) -> None:
    """Print parts of results, with at most so many rows of a table, and an empty line after each."""
    out = console(sys.stdout)
    for part in parts:
        if isinstance(part, Table) and part.items:
            table = Text(part.text(out.width if out.is_terminal else WIDE, most))
            table.stylize("bold", 0, table.plain.index("\n"))
            _print(table.append("; --json lists all\n" if len(part.items) > most else "\n"), soft_wrap=True)
        elif said := as_text([part], out.width):
            text = Text(said)
            text.stylize(STYLES.get(part.word, "bold") if isinstance(part, Note) else "", 0, len(said.split()[0]))
            _print(text.append("\n"), soft_wrap=True)


def _print(part: str | Text, *, soft_wrap: bool = False) -> None:
    out = console(sys.stdout)
    with _standard_output(), out.capture() as capture:
        out.print(part, overflow=None if soft_wrap else "fold", soft_wrap=soft_wrap)
    printed = capture.get()
    show_plain(printed if out.is_terminal else "".join(f"{line.rstrip()}\n" for line in printed.splitlines()))


def show_files(files: dict[str, Path]) -> None:
    """Print where the outputs are, each on a line that is not wrapped."""
    for what, path in files.items():
        show_plain(f"{what:<8} {path}\n")


def show_next(gives: str, command: str) -> None:
    """Print what to do next: a line that describes a command, and the command alone on the next, to be pasted."""
    show(f"{gives}:")
    show_plain(f"  {''.join(letter if letter.isprintable() else '?' for letter in command)}\n")


def show_plain(text: str) -> None:
    """Print a text as it is."""
    with _standard_output():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def _standard_output() -> Iterator[None]:
    """Turn a failure to print into an `OutputError`; a closed pipe is left to `vardi.cli.main`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"Standard output cannot be written: {error.strerror}.", path="-") from error


def show_json(content: dict[str, object]) -> None:
    """Print one JSON object with the number of its format, in UTF-8 or ASCII; NaN and infinities become null."""
    content = {"format": JSON_FORMAT, **content}
    text = json.dumps(plain(content), ensure_ascii=False, indent=2)
    if not is_utf8(sys.stdout) or any("\ud800" <= letter <= "\udfff" for letter in text):  # bytes of a file name
        text = json.dumps(plain(content), indent=2)
    show_plain(text + "\n")


def plain(value: object) -> object:
    """Return a value as JSON can hold it."""
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
    """Print a warning or an error, wrapped between words, with continuation lines indented."""
    err = console(sys.stderr)
    first, *rest = (f"{label}: {message}").split("\n")
    lines = [*_wrapped(first, err.width, ""), *(part for line in rest for part in _wrapped(line, err.width, "    "))]
    text = Text("\n".join(lines))
    text.stylize(style, 0, len(label) + 1)
    err.print(text, soft_wrap=True)


def _wrapped(line: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


@contextmanager
def warnings_as_lines(*, reported: tuple[type[VardiWarning], ...] = ()) -> Iterator[list[Message]]:
    """Gather vardi's warnings, with the remedy in a shell, and print each once when the block ends, however it ends.

    Warnings of the kinds ``reported`` are gathered but not printed, since the command itself reports them.
    """
    messages: list[Message] = []
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", VardiWarning)
            yield messages
    finally:
        for one in caught:
            text = str(one.message).replace("fit.known has the details.", DETAILS_OF_KNOWN)
            if not issubclass(one.category, VardiWarning):
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
            elif text not in [message["message"] for message in messages]:
                messages.append({"code": code_of(one.category), "message": text})
                if not issubclass(one.category, reported):
                    complain("warning", text, "bold yellow")


def code_of(category: type[Warning]) -> str:
    """Return the code of a warning: the name of its class in lower case.

    >>> from vardi.errors import WeakOverlapWarning
    >>> code_of(WeakOverlapWarning)
    'weak-overlap'
    """
    return re.sub("(?<!^)(?=[A-Z])", "-", category.__name__.removesuffix("Warning")).lower()


@contextmanager
def progress(
    *, hidden: bool, timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer
) -> Iterator[Stage]:
    """Yield a function that names the stage of the work; a terminal shows it once the work has taken a while."""
    err = console(sys.stderr)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    bar = Progress(*columns, console=err, transient=True, disable=hidden or not err.is_terminal)
    task = bar.add_task("", total=None)

    def stage(description: str, completed: int = 0, total: int | None = None) -> None:
        bar.update(task, description=description, completed=completed, total=total)

    if bar.disable:  # in older versions of Rich, stopping it would print an empty line
        yield stage
        return
    clock = timer(DELAY, bar.start)
    clock.daemon = True
    clock.start()
    try:
        yield stage
    finally:
        clock.cancel()
        clock.join()
        bar.stop()
