"""What is held by row: frames of several samples as one, numbers and labels given beside them, and rows to keep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import vardi._narwhals as nw
from vardi._inputs.frames import Frame, NarwhalsFrame, any_lazy, as_frame, joined
from vardi._types import Floats, Integers
from vardi.biases._values import as_array, belongs_elsewhere, coded, index_of, is_missing, once
from vardi.errors import MismatchError, number_of_rows, suggest
from vardi.errors import _refusals as refusals
from vardi.errors._texts import LISTED, show

if TYPE_CHECKING:
    from narwhals.dtypes import DType

Given = TypeVar("Given")


def concat(frames: Sequence[Frame], without: Collection[str] = ()) -> Frame:
    """Return the rows of all frames stacked, without some columns; where a frame lacks one, its values are missing.

    The frames must be of one library; pandas keeps its index labels.
    """
    if len(frames) == 1:
        return frames[0]
    kinds = {library_of(frame) for frame in frames}
    if len(kinds) > 1:
        raise MismatchError(
            f"The samples come from different libraries, {' and '.join(sorted(kinds))}, so they cannot be put into "
            "one frame. Convert them to one library."
        )
    if of_library := [frame for frame in frames if isinstance(frame, NarwhalsFrame)]:
        return _concat_narwhals(of_library, without)
    arrays = [frame.native for frame in frames]
    forms = [array.dtype.names or array.shape[1:] for array in arrays]
    if len(set(forms)) > 1:
        raise MismatchError(
            f"The arrays differ in their columns: {', '.join(map(str, forms))}. Give each the same columns."
        )
    return Frame(np.concatenate(arrays))


def stacked(first: object, more: object) -> Any:
    """Return rows of one sample after others of it, in their library; lazy frames stay lazy."""
    if not any_lazy([first, more]):
        return concat([as_frame(first), as_frame(more)]).native
    frames = [nw.from_native(rows, pass_through=True) for rows in (first, more)]
    kinds = [f"in {frame.implementation}" if isinstance(frame, nw.LazyFrame) else "in memory" for frame in frames]
    lazy = [frame for frame in frames if isinstance(frame, nw.LazyFrame)]
    if len(set(kinds)) > 1:
        raise MismatchError(
            f"The rows of the fit are {kinds[0]}, and the new ones are {kinds[1]}, so they cannot be put into one "
            "frame. Give the new ones as a lazy frame of the same engine."
        )
    schemas = [frame.collect_schema().names() for frame in lazy]
    if set(schemas[0]) != set(schemas[1]):
        return nw.concat(lazy, how="diagonal").to_native()
    return nw.concat([frame.select(*schemas[0]) for frame in lazy], how="vertical").to_native()


def mixed_columns(frames: Sequence[Frame]) -> dict[str, list[str]]:
    """Return the columns whose types in different frames are incompatible, with the type in each."""
    schemas = [frame.schema for frame in frames if isinstance(frame, NarwhalsFrame)]
    return {
        name: [str(schema[name]) if name in schema else "" for schema in schemas]
        for name, dtypes in _dtypes(schemas).items()
        if _common(dtypes) is None
    }


def library_of(frame: Frame) -> str:
    """Return the name of the library that holds rows."""
    return str(frame.data.implementation) if isinstance(frame, NarwhalsFrame) else "NumPy"


def _concat_narwhals(frames: list[NarwhalsFrame], without: Collection[str]) -> Frame:
    schemas = [{name: dtype for name, dtype in frame.schema.items() if name not in without} for frame in frames]
    dtypes = _dtypes(schemas)
    common = {name: _require_common(name, kinds, frames) for name, kinds in dtypes.items()}
    parts = [
        frame.data.select(
            nw.col(name) if schema[name] == dtype else nw.col(name).cast(dtype)
            for name, dtype in common.items()
            if name in schema
        )
        for frame, schema in zip(frames, schemas, strict=True)
    ]
    if not dtypes:
        raise MismatchError(
            "The samples have no columns, so their rows cannot be put into one frame. Give each a column."
        )
    pool = nw.concat(parts, how="diagonal")
    if len(dtypes) == 1 and all(frame.is_series for frame in frames):
        return as_frame(pool.get_column(next(iter(dtypes))).to_native())
    return as_frame(pool.to_native())


def _dtypes(schemas: Sequence[Mapping[str, DType]]) -> dict[str, set[DType]]:
    """Return the types of each column in different frames."""
    names = dict.fromkeys(name for schema in schemas for name in schema)
    return {name: {schema[name] for schema in schemas if name in schema} for name in names}


def _require_common(name: str, dtypes: set[DType], frames: Sequence[NarwhalsFrame]) -> DType:
    """Return the type that a column of several types is converted to; raise if its values do not fit in one."""
    common = _common(dtypes)
    fact = f"Column '{name}' is {' in one sample and '.join(sorted(map(str, dtypes)))} in another"
    if common is None:
        raise MismatchError(f"{fact}. Convert it to one dtype.")
    for frame in frames:
        if common == nw.Int64 and frame.schema.get(name) in (nw.UInt64, nw.Int128, nw.UInt128):
            column = frame.data.get_column(name)
            low, high = column.min(), column.max()
            if low is not None and (low < -(2**63) or high >= 2**63):
                raise MismatchError(
                    f"{fact}, and holds numbers that do not fit in a signed 64-bit integer. Convert it to one dtype, "
                    "e.g. to text where it is an id."
                )
    return common


def _common(dtypes: set[DType]) -> DType | None:
    """Return the type that holds the values of several, if there is one."""
    if len(dtypes) == 1:
        return next(iter(dtypes))
    if all(dtype.is_integer() for dtype in dtypes):
        return nw.Int64()
    if all(dtype.is_numeric() or dtype == nw.Boolean for dtype in dtypes):
        return nw.Float64()
    if all(dtype in (nw.String, nw.Categorical, nw.Enum) for dtype in dtypes):
        return nw.String()
    return None


def shared_names(columns: Sequence[Collection[str]]) -> tuple[str, ...]:
    """Return the names of columns that all of several frames have, in the order of the first.

    >>> shared_names([["x", "y"], ["z", "y"]]), shared_names([])
    (('y',), ())
    """
    return tuple(name for name in columns[0] if all(name in names for names in columns)) if columns else ()


def alike(frames: Sequence[Frame], join: Callable[[], Frame | None]) -> tuple[Frame, ...]:
    """Return frames whose columns can be read one by one: of one library, with the same columns.

    Those that differ are put into one frame by ``join``, which gives None where that cannot be done.
    """
    schemas = [frame.schema for frame in frames if isinstance(frame, NarwhalsFrame)]
    same = len(schemas) == len(frames) and all(schema == schemas[0] for schema in schemas)
    if len(frames) == 1 or (same and len(set(map(library_of, frames))) == 1):
        return tuple(frames)
    whole = join()
    return () if whole is None else (whole,)


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
    for name in (*frames, *counts):
        if name not in counts:
            raise MismatchError(
                f"No counts for sample {str(name)!r}. The counts are for {show(counts)}.{suggest(name, counts)}"
            )
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
