"""Domains: the groups of rows that columns or labels define, in order; missing values are refused."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vardi._inputs.by_row import coded_labels, in_order, require_length
from vardi._inputs.pool import KeptRows, Pool
from vardi._types import Floats, Integers
from vardi.biases._values import as_array, numbered
from vardi.errors import MismatchError, MissingValuesError, TooLargeError, number_of_rows, suggest
from vardi.errors._texts import listed, show

MOST_DOMAINS = 1000  # most domains of one question
LABELS = "label"  # the name of an array of labels


@dataclass(frozen=True)
class By:
    """What defines domains.

    Attributes
    ----------
    columns : tuple of str
        The columns; none if all rows are one domain.
    labels : array or None
        The domain of each row, if it is not a column.
    several : bool
        Whether columns were given as a list, so that a domain is named by a tuple.
    """

    columns: tuple[str, ...] = ()
    labels: object = None
    several: bool = False

    @classmethod
    def of(cls, by: object) -> By:
        """Read a column, a list of columns or an array of labels."""
        if isinstance(by, str):
            return cls((by,))
        if isinstance(by, list | tuple) and by and all(isinstance(name, str) for name in by):
            return cls(tuple(dict.fromkeys(by)), several=True)
        return cls((LABELS,), by)

    def __add__(self, other: By) -> By:
        """Return the domains of both, crossed; only the second may have labels."""
        if not self.columns:
            return other
        return By((*self.columns, *other.columns), other.labels, several=True)

    def said(self, key: tuple[Hashable, ...]) -> str:
        """Return a domain as messages call it: ``region = 'N' and year = 2020``."""
        return " and ".join(f"{name} = {value!r}" for name, value in zip(self.columns, key, strict=True))

    def called(self, key: tuple[Hashable, ...]) -> Hashable:
        """Return the name of a domain from its value in each column."""
        return key if self.several else key[0]


@dataclass(frozen=True, eq=False)
class Grouping:
    """Domains in their order, and the domain of each row.

    Attributes
    ----------
    keys : tuple of tuple
        The value of each domain in each column.
    codes : ndarray of int
        The place of the domain of each row; -1 for a row that does not count.
    """

    keys: tuple[tuple[Hashable, ...], ...]
    codes: Integers


def grouping(
    pool: Pool,
    by: By,
    kept: KeptRows,
    counts: Floats,
    *,
    whole: bool = False,
    states: Collection[int],
) -> Grouping:
    """Return the domains of the rows of a pool that are in a fit.

    Parameters
    ----------
    pool : Pool
        The rows.
    by : By
        What defines the domains.
    kept : KeptRows
        Which rows are in the fit.
    counts : ndarray or None
        The counts of these rows.
    whole : bool
        Whether every combination of values is a domain, not only those that occur.
    states : collection of int
        The samples whose rows are kept, which must have the columns.
    """
    codes, values = kept.of(np.zeros(len(pool), np.int64)), []
    for name in by.columns:
        labels, categories = _labels(pool, by, name, states)
        own, distinct = _coded(kept.of(labels), categories, counts, name)
        codes = np.where((codes < 0) | (own < 0), -1, codes * len(distinct) + own)
        values.append(distinct)
    if whole:
        there = np.arange(math.prod(len(distinct) for distinct in values))
    else:
        there = np.unique(codes[codes >= 0])
        codes = np.where(codes < 0, -1, np.searchsorted(there, codes))
    require_few(by, len(there))
    places = [np.unravel_index(code, [len(distinct) for distinct in values]) for code in there.tolist()]
    return Grouping(tuple(tuple(distinct[j] for distinct, j in zip(values, own, strict=True)) for own in places), codes)


def bases(keys: Sequence[tuple[Hashable, ...]], columns: int) -> Integers:
    """Return the place of the base of each domain: domains that agree in this many of the first columns share one.

    >>> bases([("N", 1), ("N", 2), ("S", 1)], 1)
    array([0, 0, 1])
    """
    return numbered(key[:columns] for key in keys)[0]


def _labels(pool: Pool, by: By, name: str, states: Collection[int]) -> tuple[np.ndarray, Sequence[Hashable] | None]:
    """Return each row's value in a column, or its label, and the categories in order if it is categorical."""
    if by.labels is not None and name == by.columns[-1]:
        labels = as_array(in_order(by.labels, pool.frames, "by"), "by")
        require_length("by", labels, len(pool), "Give a column, a list of columns, or a label for each row.")
        return labels, None
    frames = pool.frames_of(states)
    require_column(name, [frame.columns for frame in frames], pool.mixed if len(pool.frames) > 1 else {})
    return pool.column(name, states), frames[0].categories(name)


def require_column(name: str, columns: Sequence[Iterable[str]], mixed: Mapping[str, str]) -> None:
    """Refuse domains by a column that not all samples have, or whose type differs between them."""
    known = list(dict.fromkeys(one for names in columns for one in names))
    if not columns or not all(name in names for names in columns):
        there = (
            f"The columns are {show(known)}."
            if known
            else "The fit has only biases, no columns: give a label for each row."
        )
        raise MismatchError(
            f"No column {name!r} in every sample, so it cannot define domains. {there}{suggest(name, known)}"
        )
    if name in mixed:
        raise MismatchError(
            f"{name!r} is {mixed[name]}, so equal domains have different names. Convert it to one type."
        )


def require_labelled(name: str, missing: float) -> None:
    """Refuse rows whose domain is unknown."""
    if missing:
        raise MissingValuesError(
            f"{name!r} is missing in {number_of_rows(missing)}, so it is unknown which domain they belong to. Fill it "
            "in, or give these rows a value of their own.",
            columns={name: int(missing)},
        )


def require_few(by: By, count: int) -> None:
    """Refuse more domains than anyone would read, since each has an error of its own."""
    if count > MOST_DOMAINS:
        raise TooLargeError(
            f"{show(by.columns)} {'defines' if len(by.columns) == 1 else 'define'} more than {MOST_DOMAINS:,} domains, "
            "and each would get an error of its own. Use a column with fewer values, such as bins of this one.",
            bytes=8 * count,
        )


def in_domains(
    error: MissingValuesError, by: By, keys: Sequence[tuple[Hashable, ...]], counts: Floats
) -> MissingValuesError:
    """Return an error about missing values that names the domains that they are in."""
    where = [f"{by.said(key)} ({count:g})" for key, count in zip(keys, counts.tolist(), strict=True) if count]
    return MissingValuesError(f"{error} They are in {listed(where)}.", columns=error.columns) if where else error


def ordered(values: Iterable[Hashable], categories: Sequence[Hashable] | None) -> list[Hashable]:
    """Return values in the order of their categories, or sorted if there are none.

    >>> ordered(["b", "a"], None), ordered(["b", "a"], ["c", "b", "a"])
    (['a', 'b'], ['b', 'a'])
    """
    if categories is not None:
        there = set(values)
        return [value for value in categories if value in there]
    every: list[Any] = list(values)
    try:
        return sorted(every)
    except TypeError:  # of several kinds
        return sorted(every, key=lambda value: (type(value).__name__, str(value)))


def _coded(
    labels: np.ndarray, categories: Sequence[Hashable] | None, counts: Floats, name: str
) -> tuple[Integers, list[Hashable]]:
    """Return the place of each row's label among the labels that count, and these labels in order."""
    if labels.dtype.kind == "M":
        labels = labels.astype("datetime64[us]")  # nanoseconds become integers in Python
    numbers, different, missing = coded_labels(labels, repr(name))
    require_labelled(name, missing)
    require_few(By((name,)), len(different))
    levels = ordered(different, categories)
    place = {value: j for j, value in enumerate(levels)}
    codes = np.array([place[value] for value in different], np.int64)[numbers]
    counted = np.bincount(codes, counts, len(levels)) > 0
    return np.where(counted, np.cumsum(counted) - 1, -1)[codes], [levels[j] for j in np.flatnonzero(counted)]
