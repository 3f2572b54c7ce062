"""Which columns a report looks at where none are named: all that can be read, up to a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

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


class Recorded(Protocol):
    """What is asked of the holder of a pool: which rows the fit rests on, and which samples recorded which columns."""

    kept: NDArray[np.bool_] | None  # None for all

    @property
    def of_some(self) -> Mapping[str, tuple[int, ...]]: ...
    @property
    def uncovered(self) -> Mapping[str, str]: ...


def choose(
    pool: Pool, held: Recorded, numeric: Sequence[str], read: Callable[[str], Column]
) -> tuple[tuple[Column, ...], str]:
    """Return the columns of a pool in memory, and a note on what was left out.

    Parameters
    ----------
    pool, held : Pool, Recorded
        All rows, which of them the fit rests on, and which columns only some samples have recorded.
    numeric : sequence of str
        The columns of numbers without gaps.
    read : callable
        Gives a column.
    """
    whole = pool.whole()
    if whole is None:
        return (), (
            "The samples are held by different libraries, so their columns were not joined. Name some in variables=."
            if pool.frames
            else "The fit has only biases, no columns. Give values by name in variables=."
        )
    arrays = {name: whole.column(name) for name in whole.columns if name not in (*numeric, *held.uncovered)}
    conditions = [name for name in arrays if pool.column(name, held.of_some.get(name)).dtype.kind == "b"]
    texts = {name: _texts(array) for name, array in arrays.items() if array.dtype.kind in "OUT"}
    known = {name: text for name, text in texts.items() if text is not None}
    categories, (identifiers, further, label) = _categories(pool, held, known)
    note = note_on(
        numeric,
        {
            UNREAD: [name for name in arrays if name not in conditions and name not in known],
            "too many distinct texts": identifiers,
            "more text columns than can be shown; write a condition in variables=": further,
            "the label of the samples": label,
            "of different types in different samples": [f"{name}: {where}" for name, where in pool.mixed.items()],
            **by_reason(held.uncovered),
        },
    )
    columns = tuple(read(name) for name in (*numeric[:MOST_NUMERIC], *conditions))
    return (*columns, *categories), note


def note_on(numeric: Sequence[str], left_out: Mapping[str, Sequence[str]]) -> str:
    """Return which columns are not shown, by the reason why."""
    more = len(numeric) - MOST_NUMERIC
    notes = [f"{more} more numeric columns are not shown; name columns in variables= to choose."] if more > 0 else []
    notes += [f"Not shown: {listed(names)} ({reason})." for reason, names in left_out.items() if names]
    return " ".join(notes)


def by_reason(uncovered: Mapping[str, str]) -> dict[str, list[str]]:
    """Return columns by why they have no mean, without the end of that sentence."""
    reasons = dict.fromkeys(uncovered.values())
    return {one.removesuffix("."): [name for name, own in uncovered.items() if own == one] for one in reasons}


def _mine(pool: Pool, held: Recorded, name: str) -> NDArray[np.bool_]:
    """Tell which rows that the fit rests on are of samples that have recorded a column."""
    own = held.of_some.get(name)
    mine = np.ones(len(pool), bool) if own is None else np.isin(pool.source, own)
    return mine if held.kept is None else mine & held.kept


def _texts(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return a column of texts, None for objects that are none."""
    if not any(isinstance(value, str) for value in array[:1000].tolist()):
        return None
    return np.array([value if isinstance(value, str) else "(missing)" for value in array.tolist()], dtype=object)


def _categories(
    pool: Pool, held: Recorded, texts: Mapping[str, NDArray[Any]]
) -> tuple[tuple[Column, ...], tuple[list[str], list[str], list[str]]]:
    """Return the shares of the most frequent categories, and the columns left out.

    These are columns with too many distinct texts to be kinds of rows, columns beyond the number that is shown (those
    with few categories come first), and columns that repeat the label of the samples.
    """
    kept = slice(None) if held.kept is None else held.kept
    labels = np.array([str(name) for name in pool.names], dtype=object)[pool.source]
    own = [name for name, array in texts.items() if bool((array == labels).all())]
    mine = {name: _mine(pool, held, name) for name in texts if name not in own}
    counted = {
        name: np.unique(texts[name][rows], return_inverse=True, return_counts=True) for name, rows in mine.items()
    }
    identifiers = [name for name, (kinds, _, _) in counted.items() if len(kinds) > IDENTIFIER]
    few = sorted((name for name in counted if name not in identifiers), key=lambda name: len(counted[name][0]))
    columns = tuple(
        replace(column, values=_spread(column.values, mine[name])[kept], among=held.of_some.get(name))
        for name in few[:MOST_TEXT]
        for column in _shares(name, *counted[name])
    )
    return columns, (identifiers, few[MOST_TEXT:], own)


def _spread(values: Floats, mine: NDArray[np.bool_]) -> Floats:
    """Return values of some rows for all of the pool, 0 on others."""
    found = np.zeros(len(mine))
    found[mine] = values
    return found


def _shares(name: str, kinds: NDArray[Any], place: NDArray[Any], counts: NDArray[Any]) -> list[Column]:
    frequent = np.argsort(-counts, kind="stable")
    shown = frequent if len(kinds) <= MOST_CATEGORIES + 1 else frequent[:MOST_CATEGORIES]
    columns = [Column(f"{name}: {kinds[k]}", (place == k).astype(np.float64)) for k in shown.tolist()]
    others = len(kinds) - len(shown)
    if others:
        columns.append(Column(f"{name}: {others} others", (~np.isin(place, shown)).astype(np.float64)))
    return columns
