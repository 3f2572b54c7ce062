r"""Influence values where biases have parameters: the rows move an estimate through these too.

With the letters of :mod:`vardi._parametric.likelihood`,

.. math::

    a = \sum_i \pi_i g_i \sum_l p_{il} x_{il},\qquad \phi_i = r_i g_i + q_i' J^+ a,\qquad
    \phi_i(\theta) = -(J^+ q_i)_\theta.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from vardi._cdf import DebiasedCdf
from vardi._influence import Influence
from vardi._parametric.likelihood import Point
from vardi._parametric.scoring import solve
from vardi._rows import Rows
from vardi._rows.grouping import membership
from vardi._sums import Floats, Integers


class ParametricInfluence(Influence):
    """A solution with parameters, seen as a map from functions on rows to estimates.

    Parameters
    ----------
    rows, u, weights, source, counts
        As for :class:`~vardi._influence.Influence`.
    point : Point
        The likelihood at its maximum.
    """

    def __init__(
        self, rows: Rows, u: Floats, weights: Floats, source: Integers, counts: Floats | None, *, point: Point
    ) -> None:
        super().__init__(rows, u, weights, source, counts)
        self.point = point

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {name: value for name, value in super().__getstate__().items() if name not in ("through", "theta")}

    @cached_property
    def through(self) -> Floats:
        """q_i without what is the same for all rows of a sample, of shape (n, K + p)."""
        return np.column_stack([self.point.probabilities, self.point.scores])

    @cached_property
    def theta(self) -> Floats:
        """The influence of each row on the parameters, of shape (n, p)."""
        K, p = len(self.point.u), len(self.point.theta)
        unit = np.zeros((K + p, p))
        unit[K:] = np.eye(p)
        return -self.through @ self.solve_all(unit)

    def solve_all(self, a: Floats) -> Floats:
        """Return J^+ a for a of shape (K + p, m), sampled states and parameters."""
        ground = int(np.argmax(self.point.likelihood.sizes))
        free = np.delete(np.arange(len(a)), ground)
        b = np.zeros_like(a)
        b[free] = solve(self.point.information[np.ix_(free, free)], a[free])
        return b

    def carried(self, rg: Floats) -> Floats:
        """Return q_i'J^+a: what the rows move through normalisers and parameters."""
        counted = rg if self.strata.counts is None else rg * self.strata.counts[:, None]
        return self.through @ self.solve_all(self.point.means.T @ counted / self.n)

    def model_covariance(self, rg: Floats) -> Floats:
        """Return the stratified covariance: MBAR's form is for biases that are known."""
        return self.strata.covariance(rg + self.carried(rg))


class ParametricCdf(DebiasedCdf):
    """A debiased distribution function whose errors include those of the parameters."""

    _influence: ParametricInfluence

    def _covariance(self, grid: Floats, value: Floats) -> Floats:
        """Return the covariance of F at the grid."""
        influence, strata = self._influence, self._influence.strata
        r = influence.weights
        counts = np.ones(len(r)) if strata.counts is None else strata.counts
        cells = membership(np.searchsorted(grid, self._values), len(grid) + 1, None)
        weighted = influence.point.means * (r * counts / influence.n)[:, None]
        a = (np.cumsum(cells @ weighted, axis=0)[:-1] - value[:, None] * weighted.sum(axis=0)).T
        b = influence.solve_all(a)

        def block(rows: slice) -> Floats:
            return r[rows, None] * ((self._values[rows, None] <= grid) - value) + influence.through[rows] @ b

        return strata.covariance_of_blocks(block, len(r), len(grid))
