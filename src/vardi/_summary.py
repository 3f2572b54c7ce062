"""What a person wants to know of a fit first: compute, then render."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from vardi._estimates import Estimate, with_digits_of
from vardi._pool import Name, cut
from vardi._shares import SharesCheck
from vardi.biases import everywhere
from vardi.errors import WeakOverlapWarning

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

MOST_VARIABLES = 8
MOST_SAMPLES = 20
MOST_ERRORS = 200  # samples up to which their errors are computed
LOGS = 30.0  # a log normaliser from which the number itself says nothing to a person
WIDTH = 80


@dataclass(frozen=True)
class SampleLine:
    """One bias, and what its sample brings."""

    name: str
    rows: float
    bias: str
    normaliser: float
    stderr: float
    share_of_weight: float


@dataclass(frozen=True)
class VariableLine:
    """The mean of a numeric column in the pool, and in the population as the weights see it."""

    name: str
    pooled: float
    debiased: float
    stderr: float


@dataclass(frozen=True)
class Summary:
    """All numbers of the summary."""

    rows: int
    samples: tuple[SampleLine, ...]
    verdict: str
    iterations: int
    residual: float
    certificate: float
    distinct: int | None
    effective: float
    counted: float
    variables: tuple[VariableLine, ...]
    more_variables: int
    gaps: dict[str, int]
    doubts: tuple[str, ...]
    log_scale: bool
    shares: SharesCheck | None = None
    unasked: tuple[str, ...] = ()


def summarize(fit: DebiasedSample) -> Summary:
    """Compute the summary of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)  # said in the summary itself
        log_scale = fit._rows.log or any(LOGS < abs(value) < math.inf for value in fit.log_omegas.values())
        normalisers = _normalisers(fit, log_scale)
    pool, rows = fit._pool, fit._rows
    biases = ["everywhere" if bias == everywhere() else str(bias) for bias in pool.biases] or [""] * len(fit.names)
    samples = tuple(
        SampleLine(str(name), float(size), bias, normalisers[name].value, normalisers[name].stderr, float(share))
        for name, size, bias, share in zip(fit.names, rows.sizes, biases, fit.weight_shares().values(), strict=True)
    )
    return Summary(
        rows=len(fit),
        samples=samples,
        verdict=fit.identify().message,
        iterations=fit.solution.iterations,
        residual=fit.solution.residual,
        certificate=fit.solution.certificate,
        distinct=None if rows.inverse is None else len(rows),
        effective=fit.effective_rows(),
        counted=float(rows.sizes.sum()),
        variables=tuple(_variables(fit, fit.numeric_columns[:MOST_VARIABLES])),
        more_variables=max(len(fit.numeric_columns) - MOST_VARIABLES, 0),
        gaps=fit._gaps,
        doubts=fit.trust.messages,
        log_scale=log_scale,
        shares=fit.shares,
        unasked=getattr(fit, "_numeric_schema", ()),  # of a lazy fit, in whose engine each mean takes passes
    )


def _normalisers(fit: DebiasedSample, log_scale: bool) -> dict[Name, Estimate]:
    """Return the normalisers with their errors; without, where there are more than a screen can hold."""
    if len(fit.names) <= MOST_ERRORS:
        return fit.log_normalisers() if log_scale else fit.normalisers()
    values = fit.log_omegas if log_scale else fit.omegas
    return {name: Estimate(value, math.nan) for name, value in values.items()}


def _variables(fit: DebiasedSample, names: Sequence[str]) -> list[VariableLine]:
    if not names:
        return []
    values = np.column_stack([fit._values(name) for name in names])
    estimates = fit._influence.estimates(values, 0.95, trusted=fit.trust.errors_hold)
    pooled = np.average(values, axis=0, weights=fit._influence.strata.counts)
    return [
        VariableLine(name, float(before), float(after), float(error))
        for name, before, after, error in zip(names, pooled, estimates.values, estimates.stderr, strict=True)
    ]


def to_text(summary: Summary) -> str:
    """Return the summary in at most 80 columns."""
    sampled = sum(line.rows > 0 for line in summary.samples)
    name_width = min(max(len("sample"), *(len(line.name) for line in summary.samples)), 20)
    bias_width = min(max(len("bias"), *(len(line.bias) for line in summary.samples)), WIDTH - name_width - 47)
    normaliser = "log normaliser" if summary.log_scale else "normaliser"
    lines = [
        f"{_rows(summary)} of {sampled} {'sample' if sampled == 1 else 'samples'} speak for the population",
        *_wrapped("identified", summary.verdict),
        *_wrapped("solved", _solved(summary)),
        *([] if summary.shares is None else _wrapped("shares", _shares(summary.shares))),
        "",
        f"{'sample':<{name_width}} {'rows':>11}  {'bias':<{bias_width}}  {normaliser:>18}  {'of weight':>11}",
    ]
    for line in summary.samples[:MOST_SAMPLES]:
        share = f"{line.share_of_weight:.1%}" if line.rows else "not sampled"
        name, bias = cut(line.name, name_width), cut(line.bias, bias_width)
        normaliser = _with_error(line.normaliser, line.stderr)
        lines.append(f"{name:<{name_width}} {line.rows:>11,.0f}  {bias:<{bias_width}}  {normaliser:>18}  {share:>11}")
    if len(summary.samples) > MOST_SAMPLES:
        lines.append(f"... and {len(summary.samples) - MOST_SAMPLES} more")
    lines += ["", f"effective rows  {summary.effective:,.0f} of {summary.counted:,.0f}"]
    if summary.variables:
        width = min(max(len("mean of"), *(len(line.name) for line in summary.variables)), 30)
        lines += ["", f"{'mean of':<{width}}  {'in the pool':>12}  {'in the population':>20}"]
        lines += [
            f"{cut(line.name, width):<{width}}  {line.pooled:>12.5g}  {_with_error(line.debiased, line.stderr):>20}"
            for line in summary.variables
        ]
        if summary.more_variables:
            lines.append(f"... and {summary.more_variables} more")
    if summary.unasked and not summary.variables:
        lines += ["", *textwrap.wrap(unasked_text(summary.unasked), WIDTH, break_long_words=False)]
    if summary.gaps:
        lines += ["", *textwrap.wrap(gaps_text(summary.gaps), WIDTH)]
    for doubt in summary.doubts:
        lines += ["", *textwrap.wrap(doubt, WIDTH)]
    return "\n".join(lines)


def to_html(summary: Summary) -> str:
    """Return the summary as a fragment of HTML, for notebooks."""
    samples = "".join(
        f"<tr><th>{escape(line.name)}</th><td>{line.rows:,.0f}</td><td><code>{escape(line.bias)}</code></td>"
        f"<td>{_with_error(line.normaliser, line.stderr)}</td>"
        f"<td>{f'{line.share_of_weight:.1%}' if line.rows else 'not sampled'}</td></tr>"
        for line in summary.samples[:MOST_SAMPLES]
    )
    variables = "".join(
        f"<tr><th>{escape(line.name)}</th><td>{line.pooled:.5g}</td>"
        f"<td>{_with_error(line.debiased, line.stderr)}</td></tr>"
        for line in summary.variables
    )
    return (
        "<div><p><b>DebiasedSample</b>: "
        f"{_rows(summary)}, effective {summary.effective:,.0f} of {summary.counted:,.0f}.<br>"
        f"{escape(summary.verdict)}<br>Solved: {escape(_solved(summary))}"
        + ("" if summary.shares is None else f"<br>Shares: {escape(_shares(summary.shares))}")
        + "</p>"
        "<table><thead><tr><th>sample</th><th>rows</th><th>bias</th>"
        f"<th>{'log ' * summary.log_scale}normaliser</th><th>share of weight</th></tr>"
        f"</thead><tbody>{samples}</tbody></table>"
        + (
            "<table><thead><tr><th>mean of</th><th>in the pool</th><th>in the population</th></tr></thead>"
            f"<tbody>{variables}</tbody></table>"
            if variables
            else ""
        )
        + (f"<p>... and {summary.more_variables} more</p>" if summary.more_variables else "")
        + (f"<p>{escape(unasked_text(summary.unasked))}</p>" if summary.unasked and not variables else "")
        + (f"<p>{escape(gaps_text(summary.gaps))}</p>" if summary.gaps else "")
        + "".join(f"<p><b>Note</b>: {escape(doubt)}</p>" for doubt in summary.doubts)
        + "</div>"
    )


def unasked_text(names: Sequence[str]) -> str:
    """Return why a lazy fit shows no means, and how to get them."""
    return (
        "No means are shown: the rows are in their engine, which would have to read them all again. Ask for those you "
        f"need, as by fit.expectation({names[0]!r})."
    )


def gaps_text(gaps: dict[str, int]) -> str:
    """Return which columns have no mean here, and why."""
    named = ", ".join(f"{name} ({count:,})" for name, count in list(gaps.items())[:MOST_VARIABLES])
    more = len(gaps) - MOST_VARIABLES
    return f"Left out, for missing or infinite values: {named}{f' and {more} more' if more > 0 else ''}."


def _solved(summary: Summary) -> str:
    steps = {0: "by pairs of samples", 1: "1 iteration"}.get(summary.iterations, f"{summary.iterations} iterations")
    collapsed = "" if summary.distinct is None else f" over {summary.distinct:,} distinct rows"
    return (
        f"{steps}{collapsed}: the equations hold to {summary.residual:.0e}, every ratio of weights to "
        f"{summary.certificate:.0e}"
    )


def _shares(shares: SharesCheck) -> str:
    cells = "1 known share is" if len(shares.lines) == 1 else f"{len(shares.lines)} known shares are"
    return f"{cells} met to {shares.residual:.0e}. {shares.verdict}"


def _rows(summary: Summary) -> str:
    counted = "" if summary.counted == summary.rows else f" ({summary.counted:,.0f} counted)"
    return f"{summary.rows:,} {'row' if summary.rows == 1 else 'rows'}{counted}"


def _with_error(value: float, stderr: float) -> str:
    """Return a number with two digits of its error; alone where it has none, as what is known has."""
    if not stderr > 1e-9 * abs(value):
        return f"{value:.4g}"
    return " ± ".join(with_digits_of(stderr, value, stderr))


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{label:<12}", subsequent_indent=" " * 12)
