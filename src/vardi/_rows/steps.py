r"""Influence values of a distribution function at the points of a grid, from a few numbers for each row.

With m points t, :math:`g_i` the first of these that the value of row i does not exceed (m beyond the last), and F the
function,

.. math:: \phi_i(t) = r_i (1\{g_i \le t\} - F(t)) + y_i'C(t) = M'z_i,\qquad z_i = (r_i e_{g_i}, y_i),

so their covariance follows from sums of products of z, most of which are sums by cell: it takes neither n x m numbers
nor m x m products for each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vardi._rows.grouping import membership, sums_by_code, sums_by_sample
from vardi._types import Floats, Integers


@dataclass(frozen=True, eq=False)
class StepInfluence:
    """Influence values of a distribution function at m points.

    Attributes
    ----------
    r : ndarray of shape (n,)
        Weight of each row.
    cell : ndarray of int of shape (n,)
        The cell of each row, from 0 to m.
    y : ndarray or csr_array of shape (n, d)
        Further numbers of each row on which the function depends.
    value : ndarray of shape (m,)
        F at the points.
    C : ndarray of shape (d, m)
        The effect of y on F there.
    """

    r: Floats
    cell: Integers
    y: Any
    value: Floats
    C: Floats

    def __len__(self) -> int:
        return len(self.r)

    @property
    def is_sparse(self) -> bool:
        """Whether y is mostly zero, and held as such."""
        return bool(sparse.issparse(self.y))

    @property
    def from_z(self) -> Floats:
        """M, the linear map from z to the influence values, of shape (m + 1 + d, m)."""
        cells = np.arange(len(self.value) + 1)[:, None]
        return np.vstack([(cells <= np.arange(len(self.value))) - self.value, self.C])

    def rows(self, part: slice) -> Floats:
        """Return the influence values of some rows in full."""
        m = len(self.value)
        return self.r[part, None] * self.from_z[: m + 1][self.cell[part]] + self.y[part] @ self.C

    def products(self, part: slice, scale: Floats | float) -> Floats:
        """Return sum_i s_i z_i z_i' over some rows, with a factor s for each or for all."""
        m, r, cell, y = len(self.value), self.r[part], self.cell[part], self.y[part]
        found = np.zeros((m + 1 + y.shape[1],) * 2)
        scaled = scale * r
        found[np.arange(m + 1), np.arange(m + 1)] = np.bincount(cell, scaled * r, minlength=m + 1)
        if self.is_sparse:
            beside = (membership(cell, m + 1, scaled) @ y).toarray()
            root = sparse.diags_array(np.sqrt(np.broadcast_to(scale, len(r)))) @ y
            found[m + 1 :, m + 1 :] = (root.T @ root).toarray()
        else:
            beside = sums_by_code(cell, y * scaled[:, None], m + 1)
            root = y * np.sqrt(np.reshape(scale, (-1, 1)))
            found[m + 1 :, m + 1 :] = root.T @ root
        found[: m + 1, m + 1 :], found[m + 1 :, : m + 1] = beside, beside.T
        return found

    def totals(self, part: slice, source: Integers | int, counts: Floats, K: int) -> Floats:
        """Return sum_i c_i z_i over the rows of each sample among some rows, of shape (K, m + 1 + d).

        The source is a number if these rows are all of one sample.
        """
        size, r = len(self.value) + 1, self.r[part]
        mass = r * counts
        by_cell = np.bincount(self.cell[part] + size * source, mass, minlength=K * size).reshape(K, size)
        if self.is_sparse:
            whole = np.broadcast_to(np.asarray(source, np.int64), len(r))
            return np.hstack([by_cell, (membership(whole, K, counts) @ self.y[part]).toarray()])
        y = self.y[part] * counts[:, None]
        return np.hstack([by_cell, sums_by_sample(y, source, K)])
