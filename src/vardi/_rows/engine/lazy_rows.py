"""Rows that stay in place: frames of an engine, which is asked only for sums."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import OMEGA, PREFIX, Change, Part
from vardi._rows.base import additions
from vardi._rows.contract import Sums
from vardi._rows.dense import Dense
from vardi._rows.engine.united import united
from vardi._types import Floats, Integers

S, R, P = f"{PREFIX}S", f"{PREFIX}r", f"{PREFIX}p_{{}}"
GRAMS = 100  # products of p up to which their sums come with every pass


@dataclass(frozen=True)
class Pass:
    """The sums of a pass at u; -inf for states that were not sampled.

    Attributes
    ----------
    u : ndarray of shape (K,)
        The point.
    sums : Sums
        Its sums, as far as they were asked for.
    inverse : float or None
        sum_i c_i / S_i, the sum of the weights at u, if it was asked for.
    """

    u: Floats
    sums: Sums
    inverse: float | None


class LazyRows:
    """Several parts as one pool, with the interface that Newton's method and the verdict need.

    Parameters
    ----------
    parts : sequence of Part
        The frames.
    K : int
        How many biases there are.
    sizes : ndarray of shape (K,)
        How many rows the rows of each sample stand for.
    reach : ndarray of shape (K, K)
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    few : Dense
        A small part of the rows, in memory.
    start : callable
        Returns a first u.
    constants : mapping from int to float, optional
        Biases that are constant on all rows. The share of such a sample gives the sum of the weights.
    """

    log = False
    reading_dominates = True
    positive = False  # as far as is known without a query
    counts = None
    inverse = None
    exponents = 0.0  # biases are multiplied by e^u as they are

    def __init__(
        self,
        parts: Sequence[Part],
        K: int,
        sizes: Floats,
        reach: Floats,
        few: Dense,
        start: Callable[[], Floats],
        constants: Mapping[int, float] | None = None,
    ) -> None:
        self.parts, self.K, self.sizes = united(parts), K, sizes
        self._reach, self._few, self._start = reach, few, start
        even = [(k, value) for k, value in (constants or {}).items() if value > 0 and sizes[k] > 0]
        self._even = max(even, key=lambda one: sizes[one[0]], default=None)
        self._last: Pass | None = None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def additions(self) -> int:
        """How many numbers an engine adds one after the other: assumed to be as many as for rows in memory."""
        return additions(len(self), self.K)

    def sums(self, u: Floats, *, gram: bool = True, objective: bool = True) -> Sums:
        """Return log_mass, shares and gram at u: a pass over the rows, unless the last one was there."""
        last = self._last if self._last is not None and np.array_equal(self._last.u, u) else None
        if last is None or (gram and last.sums.gram is None) or (objective and last.sums.log_mass is None):
            scale = self._last is not None and self._even is None  # the first point is hardly ever the last
            last = self._last = self._pass(u, gram=gram, objective=objective, scale=scale)
        return last.sums

    def _pass(self, u: Floats, *, gram: bool, objective: bool, scale: bool) -> Pass:
        """Query each part for K - 1 sums, and K (K - 1) / 2 more if these are few or asked for; one more with a scale.

        The p of a row sum to 1, so the largest sample's part in a sum follows from the others, and each square follows
        from the products of different samples. These products are the links between samples: each is summed on its own,
        since a weak link taken as a difference would be lost in rounding.
        """
        sampled = np.flatnonzero(np.isfinite(u))
        largest = sampled[np.argmax(self.sizes[sampled])]
        asked = sampled[sampled != largest]
        K = len(asked)
        gram = gram or K * (K + 1) // 2 <= GRAMS
        first, second = (sampled[one] for one in np.triu_indices(len(sampled) if gram else 0, 1))
        total = np.zeros(K + len(first) + scale + objective)
        top = float(u[sampled].max())  # p does not depend on a shift of u, and one factor less is multiplied
        for part in self.parts:
            p = {k: nw.col(P.format(k)) for k in sampled.tolist()}
            counted = {k: part.times_count(one) for k, one in p.items()}
            shares_asked = [counted[k] for k in asked.tolist()]
            terms = [*shares_asked, *(counted[a] * p[b] for a, b in zip(first.tolist(), second.tolist(), strict=True))]
            terms += [part.times_count(nw.col(R))] if scale else []
            terms += [part.times_count(nw.col(S).log())] if objective else []
            total += part.sums(terms, probabilities(u - top))
        shares, products, scales, logs = np.split(total, np.cumsum([K, len(first), scale]))
        log_mass = float(logs[0] + self.sizes.sum() * top) if objective else None
        inverse = float(scales[0] * np.exp(-top)) if scale else None
        shares = self._with_largest(shares, asked, largest)
        if not gram:
            return Pass(u, Sums(log_mass, shares, None), inverse)
        squares = np.zeros((self.K, self.K))
        squares[first, second] = squares[second, first] = products
        squares[np.diag_indices(self.K)] = shares - squares.sum(axis=1)
        return Pass(u, Sums(log_mass, shares, squares), inverse)

    def _with_largest(self, found: Floats, asked: Integers, largest: Any) -> Floats:
        """Return shares of all states, given that those of the samples add up to the number of rows."""
        sums = np.zeros(self.K)
        sums[asked] = found
        sums[largest] = self.sizes.sum() - found.sum()
        return sums

    def log_means(self, u: Floats) -> Floats:
        """Return log sum_i c_i omega_ik / S_i(u) for every k."""
        total = np.zeros(self.K)
        for part in self.parts:
            r = part.times_count(nw.col(R))
            total += part.sums([nw.col(OMEGA.format(k)) * r for k in range(self.K)], probabilities(u))
        with np.errstate(divide="ignore"):
            return np.log(total)

    def weights(self, u: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        if self._even is not None:  # p_k = e^{u_k} omega_k / S of a constant bias
            k, value = self._even
            inverse = self.sums(u, gram=False, objective=False).shares[k] / (value * np.exp(u[k]))
        else:
            if self._last is None or self._last.inverse is None or not np.array_equal(self._last.u, u):
                self._last = self._pass(u, gram=True, objective=False, scale=True)
            inverse = self._last.inverse
            assert inverse is not None
        return np.empty(0), float(np.log(inverse / self.sizes.sum()))

    def reach(self) -> Floats:
        """Return the K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        return self._reach

    def overlap(self, mass: Floats | None = None, u: Floats | None = None) -> Floats:
        """Return the masses of the rows that both biases could have drawn: shares of the pool, or weighted at u."""
        upper = np.triu_indices(self.K)
        total = np.zeros(len(upper[0]))
        for part in self.parts:
            one = part.count if u is None else part.times_count(nw.col(R))
            positive = [(nw.col(OMEGA.format(k)) > 0).cast(nw.Float64) for k in range(self.K)]
            terms = [positive[a] * positive[b] * one for a, b in zip(*upper, strict=True)]
            total += part.sums(terms, None if u is None else probabilities(u))
        overlap = np.zeros((self.K, self.K))
        overlap[upper] = total / self.sizes.sum()
        return np.maximum(overlap, overlap.T)

    def masses(self) -> Floats:
        """Return nothing: ``overlap`` uses shares of the pool by itself."""
        return np.empty(0)

    def start(self) -> Floats:
        """Return a first u, from a small part of the rows."""
        return self._start()

    def subsample(self, fraction: float, *, least: int) -> Any:
        """Return a small part of the rows, in memory."""
        return self._few


def probabilities(u: Floats) -> Change:
    """Return the step that adds S = sum_l e^{u_l} omega_l, 1 / S and p_k = e^{u_k} omega_k / S to a frame.

    They are computed once for the sampled biases, as columns, and read by many sums. A factor of 1 is not multiplied.
    """
    factors = {P.format(k): (OMEGA.format(k), float(np.exp(u[k]))) for k in np.flatnonzero(np.isfinite(u))}
    terms = {p: nw.col(omega) if factor == 1 else nw.col(omega) * factor for p, (omega, factor) in factors.items()}
    mass = reduce(operator.add, map(nw.col, terms))
    p = {name: nw.col(name) * nw.col(R) for name in terms}

    def change(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return (
            frame.with_columns(**terms).with_columns(**{S: mass}).with_columns(**{R: 1.0 / nw.col(S)}).with_columns(**p)
        )

    return change
