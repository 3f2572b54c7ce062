"""Rows whose biases are a dense matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from vardi._machine.threads import Scratch, blocks, map_blocks, sum_blocks
from vardi._rows.base import MODERATE, Rows, Scaled, Space
from vardi._rows.columns import Normalised
from vardi._rows.contract import Sums
from vardi._rows.grouping import mean_over_counts, membership, sums_by_code
from vardi._types import Floats, Integers

Result = TypeVar("Result")

LOWEST = -700.0  # logs are raised to it in sums, of whose rounding e^-700 is far below
FEW = 8  # samples up to which the products of all pairs are formed for all weights at once


class Dense(Rows):
    """An n x K array, read in blocks: beyond the array itself a pass needs a few blocks of memory and n numbers."""

    _reciprocals: tuple[Scaled, Floats, Floats] | None = None

    def _recount(self) -> None:
        self._reciprocals = None

    def sums(self, u: Floats, *, gram: bool = True, objective: bool = True) -> Sums:
        """Return log_mass, shares and gram at u, in one pass over the rows."""
        scaled = self._scale(u)
        step = np.exp(u - scaled.anchor)  # the only exps where omega is scaled already: K of them
        last = self.__dict__.pop("_reciprocals", None)  # whoever takes the array has it alone
        reciprocals, scratch = np.empty(len(self)) if last is None else last[2], Scratch()

        def block(rows: slice, values: NDArray[Any]) -> Sums:
            A = self._block(scaled, rows, values, scratch)
            r = np.divide(1.0, A @ step, out=reciprocals[rows])
            counts = self.counts[rows]
            log_mass = _log_mass(r, scaled.offset, rows, counts) if objective else None
            shares = (r * counts) @ A
            if not gram:
                return Sums(log_mass, shares, None)
            scale = r * np.sqrt(counts)
            P = np.multiply(A, scale[:, None], out=scratch("A", A.shape))  # in place where A is ours already
            return Sums(log_mass, shares, P.T @ P)

        sums = self._total(block)
        self._reciprocals = (scaled, u, reciprocals)  # the weights at the solution are these: no need for another pass
        at_u = sums.gram * (step[:, None] * step) if gram else None
        return replace(sums, shares=sums.shares * step, gram=at_u)

    def normalised(
        self, u: Floats, rows: slice | Integers, values: Any, added: Mapping[int, Floats], space: Space
    ) -> Normalised:
        """Return some rows at u: as they are if no product can leave the floating-point range, else in logs."""
        values, sampled = self._values(rows, values), self.sizes > 0
        most = max([float(np.abs(u[sampled]).max()), *(float(np.abs(x).max(initial=0.0)) for x in added.values())])
        if self.moderate and most < MODERATE:
            A = _exp(values, space(values.shape)) if self.log else np.asarray(values, np.float64)
            if added and not self.log:
                A = space(values.shape)
                A[:] = values
            for k, x in added.items():
                A[:, k] *= np.exp(x[:, 0])
            step, offset = np.exp(u), None
        else:
            logs = np.add(self._log(values), np.where(sampled, u, -np.inf), out=space(values.shape))
            for k, x in added.items():
                logs[:, k] += x[:, 0]
            offset = _row_maximum(logs)
            logs -= offset[:, None]
            A, step = _exp(logs, logs), sampled.astype(np.float64)
        S = A @ step
        weight = 1.0 / S if offset is None else np.exp(-offset) / S

        def log_mass() -> Floats:
            return (np.log(S) if offset is None else np.log(S) + offset)[:, None]

        return Normalised(weight[:, None], log_mass, DenseProbabilities(A, step, S))

    def log_omega_of(self, rows: slice | Integers, values: Any) -> Floats:
        """Return log omega of some rows."""
        return self._log(self._values(rows, values))

    def _values(self, rows: slice | Integers, values: Any) -> NDArray[Any]:
        """Return what was read of some rows, or read it."""
        if values is not None:
            return values
        return self.matrix[rows] if isinstance(rows, slice) else self.matrix.take(rows, axis=0)

    def row_mass(self, u: Floats) -> tuple[Floats, Floats | None]:
        """Return S_i(u) for every row."""
        reciprocals, offset = self._reciprocal_mass(u)
        return 1.0 / reciprocals, offset

    def weights(self, u: Floats) -> tuple[Floats, float]:
        """Return the weights 1 / S_i, scaled to mean 1 over the counted rows, and the log of that scale."""
        weights, offset = self._reciprocal_mass(u)
        self._reciprocals = None  # they become the weights, in place
        return _scaled_to_one(weights, offset, self.counts)

    def log_means(self, u: Floats) -> Floats:
        """Return log sum_i c_i omega_ik / S_i(u) for every k, wholly in the log domain."""
        log_weight = -self.log_row_mass(u)[:, None]
        scratch = Scratch()

        def block(rows: slice, values: NDArray[Any]) -> Floats:
            logs = np.add(self._log(values), log_weight[rows], out=scratch("A", values.shape))
            top = logs.max(axis=0)
            top[np.isneginf(top)] = 0.0  # a bias that covers no row
            np.exp(np.subtract(logs, top, out=logs), out=logs)
            logs *= self.counts[rows, None]
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(logs.sum(axis=0)) + top)

        return np.asarray(scipy.special.logsumexp(list(self._each(block)), axis=0))

    def reach(self) -> Floats:
        """Return the K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        K = len(self.sizes)
        if self.positive:  # the usual case with densities
            return np.tile(self.sizes, (K, 1))

        def block(rows: slice, values: NDArray[Any]) -> Floats:
            counts = self.counts[rows]
            return np.asarray(membership(self.source[rows], K, counts) @ self._positive(values))

        return np.asarray(self._total(block)).T

    def overlap(self, mass: Floats) -> Floats:
        """Return the K x K masses of the rows that both biases could have drawn."""
        if self.positive:
            return np.full((len(self.sizes), len(self.sizes)), mass.sum())

        def block(rows: slice, values: NDArray[Any]) -> Floats:
            positive = self._positive(values)
            return np.asarray((positive * mass[rows, None]).T @ positive)

        return np.asarray(self._total(block))

    def log_omega(self) -> Floats:
        """Return log omega as one matrix."""
        return self._log(self.matrix)

    def log_blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield log omega block by block, with the place of each."""
        for rows in blocks(len(self), len(self.sizes)):
            yield rows, self._log(self.matrix[rows])

    def _each(self, function: Callable[[slice, NDArray[Any]], Result]) -> Iterator[Result]:
        """Apply the function to every block: the place of its rows, and their values as they were given.

        Blocks are worked on in threads when that pays; the results come in order.
        """
        return map_blocks(lambda rows: function(rows, self.matrix[rows]), len(self), len(self.sizes))

    def _total(self, function: Callable[[slice, NDArray[Any]], Result]) -> Result:
        """Sum the function's results over all blocks."""
        return sum_blocks(lambda rows: function(rows, self.matrix[rows]), len(self), len(self.sizes))

    def _reciprocal_mass(self, u: Floats) -> tuple[Floats, Floats | None]:
        """Return 1 / S_i(u) for every row, as 1 / (S e^offset); without a pass if u is the point of the last sums."""
        scaled = self._scale(u)
        if self._reciprocals is not None and self._reciprocals[0] is scaled and np.array_equal(self._reciprocals[1], u):
            return self._reciprocals[2], scaled.offset
        step = np.exp(u - scaled.anchor)
        reciprocals, scratch = np.empty(len(self)), Scratch()

        def block(rows: slice, values: NDArray[Any]) -> None:
            np.divide(1.0, self._block(scaled, rows, values, scratch) @ step, out=reciprocals[rows])

        for _ in self._each(block):
            pass
        return reciprocals, scaled.offset

    def _block(self, scaled: Scaled, rows: slice, values: NDArray[Any], scratch: Scratch) -> Floats:
        """Return a block of the scaled matrix."""
        if scaled.offset is None:
            plain = np.asarray(values, np.float64)
            return _exp(plain, scratch("A", values.shape)) if self.log else plain
        anchor = np.where(self.sizes > 0, scaled.anchor, -np.inf)
        logs = np.add(self._log(values), anchor, out=scratch("A", values.shape))
        logs -= scaled.offset[rows, None]
        return _exp(logs, logs)

    @property
    def _plain(self) -> None:
        return None

    def _anchored(self, u: Floats) -> Scaled:
        offset, scratch = np.empty(len(self)), Scratch()

        def block(rows: slice, values: NDArray[Any]) -> None:
            logs = np.add(self._log(values), u, out=scratch("A", values.shape))
            offset[rows] = _row_maximum(logs)

        for _ in self._each(block):
            pass
        return Scaled(None, offset, np.where(self.sizes > 0, u, 0.0))

    def _log(self, values: NDArray[Any]) -> Floats:
        values = np.asarray(values, np.float64)
        if self.log:
            return values
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(values))

    def _positive(self, values: NDArray[Any]) -> Floats:
        return (values > (-np.inf if self.log else 0)).astype(np.float64)


def _scaled_to_one(weights: Floats, offset: Floats | None, counts: Floats) -> tuple[Floats, float]:
    """Return weights e^-offset, scaled in place to mean 1 over the counted rows, and the log of that scale."""
    top = 0.0
    if offset is not None:
        np.log(weights, out=weights)
        weights -= offset
        top = float(weights.max())
        weights -= top
        np.exp(weights, out=weights)
    mean = mean_over_counts(weights, counts)
    weights *= 1.0 / mean
    return weights, top + np.log(mean)


def _exp(logs: Floats, out: Floats) -> Floats:
    """Return e^logs in ``out``, of at least e^LOWEST: exp takes ten times as long where it underflows."""
    if logs.min() < LOWEST:
        logs = np.maximum(logs, LOWEST, out=out)
    return np.exp(logs, out=out)


def _log_mass(reciprocals: Floats, offset: Floats | None, rows: slice, counts: Floats) -> float:
    log_mass = -np.log(reciprocals) if offset is None else offset[rows] - np.log(reciprocals)
    return float((counts * log_mass).sum())


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
    """

    def __init__(self, A: Floats, step: Floats, S: Floats, factor: Floats | float = 1.0) -> None:
        self.A, self.step, self.S, self.factor = A, step, S, factor

    def __matmul__(self, b: Floats) -> Floats:
        # the product is transposed, so that columns are in one piece: to divide short rows is slow
        return np.asarray(((b * self.step[:, None]).T @ self.A.T) / self.S * self.factor).T

    def __mul__(self, column: Floats) -> DenseProbabilities:
        return DenseProbabilities(self.A, self.step, self.S, self.factor * column[:, 0])

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

    def gram(self, counts: Floats) -> Floats:
        """Return P'(c P)."""
        scaled = self.A * (np.sqrt(counts) * self.factor / self.S)[:, None]
        return np.asarray(scaled.T @ scaled) * (self.step[:, None] * self.step)

    def products(self, weights: Floats) -> Floats:
        """Return P'(w P) for each of m weights, already counted, one below another."""
        P, K = self.A * (self.factor / self.S)[:, None], len(self.step)
        if K <= FEW:
            first, second = np.triu_indices(K)
            found = np.empty((weights.shape[1], K, K))
            found[:, first, second] = found[:, second, first] = weights.T @ (P[:, first] * P[:, second])
        else:
            found = np.stack([weighed_products(P, w) for w in weights.T])
        return (found * (self.step[:, None] * self.step)).reshape(-1, K)


def weighed_products(P: Floats, w: Floats) -> Floats:
    """Return P'(w P); of rows that mostly have no weight, such as those outside a cell, only the others are read."""
    inside = np.flatnonzero(w)
    if 2 * len(inside) < len(w):
        P, w = P[inside], w[inside]
    return np.asarray((P * w[:, None]).T @ P)
