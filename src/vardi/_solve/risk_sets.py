"""Whether rows that each have a window can be weighted, in terms of risk sets.

At a value x the rows at risk are those that could have been seen there. Rows can be weighted if each can be reached
from every other by steps from a row to one that its window holds; otherwise values fall into parts, and it is
undetermined how common one is relative to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from vardi._rows.windows import Windows
from vardi._solve.identify import Name, Verdict
from vardi._types import Floats, Integers
from vardi.errors._texts import number_of_rows

REMEDY = "Add rows whose windows span both, debias each part alone, or keep the largest with on_unidentified='largest'."


class Row(int):
    """The position of a row that is its own sample; prints as "row 3"."""

    def __str__(self) -> str:
        return f"row {int(self)}"

    __repr__ = __str__


def at_risk(windows: Windows, counts: Floats) -> Floats:
    """Return how many rows are at risk at the value of each row.

    For left truncation these are the rows that had entered and were not yet seen, as in the product-limit estimate;
    for right truncation the same backwards; for windows with two ends, the rows whose window holds the value.
    """
    low, high = windows.low, windows.high
    if np.isinf(high).all():
        high = windows.x
    elif np.isinf(low).all():
        low = windows.x
    begun, ended = np.argsort(low), np.argsort(high)
    sums = [np.concatenate([[0.0], np.cumsum(counts[order])]) for order in (begun, ended)]
    entered = sums[0][np.searchsorted(low[begun], windows.x, "right")]
    return np.asarray(entered - sums[1][np.searchsorted(high[ended], windows.x, "left")])


def one_sample(name: Name, windows: Windows, counts: Floats) -> Verdict:
    """Return the verdict on rows that can be weighted."""
    sizes = at_risk(windows, counts)
    message = (
        f"{str(name)!r} is weighted by the windows of its rows: the risk sets at its values join them all, and hold "
        f"{sizes.min():g} to {number_of_rows(float(sizes.max()))}."
    )
    return Verdict(True, ((name,),), (name,), sparse.csr_array((1, 1)), None, np.inf, 1.0, message)


def in_risk_sets(verdict: Verdict, windows: Windows, counts: Floats, rows: Sequence[Row]) -> Verdict:
    """Return a verdict that rows cannot be weighted, with the reason; groups are positions of rows."""
    place = {row: j for j, row in enumerate(rows)}
    groups = [np.array([place[row] for row in group]) for group in verdict.groups]  # type: ignore[index]
    spans = sorted(groups, key=lambda group: float(windows.x[group].min()))
    for lower, upper in pairwise(spans):
        below = np.flatnonzero(windows.x <= windows.x[lower].max())
        above = np.flatnonzero(windows.x >= windows.x[upper].min())
        is_split = len(below) + len(above) == len(windows.x)
        if is_split and not (_reach(windows, below, above) or _reach(windows, above, below)):
            return replace(verdict, message=_gap(windows, below, above))
    for group in spans:
        others = np.setdiff1d(np.arange(len(windows.x)), group)
        if not _reach(windows, group, others):
            return replace(verdict, message=_one_way(windows, counts, group, others))
    message = (
        f"The windows of {' and '.join(number_of_rows(len(group)) for group in spans)} join them so weakly that how "
        f"common one part is relative to the other is lost in rounding. {REMEDY}"
    )
    return replace(verdict, message=message)


def _reach(windows: Windows, of: Integers, to: Integers) -> bool:
    """Return whether a window of some rows holds the value of one of the others."""
    values = np.sort(windows.x[to])
    first = np.searchsorted(values, windows.low[of], "left")
    return bool((first < np.searchsorted(values, windows.high[of], "right")).any())


def _gap(windows: Windows, below: Integers, above: Integers) -> str:
    low, high = windows.x[below].max(), windows.x[above].min()
    return (
        f"Between {low:.6g} and {high:.6g} the values fall apart: no row seen from {high:.6g} on was at risk at "
        f"{low:.6g} or below, and none seen up to {low:.6g} was at risk at {high:.6g} or above. So it is undetermined "
        f"how common values below are ({number_of_rows(len(below))}) relative to those above "
        f"({number_of_rows(len(above))}). {REMEDY}"
    )


def _one_way(windows: Windows, counts: Floats, group: Integers, others: Integers) -> str:
    risk = at_risk(windows, counts)
    alone = others[risk[others] <= counts[others]]
    low, high = windows.x[group].min(), windows.x[group].max()
    nearest = windows.x[alone[np.abs(windows.x[alone] - low).argmin()]] if len(alone) else np.nan
    at = f"At {nearest:.6g} the row seen there is the only one at risk, and " if len(alone) else ""
    spanned = f"seen at {low:.6g}" if low == high else f"seen from {low:.6g} to {high:.6g}"
    text = (
        f"{at}no window of {number_of_rows(len(group))} {spanned} holds the value of any other row, while windows of "
        f"the others hold theirs: the risk sets lead from the other {number_of_rows(len(others))} to these and not "
        f"back, so the likelihood leaves them no weight. {REMEDY}"
    )
    return text[0].upper() + text[1:]
