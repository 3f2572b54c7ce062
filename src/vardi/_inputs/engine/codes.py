"""Truth values as keys to group by: integers whose bits they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

#: A truth value of each row, or one that all rows have.
Bit: TypeAlias = nw.Expr | bool

#: Label of each group, and whether each truth value holds there.
Read: TypeAlias = tuple[list[Any], list[NDArray[np.bool_]]]

CODE = "__vardi_code_{}"
BITS = 30  # truth values in one integer


class Codes(Protocol):
    """Keys that tell the label of a row and which truth values hold on it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns to group by."""

    def add(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the columns to a frame."""

    def read(self, answer: nw.DataFrame[Any]) -> Read | None:
        """Return what the keys of groups tell; None if a key is missing."""


class PackedBits:
    """Integers made by narwhals, in any engine, beside the label.

    Parameters
    ----------
    label : str or None
        Column of labels, if there is one.
    bits : sequence of expression or bool
        The truth values; null counts as false.
    """

    def __init__(self, label: str | None, bits: Sequence[Bit]) -> None:
        self._label, self._bits = label, bits
        self._packs = [range(start, min(start + BITS, len(bits))) for start in range(0, len(bits), BITS)]

    @property
    def keys(self) -> tuple[str, ...]:
        return (*([] if self._label is None else [self._label]), *(CODE.format(j) for j in range(len(self._packs))))

    def add(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        codes = {CODE.format(j): _code([self._bits[place] for place in pack]) for j, pack in enumerate(self._packs)}
        return frame.with_columns(**codes) if codes else frame

    def read(self, answer: nw.DataFrame[Any]) -> Read | None:
        found = []
        for j, pack in enumerate(self._packs):
            code = answer.get_column(CODE.format(j)).to_numpy().astype(np.int64)
            found += [(code >> (place - pack.start)) % 2 == 1 for place in pack]
        return labels_in(answer, self._label), found


def labels_in(answer: nw.DataFrame[Any], label: str | None) -> list[Any]:
    """Return the label of each group; None if there is no column of labels."""
    return [None] * len(answer) if label is None else answer.get_column(label).to_list()


def _code(bits: Sequence[Bit]) -> nw.Expr:
    """Return truth values as one integer, the first being the lowest bit; null counts as false."""
    code = nw.lit(sum(2**place for place, bit in enumerate(bits) if bit is True), nw.Int32)
    for place, bit in enumerate(bits):
        if not isinstance(bit, bool):
            code = code + nw.when(bit).then(nw.lit(2**place, nw.Int32)).otherwise(nw.lit(0, nw.Int32))
    return code
