"""The command line: arguments, the public API, files. Needs typer and rich: ``pip install 'vardi[cli]'``."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TextIO

__all__ = ["main"]

INTERRUPTED = 130
CLOSED = 141
"""The exit code of a program whose reader has gone: 128 plus the number of SIGPIPE."""
UNWRITTEN = 3
"""The exit code if an output cannot be written."""
STRICT = ("strict", "surrogateescape")
"""Error handlers with which Python fails on characters that standard output cannot encode."""


def main() -> int:
    """Run ``vardi`` and return its exit code."""
    _open_what_is_closed()
    _replace_what_cannot_be_printed()
    try:
        code = _run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        code = CLOSED
    except OSError as error:  # from a help text, which is printed before a command begins
        print(f"error: Standard output cannot be written: {error.strerror}.", file=sys.stderr)
        code = UNWRITTEN
    if code in (CLOSED, UNWRITTEN):
        _drop_what_nobody_reads()
    return code


def _open_what_is_closed() -> None:
    """Discard what is printed to a stream that the shell closed, which is None in Python."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _replace_what_cannot_be_printed() -> None:
    """Print a question mark for a character that the encoding of a stream lacks, rather than failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not is_utf8(stream) and stream.errors in STRICT:
            stream.reconfigure(errors="replace")


def is_utf8(stream: TextIO) -> bool:
    """Return whether a stream can print all characters, which is assumed if its encoding is unknown."""
    try:
        return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name == "utf-8"
    except LookupError:
        return False


def _run() -> int:
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        needs = " and ".join(missing)
        print(f"vardi: the command line needs {needs}. Install with: pip install 'vardi[cli]'", file=sys.stderr)
        return 2
    try:
        from vardi.cli._app import app

        app(prog_name="vardi")
    except SystemExit as finished:
        if any(isinstance(cause, BrokenPipeError) for cause in _causes(finished)):  # typer and rich exit with 1
            return CLOSED
        return finished.code if isinstance(finished.code, int) else int(finished.code is not None)
    return 0


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the chain of exceptions during whose handling this one was raised."""
    cause = error.__context__
    while cause is not None:
        yield cause
        cause = cause.__context__


def _drop_what_nobody_reads() -> None:
    """Discard what is left in the buffers, so that Python does not complain about it at exit."""
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
