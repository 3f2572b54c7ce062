"""What is estimated, as a function of the probabilities of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vardi._sums import Floats


class Target(Protocol):
    r"""A number that the probabilities of the rows determine.

    It returns the number and for each row :math:`g_i`, with :math:`\sum_i \pi_i g_i = 0`, such that a change of the
    probabilities moves the number by :math:`\sum_i d\pi_i\,g_i`.
    """

    def __call__(self, pi: Floats) -> tuple[float, Floats]: ...


@dataclass(frozen=True)
class Mean:
    """The mean of a function, given by its values on the rows: g = f - mean."""

    values: Floats

    def __call__(self, pi: Floats) -> tuple[float, Floats]:
        """Return the mean and the deviations from it."""
        mean = float(np.sum(pi * self.values))
        return mean, self.values - mean
