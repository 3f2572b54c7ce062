"""Packaged CSV files -> structured array -> a frame of the library asked for."""

from __future__ import annotations

import importlib
import io
import lzma
from importlib.resources import files
from typing import Any, Literal, TypeAlias, get_args

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi.errors import MismatchError, suggest

Table: TypeAlias = NDArray[np.void]
Backend: TypeAlias = Literal["pandas", "polars", "pyarrow", "numpy"]

BACKENDS: tuple[str, ...] = get_args(Backend)
MISSING = "?"


def read_table(name: str, types: dict[str, str]) -> Table:
    """Read a CSV file of this package; ``types`` are the columns and their NumPy types, in the order of the file."""
    content = files("vardi.datasets").joinpath("data", name).read_bytes()
    if name.endswith(".xz"):
        content = lzma.decompress(content)
    return np.loadtxt(io.BytesIO(content), dtype=list(types.items()), delimiter=",", comments=None, skiprows=1)


def require_backend(backend: str) -> None:
    """Raise unless this backend is known and installed."""
    if backend not in BACKENDS:
        raise MismatchError(
            f"There is no backend {backend!r}. There are {', '.join(BACKENDS)}.{suggest(backend, BACKENDS)}"
        )
    if backend == "numpy":
        return
    try:
        importlib.import_module(backend)
    except ImportError as error:
        raise ImportError(
            f"backend={backend!r} needs the library {backend}, which cannot be imported here. "
            f"Run `pip install {backend}`, or pass backend='numpy', which needs no frame library.",
            name=backend,
        ) from error


def as_table(table: Table, backend: Backend) -> Any:
    """Make a frame with nulls for missing text; ``"numpy"`` leaves the structured array as it is."""
    require_backend(backend)
    if backend == "numpy":
        return table
    columns = {name: _nullable(table[name]) for name in table.dtype.names or ()}
    return nw.from_dict(columns, backend=backend).to_native()


def _nullable(values: NDArray[Any]) -> Any:
    if values.dtype.kind == "U":
        return [None if value == MISSING else value for value in values.tolist()]
    return np.ascontiguousarray(values)
