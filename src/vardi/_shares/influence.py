r"""Influence values of means that meet known shares.

Raking moves an estimate as regression on the cells does, to first order. With :math:`y_i` the cells of row i, centred
at their shares, and :math:`\pi_i` the raked weights,

.. math::

    B = \Big(\sum_i \pi_i y_i y_i'\Big)^{-1} \sum_i \pi_i y_i (f_i - \eta),\qquad g_i = f_i - \eta - B'y_i,\qquad
    \phi_i = r_i g_i + p_i'H^+\sum_j \pi_j p_j g_j .

Samples that overlap does not join are groups of their own: p_i has no share in other groups, H is a block for each, and
the residual g has mean zero in every group, since the shares determine its mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from vardi._influence import Influence
from vardi._laplacian import Laplacian, restricted
from vardi._rows import Rows
from vardi._rows.grouping import membership
from vardi._sums import Floats, Integers

ROUNDING = 1e-12  # of what a function is, below which what cells leave of it is nothing


class GroupedLaplacian:
    """The Laplacian of samples in several groups: a block for each, solved on its own.

    Parameters
    ----------
    shares, gram : ndarray, Gram
        As for :class:`~vardi._laplacian.Laplacian`, of the sampled states.
    groups : sequence of ndarray of bool
        Which of these each group holds.
    """

    def __init__(self, shares: Floats, gram: Any, groups: Sequence[Any]) -> None:
        self.q, self.gram, self.groups = shares, gram, groups
        several = {g: group for g, group in enumerate(groups) if group.sum() > 1}
        self.blocks = {g: Laplacian(shares[group], restricted(gram, group)) for g, group in several.items()}

    def solve(self, gradient: Floats) -> Floats:
        """Return H^+ gradient, up to a constant within each group, and so zero for a sample alone."""
        solution = np.zeros(len(gradient))
        for g, block in self.blocks.items():
            solution[self.groups[g]] = block.solve(gradient[self.groups[g]])
        return solution

    def gap(self) -> tuple[float, Floats]:
        """Return the smallest spectral gap of a group, and its vector, below zero on the other groups."""
        gaps = {g: block.gap() for g, block in self.blocks.items()}
        cut = np.full(len(self.q), -1.0)
        if not gaps:
            return 1.0, cut
        weakest = min(gaps, key=lambda g: gaps[g][0])
        cut[self.groups[weakest]] = gaps[weakest][1]
        return gaps[weakest][0], cut


class AnchoredInfluence(Influence):
    """A solution that meets known shares, seen as a map from functions on rows to estimates.

    Parameters
    ----------
    rows, u, weights, source, counts
        As for :class:`~vardi._influence.Influence`; the weights meet the shares.
    groups : ndarray of int
        Group of each bias.
    pattern : ndarray of int
        Pattern of each row of ``rows``.
    regressors : ndarray of shape (m, r)
        The cells of each pattern, in linearly independent combinations of mean zero under the weights.
    """

    def __init__(
        self,
        rows: Rows,
        u: Floats,
        weights: Floats,
        source: Integers,
        counts: Floats | None,
        *,
        groups: Integers,
        pattern: Integers,
        regressors: Floats,
    ) -> None:
        super().__init__(rows, u, weights, source, counts)
        self.groups, self.pattern, self.regressors = groups, pattern, regressors

    @cached_property
    def laplacian(self) -> Any:
        """The Hessian in counts, a block for each group."""
        gram = restricted(self.sums.gram, self.sampled)
        labels = self.groups[self.sampled]
        members = [labels == label for label in range(int(labels.max()) + 1)]
        return GroupedLaplacian(self.sums.shares[self.sampled], gram, members)

    def of_weighted(self, y: Floats) -> tuple[Floats, Floats]:
        """Return eta and phi for functions given as r_i f_i."""
        counted = y if self.strata.counts is None else y * self.strata.counts[:, None]
        eta = counted.sum(axis=0) / self.n
        return eta, self._phi(y - self.weights[:, None] * eta)

    def model_covariance(self, rg: Floats) -> Floats:
        """Return the stratified covariance: MBAR's form rests on weights that are those of the samples alone."""
        return self.strata.covariance(self._phi(rg))

    def controls(self) -> Floats:
        """Return the regressors for every row of the pool."""
        return self.regressors[self._patterns]

    def coefficients(self, sums: Floats) -> Floats:
        """Return B for sums_i pi_i y_i (f_i - eta) of shape (r, m)."""
        return np.asarray(np.linalg.solve(self._moment, sums)) if len(sums) else sums

    def _phi(self, rg: Floats) -> Floats:
        explained = (self.regressors @ self.coefficients(self._sums(rg)))[self._patterns]
        residual = rg - self.weights[:, None] * explained
        known = np.abs(residual).max(axis=0) <= ROUNDING * np.abs(rg).max(axis=0)  # a combination of cells: no error
        residual[:, known] = 0.0
        return residual + self.carried(residual)

    def _sums(self, rg: Floats) -> Floats:
        """Return sum_i pi_i y_i g_i."""
        by_pattern = membership(self._patterns, len(self.regressors), self.strata.counts) @ rg
        return np.asarray(self.regressors.T @ by_pattern) / self.n

    @cached_property
    def _patterns(self) -> Integers:
        return self.rows.spread(self.pattern)

    @cached_property
    def _moment(self) -> Floats:
        mass = self.row_weights if self.rows.counts is None else self.row_weights * self.rows.counts
        by_pattern = np.bincount(self.pattern, mass, minlength=len(self.regressors)) / self.n
        return np.asarray((self.regressors * by_pattern[:, None]).T @ self.regressors)
