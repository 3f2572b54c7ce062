"""Rows drawn by weight and without replacement in their engine: those with the smallest E / pi.

E is exponential, from a hash of a seed and of the row's identity: every engine draws the same rows. Of exponential
clocks with rates pi, that of row i rings first with probability pi_i, and so on among the remaining ones.
"""

from __future__ import annotations

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import LENGTH
from vardi._inputs.engine.asking import LazyFrame, answering
from vardi._inputs.engine.part import PREFIX, Change, Part
from vardi._rows.engine.distribution import first_reaching
from vardi._rows.engine.hashing import hashed, uniform
from vardi._rows.engine.moments import EngineMoments
from vardi.biases._expressions.targets import literal
from vardi.errors import MismatchError

KEY = f"{PREFIX}key"


def drawn_rows(at: EngineMoments, n: int, seed: int | None, identity: str | None = None) -> dict[int | None, object]:
    """Return n rows drawn by weight and without replacement, as lazy frames with the user's columns.

    Parameters
    ----------
    at : EngineMoments
        The rows at the solution.
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
    rows = sum(int(part.aggregates({"n": LENGTH})["n"]) for part in at.parts)
    if not 1 <= n <= rows:
        raise MismatchError(
            f"{n} rows cannot be drawn without replacement from {rows}. Draw fewer, or with replacement."
        )
    keyed = [part.map(with_key(at, part, place, seed, identity)) for place, part in enumerate(at.parts)]
    if len(keyed) == 1:
        return {_code(keyed[0]): _ordered(keyed[0], lambda frame: frame.sort(KEY).head(n))}
    last = first_reaching(keyed, lambda part: nw.col(KEY), lambda part: nw.lit(1.0), np.array([float(n)]))
    below = nw.col(KEY) <= literal(float(last[0]))
    return {_code(part): _ordered(part, lambda frame: frame.filter(below).sort(KEY)) for part in keyed}


def with_key(at: EngineMoments, part: Part, place: int, seed: int | None, identity: str | None) -> Change:
    """Return the step that adds E / pi, by which rows are ordered, to a part."""
    halves = hashed(part, place, seed, identity, "Drawing rows")

    def change(frame: LazyFrame) -> LazyFrame:
        pi = part.times_count(at.point.weight)
        return halves(at.point(frame)).with_columns(**{KEY: (uniform().log() * -1.0) / pi})

    return change


def _ordered(part: Part, drawn: Change) -> object:
    with answering(part.name):
        return drawn(part.frame).select(*part.schema).to_native()


def _code(part: Part) -> int | None:
    return None if part.label is not None else part.codes[None]
