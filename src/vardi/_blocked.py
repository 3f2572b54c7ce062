"""BlockedSample: a debiased sample whose matrix is read in blocks, and too large to hold n x K influence values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._estimates import Estimate, Estimates
from vardi._pool import Name
from vardi._rows.blocks import ANSWER
from vardi._rows.grouping import membership
from vardi._sample import DebiasedSample
from vardi._sums import Floats
from vardi._trust import require_trust


@dataclass(frozen=True)
class TiltSums:
    r"""All that errors of the normalisers need of the rows.

    Row i has weight :math:`t_{ik} = r_i\omega_k(z_i) / \Omega_k` under state k, sampled or not. Its influence on the
    logs is :math:`\phi_i = M't_i - r_i 1` with a K x K matrix M, so that sums of products of t and r are enough.

    Attributes
    ----------
    squares, scaled : ndarray of shape (K, K)
        Sums of :math:`c_i t_i t_i'` and of :math:`v_i t_i t_i'`, where v_i makes the variance of a deviation.
    mixed, scaled_mixed : ndarray of shape (K,)
        Sums of :math:`c_i r_i t_i` and of :math:`v_i r_i t_i`.
    totals : ndarray of shape (K, K)
        Sums of :math:`c_i t_i` within samples (rows).
    """

    squares: Floats
    scaled: Floats
    mixed: Floats
    scaled_mixed: Floats
    totals: Floats

    def __add__(self, other: TiltSums) -> TiltSums:
        return TiltSums(
            self.squares + other.squares,
            self.scaled + other.scaled,
            self.mixed + other.mixed,
            self.scaled_mixed + other.scaled_mixed,
            self.totals + other.totals,
        )


class BlockedSample(DebiasedSample):
    """A debiased sample of a matrix that is read in blocks.

    Where n x K influence values would not fit, errors of the normalisers come from one pass over the rows; then
    differences of them have to be taken from ``log_omega_covariance``.
    """

    def log_normalisers(self, level: float = 0.95) -> dict[Name, Estimate]:
        """Return each log normaliser with its error, relative to the population."""
        if self._fits:
            return super().log_normalisers(level)
        require_trust(self)
        values = np.array(list(self.log_omegas.values()))
        covariance = self._stratified if self.trust.errors_hold else np.full_like(self._stratified, np.nan)
        return dict(zip(self.names, Estimates(values, covariance, level), strict=True))

    def log_omega_covariance(self) -> Floats:
        """Return the covariance of the log normalisers, relative to the population."""
        if self._fits:
            return super().log_omega_covariance()
        require_trust(self, tail=False)
        sums, a = self._tilt_sums, self._projected
        squares = sums.squares - sums.mixed - sums.mixed[:, None] + self._counted @ self._row_weights**2
        return np.asarray((squares + a.T @ self._influence.solve(a)) / self._influence.n**2)

    @property
    def _fits(self) -> bool:
        return len(self._rows) * len(self.names) <= ANSWER

    @property
    def _counted(self) -> Floats:
        return np.ones(len(self._rows)) if self._rows.counts is None else self._rows.counts

    @property
    def _factors(self) -> Floats:
        """What a squared deviation in each sample adds to a variance; alone in its sample a row has none to lose."""
        sizes = self._rows.sizes
        return np.where(sizes < 2, 1.0, sizes / np.maximum(sizes - 1.0, 1.0)) / self._influence.n**2

    @property
    def _projected(self) -> Floats:
        """The sums of c_i p_i (t_i - r_i)', where p_ik = lambda_k t_ik."""
        shares = self._rows.sizes / self._influence.n
        return shares[:, None] * (self._tilt_sums.squares - self._tilt_sums.mixed[:, None])

    @cached_property
    def _stratified(self) -> Floats:
        """The covariance by deviations of phi within samples: the formula of :class:`~vardi._strata.Strata`."""
        sums, r, c, sizes = self._tilt_sums, self._row_weights, self._counted, self._rows.sizes
        shares, factors, source = sizes / self._influence.n, self._factors, self._rows.source
        M = np.eye(len(sizes)) + shares[:, None] * self._influence.solve(self._projected)
        mixed = M.T @ sums.scaled_mixed
        squares = M.T @ sums.scaled @ M - mixed - mixed[:, None] + (factors[source] * c) @ r**2
        totals = sums.totals @ M - np.bincount(source, c * r, minlength=len(sizes))[:, None]
        fitted = shares[:, None] * (sums.squares @ M - sums.mixed[:, None])
        means = np.where((sizes < 2)[:, None], fitted, totals) / np.where(sizes > 0, sizes, 1.0)[:, None]
        across = (factors[:, None] * means).T @ totals
        return squares - across - across.T + ((factors * sizes)[:, None] * means).T @ means

    @cached_property
    def _tilt_sums(self) -> TiltSums:
        rows, r, c = self._rows, self._row_weights, self._counted
        log_omegas = np.array(list(self.log_omegas.values()))
        finite = np.where(np.isfinite(log_omegas), log_omegas, 0.0)  # a state that covers no row has no tilt
        log_r, v = np.log(r), self._factors[rows.source] * c

        def block(part: slice, values: NDArray[Any]) -> TiltSums:
            t = np.exp(rows._log(values) - finite + log_r[part, None])
            totals = np.asarray(membership(rows.source[part], len(finite), c[part]) @ t)
            counted, scaled = t.T * c[part], t.T * v[part]
            return TiltSums(counted @ t, scaled @ t, counted @ r[part], scaled @ r[part], totals)

        return rows._total(block)
