r"""The states that samples were drawn from: the solution already has their weights on rows.

Row i has weight :math:`t_{ik} = r_i\omega_k(z_i) / \Omega_k = (n / n_k)\,p_{ik}` under the state of sample k. So with G
the gram of the solution and :math:`D = \mathrm{diag}(n / n_k)`, sums of t over the rows are products of G and D, and
no n x K array is needed.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vardi._estimate.tangent import Influence, Tangent
from vardi._rows.contract import Block
from vardi._rows.measure import Functions
from vardi._rows.point import RowsAt
from vardi._types import Floats


class OwnStates:
    r"""The functions :math:`\omega_k / \Omega_k`, with mean 1, of a solution in which every bias has a sample.

    Parameters
    ----------
    tangent : Tangent
        The solution of known biases alone, for rows in memory.
    close : float
        Relative difference of sums of squares below which it has lost too many digits.
    """

    def __init__(self, tangent: Tangent, close: float = 1e-6) -> None:
        self.tangent, self.close = tangent, close
        self.factors = tangent.n / tangent.measure.rows.sizes

    @cached_property
    def _gram(self) -> Floats:
        return self.tangent.hessian.gram.array()

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        r"""The sums :math:`\sum_i c_i g_i g_i'` of g = t - r, and :math:`a = \sum_i c_i p_i g_i'`.

        If a bias is nearly constant, g is small and a difference of sums loses all its digits: g itself is summed.
        """
        measure, factors = self.tangent.measure, self.factors
        sums = measure.total(lambda block, at: (at.against(at.weight), block.gram(at.weight, at.weight)), 1)
        against, total = sums[0], float(sums[1][0, 0])
        own, across = factors[:, None] * self._gram * factors, factors * against[:, 0]
        squares = own - across[:, None] - across + total
        a = self._gram * factors - against
        close = np.flatnonzero(np.diag(squares) <= self.close * (np.diag(own) + total))
        if len(close):
            states = np.diag(factors)[:, close]

            def question(block: Block, at: RowsAt) -> tuple[Floats, Floats, Floats]:
                g = block.let(at.p @ states - at.weight)
                return at.against(g), block.sum(g * at.weight), block.gram(g, g)

            a[:, close], across_close, squares_close = measure.total(question, len(close))
            squares[:, close] = factors[:, None] * a[:, close] - across_close
            squares[close] = squares[:, close].T
            squares[np.ix_(close, close)] = squares_close
        return squares, a

    @cached_property
    def _b(self) -> Floats:
        """H^+ a: how the functions move with the normalisers."""
        return self.tangent.hessian.solve(self._sums[1])

    def covariance(self) -> Floats:
        r"""Return the covariance of the log normalisers, :math:`\sum_i \pi_i^2 g_i g_i' + a'H^+a / n`."""
        squares, a = self._sums
        return np.asarray((squares + a.T @ self._b) / self.tangent.n**2)

    def influence(self) -> Influence:
        r"""Return the influence on each :math:`\log\Omega_k`: :math:`\phi_i = t_i - r_i + b'p_i`."""
        own = np.diag(self.factors)
        functions = Functions((), len(own), lambda block, at: at.p @ own, weighed=True)
        return self.tangent.moved_by(functions, np.ones(len(own)), self._b)
