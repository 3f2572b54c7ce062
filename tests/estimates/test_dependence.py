"""Clusters, series, strata and finite populations through everything that a fit is asked, and through those who fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy.signal import lfilter
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, cross_validate
from textbook import origins, read

import vardi
from vardi.learn import DebiasedEstimator, debiased_risk, inference

TILT = {"a": 1, "b": "exp(x / 2)"}


def schools(seed=0, districts=(40, 50), rows=6, span=False):
    rng = np.random.default_rng(seed)
    frames = {}
    shared = rng.normal(0, 0.7, max(districts))
    for (name, tilt), G in zip({"a": 0.0, "b": 0.5}.items(), districts, strict=True):
        effect = np.repeat(tilt / 2 + (shared[:G] if span else rng.normal(0, 0.7, G)), rows)
        x = effect + rng.normal(tilt / 2, 0.7, len(effect))
        labels = np.repeat(np.arange(G), rows) + (1000 if name == "b" and not span else 0)
        y = 1 + x + np.repeat(rng.normal(size=G), rows) + rng.normal(size=len(x))
        frames[name] = pd.DataFrame({"x": x, "y": y, "district": labels, "t": np.arange(len(x))})
    return frames


@pytest.fixture(scope="module")
def fit():
    return vardi.debias(schools(), TILT, clusters="district")


@pytest.mark.parametrize(
    ("depends", "kind"),
    [
        ({"clusters": "district"}, "bayesian"),
        ({"clusters": "district"}, "rows"),
        ({"strata": "half"}, "bayesian"),
        ({"strata": "half", "clusters": "district"}, "rows"),
        ({"population": 700}, "rows"),
        ({"clusters": "district", "population": 700}, "bayesian"),
    ],
    ids=str,
)
def test_the_bootstrap_agrees_with_every_error(depends, kind):
    # 400 draws tell a standard error to 3.5%, and few clusters differ by as much again
    samples = {name: frame.assign(half=frame["district"] % 2) for name, frame in schools().items()}
    fit = vardi.debias(samples, TILT, **depends)
    found = fit.bootstrap(["x", "y"], n=400, seed=0, kind=kind)
    errors = [fit.expectation(name).stderr for name in "xy"]
    assert_allclose(found.stderr, errors, rtol=0.15)
    logs = fit.bootstrap(n=400, seed=0, kind=kind).stderr[1]
    assert_allclose(logs, fit.log_normalisers()["b"].stderr, rtol=0.15)


@pytest.mark.parametrize("kind", ["bayesian", "rows"])
def test_the_bootstrap_of_series(kind):
    rng = np.random.default_rng(0)
    runs = {name: lfilter([1], [1, -0.8], rng.normal(size=3000) * 0.6) + 0.5 * (name == "b") for name in "ab"}
    fit = vardi.debias(runs, TILT, series=True)
    assert_allclose(fit.bootstrap("x", n=400, seed=0, kind=kind).stderr, fit.expectation("x").stderr, rtol=0.15)
    assert fit.expectation("x").stderr > 2 * vardi.debias(runs, TILT).expectation("x").stderr


def test_the_bootstrap_of_clusters_that_span_samples():
    fit = vardi.debias(schools(span=True), TILT, clusters="district")
    samples = schools(span=True)
    samples["b"]["district"] += 1000
    apart = vardi.debias(samples, TILT, clusters="district")
    for kind in ("bayesian", "rows"):
        found = fit.bootstrap("x", n=400, seed=0, kind=kind)
        assert_allclose(found.stderr, fit.expectation("x").stderr, rtol=0.15)
    assert fit.expectation("x").stderr > 1.1 * apart.expectation("x").stderr


def test_the_bootstrap_of_a_function_draws_clusters(fit):
    x = np.concatenate([frame["x"] for frame in schools().values()])
    found = fit.bootstrap(lambda weights: weights @ x / weights.sum(), n=300, seed=0)
    assert_allclose(found.stderr, fit.expectation("x").stderr, rtol=0.15)


def test_coefficients_know_clusters(fit):
    clustered = inference(fit, LinearRegression(), ["x"], "y")
    apart = inference(vardi.debias(schools(), TILT), LinearRegression(), ["x"], "y")
    assert_allclose(clustered["x"].value, apart["x"].value)
    assert clustered["intercept"].stderr > 1.5 * apart["intercept"].stderr
    assert clustered["intercept"].df < apart["intercept"].df


def test_the_report_says_it(fit, tmp_path):
    fit.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Rows are in 90 clusters of &#39;district&#39;." in text
    assert "clusters=&#39;district&#39;" in text


def pooled(samples=None):
    samples = schools() if samples is None else samples
    pool = pd.concat(list(samples.values()), ignore_index=True)
    return pool, np.repeat(list(samples), [len(frame) for frame in samples.values()])


@pytest.mark.parametrize("what", ["clusters", "series"])
def test_an_estimator_names_a_column_or_takes_labels(what):
    pool, source = pooled()
    column = {"clusters": "district", "series": "t"}[what]
    X = pool[["x", column]]
    named = DebiasedEstimator(LinearRegression(), biases=TILT, **{what: column}).fit(X, pool["y"], source=source)
    given = DebiasedEstimator(LinearRegression(), biases=TILT)
    given.fit(pool[["x"]], pool["y"], source=source, **{what: pool[column]})
    errors = [one.stderr for one in vardi.debias(schools(), TILT, **{what: column}).normalisers().values()]
    for model in (named, given):
        assert_allclose([one.stderr for one in model.fit_.normalisers().values()], errors, rtol=1e-12)
        assert model.n_features_in_ == 1
    assert_allclose(named.predict(X), given.predict(pool[["x"]]))
    assert_allclose(named.score(X, pool["y"]), given.score(pool[["x"]], pool["y"]))
    with pytest.raises(
        vardi.MismatchError, match=f"{what} was given to fit, but the estimator already names the column"
    ):
        named.fit(X, pool["y"], source=source, **{what: pool[column]})


@pytest.mark.parametrize("routing", [False, True])
def test_labels_of_clusters_are_split_along_with_the_rows(routing):
    pool, source = pooled()
    params = {"source": source, "clusters": pool["district"].to_numpy()}
    with sklearn.config_context(enable_metadata_routing=routing):
        model = DebiasedEstimator(LinearRegression(), biases=TILT)
        model = model.set_fit_request(source=True, clusters=True) if routing else model
        found = cross_validate(
            model,
            pool[["x"]],
            pool["y"],
            params=params,
            cv=KFold(3, shuffle=True, random_state=0),
            return_estimator=True,
        )
    for one in found["estimator"]:
        assert len(one.fit_) == 360


def test_an_estimator_on_arrays_drops_the_column_by_its_place():
    pool, source = pooled()
    X = pool[["x", "district"]].to_numpy()
    model = DebiasedEstimator(LinearRegression(), biases={"a": 1, "b": "exp(x0 / 2)"}, clusters="x1")
    model.fit(X, pool["y"].to_numpy(), source=source)
    assert model.n_features_in_ == 1
    assert model.predict(X).shape == (540,)


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")  # of squared losses
def test_risks_hold_out_whole_clusters():
    pool, source = pooled()
    held = []

    class Watching(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            held.append(set(pool["district"]) - set(pool["district"][X.index]))
            return super().fit(X, y, sample_weight)

    X, y = pool[["x", "district"]], pool["y"]
    risk = debiased_risk(Watching(), X, y, source=source, biases=TILT, clusters="district", cv=5)
    assert [len(own) for own in held] == [18] * 5
    apart = debiased_risk(LinearRegression(), X[["x"]], y, source=source, biases=TILT)
    assert risk.df < apart.df
    grouped = debiased_risk(
        LinearRegression(), X, y, source=source, biases=TILT, clusters="district", cv=GroupKFold(n_splits=5)
    )
    assert_allclose(grouped.value, risk.value, rtol=0.1)


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")  # of squared losses
def test_risks_of_series_hold_out_stretches():
    pool, source = pooled()
    seen = []

    class Watching(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            out = np.setdiff1d(np.arange(240), X.index[X.index < 240])  # of the first sample
            seen.append((out.min(), out.max(), len(out)))
            return super().fit(X, y, sample_weight)

    debiased_risk(Watching(), pool[["x"]], pool["y"], source=source, biases=TILT, series=pool["t"], cv=4)
    assert [high - low + 1 for low, high, _ in seen] == [length for _, _, length in seen] == [60] * 4


def test_a_study_declares_it(tmp_path):
    for name, frame in schools().items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    text = """
    clusters = "district"
    population = {b = 700}
    [sources.a]
    data = "a.csv"
    bias = 1
    [sources.b]
    data = "b.csv"
    bias = "exp(x / 2)"
    """
    path = tmp_path / "study.toml"
    path.write_text(text)
    expected = vardi.debias(schools(), TILT, clusters="district", population={"b": 700}).expectation("x").stderr
    for engine in ("memory", "polars", "duckdb"):
        path.write_text(f'engine = "{engine}"\n{text}')
        assert_allclose(vardi.study.read(path).fit().expectation("x").stderr, expected, rtol=1e-8)


def test_a_study_in_an_engine_has_parameters(tmp_path):
    for name, frame in schools().items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    path = tmp_path / "study.toml"
    text = '[sources.a]\ndata = "a.csv"\nbias = 1\n[sources.b]\ndata = "b.csv"\nbias = "exponential_tilt(x)"\n'
    found = {}
    for engine in ("memory", "polars", "duckdb"):
        path.write_text(f'engine = "{engine}"\n{text}')
        found[engine] = vardi.study.read(path).fit().parameters["b"]["x"]
    for engine in ("polars", "duckdb"):
        assert_allclose(found[engine].value, found["memory"].value, rtol=1e-8)
        assert_allclose(found[engine].stderr, found["memory"].stderr, rtol=1e-8)


def test_clusters_where_known_values_join_what_overlap_does_not(tmp_path):
    samples = schools()
    split = {"a": samples["a"].query("x <= 0"), "b": samples["b"].query("x > 0")}
    options = {"known": {"x > 0": 0.5}, "clusters": "district"}
    memory = vardi.debias(split, {"a": "x <= 0", "b": "x > 0"}, **options)
    lazy = vardi.debias(
        {name: pl.from_pandas(frame).lazy() for name, frame in split.items()}, {"a": "x <= 0", "b": "x > 0"}, **options
    )
    assert_allclose(lazy.expectation("y").stderr, memory.expectation("y").stderr, rtol=1e-8)
    assert lazy.known.lines[0].stderr == memory.known.lines[0].stderr == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('clusters = "distrct"', r"line 1: .*a.csv.* has no column 'distrct'. Did you mean 'district'\?"),
        ("series = true", "line 1: series must be the name of a column, not true or false"),
        ("population = {c = 3}", r"There is no sample 'c'"),
        ('population = "all"', "population must be how many units a sample was drawn from, not a string"),
        ('cluster = "district"', r"Unknown key 'cluster'. Did you mean 'clusters'\?"),
    ],
)
def test_a_study_that_declares_it_wrongly(line, said, tmp_path):
    schools()["a"].to_csv(tmp_path / "a.csv", index=False)
    path = tmp_path / "study.toml"
    path.write_text(f'{line}\n[sources.a]\ndata = "a.csv"\nbias = 1\n')
    with pytest.raises(vardi.errors.StudyError, match=said):
        vardi.study.read(path)


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")  # one district has many times the schools of others
@pytest.mark.parametrize("origin", origins("schools"))
def test_schools_by_district(origin):
    population = read(origin, "schools")[["api00", "meals", "dnum", "stype"]].dropna()
    rng = np.random.default_rng(0)
    districts = rng.choice(population["dnum"].unique(), 120, replace=False)
    whole = population[population["dnum"].isin(districts)]
    high = population[population["stype"] == "H"].sample(300, random_state=0)
    fit = vardi.debias({"districts": whole, "high": high}, {"districts": 1, "high": "stype == 'H'"}, clusters="dnum")
    apart = vardi.debias({"districts": whole, "high": high}, {"districts": 1, "high": "stype == 'H'"})
    for name in ("api00", "meals", "api00 > 700"):
        error = fit.expectation(name).stderr
        assert_allclose(fit.bootstrap(name, n=1000, seed=0).stderr, error, rtol=0.10)
        assert error > 1.2 * apart.expectation(name).stderr
