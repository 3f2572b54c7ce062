"""Rows that stay in place: frames of an engine, which a solver asks only for sums, by one query for each part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vardi._inputs.lazy_part import OMEGA, Part
from vardi._rows.base import additions
from vardi._rows.contract import Block, Coordinates, JointSums, Sums
from vardi._rows.dense import Dense
from vardi._rows.gram import DenseGram
from vardi._rows.joint import Joint, JointRows, likelihood
from vardi._rows.point import KnownMoments, Model, Point
from vardi._rows.queries import Queries
from vardi._rows.union import united
from vardi._rows.weights import masses_of_pairs
from vardi._types import Floats

GRAMS = 100  # products of p up to which an engine sums them with every pass


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

    def at(self, u: Floats, n: float, same: float = 1e-15) -> Pass | None:
        """Return the sums of n rows at another point, if it differs by a shift only: p is the same there.

        Points count as equal up to a relative difference, that of rounding.
        """
        finite = np.isfinite(u)
        if not np.array_equal(finite, np.isfinite(self.u)):
            return None
        moved = u[finite] - self.u[finite]
        if np.ptp(moved) > same * max(np.abs(u[finite]).max(), np.abs(self.u[finite]).max()):
            return None
        shift, log_mass = float(moved.mean()), self.sums.log_mass
        sums = replace(self.sums, log_mass=None if log_mass is None else log_mass + n * shift)
        return Pass(u, sums, None if self.inverse is None else self.inverse * float(np.exp(-shift)))


class LazyRows:
    """Several parts as one pool, with the interface that Newton's method and the verdict need.

    Parameters
    ----------
    frames : Queries
        The frames.
    reach : ndarray of shape (K, K)
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    few : Dense
        A small part of the rows, in memory.
    start : callable
        Returns a first u.
    """

    log = False
    reading_dominates = True
    positive = False  # as far as is known without a query
    counts = None
    inverse = None

    def __init__(self, frames: Queries, reach: Floats, few: Dense, start: Callable[[], Floats]) -> None:
        self.frames = Queries(united(frames.parts), frames.sizes, frames.dependence)
        self.sizes, self.K = frames.sizes, len(frames.sizes)
        self._reach, self._few, self._start = reach, few, start
        self._last: Pass | None = None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def additions(self) -> int:
        """How many numbers an engine adds one after the other: assumed to be as many as for rows in memory."""
        return additions(len(self), self.K)

    def exponents(self, u: Floats) -> float:
        """Return 0: biases are multiplied by e^u as they are."""
        return 0.0

    def sums(self, u: Floats, *, gram: bool = True, objective: bool = True, rough: bool = False) -> Sums:
        """Return log_mass, shares and gram at u: a pass over the rows, unless the last one was there."""
        last = self._last_at(u)
        if last is None or (gram and last.sums.gram is None) or (objective and last.sums.log_mass is None):
            scale = self._last is not None  # the first point is hardly ever the last
            last = self._last = self._pass(u, gram=gram, objective=objective, scale=scale)
        return last.sums

    def _last_at(self, u: Floats) -> Pass | None:
        return None if self._last is None else self._last.at(u, float(self.sizes.sum()))

    def _pass(self, u: Floats, *, gram: bool, objective: bool, scale: bool) -> Pass:
        """Query each part for K - 1 sums, and K (K - 1) / 2 more if these are few or asked for; one more with a scale.

        The p of a row sum to 1, so the largest sample's part in a sum follows from the others, and each square follows
        from the products of different samples. These products are the links between samples: each is summed on its own,
        since a weak link taken as a difference would be lost in rounding.
        """
        sampled = np.flatnonzero(np.isfinite(u))
        largest = sampled[np.argmax(self.sizes[sampled])]
        asked = sampled[sampled != largest]
        gram = gram or self.frames.by_batches or len(asked) * (len(asked) + 1) // 2 <= GRAMS
        top = float(u[sampled].max())  # p does not depend on a shift of u, and one factor less is multiplied
        once, nothing = np.ones((self.K, 1)), np.zeros(1)

        def question(block: Block) -> tuple[Floats, Floats, Floats, Floats]:
            at = block.normalised(u - top, {})
            shares = block.sum(np.hstack([at.p.column(k) for k in asked.tolist()])) if len(asked) else np.empty(0)
            links = block.products(at.p, block.of_sample(once)) if gram else nothing
            scales = block.sum(at.weight) if scale else nothing
            return shares, links, scales, block.sum(at.log_mass()) if objective else nothing

        found, links, scales, logs = self.frames.total(question)
        shares = np.zeros(self.K)
        shares[asked] = found
        shares[largest] = self.sizes.sum() - found.sum()
        if gram:
            np.fill_diagonal(links, 0.0)
            np.fill_diagonal(links, shares - links.sum(axis=1))
        log_mass = float(logs[0] + self.sizes.sum() * top) if objective else None
        inverse = float(scales[0] * np.exp(-top)) if scale else None
        return Pass(u, Sums(log_mass, shares, DenseGram(links) if gram else None), inverse)

    def log_means(self, u: Floats) -> Floats:
        """Return log sum_i c_i omega_ik / S_i(u) for every k."""

        def question(block: Block) -> Floats:
            weight = block.normalised(u, {}).weight
            return block.sum(np.hstack([block.omega(k) * weight for k in range(self.K)]))

        with np.errstate(divide="ignore"):
            return np.log(self.frames.total(question))

    def weights(self, u: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        last = self._last_at(u)
        if last is None or last.inverse is None:
            last = self._last = self._pass(u, gram=True, objective=False, scale=True)
        assert last.inverse is not None
        return np.empty(0), float(np.log(last.inverse / self.sizes.sum()))

    def reach(self) -> Floats:
        """Return the K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        return self._reach

    def overlap(self, mass: Floats | None = None, u: Floats | None = None) -> Floats:
        """Return the masses of the rows that both biases could have drawn: shares of the pool, or weighted at u."""
        once = np.ones((self.K, 1))

        def weight(block: Block) -> Floats:
            return block.of_sample(once) if u is None else block.normalised(u, {}).weight

        return masses_of_pairs(self.frames, weight) / self.sizes.sum()

    def masses(self) -> Floats:
        """Return nothing: ``overlap`` uses shares of the pool by itself."""
        return np.empty(0)

    def start(self) -> Floats:
        """Return a first u, from a small part of the rows."""
        return self._start()

    def settled(self, u: Floats) -> LazyRows:
        """Return the rows themselves."""
        return self

    def subsample(self, fraction: float, *, least: int) -> Any:
        """Return a small part of the rows, in memory."""
        return self._few


@dataclass(frozen=True)
class Last:
    """The sums at the last point, and from them those at points that differ only in the gauge.

    Along (1, 0, mu) every S is multiplied by the same number, so no new query is needed.
    """

    v: Floats
    sums: JointSums
    n: float

    def at(self, v: Floats, coordinates: Coordinates, *, objective: bool, same: float = 1e-12) -> JointSums | None:
        """Return the sums at v, if only the gauge differs; None at another point, or if the objective is unknown."""
        if objective and not np.isfinite(self.sums.log_mass):
            return None
        with np.errstate(invalid="ignore"):
            moved = (v - self.v)[coordinates.u]
        finite = np.isfinite(v[coordinates.u])
        if not np.array_equal(finite, np.isfinite(self.v[coordinates.u])) or np.ptp(moved[finite]) > same:
            return None
        shift = float(moved[finite].mean())
        there = self.v.copy()
        there[coordinates.mu] *= np.exp(shift)
        rest = slice(coordinates.samples, None)
        if not np.allclose(v[rest], there[rest], rtol=same, atol=0.0):
            return None
        return self._shifted(shift, coordinates)

    def _shifted(self, shift: float, coordinates: Coordinates) -> JointSums:
        if not shift:
            return self.sums
        factor = np.ones(len(coordinates))
        factor[coordinates.mu] = np.exp(-shift)
        square, sums = factor[:, None] * factor, self.sums
        return replace(
            sums,
            inverse=sums.inverse * float(np.exp(-shift)),
            log_mass=sums.log_mass + self.n * shift,
            x=sums.x * factor,
            products_beside=sums.products_beside * square[coordinates.samples :],
            beside=sums.beside * square[coordinates.samples :],
        )


class EngineRows(JointRows):
    """Rows in an engine with parameters and known moments.

    Parameters
    ----------
    frames : Queries
        The frames.
    model : Model
        The families, with the names of columns, and what is known.
    few : Joint
        A small part of the rows in memory, with counts that make it stand for all: for a start.
    reach : ndarray of shape (K, K), optional
        Counts of rows of sample l (columns) that bias k (rows) could have drawn.
    """

    reading_dominates = True

    def __init__(self, frames: Queries, model: Model, few: Joint, reach: Floats | None = None) -> None:
        self.frames, self.model, self._few, self._reach = frames, model, few, reach
        self.sizes = model.sizes
        self._last: Last | None = None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def holder(self) -> Queries:
        """The frames."""
        return self.frames

    @property
    def few(self) -> Joint:
        """A small part of the rows, in memory."""
        return self._few

    def with_model(self, change: Callable[[Model], Model]) -> EngineRows:
        """Return the same rows with another model."""
        return EngineRows(self.frames, change(self.model), self.few.with_model(change), self._reach)

    def rows_at(self, theta: Floats) -> LazyRows:
        """Return the rows with all biases at theta, on the user's scale."""
        assert self._reach is not None
        frames = Queries(self._parts_at(theta), self.sizes, self.frames.dependence)
        few = self.few.rows_at(theta)
        assert isinstance(few, Dense)
        return LazyRows(frames, self._reach, few, few.start)

    def _parts_at(self, theta: Floats) -> tuple[Part, ...]:
        """Return frames whose biases have their parameters fixed, on the user's scale: known biases like any others."""
        if not self.families:
            return tuple(self.frames.parts)
        alone = replace(self.model, known=KnownMoments.none())
        point = Point(alone, np.concatenate([np.zeros(len(self.sizes)), theta]))
        names = [OMEGA.format(k) for k in self.families]

        def biases(block: Block) -> Floats:
            return np.hstack([point.at(block).users_bias(k) for k in self.families])

        changed = [part.map(self.frames.adding(part, names, biases)) for part in self.frames.parts]
        return tuple(replace(part, formulas={}) for part in changed)

    def weights(self, v: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        return np.empty(0), float(np.log(self.joint_sums(v, objective=False).inverse / self.sizes.sum()))

    def joint_sums(self, v: Floats, *, objective: bool = True) -> JointSums:
        """Return all sums at v: a query for each part, unless the last point differs only in the gauge.

        ``log_mass`` is NaN unless the objective is asked for. It leaves out the known factors of own biases, which no
        coordinate moves, as in memory.
        """
        known = None if self._last is None else self._last.at(v, self.coordinates, objective=objective)
        if known is not None:
            return known
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self.frames.total(likelihood(Point(self.model, v), objective=objective)).checked
        if sums.positive:
            self._last = Last(v.copy(), sums, float(self.sizes.sum()))
        return sums
