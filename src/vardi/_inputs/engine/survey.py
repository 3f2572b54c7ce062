"""One query for each frame returns all that is checked and, if biases are conditions, its distinct rows.

Rows are grouped by their label and by integers made of truth values: whether the count is valid and, if all that a fit
reads (biases, features, known functions) is made of conditions, which of the conditions hold. Engines group by integers
several times faster than by floats. If something is wrong the caller runs more queries, to find out what.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._inputs.engine.aggregates import LENGTH, Aggregate
from vardi._inputs.engine.asking import answering, schema_of
from vardi._inputs.engine.codes import Codes, as_sign
from vardi._inputs.engine.columns import Declared, as_floats, expressions, missing_values
from vardi._inputs.engine.expressions import on_frame
from vardi._inputs.engine.part import COUNT, PREFIX, Part, where
from vardi._types import Floats, Integers
from vardi.biases import Bias, ExpressionBias
from vardi.biases._expressions.compile import NarwhalsTarget, compile_node, require_columns
from vardi.biases._expressions.nodes import Column, Node, children, is_condition
from vardi.biases._expressions.targets import Kind
from vardi.errors._refusals import (
    WHOLE,
    counts_in_part,
    counts_of_a_kind,
    invalid_counts,
    missing_counts,
    missing_labels,
    unknown_label,
)

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

    @classmethod
    def joined(cls, surveys: Iterable[Survey]) -> Survey:
        """Return the groups of several frames as one survey."""
        return cls(*map(np.concatenate, zip(*(vars(one).values() for one in surveys), strict=True)))


def survey(bare: Part, declared: Declared, counts: str | None, limit: int) -> tuple[Part, Survey]:
    """Return a frame with the columns of the fit and its groups by one query; raise if it is invalid.

    The groups are its distinct rows, if biases are conditions and there are no more than the limit.
    """
    changes, biases = on_frame(bare.frame, tuple(declared.columns.values()), bare.name)
    for change in changes:
        bare = bare.map(change)
    schema, label = schema_of(bare.frame, bare.name), bare.label
    read = [column for bias in biases for column in bias.columns]
    needed = tuple(dict.fromkeys([*read, *filter(None, (label, counts))]))
    require_columns(needed, schema)
    if counts is not None and not (schema[counts].is_numeric() or schema[counts] == nw.Boolean):
        raise counts_of_a_kind(schema[counts])
    target, columns = NarwhalsTarget(schema), dict(zip(declared.columns, biases, strict=True))
    draft = _Draft.of(bare, columns, len(declared.biases), counts, target, needed)
    found = draft.survey(limit)
    if found.doubtful:
        missing = missing_values(bare, target, needed)
        if label is not None and label in missing:
            raise missing_labels(label, missing[label])
        if counts is not None and counts in missing:
            raise missing_counts(counts, missing[counts])
        expressions(bare, biases, target, missing, bare.name)
        draft = _Draft.of(bare, columns, len(declared.biases), counts, target, (), missing)
        found = draft.survey(limit)
    codes = _known_codes(found.labels, bare)
    part = replace(draft.part, codes=codes)
    if counts is not None:
        if found.refused:
            _refuse_counts(part, counts, declared.names)
        counted = nw.col(COUNT) > 0
        with answering(bare.name):
            part = replace(part, frame=part.frame.filter(counted), whole=part.frame, belongs=counted)
    return part, found.groups


def _known_codes(labels: Sequence[Hashable], part: Part) -> dict[Hashable, int]:
    """Return the samples that have rows; refuse a label without a bias."""
    if part.label is None:
        return part.codes
    found = sorted(set(labels), key=str)  # an engine groups in any order
    strangers = [value for value in found if value not in part.codes]
    if strangers:
        raise unknown_label(strangers[0], part.label, found, part.codes)
    return {value: part.codes[value] for value in dict.fromkeys(labels)}


def _refuse_counts(part: Part, counts: str, names: Sequence[str]) -> None:
    """Refuse invalid counts, naming the first sample with one and the smallest of them: there are no row numbers."""
    for wrong, refusal in ((_out_of_range(), invalid_counts), (_in_part(), counts_in_part)):
        asked = part.by_sample({"least": Aggregate(COUNT, "min")}, where(wrong))
        found = sorted((code, row["least"]) for code, row in asked if row["least"] is not None)
        if found:
            raise refusal(f"A count in {counts!r} of {names[found[0][0]]!r} is {found[0][1]}")


def _out_of_range() -> nw.Expr:
    return (nw.col(COUNT) < 0) | (nw.col(COUNT) == float("inf"))


def _in_part() -> nw.Expr:
    """Return a condition that holds where a count is not a whole number."""
    fraction, slack = nw.col(COUNT) % 1.0, WHOLE * nw.col(COUNT)
    return (fraction > slack) & (fraction < 1.0 - slack)


@dataclass(frozen=True)
class _Found:
    """An engine's answer: all labels, whether a value is missing or a count invalid, and the groups of valid rows."""

    labels: list[Hashable]
    doubtful: bool
    refused: bool
    groups: Survey
    size: int


@dataclass(frozen=True)
class _Draft:
    """A part on which nothing has been checked yet.

    Attributes
    ----------
    part : Part
        The frame with its columns, and all possible labels.
    columns : dict of str to ExpressionBias
        What the fit reads: each added column with what it holds, the biases first.
    states : int
        How many biases there are.
    target : NarwhalsTarget
        The user's own columns.
    missing : mapping or None
        Columns known to have missing values, for which the biases were compiled; None if it is not known yet.
    certain : tuple of nw.Expr
        What must hold on every row for the compiled biases to be valid.
    """

    part: Part
    columns: dict[str, ExpressionBias]
    states: int
    target: NarwhalsTarget
    missing: Mapping[str, int] | None
    certain: tuple[nw.Expr, ...]

    @classmethod
    def of(
        cls,
        bare: Part,
        columns: dict[str, ExpressionBias],
        states: int,
        counts: str | None,
        target: NarwhalsTarget,
        needed: Sequence[str],
        missing: Mapping[str, int] | None = None,
    ) -> _Draft:
        """Add all declared columns to a frame, of which the columns in ``needed`` must have no missing values."""
        compiled = {name: compile_node(bias.node, target, missing or ()) for name, bias in columns.items()}
        added = {name: as_floats(one) for name, one in compiled.items()}
        if counts is not None:
            added[COUNT] = nw.col(counts).cast(nw.Float64)
        certain = [_present(column, target) for column in needed]
        if missing is None:
            certain += [one.known for one in compiled.values() if one.known is not None]
        with answering(bare.name):
            part = replace(bare, frame=bare.frame.with_columns(**added), counted=counts is not None)
        return cls(part, columns, states, target, missing, tuple(certain))

    def survey(self, limit: int) -> _Found:
        """Query the groups: of equal rows if all columns are conditions and there are few enough, else of samples."""
        conditions = conditions_of(self.columns.values(), self.target)
        if conditions is not None:
            found = self._ask(conditions, limit + 1)
            if found.size <= limit:
                return found
        return self._ask(None, None)

    def _ask(self, conditions: Sequence[Node] | None, most: int | None) -> _Found:
        """Group the rows by label, by whether their count is valid and, if there are any, by conditions.

        Without conditions, the range of each column is queried, and how many rows each bias could have drawn. A count
        of doubtful rows costs less than a further key.
        """
        part, status = self.part, [nw.col(COUNT) > 0, _out_of_range() | _in_part()] if self.part.counted else []
        place = {node: len(status) + j for j, node in enumerate(conditions or ())}
        codes = self._codes(status, tuple(place))
        asked = {ROWS: LENGTH, COUNT: part.rows}
        if self.certain:
            doubt = nw.when(reduce(operator.and_, self.certain)).then(nw.lit(0, nw.Int64))
            asked[DOUBTFUL] = Aggregate(doubt.otherwise(nw.lit(1, nw.Int64)))
        asked |= {
            HIGH.format(name): Aggregate(name, "max") for name, bias in self.columns.items() if bias.node not in place
        }
        if conditions is None:
            asked |= self._ranges()
        found = part.groups(asked, codes.add if codes.bits else None, key=codes.keys, most=most)
        held, unknown = codes.read(found)
        counts, rows = found.numbers(COUNT), found.numbers(ROWS)
        high = np.column_stack(
            [
                held[:, place[bias.node]] if bias.node in place else found.numbers(HIGH.format(name))
                for name, bias in self.columns.items()
            ]
        ).astype(np.float64)
        low, reach = high, counts[:, None] * (high[:, : self.states] > 0)
        if conditions is None:
            nan = found.matrix([NAN.format(name) for name in self.columns]) > 0
            low = np.where(nan, np.nan, found.matrix([LOW.format(name) for name in self.columns]))
            high = np.where(nan, np.nan, high)
            reach = found.matrix([REACH.format(name) for name in self._biases])
        doubtful = unknown.any() or (bool(self.certain) and found.numbers(DOUBTFUL).any())
        valid = counts > 0
        if part.counted:
            valid &= held[:, 0] & ~held[:, 1]
        source = np.array([part.codes.get(label, -1) for label in found.labels], np.int64)
        groups = Survey(source, counts, rows, low, high, reach).of(valid)
        return _Found(found.labels, bool(doubtful), part.counted and bool(held[:, 1].any()), groups, len(found))

    @property
    def _biases(self) -> list[str]:
        return list(self.columns)[: self.states]

    def _ranges(self) -> dict[str, Aggregate]:
        asked = {LOW.format(name): Aggregate(name, "min") for name in self.columns}
        for name in self.columns:
            asked[NAN.format(name)] = Aggregate(NarwhalsTarget.is_nan(nw.col(name)).cast(nw.Int64))
        for name in self._biases:
            above = (nw.col(name) > 0).cast(nw.Float64)
            asked[REACH.format(name)] = Aggregate(self.part.times_count(above))
        return asked

    def _codes(self, status: Sequence[nw.Expr], conditions: Sequence[Node]) -> Codes:
        """Return the keys of groups; in SQL if DuckDB holds the rows and no value is known to be missing."""
        compiled = [compile_node(node, self.target, self.missing or ()).value for node in conditions]
        if self.missing is not None or not self.part.frame.implementation.is_duckdb():
            return Codes([*status, *compiled])
        signs = [as_sign(node, self.target) or bit for node, bit in zip(conditions, compiled, strict=True)]
        return Codes([*status, *signs], in_sql=True)


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
