"""Results as frames: a row for each estimate, in the library of the fit's own frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

import vardi
from vardi.learn import inference

COLUMNS = ["name", "value", "stderr", "low", "high", "df", "level"]
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}


def fit_in(library, **options):
    rng = np.random.default_rng(0)
    samples = {}
    for name, shape in (("plain", 3.0), ("seen", 4.0)):
        x = rng.gamma(shape, size=200)
        rows = {"x": x, "y": x + rng.normal(size=200), "g": rng.choice(["a", "b"], 200)}
        samples[name] = pa.table(rows) if library == "pyarrow" else LIBRARIES[library](rows)
    return vardi.debias(samples, {"plain": 1, "seen": vardi.power("x")}, **options)


def results_of(fit):
    """Return every result that is a table, with what is asked again in numbers."""
    model = inference(fit, LinearRegression(), ["x"], "y")
    means, by_domain, draws = fit.expectations(["x", "y"]), fit.expectation("y", by="g"), fit.bootstrap("y", n=20)
    return {
        "Estimates": (means, ["x", "y"], means.values),
        "Domains": (by_domain, ["a", "b"], [by_domain["a"].value, by_domain["b"].value]),
        "normalisers": (fit.normalisers(), list(fit.names), list(fit.omegas.values())),
        "log normalisers": (fit.log_normalisers(), list(fit.names), list(fit.log_omegas.values())),
        "parameters": (fit.parameters["seen"], ["exponent"], [fit.parameters["seen"]["exponent"].value]),
        "coefficients": (model, ["intercept", "x"], model.coefficients),
        "Bootstrap": (draws, ["y"], [draws.value]),
    }


def columns_of(frame):
    """Return a frame of any library as lists."""
    return frame.to_pydict() if isinstance(frame, pa.Table) else pl.DataFrame(frame).to_dict(as_series=False)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_result_is_a_frame_of_the_library_of_the_fit(library):
    fit = fit_in(library, known={"x": 3.0})
    for what, (result, names, values) in results_of(fit).items():
        frame = result.to_frame()
        assert type(frame) is LIBRARIES[library], what
        columns = columns_of(frame)
        assert list(columns)[-len(COLUMNS) :] == COLUMNS
        assert columns["name"] == names
        np.testing.assert_allclose(columns["value"], values, rtol=1e-12)
        assert isinstance(result.to_frame("polars"), pl.DataFrame)
    assert columns_of(fit.expectation("y", by="g").to_frame())["g"] == ["a", "b"]
    others = fit.known, fit.check_biases(), fit.diagnostics(), fit.sensitivity("y")
    for result in others:
        assert type(result.to_frame()) is LIBRARIES[library]
    known, check, _, sensitivity = (columns_of(result.to_frame()) for result in others)
    assert (known["name"], known["known"]) == (["x"], [3.0])
    assert check["name"] == [str(name) for name in fit.check_biases().worst_first]
    assert sensitivity["factor"] == fit.sensitivity("y").gammas.tolist()


def test_fits_of_arrays_and_engines_have_frames_too():
    arrays = vardi.debias({"a": np.linspace(1.0, 2.0, 100)}, {"a": "x"})
    assert len(arrays.normalisers().to_frame("pandas")) == 1
    assert columns_of(arrays.normalisers().to_frame())["name"] == ["a"]
    lazy = vardi.debias({"a": pl.LazyFrame({"x": np.linspace(1.0, 2.0, 100)})}, {"a": "x"})
    assert isinstance(lazy.expectations(["x"]).to_frame(), pl.DataFrame)
    nothing = replace(arrays.check_biases(), by_sample={}, untested={})
    assert nothing.to_frame("polars").shape == (0, 0)


def test_a_domain_whose_column_has_the_name_of_a_number():
    rows = pl.DataFrame({"value": ["a", "b"] * 20, "x": np.linspace(1.0, 2.0, 40)})
    fit = vardi.debias({"s": rows}, {"s": "x"})
    assert fit.proportions("value").to_frame().columns == ["by value", *COLUMNS]


def test_estimates_are_found_by_name():
    fit = fit_in("pandas")
    means = fit.expectations(["x", "y > 3"])
    assert means["y > 3"].value == fit.expectation("y > 3").value
    assert str(means).splitlines()[1].startswith("y > 3  0.")
    assert (means["x"] - means["y > 3"]).stderr > 0
    assert ">y &gt; 3</th>" in means._repr_html_()
    with pytest.raises(vardi.MismatchError, match="No estimate 'z'. The estimates are 'x', 'y > 3'"):
        means["z"]
    unnamed = fit.expectations(np.column_stack([np.ones(400), np.arange(400.0)]))
    with pytest.raises(vardi.MismatchError, match="No estimate 'x'. The estimates have no names, but places"):
        unnamed["x"]
    with pytest.raises(vardi.MismatchError, match="No coefficient 'w'. The coefficients are 'intercept', 'x'"):
        inference(fit, LinearRegression(), ["x"], "y")["w"]
