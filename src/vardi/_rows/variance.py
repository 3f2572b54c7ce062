"""Variances of rows by sample: drawn independently, each sample from its own law."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vardi._machine.threads import sum_blocks
from vardi._rows.contract import Coordinates
from vardi._rows.grouping import largest_of_columns, sums_by_sample
from vardi._rows.steps import StepInfluence
from vardi._types import Floats, Integers

BIN = np.log(2.0) / 16.0  # width of a bin of logs: a sixteenth of an octave
NOTHING = -160  # the bin of values up to a thousandth of a standard deviation
MANY = 32.0  # rows of a tail, at most four of them equal within a bin
KINDS, ALIKE = 32, 10  # distinct weights, and rows of each, that do not make a tail: bounded, as for conditions
TAIL, LEAST = 0.05, 10.0  # the share of influence values, the largest, that make up the tail, and their least number

STEP_WIDTH = 4  # numbers of a row besides y that a covariance of steps reads


@dataclass(frozen=True, eq=False)
class Spread:
    r"""What the errors of m estimates rest on: sums over rows of :math:`c_i = (\phi_i - \bar\phi_k) / n`.

    Numbers are in units of ``scale``, so that squares and fourth powers are neither too large nor too small.

    Attributes
    ----------
    covariance : ndarray of shape (m, m)
        Covariance of the estimates, in their own units.
    scale : ndarray of shape (m,)
        Powers of two.
    within : ndarray of shape (B, m)
        What each part adds to the variance: :math:`V_k = \frac{n_k}{n_k - 1}\sum_{i \in D_k} c_i^2` for a sample k.
    squares, fourths : ndarray of shape (m,)
        :math:`\sum_i c_i^2` and :math:`\sum_i c_i^4`; NaN if they were not summed.
    known : ndarray of shape (m,)
        What the errors of known values add to the variance.
    effective : ndarray of shape (B, m) or (B, 1)
        How many values vary independently in each part: rows, clusters, or effective rows of a series.
    freedom : ndarray of shape (B, m) or (B, 1)
        Degrees of freedom of each part: one less; 0 if it is unknown how much it varies.
    carried : ndarray of shape (K, m)
        What each sample adds to the variance; parts are samples if rows are independent.
    values : float, optional
        How many values were squared, if not all of them vary independently.
    """

    covariance: Floats
    scale: Floats
    within: Floats
    squares: Floats
    fourths: Floats
    known: Floats
    effective: Floats
    freedom: Floats
    carried: Floats
    values: float | None = None

    @property
    def stderr(self) -> Floats:
        """Standard errors."""
        return np.asarray(self.scale * np.sqrt(self.within.sum(axis=0) + self.known))

    @property
    def kurtosis(self) -> Floats:
        r""":math:`\kappa = n \sum c^4 / (\sum c^2)^2`; NaN if no row moves an estimate."""
        n = self.effective.sum(axis=0) if self.values is None else self.values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(n * self.fourths / self.squares**2)

    @property
    def df(self) -> Floats:
        r"""Degrees of freedom, :math:`\min\bigl(2n / (\kappa - 1), V^2 / \sum_k V_k^2 / (n_k - 1)\bigr)`.

        The first term detects heavy tails and thin bridges, the second few rows. The errors of known values are taken
        as exact. If no row moves an estimate, it is the number of rows minus one.
        """
        n, kappa, rows = self.effective.sum(axis=0), self.kurtosis, self.within.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_tail = np.where(kappa > 1.0, 2.0 * n / (kappa - 1.0), np.inf)
            by_rows = rows**2 / (self.within**2 / np.maximum(self.freedom, 1.0)).sum(axis=0)
            found = np.minimum(by_tail, by_rows) * ((rows + self.known) / rows) ** 2
        found = np.where(rows > 0, found, np.where(self.known > 0, np.inf, n - 1.0))
        return np.where((self.freedom > 0).all(axis=0), found, 0.0)

    @property
    def effective_in_time(self) -> list[tuple[float, ...]]:
        """For each estimate, how many independent rows the series of each sample is worth; empty without series."""
        if self.values is None:
            return [()] * len(self.scale)
        return [tuple(column) for column in self.effective.T.tolist()]

    @property
    def most(self) -> Integers:
        """The sample that contributes most to each variance."""
        return self.carried.argmax(axis=0)

    def beside(self, deviations: Floats) -> Spread:
        """Return the spread with the contributions of known values, of shape (r, m)."""
        if not len(deviations):
            return self
        unit = deviations / self.scale
        return replace(
            self, covariance=self.covariance + deviations.T @ deviations, known=self.known + (unit**2).sum(axis=0)
        )


def unit_of(largest: Floats) -> Floats:
    """Return powers of two that scale numbers up to the largest to at most one; 1 for zero."""
    return np.where(largest > 0, np.ldexp(1.0, np.frexp(largest)[1]), 1.0)


def hill(places: Floats, rows: Floats, logs: Floats) -> float:
    """Return Hill's index of the largest numbers, from counts in bins of their logs, and sums of these logs.

    It uses all numbers beyond the largest bin edge with enough of them beyond it; NaN if these are negligible, or
    only a few distinct numbers, which have no tail.
    """
    order = np.argsort(-places)
    beyond = np.cumsum(rows[order])
    last = int(np.searchsorted(beyond, max(LEAST, TAIL * rows.sum())))
    if last >= len(order) or places[order[last]] <= NOTHING or 4 * (last + 1) < min(beyond[last], MANY):
        return np.nan
    return float(logs[order[: last + 1]].sum() / beyond[last] - BIN * places[order[last]])


def tail_of(sizes: Floats, counts: Floats, weights: Floats | float = 1.0) -> float:
    """Return the tail index of positive numbers, each with its count, divided by weights above 1 if given."""
    if not sizes.max(initial=0.0) > 0:
        return np.nan
    relative = sizes / sizes.max()
    relative /= np.sqrt(counts @ relative**2 / counts.sum())
    relative /= np.maximum(weights, 1.0)
    logs = np.log(np.maximum(relative, np.exp(BIN * NOTHING)))
    places, place = np.unique(np.floor(logs / BIN), return_inverse=True)
    return hill(places, *(np.bincount(place, part).astype(np.float64) for part in (counts, counts * logs)))


def factors_of(sizes: Floats) -> Floats:
    """Return n_k / (n_k - 1), and 1 for a single row."""
    return np.where(sizes < 2, 1.0, sizes / np.maximum(sizes - 1.0, 1.0))


def spread_of_samples(
    covariance: Floats, scale: Floats, squares: Floats, fourths: Floats, sizes: Floats, factors: Floats
) -> Spread:
    """Return a spread from sums of squares within samples, of shape (K, m), and of fourth powers over all rows."""
    within, n = squares * factors[:, None], sizes[:, None]
    nothing, freedom = np.zeros(len(scale)), np.maximum(n - 1.0, 1.0)
    return Spread(covariance, scale, within, squares.sum(axis=0), fourths, nothing, n, freedom, within)


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

    def __init__(
        self,
        source: Integers,
        sizes: Floats,
        counts: Floats,
        tilts: Tilts,
        remaining: Floats,
    ) -> None:
        self.source, self.sizes, self.counts, self.tilts = source, sizes, counts, tilts
        self.n = float(sizes.sum())
        self.remaining = remaining

    def covariance(self, influence: Floats) -> Floats:
        """Return V."""
        influence = np.asarray(influence)
        means, roots = self._means(influence)[0], np.sqrt(self._factors)

        def block(part: slice) -> Floats:
            scaled = self._deviations(influence, means, part) * roots[self.source[part], None]
            return np.asarray(scaled.T @ scaled)

        return np.asarray(sum_blocks(block, *influence.shape))

    def covariance_of_steps(self, influence: StepInfluence) -> Floats:
        """Return V for the influence values of a distribution function."""
        if self._single.any():
            return self.covariance(influence.rows(slice(0, len(influence))))
        K, factors = len(self.sizes), self._factors / self.n**2

        def block(part: slice) -> Floats:
            counts, source = self.counts[part], self._sample_in(part)
            scale = factors[source] * counts
            return np.vstack([influence.products(part, scale), influence.totals(part, source, counts, K)])

        M = influence.from_z
        width = STEP_WIDTH + influence.y.shape[1]
        if influence.is_sparse:  # so few numbers of a row that blocks are as long as their sums ask for
            width = STEP_WIDTH + influence.y.nnz // len(influence)
        sums = sum_blocks(block, len(influence), width, sums=(len(M) + K) * len(M))
        squares, means = M.T @ sums[: len(M)] @ M, sums[len(M) :] @ M / self._sizes
        return np.asarray(squares - (means * (self._factors * self.sizes / self.n**2)[:, None]).T @ means)

    def _means(self, influence: Floats) -> tuple[Floats, Floats]:
        """Return the mean of influence values over each sample, (K, m), and the largest absolute value, (m,)."""
        K = len(self.sizes)

        def block(part: slice) -> _Totals:
            values = influence[part]
            counted = values * self.counts[part, None]
            return _Totals(sums_by_sample(counted, self._sample_in(part), K), largest_of_columns(values))

        n, m = influence.shape
        found = sum_blocks(block, n, m, sums=K * m)
        means = found.totals / self._sizes
        if self._single.any():
            means = np.where(self._single[:, None], self._fitted(influence) / self._sizes, means)
        return means, found.largest

    def _deviations(self, influence: Floats, means: Floats, part: slice, scale: Floats | float = 1.0) -> Floats:
        """Return deviations from the sample means, whose squares sum to the variance up to factors of samples.

        They are in units of ``scale``.
        """
        deviations = influence[part] - _by_row(means, self._sample_in(part))
        deviations /= self.n * scale
        deviations *= np.sqrt(self.counts[part])[:, None]
        return deviations

    def _sample_in(self, part: slice) -> Integers | int:
        """Return the sample of some rows: one for all of them where there is only one, which is the rule."""
        source = self.source[part]
        return int(source[0]) if len(source) and (source == source[0]).all() else source

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
    def _factors(self) -> Floats:
        """The factors that turn sums of squared deviations into a variance, for each sample."""
        return factors_of(self.sizes) * self.remaining


def _by_row(numbers: Floats, source: Integers | int) -> Floats:
    """Return numbers of samples, of shape (K,) or (K, m), for rows of these: of shape (n, m) or (n, 1), or for all."""
    own = np.asarray(numbers[source])
    return own if isinstance(source, int) or own.ndim == 2 else own[:, None]


@dataclass(frozen=True, eq=False)
class _Totals:
    """Sums of influence values by sample, and their largest absolute value; both combine over rows."""

    totals: Floats
    largest: Floats

    def __add__(self, other: _Totals) -> _Totals:
        return _Totals(self.totals + other.totals, np.maximum(self.largest, other.largest))
