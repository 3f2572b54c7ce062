r"""Newton's method on one likelihood in all its coordinates: normalisers u, parameters theta, multipliers mu.

With the sums of :class:`~vardi._rows.contract.JointSums` the gradient is :math:`\sum_i c_i x_i - (n, \sum_i c_i t_{i
s_i}, 0, -\varepsilon)` and its derivative J is the curvature minus the gram. The solution is a minimum in u and theta,
and a maximum in mu: a saddle point, so steps are judged in two ways. Without known moments the objective
itself has to fall (:func:`descend`). With them the gradient has to (:func:`stationary`), from the minimum without them
or, if that is too far, from the minimum of the maximum over mu (:func:`meet`); and at the end J must have as many
positive and negative eigenvalues as a solution has (Benzi, Golub and Liesen 2005, on saddle points).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from vardi._rows.contract import JointSums
from vardi._rows.likelihood import JointRows
from vardi._solve.newton import EXACT, PATIENCE
from vardi._types import Floats

RANK = 1e-11  # relative size of an eigenvalue of J above which a direction counts
SPECTRAL = 400  # coordinates up to which J is solved by its eigenvectors
HALVINGS = 30
LEAP = 5.0  # largest change of a parameter in one step, for columns of standard deviation 1
STRIDE = 2.0  # the same if steps are judged by the gradient alone
REACH = 10.0  # largest change of a difference of u in one step
FAR = 40.0  # size of such a parameter beyond which the search is lost
SCORE, ENOUGH = 1e-9, 1e-5  # the gradient in its standard errors: what is sought, and what is accepted
SETTLED = 1e-6  # length of the last step
STUCK = 10  # steps that do not halve the gradient after which weights are made to meet known values first
CALIBRATION = 50  # steps of mu alone
ROUGH = 1e-6  # change of the likelihood that is expected of a step, below which Newton's method starts again


@dataclass(frozen=True)
class Jacobian:
    """J at a point, with one u held fixed: only differences of u matter, and mu moves with their level.

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
        J.
    free : ndarray of int
        The coordinates that may move.
    scale : ndarray of shape (d,)
        The root of each coordinate's own curvature, by which it is scaled.
    """

    matrix: Floats
    free: NDArray[np.intp]
    scale: Floats

    def solve(self, a: Floats) -> Floats:
        """Return J^+ a, zero for coordinates that are held fixed; a has shape (d,) or (d, m)."""
        b = np.zeros(a.shape)
        root = self.scale[self.free]
        right = (a[self.free].T / root).T
        if len(self.free) > SPECTRAL:
            scaled = scipy.linalg.lu_solve(self._factor, right)
        else:
            values, vectors = self._spectrum
            kept = np.abs(values) > RANK * max(float(np.abs(values).max(initial=0.0)), 1e-300)
            scaled = vectors[:, kept] @ ((vectors[:, kept].T @ right).T / values[kept]).T
        b[self.free] = (scaled.T / root).T
        return b

    @property
    def inertia(self) -> tuple[int, int]:
        """The number of positive and of negative eigenvalues."""
        values = self._spectrum[0] if len(self.free) <= SPECTRAL else np.linalg.eigvalsh(self._scaled)
        least = RANK * float(np.abs(values).max(initial=0.0))
        return int((values > least).sum()), int((values < -least).sum())

    @cached_property
    def _scaled(self) -> Floats:
        root = self.scale[self.free]
        scaled = self.matrix[self.free][:, self.free]
        scaled /= root[:, None]
        scaled /= root
        return scaled

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        values, vectors = np.linalg.eigh(self._scaled)
        return values, vectors

    @cached_property
    def _factor(self) -> tuple[Floats, NDArray[np.intp]]:
        return scipy.linalg.lu_factor(self._scaled, check_finite=False)


class Iterate:
    """Rows at a point, as the solver sees them.

    Parameters
    ----------
    rows : JointRows
        The rows.
    v : ndarray
        The point.
    objective : bool
        Whether the objective is asked for, too.
    """

    def __init__(self, rows: JointRows, v: Floats, *, objective: bool = False) -> None:
        self.rows, self.v, self.with_objective = rows, v, objective
        self.sizes, self.coordinates = rows.sizes, rows.coordinates

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be recomputed: factors and products cannot be pickled."""
        return {name: vars(self)[name] for name in ("rows", "v", "with_objective", "sizes", "coordinates")}

    @cached_property
    def sums(self) -> JointSums:
        """All sums over the rows."""
        return self.rows.joint_sums(self.v, objective=self.with_objective)

    def solve(self, a: Floats) -> Floats:
        """Return J^+ a."""
        return self.jacobian.solve(a)

    @cached_property
    def n(self) -> float:
        """The number of rows, by their counts."""
        return float(self.sizes.sum())

    @cached_property
    def gradient(self) -> Floats:
        """The gradient of the likelihood."""
        at = self.coordinates
        gradient = self.sums.x - self.sums.own
        gradient[at.u] -= self.sizes
        gradient[at.epsilon] += self.v[at.epsilon]
        return gradient

    @cached_property
    def objective(self) -> float:
        """The likelihood, up to a constant, if it was asked for."""
        at, sampled = self.coordinates, self.sizes > 0
        moved = self.v[at.epsilon]
        return float(self.sums.log_mass - self.sizes[sampled] @ self.v[at.u][sampled] + moved @ moved / 2)

    @cached_property
    def free(self) -> NDArray[np.intp]:
        """The coordinates that may move."""
        idle = np.append(np.flatnonzero(self.sizes == 0), self.rows.model.held)
        return np.delete(np.arange(len(self.coordinates)), idle)

    @cached_property
    def scale(self) -> Floats:
        """The root of each coordinate's curvature."""
        at = self.coordinates
        scale = np.empty(len(at))
        scale[at.u] = np.sqrt(np.maximum(self.sizes, 1.0))
        bent, own = np.diag(self.sums.information), np.diag(self.sums.gram)
        scale[at.samples :] = np.sqrt(np.maximum(np.abs(bent), own))[at.samples :]
        scale[at.epsilon] = np.maximum(scale[at.epsilon], 1.0)
        return np.where(scale > 0, scale, 1.0)

    @cached_property
    def jacobian(self) -> Jacobian:
        """J."""
        return Jacobian(self.matrix(), self.free, self.scale)

    @cached_property
    def calibration(self) -> Jacobian:
        """J in mu alone."""
        at = self.coordinates
        return Jacobian(self.matrix(), np.arange(at.mu.start, at.mu.stop), self.scale)

    @cached_property
    def information(self) -> Jacobian:
        """The expectation of J if the families of the biases are right."""
        return Jacobian(self.matrix(expected=True), self.free, self.scale)

    def matrix(self, *, expected: bool = False) -> Floats:
        """Return J as an array, or what is expected of it if the families of the biases are right."""
        at, J = self.coordinates, self.sums.jacobian(expected=expected)
        J[at.epsilon, at.epsilon] += np.eye(at.uncertain)
        return J

    @cached_property
    def level(self) -> Jacobian:
        """J with a penalty that keeps the mean of u, in place of one u that is held fixed.

        Where mu is far from its value, J is not the same for all levels of u. A step that holds one of many samples
        then moves the level of all others, and has to be cut short.
        """
        J = self.matrix()
        J[: len(self.sizes), : len(self.sizes)] += self.sizes[:, None] * (self.sizes / self.n)
        return Jacobian(J, np.sort(np.append(self.free, self.rows.model.held)), self.scale)

    @cached_property
    def residual(self) -> float:
        """The largest relative error of an equation: of the size of a sample, or of a known mean."""
        relative = np.abs(self.gradient) / (self.scale * np.sqrt(self.n))
        at, sampled = self.coordinates, self.sizes > 0
        relative[at.u][sampled] = np.abs(self.gradient[at.u][sampled]) / self.sizes[sampled]
        return float(np.where(np.append(sampled, np.ones(len(at) - len(sampled), bool)), relative, 0.0).max())

    def distance(self, scale: Floats) -> float:
        """Return the length of the gradient, its part in mu as weighted means, which do not shrink as S grows."""
        if not self.sums.inverse > 0:  # every S overflows
            return np.inf
        gradient = self.gradient / scale
        gradient[self.coordinates.mu] *= self.n / self.sums.inverse
        return float(np.linalg.norm(gradient[self.free]))

    @property
    def holds(self) -> bool:
        """Whether J has the eigenvalues of a solution: a minimum in u and theta, a maximum in mu."""
        at = self.coordinates
        above, below = self.jacobian.inertia
        return above <= int((self.sizes > 0).sum()) - 1 + at.parameters + at.uncertain and below <= at.known


@dataclass(frozen=True)
class Walk:
    """Where Newton's method stopped."""

    at: Iterate
    converged: bool
    iterations: int
    step: float

    @property
    def v(self) -> Floats:
        """The point."""
        return self.at.v


def descend(
    rows: JointRows,
    v: Floats,
    *,
    basis: Floats | None = None,
    tol: float = SCORE,
    settled: float = SETTLED,
    most: int = 100,
) -> Walk:
    """Minimise in u and theta, with mu as it is; with a basis, theta moves in its span only.

    A step is Newton's where the Hessian is positive, otherwise a scoring step, which always descends.
    """
    at, here = rows.coordinates, Iterate(rows, v, objective=True)
    basis = np.eye(at.parameters) if basis is None else basis
    samples = np.delete(np.arange(at.samples), np.append(np.flatnonzero(rows.sizes == 0), rows.model.held))
    into = np.zeros((len(at), len(samples) + basis.shape[1]))
    into[samples, np.arange(len(samples))] = 1.0
    into[at.theta, len(samples) :] = basis
    best, idle = np.inf, 0
    for iterations in range(most + 1):
        direction, slope, squared = _downhill(here, into)
        length = _length(here, direction)
        score = float(np.sqrt(max(squared, 0.0)))
        best, idle = (score, 0) if score < best / 2 else (best, idle + 1)
        lost = not np.isfinite(length) or np.abs(here.v[at.theta][rows.model.scaled]).max(initial=0.0) > FAR
        done = length <= settled and score <= tol
        if done or lost or iterations == most or (idle > PATIENCE and score <= ENOUGH):
            return Walk(here, not lost and score <= max(tol, ENOUGH), iterations, length)
        after = _fall(here, direction, slope)
        if after is None:
            return Walk(here, score <= max(tol, ENOUGH), iterations, length)
        here = after
    raise AssertionError  # the loop returns


def _downhill(here: Iterate, into: Floats) -> tuple[Floats, float, float]:
    """Return a direction, how fast the objective falls along it, and g'J^+g in standard errors squared."""
    g = into.T @ here.gradient
    J = into.T @ here.matrix(expected=True) @ into
    H = into.T @ here.matrix() @ into
    scored = _solve(J, g)
    root = np.sqrt(np.maximum(np.diag(J), np.finfo(float).tiny))
    convex = np.linalg.eigvalsh(H / (root[:, None] * root)).min(initial=1.0) > 1e-6
    step = _solve(H, g) if convex else scored
    return -into @ step, float(g @ step), float(g @ scored)


def _solve(J: Floats, g: Floats) -> Floats:
    """Return J^{-1} g, without the directions in which the information is singular to rounding."""
    root = np.sqrt(np.maximum(np.diag(J), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(J / (root[:, None] * root))
    kept = values > 1e-13 * max(float(values.max(initial=0.0)), 1e-300)
    return np.asarray(vectors[:, kept] @ ((vectors[:, kept].T @ (g / root)) / values[kept]) / root)


def _length(here: Iterate, direction: Floats) -> float:
    at, sampled = here.coordinates, here.sizes > 0
    moved = np.abs(direction[at.theta]) * here.scale[at.theta] / np.sqrt(here.n)
    return float(max(np.ptp(direction[at.u][sampled]), moved.max(initial=0.0)))


def _shorter(
    here: Iterate, direction: Floats, leap: float, reach: float, *, objective: bool
) -> Iterator[tuple[float, Iterate]]:
    """Yield ever shorter steps, none of which moves a parameter or a difference of u too far, and where they lead."""
    at = here.coordinates
    moved = float(np.abs(direction[at.theta][here.rows.model.scaled]).max(initial=0.0))
    apart = float(np.ptp(direction[at.u][here.sizes > 0]))
    length = 1.0 / max(1.0, moved / leap, apart / reach)
    for _ in range(HALVINGS):
        yield length, Iterate(here.rows, here.v + length * direction, objective=objective)
        length /= 2


def _fall(
    here: Iterate, direction: Floats, slope: float, then: Callable[[Iterate], Iterate] | None = None
) -> Iterate | None:
    """Return the first point along a shrinking step that descends enough; None if rounding prevents it.

    Where the slope is below zero, the objective has to rise instead. ``then`` moves each point before it is judged.
    """
    sign, rate = float(np.sign(slope)), abs(slope)
    for length, after in _shorter(here, direction, LEAP, REACH, objective=True):
        if then is not None and after.sums.positive:
            after = then(after)
        fall = sign * (here.objective - after.objective)
        if fall >= 1e-4 * length * rate or (rate < 1e-11 * here.n and fall > -1e-13 * here.n):
            return after
    return None


def stationary(rows: JointRows, v: Floats, *, tol: float = 1e-10, most: int = 100) -> Walk:
    """Find a zero of the gradient by Newton steps that make it smaller; S stays above zero on every row."""
    here = Iterate(rows, v)
    best, idle = np.inf, 0
    exact = tol if rows.reading_dominates else EXACT
    for iterations in range(most + 1):
        delta = _step(here)
        length = float(np.abs(delta * here.scale).max() / np.sqrt(here.n))
        if not np.isfinite(length):
            return Walk(here, False, iterations, np.inf)
        best, idle = (here.residual, 0) if here.residual < best / 2 else (best, idle + 1)
        solved = here.residual <= tol and length <= SETTLED
        if solved and (here.residual <= 1e-14 or length <= exact or idle > 1):
            return Walk(here, here.holds, iterations, length)
        after = None if iterations == most or idle > STUCK else _smaller(here, delta)
        if after is None:
            return Walk(here, solved and here.holds, iterations, length)
        here = after
    raise AssertionError  # the loop returns


def alone(rows: JointRows, v: Floats, *, tol: float = 1e-10, score: float = SCORE, settled: float = SETTLED) -> Floats:
    """Return the point without known values: of parameters a minimum, which need not be where the gradient is zero."""
    return (descend(rows, v, tol=score, settled=settled) if rows.families else stationary(rows, v, tol=tol)).v


def _step(here: Iterate) -> Floats:
    """Return Newton's step, NaN if there is none."""
    if not here.sums.positive:
        return np.full(len(here.v), np.nan)
    is_level = len(here.free) > SPECTRAL and not here.coordinates.parameters
    return -(here.level if is_level else here.jacobian).solve(here.gradient)


def _smaller(here: Iterate, delta: Floats) -> Iterate | None:
    """Return the first point along a shrinking step at which the gradient is smaller."""
    norm = here.distance(here.scale)
    for length, after in _shorter(here, delta, STRIDE, np.inf, objective=False):
        left = after.distance(here.scale) if after.sums.positive else np.inf
        if left < (1 - 1e-4 * length) * norm:
            return after
    return None


def meet(rows: JointRows, v: Floats, *, tol: float = 1e-10, most: int = 100) -> Walk:
    """Find the solution that meets the known values, starting from the one without them.

    If Newton's method does not get there at once, it starts again near the minimum of the likelihood of weights that
    meet the known values at every step.
    """
    walk = stationary(rows, v, tol=tol, most=most)
    if walk.converged or not rows.coordinates.known or not walk.at.sums.positive:
        return walk
    near = _descend_calibrated(rows, v, most)
    again = stationary(rows, near.v, tol=tol, most=most)
    return replace(again, iterations=walk.iterations + near.iterations + again.iterations)


def _descend_calibrated(rows: JointRows, v: Floats, most: int) -> Walk:
    """Minimise the maximum over mu in all other coordinates, roughly."""
    here, iterations = _calibrated(Iterate(rows, v, objective=True)), 0
    while iterations < most:
        direction, slope = _downhill_calibrated(here)
        after = _fall(here, direction, slope, _calibrated) if slope > ROUGH else None
        if after is None:
            break
        here, iterations = after, iterations + 1
    return Walk(here, False, iterations, np.inf)


def _calibrated(here: Iterate) -> Iterate:
    """Return the point with mu at its maximum and all else as it is, at which the weights meet the known values."""
    for _ in range(CALIBRATION):
        direction = -here.calibration.solve(here.gradient)
        slope = -float(here.gradient @ direction)
        after = _fall(here, direction, slope) if slope < -ROUGH else None
        if after is None:
            break
        here = after
    return here


def _downhill_calibrated(here: Iterate) -> tuple[Floats, float]:
    """Return a direction, and how fast the maximum over mu falls along it: Newton's if its Hessian is positive.

    The Hessian is the Schur complement of J in mu, plus so much of each coordinate's own curvature that it is positive.
    """
    at, J, meeting = here.coordinates, here.matrix(), here.calibration
    others = np.setdiff1d(here.free, meeting.free)
    root = here.scale[others]
    reduced = J - J[:, at.mu] @ meeting.solve(J)[at.mu]
    H = reduced[np.ix_(others, others)] / (root[:, None] * root)
    g = (here.gradient - J[:, at.mu] @ meeting.solve(here.gradient)[at.mu])[others] / root
    direction, more, factor = np.zeros(len(at)), 0.0, None
    if not np.isfinite(H).all():  # mu has diverged
        return direction, 0.0
    while factor is None:
        try:
            factor = scipy.linalg.cho_factor(H + more * np.eye(len(H)))
        except np.linalg.LinAlgError:
            more = max(16 * more, 1e-7)
    direction[others] = -scipy.linalg.cho_solve(factor, g) / root
    slope = -float(g @ (direction[others] * root))
    return direction - meeting.solve(here.gradient + J @ direction), slope
