"""Checks the biases of the pool, and chooses how to hold them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._rows.base import Rows
from vardi._rows.dense import Dense
from vardi._rows.distinct import distinct
from vardi._rows.sparse import Sparse
from vardi._rows.threads import map_blocks
from vardi._sums import Floats, Integers
from vardi.errors import ImpossibleRowError, InvalidBiasError

SMALL = 50_000  # numbers up to which nothing is gained by collapsing rows
MODERATE = (1e-100, 1e100)  # omega of rows under their own bias, and the largest omega, used without scaling
MANY = 64  # samples from which mostly empty columns are stored sparse
SHOWN = 10

Name = Hashable


def as_rows(biases: Any, source: Integers, counts: Floats | None, names: Sequence[Name], *, log: bool = False) -> Rows:
    """Hold the biases of the pool in the way that is cheapest to sum over.

    Parameters
    ----------
    biases : list of K arrays of length n, ndarray of shape (n, K), or SciPy sparse array of that shape
        omega_k(z_i), or their logs. What a sparse array does not store is omega = 0.
    source : ndarray of int of shape (n,)
        Sample of each row.
    counts : ndarray of shape (n,), optional
        Frequency of each row, positive.
    names : sequence
        Names of the samples, for messages.
    log : bool
        Whether logs are given.
    """
    if sparse.issparse(biases):
        return _sparse_rows(biases, source, counts, names, log=log)
    columns = biases if isinstance(biases, list) else list(biases.T)
    moderate = _check(biases, columns, source, names, log=log) and not log
    n, K = len(source), len(columns)
    if n * K > SMALL and (found := distinct([source, *columns])) is not None:
        matrix = np.column_stack([np.asarray(column[found.first], np.float64) for column in columns])
        return Dense(
            matrix, source[found.first], found.counts(counts), log=log, moderate=moderate, inverse=found.inverse
        )
    if isinstance(biases, list):
        if K >= MANY and not log and sum(np.count_nonzero(column) for column in columns) < 0.1 * n * K:
            return Sparse(_sparse_columns(columns), source, counts, moderate=moderate)
        biases = np.column_stack([np.asarray(column, np.float64) for column in columns])
    return Dense(biases, source, counts, log=log, moderate=moderate)


def _sparse_rows(matrix: Any, source: Integers, counts: Floats | None, names: Sequence[Name], *, log: bool) -> Rows:
    matrix = sparse.csr_array(matrix, dtype=np.float64)
    matrix.sum_duplicates()
    low, high = (matrix.data.min(), matrix.data.max()) if matrix.nnz else (0.0, 0.0)
    if not (high < np.inf and (log or low >= 0)):
        columns = sparse.csc_array(matrix)
        for k, name in enumerate(names):
            part = slice(columns.indptr[k], columns.indptr[k + 1])
            _refuse_values(columns.data[part], columns.indices[part], str(name), log=log)
    zero = -np.inf if log else 0.0
    own = np.full(len(source), zero)
    entries = np.repeat(np.arange(len(source)), np.diff(matrix.indptr))
    mine = matrix.indices == source[entries]
    own[entries[mine]] = matrix.data[mine]
    _refuse_impossible(own > zero, source, names)
    moderate = not log and own.min() >= MODERATE[0] and high <= MODERATE[1]
    return Sparse(matrix, source, counts, log=log, moderate=moderate)


def _sparse_columns(columns: Sequence[NDArray[Any]]) -> Any:
    rows = [np.flatnonzero(column) for column in columns]
    data = np.concatenate([np.asarray(column[where], np.float64) for column, where in zip(columns, rows, strict=True)])
    indptr = np.concatenate([[0], np.cumsum([len(where) for where in rows])])
    shape = (len(columns[0]), len(columns))
    return sparse.csc_array((data, np.concatenate(rows), indptr), shape=shape).tocsr()


def _check(biases: Any, columns: Sequence[NDArray[Any]], source: Integers, names: Sequence[Name], *, log: bool) -> bool:
    """Refuse what no bias can be; return whether omega can be used without scaling."""
    n, K = len(source), len(columns)

    def block(rows: slice) -> tuple[float, float, float]:
        if isinstance(biases, list):
            parts = [column[rows] for column in columns]
            low = min(float(part.min()) for part in parts)
            high = max((float(part.max()) for part in parts), key=lambda value: (np.isnan(value), value))
            own = _own_of_columns(parts, source[rows])
        else:
            part = biases[rows]
            low, high = float(part.min()), float(part.max())
            own = part[np.arange(len(part)), source[rows]]
        return low, high, float(own.min())

    lows, highs, owns = (np.array(values) for values in zip(*map_blocks(block, n, K), strict=True))
    zero = -np.inf if log else 0.0
    if not ((highs < np.inf).all() and (log or (lows >= 0).all())):
        require_biases(columns, names, log=log)
    if not (owns > zero).all():
        own = _own_of_columns(columns, source)
        _refuse_impossible(own > zero, source, names)
    return bool(owns.min() >= MODERATE[0] and highs.max() <= MODERATE[1])


def require_biases(columns: Sequence[NDArray[Any]], names: Sequence[Name], *, log: bool) -> None:
    """Refuse values that no bias can have."""
    for column, name in zip(columns, names, strict=True):
        _refuse_values(np.asarray(column), None, str(name), log=log)


def _own_of_columns(columns: Sequence[NDArray[Any]], source: Integers) -> NDArray[Any]:
    own = np.empty(len(source))
    for k, column in enumerate(columns):
        mine = source == k
        own[mine] = column[mine]
    return own


def _refuse_values(values: NDArray[Any], rows: Integers | None, name: str, *, log: bool) -> None:
    bad = np.isnan(values) | (values == np.inf) | (False if log else values < 0)
    where = np.flatnonzero(bad)
    if not len(where):
        return
    first = values[where[0]]
    if rows is not None:
        where = np.sort(rows[where])
    kind = "log omega below infinity" if log else "a finite number, zero or more"
    raise InvalidBiasError(
        f"The bias of {name!r} is {first} at row {where[0]} of the pool ({len(where)} such "
        f"{'row' if len(where) == 1 else 'rows'}). A bias says how much likelier a unit is to be drawn, so it must be "
        f"{kind}. Correct the bias, or take these rows out.",
        sample=name,
        rows=where[:SHOWN],
    )


def _refuse_impossible(possible: NDArray[np.bool_], source: Integers, names: Sequence[Name]) -> None:
    if possible.all():
        return
    rows = np.flatnonzero(~possible)
    name = str(names[source[rows[0]]])
    rows = rows[source[rows] == source[rows[0]]]
    raise ImpossibleRowError(
        f"Sample {name!r} holds {len(rows)} {'row' if len(rows) == 1 else 'rows'} that its own bias forbids (the "
        "first is "
        f"row {rows[0]} of the pool). A unit with bias 0 cannot have been drawn, so the declared bias is wrong, or "
        "these "
        "rows belong to another sample. Correct the bias, or take them out.",
        sample=name,
        rows=rows[:SHOWN],
    )
