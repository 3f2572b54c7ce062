"""Rows whose biases are a dense matrix."""

from __future__ import annotations

import functools
import operator

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from vardi._rows.base import Rows, Scaled
from vardi._rows.grouping import membership
from vardi._sums import Floats, Sums
from vardi._threads import blocks, map_blocks


class Dense(Rows):
    """An n x K array, read in blocks: beyond the array itself a pass needs a few blocks of memory."""

    _row_mass: tuple[Scaled, Floats, Floats] | None = None

    def sums(self, u: Floats, *, gram: bool = True) -> Sums:
        """Return log_mass, shares and gram at u, in one pass over the rows."""
        scaled = self._scale(u)
        step = np.exp(u - scaled.anchor)  # the only exps: K of them
        S = np.empty(len(self))

        def block(rows: slice) -> Sums:
            A = np.asarray(scaled.matrix[rows], dtype=np.float64)
            S[rows] = mass = A @ step
            log_mass = np.log(mass) if scaled.offset is None else np.log(mass) + scaled.offset[rows]
            counts = np.ones(len(mass)) if self.counts is None else self.counts[rows]
            if not gram:
                return Sums(float(counts @ log_mass), (counts / mass) @ A, None)
            root = counts if self.counts is None else np.sqrt(counts)
            A = A * (root / mass)[:, None]
            return Sums(float(counts @ log_mass), root @ A, A.T @ A)

        total = functools.reduce(operator.add, map_blocks(block, len(self), len(u)))
        self._row_mass = (scaled, u, S)  # the weights at the solution are these: no need to pass over the rows again
        square = total.gram * (step[:, None] * step) if gram else None
        return Sums(total.log_mass, total.shares * step, square)

    def row_mass(self, u: Floats) -> tuple[Floats, Floats | None]:
        """Return S_i(u) for every row; free where u is the point of the last sums."""
        scaled = self._scale(u)
        if self._row_mass is not None and self._row_mass[0] is scaled and np.array_equal(self._row_mass[1], u):
            return self._row_mass[2], scaled.offset
        step = np.exp(u - scaled.anchor)
        S = np.empty(len(self))

        def block(rows: slice) -> None:
            S[rows] = np.asarray(scaled.matrix[rows], np.float64) @ step

        for _ in map_blocks(block, len(self), len(u)):
            pass
        return S, scaled.offset

    def log_means(self, u: Floats) -> Floats:
        """Return log sum_i c_i omega_ik / S_i(u) for every k, wholly in the log domain."""
        log_weight = -self.log_row_mass(u)[:, None]
        b = None if self.counts is None else self.counts[:, None]
        parts = [
            logsumexp(self._log_block(rows) + log_weight[rows], axis=0, b=None if b is None else b[rows])
            for rows in blocks(len(self), len(u))
        ]
        return np.asarray(logsumexp(parts, axis=0))

    def mix(self, u: Floats, b: Floats) -> Floats:
        """Return P b, block by block."""
        scaled = self._scale(u)
        step = np.exp(u - scaled.anchor)
        both = np.column_stack([step, step[:, None] * b.reshape(len(u), -1)])

        def block(rows: slice) -> Floats:
            mixed = np.asarray(scaled.matrix[rows], np.float64) @ both
            return mixed[:, 1:] / mixed[:, :1]

        return np.concatenate(list(map_blocks(block, len(self), len(u)))).reshape(len(self), *b.shape[1:])

    def project(self, u: Floats, y: Floats) -> Floats:
        """Return P' (c y), block by block."""
        scaled = self._scale(u)
        step = np.exp(u - scaled.anchor)
        counted = y if self.counts is None else (y.T * self.counts).T

        def block(rows: slice) -> Floats:
            A = np.asarray(scaled.matrix[rows], np.float64)
            return A.T @ (counted[rows].T / (A @ step)).T

        return (functools.reduce(operator.add, map_blocks(block, len(self), len(u))).T * step).T

    def reach(self) -> Floats:
        """Return the K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        K = len(self.sizes)
        if self.positive:  # the rule with densities
            return np.tile(self.sizes, (K, 1))

        def block(rows: slice) -> Floats:
            counts = None if self.counts is None else self.counts[rows]
            return np.asarray(membership(self.source[rows], K, counts) @ self._positive(rows).astype(np.float64))

        return np.asarray(sum(map_blocks(block, len(self), K))).T

    def overlap(self, mass: Floats) -> Floats:
        """Return the K x K masses of the rows that both biases could have drawn."""

        def block(rows: slice) -> Floats:
            positive = self._positive(rows).astype(np.float64)
            return np.asarray((positive * mass[rows, None]).T @ positive)

        return np.asarray(sum(map_blocks(block, len(self), len(self.sizes))))

    def log_omega(self) -> Floats:
        """Return log omega as one matrix."""
        return self._log_block(slice(None))

    def _anchored(self, u: Floats) -> Scaled:
        matrix = np.empty(self.matrix.shape)
        offset = np.empty(len(self))

        def block(rows: slice) -> None:
            out = matrix[rows]
            np.add(self._log_block(rows), u, out=out)
            offset[rows] = largest = _row_maximum(out)
            np.subtract(out, largest[:, None], out=out)
            np.exp(out, out=out)

        for _ in map_blocks(block, *matrix.shape):
            pass
        return Scaled(matrix, offset, np.where(self.sizes > 0, u, 0.0))

    def _log_block(self, rows: slice) -> Floats:
        block = np.asarray(self.matrix[rows], dtype=np.float64)
        if self.log:
            return block
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(block))

    def _positive(self, rows: slice) -> NDArray[np.bool_]:
        return np.asarray(self.matrix[rows] > (-np.inf if self.log else 0))


def _row_maximum(block: Floats) -> Floats:
    if block.shape[1] > 16:
        return np.asarray(block.max(axis=1))
    largest = block[:, 0].copy()  # narrow blocks: a reduction over a short axis is slower than K passes
    for k in range(1, block.shape[1]):
        np.maximum(largest, block[:, k], out=largest)
    return largest
