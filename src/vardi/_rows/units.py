r"""Rows that depend on one another, in units whose sums of influence values vary independently.

With :math:`c_i = m_i (\phi_i - \bar\phi_k) / n`, centred within samples, the sums over clusters c are squared:

.. math:: V = \sum_b \frac{G_b}{G_b - 1} \sum_{c \in b} \Bigl(\sum_{i \in c} \sqrt{1 - f_k}\,c_i - t_b\Bigr)^2,

where b are samples or strata, joined into one if a cluster spans them, :math:`G_b` counts the clusters there and
:math:`f_k` is the share of a finite population that sample k drew. For a stratum :math:`t_b` is the mean of these sums,
since it is drawn by clusters: their number of rows varies, and with it the part of the stratum. For a sample it is 0,
since no estimate depends on how many rows a sample has. Rows of a series follow one another: their autocorrelation
takes the place of clusters,

.. math:: g = 1 + 2 \sum_{t \ge 1} \rho_t,

up to the first pair :math:`\rho_{2t} + \rho_{2t+1}` that is not positive (Geyer 1992), with :math:`\rho_t` the
autocorrelation at lag t with divisor N. The variance of a sum of N values is then g times what it would be if they were
independent, and N / g of them are effective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy import sparse

from vardi._inputs.dependence import Dependence
from vardi._rows.contract import Spread, unit_of
from vardi._rows.grouping import sums_by_code, variance_factors
from vardi._types import Floats, Integers

BIN = np.log(2.0) / 16.0  # width of a bin of logs: a sixteenth of an octave
NOTHING = -160  # the bin of values up to a thousandth of a standard deviation
MANY = 32.0  # rows of a tail, at most four of them equal within a bin
TAIL, LEAST = 0.05, 10.0  # the share of influence values, the largest, that make up the tail, and their least number


@dataclass(frozen=True, eq=False)
class Units:
    """The units over which influence values are summed: an entry for the rows of a unit in one stratum.

    Attributes
    ----------
    unit, cell, sample : ndarray of int of shape (E,)
        For each entry, numbered from 0: the unit, its stratum, its sample. A stratum lies within one sample. Units of a
        series are numbered in time order.
    rows : ndarray of shape (E,)
        The number of rows in each entry, by their counts.
    samples : int
        K, how many samples there are.
    in_series : bool
        Whether units follow one another.
    """

    unit: Integers
    cell: Integers
    sample: Integers
    rows: Floats
    samples: int
    in_series: bool = False

    def spread(
        self,
        sums: Floats,
        n: float,
        added: Floats | None = None,
        power: float = 1.0,
        *,
        are_centred: bool = False,
    ) -> Spread:
        """Return the covariance of estimates and what it rests on, from sums of influence values of shape (E, m).

        The sums may be of deviations from any centre of a sample. They are centred here, except for a sample of one
        row, whose centre is kept, and for those that are centred already. What leverage adds to the sum over a unit,
        of shape (U, m), multiplies its square by a power of the ratio of the new sum to the old one.
        """
        deviations = self._centred(sums / n, are_centred=are_centred)
        totals = deviations if self.in_series else self._by_unit(deviations)
        if added is not None:
            more = np.divide(added / n, totals, out=np.zeros_like(totals), where=totals != 0)
            root = np.maximum(1.0 + more, 0.0) ** (power / 2.0)
            totals, deviations = totals * root, deviations * root[self.unit]
        scale = unit_of(np.abs(totals).max(axis=0, initial=0.0))
        totals = totals / scale
        of_kind = self._of_series(totals, scale) if self.in_series else self._of_clusters(totals, deviations / scale)
        covariance, within, effective, freedom, carried = of_kind
        with np.errstate(over="ignore"):
            covariance = covariance * np.outer(scale, scale)
        squares, tails = totals**2, partial(self._tails, sums)
        squared, fourths = squares.sum(axis=0), (squares**2).sum(axis=0)
        values = len(totals) if self.in_series else None
        alone = () if self.in_series else self._alone
        return Spread(
            covariance, scale, within, squared, fourths, effective, freedom, carried, tails, values, alone=alone
        )

    def products(self, sums: Floats) -> tuple[float, Floats, Floats, float]:
        """Return sums of products of several estimates' deviations: see ``Measure.products``.

        A series counts in batches of successive values, as for its correlations.
        """
        deviations = self._centred(sums, are_centred=True)
        if not self.in_series:
            totals, part = self._by_unit(deviations), self.part
        else:
            totals, part = self._in_batches(deviations)
        G, m = np.bincount(part).astype(np.float64), sums.shape[1]
        scaled = totals * np.sqrt(variance_factors(G))[part][:, None]
        pairs = (scaled[:, :, None] * scaled[:, None, :]).reshape(len(scaled), m * m)
        is_alone = not self.in_series and bool(self._alone)
        freedom = np.where(is_alone, 0.0, np.maximum(G - 1.0, 1.0))
        squares = float(((scaled**2).sum(axis=1) ** 2).sum())
        return squares, sums_by_code(part, pairs, len(G)).reshape(len(G), m, m), freedom, float(len(totals))

    def _in_batches(self, values: Floats) -> tuple[Floats, Integers]:
        """Return sums over batches of the values of series, and the sample of each, numbered from 0."""
        order, batches, parts = np.argsort(self.unit), list[Floats](), list[Integers]()
        for k in np.unique(self.sample).tolist():
            found = Autocorrelation(values[order[self.sample[order] == k]])
            batches.append(found.in_batches(float(found.g.max(initial=1.0))))
            parts.append(np.full(len(batches[-1]), len(parts)))
        return np.concatenate(batches), np.concatenate(parts)

    def _tails(self, sums: Floats, estimates: Sequence[int]) -> list[float]:
        """Return the tail index of some estimates' sums over units."""
        return [tail_of(np.abs(self._by_unit(self._centred(sums[:, [j]])))[:, 0]) for j in estimates]

    def _centred(self, sums: Floats, *, are_centred: bool = False) -> Floats:
        """Return sums of deviations from the means of samples, minus their means over the units of a stratum."""
        rows = np.maximum(np.bincount(self.sample, self.rows, minlength=self.samples), 1.0)[:, None]
        means = np.where((rows < 2.0) | are_centred, 0.0, self._by_sample(sums) / rows)[self.sample]
        deviations = np.asarray(sums - means * self.rows[:, None])
        in_cell = np.bincount(self.cell)[:, None]
        if len(in_cell) == len(np.unique(self.sample)):
            return deviations
        own = sums_by_code(self.cell, deviations, len(in_cell)) / np.maximum(in_cell, 1)
        return deviations - np.where(in_cell < 2, 0.0, own)[self.cell]

    def _of_clusters(self, totals: Floats, deviations: Floats) -> tuple[Floats, ...]:
        """Return covariance, variance by part, units and degrees of freedom of these, and variance by sample."""
        G = np.bincount(self.part).astype(np.float64)
        factors = variance_factors(G)
        scaled = totals * np.sqrt(factors)[self.part][:, None]
        within = sums_by_code(self.part, scaled**2, len(G))
        carried = self._by_sample(deviations * (factors[self.part][:, None] * totals)[self.unit])
        return scaled.T @ scaled, within, G[:, None], np.maximum(G - 1.0, 1.0)[:, None], carried

    @property
    def _alone(self) -> tuple[int, ...]:
        """The samples with several rows and only one unit."""
        rows = np.bincount(self.sample, self.rows, minlength=self.samples)
        return tuple(np.flatnonzero((self.counted == 1) & (rows >= 2)).tolist())

    def _of_series(self, values: Floats, scale: Floats) -> tuple[Floats, ...]:
        """Return the same of values in time order: parts are samples, and units effective rows."""
        K, m = self.samples, len(scale)
        covariance, within = np.zeros((m, m)), np.zeros((K, m))
        effective, freedom = np.zeros((K, m)), np.ones((K, m))
        order = np.argsort(self.unit)
        for k in np.unique(self.sample).tolist():
            found = Autocorrelation(values[order[self.sample[order] == k]], scale)
            own = found.covariance()
            covariance += own
            within[k], effective[k], freedom[k] = np.diag(own), found.effective, found.freedom
        return covariance, within, effective, freedom, within

    @cached_property
    def counted(self) -> Integers:
        """How many units each sample has."""
        pairs = np.unique(np.column_stack([self.sample, self.unit]), axis=0)[:, 0]
        return np.bincount(pairs, minlength=self.samples)

    def _by_unit(self, entries: Floats) -> Floats:
        """Return sums of entries by unit."""
        return sums_by_code(self.unit, entries, int(self.unit.max()) + 1)

    def _by_sample(self, entries: Floats) -> Floats:
        """Return sums of entries by sample."""
        return sums_by_code(self.sample, entries, self.samples)

    @cached_property
    def part(self) -> Integers:
        """The part of each unit: its stratum, or all strata that some unit joins with it."""
        U, H = int(self.unit.max()) + 1, int(self.cell.max()) + 1
        graph = sparse.coo_array((np.ones(len(self.unit)), (self.unit, U + self.cell)), shape=(U + H, U + H))
        labels = sparse.csgraph.connected_components(graph, directed=False)[1][:U]
        return np.unique(labels, return_inverse=True)[1]


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


def tail_of(sizes: Floats) -> float:
    """Return the tail index of positive numbers."""
    if not sizes.max(initial=0.0) > 0:
        return np.nan
    relative = sizes / sizes.max()
    relative /= np.sqrt((relative**2).mean())
    logs = np.log(np.maximum(relative, np.exp(BIN * NOTHING)))
    places, place = np.unique(np.floor(logs / BIN), return_inverse=True)
    return hill(places, *(np.bincount(place, part).astype(np.float64) for part in (None, logs)))


def entries_of(source: Integers, counts: Floats, dependence: Dependence) -> tuple[Integers, Units]:
    """Return the entry of each row in memory among the units of rows that depend on one another, and these units."""
    cell = source if dependence.strata is None else dependence.strata
    if dependence.order is not None:
        unit = in_series(source, dependence.order)
    elif dependence.clusters is not None:
        unit = np.unique(dependence.clusters, return_inverse=True)[1]
    else:
        unit = np.arange(len(source))
    cell = np.unique(cell, return_inverse=True)[1]
    pair, first, entry = np.unique(
        unit * (int(cell.max()) + 1) + cell, return_index=True, return_inverse=True
    )  # sorted by unit
    rows = np.bincount(entry, counts, minlength=len(pair)).astype(np.float64)
    is_series = dependence.order is not None
    return entry, Units(unit[first], cell[first], source[first], rows, len(dependence.remaining), is_series)


def in_series(source: Integers, order: Integers, lengths: list[int] | None = None) -> Integers:
    """Return the value of a series that each row is summed to, numbered sample by sample in time order."""
    unit, first = np.empty(len(source), np.int64), 0
    rows = np.lexsort((order, source))
    ends = np.cumsum(np.bincount(source))
    for k, (low, high) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
        length = rows_a_value(high - low) if lengths is None else lengths[k]
        unit[rows[low:high]] = first + np.arange(high - low) // length
        first = int(unit[rows[high - 1]]) + 1 if high > low else first
    return unit


def rows_a_value(rows: int, most: int = 2**15) -> int:
    """Return how many successive rows are summed into one of at most so many values of a series: a power of two.

    >>> rows_a_value(1000), rows_a_value(100_000)
    (1, 4)
    """
    return 1 << max(0, int(np.ceil(np.log2(max(rows, 1) / most))))


def batch_length(N: int, g: float, least: int = 8) -> int:
    r"""Return how many successive values make a batch whose sums are nearly independent: :math:`(N g^2 / 4)^{1/3}`.

    There are at least so many batches, from which correlations between estimates are estimated.

    >>> batch_length(1500, 19.0)
    52
    """
    return max(min(int(np.ceil((N * g**2 / 4.0) ** (1.0 / 3.0))), N // least), 1)


def variance_shown(length: int, g: float, least: float = 0.5) -> float:
    r"""Return the part of the variance that sums over batches show, :math:`1 - (g - 1/g) / (2b)`.

    Correlations across their ends are lost; this is the part if correlations decay exponentially, at least ``least``.

    >>> round(variance_shown(52, 19.0), 3)
    0.818
    """
    return max(1.0 - (g - 1.0 / g) / (2.0 * length), least)


class Autocorrelation:
    """Values of shape (N, m) in time order, with mean zero, in units of their own if these are given."""

    def __init__(self, values: Floats, units: Floats | float = 1.0) -> None:
        self.values, self.units = values, units

    @cached_property
    def _found(self) -> tuple[Floats, Integers]:
        """Return g of each column, and the last lag that it sums."""
        m, at_once = self.values.shape[1], 16  # columns whose spectra are held
        g, last = np.ones(m), np.zeros(m, np.int64)
        for low in range(0, m, at_once):
            part = slice(low, low + at_once)
            g[part], last[part] = _integrated(self.values[:, part])
        return np.maximum(g, 1.0), last

    @property
    def g(self) -> Floats:
        """The integrated autocorrelation of each column."""
        return self._found[0]

    @property
    def effective(self) -> Floats:
        """How many independent values each column is worth."""
        return np.asarray(len(self.values) / self._found[0])

    @property
    def freedom(self) -> Floats:
        r"""Degrees of freedom of each variance: N / (2M + 1) for M lags."""
        return np.asarray(len(self.values) / (2.0 * self._found[1] + 1.0))

    def in_batches(self, g: float) -> Floats:
        """Return the sums over batches of successive values, for an integrated autocorrelation."""
        N = len(self.values)
        return np.asarray(np.add.reduceat(self.values, np.arange(0, N, batch_length(N, g)), axis=0))

    def covariance(self, rounding: float = 1e-9) -> Floats:
        r"""Return the covariance of the sums of the columns; ``rounding`` is relative to the largest error.

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
        moved = errors * self.units > rounding * (errors * self.units).max()  # what rounding leaves has a g of its own
        batches = self.in_batches(float(g[moved].max(initial=1.0)))
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
