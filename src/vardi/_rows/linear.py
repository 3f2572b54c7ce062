r"""Influence values that are linear in p, held as their coefficients where few samples could have drawn a row.

.. math:: \phi_i = B'p_i - r_i

are n x m numbers, of which the sums of squares and of fourth powers are needed, and rarely more than a column or two.
So they are made patch by patch, and not kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vardi._rows.grouping import membership
from vardi._rows.patches import Patch, Patches
from vardi._types import Floats, Integers


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
