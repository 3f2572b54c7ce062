"""Aggregates of rows, declared rather than written, so that those of several pieces can be put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import narwhals as nw

from vardi._inputs.engine.asking import LazyFrame

How: TypeAlias = Literal["sum", "min", "max", "count", "n_unique", "len"]

COLUMN = "__vardi_asked_{}"


@dataclass(frozen=True, eq=False)
class Aggregate:
    """An aggregate of a column or an expression, over all rows or within groups.

    Attributes
    ----------
    of : nw.Expr or str
        The expression, or the name of a column.
    how : str
        The method of narwhals that aggregates it.
    """

    of: nw.Expr | str
    how: How = "sum"

    @property
    def expression(self) -> nw.Expr:
        """The expression; for a name, the column of that name."""
        return nw.col(self.of) if isinstance(self.of, str) else self.of

    def over(self, values: nw.Expr) -> nw.Expr:
        """Return the aggregate of some values."""
        found: nw.Expr = nw.len() if self.how == "len" else getattr(values, self.how)()
        return found


#: The number of rows.
LENGTH = Aggregate("", "len")


@dataclass(frozen=True, eq=False)
class AggregateQuery:
    """Aggregates by keys.

    Attributes
    ----------
    keys : sequence of str
        By which columns; none for all rows.
    asked : mapping from str to Aggregate
        What, by names.
    most : int or None
        How many groups at most.
    """

    keys: Sequence[str]
    asked: Mapping[str, Aggregate]
    most: int | None = None

    def of(self, frame: LazyFrame) -> LazyFrame:
        """Return the query of a frame.

        Within groups expressions are made columns first, because pandas aggregates only columns.
        """
        if not self.keys:
            return frame.select(*(one.over(one.expression).alias(name) for name, one in self.asked.items()))
        columns: dict[str, nw.Expr] = {}
        named = []
        for place, (name, one) in enumerate(self.asked.items()):
            if isinstance(one.of, str):
                named.append(one.over(one.expression).alias(name))
            else:
                columns[COLUMN.format(place)] = one.of
                named.append(one.over(nw.col(COLUMN.format(place))).alias(name))
        found = (frame.with_columns(**columns) if columns else frame).group_by(*self.keys).agg(*named)
        return found if self.most is None else found.head(self.most)
