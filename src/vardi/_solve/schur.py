r"""J with thousands of normalisers: its part in u is never an array, and the other coordinates are few.

With shares q and gram G of the rows as modified by known moments, the part of J in u is :math:`A = Q - G`. The
entries of G between samples are those of a Laplacian :math:`L = \mathrm{diag}(G1) - G`, so that A is L and a diagonal
that vanishes with mu. With B and C the parts of J beside it, :math:`A - B C^{-1} B'` is what is left of the equations
in u when the others are eliminated: positive at a solution, where A itself may be indefinite or singular, and possibly
indefinite on the way there. It is solved by MINRES, preconditioned by L and what known moments add to it, if L has a
factor. (Without one, both would cost only products with G.)

J is flat along the gauge, u + c with mu e^c, and L along the level of each group of samples that only known moments
join. Levels are therefore taken out of A, in the scale of :math:`Q^{-1/2} A Q^{-1/2}`, and put beside mu; that of all
samples together is held fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from vardi._machine.threads import single_threaded_blas
from vardi._rows.contract import Bordered
from vardi._solve.laplacian import GAP_VECTORS, PATIENCE, Laplacian, SingularError, restricted
from vardi._types import Floats

RANK = 1e-11  # relative size of an eigenvalue above which a direction counts
CLOSE = 1e-12  # residual of MINRES relative to the right-hand side: what is sought
ENOUGH = 1e-6  # and what is accepted if rounding allows no more: the equations themselves are tested anyway
REFINED = 10  # how often the residual is solved for again, while each time leaves a tenth of it or less
SPECTRUM = 1e-3  # relative error of eigenvalues of which only the sign counts


class Schur:
    """J at a point, solved by its Schur complement; the level of u, which J leaves open, is held fixed on average.

    Parameters
    ----------
    shares : ndarray of shape (K,)
        The diagonal from which the gram is subtracted to give the part of J in u.
    gram : Bordered
        That gram as the corner, and the columns of J itself beside it.
    scale : ndarray of shape (d - K,)
        The root of each other coordinate's curvature.
    """

    def __init__(self, shares: Floats, gram: Bordered, scale: Floats) -> None:
        self.sampled = gram.groups >= 0
        self.groups = np.unique(gram.groups[self.sampled], return_inverse=True)[1]
        self.root, self.scale = np.sqrt(shares[self.sampled]), scale
        self.gram = restricted(gram.corner, self.sampled)
        self.beside = gram.beside[: len(shares)][self.sampled] / (self.root[:, None] * scale)
        self.others = gram.others / (scale[:, None] * scale)
        if not (self.root > 0).all():  # a share that underflows
            raise SingularError

    def solve(self, a: Floats) -> Floats:
        """Return J^+ a, zero for states without rows; a has shape (d,) or (d, m)."""
        K, columns = len(self.sampled), a.reshape(len(a), -1)
        right = columns[:K][self.sampled] / self.root[:, None]
        beyond = np.vstack([self.levels.T @ right, columns[K:] / self.scale[:, None]])
        inside = self._inside(self._within(right) - self.border @ (self.corner_inverse @ beyond))
        others = self.corner_inverse @ (beyond - self.border.T @ inside)
        inside = inside + self.levels @ others[: self.levels.shape[1]]
        b = np.zeros(columns.shape)
        b[:K][self.sampled] = inside / self.root[:, None]
        b[K:] = others[self.levels.shape[1] :] / self.scale[:, None]
        return b.reshape(a.shape)

    @property
    def inertia(self) -> tuple[int, int]:
        """The number of positive and of negative eigenvalues: those of C, and of what is left in u.

        Of the latter only the smallest is computed. If it is negative, J may have more negative eigenvalues than
        counted here, but does not belong to a solution either way.

        Raises
        ------
        SingularError
            If the signs cannot be determined.
        """
        values = self._spectrum[0]
        least = RANK * float(np.abs(values).max(initial=0.0))
        below = int(self._smallest() < 0)
        inside = len(self.root) - self.flat.shape[1]
        return inside - below + int((values > least).sum()), below + int((values < -least).sum())

    @cached_property
    def flat(self) -> Floats:
        """The level of each group, as orthonormal columns over the scaled samples."""
        flat = np.zeros((len(self.root), self.groups.max() + 1))
        flat[np.arange(len(self.root)), self.groups] = self.root
        return np.asarray(flat / np.linalg.norm(flat, axis=0))

    @cached_property
    def levels(self) -> Floats:
        """Orthonormal contrasts of the groups' levels: the level of all together is the gauge."""
        together = self.flat.T @ self.root
        return np.asarray(self.flat @ np.linalg.svd(together[None, :])[2][1:].T)

    @cached_property
    def border(self) -> Floats:
        """The columns of J beside A: those of levels and of the other coordinates."""
        return self._within(np.column_stack([self._product(self.levels), self.beside]))

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues and vectors of C, the part of J in levels and the other coordinates."""
        across = self.levels.T @ self.beside
        corner = np.block([[self.levels.T @ self._product(self.levels), across], [across.T, self.others]])
        values, vectors = np.linalg.eigh(corner)
        return values, vectors

    @cached_property
    def corner_inverse(self) -> Floats:
        """C^+."""
        values, vectors = self._spectrum
        kept = np.abs(values) > RANK * max(float(np.abs(values).max(initial=0.0)), 1e-300)
        return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T)

    def _within(self, x: Floats) -> Floats:
        """Return x without the levels of the groups."""
        return np.asarray(x - self.flat @ (self.flat.T @ x))

    @cached_property
    def _scaled_gram(self) -> Callable[[Floats], Floats]:
        """The product with Q^{-1/2} G Q^{-1/2}."""
        if callable(self.gram):
            return lambda x: self.gram(x / self.root) / self.root
        inverse = sparse.diags_array(1.0 / self.root)
        scaled = (inverse @ sparse.csr_array(self.gram) @ inverse).tocsr()
        return lambda x: scaled @ x

    def _product(self, x: Floats) -> Floats:
        """Return Q^{-1/2} A Q^{-1/2} x for x of shape (K, m)."""
        return x - _by_column(self._scaled_gram, x)

    @cached_property
    def _left(self) -> Any:
        """A - B C^{-1} B' in the scaled coordinates, the levels of the groups moved to 2."""
        return self._as_operator(
            lambda x: self._inner(x, 1.0) - self.border @ (self.corner_inverse @ (self.border.T @ x))
        )

    def _inner(self, x: Floats, diagonal: Floats | float) -> Floats:
        """Return the product with a diagonal minus the scaled gram, the levels of the groups moved to 2."""
        inside = self._within(x)
        return self._within(diagonal * inside - self._scaled_gram(inside)) + 2.0 * (x - inside)

    def _as_operator(self, product: Callable[[Floats], Floats]) -> Any:
        K = len(self.root)
        return sparse.linalg.LinearOperator((K, K), matvec=lambda x: product(x.ravel()), dtype=np.float64)

    @cached_property
    def _known(self) -> Floats:
        """U with U U' the positive part of -B C^{-1} B': what the known moments add."""
        values, vectors = self._spectrum
        below = values < -RANK * float(np.abs(values).max(initial=0.0))
        return np.asarray(self.border @ (vectors[:, below] / np.sqrt(-values[below])))

    @cached_property
    def _preconditioner(self) -> Any:
        """(L + U U')^+ in the same scale, or None if L has no factor."""
        members = [self.groups == label for label in range(self.flat.shape[1])]
        parts = [(states, Laplacian(*self._links(states))) for states in members if states.sum() > 1]
        if not all(laplacian.is_factored for _, laplacian in parts):
            return None

        def solve(x: Floats) -> Floats:
            inside = self._within(x)
            right, solved = inside * self.root, np.zeros(len(x))
            for states, laplacian in parts:
                solved[states] = laplacian.solve(right[states])
            return self._within(solved * self.root) + (x - inside) / 2.0

        U = self._known
        solved = _by_column(solve, U)
        inner = np.linalg.inv(np.eye(U.shape[1]) + U.T @ solved)
        return self._as_operator(lambda x: solve(x) - solved @ (inner @ (solved.T @ x)))

    def _links(self, states: Any) -> tuple[Floats, Any]:
        """Return the row sums of the gram of a group, and that gram."""
        gram = restricted(self.gram, states)
        ones = np.ones(int(states.sum()))
        return np.asarray(gram(ones) if callable(gram) else gram @ ones), gram

    def _inside(self, x: Floats) -> Floats:
        """Return (A - B C^{-1} B')^+ x in the scaled coordinates, levels apart, for x of shape (K, m)."""
        with single_threaded_blas():  # vectors of thousands gain nothing from threads, which wait for one another
            return _by_column(self._column, x)

    def _column(self, x: Floats) -> Floats:
        y, left, M = np.zeros(len(x)), x, self._preconditioner
        tolerance = CLOSE if M is None else np.finfo(float).eps  # with M, SciPy compares lengths in two scales
        size = float(np.linalg.norm(x))
        for _ in range(REFINED):
            if np.linalg.norm(left) <= CLOSE * size:
                break
            try:
                change, _ = sparse.linalg.minres(self._left, left, M=M, rtol=tolerance, maxiter=PATIENCE)
            except ValueError as error:  # rounding made the preconditioner indefinite
                raise SingularError from error
            before, after = np.linalg.norm(left), x - self._left @ (y + change)
            if np.linalg.norm(after) < before:
                y, left = y + change, after
            if not np.linalg.norm(after) < before / 10:
                break
        if np.linalg.norm(left) > ENOUGH * size:
            raise SingularError
        return y

    def _smallest(self) -> float:
        """Return the smallest eigenvalue of A - B C^{-1} B', relative to what the preconditioner inverts, if any."""
        K, relative = len(self.root), {}
        if self._preconditioner is not None:  # most eigenvalues are then near 1
            sums = self._links(np.ones(K, bool))[0] / self.root**2
            near = self._as_operator(lambda x: self._inner(x, sums) + self._known @ (self._known.T @ x))
            relative = {"M": near, "Minv": self._preconditioner}
        start = np.random.default_rng(0).standard_normal(K)
        try:
            with single_threaded_blas():
                values = sparse.linalg.eigsh(
                    self._left,
                    k=1,
                    which="SA",
                    v0=start,
                    tol=SPECTRUM,
                    ncv=GAP_VECTORS,
                    return_eigenvectors=False,
                    **relative,
                )
        except (sparse.linalg.ArpackError, ValueError) as error:
            raise SingularError from error
        return float(values[0])


def _by_column(function: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Return a function of each column of x."""
    return np.column_stack([np.empty((len(x), 0)), *(function(column) for column in x.T)])
