"""Frames of Dask in partitions, and what its computations bring back: tests that import it need Dask."""

from __future__ import annotations

import importlib

import pytest
from numpy.testing import assert_allclose

dask = pytest.importorskip("dask", reason="Dask's tests need it: pip install 'vardi[dask]'")
dd = pytest.importorskip("dask.dataframe")
Delayed = importlib.import_module("dask.delayed").Delayed


def in_this_thread():
    """Compute partitions one after another, while it is open."""
    return dask.config.set(scheduler="synchronous")


def computed(monkeypatch):
    """Return a list to which each computation of Dask adds how many rows it brought back."""
    found = []

    def spied(compute):
        def kept(self, *arguments, **options):
            answer = compute(self, *arguments, **options)
            found.append(1 if answer is None else len(answer))
            return answer

        return kept

    for kind in (Delayed, dd.DataFrame):
        monkeypatch.setattr(kind, "compute", spied(kind.compute))
    return found


def divided(table, size, empty=()):
    """Return a frame with so many rows in a partition, the same index in each, and some partitions without rows."""
    rows = table.to_pandas()
    pieces = [rows.iloc[start : start + size].reset_index(drop=True) for start in range(0, len(rows), size)]
    for place in empty:
        pieces.insert(place, rows.iloc[:0])
    return dd.from_map(lambda piece: piece, pieces, meta=rows.iloc[:0])


def same(found, expected):
    assert_allclose((found.value, found.stderr), (expected.value, expected.stderr), rtol=1e-8)
