"""Replicate weights of rows in an engine: columns that stay there, equal to those of memory."""

from __future__ import annotations

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi

KINDS = ("bayesian", "rows", "jackknife")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    sizes = {"plain": 12, "seen": 200, "other": 90}  # the first so few that its multipliers are spread more
    pieces = [
        pl.DataFrame(
            {
                "x": rng.gamma(4 if name == "seen" else 3, size=n),
                "s": [name] * n,
                "cluster": np.arange(n) // 4 + 100 * k,
            }
        )
        for k, (name, n) in enumerate(sizes.items())
    ]
    return pl.concat(pieces).with_columns(id=pl.int_range(pl.len()) * 7 - 400).sample(fraction=1, shuffle=True, seed=1)


BIASES = {"plain": 1, "seen": "x", "other": vardi.power("x")}


def weights(frame):
    return frame.select("^replicate_.*$").to_numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_one_frame_with_labels(rows, kind):
    expected = vardi.debias(rows, BIASES, source="s").replicate_weights(6, 3, kind=kind).to_numpy()
    found = vardi.debias(rows.lazy(), BIASES, source="s").replicate_weights(6, 3, kind=kind)
    assert isinstance(found, pl.LazyFrame)
    found = found.collect()
    assert found.columns == [*rows.columns, "weight", *(f"replicate_{r + 1}" for r in range(6))]
    assert_allclose(weights(found), expected, rtol=1e-8)
    table = duckdb.from_arrow(rows.to_arrow())
    made = vardi.debias(table, BIASES, source="s").replicate_weights(6, 3, kind=kind, id="id")
    assert isinstance(made, duckdb.DuckDBPyRelation)
    by_id = vardi.debias(rows, BIASES, source="s").replicate_weights(6, 3, kind=kind, id="id").to_numpy()
    assert_allclose(weights(made.pl().sort("id")), by_id[rows["id"].arg_sort().to_numpy()], rtol=1e-8)


@pytest.mark.filterwarnings("ignore:.* has [0-9]+ clusters")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counted", [False, True])
def test_clusters_count_whole(rows, kind, counted):
    rows = rows.with_columns(n=pl.col("id").abs() % 3) if counted else rows
    options = {"source": "s", **({"counts": "n"} if counted else {})}
    memory, lazy = (vardi.debias(one, BIASES, clusters="cluster", **options) for one in (rows, rows.lazy()))
    expected = memory.replicate_weights(5, 0, kind=kind)
    found = lazy.replicate_weights(5, 0, kind=kind).collect()
    belongs = (rows["n"] > 0).to_numpy() if counted else slice(None)
    assert_allclose(weights(found)[belongs], expected.to_numpy()[belongs], rtol=1e-8)


@pytest.mark.filterwarnings("ignore:.* has [0-9]+ clusters")
def test_clusters_that_are_texts_are_numbered_in_one_frame_and_refused_in_several(rows):
    named = rows.with_columns(c=pl.format("c{}", pl.col("cluster") + 1000))
    found = vardi.debias(named.lazy(), BIASES, source="s", clusters="c").replicate_weights(3, 0).collect()
    ratios = found.with_columns(pl.col("replicate_1") / pl.col("replicate_2")).group_by("c").len()
    assert len(ratios) == named["c"].n_unique()
    codes = np.unique(named["c"].to_numpy(), return_inverse=True)[1]
    memory = vardi.debias(named, BIASES, source="s", clusters=codes)
    assert_allclose(weights(found), memory.replicate_weights(3, 0), rtol=1e-8)
    apart = {name: named.filter(s=name).lazy() for name in BIASES}
    with pytest.raises(vardi.NeedsRowsError, match="clusters in several frames that are not whole numbers"):
        vardi.debias(apart, BIASES, clusters="c").replicate_weights(3)


def test_a_few_queries_ask_for_many_replicates_and_nothing_is_collected(rows, monkeypatch):
    """25 at a time: a query for their sums and one for their scale, for each frame. Answers are a row a sample."""
    fit = vardi.debias({name: rows.filter(s=name).lazy() for name in ("seen", "plain")}, {"plain": 1, "seen": "x"})
    fit.log_omega_covariance()  # which asks for the overlaps once
    asked, collect = [], nw.LazyFrame.collect

    def watched(*given, **options):
        answer = collect(*given, **options)
        asked.append(len(answer))
        return answer

    monkeypatch.setattr(nw.LazyFrame, "collect", watched)
    done = []
    found = fit.replicate_weights(60, progress=lambda i, n: done.append(i))
    assert asked == [1] * (2 * 2 * 3)
    assert done == [25, 50, 60]
    assert all(isinstance(frame, pl.LazyFrame) for frame in found.values())


def test_what_is_refused(rows):
    table = duckdb.from_arrow(rows.to_arrow())
    with pytest.raises(vardi.NeedsRowsError, match=r"Making replicate weights without a column that identifies rows"):
        vardi.debias(table, BIASES, source="s").replicate_weights(5)
    counted = vardi.debias(rows.with_columns(n=pl.lit(2)).lazy(), BIASES, source="s", counts="n")
    with pytest.raises(vardi.NeedsRowsError, match="Making replicate weights, where rows have counts"):
        counted.replicate_weights(5)
    taken = vardi.debias(rows.with_columns(replicate_2=pl.lit(0)).lazy(), BIASES, source="s")
    with pytest.raises(vardi.MismatchError, match="There is already a column 'replicate_2'"):
        taken.replicate_weights(5)
