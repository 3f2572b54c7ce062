"""How users give a function of the rows: as a column, a text, or an expression of Polars or narwhals."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np

from vardi._inputs.frames.frame import Frame
from vardi.biases import Bias, FrameExpressionBias, as_bias, where
from vardi.biases._kinds import library_of

if TYPE_CHECKING:
    import narwhals as nw

Formula: TypeAlias = "str | nw.Expr"
"""A column, an expression as text, or a narwhals or Polars expression."""


def is_function(values: object) -> TypeGuard[Formula]:
    """Return whether values are given by a text or an expression, not as an array."""
    return isinstance(values, str) or library_of(values) is not None


def name_of(function: Formula) -> str:
    """Return the name of a function for messages and tables."""
    return function if isinstance(function, str) else str(FrameExpressionBias(function))


def bias_of(function: Formula, columns: Collection[str]) -> Bias:
    """Return a function in a form that can be evaluated; a text that is the name of a column is that column."""
    if isinstance(function, str):
        return where("`" + function.replace("`", "``") + "`" if function in columns else function)
    return as_bias(function)


def evaluated(function: Formula, frame: Frame, sample: str | None = None) -> np.ndarray:
    """Return the values of a function on the rows of a frame."""
    if isinstance(function, str) and function in frame.columns and frame.column(function).dtype.kind in "fiub":
        return frame.column(function)
    return frame.evaluate([bias_of(function, frame.columns)], sample, called="expression")[0]
