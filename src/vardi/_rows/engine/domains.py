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
from vardi._inputs.engine.part import Part
from vardi._rows.contract import Question
from vardi._rows.engine.functions import EngineFunction, condition
from vardi._rows.queries import Queries
from vardi._types import Floats, Integers
from vardi.biases._expressions.targets import NarwhalsTarget, literal
from vardi.biases._values import is_missing
from vardi.errors._refusals import needs_rows

#: The domain of rows: its value in each column.
Key = tuple[Any, ...]


class DomainColumns:
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
        self.parts, self.key = parts, labels_in(columns)
        self._place = {key if len(key) > 1 else key[0]: j for j, key in enumerate(keys)}

    def places(self, keys: Sequence[Any]) -> Integers:
        return np.array([self._place.get(key, -1) for key in keys])

    def within(self, places: Integers) -> tuple[EngineFunction, ...]:
        return self._having(self.columns, places)

    def within_base(self, places: Integers) -> tuple[EngineFunction, ...]:
        return self._having(self.columns[: self.of_base], places)

    def _having(self, columns: Sequence[str], places: Integers) -> tuple[EngineFunction, ...]:
        """Return where columns have the values of each of some domains."""
        return tuple(condition(self.parts, is_in(columns, self.keys[j])) for j in places.tolist())


def domains_of(rows: Queries, by: By, mixed: Mapping[str, str], *, whole: bool) -> tuple[Key, ...]:
    """Return the domains of the rows, in their order, with one query for each part.

    Parameters
    ----------
    rows : Queries
        The rows.
    by : By
        The columns.
    mixed : mapping
        Columns whose kind differs between frames, with a text that lists the kinds.
    whole : bool
        Whether every combination of values is a domain, not only those that occur.
    """
    if by.labels is not None:
        raise needs_rows("An answer by labels that are not a column")
    schemas = [part.schema for part in rows.parts]
    for name in by.columns:
        require_column(name, schemas, mixed)
    counts = _sums_by_key(rows, by.columns, lambda block: block.of_sample(np.ones((block.K, 1))))
    for place, name in enumerate(by.columns):
        require_labelled(name, sum(count for key, count in counts.items() if is_missing(key[place])))
    found, values = [key for key, count in counts.items() if count], []
    for place, name in enumerate(by.columns):
        kind = schemas[0][name]
        categories = list(kind.categories) if isinstance(kind, nw.Enum) else None
        values.append(ordered(dict.fromkeys(key[place] for key in found), categories))
    require_few(by, math.prod(map(len, values)) if whole else len(found))
    if whole:
        return tuple(product(*values))
    rank = [{value: j for j, value in enumerate(own)} for own in values]
    return tuple(sorted(found, key=lambda key: [own[value] for own, value in zip(rank, key, strict=True)]))


def missing_by_domain(rows: Queries, by: By, keys: Sequence[Key], columns: Sequence[str]) -> Floats:
    """Return how many values of the given columns are missing in each domain."""
    missing = tuple(EngineFunction(partial(_is_missing, name)) for name in columns)
    found = _sums_by_key(rows, by.columns, lambda block: block.columns(missing))
    return np.array([found.get(key, 0.0) for key in keys])


def _is_missing(name: str, part: Part) -> nw.Expr:
    if name not in part.schema:
        return nw.lit(0.0)
    return NarwhalsTarget(part.schema).is_missing(name).cast(nw.Float64)


def _sums_by_key(rows: Queries, columns: Sequence[str], question: Question[Floats]) -> dict[Key, float]:
    """Return the sum over the rows with each combination of values, for at most one domain more than allowed."""
    labels = labels_in(columns)
    keys, sums = rows.grouped(lambda block: (block.columns(labels), question(block)), most=MOST_DOMAINS)
    return {
        key if len(columns) > 1 else (key,): float(total) for key, total in zip(keys, sums.sum(axis=1), strict=True)
    }


def labels_in(columns: Sequence[str]) -> tuple[EngineFunction, ...]:
    """Return columns as labels of the rows."""
    return tuple(EngineFunction(partial(_column, name), is_number=False) for name in columns)


def _column(name: str, part: Part) -> nw.Expr:
    return nw.col(name)


def is_in(columns: Sequence[str], key: Key) -> nw.Expr | None:
    """Return the condition that rows have given values in columns, as an expression; None for all rows."""
    tests = [
        nw.col(name) == (literal(value) if isinstance(value, float) else value)
        for name, value in zip(columns, key, strict=False)
    ]
    return reduce(and_, tests) if tests else None
