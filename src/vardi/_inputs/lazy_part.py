"""One frame of an engine, and the only way that anything leaves it: sums over its rows, and sums by sample."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np

from vardi._inputs.engines import (
    LENGTH,
    Aggregate,
    AggregateQuery,
    DataFrame,
    LazyFrame,
    answering,
    schema_of,
)
from vardi._inputs.frames import require_new
from vardi._inputs.partitions import aggregated
from vardi._types import Floats, Integers
from vardi.biases._nodes import Node

#: A number for each row, or one for all of them.
Term: TypeAlias = nw.Expr | float
#: Adds columns to a frame, for the terms of a query to read.
Change: TypeAlias = Callable[[LazyFrame], LazyFrame]

PREFIX = "__vardi_"
OMEGA = "__vardi_omega_{}"
FEATURE = "__vardi_feature_{}"
FUNCTION = "__vardi_function_{}"
COUNT = "__vardi_count"


# columns that a study adds to its frames: the position of a row, its count, and the label of its sample
ROW, COUNTS, LABEL = "__row__", "__counts__", "__source__"


@dataclass(frozen=True, eq=False)
class Part:
    """One frame, with a column for each bias, and the samples that its rows belong to.

    Attributes
    ----------
    frame : nw.LazyFrame
        The user's columns; ``__vardi_omega_k``, the bias k or, if it has parameters, its known factor;
        ``__vardi_feature_j``, what the parameters multiply; ``__vardi_function_j``, whose mean is known; and
        ``__vardi_count`` if rows have counts.
    label : str or None
        Column with the label of each row's sample; None if all rows are of one sample.
    codes : dict
        Position of the sample of each label; under None, that of the one sample.
    counted : bool
        Whether there is a column of counts.
    whole : nw.LazyFrame or None
        The frame including rows that are not in the fit: their count is 0, or their sample was left out.
    belongs : nw.Expr or None
        Which rows of ``whole``, if there is one, are in the fit.
    name : str or None
        Name of the sample, for messages; None if the frame holds all samples.
    formulas : mapping from str to Node
        Those of the biases' columns that NumPy can compute in the engine's place: of columns of doubles, all of them
        there.
    computed : mapping
        Functions of the rows that are columns of the frame already, with the names of these.
    put : list of callable
        Changes that add later expressions of Polars and narwhals to the rows as columns. All copies of a part share
        this list, so that columns added through one can be combined with those added through another.
    """

    frame: LazyFrame
    label: str | None
    codes: dict[Hashable, int]
    counted: bool
    whole: LazyFrame | None = None
    belongs: nw.Expr | None = None
    name: str | None = None
    formulas: Mapping[str, Node] = field(default_factory=dict)
    computed: Mapping[Any, str] = field(default_factory=dict)
    put: list[Change] = field(default_factory=list)

    @property
    def rows_as_asked(self) -> LazyFrame:
        """The frame with all columns that were added to it."""
        with answering(self.name):
            return changed(self.frame, self.put)

    def map(self, *changes: Change | None) -> Part:
        """Return the part with changes of columns made to its rows, including those that do not count."""
        with answering(self.name):
            whole = None if self.whole is None else changed(self.whole, changes)
            return replace(self, frame=changed(self.frame, changes), whole=whole)

    @property
    def schema(self) -> nw.Schema:
        """Names and types of the user's own columns."""
        whole = schema_of(self.frame, self.name)
        return nw.Schema({name: kind for name, kind in whole.items() if not name.startswith(PREFIX)})

    def of_sample(self, terms: Sequence[Term]) -> Term:
        """Return, from a term for each sample, that of each row's own; a number if it is the same for all."""
        (_, first), *others = [(label, terms[code]) for label, code in self.codes.items()]
        chosen = first
        for label, term in others:
            if isinstance(term, nw.Expr) or isinstance(first, nw.Expr) or term != first:
                chosen = nw.when(nw.col(str(self.label)) == label).then(expression(term)).otherwise(expression(chosen))
        return chosen

    def of_samples(self, codes: Collection[int]) -> Part:
        """Return the part with the rows of some samples only; it must have rows of at least one of them."""
        labels = {label: code for label, code in self.codes.items() if code in codes}
        if len(labels) == len(self.codes):
            return self
        assert self.label is not None
        chosen = nw.col(self.label).is_in(list(labels))
        belongs = chosen if self.belongs is None else chosen & self.belongs
        whole = self.frame if self.whole is None else self.whole
        return replace(self.map(where(chosen)), codes=labels, whole=whole, belongs=belongs)

    def times_count(self, term: nw.Expr) -> nw.Expr:
        """Return a term times the count of its row."""
        return term * nw.col(COUNT) if self.counted else term

    @property
    def rows(self) -> Aggregate:
        """The number of rows, counted, as an aggregate."""
        return Aggregate(COUNT) if self.counted else LENGTH

    def groups(
        self,
        asked: Mapping[str, Aggregate],
        *changes: Change | None,
        key: Sequence[str] = (),
        most: int | None = None,
    ) -> Groups:
        """Query aggregates of columns and expressions by sample and by keys, of so many groups at most.

        What occurs in many sums is better added as a column by the changes, which are made first, in order: engines
        compute it once, and queries stay short.
        """
        query = AggregateQuery([*filter(None, [self.label]), *key], asked, most)
        with answering(self.name):  # DuckDB raises while a query is built
            return Groups(aggregated(changed(self.rows_as_asked, changes), query), self)

    def first(self, columns: Sequence[str], rows: int, *changes: Change | None) -> Groups:
        """Query columns of the first rows."""
        columns = [*columns, *filter(None, [self.label])]
        with answering(self.name):
            return Groups(changed(self.rows_as_asked, changes).select(*columns).head(rows).collect(), self)

    @property
    def code(self) -> int | None:
        """The position of its sample; None if the frame holds all samples."""
        return None if self.label is not None else self.codes[None]

    def with_added(self, names: Sequence[str], change: Change | None) -> Any:
        """Return the user's frame, still lazy, with columns that a change adds, zero for rows outside the fit."""
        rows = self.frame if self.whole is None else self.whole
        require_new(names, schema_of(rows, self.name))
        inside = None
        if self.belongs is not None:
            fit = nw.when(self.belongs)
            inside = with_columns({name: fit.then(nw.col(name)).otherwise(nw.lit(0.0)) for name in names})
        with answering(self.name):
            frame = changed(rows, [change, inside])
            ours = [one for one in schema_of(frame, self.name) if one.startswith(PREFIX)]
            return frame.drop(*ours).to_native()

    def sums(self, terms: Sequence[nw.Expr], *changes: Change | None) -> Floats:
        """Query the sums of expressions, which may read columns that the changes add, all in one query."""
        if not terms:
            return np.empty(0)
        found = self.aggregates({str(place): Aggregate(term) for place, term in enumerate(terms)}, *changes)
        return np.array([np.nan if total is None else total for total in found.values()], np.float64)

    def aggregates(self, asked: Mapping[str, Aggregate], *changes: Change | None) -> dict[str, Any]:
        """Query aggregates over all rows of the part, in one query."""
        return replace(self, label=None).groups(asked, *changes).table.rows(named=True)[0]


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of the rows of a part, or some of these rows, as an engine has returned them.

    Attributes
    ----------
    table : nw.DataFrame
        Their columns.
    part : Part
        What they are of.
    """

    table: DataFrame
    part: Part

    def __len__(self) -> int:
        return len(self.table)

    @property
    def labels(self) -> list[Hashable]:
        """The label of each; None if there is no column of labels."""
        return [None] * len(self) if self.part.label is None else self.keys([self.part.label])

    @property
    def source(self) -> Integers:
        """The position of the sample of each."""
        return np.array([self.part.codes[label] for label in self.labels], np.int64)

    def keys(self, names: Sequence[str]) -> list[Hashable]:
        """Return the value of each group in a column or, in several, a tuple."""
        columns = [self.table.get_column(name).to_list() for name in names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def numbers(self, name: str) -> Floats:
        """Return a column of numbers, NaN for null."""
        return np.asarray(self.table.get_column(name).cast(nw.Float64).to_numpy(), np.float64)

    def matrix(self, names: Sequence[str]) -> Floats:
        """Return columns of numbers side by side."""
        return np.column_stack([self.numbers(name) for name in names])


def sums_by_sample(
    parts: Sequence[Part], K: int, asked: Callable[[Part], Mapping[str, Aggregate]]
) -> dict[str, Floats]:
    """Query aggregates of each part by sample, and add them up: K numbers for each."""
    sums: dict[str, Floats] = defaultdict(lambda: np.zeros(K))
    for part in parts:
        groups = part.groups(terms := asked(part))
        for name in terms:
            numbers = groups.numbers(name)
            sums[name][groups.source] += np.where(np.isnan(numbers), 0.0, numbers)  # the sum of no rows may be null
    return sums


def expression(term: Term) -> nw.Expr:
    """Return a term as an expression."""
    return term if isinstance(term, nw.Expr) else nw.lit(term)


def changed(frame: LazyFrame, changes: Sequence[Change | None]) -> LazyFrame:
    """Return a frame with changes made to it, in order."""
    for change in changes:
        frame = frame if change is None else change(frame)
    return frame


def with_columns(columns: dict[str, nw.Expr]) -> Change | None:
    """Return the change that adds columns to a frame; None if there are none."""
    return (lambda frame: frame.with_columns(**columns)) if columns else None


def where(condition: nw.Expr) -> Change:
    """Return the change that leaves the rows that meet a condition."""
    return lambda frame: frame.filter(condition)


@dataclass(frozen=True)
class DistinctRows:
    """Rows in memory, no two of them equal in both their columns and their sample.

    Attributes
    ----------
    matrix : ndarray of shape (n, c)
        The values of the chosen columns: biases, features and known functions, in this order.
    source : ndarray of int
        Sample of each row.
    counts : ndarray
        How many rows of the frames each stands for.
    """

    matrix: Floats
    source: Integers
    counts: Floats

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def none(cls, c: int) -> DistinctRows:
        """Return no rows of c columns."""
        return cls(np.empty((0, c)), np.empty(0, np.int64), np.empty(0))

    def with_rows(self, rows: Groups, columns: Sequence[str]) -> DistinctRows:
        """Return the rows with others of a part; without a count, each of these stands for itself."""
        counts = rows.numbers(COUNT) if COUNT in rows.table.columns else np.ones(len(rows))
        return DistinctRows(
            np.concatenate([self.matrix, rows.matrix(columns)]),
            np.concatenate([self.source, rows.source]),
            np.concatenate([self.counts, counts]),
        )

    def in_order(self) -> DistinctRows:
        """Return the rows that count, sorted: engines return groups in any order."""
        kept = np.flatnonzero(self.counts > 0)
        rows = kept[np.lexsort((*self.matrix[kept].T, self.source[kept]))]
        return DistinctRows(self.matrix[rows], self.source[rows], self.counts[rows])


def distinct_rows(
    parts: Sequence[Part],
    columns: Sequence[str],
    limit: int,
    chosen: Callable[[Part], Change | None] = lambda part: None,
) -> DistinctRows | None:
    """Collapse equal rows by one GROUP BY for each part; None if there are more than the limit.

    ``chosen`` returns a filter of the rows of a part, or None for all of them.
    """
    found = DistinctRows.none(len(columns))
    for part in parts:
        groups = part.groups({COUNT: part.rows}, chosen(part), key=columns, most=limit + 1)
        if len(groups) > limit:
            return None
        found = found.with_rows(groups, columns)
    return found.in_order()


def rows_by_value(parts: Sequence[Part], column: str, most: int | None = None) -> Counter[Any] | None:
    """Return how many rows have each value of a column, by one query for each part; None if these are too many."""
    found: Counter[Any] = Counter()
    for part in parts:
        whole = replace(part, label=None)  # of any sample
        rows = whole.groups({COUNT: part.rows}, key=[column], most=None if most is None else most + 1).table
        found.update(dict(zip(rows.get_column(column).to_list(), rows.get_column(COUNT).to_list(), strict=True)))
        if most is not None and len(found) > most:
            return None
    return found
