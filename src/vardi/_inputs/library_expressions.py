"""Expressions of Polars and narwhals on rows in memory.

Missing values must not count as false, and libraries differ: in pandas NaN <= 3 is false, in Polars NaN >= 3 is true,
and all of them propagate nulls. So a value is unknown if it is null, or if a column it reads is NaN in a library that
has nulls as well. pandas uses NaN for null, so its columns are made nullable first.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

import vardi._narwhals as nw
from vardi.biases import Bias, FrameExpressionBias
from vardi.biases._compile import NarwhalsTarget, Operand
from vardi.biases._values import is_missing
from vardi.errors import InvalidBiasError, MismatchError, MissingValuesError, number_of_rows
from vardi.errors._texts import first_of, lines_of

Eager: TypeAlias = "nw.DataFrame[Any]"
"""An eager frame of any library."""
Series: TypeAlias = "nw.Series[Any]"
Lazy: TypeAlias = "nw.LazyFrame[Any]"
Rows: TypeAlias = "Eager | Lazy"
AnyRows = TypeVar("AnyRows", "nw.DataFrame[Any]", "nw.LazyFrame[Any]")
EagerLibrary = Literal["polars", "pandas", "pyarrow"]
EAGER: tuple[EagerLibrary, ...] = ("polars", "pandas", "pyarrow")


class EagerTarget(NarwhalsTarget):
    """An eager frame of any library, which computes what was compiled for it."""

    def __init__(self, data: Eager) -> None:
        super().__init__(data.schema)
        self._data = data

    def missing(self, names: Sequence[str]) -> dict[str, int]:
        """Return those of some columns that have missing values, with their number."""
        counts = self.compute([self.is_missing(name).sum() for name in names])
        return {name: int(count[0]) for name, count in zip(names, counts, strict=True) if count[0]}

    def compute(self, values: Sequence[Operand]) -> list[np.ndarray]:
        """Return the values, with one select."""
        columns = [nw.lit(value) if isinstance(value, float) else value for value in values]
        frame = self._data.select(*(column.alias(str(place)) for place, column in enumerate(columns)))
        return [frame.get_column(name).to_numpy() for name in frame.columns]


def evaluate_expression(bias: FrameExpressionBias, rows: Eager, sample: str | None) -> np.ndarray:
    """Return the values of an expression: bool for a condition, otherwise float64.

    Raises
    ------
    MissingValuesError
        If a value is unknown.
    MismatchError
        If the library cannot compute it on these rows, or the result is not a number for each row.
    InvalidBiasError
        If the value of a row depends on other rows.
    """
    n = len(rows)
    read = columns_read(bias, rows)
    data = _of_library(bias, rows.select(*read) if read else rows, sample)
    result = computed(bias, data, sample)
    if not read and len(result) == n > 1:  # a pattern of columns, which may read any of them
        read = tuple(data.columns)
    if len(result) not in (1, n):
        raise MismatchError(
            f"The expression {bias}{of_sample(sample)} gives {number_of_rows(len(result))} for {n}. Give one that has "
            "a value for each row."
        )
    missing = EagerTarget(data).missing(read)
    if missing and data.implementation.is_pandas():
        data = _nullable(data)
        result = computed(bias, data, sample)
    if missing or not data.implementation.is_pandas_like():  # there, a computed NaN looks like a null
        lost = data.select(lost=reduce(or_, lost_values(data, list(missing)), nw.lit(False))).get_column("lost")
        unknown = int(np.count_nonzero(result.is_null().to_numpy() | lost.to_numpy()))
        if unknown:
            raise unknown_expression(bias, unknown, missing, sample)
    numbers = np.asarray(result.cast(nw.Float64).to_numpy(), np.float64)
    require_by_row(bias, data, numbers, sample)
    values: np.ndarray = numbers.astype(bool) if result.dtype == nw.Boolean else numbers
    return values if len(values) == n else np.full(n, values[0])


def computed(bias: FrameExpressionBias, rows: Eager, sample: str | None) -> Series:
    """Return the result of an expression; raise if it is not a column of numbers or truth values."""
    result = selected(bias, rows, sample)
    assert isinstance(result, nw.DataFrame)
    return result.get_column(result.columns[0])


def selected(bias: FrameExpressionBias, rows: Rows, sample: str | None) -> Rows:
    """Return an expression alone, of frames in memory computed; raise if it is no column of numbers or truth values."""
    try:
        with np.errstate(all="ignore"):
            result = in_library(bias, rows, lambda frame: frame.select(bias.expression))
        schema = result.collect_schema()
    except Exception as error:
        raise not_computed(bias, error, rows.collect_schema().names(), sample) from error
    if len(schema) != 1:
        raise MismatchError(
            f"The expression {bias}{of_sample(sample)} gives {len(schema)} columns. Give one that has one value for "
            "each row."
        )
    dtype = next(iter(schema.values()))
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise MismatchError(
            f"The expression {bias}{of_sample(sample)} gives {dtype}, but a number or a condition is needed. Compare "
            "it with something."
        )
    return result


def in_library(bias: FrameExpressionBias, rows: Rows, change: Callable[[Any], Any]) -> Rows:
    """Return rows with a change made in the library of an expression."""
    return nw.from_native(change(rows.to_native())) if bias.library == "Polars" else change(rows)


def not_computed(
    bias: FrameExpressionBias, error: Exception, columns: Sequence[str], sample: str | None
) -> MismatchError:
    """Return the error for an expression that a library cannot compute."""
    reason = lines_of(error)[0].rstrip(".")
    return MismatchError(
        f"The expression {bias} cannot be computed{of_sample(sample)} ({type(error).__name__}: {reason}). The columns "
        f"are: {first_of(columns)}."
    )


def unknown_expression(bias: Bias, count: int, missing: Mapping[str, int], sample: str | None) -> MissingValuesError:
    """Return the error for an expression that has no value on some rows."""
    counted = ", ".join(f"{name!r} ({number})" for name, number in missing.items())
    reason = f"since there are missing values in {counted}" if counted else "since its result is null there"
    return MissingValuesError(
        f"The expression {bias}{of_sample(sample)} is unknown on {number_of_rows(count)}, {reason}. A missing value is "
        "neither true nor false, and libraries differ on NaN. Fill or drop these rows; or turn NaN into null, and "
        "handle null in the expression, e.g. with fill_null.",
        columns=dict(missing),
    )


def columns_read(bias: FrameExpressionBias, rows: Rows) -> tuple[str, ...]:
    """Return the columns without which an expression cannot be computed, in the order of the frame.

    Polars lists them. For narwhals, halves of the columns of an empty frame are left out in turn; a pattern of columns,
    which matches whatever is there, reads none in this sense.
    """
    names = rows.collect_schema().names()
    if bias.library == "Polars":
        return tuple(name for name in names if name in bias.columns) if set(bias.columns) <= set(names) else ()
    empty = rows.head(0)
    return tuple(_needed(bias, empty, names, names)) if _works(bias, empty, names) else ()


def _needed(bias: FrameExpressionBias, empty: Rows, names: Sequence[str], among: Sequence[str]) -> list[str]:
    if not among or _works(bias, empty, [name for name in names if name not in among]):
        return []
    if len(among) == 1:
        return list(among)
    half = len(among) // 2
    return [*_needed(bias, empty, names, among[:half]), *_needed(bias, empty, names, among[half:])]


def _works(bias: FrameExpressionBias, empty: Rows, names: Sequence[str]) -> bool:
    """Return whether an expression of narwhals can be computed on a frame that has only these columns."""
    try:
        empty.select(*names).select(bias.expression).collect_schema()
    except Exception:  # each library has its own error for a missing column
        return False
    return True


def require_by_row(bias: FrameExpressionBias, rows: Eager, values: NDArray[np.float64], sample: str | None) -> None:
    """Refuse an expression whose value on a row depends on other rows: a bias is a function of the row.

    It is computed once more on single rows: those with the least and the greatest value, the first and the last.
    """
    n = len(rows)
    together = np.broadcast_to(values, n)
    for place in {0, n - 1, int(np.argmin(together)), int(np.argmax(together))} if n > 1 else ():
        alone = computed(bias, rows[place : place + 1], sample).cast(nw.Float64).to_list()
        number = np.nan if len(alone) != 1 or is_missing(alone[0]) else float(alone[0])
        if not np.isclose(number, together[place], rtol=1e-9, atol=0.0, equal_nan=True):
            raise InvalidBiasError(
                f"The expression {bias}{of_sample(sample)} is {number:g} on row {place} alone and {together[place]:g} "
                "among the others, so it depends on which rows are present. A bias, like anything whose mean is taken, "
                "is a function of the row alone: compute means, ranks and differences between rows first, and insert "
                "the numbers.",
                sample=sample or "",
                rows=(place,),
            )


def _of_library(bias: FrameExpressionBias, rows: Eager, sample: str | None) -> Eager:
    """Return rows as a frame of Polars if the expression is one of Polars; NaN of pandas becomes null."""
    if bias.library != "Polars" or rows.implementation.is_polars():
        return rows
    try:
        return nw.from_native(rows.to_polars(), eager_only=True)
    except Exception as error:
        raise not_computed(bias, error, rows.columns, sample) from error


def _nullable(rows: Eager) -> Eager:
    """Return pandas columns of numbers and texts in dtypes with nulls, which comparisons propagate."""
    native = rows.to_native()
    kinds = {name: "Float64" for name, dtype in rows.schema.items() if dtype.is_float()}
    kinds |= {name: "string" for name, dtype in rows.schema.items() if dtype == nw.String}
    changed = {name: kind for name, kind in kinds.items() if not _has_nulls(native[name].dtype)}
    return nw.from_native(native.astype(changed), eager_only=True)


def with_nulls(bias: FrameExpressionBias, name: str, read: Sequence[str], rows: Lazy) -> Lazy:
    """Return rows of pandas with an expression as a column, which is null where it is unknown."""
    frame = rows.collect()
    data = _nullable(frame.select(*read) if read else frame)
    known = known_only(data.with_columns(bias.expression.alias(name)), name, lost_values(data, read))
    return frame.with_columns(known.get_column(name)).lazy()


def known_only(rows: AnyRows, name: str, lost: Sequence[nw.Expr]) -> AnyRows:
    """Return rows whose column is null wherever a value that it reads is lost."""
    return rows.with_columns(nw.when(~reduce(or_, lost)).then(nw.col(name)).alias(name)) if lost else rows


def lost_values(rows: Rows, read: Sequence[str]) -> list[nw.Expr]:
    """Return conditions that hold where a column has a missing value that the library does not propagate."""
    if rows.implementation.is_pandas_like():
        native = rows.to_native()
        return [nw.col(column).is_null() for column in read if not _has_nulls(native[column].dtype)]
    schema = rows.collect_schema()
    floats = [nw.col(column) for column in read if schema[column].is_float()]
    return [column.is_nan() & ~column.is_null() for column in floats]


def _has_nulls(dtype: object) -> bool:
    """Return whether a dtype of pandas uses NA for missing values, rather than NaN or NaT."""
    return type(getattr(dtype, "na_value", None)).__name__ == "NAType"


def as_narwhals(arrays: Mapping[str, np.ndarray], library: str) -> Eager:
    """Return arrays as a frame on which expressions can be computed: Polars for its own, else any installed library.

    NaN, which marks missing values in arrays, becomes null.
    """
    backend: EagerLibrary = "polars" if library == "Polars" else eager_library()
    rows = nw.from_dict({name: np.ascontiguousarray(array) for name, array in arrays.items()}, backend=backend)
    floats = [name for name, dtype in rows.schema.items() if dtype.is_float()]
    return rows.with_columns(nw.col(*floats).fill_nan(None)) if floats else rows


def eager_library() -> EagerLibrary:
    """Return a library of frames, preferably one that is already loaded."""
    for name in sorted(EAGER, key=lambda name: name not in sys.modules):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        return name
    raise ImportError(
        "A narwhals expression on NumPy arrays is computed by Polars, pandas or PyArrow, but none of them is "
        "installed: pip install 'vardi[frames]'. Or write the expression as text."
    )


def of_sample(sample: object) -> str:
    """Return to which rows a message refers; nothing if all samples are in one frame."""
    return "" if sample is None else f" on rows of sample {str(sample)!r}"
