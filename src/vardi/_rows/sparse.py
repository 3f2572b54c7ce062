"""Rows that few biases cover: a SciPy CSR array of omega, or of log omega where what is not stored is zero bias."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from vardi._rows.base import Rows, Scaled
from vardi._rows.grouping import membership
from vardi._rows.start import mean_log_start
from vardi._sums import Floats, Gram, Integers, Sums
from vardi._threads import blocks

PAIRS = 300  # samples up to which the start looks at pairs, for which a subsample is made dense
DENSE = 2000  # samples up to which overlaps are summed in dense blocks
CHEAP = 100.0  # entries of a typical row up to which forming the gram costs less than the products it saves


class Sparse(Rows):
    """A CSR array. The gram is sparse while it is cheap to form, and otherwise only a product with a vector.

    So thousands of samples never make a dense K x K.
    """

    @cached_property
    def _lengths(self) -> Integers:
        return np.diff(self.matrix.indptr)

    @cached_property
    def _forms_gram(self) -> bool:
        lengths = self._lengths.astype(np.float64)
        return float(lengths @ lengths) <= CHEAP * float(lengths.sum())

    def sums(self, u: Floats, *, gram: bool = True) -> Sums:
        """Return log_mass, shares and gram at u."""
        counts = np.ones(len(self)) if self.counts is None else self.counts
        root = np.sqrt(counts)  # shares and gram are both products of sqrt(c_i) p_ik
        P = self._probabilities(u, root)
        shares = self._column_sums(P.data * self._spread(root))
        return Sums(float(counts @ self.log_row_mass(u)), shares, self._gram(P) if gram else None)

    @cached_property
    def _by_column(self) -> tuple[Integers, Integers, Integers]:
        """Where the entries of each column stand, the columns that have any, and where each begins."""
        filled, starts = np.unique(np.sort(self.matrix.indices), return_index=True)
        return np.argsort(self.matrix.indices, kind="stable"), filled, starts

    def _column_sums(self, data: Floats) -> Floats:
        """Sum by column in pairs: a product with a sparse array adds one by one, and loses digits with n."""
        order, filled, starts = self._by_column
        sums = np.zeros(self.matrix.shape[1])
        sums[filled] = np.add.reduceat(data[order], starts)
        return sums

    def _probabilities(self, u: Floats, factor: Floats) -> Any:
        """Return the sparse array of factor_i p_ik."""
        scaled = self._scale(u)
        step = np.exp(u - scaled.anchor)
        return self._with(
            scaled.matrix.data * step[self.matrix.indices] * self._spread(factor / (scaled.matrix @ step))
        )

    def _gram(self, P: Any) -> Gram:
        if self._forms_gram:
            return (P.T @ P).tocsr()
        transposed = P.T.tocsr()
        return lambda v: np.asarray(transposed @ (P @ v))

    def start(self) -> Floats:
        """Return a first u: from pairs where that fits in memory, and else from each sample alone."""
        if len(self.sizes) <= PAIRS:
            return super().start()
        own = np.asarray(self._with(self._log_data())[np.arange(len(self)), self.source])
        return mean_log_start(membership(self.source, len(self.sizes), self.counts) @ own, self.sizes)

    def row_mass(self, u: Floats) -> tuple[Floats, Floats | None]:
        """Return S_i(u) for every row."""
        scaled = self._scale(u)
        return np.asarray(scaled.matrix @ np.exp(u - scaled.anchor)), scaled.offset

    def log_means(self, u: Floats) -> Floats:
        """Return log sum_i c_i omega_ik / S_i(u) for every k, wholly in the log domain."""
        log_weight = -self.log_row_mass(u)
        with np.errstate(divide="ignore"):
            if self.counts is not None:
                log_weight = log_weight + np.log(self.counts)
            terms = self._with(self._log_data() + self._spread(log_weight)).tocsc()
            filled = np.flatnonzero(np.diff(terms.indptr))
            starts, lengths = terms.indptr[filled], np.diff(terms.indptr)[filled]
            largest = np.maximum.reduceat(terms.data, starts)
            largest[~np.isfinite(largest)] = 0.0
            log_means = np.full(len(u), -np.inf)
            log_means[filled] = largest + np.log(
                np.add.reduceat(np.exp(terms.data - np.repeat(largest, lengths)), starts)
            )
        return log_means

    def mix(self, u: Floats, b: Floats) -> Floats:
        """Return P b."""
        return np.asarray(self._probabilities(u, np.ones(len(self))) @ b)

    def project(self, u: Floats, y: Floats) -> Floats:
        """Return P' (c y)."""
        counts = np.ones(len(self)) if self.counts is None else self.counts
        P = self._probabilities(u, counts)
        if y.ndim == 1:
            return self._column_sums(P.data * self._spread(y))
        return np.column_stack([self._column_sums(P.data * self._spread(column)) for column in y.T])

    def reach(self) -> Any:
        """Return the K x K (sparse) counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        return (membership(self.source, len(self.sizes), self.counts) @ self._positive()).T.tocsr()

    def overlap(self, mass: Floats) -> Any:
        """Return the K x K (sparse) masses of the rows that both biases could have drawn.

        Where rows are long, only of the pairs in a tree of the samples that allow most of each other's rows.
        """
        positive = self._positive()
        weighted = self._with(positive.data * self._spread(mass))
        if self._forms_gram:
            return (weighted.T @ positive).tocsr()
        if len(self.sizes) <= DENSE:
            parts = blocks(len(self), len(self.sizes))
            return sum(weighted[rows].toarray().T @ positive[rows].toarray() for rows in parts)
        reach = self.reach()
        tree = csgraph.minimum_spanning_tree(-(reach + reach.T)).tocoo()
        positive, weighted = positive.tocsc(), weighted.tocsc()
        shared = [positive[:, [k]].multiply(weighted[:, [l]]).sum() for k, l in zip(tree.row, tree.col, strict=True)]
        return sparse.csr_array((shared, (tree.row, tree.col)), shape=reach.shape)

    def log_omega(self) -> Floats:
        """Return log omega as one dense matrix."""
        dense = np.full(self.matrix.shape, -np.inf)
        dense[self._spread(np.arange(len(self))), self.matrix.indices] = self._log_data()
        return dense

    def _anchored(self, u: Floats) -> Scaled:
        logs = self._log_data() + u[self.matrix.indices]
        offset = np.maximum.reduceat(logs, self.matrix.indptr[:-1])  # no row is empty: each has its own bias
        return Scaled(self._with(np.exp(logs - self._spread(offset))), offset, np.where(self.sizes > 0, u, 0.0))

    def _spread(self, values: Any) -> Any:
        return np.repeat(values, self._lengths)

    def _log_data(self) -> Floats:
        if self.log:
            return np.asarray(self.matrix.data)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.matrix.data))

    def _positive(self) -> Any:
        return self._with((self.matrix.data > (-np.inf if self.log else 0)).astype(np.float64))

    def _with(self, data: Floats) -> Any:
        return sparse.csr_array((data, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape)
