"""Equal rows of lazy frames, collapsed by one GROUP BY for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._inputs.engine.part import COUNT, Change, Part
from vardi._inputs.engine.queries import aggregated
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
    def in_order(cls, matrix: Floats, source: Integers, counts: Floats) -> DistinctRows:
        """Return the rows that count, sorted: engines return groups in any order."""
        kept = np.flatnonzero(counts > 0)
        order = kept[np.lexsort((*matrix[kept].T, source[kept]))]
        return cls(matrix[order], source[order], counts[order])


def distinct_rows(
    parts: Sequence[Part],
    columns: Sequence[str],
    limit: int,
    chosen: Callable[[Part], Change | None] | None = None,
) -> DistinctRows | None:
    """Collapse equal rows by one GROUP BY for each part; None if there are more than the limit.

    ``chosen`` returns a filter of the rows of a part, or None for all of them.
    """
    matrices, sources, counts = [], [], []
    for part in parts:
        found = part.ask(partial(_grouped, part, columns, limit, None if chosen is None else chosen(part)))
        if len(found) > limit:
            return None
        matrices.append(matrix_of(found, columns))
        labels = [None] * len(found) if part.label is None else found.get_column(part.label).to_list()
        sources.append(np.array([part.codes[label] for label in labels], np.int64))
        counts.append(found.get_column(COUNT).to_numpy().astype(np.float64))
    return DistinctRows.in_order(np.concatenate(matrices), np.concatenate(sources), np.concatenate(counts))


def first_rows(part: Part, label: Any, columns: Sequence[str], rows: int) -> NDArray[np.float64]:
    """Return columns of the first rows of a sample."""

    def first(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        mine = frame if part.label is None else frame.filter(nw.col(part.label) == label)
        return mine.select(*columns).head(rows)

    return matrix_of(part.ask(first), columns)


def matrix_of(found: nw.DataFrame[Any], columns: Sequence[str]) -> Floats:
    """Return columns of an answer side by side."""
    return np.column_stack([found.get_column(name).to_numpy() for name in columns]).astype(np.float64)


def _grouped(
    part: Part, columns: Sequence[str], limit: int, chosen: Change | None, frame: nw.LazyFrame[Any]
) -> nw.LazyFrame[Any]:
    keys = [*columns] if part.label is None else [part.label, *columns]
    left = frame if chosen is None else chosen(frame)
    return aggregated(left, keys, {COUNT: part.rows}, limit + 1)
