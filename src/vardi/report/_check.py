"""The check of the declared biases, within bounds of time."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from vardi.errors import WeakOverlapWarning
from vardi.report._columns import MOST_NUMERIC, has_rows
from vardi.report._content import Check, CheckRow, Level
from vardi.report._numbers import pvalue

if TYPE_CHECKING:
    from vardi._sample import DebiasedSample

CONTRADICTED, DOUBTFUL = 0.01, 0.05
WORK = 1e9  # products, from which the test takes longer than a reader waits


def check_of(fit: DebiasedSample, variables: dict[str, Any] | None) -> Check:
    """Run the check on the columns that the biases read, or on all there are."""
    if not has_rows(fit):
        return Check("fact", "The declared biases were not checked: that needs rows in memory.", "", ())
    columns = _columns(fit, variables)
    feasible = _feasible(fit, len(columns))
    if columns and not feasible:
        return Check("fact", "The declared biases were not checked: fit.check_biases() would take long here.", "", ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakOverlapWarning)  # said in the verdict
        check = fit.check_biases(dict(list(columns.items())[:feasible]))
    rows = tuple(
        CheckRow(str(name), None if math.isnan(p) else p, check.untested[name])
        for name, p in sorted(check.by_sample.items(), key=lambda item: (math.isnan(item[1]), item[1]))
    )
    if check.reason:
        return Check("fact", f"The declared biases cannot be tested: {check.reason}", "", rows)
    level: Level = "bad" if check.pvalue < CONTRADICTED else "doubt" if check.pvalue < DOUBTFUL else "good"
    outcome = {"bad": "are contradicted", "doubt": "are doubtful", "good": "are not contradicted"}[level]
    detail = f"Score test of {', '.join(check.columns)}: chi-square {check.statistic:.4g}, "
    detail += "1 degree of freedom." if check.df == 1 else f"{check.df} degrees of freedom."
    if check.worst is not None:
        detail += f" Most apart: {check.worst}."
    text = f"Where the samples overlap, the declared biases {outcome} (p {_equals(check.pvalue)})."
    return Check(level, text, detail, rows)


def _columns(fit: DebiasedSample, variables: dict[str, Any] | None) -> dict[str, Any]:
    read = {name for bias in fit._pool.biases for name in bias.columns}
    numeric = [name for name in fit.numeric_columns if name in read] or fit.numeric_columns[:MOST_NUMERIC]
    if not numeric and variables is not None:
        return variables
    return {name: name for name in numeric}


def _feasible(fit: DebiasedSample, columns: int) -> int:
    """Return how many columns can be compared in bounded time."""
    K = int((fit._rows.sizes > 0).sum())
    rows = len(fit._influence.strata.source)
    return next((m for m in range(columns, 0, -1) if 2 * m**2 * rows * K**2 <= WORK), 0)


def _equals(p: float) -> str:
    text = pvalue(p)
    return text if text.startswith("below") else f"= {text}"
