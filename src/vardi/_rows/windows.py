"""Rows seen through windows: omega_k(z_i) is 1 where low_k <= x_i <= high_k, else 0, and none of it is stored.

The edges of the windows cut the line into cells, in each of which all rows have the same biases. A binary tree over the
cells makes each window a union of at most 2 log2(cells) of its nodes, so a product with the n x K matrix takes
O(n + K log K), while the matrix itself may have n K entries. Only positive numbers are added: differences of running
sums would be as cheap, but lose digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from vardi._rows.base import Rows, Space
from vardi._rows.contract import Normalised
from vardi._rows.dense import weighed_products
from vardi._rows.grouping import mean_log_start, membership
from vardi._rows.sparse import MAX_PAIRED_SAMPLES
from vardi._types import Floats, Integers, Numbers
from vardi.errors import MismatchError, MissingValuesError

MAX_DENSE_SAMPLES = 1500  # samples up to which the gram is formed
MAX_LINKS = 5_000_000  # pairs of samples up to which all are looked at
FIRST_LINKS = 32  # links of each sample looked at first, if there are more


class Windows:
    """Indicator biases of windows, as a matrix that is never stored: for :func:`vardi.debias_matrix`.

    Parameters
    ----------
    x : array of shape (n,)
        The value of each row.
    low, high : array of shape (K,)
        Each sample saw what lies between them, both ends included; -inf and inf for a window that is open.

    Examples
    --------
    Each row has its own window (doubly truncated data):

    >>> import numpy as np
    >>> windows = Windows(x=[1.0, 2.0, 3.0], low=[0.0, 0.5, 1.5], high=[2.5, np.inf, 3.5])
    >>> windows.toarray().astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [0, 1, 1]])
    """

    ndim = 2
    dtype = np.dtype(bool)

    def __init__(self, x: ArrayLike, low: ArrayLike, high: ArrayLike) -> None:
        self.x, self.low, self.high = (np.asarray(values, np.float64) for values in (x, low, high))
        if self.x.ndim != 1 or self.low.ndim != 1 or self.low.shape != self.high.shape:
            raise MismatchError(
                f"x has shape {self.x.shape}, and low and high have shapes {self.low.shape} and {self.high.shape}. "
                "Give a value for each row, and two ends for each window."
            )
        missing = {name: int(np.isnan(getattr(self, name)).sum()) for name in ("x", "low", "high")}
        missing = {name: count for name, count in missing.items() if count}
        if missing:
            raise MissingValuesError(
                f"Missing values in {', '.join(f'{name} ({count})' for name, count in missing.items())}, so it is "
                "unknown which windows show which rows. Fill them in (an open window ends at inf), or remove them.",
                columns=missing,
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and windows."""
        return len(self.x), len(self.low)

    def __getitem__(self, key: Any) -> Any:
        """Return some of the rows, or what the window of a column (``[:, k]``) shows as an array."""
        if isinstance(key, tuple):
            return (self.low[key[1]] <= self.x[key[0]]) & (self.x[key[0]] <= self.high[key[1]])
        return Windows(self.x[key], self.low, self.high)

    def toarray(self) -> NDArray[np.bool_]:
        """Return the matrix; meant for few rows."""
        return (self.low <= self.x[:, None]) & (self.x[:, None] <= self.high)


class Intervals(Rows):
    """Windows, as sums over the nodes of a tree of cells."""

    def __init__(self, matrix: Windows, source: Integers, counts: Floats | None = None, **known: Any) -> None:
        super().__init__(matrix, source, counts, **known)
        values, position = np.unique(matrix.x, return_inverse=True)
        low, high = np.searchsorted(values, matrix.low, "left"), np.searchsorted(values, matrix.high, "right")
        edges = np.unique(np.concatenate([low, high, [0, len(values)]]))  # new rows may lie beyond all windows
        self._cell = np.searchsorted(edges, position, "right") - 1
        self._low = np.searchsorted(edges, low)
        self._high = np.maximum(np.searchsorted(edges, high), self._low)  # a window that ends before it begins is empty
        self._cells = len(edges) - 1
        self._nodes = _nodes(self._low, self._high, 1 << (self._cells - 1).bit_length())

    @property
    def width(self) -> int:
        """How many numbers a row has: its cell."""
        return 1

    @property
    def additions(self) -> int:
        """How many numbers a sum adds one after the other: those of a cell, up a binary tree, and nodes of a window."""
        return int(np.bincount(self._cell).max(initial=0)) + 4 * self._cells.bit_length()

    @property
    def forms_gram(self) -> bool:
        """Whether samples are so few that an array of their products is small."""
        return len(self.sizes) <= MAX_DENSE_SAMPLES

    def _within(self, cells: Floats) -> Floats:
        """Return the sum over the cells of each window."""
        return np.asarray(self._nodes @ _upwards(cells, self._nodes.shape[1] // 2))

    def _over(self, windows: Floats) -> Floats:
        """Return the sum over the windows that each cell lies in."""
        return _downwards(self._nodes.T @ windows)[: self._cells]

    def start(self) -> Floats:
        """Return a first u: from pairs of samples if they are few, otherwise from each sample alone."""
        if len(self.sizes) <= MAX_PAIRED_SAMPLES:
            return super().start()
        return mean_log_start(np.zeros(len(self)), self.source, self.counts, self.sizes)

    def _log_totals(self, log_weight: Floats) -> Floats:
        """Return log sum_i c_i w_i omega_ik for every k, from log w."""
        top = log_weight.max()
        mass = membership(self._cell, self._cells) @ (np.exp(log_weight - top) * self.counts)
        with np.errstate(divide="ignore"):
            return np.log(self._within(mass)) + top

    def normalised(
        self, u: Floats, rows: slice | Integers, values: Numbers | None, added: Mapping[int, Floats], space: Space
    ) -> Normalised:
        """Return some rows at u; their mass is 0 if no window holds them."""
        top = float(u[self.sizes > 0].max())  # rows need no scaling: only the largest e^u is set to 1
        step, cell = np.exp(u - top), self._cell[rows]
        S = self._over(step)
        mass = S[cell][:, None]

        def log_mass() -> Floats:
            with np.errstate(divide="ignore"):
                return np.log(mass) + top

        with np.errstate(divide="ignore"):
            return Normalised(np.exp(-top) / mass, log_mass, WindowProbabilities(self, cell, step, S, 1.0))

    def log_omega_of(self, rows: slice | Integers, values: Numbers | None) -> Floats:
        """Return log omega of some rows, as a dense matrix."""
        return np.where(self.matrix[rows].toarray(), 0.0, -np.inf)

    @cached_property
    def reach(self) -> sparse.csr_array:
        """Links, of which, if there are very many, only as many of each window as show which samples are connected."""
        order = np.argsort(self._cell, kind="stable")
        ends = np.searchsorted(self._cell[order], np.arange(self._cells + 1))
        first, lengths = ends[self._low], ends[self._high] - ends[self._low]  # the rows of each window, in that order
        few, K = lengths.max() if lengths.sum() <= MAX_LINKS else FIRST_LINKS, len(self.sizes)
        while True:
            taken = np.minimum(lengths, few)
            window = np.repeat(np.arange(K), taken)
            every = np.arange(len(window)) - np.repeat(np.cumsum(taken) - taken, taken)
            some = (np.random.default_rng(0).random(len(window)) * lengths[window]).astype(np.int64)
            rows = order[first[window] + np.where(lengths[window] <= few, every, some)]
            pairs = sparse.csr_array((np.ones(len(rows)), (window, self.source[rows])), shape=(K, K))
            groups = sparse.csgraph.connected_components(pairs, connection="strong", return_labels=False)
            if few >= lengths.max() or groups == self._groups:
                return self._shared_rows((pairs + pairs.T).tocoo())  # each pair both ways
            few *= 2

    def _shared_rows(self, pairs: sparse.coo_array) -> sparse.csr_array:
        """Return how many rows of sample l lie in window k, for some pairs."""
        cells = self._cells + 1
        place = self.source * cells + self._cell
        order = np.argsort(place)
        before = np.concatenate([[0.0], np.cumsum(self.counts[order])])
        start, end = (
            before[np.searchsorted(place[order], pairs.col * cells + edge[pairs.row])]
            for edge in (self._low, self._high)
        )
        shared = sparse.csr_array((end - start, (pairs.row, pairs.col)), shape=pairs.shape)
        shared.eliminate_zeros()
        return shared

    @cached_property
    def _groups(self) -> int:
        """How many groups of connected samples there are, by the graph window -> nodes -> cell -> sample."""
        (K, nodes), windows = self._nodes.shape, self._nodes.tocoo()
        parents = np.arange(2, nodes) // 2
        tail = np.concatenate([windows.row, K + parents, K + nodes // 2 + self._cell])
        head = np.concatenate([K + windows.col, K + np.arange(2, nodes), self.source])
        graph = sparse.csr_array((np.ones(len(tail)), (tail, head)), shape=(K + nodes, K + nodes))
        return len(np.unique(sparse.csgraph.connected_components(graph, connection="strong")[1][:K]))

    def overlap(self, mass: Floats) -> sparse.csr_array:
        """Return the K x K (sparse) masses of the rows that both windows allow; if many, of pairs in ``reach``."""
        K = len(self.sizes)
        pairs = self.reach.tocoo() if K**2 > MAX_LINKS else sparse.coo_array(np.ones((K, K)))
        before = np.concatenate([[0.0], np.cumsum(np.bincount(self._cell, mass, minlength=self._cells))])
        start = np.maximum(self._low[pairs.row], self._low[pairs.col])
        end = np.maximum(np.minimum(self._high[pairs.row], self._high[pairs.col]), start)
        shared = sparse.csr_array((before[end] - before[start], (pairs.row, pairs.col)), shape=pairs.shape)
        return shared.maximum(shared.T)


def _nodes(low: Integers, high: Integers, size: int) -> sparse.csr_array:
    """Return the K x (2 size) matrix of the nodes that make up each window; below node j are 2j and 2j + 1."""
    window, nodes = [], []
    left, right = low + size, high + size
    while (left < right).any():
        for end, move in ((left, 0), (right, 1)):
            taken = np.flatnonzero((end % 2 == 1) & (left < right))  # its parent lies half outside
            window.append(taken)
            nodes.append(end[taken] - move)
            end[taken] += 1 - 2 * move
        left, right = left // 2, right // 2
    where = (np.concatenate([*window, np.empty(0, np.int64)]), np.concatenate([*nodes, np.empty(0, np.int64)]))
    return sparse.csr_array((np.ones(len(where[0])), where), shape=(len(low), 2 * size))


def _upwards(cells: Floats, size: int) -> Floats:
    """Return the sum of the cells below each node."""
    level = np.zeros((size, *cells.shape[1:]))
    level[: len(cells)] = cells
    levels = [level]
    while len(levels[-1]) > 1:
        levels.append(levels[-1][::2] + levels[-1][1::2])
    return np.concatenate([np.zeros_like(levels[-1]), *levels[::-1]])


def _downwards(nodes: Floats) -> Floats:
    """Return for each cell the sum of the nodes above it."""
    level, width = nodes[1:2], 2
    while width < len(nodes):
        level, width = np.repeat(level, 2, axis=0) + nodes[width : 2 * width], 2 * width
    return np.asarray(level)


class WindowProbabilities:
    """p of rows in cells between the edges of windows, times a number for each row, as sums over these cells."""

    def __init__(self, rows: Intervals, cell: Integers, step: Floats, S: Floats, factor: Floats | float) -> None:
        self.rows, self.cell, self.step, self.S, self.factor = rows, cell, step, S, np.broadcast_to(factor, len(cell))

    def __matmul__(self, b: Floats) -> Floats:
        cells = (self.rows._over((self.step * b.T).T).T / self.S).T
        return np.asarray(cells[self.cell] * self.factor[:, None])

    def __mul__(self, column: Floats) -> WindowProbabilities:
        return WindowProbabilities(self.rows, self.cell, self.step, self.S, self.factor * column[:, 0])

    def column(self, k: int | Integers) -> Floats:
        """Return p_k, of a bias for all rows or for each."""
        inside = (self.rows._low[k] <= self.cell) & (self.cell < self.rows._high[k])
        return (inside * self.step[k] / self.S[self.cell] * self.factor)[:, None]

    def sum(self, counts: Floats) -> Floats:
        """Return P'c."""
        return self.against(counts[:, None])[:, 0]

    def against(self, counted: Floats) -> Floats:
        """Return P'y for y of shape (rows, m), already counted."""
        return self._from_cells(self._by_cell(counted * self.factor[:, None]))

    def by_code(self, codes: Integers, counts: Floats, size: int) -> Floats:
        """Return the sums of c P over the rows with each code below a size, of shape (size, K)."""
        by_cell = np.zeros((len(self.S), size))
        np.add.at(by_cell, (self.cell, codes), counts * self.factor)
        return self._from_cells(by_cell).T

    def gram(self, counts: Floats, precision: type[np.floating] = np.float64) -> Floats:
        """Return P'(c P), its products to every digit."""
        return self.products(counts[:, None])

    def products(self, weights: Floats) -> Floats:
        """Return P'(w P) for each of m weights, already counted, one below another."""
        cells = np.arange(len(self.S))
        inside = (self.rows._low[:, None] <= cells) & (cells < self.rows._high[:, None])
        P, by_cell = inside * self.step[:, None] / self.S, self._by_cell(weights * (self.factor**2)[:, None])
        return np.vstack([weighed_products(P, w) for w in by_cell.T])

    def _by_cell(self, columns: Floats) -> Floats:
        return np.asarray(membership(self.cell, len(self.S)) @ columns)

    def _from_cells(self, by_cell: Floats) -> Floats:
        return np.asarray((self.rows._within((by_cell.T / self.S).T).T * self.step).T)
