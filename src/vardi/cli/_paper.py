"""``vardi paper``: every table and figure of the paper, beside the printed numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vardi.cli import INTERRUPTED
from vardi.cli._console import complain, console, show, show_json
from vardi.cli._guard import guarded
from vardi.cli._options import Json, Quiet
from vardi.errors import suggest

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

    from vardi.paper import Agreement, Entry, Reproduction, Table

NAMES = ("boston", "adult", "age", "norm", "first-component", "clusters", "lengths", "rates", "figures")
"""The names in `vardi.paper`, repeated here because it takes a second to load."""
NARROW = 120
"""Terminal width below which tables leave out the spreads."""
LONGEST_METHOD = 12
"""The longest name of a method, in letters, for which methods are shown side by side."""


def _known(names: list[str] | None) -> list[str]:
    """Return the names, or refuse the first that the paper does not have."""
    for name in names or ():
        if name not in NAMES:
            raise typer.BadParameter(f"The paper has no {name!r}.{suggest(name, NAMES)} There are {', '.join(NAMES)}.")
    return names or []


def _complete(incomplete: str) -> list[str]:
    return [name for name in NAMES if name.startswith(incomplete)]


@guarded
def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            callback=_known,
            autocompletion=_complete,
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
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce the experiments of "Statistical Learning from Biased Training Samples" beside the printed numbers.

    Tables (CSV), figures (SVG and PNG) and a page (index.html) are written to the output folder. Finished runs are kept
    there too: after an interruption, the same command resumes where it stopped and gives the same numbers.
    """
    try:
        from vardi.paper import reproduce

        with _bars(hidden=as_json or quiet) as progress:
            result = reproduce(
                names or (), output=output, runs=runs, jobs=jobs, seed=seed, trees=trees, progress=progress
            )
    except KeyboardInterrupt:
        complain("interrupted", f"finished runs are kept in {output}; the same command resumes there.", "bold red")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        show_json(_json(result))
    elif not quiet:
        _show(result)


@contextmanager
def _bars(*, hidden: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows a progress bar with the time left for each experiment."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    err = console(stderr=True)
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


def _show(result: Reproduction) -> None:
    width = console().width
    for table in result.tables:
        show(table.title, _rich(table, narrow=width < NARROW), *([table.note] if table.note else []), "")
    if result.agreement.cells:
        show("! and !!: beyond one and two printed standard deviations; *: wins here but not in print.")
        for line in _words(result.agreement):
            show(line)
    show(f"Page, tables and figures: {result.page}")


def _rich(table: Table, *, narrow: bool) -> RichTable:
    from rich.table import Table as RichTable

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
    from rich.text import Text

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


def _json(result: Reproduction) -> dict[str, Any]:
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
            {
                "table": line.cell.table,
                "dataset": line.cell.dataset,
                "scenario": line.cell.scenario,
                "model": line.cell.model,
                "method": line.cell.method,
                "mean": line.mean,
                "std": line.std,
                "bold": line.bold,
                "runs": line.runs,
            }
            for line in result.lines
        ],
    }
