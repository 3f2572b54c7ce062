"""The result of a check of the declared biases: BiasCheck, and where the samples depart most from them."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from vardi._inputs.pool import Name
from vardi._notebook import MOST_ROWS, fragment, paragraph, table
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import WIDTH, Outcome, cut, more, outcome, show, width_of

SHOWN = 12  # samples, or known values, of a summary
HEADING = ("sample", "p-value", "rows that no other could draw")
CAVEAT = "An error in a bias where no other sample could draw stays invisible, and a large p-value validates nothing."

Features: TypeAlias = Literal["poly2", "cells"]


def require_features(features: str) -> None:
    """Raise unless samples can be compared by such features of a column."""
    known = get_args(Features)
    if features not in known:
        message = f"There are no features {features!r} to compare samples by. Choose one of {show(known)}."
        raise MismatchError(message + suggest(features, known))


@dataclass(frozen=True)
class Discrepancy:
    """Where a sample departs most from its bias: the largest z of many regions, so not a test.

    The ``sample`` has ``observed`` rows in the ``region`` of a ``column`` ("price between 12.1 and 18.3"), its bias
    predicts ``expected``, and they differ by ``z`` standard errors.
    """

    column: str
    region: str
    sample: Name
    observed: float
    expected: float
    z: float

    def __str__(self) -> str:
        expected = f"where {self.expected:,.4g} are expected (z = {self.z:+.1f})"
        rows = "row" if self.observed == 1 else "rows"
        return f"{self.region}, {self.observed:,.4g} {rows} of {str(self.sample)!r} {expected}"


@dataclass(frozen=True)
class BiasCheck:
    """Whether the samples agree with their declared biases where they overlap.

    Attributes
    ----------
    pvalue : float
        Small where they disagree. NaN where nothing can be tested, for the ``reason`` given.
    statistic, df : float, int or None
        Chi-square of the test and its degrees of freedom.
    method, columns : str, tuple of str
        How they were compared, and in what.
    by_sample : dict of name to float
        The p-value of each sample alone, not adjusted for their number. Of two samples both have the same.
    worst : Discrepancy or None
        Where the disagreement is largest; None where no region has enough rows to tell.
    untested : dict of name to float
        The share of its rows that, in practice, no other sample could have drawn.
    reason, note : str
        Why nothing can be tested; and which biases are not part of the test.
    """

    pvalue: float
    statistic: float
    df: int | None
    method: str
    columns: tuple[str, ...]
    by_sample: dict[Name, float]
    worst: Discrepancy | None
    untested: dict[Name, float]
    reason: str = ""
    note: str = ""

    @property
    def outcome(self) -> Outcome:
        """What the p-value says about the declared biases: contradicted, doubtful or not contradicted."""
        return outcome(self.pvalue)

    @property
    def worst_first(self) -> list[Name]:
        """The samples, those that fit worst first, and at the end those that cannot be tested."""
        shown = {name: float(f"{pvalue:.6g}") for name, pvalue in self.by_sample.items()}  # two samples have the same
        return sorted(shown, key=lambda name: (math.isnan(shown[name]), shown[name]))

    def summary(self) -> str:
        """Return the check in at most 80 columns, the samples that fit worst first."""
        if self.reason:
            return textwrap.fill(f"{self._said} {CAVEAT}", WIDTH)
        ordered = self.worst_first
        width = width_of("sample", ordered, 30)
        lines = [
            f"{cut(name, width):<{width}}  {pvalue:>8}  {rows:>30}"
            for name, pvalue, rows in (HEADING, *self._cells(ordered[:SHOWN]))
        ]
        lines += more(ordered, SHOWN)
        return "\n".join([textwrap.fill(self._said, WIDTH), "", *lines, "", textwrap.fill(self._caveat, WIDTH)])

    __str__ = summary

    def _repr_html_(self) -> str:
        ordered = self.worst_first
        rows = [] if self.reason else self._cells(ordered[:MOST_ROWS])
        return fragment(
            paragraph(self._said), table(HEADING, rows, of="samples", total=len(ordered)), paragraph(self._caveat)
        )

    @property
    def _caveat(self) -> str:
        return f"{self.note} {CAVEAT}" if self.note else CAVEAT

    @property
    def _said(self) -> str:
        if self.reason:
            return f"The declared biases cannot be tested: {self.reason}"
        scale = f"chi2 = {self.statistic:.4g}, df = {self.df}"
        said = f"p = {self.pvalue:.2g}: the declared biases are {self.outcome} ({self.method} test of "
        return f"{said}{', '.join(self.columns)}; {scale})." + (
            f" Largest discrepancy: {self.worst}." if self.worst else ""
        )

    def _cells(self, names: list[Name]) -> list[tuple[str, str, str]]:
        return [(str(name), f"{self.by_sample[name]:.2g}", f"{self.untested[name]:.0%}") for name in names]


def untested(reason: str) -> BiasCheck:
    """Return the check of biases that cannot be tested, with the reason."""
    return BiasCheck(np.nan, np.nan, None, "score", (), {}, None, {}, reason)
