"""Nodes compiled for any target: what narwhals and NumPy write differently, and what is the same for both.

Engines disagree on missing values (NaN > 60 is false in pandas and true in Polars), so it is never left to them. A term
that may be unknown on some rows carries a mask of the rows where it is known, and conditions follow Kleene's logic.
"""

from __future__ import annotations

import datetime
import math
import operator
import zoneinfo
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

import vardi._narwhals as nw
from vardi.biases._nodes import (
    And,
    Call,
    Chain,
    Column,
    Comparison,
    Computed,
    Constant,
    IsIn,
    IsMissing,
    Negative,
    Node,
    Not,
    Or,
    children,
    columns,
    to_text,
)
from vardi.biases._values import is_missing, require_columns
from vardi.errors import MismatchError


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
_MOMENTS = (Kind.DATE, Kind.DATETIME)
_CONSTANTS = {bool: Kind.CONDITION, int: Kind.INTEGER, float: Kind.FLOAT, str: Kind.TEXT}
_OF_ARRAYS = {
    "b": Kind.CONDITION,
    **dict.fromkeys("iu", Kind.INTEGER),
    "f": Kind.FLOAT,
    "U": Kind.TEXT,
    "M": Kind.DATETIME,
}


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
        return _OF_ARRAYS.get(array.dtype.kind, Kind.OTHER)

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
        if array.dtype.kind in "mM":
            return np.isnat(array)
        return np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=bool)

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

    @staticmethod
    def call(function: str, arguments: Sequence[Operand]) -> Operand:
        """Return a function of arrays or of NumPy numbers."""
        if function in ("min", "max"):
            return reduce(np.minimum if function == "min" else np.maximum, arguments)
        return getattr(np, function)(arguments[0])

    def missing(self, names: Sequence[str]) -> dict[str, int]:
        """Return those of some columns that have missing values, with their number."""
        counts = {name: int(np.count_nonzero(self.is_missing(name))) for name in names}
        return {name: count for name, count in counts.items() if count}

    def compute(self, values: Sequence[Operand]) -> list[np.ndarray]:
        """Return compiled values as arrays; one that is the same for all rows may have length one."""
        return [np.asarray(value) for value in values]


Target: TypeAlias = NarwhalsTarget | NumpyTarget
"""How one library writes the steps for which Python has no operator."""


def read_moment(text: str, time_zone: str | None) -> datetime.datetime:
    """Return a time in ISO form, in the time zone of a column; a text without an offset is in that zone."""
    moment = datetime.datetime.fromisoformat(text)
    if time_zone is None:
        if moment.tzinfo is not None:
            raise ValueError("The column has no time zone, but the text has one")
        return moment
    is_offset = time_zone[0] in "+-"  # as in PyArrow: +02:00
    sample = f"2000-01-01T00:00{time_zone}"
    zone = datetime.datetime.fromisoformat(sample).tzinfo if is_offset else zoneinfo.ZoneInfo(time_zone)
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)


@dataclass(frozen=True)
class Compiled:
    """An expression for one target.

    Attributes
    ----------
    node : Node
        The expression.
    kind : Kind
        What its values are.
    value
        The values: false (conditions) or anything (numbers) where they are unknown; constants are Python's.
    known
        The mask of the rows where the value is known, without nulls; None if it is known everywhere.
    """

    node: Node
    kind: Kind
    value: Operand
    known: Operand | None = None

    @property
    def is_condition(self) -> bool:
        """Whether the values are true and false."""
        return self.kind is Kind.CONDITION


def compile_node(node: Node, target: Target, missing: Collection[str] = ()) -> Compiled:
    """Turn a node into a narwhals expression or an array: of truth values, or of floats (a Python one if constant).

    Parameters
    ----------
    node : Node
        The expression.
    target : Target
        `NarwhalsTarget` or `NumpyTarget`: it has the names and the dtypes of the columns.
    missing : collection of str
        The columns that have missing values, or may have. The fewer, the simpler the result.
    """
    require_columns(columns(node), target.columns)
    builder = _Builder(target, missing)
    with np.errstate(all="ignore"):  # NaN and infinity are values here, checked when they are used
        term = builder.term(node)
    if term.kind not in NUMERIC:
        raise builder.mismatch(term, "a bias is a number or a condition", "Compare it with something.")
    return term if term.is_condition else replace(term, value=builder.float(term))


def _power(base: Operand, exponent: Operand) -> Operand:
    """Return a power; a square as a product, as in NumPy, since elsewhere it costs as much as any other power."""
    return base * base if isinstance(exponent, float) and exponent == 2.0 else base**exponent


_OPERATORS: dict[str, Callable[[Operand, Operand], Operand]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": _power,
}


def _both(*masks: Values | None) -> Values | None:
    """Return where all masks hold; None holds everywhere."""
    present = [mask for mask in masks if mask is not None]
    return reduce(operator.and_, present) if present else None


@dataclass(frozen=True)
class _Builder:
    """The terms of an expression for a target, some of whose columns have missing values."""

    target: Target
    missing: Collection[str]

    def term(self, node: Node) -> Compiled:
        match node:
            case Constant(value):
                held = self.target.truth(value) if isinstance(value, bool) else value
                return Compiled(node, _CONSTANTS[type(value)], held)
            case Column(name):
                return self._column(node, name)
            case IsMissing(Column(name)):
                absent = self.target.is_missing(name) if name in self.missing else self.target.truth(False)
                return Compiled(node, Kind.CONDITION, absent)
            case Not(operand):
                term = self._condition(operand)
                return replace(term, node=node, value=_both(~term.value, term.known))
            case And() | Or():
                return self._join(node, [self._condition(part) for part in children(node)])
            case Comparison(first, rest):
                operands = pairwise([self.term(first), *(self.term(part) for _, part in rest)])
                pairs = [self._compare(node, sign, *pair) for (sign, _), pair in zip(rest, operands, strict=True)]
                return pairs[0] if len(pairs) == 1 else self._join(node, pairs)
            case IsIn(operand, values):
                return self._is_in(node, self.term(operand), [value.value for value in values])
            case Chain(first, rest):
                total = self._number(first)
                for sign, part in rest:
                    total = self._computed(node, _OPERATORS[sign], [total, self._number(part)])
                return total
            case Negative(operand):  # narwhals has had a sign since 2.1 only
                return self._computed(node, lambda value: value * -1.0, [self._number(operand)])
            case Call(function, arguments):
                return self._call(node, function, [self._number(argument) for argument in arguments])

    def float(self, term: Compiled) -> Operand:
        """Return the value of a numeric term as floats."""
        if term.kind is Kind.FLOAT:
            return term.value
        return float(term.value) if isinstance(term.value, int) else self.target.as_float(term.value)

    def _column(self, node: Node, name: str) -> Compiled:
        kind, value = self.target.kind(name), self.target.column(name)
        if name not in self.missing:
            return Compiled(node, kind, value)
        known = ~self.target.is_missing(name)
        return Compiled(node, kind, value & known if kind is Kind.CONDITION else value, known)

    def _condition(self, node: Node) -> Compiled:
        term = self.term(node)
        if not term.is_condition:
            raise self.mismatch(term, "and, or, not join conditions", f"Compare it, e.g. {to_text(node)} > 0.")
        return term

    def _number(self, node: Node) -> Compiled:
        term = self.term(node)
        if term.kind not in NUMERIC:
            raise self.mismatch(term, "a number is needed here", f"Compare it, e.g. {to_text(node)} == '...'.")
        return replace(term, kind=Kind.FLOAT, value=self.float(term))

    def _computed(self, node: Node, apply: Callable[..., Operand], terms: Sequence[Compiled]) -> Compiled:
        values = [term.value for term in terms]
        if all(isinstance(value, float) for value in values):  # NumPy's floats: 0 / 0 is NaN, 9 ** 9 ** 9 infinite
            value: Operand = float(apply(*map(np.float64, values)))
        else:
            value = apply(*values)
        return Compiled(node, Kind.FLOAT, value, _both(*(term.known for term in terms)))

    def _call(self, node: Node, function: str, terms: list[Compiled]) -> Compiled:
        if len(terms) > 1:  # engines differ on the least of a number and NaN
            terms = [replace(term, known=self._defined(term)) for term in terms]
        target = NumpyTarget if all(isinstance(term.value, float) for term in terms) else self.target
        return self._computed(node, lambda *values: target.call(function, values), terms)

    def _join(self, node: Node, terms: Sequence[Compiled]) -> Compiled:
        """Join conditions by Kleene's or, or else by his and.

        And is true where all terms are, false where one is, and unknown elsewhere.
        """
        join, dual = (operator.or_, operator.and_) if isinstance(node, Or) else (operator.and_, operator.or_)
        joined = reduce(join, [term.value for term in terms])
        if all(term.known is None for term in terms):
            return Compiled(node, Kind.CONDITION, joined)
        refuted = reduce(dual, [_both(~term.value, term.known) for term in terms])
        return Compiled(node, Kind.CONDITION, joined, joined | refuted)

    def _compare(self, node: Node, sign: str, left: Compiled, right: Compiled) -> Compiled:
        a, b = self._comparable(left, right)
        if not (isinstance(a, int | float) and isinstance(b, int | float)):
            a, b = (self.target.number(side) if isinstance(side, float) else side for side in (a, b))
        value = _OPERATORS[sign](a, b)
        if isinstance(value, bool):
            value = self.target.truth(value)
        known = _both(self._defined(left), self._defined(right))
        return Compiled(node, Kind.CONDITION, _both(value, known), known)

    def _comparable(self, left: Compiled, right: Compiled) -> tuple[Operand, Operand]:
        """Return two values that every engine compares in the same way."""
        kinds = {left.kind, right.kind}
        if kinds <= NUMERIC and Kind.CONDITION in kinds:
            return self.float(left), self.float(right)
        if kinds <= NUMERIC or (len(kinds) == 1 and Kind.OTHER not in kinds):
            return left.value, right.value
        if left.kind in _MOMENTS and isinstance(right.value, str):
            return left.value, self._moment(left, right.value)
        if right.kind in _MOMENTS and isinstance(left.value, str):
            return self._moment(right, left.value), right.value
        column, other = (left, right) if isinstance(left.node, Column) else (right, left)
        raise self.mismatch(column, f"it is compared with {to_text(other.node)}", _comparison_remedy(column.kind))

    def _moment(self, term: Compiled, text: str) -> datetime.date | np.datetime64:
        assert isinstance(term.node, Column)  # only columns hold dates
        try:
            return self.target.moment(term.node.name, text)
        except ValueError as error:
            remedy = f"{error}. {_comparison_remedy(term.kind)}"
            raise self.mismatch(term, f"it is compared with {text!r}", remedy) from None

    def _is_in(self, node: IsIn, term: Compiled, values: Sequence[Operand]) -> Compiled:
        a, texts = term.value, isinstance(values[0], str)
        if term.kind in NUMERIC and not texts:
            if term.kind is not Kind.INTEGER or not all(type(value) is int for value in values):
                a, values = self.float(term), [float(value) for value in values]
        elif term.kind in _MOMENTS and texts:
            values = [self._moment(term, value) for value in values]
        elif term.kind is not Kind.TEXT or not texts:
            raise self.mismatch(term, f"it is compared with {values[0]!r}", _comparison_remedy(term.kind))
        known = self._defined(term)
        value = self.target.truth(a in values) if isinstance(a, int | float | str) else self.target.is_in(a, values)
        return Compiled(node, Kind.CONDITION, _both(value, known), known)

    def _defined(self, term: Compiled) -> Values | None:
        """Return where a term is known and not NaN; only a computed term can be both known and NaN."""
        if not isinstance(term.node, Computed):
            return term.known
        if isinstance(term.value, float):
            return self.target.truth(False) if math.isnan(term.value) else term.known
        return _both(term.known, ~self.target.is_nan(term.value))

    def mismatch(self, term: Compiled, reason: str, remedy: str) -> MismatchError:
        """Return the error for a term of a kind that is not allowed where it is used."""
        if term.kind is Kind.OTHER:
            remedy = "Convert the column to numbers, text, booleans or dates."
        if not isinstance(term.node, Column):
            return MismatchError(f"{to_text(term.node)} is {term.kind.value}, but {reason}. {remedy}")
        name = term.node.name
        held = f"{term.kind.value} ({self.target.dtype(name)})"
        return MismatchError(f"Column '{name}' holds {held}, but {reason}. {remedy}")


def _comparison_remedy(kind: Kind) -> str:
    return {
        Kind.TEXT: "Compare it with a string in quotes, or convert the column.",
        Kind.DATE: "Compare it with a date such as '2024-01-31'.",
        Kind.DATETIME: "Compare it with a time such as '2024-01-31' or '2024-01-31T12:30:00'.",
    }.get(kind, "Compare it with a number, or convert the column.")
