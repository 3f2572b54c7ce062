"""Dask, asked partition by partition: rows stay in them, and however they are divided, the answer is the same."""

from __future__ import annotations

import importlib
from functools import partialmethod

import cloudpickle
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import CASES
from engines import collected, local_engine
from numpy.testing import assert_allclose

import vardi
from vardi._inputs import partitions
from vardi._inputs.engines import LENGTH, Aggregate, AggregateQuery
from vardi._inputs.partitions import PartitionedFrame, aggregated
from vardi._rows import lazy_model
from vardi._rows.union import MANY

dask = pytest.importorskip("dask", reason="Dask's tests need it: pip install 'vardi[dask]'")
dd = pytest.importorskip("dask.dataframe")
Delayed = importlib.import_module("dask.delayed").Delayed

LENGTHS = CASES["lengths"]
NUMPY = local_engine("numpy")


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def answers(monkeypatch):
    """How many rows each computation of Dask brought back."""
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


def test_rows_stay_in_their_partitions(answers, monkeypatch):
    monkeypatch.setattr(lazy_model, "ROWS", 60)
    fit = vardi.debias({name: divided(table, 60) for name, table in LENGTHS.tables.items()}, LENGTHS.biases)
    fit.expectations(list(LENGTHS.means))
    assert len(answers) > 9
    assert max(answers) < 60  # of 80, 120 and 100
    answers.clear()
    indicators = CASES["houses"].fit(local_engine("dask"))
    assert max(answers) <= len(indicators.solved.rows) < 40  # of 370
    answers.clear()
    weights = fit.weights["seen"]
    assert isinstance(weights, dd.DataFrame)
    assert list(weights.columns) == ["id", "x", "k", "weight"]
    assert weights.npartitions == 2
    assert answers == []


@pytest.mark.parametrize("empty", [(), (0, 2, 5)], ids=["rows everywhere", "empty partitions"])
def test_any_division_into_partitions_gives_the_same(empty, monkeypatch):
    monkeypatch.setattr(PartitionedFrame, "answer", partialmethod(PartitionedFrame.answer, at_once=2))
    fit = vardi.debias({name: divided(table, 25, empty) for name, table in LENGTHS.tables.items()}, LENGTHS.biases)
    expected = LENGTHS.fit(NUMPY)
    same(fit.expectation("min(x, k)"), expected.expectation("min(x, k)"))
    same(fit.cdf("x")(1.5), expected.cdf("x")(1.5))
    assert fit.weights["seen"].npartitions == 5 + len(empty)


def test_threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        same(LENGTHS.fit(local_engine("dask")).expectation("x"), LENGTHS.fit(NUMPY).expectation("x"))


def test_tasks_can_be_sent_to_other_processes(monkeypatch):
    compute = Delayed.compute
    sent = []

    def on_another(self):
        sent.append(cloudpickle.dumps(self))
        return compute(cloudpickle.loads(sent[-1]))

    monkeypatch.setattr(Delayed, "compute", on_another)
    same(LENGTHS.fit(local_engine("dask")).expectation("x"), LENGTHS.fit(NUMPY).expectation("x"))
    assert sent


def test_only_columns_that_are_needed_are_read():
    read = set()

    def rows(piece, columns=None):
        read.update(piece.columns if columns is None else columns)
        return piece if columns is None else piece[columns]

    samples = {}
    for name, table in LENGTHS.tables.items():
        piece = table.to_pandas().assign(wide="text", other=1.0)
        samples[name] = dd.from_map(rows, [piece, piece], meta=piece.iloc[:0])
    fit = vardi.debias(samples, LENGTHS.biases)
    fit.expectation("min(x, k)", by="k")
    fit.cdf("x")(1.5)
    assert read == {"x", "k"}
    fit.weights["seen"].compute()
    assert read == {"id", "x", "k", "wide", "other"}


def test_what_a_partition_raises_is_an_error_of_the_sample():
    def gone(piece):
        raise FileNotFoundError("No such file: rows.parquet")

    table = LENGTHS.tables["plain"].to_pandas()
    samples = {"plain": dd.from_map(gone, [table, table], meta=table.iloc[:0])}
    with pytest.raises(vardi.EngineError, match="rows of sample 'plain' .FileNotFoundError: .*Check that the file"):
        vardi.debias(samples, {"plain": "x"})


@pytest.mark.filterwarnings("ignore:.* has [0-9]+ clusters")
def test_texts_that_name_rows_and_clusters_are_numbered_across_partitions():
    rng = np.random.default_rng(0)
    n = 120
    rows = pl.DataFrame(
        {
            "x": rng.gamma(3, size=n),
            "name": [f"row {place * 7919 % 1000:04d}" for place in range(n)],
            "home": [f"home {place % 29:02d}" for place in range(n)],
            "s": np.where(np.arange(n) < 50, "plain", "seen"),
        }
    )
    lazy = dd.from_pandas(rows.to_pandas(), npartitions=4)
    biases, code = {"plain": 1, "seen": "x"}, np.unique(rows["home"], return_inverse=True)[1]
    for depends, coded, identity in (({}, {}, "name"), ({"clusters": "home"}, {"clusters": code}, None)):
        found = vardi.debias(lazy, biases, source="s", **depends).replicate_weights(4, 3, id=identity)
        assert isinstance(found, dd.DataFrame)
        columns = [f"replicate_{r + 1}" for r in range(4)]
        order = rows.with_row_index("id").select("id", "name")
        numbers = found.compute().merge(order.to_pandas(), on="name").sort_values("id")[columns].to_numpy()
        ranked = rows.with_columns(pl.col("name").rank("ordinal").cast(pl.Int64) - 1)
        expected = vardi.debias(ranked, biases, source="s", **coded).replicate_weights(4, 3, id=identity)
        assert_allclose(numbers, expected.to_numpy(), rtol=1e-8)


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
        found = aggregated(self.frame(), AggregateQuery(["g"], asked)).collect().rows(named=True)
        told = {None if row["g"] != row["g"] else row["g"]: [row[name] for name in asked] for row in found}
        assert told == {"a": [3, 2, 5.0, 1.0, 3.0], "b": [2, 2, 2.0, 2.0, 2.0], None: [1, 1, 4.0, 4.0, 4.0]}

    def test_all_rows(self):
        asked = {"kinds": Aggregate("x", "n_unique"), "rows": LENGTH, "high": Aggregate("x", "max")}
        assert aggregated(self.frame(), AggregateQuery([], asked)).collect().row(0) == (5, 6, 4.0)

    def test_no_partition_answers_with_more_groups_than_are_asked_for(self, monkeypatch):
        answered = []
        together = partitions._together
        monkeypatch.setattr(partitions, "_together", lambda *given: answered.append(given[-1]) or together(*given))
        found = aggregated(self.frame(3), AggregateQuery(["x"], {"rows": LENGTH}, 2)).collect()
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


def test_the_weights_are_those_of_memory_in_the_order_of_the_frame():
    fit = vardi.debias({name: divided(table, 50) for name, table in LENGTHS.tables.items()}, LENGTHS.biases)
    rows = fit.weights["seen"].compute()
    assert rows["id"].tolist() == LENGTHS.tables["seen"].column("id").to_pylist()
    wanted = np.asarray(LENGTHS.fit(NUMPY).weights)[80:200]
    assert_allclose(rows["weight"], wanted, rtol=1e-9)
    assert_allclose(collected(fit.weights["seen"])["weight"], wanted, rtol=1e-9)


@pytest.mark.parametrize(
    "question",
    [
        lambda fit: [(one.value, one.stderr) for one in fit.expectations(["x", "x * x", "x > 0.5"])],
        lambda fit: [fit.cdf("x").quantile(0.3).value, fit.cdf("x").quantile(0.3).stderr],
        lambda fit: [fit.cdf("x").band().low, fit.cdf("x").band().high],
        lambda fit: list(fit.check_biases(["x"]).by_sample.values()),
        lambda fit: [fit.diagnostics().effective, *fit.diagnostics().overlap.ravel()],
        lambda fit: fit.sensitivity("x").linear_lower,
    ],
    ids=["means", "quantile", "band", "check", "diagnostics", "sensitivity"],
)
def test_many_frames_are_asked_as_one(question, answers, monkeypatch):
    monkeypatch.setattr(lazy_model, "ROWS", 300)
    rng, K = np.random.default_rng(3), MANY + 1
    biases = {f"s{k}": f"exp({k / K} * x)" for k in range(K)}
    tables = {name: pl.DataFrame({"x": rng.normal(k / K, 1.0, 200)}) for k, name in enumerate(biases)}
    rows = pl.concat([table.with_columns(label=pl.lit(name)) for name, table in tables.items()])
    fit = vardi.debias({name: divided(table, 200) for name, table in tables.items()}, biases)
    one = vardi.debias(divided(rows, 900), biases, source="label")
    answers.clear()
    found = question(fit)
    asked = len(answers)
    answers.clear()
    assert_allclose(found, question(one), rtol=1e-6, atol=1e-9)
    assert asked <= len(answers) + 2 * K  # frames are checked for missing values one by one
