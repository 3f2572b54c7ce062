"""One frame of an engine, and the only way that anything leaves it: sums over its rows, and sums within samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np

from vardi._inputs.engine.asking import answering, collected, schema_of
from vardi._types import Floats

#: What puts columns on a frame, for the terms of a query to read.
Change: TypeAlias = Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]]

PREFIX = "__vardi_"
OMEGA = "__vardi_omega_{}"
FEATURE = "__vardi_feature_{}"
FUNCTION = "__vardi_function_{}"
COUNT = "__vardi_count"
ASKED = "__vardi_asked_{}"


@dataclass(frozen=True, eq=False)
class Aggregate:
    """An aggregate of an expression within groups, for which it is made a column first: Dask aggregates no others.

    Attributes
    ----------
    of : nw.Expr
        The expression.
    how : str
        The method of narwhals that aggregates it.
    """

    of: nw.Expr
    how: str = "sum"


#: What is asked within groups: an aggregate of a column, or one of an expression.
Asked: TypeAlias = nw.Expr | Aggregate

# columns that a study puts on its frames: the place of a row, how many it stands for, and the label of its sample
ROW, COUNTS, LABEL = "__row__", "__counts__", "__source__"


@dataclass(frozen=True, eq=False)
class Part:
    """One frame, with a column for each bias, and the samples that its rows belong to.

    Attributes
    ----------
    frame : nw.LazyFrame
        The user's columns; ``__vardi_omega_k``, the bias k or, of one with parameters, the factor that is known;
        ``__vardi_feature_j``, what the parameters multiply; ``__vardi_function_j``, whose mean is known; and
        ``__vardi_count`` where rows stand for several.
    label : str or None
        Column with the label of each row's sample; None where all rows are of one.
    codes : dict
        Position of the sample of each label; of the one sample under None.
    counted : bool
        Whether there is a column of counts.
    whole : nw.LazyFrame or None
        The frame with rows that have no part in the fit as well: whose count is 0, or whose sample was left out.
    belongs : nw.Expr or None
        Where there is such a frame, which of its rows have a part.
    name : str or None
        Name of the sample, for messages; None where the frame holds all samples.
    put : list of callable
        What puts expressions of Polars and narwhals, that were asked for since, on the rows as columns. All copies of
        a part have the same list, so that what one was asked for can be combined with what another one was.
    """

    frame: nw.LazyFrame[Any]
    label: str | None
    codes: dict[Any, int]
    counted: bool
    whole: nw.LazyFrame[Any] | None = None
    belongs: nw.Expr | None = None
    name: str | None = None
    put: list[Change] = field(default_factory=list)

    @property
    def rows_as_asked(self) -> nw.LazyFrame[Any]:
        """The frame with all columns that were put on it."""
        with answering(self.name):
            return _changed(self.frame, self.put)

    def ask(self, build: Change) -> nw.DataFrame[Any]:
        """Return the answer to a query of the rows: the only way that anything leaves the engine."""
        with answering(self.name):  # DuckDB complains while a query is built
            return collected(build(_changed(self.frame, self.put)), self.name)

    def map(self, change: Change) -> Part:
        """Return the part with a change of columns made to its rows, and to those that do not count."""
        with answering(self.name):
            whole = None if self.whole is None else change(self.whole)
            return replace(self, frame=change(self.frame), whole=whole)

    @property
    def schema(self) -> nw.Schema:
        """Names and types of the user's own columns."""
        whole = schema_of(self.frame, self.name)
        return nw.Schema({name: kind for name, kind in whole.items() if not name.startswith(PREFIX)})

    @property
    def count(self) -> nw.Expr:
        """How many rows a row stands for, as an expression."""
        return nw.col(COUNT) if self.counted else nw.lit(1.0)

    def of_samples(self, codes: Collection[int]) -> Part:
        """Return the part with the rows of some samples only, of which it has some."""
        labels = {label: code for label, code in self.codes.items() if code in codes}
        if len(labels) == len(self.codes):
            return self
        assert self.label is not None
        chosen = nw.col(self.label).is_in(list(labels))
        belongs = chosen if self.belongs is None else chosen & self.belongs
        whole = self.frame if self.whole is None else self.whole
        with answering(self.name):
            return replace(self, frame=self.frame.filter(chosen), codes=labels, whole=whole, belongs=belongs)

    def times_count(self, term: nw.Expr) -> nw.Expr:
        """Return a term as often as the row counts."""
        return term * nw.col(COUNT) if self.counted else term

    @property
    def rows(self) -> nw.Expr:
        """How many rows there are, as an aggregate."""
        return nw.col(COUNT).sum() if self.counted else nw.len()

    def only(self, code: int, term: nw.Expr) -> nw.Expr | None:
        """Return a term on the rows of a sample and 0 on others; None where the part has no rows of it."""
        labels = [label for label, place in self.codes.items() if place == code]
        if not labels:
            return None
        if self.label is None:
            return term
        return nw.when(nw.col(self.label) == labels[0]).then(term).otherwise(nw.lit(0.0))

    def by_sample(
        self, expressions: Mapping[str, Asked], *changes: Change | None, key: str | Sequence[str] = ()
    ) -> list[tuple[int, dict[str, Any]]]:
        """Ask for aggregates of columns and of expressions within samples: the position of each, and its numbers.

        With a key, within the groups of each sample that have one value of that column, or of several, which are then
        among the numbers. What stands in many sums is better a column of its own, put there by the changes, which are
        made first, in their order: engines compute it once, and queries stay short.
        """
        columns, named = as_columns(expressions)

        def query(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
            changed = _changed(frame, [*changes, with_columns(columns)])
            by = [*([] if self.label is None else [self.label]), *([key] if isinstance(key, str) else key)]
            return changed.group_by(*by).agg(*named) if by else changed.select(*named)

        rows = self.ask(query).rows(named=True)
        return [(self.codes[None if self.label is None else row[self.label]], row) for row in rows]

    def sums(self, terms: Sequence[nw.Expr], *changes: Change | None) -> Floats:
        """Ask for the sums of expressions, of which columns that the changes make may be a part, all in one query."""
        if not terms:
            return np.empty(0)
        found = self.aggregates({str(place): term.sum() for place, term in enumerate(terms)}, *changes)
        return np.array([np.nan if total is None else total for total in found.values()], np.float64)

    def aggregates(self, expressions: Mapping[str, nw.Expr], *changes: Change | None) -> dict[str, Any]:
        """Ask for aggregates over all rows of the part, in one query."""
        named = [expression.alias(name) for name, expression in expressions.items()]
        return self.ask(lambda frame: _changed(frame, changes).select(*named)).rows(named=True)[0]


def as_columns(expressions: Mapping[str, Asked]) -> tuple[dict[str, nw.Expr], list[nw.Expr]]:
    """Return columns for what is aggregated, and the aggregates of them by name."""
    columns: dict[str, nw.Expr] = {}
    named: list[nw.Expr] = []
    for place, (name, asked) in enumerate(expressions.items()):
        if isinstance(asked, Aggregate):
            columns[ASKED.format(place)] = asked.of
            named.append(getattr(nw.col(ASKED.format(place)), asked.how)().alias(name))
        else:
            named.append(asked.alias(name))
    return columns, named


def _changed(frame: nw.LazyFrame[Any], changes: Sequence[Change | None]) -> nw.LazyFrame[Any]:
    for change in changes:
        frame = frame if change is None else change(frame)
    return frame


def with_columns(columns: dict[str, nw.Expr]) -> Change | None:
    """Return the change that puts columns on a frame; None for none."""
    return (lambda frame: frame.with_columns(**columns)) if columns else None
