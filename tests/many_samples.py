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


def with_columns(omega: sparse.csr_array, *columns: np.ndarray) -> sparse.csr_array:
    """Return a matrix of biases with states that nobody drew from."""
    return sparse.csr_array(sparse.hstack([omega, sparse.csr_array(np.column_stack(columns))]))


def any_other(K: int = 320, per: int = 6) -> tuple:
    """Rows that are covered anywhere, three states with the means of their biases, and x."""
    omega, source = anywhere(K, per)
    x = np.random.default_rng(2).standard_normal(len(source))
    return with_columns(omega, x > 0, np.exp(x), np.abs(x)), source, [0.5, np.exp(0.5), np.sqrt(2 / np.pi)], x


def windows(K: int = 320) -> tuple:
    """A window for each row, three more with their shares of the population, and x."""
    own = doubly_truncated(K, 0.3)
    low, high = np.append(own.low, [0.3, 0.1, 0.6]), np.append(own.high, [np.inf, 0.5, np.inf])
    below = (1 - (1 - np.array([0.3, 0.1, 0.5, 0.6])) ** 2) / 0.96
    shares = [1 - below[0], below[2] - below[1], 1 - below[3]]
    return Windows(own.x, low, high), np.arange(K), shares, own.x
