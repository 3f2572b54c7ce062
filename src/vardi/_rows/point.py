r"""Rows at a point v = (u, theta, mu, epsilon): S and x, once for rows in memory and for rows in an engine.

.. math::

    S_i = \sum_l e^{u_l}\omega_l(z_i;\theta) + \mu'(g(z_i) - R\varepsilon),\qquad x_i = \nabla S_i / S_i,\qquad
    q_i = x_i - \nabla\log\omega_{s_i}(z_i;\theta).

With :math:`S^0_i` the first sum, p are the shares of its terms in S, and each only has to be multiplied by
:math:`S^0_i / S_i`: parameters and known moments are a few columns beside the biases. For a bias with parameters
:math:`t_k = \nabla\log\omega_k` in theta. A known moment that is the mean of such a bias is on the user's scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vardi._rows.contract import Block, Coordinates, Kept, Normalised, Probabilities, members, within
from vardi._rows.families import BiasFamily, FamilyAt
from vardi._types import Floats, Integers


@dataclass(frozen=True, eq=False)
class KnownMoments:
    r"""Functions h of the rows whose means over the population are known: :math:`g = D'h - \tau`.

    Attributes
    ----------
    values : Kept
        h, for the rows as they are solved.
    directions : ndarray of shape (M, m)
        D: which combinations of the functions are used; a bias with parameters is never combined with others.
    means : ndarray of shape (m,)
        tau, their means.
    root : ndarray of shape (m, r)
        R with R R' the covariance of tau; r = 0 if tau is exact.
    moving : mapping from int to int
        Moments that are the mean of a bias with parameters, with the position of that bias.
    by_sample : ndarray of shape (K, M) or None
        h of all rows of a sample, if it is the same for them; there are no ``values`` then.
    """

    values: Kept
    directions: Floats
    means: Floats
    root: Floats
    moving: Mapping[int, int]
    by_sample: Floats | None = None

    @classmethod
    def none(cls) -> KnownMoments:
        """Return the value for nothing known."""
        return cls((), np.empty((0, 0)), np.empty(0), np.empty((0, 0)), {})

    @classmethod
    def of_groups(cls, groups: Integers, masses: Floats) -> KnownMoments:
        """Return the value if only the shares of the population that groups of samples represent are known."""
        others = len(masses) - 1
        return cls((), np.eye(others), masses[1:], np.empty((others, 0)), {}, np.eye(len(masses))[groups][:, 1:])

    def subset(self, rows: Integers) -> KnownMoments:
        """Return the same on some rows in memory."""
        return self if self.by_sample is not None or not len(self.means) else replace(self, values=self.values[rows])

    def on(self, block: Block) -> Floats:
        """Return D'h of the rows of a block."""
        h = block.solved(self.values) if self.by_sample is None else block.of_sample(self.by_sample)
        return h @ self.directions


@dataclass(frozen=True, eq=False)
class Model:
    """Which coordinates a point has, and what depends on them.

    Attributes
    ----------
    sizes : ndarray of shape (K,)
        How many rows the rows of each sample stand for.
    families : mapping from int to BiasFamily
        The family of each bias that has parameters.
    known : KnownMoments
        What is known of the population.
    """

    sizes: Floats
    families: Mapping[int, BiasFamily]
    known: KnownMoments

    @cached_property
    def places(self) -> dict[int, slice]:
        """The place of each bias's parameters in theta."""
        ends = np.cumsum([0, *(len(family.names) for family in self.families.values())]).tolist()
        return {k: slice(a, b) for k, a, b in zip(self.families, ends[:-1], ends[1:], strict=True)}

    @cached_property
    def coordinates(self) -> Coordinates:
        """The layout of a point."""
        parameters = sum(len(family.names) for family in self.families.values())
        return Coordinates(len(self.sizes), parameters, len(self.known.means), self.known.root.shape[1])

    @cached_property
    def scaled(self) -> NDArray[np.bool_]:
        """Which parameters belong to columns of standard deviation 1."""
        return np.array([family.scaled for family in self.families.values() for _ in family.names], bool)

    @cached_property
    def held(self) -> int:
        """The sample whose u is held fixed: the largest whose bias is known, else the largest."""
        known = np.where(np.isin(np.arange(len(self.sizes)), list(self.families)), 0.0, self.sizes)
        return int(np.argmax(known if known.any() else self.sizes))

    def shift(self, theta: Floats) -> Floats:
        """Return the offset of log omega on the user's scale, for each bias."""
        shift = np.zeros(len(self.sizes))
        for k, family in self.families.items():
            shift[k] = family.offset(theta[self.places[k]])
        return shift


class RowsAt:
    """The rows of a block at a point; every column is computed when it is first read."""

    def __init__(self, block: Block, point: Point) -> None:
        self.block, self.model, self.point = block, point.model, point
        at = point.model.coordinates
        self.u, self.theta, self.mu, self.epsilon = (point.v[part] for part in (at.u, at.theta, at.mu, at.epsilon))

    @cached_property
    def families(self) -> dict[int, FamilyAt]:
        """Each bias with parameters, without its known factor: its log, t, and its second derivatives."""
        places = self.model.places
        return {k: family.at(self.block, self.theta[places[k]]) for k, family in self.model.families.items()}

    @cached_property
    def _base(self) -> Normalised:
        return self.block.normalised(self.u, {k: family.log for k, family in self.families.items()})

    @cached_property
    def g(self) -> Floats:
        """The known moments, g - R epsilon."""
        known = self.model.known
        columns = known.on(self.block)
        if known.moving:
            own = {j: self.users_bias(k) for j, k in known.moving.items()}
            columns = np.hstack([own.get(j, columns[:, [j]]) for j in range(len(known.means))])
        return self.block.let(columns - (known.means + known.root @ self.epsilon))

    @cached_property
    def _lift(self) -> tuple[Floats, Floats]:
        """S / S0, and where it is not above zero; there it is taken as 1."""
        moved: Floats = self.g @ self.mu[:, None]
        lift: Floats = self.block.let(moved * self._base.weight + 1.0)
        positive: Floats = np.multiply(lift > 0.0, 1.0)
        above = self.block.let(positive)
        return self.block.let(lift * above + (1.0 - above)), 1.0 - above

    @property
    def refused(self) -> Floats:
        """1 where S is not above zero, and 0 elsewhere."""
        return self._lift[1]

    @cached_property
    def weight(self) -> Floats:
        """1 / S."""
        if self.point.weights is not None:
            return self.block.solved(self.point.weights)
        return self._base.weight if not len(self.mu) else self.block.let(self._base.weight / self._lift[0])

    @property
    def log_mass(self) -> Floats:
        """Log S."""
        return self._base.log_mass() + (np.log(self._lift[0]) if len(self.mu) else 0.0)

    @cached_property
    def p(self) -> Probabilities:
        """The part of x in u."""
        if not len(self.mu):
            return self._base.p
        return self.block.let(self._base.p * (1.0 / self._lift[0]))

    def users_bias(self, k: int) -> Floats:
        """Return omega_k at theta, on the user's scale."""
        if k not in self.families:
            return self.block.omega(k)
        return self.block.omega(k) * np.exp(self.families[k].log + float(self.model.shift(self.theta)[k]))

    def users_gradient(self, k: int) -> Floats:
        """Return the gradient of log omega_k in theta, on the user's scale."""
        return self.families[k].gradient + self.model.families[k].offset_gradient

    @cached_property
    def others(self) -> Floats:
        """The parts of x in theta and mu."""
        parts = []
        for k, family in self.families.items():
            part = self.p.column(k) * family.gradient
            for j in [j for j, state in self.model.known.moving.items() if state == k]:
                part = part + self.weight * float(self.mu[j]) * self.users_bias(k) * self.users_gradient(k)
            parts.append(part)
        return self.block.let(np.hstack([*parts, *([self.g * self.weight] if len(self.mu) else [])]))

    @cached_property
    def weight_of_epsilon(self) -> Floats:
        """The part of x in epsilon, in multiples of 1 / S: -R'mu."""
        return -self.model.known.root.T @ self.mu

    def own(self, b: Floats) -> Floats:
        """Return t_{i s_i}'b, for b of shape (d, m)."""
        theta, found = b[self.model.coordinates.theta], np.zeros((1, b.shape[1]))
        for k, place in self.model.places.items():
            found = found + within(self.block, k) * (self.families[k].gradient @ theta[place])
        return found

    def x(self, b: Floats) -> Floats:
        """Return x'b, for b of shape (d, m)."""
        at = self.model.coordinates
        found = self.p @ b[at.u]
        if at.parameters or at.known:
            found = found + self.others @ b[at.samples : at.epsilon.start]
        return found + self.weight * (self.weight_of_epsilon @ b[at.epsilon]) if at.uncertain else found

    def q(self, b: Floats) -> Floats:
        """Return q'b, for b of shape (d, m)."""
        return self.x(b) - self.own(b) if self.model.families else self.x(b)

    def times(self, column: Floats) -> list[Any]:
        """Return x times a column, in pieces."""
        pieces: list[Any] = [piece * column for piece in self._pieces]
        if self.model.coordinates.uncertain:
            pieces.append(self.weight * column * self.weight_of_epsilon)
        return pieces

    @property
    def _pieces(self) -> list[Any]:
        """X in u, and in theta and mu if there are any."""
        at = self.model.coordinates
        return [self.p, self.others] if at.parameters or at.known else [self.p]

    def against(self, columns: Floats) -> Floats:
        """Return the sums of columns times x, of shape (d, m)."""
        parts = [self.block.gram(piece, columns) for piece in self._pieces]
        if self.model.coordinates.uncertain:
            parts.append(np.outer(self.weight_of_epsilon, self.block.sum(self.weight * columns)))
        return np.vstack(parts)

    def against_q(self, columns: Floats) -> Floats:
        """Return the sums of columns times q, of shape (d, m)."""
        sums = self.against(columns)
        theta = sums[self.model.coordinates.theta]
        for k, place in self.model.places.items():
            theta[place] -= self.block.gram(within(self.block, k) * self.families[k].gradient, columns)
        return sums


class Point:
    """A point of a model.

    Parameters
    ----------
    model : Model
        The coordinates.
    v : ndarray of shape (d,)
        The point.
    weights : Kept, optional
        1 / S of the rows as they were solved, if it is known.
    """

    scale = 1.0  # what weights are multiplied by
    states: Sequence[int] = ()  # whose rows have weights, if not all

    def __init__(self, model: Model, v: Floats, weights: Kept = None) -> None:
        self.model, self.v, self.weights = model, v, weights
        theta = v[model.coordinates.theta]
        for k, family in model.families.items():
            family.prepare(theta[model.places[k]])

    def at(self, block: Block) -> RowsAt:
        """Return the rows of a block there, made once."""
        return block.points.setdefault(id(self), RowsAt(block, self))


class PointAmong:
    r"""A point for the rows of some samples A, with weights of their own; rows of others have none.

    Normalisers and parameters are those of the point; with :math:`S^A_i = \sum_{l \in A} e^{u_l}\omega_l(z_i;\theta)`,

    .. math::

        r^A_i \propto \frac{1\{i \in A\}}{S^A_i},\qquad
        x^A_i = \Bigl(p^A_i,\ \sum_{l \in A} p^A_{il} t_{il},\ 0\Bigr),\qquad
        p^A_{il} = \frac{e^{u_l}\omega_l(z_i;\theta)\,1\{l \in A\}}{S^A_i},

    while every row of the pool moves the point. If it rests on the rows of A alone, only these move it, and S and x are
    its own.

    Parameters
    ----------
    whole : Point
        The point.
    states : sequence of int
        The places of the samples.
    scale : float
        What weights are multiplied by.
    rests_on_them : bool
        Whether the point rests on the rows of these samples alone.
    """

    def __init__(self, whole: Point, states: Sequence[int], scale: float = 1.0, *, rests_on_them: bool = False) -> None:
        self.whole, self.states, self.scale, self.model = whole, list(states), scale, whole.model
        self.rests_on_them, at = rests_on_them, whole.model.coordinates
        self.part = np.full((len(at), 1), float(rests_on_them))  # 1 for the coordinates that S of these rows depends on
        if rests_on_them:
            return
        self.part[at.u] = members(at.samples, self.states)
        for k, place in whole.model.places.items():
            self.part[at.theta][place] = float(k in states)
        if at.known:
            without_moments = whole.v.copy()
            without_moments[at.mu] = 0.0
            self.whole = Point(whole.model, without_moments)

    def at(self, block: Block) -> RowsAmong:
        """Return the rows of a block there, made once."""
        return block.points.setdefault(id(self), RowsAmong(block, self))


class RowsAmong:
    """The rows of a block at a point for some samples."""

    def __init__(self, block: Block, point: PointAmong) -> None:
        self.block, self.point, self.whole = block, point, point.whole.at(block)
        self.inside = block.of_sample(members(block.K, point.states))

    @cached_property
    def share(self) -> Floats:
        """S^A / S: 0 where none of the samples could have drawn a row."""
        if self.point.rests_on_them:
            return self.block.of_sample(np.ones((self.block.K, 1)))
        return self.block.let(self.whole.p @ members(self.block.K, self.point.states))

    @cached_property
    def _covered_share(self) -> Floats:
        return self.block.let(self.share + (1.0 - (self.share > 0.0)))

    @cached_property
    def weight(self) -> Floats:
        """The weight among the samples, 0 on the rows of others."""
        return self.block.let(self.inside * self.whole.weight * self.point.scale / self._covered_share)

    def x(self, b: Floats) -> Floats:
        """Return x'b, for b of shape (d, m)."""
        return self.whole.x(self.point.part * b) / self._covered_share

    def q(self, b: Floats) -> Floats:
        """Return q'b for b of shape (d, m) of a point that rests on the samples, 0 on the rows of others."""
        return self.inside * self.whole.q(b)

    def times(self, column: Floats) -> list[Any]:
        """Return x times a column, in pieces."""
        return [self.x(np.eye(len(self.point.part))) * column]

    def against(self, columns: Floats) -> Floats:
        """Return the sums of columns times x, of shape (d, m)."""
        return self.point.part * self.whole.against(self.block.let(columns / self._covered_share))


#: The rows of a block at a point, or at one for some samples.
Seen: TypeAlias = RowsAt | RowsAmong
