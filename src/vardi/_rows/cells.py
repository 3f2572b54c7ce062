"""Cells on rows: which values occur, and a column of zeros and ones for each of their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi._inputs.frames import Frame
from vardi._machine import require_memory
from vardi._types import Floats, Integers
from vardi.biases import ExpressionBias, ParametricBias
from vardi.biases._compile import Kind, NumpyTarget, Target
from vardi.biases._nodes import Cells, Column, Level, Node, Value, group_text, level_text, to_text
from vardi.biases._values import coded, coded_together
from vardi.errors import (
    ImpossibleRowError,
    InvalidBiasError,
    MismatchError,
    MissingValuesError,
    UnidentifiedParametersError,
    number_of_rows,
)
from vardi.errors._texts import LISTED

MOST_VALUES = 200  # of one column: with more it is a measurement, not a category
MOST_SHOWN = 20  # values in a message


def with_levels(
    bias: ParametricBias, frames: Sequence[Frame], counts: Floats, own: NDArray[np.bool_], sample: str
) -> ParametricBias:
    """Return the bias with the values that the rows of a pool have, in each group the most frequent first.

    Parameters
    ----------
    bias : ParametricBias
        The bias; returned as it is unless its family is cells.
    frames : sequence of Frame
        The rows of all samples.
    counts : ndarray of shape (n,)
        How often each row counts; 0 where the known factor of the bias is 0, so that its values do not matter.
    own : ndarray of bool of shape (n,)
        Which rows belong to the sample with this bias.
    sample : str
        Its name.
    """
    family = bias.family
    if not isinstance(family, Cells):
        return bias
    reader = _Reader(bias, sample)
    found = []
    for group in family.groups:
        levels, codes = reader.joined(group, frames, is_fit=True)
        total = np.bincount(codes, counts, minlength=len(levels)).astype(np.float64)
        drawn = np.bincount(codes[own], counts[own], minlength=len(levels)).astype(np.float64)
        found.append(reader.in_order(group, levels, total, drawn))
    return replace(bias, family=family.seen(found))


def dummies(bias: ParametricBias, frames: Sequence[Frame], sample: str) -> tuple[Floats, list[Integers]]:
    """Return zeros and ones for each parameter, of shape (n, p), and in each group the place of each row's level.

    The place is -1, and all columns of the group are 0, where no row of the fit has the value.
    """
    family = bias.family
    assert isinstance(family, Cells)
    n, p, reader = sum(len(frame) for frame in frames), len(family.names), _Reader(bias, sample)
    require_memory(
        8 * n * p,
        f"The {p} parameters of the {reader} on {n:,} rows",
        "Cross fewer columns, or join values that are rare.",
    )
    columns, places, start = np.zeros((n, p)), [], 0
    for group, known in zip(family.groups, family.levels, strict=True):
        levels, codes = reader.joined(group, frames)
        position = {level: place for place, level in enumerate(known)}
        place = np.array([position.get(level, -1) for level in levels], np.int64)[codes]
        rows = np.flatnonzero(place > 0)
        columns[rows, start + place[rows] - 1] = 1.0
        places.append(place)
        start += len(known) - 1
    return columns, places


def require_seen(
    bias: ParametricBias, frame: Frame, places: Sequence[Integers], matters: NDArray[np.bool_], sample: str
) -> None:
    """Refuse new rows with values that do not occur in the fit."""
    family, reader = bias.family, _Reader(bias, sample)
    assert isinstance(family, Cells)
    for group, known, place in zip(family.groups, family.levels, places, strict=True):
        unseen = np.flatnonzero((place < 0) & matters)
        if len(unseen):
            levels, codes = reader.joined(group, [frame])
            shown = ", ".join(level_text(group, level) for level in known[:MOST_SHOWN])
            more = f" and {len(known) - MOST_SHOWN} more" if len(known) > MOST_SHOWN else ""
            raise ImpossibleRowError(
                f"{level_text(group, levels[codes[unseen[0]]])} at row {unseen[0]} of the new rows "
                f"({number_of_rows(len(unseen))} in all) is in no row of the fit, so the {reader} has "
                f"no parameter for it, and its weight is unknown. The fit has {shown}{more}. Fit with rows "
                "that have the value, or remove these rows.",
                sample=None,
                rows=unseen[:10],
            )


@dataclass(frozen=True)
class Categories:
    """What is refused of the categories that a bias reads.

    Attributes
    ----------
    bias : ParametricBias
        The bias, by cells.
    sample : str
        The name of its sample.
    """

    bias: ParametricBias
    sample: str

    def __str__(self) -> str:
        return f"bias {self.bias} of {self.sample!r}"

    def in_order(self, group: tuple[Node, ...], levels: Sequence[Level], total: Floats, drawn: Floats) -> list[Level]:
        """Return levels with the most frequent first and the others sorted, or refuse uninformative ones.

        Parameters
        ----------
        group : tuple of Node
            The columns that they are values of.
        levels : sequence of Level
            In any order.
        total, drawn : ndarray
            How often each occurs where the bias is not known to be zero, in all samples and in its own.
        """
        there = sorted(np.flatnonzero(total > 0).tolist(), key=lambda place: levels[place])
        if len(there) < 2:
            raise UnidentifiedParametersError(
                f"{group_text(group)} in the {self} has only one value on the rows of the pool "
                f"({', '.join(level_text(group, levels[place]) for place in there)}), so its parameter cannot be "
                "distinguished from the normaliser. Leave it out.",
                sample=self.sample,
            )
        absent = [level_text(group, levels[place]) for place in there if not drawn[place]]
        if absent:
            raise UnidentifiedParametersError(
                f"No row of {self.sample!r} has {' or '.join(absent[:MOST_SHOWN])}, and other samples have such rows. "
                f"So its parameter in {self.bias} is minus infinity: {self.sample!r} could not draw them. Declare that "
                "with a condition, such as vardi.isin(...) * vardi.cells(...), or join the value with another one.",
                sample=self.sample,
                parameters=absent,
            )
        first = max(there, key=lambda place: (total[place], -there.index(place)))
        return [levels[first], *(levels[place] for place in there if place != first)]

    def require_few(self, term: Node, count: int) -> None:
        """Refuse a column with so many values that it is a measurement."""
        if count > MOST_VALUES:
            text = to_text(term)
            raise InvalidBiasError(
                f"{text!r} has {count:,} different values, and the {self} would have a parameter for each; up to "
                f"{MOST_VALUES} are treated as categories. For a number write vardi.steps({text!r}, [...]) or "
                f"vardi.exponential_tilt({text!r}); join categories that are rare.",
                sample=self.sample,
            )

    def require_complete(self, column: str, missing: int) -> None:
        """Refuse rows whose category is missing."""
        if missing:
            raise MissingValuesError(
                f"The {self} is unknown on {number_of_rows(missing)}, since there are missing values in "
                f"{column!r} ({missing}). Fill them, e.g. with a value of their own, or drop these rows.",
                columns={column: missing},
            )

    def no_category(self, term: Node, value: object, count: int, rows: Iterable[int] = ()) -> InvalidBiasError:
        """Refuse a value that is not finite."""
        return InvalidBiasError(
            f"{to_text(term)!r} in the {self} is {value} on {number_of_rows(count)}, which is not a category. Correct "
            "it, or remove these rows.",
            sample=self.sample,
            rows=rows,
        )

    def require_categories(self, column: str, target: Target) -> None:
        """Refuse a column that holds no categories."""
        if target.kind(column) in (Kind.OTHER, Kind.DATE, Kind.DATETIME):
            raise MismatchError(
                f"Column {column!r} holds {target.kind(column).value} ({target.dtype(column)}), but the {self} reads "
                "categories: text, whole numbers or booleans. Convert it."
            )

    def require_one_kind(self, term: Node, values: Iterable[Value]) -> None:
        """Refuse categories that are text in some rows and numbers in others."""
        if len({isinstance(value, str) for value in values}) > 1:
            raise MismatchError(
                f"{to_text(term)!r} in the {self} is text in some rows and a number in others. Convert it to one of "
                "them."
            )


class _Reader(Categories):
    """Reads the categories of frames in memory."""

    def joined(
        self, group: tuple[Node, ...], frames: Sequence[Frame], *, is_fit: bool = False
    ) -> tuple[list[Level], Integers]:
        """Return the distinct combinations of values in all frames, and which one each row has."""
        levels: list[Level] = [()]
        codes = np.zeros(sum(len(frame) for frame in frames), np.int64)
        for term in group:
            values, own = self._values(term, frames)
            if is_fit:
                self.require_few(term, len(values))
            there, codes = np.unique(codes * len(values) + own, return_inverse=True)
            levels = [(*levels[one // len(values)], values[one % len(values)]) for one in there.tolist()]
        return levels, codes

    def _values(self, term: Node, frames: Sequence[Frame]) -> tuple[list[Value], Integers]:
        """Return the distinct values of a term in all frames, and which one each row has."""
        codes, values = coded_together(_distinct(self._array(term, frame)) for frame in frames)
        self.require_one_kind(term, values)
        return values, codes

    def _array(self, term: Node, frame: Frame) -> NDArray[Any]:
        """Return the values of a term on the rows of a frame, or refuse missing ones."""
        if not isinstance(term, Column):
            array = frame.evaluate([ExpressionBias(term)], self.sample)[0]
        else:
            array = frame.column(term.name)
            target = NumpyTarget({term.name: array})
            self.require_complete(term.name, int(np.count_nonzero(target.is_missing(term.name))))
            self.require_categories(term.name, target)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = np.flatnonzero(~np.isfinite(array))
            raise self.no_category(term, array[bad[0]], len(bad), bad[:LISTED])
        return array


def _distinct(array: NDArray[Any]) -> tuple[Integers, list[Value]]:
    """Return which distinct value each row has, and these as Python objects."""
    codes, found = coded(array)
    return codes, [plain(value) for value in found]


def plain(value: Any) -> Value:
    """Return a whole number as an integer, however it is stored: samples may store a column in two ways."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    found: Value = int(value) if whole else value
    return found
