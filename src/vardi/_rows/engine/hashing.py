"""A hash of a seed and of what identifies a row, in whole numbers below 2^53: the same in every engine."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import PREFIX, Change, Part
from vardi.errors import MismatchError
from vardi.errors._refusals import needs_rows

PRIME = 67_108_859  # the largest below 2^26, so that squares are whole numbers below 2^53
ROUNDS = 8
ROW, LEFT, RIGHT = (f"{PREFIX}{what}" for what in ("row", "left", "right"))


def hashed(part: Part, place: int, seed: int | None, identity: str | None, what: str) -> Change:
    """Return what puts the two halves of a hash on the rows of a part, ``LEFT`` and ``RIGHT``, each below the prime.

    Rows are identified by a column, or else by the engine's own row number; where it has none, ``what`` is refused.
    """
    constants = np.random.SeedSequence(seed, spawn_key=(place,)).generate_state(ROUNDS) % PRIME
    number = _numbered(part, identity, what)

    def change(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        mixed = number(frame).with_columns(**_halves())
        for constant in constants.tolist():
            mixed = mixed.with_columns(**_mixed(constant))
        return mixed

    return change


def uniform() -> nw.Expr:
    """Return the hash as a number between 0 and 1."""
    return (nw.col(LEFT).cast(nw.Float64) + (nw.col(RIGHT).cast(nw.Float64) + 0.5) / PRIME) / PRIME


def _numbered(part: Part, identity: str | None, what: str) -> Change:
    """Return what puts a whole number on each row of a part."""
    if identity is None:
        if not part.frame.implementation.is_polars():
            raise needs_rows(f"{what} without a column that identifies rows (id=)")
        return _in_their_order
    schema = part.schema
    if identity not in schema:
        raise MismatchError(
            f"There is no column {identity!r} that identifies rows. Name one of {', '.join(map(repr, schema))}.",
            expected=tuple(schema),
            got=(identity,),
        )
    if schema[identity].is_integer():
        return lambda frame: frame.with_columns(**{ROW: nw.col(identity).cast(nw.Int64)})
    # Texts and dates are numbered in their order.
    return lambda frame: frame.with_row_index(ROW, order_by=identity).with_columns(**{ROW: nw.col(ROW).cast(nw.Int64)})


def _in_their_order(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return a frame of Polars, whose rows have an order, with their numbers."""
    numbered: nw.LazyFrame[Any] = nw.from_native(frame.to_native().with_row_index(ROW))
    return numbered.with_columns(**{ROW: nw.col(ROW).cast(nw.Int64)})


def _halves() -> dict[str, nw.Expr]:
    """Return a whole number as two below the prime; negative ones have halves of their own."""
    size = nw.when(nw.col(ROW) < 0).then(nw.col(ROW) * -1).otherwise(nw.col(ROW))
    low = size % PRIME
    high = ((size - low).cast(nw.Float64) / float(PRIME) + 0.5).floor().cast(nw.Int64) * 2
    sign = nw.when(nw.col(ROW) < 0).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
    return {LEFT: low, RIGHT: (high + sign) % PRIME}


def _mixed(constant: int) -> dict[str, nw.Expr]:
    """Return a round of a Feistel network: (l, r) -> (r, l + (r + constant)^2), all modulo the prime."""
    moved = (nw.col(RIGHT) + constant) % PRIME
    return {LEFT: nw.col(RIGHT), RIGHT: (nw.col(LEFT) + moved * moved) % PRIME}
