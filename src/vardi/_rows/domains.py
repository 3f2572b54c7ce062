r"""Means within domains of rows in memory: for each a function with mean zero and the influence of the ratio.

A domain j lies within a base B, and its number is a ratio of two expectations,

.. math::

    \mu_j = \frac{E_P[y\,1_j]}{E_P[1_B]},\qquad h_j = \frac{y\,1_j - \mu_j 1_B}{E_P[1_B]}.

With B = j it is the mean of y in the domain, with B everything the part of the mean that is in it. Since
:math:`E_P h_j = 0`, the influence on :math:`\mu_j` is that of a mean: :math:`r_i h_{ij} + q_i'b_j`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vardi._machine.memory import require_memory
from vardi._rows.contract import Evenness
from vardi._rows.measure import Measure
from vardi._types import Floats, Integers

NUMBERS = 2**24  # influence values held at once


@dataclass(frozen=True, eq=False)
class DomainSums:
    """Sums over the rows of each of G domains.

    Attributes
    ----------
    rows, mass, total : ndarray of shape (G,)
        Counted rows; and sums of their weights r, and of r y.
    squares, largest : ndarray of shape (G,)
        Sums of r^2, and the largest r.
    events, strays : ndarray of shape (G,)
        Counted rows on which y is not 0; and whether it is neither 0 nor 1 on some.
    event_squares : ndarray of shape (G,)
        Sums of r^2 over the rows on which y is not 0.
    low, high : ndarray of shape (G,)
        The smallest and the largest y.
    base : ndarray of int of shape (G,)
        The place of each domain's base.
    """

    rows: Floats
    mass: Floats
    total: Floats
    squares: Floats
    largest: Floats
    events: Floats
    event_squares: Floats
    strays: Floats
    low: Floats
    high: Floats
    base: Integers

    def __len__(self) -> int:
        return len(self.base)

    @cached_property
    def base_mass(self) -> Floats:
        """The sum of weights of the base of each domain."""
        return self.of_base(self.mass)

    @cached_property
    def mean(self) -> Floats:
        r""":math:`\mu_j`."""
        return self.total / self.base_mass

    def of_base(self, sums: Floats) -> Floats:
        """Return sums over the base of each domain, from sums over domains along the first axis."""
        found = np.zeros((int(self.base.max()) + 1, *sums.shape[1:]))
        np.add.at(found, self.base, sums)
        return found[self.base]

    def is_share(self, j: int) -> bool:
        """Return whether the number of a domain is a share."""
        return not self.strays[j]

    def is_constant(self, j: int) -> bool:
        """Return whether y is the same on all rows of a domain that is its own base."""
        return bool(self.low[j] == self.high[j] and np.count_nonzero(self.base == self.base[j]) == 1)

    def others(self, j: int) -> float:
        """Return how many rows of the base are not among those that a share counts."""
        return float(self.rows[self.base == self.base[j]].sum() - self.events[j])

    def evenness(self, j: int) -> Evenness:
        """Return how evenly the weights are spread over the base of a domain."""
        mine = self.base == self.base[j]
        return Evenness(float(self.mass[mine].sum()), float(self.squares[mine].sum()), float(self.largest[mine].max()))

    def evenness_of_events(self, j: int) -> Evenness:
        """Return how evenly they are spread over the rows that a share counts."""
        return Evenness(float(self.total[j]), float(self.event_squares[j]), float(self.largest[j]))


class RowDomains:
    """Domains of rows in memory, and a function of the rows.

    Parameters
    ----------
    rows : Measure
        The rows at the solution.
    values : ndarray of shape (n,)
        y.
    codes : ndarray of int
        The place of the domain of each row; -1 for rows that do not count.
    base : ndarray of int of shape (G,)
        The place of the base of each domain.
    """

    def __init__(self, rows: Measure, values: Floats, codes: Integers, base: Integers) -> None:
        self.rows, self.values, self.codes, self.base = rows, values, codes, base
        self.at_once = max(NUMBERS // max(len(values), 1), 1)

    @cached_property
    def sums(self) -> DomainSums:
        """The sums behind means and their distributions."""
        inside = self.codes >= 0
        codes, G = self.codes[inside], len(self.base)
        y, c, r = (one[inside] for one in (self.values, self.rows.counts, self.rows.weights))

        def summed(values: Floats) -> Floats:
            return np.bincount(codes, values, minlength=G).astype(np.float64)

        low, high, largest = np.full(G, np.inf), np.full(G, -np.inf), np.zeros(G)
        np.minimum.at(low, codes, y)
        np.maximum.at(high, codes, y)
        np.maximum.at(largest, codes, r)
        return DomainSums(
            rows=summed(c),
            mass=summed(c * r),
            total=summed(c * r * y),
            squares=summed(c * r**2),
            largest=largest,
            events=summed(c * (y != 0.0)),
            event_squares=summed(c * r**2 * (y != 0.0)),
            strays=summed(((y != 0.0) & (y != 1.0)).astype(np.float64)),
            low=low,
            high=high,
            base=self.base,
        )

    def functions(self, places: Integers) -> Floats:
        """Return h of the given domains, of shape (n, m)."""
        found = self.sums
        require_memory(
            3 * 8 * len(self.values) * len(places),
            f"The influence of {len(self.values):,} rows on {len(places)} domains",
            "Ask for differences of two domains instead of the covariance of all.",
        )
        event = (self.codes[:, None] == places) * self.values[:, None]
        inside = self._base_of_rows[:, None] == self.base[places]
        return (event - found.mean[places] * inside) * (self.rows.n / found.base_mass[places])

    @cached_property
    def _base_of_rows(self) -> Integers:
        return np.where(self.codes < 0, -1, self.base[self.codes])

    def event(self, j: int) -> NDArray[np.bool_]:
        """Return the rows of a domain on which y is not 0."""
        return np.asarray((self.codes == j) & (self.values != 0.0))

    def inside(self, j: int) -> NDArray[np.bool_]:
        """Return the rows of the base of a domain."""
        return np.asarray(self._base_of_rows == self.base[j])

    def against(self, places: Integers, functions: Floats) -> Floats:
        """Return sum_i c_i r_i h_i x_i, of shape (d, m)."""
        return self.rows.against(functions, np.zeros(len(places)))

    def naive(self, places: Integers, functions: Floats) -> Floats:
        """Return sum_i c_i (r_i h_i)^2: n^2 times the variance if the weights were known."""
        return self.rows.counts @ np.square(functions * self.rows.weights[:, None])
