"""The solution for the samples with known biases alone, as estimates over a pool that holds others as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from vardi._estimate.tangent import Influence, Tangent
from vardi._rows.reference import RowsOfReference
from vardi._types import Floats


class TangentOfReference(Tangent):
    """A map from functions on the rows of the pool to estimates by the known samples alone.

    Parameters
    ----------
    own : Tangent
        The solution of the known samples.
    measure : RowsOfReference
        Their rows among those of the pool.
    known : ndarray of shape (r of the pool, r of the reference)
        Covariance between the known values with an error in the two solutions, in standard deviations.
    """

    def __init__(self, own: Tangent, measure: RowsOfReference, known: Floats) -> None:
        super().__init__(measure, own.jacobian, own.hessian)
        self.known = known

    def moved_by(self, functions: Any, eta: Floats, b: Floats) -> Influence:
        """Return the influence of all rows of the pool, through the coordinates that both solutions have."""
        whole, own = self.measure.whole, self.measure.coordinates
        shared = np.zeros((len(whole.coordinates), b.shape[1]))
        shared[whole.coordinates.epsilon] = self.known @ b[own.epsilon]
        return Influence(whole, self.measure.influence(functions, eta, b), shared)
