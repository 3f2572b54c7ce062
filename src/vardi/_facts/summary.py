"""The account of a fit in one screen: as text, and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vardi._estimate.estimates import Estimate
from vardi._facts.account import Account, SampleFacts, account
from vardi._facts.columns import ColumnFacts
from vardi._facts.numbers import plain, with_error
from vardi._tables import Facts, Note, Part, Table
from vardi.errors._texts import to_digits

if TYPE_CHECKING:
    from vardi._fit.sample import DebiasedSample


DOUBT = "doubt:"


def summarize(fit: DebiasedSample, most: int = 8) -> Account:
    """Return the account of a fit with its first numeric columns."""
    numeric = () if fit.parts.given().unasked else (*fit.numeric_columns, *fit.solved.numeric_of_some)
    columns = [fit.parts.column(name, name) for name in numeric[:most]]
    return account(fit, columns, more=len(numeric) - len(columns))


def parts_of(found: Account, title: str = "", notes: Iterable[str] | None = None, remedy: str = "") -> list[Part]:
    """Return what is shown of an account, by default with its own notes; the remedy shows the other variables."""
    of_samples = ("sample", "rows", "bias", "log normaliser" if found.log_scale else "normaliser", "of weight")
    more = f"... and {found.more_variables} more{remedy}" if found.more_variables else ""
    return [
        Facts(dict(found.lines), f"{title}{found.speaks}"),
        Table(of_samples, found.samples, _sample_cells, "samples", texts=(0, 2), code=2),
        Facts({"effective rows": f"{found.effective:,.0f} of {found.rows:,.0f}"}),
        Table(("mean of", "in the pool", "in the population"), found.variables, _variable_cells, "means", beneath=more),
        Table(("bias of", "parameter", "estimate"), found.estimated, _parameter_cells, "parameters", texts=(0, 1)),
        *(found.notes if notes is None else notes),
        *(Note(DOUBT, doubt) for doubt in found.trust.messages),
    ]


def _sample_cells(sample: SampleFacts) -> tuple[str, str, str, str, str]:
    share = f"{sample.weight_share:.1%}" if sample.rows else "not sampled"
    normaliser = plain(with_error(sample.normaliser, sample.stderr))
    return str(sample.name), f"{sample.rows:,.0f}", sample.bias, normaliser, share


def _variable_cells(variable: ColumnFacts) -> tuple[str, str, str]:
    pooled = to_digits(variable.pooled, 5)
    return variable.label, pooled, plain(with_error(variable.debiased, variable.stderr))


def _parameter_cells(parameter: tuple[str, str, Estimate]) -> tuple[str, str, str]:
    sample, name, estimate = parameter
    return sample, name, str(estimate)
