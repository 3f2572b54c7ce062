"""The Hessian as the Laplacian of a weighted graph: solved without cancellation, dense, sparse or unformed.

With shares q and gram G the Hessian is H = diag(q) - G. Rows of p sum to one, so G 1 = q: H has off-diagonal -G_kl,
and a diagonal that is minus the sum of its row. It is scaled to eigenvalues in [0, 1] by Q^{-1/2} H Q^{-1/2}, whose
null vector is w = sqrt(q / n).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from vardi._machine.threads import single_threaded_blas
from vardi._rows.contract import Gram
from vardi._types import Floats
from vardi.errors import VardiError

MAX_SPECTRAL_SAMPLES = 300  # samples up to which every eigenvalue is computed
ROUNDING = 1e-12  # strength of a link, out of 1, that cannot be distinguished from none
MAX_DENSE_SAMPLES = 3000  # samples up to which a gram that is mostly filled is stored as an array
MAX_FACTOR_WORK = 1e10  # multiplications up to which a sparse gram is factored
HUB = 10  # a sample with this many times the links of most is eliminated last
PATIENCE = 20_000  # products with a vector after which conjugate gradients give up
GAP_ERROR = 1e-3  # relative error of the gap from an iterative solver: ten times its tolerance
GAP_VECTORS = 60  # vectors from which the gap is computed if there is no factor


class SingularError(VardiError):
    """Equations that cannot be distinguished from those of unconnected samples; an error if estimates need them."""

    def __init__(self) -> None:
        super().__init__(
            "The equations at the solution are singular to rounding, so estimates have no "
            "errors: some samples overlap too little, or known values leave almost no weight for some rows. "
            "fit.identify() names the weakest link. Add a sample that lies across it, or debias each side alone."
        )


class Laplacian:
    """H = diag(shares) - gram, with its solutions, its spectral gap and its effective resistances.

    Parameters
    ----------
    shares : ndarray of shape (K,)
        q = G 1, all positive.
    gram : Gram
        G, as an array, a SciPy sparse matrix or the function v -> G v.
    """

    def __init__(self, shares: Floats, gram: Gram) -> None:
        self.q, self.gram = shares, _as_array_if_small(gram, len(shares))
        self.root = np.sqrt(shares)
        self.null = self.root / np.linalg.norm(self.root)

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
        return np.asarray(self.q * v - (self.gram(v) if callable(self.gram) else self.gram @ v))

    def gap(self) -> tuple[float, Floats]:
        """Return the second smallest eigenvalue of Q^{-1/2} H Q^{-1/2} and its vector, as a function on samples."""
        K = len(self.q)
        if K <= MAX_SPECTRAL_SAMPLES:
            values, vectors = np.linalg.eigh(self._deflated())
            side = self._components() if values[0] <= ROUNDING else np.ones(K)  # its vector is any of several then
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
            return 0.0, self._components()
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

    def _components(self) -> Floats:
        """Return +1 for samples still connected to the first when links lost in rounding are cut, else -1."""
        if callable(self.gram):
            return np.ones(len(self.q))
        links = sparse.coo_array(self.gram)
        strength = links.data / (self.root[links.row] * self.root[links.col])
        kept = sparse.csr_array((strength * (strength > ROUNDING), (links.row, links.col)), shape=links.shape)
        kept.eliminate_zeros()
        _, labels = sparse.csgraph.connected_components(kept, directed=False)
        return np.where(labels == labels[0], 1.0, -1.0)

    @cached_property
    def is_factored(self) -> bool:
        """Whether it is solved by a factor rather than by products with vectors."""
        if callable(self.gram) or isinstance(self.gram, np.ndarray):
            return not callable(self.gram)
        return self.gram.shape[0] ** 3 <= MAX_FACTOR_WORK or _work(self.gram) <= MAX_FACTOR_WORK

    @cached_property
    def _solve_scaled(self) -> Callable[[Floats], Floats]:
        if not self.is_factored:
            return self._conjugate_gradients
        if sparse.issparse(self.gram):
            return self._sparse_factor()
        factor, failed = scipy.linalg.lapack.dpotrf(self._deflated(), lower=1)
        if failed:
            raise SingularError
        return lambda x: scipy.linalg.lapack.dpotrs(factor, x, lower=1)[0]

    def _deflated(self) -> Floats:
        """Return Q^{-1/2} H Q^{-1/2} + 2 w w': the null vector moved beyond 1, the largest possible eigenvalue."""
        off_diagonal = np.array(self.gram)
        off_diagonal.flat[:: len(self.q) + 1] = 0.0
        scaled = off_diagonal / -(self.root[:, None] * self.root)
        scaled.flat[:: len(self.q) + 1] = off_diagonal.sum(axis=1) / self.q
        return scaled + 2.0 * self.null[:, None] * self.null

    def _sparse_factor(self) -> Callable[[Floats], Floats]:
        off = self.gram.tocoo()
        keep = off.row != off.col
        off = sparse.coo_array((off.data[keep], (off.row[keep], off.col[keep])), shape=off.shape).tocsc()
        H = sparse.diags_array(off.sum(axis=0)).tocsc() - off
        ground = int(np.argmax(self.q))  # H is singular: hold one sample at zero and solve for the others
        free = np.flatnonzero(np.arange(len(self.q)) != ground)
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
            solution[free] = factor.solve((x.T * self.root).T[free])
            return np.asarray((solution.T * self.root).T)

        return solve_scaled

    @cached_property
    def _operator(self) -> Any:
        """Q^{-1/2} H Q^{-1/2} + 2 w w' as a product with a vector."""
        product: Any = self.gram if callable(self.gram) else self.gram.__matmul__

        def scaled(v: Floats) -> Floats:
            v = v.ravel()
            return v - product(v / self.root) / self.root + 2.0 * self.null * (self.null @ v)

        return sparse.linalg.LinearOperator((len(self.q), len(self.q)), matvec=scaled, dtype=np.float64)

    def _conjugate_gradients(self, x: Floats) -> Floats:
        if x.ndim == 2:
            return np.column_stack([self._conjugate_gradients(column) for column in x.T])
        with single_threaded_blas():  # vectors of thousands gain nothing from threads, which wait for one another
            solution, failed = sparse.linalg.cg(self._operator, x, rtol=1e-10, maxiter=PATIENCE)
        if failed:
            raise SingularError
        return np.asarray(solution)


def _work(gram: Any) -> float:
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


def _as_array_if_small(gram: Gram, K: int) -> Gram:
    if callable(gram) and K <= MAX_SPECTRAL_SAMPLES:
        return np.column_stack([gram(e) for e in np.eye(K)])
    if sparse.issparse(gram) and (K <= MAX_SPECTRAL_SAMPLES or (K <= MAX_DENSE_SAMPLES and gram.nnz > 0.1 * K**2)):
        return gram.toarray()
    return gram


def restricted(gram: Gram, sampled: NDArray[np.bool_]) -> Gram:
    """Return the gram of the sampled states alone; the others' part of it is zero."""
    if sampled.all():
        return gram
    if callable(gram):
        where = np.flatnonzero(sampled)

        def restricted(v: Floats) -> Floats:
            padded = np.zeros(len(sampled))
            padded[where] = v
            return np.asarray(gram(padded)[where])

        return restricted
    return gram[np.ix_(sampled, sampled)] if isinstance(gram, np.ndarray) else gram[sampled][:, sampled]
