"""One query for each frame returns all that is checked and, if biases are conditions, its distinct rows.

Rows are grouped by their label and by integers made of truth values: whether a value is missing or a bias unknown,
whether the count is valid, and, if all that a fit reads (biases, features, known functions) is made of conditions,
which of the conditions hold. Engines group by integers several times faster than by floats. If something is wrong the
caller runs more queries, to find out what.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._inputs.engine.aggregates import LENGTH, Aggregate
from vardi._inputs.engine.codes import Bit, Codes, PackedBits, Sign, SignBits, as_sign, is_duckdb
from vardi._inputs.engine.columns import compiled_bias, constant_of
from vardi._inputs.engine.part import COUNT, PREFIX, Part
from vardi._inputs.engine.queries import aggregated
from vardi._types import Floats, Integers
from vardi.biases import Bias, ExpressionBias
from vardi.biases._expressions.compile import NarwhalsTarget
from vardi.biases._expressions.nodes import Column, Constant, Node, children, is_condition
from vardi.biases._expressions.targets import Kind
from vardi.errors._refusals import WHOLE

DOUBTFUL = f"{PREFIX}doubtful"
FLAGS = 3  # truth values before those of the conditions
COUNTED = 1  # the status of a positive count


@dataclass(frozen=True)
class Draft:
    """A part on which nothing has been checked yet.

    Attributes
    ----------
    part : Part
        The frame with its columns, and all possible labels.
    target : NarwhalsTarget
        The user's own columns.
    columns : dict of str to ExpressionBias
        What the fit reads: each added column with what it holds, the biases first.
    states : int
        How many biases there are.
    ranged : frozenset of str
        Columns whose smallest and largest values are queried, besides those that are not biases.
    missing : tuple of str
        Columns known to have missing values, for which the biases were compiled.
    certain : tuple of nw.Expr
        What must hold on every row for the compiled biases to be valid.
    """

    part: Part
    target: NarwhalsTarget
    columns: dict[str, ExpressionBias]
    states: int
    ranged: frozenset[str]
    missing: tuple[str, ...]
    certain: tuple[nw.Expr, ...]

    @property
    def in_duckdb(self) -> bool:
        """Whether DuckDB holds the rows, and no value is missing, so that queries may be written in its own way."""
        return not self.missing and is_duckdb(self.part.frame)


@dataclass(frozen=True)
class Survey:
    """The rows of a frame in groups within which label and flags are the same.

    Attributes
    ----------
    labels : list
        Label of each group; None if there is no column of labels.
    doubtful : ndarray of bool
        Whether a value is missing, or a bias unknown.
    status : ndarray of int
        0 if the count is zero, 1 if it is positive, and more if it is invalid.
    counts, rows : ndarray
        The number of rows of each group, with and without counts.
    low, high : ndarray of shape (groups, columns)
        Smallest and largest value of each column, NaN if one is NaN; or 0 and the mean of a bias that is finite and
        not below zero on any row.
    reach : ndarray of shape (groups, K)
        How many rows of each group each bias could have drawn.
    cells : bool
        Whether all rows of a group are equal in all columns.
    """

    labels: list[Any]
    doubtful: NDArray[np.bool_]
    status: Integers
    counts: Floats
    rows: Floats
    low: Floats
    high: Floats
    reach: Floats
    cells: bool

    def of(self, groups: NDArray[Any]) -> Survey:
        """Return some of the groups."""
        labels = [self.labels[place] for place in np.arange(len(self.labels))[groups]]
        return Survey(
            labels,
            self.doubtful[groups],
            self.status[groups],
            self.counts[groups],
            self.rows[groups],
            self.low[groups],
            self.high[groups],
            self.reach[groups],
            self.cells,
        )


def survey(draft: Draft, limit: int) -> Survey:
    """Query the groups of a frame: its distinct rows, if biases are conditions and there are few enough."""
    conditions = conditions_of(draft.columns.values(), draft.target)
    found = None if conditions is None else _cells(draft, conditions, limit)
    found = _numbers(draft, draft.ranged) if found is None else found
    found = _numbers(draft, frozenset(draft.columns)) if found is None else found
    assert found is not None
    return found


def conditions_of(biases: Iterable[Bias], target: NarwhalsTarget) -> tuple[Node, ...] | None:
    """Return the conditions that all biases are made of, each once; None if one reads numbers as well."""
    found: dict[Node, None] = {}
    for bias in biases:
        below = _conditions_in(bias.node, target) if isinstance(bias, ExpressionBias) else None
        if below is None:
            return None
        found |= dict.fromkeys(below)
    return tuple(found)


def _conditions_in(node: Node, target: NarwhalsTarget) -> tuple[Node, ...] | None:
    """Return the conditions that an expression is made of; None if it reads numbers as well."""
    if isinstance(node, Constant):
        return ()
    if is_condition(node) or (isinstance(node, Column) and target.kind(node.name) is Kind.CONDITION):
        return (node,)
    if isinstance(node, Column):
        return None
    found: list[Node] = []
    for child in children(node):
        below = _conditions_in(child, target)
        if below is None:
            return None
        found += below
    return tuple(found)


def _cells(draft: Draft, conditions: Sequence[Node], limit: int) -> Survey | None:
    """Group by the conditions; None if there are more groups than the limit."""
    others = [name for name, bias in draft.columns.items() if bias.node not in conditions]
    queries = {f"{PREFIX}value_{name}": Aggregate(name, "max") for name in others}
    asked = _ask(draft, conditions, queries, limit)
    if len(asked.labels) > limit:
        return None
    place = {node: j for j, node in enumerate(conditions)}
    values = [
        asked.floats(f"{PREFIX}value_{name}")
        if name in others
        else asked.bits[FLAGS + place[bias.node]].astype(np.float64)
        for name, bias in draft.columns.items()
    ]
    matrix = np.column_stack(values)
    reach = asked.counts[:, None] * (matrix[:, : draft.states] > 0)
    return Survey(*asked.flags, asked.counts, asked.rows, matrix, matrix, reach, cells=True)


def _has_condition(node: Node, target: NarwhalsTarget) -> bool:
    """Return whether an expression has a condition somewhere, so that it is expected to be zero on some rows."""
    if isinstance(node, Column):
        return target.kind(node.name) is Kind.CONDITION
    return bool(is_condition(node)) or any(_has_condition(child, target) for child in children(node))


def _numbers(draft: Draft, ranged: frozenset[str]) -> Survey | None:
    """Group by labels only; query the range of columns that are named or not biases, and sums of the others.

    A bias without a condition is most likely above zero on all rows, as its smallest value shows. For the others, rows
    above zero are counted; a number w is finite and not below zero if abs(w) - w is zero, and nothing cancels in a sum
    of these. Return None if a bias without a condition is not above zero on all rows, if such a sum shows that some
    bias is below zero or not finite, or if a sum of biases overflows.
    """
    biases = list(draft.columns)[: draft.states]
    values = {name: constant_of(draft.columns[name]) for name in biases}
    constants = {name: value for name, value in values.items() if value is not None}
    summed = [name for name in biases if name not in (*constants, *ranged)]
    everywhere = [name for name in summed if not _has_condition(draft.columns[name].node, draft.target)]
    asked = _ask(draft, [], _number_queries(draft, constants, summed, everywhere), None)
    if not asked.is_doubtful and not _as_expected(asked, summed, everywhere):
        return None
    low, high, reach = {}, {}, {}
    for name in draft.columns:
        if name in constants:
            low[name] = high[name] = np.full(len(asked.rows), constants[name])
        elif name in summed:
            means = asked.floats(f"{PREFIX}sum_{name}") / np.maximum(asked.rows, 1)
            low[name], high[name] = np.zeros(len(means)), means
        else:
            nan = asked.floats(f"{PREFIX}nan_{name}") > 0
            ends = (asked.floats(f"{PREFIX}{what}_{name}") for what in ("low", "high"))
            low[name], high[name] = (np.where(nan, np.nan, end) for end in ends)
    for name in biases:
        if name in constants or name in everywhere:
            reach[name] = asked.counts * (constants.get(name, 1.0) > 0)
        else:
            reach[name] = asked.floats(f"{PREFIX}reach_{name}")
    lows, highs, reached = (np.column_stack(list(found.values())) for found in (low, high, reach))
    return Survey(*asked.flags, asked.counts, asked.rows, lows, highs, reached, cells=False)


def _as_expected(asked: _Answer, summed: Sequence[str], everywhere: Sequence[str]) -> bool:
    """Return whether biases without a queried range are finite and not below zero, or above it everywhere."""
    totals = np.array([asked.floats(f"{PREFIX}sum_{name}") for name in summed])
    if not np.isfinite(totals).all():  # a value that is not a number is in the sum, whatever the smallest is said to be
        return False
    for name in everywhere:
        least, told = asked.floats(f"{PREFIX}least_{name}"), asked.floats(f"{PREFIX}told_{name}")
        if not (least[asked.rows > 0] > 0).all() or (told != asked.rows).any():
            return False
    if len(everywhere) == len(summed):
        return True
    below, told = asked.floats(f"{PREFIX}below"), asked.floats(f"{PREFIX}told")
    return not below.any() and bool((told == asked.rows).all())


def _number_queries(
    draft: Draft, constants: Collection[str], summed: Collection[str], everywhere: Collection[str]
) -> dict[str, Aggregate]:
    """Return the queries of columns: each an expression and how to aggregate it."""
    queries: dict[str, Aggregate] = {}
    for j, name in enumerate(draft.columns):
        column = nw.col(name)
        if name in constants:
            continue
        if name in everywhere:
            queries[f"{PREFIX}sum_{name}"] = Aggregate(name)
            queries[f"{PREFIX}least_{name}"] = Aggregate(name, "min")
            queries[f"{PREFIX}told_{name}"] = Aggregate(name, "count")
            continue
        if name in summed:
            queries[f"{PREFIX}sum_{name}"] = Aggregate(name)
        else:
            queries[f"{PREFIX}low_{name}"] = Aggregate(name, "min")
            queries[f"{PREFIX}high_{name}"] = Aggregate(name, "max")
            queries[f"{PREFIX}nan_{name}"] = Aggregate(NarwhalsTarget.is_nan(column).cast(nw.Int64))
        if j < draft.states:
            queries[f"{PREFIX}reach_{name}"] = Aggregate(draft.part.times_count((column > 0).cast(nw.Float64)))
    signed = [nw.col(name) for name in summed if name not in everywhere]
    if signed:
        below = reduce(operator.add, (one.abs() - one for one in signed))
        queries |= {f"{PREFIX}below": Aggregate(below), f"{PREFIX}told": Aggregate(below, "count")}
    return queries


@dataclass(frozen=True)
class _Answer:
    """The engine's answer for each group: its label, its truth values, and its numbers."""

    answer: nw.DataFrame[Any]
    labels: list[Any]
    bits: list[NDArray[np.bool_]]  # certainty, a positive count, an invalid count, then the conditions
    counted: bool

    def floats(self, name: str) -> Floats:
        """Return a column of numbers, NaN for null."""
        return np.asarray(self.answer.get_column(name).cast(nw.Float64).to_numpy(), np.float64)

    @property
    def counts(self) -> Floats:
        return self.floats(f"{PREFIX}n") if self.counted else self.rows

    @cached_property
    def rows(self) -> Floats:
        return self.floats(f"{PREFIX}rows")

    @property
    def flags(self) -> tuple[list[Any], NDArray[np.bool_], Integers]:
        certain, above, refused = self.bits[:FLAGS]
        return self.labels, ~certain, above + 2 * refused

    @property
    def is_doubtful(self) -> bool:
        return not bool(self.bits[0].all())


def _ask(draft: Draft, conditions: Sequence[Node], queries: dict[str, Aggregate], limit: int | None) -> _Answer:
    """Group the rows by label, flags and conditions, and query sums and extremes of expressions.

    If doubt is the only flag, doubtful rows are counted instead: grouping by one key costs less than by two.
    """
    part, count = draft.part, nw.col(COUNT)
    certain = reduce(operator.and_, draft.certain) if draft.certain else True
    status = [count > 0, (count < 0) | (count == float("inf")) | in_part(count)] if part.counted else [True, False]
    flags: list[Bit] = [certain, *status]
    coded = bool(part.counted or conditions)
    if not coded and not isinstance(certain, bool):
        doubtful = nw.when(certain).then(nw.lit(0, nw.Int64)).otherwise(nw.lit(1, nw.Int64))
        queries = queries | {DOUBTFUL: Aggregate(doubtful)}
    for codes in _codes(draft, flags, conditions) if coded else [PackedBits(part.label, [])]:
        answer = _grouped(draft, codes, queries, limit)
        read = codes.read(answer)
        if read is not None:
            break
    assert read is not None
    labels, bits = read
    if not coded:
        sure = np.ones(len(answer), bool)
        doubted = answer.get_column(DOUBTFUL).to_numpy() > 0 if DOUBTFUL in answer.columns else ~sure
        bits = [~doubted, sure, ~sure]
    return _Answer(answer, labels, bits, part.counted)


def _codes(draft: Draft, flags: Sequence[Bit], conditions: Sequence[Node]) -> Iterator[Codes]:
    """Return the ways to make keys of flags and conditions, the fastest first."""
    bits = [compiled_bias(ExpressionBias(node), draft.target, draft.missing).value for node in conditions]
    if draft.in_duckdb and SignBits.hold([*flags, *bits]):
        signs: list[Bit | Sign] = [
            as_sign(node, draft.target) or bit for node, bit in zip(conditions, bits, strict=True)
        ]
        yield SignBits(draft.part.label, tuple(draft.part.codes), [*flags, *signs])
    yield PackedBits(draft.part.label, [*flags, *bits])


def _grouped(draft: Draft, codes: Codes, queries: dict[str, Aggregate], limit: int | None) -> nw.DataFrame[Any]:
    """Query aggregates of expressions in the groups of some keys."""
    asked = {f"{PREFIX}rows": LENGTH, **queries}
    if draft.part.counted:
        asked[f"{PREFIX}n"] = Aggregate(COUNT)
    most = None if limit is None else limit + 1
    return draft.part.ask(lambda frame: aggregated(codes.add(frame), codes.keys, asked, most))


def in_part(count: nw.Expr) -> nw.Expr:
    """Return a condition that holds where a count is not a whole number."""
    fraction, slack = count % 1.0, WHOLE * count
    return (fraction > slack) & (fraction < 1.0 - slack)
