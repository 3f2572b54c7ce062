"""Whether rows are in memory, or in an engine that is asked for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import vardi._narwhals as nw


def any_lazy(samples: Any) -> bool:
    """Return whether any of the samples is a lazy frame of an engine."""
    if isinstance(samples, Mapping):
        samples = list(samples.values())
    rows = samples if isinstance(samples, list | tuple) else [samples]
    return any(_is_lazy(one) for one in rows)


def _is_lazy(rows: Any) -> bool:
    if isinstance(rows, np.ndarray):
        return False
    try:
        return isinstance(nw.from_native(rows, pass_through=True, allow_series=True), nw.LazyFrame)
    except nw.exceptions.DuplicateError:  # as_frame raises our own error for it
        return False
