r"""The states that samples were drawn from: their weights on rows are the shares that the solution has already.

Row i has weight :math:`t_{ik} = r_i\omega_k(z_i) / \Omega_k = (n / n_k)\,p_{ik}` under the state of sample k. So with G
the gram of the solution and :math:`D = \mathrm{diag}(n / n_k)`, sums of t over the rows are products of G and D, and no
number for each row and state is needed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from vardi._estimate.tangent import Influence, Tangent
from vardi._types import Floats


class OwnStates:
    r"""The functions :math:`\omega_k / \Omega_k`, with mean 1, of a solution in which every bias has a sample.

    Parameters
    ----------
    tangent : Tangent
        The solution of known biases alone, for rows in memory.
    """

    def __init__(self, tangent: Tangent) -> None:
        self.tangent = tangent
        self.factors = tangent.n / tangent.rows.sizes

    @cached_property
    def _gram(self) -> Floats:
        gram: Any = self.tangent.sums.gram
        return gram.toarray() if sparse.issparse(gram) else gram

    @cached_property
    def _against_weights(self) -> Floats:
        """sum_i c_i r_i p_i."""
        return np.asarray(self.tangent.rows.project(self.tangent.u, self.tangent.row_weights))

    @cached_property
    def _moved(self) -> tuple[Floats, Floats]:
        r"""What the functions are against the shares, :math:`a = \sum_i c_i p_i (t_i - r_i)'`, and b = H^+ a."""
        a = self._gram * self.factors - self._against_weights[:, None]
        return a, self.tangent.hessian.solve(a)

    def covariance(self) -> Floats:
        r"""Return that of the log normalisers, :math:`\sum_i \pi_i^2 g_i g_i' + a'H^+a / n`."""
        rows, r, across = self.tangent.rows, self.tangent.row_weights, self.factors * self._against_weights
        total = float(r @ (r if rows.counts is None else r * rows.counts))
        squares = self.factors[:, None] * self._gram * self.factors - across[:, None] - across + total
        a, b = self._moved
        return np.asarray((squares + a.T @ b) / self.tangent.n**2)

    def influence(self) -> Influence:
        r"""Return that on each :math:`\log\Omega_k`: :math:`\phi_i = t_i - r_i + b'p_i`, a mean under p less r."""
        b, measure = self._moved[1], self.tangent.measure
        values = measure.mix(np.diag(self.factors) + b)
        values -= measure.weights[:, None]
        return Influence(measure.whole, values, b, approximate=self.tangent.approximate)
