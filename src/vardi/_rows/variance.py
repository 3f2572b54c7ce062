"""Rows by sample, as variances see them: drawn independently, each sample from its own law."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vardi._machine.threads import map_blocks
from vardi._rows.contract import Coordinates
from vardi._rows.grouping import membership
from vardi._types import Floats, Integers


class Tilts(Protocol):
    """The fitted law of each sample, over all rows of the pool: row i has probability c_i p_ik / n_k under law k."""

    @property
    def coordinates(self) -> Coordinates: ...
    def project(self, y: Floats) -> Floats: ...
    def mix(self, b: Floats) -> Floats: ...


class Strata:
    r"""Sample and count of each row.

    For influence values :math:`\phi_i` of shape (n, m), with :math:`c_i` the counts, the variance of
    :math:`\frac1n\sum_i c_i\phi_i` is estimated by

    .. math::

        V = \sum_k \frac{n_k}{n_k - 1} \sum_{i \in D_k} \frac{c_i}{n^2} (\phi_i - \bar\phi_k)(\phi_i - \bar\phi_k)'.

    A sample of a single row has no deviation from its own mean; there :math:`\bar\phi_k` is the mean under the fitted
    law of the sample, and the factor is 1.
    """

    def __init__(self, source: Integers, sizes: Floats, counts: Floats | None, tilts: Tilts) -> None:
        self.source, self.sizes, self.counts, self.tilts = source, sizes, counts, tilts
        self.n = float(sizes.sum())

    def centred(self, influence: Floats) -> Floats:
        """Return deviations from the sample means, scaled so that their sum of squares is the variance."""
        counted = influence if self.counts is None else influence * self.counts[:, None]
        means = self._totals(counted) / self._sizes
        if self._single.any():
            means = np.where(self._single[:, None], self._fitted(influence) / self._sizes, means)
        return (influence - means[self.source]) * self._scale[:, None]

    def covariance(self, influence: Floats) -> Floats:
        """Return V."""
        deviations = self.centred(influence)
        return np.asarray(deviations.T @ deviations)

    def covariance_of_blocks(self, block: Callable[[slice], Floats], n: int, m: int) -> Floats:
        """Return V for influence values that are computed block by block, since n x m of them may not fit."""
        if self._single.any():
            return self.covariance(block(slice(0, n)))

        def sums(rows: slice) -> tuple[Floats, Floats]:
            phi = block(rows)
            scaled = phi * self._scale[rows, None]
            counts = None if self.counts is None else self.counts[rows]
            return scaled.T @ scaled, np.asarray(membership(self.source[rows], len(self.sizes), counts) @ phi)

        squares, totals = np.zeros((m, m)), np.zeros((len(self.sizes), m))
        for square, total in map_blocks(sums, n, m):
            squares += square
            totals += total
        sizes = self._sizes[:, 0]
        factors = np.where(self.sizes > 0, 1.0 / np.maximum(sizes - 1.0, 1.0), 0.0) / self.n**2
        return squares - (totals * factors[:, None]).T @ totals

    def _fitted(self, influence: Floats) -> Floats:
        """Return sum_i c_i p_ik phi_i: n_k times the mean under the fitted law of each sample."""
        return self.tilts.project(influence)[: len(self.sizes)]

    @cached_property
    def _single(self) -> NDArray[np.bool_]:
        return (self.sizes > 0) & (self.sizes < 2)

    @cached_property
    def _sizes(self) -> Floats:
        return np.where(self.sizes > 0, self.sizes, 1.0)[:, None]

    @cached_property
    def _scale(self) -> Floats:
        sizes = self._sizes[:, 0]
        factor = np.sqrt(sizes / np.where(sizes < 2, sizes, sizes - 1.0)) / self.n
        return factor[self.source] if self.counts is None else factor[self.source] * np.sqrt(self.counts)

    def _totals(self, values: Floats) -> Floats:
        return np.asarray(membership(self.source, len(self.sizes), None) @ values)
