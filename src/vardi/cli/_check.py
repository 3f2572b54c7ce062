"""``vardi check``: whether the samples of a study can be compared, and agree with their biases."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import vardi
from vardi.cli._command import NO, Json, Quiet, StudyFile, guarded, opening
from vardi.cli._console import show, show_json, show_next
from vardi.errors import ContradictedKnownWarning

if TYPE_CHECKING:
    from vardi._facts.account import Account
    from vardi._fit.sample import DebiasedSample
    from vardi._solve.identify import Verdict
    from vardi.study import OpenStudy, Study

Plan = Annotated[
    bool, typer.Option("--plan", help="Only list the queries of a fit and what they read. No row is read.")
]
SIGNS = {
    "good": ("✓ ", "bold green"),
    "bad": ("✗ ", "bold red"),
    "doubt": ("! ", "bold yellow"),
    "fact": ("– ", "bold"),
}


@guarded
def check(study: StudyFile, as_json: Json = False, quiet: Quiet = False, plan: Plan = False) -> None:
    """Check a study before it is used: files, biases, overlap, and whether the samples agree with their biases.

    The exit code is 0 if all is well, 1 if the data fail a check, 2 if the study is wrong.
    """
    from vardi.cli._summary import study_account

    if plan:
        _show_plan(vardi.study.read(study), as_json=as_json)
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
    contradicted = facts is not None and (
        (facts.check.found is not None and facts.check.found.outcome == "contradicted")
        or (facts.known_check is not None and facts.known_check.contradicted)
    )
    passed = verdict.identified and not contradicted
    if as_json:
        show_json({**_json(opened, verdict, facts), "notes": notes, "passed": passed, "warnings": messages})
    elif not quiet or not passed:
        _show(opened, verdict, fit, facts, notes)
    if not passed:
        raise typer.Exit(NO)
    if not as_json and not quiet:
        show("")
        show_next("Next, the means of the population", f"vardi fit {shlex.quote(str(study))}")


def _show_plan(study: Study, *, as_json: bool) -> None:
    """Show the queries of a fit, without reading a row."""
    from vardi.cli._summary import plan_lines

    plan = vardi.study.plan(study)
    if as_json:
        facts = {**asdict(plan), "passes": plan.passes, "bytes": plan.size}
        show_json({"study": study.path, "title": study.title, **facts})
    else:
        show(Text(study.title, "bold"), *plan_lines(plan))


def _json(opened: OpenStudy, verdict: Verdict, facts: Account | None) -> dict[str, object]:
    from vardi.cli._summary import study_json, verdict_json

    content = {**study_json(opened.study), **verdict_json(verdict), "bias_check": None, "known_check": None}
    if facts is not None:
        known = facts.known_check
        content["bias_check"] = facts.check.found and asdict(facts.check.found)
        if known is not None:
            content["known_check"] = {**asdict(known), "contradicted": known.contradicted, "verdict": known.verdict}
        content |= {"conclusion": asdict(facts.conclusion), "doubts": facts.trust.messages}
    return content


def _show(
    opened: OpenStudy, verdict: Verdict, fit: DebiasedSample | None, facts: Account | None, notes: Iterable[str]
) -> None:
    from vardi._estimate.bias_check import CAVEAT
    from vardi.cli._summary import biases_table, doubt_lines, known_table, links_table

    known, biases = (None, None) if facts is None else (facts.known_check, facts.check.found)
    show(Text(opened.study.title, "bold"))
    if facts is not None:
        show(Text.assemble(SIGNS[facts.conclusion.level], facts.conclusion.text))
    show(Text.assemble(_sign(wrong=not verdict.identified), verdict.message), "")
    if facts is not None and facts.trust.messages:
        show(*doubt_lines(facts.trust.messages)[1:], "")
    for note in notes:
        show(note, "")
    if verdict.links:
        show(links_table(verdict, fit), "")
    if known is not None:
        sign = _sign(wrong=known.contradicted, untold=isnan(known.pvalue))
        show(Text.assemble(sign, known.verdict), "", known_table(known), "")
    if biases is not None:
        sign = _sign(wrong=biases.outcome == "contradicted", untold=bool(biases.reason))
        show(Text.assemble(sign, " ".join(biases.summary().partition("\n\n")[0].split())))
        if not biases.reason:
            show("", biases_table(biases), "", CAVEAT)
    elif verdict.identified:
        untested = 'The biases were not tested: that needs rows in memory (engine = "memory").'
        show(untested if opened.is_lazy or facts is None else facts.check.text)


def _sign(*, wrong: bool, untold: bool = False) -> tuple[str, str]:
    return SIGNS["fact" if untold else "bad" if wrong else "good"]
