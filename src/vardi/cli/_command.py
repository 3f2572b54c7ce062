"""What all commands share: their options, how they open a study, and what they do when something is wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

import vardi
from vardi.cli import INTERRUPTED, UNWRITTEN
from vardi.cli._console import Message, Stage, complain, progress, show_json, warnings_as_lines
from vardi.cli._outputs import require_outputs
from vardi.errors import ExpressionError, OutputError, SavedFitError, StudyError, VardiError, VardiWarning

if TYPE_CHECKING:
    from vardi.study import OpenStudy

NO = 1
"""The data fail a check: not identifiable, impossible rows, missing values."""
USAGE = 2
"""The command or the study is wrong."""

UNPRINTED = ("verdict", "solution", "name")
"""Attributes of errors that are not printed as JSON."""

Given = ParamSpec("Given")


def complete_study(incomplete: str) -> list[str]:
    """Return the study files and folders that begin with the given text, for shell completion."""
    stem = Path(incomplete)
    folder = stem if incomplete.endswith("/") else stem.parent
    found = [path for path in sorted(folder.glob("*")) if path.is_dir() or path.suffix == ".toml"]
    names = [f"{path}/" if path.is_dir() else str(path) for path in found]
    return [name for name in names if name.startswith(incomplete)]


StudyFile = Annotated[
    Path, typer.Argument(metavar="STUDY", help="The study file (TOML).", autocompletion=complete_study)
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing outputs.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables; errors too.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]


@contextmanager
def opening(
    path: Path,
    outputs: Mapping[str, Path] | None = None,
    *,
    force: bool = False,
    hidden: bool = False,
    reported: tuple[type[VardiWarning], ...] = (),
) -> Iterator[tuple[OpenStudy, Stage, list[Message]]]:
    """Read and open a study; yield it with what names the stage of the work, and the list of its warnings.

    Outputs that could not be written are refused before any row is read. Warnings of the kinds ``reported`` are not
    printed, since the command itself reports them.
    """
    with warnings_as_lines(reported=reported) as messages, progress(hidden=hidden) as stage:
        study = vardi.study.read(path)
        require_outputs(outputs or {}, study, force=force)
        stage("Reading the data" if study.engine == "memory" else f"Opening the data with {study.engine}")
        yield study.open(), stage, messages


def guarded(command: Callable[Given, None]) -> Callable[Given, None]:
    """Return a command whose failures are messages and exit codes."""

    @functools.wraps(command)
    def run(*arguments: Given.args, **options: Given.kwargs) -> None:
        try:
            command(*arguments, **options)
        except (Exception, KeyboardInterrupt) as error:
            is_interrupt = isinstance(error, KeyboardInterrupt | typer.Abort)
            if is_interrupt or isinstance(error.__cause__, KeyboardInterrupt):  # how DuckDB reports an interrupt
                complain("interrupted", "no file was written.", "bold red")
                raise typer.Exit(INTERRUPTED) from None
            refusal = _refusal(error)
            if refusal is None:
                raise
            complain("error", str(refusal), "bold red")
            if options.get("as_json"):
                data = {name: value for name, value in vars(refusal).items() if name not in UNPRINTED}
                with suppress(OutputError):  # if standard output is what failed, standard error already has the message
                    show_json({"error": type(refusal).__name__, "message": str(refusal), **data})
            is_usage = isinstance(refusal, StudyError | SavedFitError | ExpressionError | ImportError)
            raise typer.Exit(UNWRITTEN if isinstance(refusal, OutputError) else USAGE if is_usage else NO) from None

    return run


def _refusal(error: BaseException) -> Exception | None:
    """Return an error as one with a message for people; None for a fault of vardi, or the end of a command."""
    if isinstance(error, VardiError | ImportError):
        return error
    if isinstance(error, MemoryError):
        reason = f" ({error})" if str(error) else ""
        return VardiError(f"There is too little memory{reason}. Use fewer rows, or a machine with more.")
    from vardi.study._engines import first_line, is_engine_error

    return VardiError(f"The data cannot be processed: {first_line(error)}") if is_engine_error(error) else None
