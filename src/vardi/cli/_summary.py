"""A fit, the check of a study and its plan: as tables for people, and as JSON for machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from math import isnan
from pathlib import Path

from rich.filesize import decimal
from rich.text import Text

from vardi._facts.account import Account, account
from vardi._facts.biases import LEVELS, UNASKED
from vardi._facts.links import links_of, sampled_gram
from vardi._facts.summary import DOUBT, parts_of, summarize
from vardi._fit.sample import DebiasedSample
from vardi._rows.lazy_model import ROWS
from vardi._solve.identify import Link, Verdict
from vardi._tables import Note, Table
from vardi.cli._console import DETAILS_OF_KNOWN, Message, show, show_files, show_json, show_parts
from vardi.errors._texts import SHOWN, Outcome
from vardi.study import OpenStudy, Query, Study
from vardi.study import plan as study_plan
from vardi.study._outputs import is_counted

SIGNS = {"good": "✓", "bad": "✗", "doubt": "!", "fact": "–"}


def study_account(opened: OpenStudy, fit: DebiasedSample) -> Account:
    """Return the account of a fit, with the variables that the study names."""
    names = opened.study.variables
    if not names:
        return summarize(fit)
    return account(fit, [fit.parts.column(name, name) for name in names], named={name: name for name in names})


def show_fit(
    opened: OpenStudy, found: Account, messages: list[Message], targets: dict[str, Path], *, as_json: bool
) -> None:
    """Print a fit, as tables or as JSON."""
    if as_json:
        show_json({**account_json(opened, found), "files": targets, "warnings": messages})
        return
    wrong = found.known_check is not None and found.known_check.contradicted
    said = f"The weights meet known values that the samples contradict. {DETAILS_OF_KNOWN}"
    remedy = ": name the columns to report in the study, variables = [...]"
    parts = parts_of(found, f"{opened.study.title}: ", found.bias_notes if found.unasked else found.notes, remedy)
    show_parts([*parts, *([Note(DOUBT, said)] if wrong else []), *opened.study.notes])
    show_files(targets)
    if opened.is_lazy and not opened.study.variables:
        show(
            "No variables are named, so no means are computed in the engine. Name them in the study: variables = [...]"
        )
    if "weights" in targets and is_counted(opened):
        show("Weights are per unit. Rows stand for several units, so multiply each weight by the column count.")


def show_check(
    opened: OpenStudy, verdict: Verdict, fit: DebiasedSample | None, facts: Account | None, notes: Iterable[str]
) -> None:
    """Print whether samples can be compared, and agree with their biases and with what is known."""
    known, tested = (None, UNASKED) if facts is None else (facts.known_check, facts.check)
    show(Text(opened.study.title, "bold"))
    conclusion = [] if facts is None else [Note(SIGNS[facts.conclusion.level], facts.conclusion.text)]
    show_parts([*conclusion, Note(SIGNS["good" if verdict.identified else "bad"], verdict.message)])
    doubts = () if facts is None else facts.trust.messages
    show_parts([*(Note(DOUBT, doubt) for doubt in doubts), *notes, links_table(verdict, fit)])
    if known is not None:
        said, table = known._parts()
        show_parts([Note(_sign(known.outcome, untold=isnan(known.pvalue)), said), table], len(known.lines))
    if tested.found is not None:
        said, table, caveat = tested.found._parts()
        sign = _sign(tested.found.outcome, untold=bool(tested.found.reason))
        show_parts([Note(sign, said), table, caveat])
    elif verdict.identified:
        untested = 'The biases were not tested: that needs rows in memory (engine = "memory").'
        show_parts([untested if opened.is_lazy or facts is None else tested.text])


def _sign(outcome: Outcome, *, untold: bool) -> str:
    return SIGNS["fact" if untold else LEVELS[outcome]]


def check_json(opened: OpenStudy, verdict: Verdict, facts: Account | None) -> dict[str, object]:
    """Return a check as JSON can hold it."""
    content = {
        **study_json(opened.study),
        **_own(verdict, "identified", "message", "groups", "weakest_rows", "kappa"),
        "links": list(map(asdict, verdict.links)),
        "weakest": None if verdict.weakest is None else asdict(verdict.weakest),
        "bias_check": None,
        "known_check": None,
    }
    if facts is not None:
        known = facts.known_check
        content["bias_check"] = facts.check.found and asdict(facts.check.found)
        if known is not None:
            content["known_check"] = {**asdict(known), "contradicted": known.contradicted, "verdict": known.verdict}
        content |= {"conclusion": asdict(facts.conclusion), "doubts": facts.trust.messages}
    return content


def links_table(verdict: Verdict, fit: DebiasedSample | None) -> Table:
    """Return how many rows of each sample every other could have drawn, the weakest links first where they are many."""
    gram = None if fit is None else sampled_gram(fit)[1]
    weakest, pairs = links_of(verdict, gram, SHOWN, "weakest")
    links = weakest if pairs > SHOWN else verdict.links
    beneath = f"The weakest {SHOWN} of {pairs:,} links; --json lists all" if pairs > SHOWN else ""
    return Table(
        ("sample a", "sample b", "rows of a in b", "rows of b in a"),
        links,
        _link_cells,
        "links",
        (0, 1),
        beneath=beneath,
    )


def _link_cells(link: Link) -> tuple[str, str, str, str]:
    return str(link.first), str(link.second), f"{link.first_in_second:,.0f}", f"{link.second_in_first:,.0f}"


def show_plan(study: Study, *, as_json: bool) -> None:
    """Show the queries of a fit, without reading a row: as a sentence and a table, or as JSON."""
    plan = study_plan(study)
    if as_json:
        facts = {**asdict(plan), "passes": plan.passes, "bytes": plan.size}
        show_json({"study": study.path, "title": study.title, **facts})
        return
    rows = "" if plan.rows is None else f"{plan.rows:,} rows, "
    where = "in memory" if plan.engine == "memory" else f"left in place and queried by {plan.engine}"
    read = "" if plan.size is None else f", {decimal(plan.size)} read at most"
    text = f"{rows}{where}: {_ends(plan.passes)} {'pass' if plan.passes[1] == 1 else 'passes'} over the rows{read}."
    if plan.frames > 1:
        text += f" A pass is one query for each of {plan.frames} frames."
    if plan.engine != "memory":
        drawn = any(query.what.startswith("draw") for query in plan.queries)
        text += f" Only sums come back{f', and up to {ROWS:,} rows to start from' if drawn else ''}."
    table = Table(("query", "passes", "columns", "read in a pass"), plan.queries, _query_cells, "queries", (0, 2))
    show(Text(study.title, "bold"))
    show_parts([text, table], len(plan.queries))


def _query_cells(query: Query) -> tuple[str, str, str, str]:
    size = "–" if query.size is None else decimal(query.size)
    return query.what, _ends(query.passes), ", ".join(query.columns) or "–", size


def _ends(passes: tuple[int, int]) -> str:
    least, most = passes
    return str(least) if least == most else f"{least} to {most}"


def account_json(opened: OpenStudy, found: Account) -> dict[str, object]:
    """Return the account as JSON can hold it."""
    parameters = {
        str(name): {one: _own(estimate, "value", "stderr") for one, estimate in own.items()}
        for name, own in found.parameters.items()
    }
    return {
        **study_json(opened.study),
        "rows": found.length,
        "samples": [
            {"name": str(sample.name), **_own(sample, "rows", "bias", "normaliser", "stderr")}
            | {"share_of_weight": sample.weight_share}
            for sample in found.samples
        ],
        "verdict": found.verdict.message,
        "conclusion": asdict(found.conclusion),
        **_own(found.solution, "iterations", "residual", "certificate"),
        "counted": found.rows,
        "variables": [_own(variable, "name", "pooled", "debiased", "stderr", "among") for variable in found.variables],
        **_own(found, "distinct", "effective", "more_variables", "gaps", "mixed", "uncovered", "log_scale", "unasked"),
        "doubts": found.trust.messages,
        "notes": (*opened.study.notes, *found.bias_notes),
        "known": None if found.known_check is None else asdict(found.known_check),
        **({"parameters": parameters} if parameters else {}),
    }


def study_json(study: Study) -> dict[str, object]:
    """Return which study it is, and what computes on its rows."""
    return {"study": study.path, "title": study.title, "engine": study.engine}


def _own(value: object, *names: str) -> dict[str, object]:
    return {name: getattr(value, name) for name in names}
