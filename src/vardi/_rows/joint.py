r"""Rows with parameters and known moments besides their biases: the sums of one likelihood in all its coordinates.

With :math:`S^0_i = \sum_l e^{u_l}\omega_l(z_i;\theta)` of the rows as they are held and :math:`S_i = S^0_i + \mu'(g_i -
R\varepsilon)`, each p only has to be multiplied by :math:`S^0_i / S_i`. So whatever holds the biases (an array,
distinct rows, a sparse matrix, windows, blocks of a file) can be wrapped, and known moments and parameters are a few
additional columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._rows.base import Rows
from vardi._rows.columns import ArrayBlock, ArrayColumns, Probabilities
from vardi._rows.contract import Coordinates, JointSums
from vardi._rows.dense import Dense
from vardi._rows.families import Model
from vardi._rows.grouping import mean_over_counts
from vardi._rows.likelihood import joint_sums, likelihood
from vardi._types import Floats, Integers

MODERATE = 200.0  # log omega up to which omega itself is held


@dataclass(frozen=True)
class KnownColumns:
    """Functions of the rows whose means over the population are known.

    Attributes
    ----------
    values : ndarray of shape (n, m)
        h of each row.
    means : ndarray of shape (m,)
        tau, their means.
    root : ndarray of shape (m, r)
        R with R R' the covariance of tau; r = 0 if tau is exact.
    moving : mapping from int to int
        Functions that are themselves a bias with parameters, with the position of that bias.
    """

    values: Floats
    means: Floats
    root: Floats
    moving: Mapping[int, int]

    @classmethod
    def none(cls, n: int) -> KnownColumns:
        """Return the value for nothing known."""
        return cls(np.empty((n, 0)), np.empty(0), np.empty((0, 0)), {})

    def subset(self, rows: Any) -> KnownColumns:
        """Return the same on some rows."""
        return replace(self, values=self.values[rows])


class Joint:
    """Rows with known moments besides their biases, or with biases that have parameters.

    Parameters
    ----------
    base : Rows
        The rows with their known biases; for a bias with parameters, its known factor.
    families : mapping from int to Model
        The family of each bias that has one, on the same rows.
    known : KnownColumns
        What is known of the population, on the same rows.
    """

    reading_dominates = False

    def __init__(self, base: Rows, families: Mapping[int, Model], known: KnownColumns) -> None:
        self.base, self.families, self.known = base, dict(families), known
        self.sizes, self.source, self.counts, self.inverse = base.sizes, base.source, base.counts, base.inverse
        ends = np.cumsum([0, *(len(model.names) for model in self.families.values())]).tolist()
        self.places = {k: slice(a, b) for k, a, b in zip(self.families, ends[:-1], ends[1:], strict=True)}
        self.coordinates = Coordinates(len(base.sizes), ends[-1], len(known.means), known.root.shape[1])
        self._last: tuple[bytes, At] | None = None
        self._rows: tuple[bytes, Rows] | None = None

    def __len__(self) -> int:
        return len(self.base)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be recomputed."""
        return {**self.__dict__, "_last": None, "_rows": None}

    @cached_property
    def logs(self) -> Floats:
        """The log of the known factor of each bias, if some have parameters."""
        return self.base.log_omega()

    def rows_at(self, theta: Floats) -> Rows:
        """Return the rows with all biases at theta, on the user's scale."""
        if not self.families:
            return self.base
        key = theta.tobytes()
        if self._rows is None or self._rows[0] != key:
            L = self.logs.copy(order="F")
            for k, model in self.families.items():
                L[:, k] += model.log_omega(theta[self.places[k]]) + model.offset(theta[self.places[k]])
            own = L[np.arange(len(L)), self.source]
            plain = L.max() <= MODERATE and own.min() >= -MODERATE  # omega itself, without overflow
            rows = Dense(np.exp(L) if plain else L, self.source, self.counts, log=not plain, inverse=self.inverse)
            self._rows = (key, rows)
        return self._rows[1]

    def shift(self, theta: Floats) -> Floats:
        """Return the offset of log omega on the user's scale, for each bias."""
        shift = np.zeros(len(self.sizes))
        for k, model in self.families.items():
            shift[k] = model.offset(theta[self.places[k]])
        return shift

    def at(self, v: Floats) -> At:
        """Return everything at a point."""
        key = v.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = (key, At(self, v))
        return self._last[1]

    def joint_sums(self, v: Floats, *, objective: bool = True) -> JointSums:
        """Return all sums at v; without the objective ``log_mass`` is NaN."""
        return self.at(v).sums(objective=objective)

    def project(self, v: Floats, y: Floats) -> Floats:
        """Return sum_i c_i y_i x_i for y of shape (n, m)."""
        return self.at(v).project(y)

    def mix(self, v: Floats, b: Floats) -> Floats:
        """Return q_i'b for every row, b of shape (d, m)."""
        return self.at(v).mix(b)

    project_from, add_mix, sum_mix = Rows.project_from, Rows.add_mix, Rows.sum_mix

    def seen(self, v: Floats) -> tuple[Floats, Floats]:
        """Return x_i and q_i of every row, of shape (n, d)."""
        at = self.at(v)
        p = at.rows.mix(at.u, np.eye(len(self.sizes))) * at.ratio[:, None]
        return np.column_stack([p, at.beside]), np.column_stack([p, at.scores])

    def entries(self, v: Floats) -> Any:
        """Return None: parameters and known moments are columns without zeros."""
        return None

    def gradients(self, v: Floats) -> dict[int, Floats]:
        """Return t = grad log omega of each bias with parameters."""
        return self.at(v).gradients

    def beside(self, v: Floats) -> tuple[Floats, Floats]:
        """Return x_i and q_i of every row without their part in u, of shape (n, d - K)."""
        at = self.at(v)
        return at.beside, at.scores

    def omega(self, v: Floats, k: int) -> Floats:
        """Return a bias with parameters on the rows, on the user's scale."""
        return self.at(v).users_bias(k)

    def mean_gradients(self, v: Floats) -> Floats:
        """Return the mean of the gradient of log omega_k under the fitted law of sample k, of shape (d, K)."""
        at, point = self.coordinates, self.at(v)
        counts = self.counts
        means = np.zeros((len(at), at.samples))
        for k, t in point.gradients.items():
            place, theta = self.places[k], point.theta[self.places[k]]
            mean = (counts * point.share(k)) @ t / self.sizes[k] + self.families[k].offset_gradient(theta)
            means[at.theta, k][place] = mean
        return means

    def along(self, v: Floats, b: Floats) -> tuple[Floats, dict[int, Floats]]:
        """Return b_theta't of each row for its own bias, and for each bias with parameters."""
        theta = b[self.coordinates.theta]
        along = {k: t @ theta[self.places[k]] for k, t in self.gradients(v).items()}
        own = np.zeros(len(self))
        for k, values in along.items():
            own += np.where(self.source == k, values, 0.0)
        return own, along

    def weights(self, v: Floats) -> tuple[Floats, float]:
        """Return the weights 1 / S_i, scaled to mean 1 over the counted rows, and the log of that scale."""
        log_weights = self.at(v).log_weights
        top = float(log_weights.max())
        weights = np.exp(log_weights - top)
        mean = mean_over_counts(weights, self.counts)
        return weights / mean, top + float(np.log(mean))

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of rows for all rows of the pool."""
        return self.base.spread(values)

    def with_counts(self, counts: Floats) -> Joint:
        """Return the same rows with other counts."""
        joint = Joint(self.base.with_counts(counts), self.families, self.known)
        if self.families:
            joint.logs = self.logs
        return joint

    def without_known(self) -> Joint:
        """Return the same rows without known values."""
        return Joint(self.base, self.families, KnownColumns.none(len(self)))

    def masses_of(self, groups: Integers, v: Floats) -> Floats:
        """Return the share of the weight that each group of samples carries at a point."""
        weights, _ = self.weights(v)
        mass = weights * self.counts
        return np.bincount(groups[self.source], mass) / self.sizes.sum()

    def with_masses_of(self, groups: Integers, masses: Floats) -> Joint:
        """Return the same rows with only the masses of groups of samples known."""
        members = np.eye(len(masses))[groups[self.source]]
        known = KnownColumns(members[:, 1:], masses[1:], np.empty((len(masses) - 1, 0)), {})
        return Joint(self.base, self.families, known)

    def with_values(self, means: Floats) -> Joint:
        """Return the same rows with other known values."""
        joint = Joint(self.base, self.families, replace(self.known, means=means))
        joint._rows = self._rows
        if self.families:
            joint.logs = self.logs
        return joint

    def with_tilts(self, states: Collection[int]) -> Joint:
        """Return the same rows with the families of some biases replaced by the tilts that they resemble."""
        families = {k: model.tilt if k in states else model for k, model in self.families.items()}
        return Joint(self.base, families, self.known)

    @property
    def few(self) -> Joint:
        """The rows themselves: a search may start on these, which are in memory."""
        return self

    def subset(self, rows: Integers) -> Joint:
        """Return some of the rows."""
        families = {k: model.subset(rows) for k, model in self.families.items()}
        return Joint(self.base.subset(rows), families, self.known.subset(rows))

    @property
    def means(self) -> Floats:
        """The known values."""
        return self.known.means

    @property
    def root(self) -> Floats:
        """R, with R R' their covariance."""
        return self.known.root

    @property
    def scaled(self) -> np.ndarray:
        """Which parameters belong to columns of standard deviation 1."""
        models = self.families.values()
        return np.repeat([model.scaled for model in models], [len(model.names) for model in models]).astype(bool)


class At:
    """Rows at a point: S, and the coordinates of x other than u."""

    def __init__(self, joint: Joint, v: Floats) -> None:
        self.joint, self.v = joint, v
        at = joint.coordinates
        self.theta, self.mu = v[at.theta], v[at.mu]
        self.rows = joint.rows_at(self.theta)
        self.u = v[at.u] - joint.shift(self.theta)
        self.S0, self.offset = self.rows.row_mass(self.u)
        known = joint.known
        with np.errstate(over="ignore", invalid="ignore"):
            self.scale = np.ones(len(joint)) if self.offset is None else np.exp(-self.offset)
            self.g = known.values - known.means
            for j, k in known.moving.items():
                self.g[:, j] = np.exp(self._log_omega(k)) - known.means[j]
            self.g = self.g - known.root @ v[at.epsilon] if known.root.shape[1] else self.g
            self.s = self.S0 + self.scale * (self.g @ self.mu) if at.known else self.S0

    @property
    def positive(self) -> bool:
        """Whether every S is above zero."""
        return bool((self.s > 0).all()) and bool(np.isfinite(self.s).all())

    @cached_property
    def ratio(self) -> Floats:
        """S0 / S."""
        return self.S0 / self.s

    @property
    def log_weights(self) -> Floats:
        """-log S."""
        return -np.log(self.s) if self.offset is None else -np.log(self.s) - self.offset

    @cached_property
    def gradients(self) -> dict[int, Floats]:
        """t_k = grad log omega_k of each family."""
        families, places = self.joint.families, self.joint.places
        return {k: model.gradient(self.theta[places[k]]) for k, model in families.items()}

    @cached_property
    def beside(self) -> Floats:
        """x_i without its part in u, of shape (n, p + m + r)."""
        at, joint = self.joint.coordinates, self.joint
        Z = np.empty((len(joint), len(at) - at.samples), order="F")
        r = self.weight
        for k, t in self.gradients.items():
            Z[:, joint.places[k]] = self.share(k)[:, None] * t
        for j, k in joint.known.moving.items():
            moved = self.gradients[k] + self.users_slope(k)
            Z[:, joint.places[k]] += (r * self.mu[j] * self.users_bias(k))[:, None] * moved
        Z[:, at.parameters : at.parameters + at.known] = self.g * r[:, None]
        Z[:, at.parameters + at.known :] = -r[:, None] * (joint.known.root.T @ self.mu)
        return Z

    @cached_property
    def scores(self) -> Floats:
        """q_i without its part in u."""
        Z = self.beside.copy()
        for k, t in self.gradients.items():
            Z[:, self.joint.places[k]] -= (self.joint.source == k)[:, None] * t
        return Z

    def project(self, y: Floats) -> Floats:
        """Return sum_i c_i y_i x_i."""
        counts = self.joint.counts
        counted = y * counts[:, None]
        return np.concatenate([self.rows.project(self.u, y * self.ratio[:, None]), self.beside.T @ counted])

    def mix(self, b: Floats) -> Floats:
        """Return q_i'b."""
        K = self.joint.coordinates.samples
        return self.rows.mix(self.u, b[:K]) * self.ratio[:, None] + self.scores @ b[K:]

    def sums(self, *, objective: bool = True) -> JointSums:
        """Return all sums; without the objective ``log_mass`` is NaN."""
        joint, at = self.joint, self.joint.coordinates
        if not self.positive:
            return JointSums.nowhere(len(at))
        sums = likelihood(ArrayBlock(joint.counts, joint.source), self, at, objective=objective)
        return joint_sums(sums, self, at, self.mu, joint.known.root)

    @property
    def weight(self) -> Floats:
        """1 / S."""
        return self.scale / self.s

    @property
    def log_mass(self) -> Floats:
        """Log S."""
        return -self.log_weights

    @property
    def probabilities(self) -> Probabilities:
        """The part of x in u."""
        return Probabilities(self.rows, self.u, self.ratio)

    @property
    def others(self) -> ArrayColumns:
        """The parts of x in theta and mu."""
        return ArrayColumns(self.beside[:, : self.joint.coordinates.parameters + self.joint.coordinates.known])

    @property
    def weight_of_epsilon(self) -> Floats:
        """The part of x in epsilon, in multiples of 1 / S."""
        return -self.joint.known.root.T @ self.mu

    @property
    def moving(self) -> Mapping[int, int]:
        """Known moments that are the mean of a bias with parameters, with the position of that bias."""
        return self.joint.known.moving

    @property
    def places(self) -> Mapping[int, slice]:
        """The place in theta of each bias's parameters."""
        return self.joint.places

    def users_bias(self, k: int) -> Floats:
        """Return omega_k at theta, on the user's scale."""
        return np.asarray(np.exp(self._log_omega(k)))

    def log_family(self, k: int) -> Floats:
        """Return the log of the part of omega_k that has parameters, on the scale of theta."""
        return self.joint.families[k].log_omega(self.theta[self.joint.places[k]])

    def gradient(self, k: int) -> ArrayColumns:
        """Return t_k."""
        return ArrayColumns(self.gradients[k])

    def users_slope(self, k: int) -> Floats:
        """Return what to add to t_k on the user's scale."""
        return self.joint.families[k].offset_gradient(self.theta[self.joint.places[k]])

    def bend(self, block: ArrayBlock, k: int, weights: Floats) -> Floats:
        """Return the weighted sum of the second derivatives of log omega_k in theta."""
        return self.joint.families[k].curvature(self.theta[self.joint.places[k]], block.counts * weights)

    def share(self, k: int) -> Floats:
        """Return p_ik of every row."""
        unit = np.zeros(len(self.u))
        unit[k] = 1.0
        return self.rows.mix(self.u, unit) * self.ratio

    def _log_omega(self, k: int) -> Floats:
        """Return the log of bias k with its parameters, on the user's scale."""
        theta, model = self.theta[self.joint.places[k]], self.joint.families[k]
        return self.joint.logs[:, k] + model.log_omega(theta) + model.offset(theta)
