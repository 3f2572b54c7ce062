"""Domains of the rows of an engine: which there are, and which rows are in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import product
from operator import and_
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.domains import MOST_DOMAINS, By, ordered, require_column, require_few, require_labelled
from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.part import PREFIX, Part
from vardi._inputs.engine.queries import aggregated
from vardi._rows.engine.functions import EngineFunction, zero_elsewhere
from vardi._types import Floats, Integers
from vardi.biases._expressions.targets import NarwhalsTarget, literal
from vardi.biases._values import is_missing
from vardi.errors._refusals import needs_rows

#: The domain of rows: its value in each column.
Key = tuple[Any, ...]


class LabelColumns:
    """The domains of rows of an engine: the values of columns.

    Parameters
    ----------
    parts : sequence of Part
        The frames with rows of the samples in question; rows of others are in no domain.
    columns : sequence of str
        The columns.
    keys : sequence of tuple
        The value of each domain in each column.
    of_base : int
        How many of the columns, the first ones, distinguish bases.
    """

    def __init__(self, parts: Sequence[Part], columns: Sequence[str], keys: Sequence[Key], of_base: int) -> None:
        self.columns, self.keys, self.of_base = columns, keys, of_base
        self.key = tuple(EngineFunction(partial(_column, name), is_number=False) for name in columns)
        self._asked = {part.name for part in parts}
        self._place = {key if len(key) > 1 else key[0]: j for j, key in enumerate(keys)}

    def places(self, keys: Sequence[Any]) -> Integers:
        return np.array([self._place.get(key, -1) for key in keys])

    def within(self, places: Integers) -> tuple[EngineFunction, ...]:
        return self._having(self.columns, places)

    def within_base(self, places: Integers) -> tuple[EngineFunction, ...]:
        return self._having(self.columns[: self.of_base], places)

    def _having(self, columns: Sequence[str], places: Integers) -> tuple[EngineFunction, ...]:
        """Return where columns have the values of each of some domains."""
        conditions = [is_in(columns, self.keys[j]) for j in places.tolist()]
        return tuple(EngineFunction(partial(self._where, condition)) for condition in conditions)

    def _where(self, condition: nw.Expr | None, part: Part) -> nw.Expr:
        return zero_elsewhere(condition, nw.lit(1.0)) if part.name in self._asked else nw.lit(0.0)


def _column(name: str, part: Part) -> nw.Expr:
    return nw.col(name)


def domains_of(parts: Sequence[Part], by: By, mixed: Mapping[str, str], *, whole: bool) -> tuple[Key, ...]:
    """Return the domains of the rows, in their order, with one query for each part.

    Parameters
    ----------
    parts : sequence of Part
        The frames.
    by : By
        The columns.
    mixed : mapping
        Columns whose kind differs between frames, with a text that lists the kinds.
    whole : bool
        Whether every combination of values is a domain, not only those that occur.
    """
    if by.labels is not None:
        raise needs_rows("An answer by labels that are not a column")
    schemas = [part.schema for part in parts]
    for name in by.columns:
        require_column(name, schemas, mixed)
    asked = [one for part in parts for one in _by_domain(part, by.columns, {"rows": part.rows})]
    for place, name in enumerate(by.columns):
        require_labelled(name, sum(row["rows"] for key, row in asked if is_missing(key[place])))
    found, values = list(dict.fromkeys(key for key, row in asked if row["rows"])), []
    for place, name in enumerate(by.columns):
        kind = schemas[0][name]
        categories = list(kind.categories) if isinstance(kind, nw.Enum) else None
        values.append(ordered(dict.fromkeys(key[place] for key in found), categories))
    require_few(by, math.prod(map(len, values)) if whole else len(found))
    if whole:
        return tuple(product(*values))
    rank = [{value: j for j, value in enumerate(own)} for own in values]
    return tuple(sorted(found, key=lambda key: [own[value] for own, value in zip(rank, key, strict=True)]))


def missing_by_domain(parts: Sequence[Part], by: By, keys: Sequence[Key], columns: Sequence[str]) -> Floats:
    """Return how many values of the given columns are missing in each domain."""
    found = dict.fromkeys(keys, 0.0)
    for part in parts:
        asked = {
            name: Aggregate(NarwhalsTarget(part.schema).is_missing(name).cast(nw.Int64))
            for name in columns
            if name in part.schema
        }
        for key, row in _by_domain(part, by.columns, asked) if asked else []:
            found[key] = found.get(key, 0.0) + sum(row.values())
    return np.array([found[key] for key in keys])


def is_in(columns: Sequence[str], key: Key) -> nw.Expr | None:
    """Return the condition that rows have given values in columns, as an expression; None for all rows."""
    tests = [
        nw.col(name) == (literal(value) if isinstance(value, float) else value)
        for name, value in zip(columns, key, strict=False)
    ]
    return reduce(and_, tests) if tests else None


def _by_domain(
    part: Part, columns: Sequence[str], asked: Mapping[str, Aggregate]
) -> list[tuple[Key, dict[str, float]]]:
    """Query aggregates by domain, for at most one domain more than allowed."""
    named = {f"{PREFIX}{name}": one for name, one in asked.items()}
    rows = part.ask(lambda frame: aggregated(frame, columns, named, MOST_DOMAINS + 1)).rows(named=True)
    return [
        (tuple(row[name] for name in columns), {name: float(row[f"{PREFIX}{name}"]) for name in asked}) for row in rows
    ]
