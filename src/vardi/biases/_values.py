"""What users give along with their rows: arrays and series with one value for each row."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from vardi._types import Floats, Integers
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import first_of

if TYPE_CHECKING:
    import pandas as pd

Label = TypeVar("Label", bound=Hashable)


def as_array(values: object, what: str, wanted: str = "one value for each row") -> np.ndarray:
    """Return values as an array; raise for masks, which would be lost, and for rows of different lengths.

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
        raise MismatchError(f"{what} was given as a masked array, whose mask would be lost. Fill it, e.g. with NaN.")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise MismatchError(f"{what} has rows of different lengths. Give {wanted}.") from error


def as_numbers(values: np.ndarray) -> np.ndarray | None:
    """Return conditions as they are and numbers as float64; None for anything else, even texts of digits.

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


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN, or missing in pandas, which is not imported here."""
    if isinstance(value, numbers.Number | np.generic):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def coded(labels: np.ndarray) -> tuple[np.ndarray, list[Hashable]]:
    """Return a code for each label, in order of first appearance, and the distinct labels as Python objects.

    Numbers and texts are coded by pandas if it is already loaded, in a tenth of the time of a loop; missing floats are
    one label.

    Examples
    --------
    >>> import numpy as np
    >>> codes, labels = coded(np.array(["b", "a", "b"]))
    >>> codes.tolist(), labels
    ([0, 1, 0], ['b', 'a'])
    """
    pandas, kind = sys.modules.get("pandas"), labels.dtype.kind
    is_text = kind == "O" and pandas is not None and pandas.api.types.infer_dtype(labels, skipna=False) == "string"
    if pandas is not None and (is_text or (kind in "biufM" and labels.dtype.itemsize <= 8)):
        codes, distinct = pandas.factorize(labels.astype(np.float64) if kind == "f" else labels, use_na_sentinel=False)
        return codes.astype(np.int64, copy=False), distinct.tolist()
    if kind in "biufMU":
        distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        return number[inverse], distinct[order].tolist()
    return numbered(labels.tolist())


def numbered(labels: Iterable[Label]) -> tuple[Integers, list[Label]]:
    """Return a number for each label, in order of first appearance, and the distinct labels.

    >>> numbered([("N", 1), ("S", 1), ("N", 1)])
    (array([0, 1, 0]), [('N', 1), ('S', 1)])
    """
    position: dict[Label, int] = {}
    codes = np.array([position.setdefault(label, len(position)) for label in labels], np.int64)
    return codes, list(position)


def coded_together(pieces: Iterable[tuple[Integers, Sequence[Label]]]) -> tuple[Integers, list[Label]]:
    """Return the codes of pieces that have codes and labels of their own, and the distinct labels of all.

    >>> coded_together([coded(np.array(["b", "a"])), coded(np.array(["c", "b"]))])
    (array([0, 1, 2, 0]), ['b', 'a', 'c'])
    """
    parts = list(pieces)
    places, labels = numbered(label for _, own in parts for label in own)
    starts = np.cumsum([0, *(len(own) for _, own in parts)])
    return np.concatenate([places[start:][codes] for start, (codes, _) in zip(starts, parts, strict=False)]), labels


def read_only(values: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written to: a fit returns the arrays that it computes with."""
    view = values.view()
    view.flags.writeable = False
    return view


def once(n: int) -> Floats:
    """Return the counts of n rows that stand for one each: an array that takes no memory."""
    return np.broadcast_to(1.0, (n,))


def are_once(counts: Floats) -> bool:
    """Return whether rows stand for one each, for counts of ``once`` without a look at them."""
    return not counts.strides[0] or bool((counts == 1.0).all())


def index_of(values: object) -> pd.Index | None:
    """Return the index of a pandas-like frame or series; None for anything else."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") else None


def belongs_elsewhere(index: pd.Index, rows_index: pd.Index) -> bool:
    """Return whether the labels of values show that they belong to other rows than those in the same place.

    The labels 0, 1, 2, ... are the default of a new series and mean nothing, unless the rows have such labels
    themselves, each only once.

    Examples
    --------
    >>> import pandas as pd
    >>> belongs_elsewhere(pd.RangeIndex(3), pd.Index(["a", "b", "c"]))
    False
    >>> belongs_elsewhere(pd.RangeIndex(3), pd.Index([2, 0, 1]))
    True
    """
    if index.equals(rows_index):
        return False
    labels = np.asarray(index)
    if labels.dtype.kind not in "iu" or not np.array_equal(labels, np.arange(len(labels))):
        return True
    return getattr(rows_index, "nlevels", 1) == 1 and rows_index.is_unique and bool(rows_index.isin(index).any())


def require_columns(names: Sequence[str], present: Collection[str]) -> None:
    """Raise `MismatchError` for the first name that is not a column."""
    for name in names:
        if name not in present:
            shown = first_of(map(str, present))
            raise MismatchError(f"There is no column '{name}'. The columns are: {shown}.{suggest(name, present)}")
