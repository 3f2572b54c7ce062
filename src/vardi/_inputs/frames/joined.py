"""Columns of several frames as one, read one at a time: frames that hold a column alike need not be joined for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property

import numpy as np

from vardi._inputs.frames.concat import library_of
from vardi._inputs.frames.frame import Frame, NarwhalsFrame
from vardi._types import Integers


class JoinedColumns:
    """The columns of all rows.

    Parameters
    ----------
    frames : sequence of Frame
        The rows, in one piece or several.
    join : callable
        Gives all rows in one frame, or None where that cannot be made; called at most once, and only where frames
        differ in their columns or in what they hold them as.
    """

    def __init__(self, frames: Sequence[Frame], join: Callable[[], Frame | None]) -> None:
        self._frames, self._join = tuple(frames), join

    @property
    def exist(self) -> bool:
        """Whether rows can be in one frame."""
        return self._are_alike or self._whole is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self._held[0].columns if self.exist else ()

    @cached_property
    def _are_alike(self) -> bool:
        if len(self._frames) <= 1:
            return len(self._frames) == 1
        framed = [frame for frame in self._frames if isinstance(frame, NarwhalsFrame)]
        if len(framed) < len(self._frames) or len(set(map(library_of, framed))) > 1:
            return False
        return all(frame._schema == framed[0]._schema for frame in framed[1:])

    @cached_property
    def _whole(self) -> Frame | None:
        return self._join()

    @property
    def _held(self) -> tuple[Frame, ...]:
        if self._are_alike:
            return self._frames
        return () if self._whole is None else (self._whole,)

    def pieces(self, name: str) -> list[np.ndarray]:
        """Return a column in the pieces in which it is held."""
        return [frame.column(name) for frame in self._held]

    def column(self, name: str) -> np.ndarray:
        """Return a column on all rows."""
        pieces = self.pieces(name)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def is_text(self, name: str) -> bool:
        """Return whether a column is declared as one of texts, so that it takes no reading to know it."""
        return all(frame.is_text(name) for frame in self._held)

    def values_at(self, name: str, rows: Integers) -> list[np.ndarray]:
        """Return the values of a column on some rows, in the pieces in which it is held."""
        ends = np.cumsum([len(frame) for frame in self._held])
        owners = np.searchsorted(ends, rows, "right")
        starts = ends - [len(frame) for frame in self._held]
        return [self._held[k].values_at(name, rows[owners == k] - starts[k]) for k in np.unique(owners).tolist()]

    def coded(self, name: str) -> tuple[Integers, list[Hashable]]:
        """Return a column as numbers, and the different values that these stand for; TypeError where some are none."""
        position: dict[Hashable, int] = {}
        pieces = []
        for frame in self._held:
            codes, values = frame.coded(name)
            place = np.array([position.setdefault(value, len(position)) for value in values], np.int64)
            pieces.append(place[codes])
        return np.concatenate(pieces), list(position)
