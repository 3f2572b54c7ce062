"""Solve again for other counts of the same rows, starting at the solution: for the bootstrap and for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vardi._rows.base import Rows
from vardi._rows.draws import SharedPasses
from vardi._rows.gram import Laplacian
from vardi._rows.joint import Joint
from vardi._solve.identify import connected, strong_groups
from vardi._solve.joint import alone, descend, meet, stationary
from vardi._solve.newton import RANGE, is_cheap, newton
from vardi._types import Floats, Integers

DRAWN = 1e-4  # score of the parameters of a refit, far below the spread of any draw
STILL = 1e-3  # length of the last step towards them
SHARED_PASSES = 20  # passes over the rows that draws share before the remaining ones continue alone
SETTLED = 1e-10  # length of the last step of a shared refit, if passes are cheap


@dataclass(frozen=True)
class Refit:
    """A solution for other counts, or how the samples fall apart.

    Attributes
    ----------
    weights : ndarray or None
        Weight of each row, of mean 1; None if there is no solution, or if means were asked for instead.
    log_omegas : ndarray
        The log normalisers; empty if there is no solution.
    labels : ndarray of int
        If there is no solution: the group of each sampled state within which samples can be compared.
    means : ndarray or None
        The weighted means of functions, if they were asked for.
    """

    weights: Floats | None
    log_omegas: Floats = field(default_factory=lambda: np.empty(0))
    labels: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    means: Floats | None = None

    @property
    def is_solved(self) -> bool:
        """Whether there is a solution."""
        return len(self.log_omegas) > 0


def refit_plain(rows: Rows, u: Floats, *, tol: float, may_part: bool) -> Refit:
    """Solve for known biases alone."""
    sampled = rows.sizes > 0
    if may_part and not connected(reach := rows.reach(), rows.sizes):
        return Refit(None, labels=strong_groups(reach[sampled][:, sampled]))
    near = rows.settled(u)
    solution = newton(near, u, tol=tol)
    if not solution.converged:
        return Refit(None, labels=(solution.cut[sampled] > 0).astype(np.int64))
    weights, shift = near.weights(solution.u)
    n = rows.sizes.sum()
    if sampled.all():
        return Refit(weights, np.log(rows.sizes / n) - solution.u - shift)
    return Refit(weights, rows.log_means(solution.u) - shift - np.log(n))


def refit_draws(
    passes: SharedPasses, laplacian: Laplacian, counts: Floats, *, tol: float, weights: bool
) -> list[Refit | None]:
    """Solve for known biases alone, with many other counts at once, which share the passes over the rows.

    Each draw takes Newton's steps with the Hessian of the fit, which is close to its own. None stands for a draw whose
    steps do not shrink quickly: it needs its own Hessian.

    Parameters
    ----------
    passes : SharedPasses
        The rows at the solution of the fit, with the functions whose means are returned.
    laplacian : Laplacian
        The Hessian there.
    counts : ndarray of shape (B, n)
        Counts of the rows in each draw, with which samples have the sizes that they have in the fit.
    tol : float
        Tolerance of Vardi's equations.
    weights : bool
        Whether to return weights, which take another pass, in place of means.
    """
    sizes = passes.rows.sizes
    n, near = sizes.sum(), SETTLED if is_cheap(passes.rows) else RANGE
    us, done, lost = np.tile(passes.u, (len(counts), 1)), *np.zeros((2, len(counts)), bool)
    shares, sums = passes.at(us, counts)
    before = np.full(len(counts), np.inf)
    for _ in range(SHARED_PASSES):
        gradient = shares - sizes
        delta = -np.stack([laplacian.solve(one) for one in gradient])
        length, residual = np.ptp(delta, axis=1), np.abs(gradient / sizes).max(axis=1)
        done |= (residual <= tol) & (length <= near)
        lost |= ~done & ~(length < before / 2)
        going = ~(done | lost)
        if not going.any():
            break
        us[going] += delta[going]
        before = length
        shares[going], sums[going] = passes.at(us[going], counts if going.all() else counts[going])
    log_omegas = np.log(sizes / n) - us - np.log(sums[:, :1] / n) - passes.shift
    means = sums[:, 1:] / sums[:, :1]
    if not weights:
        return [Refit(None, log_omegas[b], means=means[b]) if done[b] else None for b in range(len(counts))]
    of_rows = iter(passes.weights_at(us[done]))
    return [_scaled(next(of_rows), counts[b], log_omegas[b]) if done[b] else None for b in range(len(counts))]


def _scaled(weights: Floats, counts: Floats, log_omegas: Floats) -> Refit:
    """Return a refit whose weights have mean 1 over the counted rows."""
    return Refit(weights * (counts.sum() / (counts @ weights)), log_omegas)


def refit_joint(joint: Joint, v: Floats, *, tol: float, rng: np.random.Generator | None = None) -> Refit:
    """Solve with parameters and known moments; rng redraws known values that have an error.

    The parameters are found by descent: near another solution, steps that only shrink the gradient may end at a point
    that is not a minimum.
    """
    at = joint.coordinates
    if rng is not None and at.uncertain:
        joint = joint.with_values(joint.known.means + joint.known.root @ rng.standard_normal(at.uncertain))
    if at.known:
        walk = stationary(joint, v, tol=tol)
        if not walk.converged:
            first = alone(joint.without_known(), v[: at.mu.start], tol=tol, score=DRAWN, settled=STILL)
            walk = meet(joint, np.concatenate([first, np.zeros(at.known + at.uncertain)]), tol=tol)
    else:
        walk = descend(joint, v, tol=DRAWN, settled=STILL)
    if not walk.converged:
        return Refit(None, labels=np.zeros(int((joint.sizes > 0).sum()), np.int64))
    weights, _ = joint.weights(walk.v)
    rows = joint.rows_at(walk.v[joint.coordinates.theta])
    return Refit(weights, rows.log_weighted_means(weights))
