r"""Where a distribution function steps, and its covariance: one text for all rows, wherever they are.

With m points t, :math:`g_i` the first of these that the value of row i does not exceed (m beyond the last), and F the
function,

.. math:: \phi_i(t) = r_i (1\{g_i \le t\} - F(t)) + q_i'b(t) = M'z_i,\qquad z_i = (r_i e_{g_i}, q_i),

so the covariance follows from sums of products of z, most of which are sums by cell: it takes neither n x m numbers nor
m x m products for each row.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vardi._estimate.tangent import Tangent
from vardi._machine.memory import require_memory
from vardi._rows.contract import Block
from vardi._rows.measure import Functions, Measure, as_functions
from vardi._rows.point import Seen
from vardi._rows.shares import Shares, SharesUpTo, shares_of
from vardi._types import Floats, are_once

ALONE = np.ones(1)  # weights of shares where there is one measure
ROUNDING = 1e-12  # of a probability


class Steps:
    """The steps of a function of the rows.

    Parameters
    ----------
    measure : Measure
        The rows at the solution.
    function : Functions
        The function.
    shares : SharesUpTo
        The share of the population, or of the domain, up to a value of the function.
    inside : Functions, optional
        1 on the rows of the domain whose distribution it is, and 0 on others; all rows by default.
    """

    def __init__(
        self, measure: Measure, function: Functions, shares: SharesUpTo, inside: Functions | None = None
    ) -> None:
        self._measure, self._function, self._shares, self._inside = measure, function, shares, inside

    @classmethod
    def in_memory(
        cls, measure: Measure, values: Floats, inside: Floats | None = None, shares: Shares | None = None
    ) -> Steps:
        """Return the steps of a function in memory, in a domain if one is given; its shares may be known already."""
        domain = None if inside is None else as_functions(inside[:, None])
        if shares is None:
            mass = measure.weights if are_once(measure.counts) else measure.weights * measure.counts
            some = measure.inside if inside is None else inside > 0.0
            kept = slice(None) if some is None else some
            total = measure.n if inside is None else float(mass[kept].sum())
            shares = shares_of(values[kept], [mass[kept]], np.array([total]))
        return cls(measure, as_functions(values[:, None]), shares, domain)

    @property
    def x(self) -> Floats:
        """The values at which F steps, in order."""
        return self._every[0]

    @property
    def heights(self) -> Floats:
        """F at these."""
        return self._every[1][:, 0]

    @cached_property
    def _every(self) -> tuple[Floats, Floats]:
        return self._shares.every()

    @property
    def is_of_domain(self) -> bool:
        """Whether it is the distribution in a domain."""
        return self._inside is not None

    def __str__(self) -> str:
        return str(self._shares)

    def grid(self, most: int, tail: float) -> tuple[Floats, Floats]:
        """Return values evenly spaced among the distinct ones with F from ``tail`` to 1 - ``tail``, and F there."""
        chosen = self._shares.grid(most, tail)
        return chosen, self._shares.up_to(chosen)[:, 0]

    def below(self, points: Floats) -> Functions:
        """Return whether each row's value is at most each point; for a domain, with its indicator as last column."""
        x, inside = self._function, self._inside

        def make(block: Block, at: Seen) -> Floats:
            below: Floats = np.multiply(x.of(block, at) <= points, 1.0)
            if inside is None:
                return below
            there = inside.of(block, at)
            return np.hstack([below * there, there])

        return Functions((), len(points) + self.is_of_domain, make)

    def before_last(self, value: float) -> float:
        """Return a value, or the last one before the largest, where F is 1 and has no error."""
        smallest, largest = self._shares.ends
        return value if value < largest or smallest == largest else self._shares.next_to(largest, -1)

    def inverse(self, q: float) -> float:
        """Return the smallest x with F(x) >= q."""
        return float(self._shares.reaching(ALONE, np.array([q - ROUNDING]))[0][0])

    def covariance(self, grid: Floats, value: Floats, tangent: Tangent) -> Floats:
        """Return the covariance of F at the points of a grid, where its values are known."""
        measure = self._measure
        is_small = len(measure.coordinates) <= len(grid) and len(measure.sizes) == len(measure.rows.sizes)
        if measure.rows.dependence.in_units or not is_small:
            return self._of_each_point(grid, value, tangent)
        return self._of_cells(grid, value, tangent)

    def _of_each_point(self, grid: Floats, value: Floats, tangent: Tangent) -> Floats:
        """Return the covariance from influence values at each point."""
        if self._measure.rows.dependence.in_units:
            one = np.ones((len(self._measure.rows.sizes), 1))
            units = len(self._measure.rows.over_units(lambda block: block.of_sample(one), 1)[0].rows)
            what = f"A band of {units:,} units at {len(grid)} points"
            require_memory(24 * units * len(grid), what, "Ask for the distribution function at some points.")
        eta, influence = tangent.influence(self.below(grid))
        if self._inside is not None:
            influence = influence @ (np.vstack([np.eye(len(grid)), -value]) / eta[-1])
        return influence.covariance()

    def _of_cells(self, grid: Floats, value: Floats, tangent: Tangent) -> Floats:
        """Return the covariance from sums by sample and by cell of the grid."""
        measure, x, inside = self._measure, self._function, self._inside
        scale = 1.0 if inside is None else 1.0 / float(measure.mean(inside)[0])
        K, d, size = len(measure.sizes), len(measure.coordinates), len(grid) + 1
        every, factors = np.eye(d), measure.factors
        is_q = measure.through is measure.point and not measure.point.model.families  # x is

        def by_cell(block: Block) -> tuple[Floats, Floats]:
            at = measure.point.at(block)
            r = at.weight if inside is None else at.weight * inside.of(block, at) * scale
            r = block.let(r)
            others = [] if is_q else [measure.through.at(block).q(every) * r]
            key = block.interval(x.of(block, at), grid) * K + block.of_sample(np.arange(float(K))[:, None])
            return key, np.hstack([r, r * r, at.x(every) * r, *others])

        def of_samples(block: Block) -> tuple[Floats, Floats]:
            q = block.let(measure.through.at(block).q(every))
            scaled = q * block.of_sample(np.sqrt(factors)[:, None])
            return block.by_sample(q), block.gram(scaled, scaled)

        keys, found = measure.rows.grouped(by_cell, 3 * d)
        sums = np.zeros((size, K, found.shape[1]))
        sums.reshape(size * K, -1)[np.array(keys, np.int64)] = found
        of_x = sums[:, :, 2 : 2 + d].sum(axis=1)
        b = tangent.jacobian.solve((np.cumsum(of_x, axis=0)[:-1] - value[:, None] * of_x.sum(axis=0)).T)
        M = np.vstack([(np.arange(size)[:, None] <= np.arange(len(grid))) - value, b])
        totals, squares = measure.rows.total(of_samples, 2 * d)
        products = np.zeros((size + d, size + d))
        products[np.arange(size), np.arange(size)] = sums[:, :, 1] @ factors
        products[:size, size:] = np.einsum("ckd,k->cd", sums[:, :, -d:], factors)
        products[size:, :size], products[size:, size:] = products[:size, size:].T, squares
        T = np.hstack([sums[:, :, 0].T, totals]) @ M
        n, beyond = measure.sizes[:, None], b[measure.coordinates.epsilon]
        # a single row deviates from the mean under the fitted law of its sample
        centre = np.where((n > 0) & (n < 2), b[measure.coordinates.u], T / np.maximum(n, 1.0))
        mixed = (T * factors[:, None]).T @ centre
        V = M.T @ products @ M - mixed - mixed.T + (centre * (factors[:, None] * n)).T @ centre
        return np.asarray(V + beyond.T @ beyond) / measure.n**2
