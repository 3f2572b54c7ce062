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
