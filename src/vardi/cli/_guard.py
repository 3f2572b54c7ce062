"""What a command does when something is wrong: one message, an exit code, and no traceback."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec

import typer

from vardi.cli import INTERRUPTED, UNWRITTEN
from vardi.cli._console import complain, show_json
from vardi.errors import ExpressionError, OutputError, StudyError, VardiError

NO = 1
"""The data fail a check: not identifiable, impossible rows, missing values."""
USAGE = 2
"""The command or the study is wrong."""

Given = ParamSpec("Given")


def guarded(command: Callable[Given, None]) -> Callable[Given, None]:
    """Return a command whose failures are messages and exit codes."""

    @functools.wraps(command)
    def run(*arguments: Given.args, **options: Given.kwargs) -> None:
        try:
            command(*arguments, **options)
        except (KeyboardInterrupt, typer.Abort):
            raise _interrupted() from None
        except (VardiError, ImportError) as error:
            raise _failed(error, as_json=bool(options.get("as_json"))) from None
        except MemoryError as error:
            reason = f" ({error})" if str(error) else ""
            refusal = VardiError(f"There is too little memory{reason}. Use fewer rows, or a machine with more.")
            raise _failed(refusal, as_json=bool(options.get("as_json"))) from None
        except Exception as error:
            from vardi.study._engines import first_line, is_engine_error

            if isinstance(error.__cause__, KeyboardInterrupt):  # how DuckDB reports an interrupt
                raise _interrupted() from None
            if not is_engine_error(error):
                raise
            refusal = VardiError(f"The data cannot be processed: {first_line(error)}")
            raise _failed(refusal, as_json=bool(options.get("as_json"))) from None

    return run


def exit_code(error: Exception) -> int:
    """Return the exit code of a failure."""
    if isinstance(error, OutputError):
        return UNWRITTEN
    if isinstance(error, StudyError | ExpressionError | ImportError):
        return USAGE
    return NO


def _interrupted() -> typer.Exit:
    complain("interrupted", "no file was written.", "bold red")
    return typer.Exit(INTERRUPTED)


def _failed(error: Exception, *, as_json: bool) -> typer.Exit:
    complain("error", str(error), "bold red")
    if as_json:
        data = {name: value for name, value in vars(error).items() if name not in ("verdict", "solution", "name")}
        with suppress(OutputError):  # if standard output is what failed, standard error already has the message
            show_json({"error": type(error).__name__, "message": str(error), **data})
    return typer.Exit(exit_code(error))
