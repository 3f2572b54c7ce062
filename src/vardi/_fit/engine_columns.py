"""The user's columns in frames of an engine: what they hold, and which have gaps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import narwhals as nw
import numpy as np

from vardi._inputs.lazy_part import COUNTS, LABEL, ROW, Part
from vardi._inputs.pool import kinds_in_words
from vardi._rows.expressions import Expressions


class EngineColumns:
    """The columns of all frames of a fit.

    Parameters
    ----------
    parts : sequence of Part
        The frames.
    read : collection of str
        The columns that the biases read, which come first.
    """

    def __init__(self, parts: Sequence[Part], read: Collection[str]) -> None:
        self._parts, self._read = parts, read

    @cached_property
    def by_kind(self) -> dict[str, tuple[str, ...]]:
        """Columns by what they hold: those that the biases read first, those of some frames only last."""
        names = sorted(self._kinds, key=lambda name: (name not in self._read, not self.in_all(name)))
        return {
            kind: tuple(name for name in names if set(self._kinds[name].values()) == {kind})
            for kind in ("numeric", "conditions", "texts")
        }

    @property
    def with_means(self) -> tuple[str, ...]:
        """Numeric columns and conditions."""
        return *self.by_kind["numeric"], *self.by_kind["conditions"]

    def in_all(self, name: str) -> bool:
        """Return whether all frames have a column."""
        return len(self._kinds[name]) == len(self._parts)

    @cached_property
    def mixed(self) -> dict[str, str]:
        """Columns whose type differs between frames, with the type in each."""
        several = [name for name, kinds in self._kinds.items() if len(set(kinds.values())) > 1]
        own = {name: [part for part, schema in self._schemas if name in schema] for name in several}
        return {
            name: kinds_in_words([str(part.schema[name]) for part in parts], [str(part.name) for part in parts])
            for name, parts in own.items()
        }

    @cached_property
    def with_gaps(self) -> tuple[str, ...]:
        """Numeric columns and conditions with missing or infinite values, by one query for each frame."""
        found: set[str] = set()
        for part, schema in self._schemas:
            names = [name for name in self.with_means if name in schema]
            endless = 1.0 - np.isfinite(Expressions([nw.col(name).cast(nw.Float64) for name in names]))
            counts = part.sums(endless.terms) if names else ()
            found |= {name for name, count in zip(names, counts, strict=True) if count}
        return tuple(name for name in self.with_means if name in found)

    @cached_property
    def _schemas(self) -> list[tuple[Part, nw.Schema]]:
        return [(part, part.schema) for part in self._parts]

    @cached_property
    def _kinds(self) -> Mapping[str, dict[str, str]]:
        """What each column holds in each frame that has it."""
        found: dict[str, dict[str, str]] = {}
        for part, schema in self._schemas:
            for name, dtype in schema.items():
                if name not in (ROW, COUNTS, LABEL):
                    found.setdefault(name, {})[str(part.name)] = _kind(dtype)
        return found


def _kind(dtype: nw.dtypes.DType) -> str:
    if dtype.is_numeric():
        return "numeric"
    return "conditions" if dtype == nw.Boolean else "texts" if dtype in (nw.String, nw.Categorical, nw.Enum) else ""
