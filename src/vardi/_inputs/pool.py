"""Samples and biases as the user gives them -> one pool: names, rows, labels, counts, and the value of every bias."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._inputs.by_row import (
    alike,
    as_counts,
    concat,
    counts_by_name,
    in_order,
    mixed_columns,
    require_counts,
    require_labels,
    shared_names,
)
from vardi._inputs.dependence import Dependence
from vardi._inputs.frames import Frame, NarwhalsFrame, Native, as_frame, by_factor, joined
from vardi._machine import require_memory
from vardi._types import Floats, Integers, Numbers
from vardi.biases import Bias, ExpressionBias, LearnedBias, ValuesBias, as_bias
from vardi.biases._kinds import factors_of
from vardi.biases._nodes import is_condition
from vardi.biases._values import are_once, as_array, coded, is_missing, read_only
from vardi.errors import EmptySampleError, InvalidBiasError, MismatchError, suggest
from vardi.errors import _refusals as refusals
from vardi.errors._texts import LISTED, first_of, show

Name = Hashable


@dataclass(frozen=True)
class Pool:
    """All rows of all samples, in the order in which they were given.

    Attributes
    ----------
    names : tuple
        One for each bias: the samples in their order, then the states that no sample was drawn from.
    biases : tuple of Bias
        One for each name; empty for a pool that was given as a matrix.
    frames : tuple of Frame
        The rows, in one piece or one for each sample; empty for a pool that was given as a matrix.
    source : ndarray of int
        Position in names of each row's sample.
    counts : ndarray
        How many rows each row stands for.
    dependence : Dependence or EngineDependence
        How rows depend on one another.
    """

    names: tuple[Name, ...]
    biases: tuple[Bias, ...]
    frames: tuple[Frame, ...]
    source: Integers
    counts: Floats
    dependence: Any

    def __len__(self) -> int:
        return len(self.source)

    @property
    def columns(self) -> list[str]:
        """The columns of all frames, each once."""
        return list(dict.fromkeys(name for frame in self.frames for name in frame.columns))

    @cached_property
    def is_counted(self) -> bool:
        """Whether some row stands for any number of rows but one."""
        return not are_once(self.counts)

    def evaluate(self, biases: Sequence[Bias], names: Sequence[Name], called: str = "bias") -> list[np.ndarray]:
        """Return the values of any functions on all rows; the names, and what they are called, are for messages."""
        if called == "bias":
            self.require_columns(biases, names)
        self._require_given_by_row(biases, names)
        samples = [str(name) for name in self.names] if len(self.frames) > 1 else [None]

        def values(factors: Sequence[Bias]) -> list[np.ndarray]:
            functions = [part for part in factors if not isinstance(part, ValuesBias)]
            self._require_memory(functions)
            pieces = [frame.evaluate(functions, one, called) for frame, one in zip(self.frames, samples, strict=False)]
            computed = map(joined, zip(*pieces, strict=True))
            return [part.values if isinstance(part, ValuesBias) else next(computed) for part in factors]

        return by_factor(biases, values)

    def require_columns(self, biases: Sequence[Bias], names: Sequence[Name]) -> None:
        """Refuse a bias that reads a column which some samples lack."""
        columns = {name: frame.columns for name, frame in zip(self.names, self.frames, strict=False)}
        require_shared_columns(biases, names, columns)

    def _require_memory(self, functions: Sequence[Bias]) -> None:
        """Refuse more values than memory holds: a byte for a condition; for a number eight, and eight more as omega."""
        conditions = sum(isinstance(bias, ExpressionBias) and is_condition(bias.node) is True for bias in functions)
        require_memory(
            len(self) * (conditions + 16 * (len(functions) - conditions)),
            f"The values of {len(functions)} biases on {len(self):,} rows",
            "Give lazy frames (Polars, DuckDB, Spark), which are asked only for sums; or give vardi.debias_matrix a "
            "function that yields omega in blocks.",
        )

    def wrap(self, values: Floats, *names: str) -> Native:
        """Return numbers of each row, or columns of them, in the user's library (pandas: with the user's index).

        If an engine was asked for the rows, whose order is not known from anything else, they stand beside these.
        """
        read = [frame for frame in self.frames if isinstance(frame, NarwhalsFrame) and frame.is_read]
        if read:
            pieces = np.split(values, np.cumsum([len(frame) for frame in read])[:-1])
            found = [frame.beside(piece, names) for frame, piece in zip(read, pieces, strict=True)]
            return found[0] if len(found) == 1 else dict(zip(self.names, found, strict=False))
        whole = self.whole()
        return read_only(values) if whole is None else whole.wrap(values, *names)

    def frames_of(self, states: Collection[int]) -> list[Frame]:
        """Return the frames with rows of some samples; of all if none are given."""
        places = set(states if states and len(self.frames) > 1 else range(len(self.frames)))
        return [frame for k, frame in enumerate(self.frames) if k in places]

    def column(self, name: str, states: Collection[int] = ()) -> np.ndarray:
        """Return a column on all rows; given some samples, values on rows of other frames are arbitrary."""
        frames = self.frames_of(states)
        kind = frames[0].column(name).dtype
        pieces = [frame.column(name) if frame in frames else np.zeros(len(frame), kind) for frame in self.frames]
        return joined(pieces)

    def whole(self) -> Frame | None:
        """Return all rows in one frame; None if there is none, or samples are held by different libraries.

        Columns whose type differs between samples are left out: ``mixed`` lists them.
        """
        if len(self.frames) <= 1:
            return self.frames[0] if self.frames else None
        try:
            return concat(self.frames, without=mixed_columns(self.frames))
        except MismatchError:
            return None

    def alike(self) -> tuple[Frame, ...]:
        """Return all rows in one frame, or in several with the same columns; none where ``whole`` is None."""
        return alike(self.frames, self.whole)

    def by_sample(self, values: np.ndarray | None = None) -> Numbers:
        """Return the sum of values over the rows of each sample, by default how many rows it has."""
        return np.bincount(self.source, values, len(self.names))

    def gaps(self, name: str) -> Numbers:
        """Return in how many rows of each sample a column is missing or infinite: in all where the sample lacks it."""
        if name not in self._gaps:
            pieces = [frame.gaps(name) if name in frame.columns else np.ones(len(frame), bool) for frame in self.frames]
            self._gaps[name] = self.by_sample(joined(pieces))
        return self._gaps[name]

    @cached_property
    def _gaps(self) -> dict[str, Numbers]:
        return {}

    def is_numeric(self, name: str) -> bool:
        """Return whether a column holds numbers in the samples that have it."""
        kinds = {frame.kind(name) for frame in self.frames if name in frame.columns}
        return kinds <= set("fiub") and kinds != {"b"}

    @property
    def mixed(self) -> dict[str, str]:
        """Columns whose type differs between samples, with the type in each."""
        return {name: kinds_in_words(kinds, self.names) for name, kinds in mixed_columns(self.frames).items()}

    def place(self, row: int, k: int | None = None) -> str:
        """Return in words which row is at a position of the pool, and what the bias k, if any, reads there."""
        number = int(self.source[row])
        sample = repr(str(self.names[number]))
        if not self.frames:
            return f"row {row} of the pool" if k is not None else f"row {row} of the pool, of {sample}"
        labelled = len(self.frames) == 1 and np.ptp(self.source) > 0
        within = row if labelled else row - int(np.searchsorted(self.source, number))  # samples one after the other
        frame = self.frames[0] if len(self.frames) == 1 else self.frames[number]
        there = [name for name in (() if k is None else self.biases[k].columns) if name in frame.columns]
        read = ", ".join(f"{name} is {_plain(frame.column(name)[within])}" for name in there[:LISTED])
        words = f"row {row} of the pool, of {sample}" if labelled else f"row {within} of {sample}"
        return f"{words}, where {read}" if read else words

    def nearest(self, groups: Sequence[Sequence[Name]]) -> str:
        """Return which two samples of different groups are nearest in the numeric columns that the biases read."""
        read = {name: self.column(name) for bias in self.biases for name in bias.columns}
        columns = [name for name, x in read.items() if x.dtype.kind in "fiu" and np.isfinite(x).all()]
        if not columns or sum(map(len, groups)) > 300:  # which have too many pairs to compare
            return ""
        group = np.array([number for number, names in enumerate(groups) for _ in names])
        states = [self.names.index(name) for names in groups for name in names]
        X = np.column_stack([read[name].astype(np.float64) for name in columns])
        low, high = (np.array([end(X[self.source == k], axis=0) for k in states]) for end in (np.min, np.max))
        spread = X.std(axis=0)
        scale = np.where(spread > 0.0, spread, 1.0)
        gaps = np.maximum(0.0, np.maximum(low - high[:, None], low[:, None] - high))
        distance = np.where(group == group[:, None], np.inf, np.linalg.norm(gaps / scale, axis=2))
        i, j = divmod(int(distance.argmin()), len(states))
        (a, b), gap = sorted((states[i], states[j])), gaps[i, j]
        widest = int(np.argmax(gap / scale))
        if not gap[widest]:
            return ""
        nearest = f"'{self.names[a]}' and '{self.names[b]}'"
        return f"The nearest are {nearest}: their rows are {gap[widest]:.4g} apart in {columns[widest]}."

    def values_of(self, column: str) -> Collection[Hashable] | None:
        """Return the distinct values of a column; None if some sample lacks it, or they are too many."""
        if not all(column in frame.columns for frame in self.frames):
            return None
        return {value for frame in self.frames for value in frame.coded(column)[1]}

    def sides(self, bounds: Sequence[tuple[str, float]]) -> Floats:
        """Return how many rows of each sample have a column below, at and above a bound, of shape (m, 3, K)."""
        rows = np.zeros((len(bounds), 3, len(self.names)))
        for j, (name, bound) in enumerate(bounds):
            column = self.column(name)
            if column.dtype.kind in "fiu":
                for side, holds in enumerate((column < bound, column == bound, column > bound)):
                    rows[j, side] = self.by_sample(np.where(holds, self.counts, 0.0))
        return rows

    def _require_given_by_row(self, biases: Sequence[Bias], names: Sequence[Name]) -> None:
        """Refuse values that are not one for each row."""
        for name, bias in zip(names, biases, strict=True):
            for part in factors_of(bias):
                if isinstance(part, ValuesBias) and len(part.values) != len(self):
                    raise MismatchError(
                        f"The bias of {str(name)!r} has {len(part.values)} values, but the pool has {len(self)} rows. "
                        "Give one value for each row of the pool, all samples one after the other."
                    )


def kinds_in_words(kinds: Sequence[str], names: Sequence[Name]) -> str:
    """Return which type a column has in which sample, given its type in each; empty if a sample lacks it.

    >>> kinds_in_words(["Float64", "", "String"], ["a", "b", "c"])
    "Float64 in 'a' and String in 'c'"
    """
    first = {kind: str(names[k]) for k, kind in reversed(list(enumerate(kinds))) if kind}
    return " and ".join(f"{kind} in {name!r}" for kind, name in reversed(first.items()))


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows of a pool that a fit rests on.

    Attributes
    ----------
    mask : ndarray of bool
        Which rows these are.
    """

    mask: NDArray[np.bool_]

    @classmethod
    def counted(cls, pool: Pool) -> KeptRows:
        """Return the rows of a pool that count."""
        return cls(pool.counts > 0 if pool.is_counted else np.ones(len(pool), bool))

    @cached_property
    def is_all(self) -> bool:
        """Whether these are all rows; then nothing is copied."""
        return bool(self.mask.all())

    @property
    def positions(self) -> Integers:
        """The position in the pool of each row in the fit."""
        return np.flatnonzero(self.mask)

    def of(self, values: np.ndarray) -> np.ndarray:
        """Return values of the rows in the fit, given those of all rows."""
        return values if self.is_all else values[self.mask]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values for all rows of the pool, given those of the rows in the fit, with 0 on the others."""
        if self.is_all:
            return values
        spread = np.zeros((len(self.mask), *values.shape[1:]), values.dtype)
        spread[self.mask] = values
        return spread


def as_pool(samples: object, biases: object, *, source: object = None, counts: object = None) -> Pool:
    """Return samples, biases, labels and counts as one pool; raise if they do not fit together."""
    if source is not None:
        return _labelled_pool(samples, biases, source, counts)
    named, by_name = as_named(samples, "samples"), as_named(biases, "biases")
    if not named:
        raise EmptySampleError("There are no samples. Give at least one, as a mapping from name to rows.")
    require_biases_for(named, by_name)
    frames = tuple(as_frame(rows) for rows in named.values())
    empty = [name for name, frame in zip(named, frames, strict=True) if not len(frame)]
    if empty:
        raise refusals.empty_samples(empty)
    names = (*named, *(name for name in by_name if name not in named))
    codes = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
    if isinstance(counts, Mapping):
        counts = joined(counts_by_name(counts, dict(zip(named, frames, strict=True))))
    return _framed_pool(names, by_name, frames, codes, counts)


def _labelled_pool(rows: object, biases: object, source: object, counts: object) -> Pool:
    if isinstance(rows, Mapping | list | tuple):
        raise MismatchError(
            "source= labels the rows of one frame, but several samples were given. Leave source out, or give one frame."
        )
    frame, by_name = as_frame(rows), as_named(biases, "biases")
    if not len(frame):
        raise refusals.empty_pool()
    column = source if isinstance(source, str) else "source"
    numbers, values = _numbered(source, frame, column)
    if isinstance(biases, list | tuple):  # these are named by their position
        values = [str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in values]
    codes = _samples_of(numbers, values, by_name, column)
    return _framed_pool(tuple(by_name), by_name, (frame,), codes, counts)


def _framed_pool(
    names: tuple[Name, ...], by_name: Mapping[Name, Any], frames: tuple[Frame, ...], codes: Integers, counts: object
) -> Pool:
    by_name = {name: in_order(bias, frames, f"The bias of {str(name)!r}") for name, bias in by_name.items()}
    counts = as_counts(in_order(counts, frames, "counts"), frames, len(codes))
    return _with_rows(Pool(names, as_biases(by_name, names), frames, codes, counts, Dependence.none(len(names))))


def _with_rows(pool: Pool) -> Pool:
    """Return the pool; raise if a count is invalid, or if all counts of a sample are zero."""
    if pool.is_counted:
        require_counts(pool.counts, pool.place)
        empty = np.flatnonzero((pool.by_sample() > 0) & (pool.by_sample(pool.counts) == 0)).tolist()
        if empty:
            raise refusals.empty_samples([pool.names[k] for k in empty])
    return pool


def matrix_pool(shape: Sequence[int], source: object, counts: object, names: Iterable[Name] | None) -> Pool:
    """Return the pool of a matrix of biases, after a check of its shape and labels."""
    if len(shape) != 2 or not min(shape):
        raise EmptySampleError(
            f"omega has shape {shape}. Give a matrix with a row for each row of the pool and a column for each bias."
        )
    n, K = shape
    labels = as_array(source, "source")
    require_labels(labels, n)
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= K:
        raise MismatchError(
            f"source holds the labels {show(dict.fromkeys(labels.tolist()))} ({labels.dtype}), but omega has {K} "
            f"columns. Number the samples by their columns, 0 to {K - 1}; for named samples use vardi.debias."
        )
    names = tuple(str(k) for k in range(K)) if names is None else tuple(names)
    if len(names) != K:
        raise MismatchError(f"{len(names)} names for {K} columns. Give one for each.")
    if len(set(names)) != K:
        raise MismatchError(
            f"The names {show(names)} are not all different, so they do not tell the columns apart. Rename some."
        )
    codes = labels.astype(np.int64, copy=False)
    return _with_rows(Pool(names, (), (), codes, as_counts(counts, (), n), Dependence.none(len(names))))


def require_biases_for(named: Mapping[Name, object], by_name: Mapping[Name, object]) -> None:
    """Refuse a sample without a bias."""
    for name in named:
        if name not in by_name:
            raise MismatchError(
                f"Sample {str(name)!r} has no bias. The samples are {show(named)}, the biases {show(by_name)}."
                f"{suggest(name, by_name)} Give each sample a bias; 1 means that it was drawn without bias."
            )


def as_named(items: object, what: str) -> dict[Name, Any]:
    """Return samples or biases by name."""
    if isinstance(items, Mapping):
        return dict(items)
    if isinstance(items, list | tuple):
        return {str(k): item for k, item in enumerate(items)}
    remedy = "; for one frame with a column of labels, give its name as source=" if what == "samples" else ""
    raise MismatchError(
        f"The {what} were given as {type(items).__qualname__}. Give a mapping by name, or a list{remedy}."
    )


def as_biases(by_name: Mapping[Name, Any], names: Sequence[Name]) -> tuple[Bias, ...]:
    """Return the bias of each name."""
    biases = []
    for name in names:
        try:
            biases.append(as_bias(by_name[name]))
        except InvalidBiasError as error:
            raise InvalidBiasError(f"The bias of {str(name)!r}: {error}", sample=str(name)) from error
    return tuple(biases)


def _samples_of(codes: Integers, values: Sequence[Hashable], names: Iterable[Name], column: str) -> Integers:
    """Return the sample of each row, from labels numbered in order of first appearance."""
    position = {name: k for k, name in enumerate(names)}
    strangers = [k for k, value in enumerate(values) if value not in position]
    if missing := [k for k in strangers if is_missing(values[k])]:
        raise refusals.missing_labels(column, int(np.isin(codes, missing).sum()))
    if strangers:
        raise refusals.unknown_label(values[strangers[0]], column, dict.fromkeys(values), names)
    return np.array([position[value] for value in values], np.int64)[codes]


def _numbered(source: object, frame: Frame, column: str) -> tuple[Integers, list[Hashable]]:
    """Return the labels of rows, numbered in order of first appearance, and the distinct labels."""
    try:
        if isinstance(source, str):
            return frame.coded(source)
        if isinstance(source, list | tuple):  # NumPy would turn mixed numbers and texts into texts
            labels = np.fromiter(source, dtype=object, count=len(source))
        else:
            labels = as_array(in_order(source, (frame,), "source"), "source")
        require_labels(labels, len(frame))
        # nanoseconds become integers in Python
        return coded(labels.astype("datetime64[us]") if labels.dtype.kind == "M" else labels)
    except TypeError as error:
        raise refusals.no_labels(repr(column)) from error


def _plain(value: object) -> str:
    """Return a value of a row as a user would write it."""
    value = value.item() if isinstance(value, np.generic) else value
    return f"{value:g}" if isinstance(value, float) else repr(value)


def require_shared_columns(
    biases: Sequence[Bias], names: Sequence[Hashable], columns: Mapping[Any, Sequence[str]]
) -> None:
    """Refuse a bias that reads a column which some of several samples have and others lack."""
    for name, bias in zip(names, biases, strict=True):
        for column in bias.columns:
            lacks = [sample for sample, available in columns.items() if column not in available]
            if 0 < len(lacks) < len(columns):
                shared = shared_names(list(columns.values()))
                raise MismatchError(f"The bias of {str(name)!r}, {bias}, {_lacking(name, bias, column, lacks, shared)}")


def require_everywhere(read: Iterable[str], columns: Mapping[Any, Collection[str]]) -> None:
    """Refuse to read a column that some samples have and others lack, given the columns of each."""
    for column in read:
        lacks = [name for name, own in columns.items() if column not in own]
        if 0 < len(lacks) < len(columns):
            has = [name for name in columns if name not in lacks]
            raise MismatchError(
                f"Column {column!r} is in {show(has)}, but not in {show(lacks)}, and this needs the rows of all "
                f"samples. {refusals.FROM_SOME}"
            )


def _lacking(sample: Name, bias: Bias, column: str, lacks: Sequence[Name], shared: Sequence[str]) -> str:
    """Return why a bias cannot read a column that some samples lack, and what to do."""
    lack = f"column {column!r}, which {show(lacks)} {'lacks' if len(lacks) == 1 else 'lack'}"
    if isinstance(bias, LearnedBias):
        remedy = (
            f"Name columns that all samples have: {show(shared)}." if shared else "The samples have none in common."
        )
        return f"is learned from {lack}, so its rows cannot be compared with theirs. {remedy}"
    columns = f" ({first_of(map(repr, shared), 3)})" if shared else ""
    others = [name for name in lacks if name != sample]
    doubt = f": how likely was {str(sample)!r} to draw those of {show(others)}?" if others else "."
    remedy = (
        f"In place of a design weight, give one over its mean given columns that all samples have{columns}: the guide "
        "'Pooling surveys' shows how, and what that assumes."
    )
    if len(others) < len(lacks):  # a sample without its own design weights has no mean of them
        remedy = f"Add the column to {show(lacks)}, or write the bias in columns that all samples have."
    return (
        f"reads {lack}. A bias is evaluated on the rows of all samples{doubt} So it must be a function of columns that "
        f"all samples have. {remedy}"
    )
