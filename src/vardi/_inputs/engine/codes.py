"""Truth values as keys to group by: integers whose bits they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._inputs.engine.part import PREFIX
from vardi.biases._expressions.compile import NarwhalsTarget
from vardi.biases._expressions.nodes import Column, Comparison, Constant, Node
from vardi.biases._expressions.targets import Kind, literal

#: A truth value of each row, or one that all rows have.
Bit: TypeAlias = nw.Expr | bool
#: Label of each group, and whether each truth value holds there.
Read: TypeAlias = tuple[list[Any], list[NDArray[np.bool_]]]
CODE = "__vardi_code_{}"
BITS = 30  # truth values in one integer
BIT = f"{PREFIX}bit_{{}}"
NARROW = 7  # bits of the positive integers of 8
SIDES = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Codes(Protocol):
    """Keys that tell the label of a row and which truth values hold on it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns to group by."""

    def add(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the columns to a frame."""

    def read(self, answer: nw.DataFrame[Any]) -> Read | None:
        """Return what the keys of groups tell; None if a key is missing."""


class PackedBits:
    """Integers made by narwhals, in any engine, beside the label.

    Parameters
    ----------
    label : str or None
        Column of labels, if there is one.
    bits : sequence of expression or bool
        The truth values; null counts as false.
    """

    def __init__(self, label: str | None, bits: Sequence[Bit]) -> None:
        self._label, self._bits = label, bits
        self._packs = [range(start, min(start + BITS, len(bits))) for start in range(0, len(bits), BITS)]

    @property
    def keys(self) -> tuple[str, ...]:
        return (*([] if self._label is None else [self._label]), *(CODE.format(j) for j in range(len(self._packs))))

    def add(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        codes = {CODE.format(j): _code([self._bits[place] for place in pack]) for j, pack in enumerate(self._packs)}
        return frame.with_columns(**codes) if codes else frame

    def read(self, answer: nw.DataFrame[Any]) -> Read | None:
        found = []
        for j, pack in enumerate(self._packs):
            code = answer.get_column(CODE.format(j)).to_numpy().astype(np.int64)
            found += [(code >> (place - pack.start)) % 2 == 1 for place in pack]
        return labels_in(answer, self._label), found


def labels_in(answer: nw.DataFrame[Any], label: str | None) -> list[Any]:
    """Return the label of each group; None if there is no column of labels."""
    return [None] * len(answer) if label is None else answer.get_column(label).to_list()


def _code(bits: Sequence[Bit]) -> nw.Expr:
    """Return truth values as one integer, the first being the lowest bit; null counts as false."""
    code = nw.lit(sum(2**place for place, bit in enumerate(bits) if bit is True), nw.Int32)
    for place, bit in enumerate(bits):
        if not isinstance(bit, bool):
            code = code + nw.when(bit).then(nw.lit(2**place, nw.Int32)).otherwise(nw.lit(0, nw.Int32))
    return code


def is_duckdb(frame: nw.LazyFrame[Any]) -> bool:
    """Return whether a frame is a relation of DuckDB."""
    return frame.implementation.is_duckdb()


def with_sql(frame: nw.LazyFrame[Any], columns: Mapping[str, str]) -> nw.LazyFrame[Any]:
    """Add columns that are written in SQL to a relation."""
    written = ", ".join(["*", *(f"{sql} AS {quoted(name)}" for name, sql in columns.items())])
    changed: nw.LazyFrame[Any] = nw.from_native(frame.to_native().project(written))
    return changed


def quoted(name: str) -> str:
    """Return the name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


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


class SignBits:
    """One narrow integer for label and truth values, or a wider one beside the label.

    Parameters
    ----------
    label : str or None
        Column of labels, if there is one.
    labels : sequence
        The labels it may have.
    bits : sequence of Sign, expression or bool
        The truth values.
    """

    def __init__(self, label: str | None, labels: Sequence[Any], bits: Sequence[Bit | Sign]) -> None:
        self._label, self._labels, self._bits = label, labels, bits
        self._varying = [place for place, bit in enumerate(bits) if not isinstance(bit, bool)]
        texts = label is not None and all(isinstance(one, str) for one in labels)
        low = len(labels).bit_length() if texts else 0
        self._low = low if low + len(self._varying) <= NARROW else 0  # bits of the label's place among the labels
        self._kind = "TINYINT" if self._low + len(self._varying) <= NARROW else "INTEGER"

    @staticmethod
    def hold(bits: Sequence[Bit | Sign]) -> bool:
        """Return whether there are few enough truth values."""
        return len(bits) <= BITS

    @property
    def keys(self) -> tuple[str, ...]:
        return (*([] if self._low or self._label is None else [self._label]), CODE.format(0))

    def add(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        columns: dict[str, nw.Expr] = {}
        terms: list[str] = []
        if self._low:
            listed = ", ".join("'" + one.replace("'", "''") + "'" for one in self._labels)
            terms.append(f"list_position([{listed}], {quoted(str(self._label))})::{self._kind}")
        for j, place in enumerate(self._varying):
            bit = self._bits[place]
            assert not isinstance(bit, bool)
            columns[BIT.format(place)] = bit.difference if isinstance(bit, Sign) else bit
            name = quoted(BIT.format(place))
            truth = f"signbit({name})" if isinstance(bit, Sign) else name
            terms.append(f"(-({truth}::{self._kind}) & {2 ** (self._low + j)}::{self._kind})")  # -1 has all bits
        return with_sql(frame.with_columns(**columns), {CODE.format(0): " | ".join(terms) or f"0::{self._kind}"})

    def read(self, answer: nw.DataFrame[Any]) -> Read | None:
        code = answer.get_column(CODE.format(0))
        if code.null_count():  # a label that is not listed, or a truth value that is not known
            return None
        keys = code.to_numpy().astype(np.int64)
        found = [np.full(len(keys), bit is True) for bit in self._bits]
        for j, place in enumerate(self._varying):
            bit = self._bits[place]
            found[place] = ((keys >> (self._low + j)) % 2 == 1) ^ (isinstance(bit, Sign) and not bit.holds)
        if not self._low:
            return labels_in(answer, self._label), found
        places = keys % 2**self._low - 1
        return None if (places < 0).any() else ([self._labels[place] for place in places.tolist()], found)
