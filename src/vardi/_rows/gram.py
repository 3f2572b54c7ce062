"""The gram sum_i c_i p_i p_i' of K biases: an array, a sparse array, or products with the rows if it is not formed.

Its off-diagonal entries are the links of a graph, of which H = diag(q) - G is the Laplacian, with q = G 1. What solves
equations in Q^{-1/2} H Q^{-1/2} depends on the form, so a gram knows its own factor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from vardi._types import Floats, Integers
from vardi.errors import VardiError

MAX_SPECTRAL_SAMPLES = 300  # samples up to which every eigenvalue is computed
MAX_DENSE_SAMPLES = 3000  # samples up to which a gram that is mostly filled is stored as an array
MAX_FACTOR_WORK = 1e10  # multiplications up to which a sparse gram is factored
ROUNDING = 1e-12  # strength of a link, out of 1, that cannot be distinguished from none
HUB = 10  # a sample with this many times the links of most is eliminated last

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


class Gram(ABC):
    """What the solver and the estimates need of a gram."""

    is_formed = True  # whether its entries are known

    @abstractmethod
    def __matmul__(self, v: Floats) -> Floats:
        """Return G v."""

    @abstractmethod
    def among(self, states: NDArray[np.bool_]) -> Gram:
        """Return the gram of some states; the part of others that have no rows is zero."""

    @abstractmethod
    def array(self) -> Floats:
        """Return G as an array."""

    def simplest(self, K: int) -> Gram:
        """Return it as an array, if K is so small that every eigenvalue is computed."""
        return DenseGram(self.array()) if K <= MAX_SPECTRAL_SAMPLES else self

    def factor(self, root: Floats) -> Factor | None:
        """Return what solves its equations, given the root of q; None if products with vectors are cheaper."""
        return None

    def side(self, root: Floats) -> Floats:
        """Return +1 for samples still connected to the first if links lost in rounding are cut, else -1."""
        return np.ones(len(root))

    def strongest(self, first: Integers, second: Integers) -> tuple[int, int] | None:
        """Return the pair of samples, one of each side, with the strongest link; None if it is unknown."""
        return None

    def pairs(self, k: Integers, l: Integers) -> Floats:
        """Return the entries of pairs of samples; NaN if they are unknown."""
        return np.full(len(k), np.nan)

    def over(self, sizes: Floats) -> Floats | sparse.sparray:
        """Return G with its rows divided by sizes, as a sparse array if there are very many; empty if not formed."""
        return np.empty((0, 0))


@dataclass(frozen=True, eq=False)
class FormedGram(Gram):
    """A gram whose entries are known."""

    matrix: Floats | sparse.csr_array

    def __matmul__(self, v: Floats) -> Floats:
        return np.asarray(self.matrix @ v)

    def side(self, root: Floats) -> Floats:
        links = sparse.coo_array(self.matrix)
        strength = links.data / (root[links.row] * root[links.col])
        kept = sparse.csr_array((strength * (strength > ROUNDING), (links.row, links.col)), shape=links.shape)
        kept.eliminate_zeros()
        _, labels = sparse.csgraph.connected_components(kept, directed=False)
        return np.where(labels == labels[0], 1.0, -1.0)

    def strongest(self, first: Integers, second: Integers) -> tuple[int, int]:
        across = sparse.coo_array(self.matrix[first][:, second])
        most = int(across.data.argmax())
        return int(first[across.row[most]]), int(second[across.col[most]])

    def pairs(self, k: Integers, l: Integers) -> Floats:
        return np.asarray(self.matrix[k, l], np.float64).ravel()

    def over(self, sizes: Floats) -> Floats | sparse.sparray:
        if len(sizes) <= MAX_DENSE_SAMPLES:
            return self.array() / sizes[:, None]
        return sparse.diags_array(1.0 / sizes) @ self.matrix


class DenseGram(FormedGram):
    """A gram as an array."""

    def among(self, states: NDArray[np.bool_]) -> DenseGram:
        return self if states.all() else DenseGram(self.matrix[np.ix_(states, states)])

    def array(self) -> Floats:
        return np.asarray(self.matrix)

    def simplest(self, K: int) -> DenseGram:
        return self

    def factor(self, root: Floats) -> Factor:
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

    def among(self, states: NDArray[np.bool_]) -> SparseGram:
        return self if states.all() else SparseGram(self.matrix[states][:, states])

    def array(self) -> Floats:
        return np.asarray(self.matrix.toarray())

    def simplest(self, K: int) -> Gram:
        is_filled = K <= MAX_DENSE_SAMPLES and self.matrix.nnz > 0.1 * K**2
        return DenseGram(self.array()) if is_filled else super().simplest(K)

    def factor(self, root: Floats) -> Factor | None:
        if len(root) ** 3 > MAX_FACTOR_WORK and factor_work(self.matrix) > MAX_FACTOR_WORK:
            return None
        off = self.matrix.tocoo()
        keep = off.row != off.col
        off = sparse.coo_array((off.data[keep], (off.row[keep], off.col[keep])), shape=off.shape).tocsc()
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
class UnformedGram(Gram):
    """A gram of which only products with vectors of shape (K,) are made, each with the rows."""

    K: int
    product: Callable[[Floats], Floats]
    is_formed = False

    def __matmul__(self, v: Floats) -> Floats:
        return self.product(v)

    def among(self, states: NDArray[np.bool_]) -> UnformedGram:
        if states.all():
            return self

        def product(v: Floats) -> Floats:
            padded = np.zeros(self.K)
            padded[states] = v
            return self.product(padded)[states]

        return UnformedGram(int(states.sum()), product)

    def array(self) -> Floats:
        return np.column_stack([self.product(e) for e in np.eye(self.K)])


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
