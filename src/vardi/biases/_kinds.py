"""What a bias can be: an expression, a function, values, a product, or a family with parameters; and their algebra."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from vardi._types import Floats
from vardi.biases._nodes import (
    Call,
    Cells,
    Column,
    Constant,
    ExpressionFamily,
    Node,
    Not,
    Parameters,
    Product,
    arithmetic,
    columns,
    constant,
    is_condition,
    junction,
    to_text,
)
from vardi.errors import InvalidBiasError, MismatchError

FunctionOfRows: TypeAlias = Callable[[Any, Floats], ArrayLike]
"""A function of rows as the user gave them, and of parameters."""


class Bias(ABC):
    """How much likelier a unit is to enter a sample, up to a constant.

    Biases multiply with ``*``, by each other and by numbers; those that are conditions also join with ``&``, ``|``
    and ``~``. ``str(bias)`` is the text form.

    Attributes
    ----------
    columns : tuple of str
        The columns that the bias reads; empty if unknown.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty if unknown."""
        return ()

    @abstractmethod
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return f"where({str(self)!r})"

    def __mul__(self, other: object) -> Bias:
        if not isinstance(other, Bias | int | float | np.number):
            return NotImplemented
        return _product(self, other if isinstance(other, Bias) else number(other))

    def __rmul__(self, other: object) -> Bias:
        if not isinstance(other, int | float | np.number):
            return NotImplemented
        return _product(number(other), self)

    def __and__(self, other: object) -> Bias:
        return _junction("and", "&", self, other)

    def __or__(self, other: object) -> Bias:
        return _junction("or", "|", self, other)

    def __invert__(self) -> Bias:
        return ExpressionBias(Not(_condition(self, "~")))

    __array_ufunc__ = None  # so that np.float64(2) * bias calls __rmul__


@dataclass(frozen=True, repr=False)
class ExpressionBias(Bias):
    """A bias that is an expression of the columns; `where` makes it from text."""

    node: Node

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty if unknown."""
        return columns(self.node)

    def __str__(self) -> str:
        return to_text(self.node)

    def __repr__(self) -> str:
        return "everywhere()" if self == EVERYWHERE else super().__repr__()


EVERYWHERE = ExpressionBias(Constant(1))
"""The bias of a sample drawn from the population itself."""


def number(value: float | np.number | np.bool) -> ExpressionBias:
    """Return the bias that is the same everywhere."""
    return ExpressionBias(constant(value, "A bias"))


@dataclass(frozen=True)
class FunctionBias(Bias):
    """A bias that is a function of the rows, called with what the user gave as rows."""

    function: Callable[[Any], object]

    def __str__(self) -> str:
        return f"<function {_name_of(self.function)}>"


@dataclass(frozen=True, eq=False)
class ValuesBias(Bias):
    """A bias given by its values, one for each row of the pool; equal only to itself."""

    values: np.ndarray

    def __str__(self) -> str:
        return f"<array of {len(self.values)} values>"

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class FrameExpressionBias(Bias):
    """A bias that is an expression of Polars or narwhals; equal only to itself, and its text cannot be read back.

    Attributes
    ----------
    expression : polars.Expr or narwhals.Expr
        As it was given.
    """

    expression: Any

    @property
    def library(self) -> str:
        """The library of the expression: Polars or narwhals."""
        return library_of(self.expression) or type(self.expression).__module__

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads, as listed by Polars; narwhals does not list them."""
        if not hasattr(self.expression, "meta"):
            return ()
        names = dict.fromkeys(self.expression.meta.root_names())
        return tuple(name for name in names if name != "*" and not (name.startswith("^") and name.endswith("$")))

    def __str__(self) -> str:
        text = " ".join(str(self.expression).split())
        return f"<{self.library} {text if len(text) <= 200 else text[:199] + '…'}>"

    __repr__ = __str__


def library_of(obj: object) -> str | None:
    """Return the library that an object is an expression of; None if it is no such expression."""
    for library, module in (("narwhals", "narwhals"), ("Polars", "polars")):
        loaded = sys.modules.get(module)  # to have made an expression of it, the user has imported it
        if loaded is not None and isinstance(obj, loaded.Expr):
            return library
    return None


@dataclass(frozen=True)
class ProductBias(Bias):
    """The product of biases at least one of which is not an expression."""

    factors: tuple[Bias, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty if unknown."""
        return tuple(dict.fromkeys(name for factor in self.factors for name in factor.columns))

    def __str__(self) -> str:
        return " * ".join(
            f"({factor})" if isinstance(factor, ExpressionBias) else str(factor) for factor in self.factors
        )


@dataclass(frozen=True, repr=False)
class WindowBias(Bias):
    """A bias that differs by row: each was seen because its value lay in its window; `window` makes it.

    Attributes
    ----------
    x : Node
        The value.
    low, high : Node or None
        The ends of its window, both inclusive; None for a window that is open there.
    status : Node or None
        Whether the value was seen.
    """

    x: Node
    low: Node | None
    high: Node | None
    status: Node | None = None

    def __post_init__(self) -> None:
        if not columns(self.x):
            raise InvalidBiasError(f"{self} reads no column, but the value of a row must be in one. Name it.")
        if not self.ends:
            raise InvalidBiasError(
                f"{self} has no end, so every row would have been seen. Name the columns in which windows begin or "
                "end; a sample without truncation has the bias 1."
            )
        if not columns(*self.ends):
            raise InvalidBiasError(
                f"{self} reads no column for its ends, so all rows have the same window, and nothing is known of what "
                "lies outside it. Declare a condition, such as vardi.between."
            )

    @property
    def ends(self) -> tuple[Node, ...]:
        """The ends of the window, except open ones."""
        return tuple(end for end in (self.low, self.high) if end is not None)

    @property
    def value(self) -> str:
        """The name of the value's column, or its expression."""
        return self.x.name if isinstance(self.x, Column) else to_text(self.x)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads."""
        return columns(self.x, *self.ends, *(() if self.status is None else (self.status,)))

    def __str__(self) -> str:
        nodes = (self.x, self.low, self.high, *(() if self.status is None else (self.status,)))
        return f"window({', '.join('None' if node is None else to_text(node) for node in nodes)})"


@dataclass(frozen=True)
class FunctionFamily:
    """A bias that is a function of the rows and of parameters; `parametric` makes it.

    Attributes
    ----------
    function : callable
        A function of (rows, theta) that returns omega.
    start : tuple of tuple of float
        Where the estimation starts: one point or several.
    names : tuple of str
        The names of the parameters.
    gradient : callable or None
        A function of (rows, theta) that returns the derivatives of omega, of shape (n, p).
    """

    function: FunctionOfRows
    start: tuple[tuple[float, ...], ...]
    names: tuple[str, ...]
    gradient: FunctionOfRows | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Empty: the columns that a function reads are unknown."""
        return ()

    def at(self, theta: Floats) -> FunctionBias:
        """Return the bias at some value of the parameters."""
        return FunctionBias(partial(_at, self.function, theta))

    def __str__(self) -> str:
        return f"<function {_name_of(self.function)} of {', '.join(self.names)}>"


def _name_of(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _at(function: FunctionOfRows, theta: Floats, rows: object) -> ArrayLike:
    return function(rows, theta.copy())


@dataclass(frozen=True, repr=False)
class ParametricBias(Bias):
    """A bias that is known up to parameters, which :func:`vardi.debias` estimates from the samples.

    Attributes
    ----------
    family : ExpressionFamily, Cells or FunctionFamily
        The factor that depends on the parameters.
    known : Bias
        The factor that does not.
    """

    family: ExpressionFamily | Cells | FunctionFamily
    known: Bias = EVERYWHERE

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty if unknown."""
        return tuple(dict.fromkeys((*self.known.columns, *self.family.columns)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters; none for cells until rows are seen."""
        return self.family.names

    def at(self, theta: Parameters) -> Bias:
        """Return the bias with its parameters fixed: a known one.

        Parameters
        ----------
        theta : mapping from name to number, or sequence of numbers
            A value for each parameter, by name or in the order of ``names``; for :func:`vardi.cells` from each column
            to its values, each with its number.

        Examples
        --------
        >>> import vardi
        >>> vardi.logistic("age").at({"intercept": -1, "age": 0.05})
        where('1 / (1 + exp(1.0 + -0.05 * age))')
        >>> vardi.power("length").at([2])
        where('length ** 2.0')
        """
        if isinstance(self.family, Cells) and not self.family.levels:
            family, values = self.family.fixed(theta)
            return ParametricBias(family, self.known).at(values)
        values = [float(value) for value in self._given(theta)]
        if not all(math.isfinite(value) for value in values):
            raise InvalidBiasError(f"The parameters {values} of {self} are not all finite.")
        if isinstance(self.family, FunctionFamily):
            return _product(self.known, self.family.at(np.array(values)))
        return _product(self.known, ExpressionBias(self.family.node(values)))

    def _given(self, theta: Parameters) -> list[float]:
        got = list(theta)
        if isinstance(theta, Mapping) and set(got) == set(self.names):
            return [theta[name] for name in self.names]
        if not isinstance(theta, Mapping) and len(got) == len(self.names):
            return got
        raise MismatchError(
            f"The parameters of {self} are {', '.join(map(repr, self.names))}, but {got} was given. Give a number for "
            "each."
        )

    def __str__(self) -> str:
        if self.known == EVERYWHERE:
            return str(self.family)
        atom = isinstance(self.known, ExpressionBias) and isinstance(self.known.node, Constant | Column | Call)
        return f"{self.known} * {self.family}" if atom else f"({self.known}) * {self.family}"

    def __repr__(self) -> str:
        return str(self) if isinstance(self.family, FunctionFamily) else super().__repr__()


def _product(left: Bias, right: Bias) -> Bias:
    if left == EVERYWHERE:
        return right
    if right == EVERYWHERE:
        return left
    for bias in (left, right):
        if isinstance(bias, WindowBias):
            raise InvalidBiasError(
                f"{bias} cannot be a factor of another bias: it belongs to one row, and a further factor would apply "
                "to the rows in all windows. For both, give vardi.debias_matrix a matrix with a column for each row."
            )
    if isinstance(left, ParametricBias) and isinstance(right, ParametricBias):
        raise InvalidBiasError(
            f"Both {left} and {right} have parameters, but a bias can have only one such factor. Name all columns in "
            "one family, or write the product as a function for vardi.parametric."
        )
    if isinstance(left, ParametricBias):
        return ParametricBias(left.family, _product(left.known, right))
    if isinstance(right, ParametricBias):
        return ParametricBias(right.family, _product(left, right.known))
    if isinstance(left, ExpressionBias) and isinstance(right, ExpressionBias):
        if isinstance(right.node, Product):  # a * (b * c) is written a * b * c
            node = arithmetic(left.node, "*", right.node.first)
            for sign, factor in right.node.rest:
                node = arithmetic(node, sign, factor)
            return ExpressionBias(node)
        return ExpressionBias(arithmetic(left.node, "*", right.node))
    return ProductBias((*factors_of(left), *factors_of(right)))


def factors_of(bias: Bias) -> tuple[Bias, ...]:
    """Return the factors of a product; another bias is its only factor."""
    return bias.factors if isinstance(bias, ProductBias) else (bias,)


def parts_of(bias: Bias) -> tuple[Bias, ...]:
    """Return the factors of a bias that have no parameters."""
    return factors_of(bias.known if isinstance(bias, ParametricBias) else bias)


def with_parts(bias: Bias, change: Callable[[Bias], Bias]) -> Bias:
    """Return a bias with each factor that has no parameters changed."""
    if isinstance(bias, ParametricBias):
        return replace(bias, known=with_parts(bias.known, change))
    if isinstance(bias, ProductBias):
        return replace(bias, factors=tuple(map(change, bias.factors)))
    return change(bias)


def _junction(word: str, sign: str, left: Bias, right: object) -> Bias:
    if not isinstance(right, Bias):
        return NotImplemented
    return ExpressionBias(junction(word, [_condition(left, sign), _condition(right, sign)]))


def _condition(bias: Bias, sign: str) -> Node:
    if not isinstance(bias, ExpressionBias) or is_condition(bias.node) is False:
        raise InvalidBiasError(f"{sign} joins conditions, but the bias {bias} is not one. Use * to multiply factors.")
    return bias.node


def columns_to_test(biases: Sequence[Bias], numeric: Sequence[str]) -> list[str]:
    """Return the columns that samples are compared by: the value of windows, or numeric columns that biases read."""
    values = [bias.value for bias in biases if isinstance(bias, WindowBias)]
    read = {name for bias in biases for name in bias.columns}
    return values or [name for name in numeric if name in read]
