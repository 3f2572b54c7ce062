"""What is estimated, as a function of the probabilities of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vardi._rows.contract import Kept
from vardi._types import Floats


class Estimand(Protocol):
    r"""A number that the probabilities of the rows determine.

    It returns the number and for each row :math:`g_i`, with :math:`\sum_i \pi_i g_i = 0`, such that a change of the
    probabilities moves the number by :math:`\sum_i d\pi_i\,g_i`.
    """

    def __call__(self, pi: Floats) -> tuple[float, Floats]: ...


@dataclass(frozen=True)
class Mean:
    """The mean of a function, given in the language of the rows: g = f - mean."""

    function: Kept

    @property
    def values(self) -> Floats:
        """Its values on the rows, where these are in memory."""
        return np.asarray(self.function[:, 0])

    def __call__(self, pi: Floats) -> tuple[float, Floats]:
        """Return the mean and the deviations from it."""
        values = self.values
        mean = float(np.sum(pi * values))
        return mean, values - mean
