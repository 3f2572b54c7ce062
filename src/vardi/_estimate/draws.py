"""Positions of rows, drawn by their probability."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Literal, TypeAlias, get_args

import numpy as np

from vardi._types import Floats, Integers
from vardi.errors import MismatchError

Method: TypeAlias = Literal["multinomial", "systematic"]
Random: TypeAlias = np.random.Generator | np.random.RandomState


def draw(
    probabilities: Floats, size: float | None, rng: Random, *, replace: bool = True, method: Method = "multinomial"
) -> Integers:
    """Return positions drawn by probability; size and method are as in :class:`DebiasedResampler`.

    Examples
    --------
    >>> import numpy as np
    >>> from vardi._estimate.draws import draw
    >>> draw(np.array([0.5, 0.3, 0.2]), 10, np.random.default_rng(0), method="systematic")
    array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    """
    if method not in get_args(Method):
        raise MismatchError(f"The method is {method!r}. Give 'multinomial' or 'systematic'.")
    most = math.floor(1.0 / probabilities.max() + 1e-9)
    size = rows_to_draw(size, len(probabilities), len(probabilities) if replace else most)
    if replace and method == "multinomial":
        return rng.choice(len(probabilities), size=size, p=probabilities)
    if replace:
        return _systematic(probabilities, size, rng)
    if size > most:
        raise MismatchError(
            f"{size} rows cannot be drawn without replacement: the row of largest weight would have to be drawn more "
            f"than once for the draw to be unbiased. Draw at most {most} rows, or with replacement."
        )
    order = rng.permutation(len(probabilities)) if method == "multinomial" else np.arange(len(probabilities))
    while True:  # rounding of the cumulated probabilities may, very rarely, hit a row of probability 1 / size twice
        drawn = _systematic(probabilities[order], size, rng)
        if (np.diff(drawn) > 0).all():
            return order[drawn]


def _systematic(probabilities: Floats, size: int, rng: Random) -> Integers:
    ends = np.cumsum(probabilities)
    points = (np.arange(size) + rng.random()) / size
    return np.searchsorted(ends / ends[-1], np.minimum(points, np.nextafter(1.0, 0.0)), side="right")


def rows_to_draw(size: object, n: int, default: int) -> int:
    """Return how many rows to draw for a size: a number, a share of n, or None for the default."""
    if size is None:
        return default
    rows = 0
    if not isinstance(size, bool) and isinstance(size, Integral):
        rows = int(size)
    elif isinstance(size, Real) and not isinstance(size, Integral) and math.isfinite(size):
        rows = round(float(size) * n)
    if rows < 1:
        raise MismatchError(
            f"size is {size!r}, which is not a number of rows to draw. Give an integer (rows), a float (share of "
            f"the {n} rows) that amounts to one row or more, or None."
        )
    return rows
