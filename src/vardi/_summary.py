"""What a person wants to know of a fit first: compute, then render."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from vardi._frames import Frame
from vardi.biases import everywhere

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

MOST_VARIABLES = 8
MOST_SAMPLES = 20
WIDTH = 80


@dataclass(frozen=True)
class SampleLine:
    """One bias, and what its sample brings."""

    name: str
    rows: float
    bias: str
    normaliser: float
    share_of_weight: float


@dataclass(frozen=True)
class VariableLine:
    """The mean of a numeric column in the pool, and in the population as the weights see it."""

    name: str
    pooled: float
    debiased: float


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


def summarize(fit: DebiasedSample) -> Summary:
    """Compute the summary of a fit."""
    pool, rows, probabilities = fit._pool, fit._rows, fit._probabilities
    shares = np.bincount(pool.source, probabilities, minlength=len(fit.names))
    biases = ["everywhere" if bias == everywhere() else str(bias) for bias in pool.biases] or [""] * len(fit.names)
    samples = tuple(
        SampleLine(str(name), float(size), bias, omega, float(share))
        for name, size, bias, omega, share in zip(
            fit.names, rows.sizes, biases, fit.omegas.values(), shares, strict=True
        )
    )
    read = {name for bias in pool.biases for name in bias.columns}
    variables = sorted(_variables(pool.whole(), pool.counts, probabilities), key=lambda line: line.name not in read)
    mass = fit._row_weights if rows.counts is None else fit._row_weights * rows.counts
    return Summary(
        rows=len(fit),
        samples=samples,
        verdict=fit.identify().message,
        iterations=fit.solution.iterations,
        residual=fit.solution.residual,
        certificate=fit.solution.certificate,
        distinct=None if rows.inverse is None else len(rows),
        effective=float(mass.sum() ** 2 / (mass @ fit._row_weights)),
        counted=float(rows.sizes.sum()),
        variables=tuple(variables[:MOST_VARIABLES]),
        more_variables=max(len(variables) - MOST_VARIABLES, 0),
    )


def _variables(frame: Frame | None, counts: Any, probabilities: Any) -> list[VariableLine]:
    if frame is None:
        return []
    pooled = np.full(len(probabilities), 1.0) if counts is None else counts
    lines = []
    for name in frame.columns:
        values = frame.column(name)
        if values.dtype.kind in "fiu" and np.isfinite(values).all():
            values = values.astype(np.float64)
            lines.append(VariableLine(name, float(np.average(values, weights=pooled)), float(probabilities @ values)))
    return lines


def to_text(summary: Summary) -> str:
    """Return the summary in at most 80 columns."""
    sampled = sum(line.rows > 0 for line in summary.samples)
    name_width = min(max(len("sample"), *(len(line.name) for line in summary.samples)), 20)
    bias_width = min(max(len("bias"), *(len(line.bias) for line in summary.samples)), WIDTH - name_width - 44)
    lines = [
        f"{summary.rows:,} rows of {sampled} {'sample' if sampled == 1 else 'samples'} speak for the population",
        *_wrapped("identified", summary.verdict),
        *_wrapped("solved", _solved(summary)),
        "",
        f"{'sample':<{name_width}} {'rows':>11}  {'bias':<{bias_width}}  {'normaliser':>11}  {'share of weight':>15}",
    ]
    for line in summary.samples[:MOST_SAMPLES]:
        share = f"{line.share_of_weight:.1%}" if line.rows else "not sampled"
        lines.append(
            f"{_cut(line.name, name_width):<{name_width}} {line.rows:>11,g}  "
            f"{_cut(line.bias, bias_width):<{bias_width}}  "
            f"{line.normaliser:>11.4g}  {share:>15}"
        )
    if len(summary.samples) > MOST_SAMPLES:
        lines.append(f"... and {len(summary.samples) - MOST_SAMPLES} more")
    lines += ["", f"effective rows  {summary.effective:,.0f} of {summary.counted:,.0f}"]
    if summary.variables:
        width = min(max(len("mean of"), *(len(line.name) for line in summary.variables)), 30)
        lines += ["", f"{'mean of':<{width}}  {'in the pool':>12}  {'in the population':>18}"]
        lines += [
            f"{_cut(line.name, width):<{width}}  {line.pooled:>12.5g}  {line.debiased:>18.5g}"
            for line in summary.variables
        ]
        if summary.more_variables:
            lines.append(f"... and {summary.more_variables} more")
    return "\n".join(lines)


def to_html(summary: Summary) -> str:
    """Return the summary as a fragment of HTML, for notebooks."""
    samples = "".join(
        f"<tr><th>{escape(line.name)}</th><td>{line.rows:,g}</td><td><code>{escape(line.bias)}</code></td>"
        f"<td>{line.normaliser:.4g}</td><td>{line.share_of_weight:.1%}</td></tr>"
        for line in summary.samples[:MOST_SAMPLES]
    )
    variables = "".join(
        f"<tr><th>{escape(line.name)}</th><td>{line.pooled:.5g}</td><td>{line.debiased:.5g}</td></tr>"
        for line in summary.variables
    )
    return (
        "<div><p><b>DebiasedSample</b>: "
        f"{summary.rows:,} rows, effective {summary.effective:,.0f} of {summary.counted:,.0f}.<br>"
        f"{escape(summary.verdict)}<br>Solved in {escape(_solved(summary))}</p>"
        "<table><thead><tr><th>sample</th><th>rows</th><th>bias</th><th>normaliser</th><th>share of weight</th></tr>"
        f"</thead><tbody>{samples}</tbody></table>"
        + (
            "<table><thead><tr><th>mean of</th><th>in the pool</th><th>in the population</th></tr></thead>"
            f"<tbody>{variables}</tbody></table>"
            if variables
            else ""
        )
        + "</div>"
    )


def _solved(summary: Summary) -> str:
    steps = "1 iteration" if summary.iterations == 1 else f"{summary.iterations} iterations"
    collapsed = "" if summary.distinct is None else f" over {summary.distinct:,} distinct rows"
    return (
        f"{steps}{collapsed}: the equations hold to {summary.residual:.0e}, every ratio of weights to "
        f"{summary.certificate:.0e}"
    )


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{label:<12}", subsequent_indent=" " * 12)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
