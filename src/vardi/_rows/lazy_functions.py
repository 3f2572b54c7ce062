"""Functions of the rows of an engine: an expression for each frame. Linear combinations of them are functions again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import narwhals as nw

from vardi._inputs.engines import LENGTH, Aggregate, schema_of
from vardi._inputs.lazy_columns import expressions, missing_values, on_frame
from vardi._inputs.lazy_part import PREFIX, Part
from vardi.biases import Bias
from vardi.biases._compile import NarwhalsTarget, require_columns
from vardi.errors import MissingValuesError
from vardi.errors._refusals import column_of_some, not_finite

#: The expression of a function for a frame.
Of: TypeAlias = Callable[[Part], nw.Expr]


@dataclass(frozen=True, eq=False)
class EngineFunction:
    """A function of the rows.

    Attributes
    ----------
    of : callable
        Returns the expression for a part; it may read the columns of a point.
    name : str or None
        Its name in messages; its values are checked only if it has one.
    is_number : bool
        Whether its values are numbers, not labels: frames are joined only for numbers.
    """

    of: Callable[[Part], nw.Expr]
    name: str | None = None
    is_number: bool = True

    def __call__(self, part: Part) -> nw.Expr:
        """Return the expression of a part, or the column that has its values there."""
        return nw.col(part.computed[self]) if self in part.computed else self.of(part)


def compiled_functions(
    parts: Sequence[Part], functions: Sequence[Bias], names: Sequence[str | None]
) -> list[EngineFunction]:
    """Return expressions of the user's columns as functions, or refuse one that is unknown on some rows.

    One query for each part counts missing values; if there are any, another counts where the expression is unknown.
    """
    by_part: dict[Part, list[nw.Expr]] = {}
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
            by_part[part] = expressions(part, found, target, missing, "expression")
        except MissingValuesError:
            for column, count in missing.items():
                labels = {code: str(part.name if label is None else label) for label, code in part.codes.items()}
                if lacking := [labels[code] for code in all_missing(part, column)]:
                    raise not_finite(count, column, lacking) from None
            raise
    named = [name if function.columns else None for function, name in zip(functions, names, strict=True)]
    return [_function({part: by_part[part][j] for part in parts}, name) for j, name in enumerate(named)]


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
    groups = part.groups({"rows": LENGTH, "gaps": Aggregate(missing.cast(nw.Int64))})
    return groups.source[groups.numbers("rows") == groups.numbers("gaps")].tolist()


def users_columns(part: Part, functions: Sequence[Bias]) -> nw.Schema:
    """Return names and types of the user's columns, and of those that hold the user's expressions."""
    read = {column for function in functions for column in function.columns}
    whole = schema_of(part.rows_as_asked, part.name)
    return nw.Schema({name: kind for name, kind in whole.items() if not name.startswith(PREFIX) or name in read})


def condition(parts: Sequence[Part], holds: nw.Expr | None) -> EngineFunction:
    """Return 1 on the rows of some frames on which a condition holds, and 0 on others; None holds everywhere."""
    return _function(dict.fromkeys(parts, zero_elsewhere(holds, nw.lit(1.0))))


def _function(values: Mapping[Part, nw.Expr], name: str | None = None) -> EngineFunction:
    """Return an expression for each of some frames as a function, which is 0 on rows of others."""
    by_name = {part.name: (part.codes, value) for part, value in values.items()}

    def of(part: Part) -> nw.Expr:
        if part.name not in by_name:
            return nw.lit(0.0)
        codes, value = by_name[part.name]
        inside = None if set(part.codes) <= set(codes) else nw.col(str(part.label)).is_in(list(codes))
        return zero_elsewhere(inside, value)

    return EngineFunction(of, name)


def zero_elsewhere(condition: nw.Expr | None, term: nw.Expr) -> nw.Expr:
    """Return a term where a condition holds, and 0 elsewhere; None holds everywhere."""
    return term if condition is None else nw.when(condition).then(term).otherwise(nw.lit(0.0))
