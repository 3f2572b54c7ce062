"""``vardi check``, ``fit``, ``report`` and ``sample``: a study in, what is found out, and files."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import vardi
from vardi._files import whole_file
from vardi.cli._command import NO, Force, Json, Quiet, StudyFile, guarded, opening
from vardi.cli._console import show, show_files, show_json, show_next
from vardi.cli._outputs import is_pdf, print_page, writing
from vardi.errors import ContradictedKnownWarning

if TYPE_CHECKING:
    from vardi._facts.account import Account
    from vardi._fit.sample import DebiasedSample
    from vardi.cli._console import Message
    from vardi.study import OpenStudy
    from vardi.study._outputs import ReplicateOptions

WEIGHTS_HELP = "Write the weight of every row, with its source, row, id and count: .csv, .parquet or .jsonl."
REPORT_HELP = "Write a report: .html, or .pdf if Chromium, Chrome or Edge is installed."
REPLICATES_HELP = "Also write this many columns of replicate weights, for R, Stata or svy; 2 or more."
KIND_HELP = (
    "How replicates are made: bayesian (every row gets a random weight), rows (drawn with replacement) or jackknife "
    "(groups left out)."
)

Kind = Literal["bayesian", "rows", "jackknife"]
Plan = Annotated[
    bool, typer.Option("--plan", help="Only list the queries of a fit and what they read. No row is read.")
]


@guarded
def check(study: StudyFile, as_json: Json = False, quiet: Quiet = False, plan: Plan = False) -> None:
    """Check a study before it is used: files, biases, overlap, and whether the samples agree with their biases.

    The exit code is 0 if all is well, 1 if the data fail a check, 2 if the study is wrong.
    """
    from vardi.cli._summary import check_json, show_check, show_plan, study_account

    if plan:
        show_plan(vardi.study.read(study), as_json=as_json)
        return
    with opening(study, hidden=as_json or quiet, reported=(ContradictedKnownWarning,)) as (opened, stage, messages):
        stage("Looking for overlap")
        verdict, notes = opened.judged()
        fit = facts = None
        if verdict.identified and not (opened.is_lazy and not opened.study.known):
            stage("Comparing the samples with their biases")
            fit = opened.fit()
            facts = study_account(opened, fit)
            verdict, notes = facts.verdict, facts.bias_notes
    notes = (*opened.study.notes, *notes)
    known = None if facts is None else facts.known_check
    contradicted = (facts is not None and facts.check.level == "bad") or (known is not None and known.contradicted)
    passed = verdict.identified and not contradicted
    if as_json:
        show_json({**check_json(opened, verdict, facts), "notes": notes, "passed": passed, "warnings": messages})
    elif not quiet or not passed:
        show_check(opened, verdict, fit, facts, notes)
    if not passed:
        raise typer.Exit(NO)
    if not as_json and not quiet:
        show_next("Next, the means of the population", f"vardi fit {shlex.quote(str(study))}")


@guarded
def fit(
    study: StudyFile,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=WEIGHTS_HELP)] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help=REPORT_HELP)] = None,
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Write all columns of the data beside the weights.")
    ] = False,
    replicates: Annotated[int | None, typer.Option(min=2, metavar="N", help=REPLICATES_HELP)] = None,
    kind: Annotated[Kind, typer.Option(metavar="KIND", help=KIND_HELP)] = "bayesian",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the replicates.")] = 0,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Debias a study: print a summary, and write the weights and a report."""
    from vardi.cli._summary import show_fit

    saved = None if output is None or not output.name else output.with_suffix(".fit.json")
    asked_for = (("weights", output), ("report", report), ("fit", saved))
    targets = {what: path for what, path in asked_for if path is not None}
    beside = "--replicates are" if replicates else "--with-data is" if with_data else ""
    if beside and output is None:
        raise typer.BadParameter(f"{beside} written beside the weights. Name their file: -o weights.parquet")
    asked: ReplicateOptions | None = {"n": replicates, "kind": kind, "seed": seed} if replicates else None
    found = run_fit(study, targets, with_data=with_data, replicates=asked, force=force, hidden=as_json or quiet)
    if as_json or not quiet:
        show_fit(*found, targets, as_json=as_json)
    if as_json or quiet:
        return
    if saved is not None and "fit" not in targets:
        show("The fit was not saved for new rows: its weight is no formula of columns.")
    if not targets:
        named = shlex.quote(str(study))
        show("No file was written.", "")
        show_next("For a report to read and print", f"vardi report {named}")
        show_next("For weights to use in other programs", f"vardi fit {named} -o weights.csv")
    elif report is not None and not is_pdf(report):
        show("", "Open the report in a browser to read and print it.")


def run_fit(
    path: Path,
    targets: dict[str, Path],
    *,
    with_data: bool = False,
    replicates: ReplicateOptions | None = None,
    force: bool = False,
    hidden: bool = False,
) -> tuple[OpenStudy, Account, list[Message]]:
    """Read a study, fit it, and write its ``"weights"``, ``"report"`` and ``"fit"`` if they were asked for.

    A fit that has no text for its weights is taken out of the targets.
    Returned are the study with its data, the account of its fit, and the warnings on the way. ``replicates`` are the
    arguments of `DebiasedSample.replicate_weights`; if empty, none are written.
    """
    from vardi._fit.saved import can_be_saved
    from vardi.cli._summary import study_account
    from vardi.study._outputs import weights_columns, write_weights

    reported = () if hidden else (ContradictedKnownWarning,)
    with opening(path, targets, force=force, hidden=hidden, reported=reported) as (opened, stage, messages):
        weights_columns(opened, with_data=with_data, replicates=replicates)
        stage("Solving")
        fitted = opened.fit()
        if "fit" in targets and not can_be_saved(fitted.solved):
            del targets["fit"]
        stage("Estimating errors")
        account = study_account(opened, fitted)
        with ExitStack() as stack:  # all are moved into place when all are written
            places = [stack.enter_context(whole_file(path, overwrite=force)) for path in targets.values()]
            for (what, target), place in zip(targets.items(), places, strict=True):
                stage(f"Writing the {what}")
                with writing(target, place):
                    if what == "report":
                        _write_report(opened, fitted, place, target)
                        continue
                    if what == "fit":
                        fitted.save(place, overwrite=True)
                        continue
                    making = partial(stage, "Making replicates")
                    write_weights(opened, fitted, place, with_data=with_data, replicates=replicates, progress=making)
    return opened, account, messages


def _write_report(opened: OpenStudy, fitted: DebiasedSample, place: Path, target: Path) -> None:
    """Write the report of a study as a page, or as the PDF that is printed from it."""
    study = opened.study
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html") if is_pdf(target) else place
        today = datetime.now(UTC).date().isoformat()
        named = list(study.variables) or None
        fitted.report(page, title=study.title, study=study.path, date=today, variables=named, overwrite=True)
        if is_pdf(target):
            print_page(page, place, target)


def report(
    study: StudyFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=REPORT_HELP)] = Path("report.html"),
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a study: one page (HTML) that opens offline in any browser, or the PDF printed from it."""
    fit(study, report=output, force=force, as_json=as_json, quiet=quiet)


@guarded
def sample(
    study: StudyFile,
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="How many rows to draw.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where the rows go: .csv, .parquet or .jsonl.")
    ],
    seed: Annotated[int | None, typer.Option(min=0, metavar="N", help="A seed, to get the same draw again.")] = None,
    once: Annotated[
        bool, typer.Option("--without-replacement", help="Draw no row twice. Engines always do so.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw rows by weight, as if from a sample without bias."""
    from vardi.study._outputs import draw, write_frame

    outputs = {"draw": output}
    with opening(study, outputs, force=force, hidden=as_json or quiet) as (opened, stage, messages):
        stage("Solving")
        fitted = opened.fit()
        stage(f"Drawing {n:,} rows")
        rows = draw(opened, fitted, n, seed, replace=not once)
        with whole_file(output, overwrite=force) as temporary, writing(output, temporary):
            write_frame(rows, temporary)
    title, distinct = opened.study.title, rows.select("source", "row").n_unique()
    if as_json:
        by_source = dict(rows["source"].value_counts(sort=True).iter_rows())
        facts = {"study": study, "title": title, "rows": n, "distinct": distinct, "seed": seed}
        show_json({**facts, "by_source": by_source, "files": outputs, "warnings": messages})
    elif not quiet:
        drawn = "1 row drawn by weight." if n == 1 else f"{n:,} rows drawn by weight, {distinct:,} of them different."
        show(f"{title}: {drawn}", "")
        show_files(outputs)
