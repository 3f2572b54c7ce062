"""The Hessian as the Laplacian of a weighted graph, solved without cancellation.

With shares q and gram G the Hessian is H = diag(q) - G. Rows of p sum to one, so G 1 = q: H has off-diagonal -G_kl,
and a diagonal that is minus the sum of its row. It is scaled to eigenvalues in [0, 1] by Q^{-1/2} H Q^{-1/2}, whose
null vector is w = sqrt(q / n).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._machine import single_threaded_blas
from vardi._rows.contract import Sums
from vardi._rows.gram import MAX_SPECTRAL_SAMPLES, ROUNDING, DenseGram, Factor, Gram, SingularError
from vardi._types import Floats

PATIENCE = 20_000  # products with a vector after which conjugate gradients give up
GAP_ERROR = 1e-3  # relative error of the gap from an iterative solver: ten times its tolerance
GAP_VECTORS = 60  # vectors from which the gap is computed if there is no factor


class Laplacian:
    """H = diag(shares) - gram, with its solutions, its spectral gap and its effective resistances.

    Parameters
    ----------
    shares : ndarray of shape (K,)
        q = G 1, all positive.
    gram : Gram
        G.
    """

    def __init__(self, shares: Floats, gram: Gram) -> None:
        self.q, self.gram = shares, gram.simplest(len(shares))
        self.root = np.sqrt(shares)
        self.null = self.root / np.linalg.norm(self.root)

    @classmethod
    def of(cls, sums: Sums, states: NDArray[np.bool_]) -> Laplacian:
        """Return the Hessian over some states, from sums over the rows."""
        assert sums.gram is not None
        return cls(sums.shares[states], sums.gram.among(states))

    def solve(self, gradient: Floats) -> Floats:
        """Return H^+ gradient, up to a constant (a generalised inverse: contrasts are what matters).

        The gradient has shape (K,), or (K, m) for several at once.
        """
        # Keep it in the range of H despite rounding
        in_range = gradient.T - self.q * (gradient.sum(axis=0, keepdims=True).T / self.q.sum())
        return np.asarray((self._solve_scaled((in_range / self.root).T).T / self.root).T)

    def largest_decrement(self, gradient: Floats) -> float:
        """Return gradient' H^+ gradient."""
        return float(gradient @ self.solve(gradient))

    def product(self, v: Floats) -> Floats:
        """Return H v."""
        return self.q * v - self.gram @ v

    def gap(self) -> tuple[float, Floats]:
        """Return the second smallest eigenvalue of Q^{-1/2} H Q^{-1/2} and its vector, as a function on samples."""
        K = len(self.q)
        if K <= MAX_SPECTRAL_SAMPLES:
            values, vectors = np.linalg.eigh(DenseGram(self.gram.array()).deflated(self.root))
            # the vector of a gap of zero is any of several
            side = self.gram.side(self.root) if values[0] <= ROUNDING else np.ones(K)
            return float(min(values[0], 1.0)), vectors[:, 0] / self.root if (side > 0).all() else side
        start = np.random.default_rng(0).standard_normal(K)
        try:
            if self.is_factored:
                inverse = sparse.linalg.LinearOperator((K, K), matvec=self._project, dtype=np.float64)
                values, vectors = sparse.linalg.eigsh(inverse, k=1, which="LA", v0=start, tol=GAP_ERROR / 10)
                values = 1.0 / values
            else:
                with single_threaded_blas():
                    values, vectors = sparse.linalg.eigsh(
                        self._operator, k=1, which="SA", v0=start, tol=GAP_ERROR / 10, ncv=GAP_VECTORS
                    )
        except (SingularError, sparse.linalg.ArpackNoConvergence):
            return 0.0, self.gram.side(self.root)
        return float(min(values[0], 1.0)), vectors[:, 0] / self.root

    def largest_resistance(self, gap: float) -> float:
        """Return max_kl (e_k - e_l)' H^+ (e_k - e_l), or for many samples an upper bound from the gap."""
        if len(self.q) <= MAX_SPECTRAL_SAMPLES:
            inverse = self._solve_scaled(np.eye(len(self.q))) / (self.root[:, None] * self.root)
            diagonal = np.diag(inverse)
            return float((diagonal[:, None] + diagonal - inverse - inverse.T).max())
        return float((1.0 / np.sort(self.q)[:2]).sum() / (gap * (1.0 - GAP_ERROR)))

    def _project(self, x: Floats) -> Floats:
        x = x.ravel()
        x = self._solve_scaled(x - self.null * (self.null @ x))
        return x - self.null * (self.null @ x)

    @property
    def is_factored(self) -> bool:
        """Whether it is solved by a factor rather than by products with vectors."""
        return self._factor is not None

    @cached_property
    def _factor(self) -> Factor | None:
        return self.gram.factor(self.root)

    @property
    def _solve_scaled(self) -> Factor:
        return self._factor or self._conjugate_gradients

    @cached_property
    def _operator(self) -> sparse.linalg.LinearOperator:
        """Q^{-1/2} H Q^{-1/2} + 2 w w' as a product with a vector."""

        def scaled(v: Floats) -> Floats:
            v = v.ravel()
            return v - self.gram @ (v / self.root) / self.root + 2.0 * self.null * (self.null @ v)

        return sparse.linalg.LinearOperator((len(self.q), len(self.q)), matvec=scaled, dtype=np.float64)

    def _conjugate_gradients(self, x: Floats) -> Floats:
        if x.ndim == 2:
            return np.column_stack([self._conjugate_gradients(column) for column in x.T])
        with single_threaded_blas():  # vectors of thousands gain nothing from threads, which wait for one another
            solution, failed = sparse.linalg.cg(self._operator, x, rtol=1e-10, maxiter=PATIENCE)
        if failed:
            raise SingularError
        return np.asarray(solution)
