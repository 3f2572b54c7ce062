"""What holds for every learner, draw and score on weighted rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.common import case, cases, close, examples, seeds
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler

import vardi
from vardi.learn import (
    DebiasedScorer,
    ModelInference,
    WeightUse,
    check_weight_use,
    coefficient_sensitivity,
    debiased_scorer,
    inference,
)

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")


@given(cases, seeds, st.floats(1e-3, 1e3))
@examples(8)
def test_a_debiased_estimator_is_the_estimator_with_the_weights(one, seed, factor):
    X, y = one.pool[["x"]], one.pool["y"]
    model = vardi.DebiasedEstimator(LinearRegression(), biases=one.biases).fit(X, y, source=one.source)
    weights = np.asarray(one.fit().weights)
    plain = LinearRegression().fit(X, y, sample_weight=weights)
    close(model.predict(X), plain.predict(X))
    close(model.score(X, y), plain.score(X, y))
    order = np.random.default_rng(seed).permutation(len(X))
    scaled = one.biases | {"long": factor * vardi.proportional_to("x")}
    moved = vardi.DebiasedEstimator(LinearRegression(), biases=scaled)
    moved.fit(X.iloc[order], y.iloc[order], source=one.source[order])
    close(moved.predict(X), model.predict(X), rtol=1e-7)
    assert model.get_params()["biases"] == one.biases
    assert model.set_params(biases=scaled).biases == scaled


@given(cases)
@examples(4)
def test_the_other_methods_are_those_of_the_learner_inside(one):
    X, label = one.pool[["x", "y"]], (one.pool["g"] == "a").to_numpy()
    model = vardi.DebiasedEstimator(LogisticRegression(), biases=one.biases).fit(X, label, source=one.source)
    inside = model.estimator_
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(model, method)(X), getattr(inside, method)(X))
    scaler = vardi.DebiasedEstimator(StandardScaler(), biases=one.biases)
    scaler.set_output(transform="pandas")
    scaled = scaler.fit_transform(X, source=one.source)
    close(np.average(scaled, axis=0, weights=np.asarray(one.fit().weights)), [0.0, 0.0], atol=1e-9)
    close(scaler.inverse_transform(scaled), X)
    mixture = vardi.DebiasedEstimator(vardi.GaussianMixture(2, random_state=0), biases=one.biases)
    labels = mixture.fit_predict(X, source=one.source)
    assert set(labels) <= {0, 1}
    np.testing.assert_array_equal(mixture.score_samples(X), mixture.estimator_.score_samples(X))
    assert model.get_metadata_routing() is not None


@given(cases, seeds, st.sampled_from(["multinomial", "systematic"]))
@examples(8)
def test_a_resampler_repeats_and_draws_rows_of_its_own(one, seed, method):
    X, y = one.pool[["x"]], one.pool["y"]

    def drawn():
        return vardi.DebiasedResampler(biases=one.biases, random_state=seed, method=method)

    first = drawn()
    rows, targets = first.fit_resample(X, y, source=one.source)
    again, _ = drawn().fit_resample(X, y, source=one.source)
    pd.testing.assert_frame_equal(rows, again)
    np.testing.assert_array_equal(rows.index, targets.index)
    np.testing.assert_array_equal(X.loc[rows.index], rows)
    if method == "systematic":  # each row comes n times its probability, rounded up or down
        times = np.bincount(rows.index, minlength=len(X))
        wanted = len(rows) * np.asarray(one.fit().probabilities)
        assert (np.abs(times - wanted) < 1.0 + 1e-9).all()


@given(seeds, st.floats(1e-3, 1e3))
@examples(5)
def test_a_mixture_counts_a_weight_of_two_as_two_rows(seed, factor):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(-3, 1, (30, 2)), rng.normal(3, 1, (40, 2))])
    times = rng.integers(1, 4, len(X))
    start = {"n_components": 2, "means_init": [[-3.0, -3.0], [3.0, 3.0]], "random_state": 0, "tol": 1e-9}
    weighted = vardi.GaussianMixture(**start).fit(X, sample_weight=factor * times)
    copied = vardi.GaussianMixture(**start).fit(np.repeat(X, times, axis=0))
    close(weighted.means_, copied.means_, rtol=1e-5)
    close(weighted.weights_, copied.weights_, rtol=1e-5)
    close(weighted.score(X, sample_weight=factor * times), copied.score(np.repeat(X, times, axis=0)), rtol=1e-6)
    close(weighted.predict_proba(X).sum(axis=1), np.ones(len(X)))
    np.testing.assert_array_equal(weighted.predict(X), weighted.predict_proba(X).argmax(axis=1))
    assert weighted.sample(5)[0].shape == (5, 2)
    assert np.isfinite(weighted.score_samples(X)).all()
    assert weighted.bic(X, factor * times) > weighted.aic(X, factor * times) - 1e-9
    np.testing.assert_array_equal(
        vardi.GaussianMixture(**start).fit_predict(X, sample_weight=times), weighted.predict(X)
    )


@given(seeds, st.floats(1e-3, 1e3))
@examples(4)
def test_a_debiased_risk_knows_no_scale_of_a_bias(seed, factor):
    one = case(seed, scale=2)
    X, y = one.pool[["x"]], one.pool["y"]
    risk = vardi.debiased_risk(LinearRegression(), X, y, source=one.source, biases=one.biases, cv=3)
    scaled = one.biases | {"long": factor * vardi.proportional_to("x")}
    moved = vardi.debiased_risk(LinearRegression(), X, y, source=one.source, biases=scaled, cv=3)
    assert isinstance(risk, vardi.Estimate)
    close([moved.value, moved.stderr], [risk.value, risk.stderr], rtol=1e-6)
    assert risk.value > 0.0


@given(cases)
@examples(5)
def test_a_scorer_is_the_score_by_weights(one):
    fit, X, y = one.fit(), one.pool[["x"]], one.pool["y"]
    model = LinearRegression().fit(X, y)
    scorer = debiased_scorer("neg_mean_squared_error", fit=fit)
    assert isinstance(scorer, DebiasedScorer)
    expected = -np.average((y - model.predict(X)) ** 2, weights=np.asarray(fit.weights))
    close(scorer(model, X, y), expected)


@given(cases)
@examples(5)
def test_inference_has_the_coefficients_of_the_weighted_fit(one):
    fit, X, y = one.fit(), one.pool[["x"]], one.pool["y"]
    found = inference(fit, LinearRegression(), X, y)
    assert isinstance(found, ModelInference)
    model = LinearRegression().fit(X, y, sample_weight=np.asarray(fit.weights))
    close(found.coefficients, [model.intercept_, *model.coef_], rtol=1e-7)
    close(found.z, found.coefficients / found.stderr)
    assert (found.interval[:, 0] <= found.coefficients).all()
    assert (found.coefficients <= found.interval[:, 1]).all()
    assert "x" in found.table()


@given(seeds)
@examples(2)
def test_the_sensitivity_of_a_coefficient_is_nested(seed):
    one = case(seed)
    found = coefficient_sensitivity(one.fit(), LinearRegression(), one.pool[["x"]], one.pool["y"], "x", [1.0, 1.2, 1.6])
    assert (np.diff(found.lower) <= 1e-9).all()
    assert (np.diff(found.upper) >= -1e-9).all()
    close(found.lower[0], found.upper[0])


@given(seeds)
@examples(2)
def test_use_of_weights_is_seen_at_any_seed(seed):
    found = check_weight_use(LinearRegression(), seed=seed)
    assert isinstance(found, WeightUse)
    assert found.finding == "exact"
    assert found


@given(cases, seeds)
@examples(3)
def test_torch_draws_repeat_and_weights_have_mean_one(one, seed):
    pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'vardi[torch]'")
    fit = one.fit()
    close(fit.torch_weights().numpy(), fit.weights, rtol=1e-6)
    first, second = (list(fit.torch_sampler(20, seed)) for _ in range(2))
    assert first == second
    assert len(first) == 20
