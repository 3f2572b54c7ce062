"""Whatever a user gives as a bias, as a `Bias`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from vardi.biases._kinds import Bias, FrameExpressionBias, FunctionBias, ValuesBias, library_of, number
from vardi.biases._known import where
from vardi.biases._values import as_array, as_numbers
from vardi.errors import InvalidBiasError

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl

    BiasLike = Bias | str | float | np.number | np.bool | pl.Expr | nw.Expr | Callable[[Any], ArrayLike] | ArrayLike
    """Anything that can be given as a bias."""


def as_bias(obj: BiasLike) -> Bias:
    """Return what a user gives as a bias as a `Bias`.

    Parameters
    ----------
    obj : number, str, Bias, expression, callable or array
        The same everywhere; an expression as text; a bias, which is returned; a Polars or narwhals expression; a
        function of the rows; or values, one for each row of the pool.

    Examples
    --------
    >>> from vardi.biases import as_bias
    >>> as_bias("price <= 22")
    where('price <= 22')
    >>> as_bias(1)
    everywhere()
    >>> as_bias([0.5, 1.0, 2.0])
    <array of 3 values>
    >>> import polars as pl
    >>> as_bias(pl.col("price") <= 22).columns
    ('price',)
    """
    if isinstance(obj, Bias):
        return obj
    if isinstance(obj, str):
        return where(obj)
    if isinstance(obj, bool | int | float | np.bool | np.number):
        return number(obj)
    if library_of(obj) is not None:
        return FrameExpressionBias(obj)
    if callable(obj):
        return FunctionBias(obj)
    if isinstance(obj, list | tuple | np.ndarray) or hasattr(obj, "__array__"):
        return ValuesBias(_values(obj))
    raise InvalidBiasError(
        f"A bias cannot be a {type(obj).__name__}. Give a number, an expression as text, a Bias, a Polars or "
        "narwhals expression, a function of the rows, or an array of values for the pool."
    )


def _values(obj: object) -> np.ndarray:
    values = as_array(obj, "A bias")
    if values.ndim != 1:
        raise InvalidBiasError(
            f"The values of a bias must be one-dimensional, but these have {values.ndim} dimensions."
        )
    numbers = as_numbers(values)
    if numbers is None:
        raise InvalidBiasError(f"The values of a bias must be numbers, but these are {values.dtype}.")
    return numbers
