"""Sums within groups of rows, queried from an engine: all that a refit needs, linear in the counts of the groups."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import Aggregate
from vardi._inputs.engine.dependence import UNIT
from vardi._inputs.engine.part import PREFIX, Change, Part
from vardi._inputs.pool import Name
from vardi._rows.contract import JointSums, Moments
from vardi._rows.engine.expressions import PendingSums
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.hashing import LEFT, hashed
from vardi._rows.engine.joint import EngineRows
from vardi._rows.engine.moments import EngineMoments
from vardi._types import Floats, Integers
from vardi.errors import TooLargeError
from vardi.errors._refusals import missing_groups, no_groups, spanning_group

RANDOM_GROUPS = 1000  # of each sample, if rows are grouped at random
MAX_GROUPS = 1_000_000  # groups whose sums are held in memory
GROUP = f"{PREFIX}group"


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums over the rows of each group, which lies within one sample.

    Attributes
    ----------
    at : EngineMoments
        The rows at the point.
    rows : EngineRows
        The same rows, as the solver uses them.
    asked : mapping
        What the first sums answer, those of the likelihood; those of functions follow them.
    labels : list
        The label of each group.
    source, counts : ndarray of shape (G,)
        Its sample, and how many rows are counted in it.
    totals : ndarray of shape (G, T)
        Its sums.
    unit : ndarray of int of shape (G,)
        The number of the unit drawn as a whole: all groups of a cluster that spans samples have the same one.
    """

    at: EngineMoments
    rows: EngineRows
    asked: Mapping[Hashable, PendingSums]
    labels: list[object]
    source: Integers
    counts: Floats
    totals: Floats
    unit: Integers

    def drawn(self, times: Floats) -> tuple[JointSums, Moments]:
        """Return the sums of the likelihood, and the moments of the functions, with group g counted times_g times."""
        total, ends = times @ self.totals, sum(len(one.places) for one in self.asked.values())
        return self.rows.placed(self.at.point, self.asked, total[:ends]), self.at.placed(total[ends:])


@dataclass(frozen=True, eq=False)
class _Group:
    """The sums of one group."""

    source: int
    label: object
    count: float
    sums: list[float]


def sums_in_groups(
    at: EngineMoments,
    functions: Sequence[EngineFunction],
    column: str | None,
    seed: int,
    identity: str | None,
    names: Sequence[Name],
    lengths: Sequence[int] | None = None,
) -> GroupSums:
    """Query the sums of groups, by a column or else at random: a query for each part.

    If the column is that of the fit's clusters, groups may span samples; with lengths they are that many successive
    rows of each series.
    """
    depends = at.dependence
    if lengths is not None:
        changes = [_in_series(depends.units(part, lengths)) for part in at.parts]
    else:
        changes = _by_column(at.parts, column) if column else _by_chance(at.parts, seed, identity)
    rows = EngineRows(at.model, lambda: NotImplemented)
    found: list[_Group] = []
    for part, change in zip(at.parts, changes, strict=True):
        block, asked = rows.asked(part, at.point, objective=False)
        moments, values = at.terms(part, functions, np.zeros(len(functions)))
        terms = {str(place): Aggregate(term) for place, term in enumerate([*block.terms, *moments])}
        for code, row in part.by_sample({**terms, "rows": part.rows}, at.point, values, change, key=GROUP):
            found.append(_Group(code, row[GROUP], float(row["rows"]), [float(row[place]) for place in terms]))
    spans = column is not None and depends.clusters == column
    if column:
        _require_within_samples(found, names, spans=spans)
    found.sort(key=lambda group: (group.source, str(group.label)))  # engines give groups in any order
    totals = np.array([group.sums for group in found])
    source, counts = np.array([group.source for group in found]), np.array([group.count for group in found])
    places: dict[object, int] = {}
    unit = [places.setdefault(group.label if spans else place, len(places)) for place, group in enumerate(found)]
    return GroupSums(at, rows, asked, [group.label for group in found], source, counts, totals, np.array(unit))


def _in_series(units: Change) -> Change:
    return lambda frame: units(frame).with_columns(**{GROUP: nw.col(UNIT)})


def _by_chance(parts: Sequence[Part], seed: int, identity: str | None) -> list[Change]:
    """Return the steps that group rows at random, by a hash of their identity."""

    def change(halves: Change) -> Change:
        return lambda frame: halves(frame).with_columns(**{GROUP: nw.col(LEFT) % RANDOM_GROUPS})

    return [change(hashed(part, place, seed, identity, "A bootstrap")) for place, part in enumerate(parts)]


def _by_column(parts: Sequence[Part], column: str) -> list[Change]:
    """Return the steps that take the groups from a column that all parts have."""
    known = list(dict.fromkeys(name for part in parts for name in part.schema))
    if not all(column in part.schema for part in parts):
        raise no_groups(column, known)
    found = sum(int(part.aggregates({"n": Aggregate(column, "n_unique")})["n"]) for part in parts)
    if found > MAX_GROUPS:
        raise TooLargeError(
            f"{column!r} has {found:,} groups, and a sum for each would have to be held in memory. Leave groups= out "
            "if rows do not depend on one another; otherwise use a column of larger groups.",
            bytes=8 * found,
        )
    return [lambda frame: frame.with_columns(**{GROUP: nw.col(column)})] * len(parts)


def _require_within_samples(groups: Sequence[_Group], names: Sequence[Name], *, spans: bool) -> None:
    missing = sum(group.count for group in groups if group.label is None or group.label != group.label)
    if missing:
        raise missing_groups(int(missing))
    first: dict[object, int] = {}
    for group in () if spans else groups:
        if first.setdefault(group.label, group.source) != group.source:
            raise spanning_group(group.label, names[first[group.label]], names[group.source])
