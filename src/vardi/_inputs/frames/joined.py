"""Columns of several frames as one, read one at a time: frames that hold a column alike need not be joined for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from vardi._inputs.frames.concat import library_of
from vardi._inputs.frames.frame import Frame, NarwhalsFrame, joined
from vardi._types import Integers


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

    def values_at(self, name: str, rows: Integers) -> list[np.ndarray]:
        """Return the values of a column on some rows, in the pieces in which it is held."""
        ends = np.cumsum([len(frame) for frame in self.frames])
        owners = np.searchsorted(ends, rows, "right")
        starts = ends - [len(frame) for frame in self.frames]
        return [self.frames[k].values_at(name, rows[owners == k] - starts[k]) for k in np.unique(owners).tolist()]

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
