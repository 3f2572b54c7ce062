"""The columns that all lazy frames of a pool have, as known values need them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import narwhals as nw

from vardi._inputs.engine.aggregates import LENGTH
from vardi._inputs.engine.part import PREFIX, Part
from vardi._inputs.engine.queries import aggregated


class EngineTable:
    """What known values need of rows, answered by an engine.

    Parameters
    ----------
    parts : sequence of Part
        The frames.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts, self._schemas = parts, [part.schema for part in parts]
        self.columns = tuple(name for name in self._schemas[0] if all(name in schema for schema in self._schemas))

    def counts(self, column: str) -> Mapping[Any, int]:
        """Return how many rows have each value of a column."""
        found: Counter[Any] = Counter()
        for part in self._parts:
            counted = part.ask(lambda frame: aggregated(frame, [column], {f"{PREFIX}n": LENGTH}))
            found.update(dict(zip(counted.get_column(column).to_list(), counted.get_column(f"{PREFIX}n"), strict=True)))
        return found

    def kind(self, column: str) -> Literal["number", "condition", "other"]:
        """Return whether a column holds numbers, truth values, or something that has no mean."""
        kinds = [schema[column] for schema in self._schemas]
        if all(kind == nw.Boolean for kind in kinds):
            return "condition"
        return "number" if all(kind.is_numeric() or kind == nw.Boolean for kind in kinds) else "other"
