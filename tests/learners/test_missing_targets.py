"""Targets that whole samples lack: their rows still help the weights of the others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import vardi

BIASES = {"survey": 1, "panel": "x"}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"x": np.concatenate([rng.gamma(3.0, size=150), rng.gamma(4.0, size=300), rng.gamma(4.0, size=100)])}
    )
    source = np.repeat(["survey", "panel", "web"], [150, 300, 100])
    y = np.where(source == "web", np.nan, np.sin(X["x"]) + rng.normal(size=550))
    return X, y, source


def test_a_learner_is_fitted_to_the_rows_that_have_targets(rows):
    X, y, source = rows
    biases = {**BIASES, "web": "x"}
    found = vardi.DebiasedEstimator(LinearRegression(), biases=biases).fit(X, y, source=source)
    fit = vardi.debias(X.assign(s=source), biases, source="s")
    weights, has = np.asarray(fit.among(["survey", "panel"]).weights), source != "web"
    expected = LinearRegression().fit(X[has], y[has], sample_weight=weights[has])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    y[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        vardi.DebiasedEstimator(LinearRegression(), biases=biases).fit(X, y, source=source)


def test_the_risk_is_that_of_the_rows_that_have_targets(rows):
    X, y, source = rows
    biases, has = {**BIASES, "web": "x"}, source != "web"
    found = vardi.debiased_risk(LinearRegression(), X, y, source=source, biases=biases)
    assert found.among == ("survey", "panel")
    without = vardi.debiased_risk(LinearRegression(), X[has], y[has], source=source[has], biases=BIASES)
    assert abs(found.value - without.value) < without.stderr  # other folds, and nearly the same rows
    assert 0.5 * without.stderr < found.stderr < 1.5 * without.stderr


def test_rows_without_targets_are_not_drawn(rows):
    X, y, source = rows
    resampler = vardi.DebiasedResampler(biases={**BIASES, "web": "x"}, random_state=0)
    _, drawn = resampler.fit_resample(X, y, source=source)
    assert len(drawn) == len(y)
    assert not np.isnan(drawn).any()
    assert not (source[resampler.sample_indices_] == "web").any()
