"""Variances of rows by sample: drawn independently, each sample from its own law."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vardi._types import Floats, Integers

BIN = np.log(2.0) / 16.0  # width of a bin of logs: a sixteenth of an octave
NOTHING = -160  # the bin of values up to a thousandth of a standard deviation
MANY = 32.0  # rows of a tail, at most four of them equal within a bin
KINDS, ALIKE = 32, 10  # distinct weights, and rows of each, that do not make a tail: bounded, as for conditions
TAIL, LEAST = 0.05, 10.0  # the share of influence values, the largest, that make up the tail, and their least number


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
