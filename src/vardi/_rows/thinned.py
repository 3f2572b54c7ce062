r"""Rows of many samples, each of which only a few could have drawn: sums run over these alone.

With hundreds of samples in a dense matrix, most biases are negligible on a row: :math:`p_{ik}` is :math:`10^{-40}`, and
its exp costs as much as any other. At a dual point those entries are kept that are no less than :math:`e^{-T}`
times that of the row's own sample. All others together are, with n rows and K samples, at most :math:`nKe^{-T}` rows,
and T is such that this is less than a sixteenth of the last place of the smallest sample. They are below the precision
of a sum over all entries, and stay so while u moves by a few units. What is kept is a sparse matrix.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._machine import BLOCK, map_blocks
from vardi._rows.base import Rows
from vardi._rows.dense import Dense
from vardi._rows.grouping import membership
from vardi._rows.sparse import Sparse
from vardi._rows.start import mean_log_start
from vardi._types import Floats, Integers

MIN_SAMPLES = 100  # samples above which it is worth checking which entries count
MAX_SHARE = 0.04  # of all entries, up to which those that count are kept: solving them takes six times their memory
PROBED = 256  # rows from which this share is estimated
SLACK = 8.0  # how far u may move, as a range, before the entries that count are determined again


class Counting(Sparse):
    """The entries that count: so few of all that their gram costs less than a dense one, however long rows are."""

    @property
    def forms_gram(self) -> bool:
        return True


class Thinned(Dense):
    """A dense matrix of many samples: near a point the entries that count there stand for it, if they are few."""

    _last_counting: tuple[Floats, Counting] | None = None  # u, and the entries that count there, if they are few

    def _recount(self) -> None:
        super()._recount()
        self._last_counting = None

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
        links = found.reach()[sampled][:, sampled]
        if sparse.csgraph.connected_components(links, directed=False, return_labels=False) > 1:
            return self
        self._last_counting = u.copy(), found
        return found

    def start(self) -> Floats:
        """Return a first u: from each sample alone if few entries count there, otherwise from pairs."""
        own = membership(self.source, len(self.sizes), self.counts) @ self._log(self._own)
        alone = mean_log_start(own, self.sizes)
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
        step = max(BLOCK // K, 1)

        def block(rows: slice) -> list[tuple[Integers, Integers, Floats]]:
            return [part(slice(low, min(low + step, rows.stop))) for low in range(rows.start, rows.stop, step)]

        def part(rows: slice) -> tuple[Integers, Integers, Floats]:
            values = self.matrix[rows]
            row, column = np.divmod(np.flatnonzero(self._counts(u, rows, values)), K)
            return np.bincount(row, minlength=len(values)), column.astype(np.int32), values[row, column]

        parts = [one for found in map_blocks(block, len(self), K) for one in found]
        lengths, columns, values = (np.concatenate(these) for these in zip(*parts, strict=True))
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        narrow = indptr.astype(np.int32 if indptr[-1] < 2**31 else np.int64)  # SciPy uses the wider type for both
        matrix = sparse.csr_array((values.astype(np.float64, copy=False), columns, narrow), shape=(len(self), K))
        moderate = self.moderate and not self.log
        return Counting(matrix, self.source, self.counts, log=self.log, moderate=moderate, inverse=self.inverse)
