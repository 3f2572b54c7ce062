r"""Means within domains of rows: for each a function with mean zero and the influence of the ratio.

A domain j lies within a base B, and its number is a ratio of two expectations,

.. math::

    \mu_j = \frac{E_P[y\,1_j]}{E_P[1_B]},\qquad h_j = \frac{y\,1_j - \mu_j 1_B}{E_P[1_B]}.

With B = j it is the mean of y in the domain, with B everything the part of the mean that is in it. Since
:math:`E_P h_j = 0`, the influence on :math:`\mu_j` is that of a mean: :math:`r_i h_{ij} + q_i'b_j`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vardi._inputs.domains import By, in_domains
from vardi._rows.contract import Block, ByKey, Evenness, Holder
from vardi._rows.measure import Functions, Measure
from vardi._types import Floats, Integers
from vardi.errors._refusals import not_finite

if TYPE_CHECKING:
    from vardi._rows.lazy_values import DomainColumns


@dataclass(frozen=True, eq=False)
class DomainSums:
    """Sums over the rows of each of G domains.

    Attributes
    ----------
    base : ndarray of int of shape (G,)
        The place of each domain's base.
    rows, mass, total, squares : ndarray of shape (G,)
        Counted rows; and sums of their weights r, of r y, and of r^2.
    events, event_squares : ndarray of shape (G,)
        Counted rows on which y is not 0, and sums of r^2 over these.
    strays, endless : ndarray of shape (G,)
        Whether y is neither 0 nor 1 on some rows, and on how many it is not finite.
    smallest, low, largest, high : ndarray of shape (G,)
        The smallest r and y, and the largest.
    """

    base: Integers
    rows: Floats
    mass: Floats
    total: Floats
    squares: Floats
    events: Floats
    event_squares: Floats
    strays: Floats
    endless: Floats
    smallest: Floats
    low: Floats
    largest: Floats
    high: Floats

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

    def is_constant(self, j: int) -> bool:
        """Return whether y is the same on all rows of a domain that is its own base."""
        return bool(self.low[j] == self.high[j] and np.count_nonzero(self.base == self.base[j]) == 1)

    def others(self, j: int) -> float:
        """Return how many rows of the base are not among those that a share counts."""
        return float(self.rows[self.base == self.base[j]].sum() - self.events[j])


class DomainCodes:
    """The domain of each row in memory.

    Parameters
    ----------
    codes : ndarray of int
        The place of the domain of each row; -1 for rows that do not count.
    base : ndarray of int of shape (G,)
        The place of the base of each domain.
    """

    def __init__(self, codes: Integers, base: Integers) -> None:
        self.key, self.base = codes, base
        self._base_of_rows = np.where(codes < 0, -1, base[codes])

    def places(self, keys: Sequence[Any]) -> Integers:
        """Return the domains that values of the key, by which rows are grouped, stand for; -1 if they do not count."""
        return np.array(keys, np.int64)

    def within(self, places: Integers) -> Functions:
        """Return 1 on the rows of some domains, and 0 on others."""
        return Functions((), len(places), lambda block, at: block.columns(self.key) == places)

    def within_base(self, places: Integers) -> Functions:
        """Return 1 on the rows of the bases of some domains, and 0 on others."""
        return Functions((), len(places), lambda block, at: block.columns(self._base_of_rows) == self.base[places])


@dataclass(frozen=True, eq=False)
class RowsByDomain:
    """Domains of rows, and a function of the rows.

    Attributes
    ----------
    measure : Measure
        The rows at the solution.
    rows : Holder
        Those of the samples in question.
    y : Functions or None
        The function; 1 for None.
    by : By
        The columns that define the domains.
    keys : sequence of tuple
        The value of each domain in each column.
    labels : DomainCodes or DomainColumns
        The domain of each row.
    base : ndarray of int of shape (G,)
        The place of the base of each domain.
    """

    measure: Measure
    rows: Holder
    y: Functions | None
    by: By
    keys: Sequence[tuple[Any, ...]]
    labels: DomainCodes | DomainColumns
    base: Integers

    @cached_property
    def sums(self) -> DomainSums:
        """The sums behind means and their distributions, in one pass."""

        def question(block: Block) -> ByKey:
            y, r = self._value(block), self.measure.weight(block)
            event, squares = (y != 0.0) * 1.0, block.let(r * r)
            strays, endless = np.abs(y * (1.0 - y)), 1.0 - np.isfinite(y)
            summed = [r * 0.0 + 1.0, r, r * y, squares, event, event * squares, strays, endless]  # as in DomainSums
            return block.columns(self.labels.key), np.hstack(summed), np.hstack([r, y])

        nothing = [0.0] * 8 + [np.inf, np.inf, 0.0, -np.inf]
        sums = DomainSums(self.base, *self._by_domain(question, 10, nothing))
        if self.y is not None and self.y.names and sums.endless.any():
            ((_, name),) = self.y.names
            raise in_domains(not_finite(int(sums.endless.sum()), name), self.by, self.keys, sums.endless)
        return sums

    @cached_property
    def factor(self) -> float:
        """The number c if y is c on some rows and 0 on all others; 1 otherwise."""
        every = np.append(self.sums.low, self.sums.high)
        ends = set(every[np.isfinite(every)].tolist())
        if self.y is None or len(ends) != 2 or 0.0 not in ends or 1.0 in ends:
            return 1.0
        (found,) = ends - {0.0}
        return 1.0 if self.measure.means(self.over(found).y).strays[0] else found

    def over(self, factor: float) -> RowsByDomain:
        """Return the same domains with y divided by a number."""
        y = self.y
        assert y is not None
        return replace(self, y=Functions(y.values, 1, lambda block, at: y.of(block, at) / factor))

    def _value(self, block: Block) -> Floats:
        at = self.measure.point.at(block)
        return at.weight * 0.0 + 1.0 if self.y is None else self.y.of(block, at)

    def _by_domain(self, question: Callable[[Block], ByKey], width: int, without_rows: Sequence[float]) -> Floats:
        """Return what is asked of the rows of each domain, of shape (m, G)."""
        keys, sums = self.rows.grouped(question, width)
        places = self.labels.places(keys)
        found = np.tile(np.array(without_rows)[:, None], len(self.base))
        found[:, places[places >= 0]] = sums[places >= 0].T
        return found

    def functions(self, places: Integers) -> Functions:
        """Return h of the given domains."""
        mean, scale = self.sums.mean[places], self.measure.n / self.sums.base_mass[places]
        within = self.labels.within(places)
        _, first, own = np.unique(self.base[places], return_index=True, return_inverse=True)
        base = self.labels.within_base(places[first])

        def h(block: Block, at: Any) -> Floats:
            event, inside = within.of(block, at), base.of(block, at)[:, own]
            return (event * self._value(block) - inside * mean) * scale

        def h_of_bases(block: Block, at: Any) -> Floats:
            return (self._value(block) - mean) * within.of(block, at) * scale

        return Functions((), len(places), h_of_bases if self._are_bases.all() else h)

    @cached_property
    def _are_bases(self) -> NDArray[np.bool_]:
        """Which domains are bases of their own."""
        return np.asarray(np.bincount(self.base)[self.base] == 1)

    def evenness(self, j: int) -> Evenness:
        """Return how evenly the weights are spread over the base of a domain."""
        if self.measure.in_clusters:
            return self.measure.evenness_of(self.labels.within_base(np.array([j])))
        sums, mine = self.sums, self.base == self.base[j]
        return Evenness(float(sums.mass[mine].sum()), float(sums.squares[mine].sum()), float(sums.largest[mine].max()))

    def evenness_of_events(self, j: int) -> Evenness:
        """Return how evenly they are spread over the rows that a share counts: those of the domain where y is not 0."""
        if self.measure.in_clusters:
            within = self.labels.within(np.array([j]))
            return self.measure.evenness_of(
                Functions((), 1, lambda block, at: within.of(block, at) * (self._value(block) != 0.0))
            )
        sums = self.sums
        return Evenness(float(sums.total[j]), float(sums.event_squares[j]), float(sums.largest[j]))

    def against(self, places: Integers) -> Floats:
        """Return sum_i c_i r_i h_i x_i, of shape (d, m)."""
        return self._products[0][:, places]

    def naive(self, places: Integers) -> Floats:
        """Return sum_i c_i (r_i h_i)^2: n^2 times the variance if the weights were known."""
        return self._products[1][places]

    @cached_property
    def _products(self) -> tuple[Floats, Floats]:
        """Sums of h against x, and of its square, in one pass, for y minus its mean over all domains."""
        sums, d = self.sums, len(self.measure.coordinates)
        centre = float(sums.total.sum() / sums.mass.sum())

        def question(block: Block) -> ByKey:
            at = self.measure.point.at(block)
            r, y = at.weight, block.let(self._value(block) - centre)
            first = block.let(r * y)
            return block.columns(self.labels.key), [*at.times(r), *at.times(first), r * first, first * first]

        found = self._by_domain(question, 2 * d + 2, [0.0] * (2 * d + 2))
        plain, with_y, first, second = found[:d], found[d : 2 * d], found[-2], found[-1]
        scale = self.measure.n / sums.base_mass
        of_base = sums.of_base(plain.T).T
        # in a domain that is its base y minus its centre keeps digits that y itself loses
        own = with_y - (sums.mean - centre) * plain
        against = np.where(self._are_bases, own, with_y + centre * plain - sums.mean * of_base) * scale
        return against, self._squares(first, second, centre) * scale**2

    def _squares(self, first: Floats, second: Floats, centre: float) -> Floats:
        """Return sum_i c_i r_i^2 (y 1_j - mu_j 1_B)^2, from sums of r^2 (y - centre) and of r^2 (y - centre)^2."""
        sums, mu = self.sums, self.sums.mean
        of_y = second + 2.0 * (centre - mu) * first + (centre - mu) ** 2 * sums.squares
        return np.maximum(of_y + mu**2 * (sums.of_base(sums.squares) - sums.squares), 0.0)
