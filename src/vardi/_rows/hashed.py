"""A hash of a seed and of the identity of a row, or of a cluster: the same in every engine, and in memory.

By it rows are grouped at random, and drawn by weight and without replacement: those with the smallest E / pi. E is
exponential, from the hash: every engine draws the same rows. Of exponential clocks with rates pi, that of row i rings
first with probability pi_i, and so on among the remaining ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import narwhals as nw
import numpy as np

from vardi._inputs.engines import LENGTH, Aggregate, LazyFrame, answering
from vardi._inputs.lazy_part import PREFIX, Change, Part, changed, where, with_columns
from vardi._inputs.lazy_pool import UNIT
from vardi._inputs.partitions import with_rank
from vardi._inputs.pool import Name
from vardi._rows.contract import Block, JointSums, Question
from vardi._rows.lazy_shares import SharesInEngine
from vardi._rows.lazy_values import EngineFunction
from vardi._rows.likelihood import likelihood
from vardi._rows.measure import Functions, Measure
from vardi._rows.multipliers import PRIME, constants, feistel
from vardi._rows.point import Point
from vardi._rows.queries import GroupAnswers, Queries
from vardi._types import Floats, Integers
from vardi.biases._compile import literal
from vardi.biases._values import numbered
from vardi.errors import MismatchError, TooLargeError
from vardi.errors._refusals import missing_groups, needs_rows, no_groups, no_identity, spanning_group

ROW, LEFT, RIGHT = (f"{PREFIX}{what}" for what in ("row", "left", "right"))
KEY, WEIGHT, GROUP = (f"{PREFIX}{what}" for what in ("clock", "weight", "group"))


def hashed(
    part: Part, place: int, seed: int | None, identity: str | None, what: str, *, clusters: bool = False
) -> Change:
    """Return the step that adds the two halves of a hash to a part, ``LEFT`` and ``RIGHT``, each below the prime.

    Rows are identified by a column, or else by the engine's own row number; if it has none, ``what`` is refused. With
    clusters, rows with the same value of the column have the same hash.
    """
    number = _numbered(part, identity, what, clusters=clusters)

    def change(frame: LazyFrame) -> LazyFrame:
        mixed = number(frame).with_columns(**{ROW: nw.col(ROW).cast(nw.Int64)}).with_columns(**_halves())
        for constant in constants(seed, place):
            left, right = feistel(nw.col(LEFT), nw.col(RIGHT), constant)
            mixed = mixed.with_columns(**{LEFT: left, RIGHT: right})
        return mixed

    return change


def uniform() -> nw.Expr:
    """Return the hash as a number between 0 and 1."""
    return (nw.col(LEFT).cast(nw.Float64) + (nw.col(RIGHT).cast(nw.Float64) + 0.5) / PRIME) / PRIME


def _numbered(part: Part, identity: str | None, what: str, *, clusters: bool) -> Change:
    """Return the step that adds a whole number to each row of a part."""
    if identity is None:
        if not part.frame.implementation.is_polars():
            raise needs_rows(f"{what} without a column that identifies rows (id=)")
        return lambda frame: nw.from_native(frame.to_native().with_row_index(ROW))  # rows of Polars are ordered
    own = part.schema
    if not identity.startswith(PREFIX) and identity not in own:  # columns reserved by vardi hold whole numbers
        raise no_identity(identity, own)
    if identity.startswith(PREFIX) or own[identity].is_integer():
        return lambda frame: frame.with_columns(**{ROW: nw.col(identity)})
    if clusters:
        return lambda frame: with_rank(frame, ROW, identity)
    return lambda frame: frame.with_row_index(ROW, order_by=identity)  # text and dates in their order


def _halves() -> dict[str, nw.Expr]:
    """Return a whole number as two below the prime; negative numbers have distinct halves."""
    is_negative = nw.when(nw.col(ROW) < 0)
    size = is_negative.then(nw.col(ROW) * -1).otherwise(nw.col(ROW))
    low = size % PRIME
    high = ((size - low).cast(nw.Float64) / float(PRIME) + 0.5).floor().cast(nw.Int64) * 2
    sign = is_negative.then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
    return {LEFT: low, RIGHT: (high + sign) % PRIME}


def drawn_rows(
    rows: Queries, weight: Question[Floats], n: int, seed: int | None, identity: str | None = None
) -> dict[int | None, object]:
    """Return n rows drawn by weight and without replacement, as lazy frames with the user's columns.

    Parameters
    ----------
    rows : Queries
        The rows.
    weight : callable
        Returns their weights.
    n : int
        How many.
    seed : int or None
        Seed of the hash.
    identity : str or None
        Column that identifies the rows of a frame; without it the engine's own row number, if it has one.

    Returns
    -------
    dict
        A frame by the position of its sample; by None if one frame holds all samples.
    """
    most = sum(int(part.aggregates({"n": LENGTH})["n"]) for part in rows.parts)
    if not 1 <= n <= most:
        raise MismatchError(
            f"{n} rows cannot be drawn without replacement from {most}. Draw fewer, or with replacement."
        )
    keyed = [part.map(with_key(rows, weight, place, seed, identity)) for place, part in enumerate(rows.parts)]
    if len(keyed) == 1:
        keyed = [keyed[0].map(lambda frame: frame.sort(KEY).head(n))]
    else:  # the rows up to the key below which the wanted share of all rows lies
        once, key = [replace(part, counted=False) for part in keyed], EngineFunction(lambda part: nw.col(KEY))
        shares = SharesInEngine.of_pool(rows.of(once), (key,))
        highest = float(shares.reaching(np.ones(1), np.array([(n - 0.5) / most]))[0][0])
        keyed = [part.map(where(nw.col(KEY) <= literal(highest))) for part in keyed]
    drawn = {}
    for part in keyed:
        with answering(part.name):
            drawn[part.code] = part.frame.select(*part.schema).to_native()
    return drawn


def with_key(rows: Queries, weight: Question[Floats], place: int, seed: int | None, identity: str | None) -> Change:
    """Return the step that adds E / pi, by which rows are ordered, to a part."""
    part = rows.parts[place]
    weighed = rows.adding(part, [WEIGHT], weight)
    halves = hashed(part, place, seed, identity, "Drawing rows")

    def change(frame: LazyFrame) -> LazyFrame:
        pi = part.times_count(nw.col(WEIGHT))
        return halves(weighed(frame)).with_columns(**{KEY: (uniform().log() * -1.0) / pi})

    return change


class Moments(NamedTuple):
    """The sums of a refit: those of the likelihood, and of functions, times weights, with 1 and with x."""

    likelihood: JointSums
    total: Floats
    against: Floats


@dataclass(frozen=True, eq=False)
class GroupSums:
    """The sums of a refit over the rows of each group; ``unit`` is the number of what is drawn as a whole.

    All groups of a cluster that spans samples are one unit. ``variances`` are those of the multiplicities of batches.
    """

    answers: GroupAnswers[Moments]
    unit: Integers
    variances: Floats | None = None


def sums_in_groups(
    measure: Measure,
    functions: Functions,
    column: str | None,
    seed: int,
    identity: str | None,
    names: Sequence[Name],
    lengths: Sequence[int] | None = None,
    random: int = 1000,
) -> GroupSums:
    """Query the sums of groups, by a column or else at random, so many of each sample: a query for each part.

    If the column is that of the fit's clusters, groups may span samples; with lengths they are that many successive
    rows of each series.
    """
    rows, point = measure.rows, measure.point
    assert isinstance(rows, Queries)
    assert isinstance(point, Point)
    if lengths is not None:
        groups = [_grouped_by(nw.col(UNIT), rows.dependence.units(part, lengths)) for part in rows.parts]
    elif column:
        _require_few_groups(rows.parts, column)
        groups = [_grouped_by(nw.col(column))] * len(rows.parts)
    else:
        hashes = [hashed(part, place, seed, identity, "A bootstrap") for place, part in enumerate(rows.parts)]
        groups = [_grouped_by(nw.col(LEFT) % random, halves) for halves in hashes]
    sums = likelihood(point, objective=False)

    def question(block: Block) -> Moments:
        at = point.at(block)
        f = block.let(functions.of(block, at) * at.weight)
        return Moments(sums(block), block.sum(f), at.against(f))

    answers = rows.by_group(question, groups, [GROUP])
    spans = column is not None and rows.dependence.clusters == column
    if column:
        _require_within_samples(answers, names, spans=spans)
    unit, _ = numbered(label if spans else (source, label) for source, label in answers.labels)
    return GroupSums(answers, unit)


def _grouped_by(group: nw.Expr, *steps: Change) -> Change:
    """Return the change that adds the group of each row, after others."""
    return lambda frame: changed(frame, [*steps, with_columns({GROUP: group})])


def _require_few_groups(parts: Sequence[Part], column: str, most: int = 1_000_000) -> None:
    """Refuse a column that not all parts have, or with more groups than sums are held in memory."""
    known = list(dict.fromkeys(name for part in parts for name in part.schema))
    if not all(column in part.schema for part in parts):
        raise no_groups(column, known)
    found = sum(int(part.aggregates({"n": Aggregate(column, "n_unique")})["n"]) for part in parts)
    if found > most:
        raise TooLargeError(
            f"{column!r} has {found:,} groups, and a sum for each would have to be held in memory. Leave groups= out "
            "if rows do not depend on one another; otherwise use a column of larger groups.",
            bytes=8 * found,
        )


def _require_within_samples(groups: GroupAnswers[Moments], names: Sequence[Name], *, spans: bool) -> None:
    absent = np.array([label is None or label != label for _, label in groups.labels])
    if absent.any():
        raise missing_groups(int(groups.counts[absent].sum()))
    first: dict[object, int] = {}
    for source, label in () if spans else groups.labels:
        if first.setdefault(label, source) != source:
            raise spanning_group(label, names[first[label]], names[source])
