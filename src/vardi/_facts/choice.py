"""Which columns a report shows if none are named: all that can be read, up to a maximum number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vardi._facts.columns import Variable
from vardi._inputs.frames import Frame, joined
from vardi._inputs.pool import KeptRows, Pool
from vardi._types import Integers
from vardi.biases._values import coded, coded_together
from vardi.errors._texts import SHOWN, listed

MOST_TEXT = 4
IDENTIFIER = 30  # distinct texts from which a column names units rather than kinds of them
MISSING = "(missing)"
UNREAD = "missing or infinite values, or neither numbers nor text"


def choose(
    pool: Pool,
    kept: KeptRows,
    of_some: Mapping[str, tuple[int, ...]],
    uncovered: Mapping[str, str],
    numeric: Sequence[str],
    read: Callable[[str], Variable],
) -> tuple[tuple[Variable, ...], str]:
    """Return the columns of a pool in memory, and a note on what was left out.

    Parameters
    ----------
    pool, kept : Pool, KeptRows
        All rows, and which of them the fit rests on.
    of_some : mapping from str to tuple of int
        Columns that only some samples have recorded, with these samples.
    uncovered : mapping from str to str
        Those of them whose samples do not cover the pool, with the reason.
    numeric : sequence of str
        The numeric columns without gaps.
    read : callable
        Returns a column by name.
    """
    frames = pool.alike()
    if not frames:
        return (), (
            "The samples are held by different libraries, so their columns were not joined. Name some in variables=."
            if pool.frames
            else "The fit has only biases, no columns. Give values by name in variables=."
        )
    others = [name for name in frames[0].columns if name not in (*numeric, *uncovered)]
    texts = {name: text for name in others if (text := _texts(frames, name)) is not None}
    dtypes = {name: pool.column(name, of_some.get(name, ())).dtype.kind for name in others if name not in texts}
    conditions = [name for name, kind in dtypes.items() if kind == "b"]
    labels = [name for name, text in texts.items() if _are_labels(pool, *text)]
    counts = {}
    for name, (kinds, codes) in texts.items():
        if name not in labels:
            recorded = kept.mask & np.isin(pool.source, of_some[name]) if name in of_some else kept.mask
            codes[~recorded] = -1
            counts[name] = np.bincount(codes[recorded], minlength=len(kinds))
    kinds_of = {name: np.count_nonzero(rows) for name, rows in counts.items()}
    few = sorted((name for name, kinds in kinds_of.items() if kinds <= IDENTIFIER), key=kinds_of.__getitem__)
    categories = [
        Variable(f"{name}: {kind}", kept.of(rows), of_some.get(name, ()), name)
        for name in few[:MOST_TEXT]
        for kind, rows in _shares(*texts[name], counts[name]).items()
    ]
    note = note_on(
        numeric,
        {
            UNREAD: [name for name in dtypes if name not in conditions],
            "too many distinct texts": [name for name in counts if name not in few],
            "more text columns than can be shown; write a condition in variables=": few[MOST_TEXT:],
            "the label of the samples": labels,
            "of different types in different samples": [f"{name}: {where}" for name, where in pool.mixed.items()],
            **by_reason(uncovered),
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
    return {one.removesuffix("."): [name for name, reason in uncovered.items() if reason == one] for one in reasons}


def _texts(frames: Sequence[Frame], name: str) -> tuple[list[str], Integers] | None:
    """Return the distinct texts of a column and which of them each row has; None for what holds no texts.

    Other values are missing ones.
    """
    if all(frame.is_text(name) for frame in frames):
        codes, values = coded_together(frame.coded(name) for frame in frames)
    elif (array := joined([frame.column(name) for frame in frames])).dtype.kind in "OUT":
        texts = [value if isinstance(value, str) else None for value in array.tolist()]
        codes, values = coded(np.array(texts, dtype=object))
    else:
        return None
    kinds = [value if isinstance(value, str) else MISSING for value in values]
    place = {kind: k for k, kind in enumerate(dict.fromkeys(kinds))}
    if place.keys() == {MISSING}:
        return None
    return list(place), np.array([place[kind] for kind in kinds])[codes]


def _are_labels(pool: Pool, kinds: Sequence[str], codes: Integers) -> bool:
    """Return whether every row has the name of its sample."""
    place = {kind: k for k, kind in enumerate(kinds)}
    expected = np.array([place.get(str(name), -1) for name in pool.names])
    return bool((expected[pool.source] == codes).all())


def _shares(kinds: Sequence[str], codes: Integers, counts: Integers) -> dict[str, NDArray[np.bool_]]:
    """Return which rows have each of the most frequent texts, and which have any other; a code of -1 is neither."""
    there = sorted(np.flatnonzero(counts).tolist(), key=kinds.__getitem__)
    shown = [there[k] for k in most_frequent(counts[there])]
    shares = {kinds[k]: codes == k for k in shown}
    if len(there) > len(shown):
        shares[f"{len(there) - len(shown)} others"] = ~np.isin(codes, [-1, *shown])
    return shares


def most_frequent(counts: np.ndarray, most: int = 6) -> NDArray[np.intp]:
    """Return the places of the most frequent categories; of all if "others" would be a single one."""
    frequent = np.argsort(-counts, kind="stable")
    return frequent if len(counts) <= most + 1 else frequent[:most]
