"""A table of three samples in Parquet, and biases of both kinds: conditions, and numbers that vary with every row."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 1_000_000  # rows generated and written at once
CONDITIONS = {"agency": "x <= 0.6", "panel": "y >= 0.3", "survey": "x >= 0.2"}
# Not the biases with which the rows were drawn: what is measured does not depend on that.
NUMBERS = {"agency": "1", "panel": "x + 0.1", "survey": "(x + 0.1)**2"}
BIASES = {"conditions": CONDITIONS, "numbers": NUMBERS}


def write_table(path: Path, n: int, seed: int = 85) -> None:
    """Write n rows of three samples of uniform x and y, each drawn through its bias, in chunks of bounded memory."""
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    rng = np.random.default_rng(seed)
    writer = None
    for start in range(0, n, CHUNK):
        table = pa.table(_drawn(rng, min(CHUNK, n - start), pa))
        writer = parquet.ParquetWriter(path, table.schema) if writer is None else writer
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _drawn(rng: np.random.Generator, n: int, pa: Any) -> Mapping[str, Any]:
    kind, x, y = rng.integers(3, size=n), rng.random(n), rng.random(n)
    return {
        "source": pa.DictionaryArray.from_arrays(kind, list(CONDITIONS)).dictionary_decode(),
        "x": np.select([kind == 0, kind == 2], [0.6 * x, 0.2 + 0.8 * x], x),
        "y": np.where(kind == 1, 0.3 + 0.7 * y, y),
    }
