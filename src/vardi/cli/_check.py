"""``vardi check``: whether the samples of a study can be compared, and agree with their biases."""

from __future__ import annotations

from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING, Any

import typer

from vardi.cli._console import WRONG_SHARES, progress, show, show_json, warnings_as_lines
from vardi.cli._guard import NO, guarded
from vardi.cli._options import Json, Quiet, StudyFile
from vardi.errors import ContradictedSharesWarning

if TYPE_CHECKING:
    from vardi._goodness import BiasCheck
    from vardi._identify import Verdict
    from vardi._sample import DebiasedSample
    from vardi._shares import SharesCheck
    from vardi.study import OpenStudy

CONTRADICTED = 0.01
"""P-value below which the samples contradict their declared biases."""
YES = ("✓ ", "bold green")


@guarded
def check(study: StudyFile, as_json: Json = False, quiet: Quiet = False) -> None:
    """Check a study before it is used: files, biases, overlap, and whether the samples agree with their biases.

    The exit code is 0 where all is well, 1 where the data say no, 2 where the study is wrong.
    """
    from vardi import study as studies

    with warnings_as_lines(told=(ContradictedSharesWarning,)) as said, progress(hidden=as_json or quiet) as stage:
        read = studies.read(study)
        stage("Reading the data" if read.engine == "memory" else f"Opening the data with {read.engine}")
        opened = read.open()
        stage("Looking for overlap")
        verdict = opened.verdict()
        biases, shares = None, None
        if verdict.identified and not (opened.is_lazy and not read.shares):
            stage("Comparing the samples with their biases")
            fit = opened.fit()
            shares = fit.shares
            biases = None if opened.is_lazy else _bias_check(opened, fit)
    wrong_biases = biases is not None and biases.pvalue < CONTRADICTED
    wrong_shares = shares is not None and shares.contradicted
    passed = verdict.identified and not wrong_biases and not wrong_shares
    if as_json:
        show_json({**_json(opened, verdict, biases, shares), "passed": passed, "warnings": said})
    elif not quiet or not passed:
        _show(opened, verdict, biases, shares)
    if not passed:
        raise typer.Exit(NO)


def _bias_check(opened: OpenStudy, fit: DebiasedSample) -> BiasCheck:
    """Return the test of the biases, in the variables that the study names where those are columns."""
    if not fit.numeric_columns and opened.study.variables:
        return fit.check_biases(list(opened.study.variables))
    return fit.check_biases()


def _json(opened: OpenStudy, verdict: Verdict, biases: BiasCheck | None, shares: SharesCheck | None) -> dict[str, Any]:
    from vardi.cli._summary import verdict_json

    study = opened.study
    facts = {"study": str(study.path), "title": study.title, "engine": study.engine}
    tests = {
        "bias_check": None if biases is None else asdict(biases),
        "shares_check": None
        if shares is None
        else {**asdict(shares), "contradicted": shares.contradicted, "verdict": shares.verdict},
    }
    return {**facts, **verdict_json(verdict), **tests}


def _show(opened: OpenStudy, verdict: Verdict, biases: BiasCheck | None, shares: SharesCheck | None) -> None:
    from rich.text import Text

    from vardi._goodness import CAVEAT
    from vardi.cli._summary import biases_table, links_table, shares_table

    found = YES if verdict.identified else ("✗ ", "bold red")
    show(Text(opened.study.title, "bold"), Text.assemble(found, verdict.message), "")
    if verdict.links:
        show(links_table(verdict), "")
    if shares is not None:
        sign = ("– ", "bold") if isnan(shares.pvalue) else ("✗ ", "bold red") if shares.contradicted else YES
        remedy = f" {WRONG_SHARES}" if shares.contradicted else ""
        show(Text.assemble(sign, shares.verdict, remedy), "", shares_table(shares), "")
    if biases is None:
        if verdict.identified:
            show('The biases were not tested: that needs rows in memory (engine = "memory").')
        return
    agreed = YES if not biases.pvalue < CONTRADICTED else ("✗ ", "bold red")
    said = " ".join(biases.summary().partition("\n\n")[0].split())
    show(Text.assemble(("– ", "bold") if biases.reason else agreed, said))
    if not biases.reason:
        show("", biases_table(biases), "", CAVEAT)
