r"""Rows that few samples could have drawn, cut into small dense arrays: a few hundred rows, and the samples they reach.

Rows of one sample mostly reach the same few others. So products over them, which a sparse array makes entry by entry,
are dense products of a few dozen columns. Influence values that are linear in p,

.. math:: \phi_i = B'p_i - r_i,

are held as their coefficients, and made patch by patch: of n x m numbers only sums of powers are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from vardi._machine.threads import at_once
from vardi._rows.grouping import by_sample, membership
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


@dataclass(frozen=True, eq=False)
class LinearInfluence:
    """Influence values of m estimates.

    Attributes
    ----------
    entries : csr_array of shape (n, K)
        p of each row.
    r : ndarray of shape (n,)
        Weight of each row.
    B : ndarray of shape (K, m)
        The coefficients.
    """

    entries: Any
    r: Floats
    B: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and estimates there are."""
        return len(self.r), self.B.shape[1]

    def __len__(self) -> int:
        return len(self.r)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.asarray(self.entries @ self.B - self.r[:, None], dtype)

    def __getitem__(self, key: tuple[slice, Any]) -> LinearInfluence:
        """Return the values of some estimates, on all rows."""
        rows, estimates = key
        assert rows == slice(None)
        return LinearInfluence(self.entries, self.r, self.B[:, estimates])

    def __matmul__(self, coefficients: Floats) -> Floats:
        return np.asarray(self.entries @ (self.B @ coefficients) - np.outer(self.r, coefficients.sum(axis=0)))

    def __add__(self, other: Any) -> Floats:
        return np.asarray(self) + np.asarray(other)

    @cached_property
    def largest(self) -> Floats:
        """A bound of the absolute values of each estimate: a mean of B lies within its range."""
        return np.asarray(np.abs(self.B).max(axis=0) + self.r.max(initial=0.0))

    def means(self, source: Integers, counts: Floats, sizes: Floats) -> Floats:
        """Return their means over the rows of each sample, of shape (K, m)."""
        own = membership(source, len(sizes), counts)
        return np.asarray(((own @ self.entries) @ self.B - (own @ self.r)[:, None]) / sizes[:, None])

    def powers(self, source: Integers, counts: Floats, means: Floats, unit: Floats) -> tuple[Floats, Floats]:
        r"""Return sums of squared deviations from the means within samples, (K, m), and of their fourth powers, (m,).

        With counts c these are sums of :math:`c_i d_{ij}^2` and of :math:`c_i d_{ij}^4`, d in the given units.
        """
        B, means = self.B / unit, means / unit

        def sums(patch: Patch) -> tuple[Integers, Floats, Floats]:
            own, place = np.unique(source[patch.rows], return_inverse=True)
            labels = (place[:, None] == np.arange(len(own))).astype(np.float64)
            rows = np.column_stack([patch.values, self.r[patch.rows], labels])
            squares = rows @ np.vstack([B[patch.columns], -1.0 / unit, -means[own]])
            np.square(squares, out=squares)
            c = counts[patch.rows]
            within = (labels * c[:, None]).T @ squares
            return own, within, c @ np.square(squares, out=squares)

        found, fourths = np.zeros(means.shape), np.zeros(means.shape[1])
        for own, within, fourth in Patches(self.entries, source).each(sums):
            found[own] += within
            fourths += fourth
        return found, fourths
