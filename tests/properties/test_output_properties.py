"""Whatever was fitted can be printed, drawn and reported; data sets come back the same by their seed."""

from __future__ import annotations

import html
import warnings
from dataclasses import fields

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import KINDS, design
from properties.common import case, cases, examples, seeds

import vardi
from vardi import plots, report

mpl.use("Agg")
from matplotlib import pyplot as plt

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")


@given(st.sampled_from(KINDS), st.integers(1, 4), st.integers(0, 20), seeds)
@examples(4)
def test_every_valid_fit_of_a_matrix_can_be_printed_and_reported(kind, K, extra, seed):
    d = design(kind, K, K + extra, seed)
    fit = vardi.debias_matrix(d.omega, d.source)
    assert f"{len(d.z)} row" in fit.summary()
    assert str(fit) == fit.summary()
    assert "<table" in fit._repr_html_()
    assert report.to_html(report.compute(fit, title="a")).startswith("<!DOCTYPE html>")


@given(cases, st.sampled_from([1, 2, 5, None]))
@examples(3)
def test_every_valid_fit_of_a_frame_can_be_printed_and_reported(tmp_path_factory, one, rows):
    try:
        fit = vardi.debias({name: part.iloc[:rows] for name, part in one.samples.items()}, one.biases)
    except vardi.NotIdentifiableError:
        return
    assert fit.summary()
    path = tmp_path_factory.mktemp("report") / "a.html"
    assert fit.report(path) == path
    written = path.read_text(encoding="utf-8")
    assert html.escape(str(one.biases["low"])) in written
    with pytest.raises(vardi.OutputError):
        fit.report(path)
    assert isinstance(report.compute(fit), report.Report)


@given(cases)
@examples(2)
def test_every_display_draws_on_the_axes_it_is_given(one):
    fit = one.fit()
    figure, axes = plt.subplots(1, 5)
    try:
        displays = (
            plots.OverlapDisplay.from_fit(fit, ax=axes[0]),
            plots.WeightsDisplay.from_fit(fit, ax=axes[1]),
            plots.CdfDisplay.from_fit(fit, "y", ax=axes[2]),
            plots.LoveDisplay.from_fit(fit, ax=axes[3]),
            plots.SensitivityDisplay.from_fit(fit, "y", [1.0, 1.5], ax=axes[4]),
        )
        for display, ax in zip(displays, axes, strict=True):
            assert display.ax_ is ax
            assert display.plot(ax=ax).figure_ is figure
            assert ax.has_data() or ax.texts
    finally:
        plt.close(figure)


SIMULATED = {
    "exponential_tilts": vardi.datasets.exponential_tilts,
    "gaussian_scenario": lambda seed: vardi.datasets.gaussian_scenario("l", seed=seed),
    "harmonic_oscillators": lambda seed: vardi.datasets.harmonic_oscillators(states=3, rows_per_state=20, seed=seed),
    "house_prices": vardi.datasets.house_prices,
    "length_bias": vardi.datasets.length_bias,
    "multivariate_length_bias": vardi.datasets.multivariate_length_bias,
    "strata": vardi.datasets.strata,
    "tilts": vardi.datasets.tilts,
    "truncation": lambda seed: vardi.datasets.truncation(seed=seed),
    "two_gaussians": vardi.datasets.two_gaussians,
}


def arrays(drawn):
    """Return the numbers of a design, its texts apart."""
    if isinstance(drawn, vardi.datasets.MatrixDesign):
        return [drawn.rows, drawn.omega, drawn.source]
    assert isinstance(drawn, vardi.datasets.Design)
    return [np.asarray(pd.DataFrame(rows).select_dtypes("number"), float) for rows in drawn.samples.values()]


@pytest.mark.parametrize("name", SIMULATED)
@given(seed=st.integers(0, 50))
@examples(2)
def test_a_design_of_a_seed_is_one_design(name, seed):
    first, second, other = (SIMULATED[name](seed=s) for s in (seed, seed, seed + 1))
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(
        a.shape != b.shape or not np.array_equal(a, b) for a, b in zip(arrays(first), arrays(other), strict=True)
    )
    assert dict(first.truth).keys() == dict(second.truth).keys()
    if isinstance(first, vardi.datasets.Design):
        assert first.biases.keys() == first.samples.keys()
        for text in first.biases.values():
            assert vardi.where(str(text)).columns is not None


@pytest.mark.parametrize("name", ["boston", "adult"])
def test_a_real_table_is_the_same_at_each_call(name):
    first, second = (getattr(vardi.datasets, name)() for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    first.iloc[0, 0] = 0
    assert not first.equals(getattr(vardi.datasets, name)())  # what was handed out is the caller's own


@given(seeds)
@examples(3)
def test_results_are_values_that_cannot_be_changed(seed):
    fit = case(seed).fit()
    for one in (fit.solution, fit.expectation("x"), fit.identify(), fit.bounds(), fit.trust):
        with pytest.raises(AttributeError):
            setattr(one, fields(one)[0].name, None)


def test_every_error_is_a_value_error_and_every_warning_a_user_warning():
    for name in vardi.__all__:
        kind = getattr(vardi, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            family = (vardi.VardiWarning, UserWarning) if issubclass(kind, Warning) else (vardi.VardiError, ValueError)
            assert issubclass(kind, family), name
            assert kind.__doc__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vardi.errors.VardiError is vardi.VardiError
