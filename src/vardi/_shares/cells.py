"""Shares as the user gives them -> cells: a condition on rows, and its share of the population."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._frames import Frame
from vardi._pool import Name, Pool, no_labels, show
from vardi.biases import Bias, isin, where
from vardi.errors import InvalidSharesError, MismatchError, MissingValuesError, number_of_rows, suggest

ROUNDING = 1e-5  # how far the shares of a margin may be from 1 in sum: printed shares are rounded
SAME = 1e-12  # relative difference up to which the values of a bias are one constant


@dataclass(frozen=True)
class Cell:
    """A part of the population, and its share of it.

    Attributes
    ----------
    label : str
        How it is called.
    share : float
        Its share, above 0 and at most 1.
    bias : Bias or None
        The condition that tells its rows; None where it is that of a state.
    state : int or None
        Position of the bias whose rows (omega > 0) it holds.
    """

    label: str
    share: float
    bias: Bias | None
    state: int | None = None


class Table(Protocol):
    """What shares ask of the rows."""

    columns: tuple[str, ...]

    def counts(self, column: str) -> Mapping[Any, int]: ...


class PoolTable:
    """The columns that all samples of a pool have."""

    def __init__(self, pool: Pool) -> None:
        self._frames = pool.frames
        first = pool.frames[0].columns if pool.frames else ()
        self.columns = tuple(name for name in first if all(name in frame.columns for frame in pool.frames))

    def counts(self, column: str) -> Mapping[Any, int]:
        """Return how many rows have each value of a column."""
        try:
            return Counter(_plain(value) for frame in self._frames for value in frame.column(column).tolist())
        except TypeError as error:
            raise no_labels(repr(column)) from error


def as_cells(shares: Any, names: tuple[Name, ...], table: Table) -> tuple[Cell, ...]:
    """Return a cell for each share, those of a margin one after the other, or say what is no share."""
    if not isinstance(shares, Mapping):
        raise MismatchError(
            f"The shares came as {type(shares).__name__}. Give a mapping: from the name of a sample or a condition to "
            "a share, or from a column to the shares of its values.",
            expected=("mapping",),
            got=(type(shares).__name__,),
        )
    cells: list[Cell] = []
    for key, given in shares.items():
        cells += _margin(key, given, table) if _is_mapping(given) else [_cell(key, given, names, table)]
    if not cells:
        raise MismatchError(
            "There are no shares. Give at least one, or leave shares out.", expected=("shares",), got=()
        )
    return tuple(cells)


def cell_biases(shares: Mapping[Any, Any], names: Iterable[Name]) -> dict[Name, Bias]:
    """Return the conditions that shares read of the rows; the names of samples are none."""
    known = set(names)
    found: dict[Name, Bias] = {}
    for key, given in shares.items():
        if _is_mapping(given):
            found[f"share of {key}"] = where(f"`{key}`")
        elif isinstance(key, Bias):
            found[f"share of {key}"] = key
        elif isinstance(key, str) and key not in known:
            found[f"share of {key}"] = where(key)
    return found


def members_of(cells: Sequence[Cell], pool: Pool, omega: Any, *, log: bool) -> NDArray[np.bool_]:
    """Return which rows of the pool each cell holds, of shape (n, J); margins must list every value there is."""
    members = np.empty((len(pool), len(cells)), bool)
    samples = [str(name) for name in pool.names] if len(pool.frames) > 1 else [None]
    for j, cell in enumerate(cells):
        if cell.state is not None:
            members[:, j] = support(_column(omega, cell.state, log=log), cell, log=log)
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


def require_rows_in(cells: Sequence[Cell], members: NDArray[np.bool_]) -> None:
    """Refuse a cell without rows: nothing could carry its share."""
    empty = [cell for cell, column in zip(cells, members.T, strict=True) if not column.any()]
    if empty:
        raise InvalidSharesError(
            f"No row of the pool is in {show(cell.label for cell in empty)}, so nothing can carry the share "
            f"{empty[0].share:g} of it. Add rows from there; or leave it out, and give the shares within the rest of "
            "the population, for which the result then speaks.",
            cells=[cell.label for cell in empty],
        )


def _is_mapping(given: Any) -> bool:
    return hasattr(given, "keys")  # a pandas Series is no Mapping


def _cell(key: Any, given: Any, names: tuple[Name, ...], table: Table) -> Cell:
    label = str(key)
    share = _share(given, label)
    if not isinstance(key, Bias) and key in names:
        return Cell(label, share, None, names.index(key))
    if isinstance(key, str | Bias) and table.columns:
        bias = where(key) if isinstance(key, str) else key
        strange = [name for name in bias.columns if name not in table.columns]
        if not strange:
            return Cell(label, share, bias)
        said = f"reads the column {strange[0]!r}, which is neither a sample nor a column of every sample"
        near = suggest(strange[0], [*names, *table.columns])
    else:
        said, near = "is neither a sample nor a condition of columns", suggest(label, names)
    raise MismatchError(
        f"shares has {label!r}, which {said}. The samples are {show(names)}, the columns {show(table.columns)}.{near} "
        "Name a sample, or write a condition of the columns.",
        expected=(*names, *table.columns),
        got=(label,),
    )


def _margin(column: Any, given: Any, table: Table) -> list[Cell]:
    known = table.columns
    if column not in known:
        raise MismatchError(
            f"shares has shares by value for {str(column)!r}, which is no column of every sample. The columns are "
            f"{show(known)}.{suggest(column, known)}",
            expected=known,
            got=(column,),
        )
    values = {_plain(value): _share(given[value], f"{column} == {_plain(value)!r}") for value in given.keys()}  # noqa: SIM118
    total = math.fsum(values.values())
    if abs(total - 1.0) > ROUNDING:
        raise InvalidSharesError(
            f"The shares of {column!r} sum to {total:.6g}, but every member of the population has one of its values. "
            "Give shares that sum to 1; a share of one value alone is given as a condition.",
            cells=[str(column)],
        )
    counts = table.counts(str(column))
    strange = [value for value in counts if value not in values and not _is_missing(value)]
    if strange:
        raise InvalidSharesError(
            f"{number_of_rows(counts[strange[0]])} of the pool have {column} == {strange[0]!r}, which has no share. "
            f"The values with a share are {show(values)}. Give every value that there is its share.",
            cells=[f"{column} == {value!r}" for value in strange],
        )
    return [
        Cell(f"{column} == {value!r}", share / total, isin(str(column), [value])) for value, share in values.items()
    ]


def _share(given: Any, label: str) -> float:
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if not number or not 0.0 < given <= 1.0:
        raise InvalidSharesError(
            f"The share of {label!r} is {given!r}. A share is a number above 0 and at most 1; what has none of the "
            "population is left out of the samples.",
            cells=[label],
        )
    return float(given)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or value != value


def _evaluated(cell: Cell, frame: Frame, sample: str | None) -> NDArray[np.bool_]:
    assert cell.bias is not None
    try:
        values = np.asarray(frame.evaluate([cell.bias], sample)[0])
    except MissingValuesError as error:
        raise MissingValuesError(
            f"The share of {cell.label!r} needs to know of every row whether it is in. {error}", columns=error.columns
        ) from error
    return indicator(values, cell)


def indicator(values: NDArray[Any], cell: Cell) -> NDArray[np.bool_]:
    """Return whether rows are in a cell, or refuse what does not say yes or no."""
    outside = values[(values != 0) & (values != 1)]
    if len(outside):
        raise InvalidSharesError(
            f"{cell.label!r} has the value {outside[0]:g} on some rows, so it is no part of the population that could "
            "have a share. Give a condition, which holds or does not.",
            cells=[cell.label],
        )
    return values.astype(bool)


def _column(omega: Any, k: int, *, log: bool) -> NDArray[Any]:
    if isinstance(omega, list):
        return np.asarray(omega[k])
    if not sparse.issparse(omega):
        return np.asarray(omega[:, k])
    stored = sparse.csc_array(omega)[:, [k]].tocoo()
    column = np.full(omega.shape[0], -np.inf if log else 0.0)
    column[stored.row] = stored.data
    return column


def support(column: NDArray[Any], cell: Cell, *, log: bool) -> NDArray[np.bool_]:
    """Return where a bias is positive, or refuse one that is not the same wherever it is."""
    positive = np.asarray(column > (-np.inf if log else 0))
    values = np.asarray(column[positive], np.float64)
    if len(values):
        low, high = float(values.min()), float(values.max())
        if (high - low if log else high / low - 1.0) > SAME:
            raise InvalidSharesError(
                f"The bias of {cell.label!r} runs from {low:.4g} to {high:.4g} where it is not zero, so its sample is "
                "no part of the population that could have a share: members enter it with different chances. Give "
                "the share of the condition under which they can enter at all.",
                cells=[cell.label],
            )
    return positive
