"""Formulas: the coefficients and errors of the matrix that they stand for; factors, and rows with missing values."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge

import vardi
from vardi.learn import coefficient_sensitivity, inference

pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")

BIASES = {"plain": 1, "seen": "x"}


def rows(n, shape, rng):
    x = rng.gamma(shape, size=n)
    region = rng.choice(["W", "N", "S"], n)
    y = 0.5 * x + (region == "N") * 0.7 + rng.normal(size=n)
    return pd.DataFrame({
        "x": x,
        "region": region,
        "y": y,
        "odd name": x**2,
        "events": rng.poisson(np.exp(0.1 * x)),
        "answer": np.where(y > 1.5, "yes", "no"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    return {"plain": rows(200, 3.0, rng), "seen": rows(150, 4.0, rng)}


@pytest.fixture(scope="module")
def fit(samples):
    return vardi.debias(samples, BIASES)


def dummies(samples):
    pool = pd.concat(samples.values(), ignore_index=True)
    return pool, np.column_stack([pool["x"], pool["region"] == "S", pool["region"] == "W"]).astype(float)


def same(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=rtol)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (LinearRegression(), "y"),
        (Ridge(alpha=5.0), "y"),
        (LogisticRegression(C=0.5), "answer"),
        (PoissonRegressor(alpha=0.1), "events"),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("form", ["x + region", "x + C(region)"])
def test_a_formula_is_the_matrix_that_it_stands_for(fit, samples, model, y, form):
    pool, X = dummies(samples)
    found = inference(fit, model, f"{y} ~ {form}")
    same(found, inference(fit, model, X, pool[y].to_numpy()))
    factor = form.split(" + ")[1]
    assert found.names == ("intercept", "x", f"{factor}[T.S]", f"{factor}[T.W]")
    assert found[f"{factor}[T.S]"].stderr > 0
    assert found.rows_left_out == 0


def test_transforms_odd_names_interactions_and_outcomes_by_expression(fit, samples):
    pool, _ = dummies(samples)
    found = inference(fit, LinearRegression(), "y ~ np.log(x) + `odd name` + x:region")
    x, log = pool["x"].to_numpy(), np.log(pool["x"].to_numpy())
    X = np.column_stack([log, pool["odd name"], *(x * (pool["region"] == one) for one in "NSW")])
    assert found.names == ("intercept", "np.log(x)", "odd name", *(f"x:region[{one}]" for one in "NSW"))
    same(found, inference(fit, LinearRegression(), X, pool["y"].to_numpy()))
    shares = inference(fit, LogisticRegression(C=np.inf), "answer == 'yes' ~ x")
    same(shares, inference(fit, LogisticRegression(C=np.inf), ["x"], "answer == 'yes'"))
    squares = inference(fit, LinearRegression(), "`odd name` ~ x")
    same(squares, inference(fit, LinearRegression(), ["x"], "odd name"))
    spline = inference(fit, LinearRegression(), "y ~ bs(x, df=4)")
    assert len(spline) == 5


def test_the_formula_says_whether_there_is_an_intercept(fit, samples):
    pool, _ = dummies(samples)
    means = inference(fit, LinearRegression(), "y ~ 0 + region")
    assert means.names == ("region[N]", "region[S]", "region[W]")
    domains = fit.expectation("y", by="region")
    np.testing.assert_allclose(means.coefficients, [one.value for one in domains.values()], rtol=1e-10)
    np.testing.assert_allclose(means.stderr, [one.stderr for one in domains.values()], rtol=1e-10)
    np.testing.assert_allclose(means.covariance, domains.joint.covariance, rtol=1e-8, atol=1e-14)
    with pytest.raises(vardi.MismatchError, match="^The formula has an intercept, but the model none.*'0 [+] ...'"):
        inference(fit, LinearRegression(fit_intercept=False), "y ~ x")
    weights = np.asarray(fit.weights)
    fitted = LinearRegression().fit(pool[["x"]], pool["y"], sample_weight=weights)
    same(inference(fit, fitted, "y ~ x"), inference(fit, LinearRegression(), ["x"], "y"), rtol=1e-7)
    with pytest.raises(vardi.MismatchError, match="^The formula has no intercept, but the model one"):
        inference(fit, fitted, "y ~ 0 + x")


def test_factors_keep_the_order_of_a_categorical_and_frames_of_any_library(samples):
    ordered = pd.CategoricalDtype(["W", "none", "S", "N"])
    frames = {name: frame.astype({"region": ordered}) for name, frame in samples.items()}
    found = inference(vardi.debias(frames, BIASES), LinearRegression(), "y ~ x + region")
    assert found.names == ("intercept", "x", "region[T.S]", "region[T.N]")
    polars = {name: pl.from_pandas(frame) for name, frame in samples.items()}
    same(
        inference(vardi.debias(polars, BIASES), LinearRegression(), "y ~ x + region"),
        inference(vardi.debias(samples, BIASES), LinearRegression(), "y ~ x + region"),
    )


def with_gaps(samples):
    gaps = {name: frame.copy() for name, frame in samples.items()}
    gaps["plain"].loc[[3, 5], "odd name"] = np.nan
    gaps["plain"].loc[[5, 7], "region"] = None
    gaps["seen"].loc[[11], "y"] = np.nan
    return gaps


@pytest.mark.parametrize("X", ["y ~ `odd name` + region", "formula without text"])
def test_rows_with_missing_values_are_refused_by_name(samples, X):
    fit = vardi.debias(with_gaps(samples), BIASES)
    if "~" in X:
        with pytest.raises(
            vardi.MissingValuesError, match="^4 rows have.*'odd name' [(]2[)], 'region' [(]2[)], 'y'"
        ) as caught:
            inference(fit, LinearRegression(), X)
        assert caught.value.columns == {"odd name": 2, "region": 2, "y": 1}
    else:
        pool = pd.concat(with_gaps(samples).values(), ignore_index=True)
        with pytest.raises(vardi.MissingValuesError, match="^3 rows have .*missing='drop'"):
            inference(fit, LinearRegression(), pool[["odd name"]], pool["y"])


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(alpha=30.0), PoissonRegressor(alpha=0.3)], ids=str)
def test_rows_left_out_leave_a_model_of_the_part_that_has_all(samples, model):
    """The influence of a row that is left out is through the weights alone: as of a bootstrap of all rows."""
    fit = vardi.debias(with_gaps(samples), BIASES)
    y = "events" if isinstance(model, PoissonRegressor) else "y"
    found = inference(fit, model, f"{y} ~ `odd name` + region", missing="drop")
    lacking = 3 if y == "events" else 4
    assert found.rows_left_out == lacking
    assert f"Left out: {lacking} rows that lack 'odd name' (2), 'region' (2)" in str(found)
    pool = pd.concat(with_gaps(samples).values(), ignore_index=True)
    there = pool[["odd name", "region", y]].notna().all(axis=1)
    X = np.column_stack([pool["odd name"], pool["region"] == "S", pool["region"] == "W"]).astype(float)[there]
    again = type(model)(**{**model.get_params(), **({"tol": 1e-12} if y == "events" else {})})
    again.fit(X, pool.loc[there, y], sample_weight=np.asarray(fit.weights)[there])
    np.testing.assert_allclose(found.coefficients, [again.intercept_, *again.coef_], rtol=1e-5)


def test_a_mean_of_the_complete_rows_is_that_of_their_domain(samples):
    """With an intercept alone a model of the rows that have y is their domain mean, error included."""
    gaps = with_gaps(samples)
    fit = vardi.debias(gaps, BIASES)
    found = inference(fit, LinearRegression(), "y ~ 0 + region", missing="drop")
    filled = {
        name: frame.assign(
            region=np.where(frame["y"].isna() | frame["region"].isna(), "none", frame["region"]),
            y=frame["y"].fillna(0.0),
        )
        for name, frame in gaps.items()
    }
    table = vardi.debias(filled, BIASES).expectation("y", by="region")
    np.testing.assert_allclose(found.coefficients, [table[one].value for one in "NSW"], rtol=1e-10)
    np.testing.assert_allclose(found.stderr, [table[one].stderr for one in "NSW"], rtol=1e-10)


def test_columns_and_matrices_may_drop_rows_too(samples):
    fit = vardi.debias(with_gaps(samples), BIASES)
    pool = pd.concat(with_gaps(samples).values(), ignore_index=True)
    by_formula = inference(fit, LinearRegression(), "y ~ x + `odd name`", missing="drop")
    same(inference(fit, LinearRegression(), ["x", "odd name"], "y", missing="drop"), by_formula)
    same(inference(fit, LinearRegression(), pool[["x", "odd name"]], pool["y"], missing="drop"), by_formula)


def test_a_fit_without_some_samples_takes_formulas(samples):
    apart = {**samples, "far": samples["plain"].assign(x=samples["plain"]["x"] + 1000.0)}
    with pytest.warns(vardi.DroppedSamplesWarning):
        fit = vardi.debias(
            apart, {"plain": "x < 900", "seen": "x * (x < 900)", "far": "x > 900"}, on_unidentified="largest"
        )
    found = inference(fit, LinearRegression(), "y ~ x + region")
    same(found, inference(vardi.debias(samples, BIASES), LinearRegression(), "y ~ x + region"))


def test_the_sensitivity_of_a_factor(fit):
    found = coefficient_sensitivity(fit, LinearRegression(), "y ~ x + region", None, "region[T.S]", gammas=[1.0, 1.2])
    assert found.lower[-1] < found.upper[-1]


def test_what_is_no_formula_is_refused(fit):
    with pytest.raises(vardi.MismatchError, match="has 'regoin', which is not a column.*Did you mean 'region'"):
        inference(fit, LinearRegression(), "y ~ x + regoin")
    with pytest.raises(vardi.MismatchError, match="^The formula 'y ~ x [+]' cannot be read"):
        inference(fit, LinearRegression(), "y ~ x +")
    with pytest.raises(vardi.MismatchError, match="has an outcome, and y is given"):
        inference(fit, LinearRegression(), "y ~ x", "y")
    with pytest.raises(vardi.MismatchError, match="has no outcome, and y is not"):
        inference(fit, LinearRegression(), "~ x")
    with pytest.raises(vardi.MismatchError, match="^There is no outcome.*formula such as"):
        inference(fit, LinearRegression(), ["x"])
    with pytest.raises(vardi.MismatchError, match="^missing is 'skip'"):
        inference(fit, LinearRegression(), "y ~ x", missing="skip")
    with pytest.raises(vardi.MissingValuesError, match="infinite or not numbers.*'np.log"):
        inference(fit, LinearRegression(), "y ~ np.log(x - x)")
    with pytest.raises(vardi.MismatchError, match="'region' holds .*write a formula, such as 'y ~ region'"):
        inference(fit, LinearRegression(), pd.DataFrame({"region": ["a"] * len(fit)}), "y")


def test_without_formulaic_the_extra_is_named(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r"pip install 'vardi\[formula\]'"):
        inference(fit, LinearRegression(), "y ~ x")
