"""What users give: its types, for signatures, and how a function of rows is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

from vardi.biases import Bias, ExpressionBias, FrameExpressionBias, as_bias
from vardi.biases._kinds import library_of
from vardi.biases._nodes import Column

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl
    from narwhals.typing import IntoFrame
    from numpy.typing import ArrayLike

    from vardi.biases._constructors import BiasLike


class HasError(Protocol):
    """A value with its standard error, such as an :class:`~vardi.Estimate`."""

    @property
    def value(self) -> float: ...

    @property
    def stderr(self) -> float: ...


Table: TypeAlias = "ArrayLike | IntoFrame"
"""Rows: an array, or a frame of any library that narwhals supports."""

Samples: TypeAlias = "Mapping[Any, Table] | Sequence[Table] | Table"
"""Rows by the name of their sample, or in order, or one frame with a column of labels."""

Biases: TypeAlias = "Mapping[Any, BiasLike] | Sequence[BiasLike]"
"""A bias for each sample, by name or in order."""

Labels: TypeAlias = "str | ArrayLike"
"""The sample of each row: a column, or the labels themselves."""

Counts: TypeAlias = "str | ArrayLike | Mapping[Any, ArrayLike]"
"""How many rows each row stands for: a column, an array for the pool, or one for each sample."""

ByRow: TypeAlias = "str | ArrayLike | Mapping[Any, str | ArrayLike]"
"""A property of each row: a column, an array for the pool, or one of these for each sample."""

Population: TypeAlias = Mapping[Any, float] | float
"""How many units samples were drawn from: one number for all, or one for each."""

KnownValue: TypeAlias = "float | tuple[float, float] | list[float] | HasError | Sequence[HasError] | Mapping[Any, Any]"
"""A number, with or without its standard error; for a margin, the share of each value."""

Known: TypeAlias = Mapping[Any, KnownValue]
"""What is known of the population: from a column, a condition or the name of a sample to its mean."""

Function: TypeAlias = "str | pl.Expr | nw.Expr | ArrayLike"
"""A function of rows: a column or an expression of columns, or a value for each row."""

Formula: TypeAlias = "str | nw.Expr"
"""A function of the row: a column, an expression as text, or a narwhals or Polars expression."""

Functions: TypeAlias = "Function | Sequence[Function]"
"""One or several functions of rows."""

Domain: TypeAlias = "str | Sequence[str] | ArrayLike"
"""What defines the domains: a column, several columns, or a label for each row."""

Size: TypeAlias = "float | tuple[float, float] | HasError"
"""A known number, with or without its standard error."""


def is_function(values: object) -> TypeGuard[Formula]:
    """Return whether values are given by a text or an expression, not as an array."""
    return isinstance(values, str) or library_of(values) is not None


def name_of(function: Formula) -> str:
    """Return the name of a function for messages and tables."""
    return function if isinstance(function, str) else str(FrameExpressionBias(function))


def bias_of(function: Formula | Bias, columns: Collection[str]) -> Bias:
    """Return a function in a form that can be evaluated; a text that is the name of a column is that column."""
    if isinstance(function, str) and function in columns:
        return ExpressionBias(Column(function))
    return as_bias(function)


def read_by(function: Formula, columns: Collection[str]) -> tuple[str, ...]:
    """Return the columns that a function reads."""
    return (function,) if isinstance(function, str) and function in columns else as_bias(function).columns
