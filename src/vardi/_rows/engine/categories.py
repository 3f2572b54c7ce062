"""The distinct texts in a column of an engine, if there are few."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import narwhals as nw

from vardi._inputs.engine.part import PREFIX, Part
from vardi._inputs.engine.queries import aggregated

ROWS = f"{PREFIX}rows"


def rows_by_text(parts: Sequence[Part], column: str, most: int) -> dict[str | None, float] | None:
    """Return how many rows have each text, or None for missing, with a query for each part.

    Return None if a column has more texts than ``most``: then it names units rather than categories.
    """
    found: dict[str | None, float] = defaultdict(float)
    for part in parts:
        asked = part.ask(partial(_grouped, part, column, most))
        for text, rows in zip(asked[column].to_list(), asked[ROWS].to_list(), strict=True):
            found[text] += float(rows)
        if len(found) > most:
            return None
    return dict(found)


def _grouped(part: Part, column: str, most: int, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    text = frame.with_columns(nw.col(column).cast(nw.String))
    return aggregated(text, [column], {ROWS: part.rows}, most + 1)
