"""Nodes compiled for any target.

Engines disagree on missing values (NaN > 60 is false in pandas and true in Polars), so it is never left to them. A term
that may be unknown on some rows carries a mask of the rows where it is known, and conditions follow Kleene's logic.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from vardi.biases._expressions.nodes import (
    And,
    Call,
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
    Power,
    Product,
    Sum,
    columns,
    to_text,
)
from vardi.biases._expressions.targets import NUMERIC, Kind, Operand, Target, Values, call_numpy
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import first_of


@dataclass(frozen=True)
class Compiled:
    """An expression for one target.

    Attributes
    ----------
    value
        The values: false (conditions) or anything (numbers) where they are unknown. A Python float if constant.
    known
        The mask of the rows where the value is known, without nulls; None if it is known everywhere.
    is_condition : bool
        Whether the values are true and false.
    """

    value: Operand
    known: Operand | None
    is_condition: bool


def compile_node(node: Node, target: Target, missing: Collection[str] = ()) -> Compiled:
    """Turn a node into a narwhals expression or an array.

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
    is_condition = term.kind is Kind.CONDITION
    return Compiled(term.value if is_condition else builder.float(term), term.known, is_condition)


def require_columns(names: Sequence[str], present: Collection[str]) -> None:
    """Raise `MismatchError` for the first name that is not a column."""
    for name in names:
        if name not in present:
            shown = first_of(map(str, present))
            raise MismatchError(f"There is no column '{name}'. The columns are: {shown}.{suggest(name, present)}")


@dataclass(frozen=True)
class _Term:
    """A node being compiled; the value is a Python number or text if it is constant."""

    node: Node
    kind: Kind
    value: Operand
    known: Values | None = None


Join: TypeAlias = Callable[[Operand, Operand], Operand]
"""Two values, either of which may be a Python number, as one."""

_OPERATORS: dict[str, Join] = {
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
    "**": operator.pow,
}


def _power(base: Operand, exponent: Operand) -> Operand:
    """Return a power; a square as a product, as in NumPy, since elsewhere it costs as much as any other power."""
    return base * base if isinstance(exponent, float) and exponent == 2.0 else base**exponent


def _both(*masks: Values | None) -> Values | None:
    """Return where all masks hold; None holds everywhere."""
    present = [mask for mask in masks if mask is not None]
    return reduce(operator.and_, present) if present else None


class _Builder:
    def __init__(self, target: Target, missing: Collection[str]) -> None:
        self.target = target
        self.missing = missing

    def term(self, node: Node) -> _Term:
        match node:
            case Constant(bool() as value):
                return _Term(node, Kind.CONDITION, self.target.truth(value))
            case Constant(value):
                kinds = {int: Kind.INTEGER, float: Kind.FLOAT, str: Kind.TEXT}
                return _Term(node, kinds[type(value)], value)
            case Column(name):
                return self._column(node, name)
            case IsMissing(Column(name)):
                absent = self.target.is_missing(name) if name in self.missing else self.target.truth(False)
                return _Term(node, Kind.CONDITION, absent)
            case Not(operand):
                term = self._condition(operand)
                return replace(term, node=node, value=_both(~term.value, term.known))
            case And(terms):
                return self._join(node, [self._condition(part) for part in terms], operator.and_, operator.or_)
            case Or(terms):
                return self._join(node, [self._condition(part) for part in terms], operator.or_, operator.and_)
            case Comparison(first, rest):
                operands = [self.term(first), *(self.term(part) for _, part in rest)]
                signs = [sign for sign, _ in rest]
                pairs = [self._compare(node, sign, *pair) for sign, pair in zip(signs, pairwise(operands), strict=True)]
                return pairs[0] if len(pairs) == 1 else self._join(node, pairs, operator.and_, operator.or_)
            case IsIn(operand, values):
                return self._is_in(node, self.term(operand), [value.value for value in values])
            case Sum(first, rest) | Product(first, rest):
                total = self._number(first)
                for sign, part in rest:
                    total = self._apply(node, _OPERATORS[sign], total, self._number(part))
                return total
            case Power(base, exponent):
                return self._apply(node, _power, self._number(base), self._number(exponent))
            case Negative(operand):
                term = self._number(operand)
                return replace(term, node=node, value=term.value * -1.0)  # narwhals has had a sign since 2.1 only
            case Call(function, arguments):
                return self._call(node, function, [self._number(argument) for argument in arguments])

    def float(self, term: _Term) -> Operand:
        """Return the value of a numeric term as floats."""
        if term.kind is Kind.FLOAT:
            return term.value
        return float(term.value) if isinstance(term.value, int) else self.target.as_float(term.value)

    def _column(self, node: Node, name: str) -> _Term:
        kind, value = self.target.kind(name), self.target.column(name)
        if name not in self.missing:
            return _Term(node, kind, value)
        known = ~self.target.is_missing(name)
        return _Term(node, kind, value & known if kind is Kind.CONDITION else value, known)

    def _condition(self, node: Node) -> _Term:
        term = self.term(node)
        if term.kind is not Kind.CONDITION:
            raise self.mismatch(term, "and, or, not join conditions", f"Compare it, e.g. {to_text(node)} > 0.")
        return term

    def _number(self, node: Node) -> _Term:
        term = self.term(node)
        if term.kind not in NUMERIC:
            raise self.mismatch(term, "a number is needed here", f"Compare it, e.g. {to_text(node)} == '...'.")
        return replace(term, kind=Kind.FLOAT, value=self.float(term))

    def _apply(self, node: Node, apply: Join, left: _Term, right: _Term) -> _Term:
        a, b = left.value, right.value
        if isinstance(a, float) and isinstance(b, float):  # with NumPy's floats: 0 / 0 is NaN, 9 ** 9 ** 9 infinite
            value = float(apply(np.float64(a), np.float64(b)))
        else:
            value = apply(a, b)
        return _Term(node, Kind.FLOAT, value, _both(left.known, right.known))

    def _call(self, node: Node, function: str, terms: list[_Term]) -> _Term:
        arguments = [term.value for term in terms]
        if all(isinstance(argument, float) for argument in arguments):
            value: Operand = float(call_numpy(function, [np.float64(argument) for argument in arguments]))
        else:
            value = self.target.call(function, arguments)
        many = len(terms) > 1  # engines differ on the least of a number and NaN
        known = _both(*(self._defined(term) if many else term.known for term in terms))
        return _Term(node, Kind.FLOAT, value, known)

    def _join(self, node: Node, terms: Sequence[_Term], own: Join, dual: Join) -> _Term:
        """Join conditions by Kleene's and (own = and, dual = or) or by his or (the other way round).

        And is true where all terms are, false where one is, and unknown elsewhere.
        """
        joined = reduce(own, [term.value for term in terms])
        if all(term.known is None for term in terms):
            return _Term(node, Kind.CONDITION, joined)
        refuted = reduce(dual, [_both(~term.value, term.known) for term in terms])
        return _Term(node, Kind.CONDITION, joined, joined | refuted)

    def _compare(self, node: Node, sign: str, left: _Term, right: _Term) -> _Term:
        a, b = self._comparable(left, right)
        if not (isinstance(a, int | float) and isinstance(b, int | float)):
            a, b = (self.target.number(side) if isinstance(side, float) else side for side in (a, b))
        value = _OPERATORS[sign](a, b)
        if isinstance(value, bool):
            value = self.target.truth(value)
        known = _both(self._defined(left), self._defined(right))
        return _Term(node, Kind.CONDITION, _both(value, known), known)

    def _comparable(self, left: _Term, right: _Term) -> tuple[Operand, Operand]:
        """Return two values that every engine compares in the same way."""
        kinds = {left.kind, right.kind}
        if kinds <= NUMERIC:
            if Kind.CONDITION in kinds:
                return self.float(left), self.float(right)
            return left.value, right.value
        if len(kinds) == 1 and Kind.OTHER not in kinds:
            return left.value, right.value
        if left.kind in (Kind.DATE, Kind.DATETIME) and isinstance(right.value, str):
            return left.value, self._moment(left, right.value)
        if right.kind in (Kind.DATE, Kind.DATETIME) and isinstance(left.value, str):
            return self._moment(right, left.value), right.value
        column, other = (left, right) if isinstance(left.node, Column) else (right, left)
        raise self.mismatch(column, f"it is compared with {to_text(other.node)}", _comparison_remedy(column.kind))

    def _moment(self, term: _Term, text: str) -> datetime.date | np.datetime64:
        assert isinstance(term.node, Column)  # only columns hold dates
        try:
            return self.target.moment(term.node.name, text)
        except ValueError as error:
            remedy = f"{error}. {_comparison_remedy(term.kind)}"
            raise self.mismatch(term, f"it is compared with {text!r}", remedy) from None

    def _is_in(self, node: IsIn, term: _Term, values: Sequence[Operand]) -> _Term:
        a, texts = term.value, isinstance(values[0], str)
        if term.kind in NUMERIC and not texts:
            if term.kind is not Kind.INTEGER or not all(type(value) is int for value in values):
                a, values = self.float(term), [float(value) for value in values]
        elif term.kind in (Kind.DATE, Kind.DATETIME) and texts:
            values = [self._moment(term, value) for value in values]
        elif term.kind is not Kind.TEXT or not texts:
            raise self.mismatch(term, f"it is compared with {values[0]!r}", _comparison_remedy(term.kind))
        known = self._defined(term)
        value = self.target.truth(a in values) if isinstance(a, int | float | str) else self.target.is_in(a, values)
        return _Term(node, Kind.CONDITION, _both(value, known), known)

    def _defined(self, term: _Term) -> Values | None:
        """Return where a term is known and not NaN; only a computed term can be both known and NaN."""
        if not isinstance(term.node, Computed):
            return term.known
        if isinstance(term.value, float):
            return self.target.truth(False) if math.isnan(term.value) else term.known
        return _both(term.known, ~self.target.is_nan(term.value))

    def mismatch(self, term: _Term, reason: str, remedy: str) -> MismatchError:
        """Return the error for a term of a kind that is not allowed where it is used."""
        if term.kind is Kind.OTHER:
            remedy = "Convert the column to numbers, text, booleans or dates."
        if not isinstance(term.node, Column):
            message = f"{to_text(term.node)} is {term.kind.value}, but {reason}. {remedy}"
            return MismatchError(message)
        name = term.node.name
        dtype = self.target.dtype(name)
        return MismatchError(f"Column '{name}' holds {term.kind.value} ({dtype}), but {reason}. {remedy}")


def _comparison_remedy(kind: Kind) -> str:
    return {
        Kind.TEXT: "Compare it with a string in quotes, or convert the column.",
        Kind.DATE: "Compare it with a date such as '2024-01-31'.",
        Kind.DATETIME: "Compare it with a time such as '2024-01-31' or '2024-01-31T12:30:00'.",
    }.get(kind, "Compare it with a number, or convert the column.")
