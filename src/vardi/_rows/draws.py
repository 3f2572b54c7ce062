r"""Passes over dense rows that the draws of a bootstrap share: each has its own counts of the rows, and its own point.

Draws are never far from the fit, so a row's weight in one is its weight in the fit times
:math:`S_i(\hat u) / S_i(u_b)`, so nothing has to be scaled. The masses :math:`S_i(u_b)` of all draws are one
matrix product, and the sums over rows are another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from vardi._machine import Scratch, sum_blocks
from vardi._rows.arrays import ArrayBlock
from vardi._rows.dense import Dense, DenseProbabilities
from vardi._types import Floats

Result = TypeVar("Result")

KEPT_NUMBERS = 2**25  # numbers up to which p at the fit is kept for all rows: 256 MB


class SharedPasses:
    """Dense rows at a solution, for many draws at once.

    Parameters
    ----------
    rows : Dense
        The rows, in memory or read in blocks; every sample has some.
    u : ndarray
        The solution of the fit.
    functions : ndarray of shape (n, m)
        Functions on the rows, whose weighted sums are asked for.

    Attributes
    ----------
    weights : ndarray of shape (n,)
        1 / S_i at the fit, scaled to a mean of 1.
    shift : float
        The log of that scale.
    """

    def __init__(self, rows: Dense, u: Floats, functions: Floats) -> None:
        self.rows, self.u, self.functions = rows, u, functions
        self.weights, self.shift = rows.weights(u)
        self._p_at_fit = self._gathered()

    def at(self, us: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """Return shares (B, K), and the sums of the weights and of weights times functions (B, 1 + m), in one pass.

        Weights are 1 / S_i times the scale that gives those of the fit a mean of 1.

        Parameters
        ----------
        us : ndarray of shape (B, K)
            A dual point for each draw.
        counts : ndarray of shape (B, n)
            Counts of the rows in each draw.
        """
        moved, scratch = np.exp(us - self.u), Scratch()
        at_fit = bool((moved == 1.0).all())  # where all masses are 1

        def part(here: slice, P: Floats) -> Floats:
            r = counts[:, here]
            if not at_fit:
                masses = np.matmul(moved, P.T, out=_flat(scratch, (len(moved), len(P))))
                r = np.divide(r, masses, out=masses)
            return np.hstack([r @ P, r @ self._weighted(here)])

        total = self._total(part, len(counts))
        K = len(self.u)
        return total[:, :K] * moved, total[:, K:]

    def _weighted(self, here: slice) -> Floats:
        """Return weights, and weights times functions, of some rows."""
        w = self.weights[here, None]
        return np.hstack([w, w * self.functions[here]]) if self.functions.shape[1] else w

    def weights_at(self, us: Floats) -> Floats:
        """Return the weight of each row in each draw, of shape (B, n) and scaled as in ``sums``, in one pass."""
        moved, found = np.exp(us - self.u), np.empty((len(us), len(self.rows)))

        def part(here: slice, P: Floats) -> int:
            np.divide(self.weights[here], moved @ P.T, out=found[:, here])
            return 0

        self._total(part, len(us))
        return found

    def _total(self, function: Callable[[slice, Floats], Result], draws: int) -> Result:
        """Sum the results over all blocks of a function of the place of the rows and their p at the fit.

        What that many draws write for the rows of a block stays in the cache.
        """
        gathered = self._p_at_fit
        if gathered is None:
            return self.rows.arrays.total(lambda block: function(block.place, self._p(block)))
        return sum_blocks(lambda place: function(place, gathered[place]), len(gathered), max(draws, len(self.u)))

    def _p(self, block: ArrayBlock) -> Floats:
        """Return p at the fit of a block of rows."""
        p = block.normalised(self.u, {}).p
        assert isinstance(p, DenseProbabilities)
        return p.array()

    def _gathered(self) -> Floats | None:
        """Return p at the fit of all rows, if that is not large: then no pass takes exps or rereads rows."""
        K = len(self.u)
        if len(self.rows) * K > KEPT_NUMBERS:
            return None
        found = np.empty((len(self.rows), K))

        def fill(block: ArrayBlock) -> None:
            found[block.place] = self._p(block)

        for _ in self.rows.arrays.each(fill):
            pass
        return found


def _flat(scratch: Scratch, shape: tuple[int, int]) -> Floats:
    """Return contiguous scratch memory of any shape."""
    return scratch("masses", (shape[0] * shape[1],)).reshape(shape)
