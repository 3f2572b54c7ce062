"""The results of checks of what was declared: of biases, by the samples, and of what is known of the population."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from vardi._estimate.estimates import with_digits_of
from vardi._estimate.tables import Record, Tabular
from vardi._inputs.pool import Name
from vardi._tables import Shown, Table
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import Outcome, one_in, outcome, show

BIAS_HEADING = ("sample", "p-value", "rows that no other could draw")
AGREEMENT: dict[Outcome, str] = {
    "contradicted": "contradict",
    "doubtful": "hardly agree with",
    "not contradicted": "do not contradict",
}
KNOWN_HEADING = ("mean of", "known", "by the samples", "z")
QUASI_INDEPENDENCE = "quasi-independence"  # the method of a check of truncated rows
MOST_PAIRED = 20_000  # of these, up to which all pairs are compared; beyond, those of a random part
CAVEAT = "An error in a bias where no other sample could draw stays invisible, and a large p-value validates nothing."

Features: TypeAlias = Literal["ranks", "poly2", "cells"]


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
class BiasCheck(Shown, Tabular):
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

    def _records(self) -> list[Record]:
        """Return a row for each sample, the one that fits worst first."""
        return [
            {"name": str(name), "pvalue": self.by_sample[name], "untested": self.untested[name]}
            for name in self.worst_first
        ]

    def _parts(self) -> tuple[str, Table, str]:
        table = Table(BIAS_HEADING, [] if self.reason else self.worst_first, self._cells, "samples")
        return self._said, table, f"{self.note} {CAVEAT}" if self.note else CAVEAT

    def _cells(self, name: Name) -> tuple[str, str, str]:
        return str(name), f"{self.by_sample[name]:.2g}", f"{self.untested[name]:.0%}"

    @property
    def _said(self) -> str:
        if self.reason:
            return f"The declared biases cannot be tested: {self.reason}"
        scale = f"chi2 = {self.statistic:.4g}, df = {self.df}"
        said = f"p = {self.pvalue:.2g}: the declared biases are {self.outcome} ({self.method} test of "
        chance = f" Look at it: {one_in(self.pvalue)}." if self.outcome == "doubtful" else ""
        worst = f" Largest discrepancy: {self.worst}." if self.worst else ""
        return f"{said}{', '.join(self.columns)}; {scale}).{chance}{worst}"


def untested(reason: str) -> BiasCheck:
    """Return the check of biases that cannot be tested, with the reason."""
    return BiasCheck(np.nan, np.nan, None, "score", (), {}, None, {}, reason)


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
class KnownCheck(Shown, Tabular):
    """A comparison of what is known of the population with the samples.

    Attributes
    ----------
    lines : tuple of KnownLine
        One for each known value.
    statistic, df : float, int
        Hotelling's :math:`T^2` of all of them together, and how many of them are linearly independent.
    pvalue : float
        Small where the samples contradict them; NaN where they do not identify them, or too few rows show how much
        they vary. :math:`T^2 (f - p + 1) / (p f)` is compared with the law F of p and f - p + 1 degrees of freedom,
        with p the ``df`` and f the ``freedom``.
    residual : float
        The largest deviation of the weighted rows from a known value.
    samples : tuple of str
        The samples that were drawn.
    freedom : float
        Degrees of freedom of the covariance of the estimates; with infinitely many the test is chi-square.
    """

    lines: tuple[KnownLine, ...]
    statistic: float
    df: int
    pvalue: float
    residual: float
    samples: tuple[str, ...]
    freedom: float = math.inf

    @property
    def outcome(self) -> Outcome:
        """What the p-value says about what is known: contradicted, doubtful or not contradicted."""
        return outcome(self.pvalue)

    @property
    def contradicted(self) -> bool:
        """Whether the samples contradict what is known: the p-value is below 0.0001."""
        return self.outcome == "contradicted"

    @property
    def verdict(self) -> str:
        """The outcome in a sentence; if the samples contradict what is known, with what may be wrong."""
        if math.isnan(self.pvalue):
            if self.df and math.isfinite(self.freedom):
                return (
                    f"{self.df} known values cannot be tested at once: the samples have {self.freedom:.3g} degrees of "
                    "freedom to tell how much they vary."
                )
            return "The samples on their own say nothing about what is known, so it cannot be tested."
        said = AGREEMENT[self.outcome]
        worst = max(self.lines, key=lambda line: abs(line.z) if line.stderr > 0 else -1.0)
        found = (
            f"The samples {said} what is known ({self._scale}, p = {self.pvalue:.2g}); the largest "
            f"discrepancy is in {worst.label!r}: {worst.estimated:.3g} ± {worst.stderr:.2g} by the "
            f"samples, {worst.known:.3g} as known."
        )
        if self.outcome == "doubtful":
            return f"{found} Look at it: {one_in(self.pvalue)}."
        return f"{found} {self._remedy(worst)}" if self.contradicted else found

    @property
    def _scale(self) -> str:
        if math.isinf(self.freedom):
            return f"chi2 = {self.statistic:.4g}, df = {self.df}"
        return f"T2 = {self.statistic:.4g}, df = {self.df} and {self.freedom - self.df + 1:.4g}"

    def _records(self) -> list[Record]:
        """Return a row for each known value: what the samples say of it, and what is known."""
        return [
            {"name": line.label, "value": line.estimated, "stderr": line.stderr, "known": line.known}
            | {"known_stderr": line.known_stderr, "z": line.z}
            for line in self.lines
        ]

    def _parts(self) -> tuple[str, Table]:
        return self.verdict, Table(KNOWN_HEADING, self.lines, _known_cells, "known values")

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


def _known_cells(line: KnownLine) -> tuple[str, str, str, str]:
    """Return a known value and the samples' estimate of it, with their errors if they have any, and the z of both."""
    known, estimated = f"{line.known:.4g}", "no error" if math.isnan(line.stderr) else "not identified"
    if line.known_stderr > 0:
        known = " ± ".join(with_digits_of(line.known_stderr, line.known, line.known_stderr))
    if line.stderr > 0:
        estimated = " ± ".join(with_digits_of(line.stderr, line.estimated, line.stderr))
    return line.label, known, estimated, "" if math.isnan(line.z) else f"{line.z:+.1f}"
