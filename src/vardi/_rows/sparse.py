"""Rows that few biases cover: a SciPy CSR array of omega, or of log omega; entries not stored have omega = 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from vardi._machine.threads import map_blocks, sum_blocks
from vardi._rows.base import MODERATE, InverseMasses, Rows, Space
from vardi._rows.columns import Normalised
from vardi._rows.contract import Sums
from vardi._rows.dense import weighed_products
from vardi._rows.gram import Gram, SparseGram, UnformedGram
from vardi._rows.grouping import membership
from vardi._rows.start import mean_log_start, widest_tree
from vardi._types import Floats, Integers, Numbers

MAX_PAIRED_SAMPLES = 300  # samples up to which the start uses pairs, for which a subsample is made dense
MAX_DENSE_SAMPLES = 2000  # samples up to which overlaps are summed in dense blocks
PAIRWISE = 128  # numbers that NumPy adds one by one before it adds in pairs
CHEAP = 100.0  # entries of a typical row up to which forming the gram costs less than the products it saves
FILLED = 2.0  # entries of the gram, relative to those of the rows, up to which its products are cheaper
FEW_COLUMNS = 8  # that are summed one after the other, in pairs; more, block by block
DENSE_IS_FASTER = 30.0  # than a sparse product, by as much for each product of two numbers
PROBE = 50  # samples from whose links the entries of the gram are estimated
FAR = 100.0  # how far u may move from the point at which the rows were scaled


@dataclass(frozen=True)
class Scaled:
    """A matrix A and offsets a with A_ik = omega_ik e^{anchor_k - a_i}: from here on a step needs only K exps."""

    matrix: sparse.csr_array
    offset: Floats | None
    anchor: Floats

    @cached_property
    def columns(self) -> sparse.csc_array:
        """The matrix by columns."""
        return self.matrix.tocsc()


class Sparse(Rows):
    """A CSR array. The gram is sparse if it is cheap to form, otherwise only a product with a vector.

    So thousands of samples never need a dense K x K matrix.
    """

    _scaled: Scaled | None = None
    _reached: sparse.csr_array | None = None

    def _recount(self) -> None:
        self._reached = None

    @cached_property
    def _lengths(self) -> Integers:
        return np.diff(self.matrix.indptr)

    @cached_property
    def _forms_gram(self) -> bool:
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
        """How many numbers a sum over the rows adds one after the other: few, since they are added in pairs."""
        return PAIRWISE + int(self._lengths.max(initial=0)) + len(self).bit_length()

    def sums(self, u: Floats, *, gram: bool = True, objective: bool = True, rough: bool = False) -> Sums:
        """Return shares and, if asked for, gram and log_mass at u."""
        scaled = self._scale(u)
        step = np.exp(u - scaled.anchor)
        S = np.asarray(scaled.matrix @ step)
        shares = self._column_sums(scaled, self.counts / S) * step
        log_mass = float((self.log_row_mass(u) * self.counts).sum()) if objective else None
        return Sums(log_mass, shares, self._gram(scaled, step, S) if gram else None)

    def _column_sums(self, scaled: Scaled, y: Floats) -> Floats:
        """Return A'y, summed in pairs: a product with a sparse array adds one by one, and loses digits as n grows."""
        columns, sums = scaled.columns, np.zeros(len(self.sizes))
        filled = np.flatnonzero(np.diff(columns.indptr))
        sums[filled] = np.add.reduceat(columns.data * y[columns.indices], columns.indptr[filled])
        return sums

    def _gram(self, scaled: Scaled, step: Floats, S: Floats) -> Gram:
        if not self._forms_gram:
            transposed = scaled.columns.T
            counts = self.counts / S / S
            return UnformedGram(len(step), lambda v: transposed @ (scaled.matrix @ (v * step) * counts) * step)
        root = np.sqrt(self.counts) / S

        def block(rows: slice) -> sparse.csr_array:
            part = _times_rows(_part(scaled.matrix, rows), root[rows])
            return part.T @ part

        gram = self._total(block).tocsr()
        gram.data *= np.repeat(step, np.diff(gram.indptr)) * step[gram.indices]
        return SparseGram(gram)

    def start(self) -> Floats:
        """Return a first u: from pairs if that fits in memory, otherwise from each sample alone."""
        if len(self.sizes) <= MAX_PAIRED_SAMPLES:
            return super().start()
        own = np.asarray(self._with(self._log_data())[np.arange(len(self)), self.source])
        return mean_log_start(membership(self.source, len(self.sizes), self.counts) @ own, self.sizes)

    def inverse_masses(self, u: Floats) -> InverseMasses:
        """Return 1 / S_i(u) for every row, or its log."""
        scaled = self._scale(u)
        S = np.asarray(scaled.matrix @ np.exp(u - scaled.anchor))
        if scaled.offset is None:
            return InverseMasses(u, 1.0 / S, are_logs=False)
        return InverseMasses(u, -np.log(S) - scaled.offset, are_logs=True)

    def _log_totals(self, log_weight: Floats) -> Floats:
        """Return log sum_i c_i w_i omega_ik for every k, from log w."""
        with np.errstate(divide="ignore"):
            terms = self._with(self._log_data() + self._spread(log_weight + np.log(self.counts))).tocsc()
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
        """Return some rows at u."""
        part = _part(self.matrix, rows) if isinstance(rows, slice) else self.matrix[rows]
        lengths, starts = np.diff(part.indptr), part.indptr[:-1]
        with np.errstate(divide="ignore"):
            logs = (part.data if self.log else np.log(part.data)) + u[part.indices]
        for k, x in added.items():
            logs += np.where(part.indices == k, np.repeat(x[:, 0], lengths), 0.0)
        offset = np.maximum.reduceat(logs, starts)  # no row is empty: each has its own bias
        terms = np.exp(logs - np.repeat(offset, lengths))
        S = np.add.reduceat(terms, starts)
        p = sparse.csr_array((terms / np.repeat(S, lengths), part.indices, part.indptr), shape=part.shape)
        return Normalised((np.exp(-offset) / S)[:, None], lambda: (np.log(S) + offset)[:, None], SparseProbabilities(p))

    def log_omega_of(self, rows: slice | Integers, values: Numbers | None) -> Floats:
        """Return log omega of some rows, as a dense matrix."""
        part = _part(self.matrix, rows) if isinstance(rows, slice) else self.matrix[rows]
        dense = np.full(part.shape, -np.inf)
        with np.errstate(divide="ignore"):
            dense[np.repeat(np.arange(len(dense)), np.diff(part.indptr)), part.indices] = (
                part.data if self.log else np.log(part.data)
            )
        return dense

    def reach(self) -> sparse.csr_array:
        """Return the K x K (sparse) counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        if self._reached is None:
            K, positive = len(self.sizes), self._positive()

            def block(rows: slice) -> sparse.sparray:
                counts = self.counts[rows]
                return membership(self.source[rows], K, counts) @ _part(positive, rows)

            self._reached = self._total(block).T.tocsr()
            self._reached.eliminate_zeros()
        return self._reached

    def overlap(self, mass: Floats) -> Floats | sparse.csr_array:
        """Return the K x K (sparse) masses of the rows that both biases could have drawn.

        If rows are long, only for the pairs in a tree of the samples that allow most of each other's rows.
        """
        positive, K = self._positive(), len(self.sizes)
        weighted = self._with(positive.data * self._spread(mass))
        if self._forms_gram:
            return self._total(lambda rows: _part(weighted, rows).T @ _part(positive, rows)).tocsr()
        if K <= MAX_DENSE_SAMPLES:

            def block(rows: slice) -> Floats:
                return _part(weighted, rows).toarray().T @ _part(positive, rows).toarray()

            return sum_blocks(block, len(self), K)
        sampled = sparse.diags_array((self.sizes > 0).astype(np.float64))
        reach = sampled @ self.reach()  # a state without rows links no samples, however many rows it allows
        tree = widest_tree(reach + reach.T)
        columns = weighted.tocsc()
        shared = map_blocks(
            lambda part: _shared(columns, positive, tree.row[part], tree.col[part]), tree.nnz, positive.nnz // K
        )
        return sparse.csr_array((np.concatenate(list(shared)), (tree.row, tree.col)), shape=reach.shape)

    def _total(self, function: Callable[[slice], sparse.sparray]) -> sparse.sparray:
        """Sum the function's results over all blocks of rows."""
        return sum_blocks(function, len(self), self.matrix.nnz // max(len(self), 1))

    def exponents(self, u: Floats) -> float:
        """Return the size of what scaling rounds."""
        scaled = self._scale(u)
        return 0.0 if scaled.offset is None else self._exponents(scaled.offset, float(np.abs(scaled.anchor).max()))

    def anchor(self, u: Floats) -> None:
        """Scale the rows once for all points near u."""
        self._scale(u)

    def _scale(self, u: Floats) -> Scaled:
        sampled = self.sizes > 0
        if self._scaled is None and self.moderate and np.abs(u[sampled]).max() < MODERATE:
            return self._unscaled
        if self._scaled is None or np.abs((u - self._scaled.anchor)[sampled]).max() > FAR:
            self._scaled = self._anchored(u)
        return self._scaled

    @cached_property
    def _unscaled(self) -> Scaled:
        return Scaled(self.matrix, None, np.zeros(len(self.sizes)))

    def _anchored(self, u: Floats) -> Scaled:
        logs = self._log_data() + u[self.matrix.indices]
        offset = np.maximum.reduceat(logs, self.matrix.indptr[:-1])  # no row is empty: each has its own bias
        logs -= self._spread(offset)
        return Scaled(self._with(np.exp(logs, out=logs)), offset, np.where(self.sizes > 0, u, 0.0))

    def _spread(self, values: Numbers) -> Numbers:
        return np.repeat(values, self._lengths)

    def _log_data(self) -> Floats:
        if self.log:
            return np.asarray(self.matrix.data)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.matrix.data))

    def _positive(self) -> sparse.csr_array:
        return self._with((self.matrix.data > (-np.inf if self.log else 0)).astype(np.float64))

    def _with(self, data: Floats) -> sparse.csr_array:
        return sparse.csr_array((data, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape)


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


class SparseProbabilities:
    """p as a CSR array."""

    def __init__(self, p: sparse.csr_array) -> None:
        self.p = p

    def __matmul__(self, b: Floats) -> Floats:
        return np.asarray(self.p @ b)

    def __mul__(self, column: Floats) -> SparseProbabilities:
        return SparseProbabilities(_times_rows(self.p, column[:, 0]))

    def column(self, k: int | Integers) -> Floats:
        """Return p_k, of a bias for all rows or for each."""
        rows = self.p.shape[0]
        return np.asarray(self.p[np.arange(rows), np.broadcast_to(k, rows)])[:, None]

    def sum(self, counts: Floats) -> Floats:
        """Return P'c."""
        return np.asarray(self.p.T @ counts)

    def against(self, counted: Floats) -> Floats:
        """Return P'y for y of shape (rows, m), already counted."""
        return np.asarray(self.p.T @ counted)

    def by_code(self, codes: Integers, counts: Floats, size: int) -> Floats:
        """Return the sums of c P over the rows with each code below a size, of shape (size, K)."""
        return np.asarray((membership(codes, size, counts) @ self.p).toarray())

    def gram(self, counts: Floats) -> sparse.csr_array:
        """Return P'(c P)."""
        return self.p.T @ _times_rows(self.p, counts)

    def products(self, weights: Floats) -> sparse.csr_array:
        """Return P'(w P) for each of m weights, already counted, one below another.

        Rows of one sample mostly reach the same few others: then they are dense products of a few dozen columns.
        """
        p, K, lengths = self.p, self.p.shape[1], np.diff(self.p.indptr)
        reached = np.unique(p.indices)
        if len(p.indptr) * len(reached) ** 2 > DENSE_IS_FASTER * (lengths @ lengths):
            return sparse.vstack([_weighed_products(p, w) for w in weights.T]).tocsr()
        dense = np.ascontiguousarray(p[:, reached].toarray().T)
        found = np.stack([weighed_products(dense, w) for w in weights.T])
        row = np.repeat(np.add.outer(np.arange(len(found)) * K, reached).ravel(), len(reached))
        column = np.tile(reached, len(row) // len(reached))
        return sparse.csr_array((found.ravel(), (row, column)), shape=(len(found) * K, K))


def _weighed_products(p: sparse.csr_array, w: Floats) -> sparse.csr_array:
    """Return P'(w P), from the rows that have a weight."""
    inside = np.flatnonzero(w)
    rows = p[inside]
    return rows.T @ _times_rows(rows, w[inside])


def _times_rows(matrix: sparse.csr_array, factors: Floats) -> sparse.csr_array:
    """Return a CSR array with each row times a number."""
    data = matrix.data * np.repeat(factors, np.diff(matrix.indptr))
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
