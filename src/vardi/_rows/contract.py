"""What crosses from rows to mathematics: K and K x K numbers, additive over rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from vardi._types import Floats

if TYPE_CHECKING:
    from vardi._rows.gram import Gram


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
        K, J = len(self.x) - len(self.beside), np.negative(self.gram)
        J.flat[: K * len(J) : len(J) + 1] += self.x[:K]
        J[K:] += self.beside
        J[:K, K:] += self.beside[:, :K].T
        if not expected:
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
    """The sums of the weights of some rows and of their squares, and the largest weight; additive over rows."""

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

    def __add__(self, other: Evenness) -> Evenness:
        return Evenness(self.mass + other.mass, self.squares + other.squares, max(self.largest, other.largest))
