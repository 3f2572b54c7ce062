"""The contract between rows and mathematics, and what every holder of rows has in common."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from vardi._inputs.dependence import Dependence
from vardi._machine import Scratch, blocks, map_blocks, sum_blocks
from vardi._rows.arrays import ArrayBlock, Arrays
from vardi._rows.contract import Normalised, Result, Sums
from vardi._rows.gram import DenseGram, Gram, SparseGram, UnformedGram
from vardi._rows.grouping import scaled_to_mean_one, sizes_of, stratified, tree_start
from vardi._types import Floats, Integers, Numbers
from vardi.biases._values import once

MODERATE = 230.0  # |u| and |log omega| up to which no product of e^u and omega can leave the floating-point range
MAX_START_NUMBERS = 200_000  # numbers that a start from pairs reads at most
OF_COUNTS = ("_last", "reach", "_last_counting")  # what rows keep of themselves, and forget when counts change


#: Memory of a name and a shape to work in, with arbitrary contents.
Space: TypeAlias = Callable[[str, tuple[int, ...]], Floats]


@dataclass(frozen=True)
class InverseMasses:
    """1 / S_i(u) of all rows, where S_i = sum_l e^{u_l} omega_l(z_i); or their logs, which do not overflow."""

    u: Floats
    values: Floats
    are_logs: bool


def additions(n: int, K: int) -> int:
    """Return how many numbers a sum over n rows adds one after the other, within rows, blocks and over blocks."""
    parts = blocks(n, K)
    return K + parts[0].stop + len(parts)


class BiasColumns:
    """Columns of n rows, some of which are read as if they were one matrix: it is never made as a whole."""

    def __init__(self, columns: Sequence[NDArray[Any]]) -> None:
        self.T, self.dtype = columns, np.result_type(*columns)
        self.shape = (len(columns[0]), len(columns))

    def __getitem__(self, rows: slice | Integers) -> NDArray[Any]:
        return np.column_stack([column[rows] for column in self.T])


#: K biases of n rows: an array of shape (n, K), or columns that read like one.
Biases: TypeAlias = NDArray[Any] | BiasColumns


class Rows(ABC):
    """Rows in memory: an n x K matrix, a label for each row and, if rows stand for several, their counts.

    A bias whose sample has no rows (an unsampled state) has size 0 and u = -inf, which takes it out of every sum.

    Parameters
    ----------
    matrix : array of shape (n, K)
        omega, or log omega with -inf for zero.
    source : ndarray of int of shape (n,)
        Sample of each row.
    counts : ndarray of shape (n,), optional
        How many rows each row stands for.
    log : bool
        Whether the matrix holds log omega.
    moderate : bool
        Whether omega is so far from under- and overflow that it can be used as it stands, without scaling.
    positive : bool
        Whether every omega is known to be above zero.
    inverse : ndarray of int, optional
        If equal rows were collapsed into counts: the row here for each row of the pool.
    """

    reading_dominates = False  # whether reading the rows costs more than forming their gram
    _last: InverseMasses | None = None  # of the last sums, if kept: the weights at a solution need no other pass

    def __init__(
        self,
        matrix: Any,
        source: Integers,
        counts: Floats | None = None,
        *,
        log: bool = False,
        moderate: bool = False,
        positive: bool = False,
        inverse: Numbers | None = None,
    ) -> None:
        self.matrix, self.source, self.log = matrix, source, log
        self.counts = once(len(source)) if counts is None else counts
        self.moderate, self.positive, self.inverse = moderate, positive, inverse
        self.sizes = sizes_of(source, matrix.shape[1], self.counts)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def additions(self) -> int:
        """How many numbers a sum over the rows adds one after the other: those of a block, and the blocks."""
        return additions(len(self), len(self.sizes))

    def exponents(self, u: Floats) -> float:
        r"""Return the size of what scaling rounds: :math:`\sqrt{\sum_i c_i a_i^2}`, a the logs added for a row, or 0.

        Given logs are added to u once, in a sum that for the terms that matter is about the row's offset; logs that
        are taken here are themselves rounded, too.
        """
        if self.is_plain(u):
            return 0.0
        # log S is at most so far above the largest of its terms
        offset = np.abs(self.inverse_masses(u).values) + np.log(self.terms)
        added = offset if self.log else 2.0 * offset + float(np.abs(u[self.sizes > 0]).max())
        return float(np.sqrt(added @ (added * self.counts)))

    @property
    def terms(self) -> int:
        """How many biases may be above zero on a row."""
        return len(self.sizes)

    def is_plain(self, u: Floats) -> bool:
        """Return whether no product of e^u and omega can leave the floating-point range."""
        return self.moderate and bool(np.abs(u[self.sizes > 0]).max() < MODERATE)

    @property
    def arrays(self) -> Arrays:
        """The rows as they are solved, of which equal ones may be collapsed, as questions see them."""
        found = Arrays(self, self.source, self.counts, Dependence.none(len(self.sizes)))
        found.inverse = None
        return found

    def sums(self, u: Floats, *, gram: bool = True, objective: bool = True, rough: bool = False) -> Sums:
        """Return shares and, if asked for, log_mass and gram at u, in one pass over the rows.

        A rough gram may have seven digits only.
        """
        is_formed, precision = gram and self.forms_gram, np.float32 if rough else np.float64
        last = self.__dict__.pop("_last", None)  # whoever takes the array has it alone
        values, are_logs = np.empty(0), not self.is_plain(u)
        is_kept = not gram or self.reading_dominates  # the last step of a solve mostly needs no gram
        if is_kept:
            values = np.empty(len(self)) if last is None else last.values

        def question(block: ArrayBlock) -> tuple[float, Floats, Any]:
            at = block.normalised(u, {})
            if is_kept:
                values[block.place] = at.inverse(are_logs=are_logs)[:, 0]
            log_mass = block.sum(at.log_mass())[0] if objective else 0.0
            return log_mass, block.sum(at.p), block.gram(at.p, at.p, precision) if is_formed else 0.0

        total, shares, products = self.arrays.total(question)
        self._last = InverseMasses(u, values, are_logs) if is_kept else None
        log_mass = float(total) if objective else None
        return Sums(log_mass, shares, self._gram(u, products if is_formed else None) if gram else None)

    @property
    def forms_gram(self) -> bool:
        """Whether products of p are summed; if not, the gram is only multiplied with vectors."""
        return True

    def _gram(self, u: Floats, products: Floats | sparse.csr_array | None) -> Gram:
        """Return the gram at u, from sums of products if they were made."""
        if products is not None:
            return DenseGram(products) if isinstance(products, np.ndarray) else SparseGram(products.tocsr())
        p: Any = self.normalised(u, slice(0, len(self)), None, {}, Scratch()).p
        counts = self.counts[:, None]
        return UnformedGram(len(u), lambda v: p.against(counts * (p @ v[:, None]))[:, 0])

    def inverse_masses(self, u: Floats) -> InverseMasses:
        """Return 1 / S_i(u) for every row, or its log; without a pass if u is the point of the last sums."""
        if self._last is not None and np.array_equal(self._last.u, u):
            return self._last
        are_logs = not self.is_plain(u)
        values = self.arrays.column(lambda block: block.normalised(u, {}).inverse(are_logs=are_logs), 1)[:, 0]
        return InverseMasses(u, values, are_logs)

    def log_row_mass(self, u: Floats) -> Floats:
        """Return log S_i(u) for every row."""
        found = self.inverse_masses(u)
        return np.negative(found.values if found.are_logs else np.log(found.values))

    def weights(self, u: Floats) -> tuple[Floats, float]:
        """Return the weights 1 / S_i, scaled to mean 1 over the counted rows, and the log of that scale."""
        found = self.inverse_masses(u)
        self._last = None  # no one else has the array now
        return scaled_to_mean_one(found.values, self.counts, are_logs=found.are_logs)

    def log_means(self, u: Floats) -> Floats:
        """Return log sum_i c_i omega_ik / S_i(u) for every k, wholly in the log domain."""
        return self._log_totals(-self.log_row_mass(u))

    def log_weighted_means(self, weights: Floats) -> Floats:
        r"""Return :math:`\log\sum_i \pi_i\omega_k(z_i)` for every k, for weights of mean 1."""
        with np.errstate(divide="ignore"):  # a row that a draw does not contain
            return self._log_totals(np.log(weights)) - np.log(self.sizes.sum())

    def _log_totals(self, log_weight: Floats) -> Floats:
        """Return log sum_i c_i w_i omega_ik for every k, from log w."""

        def of_block(block: ArrayBlock) -> Floats:
            logs = block.log_omega() + log_weight[block.place, None]
            top = logs.max(axis=0)
            top[np.isneginf(top)] = 0.0  # a bias that covers no row
            with np.errstate(divide="ignore"):
                return np.log(block.sum(np.exp(np.subtract(logs, top, out=logs), out=logs))) + top

        return np.asarray(scipy.special.logsumexp(list(self.arrays.each(of_block)), axis=0))

    def settled(self, u: Floats) -> Rows:
        """Return the rows in the form that is cheapest near a point: these."""
        return self

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return len(self.sizes)

    def each_block(self, answer: Callable[[slice, Numbers | None], Result], width: int = 0) -> Iterator[Result]:
        """Apply a function to the place of each block, and what was read of it; None where nothing has to be read."""
        return map_blocks(lambda place: answer(place, None), len(self), self.width + width)

    def total_of_blocks(self, answer: Callable[[slice, Numbers | None], Result], width: int = 0) -> Result:
        """Return the sum of a function of the place of each block, and of what was read of it."""
        return sum_blocks(lambda place: answer(place, None), len(self), self.width + width)

    @abstractmethod
    def normalised(
        self, u: Floats, rows: slice | Integers, values: Numbers | None, added: Mapping[int, Floats], space: Space
    ) -> Normalised:
        """Return some rows at u, with biases multiplied by e^added; ``space`` is memory to work in."""

    @abstractmethod
    def log_omega_of(self, rows: slice | Integers, values: Numbers | None) -> Floats:
        """Return log omega of some rows, as a dense matrix."""

    @cached_property
    @abstractmethod
    def reach(self) -> Floats | sparse.csr_array:
        """The K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""

    @abstractmethod
    def overlap(self, mass: Floats) -> Floats | sparse.csr_array:
        """Return the K x K masses of the rows that both biases could have drawn."""

    def log_omega(self) -> Floats:
        """Return log omega as one dense matrix, meant for small pools."""
        return self.log_omega_of(slice(0, len(self)), None)

    @cached_property
    def logs(self) -> Floats:
        """The same, kept."""
        return self.log_omega()

    def spread(self, values: Numbers) -> Numbers:
        """Return values of rows for all rows of the pool."""
        inverse = self.inverse
        if inverse is None:
            return values
        all_rows = np.empty((len(inverse), *values.shape[1:]), values.dtype)

        def block(rows: slice) -> None:
            values.take(inverse[rows], axis=0, out=all_rows[rows], mode="clip")  # all are within bounds: no check

        for _ in map_blocks(block, len(inverse), values[0].size):
            pass
        return all_rows

    def start(self) -> Floats:
        """Return a first u, from pairs of samples in a small subsample."""
        K = len(self.sizes)
        sub = self.subset(stratified(self.source, K, 0.0, least=int(np.clip(MAX_START_NUMBERS / K**2, 30, 200))))
        u = tree_start(sub.log_omega(), sub.source, sub.counts, sub.sizes)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.sizes > 0, u + np.log(self.sizes) - np.log(sub.sizes), 0.0)  # normalisers carry over

    def masses(self) -> Floats:
        """Return the share of the pool that each row stands for."""
        return self.counts / self.sizes.sum()

    def subsample(self, fraction: float, *, least: int) -> Rows:
        """Return evenly spaced rows of every sample, with counts that make them stand for all of it.

        They are the given fraction, but at least ``least`` rows of each.
        """
        rows = stratified(self.source, len(self.sizes), fraction, least)
        return self if len(rows) == len(self) else self.subset(rows).standing_for(self.sizes)

    def standing_for(self, sizes: Floats) -> Self:
        """Return the same rows with counts such that samples have the given sizes."""
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(self.sizes > 0, sizes / self.sizes, 0.0)[self.source]
        return self.with_counts(factor * self.counts)

    def subset(self, rows: Integers) -> Self:
        """Return some of the rows."""
        known = {"log": self.log, "moderate": self.moderate, "positive": self.positive}
        return type(self)(self.matrix[rows], self.source[rows], self.counts[rows], inverse=None, **known)

    def with_counts(self, counts: Floats) -> Self:
        """Return the same rows with other counts."""
        rows = copy.copy(self)
        rows.counts, rows.sizes = counts, sizes_of(self.source, len(self.sizes), counts)
        for name in OF_COUNTS:
            rows.__dict__.pop(name, None)
        return rows
