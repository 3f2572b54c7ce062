"""Expressions of Polars and narwhals on lazy frames: each is added to its frame as a column, and read as one.

A value is null, and so unknown, if the engine returns null, or if a column it reads is NaN, which engines compare in
different ways. Frames of pandas, which uses NaN for null, and partitions of Dask are copied to columns with nulls, as
rows in memory are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from operator import mul

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import PREFIX, Change
from vardi._inputs.engines import DataFrame, LazyFrame, collected
from vardi._inputs.frames.library_expressions import (
    columns_read,
    computed,
    in_library,
    known_only,
    lost_values,
    require_by_row,
    selected,
    with_nulls,
)
from vardi._inputs.partitions import with_own
from vardi.biases import Bias, ExpressionBias, FrameExpressionBias
from vardi.biases._expressions.nodes import Column
from vardi.biases._kinds import factors_of
from vardi.errors import InvalidBiasError, MismatchError

GIVEN = "__vardi_given_{}_{}"


@dataclass(frozen=True, repr=False)
class ColumnBias(ExpressionBias):
    """A bias with expressions of Polars or narwhals, in terms of the columns that hold these on its frame.

    Attributes
    ----------
    given : Bias
        The bias as the user gave it.
    read : tuple of str
        The user's columns that it reads.
    """

    given: Bias
    read: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read: the user's own, and those added to the frame."""
        return tuple(dict.fromkeys((*super().columns, *self.read)))

    def __str__(self) -> str:
        return str(self.given)


def is_computable(bias: Bias) -> bool:
    """Return whether an engine can compute a bias: an expression, or a product of expressions."""
    return all(isinstance(factor, ExpressionBias | FrameExpressionBias) for factor in factors_of(bias))


def on_frame(
    frame: LazyFrame, biases: Sequence[Bias], sample: str | None, what: str = "bias", probed: int = 16
) -> tuple[list[Change], tuple[ExpressionBias, ...]]:
    """Return changes that add expressions of Polars and narwhals to a frame as columns, and the biases that read these.

    Parameters
    ----------
    frame : nw.LazyFrame
        A frame of any engine.
    biases : sequence of Bias
        Expressions in text, of Polars and of narwhals, and products of them.
    sample : str or None
        Name of the sample, for messages.
    what : str
        Their purpose: a part of the columns' names, so that columns of one purpose do not replace those of another.
    probed : int
        On how many rows to test whether a value depends on other rows.
    """
    for bias in biases:
        if not is_computable(bias):
            raise InvalidBiasError(f"An engine cannot compute {bias}. Give an expression as text.", sample=sample or "")
    if all(isinstance(bias, ExpressionBias) for bias in biases):
        return [], tuple(bias for bias in biases if isinstance(bias, ExpressionBias))
    few = collected(frame.head(probed), sample)
    changes: list[Change] = []
    found = []
    for k, bias in enumerate(biases):
        factors = list(factors_of(bias))
        read: list[str] = []
        for j, factor in enumerate(factors):
            if isinstance(factor, FrameExpressionBias):
                name = GIVEN.format(what, f"{k}_{j}")
                change, columns = _put(factor, name, frame, few, sample)
                changes.append(change)
                read += columns
                factors[j] = ExpressionBias(Column(name))
        whole = reduce(mul, factors)
        assert isinstance(whole, ExpressionBias)
        found.append(whole if whole is bias else ColumnBias(whole.node, bias, tuple(read)))
    return changes, tuple(found)


def _put(
    bias: FrameExpressionBias, name: str, frame: LazyFrame, few: DataFrame, sample: str | None
) -> tuple[Change, tuple[str, ...]]:
    """Return the change that adds an expression to a frame as a column, and the columns that it reads.

    Some of the rows show whether it has a value for each.
    """
    if bias.library == "Polars" and not frame.implementation.is_polars():
        raise InvalidBiasError(
            f"{bias} is a Polars expression, but the rows{'' if sample is None else f' of {sample!r}'} are in "
            f"another engine ({frame.implementation}), which cannot compute it. Write it as text, such as "
            "'x <= 3', or as a narwhals expression, such as nw.col('x') <= 3.",
            sample=sample or "",
        )
    selected(bias, frame, sample)
    read = columns_read(bias, frame)
    with suppress(MismatchError):  # the engine may compute what the library of its answers cannot
        alone = computed(bias, few, sample)
        if not read and len(alone) == len(few) > 1:  # a pattern of columns, which may read any of them
            read = tuple(column for column in few.columns if not column.startswith(PREFIX))
        require_by_row(bias, few, np.asarray(alone.cast(nw.Float64).to_numpy(), np.float64), sample)
    if frame.implementation.is_pandas():
        return partial(with_nulls, bias, name, read), read
    if frame.implementation.is_dask():
        return partial(with_own, partial(with_nulls, bias, name, read), read), read
    column, lost = bias.expression.alias(name), lost_values(frame, read)

    def change(rows: LazyFrame) -> LazyFrame:
        return known_only(in_library(bias, rows, lambda own: own.with_columns(column)).lazy(), name, lost)

    return change, read
