"""``vardi weigh``: the weights of new rows, by a fit that was saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import vardi
from vardi._files import whole_file
from vardi.cli._command import Force, Json, Quiet, guarded
from vardi.cli._console import complain, progress, show, show_files, show_json
from vardi.cli._outputs import require_free, writing
from vardi.errors import OutputError

TABLE_HELP = "The table, if the rows are in a DuckDB database."
OUTPUT_HELP = "Where the rows go with their weights: .csv, .parquet or .jsonl."


@guarded
def weigh(
    fit: Annotated[Path, typer.Argument(metavar="FIT", help="A saved fit (JSON).")],
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="New rows: .csv, .parquet, .jsonl or .duckdb.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=OUTPUT_HELP)],
    table: Annotated[str | None, typer.Option(metavar="NAME", help=TABLE_HELP)] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Weigh new rows by a saved fit: all their columns, and a column weight, empty where a row has none.

    Rows are streamed, so they may be more than memory holds.
    """
    from vardi.study._outputs import require_suffix, write_frame
    from vardi.study._weighed import rows_and_nulls, scanned

    require_suffix(output)
    require_free(output, force=force)
    if output.resolve() in (rows.resolve(), fit.resolve()):
        raise OutputError(f"{output} is read, so it is not overwritten. Name another file.", path=str(output))
    with progress(hidden=as_json or quiet) as stage:
        stage("Opening the rows")
        weigher = vardi.load(fit)
        weighed = scanned(weigher, rows, table)
        with whole_file(output, overwrite=force) as temporary, writing(output, temporary):
            stage(f"Weighing {rows.name}")
            write_frame(weighed, temporary)
            stage("Counting")
            total, nulls = rows_and_nulls(temporary)
    if nulls:
        said = "no sample of the fit could have drawn them, or a value that decides it is missing."
        complain("warning", f"{nulls:,} of {total:,} rows have no weight: {said}", "bold yellow")
    files = {"weights": output}
    if as_json:
        show_json({"fit": fit, "data": rows, "rows": total, "uncovered": nulls, "files": files})
    elif not quiet:
        show(f"{total:,} rows weighed by {fit.name}.", "")
        show_files(files)
