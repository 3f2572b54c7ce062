"""Several frames as one, and their columns read one at a time: frames that hold a column alike need not be joined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import vardi._narwhals as nw
from vardi._inputs.frames.frame import Frame, NarwhalsFrame, NumpyFrame, any_lazy, as_frame, joined
from vardi._types import Integers
from vardi.errors import MismatchError

if TYPE_CHECKING:
    from narwhals.dtypes import DType


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
    if isinstance(frames[0], NumpyFrame):
        return _concat_numpy([frame.native for frame in frames])
    return _concat_narwhals([frame for frame in frames if isinstance(frame, NarwhalsFrame)], without)


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
    schemas = [frame._schema for frame in frames if isinstance(frame, NarwhalsFrame)]
    mixed = {}
    for name, dtypes in _dtypes(schemas).items():
        try:
            _common(name, dtypes)
        except MismatchError:
            mixed[name] = [str(schema[name]) if name in schema else "" for schema in schemas]
    return mixed


def library_of(frame: Frame) -> str:
    """Return the name of the library that holds rows."""
    return str(frame._data.implementation) if isinstance(frame, NarwhalsFrame) else "NumPy"


def _concat_numpy(arrays: list[np.ndarray]) -> Frame:
    forms = [array.dtype.names or array.shape[1:] for array in arrays]
    if len(set(forms)) > 1:
        raise MismatchError(
            f"The arrays differ in their columns: {', '.join(map(str, forms))}. Give each the same columns."
        )
    return NumpyFrame(np.concatenate(arrays))


def _concat_narwhals(frames: list[NarwhalsFrame], without: Collection[str]) -> Frame:
    schemas = [{name: dtype for name, dtype in frame._schema.items() if name not in without} for frame in frames]
    dtypes = _dtypes(schemas)
    common = {name: _common(name, kinds) for name, kinds in dtypes.items() if len(kinds) > 1}
    for name, dtype in common.items():
        if dtype == nw.Int64:
            _require_64_bits(name, dtypes[name], frames)
    columns = {name: nw.col(name).cast(common[name]) if name in common else nw.col(name) for name in dtypes}
    parts = [
        frame._data.select(column for name, column in columns.items() if name in schema)
        for frame, schema in zip(frames, schemas, strict=True)
    ]
    same = all(len(schema) == len(dtypes) for schema in schemas)
    if not dtypes:
        raise MismatchError(
            "The samples have no columns, so their rows cannot be put into one frame. Give each a column."
        )
    pool = nw.concat(parts, how="vertical" if same else "diagonal")
    if same and all(frame._is_series for frame in frames):
        return as_frame(pool.get_column(next(iter(dtypes))).to_native())
    return as_frame(pool.to_native())


def _dtypes(schemas: Sequence[Mapping[str, DType]]) -> dict[str, set[DType]]:
    """Return the types of each column in different frames."""
    names = dict.fromkeys(name for schema in schemas for name in schema)
    return {name: {schema[name] for schema in schemas if name in schema} for name in names}


def _require_64_bits(name: str, dtypes: set[DType], frames: Sequence[NarwhalsFrame]) -> None:
    """Refuse whole numbers that would overflow when a column is converted to one dtype."""
    for frame in frames:
        if frame._schema.get(name) in (nw.UInt64, nw.Int128, nw.UInt128):
            column = frame._data.get_column(name)
            low, high = column.min(), column.max()
            if low is not None and (low < -(2**63) or high >= 2**63):
                kinds = sorted(map(str, dtypes))
                raise MismatchError(
                    f"Column '{name}' is {' in one sample and '.join(kinds)} in another, and holds numbers that do not "
                    "fit in a signed 64-bit integer. Convert it to one dtype, e.g. to text where it is an id."
                )


def _common(name: str, dtypes: set[DType]) -> DType:
    if len(dtypes) == 1:
        return next(iter(dtypes))
    if all(dtype.is_integer() for dtype in dtypes):
        return nw.Int64()
    if all(dtype.is_numeric() or dtype == nw.Boolean for dtype in dtypes):
        return nw.Float64()
    if all(dtype in (nw.String, nw.Categorical, nw.Enum) for dtype in dtypes):
        return nw.String()
    kinds = sorted(map(str, dtypes))
    raise MismatchError(f"Column '{name}' is {' in one sample and '.join(kinds)} in another. Convert it to one dtype.")


def shared_names(columns: Sequence[Collection[str]]) -> tuple[str, ...]:
    """Return the names of columns that all of several frames have, in the order of the first.

    >>> shared_names([["x", "y"], ["z", "y"]]), shared_names([])
    (('y',), ())
    """
    return tuple(name for name in columns[0] if all(name in names for names in columns)) if columns else ()


@dataclass(frozen=True, eq=False)
class JoinedColumns:
    """The columns of all rows.

    Attributes
    ----------
    frames : tuple of Frame
        The rows, in one piece or in several that have the same columns; none if rows cannot be in one frame.
    """

    frames: tuple[Frame, ...]

    @classmethod
    def of(cls, frames: Sequence[Frame], join: Callable[[], Frame | None]) -> JoinedColumns:
        """Return the columns of frames as they are or, where these differ in what they hold, of all rows in one frame.

        ``join`` gives that frame, or None where it cannot be made.
        """
        if len(frames) == 1 or _are_alike(frames):
            return cls(tuple(frames))
        whole = join()
        return cls(() if whole is None else (whole,))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.frames[0].columns if self.frames else ()

    def pieces(self, name: str) -> list[np.ndarray]:
        """Return a column in the pieces in which it is held."""
        return [frame.column(name) for frame in self.frames]

    def column(self, name: str) -> np.ndarray:
        """Return a column on all rows."""
        return joined(self.pieces(name))

    def is_text(self, name: str) -> bool:
        """Return whether a column is declared as one of texts, so that it takes no reading to know it."""
        return all(frame.is_text(name) for frame in self.frames)

    def coded(self, name: str) -> tuple[Integers, list[Hashable]]:
        """Return a column as numbers, and the different values that these stand for; TypeError where some are none."""
        position: dict[Hashable, int] = {}
        pieces = []
        for frame in self.frames:
            codes, values = frame.coded(name)
            place = np.array([position.setdefault(value, len(position)) for value in values], np.int64)
            pieces.append(place[codes])
        return np.concatenate(pieces), list(position)


def _are_alike(frames: Sequence[Frame]) -> bool:
    """Return whether frames are of one library, with the same columns."""
    schemas = [frame._schema for frame in frames if isinstance(frame, NarwhalsFrame)]
    if not frames or len(schemas) < len(frames) or len(set(map(library_of, frames))) > 1:
        return False
    return all(schema == schemas[0] for schema in schemas)
