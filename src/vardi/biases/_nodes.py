r"""The language of biases: text such as ``price <= 22 and region in ('N', 'W')``, as values that can be compared.

Nodes are built with the lower-case functions, which keep one form of each; `to_text` writes them, and `parse` of
`vardi.biases._parse` reads them. Families of expressions have parameters:

========================  ===========================================================  ==========================
text                      bias                                                         parameters
========================  ===========================================================  ==========================
logistic(x, y)            :math:`1 / (1 + e^{-\alpha - \beta_x x - \beta_y y})`         intercept, x, y
exponential_tilt(x, y)    :math:`e^{\theta_x x + \theta_y y}`                           x, y
power(x)                  :math:`x^\theta`                                              exponent
steps(x, [a, b])          1 below a, :math:`e^{\theta_1}` below b, :math:`e^{\theta_2}`  a <= x < b, x >= b
========================  ===========================================================  ==========================

Cells are log-linear in categories, with a parameter for each value but the most frequent one of each column:

.. math:: \omega(z) = \exp \sum_g \theta_{g, v_g(z)}, \qquad \theta_{g, v} = 0 \text{ for the most frequent value } v

======================  ========================================================
text                    parameters
======================  ========================================================
cells(region, sex)      of each region and of each sex but the most frequent one
cells((region, sex))    of each pair of them but the most frequent one
======================  ========================================================
"""

from __future__ import annotations

import datetime
import keyword
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, islice, pairwise
from typing import Any, TypeAlias

import numpy as np

from vardi.errors import InvalidBiasError, MismatchError, suggest

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


Value = bool | int | float | str
Level = tuple[Value, ...]
"""A value for each crossed column; for a single column a tuple of one."""
Parameters: TypeAlias = Mapping[Any, Any] | Iterable[float]
"""A number for each parameter, by name or in order; for cells from each column to its values, each with a number."""
FAMILIES = ("exponential_tilt", "logistic", "power", "steps")


@dataclass(frozen=True, slots=True)
class ExpressionFamily:
    """A bias up to its parameters.

    Attributes
    ----------
    kind : str
        One of `FAMILIES`.
    terms : tuple of Node
        What it reads: columns, or expressions of them.
    cuts : tuple of float
        The cuts of steps, in increasing order.
    """

    kind: str
    terms: tuple[Node, ...]
    cuts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind in ("power", "steps") and len(self.terms) > 1:
            raise InvalidBiasError(f"{self.kind} reads one column, but {len(self.terms)} were given.")
        require_terms(self, self.kind, self.terms, "Name it once.")
        if self.kind == "steps" and not self.cuts:
            raise InvalidBiasError("steps has no cuts. Give at least one number, such as [30, 60].")
        if not all(math.isfinite(cut) for cut in self.cuts) or any(low >= high for low, high in pairwise(self.cuts)):
            raise InvalidBiasError(
                f"The cuts {list(self.cuts)} of steps are not finite, increasing numbers. Put them in order."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return columns(*self.terms)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters."""
        if self.kind == "power":
            return ("exponent",)
        texts = tuple(map(to_text, self.features()))
        if self.kind == "logistic":
            return ("(intercept)" if "intercept" in texts else "intercept", *texts)
        return texts

    def __str__(self) -> str:
        arguments = [to_text(term) for term in self.terms]
        if self.kind == "steps":
            arguments.append(repr(list(self.cuts)))
        return f"{self.kind}({', '.join(arguments)})"

    def intervals(self) -> tuple[Comparison, ...]:
        """Return the intervals of steps, the reference first."""
        term, cuts = self.terms[0], [Constant(cut) for cut in self.cuts]
        inner = [Comparison(low, (("<=", term), ("<", high))) for low, high in pairwise(cuts)]
        return (Comparison(term, (("<", cuts[0]),)), *inner, Comparison(term, ((">=", cuts[-1]),)))

    def features(self) -> tuple[Node, ...]:
        """Return what the parameters, except the intercept, multiply in the log of the bias or its odds."""
        if self.kind == "power":
            return (Call("log", self.terms),)
        return self.intervals()[1:] if self.kind == "steps" else self.terms

    def node(self, theta: Sequence[float]) -> Node:
        """Return the expression of the bias with its parameters fixed."""
        if self.kind == "power":
            return arithmetic(self.terms[0], "**", Constant(float(theta[0])))
        if self.kind == "steps":
            return _by_case(theta, self.intervals())
        if self.kind == "exponential_tilt":
            return Call("exp", (_combination(theta, self.terms),))
        against = [-float(value) for value in theta]
        odds_against = Call("exp", (_combination(against[1:], self.terms, Constant(against[0])),))
        return arithmetic(Constant(1), "/", arithmetic(Constant(1), "+", odds_against))


@dataclass(frozen=True, slots=True)
class Cells:
    """A bias that has a factor for each value of some columns.

    Attributes
    ----------
    groups : tuple of tuple of Node
        The groups of columns, or expressions of them, that are crossed with one another; mostly one in each group.
    levels : tuple of tuple of Level
        The values of each group, the reference first; empty until rows are seen.
    """

    groups: tuple[tuple[Node, ...], ...]
    levels: tuple[tuple[Level, ...], ...] = ()

    def __post_init__(self) -> None:
        terms = [term for group in self.groups for term in group] if all(self.groups) else []
        remedy = "Name it once: crossed columns already have parameters for each of them alone."
        require_terms(self, "cells", terms, remedy)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return columns(*(term for group in self.groups for term in group))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters, such as ``region=N``; none until rows are seen."""
        return tuple(level_text(group, level) for group, level in self._effects)

    def __str__(self) -> str:
        return f"cells({', '.join(group_text(group) for group in self.groups)})"

    def seen(self, levels: Sequence[Sequence[Level]]) -> Cells:
        """Return the same with the values that occur in rows, in each group the most frequent first."""
        return replace(self, levels=tuple(tuple(one) for one in levels))

    def features(self) -> tuple[Node, ...]:
        """Return a condition for each parameter, on which it adds to the log of the bias; none until rows are seen."""
        return tuple(_holds(group, level) for group, level in self._effects)

    def holding(self, place: int) -> list[Node]:
        """Return conditions of which one holds where a row has one of the values of a group."""
        group, levels = self.groups[place], self.levels[place]
        if len(group) == 1 and not any(isinstance(level[0], bool) for level in levels):
            return [IsIn(group[0], tuple(Constant(level[0]) for level in levels))]
        return [_holds(group, level) for level in levels]

    @property
    def _effects(self) -> list[tuple[tuple[Node, ...], Level]]:
        """The group and the level that each parameter belongs to."""
        pairs = zip(self.groups, self.levels, strict=False)
        return [(group, level) for group, levels in pairs for level in levels[1:]]

    def node(self, theta: Sequence[float]) -> Node:
        """Return the expression of the bias with its parameters fixed: zero for a value that was not seen."""
        values, factors = iter(theta), []
        for group, levels in zip(self.groups, self.levels, strict=True):
            cases = [_holds(group, level) for level in levels]
            factors.append(_by_case(list(islice(values, len(cases) - 1)), cases))
        return reduce(lambda product, part: arithmetic(product, "*", part), factors)

    def fixed(self, theta: Parameters) -> tuple[Cells, list[float]]:
        """Return the same with the values named in a table of parameters, and these parameters.

        Parameters
        ----------
        theta : mapping
            From each column to its values, each with the log of its factor; from a tuple of crossed columns to tuples
            of values.
        """
        keys = {_key(group): group for group in self.groups}
        if not isinstance(theta, Mapping) or set(theta) != set(keys):
            got = list(theta)
            near = suggest(got[0], keys) if got and isinstance(theta, Mapping) else ""
            raise MismatchError(
                f"The parameters of {self} belong to values that only the rows determine, but {got} was given. Give "
                "each column its values with the logs of their factors, "
                f"{{{', '.join(f'{key!r}: {{...}}' for key in keys)}}}, or fix those of a fit: "
                f"fit.estimated_biases.{near}"
            )
        levels, parameters = [], []
        for key, group in keys.items():
            table = {_as_level(value, group): float(number) for value, number in dict(theta[key]).items()}
            if not table:
                raise MismatchError(f"{key!r} has no values in {theta}.")
            zero = next((level for level, number in table.items() if number == 0), next(iter(table)))
            levels.append([zero, *(level for level in table if level != zero)])
            parameters += [table[level] - table[zero] for level in levels[-1][1:]]
        return self.seen(levels), parameters


def group_text(group: tuple[Node, ...]) -> str:
    """Return crossed columns as they are written in a text."""
    texts = [to_text(term) for term in group]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def level_text(group: tuple[Node, ...], level: Level) -> str:
    """Return a value as the name of its parameter, such as ``region=N, sex=f``."""
    terms = [to_text(term) if isinstance(term, Column) else f"({to_text(term)})" for term in group]
    return ", ".join(f"{term}={value}" for term, value in zip(terms, level, strict=True))


def _key(group: tuple[Node, ...]) -> str | tuple[str, ...]:
    names = tuple(term.name if isinstance(term, Column) else to_text(term) for term in group)
    return names[0] if len(names) == 1 else names


def _as_level(value: object, group: tuple[Node, ...]) -> Level:
    parts = value if isinstance(value, tuple) else (value,)
    plain = [one.item() if isinstance(one, np.generic) else one for one in parts]
    level = tuple(one for one in plain if isinstance(one, bool | int | float | str))
    if not len(level) == len(plain) == len(group):
        raise MismatchError(
            f"{value!r} is not a value of {group_text(group)}. Give a string, a number or a boolean for each column."
        )
    return level


def _holds(group: tuple[Node, ...], level: Level) -> Node:
    """Return the condition that a row has these values."""
    return junction("and", [_is(term, value) for term, value in zip(group, level, strict=True)])


def _is(term: Node, value: Value) -> Node:
    if is_condition(term) and isinstance(value, bool):
        return term if value else Not(term)
    return Comparison(term, (("==", Constant(value)),))


def require_terms(bias: object, kind: str, terms: Sequence[Node], remedy: str) -> None:
    """Refuse a family without a term, or whose parameters cannot be told apart."""
    if not terms:
        raise InvalidBiasError(f"{kind} has no column. Name what the bias depends on.")
    if len(set(terms)) < len(terms):
        raise InvalidBiasError(f"A column appears twice in {bias}, so its parameters cannot be told apart. {remedy}")
    if any(not columns(term) for term in terms):
        raise InvalidBiasError(f"A term of {bias} reads no column, so it is the same for all rows.")


def _by_case(theta: Sequence[float], cases: Sequence[Node]) -> Node:
    """Return 1 in the first case and e to its parameter in each other; raise if one overflows."""
    try:
        return _combination([1.0, *map(math.exp, theta)], cases)
    except OverflowError:
        raise InvalidBiasError(
            f"A parameter is {max(theta):g}, whose exponential overflows floating point. Parameters are logs of "
            "factors."
        ) from None


def _combination(factors: Sequence[float], terms: Sequence[Node], *others: Node) -> Node:
    """Return the sum of other nodes and of terms, each times its factor."""
    pairs = zip(factors, terms, strict=True)
    return total([*others, *(arithmetic(Constant(float(factor)), "*", term) for factor, term in pairs)])


def total(nodes: Sequence[Node]) -> Node:
    """Return the sum of nodes."""
    return reduce(lambda whole, node: arithmetic(whole, "+", node), nodes)
