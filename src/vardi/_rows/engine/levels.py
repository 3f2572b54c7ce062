"""Which values the categories of biases have, in frames that stay in their engine."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import LENGTH, Aggregate
from vardi._inputs.engine.columns import expression, missing_values
from vardi._inputs.engine.expressions import on_frame
from vardi._inputs.engine.part import PREFIX, Part
from vardi._inputs.engine.queries import aggregated
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
from vardi.biases._expressions.cells import Cells, Level, Value
from vardi.biases._expressions.compile import NarwhalsTarget, require_columns
from vardi.biases._expressions.nodes import Column, Node, columns, is_condition
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
    assert isinstance(bias.family, Cells)
    found = []
    if not any(k in part.codes.values() for part in frames.parts):
        raise untold_parameters([frames.names[k]], bias)
    for group in bias.family.groups:
        total: dict[Level, float] = defaultdict(float)
        drawn: dict[Level, float] = defaultdict(float)
        own = 0
        for part in frames.parts:
            reader = _Reader(part, bias, str(frames.names[k]), frames.counts)
            for level, code, mass, rows in reader.levels(group):
                total[level] += mass
                drawn[level] += mass if code == k else 0.0
                own += rows if code == k else 0
        if not own:
            raise untold_parameters([frames.names[k]], bias)
        for place, term in enumerate(group):
            values = {level[place] for level in total}
            require_one_kind(bias, str(frames.names[k]), term, values)
            if len(values) > MOST_VALUES:
                raise too_many_values(bias, str(frames.names[k]), term, len(values))
        levels = list(total)
        masses = [np.array([counted[level] for level in levels], np.float64) for counted in (total, drawn)]
        found.append(in_order(bias, str(frames.names[k]), group, levels, *masses))
    return replace(bias, family=bias.family.seen(found))


@dataclass(frozen=True)
class _Reader:
    """Reads the categories of a bias in one frame, as the user gave it."""

    part: Part
    bias: ParametricBias
    sample: str
    counts: str | None

    def levels(self, group: tuple[Node, ...]) -> list[tuple[Level, int | None, float, int]]:
        """Return the values that occur, with their sample, the sum of their counts and their number of rows.

        One GROUP BY gives them.
        """
        values = {VALUE.format(j): self._value(term) for j, term in enumerate(group)}
        part, mass = self._mass()
        keys = [*([] if part.label is None else [part.label]), *values]
        most = MOST_VALUES * len(part.codes)  # of one column; several columns may have more combinations
        rows = part.ask(partial(_grouped, values, mass, keys, most)).rows(named=True)
        if len(rows) > most:
            self._require_few(group, values)
            rows = part.ask(partial(_grouped, values, mass, keys, None)).rows(named=True)
        for name, term in zip(values, group, strict=True):
            self._require_known(term, [(row[name], row[ROWS]) for row in rows])
        return [
            (
                tuple(_as_value(row[name], term) for name, term in zip(values, group, strict=True)),
                part.codes.get(None if part.label is None else row[part.label]),
                float(row[MASS] or 0.0),
                int(row[ROWS]),
            )
            for row in rows
        ]

    def _value(self, term: Node) -> nw.Expr:
        """Return the values of a term, or refuse a column that has no categories."""
        part, schema = self.part, self.part.schema
        require_columns(columns(term), schema)
        target = NarwhalsTarget(schema)
        if not isinstance(term, Column):
            missing = missing_values(part, target, columns(term))
            return expression(part, ExpressionBias(term), target, missing, part.name)
        require_categories(self.bias, self.sample, term.name, target)
        return target.column(term.name)

    def _require_known(self, term: Node, values: Sequence[tuple[Any, int]]) -> None:
        """Refuse missing values of a column, and numbers that are not finite."""
        missing = sum(rows for value, rows in values if is_missing(value))
        if missing and isinstance(term, Column):
            raise missing_category(self.bias, self.sample, term.name, int(missing))
        endless = [(value, rows) for value, rows in values if is_missing(value) or value in (math.inf, -math.inf)]
        if endless:
            value = "nan" if is_missing(endless[0][0]) else endless[0][0]
            raise no_category(self.bias, self.sample, term, value, int(sum(rows for _, rows in endless)))

    def _require_few(self, group: tuple[Node, ...], values: dict[str, nw.Expr]) -> None:
        """Refuse a column with too many values, rather than bring all of them."""
        found = self.part.aggregates({name: Aggregate(value, "n_unique") for name, value in values.items()})
        for term, count in zip(group, found.values(), strict=True):
            if count > MOST_VALUES:
                raise too_many_values(self.bias, self.sample, term, int(count))

    def _mass(self) -> tuple[Part, nw.Expr]:
        """Return the count of a row, 0 where the known factor of the bias is 0; and the part that has it."""
        changes, (known,) = on_frame(self.part.frame, [self.bias.known], self.part.name, "known")
        part = self.part
        for change in changes:
            part = part.map(change)
        schema = users_columns(part, [known])
        require_columns(known.columns, schema)
        target = NarwhalsTarget(schema)
        value = expression(part, known, target, missing_values(part, target, known.columns), part.name)
        count = nw.lit(1.0) if self.counts is None else nw.col(self.counts).cast(nw.Float64)
        return part, nw.when(value > 0).then(count).otherwise(nw.lit(0.0))


def _as_value(value: Any, term: Node) -> Value:
    """Return a value as it would be in memory: a condition is true or false."""
    return bool(value) if is_condition(term) else plain(value)


def _grouped(
    values: dict[str, nw.Expr], mass: nw.Expr, keys: list[str], most: int | None, frame: nw.LazyFrame[Any]
) -> nw.LazyFrame[Any]:
    asked = {MASS: Aggregate(MASS), ROWS: LENGTH}
    return aggregated(frame.with_columns(**values, **{MASS: mass}), keys, asked, None if most is None else most + 1)
