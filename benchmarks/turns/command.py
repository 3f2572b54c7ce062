"""The command line of the comparison with an older version."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.machine import facts
from benchmarks.process import ROOT
from benchmarks.render import level
from benchmarks.turns.cases import APART, CASES
from benchmarks.turns.compare import Comparison, Turns, compare
from benchmarks.turns.page import page, ratios, to_json
from benchmarks.turns.versions import TurnError, Version, new_version, old_version
from vardi._files import whole_file
from vardi.cli._command import NO, Quiet, guarded
from vardi.cli._console import complain, progress, show_files, show_plain
from vardi.errors import StudyError, suggest

PAGE = ROOT / "benchmarks" / "TURNS.md"

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.command(
    epilog="\b\nExamples:\n  python -m benchmarks turns --old ../old --quick\n"
    "  python -m benchmarks turns dense chain --old ../old"
)
@guarded
def turns(
    old: Annotated[Path, typer.Option("--old", metavar="PATH", help="A checkout of the old version, with a .venv.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="CASE", help="Which, or how their names begin; by default all except spark."),
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, metavar="R", help="Of four turns: old, new, new, old.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="20 times fewer rows: a smoke test.")] = False,
    shrink: Annotated[int | None, typer.Option("--shrink", min=1, metavar="N", help="N times fewer rows.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Keep the tables on disk here, for further runs.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write benchmarks/TURNS.md, and its numbers as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Time this version and an older one by turns, each turn in a process of its own.

    The old version is a worktree of its commit with an environment made by `make .venv/.test` in it. The cases are
    those of this clone for both. A case that fails is shown, and does not stop the others.
    """
    chosen = _chosen(names or ())
    smaller = shrink or (20 if quick else 1)
    versions = (old_version(old), new_version())
    about = _facts(chosen, versions, rounds, smaller)
    comparisons: list[Comparison] = []
    failed: dict[str, str] = {}
    with progress(hidden=quiet) as stage, _tables(folder) as tables:
        for place, case in enumerate(chosen):
            on_turn = partial(_show_turn, stage, f"{case} ({place + 1} of {len(chosen)})")
            try:
                measured = compare(case, versions, smaller, rounds, tables, on_turn)
            except TurnError as error:
                complain("error", f"{case}: {error}", "bold red")
                failed[case] = str(error).splitlines()[-1]
            else:
                comparisons += measured
                if not quiet:
                    _tell(measured)
            found = Turns(tuple(comparisons), failed, about, smaller)
            if write:
                _write(found)
    show_plain(ratios(found) + "\n")
    if write and not quiet:
        show_files({"results": PAGE, "numbers": PAGE.with_suffix(".json")})
    if failed:
        raise typer.Exit(NO)


def _chosen(names: Sequence[str]) -> list[str]:
    """Return the cases of these names, or whose names begin with them; without names, those that need nothing else."""
    for name in names:
        if not any(_is_of(case, name) for case in CASES):
            known = ", ".join(CASES)
            raise StudyError(f"There is no case {name!r}.{suggest(name, CASES)} There are {known}.")
    return [case for case in CASES if any(_is_of(case, name) for name in names) or (not names and case not in APART)]


def _is_of(case: str, name: str) -> bool:
    return case == name or case.startswith(f"{name}-")


@contextmanager
def _tables(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.absolute()


def _facts(chosen: Sequence[str], versions: Sequence[Version], rounds: int, shrink: int) -> dict[str, str]:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    old, new = (version.packages() for version in versions)
    differing = [
        f"{name} {old.get(name, 'not installed')} and {new.get(name, 'not installed')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    same = ", ".join(f"{name} {found}" for name, found in new.items() if old.get(name) == found)
    return {
        "cases": ", ".join(chosen),
        "rounds": f"{rounds}, each old, new, new, old",
        "sizes": "as named in the design" if shrink == 1 else f"{shrink} times smaller: a smoke test",
        "old and new": " and ".join(version.commit() or "not a clone" for version in versions),
        **facts(load),
        "versions of both": same,
        "versions that differ": "; ".join(differing) or "none",
    }


def _show_turn(stage: Callable[..., None], what: str, turn: int, turns: int) -> None:
    stage(f"{what}, turn {turn + 1} of {turns}", turn, turns)


def _tell(measured: Sequence[Comparison]) -> None:
    """Print a line for each part to standard error, for who waits."""
    for one in measured:
        low, high = one.measured.quartiles
        between = f"{level(low, 'x')} to {level(high, 'x')}"
        typer.echo(f"{one.target.what}: {level(one.measured.ratio, 'x')} ({between})", err=True)


def _write(found: Turns) -> None:
    for path, text in ((PAGE, page(found)), (PAGE.with_suffix(".json"), to_json(found))):
        with whole_file(path, overwrite=True) as temporary:
            temporary.write_text(text, encoding="utf-8")
