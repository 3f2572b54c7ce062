r"""The likelihood of the ratio of two normalisers, whatever the others are.

The likelihood of rows in samples of given sizes, maximised over all laws with :math:`\log(\Omega_k/\Omega_l) = \tau`,
has a ratio to its largest value that is chi-square with one degree of freedom where :math:`\tau` is true. It needs no
search over laws. With the dual D in counts and s = u_k - u_l held, :math:`E(s) = \min_u D(u)` is the likelihood of the
labels of rows; its excess over that of labels drawn at random,
:math:`B(x) = (n_k + n_l)\log(1 + e^x) - n_k x`, is the likelihood sought:

.. math:: \tfrac12 R(\tau) = \max_s\; [E(s) - E(\hat s)] - [B(s + \tau) - B(\log(n_k/n_l))].

The maximum is where the derivatives agree: with m_k the rows that sample k has at the constrained minimum, at

.. math:: \tau(s) = \operatorname{logit}\frac{m_k(s)}{n_k + n_l} - s,

so R is traced along s, where every point costs a convex problem with one sample less. To second order it is
:math:`(\tau - \hat\tau)^2 / (c'H^+c - 1/n_k - 1/n_l)`, Wald's statistic; unlike that it is not symmetric where few rows
join the samples. (E alone would be too wide: it treats the sizes of samples as random.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vardi._rows.contract import Sums
from vardi._solve.laplacian import Laplacian
from vardi._solve.newton import SolvableRows
from vardi._types import Floats

STEPS = 100  # Newton steps of one constrained minimum
STILL = 1e-9  # range of a step below which the search ends
DOUBLINGS = 60  # of the distance from the estimate in the search for an end
NEAR = 1e-6  # accuracy of an end, in units of the log ratio


@dataclass(frozen=True)
class _Point:
    """A point at which the likelihood was evaluated: tau, R, and u there."""

    tau: float
    ratio: float
    u: Floats


@dataclass(frozen=True, eq=False)
class Profile:
    """The likelihood ratio of log(Omega_k / Omega_l) over the rows of a fit.

    Parameters
    ----------
    rows : SolvableRows
        The rows.
    u : ndarray of shape (K,)
        The solution.
    k, l : int
        Two samples that have rows.
    """

    rows: SolvableRows
    u: Floats
    k: int
    l: int

    def ends(self, most: float) -> tuple[float, float]:
        """Return the ends of the interval of log(Omega_k / Omega_l) in which R is at most ``most``."""
        first, second = self._end(most, -1.0), self._end(most, 1.0)
        return min(first, second), max(first, second)

    def _end(self, most: float, side: float) -> float:
        """Return tau where R has grown to the given value, on one side."""
        from scipy.optimize import brentq  # slow to load, and needed only if no error is given

        s = float(self.u[self.k] - self.u[self.l])
        sizes = self.rows.sizes
        step = side * np.sqrt(most * (1.0 / sizes[self.k] + 1.0 / sizes[self.l]))
        inner, outer = (0.0, self.at(s, self.u)), (step, self.at(s + step, self.u))
        for _ in range(DOUBLINGS):
            if outer[1].ratio >= most:
                break
            inner, outer = outer, (2.0 * outer[0], self.at(s + 2.0 * outer[0], outer[1].u))
        else:
            return -np.inf if side > 0 else np.inf
        found = brentq(
            lambda d: self.at(s + d, inner[1].u).ratio - most,
            inner[0],
            outer[0],
            xtol=NEAR,
            rtol=4 * np.finfo(float).eps,
        )
        return self.at(s + found, inner[1].u).tau

    def at(self, s: float, near: Floats) -> _Point:
        """Return tau(s) and R there, starting from a nearby point."""
        sizes, k, l = self.rows.sizes, self.k, self.l
        u, sums = self._constrained(s, near)
        both, share = sizes[k] + sizes[l], sums.shares[k] / (sums.shares[k] + sums.shares[l])
        x, at_best = np.log(share) - np.log1p(-share), np.log(sizes[k]) - np.log(sizes[l])
        coin = both * (np.logaddexp(0.0, x) - np.logaddexp(0.0, at_best)) - sizes[k] * (x - at_best)
        return _Point(float(x - s), float(2.0 * (self._dual(u, sums) - self._least - coin)), u)

    @property
    def _least(self) -> float:
        return self._dual(self.u, self.rows.sums(self.u, gram=False))

    def _dual(self, u: Floats, sums: Sums) -> float:
        sampled = self.rows.sizes > 0
        assert sums.log_mass is not None
        return float(sums.log_mass - self.rows.sizes[sampled] @ u[sampled])

    def _constrained(self, s: float, near: Floats) -> tuple[Floats, Sums]:
        """Return the minimum of D with u_k - u_l = s: that of a problem in which both samples are one."""
        k, l, sizes = self.k, self.l, self.rows.sizes
        merged = _merged(len(sizes), k, l, sizes > 0)
        u = near.copy()
        centre, both = (sizes[k] * u[k] + sizes[l] * u[l]) / (sizes[k] + sizes[l]), sizes[k] + sizes[l]
        u[k], u[l] = centre + s * sizes[l] / both, centre - s * sizes[k] / both
        sums = self.rows.sums(u)
        for _ in range(STEPS):
            laplacian = Laplacian(merged.T @ sums.shares, merged.T @ sums.gram @ merged)
            step = -(merged @ laplacian.solve(merged.T @ (sums.shares - sizes)))
            length = float(np.ptp(step[sizes > 0]))
            # a full step of range 1 or less descends from anywhere, and so does this part of a longer one
            u = u + step * (1.0 if length <= 1.0 else np.log1p(length) / length)
            sums = self.rows.sums(u)
            if length <= STILL:
                break
        return u, sums


def can_profile(gram: object) -> bool:
    """Return whether two samples can be merged in this form of the gram."""
    return isinstance(gram, np.ndarray) or sparse.issparse(gram)


def _merged(K: int, k: int, l: int, sampled: object) -> sparse.csr_array:
    """Return the map from the samples with rows, k and l merged, to all K."""
    places = np.flatnonzero(np.asarray(sampled))
    target = np.where(places == k, l, places)
    columns = np.unique(target, return_inverse=True)[1]
    return sparse.csr_array((np.ones(len(places)), (places, columns)), shape=(K, int(columns.max()) + 1))
