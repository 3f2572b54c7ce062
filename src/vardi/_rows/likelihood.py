"""Rows with parameters and known moments besides their biases: what a search in all coordinates needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vardi._rows.arrays import Arrays
from vardi._rows.base import Rows
from vardi._rows.contract import Block, JointSums, Question, within
from vardi._rows.dense import Dense
from vardi._rows.families import BiasFamily
from vardi._rows.grouping import scaled_to_mean_one
from vardi._rows.point import KnownMoments, Model, Point, RowsAt
from vardi._types import Floats, Integers, Numbers

if TYPE_CHECKING:
    from vardi._rows.contract import Holder

MODERATE = 200.0  # log omega up to which omega itself is held


def likelihood(point: Point, *, objective: bool) -> Question[JointSums]:
    r"""Return the question of all sums at a point; without the objective ``log_mass`` is NaN.

    With :math:`x_i = \nabla S_i / S_i = (p_i, y_i, -R'\mu / S_i)`, where y has the parts in theta and mu, and
    :math:`t_k = \nabla\log\omega_k`. A known moment that is the mean of a bias with parameters is
    :math:`e^o\omega_k` on the user's scale, with gradient :math:`t_k + o'` in theta.
    """

    def question(block: Block) -> JointSums:
        at, rows = point.model.coordinates, point.at(block)
        K, d, inner = at.samples, len(at), at.epsilon.start
        p, r, epsilon = rows.p, rows.weight, rows.weight_of_epsilon
        shares, inverse = block.sum(p), block.sum(r)
        products, gram, beside = block.gram(p, p), np.zeros((d - K, d)), np.zeros((d - K, d))  # gram: beyond u
        x, own, bend = np.zeros(d), np.zeros(d), np.zeros((at.parameters, at.parameters))
        x[at.u], x[at.epsilon], log_mass = shares, epsilon * inverse, np.full(1, np.nan)
        if inner > K:
            y = rows.others
            x[K:inner], gram[: inner - K] = block.sum(y), rows.against(y).T
        if at.uncertain:
            gram[inner - K :] = np.outer(epsilon, rows.against(r)[:, 0])
            mu, known = slice(at.mu.start - K, at.mu.stop - K), -point.model.known.root * inverse
            beside[mu, at.epsilon], beside[inner - K :, at.mu] = known, known.T
        if objective:
            log_mass = block.sum(rows.log_mass)
        for k, place in point.model.places.items():
            where, family = slice(K + place.start, K + place.stop), rows.families[k]  # among all coordinates
            share, mine, t = p.column(k), within(block, k), family.gradient
            own[where] = block.sum(t * mine)
            beside[place, k] = block.sum(t * share)
            beside[place, where], bend[place, place] = block.gram(t * share, t), family.bend(share - mine)
            if objective:
                log_mass = log_mass - block.sum(family.log * mine)
        for j, k in point.model.known.moving.items():
            place, row = point.model.places[k], at.mu.start + j
            where = slice(K + place.start, K + place.stop)
            h, t = block.let(rows.users_bias(k) * r), rows.users_gradient(k)
            beside[row - K, where] = beside[place, row] = block.sum(t * h)
            bend[place, place] += rows.mu[j] * (block.gram(t * h, t) + rows.families[k].bend(h))
        refused = float(block.sum(rows.refused)[0]) if at.known else 0.0
        return JointSums(float(inverse[0]), float(log_mass[0]), x, products, gram, own, beside, bend, refused)

    return question


class JointRows(ABC):
    """Rows with parameters and known moments besides their biases, wherever they are: what a search needs of them.

    Parameters
    ----------
    holder : Holder
        The rows, to which questions are put.
    model : Model
        The families of biases, what is known of the population, and the layout of a point.
    """

    reading_dominates: bool  # whether reading the rows costs more than forming their gram

    def __init__(self, holder: Holder, model: Model) -> None:
        self.holder, self.model, self.sizes = holder, model, model.sizes
        self.families, self.known = model.families, model.known
        self.places, self.coordinates = model.places, model.coordinates

    @property
    @abstractmethod
    def few(self) -> Joint:
        """Rows in memory on which a search may start, with counts that make them stand for all."""

    @abstractmethod
    def rows_at(self, theta: Floats) -> Any:
        """Return the rows with all biases at theta, on the user's scale."""

    @abstractmethod
    def joint_sums(self, v: Floats, *, objective: bool = True) -> JointSums:
        """Return all sums at v; without the objective ``log_mass`` is NaN."""

    @abstractmethod
    def weights(self, v: Floats) -> tuple[Floats, float]:
        """Return the weights 1 / S_i, scaled to mean 1 over the counted rows, and the log of that scale."""

    @abstractmethod
    def with_model(self, change: Callable[[Model], Model]) -> Self:
        """Return the same rows with another model."""

    def without_known(self) -> Self:
        """Return the same rows without known values."""
        return self.with_model(lambda model: replace(model, known=KnownMoments.none()))

    def with_masses_of(self, groups: Integers, masses: Floats) -> Self:
        """Return the same rows with only the masses of groups of samples known."""
        return self.with_model(lambda model: replace(model, known=KnownMoments.of_groups(groups, masses)))

    def with_values(self, means: Floats) -> Self:
        """Return the same rows with other known values."""
        return self.with_model(lambda model: replace(model, known=replace(model.known, means=means)))

    def with_tilts(self, states: Collection[int]) -> Self:
        """Return the same rows with the families of some biases replaced by the tilts that they resemble."""

        def change(model: Model) -> Model:
            tilted = {k: family.tilt if k in states else family for k, family in model.families.items()}
            return replace(model, families=tilted)

        return self.with_model(change)

    def masses_of(self, groups: Integers, v: Floats) -> Floats:
        """Return the share of the weight that each group of samples carries at a point."""
        point = Point(self.model, self.coordinates.rescaled(v, self.weights(v)[1]))
        mass = self.holder.total(lambda block: block.by_sample(point.at(block).weight))[:, 0]
        sampled = self.sizes > 0
        return np.bincount(groups[sampled], mass[sampled]) / mass.sum()

    def mean_gradients(self, v: Floats) -> Floats:
        """Return the mean of the gradient of log omega_k under the fitted law of sample k, of shape (d, K)."""
        at = self.coordinates
        means = np.zeros((len(at), at.samples))
        if self.families:
            information = self.joint_sums(v, objective=False).information
        for k, family in self.families.items():
            place = self.places[k]
            theta = slice(at.theta.start + place.start, at.theta.start + place.stop)
            means[theta, k] = information[k, theta] / self.sizes[k] + family.offset_gradient
        return means


class Joint(JointRows):
    """Rows in memory with known moments besides their biases, or with biases that have parameters.

    Parameters
    ----------
    base : Rows
        The rows with their known biases; for a bias with parameters, its known factor.
    families : mapping from int to BiasFamily
        The family of each bias that has one, on the same rows.
    known : KnownMoments
        What is known of the population, on the same rows.
    """

    holder: Arrays
    reading_dominates = False

    def __init__(self, base: Rows, families: Mapping[int, BiasFamily], known: KnownMoments) -> None:
        super().__init__(base.arrays, Model(base.sizes, families, known))
        self.base, self.source, self.counts, self.inverse = base, base.source, base.counts, base.inverse
        self._last: tuple[bytes, bool, JointSums] | None = None
        self._rows: tuple[bytes, Rows] | None = None

    def __len__(self) -> int:
        return len(self.base)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be recomputed."""
        return {**self.__dict__, "_last": None, "_rows": None}

    def rows_at(self, theta: Floats) -> Rows:
        """Return the rows with all biases at theta, on the user's scale."""
        if not self.families:
            return self.base
        key = theta.tobytes()
        if self._rows is None or self._rows[0] != key:
            L = self.base.logs.copy(order="F")
            for k, family in self.families.items():
                L[:, k] += family.log_omega(theta[self.places[k]]) + family.offset(theta[self.places[k]])
            own = L[np.arange(len(L)), self.source]
            plain = L.max() <= MODERATE and own.min() >= -MODERATE  # omega itself, without overflow
            rows = Dense(np.exp(L) if plain else L, self.source, self.counts, log=not plain, inverse=self.inverse)
            self._rows = (key, rows)
        return self._rows[1]

    def joint_sums(self, v: Floats, *, objective: bool = True) -> JointSums:
        """Return all sums at v; without the objective ``log_mass`` is NaN."""
        last = self._last
        if last is None or last[0] != v.tobytes() or objective > last[1]:
            width = len(self.coordinates) - self.coordinates.samples
            with np.errstate(over="ignore", invalid="ignore"):  # sums at a point so far off are not finite
                sums = self.holder.total(likelihood(Point(self.model, v), objective=objective), width)
            last = self._last = v.tobytes(), objective, sums.checked
        return last[2]

    def columns(self, v: Floats, question: Callable[[RowsAt], Floats], m: int) -> Floats:
        """Return columns that are made of the rows at a point, of shape (n, m)."""
        point = Point(self.model, v)
        return self.holder.column(lambda block: question(point.at(block)), m)

    def weights(self, v: Floats) -> tuple[Floats, float]:
        """Return the weights 1 / S_i, scaled to mean 1 over the counted rows, and the log of that scale."""
        log_weights = self.columns(v, lambda rows: rows.log_mass * -1.0, 1)[:, 0]
        return scaled_to_mean_one(log_weights, self.counts, are_logs=True)

    def spread(self, values: Numbers) -> Numbers:
        """Return values of rows for all rows of the pool."""
        return self.base.spread(values)

    def with_counts(self, counts: Floats) -> Joint:
        """Return the same rows with other counts."""
        return Joint(self.base.with_counts(counts), self.families, self.known)

    def with_model(self, change: Callable[[Model], Model]) -> Joint:
        """Return the same rows with another model, which keeps what does not depend on it."""
        model = change(self.model)
        joint = Joint(self.base, model.families, model.known)
        joint._rows = self._rows if model.families is self.families else None
        return joint

    @property
    def few(self) -> Joint:
        """The rows themselves: a search may start on these, which are in memory."""
        return self

    def subset(self, rows: Integers) -> Joint:
        """Return some of the rows."""
        families = {k: family.subset(rows) for k, family in self.families.items()}
        return Joint(self.base.subset(rows), families, self.known.subset(rows))
