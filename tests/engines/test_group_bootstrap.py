"""Bootstrap of rows in an engine: sums within groups against rows in memory, steps against refits, errors in words."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from pools import PARTS, gammas, grouped_fit

import vardi


@pytest.fixture(scope="module")
def samples():
    return gammas()


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
@pytest.mark.parametrize("part", PARTS)
def test_errors_are_those_of_memory(samples, part):
    """400 draws: the error of a standard error is 3.5%, that of some 800 groups less."""
    fit, memory = grouped_fit(samples, part, lazy=True), grouped_fit(samples, part, lazy=False)
    found = fit.bootstrap(["x", "y"], n=400)
    assert found.failed == 0
    assert_allclose(found.stderr, memory.expectations(["x", "y"]).stderr, rtol=0.12)
    logs = [estimate.stderr for estimate in memory.log_normalisers().values()]
    assert_allclose(found.log_omegas.std(axis=0)[1:], logs[1:], rtol=0.15)
    rows = fit.bootstrap("y", n=400, kind="rows", seed=2)
    assert_allclose(rows.stderr, memory.expectation("y").stderr, rtol=0.12)


def test_groups_of_a_column_are_drawn_whole(samples):
    fit, memory = grouped_fit(samples, "none", lazy=True), grouped_fit(samples, "none", lazy=False)
    found, wanted = (one.bootstrap("y", n=400, groups="cluster") for one in (fit, memory))
    assert_allclose(found.stderr, wanted.stderr, rtol=0.12)
    assert found.stderr > 1.2 * fit.bootstrap("y", n=400).stderr


def test_a_draw_depends_on_the_seed_and_its_number_alone(samples):
    fit = grouped_fit(samples, "none", lazy=True)
    done = []
    first = fit.bootstrap("y", n=20, progress=lambda i, n: done.append((i, n)))
    assert_allclose(fit.bootstrap("y", n=10).values, first.values[:10])
    assert (fit.bootstrap("y", n=10, seed=1).values != first.values[:10]).all()
    assert done[-1] == (20, 20)


def test_duckdb_needs_a_column_that_identifies_rows_and_then_draws_the_same(samples):
    connection = duckdb.connect()
    tables = {}
    for name, frame in samples.items():
        connection.register(f"rows_{name}", frame.to_arrow())
        tables[name] = connection.table(f"rows_{name}")
    fit = vardi.debias(tables, {"plain": 1, "seen": "x"})
    with pytest.raises(vardi.errors.NeedsRowsError, match=r"A bootstrap without a column that identifies rows \(id=\)"):
        fit.bootstrap("y", n=10)
    polars = vardi.debias({name: frame.lazy() for name, frame in samples.items()}, {"plain": 1, "seen": "x"})
    assert_allclose(fit.bootstrap("y", n=10, id="id").values, polars.bootstrap("y", n=10, id="id").values, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"statistic": np.mean}, "NeedsRowsError", "A bootstrap of a function of the weights needs rows in memory"),
        ({"statistic": np.ones(800)}, "NeedsRowsError", "values that are not columns"),
        ({"groups": np.ones(800)}, "NeedsRowsError", "groups that are not a column"),
        ({"groups": "clusters"}, "MismatchError", "No column 'clusters' with groups.*Did you mean 'cluster'"),
        ({"groups": "id"}, "MismatchError", "Group -?[0-9]+ has rows in 'plain' and in 'seen'"),
    ],
)
def test_what_is_refused(samples, options, error, said):
    fit = grouped_fit(samples, "none", lazy=True)
    with pytest.raises(getattr(vardi.errors, error), match=said):
        fit.bootstrap(**{"statistic": "y", "n": 10, **options})


def test_rows_that_stand_for_several_are_refused(samples):
    counted = {name: frame.with_columns(n=pl.lit(2)).lazy() for name, frame in samples.items()}
    fit = vardi.debias(counted, {"plain": 1, "seen": "x"}, counts="n")
    with pytest.raises(vardi.errors.NeedsRowsError, match="where rows have counts"):
        fit.bootstrap("y", n=10)


def test_rows_without_a_group_are_counted(samples):
    given = {
        name: frame.with_columns(pl.when(pl.int_range(pl.len()) > 2).then("cluster").alias("cluster")).lazy()
        for name, frame in samples.items()
    }
    fit = vardi.debias(given, {"plain": 1, "seen": "x"})
    with pytest.raises(vardi.errors.MissingValuesError, match="6 rows have no group"):
        fit.bootstrap("y", n=10, groups="cluster")
