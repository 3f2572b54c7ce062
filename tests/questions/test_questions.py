"""Every question of every holder of rows, with each part and each dependence, has its stored answer or refusal."""

from __future__ import annotations

import os

import numpy as np
import pytest
from holders import DEPENDENCES, HOLDERS, PARTS
from questions import difference, differences, digest

MATRICES = ("matrix in memory", "windows as a matrix", "sparse", "windows", "blocks")


def asks_most(name):
    """Return the part with which a holder is asked about rows that depend on one another."""
    if name in MATRICES:
        return "known values"
    return "none" if name in ("truncated rows", "DuckDB") else "both"  # Polars, which is quicker to ask, has both


def is_sampled(name, part, dependence):
    """Return which cells every run asks for: of engines, which are slow to ask, those with no part and with both."""
    if dependence == "independent":
        parts = {"DuckDB": ("none", "learned")}.get(name, ("none", "both", "learned"))
        return HOLDERS[name].kind != "engine" or part in parts
    none = ("conditions in memory", "Polars, distinct rows")  # distinct rows are compared with the same numbers
    few = {"DuckDB": ("clusters",), "truncated rows": ("clusters",)} | dict.fromkeys(none, ())
    return dependence in few.get(name, DEPENDENCES) and part == asks_most(name)


CELLS = [  # `make slow` asks for all
    (name, part, dependence)
    for name, holder in HOLDERS.items()
    if holder.build is not None
    for part in PARTS
    for dependence in DEPENDENCES
    if "VARDI_EVERY_PAIR" in os.environ or is_sampled(name, part, dependence)
]


@pytest.mark.parametrize(("name", "part", "dependence"), CELLS, ids=map("-".join, CELLS))
def test_every_answer_is_the_stored_one(name, part, dependence):
    assert differences(name, part, dependence) == []


def test_a_digest_tells_columns_apart():
    column = np.linspace(0.5, 2.0, 400)
    swapped, nudged = column.copy(), column.copy()
    swapped[[100, 101]] = swapped[[101, 100]]
    nudged[200] += 1e-5
    same = digest(column).tolist()
    assert difference(digest(column * (1 + 1e-12)).tolist(), same) == ""
    for other in (swapped, nudged, column[:-1], column[::-1]):
        assert "numbers" in difference(digest(other).tolist(), same)


def test_differences_are_in_numbers_lengths_and_reasons():
    assert difference([1.0, np.nan], [1.0 + 1e-9, np.nan]) == ""
    assert difference([1.0, 2.0], [1.0, 2.0002]) == "1 of 2 numbers, at most by 0.0001: 2.0 for 2.0002"
    assert difference([1.0, 2.0], [1.0, np.nan]) == "1 of 2 numbers, at most by inf: 2.0 for nan"
    assert difference([1.0], [1.0, 2.0]) == "1 numbers in place of 2"
    assert difference("It needs rows", [1.0]) == "'It needs rows' in place of 1 numbers"
    assert difference([1.0], None) == "1 numbers in place of nothing"
    assert difference("It needs rows", "It needs rows") == ""
