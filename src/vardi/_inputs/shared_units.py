"""The same units in two samples: errors assume that rows are different units, so they would be too small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from vardi._inputs.by_row import shared_names
from vardi._inputs.pool import Name, Pool
from vardi._types import Integers
from vardi.errors import SharedUnitsWarning, number_of_rows
from vardi.errors._warn import warn

MOST_SAMPLES = 100  # up to which every pair is compared

REMEDY = (
    "Errors treat all rows as different units, so they would be too small, and so would p-values. Keep each unit in "
    "one sample. Only if the samples were drawn independently of one another, and included the same unit by chance, "
    "may it stay in both."
)


def warn_of_shared_units(samples: object, pool: Pool) -> None:
    """Warn of samples that are the same object, and of rows that are equal in all columns if that is not chance.

    Rows of conditions and small numbers are equal by chance. If rows are drawn independently, whatever the biases,
    there are no more equal pairs between two samples than within them (Cauchy and Schwarz), so far more of them are not
    chance. Rows with counts stand for several units, and are not compared.
    """
    shared = _same_object(samples, pool) or (None if pool.is_counted else _equal_rows(pool))
    if shared is not None:
        first, second, count = shared
        fact = f"{number_of_rows(count)} of {str(first)!r} {'is' if count == 1 else 'are'} in {str(second)!r} too"
        warn_of(first, second, count, f"{fact}, equal in every column.")


def warn_of(first: Name, second: Name, count: int, fact: str) -> None:
    """Warn that two samples share units."""
    warn(SharedUnitsWarning(f"{fact} {REMEDY}", samples=(str(first), str(second)), count=count))


def _same_object(samples: object, pool: Pool) -> tuple[Name, Name, int] | None:
    samples = dict(enumerate(samples)) if isinstance(samples, list | tuple) else samples
    named = samples.items() if isinstance(samples, Mapping) else ()
    given = [(name, rows, frame) for (name, rows), frame in zip(named, pool.frames, strict=False)]
    for (first, rows, frame), (second, others, _) in combinations(given[:MOST_SAMPLES], 2):
        if rows is others:
            return first, second, len(frame)
    return None


def _equal_rows(pool: Pool, looked_at: int = 4_000) -> tuple[Name, Name, int] | None:
    """Return the samples that share most units; columns are judged by at least so many rows."""
    rows = np.arange(0, len(pool), max(len(pool) // looked_at, 1))
    if not pool.frames or any(issparse(frame.native) for frame in pool.frames):  # these hold only what biases read
        return None
    if not 1 < len(np.unique(pool.source[rows])) <= MOST_SAMPLES:
        return None
    mixed, shared = pool.mixed, shared_names([frame.columns for frame in pool.frames])
    columns = _columns(pool, rows, [name for name in shared if name not in mixed])
    ids, continuous, properties = _kinds(columns, pool.source[rows], pool.source)
    if not ids and not continuous:
        return None
    share = 0.0 if ids else 2 / 3  # of a sample's rows, which independent samples of one short list may share
    rows = _some(pool, (*ids, *continuous)[0])
    found = _most_shared(pool, rows, properties, share)
    if found is None or len(rows) == len(pool):
        return found
    return _most_shared(pool, np.arange(len(pool)), properties, share)  # now it is worth counting them all


def _columns(pool: Pool, rows: Integers, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return columns on some rows of the pool in increasing order."""
    starts = np.cumsum([0, *(len(frame) for frame in pool.frames)])
    within = [rows[(rows >= start) & (rows < end)] - start for start, end in pairwise(starts)]
    parts = list(zip(pool.frames, within, strict=True))
    return {name: np.concatenate([frame.values_at(name, places) for frame, places in parts]) for name in names}


def _kinds(
    columns: Mapping[str, np.ndarray], source: Integers, every: Integers
) -> tuple[list[str], list[str], list[str]]:
    """Return the columns that identify units, those with fractions, and those that vary within some sample."""
    ids, continuous, properties = [], [], []
    sizes = np.bincount(every)
    for name, values in columns.items():
        codes = _codes(values)
        pairs = len(np.unique(_mixed(codes, source.astype(np.uint64))))
        if pairs == len(np.unique(source)) < len(source):  # the label of the samples, or a constant
            continue
        properties.append(name)
        numbers = values.dtype.kind in "fiu"
        whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((values == np.floor(values)).all()))
        if numbers and not whole:
            continuous.append(name)
        elif pairs == len(source) and not _is_numbering(values, sizes):
            ids.append(name)
    return sorted(ids, key=lambda name: columns[name].dtype.kind not in "iuf"), continuous, properties


def _is_numbering(values: np.ndarray, sizes: Integers) -> bool:
    """Return whether whole numbers, or digits in texts, may number the rows of each sample, so that any two agree."""
    try:
        return bool(np.abs(values.astype(np.float64)).max(initial=0) <= sizes.max())
    except (TypeError, ValueError):
        return False


def _some(pool: Pool, key: str, compared: int = 10_000) -> Integers:
    """Return all rows or, if very many, those whose key has a hash below a bound, so that equal rows stay together."""
    part = len(pool) // compared
    if part > 1 and (column := pool.column(key)).dtype.kind in "fiu":
        return np.flatnonzero(_codes(column) < np.uint64(2**64 // part))
    return np.arange(len(pool))


def _most_shared(pool: Pool, rows: Integers, names: Sequence[str], share: float) -> tuple[Name, Name, int] | None:
    """Return the two samples that share most of some rows, by some columns, with their number, if not by chance."""
    source, hashes = pool.source[rows], np.zeros(len(rows), np.uint64)
    for values in _columns(pool, rows, names).values():
        hashes = _mixed(hashes, _codes(values))
    order = np.lexsort((source, hashes))
    hashes, source = hashes[order], source[order]
    same_row = hashes[1:] == hashes[:-1]
    other = same_row & (source[1:] != source[:-1])
    K = len(pool.names)
    if not other.any():
        return None
    pairs, counts = np.unique(source[:-1][other] * K + source[1:][other], return_counts=True)
    first, second = divmod(int(pairs[counts.argmax()]), K)
    count, sizes = int(counts.max()), np.bincount(source, minlength=K)
    repeated = np.bincount(source[1:][same_row & ~other], minlength=K)[[first, second]].sum()
    # equal rows between two samples for each within them: chance gives one or less
    is_chance = count <= 10 * (1 + repeated) or count <= share * sizes[[first, second]].min()
    return None if is_chance else (pool.names[first], pool.names[second], count)


def _codes(values: np.ndarray) -> NDArray[np.uint64]:
    """Return a hash of each value, the same for equal values."""
    if values.dtype.kind in "fiub":
        bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    else:
        bits = np.fromiter((hash(str(value)) for value in values.tolist()), np.int64, len(values)).view(np.uint64)
    return _spread(bits)


def _mixed(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each pair of numbers."""
    return _spread(one ^ np.uint64(1)) + other


def _spread(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each number: its high half, where floats differ, is mixed into the low half.

    The factor, 2^64 over the golden ratio, spreads neighbours far apart.
    """
    return (bits ^ (bits >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
