"""Errors of regression coefficients: the estimating equations, the influence of each row, and known special cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pools import MODELS, debiased, three_tilts
from scipy import sparse, stats
from scipy.special import expit
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
)

import vardi
from vardi.learn import ModelInference, inference

#: samples are small here, so that errors rest on few rows: what is said of that is tested where it is meant
pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")


@pytest.fixture(scope="module")
def fit():
    return debiased(*three_tilts())


# ---------------------------------------------------------------- the equations


@pytest.mark.parametrize("name", MODELS)
def test_the_coefficients_minimise_what_scikit_learn_minimises(name, fit):
    """Weighted losses as in scikit-learn's documentation, differentiated by hand: flat at the coefficients."""
    model, y = MODELS[name]
    frame = three_tilts()[0]
    result = inference(fit, model, ["x", "v"], y)
    X, t, w = frame[["x", "v"]].to_numpy(), frame[y].to_numpy(), np.asarray(fit.weights)
    first = int(model.fit_intercept)
    theta = result.coefficients
    beta = theta[first:]
    eta = X @ beta + (theta[0] if first else 0.0)
    if isinstance(model, LinearRegression | Ridge):
        slope, penalty, size = w * 2 * (eta - t), 2 * getattr(model, "alpha", 0.0) * beta, 1.0
    elif isinstance(model, LogisticRegression):
        slope, penalty, size = model.C * w * (expit(eta) - t), beta, model.C
        if np.isinf(model.C):
            slope, penalty, size = w * (expit(eta) - t), 0.0 * beta, 1.0
    else:
        slope, penalty, size = w * (np.exp(eta) - t) / w.sum(), model.alpha * beta, 1.0 / w.sum()
    gradient = np.concatenate([[slope.sum()] * first, X.T @ slope + penalty]) / (size * len(X))
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)
    tight = {"tol": 1e-10} if hasattr(model, "tol") else {}
    sharp = type(model)(**(model.get_params() | tight)) if "max_iter" not in model.get_params() else None
    sharp = sharp or type(model)(**(model.get_params() | tight | {"max_iter": 10_000}))
    sharp.fit(X, t, sample_weight=w)
    np.testing.assert_allclose(np.ravel(result.model_.coef_), np.ravel(sharp.coef_), atol=1e-5)
    np.testing.assert_allclose(np.ravel(result.model_.coef_), beta, rtol=1e-12)
    np.testing.assert_allclose(np.ravel(result.model_.intercept_), theta[:first] if first else 0.0)
    assert not hasattr(model, "coef_")  # the user's model is left as it was


@pytest.mark.parametrize("name", MODELS)
def test_a_count_is_so_many_rows(name):
    """A Ridge of alpha = 20 is not the same with more rows, counted or not, but is the same either way."""
    frame, source, biases = three_tilts()
    counts = np.random.default_rng(1).integers(0, 4, len(frame))
    model, y = MODELS[name]
    one = inference(debiased(frame, source, biases, counts), model, ["x", "v"], y)
    again = frame.loc[np.repeat(frame.index, counts)].reset_index(drop=True)
    other = inference(debiased(again, np.repeat(source, counts), biases), model, ["x", "v"], y)
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-7)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-7)


@pytest.mark.parametrize("name", ["logistic", "logistic l2", "poisson", "poisson l2"])
def test_a_solver_that_stops_early_is_led_to_the_end(name, fit):
    model, y = MODELS[name]
    wanted = inference(fit, model, ["x", "v"], y)
    lazy = inference(fit, type(model)(**(model.get_params() | {"max_iter": 1})), ["x", "v"], y)
    np.testing.assert_allclose(lazy.coefficients, wanted.coefficients, rtol=1e-8)
    frame = three_tilts()[0]
    scaled = inference(fit, model, frame[["x", "v"]] * [1e3, 1e-3], y)
    if name in ("logistic", "poisson"):  # no penalty: only the unit changes
        np.testing.assert_allclose(scaled.coefficients, wanted.coefficients * [1, 1e-3, 1e3], rtol=1e-8)
        np.testing.assert_allclose(scaled.stderr, wanted.stderr * [1, 1e-3, 1e3], rtol=1e-7)


# ---------------------------------------------------------------- special cases


def test_one_sample_without_bias_has_the_sandwich():
    r"""n / (n - 1) (X'X)^{-1} X' diag(e^2) X (X'X)^{-1}: White's HC0 with the factor of a variance within a sample."""
    frame = three_tilts()[0]
    n = len(frame)
    fit = vardi.debias({"all": frame}, {"all": 1})
    result = inference(fit, LinearRegression(), ["x", "v"], "number")
    X = np.column_stack([np.ones(n), frame[["x", "v"]]])
    bread = np.linalg.inv(X.T @ X)
    theta = bread @ X.T @ frame["number"].to_numpy()
    e = frame["number"].to_numpy() - X @ theta
    np.testing.assert_allclose(result.coefficients, theta, rtol=1e-10)
    sandwich = n / (n - 1) * bread @ (X.T * e**2) @ X @ bread
    np.testing.assert_allclose(result.covariance, sandwich, rtol=1e-9)


def test_one_logistic_sample_without_bias_has_the_sandwich():
    frame = three_tilts()[0]
    n = len(frame)
    fit = vardi.debias({"all": frame}, {"all": 1})
    result = inference(fit, LogisticRegression(C=np.inf), ["x", "v"], "yes")
    X = np.column_stack([np.ones(n), frame[["x", "v"]]])
    mean = expit(X @ result.coefficients)
    bread = np.linalg.inv((X.T * (mean * (1 - mean))) @ X)
    meat = (X.T * (frame["yes"].to_numpy() - mean) ** 2) @ X
    np.testing.assert_allclose(result.covariance, n / (n - 1) * bread @ meat @ bread, rtol=1e-8)


def test_an_intercept_alone_is_the_mean(fit):
    """Regress on a constant without intercept: coefficient and error are those of the expectation."""
    number = three_tilts()[0]["number"].to_numpy()
    result = inference(fit, LinearRegression(fit_intercept=False), np.ones((len(fit), 1)), number)
    with pytest.warns(vardi.WeakOverlapWarning, match="rests on few rows"):
        wanted = fit.expectation(number)
    assert result["x0"].value == pytest.approx(wanted.value, rel=1e-12)
    assert result["x0"].stderr == pytest.approx(wanted.stderr, rel=1e-10)
    assert (result["x0"] - wanted).stderr == pytest.approx(0.0, abs=1e-10)  # the same number of the same fit


def test_the_normalisers_cost_something_where_strata_must_be_compared():
    """The sandwich that takes the weights as known is too small here."""
    design = vardi.datasets.strata(seed=0)
    fit = vardi.debias(design.samples, design.biases)
    result = inference(fit, LinearRegression(), ["x0"], "x1")
    rows = np.concatenate(list(design.samples.values()))
    X = np.column_stack([np.ones(len(rows)), rows[:, 0]])
    w = np.asarray(fit.weights)
    bread = np.linalg.inv((X.T * w) @ X)
    e = rows[:, 1] - X @ result.coefficients
    naive = np.sqrt(np.diag(bread @ (X.T * (w * e) ** 2) @ X @ bread))
    assert (result.stderr > 1.1 * naive).all()


def test_indicator_biases_are_collapsed_and_nothing_changes():
    design = vardi.datasets.strata((9000, 6000, 6000), seed=0)
    one = inference(vardi.debias(design.samples, design.biases), Ridge(5.0), ["x0"], "x1")
    apart = {name: f"({bias}) * (1 + 1e-12 * x0)" for name, bias in design.biases.items()}  # equal rows are none now
    other = inference(vardi.debias(design.samples, apart), Ridge(5.0), ["x0"], "x1")
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-8)


# ---------------------------------------------------------------- fitted models


@pytest.mark.parametrize("name", MODELS)
def test_a_model_fitted_with_the_weights_is_taken_as_it_is(name, fit):
    model, y = MODELS[name]
    frame = three_tilts()[0]
    fitted = type(model)(**model.get_params()).fit(frame[["x", "v"]], frame[y], sample_weight=fit.weights)
    before = fitted.coef_.copy()
    result = inference(fit, fitted, frame[["x", "v"]], frame[y])
    assert result.model_ is fitted
    np.testing.assert_array_equal(fitted.coef_, before)
    np.testing.assert_array_equal(result.coefficients[-2:], np.ravel(before))
    unfitted = inference(fit, model, frame[["x", "v"]], frame[y])
    np.testing.assert_allclose(result.stderr, unfitted.stderr, rtol=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_fitted_otherwise_is_refused(name, fit):
    model, y = MODELS[name]
    frame = three_tilts()[0]
    fitted = type(model)(**model.get_params()).fit(frame[["x", "v"]], frame[y])
    with pytest.raises(vardi.VardiError, match=r"does not solve the debiased equations.*sample_weight=fit\.weights"):
        inference(fit, fitted, frame[["x", "v"]], frame[y])


def test_probabilities_are_not_weights_to_a_ridge(fit):
    """They sum to 1, and so make the penalty n times as strong."""
    frame = three_tilts()[0]
    fitted = Ridge(20.0).fit(frame[["x", "v"]], frame["number"], sample_weight=fit.probabilities)
    with pytest.raises(vardi.VardiError, match="standard errors from the solution"):
        inference(fit, fitted, frame[["x", "v"]], frame["number"])


# ---------------------------------------------------------------- what may be given


def test_features_may_come_in_many_forms(fit):
    frame = three_tilts()[0]
    X, y = frame[["x", "v"]].to_numpy(), frame["number"].to_numpy()
    wanted = inference(fit, LinearRegression(), ["x", "v"], "number")
    assert wanted.names == ("intercept", "x", "v")
    assert list(wanted.model_.feature_names_in_) == ["x", "v"]
    for features in (X, frame[["x", "v"]], pl.DataFrame({"x": X[:, 0], "v": X[:, 1]}), sparse.csr_array(X), X.tolist()):
        result = inference(fit, LinearRegression(), features, y.tolist())
        np.testing.assert_allclose(result.covariance, wanted.covariance, rtol=1e-9)
    assert inference(fit, LinearRegression(), X, y).names == ("intercept", "x0", "x1")
    assert inference(fit, LinearRegression(), pl.DataFrame({"a": X[:, 0]}), y).names == ("intercept", "a")
    shifted = inference(fit, LinearRegression(), ["x", "v", "x * v"], "number > 0")
    assert shifted.names[-1] == "x * v"
    twice = inference(fit, LinearRegression(), pd.DataFrame({"intercept": X[:, 0]}), y)
    assert twice.names == ("(intercept)", "intercept")


def test_labels_may_be_words(fit):
    frame = three_tilts()[0]
    wanted = inference(fit, LogisticRegression(), ["x"], "yes")
    words = np.where(frame["yes"] == 1, "yes", "no")
    np.testing.assert_allclose(inference(fit, LogisticRegression(), ["x"], words).covariance, wanted.covariance)
    labelled = debiased(frame.assign(word=words), three_tilts()[1], three_tilts()[2])
    np.testing.assert_allclose(
        inference(labelled, LogisticRegression(), ["x"], "word").coefficients, wanted.coefficients
    )
    np.testing.assert_allclose(inference(fit, LogisticRegression(), ["x"], "yes > 0.5").covariance, wanted.covariance)


@pytest.mark.filterwarnings("ignore:'penalty' was deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:Setting penalty=None will ignore")
def test_both_spellings_of_a_penalty_are_read(fit):
    plain, none = LogisticRegression(), LogisticRegression(C=np.inf)
    for old, new in ((LogisticRegression(penalty=None), none), (LogisticRegression(penalty="l2"), plain)):
        one, other = (inference(fit, model, ["x", "v"], "yes") for model in (old, new))
        np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-9)


def test_rows_that_were_left_out_have_no_part():
    frame, source, biases = three_tilts()
    frame = pd.concat([frame, frame.iloc[:2].assign(x=1e6, v=np.nan)], ignore_index=True)
    source = np.r_[source, ["far", "far"]]
    named = {name: f"({bias}) * (x < 1000)" for name, bias in biases.items()} | {"far": "x > 1000"}
    with pytest.warns(vardi.DroppedSamplesWarning):
        fit = vardi.debias(frame, named, source=source, on_unidentified="largest")
    wanted = inference(debiased(*three_tilts()), LinearRegression(), ["x", "v"], "number")
    for X in (["x", "v"], frame[["x", "v"]], frame[["x", "v"]].to_numpy()):
        result = inference(fit, LinearRegression(), X, "number")
        np.testing.assert_allclose(result.covariance, wanted.covariance, rtol=1e-6)


# ---------------------------------------------------------------- the result


def test_table_and_items(fit):
    result = inference(fit, LinearRegression(), ["x", "v"], "number", level=0.9)
    assert isinstance(result, ModelInference)
    assert len(result) == 3
    half = stats.t.ppf(0.95, result.df) * result.stderr
    np.testing.assert_allclose(
        result.interval, np.column_stack([result.coefficients - half, result.coefficients + half])
    )
    np.testing.assert_allclose(result.z, result.coefficients / result.stderr)
    text = str(result)
    assert text == result.table()
    assert text.splitlines()[0].split() == ["coefficient", "error", "z", "90%", "interval"]
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["intercept", "x", "v"]
    C = result.covariance
    difference = result["x"] - result["v"]
    assert difference.stderr == pytest.approx(np.sqrt(C[1, 1] + C[2, 2] - 2 * C[1, 2]))
    assert result["x"].interval == pytest.approx(tuple(result.interval[1]))
    assert result[0].value == result["intercept"].value
    assert result["v"].at(0.95).stderr == pytest.approx(result.stderr[2])
    with pytest.raises(vardi.MismatchError, match=r"No coefficient 'intercep'\. .* Did you mean 'intercept'\?"):
        result["intercep"]


def test_the_table_is_never_wide(fit):
    frame = three_tilts()[0]
    long = "a name that goes on and on, longer than any column should ever be called"
    X = pd.DataFrame({long: frame["x"] * 1e-9, "v": frame["v"] * 1e12})
    text = inference(fit, LinearRegression(), X, frame["number"]).table()
    assert max(map(len, text.splitlines())) <= 80
    assert all(word in text for word in long.split())  # it goes on in the next lines
    exact = inference(fit, LinearRegression(), frame[["x"]], 2 * frame["x"]).table()
    assert max(map(len, exact.splitlines())) <= 80


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            Lasso(),
            "no standard errors for Lasso.*Supported are LinearRegression, Ridge, LogisticRegression and Poisson",
        ),
        (LogisticRegressionCV(), "no standard errors for LogisticRegressionCV"),
        (LinearRegression(positive=True), "held positive"),
        (Ridge(positive=True), "held positive"),
        (Ridge(alpha=np.array([1.0])), "alpha is an array"),
        (LogisticRegression(l1_ratio=1, solver="saga"), "an l1 penalty has corners"),
        (LogisticRegression(l1_ratio=0.5, solver="saga"), "an elasticnet penalty has corners"),
        (LogisticRegression(class_weight="balanced"), "class_weight changes the population"),
        (LogisticRegression(solver="liblinear"), "liblinear penalises the intercept"),
    ],
)
def test_models_without_errors_are_refused(model, said, fit):
    with pytest.raises(vardi.VardiError, match=said):
        inference(fit, model, ["x"], "yes")


def test_shapes_are_checked(fit):
    frame = three_tilts()[0]
    with pytest.raises(vardi.MismatchError, match=r"X has shape \(10, 2\), but the pool has 320 rows"):
        inference(fit, LinearRegression(), frame[["x", "v"]].iloc[:10], "number")
    with pytest.raises(vardi.MismatchError, match=r"X has shape \(320,\)"):
        inference(fit, LinearRegression(), frame["x"].to_numpy(), "number")
    with pytest.raises(vardi.MismatchError, match=r"y has shape \(10,\), but the pool has 320 rows"):
        inference(fit, LinearRegression(), ["x"], frame["number"].iloc[:10])
    with pytest.raises(vardi.MismatchError, match="y has shape"):
        inference(fit, LinearRegression(), ["x"], frame[["number", "yes"]].to_numpy())
    fitted = LinearRegression().fit(frame[["x", "v"]], frame["number"], sample_weight=fit.weights)
    with pytest.raises(vardi.MismatchError, match="fitted with 2 features, but X has 1"):
        inference(fit, fitted, ["x"], "number")
    both = LinearRegression().fit(frame[["x"]], frame[["number", "yes"]], sample_weight=fit.weights)
    with pytest.raises(vardi.VardiError, match="2 outcomes or classes"):
        inference(fit, both, ["x"], "number")


def test_values_are_checked(fit):
    frame = three_tilts()[0]
    holes = frame[["x", "v"]].assign(v=frame["v"].where(frame["v"] > 0))
    with pytest.raises(vardi.MissingValuesError, match=r"missing or infinite values: 'v' \(\d+\)") as caught:
        inference(fit, LinearRegression(), holes, "number")
    assert caught.value.columns == {"v": int(holes["v"].isna().sum())}
    with pytest.raises(vardi.MissingValuesError, match=r"rows have missing or infinite values: 'y' \(\d+\)"):
        inference(fit, LinearRegression(), ["x"], frame["number"].where(frame["v"] > 0))
    with pytest.raises(vardi.MismatchError, match="Feature 'word' holds .* Encode it as numbers"):
        inference(fit, LinearRegression(), pd.DataFrame({"word": ["a"] * len(fit)}), "number")
    with pytest.raises(vardi.VardiError, match="The model has 3 outcomes or classes"):
        inference(fit, LogisticRegression(), ["x"], np.arange(len(fit)) % 3)
    fitted = LogisticRegression().fit(frame[["x"]], frame["yes"], sample_weight=fit.weights)
    with pytest.raises(vardi.MismatchError, match="y holds 'maybe', which is not one of the model's classes"):
        inference(fit, fitted, frame[["x"]], np.array(["maybe"] * len(fit)))
    with pytest.raises(vardi.MismatchError, match="LinearRegression needs numbers"):
        inference(fit, LinearRegression().fit(frame[["x"]], frame["yes"]), frame[["x"]], np.array(["a"] * len(fit)))


def test_features_that_determine_one_another_are_named(fit):
    frame = three_tilts()[0]
    X = frame[["x", "v"]].assign(sum=frame["x"] + frame["v"])
    with pytest.raises(vardi.VardiError, match="The coefficients of 'x', 'v', 'sum' are not determined"):
        inference(fit, LinearRegression(), X, "number")
    with pytest.raises(vardi.VardiError, match="The coefficients of 'zero' are not determined"):
        inference(fit, LinearRegression(), frame[["x"]].assign(zero=0.0), "number")
    with pytest.raises(vardi.VardiError, match="The coefficients of 'intercept', 'one' are not determined"):
        inference(fit, LinearRegression(), frame[["x"]].assign(one=1.0), "number")
    of_arrays = vardi.debias({"all": frame[["x", "v"]].to_numpy()}, {"all": 1})
    with pytest.raises(vardi.VardiError, match="The coefficients of 'x0', 'x0' are not determined"):
        inference(of_arrays, LinearRegression(), ["x0", "x0"], "x1")
    assert len(inference(fit, Ridge(1.0), X, "number")) == 4  # a penalty decides


def test_outcomes_that_are_told_apart_are_refused(fit):
    with pytest.raises(vardi.VardiError, match="no finite solution on these rows.*add a penalty"):
        inference(fit, LogisticRegression(C=np.inf), ["x"], "x > 0.3")
    assert np.isfinite(inference(fit, LogisticRegression(C=1.0), ["x"], "x > 0.3").stderr).all()


def test_weak_overlap_gives_no_errors():
    rng = np.random.default_rng(0)
    samples = {"a": rng.uniform(0, 1, 60), "b": np.r_[rng.uniform(1.01, 2, 60), 0.95]}
    fit = vardi.debias(samples, {"a": "x < 1", "b": "x > 0.9"})
    y = rng.standard_normal(len(fit))
    y[-1] = 1000.0
    with pytest.warns(vardi.WeakOverlapWarning, match="No standard error is given for the coefficient of"):
        result = inference(fit, LinearRegression(), ["x"], y)
    assert np.isfinite(result.coefficients).all()
    assert np.isnan(result.stderr).all()
    assert np.isnan(result["x"].stderr)
    assert "nan" in str(result)


def test_lazy_frames_are_refused():
    frame, source, biases = three_tilts()
    lazy = vardi.debias(pl.from_pandas(frame.assign(source=source)).lazy(), biases, source="source")
    with pytest.raises(vardi.errors.NeedsRowsError, match="A regression needs rows in memory"):
        inference(lazy, LinearRegression(), ["x"], "number")


@pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
def test_residuals_of_clusters_are_those_before_they_were_fitted_to():
    """CR2 (Bell and McCaffrey 2002), written out: (I - H)^(-1/2) of each cluster by an eigendecomposition."""
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(12), 7)
    x = rng.normal(size=12)[g] + rng.normal(size=84)
    y = 1 + 2 * x + rng.normal(size=12)[g] + rng.normal(size=84)
    weights = np.exp(-x / 3) / np.exp(-x / 3).mean()
    fit = vardi.debias({"a": pd.DataFrame({"x": x, "y": y, "g": g})}, {"a": "exp(x / 3)"}, clusters="g")
    found = inference(fit, LinearRegression(), ["x"], "y")
    X, root = np.column_stack([np.ones(84), x]), np.sqrt(weights)
    bread = np.linalg.inv((X * weights[:, None]).T @ X)
    residual, psi = y - X @ bread @ (X.T @ (weights * y)), np.empty((84, 2))
    for cluster in range(12):
        rows = g == cluster
        scaled = X[rows] * root[rows, None]
        values, vectors = np.linalg.eigh(np.eye(7) - scaled @ bread @ scaled.T)
        before = (vectors / np.sqrt(values)) @ vectors.T @ (root[rows] * residual[rows])
        psi[rows] = X[rows] * (before / root[rows])[:, None]
    moved = (psi - weights @ psi / 84) * weights[:, None] @ bread
    deviations = moved.reshape(12, 7, 2).sum(axis=1)  # by cluster
    np.testing.assert_allclose(found.covariance, 12 / 11 * deviations.T @ deviations, rtol=1e-9)
