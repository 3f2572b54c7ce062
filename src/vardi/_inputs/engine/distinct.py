"""Equal rows of lazy frames, collapsed by one GROUP BY for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vardi._inputs.engine.part import COUNT, Change, Groups, Part
from vardi._types import Floats, Integers


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
        rows = whole.groups({COUNT: part.rows}, key=column, most=None if most is None else most + 1).table
        found.update(dict(zip(rows.get_column(column).to_list(), rows.get_column(COUNT).to_list(), strict=True)))
        if most is not None and len(found) > most:
            return None
    return found
