"""Columns over the rows of a block, and the sums that a block makes of them: what a question is written in.

A question is one function of a block. Each form of columns answers the same few operations in its own way: arrays and
the fitted probabilities of rows in memory here, expressions of an engine in :mod:`vardi._rows.engine.expressions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from vardi._rows.base import Rows
from vardi._rows.contract import Gram
from vardi._types import Floats, Integers

C = TypeVar("C")  # a number for each row: an array, or an expression
C_contra = TypeVar("C_contra", contravariant=True)  # the same, where it is only read


class Block(Protocol[C_contra]):
    """What a question sees of some rows. Sums are weighed by the counts of rows; an engine's are answered later."""

    def total(self, column: C_contra) -> Any:
        """Return the sum of a column."""

    def sum(self, columns: Any) -> Any:
        """Return the sum of each column, of shape (m,)."""

    def gram(self, columns: Any, others: Any) -> Any:
        """Return the sums of products, of shape (m, k)."""

    def square(self, columns: Any, weights: C_contra | float = 1.0) -> Any:
        """Return the weighted sums of products of columns with one another, of shape (m, m)."""

    def within(self, k: int, column: C_contra | float) -> Any:
        """Return a column on the rows of sample k, and 0 on others."""


class Point(Protocol[C]):
    r"""The rows of a block at v = (u, theta, mu, epsilon), with :math:`x_i = \nabla S_i / S_i`."""

    @property
    def weight(self) -> C:
        """1 / S."""

    @property
    def log_mass(self) -> C:
        """Log S."""

    @property
    def probabilities(self) -> Any:
        """The part of x in u: p, as K columns."""

    @property
    def others(self) -> Any:
        """The parts of x in theta and mu."""

    @property
    def weight_of_epsilon(self) -> Floats:
        """The part of x in epsilon, in multiples of 1 / S: -R'mu."""

    @property
    def moving(self) -> Mapping[int, int]:
        """Known moments that are the mean of a bias with parameters, with the position of that bias."""

    @property
    def places(self) -> Mapping[int, slice]:
        """The place in theta of each bias's parameters."""

    def share(self, k: int) -> C:
        """Return p_k."""

    def users_bias(self, k: int) -> C:
        """Return omega_k at theta, on the user's scale."""

    def log_family(self, k: int) -> C:
        """Return the log of the part of omega_k that has parameters, on the scale of theta."""

    def gradient(self, k: int) -> Any:
        """Return t_k = grad log omega_k in theta, as a column for each parameter."""

    def users_slope(self, k: int) -> Floats:
        """Return what to add to t_k on the user's scale."""

    def bend(self, block: Any, k: int, weights: C) -> Any:
        """Return the weighted sum of the second derivatives of log omega_k in theta; None if they are zero."""


@dataclass(frozen=True, eq=False)
class ArrayColumns:
    """Columns as an array of shape (n, m)."""

    values: Floats

    def times(self, column: Floats) -> ArrayColumns:
        """Return the rows times a column."""
        return ArrayColumns(self.values * column[:, None])

    def shifted(self, numbers: Floats) -> ArrayColumns:
        """Return the columns with a number added to each."""
        return ArrayColumns(self.values + numbers)

    def sum(self, counts: Floats) -> Floats:
        """Return A'c."""
        return np.asarray(counts @ self.values)

    def against(self, values: Floats, counts: Floats) -> Floats:
        """Return A'(c y) for y of shape (n, k)."""
        return np.asarray((self.values * counts[:, None]).T @ values)

    def gram(self, counts: Floats) -> Floats:
        """Return A'(c A)."""
        return self.against(self.values, counts)


@dataclass(frozen=True, eq=False)
class Probabilities:
    """p of rows in memory, which have their counts, times a column: only products with p are formed."""

    rows: Rows
    u: Floats
    ratio: Floats

    def times(self, column: Floats) -> Probabilities:
        """Return the rows times a column."""
        return Probabilities(self.rows, self.u, self.ratio * column)

    def sum(self, counts: Floats) -> Floats:
        """Return P'c."""
        return self.rows.project(self.u, self.ratio)

    def against(self, values: Floats, counts: Floats) -> Floats:
        """Return P'(c y) for y of shape (n, k)."""
        return self.rows.project(self.u, values * self.ratio[:, None])

    def gram(self, counts: Floats) -> Floats:
        """Return P'(c P)."""
        squared = self.rows.with_counts(counts * self.ratio**2)
        return _array(squared.sums(self.u, objective=False).gram, len(self.u))


@dataclass(frozen=True, eq=False)
class ArrayBlock:
    """Rows in memory."""

    counts: Floats
    source: Integers

    def total(self, column: Floats) -> Floats:
        """Return the sum of a column."""
        return np.asarray(self.counts @ column)

    def sum(self, columns: ArrayColumns | Probabilities) -> Floats:
        """Return the sum of each column."""
        return columns.sum(self.counts)

    def gram(self, columns: ArrayColumns | Probabilities, others: ArrayColumns) -> Floats:
        """Return the sums of products."""
        return columns.against(others.values, self.counts)

    def square(self, columns: ArrayColumns | Probabilities, weights: Floats | float = 1.0) -> Floats:
        """Return the weighted sums of products of columns with one another."""
        return columns.gram(self.counts * weights)

    def within(self, k: int, column: Floats | float) -> Floats:
        """Return a column on the rows of sample k, and 0 on others."""
        return np.where(self.source == k, column, 0.0)


def _array(gram: Gram, K: int) -> Floats:
    """Return a gram as an array."""
    if callable(gram):
        return np.column_stack([gram(e) for e in np.eye(K)])
    return gram if isinstance(gram, np.ndarray) else np.asarray(gram.toarray())
