"""Sums of influence values over clusters, or over successive rows of a series, queried from an engine: one group-by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.dependence import CELL, UNIT
from vardi._inputs.engine.part import Change
from vardi._rows.contract import Evenness
from vardi._rows.grouping import membership
from vardi._rows.series import rows_a_value
from vardi._rows.units import Units
from vardi._types import Floats, Integers

if TYPE_CHECKING:
    from vardi._rows.engine.moments import EngineMoments


@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums over the rows of units, or of intervals within them.

    Attributes
    ----------
    units : Units
        The units.
    entry : ndarray of int of shape (G,)
        The entry of the units to which each group of rows belongs.
    key : list
        The value of each group in a further column, if one was asked for.
    sums : ndarray of shape (G, m)
        Its sums.
    """

    units: Units
    entry: Integers
    key: list[Any]
    sums: Floats

    @property
    def totals(self) -> Floats:
        """The sums over entries, of shape (E, m)."""
        return np.asarray(membership(self.entry, len(self.units.rows)) @ self.sums)


def sums_over_units(
    at: EngineMoments, changes: Sequence[Change | None], names: Sequence[str], key: str | None = None
) -> UnitSums:
    """Query sums of the columns that ``changes`` add, over units and, within them, over the values of a key."""
    dependence = at.dependence
    keys = (*dependence.keys, *([] if key is None else [key]))
    found: list[tuple[int, Any, Any, Any, float, list[float]]] = []
    for part, change in zip(at.parts, changes, strict=True):
        asked = {name: Aggregate(part.times_count(nw.col(name))) for name in names}
        asked["rows"] = part.rows
        put = dependence.units(part, _lengths(at))
        for code, row in part.by_sample(asked, put, at.point, change, key=keys):
            sums = [float(row[name]) for name in names]
            found.append((code, row.get(CELL), row[UNIT], None if key is None else row[key], float(row["rows"]), sums))
    in_series = dependence.series is not None
    found.sort(key=lambda one: (one[0], one[2]) if in_series else (one[0], str(one[1]), str(one[2])))
    places: dict[Any, int] = {}
    entry = np.array([places.setdefault(one[:3], len(places)) for one in found])
    units: dict[Any, int] = {}
    unit = [units.setdefault((k, label) if in_series else label, len(units)) for k, _, label in places]
    cells: dict[Any, int] = {}
    cell = [cells.setdefault((k, label), len(cells)) for k, label, _ in places]
    sample, rows = np.array([k for k, _, _ in places]), np.bincount(entry, [one[4] for one in found]).astype(np.float64)
    table = Units(np.array(unit), np.array(cell), sample, rows, dependence.remaining, in_series)
    return UnitSums(table, entry, [one[3] for one in found], np.array([one[5] for one in found], np.float64))


def evenness_over_clusters(at: EngineMoments, column: str, inside: Any) -> Evenness:
    """Return how evenly the weights are spread over clusters, for rows that are inside (1) rather than outside (0)."""
    mass: dict[Any, float] = {}
    for part in at.parts:
        weight = at.point.weight if inside is None else inside(part) * at.point.weight
        asked = {"mass": Aggregate(part.times_count(weight))}
        for _, row in part.by_sample(asked, at.point, _named(column), key=(UNIT,)):
            mass[row[UNIT]] = mass.get(row[UNIT], 0.0) + float(row["mass"])
    masses = np.array(list(mass.values()))
    return Evenness(float(masses.sum()), float((masses**2).sum()), float(masses.max(initial=0.0)))


def _named(column: str) -> Change:
    return lambda frame: frame.with_columns(**{UNIT: nw.col(column)})


def _lengths(at: EngineMoments) -> list[int]:
    """Return how many rows of each sample make up one value of its series."""
    return [rows_a_value(int(size)) for size in at.sizes]
