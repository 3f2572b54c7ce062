"""``vardi demo``: the bundled house prices, from two CSV files to a report."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from vardi.cli._command import Json, Quiet, guarded
from vardi.cli._console import show, show_next
from vardi.cli._outputs import writing
from vardi.errors import OutputError

MARK = "# Written by `vardi demo`, and overwritten by it."
FILES = ("agency.csv", "national.csv", "study.toml", "weights.parquet", "report.html")
STUDY = f"""{MARK}
title = "House prices"
variables = ["MEDV", "RM", "LSTAT"]    # median value in 1,000 dollars, rooms, share of poorer households in %

[sources.agency]                       # 200 houses of an agency that sells at up to 22
data = "agency.csv"
bias = "MEDV <= 22"

[sources.national]                     # 100 houses of a survey, drawn at random
data = "national.csv"
bias = "1"
"""


@guarded
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the files of the demo go.")
    ] = Path("vardi-demo"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Debias two samples of house prices that come with vardi: no data and no network needed."""
    from vardi.cli._study import run_fit
    from vardi.cli._summary import show_fit
    from vardi.datasets import house_prices

    _require_own(output)
    with _made_beside(output) as made:
        for name, rows in house_prices(seed=0, backend="polars").samples.items():
            rows.write_csv(made / f"{name}.csv")
        (made / "study.toml").write_text(STUDY, encoding="utf-8")
        outputs = {"weights": made / "weights.parquet", "report": made / "report.html"}
        opened, account, messages = run_fit(made / "study.toml", outputs, hidden=as_json or quiet)
        output.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (made / name).replace(output / name)
    opened = replace(opened, study=replace(opened.study, path=output / "study.toml"))
    files = {what: output / path.name for what, path in outputs.items()}
    if as_json or not quiet:
        show_fit(opened, account, messages, files, as_json=as_json)
    if not as_json and not quiet:
        study = output / "study.toml"
        show("", f"Open the report in a browser. The study is a short text file: {study}", "")
        show_next("To look more closely at the samples", f"vardi check {shlex.quote(str(study))}")
        show_next("To write a study of your own files", "vardi init")


def _require_own(folder: Path) -> None:
    """Refuse a folder in which the demo would overwrite files that are not its own."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file. Name a folder with --output.", path=str(folder))
    study = folder / "study.toml"
    own = study.is_file() and study.read_text(encoding="utf-8", errors="replace").startswith(MARK)
    taken = [name for name in FILES if (folder / name).exists()]
    if taken and not own:
        message = f"{folder / taken[0]} exists, and the demo did not write it. Name another folder with --output."
        raise OutputError(message, path=str(folder / taken[0]))


@contextmanager
def _made_beside(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder on the same disk."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror}.", path=str(folder)) from error
    with beside as made, writing(folder, Path(made)):
        yield Path(made)
