"""Functions of the rows of an engine: an expression for each frame. Linear combinations of them are functions again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.engine.aggregates import LENGTH, Aggregate
from vardi._inputs.engine.asking import schema_of
from vardi._inputs.engine.columns import expressions, missing_values
from vardi._inputs.engine.expressions import on_frame
from vardi._inputs.engine.part import PREFIX, Part
from vardi._types import Floats
from vardi.biases import Bias
from vardi.biases._expressions.compile import NarwhalsTarget, require_columns
from vardi.errors import MissingValuesError
from vardi.errors._refusals import column_of_some, not_finite


class Reads(IntEnum):
    """What the expression of a function reads, which tells how frames can be joined and still have its values."""

    OURS = 0  # columns that all frames have: those of biases, or of a point; the expression is the same in each
    USERS = 1  # the user's columns
    BOTH = 2


@dataclass(frozen=True, eq=False)
class EngineFunction:
    """A function of the rows.

    Attributes
    ----------
    of : callable
        Returns the expression for a part; it may read the columns of a point.
    name : str or None
        Its name in messages; its values are checked only if it has one.
    reads : Reads
        What the expression reads.
    """

    of: Callable[[Part], nw.Expr]
    name: str | None = None
    reads: Reads = Reads.BOTH

    def __call__(self, part: Part) -> nw.Expr:
        """Return the expression of a part."""
        return self.of(part)

    def map(self, change: Callable[[nw.Expr], nw.Expr]) -> EngineFunction:
        """Return a function of the values, such as whether they are below a number."""
        return EngineFunction(lambda part: change(self.of(part)), reads=self.reads)

    def times(self, other: EngineFunction) -> EngineFunction:
        """Return the product with another function, such as a condition."""
        reads = self.reads if self.reads is other.reads else Reads.BOTH
        return EngineFunction(lambda part: self.of(part) * other.of(part), self.name, reads)


def compiled_functions(
    parts: Sequence[Part], functions: Sequence[Bias], names: Sequence[str | None]
) -> list[EngineFunction]:
    """Return expressions of the user's columns as functions, or refuse one that is unknown on some rows.

    One query for each part counts missing values; if there are any, another counts where the expression is unknown.
    """
    by_part: dict[str | None, list[nw.Expr]] = {}
    checked: set[str] = set()
    for part in parts:
        changes, found = on_frame(part.rows_as_asked, functions, part.name, f"value{len(part.put)}")
        part.put.extend(changes)
        schema = users_columns(part, found)
        columns = tuple(dict.fromkeys(column for function in found for column in function.columns))
        _require_everywhere(parts, [column for column in columns if column not in checked])
        checked.update(columns)
        require_columns(columns, schema)
        target = NarwhalsTarget(schema)
        missing = missing_values(part, target, columns)
        try:
            by_part[part.name] = expressions(part, found, target, missing, part.name, called="expression")
        except MissingValuesError:
            for column, count in missing.items():
                labels = {code: str(part.name if label is None else label) for label, code in part.codes.items()}
                if lacking := [labels[code] for code in all_missing(part, column)]:
                    raise not_finite(count, column, lacking) from None
            raise
    named = [name if function.columns else None for function, name in zip(functions, names, strict=True)]
    return [EngineFunction(_of(by_part, j), name, Reads.USERS) for j, name in enumerate(named)]


def _require_everywhere(parts: Sequence[Part], columns: Sequence[str]) -> None:
    """Refuse a column that some frames have and others lack."""
    named = [column for column in columns if not column.startswith(PREFIX)]
    schemas = {str(part.name): part.schema for part in parts} if named else {}
    for column in named:
        lacks = [name for name, schema in schemas.items() if column not in schema]
        if 0 < len(lacks) < len(parts):
            raise column_of_some(column, [name for name in schemas if name not in lacks], lacks)


def all_missing(part: Part, column: str) -> list[int]:
    """Return the samples of a part in which all values of a column are missing."""
    missing = NarwhalsTarget(schema_of(part.rows_as_asked, part.name)).is_missing(column)
    found = part.by_sample({"rows": LENGTH, "gaps": Aggregate(missing.cast(nw.Int64))})
    return [code for code, row in found if row["rows"] == row["gaps"]]


def users_columns(part: Part, functions: Sequence[Bias]) -> nw.Schema:
    """Return names and types of the user's columns, and of those that hold the user's expressions."""
    read = {column for function in functions for column in function.columns}
    whole = schema_of(part.rows_as_asked, part.name)
    return nw.Schema({name: kind for name, kind in whole.items() if not name.startswith(PREFIX) or name in read})


def _of(by_part: Mapping[str | None, Sequence[nw.Expr]], j: int) -> Callable[[Part], nw.Expr]:
    return lambda part: by_part[part.name][j]


def zero_elsewhere(condition: nw.Expr | None, term: nw.Expr) -> nw.Expr:
    """Return a term where a condition holds, and 0 elsewhere; None holds everywhere."""
    return term if condition is None else nw.when(condition).then(term).otherwise(nw.lit(0.0))


ZERO = EngineFunction(lambda part: nw.lit(0.0), reads=Reads.OURS)
ONE = EngineFunction(lambda part: nw.lit(1.0), reads=Reads.OURS)


@dataclass(frozen=True, eq=False)
class EngineValues:
    r"""Influence values :math:`\phi_i = (f_i'C - \eta) / S_i + q_i'b` of m estimates, as formulas to be evaluated.

    They are linear in (C, eta, b), so sums and multiples of estimates have such values, too.

    Attributes
    ----------
    functions : tuple of EngineFunction
        f.
    coefficients : ndarray of shape (M, m)
        C.
    eta : ndarray of shape (m,)
        Their means.
    b : ndarray of shape (d, m)
        Their effect through the coordinates of the point.
    """

    functions: tuple[EngineFunction, ...]
    coefficients: Floats
    eta: Floats
    b: Floats

    @property
    def shape(self) -> tuple[int | None, int]:
        """The number of rows, which is unknown, and of estimates."""
        return None, len(self.eta)

    def __getitem__(self, place: tuple[Any, Any]) -> EngineValues:
        """Return some of the estimates: ``influence[:, j : j + 1]``."""
        _, columns = place
        return replace(self, coefficients=self.coefficients[:, columns], eta=self.eta[columns], b=self.b[:, columns])

    def __matmul__(self, coefficients: Floats) -> EngineValues:
        """Return the values of linear combinations of the estimates, with coefficients of shape (m, k)."""
        return EngineValues(
            self.functions, self.coefficients @ coefficients, self.eta @ coefficients, self.b @ coefficients
        )

    def __mul__(self, factor: float) -> EngineValues:
        return EngineValues(self.functions, self.coefficients * factor, self.eta * factor, self.b * factor)

    __rmul__ = __mul__

    def __add__(self, other: EngineValues) -> EngineValues:
        functions = tuple(dict.fromkeys((*self.functions, *other.functions)))
        place = {function: j for j, function in enumerate(functions)}
        coefficients = np.zeros((len(functions), len(self.eta)))
        for one in (self, other):
            for function, row in zip(one.functions, one.coefficients, strict=True):
                coefficients[place[function]] += row
        return EngineValues(functions, coefficients, self.eta + other.eta, self.b + other.b)
