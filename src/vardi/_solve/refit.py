"""Solve again for other counts of the same rows, starting at the solution: for the bootstrap and for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from vardi._machine import Scratch, sum_blocks
from vardi._rows.arrays import ArrayBlock
from vardi._rows.base import Rows
from vardi._rows.dense import Dense, DenseProbabilities
from vardi._rows.gram import Laplacian
from vardi._rows.likelihood import Joint
from vardi._solve.identify import connected, strong_groups
from vardi._solve.newton import RANGE, is_cheap, newton
from vardi._solve.saddle import alone, descend, meet, stationary
from vardi._types import Floats, Integers

Result = TypeVar("Result")

KEPT_NUMBERS = 2**25  # numbers up to which p at the fit is kept for all rows: 256 MB
DRAWN = 1e-4  # score of the parameters of a refit, far below the spread of any draw
STILL = 1e-3  # length of the last step towards them
SHARED_PASSES = 20  # passes over the rows that draws share before the remaining ones continue alone
SETTLED = 1e-10  # length of the last step of a shared refit, if passes are cheap


class SharedPasses:
    r"""Dense rows at a solution, for many draws at once, each with its own counts of the rows and its own point.

    Draws are never far from the fit, so a row's weight in one is its weight in the fit times
    :math:`S_i(\hat u) / S_i(u_b)`, so nothing has to be scaled. The masses :math:`S_i(u_b)` of all draws are one
    matrix product, and the sums over rows are another.

    Parameters
    ----------
    rows : Dense
        The rows, in memory or read in blocks; every sample has some.
    u : ndarray
        The solution of the fit.
    functions : ndarray of shape (n, m)
        Functions on the rows, whose weighted sums are asked for.

    Attributes
    ----------
    weights : ndarray of shape (n,)
        1 / S_i at the fit, scaled to a mean of 1.
    shift : float
        The log of that scale.
    """

    def __init__(self, rows: Dense, u: Floats, functions: Floats) -> None:
        self.rows, self.u, self.functions = rows, u, functions
        self.weights, self.shift = rows.weights(u)
        self._p_at_fit = self._gathered()

    def at(self, us: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """Return shares (B, K), and the sums of the weights and of weights times functions (B, 1 + m), in one pass.

        Weights are 1 / S_i times the scale that gives those of the fit a mean of 1.

        Parameters
        ----------
        us : ndarray of shape (B, K)
            A dual point for each draw.
        counts : ndarray of shape (B, n)
            Counts of the rows in each draw.
        """
        moved, scratch = np.exp(us - self.u), Scratch()
        at_fit = bool((moved == 1.0).all())  # where all masses are 1

        def part(here: slice, P: Floats) -> Floats:
            r = counts[:, here]
            if not at_fit:
                masses = np.matmul(moved, P.T, out=scratch("masses", (len(moved), len(P))))
                r = np.divide(r, masses, out=masses)
            return np.hstack([r @ P, r @ self._weighted(here)])

        total = self._total(part, len(counts))
        K = len(self.u)
        return total[:, :K] * moved, total[:, K:]

    def _weighted(self, here: slice) -> Floats:
        """Return weights, and weights times functions, of some rows."""
        w = self.weights[here, None]
        return np.hstack([w, w * self.functions[here]]) if self.functions.shape[1] else w

    def weights_at(self, us: Floats) -> Floats:
        """Return the weight of each row in each draw, of shape (B, n) and scaled as in ``sums``, in one pass."""
        moved, found = np.exp(us - self.u), np.empty((len(us), len(self.rows)))

        def part(here: slice, P: Floats) -> int:
            np.divide(self.weights[here], moved @ P.T, out=found[:, here])
            return 0

        self._total(part, len(us))
        return found

    def _total(self, function: Callable[[slice, Floats], Result], draws: int) -> Result:
        """Sum the results over all blocks of a function of the place of the rows and their p at the fit.

        What that many draws write for the rows of a block stays in the cache.
        """
        gathered = self._p_at_fit
        if gathered is None:
            return self.rows.arrays.total(lambda block: function(block.place, self._p(block)))
        return sum_blocks(lambda place: function(place, gathered[place]), len(gathered), max(draws, len(self.u)))

    def _p(self, block: ArrayBlock) -> Floats:
        """Return p at the fit of a block of rows."""
        p = block.normalised(self.u, {}).p
        assert isinstance(p, DenseProbabilities)
        return p.array()

    def _gathered(self) -> Floats | None:
        """Return p at the fit of all rows, if that is not large: then no pass takes exps or rereads rows."""
        K = len(self.u)
        return None if len(self.rows) * K > KEPT_NUMBERS else self.rows.arrays.column(self._p, K)


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
    if may_part and not connected(reach := rows.reach, rows.sizes):
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
