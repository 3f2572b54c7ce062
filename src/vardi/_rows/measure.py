r"""Rows at a solution, each with its weight: the basis for estimates, wherever the rows are.

.. math::

    \eta = \frac1n \sum_i c_i r_i f_i,\qquad a = \sum_i c_i r_i (f_i - \eta)\,x_i,\qquad
    \phi_i = r_i (f_i - \eta) + q_i'b.

Influence values are held as their coefficients (f, eta, b) until they are summed, so that memory does not grow with
rows times estimates. A mean takes one pass over the rows, a the second, the covariance the third.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vardi._rows.arrays import Arrays
from vardi._rows.contract import (
    Block,
    ByKey,
    Coordinates,
    Evenness,
    Extremes,
    Holder,
    Kept,
    Means,
    Question,
    Result,
    Spread,
    members,
    unit_of,
)
from vardi._rows.grouping import variance_factors
from vardi._rows.leverage import Leverage
from vardi._rows.point import Point, PointAmong, Seen
from vardi._rows.units import BIN, NOTHING, hill
from vardi._types import Floats, Integers
from vardi.errors._refusals import not_finite

LARGE = 2.0**200  # deviations whose fourth powers, and sums of these, do not overflow
KINDS, ALIKE = 32, 10  # distinct weights, and rows of each, that do not make a tail: bounded, as for conditions
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Functions:
    """Functions of the rows.

    Attributes
    ----------
    values : Kept
        Numbers of the rows, in the form in which their holder keeps them.
    width : int
        How many functions there are.
    make : callable, optional
        Returns the functions from a block, and from its rows at the point of a measure; by default the values are them.
    weighed : bool
        Whether these are r_i f_i, which stays finite where f alone would not.
    """

    values: Kept
    width: int
    make: Callable[[Block, Any], Floats] | None = None
    weighed: bool = False

    def of(self, block: Block, at: Seen) -> Floats:
        """Return f, or r f."""
        return block.columns(self.values) if self.make is None else self.make(block, at)

    def over(self, block: Block, at: Seen, eta: Floats, C: Floats | None = None) -> Floats:
        """Return r (f - eta), or r (f'C - eta), without losing digits to an offset of f."""
        f = self.of(block, at)
        f = f if C is None or np.array_equal(C, np.eye(self.width)) else f @ C
        return f - at.weight * eta if self.weighed else (f - eta) * at.weight

    def column(self, j: int) -> Functions:
        """Return one of the functions."""
        if j < 0:
            j += self.width
        return Functions(self.values, 1, lambda block, at: self.of(block, at)[:, [j]], self.weighed)

    @property
    def names(self) -> list[tuple[int, str]]:
        """Functions of an engine whose values were not looked at yet, with their names in messages."""
        if self.make is not None or isinstance(self.values, np.ndarray):
            return []
        return [(j, one.name) for j, one in enumerate(self.values) if one.name is not None]


def as_functions(given: Functions | Kept) -> Functions:
    """Return numbers of the rows, of shape (n, m), or functions of frames, as functions."""
    if isinstance(given, Functions):
        return given
    return Functions(given, given.shape[1] if isinstance(given, np.ndarray) else len(given))


def weighed(values: Floats) -> Functions:
    """Return functions that are given as r_i f_i, of shape (n, m)."""
    return Functions(values, values.shape[1], weighed=True)


def nothing(m: int) -> Functions:
    """Return m functions that are zero on every row."""
    return Functions((), m, lambda block, at: at.weight * np.zeros(m), weighed=True)


@dataclass(frozen=True, eq=False)
class Values:
    """Influence values of m estimates, as formulas: they are linear in (C, eta, b), and so are combinations of them.

    Attributes
    ----------
    terms : mapping of (Point or PointAmong, Functions) to ndarray of shape (width + 1, m)
        C and below it eta: functions of the rows contribute r (f'C - eta), with the weights at a point.
    through : mapping of Point or PointAmong to ndarray of shape (d, m)
        b: rows contribute q'b through the coordinates of a point.
    """

    terms: Mapping[tuple[Point | PointAmong, Functions], Floats]
    through: Mapping[Point | PointAmong, Floats]

    @property
    def width(self) -> int:
        """How many estimates there are."""
        return next(b.shape[1] for b in self.through.values())

    def of(self, block: Block) -> Floats:
        """Return the values on the rows of a block."""
        moved = (point.at(block).q(b) for point, b in self.through.items() if b.any())
        return sum(moved, start=self.of_functions(block))

    def of_functions(self, block: Block) -> Floats:
        """Return what functions of the rows contribute."""
        return reduce(add, (f.over(block, point.at(block), T[-1], T[:-1]) for (point, f), T in self.terms.items()))

    @property
    def centres(self) -> Floats:
        """The mean in each sample under its fitted law, up to rounding, of shape (K, m)."""
        return np.asarray(sum(b[point.model.coordinates.u] for point, b in self.through.items()))

    def __matmul__(self, coefficients: Floats) -> Values:
        """Return those of linear combinations of the estimates, with coefficients of shape (m, k)."""
        with np.errstate(over="ignore", invalid="ignore"):  # of a number beyond e^709 only the log is finite
            terms = {key: T @ coefficients for key, T in self.terms.items()}
            return Values(terms, {point: b @ coefficients for point, b in self.through.items()})

    def __add__(self, other: Values) -> Values:
        return Values(added(self.terms, other.terms), added(self.through, other.through))


def added(one: Mapping[Key, Floats], other: Mapping[Key, Floats]) -> dict[Key, Floats]:
    """Return the sum of two mappings; what one of them lacks is zero there."""
    return {**one, **other, **{name: one[name] + other[name] for name in one.keys() & other.keys()}}


class Measure:
    """Rows with weights of mean 1 over the pool: of all samples, or of some.

    Parameters
    ----------
    rows : Holder
        The rows.
    point : Point or PointAmong
        Where they are weighed; x is taken there.
    whole : Measure, optional
        The rows of all samples, on which influence values are defined; this measure by default.
    through : Point or PointAmong, optional
        The point that rows move; that of all samples by default.
    recorded_by : tuple of str
        Names of the samples with weights, if not all.
    samples : ndarray of int of shape (K,), optional
        The sample of which each bias is, as the user sees them, if a sample has several.
    """

    def __init__(
        self,
        rows: Holder,
        point: Point | PointAmong,
        whole: Measure | None = None,
        through: Point | PointAmong | None = None,
        recorded_by: tuple[str, ...] = (),
        samples: Integers | None = None,
    ) -> None:
        self.rows, self.point, self.recorded_by, self.states = rows, point, recorded_by, point.states
        self.whole: Measure = self if whole is None else whole
        self.through = self.whole_point if through is None else through
        self.samples = np.arange(len(rows.sizes)) if samples is None else samples
        self.sizes = np.bincount(self.samples, rows.sizes).astype(np.float64)
        self.n = float(rows.sizes.sum())

    @classmethod
    def among(
        cls,
        whole: Measure,
        states: Sequence[int],
        names: tuple[str, ...],
        point: Point | None = None,
        through: PointAmong | None = None,
    ) -> Measure:
        """Return the rows of some samples, with weights of their own at the point of all samples, or at another."""
        point = whole.whole_point if point is None else point
        own = PointAmong(point, states)
        mass = whole.rows.total(lambda block: block.sum(own.at(block).weight))
        return cls(whole.rows, PointAmong(point, states, float(whole.n / mass[0])), whole, through, names)

    def uncovered(self) -> Floats:
        """Return how many rows of each sample none of the samples with weights could have drawn."""
        return self.total(lambda block, at: block.by_sample((at.share <= 0.0) * 1.0))[:, 0]

    @property
    def whole_point(self) -> Point:
        """The point of all samples."""
        point = self.whole.point
        assert isinstance(point, Point)
        return point

    @property
    def coordinates(self) -> Coordinates:
        """The layout of the point."""
        return self.point.model.coordinates

    def weight(self, block: Block) -> Floats:
        """Return the weights of the rows of a block."""
        return self.point.at(block).weight

    def total(self, question: Callable[[Block, Any], Result], width: int = 0, *, biases: bool = True) -> Result:
        """Return the sum over all blocks of a function of a block, and of its rows at the point."""
        return self.rows.total(lambda block: question(block, self.point.at(block)), width, biases=biases)

    def _reads_biases(self, functions: Functions | None = None) -> bool:
        """Return whether functions and weights take biases, or only what is kept of each row."""
        return self._known_weights is None or (functions is not None and functions.make is not None)

    @property
    def _known_weights(self) -> Kept:
        """The weights of rows as they were solved, if they are kept."""
        return self.point.weights if isinstance(self.point, Point) else None

    # means

    def mean(self, functions: Functions | Kept) -> Floats:
        """Return eta of functions; those of an engine that have a name must be finite."""
        f = as_functions(functions)

        def question(block: Block, at: Seen) -> tuple[Floats, ...]:
            return (block.sum(f.over(block, at, np.zeros(f.width))),)

        (total,) = self._of_finite(f, question, f.width)
        return np.asarray(total / self.n)

    def means(self, functions: Functions | Kept) -> Means:
        """Return eta, and whether functions are shares."""
        f = as_functions(functions)

        def question(block: Block, at: Seen) -> tuple[Floats, ...]:
            columns, inside = f.of(block, at), self.inside_of(block)
            events = block.let(inside * (columns != 0.0))
            strays = events * (columns != 1.0)
            return block.sum(columns * at.weight), block.sum(strays), block.sum(events)

        total, strays, events = self._of_finite(f, question, 3 * f.width)
        rows = float(self.rows.sizes[self.states].sum()) if self.states else self.n
        return Means(total / self.n, strays, events, rows)

    def inside_of(self, block: Block) -> Floats:
        """Return 1 on the rows that have weights, and 0 on others."""
        return block.of_sample(members(block.K, self.states or list(range(block.K))))

    def _of_finite(
        self, f: Functions, question: Callable[[Block, Seen], tuple[Floats, ...]], width: int
    ) -> tuple[Floats, ...]:
        """Return sums; raise if functions of an engine are not finite: a null, as from a division by zero, is not."""
        places = [j for j, _ in f.names]

        def checked(block: Block, at: Seen) -> tuple[Floats, ...]:
            endless = block.unknown(block.columns(f.values)[:, places]) if places else np.empty(0)
            return *question(block, at), endless

        *sums, endless = self.total(checked, width, biases=self._reads_biases(f))
        for (_, name), count in zip(f.names, endless, strict=True):
            if count:
                raise not_finite(int(count), name)
        return tuple(sums)

    def range(self, functions: Functions | Kept, j: int) -> tuple[float, float]:
        """Return the smallest and the largest value of a function on the rows that have weights."""
        f, own, inside = as_functions(functions), as_functions(functions).column(j), self.states

        def question(block: Block, at: Seen) -> Extremes:
            return block.extremes(own.of(block, at), inside)

        ends = self.total(question, 1, biases=self._reads_biases(f))
        return float(ends.low[0]), float(ends.high[0])

    @cached_property
    def evenness(self) -> Evenness:
        """How evenly the weights are spread over all rows that have them, or clusters of these."""
        return self.evenness_of(None)

    @property
    def in_clusters(self) -> bool:
        """Whether rows lie in clusters."""
        return self.rows.dependence.clusters is not None

    def evenness_of(self, holds: Functions | Kept | None) -> Evenness:
        """Return how evenly the weights are spread over the rows on which a function is 1, or clusters of them."""
        f = None if holds is None else as_functions(holds)

        def weights(block: Block) -> Floats:
            at = self.point.at(block)
            return at.weight if f is None else f.of(block, at) * at.weight

        if self.in_clusters:
            masses = self.rows.over_clusters(weights, 1)[:, 0]
            return Evenness(float(masses.sum()), float((masses**2).sum()), float(masses.max(initial=0.0)))

        def question(block: Block) -> tuple[Floats, Floats, Extremes]:
            r = block.let(weights(block))
            return block.sum(r), block.sum(r * r), block.extremes(r)

        mass, squares, ends = self.rows.total(question, biases=self._reads_biases(f))
        return Evenness(float(mass[0]), float(squares[0]), max(float(ends.high[0]), 0.0))

    def events_within(self, holds: Functions | Kept, base: Functions | Kept) -> tuple[float, float, Evenness] | None:
        """Return how many rows of a base meet a condition and do not, and its weights; None if others meet it, too."""
        mine, whole = as_functions(holds), as_functions(base)

        def question(block: Block, at: Seen) -> tuple[Floats, ...]:
            inside = self.inside_of(block)
            event, within = mine.of(block, at) * inside, whole.of(block, at) * inside
            return block.sum(event * (1.0 - within)), block.sum(event * within), block.sum(within)

        beyond, events, rows = (float(one[0]) for one in self.total(question, 2))
        return None if beyond else (events, rows - events, self.evenness_of(base))

    # influence

    def against(self, functions: Functions | Kept, eta: Floats) -> Floats:
        """Return a = sum_i c_i r_i (f_i - eta) x_i, of shape (d, m)."""
        f = as_functions(functions)
        return self.total(lambda block, at: at.against(block.let(f.over(block, at, eta))), f.width)

    def squares(self, functions: Functions | Kept, eta: Floats) -> Floats:
        """Return sum_i c_i r_i^2 (f_i - eta) (f_i - eta)'."""
        f = as_functions(functions)

        def question(block: Block, at: Seen) -> Floats:
            less = block.let(f.over(block, at, eta))
            return block.gram(less, less)

        return self.total(question, f.width)

    def influence(self, functions: Functions | Kept, eta: Floats, b: Floats) -> Values:
        """Return phi_i = r_i (f_i - eta) + q_i'b, to be computed where it is summed."""
        f = as_functions(functions)
        return Values({(self.point, f): np.vstack([np.eye(f.width), eta])}, {self.through: b})

    def spread(self, values: Values, leverage: Leverage | None = None, *, joint: bool = True) -> Spread:
        r"""Return the covariance of estimates, and what it rests on.

        .. math::

            V = \sum_k \frac{n_k}{n_k - 1}\,\frac{1}{n^2} \sum_{i \in D_k} c_i (\phi_i - \bar\phi_k)(\phi_i -
            \bar\phi_k)'.

        A sample of a single row has no deviation from its own mean; there :math:`\bar\phi_k` is the mean under the
        fitted law of the sample, and the factor is 1. Deviations are summed from centres near these means, so that one
        pass is enough; if fourth powers may over- or underflow, it is repeated in other units. Covariances that are not
        asked for are NaN. Rows that depend on one another are summed by cluster, or by time.

        With known values or parameters every square has the factor :math:`(1 - h_i)^{-a}` of its leverage in place of
        :math:`n_k / (n_k - 1)`, and in a sample of a finite population :math:`1 - \pi_i`: then another pass finds the
        means first.
        """
        if leverage is None and not self.rows.dependence.is_finite:
            centres, of_rows = self._centres(values), None
        else:
            centres, of_rows = self._means(values), self.root_of_rows(leverage)
        borrowed = 0.0 if leverage is None else leverage.borrowed.share
        if self.rows.dependence.in_units:
            found = self._spread_of_units(values, centres, leverage)
        else:
            found = self._spread_of_rows(values, centres, of_rows, joint=joint)
        return found.borrowing(borrowed)

    def products(self, values: Values, leverage: Leverage | None = None) -> tuple[float, Floats, Floats, float]:
        r"""Return sums of products of :math:`c_i = (\phi_i - \bar\phi_k) / n` in which estimates come together.

        Returns
        -------
        squares : float
            :math:`\sum_i (c_i'c_i)^2`, over rows or clusters.
        covariances : ndarray of shape (B, m, m)
            :math:`\frac{n_k}{n_k - 1} \sum_{i \in D_k} c_i c_i'` of each part.
        freedom : ndarray of shape (B,)
            Degrees of freedom of each part.
        effective : float
            How many rows or clusters there are.
        """
        m, centres, scale = values.width, self._means(values), 1.0 / self.n
        if self.rows.dependence.in_units:
            units, sums = self.rows.over_units(lambda block: values.of(block) - block.of_sample(centres), m)
            return units.products(sums * scale)
        root = self.root_of_rows(leverage)
        first, second = np.triu_indices(m)

        def question(block: Block) -> tuple[Floats, Floats]:
            d = block.let((values.of(block) - block.of_sample(centres)) * root(block) * scale)
            lengths = block.let((d * d) @ np.ones((m, 1)))
            return block.sum(lengths * lengths), block.by_sample(d[:, first] * d[:, second])

        squares, sums = self.rows.total(question, len(first))
        parts = np.zeros((len(self.sizes), m, m))
        parts[:, first, second] = parts[:, second, first] = self.of_samples(sums)
        return float(squares[0]), parts, np.maximum(self.sizes - 1.0, 1.0), self.n

    def _spread_of_units(self, values: Values, centres: Floats, leverage: Leverage | None) -> Spread:
        """Return the spread of rows that depend on one another."""
        rows, m = self.rows, values.width

        def deviations(block: Block) -> Floats:
            d = values.of(block) - block.of_sample(centres)
            return block.let(d * self.unseen(block) ** 0.5) if rows.dependence.is_finite else d

        if leverage is None:
            units, sums = rows.over_units(deviations, m)
            return units.spread(sums, self.n, are_centred=rows.dependence.is_finite)
        ones = np.ones((len(rows.sizes), 1))
        units = rows.over_units(lambda block: block.of_sample(ones), 1)[0]
        a = None if rows.dependence.clusters is None else leverage.of_units(units.unit)
        if a is None:
            sums = rows.over_units(lambda block: deviations(block) * leverage.root(block, beyond=True), m)[1]
            return units.spread(sums, self.n, are_centred=True)
        units, sums = rows.over_units(deviations, m)
        added = leverage.added_to_units(units.unit, a, deviations, m)
        return units.spread(sums, self.n, added, leverage.power(len(a)), are_centred=True)

    def _spread_of_rows(
        self, values: Values, centres: Floats, of_rows: Question[Floats] | None, *, joint: bool
    ) -> Spread:
        """Return the spread of independent rows, whose deviations are multiplied by a function of the rows if any."""
        scale = np.ones(values.width)
        powers = self._powers(values, centres, of_rows, joint=joint)
        largest = np.maximum(-powers[-1].low, powers[-1].high)
        if ((largest > LARGE) | ((largest > 0) & (largest < 1.0 / LARGE))).any():
            scale = unit_of(largest)
            powers = self._powers(values @ np.diag(1.0 / scale), centres / scale, of_rows, joint=joint)
        return self._spread_of(values, centres, powers, scale, are_centred=of_rows is not None)

    def _powers(
        self, values: Values, centres: Floats, of_rows: Question[Floats] | None, *, joint: bool
    ) -> tuple[Any, ...]:
        """Return sums of deviations and of their powers by sample, of products over all rows, and the extremes."""
        roots = np.sqrt(self.factors)[self.samples][:, None]

        def question(block: Block) -> tuple[Any, ...]:
            d = values.of(block) - block.of_sample(centres)
            d = block.let(d if of_rows is None else d * of_rows(block))
            squares, scaled = block.let(d * d), d if of_rows is not None else d * block.of_sample(roots)
            powers = [block.by_sample(one) for one in (d, squares, squares * d, squares * squares)]
            products = block.gram(scaled, scaled) if joint else np.full((values.width, values.width), np.nan)
            return *powers, products, block.extremes(d)

        with np.errstate(over="ignore", invalid="ignore"):  # then they are summed in other units
            found = self.rows.total(question, 3 * values.width)
        return *(self.of_samples(one) for one in found[:4]), *found[4:]

    def root_of_rows(self, leverage: Leverage | None) -> Question[Floats]:
        """Return what deviations of independent rows are multiplied by."""
        is_finite, factors = self.rows.dependence.is_finite, np.sqrt(self.factors)[self.samples][:, None]

        def root(block: Block) -> Floats:
            own = block.of_sample(factors) if leverage is None else leverage.root(block)
            return block.let(own * self.unseen(block) ** 0.5) if is_finite else own

        return root

    @cached_property
    def _mean_chances(self) -> Floats:
        """The mean of each bias over the population that it can draw from, times e^u, of shape (K,)."""
        K, point = len(self.rows.sizes), self.whole_point

        def question(block: Block) -> Floats:
            at = point.at(block)
            p = block.let(np.hstack([at.p.column(k) for k in range(K)]))
            return block.sum(np.hstack([p, (p > 0.0) * at.weight]))

        chances, mass = self.rows.total(question, 2 * K).reshape(2, K)
        return np.where(chances > 0, chances, 1.0) / np.where(mass > 0, mass, 1.0)

    @cached_property
    def is_census(self) -> bool:
        """Whether all rows are all units of finite populations, each drawn for sure."""
        dependence = self.rows.dependence
        if not dependence.is_finite or dependence.remaining[self.sizes > 0].any():
            return False
        return not self.rows.total(lambda block: block.sum(self.unseen(block)))[0]

    def unseen(self, block: Block, rounding: float = 1e-9) -> Floats:
        r"""Return the probability that a finite population keeps a unit like each row unseen.

        It is :math:`1 - \pi_i` with :math:`\pi_i = n_k \omega_k(z_i) / (N_k \Omega_k)`, at most 1, for the
        :math:`N_k` units that sample k was drawn from without replacement: :math:`\Omega_k` is here the mean over those
        that it could draw. As :math:`e^{u_k} \omega_{ik} = p_{ik} / r_i`, that of p is :math:`e^{u_k} \Omega_k`.
        """
        at = self.whole_point.at(block)
        drawn = (1.0 - self.rows.dependence.remaining)[self.samples] / self._mean_chances
        left = block.let(1.0 - block.of_own(at.p) / at.weight * block.of_sample(drawn[:, None]))
        return block.let((left > rounding) * left)

    def of_samples(self, sums: Floats) -> Floats:
        """Return sums over the samples that the user sees, from those over the rows of each bias."""
        found = np.zeros((len(self.sizes), sums.shape[1]))
        np.add.at(found, self.samples, sums)
        return found

    @property
    def factors(self) -> Floats:
        """The factors that turn sums of squared deviations into a variance, for each sample."""
        return variance_factors(self.sizes)

    def _spread_of(
        self, values: Values, centres: Floats, powers: tuple[Any, ...], scale: Floats, *, are_centred: bool
    ) -> Spread:
        """Return a spread in units of a scale, from sums of powers of deviations from centres, in these units."""
        totals, squares, cubes, fourths, products, _ = powers
        n, size = self.sizes[:, None], np.maximum(self.sizes, 1.0)[:, None]
        factors = np.ones(len(n)) if are_centred else self.factors
        mean = np.where((n >= 2) & (not are_centred), totals / size, 0.0)  # a single row keeps its centre
        squares_about_mean = np.maximum(squares - size * mean**2, 0.0) / self.n**2
        fourths = fourths - 4.0 * mean * cubes + 6.0 * mean**2 * squares - 3.0 * size * mean**4
        products = products - (mean * (factors[:, None] * size)).T @ mean
        np.fill_diagonal(products, factors @ squares_about_mean * self.n**2)
        with np.errstate(over="ignore"):
            covariance = products / self.n**2 * np.outer(scale, scale)
        squared, fourths = squares_about_mean.sum(axis=0), np.maximum(fourths, 0.0).sum(axis=0) / self.n**4
        within = squares_about_mean * factors[:, None]
        means = (centres / scale + mean[self.samples]) * scale
        tails = partial(self._tails, values, means, scale * self.n * np.sqrt(squared / self.n))
        freedom = np.maximum(n - 1.0, 1.0)
        return Spread(covariance, scale, within, squared, fourths, n, freedom, within, tails)

    def _tails(self, values: Values, means: Floats, deviations: Floats, estimates: Sequence[int]) -> list[float]:
        """Return the tail index of the influence values of some estimates, given their means and deviations.

        If weights have only a few values, it is that of phi divided by those above 1: otherwise rows of a rare large
        weight would all be the largest, which is not a tail.
        """
        least, has_few = np.exp(BIN * NOTHING), self._has_few_weights

        def by_size(j: int) -> Question[ByKey]:
            one, unit = values @ np.eye(values.width)[:, [j]], float(deviations[j]) or 1.0  # 0: all are 0

            def question(block: Block) -> tuple[Floats, Floats]:
                size = np.abs(one.of(block) - block.of_sample(means[:, [j]])) / unit
                size = size / np.maximum(self.weight(block), 1.0) if has_few else size
                logs = block.let(np.log(np.maximum(size, least)))
                return np.floor(logs / BIN), np.hstack([logs * 0.0 + 1.0, logs])

            return question

        grouped = self.rows.all_grouped([by_size(j) for j in estimates], 2 * len(estimates))
        return [hill(np.array(places, np.float64), sums[:, 0], sums[:, 1]) for places, sums in grouped]

    @cached_property
    def _has_few_weights(self) -> bool:
        """Whether weights have only a few values, which do not make a tail."""
        most = int(min(KINDS, self.n / ALIKE))
        kinds = self.rows.kinds_of(self.weight, most, biases=self._reads_biases())
        return kinds <= most

    def _centres(self, values: Values) -> Floats:
        """Return the means under the fitted laws, sum_i c_i p_ik phi_i / n_k, up to rounding, of shape (K, m).

        Those of samples of a single row, which have no other mean, are summed exactly.
        """
        single, point, centres = (self.sizes > 0) & (self.sizes < 2), self.whole_point, values.centres
        if not single.any() or len(self.sizes) != len(centres):
            return centres
        sums = self.rows.total(lambda block: block.gram(point.at(block).p, block.let(values.of(block))), values.width)
        return np.where(single[:, None], sums / np.where(single, self.sizes, 1.0)[:, None], centres)

    def _means(self, values: Values) -> Floats:
        """Return the means over the samples, of shape (K, m); of a single row that under its fitted law."""
        sums = self.of_samples(self.rows.total(lambda block: block.by_sample(values.of(block)), values.width))
        means = (sums / np.maximum(self.sizes, 1.0)[:, None])[self.samples]
        if len(self.sizes) != len(means) or not ((self.sizes > 0) & (self.sizes < 2)).any():
            return means
        return np.where(self.sizes[:, None] < 2, self._centres(values), means)

    # what takes a number for each row, in memory

    @property
    def arrays(self) -> Arrays:
        """The rows, in memory."""
        assert isinstance(self.rows, Arrays)
        return self.rows

    @property
    def source(self) -> Integers:
        """Sample of each row of the pool, as the user sees it."""
        return self.arrays.samples

    @property
    def counts(self) -> Floats:
        """How many rows each row of the pool stands for."""
        return self.arrays.counts

    @property
    def weights(self) -> Floats:
        """Weight r_i of each row of the pool."""
        rows, known = self.arrays, self._known_weights
        if known is not None and rows.inverse is None:
            return np.asarray(known)
        return rows.column(self.weight, 1, biases=known is None)[:, 0]

    @property
    def solved(self) -> Holder:
        """The rows as they were solved: in memory one stands for all equal ones, if these were collapsed."""
        return self.rows.rows.arrays if isinstance(self.rows, Arrays) else self.rows

    @property
    def row_weights(self) -> Floats:
        """Weight of each row as it was solved."""
        return self.arrays.rows.arrays.column(self.weight, 1)[:, 0]

    @property
    def inside(self) -> NDArray[np.bool_] | None:
        """Which rows of the pool have weights, if only those of some samples do."""
        return np.isin(self.arrays.source, self.states) if self.states else None

    def column(self, make: Callable[[Any], Floats], m: int) -> Floats:
        """Return columns that are made of the rows at the point, of shape (n, m)."""
        return self.arrays.column(lambda block: make(self.point.at(block)), m)
