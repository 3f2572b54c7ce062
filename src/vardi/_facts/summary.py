"""The account of a fit in one screen: as text, and as HTML for notebooks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from vardi._facts.account import Account, SampleFacts, account
from vardi._facts.columns import ColumnFacts
from vardi._facts.numbers import plain, with_error
from vardi._notebook import MOST_ROWS, fragment, paragraph
from vardi._notebook import table as html_table
from vardi.errors._texts import SHOWN, WIDTH, aligned, cut, more, to_digits, width_of

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample


def summarize(fit: DebiasedSample, most: int = 8) -> Account:
    """Return the account of a fit with its first numeric columns."""
    numeric = () if fit.parts.given().unasked else (*fit.numeric_columns, *fit.solved.numeric_of_some)
    columns = [fit.parts.column(name, name) for name in numeric[:most]]
    return account(fit, columns, more=len(numeric) - len(columns))


def sample_cells(sample: SampleFacts) -> tuple[str, str, str, str, str]:
    """Return name, rows, bias, normaliser and share of the weight of a sample."""
    share = f"{sample.weight_share:.1%}" if sample.rows else "not sampled"
    normaliser = plain(with_error(sample.normaliser, sample.stderr))
    return str(sample.name), f"{sample.rows:,.0f}", sample.bias, normaliser, share


def variable_cells(variable: ColumnFacts) -> tuple[str, str, str]:
    """Return name, mean over the pool, and mean over the population with its error."""
    pooled = to_digits(variable.pooled, 5)
    return variable.label, pooled, plain(with_error(variable.debiased, variable.stderr))


def to_text(summary: Account) -> str:
    """Return the account in at most 80 columns."""
    names = width_of("sample", (sample.name for sample in summary.samples), 20)
    heading = ("sample", "rows", "bias", "log normaliser" if summary.log_scale else "normaliser", "of weight")
    samples = [
        (cut(name, names), rows, cut(bias, 33 - names), *numbers)
        for name, rows, bias, *numbers in map(sample_cells, summary.samples[:SHOWN])
    ]
    means = [(cut(name, 30), *numbers) for name, *numbers in map(variable_cells, summary.variables)]
    parameters = [(cut(f"{name}: {one}", 30), str(estimate)) for name, one, estimate in summary.estimated]
    lines = [summary.speaks]
    for name, fact in summary.lines:
        lines += textwrap.wrap(fact, WIDTH, initial_indent=f"{name:<12}", subsequent_indent=" " * 12)
    lines += ["", aligned(heading, samples, left={0, 2}), *more(summary.samples)]
    lines += ["", f"effective rows  {summary.effective_rows}"]
    if means:
        lines += ["", aligned(("mean of", "in the pool", "in the population"), means), *_more_variables(summary)]
    if parameters:
        lines += ["", aligned(("parameter", "estimate"), parameters)]
    for note in (*summary.notes, *summary.trust.messages):
        lines += ["", *textwrap.wrap(note, WIDTH, break_long_words=False)]
    return "\n".join(lines)


def to_html(summary: Account) -> str:
    """Return the account as a fragment of HTML, for notebooks."""
    begins = {"solved": "Solved: ", "known": "Known: ", "rows": "Rows are "}
    facts = [f"{begins.get(name, '')}{fact}" for name, fact in summary.lines]
    heading = ("sample", "rows", "bias", "log normaliser" if summary.log_scale else "normaliser", "share of weight")
    samples, total = list(map(sample_cells, summary.samples[:MOST_ROWS])), len(summary.samples)
    return fragment(
        paragraph(f"{summary.counted_rows}, effective {summary.effective_rows}.", *facts, bold="DebiasedSample:"),
        html_table(heading, samples, of="samples", total=total, code={2}),
        html_table(("mean of", "in the pool", "in the population"), list(map(variable_cells, summary.variables))),
        *map(paragraph, _more_variables(summary)),
        html_table(("parameter", "estimate"), [(f"{name}: {one}", str(own)) for name, one, own in summary.estimated]),
        *map(paragraph, summary.notes),
        *(paragraph(doubt, bold="Note:") for doubt in summary.trust.messages),
    )


def _more_variables(summary: Account) -> list[str]:
    return [f"... and {summary.more_variables} more"] if summary.more_variables else []
