"""The contract between rows and mathematics: columns, blocks and holders of rows, and the sums that cross over.

A question is a function of a block of rows that returns sums, which a holder of rows adds up over its blocks. It is
written in NumPy's own operators, once for all holders: columns of rows in memory are arrays of shape (rows, m), and
those of an engine are :class:`~vardi._rows.expressions.Expressions`, which record what the operators would compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from scipy import sparse

from vardi._types import Floats, Integers

if TYPE_CHECKING:
    from vardi._inputs.dependence import Dependence
    from vardi._inputs.lazy_pool import EngineDependence
    from vardi._rows.gram import Gram
    from vardi._rows.point import RowsAt
    from vardi._rows.units import Units

#: Numbers of the rows, in the form in which their holder keeps them: an array, or functions of an engine's frames.
Kept: TypeAlias = Any

Result = TypeVar("Result")
Columns = TypeVar("Columns")


class Probabilities(Protocol):
    """Columns p of the fitted probabilities of K biases, in a form of which only products are made."""

    def __matmul__(self, b: Floats) -> Floats:
        """Return the mean of b, of shape (K, m), under p of each row."""

    def __mul__(self, column: Floats) -> Self:
        """Return the rows times a column."""

    def column(self, k: int | Integers) -> Floats:
        """Return p_k as one column; k may differ between rows in memory."""


class Normalised(NamedTuple):
    """The masses S of rows, as 1 / S and log S, and their probabilities."""

    weight: Floats
    log_mass: Callable[[], Floats]
    p: Probabilities

    def inverse(self, *, are_logs: bool) -> Floats:
        """Return 1 / S, or its log."""
        return np.negative(self.log_mass()) if are_logs else self.weight


class Block(Protocol):
    """Some rows, and sums over them. All sums are weighed by the counts of the rows."""

    K: int
    points: dict[int, Any]  # what was made of the rows at points, each once

    def columns(self, values: Kept) -> Floats:
        """Return functions of the rows, of shape (rows, m)."""

    def solved(self, values: Kept) -> Floats:
        """Return functions that are kept for rows as they were solved: one for all equal ones, if these collapsed."""

    def omega(self, k: int) -> Floats:
        """Return the known factor of bias k."""

    def log_omega(self) -> Floats:
        """Return the logs of the known factors of all biases."""

    def normalised(self, u: Floats, added: Mapping[int, Floats]) -> Normalised:
        """Return the rows at u, with biases multiplied by e^added."""

    def tilts(self, rows: RowsAt, log_omegas: Floats) -> Floats:
        """Return omega_k / (S Omega_k) of rows at a point, on the user's scale: finite even where 1 / S underflows."""

    def of_sample(self, numbers: Floats) -> Floats:
        """Return the numbers of each row's own sample, out of shape (K, m)."""

    def of_own(self, p: Probabilities) -> Floats:
        """Return the probability of each row's own sample."""

    def let(self, columns: Columns) -> Columns:
        """Return columns that are computed once, however often they are read."""

    def counted(self, columns: Floats) -> Floats:
        """Return columns times the counts of the rows."""

    def sum(self, columns: Floats | Probabilities) -> Floats:
        """Return the sum of each column, of shape (m,)."""

    def gram(self, columns: Floats | Probabilities, others: Floats | Probabilities) -> Floats:
        """Return the sums of products, of shape (m, k)."""

    def products(self, p: Probabilities, weights: Floats) -> Floats:
        """Return the sums of p p' times each of m weights, one below another: of shape (m K, K), perhaps sparse.

        Their diagonals may be missing.
        """

    def by_sample(self, columns: Floats) -> Floats:
        """Return the sum of each column over the rows of each sample, of shape (K, m)."""

    def extremes(self, columns: Floats, states: Sequence[int] = ()) -> Extremes:
        """Return the smallest and the largest number of each column, on the rows of some samples, or of all."""

    def interval(self, column: Floats, edges: Floats) -> Floats:
        """Return how many of increasing edges a column is above, as one column."""

    def unknown(self, columns: Floats) -> Floats:
        """Return on how many rows each column is not finite, or missing."""


#: What is asked of the rows of a block; the answers of blocks can be added.
Question: TypeAlias = Callable[[Block], Result]


@dataclass(frozen=True)
class Extremes:
    """The smallest and the largest number of each of m columns."""

    low: Floats
    high: Floats

    def __add__(self, other: Extremes) -> Extremes:
        return Extremes(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


class Answers(tuple[Any, ...]):
    """Several answers, added one by one."""

    def __add__(self, other: tuple[Any, ...]) -> Answers:
        return Answers(mine + theirs for mine, theirs in zip(self, other, strict=True))


def addable(answer: Any) -> Any:
    """Return an answer that can be added to that of another block."""
    return Answers(answer) if type(answer) is tuple else answer


#: A key, whose columns may be labels in an engine; columns to be summed, in pieces or in one; and, if there is a third,
#: columns whose extremes are asked for.
ByKey: TypeAlias = tuple[Any, ...]


def pieces_of(columns: Any) -> list[Any]:
    """Return columns in pieces: a list is, anything else is one piece."""
    return columns if isinstance(columns, list) else [columns]


class Grouped(NamedTuple):
    """Sums over groups of rows.

    Attributes
    ----------
    keys : list
        What the rows of each group have in common: a value or, with a key of several columns, a tuple.
    sums : ndarray of shape (groups, m)
        The sum of each column, counted; then the smallest, and the largest, number of each further column.
    """

    keys: list[Any]
    sums: Floats


class Holder(Protocol):
    """Where rows are: in memory, or in an engine."""

    sizes: Floats

    @property
    def dependence(self) -> Dependence | EngineDependence:
        """How rows depend on one another."""

    def total(self, question: Question[Result], width: int = 0, *, biases: bool = True) -> Result:
        """Return the sum of the answers to a question over all blocks of rows; it may read no biases."""

    def grouped(self, question: Question[ByKey], width: int = 0, most: int | None = None) -> Grouped:
        """Return counted sums, and extremes, of columns by a key, which the question returns first.

        If there are more than ``most`` groups, some of them may be left out: one more is enough to see that.
        """

    def all_grouped(self, questions: Sequence[Question[ByKey]], width: int = 0) -> list[Grouped]:
        """Return the answers to several questions by keys of their own, in one pass if they are in memory."""

    def over_units(self, question: Question[Floats], m: int) -> tuple[Units, Floats]:
        """Return the units of rows that depend on one another, and counted sums of columns over these, (E, m)."""

    def over_clusters(self, question: Question[Floats], m: int) -> Floats:
        """Return counted sums of columns over clusters, of shape (clusters, m)."""

    def kinds_of(self, question: Question[Floats], most: int, *, biases: bool = True) -> int:
        """Return how many different numbers a column has; more than ``most`` need not be told apart."""


def within(block: Block, k: int) -> Floats:
    """Return 1 on the rows of sample k, and 0 on others."""
    return block.of_sample(members(block.K, [k]))


def members(K: int, states: Integers | Sequence[int]) -> Floats:
    """Return 1 for some of K samples, and 0 for the others, of shape (K, 1)."""
    return np.isin(np.arange(K), states).astype(np.float64)[:, None]


@dataclass(frozen=True)
class Sums:
    r"""All that the estimator needs from the rows at a dual point u.

    With :math:`p_{ik} = e^{u_k}\omega_k(z_i) / \sum_l e^{u_l}\omega_l(z_i)` and :math:`c_i` the count of row i:

    Attributes
    ----------
    log_mass : float or None
        :math:`\sum_i c_i \log \sum_l e^{u_l}\omega_l(z_i)`, if it was asked for.
    shares : ndarray of shape (K,)
        :math:`\sum_i c_i p_i`: how many rows each sample should have if u is right.
    gram : Gram or None
        :math:`\sum_i c_i p_i p_i'`, if it was asked for.
    """

    log_mass: float | None
    shares: Floats
    gram: Gram | None


@dataclass(frozen=True)
class Coordinates:
    """The layout of a point v = (u, theta, mu, epsilon): its four parts one after the other.

    Attributes
    ----------
    samples : int
        K: u, a log normaliser for each bias; -inf where no sample was drawn.
    parameters : int
        p: theta, the parameters of biases, on the scale on which the search is well-conditioned.
    known : int
        m: mu, a multiplier for each known moment.
    uncertain : int
        r: epsilon, the shifts of known values that have an error, in standard deviations.
    """

    samples: int
    parameters: int = 0
    known: int = 0
    uncertain: int = 0

    def __len__(self) -> int:
        return self.samples + self.parameters + self.known + self.uncertain

    @property
    def u(self) -> slice:
        """The place of u."""
        return slice(0, self.samples)

    @property
    def theta(self) -> slice:
        """The place of theta."""
        return slice(self.samples, self.samples + self.parameters)

    @property
    def mu(self) -> slice:
        """The place of mu."""
        return slice(self.theta.stop, self.theta.stop + self.known)

    @property
    def epsilon(self) -> slice:
        """The place of epsilon."""
        return slice(self.mu.stop, self.mu.stop + self.uncertain)

    def rescaled(self, v: Floats, shift: float) -> Floats:
        """Return the same point in the gauge in which every S is multiplied by e^shift."""
        v = v.copy()
        v[self.u] += shift
        v[self.mu] *= np.exp(shift)
        return v


@dataclass(frozen=True)
class JointSums:
    r"""All that the estimator needs from the rows at a point v = (u, theta, mu, epsilon).

    Row i has :math:`S_i(v) = \sum_l e^{u_l}\omega_l(z_i;\theta) + \mu'(g(z_i) - R\varepsilon)` and relative gradient
    :math:`x_i = \nabla S_i / S_i`. The objective is :math:`\sum_i c_i (\log S_i - \log\omega_{s_i}(z_i;\theta)) - n'u +
    \varepsilon'\varepsilon / 2`.

    Attributes
    ----------
    inverse : float
        :math:`\sum_i c_i / S_i`.
    log_mass : float
        :math:`\sum_i c_i (\log S_i - \log\omega_{s_i}(z_i;\theta))`.
    x : ndarray of shape (d,)
        :math:`\sum_i c_i x_i`.
    products : ndarray or csr_array of shape (K, K)
        :math:`\sum_i c_i p_i p_i'`, the part of ``gram`` in u.
    products_beside : ndarray of shape (d - K, d)
        The rows of ``gram`` beyond those of u.
    own : ndarray of shape (d,)
        :math:`\sum_i c_i \nabla\log\omega_{s_i}(z_i;\theta)`: zero except in theta.
    beside : ndarray of shape (d - K, d)
        The rows of ``information`` beyond those of u, which are few even where there are thousands of samples.
    bend : ndarray of shape (p, p)
        What ``curvature`` adds to ``information``, in theta.
    refused : float
        How many S_i are not above zero; if there are any, the other sums are meaningless.
    """

    inverse: float
    log_mass: float
    x: Floats
    products: Floats | sparse.csr_array
    products_beside: Floats
    own: Floats
    beside: Floats
    bend: Floats
    refused: float

    @cached_property
    def gram(self) -> Floats:
        r""":math:`\sum_i c_i x_i x_i'`, of shape (d, d)."""
        d = len(self.x)
        K = d - len(self.products_beside)
        found = np.empty((d, d))
        found[:K, :K] = self.products if isinstance(self.products, np.ndarray) else self.products.toarray()
        found[K:], found[:K, K:] = self.products_beside, self.products_beside[:, :K].T
        return found

    @property
    def information(self) -> Floats:
        """The curvature without the second derivatives of log omega, which have mean zero if the family is right."""
        K = len(self.x) - len(self.beside)
        found = np.diag(self.x)  # in u, where S is linear in e^u
        found[K:], found[:K, K:] = self.beside, self.beside[:, :K].T
        return found

    def jacobian(self, *, expected: bool = False) -> Floats:
        r"""Return the curvature less the gram, of shape (d, d).

        The curvature is :math:`\sum_i c_i (\nabla^2 S_i / S_i - \nabla^2\log\omega_{s_i}(z_i;\theta))`: the information
        and the second derivatives of log omega, which are left out if J is expected to be without them.
        """
        J = self.information
        J -= self.gram
        if not expected:
            K = len(self.x) - len(self.beside)
            theta = slice(K, K + len(self.bend))
            J[theta, theta] += self.bend
        return J

    @property
    def positive(self) -> bool:
        """Whether every S is above zero, and finite."""
        if self.refused or not np.isfinite(self.inverse):
            return False
        stored = self.products if isinstance(self.products, np.ndarray) else self.products.data
        return bool(np.isfinite(stored).all() and np.isfinite(self.products_beside).all())

    @property
    def checked(self) -> JointSums:
        """The sums; NaN where some S is not above zero."""
        if self.positive:
            return self
        return JointSums(*(np.nan * getattr(self, part.name) for part in fields(self)))

    def __add__(self, other: JointSums) -> JointSums:
        return JointSums(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))


@dataclass(frozen=True)
class Means:
    """Means of m functions over the population, and whether they are shares.

    Attributes
    ----------
    mean : ndarray of shape (m,)
        The means.
    strays : ndarray of shape (m,)
        Zero if a function is 0 or 1 on every row.
    events : ndarray of shape (m,)
        Counted rows on which a function is not 0.
    rows : float
        Counted rows in all.
    """

    mean: Floats
    strays: Floats
    events: Floats
    rows: float


EVEN = 1e-9  # squared coefficient of variation that rounding may give equal weights


@dataclass(frozen=True)
class Evenness:
    """The sums of the weights of some rows and of their squares, and the largest weight."""

    mass: float
    squares: float
    largest: float

    @property
    def effective(self) -> float:
        """Kish's effective number of rows."""
        return self.mass**2 / self.squares

    @property
    def heaviest(self) -> float:
        """The share of the weight that the heaviest row has."""
        return self.largest / self.mass

    def unevenness(self, rows: float) -> float:
        """Return the squared coefficient of variation of the weights of this many rows, zero for even ones."""
        found = rows * self.squares / self.mass**2 - 1.0
        return found if found > EVEN else 0.0

    def without(self, part: Evenness) -> Evenness:
        """Return the sums without those of a part; the largest weight may be in that part."""
        return Evenness(self.mass - part.mass, self.squares - part.squares, self.largest)


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
    effective : ndarray of shape (B, m) or (B, 1)
        How many values vary independently in each part: rows, clusters, or effective rows of a series.
    freedom : ndarray of shape (B, m) or (B, 1)
        Degrees of freedom of each part: one less.
    carried : ndarray of shape (K, m)
        What each sample adds to the variance; parts are samples if rows are independent.
    tails : callable
        Returns the tail index of the influence values of some estimates, which takes another pass over the rows.
    values : float, optional
        How many values were squared, if not all of them vary independently.
    known : ndarray of shape (m,), optional
        What the errors of known values add to the variance.
    alone : tuple of int
        Samples whose rows, several, are all in one unit, or all fit perfectly: it is unknown how much these vary.
    """

    covariance: Floats
    scale: Floats
    within: Floats
    squares: Floats
    fourths: Floats
    effective: Floats
    freedom: Floats
    carried: Floats
    tails: Callable[[Sequence[int]], list[float]]
    values: float | None = None
    known: Floats | float = field(default=0.0)
    alone: tuple[int, ...] = ()

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
        n, kappa = self.effective.sum(axis=0), self.kurtosis
        with np.errstate(divide="ignore", invalid="ignore"):
            by_tail = np.where(kappa > 1.0, 2.0 * n / (kappa - 1.0), np.inf)
        return self._df(by_tail)

    @property
    def df_of_units(self) -> Floats:
        """The second term alone: what the numbers of units leave, whatever the tails of influence values."""
        return self._df(np.inf)

    def _df(self, by_tail: Floats | float) -> Floats:
        n, rows = self.effective.sum(axis=0), self.within.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_rows = rows**2 / (self.within**2 / np.maximum(self.freedom, 1.0)).sum(axis=0)
            found = np.minimum(by_tail, by_rows) * ((rows + self.known) / rows) ** 2
        found = np.where(rows > 0, found, np.where(self.known > 0, np.inf, n - 1.0))
        return np.where(len(self.alone) > 0, 0.0, found)

    @property
    def effective_in_time(self) -> list[tuple[float, ...]]:
        """For each estimate, how many independent rows the series of each sample is worth; empty without series."""
        if self.values is None:
            return [()] * len(self.scale)
        return [tuple(column) for column in self.effective.T.tolist()]

    @property
    def most(self) -> Integers:
        """The sample that contributes most to each variance, or of which it is unknown how much it contributes."""
        found = self.carried.argmax(axis=0)
        return np.full_like(found, self.alone[0]) if self.alone else found

    def borrowing(self, share: float) -> Spread:
        """Return the spread with what rows add whose deviations are taken from others, relative to what these add.

        Nothing is known of the spread if there are no others.
        """
        if not share:
            return self
        if not np.isfinite(share):
            return replace(self, alone=tuple(range(len(self.carried))))
        more = 1.0 + share
        return replace(self, covariance=self.covariance * more, within=self.within * more, carried=self.carried * more)

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
