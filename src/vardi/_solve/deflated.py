r"""The Hessian of many samples that overlap widely, from a few products with its gram: enclosed, without forming it.

In the scale in which its eigenvalues lie in [0, 1] the gram is :math:`\hat G = Q^{-1/2} G Q^{-1/2}`, with
:math:`\hat G w = w` for :math:`w = \sqrt{q / n}`. Where hundreds of samples overlap widely, all but a few of its
eigenvalues are next to zero. Let Z have r orthonormal columns, orthogonal to w, :math:`\hat G Z = Z T + R` with
:math:`Z'R = 0`, and

.. math:: \tau = \operatorname{tr}\hat G - 1 - \operatorname{tr} T,

the trace of what :math:`\hat G` is beside w and Z. That part is positive semidefinite, so none of its eigenvalues is
larger than its trace, and

.. math:: \hat G \preceq ww' + Z T Z' + R Z' + Z R' + \tau (I - ww' - ZZ').

The right side is known in full. What it leaves of the identity is a lower bound on the Hessian, in the order of
quadratic forms, by which the gap is bounded from below, and resistances and decrements from above: proven, however Z
was found. The gap is bounded from above by :math:`1 - \max\operatorname{eig} T` (Courant and Fischer). Steps are solved
with :math:`\tau = 0` on the right side: most of what is beside Z is much smaller than its trace.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from vardi._rows.contract import Sketch
from vardi._solve.laplacian import GAP_ERROR, Laplacian
from vardi._types import Floats

LEFT = 1e-3  # trace beside the subspace, of eigenvalues that are at most 1 each
WIDEST = 0.15  # vectors for each sample up to which their products cost less than the gram
FIRST = 30  # vectors drawn at first
SPARE = 10  # vectors drawn beyond those that are kept
LEAST_GAP = 1e-5  # gap from which on the rounding of a difference from 1 does not matter
ROUNDED = 8.0  # how many times the rounding error of a sum the matrices here may be off


class Deflated:
    """H = diag(shares) - gram, enclosed by a sketch of the gram.

    Parameters
    ----------
    shares : ndarray of shape (K,)
        q, all positive.
    sketch : Sketch
        Products of the gram with vectors that span all but a small part of it.
    """

    def __init__(self, shares: Floats, sketch: Sketch) -> None:
        self.q, self.root = shares, np.sqrt(shares)
        null = self.root / np.linalg.norm(self.root)
        scaled = self.root[:, None] * sketch.vectors
        along = null @ scaled
        Z, triangle = np.linalg.qr(scaled - null[:, None] * along)
        inside = sketch.products / self.root[:, None] - null[:, None] * along
        Y = np.linalg.solve(triangle.T, inside.T).T
        T = Z.T @ Y
        self._inner = (T + T.T) / 2.0
        basis, parts = np.linalg.qr(np.column_stack([null, Z, Y - Z @ T]))
        self.basis = basis[:, 1:]
        self._Z, self._R = parts[1:, 1 : len(T) + 1], parts[1:, len(T) + 1 :]
        trace = float((sketch.diagonal / shares).sum())
        self.rounding = ROUNDED * sketch.rounding * (trace + len(T)) * float(np.linalg.cond(triangle))
        self.left = max(trace - 1.0 - float(np.trace(T)), 0.0) + self.rounding

    def solve(self, gradient: Floats) -> Floats:
        """Return H^+ gradient, up to a constant and to what the subspace leaves out."""
        return self._solved(gradient, self._near, 0.0)

    def largest_decrement(self, gradient: Floats) -> float:
        """Return an upper bound on gradient' H^+ gradient."""
        return float(gradient @ self._solved(gradient, self._least, self.left))

    def gap(self) -> tuple[float, Floats]:
        """Return the second smallest eigenvalue of Q^{-1/2} H Q^{-1/2} and its vector, as a function on samples."""
        slowest = self._near[1][:, -1]
        return float(np.mean(self.gap_bounds)), self.basis @ slowest / self.root

    @cached_property
    def gap_bounds(self) -> tuple[float, float]:
        """Between which numbers the gap lies."""
        low = 1.0 - max(float(self._least[0][-1]), self.left)
        high = 1.0 - float(np.linalg.eigvalsh(self._inner)[-1]) + self.rounding
        return low, min(high, 1.0)

    @property
    def is_tight(self) -> bool:
        """Whether the bounds tell the gap as exactly as an iterated eigenvalue would."""
        low, high = self.gap_bounds
        return low > LEAST_GAP and high - low <= GAP_ERROR * low

    def largest_resistance(self, gap: float) -> float:
        """Return an upper bound on max_kl (e_k - e_l)' H^+ (e_k - e_l), whatever the gap."""
        values, vectors = self._least
        W, beyond = self.basis @ vectors / self.root[:, None], 1.0 / (1.0 - self.left)
        inverse = (W * (1.0 / (1.0 - values) - beyond)) @ W.T  # beside the diagonal
        diagonal = np.diag(inverse) + beyond / self.q
        apart = diagonal[:, None] + diagonal - 2.0 * inverse
        np.fill_diagonal(apart, 0.0)
        return float(apart.max())

    @cached_property
    def _near(self) -> tuple[Floats, Floats]:
        return self._spectrum(0.0)

    @cached_property
    def _least(self) -> tuple[Floats, Floats]:
        values, vectors = self._spectrum(self.left)
        return values + self.rounding, vectors

    def _spectrum(self, beside: float) -> tuple[Floats, Floats]:
        """Return eigenvalues and vectors, in the basis, of the gram with a number for all that is beside Z."""
        Z, R = self._Z, self._R
        values, vectors = np.linalg.eigh(
            Z @ self._inner @ Z.T + R @ Z.T + Z @ R.T + beside * (np.eye(len(Z)) - Z @ Z.T)
        )
        return values, vectors

    def _solved(self, gradient: Floats, spectrum: tuple[Floats, Floats], beside: float) -> Floats:
        x = (gradient - self.q * (gradient.sum() / self.q.sum())) / self.root
        values, vectors = spectrum
        inside = self.basis.T @ x
        solved = vectors @ ((vectors.T @ inside) / (1.0 - values))
        return np.asarray((self.basis @ solved + (x - self.basis @ inside) / (1.0 - beside)) / self.root)


def subspace(laplacian: Laplacian) -> Floats | None:
    """Return vectors that span all but a small part of the gram that a Laplacian is of; None where these are many.

    They are found by products of the gram with a few more vectors than are kept, drawn at random from a fixed seed.
    """
    gram, root, K = laplacian.gram, laplacian.root, len(laplacian.q)
    if not isinstance(gram, np.ndarray) or K == 1:
        return None
    most, beside = int(WIDEST * K), float((np.diag(gram) / laplacian.q).sum()) - 1.0
    if beside > most:  # no eigenvalue is above 1
        return None
    drawn = max(int(2 * beside), FIRST)
    scaled = gram / (root[:, None] * root) - laplacian.null[:, None] * laplacian.null
    rng = np.random.default_rng(0)
    while True:
        drawn = min(drawn, most + SPARE, K - 1)
        Q = np.linalg.qr(scaled @ np.linalg.qr(scaled @ rng.standard_normal((K, drawn)))[0])[0]
        values, vectors = np.linalg.eigh(Q.T @ scaled @ Q)
        left = beside - np.cumsum(values[::-1])
        if left[-1] <= LEFT or drawn == min(most + SPARE, K - 1):
            break
        drawn *= 2
    few = int(np.argmax(left <= LEFT)) + 1
    return None if left[few - 1] > LEFT or few > most else Q @ vectors[:, ::-1][:, :few] / root[:, None]
