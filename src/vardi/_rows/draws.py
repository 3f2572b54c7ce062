r"""Passes over dense rows that the draws of a bootstrap share: each has its own counts of the rows, and its own point.

Draws are never far from the fit, so a row's weight in one is its weight in the fit times
:math:`S_i(\hat u) / S_i(u_b)`, so nothing has to be scaled. The masses :math:`S_i(u_b)` of all draws are one
matrix product, and the sums over rows are another.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vardi._machine.threads import BLOCK, Scratch, sum_blocks
from vardi._rows.dense import Dense
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
    """

    def __init__(self, rows: Dense, u: Floats) -> None:
        self.rows, self.u = rows, u
        self.weights, self.shift = rows.weights(u)
        self._kept = self._gathered()

    def sums(self, us: Floats | None, counts: Floats, functions: Floats) -> tuple[Floats, Floats, Floats]:
        r"""Return shares (B, K), totals of the weights (B,), and of weights times functions (B, m), in one pass.

        Weights are 1 / S_i times the scale that gives those of the fit a mean of 1, whose log is ``shift``.

        Parameters
        ----------
        us : ndarray of shape (B, K) or None
            A dual point for each draw; None for that of the fit, at which all rows have their weights.
        counts : ndarray of shape (B, n)
            Counts of the rows in each draw.
        functions : ndarray of shape (n, m)
            Functions on the rows.
        """
        K, m, scratch = len(self.u), functions.shape[1], Scratch()
        moved = None if us is None else np.exp(us - self.u)

        def part(here: slice, P: Floats) -> Floats:
            r = counts[:, here]
            if moved is not None:
                masses = np.matmul(moved, P.T, out=_flat(scratch, (len(moved), len(P))))
                r = np.divide(r, masses, out=masses)
            found, w = np.empty((len(r), K + 1 + m)), self.weights[here]
            np.matmul(r, P, out=found[:, :K])
            np.matmul(r, w, out=found[:, K])
            if m:
                found[:, K + 1 :] = r @ (w[:, None] * functions[here])
            return found

        total = self._total(part, len(counts), scratch)
        return total[:, :K] if moved is None else total[:, :K] * moved, total[:, K], total[:, K + 1 :]

    def weights_at(self, us: Floats) -> Floats:
        """Return the weight of each row in each draw, of shape (B, n) and scaled as in ``sums``, in one pass."""
        moved, found = np.exp(us - self.u), np.empty((len(us), len(self.rows)))

        def part(here: slice, P: Floats) -> int:
            np.divide(self.weights[here], moved @ P.T, out=found[:, here])
            return 0

        self._total(part, len(us), Scratch())
        return found

    def _total(self, function: Callable[[slice, Floats], Result], draws: int, scratch: Scratch) -> Result:
        """Sum the results over all parts of a function of the place of the rows and their p at the fit."""
        kept = self._kept

        def parts(place: slice, P: Floats) -> Result:
            cut = _parts(len(P), P.shape[1] + 2 * draws)
            sums = (function(slice(place.start + one.start, place.start + one.stop), P[one]) for one in cut)
            return functools.reduce(operator.add, sums)

        if kept is not None:
            return sum_blocks(lambda place: parts(place, kept[place]), *kept.shape)
        return self.rows._total(lambda place, values: parts(place, self._p(place, values, scratch)))

    def _p(self, place: slice, values: NDArray[Any], scratch: Scratch) -> Floats:
        """Return p at the fit of a block of rows."""
        scaled = self.rows._scale(self.u)
        step = np.exp(self.u - scaled.anchor)
        A = self.rows._block(scaled, place, values, scratch)
        r = 1.0 / (A @ step)
        P = np.multiply(A, r[:, None], out=scratch("A", A.shape))  # in place if A is already scratch memory
        P *= step
        return P

    def _gathered(self) -> Floats | None:
        """Return p at the fit of all rows, if that is not large: then no pass takes exps or rereads rows."""
        rows, scratch = self.rows, Scratch()
        if len(rows) * len(self.u) > KEPT_NUMBERS:
            return None
        kept = np.empty((len(rows), len(self.u)))

        def block(place: slice, values: NDArray[Any]) -> None:
            kept[place] = self._p(place, values, scratch)

        for _ in rows._each(block):
            pass
        return kept


def _parts(n: int, width: int) -> list[slice]:
    """Split a block into parts so that what all draws write for one part stays in the cache."""
    step = max(BLOCK // 2 // width, 64)
    return [slice(low, min(low + step, n)) for low in range(0, n, step)]


def _flat(scratch: Scratch, shape: tuple[int, int]) -> Floats:
    """Return contiguous scratch memory of any shape."""
    return scratch("masses", (shape[0] * shape[1],)).reshape(shape)
