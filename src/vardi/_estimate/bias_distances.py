"""Distances between the distribution of each sample and its fitted one, and their law if the biases are right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._estimate.bias_labels import Cells, Labels
from vardi._solve.newton import newton
from vardi._types import Floats, Integers

NOTHING = 1e-8  # a distance up to which a sample cannot be tested


def distances(labels: Labels, grids: Sequence[Cells], drawn: Floats) -> tuple[float, Floats]:
    """Return the largest T_k, and the p-values of each sample and of all together among draws of the null."""
    T = _suprema([grid.rows @ labels.residual for grid in grids], labels.sizes)
    tied = T * (1.0 - 1e-6)  # equal distances count as exceeded, up to the tolerance of refits
    exceeded = np.column_stack([drawn >= tied, drawn.max(axis=1) >= tied.max()]).sum(axis=0)
    untestable = np.append(drawn.max(axis=0), drawn.max()) < NOTHING
    return float(T.max()), np.where(untestable, math.nan, (1 + exceeded) / (1 + len(drawn)))


def _suprema(gaps: Sequence[Floats], sizes: Floats) -> Floats:
    r"""Return :math:`T_k = \sqrt{n_k} \sup_t |\hat F_k(t) - \tilde F_k(t)|` from residuals by cell and sample."""
    return np.asarray(np.max([np.abs(np.cumsum(gap, axis=0)).max(axis=0) for gap in gaps], axis=0) / np.sqrt(sizes))


def relabelled(labels: Labels, grids: Sequence[Cells], draws: int, rng: np.random.Generator) -> Floats:
    r"""Draw T_k from labels distributed as p, minus what a refit would absorb to first order.

    .. math:: Z(t) = \sum_i 1\{x_i \le t\}\,e_i - M(t) M_{00}^+ \sum_i e_i,\qquad
              M(t) = \sum_i c_i 1\{x_i \le t\} (\mathrm{diag}(p_i) - p_i p_i'),

    with :math:`e_{ik} = c^*_{ik} - c_i p_{ik}`. Random multiples of the observed residuals would not work: where a few
    rare values all come from the sample that is likely to draw them, residuals are small and of one sign.
    """
    P = labels.P[labels.kind]
    P /= P.sum(axis=1, keepdims=True)
    counts, ends = np.rint(labels.counts).astype(np.int64), np.cumsum(P, axis=1)[:, :-1]
    JH = [np.stack([labels.solve(M).T for M in np.cumsum(grid.information(labels), axis=0)]) for grid in grids]
    T = np.zeros((draws, labels.K))
    for drawn in T:
        if counts.max() > 1:
            label = rng.multinomial(counts, P).astype(np.float64)
        else:
            label = np.eye(labels.K)[(rng.random((len(P), 1)) > ends).sum(axis=1)]
        residual = labels.residual_of(label, labels.P)
        through_u = residual.sum(axis=0)
        for grid, J in zip(grids, JH, strict=True):
            Z = np.cumsum(grid.rows @ residual, axis=0) - J @ through_u
            np.maximum(drawn, np.abs(Z).max(axis=0), out=drawn)
    return T / np.sqrt(labels.sizes)


def refits(labels: Labels, grids: Sequence[Cells], draws: int, rng: np.random.Generator) -> Floats:
    r"""Draw T_k from samples of the fitted laws, :math:`m_i p_{ik} / \lambda_k` on row i, each fitted anew."""
    law = np.cumsum(labels.P[labels.kind] * labels.counts[:, None], axis=0).T
    groups = _Group.all_of(labels)
    sizes: Floats = np.rint(labels.sizes)
    drawn = np.full((draws, labels.K), np.inf)  # stays infinite for a draw that cannot be fitted
    for T in drawn:
        picked = [p.searchsorted(p[-1] * rng.random(int(n_k)), "right") for n_k, p in zip(sizes, law, strict=True)]
        rows = np.array([np.bincount(row, minlength=len(labels.kind)) for row in picked], np.float64).T
        counts = np.bincount(labels.kind, rows.sum(axis=1), minlength=len(labels.P)).astype(np.float64)
        u = labels.influence.u.copy()
        if all(group.refitted(u, counts) for group in groups):
            residual = labels.residual_of(rows, labels.probabilities(labels.influence.rows, u))
            T[:] = _suprema([grid.rows @ residual for grid in grids], sizes)
    return drawn


@dataclass(frozen=True, eq=False)
class _Group:
    """Samples joined by overlap, and their rows, to be refitted with other counts.

    Attributes
    ----------
    states : ndarray of bool
        The samples.
    places : ndarray of int
        Positions of their rows among all rows.
    rows : Rows
        Their rows.
    sizes : ndarray of shape (K,)
        How many rows each sample draws, rounded.
    """

    states: NDArray[np.bool_]
    places: Integers
    rows: Any
    sizes: Floats

    @classmethod
    def all_of(cls, labels: Labels) -> list[_Group]:
        """Return all groups of two samples or more."""
        rows, hessian = labels.influence.rows, labels.influence.hessian
        found = []
        for states, _ in hessian.blocks:
            whole = states.sum() == hessian.sampled.sum()
            places = np.arange(len(rows)) if whole else np.flatnonzero(states[rows.source])
            found.append(cls(states, places, rows if whole else rows.subset(places), np.rint(rows.sizes)))
        return found

    def refitted(self, u: Floats, counts: Floats) -> bool:
        """Solve with other counts of all rows, starting from u and writing to it, and return whether it converged."""
        star = self.rows.with_counts(counts[self.places])
        star.sizes = np.where(self.states, self.sizes, 0.0)  # labels matter through the sizes only
        solution = newton(star, np.where(self.states, u, -np.inf), tol=1e-6)
        u[self.states] = solution.u[self.states]
        return solution.converged
