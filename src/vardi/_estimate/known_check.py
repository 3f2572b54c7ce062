"""What is known of the population next to what the samples alone imply about it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable
from dataclasses import dataclass

from vardi._estimate.bias_check import SHOWN
from vardi._estimate.estimates import with_digits_of
from vardi._inputs.known import Known
from vardi._notebook import MOST_ROWS, fragment, paragraph, table
from vardi._types import Floats
from vardi.biases import Bias
from vardi.errors._texts import WIDTH, aligned, cut, more, outcome

HEADING = ("mean of", "known", "by the samples", "z")


@dataclass(frozen=True)
class KnownLine:
    """One known value, and what the samples imply about it.

    Attributes
    ----------
    label : str
        What it is the mean of: a column, a condition, a value of a column, a sample's bias.
    known, known_stderr : float
        The known value and its standard error, zero where it is exact.
    estimated, stderr : float
        The estimate from the samples and their biases, with its error; known values give the masses of groups that
        overlap does not join. An error of zero means that the samples add nothing about it.
    columns : tuple of str
        The columns that it reads.
    margin : tuple of (str, value) or None
        The column and the value whose share it is, if the shares of all values of the column are known.
    """

    label: str
    known: float
    known_stderr: float
    estimated: float
    stderr: float
    columns: tuple[str, ...] = ()
    margin: tuple[str, Hashable] | None = None

    @property
    def z(self) -> float:
        """By how many standard errors the samples differ from what is known; NaN where they do not identify it."""
        if not self.stderr > 0:
            return math.nan
        return (self.estimated - self.known) / math.hypot(self.stderr, self.known_stderr)


@dataclass(frozen=True)
class KnownCheck:
    """A comparison of what is known of the population with the samples.

    Attributes
    ----------
    lines : tuple of KnownLine
        One for each known value.
    statistic, df : float, int
        Chi-square of all of them together and its degrees of freedom.
    pvalue : float
        Small where the samples contradict them; NaN where they do not identify them.
    residual : float
        The largest deviation of the weighted rows from a known value.
    samples : tuple of str
        The samples that were drawn.
    """

    lines: tuple[KnownLine, ...]
    statistic: float
    df: int
    pvalue: float
    residual: float
    samples: tuple[str, ...]

    @property
    def contradicted(self) -> bool:
        """Whether the samples contradict what is known, at one per cent."""
        return outcome(self.pvalue) == "contradicted"

    @property
    def verdict(self) -> str:
        """The outcome in a sentence; if the samples contradict what is known, with what may be wrong."""
        if math.isnan(self.pvalue):
            return "The samples on their own say nothing about what is known, so it cannot be tested."
        said = "contradict" if self.contradicted else "do not contradict"
        worst = max(self.lines, key=lambda line: abs(line.z) if line.stderr > 0 else -1.0)
        outcome = (
            f"The samples {said} what is known (chi2 = {self.statistic:.4g}, df = {self.df}, p = {self.pvalue:.2g}); "
            f"the largest discrepancy is in {worst.label!r}: {worst.estimated:.3g} ± {worst.stderr:.2g} by the "
            f"samples, {worst.known:.3g} as known."
        )
        return f"{outcome} {self._remedy(worst)}" if self.contradicted else outcome

    def summary(self) -> str:
        """Return the check in at most 80 columns."""
        names, *others = zip(HEADING, *self._cells(SHOWN), strict=True)
        widths = [max(map(len, column)) for column in others]
        width = min(max(map(len, names)), WIDTH - sum(widths) - 2 * len(widths))
        head, *lines = ((cut(name, width), *row) for name, *row in zip(names, *others, strict=True))
        said = textwrap.fill(self.verdict, WIDTH, break_on_hyphens=False)
        return "\n".join([said, "", aligned(head, lines), *more(self.lines, SHOWN)])

    __str__ = summary

    def _repr_html_(self) -> str:
        rows = self._cells(MOST_ROWS)
        return fragment(paragraph(self.verdict), table(HEADING, rows, of="known values", total=len(self.lines)))

    def _cells(self, most: int) -> list[tuple[str, str, str, str]]:
        return [
            (line.label, known_text(line), estimated_text(line), "" if math.isnan(line.z) else f"{line.z:+.1f}")
            for line in self.lines[:most]
        ]

    def _remedy(self, worst: KnownLine, far: float = 2.0) -> str:
        """Return what may be wrong, and how to declare a selection by margins that are far off, in standard errors."""
        reason = "A bias or a known value is wrong, or they describe different populations."
        if worst.margin is not None:
            apart = [line.margin for line in self.lines if line.margin is not None and abs(line.z) > far]
            columns = dict.fromkeys(column for column, _ in (worst.margin, *apart))
            declaration = f"vardi.cells({', '.join(map(repr, columns))})"
        else:
            columns = dict.fromkeys(worst.columns)
            declaration = f"vardi.exponential_tilt({worst.label!r})"
        if not columns:  # the bias of a sample, or a Python function
            return reason
        whose = repr(self.samples[0]) if len(self.samples) == 1 else "a sample"
        return f"{reason} If the selection of {whose} depends on {' and '.join(columns)}, declare it: {declaration}."


def known_lines(known: Known, estimated: Floats, stderr: Floats) -> tuple[KnownLine, ...]:
    """Return each known value next to what the samples imply about it."""
    return tuple(
        KnownLine(
            label,
            float(known.values[j]),
            float(known.stderr[j]),
            float(estimated[j]),
            float(stderr[j]),
            h.columns if isinstance(h, Bias) else (),
            known.margin_of(j),
        )
        for j, (label, h) in enumerate(zip(known.labels, known.functions, strict=True))
    )


def known_text(line: KnownLine) -> str:
    """Return a known value as readable text, with its error if it has one."""
    if not line.known_stderr > 0:
        return f"{line.known:.4g}"
    return " ± ".join(with_digits_of(line.known_stderr, line.known, line.known_stderr))


def estimated_text(line: KnownLine) -> str:
    """Return the samples' estimate of a known value, with its error."""
    if not line.stderr > 0:
        return "no error" if math.isnan(line.stderr) else "not identified"
    return " ± ".join(with_digits_of(line.stderr, line.estimated, line.stderr))
