"""``python -m benchmarks.accuracy [OPTIONS]``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.accuracy.designs import designs
from benchmarks.accuracy.elsewhere import PEERS
from benchmarks.accuracy.race import race
from vardi._files import whole_file
from vardi.cli._command import guarded
from vardi.cli._console import progress, show_files

RESULTS = Path("benchmarks") / "ACCURACY.md"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@guarded
def accuracy(
    repeats: Annotated[int, typer.Option("--repeats", min=2, metavar="R", help="Draws of each design.")] = 200,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes.")] = RESULTS,
) -> None:
    """Race vardi's answers to a selection that nobody knows against those of balance, skada and scikit-learn.

    balance and skada run in environments of their own, which are made beside this package the first time.
    """
    with progress(hidden=False) as stage:
        page = race(designs(), PEERS, repeats, f"python -m benchmarks.accuracy --repeats {repeats}", stage)
    with whole_file(output, overwrite=True) as temporary:
        temporary.write_text(page, encoding="utf-8")
    show_files({"results": output})


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.accuracy")
