"""Warnings point at the line of the user's, however they come about."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

import vardi


@pytest.fixture
def rows():
    return pl.DataFrame({"x": np.random.default_rng(0).normal(size=60)})


def of_debias(rows):
    vardi.debias({"a": rows[:30], "b": rows[30:]}, {"a": 1, "b": 1}, known={"x": 1.0})


def of_lazy_frames(rows):
    vardi.debias({"a": rows[:30].lazy(), "b": rows[30:].lazy()}, {"a": 1, "b": 1}, known={"x": 1.0})


def of_a_learner(rows):
    model = vardi.DebiasedEstimator(LinearRegression(), biases={"a": 1, "b": 1}, known={"x": 1.0})
    model.fit(rows, rows["x"].to_numpy() ** 2, source=np.repeat(["a", "b"], 30))


def of_samples_left_out(rows):
    low, high = rows.filter(pl.col("x") < 0), rows.filter(pl.col("x") > 0)
    vardi.debias({"a": low, "b": high}, {"a": "x < 0", "b": "x > 0"}, on_unidentified="largest")


def of_lazy_samples_left_out(rows):
    low, high = rows.lazy().filter(pl.col("x") < 0), rows.lazy().filter(pl.col("x") > 0)
    vardi.debias({"a": low, "b": high}, {"a": "x < 0", "b": "x > 0"}, on_unidentified="largest")


@pytest.mark.parametrize(
    "call", [of_debias, of_lazy_frames, of_a_learner, of_samples_left_out, of_lazy_samples_left_out]
)
def test_they_point_here(call, rows):
    with pytest.warns(vardi.VardiWarning) as caught:
        call(rows)
    assert {warning.filename for warning in caught} == {__file__}
