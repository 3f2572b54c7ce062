"""The types of columns as texts: what a formula that travels says of the columns that it reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import vardi._narwhals as nw
from vardi.biases._compile import Kind, NumpyTarget
from vardi.errors import MismatchError

PLAIN = (
    *("Boolean", "String", "Categorical", "Date", "Datetime", "Float64", "Float32", "Decimal"),
    *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
)
OF_KINDS = {
    Kind.CONDITION: "Boolean",
    Kind.INTEGER: "Int64",
    Kind.FLOAT: "Float64",
    Kind.TEXT: "String",
    Kind.DATETIME: "Datetime",
}


def types_in(columns: Mapping[str, nw.dtypes.DType]) -> dict[str, str]:
    """Return the types of columns as texts.

    >>> import narwhals
    >>> types_in({"a": narwhals.Int32(), "b": narwhals.Datetime("us", "UTC"), "c": narwhals.Enum(["x"])})
    {'a': 'Int32', 'b': 'Datetime[UTC]', 'c': 'Categorical'}
    """
    return {name: _text(dtype) for name, dtype in columns.items()}


def types_of_arrays(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Return the types of columns that are arrays as texts.

    >>> types_of_arrays({"x": np.ones(2), "s": np.array(["a", "b"])})
    {'x': 'Float64', 's': 'String'}
    """
    target = NumpyTarget(arrays)
    return {name: OF_KINDS.get(target.kind(name), "Float64") for name in arrays}


def dtype_of(text: str) -> nw.dtypes.DType:
    """Return the type that a text names; raise for any other text.

    >>> dtype_of("Datetime[UTC]")
    Datetime(time_unit='us', time_zone='UTC')
    """
    name, _, zone = text.removesuffix("]").partition("[")
    if name not in PLAIN or (zone and name != "Datetime"):
        raise MismatchError(f"{text!r} is not the type of a column. The types are {', '.join(PLAIN)}.")
    return nw.Datetime("us", zone or None) if name == "Datetime" else getattr(nw, name)()


def _text(dtype: nw.dtypes.DType) -> str:
    if isinstance(dtype, nw.Datetime):
        return f"Datetime[{dtype.time_zone}]" if dtype.time_zone else "Datetime"
    name = str(dtype.base_type())
    return "Categorical" if name == "Enum" else name
