"""Rows whose biases are a dense matrix."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Self

import numpy as np

from vardi._rows.base import MODERATE, Rows, Space
from vardi._rows.contract import Normalised
from vardi._rows.grouping import membership, sums_by_code
from vardi._types import Floats, Integers, Numbers

LOWEST = -700.0  # logs are raised to it in sums, of whose rounding e^-700 is far below
FEW = 16  # samples up to which the products of all pairs are formed for all weights at once


class Dense(Rows):
    """An n x K array, read in blocks: beyond the array itself a pass needs a few blocks of memory and n numbers."""

    def normalised(
        self, u: Floats, rows: slice | Integers, values: Numbers | None, added: Mapping[int, Floats], space: Space
    ) -> Normalised:
        """Return some rows at u: as they are if no product can leave the floating-point range, else in logs."""
        values, sampled = self._values(rows, values), self.sizes > 0
        if self.is_plain(u) and all(np.abs(x).max(initial=0.0) < MODERATE for x in added.values()):
            A = _exp(values, space("A", values.shape)) if self.log else values
            if added and not self.log:
                A = space("A", values.shape)
                A[:] = values
            for k, x in added.items():
                A[:, k] *= np.exp(x[:, 0])
            step, offset = np.exp(u), np.zeros(1)
        else:
            logs = np.add(self._log(values), np.where(sampled, u, -np.inf), out=space("A", values.shape))
            for k, x in added.items():
                logs[:, k] += x[:, 0]
            offset = _row_maximum(logs)
            logs -= offset[:, None]
            A, step = _exp(logs, logs), sampled.astype(np.float64)
        S = A @ step
        with np.errstate(over="ignore"):  # where weights are beyond e^709, the solver takes their logs
            weight = np.exp(-offset) / S
        p = DenseProbabilities(A, step, S, 1.0, space)
        return Normalised(weight[:, None], lambda: (np.log(S) + offset)[:, None], p)

    def log_omega_of(self, rows: slice | Integers, values: Numbers | None) -> Floats:
        """Return log omega of some rows."""
        return self._log(self._values(rows, values))

    def _values(self, rows: slice | Integers, values: Numbers | None) -> Floats:
        """Return what was read of some rows, or read it."""
        if values is None:
            values = self.matrix[rows] if isinstance(rows, slice) else self.matrix.take(rows, axis=0)
        return np.asarray(values, np.float64)

    @cached_property
    def reach(self) -> Floats:
        """The K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        if self.positive:  # the usual case with densities
            return np.tile(self.sizes, (len(self.sizes), 1))
        K = len(self.sizes)

        def block(place: slice, values: Numbers | None) -> Floats:
            return np.asarray(membership(self.source[place], K, self.counts[place]) @ self._positive(place, values))

        return self.total_of_blocks(block).T

    def overlap(self, mass: Floats) -> Floats:
        """Return the K x K masses of the rows that both biases could have drawn."""
        if self.positive:
            return np.full((len(self.sizes), len(self.sizes)), mass.sum())

        def block(place: slice, values: Numbers | None) -> Floats:
            positive = self._positive(place, values)
            return np.asarray((positive * mass[place, None]).T @ positive)

        return self.total_of_blocks(block)

    def _positive(self, rows: slice, values: Numbers | None) -> Floats:
        """Return 1 where a bias could have drawn some rows, and 0 elsewhere."""
        return (self._values(rows, values) > (-np.inf if self.log else 0.0)).astype(np.float64)

    def _log(self, values: Floats) -> Floats:
        if self.log:
            return values
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(values))


def _exp(logs: Floats, out: Floats) -> Floats:
    """Return e^logs in ``out``, of at least e^LOWEST: exp takes ten times as long where it underflows."""
    if logs.min() < LOWEST:
        logs = np.maximum(logs, LOWEST, out=out)
    return np.exp(logs, out=out)


def _row_maximum(block: Floats) -> Floats:
    if block.shape[1] > 16:
        return np.asarray(block.max(axis=1))
    largest = block[:, 0].copy()  # narrow blocks: a reduction over a short axis is slower than K passes
    for k in range(1, block.shape[1]):
        np.maximum(largest, block[:, k], out=largest)
    return largest


class DenseProbabilities:
    """p_ik = f_i A_ik s_k / S_i, of which only products with A are made.

    Parameters
    ----------
    A : ndarray of shape (rows, K)
        Biases of the rows, scaled.
    step : ndarray of shape (K,)
        s.
    S : ndarray of shape (rows,)
        A s: a number is divided by it rather than multiplied by its inverse, so that p of a single bias is 1.
    factor : ndarray of shape (rows,), or 1
        f.
    space : callable
        Memory to work in.
    """

    def __init__(self, A: Floats, step: Floats, S: Floats, factor: Floats | float, space: Space) -> None:
        self.A, self.step, self.S, self.factor, self.space = A, step, S, factor, space

    def __matmul__(self, b: Floats) -> Floats:
        # the product is transposed, so that columns are in one piece: to divide short rows is slow
        return np.asarray(((b * self.step[:, None]).T @ self.A.T) / self.S * self.factor).T

    def __mul__(self, column: Floats) -> Self:
        return type(self)(self.A, self.step, self.S, self.factor * column[:, 0], self.space)

    def column(self, k: int | Integers) -> Floats:
        """Return p_k, of a bias for all rows or for each."""
        own = self.A[:, k] if isinstance(k, int) else self.A[np.arange(len(k)), k]
        return (own * self.step[k] / self.S * self.factor)[:, None]

    def sum(self, counts: Floats) -> Floats:
        """Return P'c."""
        return ((counts * self.factor / self.S) @ self.A) * self.step

    def against(self, counted: Floats) -> Floats:
        """Return P'y for y of shape (rows, m), already counted."""
        return np.asarray(self.A.T @ (counted.T * (self.factor / self.S)).T) * self.step[:, None]

    def by_code(self, codes: Integers, counts: Floats, size: int) -> Floats:
        """Return the sums of c P over the rows with each code below a size, of shape (size, K)."""
        return sums_by_code(codes, self.A * (counts * self.factor / self.S)[:, None], size) * self.step

    def gram(self, counts: Floats, precision: type[np.floating] = np.float64) -> Floats:
        """Return P'(c P), its products to a precision: no p is above 1, so none leaves the range of any."""
        scaled = self._times(np.sqrt(counts) * self.factor / self.S)
        if precision is not np.float64:
            scaled *= self.step
            narrow = scaled.astype(precision)
            return np.asarray(narrow.T @ narrow, np.float64)
        return np.asarray(scaled.T @ scaled) * (self.step[:, None] * self.step)

    def products(self, weights: Floats) -> Floats:
        """Return P'(w P) for each of m weights, already counted, one below another."""
        K = len(self.step)
        P = np.multiply(self.A.T, self.factor / self.S, out=self.space("P'", (K, len(self.A))))
        weights = np.ascontiguousarray(weights.T)
        if K <= FEW and 2 * np.count_nonzero(weights) > weights.size:
            first, second = np.triu_indices(K)
            pairs, starts = self.space("PP'", (len(first), len(self.A))), np.searchsorted(first, np.arange(K + 1))
            for k in range(K):
                np.multiply(P[k], P[k:], out=pairs[starts[k] : starts[k + 1]])
            found = np.empty((len(weights), K, K))
            found[:, first, second] = found[:, second, first] = weights @ pairs.T
        else:
            found = np.stack([weighed_products(P, w) for w in weights])
        return (found * (self.step[:, None] * self.step)).reshape(-1, K)

    def array(self) -> Floats:
        """Return p itself, in memory that the next block reuses."""
        P = self._times(self.factor / self.S)
        P *= self.step
        return P

    def _times(self, column: Floats) -> Floats:
        return np.multiply(self.A, column[:, None], out=self.space("P", self.A.shape))


def weighed_products(P: Floats, w: Floats) -> Floats:
    """Return P (w P)' for P of shape (K, rows): columns in one piece are multiplied faster than short rows.

    If rows mostly have no weight, such as those outside a cell, only the others are read.
    """
    inside = np.flatnonzero(w)
    if 2 * len(inside) < len(w):
        P, w = P.take(inside, axis=1), w[inside]
    if w.min(initial=0.0) < 0:
        return np.asarray((P * w) @ P.T)
    half = P * np.sqrt(w)
    return np.asarray(half @ half.T)  # of which BLAS forms one half
