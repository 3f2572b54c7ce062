"""Rows drawn by weight and without replacement where they are: those with the smallest E / pi.

E is exponential, from a hash of a seed and of what identifies the row, in whole numbers below 2^53: every engine draws
the same rows. Of exponential clocks with rates pi the first to ring is that of row i with probability pi_i, and so on
among those that are left.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.asking import answering
from vardi._inputs.engine.part import PREFIX, Change, Part
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.engine.search import first_reaching
from vardi.biases._expressions.targets import literal
from vardi.errors import MismatchError
from vardi.errors._refusals import needs_rows

PRIME = 67_108_859  # the largest below 2^26, so that squares are whole numbers below 2^53
ROUNDS = 8
KEY, ROW, LEFT, RIGHT = (f"{PREFIX}{what}" for what in ("key", "row", "left", "right"))


def drawn_rows(at: EngineMoments, n: int, seed: int | None, identity: str | None = None) -> dict[int | None, Any]:
    """Return n rows drawn by weight and without replacement, as lazy frames with the user's columns.

    Parameters
    ----------
    at : EngineMoments
        The rows at the solution.
    n : int
        How many.
    seed : int or None
        Of the hash.
    identity : str or None
        Column that identifies the rows of a frame; without it the engine's own row number, where it has one.

    Returns
    -------
    dict
        A frame by the position of its sample; by None where one frame holds all samples.
    """
    rows = sum(int(part.aggregates({"n": nw.len()})["n"]) for part in at.parts)
    if not 1 <= n <= rows:
        raise MismatchError(
            f"{n} rows cannot be drawn without replacement from {rows}. Draw fewer, or with replacement.",
            expected=(rows,),
            got=(n,),
        )
    keys = [with_key(at, part, place, seed, identity) for place, part in enumerate(at.parts)]
    if len(at.parts) == 1:
        return {_code(at.parts[0]): _ordered(at.parts[0], keys[0], n)}
    last = _threshold(at, keys, n)
    return {_code(part): _below(part, key, last) for part, key in zip(at.parts, keys, strict=True)}


def with_key(at: EngineMoments, part: Part, place: int, seed: int | None, identity: str | None) -> Change:
    """Return what puts E / pi on the rows of a part, by which they are ordered."""
    constants = np.random.SeedSequence(seed, spawn_key=(place,)).generate_state(ROUNDS) % PRIME
    number = _numbered(part, identity)

    def change(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        mixed = number(at.point(frame)).with_columns(**_halves())
        for constant in constants.tolist():
            mixed = mixed.with_columns(**_mixed(constant))
        uniform = (nw.col(LEFT).cast(nw.Float64) + (nw.col(RIGHT).cast(nw.Float64) + 0.5) / PRIME) / PRIME
        pi = part.times_count(at.point.weight)
        return mixed.with_columns(**{KEY: (uniform.log() * -1.0) / pi})

    return change


def _numbered(part: Part, identity: str | None) -> Change:
    """Return what puts a whole number on each row of a part."""
    if identity is None:
        if not part.frame.implementation.is_polars():
            raise needs_rows("Drawing rows without a column that identifies them (id=)")
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


def _threshold(at: EngineMoments, keys: list[Change], n: int) -> float:
    """Return the n-th smallest key of all parts."""
    keyed = [part.map(key) for part, key in zip(at.parts, keys, strict=True)]
    found = first_reaching(keyed, lambda part: nw.col(KEY), lambda part: nw.lit(1.0), np.array([float(n)]))
    return float(found[0])


def _ordered(part: Part, key: Change, n: int) -> Any:
    with answering(part.name):
        return _users(part, key(part.frame).sort(KEY).head(n))


def _below(part: Part, key: Change, last: float) -> Any:
    with answering(part.name):
        return _users(part, key(part.frame).filter(nw.col(KEY) <= literal(last)).sort(KEY))


def _users(part: Part, frame: nw.LazyFrame[Any]) -> Any:
    return frame.select(*part.schema).to_native()


def _code(part: Part) -> int | None:
    return None if part.label is not None else part.codes[None]
