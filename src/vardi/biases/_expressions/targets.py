"""Targets of expressions: how narwhals and NumPy write each step for which Python has no operator."""

from __future__ import annotations

import datetime
import math
import zoneinfo
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

import vardi._narwhals as nw
from vardi.biases._values import is_missing


class Kind(Enum):
    """What a column or a term holds; the value is the word for it in messages."""

    CONDITION = "true or false"
    INTEGER = "whole numbers"
    FLOAT = "numbers"
    TEXT = "text"
    DATE = "dates"
    DATETIME = "times"
    OTHER = "values of a type that a bias cannot read"


NUMERIC = {Kind.CONDITION, Kind.INTEGER, Kind.FLOAT}


Values: TypeAlias = "nw.Expr | np.ndarray"
"""A column, or what was computed of columns, in a library."""

Operand: TypeAlias = Any
"""Values, or a Python number or text that is the same on all rows: operators are those of either."""


def literal(value: float) -> nw.Expr | float:
    """Return a number to compare values with, in a form that every engine reads to the last digit.

    DuckDB, which Ibis queries in SQL, reads a number of up to 38 digits as a decimal, and rounds it once more if it has
    more than 15: a value of the rows would then not equal itself. So such a number is written as an integer times a
    power of two.
    """
    value = float(value)
    if not abs(value) > 1e-290 or value == float(f"{value:.15g}") or math.isinf(value):
        return value
    fraction, exponent = math.frexp(value)
    return nw.lit(int(fraction * 2**53), nw.Int64).cast(nw.Float64) * nw.lit(2.0 ** (exponent - 53), nw.Float64)


class NarwhalsTarget:
    """Expressions of narwhals, for eager and lazy frames alike.

    Parameters
    ----------
    schema : mapping of str to narwhals dtype
        As returned by ``frame.collect_schema()``.
    """

    def __init__(self, schema: Mapping[str, nw.dtypes.DType]) -> None:
        self.schema = schema

    @property
    def columns(self) -> Collection[str]:
        """The names of all columns."""
        return self.schema.keys()

    def dtype(self, name: str) -> str:
        """Return the dtype of a column, for messages."""
        return str(self.schema[name])

    def kind(self, name: str) -> Kind:
        """Return what a column holds."""
        dtype = self.schema[name]
        if dtype.is_integer():
            return Kind.INTEGER
        if dtype.is_numeric():
            return Kind.FLOAT
        if dtype in (nw.String, nw.Categorical, nw.Enum):
            return Kind.TEXT
        return {nw.Boolean: Kind.CONDITION, nw.Date: Kind.DATE, nw.Datetime: Kind.DATETIME}.get(
            dtype.base_type(), Kind.OTHER
        )

    def column(self, name: str) -> nw.Expr:
        """Return a column: booleans, 64-bit numbers, texts or times, whatever narrower dtype it is stored in."""
        dtype, column = self.schema[name], nw.col(name)
        if dtype in (nw.Int8, nw.Int16, nw.Int32, nw.UInt8, nw.UInt16, nw.UInt32):
            return column.cast(nw.Int64)
        if dtype in (nw.Float32, nw.Decimal):
            return column.cast(nw.Float64)
        return column.cast(nw.String) if dtype in (nw.Categorical, nw.Enum) else column

    def is_missing(self, name: str) -> nw.Expr:
        """Return the mask of the rows where a column is null or NaN."""
        column = nw.col(name)
        return column.is_null() | column.is_nan() if self.schema[name].is_float() else column.is_null()

    def truth(self, value: bool) -> nw.Expr:
        """Return a condition that is the same on every row."""
        return nw.lit(value)

    def moment(self, name: str, text: str) -> datetime.date:
        """Return an ISO text as a value to compare with a column of dates or times; ValueError if it is not one."""
        dtype = self.schema[name]
        if isinstance(dtype, nw.Datetime):
            return read_moment(text, dtype.time_zone)
        return datetime.date.fromisoformat(text)

    def as_float(self, value: nw.Expr) -> nw.Expr:
        """Return numbers or conditions as 64-bit floats."""
        return value.cast(nw.Float64)

    @staticmethod
    def is_nan(value: nw.Expr) -> nw.Expr:
        """Return the mask of the rows where a float is NaN."""
        # NaN is null in nullable pandas, and division by zero, infinite elsewhere, is null in Spark.
        return value.is_null() | value.is_nan()

    def number(self, value: float) -> nw.Expr | float:
        """Return a number to compare values with, exact to the last digit."""
        return literal(value)

    def is_in(self, value: nw.Expr, values: Sequence[object]) -> nw.Expr:
        """Return the mask of the rows where a value is one of values."""
        long = [number for number in values if isinstance(number, float) and isinstance(literal(number), nw.Expr)]
        return _any([value.is_in(values), *(value == literal(number) for number in long)])

    def call(self, function: str, arguments: Sequence[Operand]) -> nw.Expr:
        """Return a function of its arguments, of which at least one is not a Python number."""
        if function in ("min", "max"):
            join, least = (nw.min_horizontal, min) if function == "min" else (nw.max_horizontal, max)
            numbers = [value for value in arguments if isinstance(value, float)]
            columns = [value for value in arguments if not isinstance(value, float)]
            joined: nw.Expr = join(*columns) if len(columns) > 1 else columns[0]
            if not numbers:
                return joined
            bound = least(numbers)  # not a literal column, which narwhals before 2.28 ignores in pandas
            return joined.clip(upper_bound=bound) if function == "min" else joined.clip(lower_bound=bound)
        return getattr(arguments[0], function)()


def _any(conditions: Sequence[nw.Expr]) -> nw.Expr:
    """Return where any of some conditions holds, as a shallow tree: engines limit the depth of an expression."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return _any(conditions[:half]) | _any(conditions[half:])


class NumpyTarget:
    """Arrays of NumPy, with the methods of `NarwhalsTarget`; what is compiled for them is computed at once.

    Parameters
    ----------
    arrays : mapping of str to array
        The columns.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = arrays

    @property
    def columns(self) -> Collection[str]:
        return self.arrays.keys()

    def dtype(self, name: str) -> str:
        words = {Kind.CONDITION: "Boolean", Kind.TEXT: "String", Kind.DATETIME: "Datetime"}  # as in narwhals
        text = str(self.arrays[name].dtype)
        numeric = text.capitalize().replace("Uint", "UInt")
        return words.get(self.kind(name), text if self.kind(name) is Kind.OTHER else numeric)

    def kind(self, name: str) -> Kind:
        array = self.arrays[name]
        if array.dtype.kind == "O":
            present = [value for value in array.tolist() if not is_missing(value)]
            if all(isinstance(value, str) for value in present):
                return Kind.TEXT
            return Kind.FLOAT if all(isinstance(value, int | float) for value in present) else Kind.OTHER
        return _NUMPY_KINDS.get(array.dtype.kind, Kind.OTHER)

    def column(self, name: str) -> np.ndarray:
        array, kind = self.arrays[name], self.kind(name)
        if kind is Kind.INTEGER and array.dtype != np.uint64:
            return array.astype(np.int64, copy=False)
        if kind is Kind.FLOAT:
            return array.astype(np.float64, copy=False)
        if kind is Kind.TEXT and array.dtype.kind == "O":
            return np.array(["" if is_missing(value) else value for value in array.tolist()], dtype=object)
        return array

    def is_missing(self, name: str) -> np.ndarray:
        array = self.arrays[name]
        if array.dtype.kind == "O":
            return np.array([is_missing(value) for value in array.tolist()], dtype=bool)
        if array.dtype.kind in "fcmM":
            return np.isnat(array) if array.dtype.kind in "mM" else np.isnan(array)
        return np.zeros(len(array), dtype=bool)

    def truth(self, value: bool) -> np.ndarray:
        return np.array(value)

    def moment(self, name: str, text: str) -> np.datetime64:
        return np.datetime64(read_moment(text, None))

    def as_float(self, value: np.ndarray) -> np.ndarray:
        return value.astype(np.float64)

    def is_nan(self, value: np.ndarray) -> np.ndarray:
        return np.isnan(value)

    def number(self, value: float) -> float:
        return value

    def is_in(self, value: np.ndarray, values: Sequence[object]) -> np.ndarray:
        if value.dtype.kind == "O":
            chosen = set(values)
            return np.array([text in chosen for text in value.tolist()], dtype=bool)
        return np.isin(value, np.array(values))

    def call(self, function: str, arguments: Sequence[Operand]) -> np.ndarray:
        return call_numpy(function, arguments)

    def missing(self, names: Sequence[str]) -> dict[str, int]:
        """Return those of some columns that have missing values, with their number."""
        nullable = [name for name in names if self.arrays[name].dtype.kind in "fOmM"]
        counts = {name: int(np.count_nonzero(self.is_missing(name))) for name in nullable}
        return {name: count for name, count in counts.items() if count}

    def compute(self, values: Sequence[Operand]) -> list[np.ndarray]:
        """Return compiled values as arrays; one that is the same for all rows may have length one."""
        return [np.asarray(value) for value in values]


Target: TypeAlias = NarwhalsTarget | NumpyTarget
"""How one library writes the steps for which Python has no operator."""


_NUMPY_KINDS = {
    "b": Kind.CONDITION,
    "i": Kind.INTEGER,
    "u": Kind.INTEGER,
    "f": Kind.FLOAT,
    "U": Kind.TEXT,
    "M": Kind.DATETIME,
}


def call_numpy(function: str, arguments: Sequence[Operand]) -> Operand:
    """Return a function of arrays or NumPy numbers."""
    if function in ("min", "max"):
        return reduce(np.minimum if function == "min" else np.maximum, arguments)
    return getattr(np, function)(arguments[0])


def read_moment(text: str, time_zone: str | None) -> datetime.datetime:
    """Return a time in ISO form, in the time zone of a column; a text without an offset is in that zone."""
    moment = datetime.datetime.fromisoformat(text)
    if time_zone is None:
        if moment.tzinfo is not None:
            raise ValueError("The column has no time zone, but the text has one")
        return moment
    zone = _zone(time_zone)
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)


def _zone(name: str) -> datetime.tzinfo | None:
    if name[0] in "+-":  # PyArrow also has offsets such as +02:00
        return datetime.datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo
    return zoneinfo.ZoneInfo(name)
