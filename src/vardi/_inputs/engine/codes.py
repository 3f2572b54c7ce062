"""Truth values as keys to group by: integers whose bits they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._inputs.engine.part import PREFIX, Groups
from vardi._inputs.engines import LazyFrame
from vardi.biases._expressions.nodes import Column, Comparison, Constant, Node
from vardi.biases._expressions.targets import Kind, NarwhalsTarget, literal

CODE, BIT = f"{PREFIX}code_{{}}", f"{PREFIX}bit_{{}}"
BITS = 30  # truth values in one integer
SIDES = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, eq=False)
class Sign:
    """A comparison with a number, as the sign of a difference.

    Attributes
    ----------
    difference : nw.Expr
        Its sign bit is set where the comparison holds, or where it does not.
    holds : bool
        Which of the two.
    """

    difference: nw.Expr
    holds: bool


def as_sign(node: Node, target: NarwhalsTarget) -> Sign | None:
    """Return a comparison of a column of doubles with a number as a sign; None for other conditions.

    The difference of two doubles is zero only if they are equal, and then its sign bit is not set, unless one is -0.
    So comparisons with zero are left to DuckDB, as are those with infinity, whose difference may not be a number.
    """
    if not isinstance(node, Comparison) or len(node.rest) != 1:
        return None
    left, (operator, right) = node.first, node.rest[0]
    if isinstance(left, Constant):
        left, operator, right = right, SIDES.get(operator, operator), left
    if not isinstance(left, Column) or not isinstance(right, Constant) or operator not in SIDES:
        return None
    if target.kind(left.name) is not Kind.FLOAT or isinstance(right.value, str):
        return None
    number = float(right.value)
    if not number or not math.isfinite(number):
        return None
    column = target.column(left.name)
    if operator in ("<", ">="):  # x - c is below zero where x < c
        return Sign(column - literal(number), operator == "<")
    return Sign(literal(number) - column, operator == ">")


@dataclass(frozen=True, eq=False)
class Codes:
    """Truth values as integers.

    Attributes
    ----------
    bits : sequence of Sign or expression
        The truth values.
    in_sql : bool
        Whether DuckDB is asked in its own SQL, without branches; the integer is null if a truth value is. In other
        engines null counts as false.
    """

    bits: Sequence[Sign | nw.Expr]
    in_sql: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns to group by."""
        return tuple(CODE.format(start) for start in range(0, len(self.bits), BITS))

    def add(self, frame: LazyFrame) -> LazyFrame:
        """Add the integers to a frame."""
        packs = {start: range(start, min(start + BITS, len(self.bits))) for start in range(0, len(self.bits), BITS)}
        if not self.in_sql:
            return frame.with_columns(**{CODE.format(start): self._expression(pack) for start, pack in packs.items()})
        columns = [bit.difference if isinstance(bit, Sign) else bit for bit in self.bits]
        frame = frame.with_columns(**{BIT.format(place): column for place, column in enumerate(columns)})
        return with_sql(frame, {CODE.format(start): self._sql(pack) for start, pack in packs.items()})

    def read(self, groups: Groups) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which truth values hold in each group, of shape (groups, bits), and whether one of them is null."""
        held, unknown = np.zeros((len(groups), len(self.bits)), bool), np.zeros(len(groups), bool)
        for place, bit in enumerate(self.bits):
            code = groups.numbers(CODE.format(place - place % BITS))
            unknown |= np.isnan(code)
            is_set = (np.nan_to_num(code).astype(np.int64) >> (place % BITS)) % 2 == 1
            held[:, place] = is_set == bit.holds if isinstance(bit, Sign) else is_set
        return held, unknown

    def _expression(self, pack: range) -> nw.Expr:
        """Return truth values as one integer, the first being the lowest bit."""
        code: nw.Expr = nw.lit(0, nw.Int32)
        for place in pack:
            bit, value = self.bits[place], nw.lit(2 ** (place - pack.start), nw.Int32)
            assert not isinstance(bit, Sign)
            code = code + nw.when(bit).then(value).otherwise(nw.lit(0, nw.Int32))
        return code

    def _sql(self, pack: range) -> str:
        """Return the same in SQL."""
        kind = "TINYINT" if len(pack) < 8 else "INTEGER"
        terms = []
        for place in pack:
            name = quoted(BIT.format(place))
            truth = f"signbit({name})" if isinstance(self.bits[place], Sign) else name
            terms.append(f"(-({truth}::{kind}) & {2 ** (place - pack.start)}::{kind})")  # -1 has all bits
        return " | ".join(terms)


def with_sql(frame: LazyFrame, columns: Mapping[str, str]) -> LazyFrame:
    """Add columns that are written in SQL to a relation."""
    written = ", ".join(["*", *(f"{sql} AS {quoted(name)}" for name, sql in columns.items())])
    changed: LazyFrame = nw.from_native(frame.to_native().project(written))
    return changed


def quoted(name: str) -> str:
    """Return the name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'
