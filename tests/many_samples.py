"""Designs with as many samples as one likes: sparse biases, and a window for each row."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from vardi import Windows


def along_a_line(K: int, per: int, seed: int = 0, *, continuous: bool = False) -> tuple[sparse.csr_array, np.ndarray]:
    """Windows from k to k + 5: each row is in five of them."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(K), per)
    x = source + rng.uniform(0, 5, K * per)
    columns = np.floor(x).astype(int)[:, None] - np.arange(5)
    row, place = np.nonzero((columns >= 0) & (columns < K))
    column = columns[row, place]
    along = (x[row] - column) / 5
    values = 0.1 + along * (1 - along) if continuous else np.ones(len(row))
    return sparse.csr_array((values, (row, column)), shape=(K * per, K)), source


def anywhere(K: int, per: int, seed: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    """Each row is covered by its own bias and by four others, which may be any."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(K), per)
    column = np.column_stack([source, rng.integers(0, K, (K * per, 4))])
    values, row = rng.uniform(0.2, 3, column.shape), np.repeat(np.arange(K * per), 5)
    return sparse.csr_array((values.ravel(), (row, column.ravel())), shape=(K * per, K)), source


def doubly_truncated(n: int, width: float, seed: int = 0) -> Windows:
    """Each unit is seen if it lies in its own window, which begins anywhere."""
    rng = np.random.default_rng(seed)
    x = 1 - np.sqrt(1 - 0.96 * rng.random(int(4 * n / width)))
    low = rng.uniform(-width / 2, 0.8 - width / 2, len(x))
    seen = np.flatnonzero((low <= x) & (x <= low + width))[:n]
    return Windows(x[seen], low[seen], low[seen] + width)
