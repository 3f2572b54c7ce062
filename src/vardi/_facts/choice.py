"""Which columns a report shows if none are named: all that can be read, up to a maximum number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vardi._facts.columns import Variable
from vardi._inputs.by_row import KeptRows
from vardi._inputs.frames import JoinedColumns
from vardi._inputs.pool import Pool
from vardi._types import Integers
from vardi.biases._values import coded
from vardi.errors._texts import SHOWN, listed

MOST_TEXT = 4
IDENTIFIER = 30  # distinct texts from which a column names units rather than kinds of them
MISSING = "(missing)"
UNREAD = "missing or infinite values, or neither numbers nor text"


@dataclass(frozen=True, eq=False)
class Recorded:
    """Which rows of a pool the fit rests on, and which samples recorded which columns.

    Attributes
    ----------
    kept : KeptRows
        The rows.
    of_some : mapping from str to tuple of int
        Columns that only some samples have recorded, with these samples.
    uncovered : mapping from str to str
        Those of them whose samples do not cover the pool, with the reason.
    """

    kept: KeptRows
    of_some: Mapping[str, tuple[int, ...]]
    uncovered: Mapping[str, str]


def choose(
    pool: Pool, held: Recorded, numeric: Sequence[str], read: Callable[[str], Variable]
) -> tuple[tuple[Variable, ...], str]:
    """Return the columns of a pool in memory, and a note on what was left out.

    Parameters
    ----------
    pool, held : Pool, Recorded
        All rows, which of them the fit rests on, and which columns only some samples have recorded.
    numeric : sequence of str
        The numeric columns without gaps.
    read : callable
        Returns a column by name.
    """
    every = pool.joined()
    if not every.frames:
        return (), (
            "The samples are held by different libraries, so their columns were not joined. Name some in variables=."
            if pool.frames
            else "The fit has only biases, no columns. Give values by name in variables=."
        )
    asked = [name for name in every.names if name not in (*numeric, *held.uncovered)]
    texts = {name: _Texts.of_column(every, name) for name in asked}
    known = {name: text for name, text in texts.items() if text is not None}
    others = [name for name in asked if name not in known]
    conditions = [name for name in others if pool.column(name, held.of_some.get(name, ())).dtype.kind == "b"]
    categories, (identifiers, further, label) = _categories(pool, held, known)
    note = note_on(
        numeric,
        {
            UNREAD: [name for name in others if name not in conditions],
            "too many distinct texts": identifiers,
            "more text columns than can be shown; write a condition in variables=": further,
            "the label of the samples": label,
            "of different types in different samples": [f"{name}: {where}" for name, where in pool.mixed.items()],
            **by_reason(held.uncovered),
        },
    )
    columns = tuple(read(name) for name in (*numeric[:SHOWN], *conditions))
    return (*columns, *categories), note


def note_on(numeric: Sequence[str], left_out: Mapping[str, Sequence[str]]) -> str:
    """Return which columns are not shown, by reason."""
    more = len(numeric) - SHOWN
    notes = [f"{more} more numeric columns are not shown; name columns in variables= to choose."] if more > 0 else []
    notes += [f"Not shown: {listed(names)} ({reason})." for reason, names in left_out.items() if names]
    return " ".join(notes)


def by_reason(uncovered: Mapping[str, str]) -> dict[str, list[str]]:
    """Return columns by the reason why they have no mean, without its full stop."""
    reasons = dict.fromkeys(uncovered.values())
    return {one.removesuffix("."): [name for name, own in uncovered.items() if own == one] for one in reasons}


def _mine(pool: Pool, held: Recorded, name: str) -> KeptRows:
    """Return which rows of the fit are from samples that have recorded a column."""
    if name not in held.of_some:
        return held.kept
    return KeptRows.where(np.isin(pool.source, held.of_some[name]) & held.kept.mask)


@dataclass(frozen=True, eq=False)
class _Texts:
    """A column of texts: the distinct ones in order, and which of them each row has; empty if they are very many."""

    kinds: tuple[str, ...]
    codes: Integers

    @classmethod
    def of_column(cls, columns: JoinedColumns, name: str) -> _Texts | None:
        """Return the texts of a column, where other values are missing ones; None for what holds no texts."""
        if columns.is_text(name):
            return cls.of(*columns.coded(name))
        array = columns.column(name)
        if array.dtype.kind not in "OUT":
            return None
        texts = [value if isinstance(value, str) else None for value in array.tolist()]
        return cls.of(*coded(np.array(texts, dtype=object)))

    @classmethod
    def of(cls, codes: Integers, values: Sequence[object], first: int = 1000, most: int = 5000) -> _Texts | None:
        """Return them, given different values and which of these each row has; None if so many first rows have no text.

        More than ``most`` texts can neither be kinds nor the names of samples.
        """
        texts = {value for value in values if isinstance(value, str)}
        if not any(isinstance(values[code], str) for code in codes[:first].tolist()):
            return None
        if len(texts) > most:
            return cls((), np.empty(0, np.int64))
        kinds = sorted(texts if len(texts) == len(values) else texts | {MISSING})
        place = {kind: k for k, kind in enumerate(kinds)}
        own = [place[value if isinstance(value, str) else MISSING] for value in values]
        return cls(tuple(kinds), np.array(own, np.int64)[codes])

    def among(self, rows: KeptRows) -> tuple[np.ndarray, Integers, Integers]:
        """Return the texts that occur in some rows, which of them each row has, and how many rows have each."""
        codes = rows.of(self.codes)
        counts = np.bincount(codes, minlength=len(self.kinds))
        there = np.flatnonzero(counts)
        return np.array(self.kinds, dtype=object)[there], (np.cumsum(counts > 0) - 1)[codes], counts[there]


def _categories(
    pool: Pool, held: Recorded, texts: Mapping[str, _Texts]
) -> tuple[tuple[Variable, ...], tuple[list[str], list[str], list[str]]]:
    """Return the shares of the most frequent categories, and the columns left out.

    Left out are columns with too many distinct texts to be categories, columns beyond the number shown (those with few
    categories come first), and columns that repeat the label of the samples.
    """
    many = [name for name, found in texts.items() if not found.kinds]
    own = [name for name, found in texts.items() if name not in many and _are_labels(pool, found)]
    mine = {name: _mine(pool, held, name) for name in texts if name not in (*own, *many)}
    counted = {name: texts[name].among(rows) for name, rows in mine.items()}
    identifiers = [*many, *(name for name, (kinds, _, _) in counted.items() if len(kinds) > IDENTIFIER)]
    few = sorted((name for name in counted if name not in identifiers), key=lambda name: len(counted[name][0]))
    columns = tuple(
        replace(column, values=held.kept.of(mine[name].spread(column.values)), among=held.of_some.get(name, ()))
        for name in few[:MOST_TEXT]
        for column in _shares(name, *counted[name])
    )
    return columns, (identifiers, few[MOST_TEXT:], own)


def _are_labels(pool: Pool, texts: _Texts) -> bool:
    """Return whether every row has the name of its sample."""
    place = {kind: k for k, kind in enumerate(texts.kinds)}
    codes = np.array([place.get(str(name), -1) for name in pool.names])
    return bool((codes[pool.source] == texts.codes).all())


def _shares(name: str, kinds: np.ndarray, place: np.ndarray, counts: np.ndarray) -> list[Variable]:
    shown = most_frequent(counts)
    own = {str(kinds[k]): place == k for k in shown.tolist()}
    if len(kinds) > len(shown):
        own[f"{len(kinds) - len(shown)} others"] = ~np.isin(place, shown)
    return [Variable(f"{name}: {kind}", rows, category_of=name) for kind, rows in own.items()]


def most_frequent(counts: np.ndarray, most: int = 6) -> NDArray[np.intp]:
    """Return the places of the most frequent categories; of all if "others" would be a single one."""
    frequent = np.argsort(-counts, kind="stable")
    return frequent if len(counts) <= most + 1 else frequent[:most]
