"""``vardi check``: whether the samples of a study can be compared, and agree with their biases."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING, Annotated

import typer

from vardi.cli._console import progress, show, show_json, show_next, warnings_as_lines
from vardi.cli._guard import NO, guarded
from vardi.cli._options import Json, Quiet, StudyFile
from vardi.errors import ContradictedKnownWarning

if TYPE_CHECKING:
    from vardi._facts.account import Account
    from vardi._fit.sample import DebiasedSample
    from vardi._solve.identify import Verdict
    from vardi.study import OpenStudy, Study

Plan = Annotated[
    bool, typer.Option("--plan", help="Only list the queries of a fit and what they read. No row is read.")
]
YES, NOT, UNTOLD = ("✓ ", "bold green"), ("✗ ", "bold red"), ("– ", "bold")
SIGNS = {"good": YES, "bad": NOT, "doubt": ("! ", "bold yellow"), "fact": UNTOLD}


@guarded
def check(study: StudyFile, as_json: Json = False, quiet: Quiet = False, plan: Plan = False) -> None:
    """Check a study before it is used: files, biases, overlap, and whether the samples agree with their biases.

    The exit code is 0 if all is well, 1 if the data fail a check, 2 if the study is wrong.
    """
    from vardi import study as studies
    from vardi.cli._summary import study_account

    if plan:
        _show_plan(studies.read(study), as_json=as_json)
        return
    with warnings_as_lines(told=(ContradictedKnownWarning,)) as said, progress(hidden=as_json or quiet) as stage:
        read = studies.read(study)
        stage("Reading the data" if read.engine == "memory" else f"Opening the data with {read.engine}")
        opened = read.open()
        stage("Looking for overlap")
        verdict, noted = opened.judged()
        fit = found = None
        if verdict.identified and not (opened.is_lazy and not read.known):
            stage("Comparing the samples with their biases")
            fit = opened.fit()
            found = study_account(opened, fit)
            verdict, noted = found.verdict, found.bias_notes
    biases, known = (None, None) if found is None else (found.check.found, found.known_check)
    notes = (*read.notes, *noted)
    wrong_biases = biases is not None and biases.outcome == "contradicted"
    wrong_known = known is not None and known.contradicted
    passed = verdict.identified and not wrong_biases and not wrong_known
    if as_json:
        show_json({**_json(opened, verdict, found), "notes": notes, "passed": passed, "warnings": said})
    elif not quiet or not passed:
        _show(opened, verdict, fit, found, notes)
    if not passed:
        raise typer.Exit(NO)
    if not as_json and not quiet:
        show("")
        show_next({"Next, the means of the population": f"vardi fit {shlex.quote(str(study))}"})


def _show_plan(study: Study, *, as_json: bool) -> None:
    """Show the queries of a fit, without reading a row."""
    from rich.text import Text

    from vardi.cli._summary import plan_lines
    from vardi.study import plan

    found = plan(study)
    if as_json:
        told = {**asdict(found), "passes": found.passes, "bytes": found.size}
        show_json({"study": str(study.path), "title": study.title, **told})
    else:
        show(Text(study.title, "bold"), *plan_lines(found))


def _json(opened: OpenStudy, verdict: Verdict, found: Account | None) -> dict[str, object]:
    from vardi.cli._summary import verdict_json

    study = opened.study
    biases, known = (None, None) if found is None else (found.check.found, found.known_check)
    facts = {"study": str(study.path), "title": study.title, "engine": study.engine}
    tests = {
        "bias_check": None if biases is None else asdict(biases),
        "known_check": None
        if known is None
        else {**asdict(known), "contradicted": known.contradicted, "verdict": known.verdict},
    }
    said = {} if found is None else {"conclusion": asdict(found.conclusion), "doubts": found.trust.messages}
    return {**facts, **verdict_json(verdict), **tests, **said}


def _show(
    opened: OpenStudy, verdict: Verdict, fit: DebiasedSample | None, found: Account | None, notes: Sequence[str]
) -> None:
    from rich.text import Text

    from vardi._estimate.bias_check import CAVEAT
    from vardi.cli._summary import biases_table, doubt_lines, known_table, links_table

    biases, known = (None, None) if found is None else (found.check.found, found.known_check)
    show(Text(opened.study.title, "bold"))
    if found is not None:
        show(Text.assemble(SIGNS[found.conclusion.level], found.conclusion.text))
    show(Text.assemble(YES if verdict.identified else NOT, verdict.message), "")
    if found is not None and found.trust.messages:
        show(*doubt_lines(found.trust.messages)[1:], "")
    for note in notes:
        show(note, "")
    if verdict.links:
        show(links_table(verdict, fit), "")
    if known is not None:
        sign = UNTOLD if isnan(known.pvalue) else NOT if known.contradicted else YES
        show(Text.assemble(sign, known.verdict), "", known_table(known), "")
    if biases is None:
        if verdict.identified:
            show(
                'The biases were not tested: that needs rows in memory (engine = "memory").'
                if opened.is_lazy or found is None
                else found.check.text
            )
        return
    agreed = NOT if biases.outcome == "contradicted" else YES
    said = " ".join(biases.summary().partition("\n\n")[0].split())
    show(Text.assemble(UNTOLD if biases.reason else agreed, said))
    if not biases.reason:
        show("", biases_table(biases), "", CAVEAT)
