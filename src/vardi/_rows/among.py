r"""The rows of some samples at the solution for all: the basis for estimates of columns that the others lack.

The samples in A recorded a column. Normalisers and parameters are those of all samples; with
:math:`S^A_i = \sum_{l \in A} e^{u_l}\omega_l(z_i;\theta)`, the rows of A alone have weights and coordinates

.. math::

    r^A_i \propto \frac{1\{i \in A\}}{S^A_i},\qquad
    x^A_i = \Bigl(p^A_i,\ \sum_{l \in A} p^A_{il} t_{il},\ 0\Bigr),\qquad
    p^A_{il} = \frac{e^{u_l}\omega_l(z_i;\theta)\,1\{l \in A\}}{S^A_i},

while every row of the pool moves the point: :math:`\phi_i = r^A_i (f_i - \eta) + q_i'b`. Since
:math:`S^A_i = S_i \sum_{l \in A} p_{il}`, all of it follows from the rows at the solution for all samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._rows.contract import Evenness, Means
from vardi._rows.weighted import Weighed, WeightedRows
from vardi._types import Floats


class RowsAmong(WeightedRows):
    """The rows of some samples, with weights of mean 1 over the pool, and 0 on the rows of the others.

    Parameters
    ----------
    whole : WeightedRows
        The rows of all samples at the solution.
    states : sequence of int
        The places of the samples.
    names : tuple of str
        Their names.
    """

    inside: NDArray[np.bool_]

    def __init__(self, whole: WeightedRows, states: Sequence[int], names: tuple[str, ...]) -> None:
        rows = whole.rows
        chosen = np.zeros((len(rows.coordinates), 1))
        chosen[list(states)] = 1.0
        self._share: Floats = rows.mix(whole.v, chosen)[:, 0]  # S^A / S
        mine = np.isin(rows.source, states)
        self.row_weights = np.divide(whole.row_weights, self._share, out=np.zeros(len(rows)), where=mine)
        counts = rows.counts
        self.scale = float(counts.sum() / (counts @ self.row_weights))
        self.row_weights *= self.scale
        self.rows, self.v, self.sizes, self.n, self.strata = rows, whole.v, whole.sizes, whole.n, whole.strata
        self.inside = np.isin(whole.source, states)
        self.states, self.recorded_by, self._pool = list(states), names, whole

    @property
    def whole(self) -> WeightedRows:
        """The rows of all samples, on which influence values are defined."""
        return self._pool

    @property
    def uncovered(self) -> NDArray[np.bool_]:
        """Which rows, in the form in which they were solved, none of the samples could have drawn."""
        return self._share <= 0.0

    def project(self, y: Floats) -> Floats:
        """Return sum_i c_i y_i x^A_i for y of shape (n, m) over the pool, zero outside A."""
        gathered = self._gathered(y) / np.where(self.uncovered, 1.0, self._share)[:, None]
        found = np.zeros((len(self.coordinates), y.shape[1]))
        found[self.states] = self.rows.project(self.v, gathered)[self.states]
        counted = gathered * self.rows.counts[:, None]
        for place, seen in self._moved():
            found[place] = seen.T @ counted
        return found

    def against(self, functions: Floats | Weighed, eta: Floats) -> Floats:
        """Return a = sum_i c_i r^A_i (f_i - eta) x^A_i, of shape (d, m)."""
        return self.project(self._less(functions, eta))

    def seen(self) -> tuple[Floats, Floats]:
        """Return x^A_i and q_i of every row of the pool, of shape (n, d)."""
        x, q = self.rows.seen(self.v)
        mine = np.zeros(x.shape)
        mine[:, self.states] = x[:, self.states]
        for place, seen in self._moved():
            mine[:, place] = seen
        mine /= np.where(self.uncovered, 1.0, self._share)[:, None]
        return self.rows.spread(mine), self.rows.spread(q)

    def entries(self) -> Any:
        """Return None: x^A_i is not q_i."""
        return None

    def _moved(self) -> list[tuple[slice, Floats]]:
        """Return p_ik t_ik of each bias of A with parameters, by the place of these in a point."""
        start, found = self.coordinates.theta.start, []
        for k, t in self.rows.gradients(self.v).items():
            if k in self.states:
                unit = np.zeros((len(self.coordinates), 1))
                unit[k] = 1.0
                place = self.rows.places[k]
                found.append((slice(start + place.start, start + place.stop), self.rows.mix(self.v, unit) * t))
        return found

    def means(self, functions: Floats) -> Means:
        """Return eta, and whether functions are shares, of the rows of A."""
        found = super().means(np.where(self.inside[:, None], functions, 0.0))
        return Means(found.mean, found.strays, found.events, float(self.counts @ self.inside))

    def range(self, functions: Floats, j: int) -> tuple[float, float]:
        """Return the smallest and the largest value of a function on the rows of A."""
        return super().range(functions[self.inside], j)

    def among(self, holds: NDArray[np.bool_], base: NDArray[np.bool_]) -> tuple[float, float, Evenness] | None:
        """Return how many rows of A in a base meet a condition and how many do not, and the weights of the base."""
        return super().among(holds & self.inside, base & self.inside)

    def mean(self, functions: Floats | Weighed) -> Floats:
        """Return eta for functions of rows."""
        assert not isinstance(functions, Weighed)  # tilts are functions of the biases, which all samples have
        return super().mean(functions)
