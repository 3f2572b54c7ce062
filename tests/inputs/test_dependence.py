"""What users say of how rows depend on one another, and the words they get where it does not fit."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import vardi

BIASES = {"a": 1, "b": "x"}


def frames(**columns):
    rng = np.random.default_rng(0)
    found = {}
    for name, n in (("a", 120), ("b", 160)):
        own = {what: values(name, n) for what, values in columns.items()}
        found[name] = pd.DataFrame({"x": rng.gamma(3 if name == "a" else 4, size=n), **own})
    return found


def refuse(match, error=vardi.MismatchError, samples=None, biases=BIASES, **depends):
    with pytest.raises(error, match=match):
        vardi.debias(frames() if samples is None else samples, biases, **depends)


DISTRICTS = {"district": lambda name, n: [f"{name}{row // 3}" for row in range(n)]}


def test_a_column_labels_and_a_mapping_say_the_same():
    samples = frames(**DISTRICTS)
    labels = np.concatenate([frame["district"] for frame in samples.values()])
    by_sample = {"a": "district", "b": samples["b"]["district"].to_numpy()}
    errors = {
        vardi.debias(samples, BIASES, clusters=clusters).expectation("x").stderr
        for clusters in ("district", labels, by_sample, {name: frame["district"] for name, frame in samples.items()})
    }
    assert len(errors) == 1


def test_one_frame_with_labels_of_samples():
    samples = frames(**DISTRICTS)
    pool = pd.concat([frame.assign(s=name) for name, frame in samples.items()], ignore_index=True)
    one = vardi.debias(pool, BIASES, source="s", clusters="district").expectation("x").stderr
    assert one == pytest.approx(vardi.debias(samples, BIASES, clusters="district").expectation("x").stderr, rel=1e-12)
    mixed = pool.sample(frac=1, random_state=0)
    assert vardi.debias(mixed, BIASES, source="s", clusters="district").expectation("x").stderr == pytest.approx(one)
    refuse("rows of samples are mixed", samples=mixed, source="s", clusters={"a": "district", "b": "district"})


def test_the_summary_says_it():
    fit = vardi.debias(frames(**DISTRICTS), BIASES, clusters="district")
    assert "rows        in 94 clusters of 'district'\n" in str(fit)
    assert "<b>rows</b> in 94 clusters of &#x27;district&#x27;" in fit._repr_html_()
    series = vardi.debias(frames(), BIASES, series=True)
    assert "rows        one after the other in time: worth 92 of 120 in a, 101 of 160 in b" in str(series)
    finite = vardi.debias(frames(), BIASES, population=1000)
    assert "rows        drawn from finite populations" in str(finite)


@pytest.mark.parametrize("what", ["clusters", "strata", "series"])
def test_an_unknown_column_is_named_with_the_nearest(what):
    refuse(
        rf"{what}= names column 'distrct', which not every sample has. .* Did you mean 'district'\?",
        samples=frames(**DISTRICTS),
        **{what: "distrct"},
    )


def test_a_column_of_some_samples_is_unknown():
    samples = frames(**DISTRICTS)
    samples["b"] = samples["b"].drop(columns="district")
    refuse("clusters= names column 'district', which not every sample has", samples=samples, clusters="district")
    refuse(
        "clusters= names column 'district', which not every sample has",
        samples=samples,
        clusters={"a": "district", "b": "district"},
    )


@pytest.mark.parametrize(
    ("clusters", "said"),
    [
        ([1.0, np.nan] * 140, "140 rows have no cluster, so it is unknown which rows they depend on"),
        (["x"] * 279 + [None], "1 row has no cluster, so it is unknown which rows they depend on"),
    ],
)
def test_missing_clusters(clusters, said):
    refuse(said, vardi.MissingValuesError, clusters=clusters)


def test_missing_strata_and_times():
    refuse("1 row has no stratum", vardi.MissingValuesError, strata=["s"] * 279 + [None])
    refuse("280 rows have no time, so their place", vardi.MissingValuesError, series=np.full(280, np.nan))


def test_shapes_and_names_that_do_not_fit():
    refuse(r"clusters has shape \(3,\), but the pool has 280 rows", clusters=[1, 2, 3])
    refuse(r"clusters is for 'a', but the samples are 'a', 'b'", clusters={"a": "x"})
    refuse(r"clusters of 'b' has shape \(2,\), but the sample has 160 rows", clusters={"a": "x", "b": [1, 2]})
    refuse("clusters holds values that cannot be labels", clusters=np.array([[1]] * 280 + [None], dtype=object)[:280])
    with pytest.raises(vardi.MismatchError, match=r"clusters= names column 'g'.* The rows have no columns"):
        vardi.debias_matrix(np.ones((4, 1)), [0] * 4, clusters="g")


def test_one_cluster_only():
    with pytest.warns(vardi.VardiWarning, match="All rows of 'b' are in one cluster of 'g', so how much"):
        fit = vardi.debias(frames(g=lambda name, n: np.arange(n) * (name == "a")), BIASES, clusters="g")
    with pytest.warns(vardi.WeakOverlapWarning, match="No standard error is given for the mean of 'x'"):
        estimate = fit.expectation("x")
    assert np.isnan(estimate.stderr)
    assert estimate.value == vardi.debias(frames(), BIASES).expectation("x").value


def test_few_clusters_are_told():
    samples = frames(g=lambda name, n: [f"{name}{row % 12}" for row in range(n)])
    with pytest.warns(vardi.VardiWarning, match="'a' has 12 clusters of 'g', and fewer than 30 show only roughly"):
        estimate = vardi.debias(samples, BIASES, clusters="g").expectation("x")
    assert estimate.df < 23


def test_a_cluster_in_two_strata():
    samples = frames(g=lambda name, n: [name] * n, h=lambda name, n: np.arange(n) % 2)
    refuse("Cluster 'a' lies in two strata", samples=samples, clusters="g", strata="h")


def test_ties_in_time():
    refuse(
        r"Two rows of 'a' have the time of another row \(the first is 7\), so their order is unknown",
        samples=frames(t=lambda name, n: np.where(np.arange(n) == 8, 7, np.arange(n)) if name == "a" else np.arange(n)),
        series="t",
    )


def test_gaps_in_time_are_told():
    samples = frames(t=lambda name, n: np.arange(n) + 50 * (np.arange(n) > 10) * (name == "b"))
    with pytest.warns(vardi.VardiWarning, match="The series of 'b' has one gap from 10 to 61, where the usual"):
        vardi.debias(samples, BIASES, series="t")


def test_times_are_numbers_or_dates():
    refuse("series= holds object, which has no order in time", series=np.array(["a"] * 280, dtype=object))
    days = frames(t=lambda name, n: pd.date_range("2020-01-01", periods=n))
    numbers = frames(t=lambda name, n: np.arange(n))
    one, other = (vardi.debias(samples, BIASES, series="t").expectation("x") for samples in (days, numbers))
    assert one.stderr == other.stderr


def test_what_cannot_be_declared_together():
    refuse(r"series= and clusters= were given, but the rows", series=True, clusters=np.arange(280))
    refuse(r"series= and counts= were given, but a row", series=True, counts=np.full(280, 2))


@pytest.mark.parametrize(
    ("population", "said"),
    [
        (100, "population= is 100 for 'a', of which 120 rows were drawn"),
        ({"a": 1000, "c": 1000}, "population= is for 'c', which is not a sample"),
        ({"a": np.inf}, "population= is inf for 'a'"),
        ({"a": "many"}, "population= is 'many' for 'a'"),
    ],
)
def test_populations_that_do_not_fit(population, said):
    refuse(said, population=population)


def test_few_effective_rows_are_told():
    rng = np.random.default_rng(0)
    steps = np.cumsum(rng.normal(size=400)) / 10
    with pytest.warns(vardi.WeakOverlapWarning):
        vardi.debias({"a": steps}, {"a": 1}, series=True).expectation("x")
    slow = np.repeat(rng.normal(size=20), 50) + 0.01 * rng.normal(size=1000)
    with pytest.warns(
        vardi.WeakOverlapWarning, match="The rows of 'a' are so strongly correlated in time that for the"
    ):
        vardi.debias({"a": slow}, {"a": 1}, series=True).expectation("x")


def lazy(samples):
    return {name: pl.from_pandas(frame).lazy() for name, frame in samples.items()}


@pytest.mark.parametrize(
    ("columns", "depends", "said"),
    [
        (
            {},
            {"clusters": np.arange(280)},
            "clusters was given as ndarray, but the rows are lazy frames. Name the column",
        ),
        (
            {},
            {"series": True},
            "series was given as True, but the rows are lazy frames. An engine keeps no order of rows",
        ),
        (DISTRICTS, {"clusters": "distrct"}, r"clusters= names column 'distrct'.* Did you mean 'district'\?"),
        (DISTRICTS, {"series": "district"}, "series= names 'district', which holds String"),
        (DISTRICTS, {"strata": "district"}, "strata= without clusters= needs the deviation of every row"),
        ({"t": lambda name, n: np.arange(n) // 2}, {"series": "t"}, "61 rows of 'a' have the time of another row"),
        ({"g": lambda name, n: [None] * n}, {"clusters": "g"}, "280 rows have no cluster"),
        ({"g": lambda name, n: np.full(n, np.nan)}, {"clusters": "g"}, "280 rows have no cluster"),
    ],
)
def test_engines_refuse_in_the_same_words(columns, depends, said):
    refuse(said, vardi.VardiError, lazy(frames(**columns)), **depends)


def test_engines_warn_in_the_same_words():
    samples = lazy(frames(g=lambda name, n: [f"{name}{row % 12}" for row in range(n)]))
    with pytest.warns(vardi.VardiWarning, match="'a' has 12 clusters of 'g', and fewer than 30 show only roughly"):
        fit = vardi.debias(samples, BIASES, clusters="g")
    assert "rows        in clusters of 'g'" in str(fit)


def test_rows_that_were_left_out_have_no_part():
    samples = frames(**DISTRICTS)
    samples["c"] = samples["a"].assign(x=lambda frame: -frame["x"] - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        biases = {"a": "x > 0", "b": "x * (x > 0)", "c": "x < 0"}
        fit = vardi.debias(samples, biases, clusters="district", on_unidentified="largest")
        small = {name: samples[name] for name in "ab"}
        other = vardi.debias(small, {name: biases[name] for name in "ab"}, clusters="district")
        assert fit.expectation("x").stderr == pytest.approx(other.expectation("x").stderr, rel=1e-12)
