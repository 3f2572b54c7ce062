"""The summary of a fit as tables for people and as JSON for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import isnan
from typing import Any, TypeAlias

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from vardi._estimates import Estimate
from vardi._goodness import BiasCheck
from vardi._identify import Verdict
from vardi._pool import Name
from vardi._sample import DebiasedSample
from vardi._shares import SharesCheck
from vardi._summary import MOST_SAMPLES, Summary, _shares, _solved, _with_error, gaps_text, summarize
from vardi.cli._console import DETAILS_OF_SHARES, WRONG_SHARES
from vardi.study import OpenStudy
from vardi.study._means import variable_lines

Parameters: TypeAlias = Mapping[Name, Mapping[str, Estimate]]


def study_summary(opened: OpenStudy, fit: DebiasedSample) -> Summary:
    """Return the summary of a fit, with the variables that the study names."""
    summary = summarize(fit)
    lines = variable_lines(opened, fit)
    return replace(summary, variables=lines, more_variables=0) if lines else summary


def summary_tables(title: str, summary: Summary, parameters: Parameters) -> list[RenderableType]:
    """Return the summary as what rich prints."""
    rows = f"{summary.rows:,} {'row' if summary.rows == 1 else 'rows'}"
    counted = "" if summary.counted == summary.rows else f" ({summary.counted:,.0f} counted)"
    sampled = sum(line.rows > 0 for line in summary.samples)
    speak = f"{rows}{counted} of {sampled} {'sample' if sampled == 1 else 'samples'} speak for the population"
    facts = Table.grid(Column(overflow="fold"), Column(overflow="fold"), padding=(0, 2))
    facts.add_row(Text("identified"), Text(summary.verdict))
    facts.add_row(Text("solved"), Text(_solved(summary)))
    if summary.shares is not None:
        facts.add_row(Text("shares"), Text(_shares(summary.shares)))
    facts.add_row(Text("effective rows"), Text(f"{summary.effective:,.0f} of {summary.counted:,.0f}"))
    parts: list[RenderableType] = [Text.assemble((title, "bold"), ": ", speak), facts, Text(), _samples(summary)]
    if parameters:
        parts += [Text(), _parameters(parameters)]
    if summary.variables:
        parts += [Text(), _variables(summary)]
    wrong = summary.shares is not None and summary.shares.contradicted
    said = f"{WRONG_SHARES} The weights meet the shares all the same. {DETAILS_OF_SHARES}"
    if summary.gaps:
        parts += [Text(), Text(gaps_text(summary.gaps))]
    for doubt in (*summary.doubts, *([said] if wrong else [])):
        parts += [Text(), Text.assemble(("doubt: ", "bold yellow"), doubt)]
    return parts


def links_table(verdict: Verdict) -> Table:
    """Return how many rows of each sample every other could have drawn."""
    table = _table()
    table.add_column("sample a", overflow="fold")
    table.add_column("sample b", overflow="fold")
    table.add_column("rows of a in b", justify="right", no_wrap=True)
    table.add_column("rows of b in a", justify="right", no_wrap=True)
    for link in verdict.links[:MOST_SAMPLES]:
        ways = (f"{link.first_in_second:,.0f}", f"{link.second_in_first:,.0f}")
        table.add_row(Text(str(link.first)), Text(str(link.second)), *ways)
    if len(verdict.links) > MOST_SAMPLES:
        table.add_row(f"... and {len(verdict.links) - MOST_SAMPLES} more")
    return table


def biases_table(check: BiasCheck) -> Table:
    """Return how well each sample fits its bias, the worst first."""
    table = _table()
    table.add_column("sample", overflow="fold")
    table.add_column("p-value", justify="right", no_wrap=True)
    table.add_column("rows that no other could draw", justify="right", no_wrap=True)
    ordered = sorted(check.by_sample, key=lambda name: (isnan(check.by_sample[name]), check.by_sample[name]))
    for name in ordered[:MOST_SAMPLES]:
        table.add_row(Text(str(name)), f"{check.by_sample[name]:.2g}", f"{check.untested[name]:.0%}")
    if len(ordered) > MOST_SAMPLES:
        table.add_row(f"... and {len(ordered) - MOST_SAMPLES} more")
    return table


def shares_table(shares: SharesCheck) -> Table:
    """Return each known share beside what the samples say of it."""
    table = _table()
    table.add_column("share of", overflow="fold")
    table.add_column("known", justify="right", no_wrap=True)
    table.add_column("by the samples", justify="right", no_wrap=True)
    for line in shares.lines:
        told = _with_error(line.estimated, line.stderr) if line.stderr > 0 else "not told"
        table.add_row(Text(line.cell), f"{line.known:.4g}", told)
    return table


def summary_json(opened: OpenStudy, summary: Summary, parameters: Parameters) -> dict[str, Any]:
    """Return the summary in the terms of JSON."""
    study = opened.study
    facts = {"study": str(study.path), "title": study.title, "engine": study.engine, **asdict(summary)}
    estimated = {
        str(name): {one: {"value": found.value, "stderr": found.stderr} for one, found in own.items()}
        for name, own in parameters.items()
    }
    return {**facts, "parameters": estimated} if estimated else facts


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict in the terms of JSON."""
    return {
        "identified": verdict.identified,
        "message": verdict.message,
        "groups": verdict.groups,
        "links": [asdict(link) for link in verdict.links],
        "weakest": None if verdict.weakest is None else asdict(verdict.weakest),
        "weakest_rows": verdict.weakest_rows,
        "kappa": verdict.kappa,
    }


def _samples(summary: Summary) -> Table:
    table = _table()
    table.add_column("sample", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("bias", overflow="fold")
    table.add_column("log normaliser" if summary.log_scale else "normaliser", justify="right", no_wrap=True)
    table.add_column("of weight", justify="right", no_wrap=True)
    for line in summary.samples[:MOST_SAMPLES]:
        share = f"{line.share_of_weight:.1%}" if line.rows else "not sampled"
        normaliser = _with_error(line.normaliser, line.stderr)
        table.add_row(Text(line.name), f"{line.rows:,.0f}", Text(line.bias), normaliser, share)
    if len(summary.samples) > MOST_SAMPLES:
        table.add_row(f"... and {len(summary.samples) - MOST_SAMPLES} more")
    return table


def _parameters(parameters: Parameters) -> Table:
    table = _table()
    table.add_column("bias of", overflow="fold")
    table.add_column("parameter", overflow="fold")
    table.add_column("estimate", justify="right", no_wrap=True)
    for name, own in parameters.items():
        for parameter, found in own.items():
            table.add_row(Text(str(name)), Text(parameter), _with_error(found.value, found.stderr))
    return table


def _variables(summary: Summary) -> Table:
    table = _table()
    table.add_column("mean of", overflow="fold")
    table.add_column("in the pool", justify="right", no_wrap=True)
    table.add_column("in the population", justify="right", no_wrap=True)
    for line in summary.variables:
        table.add_row(Text(line.name), f"{line.pooled:.5g}", _with_error(line.debiased, line.stderr))
    if summary.more_variables:
        table.add_row(f"... and {summary.more_variables} more")
    return table


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
