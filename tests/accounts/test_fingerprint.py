"""The hash of the rows: of texts from their codes, as one by one."""

import hashlib

import numpy as np
import pandas as pd
import polars as pl
import pytest

import vardi
from vardi._facts.fingerprint import fingerprint

TEXTS = ["north", "süd", "", None, "ÿ", "east"]


def frames(make):
    rng = np.random.default_rng(0)
    return {
        name: make({"x": rng.gamma(2.0, size=500), "t": [TEXTS[k] for k in rng.integers(0, len(TEXTS), 500)]})
        for name in ("a", "b")
    }


def plain_hash(fit):
    """Hash value by value, as the docstring says."""
    pool, found = fit.solved.pool, hashlib.sha256()
    for name in pool.names:
        found.update(name.encode() + b"\0")
    found.update(pool.source.astype("<i8").tobytes())
    for column in ("x", "t"):
        found.update(column.encode() + b"\0")
        for frame in pool.frames:
            for value in frame.column(column).tolist():
                if column == "x":
                    found.update(np.float64(value).tobytes())
                else:
                    found.update((value if isinstance(value, str) else "\1").encode() + b"\0")
    return found.hexdigest()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("rows", [50_000, 7])
def test_texts_are_hashed_as_one_by_one(make, rows):
    fit = vardi.debias(frames(make), {"a": "1", "b": "x"})
    assert fingerprint(fit.solved.pool, ["x", "t"], rows).digest == plain_hash(fit)
