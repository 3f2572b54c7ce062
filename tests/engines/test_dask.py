"""Dask, asked partition by partition: rows stay in them, and however they are divided, the answer is the same."""

from __future__ import annotations

import cloudpickle
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from cases import CASES
from dask_frames import Delayed, computed, dask, dd, divided, in_this_thread, same
from engines import collected, local_engine
from numpy.testing import assert_allclose

import vardi

LENGTHS = CASES["lengths"]
NUMPY = local_engine("numpy")


@pytest.fixture(autouse=True)
def _in_this_thread():
    with in_this_thread():
        yield


@pytest.fixture
def answers(monkeypatch):
    """How many rows each computation of Dask brought back."""
    return computed(monkeypatch)


def test_rows_stay_in_their_partitions(answers):
    rng, n = np.random.default_rng(0), 150_000  # twice as many as are brought into memory at most
    tables = {
        name: pa.table({"id": np.arange(n), "x": rng.gamma(k, size=n)}) for k, name in ((2, "plain"), (3, "seen"))
    }
    fit = vardi.debias({name: divided(table, 80_000) for name, table in tables.items()}, {"plain": 1, "seen": "x"})
    fit.expectations(["x", "x > 2"])
    assert len(answers) > 6
    assert max(answers) < 120_000
    assert sorted(answers)[-3] < 10
    answers.clear()
    CASES["houses"].fit(local_engine("dask"))
    assert max(answers) < 40  # of 370
    answers.clear()
    weights = fit.weights["seen"]
    assert isinstance(weights, dd.DataFrame)
    assert list(weights.columns) == ["id", "x", "weight"]
    assert weights.npartitions == 2
    assert answers == []


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


def test_the_weights_are_those_of_memory_in_the_order_of_the_frame():
    fit = vardi.debias({name: divided(table, 50) for name, table in LENGTHS.tables.items()}, LENGTHS.biases)
    rows = fit.weights["seen"].compute()
    assert rows["id"].tolist() == LENGTHS.tables["seen"].column("id").to_pylist()
    wanted = np.asarray(LENGTHS.fit(NUMPY).weights)[80:200]
    assert_allclose(rows["weight"], wanted, rtol=1e-9)
    assert_allclose(collected(fit.weights["seen"])["weight"], wanted, rtol=1e-9)
