"""Which values the categories of biases have, in frames that stay in their engine."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from vardi._inputs.engine.columns import expressions, missing_values
from vardi._inputs.engine.expressions import on_frame
from vardi._inputs.engine.part import PREFIX, Groups, Part, with_columns
from vardi._inputs.engines import LENGTH, Aggregate
from vardi._rows.cells import (
    MOST_VALUES,
    in_order,
    missing_category,
    no_category,
    plain,
    require_categories,
    require_one_kind,
    too_many_values,
)
from vardi._rows.engine.functions import users_columns
from vardi.biases import ExpressionBias, ParametricBias
from vardi.biases._expressions.compile import require_columns
from vardi.biases._expressions.families import Cells, Level, Value
from vardi.biases._expressions.nodes import Column, Node, columns, is_condition
from vardi.biases._expressions.targets import NarwhalsTarget
from vardi.biases._values import is_missing
from vardi.errors._refusals import untold_parameters

if TYPE_CHECKING:
    from vardi._inputs.engine.pool import OpenFrames

VALUE, MASS, ROWS = f"{PREFIX}level_{{}}", f"{PREFIX}mass", f"{PREFIX}rows"


def with_levels(frames: OpenFrames) -> OpenFrames:
    """Return frames whose biases by category have the values that occur, in each group the most frequent first."""
    biases = tuple(
        _seen(frames, k, bias) if isinstance(bias, ParametricBias) and isinstance(bias.family, Cells) else bias
        for k, bias in enumerate(frames.biases)
    )
    return frames if biases == frames.biases else replace(frames, biases=biases)


def _seen(frames: OpenFrames, k: int, bias: ParametricBias) -> ParametricBias:
    family, sample = bias.family, str(frames.names[k])
    assert isinstance(family, Cells)
    if not any(k in part.codes.values() for part in frames.parts):
        raise untold_parameters([frames.names[k]], bias)
    readers = [_FrameReader(part, bias, sample, frames.counts) for part in frames.parts]
    found = []
    for group in family.groups:
        counted = [one for reader in readers for one in reader.levels(group)]
        if not any(code == k for _, code, _ in counted):
            raise untold_parameters([frames.names[k]], bias)
        levels = list(dict.fromkeys(level for level, _, _ in counted))
        for place, term in enumerate(group):
            values = {level[place] for level in levels}
            require_one_kind(bias, sample, term, values)
            if len(values) > MOST_VALUES:
                raise too_many_values(bias, sample, term, len(values))
        position = {level: place for place, level in enumerate(levels)}
        total, drawn = np.zeros((2, len(levels)))
        for level, code, mass in counted:
            total[position[level]] += mass
            drawn[position[level]] += mass * (code == k)
        found.append(in_order(bias, sample, group, levels, total, drawn))
    return replace(bias, family=family.seen(found))


@dataclass(frozen=True)
class _FrameReader:
    """Reads the categories of a bias in one frame, as the user gave it."""

    bare: Part
    bias: ParametricBias
    sample: str
    counts: str | None

    def levels(self, group: tuple[Node, ...]) -> list[tuple[Level, int | None, float]]:
        """Return the values that occur, with their sample and the sum of their counts, by one GROUP BY."""
        names = [VALUE.format(j) for j in range(len(group))]
        values = with_columns(dict(zip(names, map(self._value, group), strict=True)))
        part, asked = self._part, {MASS: Aggregate(MASS), ROWS: LENGTH}
        most = MOST_VALUES * len(part.codes)  # of one column
        found = part.groups(asked, values, key=names, most=most + 1)
        if len(found) > most:  # several columns may have more combinations
            distinct = part.aggregates({name: Aggregate(name, "n_unique") for name in names}, values)
            for term, count in zip(group, distinct.values(), strict=True):
                if count > MOST_VALUES:
                    raise too_many_values(self.bias, self.sample, term, int(count))
            found = part.groups(asked, values, key=names)
        read = [self._known(term, found, name) for term, name in zip(group, names, strict=True)]
        codes = [part.codes.get(label) for label in found.labels]
        return list(zip(zip(*read, strict=True), codes, np.nan_to_num(found.numbers(MASS)).tolist(), strict=True))

    def _value(self, term: Node) -> nw.Expr:
        """Return the values of a term, or refuse a column that has no categories."""
        require_columns(columns(term), self.bare.schema)
        target = NarwhalsTarget(self.bare.schema)
        if not isinstance(term, Column):
            return _expression(self.bare, ExpressionBias(term), target)
        require_categories(self.bias, self.sample, term.name, target)
        return target.column(term.name)

    def _known(self, term: Node, found: Groups, name: str) -> list[Value]:
        """Return the values of a term; refuse missing ones of a column, and numbers that are not finite."""
        values: list[Value] = found.table.get_column(name).to_list()
        rows = found.numbers(ROWS)
        missing = np.array([is_missing(value) for value in values], bool)
        if missing.any() and isinstance(term, Column):
            raise missing_category(self.bias, self.sample, term.name, int(rows[missing].sum()))
        endless = missing | np.array([value in (math.inf, -math.inf) for value in values], bool)
        if endless.any():
            value = "nan" if missing[endless][0] else values[int(endless.argmax())]
            raise no_category(self.bias, self.sample, term, value, int(rows[endless].sum()))
        return [bool(value) if is_condition(term) else plain(value) for value in values]

    @cached_property
    def _part(self) -> Part:
        """The frame with the count of each row, 0 where the known factor of the bias is 0."""
        changes, (known,) = on_frame(self.bare.frame, [self.bias.known], self.bare.name, "known")
        part = self.bare.map(*changes)
        schema = users_columns(part, [known])
        require_columns(known.columns, schema)
        value = _expression(part, known, NarwhalsTarget(schema))
        count = nw.lit(1.0) if self.counts is None else nw.col(self.counts).cast(nw.Float64)
        mass = nw.when(value > 0).then(count).otherwise(nw.lit(0.0))
        return part.map(lambda frame: frame.with_columns(**{MASS: mass}))


def _expression(part: Part, bias: ExpressionBias, target: NarwhalsTarget) -> nw.Expr:
    """Return an expression for an engine; raise if it is unknown on some rows."""
    missing = missing_values(part, target, bias.columns)
    return expressions(part, [bias], target, missing)[0]
