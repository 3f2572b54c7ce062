"""Which rows of a pool a fit rests on: those that count, of the samples that were not left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vardi._types import Integers


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows of a pool that a fit rests on.

    Attributes
    ----------
    mask : ndarray of bool
        Which rows these are.
    is_all : bool
        Whether these are all rows; then nothing is copied.
    """

    mask: NDArray[np.bool_]
    is_all: bool

    @classmethod
    def where(cls, mask: NDArray[np.bool_]) -> KeptRows:
        """Return the rows that a mask marks."""
        is_all = bool(mask.all())
        return cls(np.broadcast_to(np.True_, mask.shape) if is_all else mask, is_all)

    @property
    def positions(self) -> Integers:
        """The position in the pool of each row in the fit."""
        return np.flatnonzero(self.mask)

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return values of the rows in the fit, given those of all rows."""
        return values if self.is_all else values[self.mask]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values for all rows of the pool, given those of the rows in the fit, with 0 on the others."""
        if self.is_all:
            return values
        spread = np.zeros((len(self.mask), *values.shape[1:]), values.dtype)
        spread[self.mask] = values
        return spread
