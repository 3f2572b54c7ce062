"""Columns as expressions of an engine: a block remembers the sums that it is asked for, and one query answers all."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import Part
from vardi._types import Floats

Place: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ExpressionColumns:
    """Columns as expressions, by their place among so many: the others are zero."""

    terms: Mapping[int, nw.Expr]
    width: int

    @classmethod
    def of(cls, *terms: nw.Expr) -> ExpressionColumns:
        """Return columns of which none is zero."""
        return cls(dict(enumerate(terms)), len(terms))

    def __iter__(self) -> Iterator[nw.Expr]:
        return iter(self.terms.values())

    def times(self, column: nw.Expr | float) -> ExpressionColumns:
        """Return the rows times a column."""
        return ExpressionColumns({place: term * column for place, term in self.terms.items()}, self.width)

    def shifted(self, numbers: Floats) -> ExpressionColumns:
        """Return the columns with a number added to each."""
        terms = {place: term + float(numbers[place]) for place, term in self.terms.items()}
        return ExpressionColumns(terms, self.width)


@dataclass(frozen=True)
class PendingSums:
    """The shape of some sums, and the place in it of each that is asked for."""

    shape: Place
    places: tuple[Place, ...]
    symmetric: bool = False

    def filled(self, numbers: Floats) -> Floats:
        """Return the answers, in their places."""
        found = np.zeros(self.shape)
        for place, number in zip(self.places, numbers, strict=True):
            found[place] = number
            if self.symmetric:
                found[place[::-1]] = number
        return found


@dataclass(frozen=True, eq=False)
class ExpressionBlock:
    """The rows of a part: what is summed over them, in one query."""

    part: Part
    terms: list[nw.Expr] = field(default_factory=list)

    def total(self, column: nw.Expr) -> PendingSums:
        """Ask for the sum of a column."""
        return self._ask({(): column}, ())

    def sum(self, columns: ExpressionColumns) -> PendingSums:
        """Ask for the sum of each column."""
        return self._ask({(place,): term for place, term in columns.terms.items()}, (columns.width,))

    def gram(self, columns: ExpressionColumns, others: ExpressionColumns) -> PendingSums:
        """Ask for the sums of products."""
        left, right = columns.terms, others.terms
        products: dict[Place, nw.Expr] = {(i, j): left[i] * right[j] for i in left for j in right}
        return self._ask(products, (columns.width, others.width))

    def square(self, columns: ExpressionColumns, weights: nw.Expr | float = 1.0) -> PendingSums:
        """Ask for the weighted sums of products of columns with one another, each once."""
        terms, weighed = columns.terms, columns.times(weights).terms
        products: dict[Place, nw.Expr] = {(i, j): weighed[i] * terms[j] for i in terms for j in terms if i <= j}
        return self._ask(products, (columns.width, columns.width), symmetric=True)

    def within(self, k: int, column: nw.Expr | float) -> nw.Expr | float:
        """Return a column on the rows of sample k, and 0 on others."""
        own = self.part.only(k, nw.lit(1.0))
        return column * 0.0 if own is None else column * own

    def _ask(self, terms: Mapping[Place, nw.Expr], shape: Place, *, symmetric: bool = False) -> PendingSums:
        self.terms.extend(self.part.times_count(term) for term in terms.values())
        return PendingSums(shape, tuple(terms), symmetric)


def answers(asked: Mapping[Hashable, PendingSums], numbers: Floats) -> dict[Hashable, Floats]:
    """Return the sums of a question from the numbers that answer its terms, in their order."""
    found, start = {}, 0
    for key, one in asked.items():
        found[key] = one.filled(numbers[start : start + len(one.places)])
        start += len(one.places)
    return found
