"""The part that rows have in their own fit: against derivatives, matrices, replication, engines and textbooks."""

from __future__ import annotations

import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import vardi

SHARES = dict(zip("abcd", [0.35, 0.35, 0.2, 0.1], strict=True))


def frames():
    rng = np.random.default_rng(1)
    one = pd.DataFrame(rng.normal(size=(70, 3)), columns=["x", "z", "noise"])
    one["y"] = one.x + one.z**2 + one.noise
    one["cell"] = rng.choice(list("abcd"), p=[0.4, 0.3, 0.2, 0.1], size=70)
    one["w"], one["cluster"] = np.exp(0.3 * rng.normal(size=70)), rng.integers(0, 9, 70)
    two = one.sample(40, random_state=2).reset_index(drop=True)
    return {"a": one, "b": two.assign(y=two.y + 1.0, cluster=two.cluster + 100)}


BIASES = {"a": 1, "b": "w"}
CASES = {
    "known": {"known": {"x": 0.0, "z": (0.1, 0.05)}},
    "parameters": {"biases": {"a": 1, "b": vardi.exponential_tilt("x")}, "known": {"z": 0.1}},
    "cells": {"biases": {"a": vardi.cells("cell"), "b": "w"}, "known": {"cell": SHARES}},
    "clusters": {"known": {"x": 0.0, "cell": SHARES}, "clusters": "cluster"},
    "population": {"biases": {"a": "w", "b": 1}, "population": {"a": 100}},
    "clusters of a population": {"biases": {"a": "w", "b": 1}, "population": {"a": 100}, "clusters": "cluster"},
    "population, known": {"biases": {"a": "w", "b": 1}, "population": {"a": 100}, "known": {"z": 0.1}},
}


def fitted(samples, biases=BIASES, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)
        return vardi.debias(samples, biases, **options)


def deviations(fit, values):
    """Return influence values less their means by sample."""
    tangent, source = fit.solved.tangent, fit.solved.tangent.measure.source
    phi = tangent.influence(values[:, None])[1].of_rows()[:, 0]
    return phi - np.array([phi[source == k].mean() for k in range(source.max() + 1)])[source]


def leverage_of(fit):
    """Return h of all rows."""
    leverage = fit.solved.tangent.leverage
    return leverage.measure.arrays.column(leverage.of, 1)[:, 0]


@pytest.mark.parametrize("case", ["known", "parameters", "cells"])
def test_leverage_is_how_much_a_row_moves_its_own_fit(case):
    fit = fitted(frames(), **CASES[case])
    r, y, h = fit.solved.tangent.measure.weights, fit.solved.memory.values("y"), leverage_of(fit)
    least = np.where(fit.solved.tangent.measure.source == 0, 1 / 70, 1 / 40)
    for row in (0, 11, 33, 70, 81, 109):
        moved = y + 1e-3 / r * (np.arange(len(y)) == row)
        slope = (deviations(fit, moved) - deviations(fit, y))[row] / 1e-3
        assert_allclose(h[row], max(1.0 - slope, least[row]), rtol=1e-8)


def test_in_cells_the_variance_is_that_of_post_stratification():
    rows = frames()["a"]
    fit = fitted({"a": rows}, {"a": 1}, known={"cell": SHARES})
    within = rows.groupby("cell").y.agg(["var", "count"])
    expected = sum(SHARES[cell] ** 2 * one["var"] / one["count"] for cell, one in within.iterrows())
    assert_allclose(fit.expectation("y").stderr ** 2, expected, rtol=1e-10)


def test_the_exponent_depends_on_the_part_of_the_rows_that_is_taken():
    rows = frames()["a"].iloc[:25].assign(cell=list("aabbccdd" * 3 + "a"))
    cells = fitted({"a": rows}, {"a": 1}, known={"cell": SHARES})
    means = fitted({"a": rows}, {"a": 1}, known={"x": 0.0, "z": 0.0, "noise": 0.0})
    few = fitted({"a": frames()["a"]}, {"a": 1}, known={"x": 0.0})
    assert [fit.solved.tangent.leverage.power() for fit in (cells, means, few)] == [1.0, 1.5, 1.0]


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@pytest.mark.parametrize("case", CASES)
def test_engines_give_the_same_errors(case):
    samples = frames()
    connection = duckdb.connect()
    lazy = {name: pl.from_pandas(rows).lazy() for name, rows in samples.items()}
    sql = {name: connection.from_df(rows) for name, rows in samples.items()}
    expected, *others = (fitted(rows, **CASES[case]) for rows in (samples, lazy, sql))
    questions = ["y", "y > 0.5", "noise"]
    for fit in others:
        for question in questions:
            wanted, found = expected.expectation(question), fit.expectation(question)
            assert_allclose([found.stderr, found.interval[0]], [wanted.stderr, wanted.interval[0]], rtol=1e-8)
        bands = [one.cdf("y").band(draws=50) for one in (expected, fit)]
        assert_allclose(bands[1].low, bands[0].low, atol=1e-8)


@pytest.mark.parametrize("case", ["known", "parameters", "cells", "population", "population, known"])
def test_bands_have_the_covariance_of_their_points(case):
    fit = fitted(frames(), **CASES[case])
    cdf = fit.cdf("y")
    grid, value = cdf._grid()
    _, influence = fit.solved.tangent.influence(cdf._steps.below(grid))
    assert_allclose(cdf._covariance_by_cells(grid, value), influence.covariance(), atol=1e-12)


def test_counts_are_replication():
    rows = frames()["a"]
    counts = np.random.default_rng(3).integers(1, 4, len(rows))
    known = {"x": 0.0, "cell": SHARES}
    counted = fitted({"a": rows}, {"a": 1}, known=known, counts=counts)
    repeated = fitted({"a": rows.loc[rows.index.repeat(counts)].reset_index(drop=True)}, {"a": 1}, known=known)
    assert_allclose(counted.expectation("y").stderr, repeated.expectation("y").stderr, rtol=1e-10)


def test_clusters_by_matrices():
    fit = fitted(frames(), **CASES["clusters"])
    leverage, measure = fit.solved.tangent.leverage, fit.solved.tangent.measure
    d = len(leverage.inverse) + 1
    fitted_part, moving = (measure.arrays.column(lambda block, j=j: leverage.parts(block)[j], d) for j in (0, 1))
    phi = deviations(fit, fit.solved.memory.values("y"))
    cluster, source = fit.solved.memory.values("cluster"), measure.source
    variance = 0.0
    for k in range(2):
        own = np.unique(cluster[source == k])
        for one in own:
            rows = cluster == one
            H = fitted_part[rows] @ moving[rows].T
            before, after = phi[rows].sum(), np.linalg.solve(np.eye(rows.sum()) - H, phi[rows]).sum()
            variance += len(own) / (len(own) - 1) * before**2 * max(after / before, 0.0) ** 1.5
    assert leverage.power(18) == 1.5
    assert_allclose(fit.expectation("y").stderr ** 2, variance / 110**2, rtol=1e-8)


def test_a_cell_of_one_row_borrows():
    rows = frames()["a"].iloc[:20].assign(cell=["a"] * 10 + ["b"] * 6 + ["c"] * 3 + ["d"])
    with pytest.warns(vardi.VardiWarning, match="1 row alone determines a known value, a parameter or a normaliser"):
        error = vardi.debias({"a": rows}, {"a": 1}, known={"cell": SHARES}).expectation("y").stderr
    within = rows.groupby("cell").y.agg(["var", "count"]).dropna()
    own = sum(SHARES[cell] ** 2 * one["var"] / one["count"] for cell, one in within.iterrows())
    weights = {cell: SHARES[cell] / n for cell, n in rows.cell.value_counts().items()}
    squares = sum(weights[cell] ** 2 for cell in rows.cell if cell != "d")
    assert_allclose(error**2, own * (1.0 + weights["d"] ** 2 / squares), rtol=1e-8)


def test_nothing_is_known_of_strata_of_one_row_each():
    rows = frames()["a"].iloc[[0, 1, 2, 3]].assign(cell=list("abcd"))
    with pytest.warns(vardi.VardiWarning) as caught:
        estimate = vardi.debias({"a": rows}, {"a": 1}, known={"cell": SHARES}).expectation("y")
    assert "These are all rows: no standard error is given" in str(caught[0].message)
    assert np.isnan(estimate.stderr)


def test_known_values_are_compared_by_the_law_of_hotelling():
    x = np.random.default_rng(0).normal(size=(40, 6))
    rows = pd.DataFrame(x, columns=list("abcdef"))
    check = fitted({"s": rows}, {"s": 1}, known=dict.fromkeys("abcdef", 0.0)).known
    squared = 40 * x.mean(axis=0) @ np.linalg.solve(np.cov(x.T), x.mean(axis=0))
    assert_allclose(check.statistic, squared, rtol=1e-9)
    assert check.freedom <= 39 + 1e-9
    p, f = 6, check.freedom
    assert_allclose(check.pvalue, stats.f.sf(squared * (f - p + 1) / (p * f), p, f - p + 1), rtol=1e-9)
    d = (1 / 39 / 40) * np.einsum(
        "ij,jk,ik->i", x - x.mean(axis=0), np.linalg.inv(np.cov(x.T) / 40), x - x.mean(axis=0)
    )
    assert_allclose(f, min(39.0, p * (p + 1) / ((d**2).sum() - p / 40)), rtol=1e-9)


def test_more_known_values_than_rows_can_test():
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(24, 3)), columns=list("abc"))
    rows["cluster"] = np.arange(24) // 8
    fit = fitted({"s": rows}, {"s": 1}, known=dict.fromkeys("abc", 0.0), clusters="cluster")
    assert np.isnan(fit.known.pvalue)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_census_has_no_error(lazy):
    rows = frames()["a"]
    given = pl.from_pandas(rows).lazy() if lazy else rows
    fit = vardi.debias({"a": given}, {"a": 1}, population=len(rows))
    estimates = [fit.expectation("y"), fit.expectation("y > 100"), fit.cdf("y").quantile(0.5), fit.cdf("y")(0.0)]
    assert [estimate.stderr for estimate in estimates] == [0.0] * 4
    assert all("exact: the whole population was seen" in str(estimate) for estimate in estimates)
    assert str(fit.expectation("y > 100")) == "0 (exact: the whole population was seen)"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:[0-9]+ of 2000 replicates move the weights so far")
@pytest.mark.parametrize("case", ["known", "cells"])
def test_draws_agree_with_errors(case):
    rows = frames()["a"]
    options = dict(CASES[case])
    biases = {"a": options.pop("biases", BIASES)["a"]}
    fit = fitted({"a": rows}, biases, **options)
    error = fit.expectation("y").stderr
    draws = 2000  # the Monte Carlo error of a deviation is 1.6%
    weights = np.asarray(fit.replicate_weights(draws, seed=1))
    means = rows.y.to_numpy() @ weights / weights.sum(axis=0)
    assert_allclose(means.std(), error, rtol=0.08)
    assert_allclose(fit.bootstrap("y", draws, seed=1).stderr, error, rtol=0.08)
