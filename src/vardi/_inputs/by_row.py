"""Numbers and labels that are given by row, such as counts: in the order of the rows, one each; and rows to keep."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vardi._inputs.frames import Frame
from vardi._inputs.frames.frame import joined
from vardi._types import Floats, Integers
from vardi.biases._values import as_array, belongs_elsewhere, coded, index_of, is_missing, once
from vardi.errors import MismatchError, number_of_rows, suggest
from vardi.errors import _refusals as refusals
from vardi.errors._texts import LISTED, show

Given = TypeVar("Given")


def coded_labels(labels: np.ndarray, what: str) -> tuple[Integers, list[Hashable], int]:
    """Return a code for each label, the different labels, and how many rows have none; raise if they are no labels."""
    try:
        codes, values = coded(labels)
    except TypeError as error:
        raise refusals.no_labels(what) from error
    missing = [j for j, value in enumerate(values) if is_missing(value)]
    return codes, values, int(np.isin(codes, missing).sum()) if missing else 0


def in_order(values: Given, frames: Sequence[Frame], what: str) -> Given:
    """Return values; raise if they are a series whose index shows that they belong to other rows."""
    index, indices = index_of(values), [part for frame in frames if (part := index_of(frame.native)) is not None]
    if index is None or not indices or len(indices) < len(frames):
        return values
    rows_index = indices[0] if len(indices) == 1 else indices[0].append(indices[1:])
    other = not index.equals(rows_index) if len(indices) == 1 else belongs_elsewhere(index, rows_index)
    if len(index) == len(rows_index) and other:
        raise MismatchError(
            f"{what} is a series whose index is not that of the rows, so its values may belong to other rows. Bring it "
            "into the order of the rows, or give an array."
        )
    return values


def counts_by_name(counts: Mapping[Hashable, object], frames: Mapping[Hashable, Frame]) -> list[np.ndarray]:
    """Return the counts of each sample; raise if they do not fit its rows."""
    for name in frames:
        if name not in counts:
            raise MismatchError(
                f"No counts for sample {str(name)!r}. The counts are for {show(counts)}.{suggest(name, counts)}"
            )
    for name in counts:
        if name not in frames:
            raise MismatchError(
                f"There are counts for {str(name)!r}, which is not a sample. The samples are {show(frames)}."
                f"{suggest(name, frames)}"
            )
    subjects = {name: f"The counts of {str(name)!r}" for name in frames}
    return [of_sample(counts[name], frame, subjects[name], f"{subjects[name]} have") for name, frame in frames.items()]


def of_sample(values: object, frame: Frame, what: str, has: str) -> np.ndarray:
    """Return what was given for the rows of a sample: a column, or an array; raise if it is not one for each."""
    piece = frame.column(values) if isinstance(values, str) else as_array(in_order(values, (frame,), what), what)
    if piece.shape != (len(frame),):
        raise MismatchError(
            f"{has} shape {piece.shape}, but the sample has {number_of_rows(len(frame))}. Give one for each."
        )
    return piece


def as_counts(counts: object, frames: Sequence[Frame], n: int) -> Floats:
    """Return the count of each row; raise if they are not numbers, one for each."""
    if counts is None:
        return once(n)
    if isinstance(counts, str):
        if not frames:
            raise MismatchError(
                f"counts names the column {counts!r}, but a matrix of biases has no columns of its own. Give an array."
            )
        name, counts = counts, joined([frame.column(counts) for frame in frames])
        missing = int(np.count_nonzero(np.isnan(counts))) if counts.dtype.kind == "f" else 0
        if missing:
            raise refusals.missing_counts(name, missing)
    values = as_array(counts, "counts")
    if values.dtype.kind not in "iufb":
        raise refusals.counts_of_a_kind(values.dtype)
    values = values.astype(np.float64)
    require_length("counts", values, n, "Give one count for each row.")
    return once(n) if (values == 1.0).all() else values


def require_counts(counts: Floats, place: Callable[[int], str]) -> None:
    """Refuse counts that are not whole numbers, naming the place of the row and the value."""
    bad = np.flatnonzero(~((counts >= 0) & (counts < np.inf)))
    parts = np.flatnonzero(np.abs(counts - np.rint(counts)) > refusals.WHOLE * counts) if not len(bad) else bad[:0]
    for rows, refusal in ((bad, refusals.invalid_counts), (parts, refusals.counts_in_part)):
        if len(rows):
            raise refusal(f"In {place(int(rows[0]))}, the count is {counts[rows[0]]}", rows[:LISTED])
    if counts.sum() > refusals.MOST:
        raise refusals.too_many(counts.sum())


def require_length(what: str, values: np.ndarray, n: int, remedy: str = "Give one for each row.") -> None:
    """Refuse values that are not one for each row."""
    if values.shape != (n,):
        raise MismatchError(f"{what} has shape {values.shape}, but the pool has {n} rows. {remedy}")


def require_labels(labels: np.ndarray, n: int) -> None:
    """Refuse labels of samples that are not one for each row."""
    sizes = labels.shape != (n,) and labels.ndim == 1 and labels.dtype.kind in "iu" and labels.sum() == n
    repeated = " From sizes of successive samples: np.repeat(np.arange(len(sizes)), sizes)." if sizes else ""
    require_length("source", labels, n, f"Give one label for each row.{repeated}")


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The rows of a pool that a fit rests on.

    Attributes
    ----------
    mask : ndarray of bool
        Which rows these are.
    is_all : bool
        Whether these are all rows; then nothing is copied.
    """

    mask: NDArray[np.bool_]
    is_all: bool

    @classmethod
    def where(cls, mask: NDArray[np.bool_]) -> KeptRows:
        """Return the rows that a mask marks."""
        is_all = bool(mask.all())
        return cls(np.broadcast_to(np.True_, mask.shape) if is_all else mask, is_all)

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
