"""Columns over the rows of a block: what a question is written in.

A question is a function of a block of rows that returns sums, which a holder of rows adds up over its blocks. It is
written in NumPy's own operators, once for all holders: columns of rows in memory are arrays of shape (rows, m), and
those of an engine are :class:`~vardi._rows.expressions.Expressions`, which record what the operators would compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from vardi._types import Floats, Integers

if TYPE_CHECKING:
    from vardi._rows.point import RowsAt

#: Numbers of the rows, in the form in which their holder keeps them: an array, or functions of an engine's frames.
Kept: TypeAlias = Any

Result = TypeVar("Result")
Columns = TypeVar("Columns")


class Probabilities(Protocol):
    """Columns p of the fitted probabilities of K biases, in a form of which only products are made."""

    def __matmul__(self, b: Floats) -> Floats:
        """Return the mean of b, of shape (K, m), under p of each row."""

    def __mul__(self, column: Floats) -> Self:
        """Return the rows times a column."""

    def column(self, k: int | Integers) -> Floats:
        """Return p_k as one column; k may differ between rows in memory."""


class Normalised(NamedTuple):
    """The masses S of rows, as 1 / S and log S, and their probabilities."""

    weight: Floats
    log_mass: Callable[[], Floats]
    p: Probabilities


class Block(Protocol):
    """Some rows, and sums over them. All sums are weighed by the counts of the rows."""

    K: int
    points: dict[int, Any]  # what was made of the rows at points, each once

    def columns(self, values: Kept) -> Floats:
        """Return functions of the rows, of shape (rows, m)."""

    def solved(self, values: Kept) -> Floats:
        """Return functions that are kept for rows as they were solved: one for all equal ones, if these collapsed."""

    def omega(self, k: int) -> Floats:
        """Return the known factor of bias k."""

    def log_omega(self) -> Floats:
        """Return the logs of the known factors of all biases."""

    def normalised(self, u: Floats, added: Mapping[int, Floats]) -> Normalised:
        """Return the rows at u, with biases multiplied by e^added."""

    def tilts(self, rows: RowsAt, log_omegas: Floats) -> Floats:
        """Return omega_k / (S Omega_k) of rows at a point, on the user's scale: finite even where 1 / S underflows."""

    def of_sample(self, numbers: Floats) -> Floats:
        """Return the numbers of each row's own sample, out of shape (K, m)."""

    def of_own(self, p: Probabilities) -> Floats:
        """Return the probability of each row's own sample."""

    def let(self, columns: Columns) -> Columns:
        """Return columns that are computed once, however often they are read."""

    def counted(self, columns: Floats) -> Floats:
        """Return columns times the counts of the rows."""

    def sum(self, columns: Floats) -> Floats:
        """Return the sum of each column, of shape (m,)."""

    def gram(self, columns: Floats | Probabilities, others: Floats | Probabilities) -> Floats:
        """Return the sums of products, of shape (m, k)."""

    def products(self, p: Probabilities, weights: Floats) -> Floats:
        """Return the sums of p p' times each of m weights, one below another: of shape (m K, K), perhaps sparse.

        Their diagonals may be missing.
        """

    def by_sample(self, columns: Floats) -> Floats:
        """Return the sum of each column over the rows of each sample, of shape (K, m)."""

    def extremes(self, columns: Floats, states: Sequence[int] = ()) -> Extremes:
        """Return the smallest and the largest number of each column, on the rows of some samples, or of all."""

    def interval(self, column: Floats, edges: Floats) -> Floats:
        """Return how many of increasing edges a column is above, as one column."""

    def unknown(self, columns: Floats) -> Floats:
        """Return on how many rows each column is not finite, or missing."""


#: What is asked of the rows of a block; the answers of blocks can be added.
Question: TypeAlias = Callable[[Block], Result]


@dataclass(frozen=True)
class Extremes:
    """The smallest and the largest number of each of m columns."""

    low: Floats
    high: Floats

    def __add__(self, other: Extremes) -> Extremes:
        return Extremes(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


class Answers(tuple[Any, ...]):
    """Several answers, added one by one."""

    def __add__(self, other: tuple[Any, ...]) -> Answers:
        return Answers(mine + theirs for mine, theirs in zip(self, other, strict=True))


def addable(answer: Any) -> Any:
    """Return an answer that can be added to that of another block."""
    return Answers(answer) if type(answer) is tuple else answer


#: A key, whose columns may be labels in an engine; columns to be summed, in pieces or in one; and, if there is a third,
#: columns whose extremes are asked for.
ByKey: TypeAlias = tuple[Any, ...]


def pieces_of(columns: Any) -> list[Any]:
    """Return columns in pieces: a list is, anything else is one piece."""
    return columns if isinstance(columns, list) else [columns]


class Grouped(NamedTuple):
    """Sums over groups of rows.

    Attributes
    ----------
    keys : list
        What the rows of each group have in common: a value or, with a key of several columns, a tuple.
    sums : ndarray of shape (groups, m)
        The sum of each column, counted; then the smallest, and the largest, number of each further column.
    """

    keys: list[Any]
    sums: Floats


def within(block: Block, k: int) -> Floats:
    """Return 1 on the rows of sample k, and 0 on others."""
    return block.of_sample(np.eye(block.K)[:, [k]])


def members(K: int, states: Integers | list[int]) -> Floats:
    """Return 1 for some of K samples, and 0 for the others, of shape (K, 1)."""
    return np.isin(np.arange(K), states).astype(np.float64)[:, None]
