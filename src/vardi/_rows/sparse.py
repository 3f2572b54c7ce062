"""Rows that few biases cover: a SciPy CSR array of omega, or of log omega; entries not stored have omega = 0."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._machine import blocks, map_blocks, sum_blocks
from vardi._rows.base import Rows, Space
from vardi._rows.contract import Normalised
from vardi._rows.dense import Dense, DenseProbabilities, weighed_products
from vardi._rows.grouping import mean_log_start, membership, widest_tree
from vardi._types import Floats, Integers, Numbers

MAX_PAIRED_SAMPLES = 300  # samples up to which the start uses pairs, for which a subsample is made dense
PAIRWISE = 128  # numbers that NumPy adds one by one before it adds in pairs
MAX_DENSE_SAMPLES = 2000  # samples up to which overlaps are summed in dense blocks
CHEAP = 100.0  # entries of a typical row up to which forming the gram costs less than the products it saves
FILLED = 2.0  # entries of the gram, relative to those of the rows, up to which its products are cheaper
DENSE_IS_FASTER = 30.0  # than a sparse product, by as much for each product of two numbers
PROBE = 50  # samples from whose links the entries of the gram are estimated
MIN_SAMPLES = 100  # samples above which it is worth checking which entries count
MAX_SHARE = 0.04  # of all entries, up to which those that count are kept: solving them takes six times their memory
PROBED = 256  # rows from which this share is estimated
SLACK = 8.0  # how far u may move, as a range, before the entries that count are determined again


class Sparse(Rows):
    """A CSR array. The gram is sparse if it is cheap to form, otherwise only a product with a vector.

    So thousands of samples never need a dense K x K matrix.
    """

    @cached_property
    def _lengths(self) -> Integers:
        return np.diff(self.matrix.indptr)

    @cached_property
    def forms_gram(self) -> bool:
        """Whether rows are short, and samples linked to so few others that the gram is hardly larger than the rows."""
        lengths, K = self._lengths.astype(np.float64), len(self.sizes)
        if float(lengths @ lengths) > CHEAP * float(lengths.sum()):
            return False
        if K <= MAX_DENSE_SAMPLES:
            return True
        some = self.matrix[:, :: K // PROBE]
        return float((some.T @ self.matrix).nnz) * K / some.shape[1] <= FILLED * self.matrix.nnz

    @property
    def width(self) -> int:
        """How many numbers a row has, on average."""
        return -(-self.matrix.nnz // max(len(self), 1))

    @property
    def additions(self) -> int:
        """How many numbers a sum over the rows adds one after the other: those of blocks are added in pairs."""
        parts = blocks(len(self), self.width)
        return self.terms + PAIRWISE + parts[0].stop.bit_length() + len(parts)

    @property
    def terms(self) -> int:
        """How many entries the longest row has."""
        return int(self._lengths.max(initial=1))

    def start(self) -> Floats:
        """Return a first u: from pairs if that fits in memory, otherwise from each sample alone."""
        if len(self.sizes) <= MAX_PAIRED_SAMPLES:
            return super().start()
        own = np.asarray(_with(self.matrix, self._log_data())[np.arange(len(self)), self.source])
        return mean_log_start(own, self.source, self.counts, self.sizes)

    def _log_totals(self, log_weight: Floats) -> Floats:
        """Return log sum_i c_i w_i omega_ik for every k, from log w."""
        with np.errstate(divide="ignore"):
            terms = _with(self.matrix, self._log_data() + self._spread(log_weight + np.log(self.counts))).tocsc()
            filled = np.flatnonzero(np.diff(terms.indptr))
            starts, lengths = terms.indptr[filled], np.diff(terms.indptr)[filled]
            largest = np.maximum.reduceat(terms.data, starts)
            largest[~np.isfinite(largest)] = 0.0
            totals = np.full(len(self.sizes), -np.inf)
            totals[filled] = largest + np.log(np.add.reduceat(np.exp(terms.data - np.repeat(largest, lengths)), starts))
        return totals

    def normalised(
        self, u: Floats, rows: slice | Integers, values: Numbers | None, added: Mapping[int, Floats], space: Space
    ) -> Normalised:
        """Return some rows at u: as they are if no product can leave the floating-point range, else in logs."""
        A = self._rows(rows)
        if self.is_plain(u) and not added:
            step, offset = np.exp(u), np.zeros(1)
        else:
            lengths, step = np.diff(A.indptr), (self.sizes > 0).astype(np.float64)
            with np.errstate(divide="ignore"):
                logs = (A.data if self.log else np.log(A.data)) + u[A.indices]
            for k, x in added.items():
                logs += np.where(A.indices == k, np.repeat(x[:, 0], lengths), 0.0)
            offset = np.maximum.reduceat(logs, A.indptr[:-1])  # no row is empty: each has its own bias
            logs -= np.repeat(offset, lengths)
            A = _with(A, np.exp(logs, out=logs))
        S = np.asarray(A @ step)
        p = SparseProbabilities(A, step, S, 1.0, space)
        with np.errstate(over="ignore"):  # where weights are beyond e^709, the solver takes their logs
            weight = np.exp(-offset) / S
        return Normalised(weight[:, None], lambda: (np.log(S) + offset)[:, None], p)

    def log_omega_of(self, rows: slice | Integers, values: Numbers | None) -> Floats:
        """Return log omega of some rows, as a dense matrix."""
        part = self._rows(rows)
        dense = np.full(part.shape, -np.inf)
        with np.errstate(divide="ignore"):
            dense[np.repeat(np.arange(len(dense)), np.diff(part.indptr)), part.indices] = (
                part.data if self.log else np.log(part.data)
            )
        return dense

    @cached_property
    def reach(self) -> sparse.csr_array:
        """The K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        K, positive = len(self.sizes), self._positive()

        def block(rows: slice) -> sparse.sparray:
            return membership(self.source[rows], K, self.counts[rows]) @ _part(positive, rows)

        reach = sum_blocks(block, len(self), self.width).T.tocsr()
        reach.eliminate_zeros()
        return reach

    def overlap(self, mass: Floats) -> Floats | sparse.csr_array:
        """Return the K x K (sparse) masses of the rows that both biases could have drawn.

        If rows are long, only for the pairs in a tree of the samples that allow most of each other's rows.
        """
        positive, K = self._positive(), len(self.sizes)
        weighted = _with(self.matrix, positive.data * self._spread(mass))
        if self.forms_gram:
            return sum_blocks(
                lambda rows: _part(weighted, rows).T @ _part(positive, rows), len(self), self.width
            ).tocsr()
        if K <= MAX_DENSE_SAMPLES:

            def block(rows: slice) -> Floats:
                return _part(weighted, rows).toarray().T @ _part(positive, rows).toarray()

            return sum_blocks(block, len(self), K)
        sampled = sparse.diags_array((self.sizes > 0).astype(np.float64))
        reach = sampled @ self.reach  # a state without rows links no samples, however many rows it allows
        tree = widest_tree(reach + reach.T)
        columns = weighted.tocsc()
        shared = map_blocks(
            lambda part: _shared(columns, positive, tree.row[part], tree.col[part]), tree.nnz, positive.nnz // K
        )
        return sparse.csr_array((np.concatenate(list(shared)), (tree.row, tree.col)), shape=reach.shape)

    def _rows(self, rows: slice | Integers) -> sparse.csr_array:
        return _part(self.matrix, rows) if isinstance(rows, slice) else self.matrix[rows]

    def _spread(self, values: Numbers) -> Numbers:
        return np.repeat(values, self._lengths)

    def _log_data(self) -> Floats:
        if self.log:
            return np.asarray(self.matrix.data)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.matrix.data))

    def _positive(self) -> sparse.csr_array:
        return _with(self.matrix, (self.matrix.data > (-np.inf if self.log else 0)).astype(np.float64))


def _part(matrix: sparse.csr_array, rows: slice) -> sparse.csr_array:
    """Return successive rows of a CSR array, without a copy."""
    first, last = matrix.indptr[rows.start], matrix.indptr[rows.stop]
    entries = matrix.data[first:last], matrix.indices[first:last], matrix.indptr[rows.start : rows.stop + 1] - first
    return sparse.csr_array(entries, shape=(rows.stop - rows.start, matrix.shape[1]))


def _shared(columns: sparse.csc_array, matrix: sparse.csr_array, first: Integers, second: Integers) -> Floats:
    """Return the inner products of pairs of columns, given as CSC and CSR arrays, through the shorter of the two."""
    lengths = np.diff(columns.indptr)
    swap = lengths[first] > lengths[second]
    short, long = np.where(swap, second, first), np.where(swap, first, second)
    taken = lengths[short]
    pair = np.repeat(np.arange(len(short)), taken)
    place = np.arange(len(pair)) + (columns.indptr[short] - np.cumsum(taken) + taken)[pair]
    rows = columns.indices[place]
    products = columns.data[place] * np.asarray(matrix[rows, long[pair]])
    return np.bincount(pair, products, minlength=len(short)).astype(np.float64, copy=False)


class SparseProbabilities(DenseProbabilities):
    """The same, with A a CSR array."""

    A: sparse.csr_array

    def column(self, k: int | Integers) -> Floats:
        """Return p_k, of a bias for all rows or for each."""
        rows = self.A.shape[0]
        own = np.asarray(self.A[np.arange(rows), np.broadcast_to(k, rows)])
        return (own * self.step[k] / self.S * self.factor)[:, None]

    def sum(self, counts: Floats) -> Floats:
        """Return P'c, summed in pairs: a product with a sparse array adds one by one, and loses digits as n grows."""
        columns, sums = _times_rows(self.A, counts * self.factor / self.S).tocsc(), np.zeros(len(self.step))
        filled = np.flatnonzero(np.diff(columns.indptr))
        sums[filled] = np.add.reduceat(columns.data, columns.indptr[filled])
        return sums * self.step

    def by_code(self, codes: Integers, counts: Floats, size: int) -> Floats:
        """Return the sums of c P over the rows with each code below a size, of shape (size, K)."""
        sums = membership(codes, size, counts * self.factor / self.S) @ self.A
        return np.asarray(sums.toarray()) * self.step

    def gram(self, counts: Floats, precision: type[np.floating] = np.float64) -> sparse.csr_array:
        """Return P'(c P), its products to every digit."""
        p = _times_rows(self._p, np.sqrt(counts))
        return p.T @ p

    def products(self, weights: Floats) -> sparse.csr_array:
        """Return P'(w P) for each of m weights, already counted, one below another.

        Rows of one sample mostly reach the same few others: then they are dense products of a few dozen columns.
        """
        p, K, lengths = self._p, len(self.step), np.diff(self.A.indptr)
        reached = np.unique(p.indices)
        if len(p.indptr) * len(reached) ** 2 > DENSE_IS_FASTER * (lengths @ lengths):
            return sparse.vstack([_weighed_products(p, w) for w in weights.T]).tocsr()
        dense = np.ascontiguousarray(p[:, reached].toarray().T)
        found = np.stack([weighed_products(dense, w) for w in weights.T])
        row = np.repeat(np.add.outer(np.arange(len(found)) * K, reached).ravel(), len(reached))
        column = np.tile(reached, len(row) // len(reached))
        return sparse.csr_array((found.ravel(), (row, column)), shape=(len(found) * K, K))

    @property
    def _p(self) -> sparse.csr_array:
        return _times_rows(_with(self.A, self.A.data * self.step[self.A.indices]), self.factor / self.S)


def _weighed_products(p: sparse.csr_array, w: Floats) -> sparse.csr_array:
    """Return P'(w P), from the rows that have a weight."""
    inside = np.flatnonzero(w)
    rows = p[inside]
    return rows.T @ _times_rows(rows, w[inside])


def _times_rows(matrix: sparse.csr_array, factors: Floats) -> sparse.csr_array:
    """Return a CSR array with each row times a number."""
    return _with(matrix, matrix.data * np.repeat(factors, np.diff(matrix.indptr)))


def _with(matrix: sparse.csr_array, data: Floats) -> sparse.csr_array:
    """Return a CSR array with other numbers."""
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


class Counting(Sparse):
    """The entries that count: so few of all that their gram costs less than a dense one, however long rows are."""

    @property
    def forms_gram(self) -> bool:
        return True


class Thinned(Dense):
    r"""A dense matrix of many samples: near a point the entries that count there stand for it, if they are few.

    With hundreds of samples in a dense matrix, most biases are negligible on a row: :math:`p_{ik}` is
    :math:`10^{-40}`, and its exp costs as much as any other. At a dual point those entries are kept that are no less
    than :math:`e^{-T}` times that of the row's own sample. All others together are, with n rows and K samples, at most
    :math:`nKe^{-T}` rows, and T is such that this is less than a sixteenth of the last place of the smallest sample.
    They are below the precision of a sum over all entries, and stay so while u moves by a few units. What is kept is a
    sparse matrix.
    """

    _last_counting: tuple[Floats, Counting] | None = None  # u, and the entries that count there, if they are few

    def settled(self, u: Floats) -> Rows:
        """Return the entries that count near u; all rows if these are many, or leave some samples without a link."""
        sampled = self.sizes > 0
        if self._last_counting is not None and np.ptp(u[sampled] - self._last_counting[0][sampled]) <= SLACK:
            return self._last_counting[1]
        self._last_counting = None
        few = np.unique(np.linspace(0, len(self) - 1, PROBED).astype(np.intp))
        if np.mean(self._counts(u, few, self.matrix[few])) > MAX_SHARE:
            return self
        found = self._thinned(u)
        links = found.reach[sampled][:, sampled]
        if sparse.csgraph.connected_components(links, directed=False, return_labels=False) > 1:
            return self
        self._last_counting = u.copy(), found
        return found

    def start(self) -> Floats:
        """Return a first u: from each sample alone if few entries count there, otherwise from pairs."""
        alone = mean_log_start(self._log(self._own), self.source, self.counts, self.sizes)
        return super().start() if self.settled(alone) is self else alone

    @cached_property
    def _own(self) -> Floats:
        """The value of each row under the bias of its own sample."""
        return np.asarray(self.matrix[np.arange(len(self)), self.source], np.float64)

    def _counts(self, u: Floats, rows: Any, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which entries of some rows count at u."""
        sizes = self.sizes[self.sizes > 0]
        T = SLACK - np.log(np.finfo(float).eps / 16 * sizes.min() / sizes.sum() / len(self.sizes))
        own, level = self._own[rows], u[self.source[rows]] - T
        if not self.log and self.is_plain(u):
            return np.asarray(values * np.exp(u) >= (own * np.exp(level))[:, None])
        return np.asarray(self._log(values) + u >= (self._log(own) + level)[:, None])

    def _thinned(self, u: Floats) -> Counting:
        K = len(self.sizes)

        def block(rows: slice) -> list[tuple[Integers, Integers, Floats]]:
            values = self.matrix[rows]
            row, column = np.divmod(np.flatnonzero(self._counts(u, rows, values)), K)
            return [(np.bincount(row, minlength=len(values)), column.astype(np.int32), values[row, column])]

        parts = sum_blocks(block, len(self), K, sums=1)
        lengths, columns, values = (np.concatenate(these) for these in zip(*parts, strict=True))
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        narrow = indptr.astype(np.int32 if indptr[-1] < 2**31 else np.int64)  # SciPy uses the wider type for both
        matrix = sparse.csr_array((values.astype(np.float64, copy=False), columns, narrow), shape=(len(self), K))
        moderate = self.moderate and not self.log
        return Counting(matrix, self.source, self.counts, log=self.log, moderate=moderate, inverse=self.inverse)
