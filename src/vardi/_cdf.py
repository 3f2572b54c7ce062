"""The debiased distribution function, its quantiles, and a band that covers it everywhere at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vardi._estimates import Estimate, quantile_of_normal
from vardi._influence import Influence
from vardi._rows.grouping import membership
from vardi._sums import Floats
from vardi.errors import MismatchError

GRID = 200  # points of a band
BATCH = 10_000_000  # multipliers drawn at once
TAIL = 0.02  # the band leaves out this much of the distribution at either end: few rows speak there


@dataclass(frozen=True)
class Band:
    """A simultaneous confidence band.

    Attributes
    ----------
    x : ndarray
        Where the band is given; between these points the cdf is a step function of the rows.
    value, low, high : ndarray
        The cdf there, and the ends of the band.
    level : float
        Nominal probability that the band covers the whole cdf between its first and its last point.
    """

    x: Floats
    value: Floats
    low: Floats
    high: Floats
    level: float


class DebiasedCdf:
    r"""The weighted distribution function of a column, :math:`F(t) = \sum_i \pi_i 1\{x_i \le t\}`.

    Examples
    --------
    >>> import vardi
    >>> design = vardi.datasets.length_bias(seed=1)
    >>> cdf = vardi.debias(design.samples, design.biases).cdf("x")
    >>> print(cdf(3.0))
    0.556 ± 0.026 (95%: 0.505 to 0.607)
    >>> print(cdf.quantile(0.5))
    2.72 ± 0.11 (95%: 2.58 to 3.00)
    """

    def __init__(self, influence: Influence, values: Floats, *, trusted: bool) -> None:
        self._influence, self._values, self._trusted = influence, values, trusted
        counts = influence.strata.counts
        mass = influence.weights if counts is None else influence.weights * counts
        self.x, place = np.unique(values, return_inverse=True)
        self.heights = np.minimum(np.cumsum(np.bincount(place, mass)) / influence.n, 1.0)

    def __call__(self, t: Any, level: float = 0.95) -> Any:
        """Return F(t): an Estimate for a number, Estimates for several."""
        points = np.atleast_1d(np.asarray(t, np.float64))
        below = (self._values[:, None] <= points).astype(np.float64)
        estimates = self._influence.estimates(below, level, trusted=self._trusted)
        return estimates[0] if np.ndim(t) == 0 else estimates

    def quantile(self, q: float, level: float = 0.95) -> Estimate:
        """Return the smallest x with F(x) >= q.

        Its interval is Woodruff's: the quantiles at q -+ z times the error of F there, which needs no density. The
        standard error is the half width of that interval over z.
        """
        if not 0.0 < q < 1.0:
            raise MismatchError(
                f"The quantile {q} is not between 0 and 1. Give a probability, such as 0.5 for the median.",
                expected=("between 0 and 1",),
                got=(q,),
            )
        value = self._inverse(q)
        z = quantile_of_normal(level)
        margin = z * self(value, level).stderr
        if math.isnan(margin):
            return Estimate(value, math.nan, level)
        low, high = self._inverse(q - margin), self._inverse(q + margin)
        return Estimate(value, (high - low) / (2.0 * z), level, interval=(low, high))

    def band(self, level: float = 0.95, *, draws: int = 1000, seed: int = 0) -> Band:
        r"""Return a band that covers the whole function at once, by Gaussian multipliers of the influence values.

        The width is the same everywhere: the quantile of :math:`\sup_t |\sum_i \xi_i C_i(t)|` over draws of independent
        normal :math:`\xi_i`, with C the influence values of F(t), centred within samples.

        Parameters
        ----------
        level : float
            Nominal coverage.
        draws : int
            How many draws of multipliers.
        seed : int
            Seed of the draws.
        """
        quantile_of_normal(level)
        inner = self.x[(self.heights >= TAIL) & (self.heights <= 1.0 - TAIL)]
        grid = inner[np.unique(np.linspace(0, len(inner) - 1, min(GRID, len(inner))).astype(int))]
        value = self.heights[np.searchsorted(self.x, grid)]
        if not self._trusted:
            return Band(grid, value, np.full(len(grid), math.nan), np.full(len(grid), math.nan), level)
        suprema = self._suprema(grid, value, draws, np.random.default_rng(seed))
        width = float(np.quantile(suprema, level))
        return Band(grid, value, np.maximum(value - width, 0.0), np.minimum(value + width, 1.0), level)

    def _suprema(self, grid: Floats, value: Floats, draws: int, rng: np.random.Generator) -> Floats:
        r"""Draw :math:`\sup_t |Z(t)|`, :math:`Z(t) = \sum_i \zeta_i \phi_i(t)`, multipliers centred within samples.

        As :math:`\phi_i(t) = r_i (1\{x_i \le t\} - F(t)) + p_i'b(t)`, only sums by cell of the grid are needed, and
        never the n x grid values of the influence function.
        """
        influence, strata = self._influence, self._influence.strata
        cells = membership(np.searchsorted(grid, self._values), len(grid) + 1, None)
        r, counts = influence.weights, strata.counts if strata.counts is not None else np.ones(len(self._values))
        weighted = influence.mix(np.eye(len(influence.u))) * (r * counts)[:, None]
        a = np.cumsum(cells @ weighted, axis=0)[:-1] - value[:, None] * weighted.sum(axis=0)
        b = influence.solve(a.T)
        suprema = []
        for batch in np.array_split(np.arange(draws), max(1, draws * len(r) // BATCH)):
            zeta = strata.scatter(rng.standard_normal((len(r), len(batch))))
            first = np.cumsum(cells @ (zeta * r[:, None]), axis=0)[:-1] - np.outer(value, r @ zeta)
            Z = first + b.T @ influence.project(zeta / counts[:, None])
            suprema.append(np.abs(Z).max(axis=0))
        return np.concatenate(suprema)

    def _inverse(self, q: float) -> float:
        return float(self.x[min(int(np.searchsorted(self.heights, q - 1e-12)), len(self.x) - 1)])
