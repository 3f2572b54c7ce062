r"""Rows that follow one another in time: the integrated autocorrelation of their influence values.

.. math:: g = 1 + 2 \sum_{t \ge 1} \rho_t,

up to the first pair :math:`\rho_{2t} + \rho_{2t+1}` that is not positive (Geyer 1992), with :math:`\rho_t` the
autocorrelation at lag t with divisor N. The variance of a sum of N values is then g times what it would be if they were
independent, and N / g of them are effective.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vardi._types import Floats, Integers

MOST = 2**15  # values of a series at most; beyond, sums of 2, 4, 8, ... successive rows are the values
COLUMNS = 16  # columns whose spectra are held at once
ROUNDING = 1e-9  # of the largest error
LEAST_BATCHES = 8  # above which correlations between estimates are estimated from them


def rows_a_value(rows: int) -> int:
    """Return how many successive rows are summed into one value of a series: a power of two.

    >>> rows_a_value(1000), rows_a_value(100_000)
    (1, 4)
    """
    return 1 << max(0, int(np.ceil(np.log2(max(rows, 1) / MOST))))


def batch_length(N: int, g: float) -> int:
    r"""Return how many successive values make a batch whose sums are nearly independent: :math:`(N g^2 / 4)^{1/3}`.

    >>> batch_length(1500, 19.0)
    52
    """
    return max(min(int(np.ceil((N * g**2 / 4.0) ** (1.0 / 3.0))), N // LEAST_BATCHES), 1)


def batch_lengths(sizes: Floats, effective: Floats) -> list[int]:
    """Return the length of a batch for each sample, from its rows and the number of independent rows they are worth."""
    pairs = zip(sizes.tolist(), effective.tolist(), strict=True)
    return [batch_length(int(n), n / max(few, 1.0)) if n else 1 for n, few in pairs]


class Autocorrelation:
    """Values of shape (N, m) in time order, with mean zero, in units of their own if these are given."""

    def __init__(self, values: Floats, units: Floats | float = 1.0) -> None:
        self.values, self.units = values, units

    @cached_property
    def _found(self) -> tuple[Floats, Integers]:
        """Return g of each column, and the last lag that it sums."""
        m = self.values.shape[1]
        g, last = np.ones(m), np.zeros(m, np.int64)
        for low in range(0, m, COLUMNS):
            part = slice(low, low + COLUMNS)
            g[part], last[part] = _integrated(self.values[:, part])
        return np.maximum(g, 1.0), last

    @property
    def effective(self) -> Floats:
        """How many independent values each column is worth."""
        return np.asarray(len(self.values) / self._found[0])

    @property
    def freedom(self) -> Floats:
        r"""Degrees of freedom of each variance: N / (2M + 1) for M lags."""
        return np.asarray(len(self.values) / (2.0 * self._found[1] + 1.0))

    def covariance(self) -> Floats:
        r"""Return the covariance of the sums of the columns.

        Variances are :math:`g \sum_i x_i^2`, divided by 1 - (2M + 1) / N for the mean that was subtracted (with M = 0
        that is the usual N / (N - 1)). Correlations between columns are those of sums over batches of successive
        values, so that the matrix is a valid covariance.
        """
        N, m = self.values.shape
        g, last = self._found
        lost = np.minimum((2.0 * last + 1.0) / N, 0.5) if N > 1 else 0.0
        errors = np.sqrt(g * (self.values**2).sum(axis=0) / (1.0 - lost))
        if m == 1:
            return errors[:, None] ** 2
        moved = errors * self.units > ROUNDING * (errors * self.units).max()  # what rounding leaves has a g of its own
        length = batch_length(N, float(g[moved].max(initial=1.0)))
        batches = np.add.reduceat(self.values, np.arange(0, N, length), axis=0)
        sizes = np.sqrt((batches**2).sum(axis=0))
        factors = np.divide(errors, sizes, out=np.zeros(m), where=sizes > 0)
        return (batches.T @ batches) * np.outer(factors, factors)


def _integrated(x: Floats) -> tuple[Floats, Integers]:
    """Return g and the last lag of each column, from its spectrum."""
    N, m = x.shape
    if N < 4:
        return np.ones(m), np.zeros(m, np.int64)
    spectrum = np.fft.rfft(x, 2 * N, axis=0)
    products = np.fft.irfft(np.abs(spectrum) ** 2, 2 * N, axis=0)[: N - N % 2]
    rho = np.divide(products, products[0], out=np.zeros_like(products), where=products[0] > 0)
    pairs = rho[0::2] + rho[1::2]
    ends = np.where((pairs <= 0).any(axis=0), np.argmax(pairs <= 0, axis=0), len(pairs))
    summed = np.concatenate([np.zeros((1, m)), np.cumsum(pairs, axis=0)])[ends, np.arange(m)]
    return 2.0 * summed - 1.0, np.maximum(2 * ends - 1, 0)
