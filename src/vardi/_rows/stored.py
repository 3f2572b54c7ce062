"""Rows whose biases are read block by block in every pass: a matrix that need not fit in memory.

It is a memory map, a stored array, or a function that yields blocks; a reader makes one of any.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import operator
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from vardi._machine import BLOCK, blocks, cores, executor, single_threaded_blas
from vardi._rows.dense import Dense
from vardi._rows.grouping import stratified
from vardi._types import Floats, Integers, Numbers
from vardi.errors import MismatchError, NeedsRowsError

MAX_IN_MEMORY = 2**22  # numbers up to which a matrix is read as a whole: at most one block
READ = 2**25  # bytes of a block: long enough for a disk, while a few of them take little memory
BAND = 8  # blocks that the rows of one chunk may fill before it is read in parts
SEGMENT = 2**14  # bytes of a column read together, at least, if columns are stored one after the other
GATHERED = 2**26  # numbers kept from the first pass to start from: half a gigabyte
FRACTION = 1 / 16  # share of the rows kept, within that limit
LEAST = 100  # rows of each sample kept at least, within that limit
ANSWER = 2**27  # numbers that one answer may hold: a gigabyte

Block: TypeAlias = tuple[slice, Numbers]
Result = TypeVar("Result")


class Reader(ABC):
    """An n x K matrix that a pass reads one block of rows at a time; callers may keep the blocks.

    Parameters
    ----------
    length, width : int
        Rows and columns of what is read.
    dtype : dtype
        A type that holds its numbers without loss.

    Attributes
    ----------
    rows : ndarray of int or None
        The rows that are wanted, in increasing order, if they are not all of them.
    """

    ndim = 2
    rows: Integers | None = None

    def __init__(self, length: int, width: int, dtype: DTypeLike) -> None:
        self.length, self.shape, self.dtype = length, (length, width), np.dtype(dtype)

    @abstractmethod
    def _read(self) -> Iterator[Block]:
        """Yield all rows in order, each block with its place; blocks without a wanted row may be left out."""

    def __getitem__(self, key: Any) -> Any:
        """Return the rows of a mask or of increasing positions as a reader, or a column (``[:, k]``) as an array."""
        if isinstance(key, tuple):
            return np.concatenate([block[:, key[1]] for _, block in self.blocks()])
        rows = np.flatnonzero(key) if key.dtype == bool else key
        assert (rows[1:] > rows[:-1]).all(), "rows come in the order in which they are read"
        part = copy.copy(self)
        part.rows, part.shape = rows if self.rows is None else self.rows[rows], (len(rows), self.shape[1])
        return part

    def blocks(self) -> Iterator[Block]:
        """Yield the wanted rows in order: the place of each block among them, and its values."""
        for place, block in self._read():
            if self.rows is None:
                yield place, block
            elif (mine := self._among(place)).start < mine.stop:
                yield mine, block[self.rows[mine] - place.start]

    def whole(self) -> Numbers:
        """Return all wanted rows as one array."""
        return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *(block for _, block in self.blocks())])

    def _among(self, place: slice) -> slice:
        """Return which of the wanted rows lie in a slice of all rows."""
        if self.rows is None:
            return place
        low, high = np.searchsorted(self.rows, [place.start, place.stop]).tolist()
        return slice(low, high)


class Stored(Reader):
    """An array with a shape, a type and slices: a memory map, or a data set of Zarr or HDF5."""

    def __init__(self, array: Any) -> None:
        n, K = array.shape
        super().__init__(n, K, array.dtype)
        self.array = array

    def _read(self) -> Iterator[Block]:
        step = rows_at_once(self.array)
        for low in range(0, self.length, step):
            place = slice(low, min(low + step, self.length))
            if (mine := self._among(place)).start < mine.stop:
                yield place, _noted(self._values, place)

    def _values(self, place: slice) -> Numbers:
        part = self.array[place]
        if isinstance(part, np.memmap):  # copied here, in file order, so that only this step waits for a disk
            return np.array(part, order="K", subok=False)
        return np.asarray(part)


def rows_at_once(array: Any) -> int:
    """Return how many rows to read together: about READ bytes, in whole chunks, in long pieces of a column."""
    n, K = array.shape
    row = max(K * array.dtype.itemsize, 1)
    step = max(READ // row, 1)
    chunks = getattr(array, "chunks", None)
    if chunks:
        chunk = int(np.max(chunks[0]))  # a number, or for Dask a tuple of lengths
        if chunk * row <= BAND * READ:
            return max(step // chunk, 1) * chunk
    strides = getattr(array, "strides", None)
    if strides is not None and strides[0] < strides[1]:
        step = max(step, SEGMENT // array.dtype.itemsize)
    return min(step, max(n, 1))


class Yielded(Reader):
    """A function that yields blocks of successive rows, ``length`` in all, and is called again for each pass."""

    def __init__(self, function: Callable[[], Iterable[Any]], length: int) -> None:
        self.function = function
        with contextlib.closing(self._blocks()) as blocks:
            width = next((block.shape[1] for _, block in blocks), 0)
        super().__init__(length, width, np.float64)

    def _read(self) -> Iterator[Block]:
        """Join small blocks into what a thread takes at once, which costs less than handing each over."""
        parts: list[Numbers] = []
        start = 0
        for place, block in self._blocks():
            if block.shape[1] != self.shape[1]:
                raise MismatchError(
                    f"The block of omega from row {place.start} on has {block.shape[1]} columns, but the first block "
                    f"has {self.shape[1]}. Give every block a column for each bias."
                )
            if place.stop > self.length:
                self._refuse(f"at least {place.stop}")
            parts.append(block)
            is_enough = self.rows is not None and len(self.rows) > 0 and place.stop > self.rows[-1]
            if is_enough or place.stop == self.length or (place.stop - start) * self.shape[1] >= BLOCK:
                yield slice(start, place.stop), parts[0] if len(parts) == 1 else np.concatenate(parts)
                parts, start = [], place.stop
            if is_enough:
                return
        if parts or start < self.length:
            self._refuse(str(start + sum(map(len, parts))))

    def _blocks(self) -> Generator[Block, None, None]:
        """Yield the function's blocks with their places, or refuse what is not a block."""
        made: Any = _noted(lambda _: self.function(), slice(0, 0))
        if not isinstance(made, Iterable):
            raise MismatchError(
                f"The function that was given as omega returned {type(made).__qualname__}, which is not a series of "
                "blocks. Let it yield arrays of successive rows, starting from the first row each time it is called."
            )
        blocks, low = iter(made), 0
        while (given := _noted(lambda _: next(blocks, _END), slice(low, low))) is not _END:
            block = np.array(given)  # a copy, since the next block may reuse the memory
            if block.ndim != 2 or block.dtype.kind not in "fiub":
                raise MismatchError(
                    f"The block of omega from row {low} on has shape {block.shape} and holds {block.dtype}. Give every "
                    "block as a matrix of numbers with a column for each bias."
                )
            yield slice(low, low + len(block)), block
            low += len(block)

    def _refuse(self, rows: str) -> NoReturn:
        raise MismatchError(
            f"The blocks of omega hold {rows} rows, but source has {self.length} labels. The function is called for "
            "each pass over the rows: let it yield all of them, starting from the first, each time it is called."
        )


_END = object()


def _noted(function: Callable[[slice], Result], place: slice) -> Result:
    """Call the user's function; its errors pass through, with a note of where they arose."""
    try:
        return function(place)
    except Exception as error:
        error.add_note(f"This was raised while vardi was reading omega from row {place.start} on.")
        raise


def as_reader(omega: Any, n: int) -> Reader | None:
    """Return a reader of omega in blocks, or None for a matrix in memory.

    Parameters
    ----------
    omega : object
        A memory map, an array that is not NumPy's and has ``shape``, a NumPy ``dtype`` and slices, or a function
        without arguments that yields blocks of rows.
    n : int
        How many rows there should be.
    """
    if isinstance(omega, np.memmap) or _is_stored(omega):
        return Stored(omega) if len(omega.shape) == 2 else None
    if isinstance(omega, Iterator):
        raise MismatchError(
            f"omega is a {type(omega).__qualname__}, which can be iterated only once, but the rows are read several "
            "times. Give the function that makes it, without calling it."
        )
    return Yielded(omega, n) if callable(omega) else None


def _is_stored(omega: Any) -> bool:
    if isinstance(omega, np.ndarray | np.generic) or not hasattr(type(omega), "__getitem__"):
        return False
    return isinstance(getattr(omega, "dtype", None), np.dtype) and isinstance(getattr(omega, "shape", None), tuple)


@dataclass(frozen=True)
class Kept:
    """Rows that the first pass left in memory, evenly spaced within each sample.

    Attributes
    ----------
    rows : ndarray of int
        Their positions, increasing.
    matrix : ndarray
        Their biases.
    """

    rows: Integers
    matrix: Numbers

    def __len__(self) -> int:
        return len(self.rows)

    def differs(self, place: slice, block: Numbers) -> int | None:
        """Return the first kept row in a block whose values differ from those of the first pass."""
        i = int(np.searchsorted(self.rows, place.start))
        if i == len(self.rows) or self.rows[i] >= place.stop:
            return None
        row = int(self.rows[i])
        now = block[row - place.start].astype(self.matrix.dtype)
        return None if np.array_equal(now, self.matrix[i]) else row


NONE_KEPT = Kept(np.empty(0, np.int64), np.empty((0, 0)))


class Blocks(Dense):
    """A matrix that is reread in every pass. What stays in memory: a few blocks, some rows to start from, O(n).

    Parameters
    ----------
    matrix : Reader
        omega or its log, block by block.
    source, counts, known
        As for :class:`~vardi._rows.base.Rows`.
    kept : Kept, optional
        Rows to start from; if they are needed and not given, one pass gathers them.
    reach : ndarray of shape (K, K), optional
        What ``reach`` returns, if it is known.
    """

    reading_dominates = True

    def __init__(
        self,
        matrix: Reader,
        source: Integers,
        counts: Floats | None = None,
        *,
        kept: Kept = NONE_KEPT,
        reach: Floats | None = None,
        **known: Any,
    ) -> None:
        super().__init__(matrix, source, counts, **known)
        self._kept = kept
        if reach is not None:
            self.reach = reach

    def start(self) -> Floats:
        """Return a first u, from the rows that are in memory."""
        return self.subsample(FRACTION, least=LEAST).start()

    def subsample(self, fraction: float, *, least: int) -> Dense:
        """Return the rows that are in memory, whatever the fraction, with counts that make them stand for all."""
        if not len(self._kept):
            places = places_kept(self.source, len(self.sizes))
            self._kept = Kept(places, self.matrix[places].whole())
        kept = self._kept
        source, counts = self.source[kept.rows], self.counts[kept.rows]
        rows = Dense(kept.matrix, source, counts, log=self.log, moderate=self.moderate, positive=self.positive)
        return rows.standing_for(self.sizes)

    def log_omega(self) -> Floats:
        """Return log omega as one matrix, if that is not large."""
        n, K = self.matrix.shape
        if n * K > ANSWER:
            raise NeedsRowsError(
                f"This needs {K} numbers for each of {n} rows, {8e-9 * K * n:.1f} GB at "
                "once, but omega is read in blocks because it may not fit in memory. Ask for fewer states at once, or "
                "fit a part of the rows that does fit."
            )
        return self._log(np.asarray(self.matrix.whole(), np.float64))

    def each_block(self, answer: Callable[[slice, Numbers | None], Result], width: int = 0) -> Iterator[Result]:
        """Apply a function to the place of each block and its values, as they are read."""
        return in_threads(answer, self._same_blocks(), len(self.sizes) + width)

    def total_of_blocks(self, answer: Callable[[slice, Numbers | None], Result], width: int = 0) -> Result:
        """Return the sum of a function of the place of each block and its values."""
        return functools.reduce(operator.add, self.each_block(answer, width))

    def _same_blocks(self) -> Iterator[Block]:
        for place, block in self.matrix.blocks():
            row = self._kept.differs(place, block)
            if row is not None:
                raise MismatchError(
                    f"Row {row if self.matrix.rows is None else self.matrix.rows[row]} of omega differs from the first "
                    "pass over the rows. They are read several times, and must be the same each time: fix the "
                    "seed of whatever generates them and keep their order, or write them to a file first."
                )
            yield place, block


def in_threads(function: Callable[[slice, Numbers], Result], read: Iterator[Block], width: int) -> Iterator[Result]:
    """Apply the function to parts of all blocks in threads, with results in order, while this thread reads one ahead.

    Only this thread reads blocks, since a user's function or file may be bound to the thread that created it.
    """
    workers = cores()
    with single_threaded_blas(), executor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        for place, block in read:
            parts = blocks(len(block), width)
            for part in parts:
                rows = slice(place.start + part.start, place.start + part.stop)
                waiting.append(pool.submit(function, rows, block[part]))
            while len(waiting) > max(len(parts), 2 * workers):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def places_kept(source: Integers, K: int) -> Integers:
    """Return evenly spaced rows of every sample, as many as may be kept."""
    fraction = min(FRACTION, GATHERED / (len(source) * K))
    return np.sort(stratified(source, K, fraction, max(1, min(LEAST, GATHERED // K**2))))
