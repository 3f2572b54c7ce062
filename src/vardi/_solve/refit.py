"""Other counts of the same rows, solved again from the solution on: for the bootstrap and for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vardi._rows.base import Rows
from vardi._rows.joint import Joint
from vardi._solve.identify import connected, strong_groups
from vardi._solve.joint import descend, meet, stationary
from vardi._solve.newton import newton
from vardi._solve.parameters import held_of
from vardi._types import Floats, Integers

DRAWN = 1e-4  # score of the parameters of a refit, far below the spread of any draw
STILL = 1e-3  # length of the last step towards them


@dataclass(frozen=True)
class Refit:
    """A solution for other counts, or how the samples fall apart.

    Attributes
    ----------
    weights : ndarray or None
        Weight of each row, of mean 1; None where there is no solution.
    log_omegas : ndarray
        The log normalisers.
    labels : ndarray of int
        Where there is no solution: the group of each sampled state within which samples can be compared.
    """

    weights: Floats | None
    log_omegas: Floats = field(default_factory=lambda: np.empty(0))
    labels: Integers = field(default_factory=lambda: np.empty(0, np.int64))


def refit(
    rows: Rows,
    joint: Joint | None,
    u: Floats,
    point: Floats,
    counts: Floats,
    *,
    tol: float,
    may_part: bool,
    rng: np.random.Generator | None = None,
) -> Refit:
    """Solve again for other counts, from a solution on; known values with an error are drawn anew by rng."""
    if joint is None:
        return refit_plain(rows.with_counts(counts), u, tol=tol, may_part=may_part)
    joint = joint.with_counts(counts)
    if rng is not None and joint.coordinates.uncertain:
        joint = joint.with_values(joint.means + joint.known.root @ rng.standard_normal(joint.coordinates.uncertain))
    return refit_joint(joint, point, tol=tol)


def refit_plain(rows: Rows, u: Floats, *, tol: float, may_part: bool) -> Refit:
    """Solve for known biases alone."""
    sampled = rows.sizes > 0
    if may_part and not connected(reach := rows.reach(), rows.sizes):
        return Refit(None, labels=strong_groups(reach[sampled][:, sampled]))
    solution = newton(rows, u, tol=tol)
    if not solution.converged:
        return Refit(None, labels=(solution.cut[sampled] > 0).astype(np.int64))
    weights, shift = rows.weights(solution.u)
    n = rows.sizes.sum()
    if sampled.all():
        return Refit(weights, np.log(rows.sizes / n) - solution.u - shift)
    return Refit(weights, rows.log_means(solution.u) - shift - np.log(n))


def refit_joint(joint: Joint, v: Floats, *, tol: float) -> Refit:
    """Solve with parameters and known moments.

    The parameters are sought downhill: near another solution steps that only make the gradient smaller may end at a
    point that is no minimum.
    """
    at, held = joint.coordinates, held_of(joint)
    if at.known:
        walk = stationary(joint, v, held, tol=tol)
        if not walk.converged:
            first = _without_known(joint, v[: at.mu.start], held, tol)
            walk = meet(joint, np.concatenate([first, np.zeros(at.known + at.uncertain)]), held, tol=tol)
    else:
        walk = descend(joint, v, held, tol=DRAWN, settled=STILL)
    if not walk.converged:
        return Refit(None, labels=np.zeros(int((joint.sizes > 0).sum()), np.int64))
    weights, _ = joint.weights(walk.v)
    rows = joint.rows_at(walk.v[joint.coordinates.theta])
    return Refit(weights, rows.log_weighted_means(weights))


def _without_known(joint: Joint, v: Floats, held: int, tol: float) -> Floats:
    """Return the point that the samples give on their own."""
    if joint.families:
        return descend(joint.without_known(), v, held, tol=DRAWN, settled=STILL).v
    return stationary(joint.without_known(), v, held, tol=tol).v
