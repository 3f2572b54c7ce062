"""Check the biases of the pool, and choose how to hold them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._rows.base import Rows
from vardi._rows.checks import BiasColumns, Biases, Checks
from vardi._rows.dense import Dense
from vardi._rows.distinct import distinct, distinct_sparse
from vardi._rows.sparse import Sparse
from vardi._rows.stored import Reader, read_rows
from vardi._rows.thinned import MIN_SAMPLES, Thinned
from vardi._rows.windows import Windows, window_rows
from vardi._types import Floats, Integers
from vardi.errors import VardiError

MAX_UNCOLLAPSED_NUMBERS = 50_000  # numbers up to which collapsing rows gains nothing
MIN_SPARSE_SAMPLES = 64  # samples above which mostly empty columns are stored sparse


def as_rows(
    biases: Any,
    source: Integers,
    counts: Floats,
    names: Sequence[Hashable],
    *,
    log: bool = False,
    positions: Integers | None = None,
    also: Sequence[NDArray[Any]] = (),
    place: Callable[[int, int], str] | None = None,
) -> Rows:
    """Hold the biases of the pool in the way that is cheapest to sum over.

    Parameters
    ----------
    biases : list of K arrays of length n, or ndarray, Reader, Windows or SciPy sparse array of shape (n, K)
        omega_k(z_i), or their logs. What a sparse array does not store is omega = 0. What is read in blocks stays where
        it is.
    source : ndarray of int of shape (n,)
        Sample of each row.
    counts : ndarray of shape (n,), optional
        Frequency of each row, positive.
    names : sequence
        Names of the samples, for messages.
    log : bool
        Whether logs are given.
    positions : ndarray of int, optional
        The places of the rows in the pool, for messages, if they are not all of it.
    also : sequence of arrays of length n
        Further columns that must be equal for rows to be collapsed into one.
    place : callable, optional
        Describes the row at a position of the pool, and what a bias reads there, for messages.
    """
    checks = Checks(names, log, positions, place=place)
    if sparse.issparse(biases):
        return _sparse_rows(biases, source, counts, checks, collapse=not also)
    if isinstance(biases, Windows):
        return window_rows(biases, source, counts, checks)
    if isinstance(biases, Reader):
        return read_rows(biases, source, counts, checks)
    is_in_columns = isinstance(biases, list)
    held: Biases = BiasColumns(biases) if is_in_columns else biases
    n, K = held.shape
    compared = BiasColumns([*held.T, *_as_biases(also, checks.zero)]) if also else held
    if n * K > MAX_UNCOLLAPSED_NUMBERS and (kinds := distinct(source, compared, checks.zero)) is not None:
        labels, matrix = source[kinds.first], np.asarray(held[kinds.first], np.float64)
        try:
            found = checks.array(matrix, labels)  # every row is equal to one of these
        except VardiError:
            found = checks.array(held, source)  # its message has the place in the pool
        return _dense(K)(matrix, labels, kinds.counts(counts), inverse=kinds.inverse, **found)
    found = checks.array(held, source)
    if not is_in_columns:
        return _dense(K)(biases, source, counts, **found)
    if K >= MIN_SPARSE_SAMPLES and not log and sum(np.count_nonzero(column) for column in biases) < 0.1 * n * K:
        return Sparse(_sparse_columns(biases), source, counts, **found)
    matrix = np.column_stack([np.asarray(column, np.float64) for column in biases])
    return _dense(K)(matrix, source, counts, **found)


def _dense(K: int) -> type[Dense]:
    """Return the class that holds a dense matrix of K biases."""
    return Thinned if K >= MIN_SAMPLES else Dense


def _as_biases(columns: Sequence[NDArray[Any]], zero: float) -> list[NDArray[Any]]:
    """Return columns in which an omega of zero is written as in the biases."""
    return list(columns) if zero == 0.0 else [np.where(column == 0.0, zero, column) for column in columns]


def _sparse_rows(matrix: sparse.sparray, source: Integers, counts: Floats, checks: Checks, *, collapse: bool) -> Rows:
    matrix = sparse.csr_array(matrix, dtype=np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # do not sort the user's arrays
        matrix.sum_duplicates()
    found = checks.sparse(matrix, source)
    if collapse and matrix.nnz > MAX_UNCOLLAPSED_NUMBERS and (kinds := distinct_sparse(matrix, source)) is not None:
        return Sparse(matrix[kinds.first], source[kinds.first], kinds.counts(counts), inverse=kinds.inverse, **found)
    return Sparse(matrix, source, counts, **found)


def _sparse_columns(columns: Sequence[NDArray[Any]]) -> sparse.csr_array:
    rows = [np.flatnonzero(column) for column in columns]
    data = np.concatenate([np.asarray(column[where], np.float64) for column, where in zip(columns, rows, strict=True)])
    indptr = np.concatenate([[0], np.cumsum([len(where) for where in rows])])
    shape = (len(columns[0]), len(columns))
    return sparse.csc_array((data, np.concatenate(rows), indptr), shape=shape).tocsr()
