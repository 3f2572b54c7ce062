"""What users give beside their rows: arrays and series with one value for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from vardi.errors import MismatchError


def as_array(values: Any, what: str, wanted: str = "one value for each row") -> np.ndarray:
    """Return values as an array, or refuse masks, which would be lost, and rows of different lengths.

    Examples
    --------
    >>> import numpy as np
    >>> as_array([1, 2], "counts")
    array([1, 2])
    >>> as_array(np.ma.masked_all(3), "counts")
    Traceback (most recent call last):
    ...
    vardi.errors.MismatchError: counts was given as a masked array, whose mask would be lost. Fill it, e.g. with NaN.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise MismatchError(
            f"{what} was given as a masked array, whose mask would be lost. Fill it, e.g. with NaN.",
            expected=("array",),
            got=("masked array",),
        )
    try:
        return np.asarray(values)
    except ValueError as error:
        raise MismatchError(
            f"{what} has rows of different lengths. Give {wanted}.",
            expected=("array",),
            got=(type(values).__name__,),
        ) from error


def as_numbers(values: np.ndarray) -> np.ndarray | None:
    """Return conditions as they are and numbers as float64; None for anything else, such as a text that looks like one.

    Examples
    --------
    >>> import numpy as np
    >>> as_numbers(np.array([1, 2]))
    array([1., 2.])
    >>> as_numbers(np.array(["1", "2"])) is None
    True
    """
    if values.dtype.kind == "b":
        return values
    if values.dtype.kind not in "fiuO":
        return None
    if values.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in values.flat):
        return None
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN, or missing in pandas."""
    return value is None or type(value).__name__ == "NAType" or value != value


def read_only(values: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written to: what a fit hands out is what it computes with."""
    view = values.view()
    view.flags.writeable = False
    return view


def index_of(values: Any) -> Any | None:
    """Return the index of a pandas-like frame or series; None for anything else."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") else None


def belongs_elsewhere(index: Any, own: Any) -> bool:
    """Tell whether the labels of values say that they belong to other rows than those in the same place.

    The labels 0, 1, 2, ... are those of a new series and say nothing, unless the rows have such labels themselves and
    each only once.

    Examples
    --------
    >>> import pandas as pd
    >>> belongs_elsewhere(pd.RangeIndex(3), pd.Index(["a", "b", "c"]))
    False
    >>> belongs_elsewhere(pd.RangeIndex(3), pd.Index([2, 0, 1]))
    True
    """
    if index.equals(own):
        return False
    labels = np.asarray(index)
    if labels.dtype.kind not in "iu" or not np.array_equal(labels, np.arange(len(labels))):
        return True
    return getattr(own, "nlevels", 1) == 1 and own.is_unique and bool(own.isin(index).any())
