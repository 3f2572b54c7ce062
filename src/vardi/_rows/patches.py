r"""Rows that few samples could have drawn, cut into small dense arrays: a few hundred rows, and the samples they reach.

Rows of one sample mostly reach the same few others. So products over them, which a sparse array makes entry by entry,
are dense products of a few dozen columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from vardi._machine.threads import at_once
from vardi._rows.grouping import by_sample
from vardi._types import Floats, Integers

Result = TypeVar("Result")
LEAST, MOST = 32, 256  # rows of a patch
RUNS = 32  # runs of patches, of which a thread takes several


@dataclass(frozen=True, eq=False)
class Patch:
    """Some rows, and what they are in the columns in which one of them is above zero.

    Attributes
    ----------
    rows : ndarray of int of shape (m,)
        Their places.
    columns : ndarray of int of shape (c,)
        The columns.
    values : ndarray of shape (m, c)
        Their values there.
    """

    rows: Integers
    columns: Integers
    values: Floats


class Patches:
    """The rows of a sparse array in the order of their samples, cut into patches.

    Parameters
    ----------
    entries : csr_array of shape (n, K)
        The values.
    source : ndarray of int of shape (n,)
        Sample of each row.
    """

    def __init__(self, entries: Any, source: Integers) -> None:
        order = by_sample(source, entries.shape[1])
        self._rows = np.concatenate(order)
        self._entries = entries if (self._rows[1:] > self._rows[:-1]).all() else entries[self._rows]
        ends = np.cumsum([len(rows) for rows in order])
        cuts, start = [0], 0
        for end in ends.tolist():
            if end - start >= LEAST or end == len(source):
                pieces = max(-(-(end - start) // MOST), 1)
                cuts += [start + (end - start) * piece // pieces for piece in range(1, pieces + 1)]
                start = end
        self._cuts = np.unique(cuts)

    def each(self, function: Callable[[Patch], Result]) -> Iterator[Result]:
        """Apply a function to every patch, in threads if that pays, and yield the results in order."""
        count = len(self._cuts) - 1
        ends = np.linspace(0, count, min(RUNS, count) + 1).astype(np.int64).tolist()
        runs = list(pairwise(ends))
        for results in at_once(lambda run: [function(self._patch(k)) for k in range(*run)], runs, len(self._rows)):
            yield from results

    def _patch(self, place: int) -> Patch:
        entries, low, high = self._entries, self._cuts[place], self._cuts[place + 1]
        starts = entries.indptr[low : high + 1]
        indices = entries.indices[starts[0] : starts[-1]]
        at = np.zeros(entries.shape[1], np.int64)
        at[indices] = 1
        columns = np.flatnonzero(at)
        at[columns] = np.arange(len(columns))
        values = np.zeros((high - low, len(columns)))
        values[np.repeat(np.arange(high - low), np.diff(starts)), at[indices]] = entries.data[starts[0] : starts[-1]]
        return Patch(self._rows[low:high], columns, values)
