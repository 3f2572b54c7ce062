"""Parameters and known values in engines: what cannot be estimated is refused, and tests are those of memory."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from engines import QUICK_TO_ASK, local_engine
from numpy.testing import assert_allclose

import vardi

ONES_TO_FOURS = [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("bias", "columns", "error", "said"),
    [
        (
            "steps(y, [2])",
            {"y": [1.0, None, 3.0, 4.0]},
            vardi.MissingValuesError,
            r"unknown on 1 row.* missing values in 'y' \(1\)",
        ),
        (
            "power(x)",
            {"x": [1.0, 0.0, 3.0, 4.0]},
            vardi.InvalidBiasError,
            r"reads log\(x\), which is -inf at some rows of 'a'.*a power",
        ),
        (
            "logistic(x)",
            {"x": [1.0, np.inf, 3.0, 4.0]},
            vardi.InvalidBiasError,
            r"The bias logistic\(x\) of 'b' reads x, which is inf",
        ),
        (
            "exponential_tilt(x)",
            {"x": [2.0] * 4},
            vardi.UnidentifiedParametersError,
            "is the same on all rows of the pool",
        ),
    ],
)
def test_features_that_cannot_be_read_are_refused(bias, columns, error, said):
    frame = pl.LazyFrame({"x": ONES_TO_FOURS, **columns})
    with pytest.raises(error, match=said):
        vardi.debias({"a": frame, "b": frame}, {"a": 1, "b": bias})


@pytest.mark.parametrize(
    ("known", "x", "said"),
    [
        ({"1 / x": 0.5}, [0.0, 1.0, 2.0, 3.0], r"1 / x, whose mean is known, is inf at some rows of 'a'"),
        ({vardi.biases.FunctionBias(np.sin): 0.5}, ONES_TO_FOURS, "which an engine cannot compute"),
    ],
)
def test_known_functions_that_cannot_be_read_are_refused(known, x, said):
    frame = pl.LazyFrame({"x": x})
    with pytest.raises(vardi.InvalidBiasError, match=said):
        vardi.debias({"a": frame, "b": frame}, {"a": 1, "b": 1}, known=known)


def test_a_sample_of_a_single_row():
    rng = np.random.default_rng(0)
    frames = {"one": pl.DataFrame({"x": [1.7]}), "two": pl.DataFrame({"x": rng.gamma(2.0, size=60)})}
    frames["three"] = pl.DataFrame({"x": rng.gamma(3.0, size=80)})
    biases = {"one": 1, "two": 1, "three": vardi.power("x")}
    memory, lazy = vardi.debias(frames, biases), vardi.debias({k: v.lazy() for k, v in frames.items()}, biases)
    assert_allclose(lazy.expectation("x").stderr, memory.expectation("x").stderr, rtol=1e-8)
    bands = [fit.cdf("x").band(draws=50) for fit in (lazy, memory)]
    for name in ("x", "value", "low", "high"):
        assert_allclose(*(getattr(band, name) for band in bands), rtol=1e-7)


def test_a_rare_value_of_a_known_function_is_among_the_rows_to_start_from():
    rng = np.random.default_rng(0)
    n = 250_000  # more than are brought into memory
    rare = np.zeros(n, bool)
    rare[1234] = True
    frame = pl.DataFrame({"x": rng.gamma(2.0, 1.0, n), "rare": rare, "s": np.where(np.arange(n) % 2, "a", "b")})
    options = {"source": "s", "known": {"rare": (1 / n, 1 / n)}}
    lazy, memory = (vardi.debias(one, {"a": "x", "b": 1}, **options) for one in (frame.lazy(), frame))
    assert_allclose(lazy.expectation("x").value, memory.expectation("x").value, rtol=1e-9)


@pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
@pytest.mark.parametrize("family", [vardi.logistic("x"), vardi.exponential_tilt("x"), vardi.steps("x", [0.0, 0.5])])
def test_likelihood_ratios_are_those_of_memory(engine, family):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3000))
    kept = rng.random(3000) < 1 / (1 + np.exp(0.5 - x[1]))
    tables = {"plain": pa.table({"x": x[0]}), "seen": pa.table({"x": x[1][kept]})}
    biases = {"plain": 1, "seen": family}
    lazy, memory = (vardi.debias(where.samples(tables), biases) for where in (engine, local_engine("polars")))
    first = next(iter(memory.parameters["seen"]))
    for fit in (lazy, memory):
        assert fit.test_no_bias("seen").pvalue < 1e-6
    pairs = [(fit.test_no_bias("seen"), fit.test_parameters("seen", {first: 0.1})) for fit in (lazy, memory)]
    for found, wanted in zip(*pairs, strict=True):
        assert_allclose(found.statistic, wanted.statistic, rtol=1e-8)
        assert found.dof == wanted.dof
