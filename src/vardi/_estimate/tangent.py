r"""Influence values: how much each row moves an estimate, the estimation of everything else included.

For :math:`\eta = E_P f`, with :math:`r_i` the weights, :math:`x_i` what a row is at the solution and J the derivative
of the equations there:

.. math::

    a = \sum_i m_i r_i (f_i - \eta)\,x_i,\qquad b = J^{-1} a,\qquad \phi_i = r_i (f_i - \eta) + q_i'b,\qquad
    \hat\eta - \eta \approx \sum_i m_i (\phi_i - E\phi_i).

With known biases alone :math:`x_i = q_i = p_i` and J is the Hessian in u. Parameters and known moments only make these
vectors longer. A known value with an error moves the estimate too: by the part of b that belongs to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.estimates import Estimates
from vardi._rows.contract import Coordinates, Sums
from vardi._solve.laplacian import Laplacian, restricted
from vardi._types import Floats, Integers


class Measure(Protocol):
    """Rows at a solution, in memory or in an engine; functions and influence values are in their own language."""

    sizes: Floats
    n: float

    @property
    def coordinates(self) -> Coordinates: ...
    def mean(self, functions: Any) -> Floats: ...
    def against(self, functions: Any, eta: Floats) -> Floats: ...
    def influence(self, functions: Any, eta: Floats, b: Floats) -> Any: ...
    def covariance(self, influence: Any) -> Floats: ...


class Solver(Protocol):
    """J at the solution."""

    def solve(self, a: Floats) -> Floats: ...


class Hessian:
    """J where biases are known and nothing else is: the Laplacian of the overlaps.

    Parameters
    ----------
    rows : Any
        What answers ``sums`` at u.
    u : ndarray
        The dual point.
    groups : ndarray of int, optional
        Groups of samples that overlap does not join; all are one by default.
    """

    def __init__(self, rows: Any, u: Floats, groups: Integers | None = None) -> None:
        self.rows, self.u, self.groups = rows, u, groups

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again: factors and products with a vector cannot be pickled."""
        return {"rows": self.rows, "u": self.u, "groups": self.groups}

    @property
    def sampled(self) -> NDArray[np.bool_]:
        """Which biases have rows."""
        return np.asarray(self.rows.sizes > 0)

    @cached_property
    def sums(self) -> Sums:
        """Shares and gram at the solution."""
        return self.rows.sums(self.u)

    @cached_property
    def laplacian(self) -> Laplacian:
        """The Hessian in counts, n times H, of the sampled states."""
        return Laplacian(self.sums.shares[self.sampled], restricted(self.sums.gram, self.sampled))

    def solve(self, a: Floats) -> Floats:
        """Return H^+ a for a of shape (K, m), zero for states without rows, each group on its own."""
        b = np.zeros(a.shape)
        for states, laplacian in self.blocks:
            b[states] = np.column_stack([laplacian.solve(column) for column in a[states].T])
        return b

    def gap(self) -> float:
        """Return the smallest spectral gap of a group; 1 where no two samples are compared."""
        return min((laplacian.gap()[0] for states, laplacian in self.blocks if states.sum() > 1), default=1.0)

    @cached_property
    def blocks(self) -> list[tuple[NDArray[np.bool_], Laplacian]]:
        """The samples of each group of two or more, and their Laplacian: one alone has nothing to be compared with."""
        if self.groups is None or self.groups.max() == 0:
            return [(self.sampled, self.laplacian)]
        members = [self.groups == label for label in range(int(self.groups.max()) + 1)]
        return [
            (states, Laplacian(self.sums.shares[states], restricted(self.sums.gram, states)))
            for states in members
            if states.sum() > 1
        ]


@dataclass(frozen=True, eq=False)
class Influence:
    """How much each row, and each known value with an error, moves some estimates.

    Attributes
    ----------
    measure : Measure
        The rows.
    values : Any
        phi of each row and estimate, in the language of the rows: an array of shape (n, m) in memory.
    b : ndarray of shape (d, m)
        What the rows move through each coordinate of the point.
    """

    measure: Measure
    values: Any
    b: Floats

    @property
    def beyond(self) -> Floats:
        """What known values move, for each standard deviation of theirs, times n: of shape (r, m)."""
        return self.b[self.measure.coordinates.epsilon]

    def column(self, j: int) -> Influence:
        """Return that of one estimate."""
        return Influence(self.measure, self.values[:, [j]], self.b[:, [j]])

    def __matmul__(self, coefficients: Floats) -> Influence:
        """Return that of linear combinations of the estimates, with coefficients of shape (m, k)."""
        return Influence(self.measure, self.values @ coefficients, self.b @ coefficients)

    def __add__(self, other: Influence) -> Influence:
        return Influence(self.measure, self.values + other.values, self.b + other.b)

    def covariance(self) -> Floats:
        """Return the covariance of the estimates."""
        return self.measure.covariance(self.values) + self.beyond.T @ self.beyond / self.measure.n**2


class Tangent:
    """A solution, seen as a map from functions on rows to estimates.

    Parameters
    ----------
    measure : Measure
        The rows at the solution.
    jacobian : Solver
        J there.
    hessian : Hessian
        Its part in u as overlap alone has it: the same, but for parameters and known moments.
    """

    def __init__(self, measure: Any, jacobian: Solver, hessian: Hessian) -> None:
        self.measure, self.jacobian, self.hessian = measure, jacobian, hessian

    @property
    def n(self) -> float:
        """How many rows are counted."""
        return self.measure.n

    def influence(self, functions: Any, moved: Floats | None = None) -> tuple[Floats, Influence]:
        """Return eta (m,) and the influence on it.

        Functions that depend on the point themselves bring what that moves: the sums of their derivatives, (d, m).
        """
        measure = self.measure
        eta = measure.mean(functions)
        a = measure.against(functions, eta)
        b = self.jacobian.solve(a if moved is None else a - moved)
        return eta, Influence(measure, measure.influence(functions, eta, b), b)

    def of_coordinates(self, directions: Floats, functions: Any) -> Influence:
        """Return the influence on linear functions of the point itself, given by directions of shape (d, m).

        ``functions`` are m functions that are zero on every row, in the language of the rows.
        """
        measure = self.measure
        b = -measure.n * self.jacobian.solve(directions)
        eta = np.zeros(directions.shape[1])
        return Influence(measure, measure.influence(functions, eta, b), b)

    def estimates(self, functions: Any, level: float, *, trusted: bool) -> Estimates:
        """Return the expectations of functions."""
        eta, influence = self.influence(functions)
        return estimates_of(eta, influence, level, trusted=trusted)

    # what looks at rows in memory

    @property
    def rows(self) -> Any:
        """The rows as they were solved, with their biases at the solution."""
        return self.hessian.rows

    @property
    def u(self) -> Floats:
        """The dual point."""
        return self.hessian.u

    @property
    def sampled(self) -> NDArray[np.bool_]:
        """Which biases have rows."""
        return self.hessian.sampled

    @property
    def sums(self) -> Sums:
        """Shares and gram of the overlaps at the solution."""
        return self.hessian.sums

    @property
    def laplacian(self) -> Laplacian:
        """The Hessian in u, in counts, of the sampled states."""
        return self.hessian.laplacian

    @property
    def strata(self) -> Any:
        """Sample and count of each row of the pool."""
        return self.measure.strata

    @property
    def weights(self) -> Floats:
        """Weight r_i of each row of the pool."""
        return self.measure.weights

    @property
    def row_weights(self) -> Floats:
        """Weight of each row as they were solved."""
        return self.measure.row_weights

    def of(self, values: Any) -> tuple[Floats, Floats]:
        """Return eta (m,) and phi (n, m) for functions f of shape (n, m)."""
        eta, influence = self.influence(values)
        return eta, influence.values

    def covariance(self, phi: Floats, *, trusted: bool) -> Floats:
        """Return the covariance of the estimates with influence values phi, NaN where it is not to be trusted."""
        if not trusted:
            return np.full((phi.shape[1], phi.shape[1]), math.nan)
        return self.measure.covariance(phi)


def estimates_of(values: Floats, influence: Influence, level: float = 0.95, *, trusted: bool = True) -> Estimates:
    """Return values as estimates whose errors are the deviations of their influence values, NaN if not trusted."""
    covariance = influence.covariance() if trusted else np.full((len(values), len(values)), math.nan)
    return Estimates(values, covariance, level, influence=influence)
