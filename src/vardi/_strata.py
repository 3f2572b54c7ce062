"""Rows by sample, as variances see them: drawn independently, each sample from its own law."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vardi._rows.grouping import membership
from vardi._sums import Floats, Integers


class Strata:
    r"""Sample and count of each row.

    For influence values :math:`\phi_i` of shape (n, m), with :math:`c_i` the counts, the variance of
    :math:`\frac1n\sum_i c_i\phi_i` is estimated by

    .. math::

        V = \sum_k \frac{n_k}{n_k - 1} \sum_{i \in D_k} \frac{c_i}{n^2} (\phi_i - \bar\phi_k)(\phi_i - \bar\phi_k)'.
    """

    def __init__(self, source: Integers, sizes: Floats, counts: Floats | None) -> None:
        self.source, self.sizes, self.counts = source, sizes, counts
        self.n = float(sizes.sum())

    def centred(self, influence: Floats) -> Floats:
        """Return deviations from the sample means, scaled so that their sum of squares is the variance."""
        counted = influence if self.counts is None else influence * self.counts[:, None]
        return (influence - self._means(counted)) * self._scale[:, None]

    def scatter(self, multipliers: Floats) -> Floats:
        """Return z with sum_i z_i phi_i = sum_i xi_i centred(phi)_i for every phi: the transpose of ``centred``."""
        scaled = multipliers * self._scale[:, None]
        means = self._means(scaled)
        return scaled - (means if self.counts is None else means * self.counts[:, None])

    def covariance(self, influence: Floats) -> Floats:
        """Return V; needs two rows of every sample."""
        deviations = self.centred(influence)
        return np.asarray(deviations.T @ deviations)

    @cached_property
    def _scale(self) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.sqrt(self.sizes / (self.sizes - 1.0)) / self.n
        return factor[self.source] if self.counts is None else factor[self.source] * np.sqrt(self.counts)

    def _means(self, values: Floats) -> Floats:
        """Return for each row the sum of values over its sample, divided by the sample's size."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (membership(self.source, len(self.sizes), None) @ values / self.sizes[:, None])[self.source]
