r"""The rows of some samples at their own solution, expressed on the larger pool that contains them.

Beside learned biases, the samples whose biases are known have their own weights, coordinates and Jacobian, which depend
on nothing that was learned. Here their functions and influence values are extended to all rows of the pool, 0 on the
rows of other samples, and scaled to its n, so that they add up with those of any other estimate of the pool.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vardi._machine.threads import sum_blocks
from vardi._rows.among import RowsAmong
from vardi._rows.weighted import WeightedRows
from vardi._types import Floats


class RowsOfReference(RowsAmong):
    """Rows of the reference, with weights of mean 1 over the pool, and 0 on the rows of other samples.

    Parameters
    ----------
    own : WeightedRows
        The rows of the reference at their solution.
    whole : WeightedRows
        The rows of the pool.
    inside : ndarray of bool
        Which of these belong to the reference.
    names : tuple of str
        Names of the samples with weights.
    """

    def __init__(
        self, own: WeightedRows, whole: WeightedRows, inside: NDArray[np.bool_], names: tuple[str, ...]
    ) -> None:
        self.rows, self.v, self.row_weights = own.rows, own.v, own.row_weights
        self.sizes, self.n, self.strata = whole.sizes, whole.n, whole.strata
        self._own, self._pool, self._part, self.recorded_by = own, whole, inside, names
        self.scale = whole.n / own.n
        self.inside = inside.copy()
        self.inside[inside] = True if own.inside is None else own.inside

    @property
    def uncovered(self) -> NDArray[np.bool_]:
        """No row: a reference that does not cover the pool is refused before anything is learned from it."""
        return np.zeros(len(self.rows), bool)

    @property
    def weights(self) -> Floats:
        """Weight of each row of the pool."""
        return self._placed(self._own.weights * self.scale)

    def project(self, y: Floats) -> Floats:
        """Return sum_i c_i y_i x_i over the reference, in its own coordinates, for y of shape (n, m) over the pool."""
        return self._own.project(y[self._part])

    def mix(self, b: Floats) -> Floats:
        """Return q_i'b for every row of the pool, 0 outside the reference."""
        return self._placed(self._own.mix(b))

    def sum_mix(self, b: Floats, function: Callable[[slice, Floats], Floats]) -> Floats:
        """Sum a function of the place of rows of the pool and (q_i'b)' there over all of them."""
        mixed = self.mix(b)
        return sum_blocks(lambda rows: function(rows, mixed[rows].T), len(mixed), b.shape[1])

    def _add_mix(self, b: Floats, onto: Floats) -> None:
        """Add q_i'b to numbers of every row of the pool."""
        onto += self.mix(b)

    def seen(self) -> tuple[Floats, Floats]:
        """Return x_i and q_i of every row of the pool, in the coordinates of the reference."""
        x, q = self._own.seen()
        return self._placed(x), self._placed(q)

    def _placed(self, values: Floats) -> Floats:
        found = np.zeros((len(self._part), *values.shape[1:]))
        found[self._part] = values
        return found
