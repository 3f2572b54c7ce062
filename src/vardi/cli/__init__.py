"""The command line: arguments, the public API, files. Needs typer and rich: ``pip install 'vardi[cli]'``."""

from __future__ import annotations

import codecs
import io
import os
import sys
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
    _prepare_streams()
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


def _prepare_streams() -> None:
    """Discard what is printed to a closed stream; print a question mark for a character that the encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the shell closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and not is_utf8(stream) and stream.errors in STRICT:
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
        cause = finished.__context__
        while cause is not None:
            if isinstance(cause, BrokenPipeError):  # for which typer and rich exit with 1
                return CLOSED
            cause = cause.__context__
        return finished.code if isinstance(finished.code, int) else int(finished.code is not None)
    return 0


def _drop_what_nobody_reads() -> None:
    """Discard what is left in the buffers, so that Python does not complain about it at exit."""
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
