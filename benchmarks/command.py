"""The command line of the benchmarks: names and options -> a page, and a picture beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.draw import draw
from benchmarks.peers import installed
from benchmarks.records import Run, Settings
from benchmarks.render import render
from benchmarks.run import BENCHMARKS, chosen, run
from benchmarks.standing import read_tried
from benchmarks.stored import from_json, to_json
from vardi._files import whole_file
from vardi.cli._command import NO, Quiet, guarded
from vardi.cli._console import complain, progress, show_files, show_plain
from vardi.cli._outputs import require_free
from vardi.errors import StudyError, suggest

RESULTS = Path("benchmarks") / "RESULTS.md"
"""Where a complete run goes when it is started from a clone."""

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.command(
    epilog="\b\nExamples:\n  python -m benchmarks --quick\n  python -m benchmarks dense-log growth --output results.md"
)
@guarded
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Which; by default all except physics.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="20 times fewer rows: a smoke test.")] = False,
    shrink: Annotated[int | None, typer.Option("--shrink", min=1, metavar="N", help="N times fewer rows.")] = None,
    repeats: Annotated[int | None, typer.Option("--repeats", min=1, metavar="R", help="Rounds of timed calls.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Also run the largest sizes: slow.")] = False,
    earlier: Annotated[
        Path | None, typer.Option("--page-of", metavar="JSON", help="Run nothing: write this run's page again.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes.")] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite an existing page.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run the benchmarks beside the peers that are installed.

    A complete run at full size, started from a clone, goes to benchmarks/RESULTS.md; any other is printed unless
    --output is given. Beside a page go its numbers as JSON, from which --page-of writes it again once
    benchmarks/tried.toml has notes on the bars that it missed, and a picture, if matplotlib is installed. What has its
    own page (physics) runs only if it is named. The page lists peers that are not installed:
    pip install 'vardi[bench]'. `python -m benchmarks turns --old PATH` compares this version with an older one.
    """
    tried = read_tried()
    if earlier is not None:
        before = from_json(earlier.read_text(encoding="utf-8"))
        _write(before, _files(earlier.with_suffix(".md"), force=True), tried, force=True)
        return
    for name in names or ():
        if name not in BENCHMARKS:
            known = ", ".join(BENCHMARKS)
            raise StudyError(f"There is no benchmark {name!r}.{suggest(name, BENCHMARKS)} There are {known}.")
    which = chosen(names or ())
    smaller = shrink or (20 if quick else 1)
    settings = Settings(smaller, repeats or (3 if smaller == 1 else 2), full)
    complete = which == chosen(()) and smaller == 1
    if output is None and complete and RESULTS.is_file():
        output, force = RESULTS, True
    files = _files(output, force=force) if output is not None else None
    with progress(hidden=quiet) as stage:
        found = run(
            which,
            settings,
            _command(names or [], quick=quick, full=full, shrink=shrink, repeats=repeats),
            lambda name, place: stage(f"{name} ({place + 1} of {len(which)})", place, len(which)),
        )
    if files is None:
        show_plain(render(found, tried))
    else:
        _write(found, files, tried, force=force)
        if not quiet:
            show_files(files)
    for name in found.failed:
        complain("error", f"The benchmark {name} failed; its page says how.", "bold red")
    if found.failed:
        raise typer.Exit(NO)


def _files(output: Path, *, force: bool) -> dict[str, Path]:
    """Return the paths of the page, the picture and the numbers, none of which may exist."""
    files = {"results": output, "numbers": output.with_suffix(".json")}
    if installed("matplotlib"):
        files["picture"] = output.with_suffix(".svg")
    if len(set(files.values())) < len(files):
        raise StudyError(f"{output} is a page in Markdown, and beside it go files in .json and .svg. Name it .md.")
    for path in files.values():
        require_free(path, force=force)
    return files


def _write(found: Run, files: Mapping[str, Path], tried: Mapping[str, Sequence[str]], *, force: bool) -> None:
    picture = files.get("picture")
    with whole_file(files["numbers"], overwrite=force) as temporary:
        temporary.write_text(to_json(found), encoding="utf-8")
    if picture is not None:
        with whole_file(picture, overwrite=force) as temporary:
            draw(found, temporary)
    with whole_file(files["results"], overwrite=force) as temporary:
        temporary.write_text(render(found, tried, picture.name if picture else None), encoding="utf-8")


def _command(names: list[str], *, quick: bool, full: bool, shrink: int | None, repeats: int | None) -> str:
    """Return the command, without its output path."""
    flags = [flag for flag, given in (("--quick", quick), ("--full", full)) if given]
    numbers = [f"{flag} {number}" for flag, number in (("--shrink", shrink), ("--repeats", repeats)) if number]
    return " ".join(["python -m benchmarks", *names, *flags, *numbers])
