"""A hash of a seed and of the identity of a row, or of a cluster: the same in every engine, and in memory."""

from __future__ import annotations

import narwhals as nw

from vardi._inputs.engine.part import PREFIX, Change, Part
from vardi._inputs.engines import LazyFrame
from vardi._inputs.partitions import with_rank
from vardi._rows.multipliers import PRIME, constants, feistel
from vardi.errors import MismatchError
from vardi.errors._refusals import needs_rows

ROW, LEFT, RIGHT = (f"{PREFIX}{what}" for what in ("row", "left", "right"))


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
        raise MismatchError(
            f"There is no column {identity!r} that identifies rows. Name one of {', '.join(map(repr, own))}."
        )
    if identity.startswith(PREFIX) or own[identity].is_integer():
        return lambda frame: frame.with_columns(**{ROW: nw.col(identity)})
    if clusters:
        return lambda frame: with_rank(frame, ROW, identity)
    return lambda frame: frame.with_row_index(ROW, order_by=identity)  # text and dates in their order


def _halves() -> dict[str, nw.Expr]:
    """Return a whole number as two below the prime; negative numbers have distinct halves."""
    size = nw.when(nw.col(ROW) < 0).then(nw.col(ROW) * -1).otherwise(nw.col(ROW))
    low = size % PRIME
    high = ((size - low).cast(nw.Float64) / float(PRIME) + 0.5).floor().cast(nw.Int64) * 2
    sign = nw.when(nw.col(ROW) < 0).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
    return {LEFT: low, RIGHT: (high + sign) % PRIME}
