"""A fit, the check of a study and its plan: as tables for people, and as JSON for machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path

from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Column, Table
from rich.text import Text

from vardi._estimate.check_results import CAVEAT, estimated_text, known_text
from vardi._facts.account import Account, account
from vardi._facts.biases import UNASKED
from vardi._facts.links import links_of, sampled_gram
from vardi._facts.numbers import plain, with_error
from vardi._facts.summary import sample_cells, summarize, variable_cells
from vardi._fit.sample import DebiasedSample
from vardi._rows.lazy_model import ROWS
from vardi._solve.identify import Verdict
from vardi.cli._console import DETAILS_OF_KNOWN, Message, show, show_files, show_json
from vardi.errors._texts import SHOWN, more
from vardi.study import OpenStudy, Study
from vardi.study import plan as study_plan
from vardi.study._outputs import is_counted

SIGNS = {
    "good": ("✓ ", "bold green"),
    "bad": ("✗ ", "bold red"),
    "doubt": ("! ", "bold yellow"),
    "fact": ("– ", "bold"),
}


def study_account(opened: OpenStudy, fit: DebiasedSample) -> Account:
    """Return the account of a fit, with the variables that the study names."""
    names = opened.study.variables
    if not names:
        return summarize(fit)
    return account(fit, [fit.parts.column(name, name) for name in names], named={name: name for name in names})


def account_tables(title: str, found: Account) -> list[RenderableType]:
    """Return the account as tables for rich to print."""
    facts = Table.grid(Column(overflow="fold"), Column(overflow="fold"), padding=(0, 2))
    for name, fact in (*found.lines, ("effective rows", found.effective_rows)):
        facts.add_row(Text(name), Text(fact))
    normaliser = "log normaliser" if found.log_scale else "normaliser"
    parameters = [(name, one, plain(with_error(own.value, own.stderr))) for name, one, own in found.estimated]
    tables = [
        _table("sample", "rows>", "bias", f"{normaliser}>", "of weight>", rows=map(sample_cells, found.samples)),
        _table("bias of", "parameter", "estimate>", rows=parameters, most=len(parameters)),
        _table("mean of", "in the pool>", "in the population>", rows=map(variable_cells, found.variables)),
    ]
    parts: list[RenderableType] = [Text.assemble((title, "bold"), ": ", found.speaks), facts]
    for table in tables:
        parts += [Text(), table] if table.row_count else []
    if found.more_variables:
        remedy = "name the columns to report in the study, variables = [...]"
        tables[-1].caption = f"... and {found.more_variables} more: {remedy}"
    wrong = found.known_check is not None and found.known_check.contradicted
    said = f"The weights meet known values that the samples contradict. {DETAILS_OF_KNOWN}"
    for note in found.bias_notes if found.unasked else found.notes:
        parts += [Text(), Text(note)]
    return [*parts, *doubt_lines((*found.trust.messages, *([said] if wrong else [])))]


def doubt_lines(doubts: Iterable[str]) -> list[RenderableType]:
    """Return doubts as lines for rich to print."""
    return [part for doubt in doubts for part in (Text(), Text.assemble(("doubt: ", "bold yellow"), doubt))]


def show_fit(
    opened: OpenStudy, found: Account, messages: list[Message], targets: dict[str, Path], *, as_json: bool
) -> None:
    """Print a fit, as tables or as JSON."""
    if as_json:
        show_json({**account_json(opened, found), "files": targets, "warnings": messages})
        return
    show(*account_tables(opened.study.title, found), "")
    for note in opened.study.notes:
        show(note, "")
    show_files(targets)
    if opened.is_lazy and not opened.study.variables:
        show(
            "No variables are named, so no means are computed in the engine. Name them in the study: variables = [...]"
        )
    if "weights" in targets and "fit" not in targets:
        show("The fit was not saved for new rows: its weight is no formula of columns.")
    if "weights" in targets and is_counted(opened):
        show("Weights are per unit. Rows stand for several units, so multiply each weight by the column count.")


def show_check(
    opened: OpenStudy, verdict: Verdict, fit: DebiasedSample | None, facts: Account | None, notes: Iterable[str]
) -> None:
    """Print whether samples can be compared, and agree with their biases and with what is known."""
    known, tested = (None, UNASKED) if facts is None else (facts.known_check, facts.check)
    biases = tested.found
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
        lines = [(line.label, known_text(line), estimated_text(line)) for line in known.lines]
        table = _table("mean of", "known>", "by the samples>", rows=lines, most=len(lines))
        show(Text.assemble(sign, known.verdict), "", table, "")
    if biases is not None:
        sign = _sign(wrong=biases.outcome == "contradicted", untold=bool(biases.reason))
        show(Text.assemble(sign, " ".join(biases.summary().partition("\n\n")[0].split())))
        if not biases.reason:
            rows = [(row.name, f"{row.pvalue:.2g}", f"{row.untested:.0%}") for row in tested.rows]
            table = _table("sample", "p-value>", "rows that no other could draw>", rows=rows)
            show("", table, "", CAVEAT)
    elif verdict.identified:
        untested = 'The biases were not tested: that needs rows in memory (engine = "memory").'
        show(untested if opened.is_lazy or facts is None else tested.text)


def _sign(*, wrong: bool, untold: bool = False) -> tuple[str, str]:
    return SIGNS["fact" if untold else "bad" if wrong else "good"]


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
    rows = [
        (str(link.first), str(link.second), f"{link.first_in_second:,.0f}", f"{link.second_in_first:,.0f}")
        for link in (weakest if pairs > SHOWN else verdict.links)
    ]
    table = _table("sample a", "sample b", "rows of a in b>", "rows of b in a>", rows=rows)
    if pairs > SHOWN:
        table.caption = f"The weakest {SHOWN} of {pairs:,} links; --json lists all"
    return table


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
    queries = [
        (one.what, _ends(one.passes), ", ".join(one.columns) or "–", "–" if one.size is None else decimal(one.size))
        for one in plan.queries
    ]
    table = _table("query", "passes>", "columns", "read in a pass>", rows=queries, most=len(queries))
    show(Text(study.title, "bold"), Text(text), Text(), table)


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


def _table(*columns: str, rows: Iterable[Sequence[str]], most: int = SHOWN) -> Table:
    """Return a table of the first rows; columns whose heading ends in > hold numbers, which are not wrapped."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.caption_justify, table.caption_style = "left", ""
    for column in columns:
        if column.endswith(">"):
            table.add_column(column[:-1], justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold")
    every = list(rows)
    for row in every[:most]:
        table.add_row(*map(Text, row))
    for line in more(every, most):
        table.caption = f"{line}; --json lists all"
    return table
