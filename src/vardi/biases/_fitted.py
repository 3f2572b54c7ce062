"""Columns as numbers, and models by folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vardi._types import Floats, Integers
from vardi.biases._values import as_numbers, is_missing
from vardi.errors import InvalidBiasError, MissingValuesError

Model = TypeVar("Model")
Read = Callable[[str], np.ndarray]
"""A column of some rows, by its name."""


def cross_fitted(
    fit: Callable[[NDArray[np.bool_]], Model],
    by: Callable[[Sequence[Model], Floats], Floats],
    X: Floats,
    folds: Integers,
) -> tuple[tuple[Model, ...], Floats]:
    """Return a model for each fold, and the value of each row by models that have not seen it.

    Parameters
    ----------
    fit : callable
        Returns the model of some rows.
    by : callable
        Returns the values of rows by the mean of some models.
    X : ndarray of shape (n, p)
        All rows.
    folds : ndarray of int
        The fold of each row; -1 for rows that no model is fitted to.
    """
    models = tuple(fit((folds >= 0) & (folds != fold)) for fold in range(int(folds.max()) + 1))
    values = np.empty(len(X))
    for fold, seen_by in [(-1, models), *enumerate((model,) for model in models)]:
        rows = folds == fold
        if rows.any():
            values[rows] = by(seen_by, X[rows])
    return models, values


@dataclass(frozen=True)
class Encoding:
    """Columns as numbers: numeric ones as they are, others as an indicator for each value that occurs in some rows.

    Attributes
    ----------
    values : dict
        The values of each column; None for a numeric one.
    said : str
        What is done with a column, for messages.
    edges : dict
        For trees: where numeric columns with more than 255 values are cut into 255 steps. Boosting in scikit-learn
        would cut them itself but, with weighted rows, at the price of a sort for each cut.
    """

    values: dict[str, tuple[str, ...] | None]
    said: str
    edges: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(
        cls, names: Sequence[str], read: Read, rows: NDArray[np.bool_], said: str, *, for_trees: bool = False
    ) -> Encoding:
        """Return the encoding of columns with the values that occur in some rows."""
        values: dict[str, tuple[str, ...] | None] = {}
        edges: dict[str, Floats] = {}
        for name in names:
            column = read(name)
            numbers = as_numbers(column)
            values[name] = None if numbers is not None else tuple(sorted({str(value) for value in column[rows]}))
            if for_trees and numbers is not None and len(cuts := _edges(numbers[rows])):
                edges[name] = cuts
        return cls(values, said, edges)

    @property
    def named(self) -> list[str]:
        """The name of each column of the matrix."""
        names: list[str] = []
        for name, levels in self.values.items():
            names += [name] if levels is None else [f"{name} {level}" for level in levels]
        return names

    def __call__(self, read: Read) -> Floats:
        """Return columns of some rows as a matrix; raise if values are missing."""
        parts: list[Floats] = []
        for name, levels in self.values.items():
            column = read(name)
            missing = _missing(column)
            if missing:
                raise MissingValuesError(
                    f"{self.said} {name!r}, which is missing in {missing} rows. Fill it in, remove these rows, or "
                    "leave this column out.",
                    columns={name: missing},
                )
            if levels is None:
                numbers = as_numbers(column)
                if numbers is None:
                    raise InvalidBiasError(f"The column {name!r} holds {column.dtype}, not numbers.")
                numbers = numbers.astype(np.float64)
                parts.append(_stepwise(numbers, self.edges[name]) if name in self.edges else numbers)
            else:
                texts = np.array([str(value) for value in column.tolist()], dtype=object)
                parts += [(texts == level).astype(np.float64) for level in levels]
        return np.column_stack(parts)


def _edges(x: np.ndarray, steps: int = 255) -> Floats:
    """Return where numbers are cut into steps with equally many distinct values; empty if they have fewer."""
    x = np.unique(x[np.isfinite(x)].astype(np.float64))
    if len(x) <= steps:
        return np.empty(0)
    return np.asarray(np.quantile(x, np.linspace(0.0, 1.0, steps + 1)[1:-1]))


def _stepwise(x: Floats, edges: Floats) -> Floats:
    """Return the middle of the step that each number is in; for the outer steps, their edge."""
    middles = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2.0, edges[-1:]])
    return np.asarray(middles[np.searchsorted(edges, x, side="right")])


def _missing(column: np.ndarray) -> int:
    if column.dtype.kind == "f":
        return int(np.isnan(column).sum())
    return sum(map(is_missing, column.tolist())) if column.dtype.kind in "OM" else 0
