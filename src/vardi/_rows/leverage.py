r"""The part that each row has in its own fit: residuals at fitted constraints are too small.

With J the derivative of the equations, :math:`r_i` the weights, and means over the n rows or over sample k,

.. math::

    h_i = \frac{1}{n_k} + \frac1n \bigl[(r_i - \bar r_k) - (q_i - \bar q_k)'J^{-1}(x_i - \bar x)\bigr],\qquad
    \bar x = \frac1n \sum_i c_i r_i x_i

is one minus the derivative of :math:`\phi_i - \bar\phi_k` by :math:`r_i f_i`. So it depends on no estimate, and a
variance is that of :math:`(\phi_i - \bar\phi_k) / (1 - h_i)^{a/2}`. In a cell or a stratum it is one over the number of
rows there, and the variance is unbiased with a = 1. With estimated weights within cells a = 1.5 is nearer, which
matters only if known values and parameters take a good part of the rows.

A row that alone decides a known value, a parameter or a normaliser fits perfectly: h is 1, and nothing shows how far
off it may be. Its :math:`c_i^2` is borrowed from all others, as :math:`r_i^2 \sum_j c_j^2 / \sum_j r_j^2`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from vardi._rows.arrays import Arrays
from vardi._rows.contract import Block
from vardi._rows.grouping import sums_by_code
from vardi._rows.point import Point, PointAmong
from vardi._types import Floats, Integers
from vardi.errors import VardiWarning, number_of_rows
from vardi.errors._warn import warn

if TYPE_CHECKING:
    from vardi._rows.measure import Measure
    from vardi._rows.units import Units


@dataclass(frozen=True)
class Borrowed:
    """Rows that fit perfectly, whose deviations are taken from others: sums of squared weights of these and those.

    Attributes
    ----------
    rows : float
        How many rows fit perfectly, by their counts.
    squares, others : float
        The sums of squared weights of these, and of all others.
    """

    rows: float
    squares: float
    others: float

    @property
    def is_all(self) -> bool:
        """Whether there are no others, so that nothing is known of any spread."""
        return self.rows > 0 and not self.others > 0

    @property
    def share(self) -> float:
        """What they add to a variance, relative to that of the others; infinite if there are none."""
        return np.inf if self.is_all else self.squares / self.others


class Leverage:
    """The leverage of the rows of a measure.

    Parameters
    ----------
    measure : Measure
        The rows of all samples.
    point : Point or PointAmong
        Where the equations hold: of all samples, or of some that the solution rests on.
    inverse : ndarray of shape (d, d)
        The inverse of J in counts, zero for coordinates that are held fixed.
    much : float
        The part of the rows that known values and parameters take from which a is 1.5.
    perfect : float
        The leverage above which deviations are borrowed.
    """

    def __init__(
        self, measure: Measure, point: Point | PointAmong, inverse: Floats, *, much: float = 0.1, perfect: float = 0.95
    ) -> None:
        self.measure, self.point, self.inverse, self.much, self.perfect = measure, point, inverse, much, perfect

    @cached_property
    def _means(self) -> tuple[Floats, Floats]:
        """The means of r and q over each sample, and of r x over all rows.

        A sample of a single row deviates from its mean under the fitted law, whose weight is that of the normaliser.
        """
        measure, point, each = self.measure, self.point, np.eye(len(self.inverse))

        def question(block: Block) -> tuple[Floats, Floats]:
            at = point.at(block)
            return block.by_sample(np.hstack([at.weight, at.q(each)])), at.against(at.weight)

        sums, of_x = measure.rows.total(question, 2 * len(each))
        n = measure.sizes[:, None]
        means = measure.of_samples(sums) / np.maximum(n, 1.0)
        means = means[measure.samples]
        at = self.point.model.coordinates
        if at.samples == len(n) == len(sums):
            fitted = np.hstack([np.zeros((len(n), 1)), each[at.u]])
            means = np.where(n >= 2, means, fitted)
        return means, of_x[:, 0] / measure.n

    def parts(self, block: Block) -> tuple[Floats, Floats]:
        """Return two columns of 1 + d numbers whose products, summed, are the leverage of one row on another.

        They are that of the row that is fitted and that of the row that moves the fit; 1 / n_k is left out.
        """
        at, n = self.point.at(block), self.measure.n
        means, of_x = self._means
        centre, zero = means[:, :1] / n, np.zeros((1, 1))
        moved = block.let(at.q(np.eye(len(of_x))) - block.of_sample(means[:, 1:]))
        moves = block.let(self.inverse @ of_x - at.x(self.inverse.T))
        weight = block.let(at.weight * (1.0 / n) - block.of_sample(centre))
        return np.hstack([weight, moved]), np.hstack([weight * zero + 1.0, moves])

    def _of(self, block: Block) -> Floats:
        """Return h of the rows of a block."""
        least = self._least
        fitted, moving = self.parts(block)
        products: Floats = (fitted * moving) @ np.ones((len(self.inverse) + 1, 1))
        return np.maximum(products + block.of_sample(least), block.of_sample(least))

    @property
    def _least(self) -> Floats:
        """1 / n_k, and 0 for a single row."""
        n = self.measure.sizes[self.measure.samples][:, None]
        return np.where(n >= 2, 1.0 / np.maximum(n, 1.0), 0.0)

    @cached_property
    def _kept(self) -> Floats | None:
        """H of rows in memory."""
        rows = self.measure.rows
        return rows.column(self._of, 1) if isinstance(rows, Arrays) else None

    def of(self, block: Block) -> Floats:
        """Return h of the rows of a block."""
        return block.let(self._of(block)) if self._kept is None else block.columns(self._kept)

    @cached_property
    def _sums(self) -> tuple[float, float, Borrowed]:
        """The sum of h, that of h beyond 1 / n_k, and the rows that fit perfectly."""
        point, least = self.point, self._least

        def question(block: Block) -> Floats:
            h, r = self.of(block), point.at(block).weight
            perfect = block.let((h > self.perfect) * 1.0)
            squares = block.let(r * r)
            beyond = h - block.of_sample(least)
            return block.sum(np.hstack([h, beyond, perfect, squares * perfect, squares * (1.0 - perfect)]))

        h, beyond, rows, squares, others = self.measure.rows.total(question, 5).tolist()
        borrowed = Borrowed(rows, squares, others)
        if rows:
            warn(VardiWarning(_alone(borrowed)))
        return h, beyond, borrowed

    @property
    def borrowed(self) -> Borrowed:
        """The rows that fit perfectly."""
        return self._sums[2]

    def power(self, units: float | None = None) -> float:
        """Return the exponent a, for so many independent units: by default all rows."""
        units = self.measure.n if units is None else units
        return 1.5 if self._sums[1] > self.much * units and not self._is_pure else 1.0

    @cached_property
    def _is_pure(self) -> bool:
        """Whether rows that are fitted alike are a cell or a stratum: there are as many kinds as the sum of h.

        Rows are told apart by one combination of all that is fitted, with arbitrary coefficients.
        """
        h, rounding, point = self._sums[0], 1e-6, self.point
        most = round(h)
        if abs(h - most) > rounding * most:
            return False
        generic = np.random.default_rng(0).uniform(1.0, 2.0, (len(self.inverse), 1))
        of_sample = np.random.default_rng(1).uniform(10.0, 20.0, (len(self.measure.samples), 1))

        def kind(block: Block) -> Floats:
            return np.floor((point.at(block).q(generic) + block.of_sample(of_sample)) * (1.0 / rounding))

        return self.measure.rows.kinds_of(kind, most) == most

    def root(self, block: Block, *, beyond: bool = False) -> Floats:
        """Return (1 - h)^(-a/2), and 0 for rows that fit perfectly; with h beyond 1 / n_k alone, if that is asked."""
        h = self.of(block)
        known = block.let((h <= self.perfect) * 1.0)
        left = block.let(1.0 - h * known)
        if beyond:
            left = left / (1.0 - block.of_sample(self._least))
        return block.let(known * left ** (-self.power() / 2.0))

    def shape(self, block: Block) -> Floats:
        """Return the shape of the gamma law of how often each row counts in a draw of all of them."""
        return block.let(self._shape(self.of(block), self.power()))

    def shape_of_clusters(self, units: Units) -> Floats:
        """Return the same for clusters, whose leverage is that on a value that is the same on all their rows."""
        size, clusters = len(self.inverse) + 1, int(units.unit.max()) + 1

        def question(block: Block) -> Floats:
            return np.hstack(self.parts(block))

        sums = sums_by_code(units.unit, self.measure.rows.over_units(question, 2 * size)[1], clusters)
        h = (sums[:, :size] * sums[:, size:]).sum(axis=1) / np.bincount(units.unit, units.rows)
        least = 1.0 / np.bincount(units.part)[units.part]
        return np.asarray(self._shape(np.maximum(h + least, least), self.power(clusters)))

    def _shape(self, h: Floats, power: float, least: float = 0.2) -> Floats:
        """Return (1 - h)^a - h: in a cell of g rows the mean then has its variance, g / (g - 1) that of the values.

        Below the least shape a draw may lose all rows of a cell but for a trace, and has no fit.
        """
        left = np.maximum(1.0 - h, 0.0)
        return np.maximum(left**power - h, least)

    def of_units(self, unit: Integers, most: int = 2**26) -> Floats | None:
        r"""Return a of each cluster c, with which the adjusted sum of its deviations is that of (1 + a'v_i) phi_i.

        With u and v the two columns of ``parts``, :math:`H_c = u v'` is the leverage of the rows of a cluster on one
        another, and

        .. math:: 1'(I - H_c)^{-1} = 1' + a_c'v',\qquad a_c' = 1'u\,(I - v'u)^{-1}.

        Eigenvalues of H are capped where a part of the cluster fits perfectly. None if that takes more than so many
        numbers, as with very many clusters.

        Parameters
        ----------
        unit : ndarray of int of shape (E,)
            The cluster of each entry of the units of rows.
        """
        size, clusters = len(self.inverse) + 1, int(unit.max()) + 1
        if len(unit) * size * (size + 1) > most:
            return None

        def question(block: Block) -> Floats:
            fitted, moving = self.parts(block)
            fitted, moving = block.let(fitted), block.let(moving)
            return np.hstack([fitted, *(moving[:, [a]] * fitted for a in range(size))])

        sums = sums_by_code(unit, self.measure.rows.over_units(question, size * (size + 1))[1], clusters)
        fitted, products = sums[:, :size], sums[:, size:].reshape(-1, size, size)
        large = np.flatnonzero(np.trace(products, axis1=1, axis2=2) > self.perfect)
        products[large] = _capped(products[large], self.perfect)
        a = np.linalg.solve(np.eye(size) - np.swapaxes(products, 1, 2), fitted[:, :, None])
        return np.asarray(a[:, :, 0], np.float64)

    def added_to_units(self, unit: Integers, a: Floats, of_rows: Callable[[Block], Floats], m: int) -> Floats:
        """Return what leverage adds to the sums over clusters of m columns: the sums of a'v_i times these, (U, m)."""
        size, clusters = a.shape[1], len(a)
        at_once = max(int(2**24 / (len(unit) * size)), 1)
        found = np.empty((clusters, m))
        for low in range(0, m, at_once):
            chosen = np.arange(low, min(low + at_once, m))

            def question(block: Block, chosen: Integers = chosen) -> Floats:
                phi, moving = block.let(of_rows(block)), block.let(self.parts(block)[1])
                return np.hstack([moving * phi[:, [j]] for j in chosen.tolist()])

            sums = self.measure.rows.over_units(question, size * len(chosen))[1]
            of_units = sums_by_code(unit, sums, clusters).reshape(clusters, len(chosen), size)
            found[:, chosen] = np.einsum("ujs,us->uj", of_units, a)
        return found


def _alone(borrowed: Borrowed) -> str:
    """Return what is to be said of rows that fit perfectly."""
    rows, does = number_of_rows(round(borrowed.rows)), "determines" if borrowed.rows == 1 else "each determine"
    fact = (
        f"{rows} alone {does} a known value, a parameter or a normaliser, as the only row of a cell or stratum does, "
        "so nothing shows how far off it may be."
    )
    if borrowed.is_all:
        return f"{fact} These are all rows: no standard error is given. Merge cells or strata, or add rows."
    return (
        f"{fact} Errors take its part from the other rows, as if all varied alike: merge cells or strata, or add rows."
    )


def _capped(matrices: Floats, most: float) -> Floats:
    """Return matrices whose eigenvalues are at most so large."""
    values, vectors = np.linalg.eig(matrices)
    values = np.where(values.real > most, most, values)
    return np.asarray(np.real((vectors * values[:, None, :]) @ np.linalg.inv(vectors)), np.float64)
