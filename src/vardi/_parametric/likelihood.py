r"""The profile likelihood of normalisers and parameters (Gilbert, Lele and Vardi 1999; Qin 1998).

With the population profiled out, what is left is the likelihood of the labels of the rows, a multinomial logit:

.. math::

    Q(u, \theta) = \sum_i m_i \Big[\log \sum_l e^{u_l} \omega_l(z_i; \theta)
                   - u_{s_i} - \log\omega_{s_i}(z_i; \theta)\Big].

With :math:`x_{il} = (e_l, t_{il})` and :math:`t_{il} = \nabla_\theta \log\omega_l(z_i; \theta)`, its gradient and its
Fisher information are

.. math::

    \nabla Q = \sum_i m_i q_i,\quad q_i = \sum_l p_{il} x_{il} - x_{i s_i},\qquad
    J = \sum_i m_i \,\mathrm{Cov}_{l \sim p_i}(x_{il}).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._parametric.models import Model
from vardi._sums import Floats, Integers


@dataclass(frozen=True)
class Likelihood:
    """Rows of samples of which some have biases with parameters; sampled states only.

    Attributes
    ----------
    known : ndarray of shape (n, K)
        Log of the known factor of each bias.
    source : ndarray of int
        Sample of each row.
    counts : ndarray
        How many rows each row stands for.
    models : mapping from int to Model
        The family of each sample that has one.
    """

    known: Floats
    source: Integers
    counts: Floats
    models: Mapping[int, Model]

    @cached_property
    def n(self) -> float:
        """How many rows are counted."""
        return float(self.counts.sum())

    @cached_property
    def sizes(self) -> Floats:
        """How many of each sample."""
        return np.bincount(self.source, self.counts, minlength=self.known.shape[1]).astype(np.float64)

    @cached_property
    def places(self) -> dict[int, slice]:
        """Where the parameters of each sample stand among all."""
        ends = np.cumsum([0, *(len(model.names) for model in self.models.values())]).tolist()
        return {k: slice(low, high) for k, low, high in zip(self.models, ends[:-1], ends[1:], strict=True)}

    @property
    def parameters(self) -> int:
        """How many there are."""
        return sum(len(model.names) for model in self.models.values())

    @cached_property
    def scaled(self) -> NDArray[np.bool_]:
        """Which parameters belong to columns of deviation 1."""
        return np.repeat(
            [model.scaled for model in self.models.values()], [len(model.names) for model in self.models.values()]
        ).astype(bool)

    def log_omega(self, theta: Floats) -> Floats:
        """Return log omega, up to a constant for each sample."""
        L = self.known.copy(order="F")  # rows of a few numbers are summed far quicker column by column
        for k, model in self.models.items():
            L[:, k] += model.log_omega(theta[self.places[k]])
        return L

    def at(self, u: Floats, theta: Floats) -> Point:
        """Return everything at a point."""
        return Point(self, u, theta)

    def subset(self, rows: Any) -> Likelihood:
        """Return the same on some rows."""
        models = {k: model.subset(rows) for k, model in self.models.items()}
        return Likelihood(self.known[rows], self.source[rows], self.counts[rows], models)

    def with_counts(self, counts: Floats) -> Likelihood:
        """Return the same rows, counted otherwise."""
        return replace(self, counts=counts)

    def with_models(self, models: Mapping[int, Model]) -> Likelihood:
        """Return the same with other families."""
        return replace(self, models=models)

    def shift(self, theta: Floats) -> Floats:
        """Return what log omega has more on the user's scale, for each sample."""
        shift = np.zeros(self.known.shape[1])
        for k, model in self.models.items():
            shift[k] = model.offset(theta[self.places[k]])
        return shift

    def users(self, theta: Floats) -> dict[int, Floats]:
        """Return the parameters of each sample on the user's scale."""
        return {k: model.scale @ theta[self.places[k]] for k, model in self.models.items()}

    @cached_property
    def scale(self) -> Floats:
        """What turns theta into the user's parameters, all samples together."""
        scale = np.zeros((self.parameters, self.parameters))
        for k, model in self.models.items():
            scale[self.places[k], self.places[k]] = model.scale
        return scale


@dataclass(frozen=True)
class Point:
    """The likelihood at normalisers u and parameters theta."""

    likelihood: Likelihood
    u: Floats
    theta: Floats

    @cached_property
    def _logs(self) -> tuple[Floats, Floats, Floats]:
        """The log mass of the own sample, that of all (both less the largest), and the probabilities."""
        A = self.likelihood.log_omega(self.theta) + self.u
        top = A.max(axis=1)
        A -= top[:, None]
        own = A[np.arange(len(A)), self.likelihood.source]
        P = np.exp(A)
        S = P.sum(axis=1)
        P /= S[:, None]
        return own, np.log(S), P

    @cached_property
    def value(self) -> float:
        """Q."""
        own, log_mass, _ = self._logs
        return float(self.likelihood.counts @ (log_mass - own)) / self.likelihood.n

    @property
    def probabilities(self) -> Floats:
        """The probability p_il of each sample, given the row."""
        return self._logs[2]

    @cached_property
    def gradients(self) -> dict[int, Floats]:
        """t_ik of each sample k with parameters."""
        model, places = self.likelihood.models, self.likelihood.places
        return {k: model[k].gradient(self.theta[places[k]]) for k in model}

    @cached_property
    def means(self) -> Floats:
        """sum_l p_il x_il, of shape (n, K + p)."""
        P = self.probabilities
        return np.column_stack([P, *(P[:, [k]] * t for k, t in self.gradients.items())])

    @cached_property
    def scores(self) -> Floats:
        """The part of q_i that belongs to theta, of shape (n, p)."""
        source, P = self.likelihood.source, self.probabilities
        return np.column_stack([(P[:, k] - (source == k))[:, None] * t for k, t in self.gradients.items()])

    @cached_property
    def gradient(self) -> Floats:
        """The gradient of Q."""
        m = self.likelihood.counts / self.likelihood.n
        return np.concatenate([m @ self.probabilities - self.likelihood.sizes / self.likelihood.n, m @ self.scores])

    @cached_property
    def information(self) -> Floats:
        """J."""
        likelihood, P, Y = self.likelihood, self.probabilities, self.means
        K = P.shape[1]
        m = likelihood.counts / likelihood.n
        J = -(Y * m[:, None]).T @ Y
        J[np.arange(K), np.arange(K)] += m @ P
        for k, t in self.gradients.items():
            place = slice(K + likelihood.places[k].start, K + likelihood.places[k].stop)
            weighted = t * (m * P[:, k])[:, None]
            J[place, place] += weighted.T @ t
            J[k, place] += weighted.sum(axis=0)
            J[place, k] += weighted.sum(axis=0)
        return J

    @cached_property
    def hessian(self) -> Floats:
        """The second derivatives of Q, as far as those of log omega are known: J and what these add."""
        likelihood, K = self.likelihood, self.probabilities.shape[1]
        m = likelihood.counts / likelihood.n
        hessian = self.information.copy()
        for k, model in likelihood.models.items():
            place = slice(K + likelihood.places[k].start, K + likelihood.places[k].stop)
            weights = m * (self.probabilities[:, k] - (likelihood.source == k))
            hessian[place, place] += model.curvature(self.theta[likelihood.places[k]], weights)
        return hessian
