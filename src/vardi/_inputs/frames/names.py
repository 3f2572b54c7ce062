"""Names of columns: those that frames share, and those that a library would not read as plain names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import vardi._narwhals as nw
from vardi.errors import MismatchError


def shared_names(columns: Sequence[Collection[str]]) -> tuple[str, ...]:
    """Return the names of columns that all of several frames have, in the order of the first.

    >>> shared_names([["x", "y"], ["z", "y"]]), shared_names([])
    (('y',), ())
    """
    return tuple(name for name in columns[0] if all(name in own for own in columns)) if columns else ()


def misread_names(names: Iterable[str], implementation: nw.Implementation) -> list[str]:
    """Return those names that an engine would read as a pattern or a path, and so resolve to other columns.

    Examples
    --------
    >>> import narwhals as nw
    >>> misread_names(["x", "*", "^x.*$", "a.b"], nw.Implementation.POLARS)
    ['*', '^x.*$']
    >>> misread_names(["x", "*", "^x.*$", "a.b"], nw.Implementation.DUCKDB)
    ['*', '^x.*$', 'a.b']
    """
    if implementation.is_polars():
        return [name for name in names if name == "*" or (name.startswith("^") and name.endswith("$"))]
    if implementation.is_duckdb():
        return [name for name in names if name == "*" or "." in name or '"' in name]
    return []


def require_read_as_names(names: Iterable[str], implementation: nw.Implementation) -> None:
    """Refuse columns whose names an engine would read as something else.

    Examples
    --------
    >>> import narwhals as nw
    >>> require_read_as_names(["x", "*"], nw.Implementation.POLARS)
    Traceback (most recent call last):
    ...
    vardi.errors.MismatchError: Polars takes the column name '*' for a pattern of other columns' names. Rename it.
    """
    names = list(names)
    misread = misread_names(names, implementation)
    if misread:
        engine, as_what = ("Polars", "a pattern of") if implementation.is_polars() else ("DuckDB", "a path to")
        raise MismatchError(
            f"{engine} takes the column name {misread[0]!r} for {as_what} other columns' names. Rename it."
        )
