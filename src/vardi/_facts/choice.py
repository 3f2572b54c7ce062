"""Which columns a report looks at where none are named: all that can be read, up to a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._facts.columns import Column
from vardi._inputs.pool import Pool
from vardi._types import Floats
from vardi.errors._texts import listed

MOST_NUMERIC = 20
MOST_TEXT, MOST_CATEGORIES = 4, 6  # text columns, and categories of each
IDENTIFIER = 30  # distinct texts from which a column names units rather than kinds of them
UNREAD = "missing or infinite values, or neither numbers nor text"


def choose(
    pool: Pool, kept: NDArray[np.bool_] | None, numeric: Sequence[str], read: Callable[[str], Floats]
) -> tuple[tuple[Column, ...], str]:
    """Return the columns of a pool in memory, and a note on what was left out.

    Parameters
    ----------
    pool, kept : Pool, ndarray of bool or None
        All rows, and which of them the fit rests on.
    numeric : sequence of str
        The columns of numbers without gaps.
    read : callable
        Gives the values of a column on those rows.
    """
    whole = pool.whole()
    if whole is None:
        return (), (
            "The samples are held by different libraries, so their columns were not joined. Name some in variables=."
            if pool.frames
            else "The fit was given biases only, and no columns. Give values by name in variables=."
        )
    arrays = {name: whole.column(name) for name in whole.columns if name not in numeric}
    conditions = [name for name, array in arrays.items() if array.dtype.kind == "b"]
    texts = {name: _texts(array) for name, array in arrays.items() if array.dtype.kind in "OUT"}
    known = {name: text for name, text in texts.items() if text is not None}
    categories, (identifiers, further, label) = _categories(pool, kept, known)
    note = note_on(
        numeric,
        {
            UNREAD: [name for name in arrays if name not in conditions and name not in known],
            "too many different texts": identifiers,
            "more text columns than fit; write a condition in variables=": further,
            "the label of the samples": label,
            "of different kinds in different samples": [f"{name}: {where}" for name, where in pool.mixed.items()],
        },
    )
    columns = tuple(Column(name, read(name)) for name in (*numeric[:MOST_NUMERIC], *conditions))
    return (*columns, *categories), note


def note_on(numeric: Sequence[str], left_out: Mapping[str, Sequence[str]]) -> str:
    """Return which columns are not shown, by the reason why."""
    more = len(numeric) - MOST_NUMERIC
    notes = [f"{more} more numeric columns are not shown; name columns in variables= to choose."] if more > 0 else []
    notes += [f"Not shown: {listed(names)} ({reason})." for reason, names in left_out.items() if names]
    return " ".join(notes)


def _texts(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return a column of texts, None for objects that are none."""
    if not any(isinstance(value, str) for value in array[:1000].tolist()):
        return None
    return np.array([value if isinstance(value, str) else "(missing)" for value in array.tolist()], dtype=object)


def _categories(
    pool: Pool, kept: NDArray[np.bool_] | None, texts: Mapping[str, NDArray[Any]]
) -> tuple[tuple[Column, ...], tuple[list[str], list[str], list[str]]]:
    """Return the shares of the most frequent categories, and the columns left out.

    These are columns with too many different texts to be kinds of rows, columns beyond the number that is shown (those
    with few categories come first), and columns that repeat the label of the samples.
    """
    rows = slice(None) if kept is None else kept
    labels = np.array([str(name) for name in pool.names], dtype=object)[pool.source]
    own = [name for name, array in texts.items() if bool((array == labels).all())]
    counted = {
        name: np.unique(array[rows], return_inverse=True, return_counts=True)
        for name, array in texts.items()
        if name not in own
    }
    identifiers = [name for name, (kinds, _, _) in counted.items() if len(kinds) > IDENTIFIER]
    few = sorted((name for name in counted if name not in identifiers), key=lambda name: len(counted[name][0]))
    columns = tuple(column for name in few[:MOST_TEXT] for column in _shares(name, *counted[name]))
    return columns, (identifiers, few[MOST_TEXT:], own)


def _shares(name: str, kinds: NDArray[Any], place: NDArray[Any], counts: NDArray[Any]) -> list[Column]:
    frequent = np.argsort(-counts, kind="stable")
    shown = frequent if len(kinds) <= MOST_CATEGORIES + 1 else frequent[:MOST_CATEGORIES]
    columns = [Column(f"{name}: {kinds[k]}", (place == k).astype(np.float64)) for k in shown.tolist()]
    others = len(kinds) - len(shown)
    if others:
        columns.append(Column(f"{name}: {others} others", (~np.isin(place, shown)).astype(np.float64)))
    return columns
