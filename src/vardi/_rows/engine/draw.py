"""Rows drawn by weight and without replacement in their engine: those with the smallest E / pi.

E is exponential, from a hash of a seed and of the row's identity: every engine draws the same rows. Of exponential
clocks with rates pi, that of row i rings first with probability pi_i, and so on among the remaining ones.
"""

from __future__ import annotations

from dataclasses import replace

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import PREFIX, Change, Part
from vardi._inputs.engines import LENGTH, LazyFrame, answering
from vardi._rows.contract import Question
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.hashing import hashed, uniform
from vardi._rows.engine.shares import SharesInEngine
from vardi._rows.queries import Queries
from vardi._types import Floats
from vardi.biases._expressions.targets import literal
from vardi.errors import MismatchError

KEY, WEIGHT = f"{PREFIX}clock", f"{PREFIX}weight"
KEYS = (EngineFunction(lambda part: nw.col(KEY)),)


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
        return {keyed[0].code: _ordered(keyed[0], lambda frame: frame.sort(KEY).head(n))}
    below = nw.col(KEY) <= literal(_threshold(rows, keyed, (n - 0.5) / most))
    return {part.code: _ordered(part, lambda frame: frame.filter(below).sort(KEY)) for part in keyed}


def with_key(rows: Queries, weight: Question[Floats], place: int, seed: int | None, identity: str | None) -> Change:
    """Return the step that adds E / pi, by which rows are ordered, to a part."""
    part = rows.parts[place]
    weighed = rows.adding(part, [WEIGHT], weight)
    halves = hashed(part, place, seed, identity, "Drawing rows")

    def change(frame: LazyFrame) -> LazyFrame:
        pi = part.times_count(nw.col(WEIGHT))
        return halves(weighed(frame)).with_columns(**{KEY: (uniform().log() * -1.0) / pi})

    return change


def _threshold(rows: Queries, keyed: list[Part], share: float) -> float:
    """Return the key up to which a share of all rows lies."""
    once = Queries([replace(part, counted=False) for part in keyed], rows.sizes, rows.dependence)
    return float(SharesInEngine.of_pool(once, KEYS).reaching(np.ones(1), np.array([share]))[0][0])


def _ordered(part: Part, drawn: Change) -> object:
    with answering(part.name):
        return drawn(part.frame).select(*part.schema).to_native()
