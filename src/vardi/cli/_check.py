"""``vardi check``: whether the samples of a study can be compared, and agree with their biases."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from math import isnan
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import vardi
from vardi.cli._command import NO, Json, Quiet, StudyFile, guarded, opening
from vardi.cli._console import show, show_json, show_next
from vardi.errors import ContradictedKnownWarning

if TYPE_CHECKING:
    from vardi._estimate.check_results import BiasCheck, KnownCheck
    from vardi._facts.account import Account
    from vardi._fit.sample import DebiasedSample
    from vardi._solve.identify import Verdict
    from vardi.study import OpenStudy, Study

Plan = Annotated[
    bool, typer.Option("--plan", help="Only list the queries of a fit and what they read. No row is read.")
]
YES, NOT, UNTOLD = ("✓ ", "bold green"), ("✗ ", "bold red"), ("– ", "bold")
SIGNS = {"good": YES, "bad": NOT, "doubt": ("! ", "bold yellow"), "fact": UNTOLD}


@dataclass(frozen=True)
class Checked:
    """A study with its verdict, and with its fit and the account of it if there can be one."""

    opened: OpenStudy
    verdict: Verdict
    fit: DebiasedSample | None
    facts: Account | None
    notes: tuple[str, ...]

    @property
    def biases(self) -> BiasCheck | None:
        """The test of the biases, if it was made."""
        return None if self.facts is None else self.facts.check.found

    @property
    def known(self) -> KnownCheck | None:
        """The test of the known values, if there are any."""
        return None if self.facts is None else self.facts.known_check

    @property
    def passed(self) -> bool:
        """Whether the samples can be compared, and contradict neither their biases nor the known values."""
        wrong_biases = self.biases is not None and self.biases.outcome == "contradicted"
        return self.verdict.identified and not wrong_biases and not (self.known and self.known.contradicted)


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
    checked = Checked(opened, verdict, fit, facts, (*opened.study.notes, *notes))
    if as_json:
        show_json({**_json(checked), "warnings": messages})
    elif not quiet or not checked.passed:
        _show(checked)
    if not checked.passed:
        raise typer.Exit(NO)
    if not as_json and not quiet:
        show("")
        show_next({"Next, the means of the population": f"vardi fit {shlex.quote(str(study))}"})


def _show_plan(study: Study, *, as_json: bool) -> None:
    """Show the queries of a fit, without reading a row."""
    from vardi.cli._summary import plan_lines

    plan = vardi.study.plan(study)
    if as_json:
        facts = {**asdict(plan), "passes": plan.passes, "bytes": plan.size}
        show_json({"study": str(study.path), "title": study.title, **facts})
    else:
        show(Text(study.title, "bold"), *plan_lines(plan))


def _json(checked: Checked) -> dict[str, object]:
    from vardi.cli._summary import verdict_json

    study, facts, biases, known = checked.opened.study, checked.facts, checked.biases, checked.known
    known_check = known and {**asdict(known), "contradicted": known.contradicted, "verdict": known.verdict}
    conclusion = facts and {"conclusion": asdict(facts.conclusion), "doubts": facts.trust.messages}
    return {
        "study": str(study.path),
        "title": study.title,
        "engine": study.engine,
        **verdict_json(checked.verdict),
        "bias_check": biases and asdict(biases),
        "known_check": known_check,
        **(conclusion or {}),
        "notes": checked.notes,
        "passed": checked.passed,
    }


def _show(checked: Checked) -> None:
    from vardi._estimate.check_results import CAVEAT
    from vardi.cli._summary import biases_table, doubt_lines, known_table, links_table

    verdict, facts, biases, known = checked.verdict, checked.facts, checked.biases, checked.known
    show(Text(checked.opened.study.title, "bold"))
    if facts is not None:
        show(Text.assemble(SIGNS[facts.conclusion.level], facts.conclusion.text))
    show(Text.assemble(YES if verdict.identified else NOT, verdict.message), "")
    if facts is not None and facts.trust.messages:
        show(*doubt_lines(facts.trust.messages)[1:], "")
    for note in checked.notes:
        show(note, "")
    if verdict.links:
        show(links_table(verdict, checked.fit), "")
    if known is not None:
        sign = UNTOLD if isnan(known.pvalue) else NOT if known.contradicted else YES
        show(Text.assemble(sign, known.verdict), "", known_table(known), "")
    if biases is not None:
        sign = UNTOLD if biases.reason else NOT if biases.outcome == "contradicted" else YES
        show(Text.assemble(sign, " ".join(biases.summary().partition("\n\n")[0].split())))
        if not biases.reason:
            show("", biases_table(biases), "", CAVEAT)
    elif verdict.identified:
        untested = 'The biases were not tested: that needs rows in memory (engine = "memory").'
        show(untested if checked.opened.is_lazy or facts is None else facts.check.text)
