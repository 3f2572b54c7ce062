"""Replicate weights: what R, Stata and svy make of them, against refits and against the errors of the fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from pools import gammas, gammas_fit
from scipy.signal import lfilter

import vardi

KINDS = {"bayesian": 1000, "rows": 1000, "jackknife": 200}
# Of an error by n replicates: 1 / sqrt(2n); of those of 1,000 and of 1,000 draws three deviations are 9.5%, of 200
# groups of rows, more of whose rows are in some than in others, about 20%.
MONTE_CARLO = {"bayesian": 0.095, "rows": 0.095, "jackknife": 0.2}


@pytest.fixture(scope="module")
def samples():
    return gammas()


@pytest.fixture(scope="module")
def pool(samples):
    return pl.concat(samples.values())


def error(statistic, weights, of_replicates, kind):
    """Return what survey software does: squares about the estimate, with the scale of the kind."""
    of_replicates = np.asarray(of_replicates)
    n = of_replicates.shape[1]
    found = np.array([statistic(of_replicates[:, r]) for r in range(n)]) - statistic(np.asarray(weights))
    return np.sqrt((found**2).sum(axis=0) * ((n - 1) / n if kind == "jackknife" else 1 / n))


def statistics(pool):
    x, y = pool["x"].to_numpy(), pool["y"].to_numpy()
    design, order = np.column_stack([np.ones(len(x)), x]), np.argsort(y)

    def slope(w):
        return np.linalg.solve(design.T @ (w[:, None] * design), design.T @ (w * y))[1]

    def median(w):
        mass = np.cumsum(w[order])
        return y[order][np.searchsorted(mass, mass[-1] / 2)]

    return {
        "mean": lambda w: w @ y / w.sum(),
        "ratio": lambda w: (w @ y) / (w @ x),
        "slope": slope,
        "median": median,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_those_of_refits_and_of_the_fit(samples, pool, kind):
    fit = gammas_fit(samples)
    made = fit.replicate_weights(KINDS[kind], kind=kind)
    for name, statistic in statistics(pool).items():
        if kind == "jackknife" and name == "median":
            continue  # for which it is known to fail
        found = error(statistic, fit.weights, made, kind)
        assert_allclose(found, fit.bootstrap(statistic, n=1000).stderr, rtol=MONTE_CARLO[kind], err_msg=name)
    found = error(statistics(pool)["mean"], fit.weights, made, kind)
    assert_allclose(found, fit.expectation("y").stderr, rtol=MONTE_CARLO[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["known values", "parameters", "both"])
def test_errors_know_of_parameters_and_of_known_values(samples, pool, part, kind):
    fit = gammas_fit(samples, part)
    y = pool["y"].to_numpy()
    found = error(lambda w: w @ y / w.sum(), fit.weights, fit.replicate_weights(KINDS[kind], kind=kind), kind)
    assert_allclose(found, fit.expectation("y").stderr, rtol=MONTE_CARLO[kind])


def test_a_jackknife_leaves_every_row_out_once(samples):
    fit = gammas_fit(samples)
    made = np.asarray(fit.replicate_weights(20, kind="jackknife"))
    assert ((made == 0).sum(axis=1) == 1).all()
    assert ((made == 0).sum(axis=0) > 0).all()


def test_multipliers_hash_what_identifies_a_row_and_never_its_values(samples):
    other = {name: frame.with_columns(y=-pl.col("y")) for name, frame in samples.items()}
    first, second = (np.asarray(gammas_fit(one).replicate_weights(5, id="id")) for one in (samples, other))
    assert_allclose(first, second)
    by_place = np.asarray(gammas_fit(samples).replicate_weights(5))
    assert (np.abs(by_place / first - 1) > 1e-6).mean() > 0.99
    texts = {name: frame.with_columns(name=(pl.col("id") + 500).cast(str)) for name, frame in samples.items()}
    sorted_by_text = {name: frame.sort("name") for name, frame in texts.items()}
    by_text = np.asarray(gammas_fit(texts).replicate_weights(5, id="name"))
    expected = np.asarray(gammas_fit(sorted_by_text).replicate_weights(5))
    order = np.concatenate(
        [frame["name"].arg_sort().to_numpy() + at for frame, at in zip(texts.values(), (0, 300), strict=True)]
    )
    assert_allclose(by_text[order], expected, rtol=1e-9)


def test_they_come_in_the_user_s_library(samples):
    names = [f"replicate_{r}" for r in (1, 2, 3)]
    expected = gammas_fit(samples).replicate_weights(3)
    assert isinstance(expected, pl.DataFrame)
    assert expected.columns == names
    as_pandas = {name: frame.to_pandas().set_index("cluster") for name, frame in samples.items()}
    found = gammas_fit(as_pandas).replicate_weights(3)
    assert isinstance(found, pd.DataFrame)
    assert (found.index == pd.concat(as_pandas.values()).index).all()
    assert_allclose(found, expected)
    arrow = gammas_fit({name: frame.to_arrow() for name, frame in samples.items()}).replicate_weights(3)
    assert isinstance(arrow, pa.Table)
    assert arrow.column_names == names
    x = np.concatenate([frame["x"] for frame in samples.values()])
    source = np.repeat([0, 1], [300, 500])
    matrix = vardi.debias_matrix(np.column_stack([np.ones(800), x]), source).replicate_weights(3)
    assert isinstance(matrix, np.ndarray)
    assert matrix.shape == (800, 3)


@pytest.mark.parametrize("kind", ["bayesian", "rows"])
def test_series_count_in_batches(kind):
    rng = np.random.default_rng(0)
    runs = {name: lfilter([1], [1, -0.8], rng.normal(size=2000) * 0.6) + 0.5 * (name == "b") for name in "ab"}
    fit = vardi.debias(runs, {"a": 1, "b": "exp(x / 2)"}, series=True)
    x = np.concatenate(list(runs.values()))
    found = error(lambda w: w @ x / w.sum(), fit.weights, fit.replicate_weights(1000, kind=kind), kind)
    assert_allclose(found, fit.expectation("x").stderr, rtol=0.15)


@pytest.mark.parametrize("depends", [{"strata": "half"}, {"population": 1200}], ids=str)
def test_strata_and_finite_populations(samples, pool, depends):
    split = {name: frame.with_columns(half=pl.col("x") > 3) for name, frame in samples.items()}
    fit = gammas_fit(split, **depends)
    for kind in ("bayesian", "rows"):
        made = np.asarray(fit.replicate_weights(1000, kind=kind))
        found = error(statistics(pool)["mean"], fit.weights, made, kind)
        assert_allclose(found, fit.expectation("y").stderr, rtol=MONTE_CARLO[kind])
    lazy = gammas_fit({name: frame.lazy() for name, frame in split.items()}, **{**depends, "strata": None})
    if "population" in depends:
        with pytest.raises(vardi.NeedsRowsError, match="within strata, or of finite populations, needs rows in memory"):
            lazy.replicate_weights(3)


def test_counts(samples, pool):
    counts = np.random.default_rng(2).integers(1, 6, 800)
    fit = gammas_fit(samples, counts={"plain": counts[:300], "seen": counts[300:]})
    y = pool["y"].to_numpy()
    for kind in ("bayesian", "rows"):
        made = np.asarray(fit.replicate_weights(500, kind=kind))
        assert_allclose(counts @ made / counts.sum(), 1.0)
        found = error(lambda w: (w * counts) @ y / (w @ counts), fit.weights, made, kind)
        assert_allclose(found, fit.expectation("y").stderr, rtol=MONTE_CARLO[kind])


def test_windows_of_single_rows_are_drawn_from_the_pool():
    rng = np.random.default_rng(0)
    x, low = rng.gamma(3, size=120), rng.gamma(2, size=120)
    x, low = x[x >= low], low[x >= low]
    windows = vardi.Windows(x, low, np.full(len(x), np.inf))
    fit = vardi.debias_matrix(windows, np.arange(len(x)))
    for kind in ("bayesian", "rows"):
        found = error(lambda w: w @ x / w.sum(), fit.weights, fit.replicate_weights(1000, kind=kind), kind)
        assert_allclose(found, fit.expectation(x).stderr, rtol=0.12)  # the first order alone, with 90 rows


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
@pytest.mark.parametrize("labels", [False, True])
def test_samples_that_are_left_out_weigh_nothing(labels):
    rng = np.random.default_rng(0)
    tables = {
        "far": pl.DataFrame({"x": rng.uniform(7, 9, 5)}),
        "a": pl.DataFrame({"x": rng.uniform(0, 3, 40)}),
        "b": pl.DataFrame({"x": rng.uniform(0, 5, 30)}),
    }
    biases = {"a": "x <= 3", "b": "x <= 5", "far": "x > 7"}
    options = {"source": "s"} if labels else {}
    given = pl.concat([t.with_columns(s=pl.lit(name)) for name, t in tables.items()]) if labels else tables
    memory = vardi.debias(given, biases, on_unidentified="largest", **options)
    made = np.asarray(memory.replicate_weights(4))
    assert (made[:5] == 0).all()
    assert_allclose(made[5:].mean(axis=0), 1.0)
    lazy = given.lazy() if labels else {name: table.lazy() for name, table in tables.items()}
    found = vardi.debias(lazy, biases, on_unidentified="largest", **options).replicate_weights(4)
    found = found.collect() if labels else pl.concat([found[name].collect() for name in tables])
    assert_allclose(found.select("^replicate_.*$").to_numpy(), made, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": 1}, "1 replicates have no spread. Give a whole number of 2 or more"),
        ({"n": 2.5}, "2.5 replicates have no spread"),
        ({"kind": "brr"}, "kind is 'brr'. Give 'bayesian' .*, 'rows' .* or 'jackknife'"),
        ({"n": 801, "kind": "jackknife"}, "801 groups cannot be made of 800 units .*Give 800 or fewer"),
        ({"id": "key"}, "There is no column 'key' that identifies rows. Name one of 'x', 'y', 'id'"),
    ],
)
def test_what_is_refused(samples, options, said):
    with pytest.raises(vardi.MismatchError, match=said):
        gammas_fit(samples).replicate_weights(**{"n": 10, **options})


def test_a_matrix_has_no_column_that_identifies_rows():
    fit = vardi.debias_matrix(np.ones((4, 1)), np.zeros(4, int))
    with pytest.raises(vardi.MismatchError, match="no column 'id' that identifies rows. Leave it out"):
        fit.replicate_weights(3, id="id")


def test_a_thin_bridge_is_told():
    rng = np.random.default_rng(0)
    low, high = rng.uniform(0, 1, 300), rng.uniform(1, 2, 300)
    samples = {"low": pl.DataFrame({"x": low}), "high": pl.DataFrame({"x": np.append(high, [0.5, 0.6])})}
    fit = vardi.debias(samples, {"low": "x <= 1", "high": 1})
    with pytest.warns(vardi.WeakOverlapWarning, match="of 50 replicates move the weights so far"):
        fit.replicate_weights(50)
    lazy = vardi.debias({name: frame.lazy() for name, frame in samples.items()}, {"low": "x <= 1", "high": 1})
    with pytest.warns(vardi.WeakOverlapWarning, match="of 50 replicates move the weights so far"):
        lazy.replicate_weights(50)


def test_weights_have_mean_1_and_samples_their_sizes(samples):
    fit = gammas_fit(samples)
    assert_allclose(np.asarray(fit.replicate_weights(30, kind="rows")).mean(axis=0), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_count_whole(samples, pool, kind):
    fit = gammas_fit(samples, clusters="cluster")
    n = 80 if kind == "jackknife" else 1000
    made = np.asarray(fit.replicate_weights(n, 0, kind=kind))
    found = error(statistics(pool)["mean"], fit.weights, made, kind)
    assert_allclose(found, fit.bootstrap("y", n=1000).stderr, rtol=0.25 if kind == "jackknife" else MONTE_CARLO[kind])
    assert_allclose(found, fit.expectation("y").stderr, rtol=0.25 if kind == "jackknife" else MONTE_CARLO[kind])
    assert found > 1.2 * gammas_fit(samples).expectation("y").stderr


def test_a_replicate_depends_on_the_seed_and_its_number_alone(samples):
    fit = gammas_fit(samples)
    done = []
    whole = np.asarray(fit.replicate_weights(40, progress=lambda i, n: done.append((i, n))))
    assert done == [(40, 40)]
    assert_allclose(np.asarray(fit.replicate_weights(10)), whole[:, :10], rtol=1e-12)
    assert (np.abs(np.asarray(fit.replicate_weights(40, 1)) / whole - 1) > 1e-6).mean() > 0.99


def test_a_sample_that_a_replicate_leaves_out_is_left_as_it_is():
    samples = {"plain": pl.DataFrame({"x": [2.0]}), "seen": pl.DataFrame({"x": np.linspace(1.0, 4.0, 60)})}
    fit = gammas_fit(samples)
    lazy = gammas_fit({name: frame.lazy() for name, frame in samples.items()})
    for kind in ("rows", "jackknife"):
        found = pl.concat([frame.collect() for frame in lazy.replicate_weights(10, kind=kind).values()])
        made = fit.replicate_weights(10, kind=kind)
        assert_allclose(found.select(made.columns).to_numpy(), made.to_numpy(), rtol=1e-9)
