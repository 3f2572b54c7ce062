"""The command line: names and options -> tables on the screen, and every table and figure in a folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from paper.comparison import Agreement
from paper.exit_codes import CLOSED, FAILED, INTERRUPTED, UNWRITTEN
from paper.layout import Entry, Table
from paper.reproduction import NAMES, Reproduction, chosen, reproduce
from paper.runs import or_none
from vardi import OutputError, VardiError

NARROW = 120
"""Terminal width below which tables leave out the spreads."""
WIDE = 100_000
"""Width of an output that is not a terminal: nothing in it is wrapped or cut."""
LONGEST_METHOD = 12
"""The longest name of a method, in letters, for which methods are shown side by side."""

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _known(names: list[str] | None) -> list[str]:
    """Return the names, or refuse the first that the paper does not have."""
    try:
        return list(chosen(names or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command(
    epilog="\b\nExamples:\n  python -m paper clusters --runs 10\n  python -m paper --jobs 8 -o results",
)
def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            callback=_known,
            show_default=False,
            help=f"What to reproduce: {', '.join(NAMES)}. All of them by default.",
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, metavar="N", help="How often each experiment is run; 100 times in the paper.")
    ] = 100,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes to use. The numbers do not depend on it.")
    ] = 2,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all runs.")] = 0,
    trees: Annotated[
        int, typer.Option(min=1, metavar="N", help="Size of the largest forest; cells of larger ones are left out.")
    ] = 1000,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the results go.")] = Path(
        "vardi-paper"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables; errors too.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")] = False,
) -> None:
    """Reproduce the experiments of "Statistical Learning from Biased Training Samples" beside the printed numbers.

    Tables (CSV), figures (SVG and PNG) and a page (index.html) are written to the output folder. Finished runs are kept
    there too: after an interruption, the same command resumes where it stopped and gives the same numbers.
    """
    try:
        with _bars(hidden=as_json or quiet) as progress:
            result = reproduce(
                names or (), output=output, runs=runs, jobs=jobs, seed=seed, trees=trees, progress=progress
            )
        with _standard_output():
            if as_json:
                print(_json(_account(result)))
            elif not quiet:
                print(_text(result))
    except KeyboardInterrupt:
        _complain("interrupted", f"finished runs are kept in {output}; the same command resumes there.")
        raise typer.Exit(INTERRUPTED) from None
    except VardiError as error:
        _complain("error", str(error))
        if as_json:
            with suppress(OutputError), _standard_output():  # standard error already has the message
                print(_json({"error": type(error).__name__, "message": str(error), **vars(error)}))
        raise typer.Exit(UNWRITTEN if isinstance(error, OutputError) else FAILED) from None


def _console(*, stderr: bool = False) -> Console:
    """Return a console that respects NO_COLOR and COLUMNS, and cuts nothing if its output is piped."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def _complain(label: str, message: str) -> None:
    _console(stderr=True).print(Text.assemble((f"{label}:", "bold red"), f" {message}"), soft_wrap=True)


@contextmanager
def _standard_output() -> Iterator[None]:
    """End with codes of their own if standard output cannot be written, or nobody reads it."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain again at exit
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(CLOSED) from None
        raise OutputError(f"Standard output cannot be written: {error.strerror}.", path="-") from error


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, default=str)


@contextmanager
def _bars(*, hidden: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows a progress bar with the time left for each experiment."""
    err = _console(stderr=True)
    columns = (
        TextColumn("{task.description:<16}", markup=False),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, speed_estimate_period=600, disable=hidden or not err.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def progress(name: str, finished: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total, completed=finished)
            else:
                bar.update(tasks[name], completed=finished)

        yield progress


def _text(result: Reproduction) -> str:
    """Return the tables, how well they agree with print, and where the page is."""
    out = _console()
    width = out.width
    with out.capture() as capture:
        for table in result.tables:
            out.print(table.title)
            rows = _rich(table, narrow=width < NARROW)
            needed = out.measure(rows, options=out.options.update(max_width=WIDE)).maximum
            out.width = max(needed, width)  # numbers are never cut
            out.print(rows)
            out.width = width
            if table.note:
                out.print(table.note)
            out.print()
        if result.agreement.cells:
            out.print("! and !!: beyond one and two printed standard deviations; *: wins here but not in print.")
            for line in _words(result.agreement):
                out.print(line)
        out.print(f"Page, tables and figures: {result.page}")
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _rich(table: Table, *, narrow: bool) -> RichTable:
    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    shown.add_column("")
    shown.add_column("model")
    if table.compared:
        for method in table.methods:
            shown.add_column("printed", justify="right", style="dim", no_wrap=True)
            shown.add_column(method, justify="right", no_wrap=True)
        for label, model, entries in table.rows:
            pairs = (_pair(entries.get(method), narrow=narrow) for method in table.methods)
            shown.add_row(label, model, *(cell for pair in pairs for cell in pair))
    elif max(map(len, table.methods)) <= LONGEST_METHOD:
        for method in table.methods:
            shown.add_column(method, justify="right", no_wrap=True)
        for label, model, entries in table.rows:
            shown.add_row(label, model, *(_pair(entries.get(method), narrow=False)[1] for method in table.methods))
    else:
        shown.add_column("")
        shown.add_column("mean", justify="right", no_wrap=True)
        for label, model, entries in table.rows:
            for method, entry in entries.items():
                shown.add_row(label, model, method, _pair(entry, narrow=False)[1])
    return shown


def _pair(entry: Entry | None, *, narrow: bool) -> tuple[Text, Text]:
    """Return the printed and the obtained number, without their spreads if ``narrow``."""
    if entry is None:
        return Text(), Text()
    printed, obtained = (text.split("±")[0] if narrow else text for text in (entry.printed, entry.obtained))
    colour = "red" if "!!" in entry.mark else "yellow" if "!" in entry.mark else ""
    return Text(printed), Text(f"{obtained}{entry.mark:<2}", f"{'bold ' if entry.bold else ''}{colour}".strip())


def _words(agreed: Agreement) -> Iterator[str]:
    yield (
        f"{agreed.cells} printed cells: {agreed.within_one} within one printed standard deviation, "
        f"{agreed.within_two} within two."
    )
    if agreed.clear:
        here = f"here for all but {len(agreed.lost)}" if agreed.lost else "here for all of them"
        yield f"db-ERM is ahead of ERM by more than a standard deviation in print for {agreed.clear} models, {here}."
    yield f"{len(agreed.winners)} models have a different winner than in print."


def _account(result: Reproduction) -> dict[str, Any]:
    """Return the numbers as JSON can hold them."""
    agreed = result.agreement
    return {
        "page": str(result.page),
        "cells": agreed.cells,
        "within_one": agreed.within_one,
        "within_two": agreed.within_two,
        "other_winners": len(agreed.winners),
        "clear": agreed.clear,
        "lost": len(agreed.lost),
        "tables": [
            asdict(line.cell)
            | {"mean": or_none(line.mean), "std": or_none(line.std), "bold": line.bold, "runs": line.runs}
            for line in result.lines
        ],
    }
