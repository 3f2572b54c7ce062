"""Columns of frames that stay in their engine, as functions of the rows; and which values they have.

A function has an expression for each frame; linear combinations of functions are functions again. Values are asked for
where a bias has categories, and where columns define domains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import product
from operator import and_
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from vardi._inputs.domains import MOST_DOMAINS, By, ordered, require_column, require_few, require_labelled
from vardi._inputs.engines import LENGTH, Aggregate, schema_of
from vardi._inputs.lazy_columns import expressions, missing_values, on_frame
from vardi._inputs.lazy_part import PREFIX, Groups, Part, with_columns
from vardi._inputs.pool import require_everywhere
from vardi._rows.cells import MOST_VALUES, Categories, plain
from vardi._rows.contract import Question
from vardi._rows.measure import Functions, as_functions
from vardi._types import Floats, Integers
from vardi.biases import Bias, ExpressionBias, ParametricBias
from vardi.biases._compile import NarwhalsTarget, literal
from vardi.biases._nodes import Cells, Column, Level, Node, Value, columns, is_condition
from vardi.biases._values import is_missing, require_columns
from vardi.errors import MissingValuesError
from vardi.errors._refusals import needs_rows, not_finite, untold_parameters

if TYPE_CHECKING:
    from vardi._inputs.lazy_pool import OpenFrames
    from vardi._rows.queries import Queries

VALUE, MASS, ROWS = f"{PREFIX}level_{{}}", f"{PREFIX}mass", f"{PREFIX}rows"


@dataclass(frozen=True, eq=False)
class EngineFunction:
    """A function of the rows.

    Attributes
    ----------
    of : callable
        Returns the expression for a part; it may read the columns of a point.
    name : str or None
        Its name in messages; its values are checked only if it has one.
    is_number : bool
        Whether its values are numbers, not labels: frames are joined only for numbers.
    """

    of: Callable[[Part], nw.Expr]
    name: str | None = None
    is_number: bool = True

    def __call__(self, part: Part) -> nw.Expr:
        """Return the expression of a part, or the column that has its values there."""
        return nw.col(part.computed[self]) if self in part.computed else self.of(part)


def compiled_functions(
    parts: Sequence[Part], functions: Sequence[Bias], names: Sequence[str | None]
) -> list[EngineFunction]:
    """Return expressions of the user's columns as functions, or refuse one that is unknown on some rows.

    One query for each part counts missing values; if there are any, another counts where the expression is unknown.
    """
    by_part: dict[Part, list[nw.Expr]] = {}
    checked: set[str] = set()
    for part in parts:
        changes, found = on_frame(part.rows_as_asked, functions, part.name, f"value{len(part.put)}")
        part.put.extend(changes)
        schema = users_columns(part, found)
        columns = tuple(dict.fromkeys(column for function in found for column in function.columns))
        unchecked = [column for column in columns if not (column.startswith(PREFIX) or column in checked)]
        require_everywhere(unchecked, {str(one.name): one.schema for one in parts} if unchecked else {})
        checked.update(columns)
        require_columns(columns, schema)
        target = NarwhalsTarget(schema)
        missing = missing_values(part, target, columns)
        try:
            by_part[part] = expressions(part, found, target, missing, "expression")
        except MissingValuesError:
            for column, count in missing.items():
                labels = {code: str(part.name if label is None else label) for label, code in part.codes.items()}
                if lacking := [labels[code] for code in all_missing(part, column)]:
                    raise not_finite(count, column, lacking) from None
            raise
    named = [name if function.columns else None for function, name in zip(functions, names, strict=True)]
    return [_function({part: by_part[part][j] for part in parts}, name) for j, name in enumerate(named)]


def all_missing(part: Part, column: str) -> list[int]:
    """Return the samples of a part in which all values of a column are missing."""
    missing = NarwhalsTarget(schema_of(part.rows_as_asked, part.name)).is_missing(column)
    groups = part.groups({"rows": LENGTH, "gaps": Aggregate(missing.cast(nw.Int64))})
    return groups.source[groups.numbers("rows") == groups.numbers("gaps")].tolist()


def users_columns(part: Part, functions: Sequence[Bias]) -> nw.Schema:
    """Return names and types of the user's columns, and of those that hold the user's expressions."""
    read = {column for function in functions for column in function.columns}
    whole = schema_of(part.rows_as_asked, part.name)
    return nw.Schema({name: kind for name, kind in whole.items() if not name.startswith(PREFIX) or name in read})


def condition(parts: Sequence[Part], holds: nw.Expr | None) -> EngineFunction:
    """Return 1 on the rows of some frames on which a condition holds, and 0 on others; None holds everywhere."""
    return _function(dict.fromkeys(parts, zero_elsewhere(holds, nw.lit(1.0))))


def _function(values: Mapping[Part, nw.Expr], name: str | None = None) -> EngineFunction:
    """Return an expression for each of some frames as a function, which is 0 on rows of others."""
    by_name = {part.name: (part.codes, value) for part, value in values.items()}

    def of(part: Part) -> nw.Expr:
        if part.name not in by_name:
            return nw.lit(0.0)
        codes, value = by_name[part.name]
        inside = None if set(part.codes) <= set(codes) else nw.col(str(part.label)).is_in(list(codes))
        return zero_elsewhere(inside, value)

    return EngineFunction(of, name)


def zero_elsewhere(condition: nw.Expr | None, term: nw.Expr) -> nw.Expr:
    """Return a term where a condition holds, and 0 elsewhere; None holds everywhere."""
    return term if condition is None else nw.when(condition).then(term).otherwise(nw.lit(0.0))


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
    categories, found = Categories(bias, sample), []
    readers = [_FrameReader(bias, sample, part, frames.counts) for part in frames.parts]
    for group in family.groups:
        counted = [one for reader in readers for one in reader.levels(group)]
        if not any(code == k for _, code, _ in counted):
            raise untold_parameters([frames.names[k]], bias)
        levels = list(dict.fromkeys(level for level, _, _ in counted))
        for place, term in enumerate(group):
            values = {level[place] for level in levels}
            categories.require_one_kind(term, values)
            categories.require_few(term, len(values))
        position = {level: place for place, level in enumerate(levels)}
        total, drawn = np.zeros((2, len(levels)))
        for level, code, mass in counted:
            total[position[level]] += mass
            drawn[position[level]] += mass * (code == k)
        found.append(categories.in_order(group, levels, total, drawn))
    return replace(bias, family=family.seen(found))


@dataclass(frozen=True)
class _FrameReader(Categories):
    """Reads the categories of a bias in one frame, as the user gave it."""

    bare: Part
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
                self.require_few(term, int(count))
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
        self.require_categories(term.name, target)
        return target.column(term.name)

    def _known(self, term: Node, found: Groups, name: str) -> list[Value]:
        """Return the values of a term; refuse missing ones of a column, and numbers that are not finite."""
        values: list[Value] = found.table.get_column(name).to_list()
        rows = found.numbers(ROWS)
        missing = np.array([is_missing(value) for value in values], bool)
        if isinstance(term, Column):
            self.require_complete(term.name, int(rows[missing].sum()))
        endless = missing | np.array([value in (math.inf, -math.inf) for value in values], bool)
        if endless.any():
            value = "nan" if missing[endless][0] else values[int(endless.argmax())]
            raise self.no_category(term, value, int(rows[endless].sum()))
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
        """Return the domains that values of the key, by which rows are grouped, stand for; -1 if they do not count."""
        return np.array([self._place.get(key, -1) for key in keys])

    def within(self, places: Integers) -> Functions:
        """Return 1 on the rows of some domains, and 0 on others."""
        return self._having(self.columns, places)

    def within_base(self, places: Integers) -> Functions:
        """Return 1 on the rows of the bases of some domains, and 0 on others."""
        return self._having(self.columns[: self.of_base], places)

    def _having(self, columns: Sequence[str], places: Integers) -> Functions:
        """Return where columns have the values of each of some domains."""
        return as_functions(tuple(condition(self.parts, is_in(columns, self.keys[j])) for j in places.tolist()))


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
