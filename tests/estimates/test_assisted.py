"""Means that a model assists: its mean over all samples, and what it misses in those that recorded the column."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vardi

N = 300
BIASES = {"low": "exp(-0.6 * x)", "mid": "exp(-0.2 * x * x)", "high": "exp(0.6 * x)"}
MEANS = {"low": (-0.6, 1.0), "mid": (0.0, 1.4**-0.5), "high": (0.6, 1.0)}


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    found = {}
    for name, (mean, deviation) in MEANS.items():
        x = rng.normal(mean, deviation, N)
        y = 1.0 + x + rng.normal(size=N)
        found[name] = pd.DataFrame({"x": x, "y": y, "g": np.where(x > 0, "b", "a"), "c": np.arange(N) % 50})
    return {name: rows if name == "mid" else rows.drop(columns="y") for name, rows in found.items()}


@pytest.fixture
def fit(samples):
    return vardi.debias(samples, BIASES)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        yield


class Fixed(LinearRegression):
    """A model that nothing teaches: the same prediction in every fold."""

    def fit(self, X, y, sample_weight=None):
        self.coef_ = np.zeros(np.shape(X)[1])
        return self

    def predict(self, X):
        return 1.0 + 2.0 * np.asarray(X)[:, 0]


class Bad(Fixed):
    def predict(self, X):
        return 1.0 - 5.0 * np.asarray(X)[:, 0]


def test_it_is_the_mean_of_the_model_and_what_it_misses(fit):
    found = fit.expectation("y", assisted_by=Fixed(), columns=["x"])
    model, missed = fit.expectation("1 + 2 * x"), fit.expectation("y - 1 - 2 * x")
    assert missed.among == ("mid",)
    by_hand = model + missed
    assert found.value == pytest.approx(by_hand.value, rel=1e-12)
    assert found.stderr == pytest.approx(by_hand.stderr, rel=1e-12)
    assert found.df == pytest.approx(by_hand.df, rel=1e-9)
    assert found.among == ("mid",)
    plain = fit.expectation("y")
    assert (found.plain.value, found.plain.stderr) == (plain.value, plain.stderr)


def test_a_good_model_makes_the_error_smaller_and_both_are_shown(fit):
    found = fit.expectation("y", assisted_by=LinearRegression(), columns=["x"])
    assert found.stderr < 0.9 * found.plain.stderr  # a tenth is what is shown
    assert f"from 'mid'; {found.plain.value:.3f} ± {found.plain.stderr:.3f} without the model" in str(found)
    noise = fit.expectation("y", assisted_by=LinearRegression(), columns=["c"])
    assert "without the model" not in str(noise)  # they differ by less than a tenth
    assert abs((found - fit.expectation("x")).value) < 2.0  # of one fit


def test_each_row_is_predicted_by_models_that_have_not_seen_it(fit):
    memory = fit.expectation("y", assisted_by=KNeighborsRegressor(1), columns=["x"])  # which takes no weights
    assert memory.plain.stderr > 0.05
    assert memory.stderr > 0.5 * memory.plain.stderr  # if it had seen them, residuals were 0


def test_models_of_all_kinds(fit):
    line = fit.expectation("y", assisted_by=LinearRegression(), columns=["x"])
    piped = fit.expectation("y", assisted_by=make_pipeline(StandardScaler(), LinearRegression()), columns=["x"])
    assert piped.value == pytest.approx(line.value, rel=1e-9)
    boosted = fit.expectation("y", assisted_by=HistGradientBoostingRegressor(max_iter=20), columns=["x"])
    assert abs(boosted.value - line.value) < 3 * line.stderr
    share = fit.expectation("y > 1", assisted_by=LogisticRegression(), columns=["x"])
    assert share.stderr < share.plain.stderr
    assert 0.3 < share.value < 0.7
    default = fit.expectation("y", assisted_by=LinearRegression())  # the columns of numbers that all have: x and c
    both = fit.expectation("y", assisted_by=LinearRegression(), columns=["x", "c"])
    assert default.value == both.value


def test_where_all_samples_have_the_column_the_model_drops_out(fit):
    plain, assisted = fit.expectation("x"), fit.expectation("x", assisted_by=LinearRegression(), columns=["c"])
    assert assisted.value == pytest.approx(plain.value, rel=1e-9)
    assert assisted.stderr == pytest.approx(plain.stderr, rel=1e-9)
    chosen = fit.expectation("x", among=["mid"], assisted_by=LinearRegression(), columns=["c"])
    assert chosen.among == ("mid",)


def test_domains_and_totals(fit):
    by = fit.expectation("y", by="g", assisted_by=Fixed(), columns=["x"])
    model, missed = fit.expectation("1 + 2 * x", by="g"), fit.expectation("y - 1 - 2 * x", by="g")
    for domain in "ab":
        by_hand = model[domain] + missed[domain]
        assert by[domain].value == pytest.approx(by_hand.value, rel=1e-12)
        assert by[domain].stderr == pytest.approx(by_hand.stderr, rel=1e-12)
        assert by[domain].plain.stderr == fit.expectation("y", by="g")[domain].stderr
    assert by.what == "mean of y by g, from 'mid', assisted by Fixed"
    assert "without the model" not in str(by)
    bad = fit.expectation("y", by="g", assisted_by=Bad(), columns=["x"])
    assert bad["a"].stderr > 1.1 * bad["a"].plain.stderr  # such a model does harm, and the table says so
    assert "error (without the model)" in str(bad)
    assert f"({bad['a'].plain.stderr:.2f})" in str(bad)
    assert (by["a"] - by["b"]).stderr > 0
    mean = fit.expectation("y", assisted_by=Fixed(), columns=["x"])
    total = fit.total("y", size=1000, assisted_by=Fixed(), columns=["x"])
    assert total.value == pytest.approx(1000 * mean.value, rel=1e-12)
    assert total.plain.stderr == pytest.approx(1000 * mean.plain.stderr, rel=1e-12)
    uncertain = fit.total("y", size=(1000, 50), assisted_by=Fixed(), columns=["x"])
    assert uncertain.stderr > total.stderr
    assert uncertain.plain is not None
    totals = fit.total("y", size=1000, by="g", assisted_by=Fixed(), columns=["x"])
    assert sum(one.value for one in totals.values()) == pytest.approx(total.value, rel=1e-9)


def test_known_values_sharpen_what_a_model_assists_without_a_warning(samples):
    fit = vardi.debias(samples, BIASES, known={"x": 0.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit.expectation("y", assisted_by=LinearRegression(), columns=["x"])
    free = vardi.debias(samples, BIASES).expectation("y", assisted_by=LinearRegression(), columns=["x"])
    assert found.stderr < free.stderr


def test_what_cannot_assist_is_refused(fit, samples):
    with pytest.raises(vardi.MismatchError, match="^assisted_by is KMeans, which does not predict numbers"):
        fit.expectation("y", assisted_by=KMeans(2))
    with pytest.raises(vardi.MismatchError, match="a classifier, but the values are not all 0 or 1"):
        fit.expectation("y", assisted_by=LogisticRegression())
    with pytest.raises(vardi.MismatchError, match="^columns= chooses what a model sees, but there is no model"):
        fit.expectation("y", columns=["x"])
    with pytest.raises(
        vardi.MismatchError, match="^The model is meant to see 'xx', which is not a column of every sample.*'x'"
    ):
        fit.expectation("y", assisted_by=LinearRegression(), columns=["xx"])
    with pytest.raises(
        vardi.MismatchError, match="^The model is meant to see 'y', which is not a column of every sample"
    ):
        fit.expectation("y", assisted_by=LinearRegression(), columns=["y"])
    gap = {**samples, "low": samples["low"].assign(c=np.where(samples["low"].index == 3, np.nan, 1.0))}
    gaps = vardi.debias(gap, BIASES)
    with pytest.raises(vardi.MissingValuesError, match=r"^The model sees columns with missing values: 'c' \(1\)"):
        gaps.expectation("y", assisted_by=LinearRegression(), columns=["x", "c"])
    assert gaps.expectation("y", assisted_by=HistGradientBoostingRegressor(max_iter=2), columns=["x", "c"]).stderr > 0
    few = {**samples, "mid": samples["mid"].iloc[:15]}
    with pytest.raises(vardi.MismatchError, match="^The values are recorded on 15 rows, too few for 5 folds"):
        vardi.debias(few, BIASES).expectation("y", assisted_by=LinearRegression(), columns=["x"])
    matrix = vardi.debias_matrix(np.ones((40, 1)), np.zeros(40, int))
    with pytest.raises(vardi.VardiError, match="^A model that assists a mean sees columns"):
        matrix.expectation(np.arange(40.0), assisted_by=LinearRegression())


def test_rows_of_an_engine_are_read_for_a_model_to_see(samples, fit):
    lazy = vardi.debias({name: pl.from_pandas(rows).lazy() for name, rows in samples.items()}, BIASES)
    model = {"assisted_by": LinearRegression(), "columns": ["x"]}
    size = [one.expectation("x > 0", **model) * 100 for one in (lazy, fit)]
    for found, expected in (
        (lazy.expectation("y", **model), fit.expectation("y", **model)),
        (lazy.expectation("y", by="g", **model)["a"], fit.expectation("y", by="g", **model)["a"]),
        (lazy.among(["mid"]).expectation("y", **model), fit.among(["mid"]).expectation("y", **model)),
        (lazy.total("y", size=(100, 5), **model), fit.total("y", size=(100, 5), **model)),
        (lazy.total("y", size=size[0], **model), fit.total("y", size=size[1], **model)),
    ):
        assert (found.value, found.stderr) == pytest.approx((expected.value, expected.stderr), rel=1e-8)
    with pytest.raises(
        vardi.MismatchError, match="^The total is known from an estimate that an engine made.*assisted_"
    ):
        lazy.total("y", size=lazy.expectation("x > 0") * 100, **model)
    with pytest.raises(vardi.MismatchError, match="^The estimates come from different fits"):
        lazy.expectation("y", **model) - lazy.expectation("x")
    for given in ({"values": np.ones(3 * N)}, {"values": "y", "by": np.ones(3 * N)}):  # in which order?
        with pytest.raises(vardi.NeedsRowsError, match="^An expectation of values that are not columns"):
            lazy.expectation(**given, **model)
