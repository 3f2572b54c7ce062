"""Cells: a condition on rows, and its share of the population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._inputs.frames import Frame
from vardi._inputs.pool import Pool
from vardi._rows.contract import Floats
from vardi.biases import Bias
from vardi.errors import MissingValuesError

SAME = 1e-12  # relative difference up to which the values of a bias are one constant


@dataclass(frozen=True)
class Cell:
    """A part of the population, and its share of it.

    Attributes
    ----------
    label : str
        How it is called.
    share : float
        Its share.
    bias : Bias or None
        The condition that tells its rows; None where it is that of a state.
    state : int or None
        Position of the bias whose rows (omega > 0) it holds.
    """

    label: str
    share: float
    bias: Bias | None
    state: int | None = None


def members_of(cells: Sequence[Cell], pool: Pool, omega: Any, *, log: bool) -> NDArray[np.bool_]:
    """Return which rows of the pool each cell holds, of shape (n, J); margins must list every value there is."""
    members = np.empty((len(pool), len(cells)), bool)
    samples = [str(name) for name in pool.names] if len(pool.frames) > 1 else [None]
    for j, cell in enumerate(cells):
        if cell.state is not None:
            members[:, j] = support(_column(omega, cell.state, log=log), log=log)
        else:
            pieces = [_evaluated(cell, frame, name) for frame, name in zip(pool.frames, samples, strict=False)]
            members[:, j] = np.concatenate(pieces)
    return members


def members_of_frame(cells: Sequence[Cell], frame: Frame, biases: Sequence[Bias]) -> NDArray[np.bool_]:
    """Return which rows of a frame each cell holds."""
    columns = [
        np.asarray(frame.evaluate([biases[cell.state]])[0]) > 0
        if cell.state is not None
        else _evaluated(cell, frame, None)
        for cell in cells
    ]
    return np.column_stack(columns)


def _evaluated(cell: Cell, frame: Frame, sample: str | None) -> NDArray[np.bool_]:
    assert cell.bias is not None
    try:
        values = np.asarray(frame.evaluate([cell.bias], sample)[0])
    except MissingValuesError as error:
        raise MissingValuesError(
            f"The known value of {cell.label!r} needs a value of every row. {error}", columns=error.columns
        ) from error
    return indicator(values)


def indicator(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether rows are in a cell."""
    if ((values != 0) & (values != 1)).any():
        raise NotImplementedError("Known means are to come with the solver that takes them.")
    return values.astype(bool)


def state_values(omega: Any, k: int, *, log: bool) -> Floats:
    """Return the bias of a state on all rows."""
    column = np.asarray(_column(omega, k, log=log), np.float64)
    return np.exp(column) if log else column


def _column(omega: Any, k: int, *, log: bool) -> NDArray[Any]:
    if isinstance(omega, list):
        return np.asarray(omega[k])
    if not sparse.issparse(omega):
        return np.asarray(omega[:, k])
    stored = sparse.csc_array(omega)[:, [k]].tocoo()
    column = np.full(omega.shape[0], -np.inf if log else 0.0)
    column[stored.row] = stored.data
    return column


def support(column: NDArray[Any], *, log: bool) -> NDArray[np.bool_]:
    """Return where a bias is positive; it has to be the same wherever it is."""
    positive = np.asarray(column > (-np.inf if log else 0))
    values = np.asarray(column[positive], np.float64)
    if len(values):
        low, high = float(values.min()), float(values.max())
        if (high - low if log else high / low - 1.0) > SAME:
            raise NotImplementedError("Known normalisers are to come with the solver that takes them.")
    return positive
