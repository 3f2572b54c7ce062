"""Fisher scoring on the profile likelihood, from several starts, and what makes of its end an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vardi._parametric.likelihood import Likelihood, Point
from vardi._parametric.models import Logistic
from vardi._rows.grouping import stratified
from vardi._sums import Floats

SCORE, ENOUGH = 1e-9, 1e-5  # of the gradient, in standard errors of it: what is sought, and what will do
SETTLED, STILL = 1e-6, 1e-4  # largest change of log omega in the last step, likewise
REACH = 4.0  # largest change of log omega in one step
LEAP = 5.0  # largest change of a parameter in one step, where columns have deviation 1
FAR = 40.0  # such parameters from which the search is lost
ITERATIONS, TRIAL = 100, 25  # steps, and steps from each start before they are compared
STARTS = 3000  # rows that starts are compared on


@dataclass(frozen=True)
class Scored:
    """Where scoring stopped.

    Attributes
    ----------
    point : Point
        The last point.
    converged : bool
        Whether score and last step are within their bounds.
    score : float
        Length of the gradient in units of its standard error.
    step : float
        Largest change of log omega that the next step would make.
    iterations : int
        How many steps were taken.
    """

    point: Point
    converged: bool
    score: float
    step: float
    iterations: int


def maximise(
    likelihood: Likelihood,
    u: Floats,
    theta: Floats,
    *,
    basis: Floats | None = None,
    tol: float = SCORE,
    settled: float = SETTLED,
    most: int = ITERATIONS,
) -> Scored:
    """Climb from a point; with a basis, theta moves in its span only."""
    basis = np.eye(likelihood.parameters) if basis is None else basis
    point, best, idle = likelihood.at(u, theta), np.inf, 0
    scaled = likelihood.scaled
    for iterations in range(most + 1):
        delta_u, delta_theta, slope, squared = _direction(point, basis)
        change = _change(point, delta_u, delta_theta)
        score = float(np.sqrt(likelihood.n * max(squared, 0.0)))
        best, idle = (score, 0) if score < best / 2 else (best, idle + 1)
        lost = not np.isfinite(change) or np.abs(point.theta[scaled]).max(initial=0.0) > FAR
        # rounding leaves a score that no step lowers
        last = lost or iterations == most or (idle > 5 and score <= ENOUGH)
        done = change <= settled and score <= tol
        if done or last:
            return Scored(point, done or (score <= ENOUGH and change <= STILL and not lost), score, change, iterations)
        leap = float(np.abs(delta_theta[scaled]).max(initial=0.0))
        longest = min(1.0, REACH / max(change, REACH), LEAP / max(leap, LEAP))
        after = _step(point, delta_u, delta_theta, slope, longest)
        if after is None:
            return Scored(point, score <= ENOUGH and change <= STILL, score, change, iterations)
        point = after
    raise AssertionError  # the loop returns


def _direction(point: Point, basis: Floats) -> tuple[Floats, Floats, float, float]:
    """Return a step in u and in theta, how fast it falls, and g'J^+g.

    It is Newton's where the Hessian is positive, and else that of scoring, which always falls.
    """
    K = len(point.u)
    ground = int(np.argmax(point.likelihood.sizes))  # only differences of u matter: one stays where it is
    to_free = np.zeros((K + len(point.theta), K - 1 + basis.shape[1]))
    to_free[np.delete(np.arange(K), ground), np.arange(K - 1)] = 1.0
    to_free[K:, K - 1 :] = basis
    g, J, H = (to_free.T @ point.gradient, *(to_free.T @ A @ to_free for A in (point.information, point.hessian)))
    scored = solve(J, g)
    step = scored if not _is_positive(H, J) else solve(H, g)
    whole = to_free @ -step
    return whole[:K], whole[K:], float(g @ step), float(g @ scored)


def _is_positive(H: Floats, J: Floats) -> bool:
    root = np.sqrt(np.maximum(np.diag(J), np.finfo(float).tiny))
    return bool(np.linalg.eigvalsh(H / (root[:, None] * root)).min(initial=1.0) > 1e-6)


def solve(J: Floats, g: Floats) -> Floats:
    """Return J^{-1} g for information that may be singular to rounding: then as far as it goes."""
    root = np.sqrt(np.maximum(np.diag(J), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(J / (root[:, None] * root))
    values = np.maximum(values, 1e-13 * max(float(values.max(initial=0.0)), 1e-300))
    scaled = (g.T / root).T
    return np.asarray(((vectors @ ((vectors.T @ scaled).T / values).T).T / root).T)


def _change(point: Point, delta_u: Floats, delta_theta: Floats) -> float:
    """Return by how much a step changes any log odds, to first order."""
    moves = np.empty((len(point.probabilities), len(delta_u)), order="F")
    moves[:] = delta_u
    for k, t in point.gradients.items():
        moves[:, k] += t @ delta_theta[point.likelihood.places[k]]
    return float((moves.max(axis=1) - moves.min(axis=1)).max())


def _step(point: Point, delta_u: Floats, delta_theta: Floats, slope: float, length: float) -> Point | None:
    """Return the first point along the step, ever shorter, that is better enough; None where rounding forbids."""
    for _ in range(30):
        after = point.likelihood.at(point.u + length * delta_u, point.theta + length * delta_theta)
        fall = point.value - after.value
        if fall >= 1e-4 * length * slope or (slope < 1e-11 and fall > -1e-13):
            return after
        length /= 2
    return None


def search(likelihood: Likelihood) -> Scored:
    """Maximise from several starts: on a subsample of the rows, and from the best of these on all."""
    rows = stratified(likelihood.source, likelihood.known.shape[1], STARTS / len(likelihood.source), 200)
    part = likelihood if len(rows) >= len(likelihood.source) else likelihood.subset(rows)
    tried = [maximise(part, u, theta, tol=0.03, settled=0.1, most=TRIAL) for u, theta in _starts(part)]
    best = min(tried, key=lambda scored: scored.point.value)
    if part is likelihood:
        return maximise(likelihood, best.point.u, best.point.theta)
    with np.errstate(divide="ignore"):
        shift = np.log(likelihood.sizes / likelihood.n) - np.log(part.sizes / part.n)
    return maximise(likelihood, best.point.u + shift, best.point.theta)


def _starts(likelihood: Likelihood) -> Sequence[tuple[Floats, Floats]]:
    """Return (u, theta) to start from: for logistic curves from the tilts that they are like."""
    models = likelihood.models
    curves: dict[int, Any] = {k: model for k, model in models.items() if isinstance(model, Logistic)}
    choices: dict[int, Sequence[Floats]] = {k: model.starts() for k, model in models.items()}
    if curves:
        tilted = likelihood.with_models({k: curves[k].tilt if k in curves else model for k, model in models.items()})
        first = np.concatenate([model.starts()[0] for model in tilted.models.values()])
        found = maximise(tilted, first_u(tilted, first), first, tol=0.1, settled=0.5).point
        for k, curve in curves.items():
            choices[k] = curve.starts_from(found.theta[tilted.places[k]])
    most = max(len(choice) for choice in choices.values())
    points = [np.concatenate([choice[j % len(choice)] for choice in choices.values()]) for j in range(most)]
    return [(first_u(likelihood, theta), theta) for theta in points]


def first_u(likelihood: Likelihood, theta: Floats) -> Floats:
    """Return a first u for some theta, from the mean log omega of each sample over its own rows."""
    L = likelihood.log_omega(theta)[np.arange(len(likelihood.source)), likelihood.source]
    means = np.bincount(likelihood.source, likelihood.counts * L, minlength=len(likelihood.sizes)) / likelihood.sizes
    return np.log(likelihood.sizes / likelihood.n) - means


def profile(likelihood: Likelihood, u: Floats, theta: Floats) -> Scored:
    """Maximise in u alone."""
    return maximise(likelihood, u, theta, basis=np.empty((len(theta), 0)))
