"""The check of the declared biases, in bounded time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from vardi._estimate.bias_check import BiasCheck
from vardi._estimate.quasi_independence import METHOD, MOST_ROWS
from vardi._facts.numbers import pvalue
from vardi._facts.parts import Fit
from vardi._inputs.given import Function
from vardi.biases import WindowBias
from vardi.biases._window import columns_to_test
from vardi.errors import NeedsRowsError
from vardi.errors._texts import SHOWN, Outcome, outcome

Level: TypeAlias = Literal["bad", "doubt", "good", "fact"]

LEVELS: dict[Outcome, Level] = {"contradicted": "bad", "doubtful": "doubt", "not contradicted": "good"}


@dataclass(frozen=True)
class Remark:
    """A sentence, and how serious it is."""

    level: Level
    text: str


@dataclass(frozen=True)
class CheckRow:
    """The check of one sample.

    Attributes
    ----------
    name : str
        The sample.
    pvalue : float
        Of this sample alone; NaN if it cannot be tested.
    untested : float
        The share of its rows that the test does not cover.
    outcome : str
        The outcome by its p-value, adjusted for the number of samples.
    """

    name: str
    pvalue: float
    untested: float
    outcome: Outcome


@dataclass(frozen=True)
class Check:
    """The check of the declared biases.

    Attributes
    ----------
    level : str
        How serious it is.
    text : str
        The outcome in a sentence.
    detail : str
        The statistic, and the largest discrepancy between the samples.
    rows : tuple of CheckRow
        By sample, worst first.
    found : BiasCheck or None
        The test itself; None if it was not run.
    """

    level: Level
    text: str
    detail: str = ""
    rows: tuple[CheckRow, ...] = ()
    found: BiasCheck | None = field(default=None, repr=False, compare=False)

    @property
    def is_made(self) -> bool:
        """Whether the biases were tested."""
        return self.found is not None and not self.found.reason


UNASKED = Check("fact", "The declared biases were not checked: fit.check_biases() runs the check in the engine.")


def check_of(fit: Fit, variables: Mapping[str, Function] | None) -> Check:
    """Run the check on the columns that the biases read or, if these read none, on the others."""
    columns = _columns(fit, variables)
    feasible = _feasible(fit, max(len(columns), 1))
    if not feasible:
        return Check("fact", "The declared biases were not checked: fit.check_biases() would take a long time here.")
    try:
        check = fit.check_biases(dict(list(columns.items())[:feasible]))
    except NeedsRowsError:
        return Check("fact", "The declared biases were not checked: that needs rows in memory.")
    adjusted = _adjusted([check.by_sample[name] for name in check.worst_first])
    rows = tuple(
        CheckRow(str(name), check.by_sample[name], check.untested[name], outcome(p))
        for name, p in zip(check.worst_first, adjusted, strict=True)
    )
    if check.reason:
        return Check("fact", f"The declared biases cannot be tested: {check.reason}", rows=rows, found=check)
    test = "Score test" if check.method != METHOD else "Test of quasi-independence"
    detail = f"{test} of {', '.join(check.columns)}: chi-square {check.statistic:.4g}, "
    detail += "1 degree of freedom." if check.df == 1 else f"{check.df} degrees of freedom."
    if check.worst is not None:
        detail += f" Largest discrepancy: {check.worst}."
    said = "Where the samples overlap, the declared biases are"
    if check.method == METHOD:
        said = "The assumption that windows are independent of the values they contain (quasi-independence) is"
    p = pvalue(check.pvalue)
    equals = "" if p.startswith("below") else "= "
    text = f"{said} {check.outcome} (p {equals}{p}).{f' {check.note}' if check.note else ''}"
    return Check(LEVELS[check.outcome], text, detail, rows, check)


def _columns(fit: Fit, variables: Mapping[str, Function] | None) -> Mapping[str, Function]:
    numeric = columns_to_test(fit.parts.given().biases, fit.numeric_columns) or fit.numeric_columns[:SHOWN]
    if not numeric and variables is not None:
        return variables
    return {name: name for name in numeric}


def _feasible(fit: Fit, columns: int, most_products: float = 1e9, most_pairs: float = 5e7) -> int:
    """Return how many columns can be compared while a reader waits: more products, or pairs of rows, take long."""
    if any(isinstance(bias, WindowBias) for bias in fit.parts.given().biases):
        return columns if columns * min(len(fit), MOST_ROWS) ** 2 <= most_pairs else 0
    K = sum(rows > 0 for rows in fit.sizes.values())
    return next((m for m in range(columns, 0, -1) if 2 * m**2 * len(fit) * K**2 <= most_products), 0)


def _adjusted(ordered: Sequence[float]) -> list[float]:
    """Return p-values, the smallest first, adjusted for their number (Holm 1979); two samples are a single test.

    >>> _adjusted([0.004, 0.03, 0.5, float("nan")])
    [0.012, 0.06, 0.5, nan]
    >>> _adjusted([0.004, 0.004])
    [0.004, 0.004]
    """
    if len(ordered) == 2:
        return list(ordered)
    tests, largest, adjusted = sum(p == p for p in ordered), 0.0, []
    for place, p in enumerate(ordered):
        largest = max(largest, min((tests - place) * p, 1.0)) if p == p else math.nan
        adjusted.append(largest)
    return adjusted
