"""What crosses from rows to mathematics: K and K x K numbers, additive over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

#: ``sum_i c_i p_i p_i'``: a dense array, a SciPy sparse array, or (large K) the function v -> gram @ v.
Gram: TypeAlias = Any


@dataclass(frozen=True)
class Sums:
    r"""All that the estimator needs from the rows at a dual point u.

    With :math:`p_{ik} = e^{u_k}\omega_k(z_i) / \sum_l e^{u_l}\omega_l(z_i)` and :math:`c_i` the count of row i:

    Attributes
    ----------
    log_mass : float or None
        :math:`\sum_i c_i \log \sum_l e^{u_l}\omega_l(z_i)`, where it was asked for.
    shares : ndarray of shape (K,)
        :math:`\sum_i c_i p_i`: how many rows each sample should have had, were u right.
    gram : Gram or None
        :math:`\sum_i c_i p_i p_i'`, where it was asked for.
    """

    log_mass: float | None
    shares: Floats
    gram: Gram

    def __add__(self, other: Sums) -> Sums:
        gram = None if self.gram is None else self.gram + other.gram
        log_mass = None if self.log_mass is None or other.log_mass is None else self.log_mass + other.log_mass
        return Sums(log_mass, self.shares + other.shares, gram)
