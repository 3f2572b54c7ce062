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

import numpy as np

from vardi.biases._expressions.nodes import (
    Call,
    Chain,
    Column,
    Comparison,
    Computed,
    Constant,
    IsIn,
    IsMissing,
    Junction,
    Negative,
    Node,
    Not,
    Or,
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


def require_columns(names: Sequence[str], present: Collection[str]) -> None:
    """Raise `MismatchError` for the first name that is not a column."""
    for name in names:
        if name not in present:
            shown = first_of(map(str, present))
            raise MismatchError(f"There is no column '{name}'. The columns are: {shown}.{suggest(name, present)}")


def _power(base: Operand, exponent: Operand) -> Operand:
    """Return a power; a square as a product, as in NumPy, since elsewhere it costs as much as any other power."""
    return base * base if isinstance(exponent, float) and exponent == 2.0 else base**exponent


_CONSTANTS = {bool: Kind.CONDITION, int: Kind.INTEGER, float: Kind.FLOAT, str: Kind.TEXT}
_MOMENTS = (Kind.DATE, Kind.DATETIME)

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


class _Builder:
    def __init__(self, target: Target, missing: Collection[str]) -> None:
        self.target = target
        self.missing = missing

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
            case Junction(terms):
                return self._join(node, [self._condition(part) for part in terms])
            case Comparison(first, rest):
                operands = [self.term(first), *(self.term(part) for _, part in rest)]
                signs = [sign for sign, _ in rest]
                pairs = [self._compare(node, sign, *pair) for sign, pair in zip(signs, pairwise(operands), strict=True)]
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
        call = call_numpy if all(isinstance(term.value, float) for term in terms) else self.target.call
        return self._computed(node, lambda *values: call(function, values), terms)

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
        if kinds <= NUMERIC:
            if Kind.CONDITION in kinds:
                return self.float(left), self.float(right)
            return left.value, right.value
        if len(kinds) == 1 and Kind.OTHER not in kinds:
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
