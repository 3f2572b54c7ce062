"""One query for each frame returns all that is checked and, if biases are conditions, its distinct rows.

Rows are grouped by their label and by integers whose bits are truth values: whether the row counts and, if all that a
fit reads (biases, features, known functions) is made of conditions, which of the conditions hold. Engines group by
integers several times faster than by floats. If something is wrong the caller runs more queries, to find out what.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._inputs.engines import LENGTH, Aggregate, LazyFrame, schema_of
from vardi._inputs.lazy_columns import DeclaredColumns, as_floats, expressions, missing_values, on_frame
from vardi._inputs.lazy_part import COUNT, PREFIX, Groups, Part, where
from vardi._types import Floats, Integers
from vardi.biases import Bias, ExpressionBias
from vardi.biases._compile import Compiled, Kind, NarwhalsTarget, compile_node, literal
from vardi.biases._nodes import Column, Comparison, Constant, Node, children, columns, is_condition
from vardi.biases._values import require_columns
from vardi.errors._refusals import (
    WHOLE,
    counts_in_part,
    counts_of_a_kind,
    invalid_counts,
    missing_counts,
    missing_labels,
    unknown_label,
)

CODE, BIT = f"{PREFIX}code_{{}}", f"{PREFIX}bit_{{}}"
BITS = 30  # truth values in one integer
SIDES = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}  # the same with the number first
SIGNS = {"<": "signbit({})", ">=": "NOT signbit({})", ">": "signbit({})", "<=": "NOT signbit({})"}


class Bit(NamedTuple):
    """A truth value: a column, and how it is told from that in SQL."""

    column: nw.Expr
    sql: str = "{}"


def as_sign(node: Node, target: NarwhalsTarget) -> Bit | None:
    """Return a comparison of a column of doubles with a number as the sign of a difference; None for other conditions.

    The difference of two doubles is zero only if they are equal, and then its sign bit is not set, unless one is -0.
    So comparisons with zero are left to DuckDB, as are those with infinity, whose difference may not be a number.
    """
    if not isinstance(node, Comparison) or len(node.rest) != 1:
        return None
    left, (operator, right) = node.first, node.rest[0]
    if isinstance(left, Constant):
        left, operator, right = right, SIDES.get(operator, operator), left
    if not isinstance(left, Column) or not isinstance(right, Constant) or operator not in SIGNS:
        return None
    if target.kind(left.name) is not Kind.FLOAT or isinstance(right.value, str):
        return None
    number = float(right.value)
    if not number or not math.isfinite(number):
        return None
    x, c = target.column(left.name), literal(number)
    return Bit(x - c if operator in ("<", ">=") else c - x, SIGNS[operator])


@dataclass(frozen=True, eq=False)
class Codes:
    """Truth values as integers.

    Attributes
    ----------
    bits : sequence of Bit
        The truth values.
    in_sql : bool
        Whether DuckDB is asked in its own SQL, without branches; the integer is null if a truth value is, which is
        then among the doubts. In other engines null counts as false.
    """

    bits: Sequence[Bit]
    in_sql: bool = False

    @property
    def packs(self) -> dict[str, range]:
        """The columns to group by, each with the truth values that it holds."""
        starts = range(0, len(self.bits), BITS)
        return {CODE.format(start): range(start, min(start + BITS, len(self.bits))) for start in starts}

    def add(self, frame: LazyFrame) -> LazyFrame:
        """Add the integers to a frame."""
        if not self.in_sql:
            return frame.with_columns(**{name: self._expression(pack) for name, pack in self.packs.items()})
        frame = frame.with_columns(**{BIT.format(place): bit.column for place, bit in enumerate(self.bits)})
        written = [f"{self._sql(pack)} AS {quoted(name)}" for name, pack in self.packs.items()]
        changed: LazyFrame = nw.from_native(frame.to_native().project(", ".join(["*", *written])))
        return changed

    def read(self, groups: Groups) -> NDArray[np.bool_]:
        """Return which truth values hold in each group, of shape (groups, bits)."""
        held = np.zeros((len(groups), len(self.bits)), bool)
        for name, pack in self.packs.items():
            code = np.nan_to_num(groups.numbers(name)).astype(np.int64)
            held[:, pack] = (code[:, None] >> np.arange(len(pack))) % 2 == 1
        return held

    def _expression(self, pack: range) -> nw.Expr:
        """Return truth values as one integer, the first being the lowest bit."""
        code: nw.Expr = nw.lit(0, nw.Int32)
        for place in pack:
            value = nw.lit(2 ** (place - pack.start), nw.Int32)
            code = code + nw.when(self.bits[place].column).then(value).otherwise(nw.lit(0, nw.Int32))
        return code

    def _sql(self, pack: range) -> str:
        """Return the same in SQL."""
        kind = "TINYINT" if len(pack) < 8 else "INTEGER"
        truths = [self.bits[place].sql.format(quoted(BIT.format(place))) for place in pack]
        return " | ".join(f"(-(({truth})::{kind}) & {2**j}::{kind})" for j, truth in enumerate(truths))  # -1: all bits


def quoted(text: str, sign: str = '"') -> str:
    """Return the name of a column or table as SQL writes it; with a single quote, a text."""
    return sign + text.replace(sign, 2 * sign) + sign


ROWS, DOUBTFUL = f"{PREFIX}rows", f"{PREFIX}doubtful"
LOW, HIGH, NAN, REACH = (f"{PREFIX}{what}_{{}}" for what in ("low", "high", "nan", "reach"))


@dataclass(frozen=True)
class Survey:
    """The rows of a fit in groups of one sample each.

    Attributes
    ----------
    source : ndarray of int
        The sample of each group.
    counts, rows : ndarray
        The number of rows of each group, with and without counts.
    low, high : ndarray of shape (groups, columns)
        Smallest and largest value of each column, NaN if one is NaN.
    reach : ndarray of shape (groups, K)
        How many rows of each group each bias could have drawn.
    """

    source: Integers
    counts: Floats
    rows: Floats
    low: Floats
    high: Floats
    reach: Floats

    def of(self, groups: NDArray[np.bool_]) -> Survey:
        """Return some of the groups."""
        return Survey(*(values[groups] for values in vars(self).values()))

    def by_sample(self, values: Floats, K: int) -> Floats:
        """Return the sums of values over the groups of each of K samples."""
        columns = values.reshape(len(values), -1).T
        sums = np.array([np.bincount(self.source, column, minlength=K) for column in columns], np.float64)
        return sums.T.reshape(K, *values.shape[1:])

    @classmethod
    def joined(cls, surveys: Iterable[Survey]) -> Survey:
        """Return the groups of several frames as one survey."""
        return cls(*map(np.concatenate, zip(*(vars(one).values() for one in surveys), strict=True)))


def survey(bare: Part, declared: DeclaredColumns, counts: str | None, limit: int) -> tuple[Part, Survey]:
    """Return a frame with the columns of the fit and its groups by one query; raise if it is invalid.

    The groups are its distinct rows, if biases are conditions and there are no more than the limit.
    """
    changes, biases = on_frame(bare.frame, tuple(declared.columns.values()), bare.name)
    bare = bare.map(*changes)
    schema, label = schema_of(bare.frame, bare.name), bare.label
    read = [column for bias in biases for column in bias.columns]
    needed = tuple(dict.fromkeys([*read, *filter(None, (label, counts))]))
    require_columns(needed, schema)
    if counts is not None and not (schema[counts].is_numeric() or schema[counts] == nw.Boolean):
        raise counts_of_a_kind(schema[counts])
    target, columns = NarwhalsTarget(schema), dict(zip(declared.columns, biases, strict=True))
    surveyor = _Surveyor(bare, columns, len(declared.biases), counts, target, needed)
    found = surveyor.answer(limit)
    if found.doubtful:
        missing = missing_values(bare, target, needed)
        if label is not None and label in missing:
            raise missing_labels(label, missing[label])
        if counts is not None and counts in missing:
            raise missing_counts(counts, missing[counts])
        expressions(bare, biases, target, missing)
        surveyor = replace(surveyor, missing=missing)
        found = surveyor.answer(limit)
    part = replace(surveyor.part, codes=_known_codes(found.labels, bare), formulas=surveyor.formulas)
    if counts is None:
        return part, found.groups
    if found.doubtful:  # now that nothing is missing
        _refuse_counts(part, counts, declared.names)
    counted = nw.col(COUNT) > 0
    return replace(part.map(where(counted)), whole=part.frame, belongs=counted), found.groups


def _known_codes(labels: Sequence[Hashable], part: Part) -> dict[Hashable, int]:
    """Return the samples that have rows; refuse a label without a bias."""
    if part.label is None:
        return part.codes
    found = sorted(set(labels), key=str)  # an engine groups in any order
    strangers = [label for label in found if label not in part.codes]
    if strangers:
        raise unknown_label(strangers[0], part.label, found, part.codes)
    return {label: code for label, code in part.codes.items() if label in found}


def _refuse_counts(part: Part, counts: str, names: Sequence[str]) -> None:
    """Refuse invalid counts, naming the first sample with one and the smallest of them: there are no row numbers."""
    for wrong, refusal in ((_out_of_range(), invalid_counts), (_in_part(), counts_in_part)):
        groups = part.groups({"least": Aggregate(COUNT, "min")}, where(wrong))
        found = sorted((k, count) for k, count in zip(groups.source, groups.keys(["least"]), strict=True) if count)
        if found:
            raise refusal(f"A count in {counts!r} of {names[found[0][0]]!r} is {found[0][1]}")


def _out_of_range() -> nw.Expr:
    return (nw.col(COUNT) < 0) | (nw.col(COUNT) == float("inf"))


def _in_part() -> nw.Expr:
    """Return a condition that holds where a count is not a whole number."""
    fraction, slack = nw.col(COUNT) % 1.0, WHOLE * nw.col(COUNT)
    return (fraction > slack) & (fraction < 1.0 - slack)


class _Answer(NamedTuple):
    """What an engine says: labels of groups, whether a value is missing or a count invalid, and groups of the fit."""

    labels: list[Hashable]
    doubtful: bool
    groups: Survey


@dataclass(frozen=True)
class _Surveyor:
    """A frame on which nothing has been checked yet.

    Attributes
    ----------
    bare : Part
        The frame as the user gave it, and all possible labels.
    columns : dict of str to ExpressionBias
        What the fit reads: each column to be added with what it holds, the biases first.
    states : int
        How many biases there are.
    counts : str or None
        Column of frequency weights.
    target : NarwhalsTarget
        The user's own columns.
    needed : tuple of str
        Those of them that the fit reads.
    missing : mapping or None
        Those with missing values; None if it is not known yet, so that biases are compiled as if there were none.
    """

    bare: Part
    columns: dict[str, ExpressionBias]
    states: int
    counts: str | None
    target: NarwhalsTarget
    needed: tuple[str, ...]
    missing: Mapping[str, int] | None = None

    def answer(self, limit: int) -> _Answer:
        """Query the groups: of equal rows if all columns are conditions and there are few enough, else of samples."""
        conditions = conditions_of(self.columns.values(), self.target)
        if conditions is not None:
            found = self._ask(conditions, limit)
            if len(found.labels) <= limit:
                return found
        return self._ask((), None)

    @cached_property
    def part(self) -> Part:
        """The frame with all declared columns."""
        columns = {name: as_floats(self._compiled(bias.node)) for name, bias in self.columns.items()}
        if self.counts is not None:
            columns[COUNT] = nw.col(self.counts).cast(nw.Float64)
        part = self.bare.map(lambda frame: frame.with_columns(**columns))
        return replace(part, counted=self.counts is not None)

    @property
    def formulas(self) -> dict[str, Node]:
        """What of the columns NumPy can compute as well, since it reads doubles of which none is missing."""
        if self.missing is not None:
            return {}
        kinds = {name: {self.target.schema[one] for one in columns(bias.node)} for name, bias in self.columns.items()}
        return {name: self.columns[name].node for name, read in kinds.items() if read == {nw.Float64()}}

    def _compiled(self, node: Node) -> Compiled:
        return compile_node(node, self.target, self.missing or ())

    def _ask(self, conditions: Sequence[Node], limit: int | None) -> _Answer:
        """Group the rows by label, by whether they count and by conditions, into one more than the limit.

        Without a limit rows of a group may differ: then the range of each column is queried, and how many rows each
        bias could have drawn.
        """
        part = self.part
        status = [nw.col(COUNT) > 0] if part.counted else []
        codes, place = self._codes(status, conditions), {node: len(status) + j for j, node in enumerate(conditions)}
        asked = {ROWS: LENGTH, COUNT: part.rows, **self._doubt()}
        for name, bias in self.columns.items():
            if limit is None:
                asked |= self._range(name)
            elif bias.node not in place:
                asked[HIGH.format(name)] = Aggregate(name, "max")
        most = None if limit is None else limit + 1
        found = part.groups(asked, codes.add if codes.bits else None, key=[*codes.packs], most=most)
        held, counts = codes.read(found), found.numbers(COUNT)
        if limit is None:
            low, high, nan, reach = (
                found.matrix([what.format(name) for name in self.columns]) for what in (LOW, HIGH, NAN, REACH)
            )
            low[nan > 0] = high[nan > 0] = np.nan
        else:
            values = [
                held[:, place[bias.node]] if bias.node in place else found.numbers(HIGH.format(name))
                for name, bias in self.columns.items()
            ]
            low = high = np.column_stack(values).astype(np.float64)
            reach = counts[:, None] * (high > 0)
        source = np.array([part.codes.get(label, -1) for label in found.labels], np.int64)
        groups = Survey(source, counts, found.numbers(ROWS), low, high, reach[:, : self.states])
        doubtful = DOUBTFUL in asked and bool(found.numbers(DOUBTFUL).any())
        return _Answer(found.labels, doubtful, groups.of(counts > 0))

    def _range(self, name: str) -> dict[str, Aggregate]:
        """Return the ends of a column, and how many rows have no number there and one above zero."""
        column = nw.col(name)
        return {
            LOW.format(name): Aggregate(name, "min"),
            HIGH.format(name): Aggregate(name, "max"),
            NAN.format(name): Aggregate(NarwhalsTarget.is_nan(column).cast(nw.Int64)),
            REACH.format(name): Aggregate(self.part.times_count((column > 0).cast(nw.Float64))),
        }

    def _doubt(self) -> dict[str, Aggregate]:
        """Return the number of rows with a missing value, an unknown bias or an invalid count.

        It costs less than a further key; what is missing is asked for once.
        """
        certain = [] if self.counts is None else [~(_out_of_range() | _in_part())]
        if self.missing is None:
            known = [self._compiled(bias.node).known for bias in self.columns.values()]
            certain += [one for one in known if one is not None]
            certain += [_present(column, self.target) for column in self.needed]
        if not certain:
            return {}
        sure = nw.when(reduce(operator.and_, certain)).then(nw.lit(0, nw.Int64))
        return {DOUBTFUL: Aggregate(sure.otherwise(nw.lit(1, nw.Int64)))}

    def _codes(self, status: Sequence[nw.Expr], conditions: Sequence[Node]) -> Codes:
        """Return the keys of groups; in SQL if DuckDB holds the rows and no value is known to be missing."""
        bits = [Bit(self._compiled(node).value) for node in conditions]
        in_sql = self.missing is None and self.part.frame.implementation.is_duckdb()
        if in_sql:
            bits = [as_sign(node, self.target) or bit for node, bit in zip(conditions, bits, strict=True)]
        return Codes([*map(Bit, status), *bits], in_sql)


def _present(column: str, target: NarwhalsTarget) -> nw.Expr:
    """Return a condition that holds where a column has a value; in no engine is NaN below infinity."""
    return nw.col(column) <= float("inf") if target.schema[column].is_float() else ~nw.col(column).is_null()


def conditions_of(biases: Iterable[Bias], target: NarwhalsTarget) -> tuple[Node, ...] | None:
    """Return the conditions that all biases are made of, each once; None if one reads numbers as well."""
    found: dict[Node, None] = {}
    below = [bias.node if isinstance(bias, ExpressionBias) else None for bias in biases]
    while below:
        node = below.pop(0)
        if node is None or (isinstance(node, Column) and target.kind(node.name) is not Kind.CONDITION):
            return None
        if isinstance(node, Column) or is_condition(node):
            found[node] = None
        else:
            below = [*children(node), *below]
    return tuple(found)
