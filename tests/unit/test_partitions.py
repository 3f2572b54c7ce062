"""What Dask is asked of each partition, and how the answers are put together."""

from __future__ import annotations

from functools import partialmethod

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import CASES
from dask_frames import computed, dd, divided, in_this_thread, same
from engines import local_engine
from numpy.testing import assert_allclose

import vardi
from vardi._inputs import partitions
from vardi._inputs.engines import LENGTH, Aggregate, AggregateQuery
from vardi._inputs.partitions import PartitionedFrame, aggregated
from vardi._rows import lazy_model, queries


@pytest.fixture(autouse=True)
def _in_this_thread():
    with in_this_thread():
        yield


@pytest.fixture
def answers(monkeypatch):
    """How many rows each computation of Dask brought back."""
    return computed(monkeypatch)


LENGTHS = CASES["lengths"]


@pytest.mark.parametrize("empty", [(), (0, 2, 5)], ids=["rows everywhere", "empty partitions"])
def test_any_division_into_partitions_gives_the_same(empty, monkeypatch):
    monkeypatch.setattr(PartitionedFrame, "answer", partialmethod(PartitionedFrame.answer, at_once=2))
    fit = vardi.debias({name: divided(table, 25, empty) for name, table in LENGTHS.tables.items()}, LENGTHS.biases)
    expected = LENGTHS.fit(local_engine("numpy"))
    same(fit.expectation("min(x, k)"), expected.expectation("min(x, k)"))
    same(fit.cdf("x")(1.5), expected.cdf("x")(1.5))
    assert fit.weights["seen"].npartitions == 5 + len(empty)


class TestAggregates:
    rows = pd.DataFrame({"g": ["a", "b", "a", None, "b", "a"], "x": [1.0, 2.0, 1.0, 4.0, np.nan, 3.0]})

    def frame(self, size=2):
        pieces = [self.rows.iloc[start : start + size] for start in range(0, len(self.rows), size)]
        return PartitionedFrame(dd.from_map(lambda piece: piece, pieces, meta=self.rows.iloc[:0]), narrow=True)

    def test_groups(self):
        asked = {
            "rows": LENGTH,
            "kinds": Aggregate("x", "n_unique"),
            "sum": Aggregate("x"),
            "low": Aggregate("x", "min"),
            "high": Aggregate("x", "max"),
        }
        found = aggregated(self.frame(), AggregateQuery(["g"], asked)).rows(named=True)
        told = {None if row["g"] != row["g"] else row["g"]: [row[name] for name in asked] for row in found}
        assert told == {"a": [3, 2, 5.0, 1.0, 3.0], "b": [2, 2, 2.0, 2.0, 2.0], None: [1, 1, 4.0, 4.0, 4.0]}

    def test_all_rows(self):
        asked = {"kinds": Aggregate("x", "n_unique"), "rows": LENGTH, "high": Aggregate("x", "max")}
        assert aggregated(self.frame(), AggregateQuery([], asked)).row(0) == (5, 6, 4.0)

    def test_no_partition_answers_with_more_groups_than_are_asked_for(self, monkeypatch):
        answered = []
        together = partitions._together
        monkeypatch.setattr(partitions, "_together", lambda *given: answered.append(given[-1]) or together(*given))
        found = aggregated(self.frame(3), AggregateQuery(["x"], {"rows": LENGTH}, 2))
        assert len(found) == 2
        assert [len(one) for one in answered[0]] == [2, 2]

    def test_places_in_an_order(self):
        numbered = self.frame().with_row_index("place", order_by="x").collect().rows(named=True)
        assert [row["place"] for row in numbered] == list(range(6))
        assert [row["x"] for row in numbered][:5] == [1.0, 1.0, 2.0, 3.0, 4.0]
        by = self.frame().filter(nw.col("x") > 0).with_row_index("place", order_by="x", by=["g"]).collect()
        placed = {(row["g"], row["x"]): row["place"] for row in by.rows(named=True) if row["g"] in ("a", "b")}
        assert placed[("b", 2.0)] == 0
        assert placed[("a", 3.0)] == 2


QUESTIONS = {
    "means": lambda fit: [(one.value, one.stderr) for one in fit.expectations(["x", "x * x", "x > 0.5"])],
    "band": lambda fit: [fit.cdf("x").band().low, fit.cdf("x").band().high],
    "diagnostics": lambda fit: [fit.diagnostics().effective, *fit.diagnostics().overlap.ravel()],
}


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")  # of few rows that weigh most
def test_many_frames_are_asked_as_one(answers, monkeypatch):
    monkeypatch.setattr(lazy_model, "ROWS", 300)
    monkeypatch.setattr(queries, "FRAMES", 3)
    rng, K = np.random.default_rng(3), 3
    biases = {f"s{k}": f"exp({k / K} * x)" for k in range(K)}
    tables = {name: pl.DataFrame({"x": rng.normal(k / K, 1.0, 200)}) for k, name in enumerate(biases)}
    rows = pl.concat([table.with_columns(label=pl.lit(name)) for name, table in tables.items()])
    fit = vardi.debias({name: divided(table, 200) for name, table in tables.items()}, biases)
    one = vardi.debias(divided(rows, 300), biases, source="label")
    for question in QUESTIONS.values():
        answers.clear()
        found = question(fit)
        asked = len(answers)
        answers.clear()
        assert_allclose(found, question(one), rtol=1e-6, atol=1e-9)
        assert asked <= len(answers) + 2 * K  # frames are checked for missing values one by one
