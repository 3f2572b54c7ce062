"""The gram G = sum_i c_i p_i p_i' of K biases, and the Hessian as the Laplacian of a graph, without cancellation.

A gram is an array, a sparse array, or products with the rows if it is not formed. Its off-diagonal entries are the
links of the graph: with shares q the Hessian is H = diag(q) - G. Rows of p sum to one, so G 1 = q: H has off-diagonal
-G_kl, and a diagonal that is minus the sum of its row. It is scaled to eigenvalues in [0, 1] by Q^{-1/2} H Q^{-1/2},
whose null vector is w = sqrt(q / n). What solves these equations depends on the form, so a gram knows its own factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from vardi._machine import single_threaded_blas
from vardi._types import Floats, Integers
from vardi.errors import VardiError

if TYPE_CHECKING:
    from vardi._rows.contract import Sums

MAX_SPECTRAL_SAMPLES = 300  # samples up to which every eigenvalue is computed
MAX_DENSE_SAMPLES = 3000  # samples up to which a gram that is mostly filled is stored as an array
MAX_FACTOR_WORK = 1e10  # multiplications up to which a sparse gram is factored
ROUNDING = 1e-12  # strength of a link, out of 1, that cannot be distinguished from none
HUB = 10  # a sample with this many times the links of most is eliminated last
PATIENCE = 20_000  # products with a vector after which conjugate gradients give up
GAP_ERROR = 1e-3  # relative error of the gap from an iterative solver: ten times its tolerance
GAP_VECTORS = 60  # vectors from which the gap is computed if there is no factor

#: Solves Q^{-1/2} H Q^{-1/2} x = y, up to the null vector, for y of shape (K,) or (K, m).
Factor: TypeAlias = Callable[[Floats], Floats]


class SingularError(VardiError):
    """Equations that cannot be distinguished from those of unconnected samples; an error if estimates need them."""

    def __init__(self) -> None:
        super().__init__(
            "The equations at the solution are singular to rounding, so estimates have no "
            "errors: some samples overlap too little, or known values leave almost no weight for some rows. "
            "fit.identify() names the weakest link. Add a sample that lies across it, or debias each side alone."
        )


@dataclass(frozen=True, eq=False)
class FormedGram:
    """A gram whose entries are known."""

    matrix: Floats | sparse.csr_array
    is_formed = True

    def __matmul__(self, v: Floats) -> Floats:
        """Return G v."""
        return np.asarray(self.matrix @ v)

    def among(self, states: NDArray[np.bool_]) -> Self:
        """Return the gram of some states; the part of others that have no rows is zero."""
        return self if states.all() else type(self)(self.matrix[states][:, states])

    def array(self) -> Floats:
        """Return G as an array."""
        return self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.toarray()

    def side(self, root: Floats) -> Floats:
        """Return +1 for samples still connected to the first if links lost in rounding are cut, else -1."""
        links = sparse.coo_array(self.matrix)
        strength = links.data / (root[links.row] * root[links.col])
        kept = sparse.csr_array((strength * (strength > ROUNDING), (links.row, links.col)), shape=links.shape)
        kept.eliminate_zeros()
        _, labels = sparse.csgraph.connected_components(kept, directed=False)
        return np.where(labels == labels[0], 1.0, -1.0)

    def strongest(self, first: Integers, second: Integers) -> tuple[int, int]:
        """Return the pair of samples, one of each side, with the strongest link."""
        across = sparse.coo_array(self.matrix[first][:, second])
        most = int(across.data.argmax())
        return int(first[across.row[most]]), int(second[across.col[most]])

    def pairs(self, k: Integers, l: Integers) -> Floats:
        """Return the entries of pairs of samples."""
        return np.asarray(self.matrix[k, l], np.float64).ravel()

    def over(self, sizes: Floats) -> Floats | sparse.sparray:
        """Return G with its rows divided by sizes, as a sparse array if there are very many."""
        if len(sizes) <= MAX_DENSE_SAMPLES:
            return self.array() / sizes[:, None]
        return sparse.diags_array(1.0 / sizes) @ self.matrix


class DenseGram(FormedGram):
    """A gram as an array."""

    def factor(self, root: Floats) -> Factor:
        """Return what solves its equations, given the root of q."""
        factor, failed = scipy.linalg.lapack.dpotrf(self.deflated(root), lower=1)
        if failed:
            raise SingularError
        return lambda x: scipy.linalg.lapack.dpotrs(factor, x, lower=1)[0]

    def deflated(self, root: Floats) -> Floats:
        """Return Q^{-1/2} H Q^{-1/2} + 2 w w': the null vector moved beyond 1, the largest possible eigenvalue."""
        off_diagonal, null = np.array(self.matrix), root / np.linalg.norm(root)
        off_diagonal.flat[:: len(root) + 1] = 0.0
        scaled = off_diagonal / -(root[:, None] * root)
        scaled.flat[:: len(root) + 1] = off_diagonal.sum(axis=1) / root**2
        return scaled + 2.0 * null[:, None] * null


class SparseGram(FormedGram):
    """A gram as a CSR array."""

    matrix: sparse.csr_array

    def factor(self, root: Floats) -> Factor | None:
        """Return what solves its equations, given the root of q; None if products with vectors are cheaper."""
        if len(root) ** 3 > MAX_FACTOR_WORK and factor_work(self.matrix) > MAX_FACTOR_WORK:
            return None
        off = self.matrix.tocsc()
        off.setdiag(0.0)
        H = sparse.diags_array(off.sum(axis=0)).tocsc() - off
        ground = int(np.argmax(root))  # H is singular: hold one sample at zero and solve for the others
        free = np.flatnonzero(np.arange(len(root)) != ground)
        try:
            factor = sparse.linalg.splu(
                H[free][:, free].tocsc(),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError as error:
            raise SingularError from error

        def solve_scaled(x: Floats) -> Floats:
            solution = np.zeros(x.shape)
            solution[free] = factor.solve((x.T * root).T[free])
            return np.asarray((solution.T * root).T)

        return solve_scaled


@dataclass(frozen=True, eq=False)
class UnformedGram:
    """A gram of which only products with vectors of shape (K,) are made, each with the rows: no entry is known."""

    K: int
    product: Callable[[Floats], Floats]
    is_formed = False

    def __matmul__(self, v: Floats) -> Floats:
        """Return G v."""
        return self.product(v)

    def among(self, states: NDArray[np.bool_]) -> UnformedGram:
        """Return the gram of some states; the part of others that have no rows is zero."""
        if states.all():
            return self
        chosen = sparse.eye_array(self.K, format="csc")[:, states]
        return UnformedGram(chosen.shape[1], lambda v: self.product(chosen @ v)[states])

    def array(self) -> Floats:
        """Return G as an array."""
        return np.column_stack([self.product(e) for e in np.eye(self.K)])

    def factor(self, root: Floats) -> None:
        """Return nothing: products with vectors solve its equations."""

    def side(self, root: Floats) -> Floats:
        """Return +1 for every sample, as if none were cut off."""
        return np.ones(len(root))

    def strongest(self, first: Integers, second: Integers) -> None:
        """Return no pair."""

    def pairs(self, k: Integers, l: Integers) -> Floats:
        """Return NaN for every pair."""
        return np.full(len(k), np.nan)

    def over(self, sizes: Floats) -> Floats:
        """Return an empty array."""
        return np.empty((0, 0))


#: A gram in one of its forms.
Gram: TypeAlias = DenseGram | SparseGram | UnformedGram


def simplest(gram: Gram, K: int) -> Gram:
    """Return a gram as an array, if K is so small that every eigenvalue is computed, or if it is mostly filled."""
    is_filled = isinstance(gram, SparseGram) and K <= MAX_DENSE_SAMPLES and gram.matrix.nnz > 0.1 * K**2
    return DenseGram(gram.array()) if is_filled or K <= MAX_SPECTRAL_SAMPLES else gram


def factor_work(gram: sparse.csr_array) -> float:
    """Return about how many multiplications a sparse factor takes: the square of its width, summed over samples.

    The width is that of a band around the diagonal, apart from hubs. A factor of samples along a line or over a plane
    is narrow; if every sample is linked with every other it fills up.
    """
    links = np.diff(gram.indptr)
    hubs = links > HUB * np.median(links)
    others = gram[~hubs][:, ~hubs]
    place = np.empty(others.shape[0], np.int64)
    place[sparse.csgraph.reverse_cuthill_mckee(others, symmetric_mode=True)] = np.arange(len(place))
    first = np.minimum.reduceat(place[others.indices], others.indptr[:-1])  # every sample has a link, if only to itself
    return float(((place - first + hubs.sum()).astype(np.float64) ** 2).sum())


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
        self.q, self.gram = shares, simplest(gram, len(shares))
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
