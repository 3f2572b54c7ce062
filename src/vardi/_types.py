"""Arrays and seeds as the package names them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[Any]
"""Numbers of any type, as they were given."""

RandomSeed: TypeAlias = int | np.random.Generator | None
"""What draws are repeated by; None for new ones."""


def once(n: int) -> Floats:
    """Return the counts of n rows that stand for one each: an array that takes no memory."""
    return np.broadcast_to(1.0, (n,))


def are_once(counts: Floats) -> bool:
    """Return whether rows stand for one each, for counts of ``once`` without a look at them."""
    return not counts.strides[0] or bool((counts == 1.0).all())
