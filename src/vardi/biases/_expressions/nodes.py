"""The nodes of an expression: frozen values. Build them with the lower-case functions, which keep one form of each."""

from __future__ import annotations

import datetime
import keyword
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from vardi.errors import InvalidBiasError

Scalar = bool | int | float | str | datetime.date | np.generic
"""A value that a column can be compared with; dates and times are written in ISO form."""

FUNCTIONS = {"abs": 1, "exp": 1, "log": 1, "sqrt": 1, "min": 2, "max": 2}
"""Each function with its minimum number of arguments; min and max take more."""

INTEGERS = range(1 - 2**63, 2**63)
"""Integers that every engine can hold, along with their negatives."""


@dataclass(frozen=True)
class Constant:
    """A number, a text or a truth value."""

    value: bool | int | float | str
    is_boolean: bool = field(init=False, repr=False)  # in Python 1 == True, but a number is not a condition

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_boolean", isinstance(self.value, bool))
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise InvalidBiasError(f"The constant {self.value} is not finite. Give a finite number.")
        if isinstance(self.value, int) and self.value not in INTEGERS:
            raise InvalidBiasError("An integer is too large for 64 bits. Write it as a float, e.g. 1e20.")
        if isinstance(self.value, str) and any("\ud800" <= letter <= "\udfff" for letter in self.value):
            raise InvalidBiasError(f"The string {self.value!r} holds half a character (a lone surrogate).")


@dataclass(frozen=True)
class Column:
    """The value of a row in a column."""

    name: str


@dataclass(frozen=True)
class Chain:
    """``first sign node sign node ...``, of signs that bind equally."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


class Or(Chain):
    """At least one condition holds."""


class And(Chain):
    """All conditions hold."""


class Comparison(Chain):
    """``first op node op node ...``: true when each neighbouring pair is."""


class Sum(Chain):
    """``first + term - term ...``, from left to right."""


class Product(Chain):
    """``first * factor / factor ...``, from left to right."""


class Power(Chain):
    """``first ** exponent``: a single one, since a power of a power is written in parentheses."""


@dataclass(frozen=True)
class IsIn:
    """The operand is one of some constants."""

    operand: Node
    values: tuple[Constant, ...]


@dataclass(frozen=True)
class IsMissing:
    """The column has no value in this row: null or NaN."""

    column: Column


@dataclass(frozen=True)
class Not:
    """The condition does not hold."""

    operand: Node


@dataclass(frozen=True)
class Negative:
    """``-operand``, of anything but a number."""

    operand: Node


@dataclass(frozen=True)
class Call:
    """One of `FUNCTIONS` of its arguments."""

    function: str
    arguments: tuple[Node, ...]


Condition = Comparison | IsIn | IsMissing | Not | And | Or
Computed = Sum | Product | Power | Negative | Call
Node = Constant | Column | Condition | Computed


def column_named(name: object) -> Column:
    """Return a column by its name; raise if it is not a string."""
    if not isinstance(name, str):
        raise InvalidBiasError(f"A column is named by a string, not by {type(name).__name__}: {name!r}.")
    return Column(str(name))


def constant(value: object, what: str) -> Constant:
    """Return a number, a text, a truth value or a date as a constant; raise for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "isoformat"):  # dates and times are written as ISO texts
        value = value.isoformat()
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return Constant(kind(value))
    raise InvalidBiasError(f"{what} must be a number or a string, not {type(value).__name__}: {value!r}.")


CHAINS: dict[str, type[Or | And | Sum | Product | Power]] = {
    "or": Or,
    "and": And,
    **dict.fromkeys("+-", Sum),
    **dict.fromkeys("*/", Product),
    "**": Power,
}
"""The chain that each word between conditions, and each sign of arithmetic, makes."""


def junction(word: str, terms: Iterable[Node]) -> Node:
    """Return conditions joined by ``and`` or ``or``; terms that are joined so already are flattened."""
    kind = CHAINS[word]
    first, *others = chain.from_iterable(children(term) if isinstance(term, kind) else (term,) for term in terms)
    return kind(first, tuple((word, other) for other in others)) if others else first


def arithmetic(left: Node, operator: str, right: Node) -> Node:
    """Return ``left operator right`` for one of ``+ - * / **``; sums and products grow to the right."""
    kind = CHAINS[operator]
    if isinstance(left, kind) and kind is not Power:
        return kind(left.first, (*left.rest, (operator, right)))
    return kind(left, ((operator, right),))


def negative(operand: Node) -> Node:
    """Return ``-operand``; the negative of a number is a number."""
    if isinstance(operand, Constant) and not operand.is_boolean and not isinstance(operand.value, str):
        return Constant(-operand.value)
    return Negative(operand)


def is_condition(node: Node) -> bool | None:
    """Return whether the node is true or false rather than a number; None for a column, whose dtype decides."""
    if isinstance(node, Column):
        return None
    return node.is_boolean if isinstance(node, Constant) else isinstance(node, Condition)


def is_text(node: Node) -> bool:
    """Return whether the node is a text constant."""
    return isinstance(node, Constant) and isinstance(node.value, str)


def children(node: Node) -> tuple[Node, ...]:
    """Return the child nodes of a node, in the order they are written."""
    match node:
        case Constant() | Column():
            return ()
        case IsMissing(column):
            return (column,)
        case IsIn(operand, _) | Not(operand) | Negative(operand):
            return (operand,)
        case Call(_, arguments):
            return arguments
        case Chain(first, rest):
            return (first, *(operand for _, operand in rest))


def columns(*nodes: Node) -> tuple[str, ...]:
    """Return the names of the columns that nodes read, each once, in the order they are written."""
    names = ((node.name,) if isinstance(node, Column) else columns(*children(node)) for node in nodes)
    return tuple(dict.fromkeys(chain.from_iterable(names)))


def column_text(name: str) -> str:
    """Return a column's name as it is written in an expression, in backticks unless it is a plain word."""
    if name.isidentifier() and not keyword.iskeyword(name) and name != "missing":
        return name
    return "`" + name.replace("`", "``") + "`"


def to_text(node: Node) -> str:
    """Return the text of a node; ``parse(to_text(node)) == node``."""
    return _write(node)[0]


# How tightly each form binds, as in Python.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(9)
# Of each chain: how tightly it binds, and how tightly at least its first part and the others must.
_PARTS: dict[type, tuple[int, int, int]] = {
    Or: (_OR, _AND, _AND),
    And: (_AND, _NOT, _NOT),
    Comparison: (_COMPARE, _SUM, _SUM),
    Sum: (_SUM, _SUM, _PRODUCT),
    Product: (_PRODUCT, _PRODUCT, _SIGN),
    Power: (_POWER, _ATOM, _SIGN),
}


def _write(node: Node) -> tuple[str, int]:
    """Return the text of a node and how tightly it binds."""
    match node:
        case Constant(value):
            signed = not isinstance(value, str) and math.copysign(1, value) < 0
            return repr(value), _SIGN if signed else _ATOM
        case Column(name):
            return column_text(name), _ATOM
        case IsMissing(column):
            return f"{to_text(column)} is missing", _COMPARE
        case Not(IsMissing(column)):
            return f"{to_text(column)} is not missing", _COMPARE
        case IsIn(operand, values) | Not(IsIn(operand, values)):
            sign = "in" if isinstance(node, IsIn) else "not in"
            return f"{_inside(operand, _SUM)} {sign} {tuple(value.value for value in values)}", _COMPARE
        case Not(operand):
            return f"not {_inside(operand, _NOT)}", _NOT
        case Chain(first, rest):
            binds, least_first, least = _PARTS[type(node)]
            parts = (f"{sign} {_inside(one, least)}" for sign, one in rest)
            return " ".join([_inside(first, least_first), *parts]), binds
        case Negative(operand):
            return f"-{_inside(operand, _SIGN)}", _SIGN
        case Call(function, arguments):
            return f"{function}({', '.join(to_text(argument) for argument in arguments)})", _ATOM


def _inside(node: Node, least: int) -> str:
    text, binds = _write(node)
    return text if binds >= least else f"({text})"
