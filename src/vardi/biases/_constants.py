"""Names of columns and single values as nodes of an expression."""

from __future__ import annotations

import datetime

import numpy as np

from vardi.biases._expressions.nodes import Column, Constant
from vardi.errors import InvalidBiasError

Scalar = bool | int | float | str | datetime.date | np.generic
"""A value that a column can be compared with; dates and times are written in ISO form."""


def column_named(name: object) -> Column:
    """Return a column by its name; raise if it is not a string."""
    if not isinstance(name, str):
        raise InvalidBiasError(f"A column is named by a string, not by {type(name).__name__}: {name!r}.")
    return Column(str(name))


def constant(value: object, what: str) -> Constant:
    """Return a number, a text, a truth value or a date as a constant; raise for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "isoformat"):  # dates and times are written as ISO texts
        value = value.isoformat()
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return Constant(kind(value))
    raise InvalidBiasError(f"{what} must be a number or a string, not {type(value).__name__}: {value!r}.")
