"""A small part of the rows, drawn by their values: it is the same in every engine, and tells how many are distinct."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import narwhals as nw
import numpy as np

from vardi._rows.dense import Dense
from vardi._rows.lazy import OMEGA, Part, cells, head
from vardi._sums import Floats

ROWS = 200_000  # rows of all samples together
NUMBERS = 4_000_000  # and numbers in them
FIRST = 2_000  # rows of a sample of which none was drawn
SPREAD = 2.0**30  # how finely the logs of values are cut


@dataclass(frozen=True)
class Thinned:
    """Rows of every sample, and how many distinct ones there are in all.

    Attributes
    ----------
    rows : Dense
        The rows drawn, equal ones collapsed.
    distinct : float
        An estimate of the number of distinct rows of the whole.
    """

    rows: Dense
    distinct: float


def thinned(parts: Sequence[Part], lengths: Floats, highs: Floats) -> Thinned:
    """Draw rows of every sample, by one query for each part.

    A row is drawn if the digits of its biases, far behind the point, are below the share of its sample that is wanted.
    So the order of the rows does not matter, and neither does the engine; equal rows are drawn together or not at all,
    so that distinct rows are drawn at the same rate, from which their number follows.
    """
    K = len(lengths)
    sampled = lengths > 0
    wanted = min(ROWS, NUMBERS // K) / sampled.sum()
    with np.errstate(divide="ignore"):
        shares = np.where(sampled, np.minimum(wanted / lengths, 1.0), 0.0)
    digits = _digits(highs)

    def drawn(part: Part) -> nw.Expr | None:
        if all(shares[code] >= 1 for code in part.codes.values()):
            return None
        if part.label is None:
            return digits < float(shares[part.codes[None]])
        of_label = nw.col(part.label)
        return reduce(
            operator.or_,
            ((of_label == label) & (digits < float(shares[code])) for label, code in part.codes.items()),
        )

    found = cells(parts, K, 2 * ROWS, only=drawn)
    matrices, sources, counts = [np.empty((0, K))], [np.empty(0, np.int64)], [np.empty(0)]
    if found is not None and found.counts is not None:
        matrices, sources, counts = [found.matrix], [found.source], [found.counts]
    drawn_of = np.bincount(sources[0], minlength=K)
    distinct = np.inf if found is None else float((drawn_of[sampled] / shares[sampled]).sum())
    for part in parts:
        for label, code in part.codes.items():
            if sampled[code] and not drawn_of[code]:
                first = head(part, label, K, FIRST)
                matrices.append(first)
                sources.append(np.full(len(first), code))
                counts.append(np.ones(len(first)))
    return Thinned(Dense(np.concatenate(matrices), np.concatenate(sources), np.concatenate(counts)), distinct)


def _digits(highs: Floats) -> nw.Expr:
    """Return a number from 0 to 1 for each row that depends on its biases, and looks random where they vary."""
    total: Any = None
    for k in np.flatnonzero(highs > 0):
        term = nw.col(OMEGA.format(k)) * float((1.0 + np.sqrt(k + 2.0)) / highs[k])  # no sum of biases is constant
        total = term if total is None else total + term
    spread = total.log() * SPREAD
    return spread - spread.floor()  # below 1, so that a share of 1 draws all
