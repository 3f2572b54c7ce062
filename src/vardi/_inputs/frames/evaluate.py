"""The values of expressions on rows in memory: all in one pass, refusing unknown values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

import vardi._narwhals as nw
from vardi.biases import ExpressionBias
from vardi.biases._compile import Compiled, NarwhalsTarget, NumpyTarget, Operand, compile_node
from vardi.biases._nodes import Column, to_text
from vardi.errors import InvalidBiasError, MissingValuesError, number_of_rows
from vardi.errors._texts import LISTED

Eager: TypeAlias = "nw.DataFrame[Any]"
"""An eager frame of any library."""


class EagerFrame(NarwhalsTarget):
    """An eager frame of any library, which computes what was compiled for it."""

    def __init__(self, data: Eager) -> None:
        super().__init__(data.schema)
        self._data = data

    def missing(self, names: Sequence[str]) -> dict[str, int]:
        """Return those of some columns that have missing values, with their number."""
        if not names:
            return {}
        counted = self._data.select(*(self.is_missing(name).sum().alias(name) for name in names))
        counts = {name: counted.get_column(name).to_list()[0] for name in names}  # row() returns PyArrow scalars
        return {name: int(count) for name, count in counts.items() if count}

    def compute(self, values: Sequence[Operand]) -> list[np.ndarray]:
        """Return the values, with one select."""
        if not values:
            return []
        frame = self._data.select(*(value.alias(str(place)) for place, value in enumerate(values)))
        return [frame.get_column(name).to_numpy() for name in frame.columns]


Engine: TypeAlias = NumpyTarget | EagerFrame
"""A target that holds rows, and computes what was compiled for it."""


def evaluate(
    biases: Sequence[ExpressionBias],
    engine: NumpyTarget | EagerFrame,
    length: int,
    sample: str | None,
    called: str = "bias",
) -> list[np.ndarray]:
    """Return the values of expressions on some rows of an engine: bool for conditions, otherwise float64.

    Raises
    ------
    MissingValuesError
        If a value is unknown because a column has missing values.
    InvalidBiasError
        If a condition compares NaN, such as the logarithm of a negative number.
    """
    missing = engine.missing(tuple(dict.fromkeys(name for bias in biases for name in bias.columns)))
    compiled = [compile_node(bias.node, engine, missing) for bias in biases]
    values = [part.value for part in compiled if not isinstance(part.value, float)]
    masks = [part.known for part in compiled if part.known is not None]
    computed = iter(engine.compute([*values, *masks]))
    arrays = [_fill(part, computed, length) for part in compiled]
    for bias, part in zip(biases, compiled, strict=True):
        if part.known is not None:
            unknown = np.flatnonzero(~np.broadcast_to(next(computed), length).astype(bool)).tolist()
            if unknown:
                raise unknown_value(bias, sample, len(unknown), missing, unknown, called=called)
    return arrays


def _fill(part: Compiled, computed: Iterator[np.ndarray], length: int) -> np.ndarray:
    value = part.value if isinstance(part.value, float) else next(computed)
    array: np.ndarray = np.asarray(value, dtype=np.bool if part.is_condition else np.float64)
    return array if array.shape == (length,) else np.full(length, array.item())


def unknown_value(
    bias: ExpressionBias,
    sample: object,
    unknown: int,
    missing: Mapping[str, int],
    rows: Sequence[int] = (),
    *,
    called: str = "bias",
) -> MissingValuesError | InvalidBiasError:
    """Return the error for an expression without a value on some rows: values are missing, or it compares NaN.

    Parameters
    ----------
    bias : ExpressionBias
        The expression.
    sample : str or None
        The sample of these rows; None if all samples are in one frame.
    unknown : int
        The number of rows without a value.
    missing : mapping of str to int
        The columns that have missing values, with their number; if it reads none of them, it compares NaN.
    rows : sequence of int
        Positions of these rows, if they have any.
    called : str
        What it is: a bias, or an expression whose mean was asked for.
    """
    read = {name: missing[name] for name in bias.columns if name in missing}
    of_sample = "" if sample is None else f" on rows of sample {str(sample)!r}"
    if not read:
        first = f" (the first is row {rows[0]})" if len(rows) else ""
        return InvalidBiasError(
            f"The {called} {bias}{of_sample} compares NaN on {number_of_rows(unknown)}{first}: a logarithm, root, "
            "power or quotient has no value there. Exclude such rows with a condition.",
            sample="" if sample is None else str(sample),
            rows=rows[:LISTED],
        )
    columns = ", ".join(f"{name!r} ({count})" for name, count in read.items())
    return MissingValuesError(
        f"The {called} {bias}{of_sample} is unknown on {number_of_rows(unknown)}, since there are missing values in "
        f"{columns}. A missing value is neither true nor false. Fill or drop these rows, or handle them in the "
        f"expression, e.g. {to_text(Column(next(iter(read))))} is not missing and ...",
        columns=read,
    )
