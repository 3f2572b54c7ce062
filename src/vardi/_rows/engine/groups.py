"""Groups of rows in an engine, which a bootstrap draws as a whole: by a column, at random, or successive rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import narwhals as nw
import numpy as np

from vardi._inputs.engine.dependence import UNIT
from vardi._inputs.engine.part import PREFIX, Change, Part
from vardi._inputs.engines import Aggregate
from vardi._inputs.pool import Name
from vardi._rows.contract import Block, JointSums
from vardi._rows.engine.hashing import LEFT, hashed
from vardi._rows.likelihood import likelihood
from vardi._rows.measure import Functions, Measure
from vardi._rows.point import Point
from vardi._rows.queries import GroupAnswers, Queries
from vardi._types import Floats, Integers
from vardi.errors import TooLargeError
from vardi.errors._refusals import missing_groups, no_groups, spanning_group

RANDOM_GROUPS = 1000  # of each sample, if rows are grouped at random
MAX_GROUPS = 1_000_000  # groups whose sums are held in memory
GROUP = f"{PREFIX}group"


class Moments(NamedTuple):
    """The sums of a refit: those of the likelihood, and of functions, times weights, with 1 and with x."""

    likelihood: JointSums
    total: Floats
    against: Floats


@dataclass(frozen=True, eq=False)
class GroupSums:
    """The sums of a refit over the rows of each group; ``unit`` is the number of what is drawn as a whole.

    All groups of a cluster that spans samples are one unit.
    """

    answers: GroupAnswers[Moments]
    unit: Integers


def sums_in_groups(
    measure: Measure,
    functions: Functions,
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
    rows, point = measure.rows, measure.point
    assert isinstance(rows, Queries)
    assert isinstance(point, Point)
    if lengths is not None:
        changes = [_in_series(rows.dependence.units(part, lengths)) for part in rows.parts]
    else:
        changes = _by_column(rows.parts, column) if column else _by_chance(rows.parts, seed, identity)
    sums = likelihood(point, objective=False)

    def question(block: Block) -> Moments:
        at = point.at(block)
        f = block.let(functions.of(block, at) * at.weight)
        return Moments(sums(block), block.sum(f), at.against(f))

    found = rows.by_group(question, changes, [GROUP])
    spans = column is not None and rows.dependence.clusters == column
    if column:
        _require_within_samples(found, names, spans=spans)
    places: dict[object, int] = {}
    labels = [label for _, label in found.labels] if spans else range(len(found.labels))
    return GroupSums(found, np.array([places.setdefault(label, len(places)) for label in labels]))


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


def _require_within_samples(groups: GroupAnswers[Moments], names: Sequence[Name], *, spans: bool) -> None:
    absent = np.array([label is None or label != label for _, label in groups.labels])
    if absent.any():
        raise missing_groups(int(groups.counts[absent].sum()))
    first: dict[object, int] = {}
    for source, label in () if spans else groups.labels:
        if first.setdefault(label, source) != source:
            raise spanning_group(label, names[first[label]], names[source])
