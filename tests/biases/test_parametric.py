"""Biases with parameters: against direct maximisation, by invariances, and what is refused."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pools import FAMILIES, fit_of, normal_frame, reference_and_panel, selected
from scipy.optimize import minimize
from scipy.special import expit

import vardi

NAMES = {name: bias.names for name, bias in FAMILIES.items()} | {"cells": ("g=a", "g=c", "h=False")}  # b is frequent


@pytest.fixture(scope="module")
def samples():
    return reference_and_panel()


def direct(samples, log_omega, start):
    """Maximise the likelihood of the labels over (u, theta) by BFGS, for a reference and a panel."""
    pool = pd.concat([samples["reference"], samples["panel"]], ignore_index=True)
    is_panel = np.arange(len(pool)) >= len(samples["reference"])

    def loss(point):
        odds = point[0] + log_omega(pool, point[1:])
        return float((np.logaddexp(0, odds) - odds * is_panel).mean())

    found = minimize(loss, np.append(0.0, start), method="BFGS", options={"gtol": 1e-9})
    return found.x[1:], found.fun


LOG_OMEGAS = {
    "logistic": lambda z, t: -np.logaddexp(0, -(t[0] + t[1] * z["x"] + t[2] * z["w"])),
    "tilt": lambda z, t: t[0] * z["x"] + t[1] * z["w"],
    "power": lambda z, t: t[0] * z["x"],
    "steps": lambda z, t: t[0] * ((z["x"] >= -0.5) & (z["x"] < 0.8)) + t[1] * (z["x"] >= 0.8),
    "cells": lambda z, t: t[0] * (z["g"] == "a") + t[1] * (z["g"] == "c") + t[2] * ~z["h"],
}


@pytest.mark.parametrize("name", FAMILIES)
def test_estimates_are_those_of_direct_maximisation(samples, name):
    bias = FAMILIES[name]
    fit = fit_of(samples, bias)
    theta = np.array([estimate.value for estimate in fit.parameters["panel"].values()])
    assert tuple(fit.parameters["panel"]) == NAMES[name]
    expected, _ = direct(samples, LOG_OMEGAS[name], np.zeros(len(theta)))
    np.testing.assert_allclose(theta, expected, atol=1e-4)
    assert fit.solution.residual < 1e-10
    assert np.isnan(fit.solution.certificate)


def test_a_tilt_gains_nothing_for_what_it_tilts(samples):
    fit = fit_of(samples, vardi.exponential_tilt("x", "w"))
    for column in ("x", "w"):
        mean = fit.expectation(column)
        assert mean.value == pytest.approx(samples["reference"][column].mean(), abs=1e-9)
        assert mean.stderr == pytest.approx(samples["reference"][column].std() / np.sqrt(250), rel=1e-6)


def test_a_tilt_by_cells_is_post_stratification(samples):
    fit = fit_of(samples, vardi.steps("x", [-0.5, 0.8]))
    for condition in ("x < -0.5", "x >= 0.8"):
        assert fit.expectation(condition).value == pytest.approx(samples["reference"].eval(condition).mean(), abs=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_fixed_at_the_estimates_it_is_the_core(samples, name):
    fit = fit_of(samples, FAMILIES[name])
    core = fit_of(samples, fit.estimated_biases["panel"])
    np.testing.assert_allclose(fit.weights, core.weights, atol=1e-10)
    assert fit.log_omegas["panel"] == pytest.approx(core.log_omegas["panel"], abs=1e-10)
    assert fit.expectation("y").value == pytest.approx(core.expectation("y").value, abs=1e-10)
    assert fit.expectation("x").stderr > core.expectation("x").stderr  # the price of not knowing them
    assert type(core) is vardi.DebiasedSample


@pytest.mark.parametrize(
    ("bias", "theta", "omega"),
    [
        (vardi.logistic("x", "w"), [-0.5, 2.0, -1.0], lambda z: expit(-0.5 + 2 * z["x"] - z["w"])),
        (vardi.exponential_tilt("x", "w"), [1.0, -0.5], lambda z: np.exp(z["x"] - 0.5 * z["w"])),
        (vardi.power("exp(x)"), {"exponent": 1.5}, lambda z: np.exp(1.5 * z["x"])),
        (vardi.steps("x", [0, 1]), [0.5, -1], lambda z: np.select([z["x"] < 0, z["x"] < 1], [1, np.e**0.5], 1 / np.e)),
    ],
    ids=["logistic", "tilt", "power", "steps"],
)
def test_fixed_at_the_truth_it_is_the_core(samples, bias, theta, omega):
    fixed = bias.at(theta)
    assert vardi.biases.as_bias(str(fixed)) == fixed
    mine, core = fit_of(samples, fixed), fit_of(samples, omega)
    np.testing.assert_allclose(mine.weights, core.weights, rtol=1e-12)
    assert mine.expectation("y").stderr == pytest.approx(core.expectation("y").stderr, rel=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_of_new_rows_are_those_of_the_pool(samples, name):
    bias = vardi.where("x > -9") * FAMILIES[name]
    fit = fit_of(samples, bias)
    again = fit.weigh(pl.DataFrame(samples["panel"].to_dict("list")))
    assert isinstance(again, pl.Series)
    np.testing.assert_allclose(again.to_numpy(), np.asarray(fit.weights)[250:], rtol=1e-10)


def test_influence_is_the_derivative_of_the_estimate(samples):
    """Counting one row more and another of its sample less moves everything as influence says; exact for tilts."""
    rng = np.random.default_rng(5)
    unit = 10**8  # so that a small part of a count is a whole number
    counts = np.rint(rng.uniform(0.5, 2.0, 750) * unit)
    bias = vardi.exponential_tilt("x", "w")
    y = np.concatenate([rows["y"] for rows in samples.values()])

    def numbers(counts):
        fit = fit_of(samples, bias, counts=counts, tol=1e-13)
        parameters = fit.parameters["panel"]
        median = float(np.median(y))
        return [
            fit.expectation("y"),
            *parameters.values(),
            fit.log_normalisers()["panel"],
            fit.cdf("y")(median),
            parameters["x"] / parameters["w"],
        ]

    here = numbers(counts)
    step = 1e-4 * unit
    for i, j in ((3, 200), (300, 700), (260, 749)):
        moved = []
        for sign in (1, -1):
            shifted = counts.copy()
            shifted[i] += sign * step
            shifted[j] -= sign * step
            moved.append(numbers(shifted))
        for estimate, up, down in zip(here, *moved, strict=True):
            derivative = (up.value - down.value) / (2 * step / unit)
            predicted = (estimate.influence.of_rows()[i, 0] - estimate.influence.of_rows()[j, 0]) / (
                counts.sum() / unit
            )
            assert derivative == pytest.approx(predicted, rel=1e-5, abs=1e-10)


def test_the_band_rests_on_the_same_errors(samples):
    fit = fit_of(samples, FAMILIES["logistic"])
    cdf = fit.cdf("y")
    grid = np.array([0.0, 1.0, 2.0])
    covariance = cdf._covariance(grid, np.array([cdf(t).value for t in grid]))
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), [cdf(t).stderr for t in grid], rtol=1e-9)
    band = cdf.band()
    assert (band.high - band.low).max() > 3 * max(cdf(t).stderr for t in grid)


def test_errors_of_normalisers_include_those_of_parameters(samples):
    fit = fit_of(samples, FAMILIES["logistic"])
    log_omegas = fit.log_normalisers()
    covariance = fit.log_omega_covariance()
    assert np.sqrt(covariance[1, 1]) == pytest.approx(log_omegas["panel"].stderr, rel=1e-10)
    core = fit_of(samples, fit.estimated_biases["panel"])
    assert log_omegas["panel"].stderr > 1.5 * core.log_normalisers()["panel"].stderr


def test_bootstrap_fits_the_parameters_anew(samples):
    fit = fit_of(samples, FAMILIES["logistic"])
    spread = fit.bootstrap(["x", "y"], n=150)
    assert spread.stderr == pytest.approx([fit.expectation("x").stderr, fit.expectation("y").stderr], rel=0.2)
    tilted = fit_of(samples, FAMILIES["tilt"])
    normalisers = tilted.bootstrap(n=150)
    assert normalisers.stderr[1] == pytest.approx(tilted.log_normalisers()["panel"].stderr, rel=0.2)
    core = fit_of(samples, fit.estimated_biases["panel"]).bootstrap(["x"], n=150)
    assert spread.stderr[0] > 1.15 * core.stderr[0]
    np.testing.assert_array_equal(spread.values[:20], fit.bootstrap(["x", "y"], n=20).values)


@settings(max_examples=12, deadline=None)
@given(
    shift=st.floats(-50, 50),
    scale=st.floats(0.01, 100).flatmap(lambda s: st.sampled_from([s, -s])),
    name=st.sampled_from(["logistic", "tilt"]),
)
def test_shifted_and_scaled_columns_give_the_same_weights(samples, shift, scale, name):
    bias = FAMILIES[name]
    moved = {key: rows.assign(x=shift + scale * rows["x"]) for key, rows in samples.items()}
    before, after = fit_of(samples, bias), fit_of(moved, bias)
    np.testing.assert_allclose(before.weights, after.weights, rtol=1e-7)
    old, new = before.parameters["panel"], after.parameters["panel"]
    assert new["x"].value * scale == pytest.approx(old["x"].value, rel=1e-6)
    assert new["x"].stderr * abs(scale) == pytest.approx(old["x"].stderr, rel=1e-6)
    assert new["w"].value == pytest.approx(old["w"].value, rel=1e-6)
    assert after.expectation("y").stderr == pytest.approx(before.expectation("y").stderr, rel=1e-6)
    if name == "logistic":
        assert new["intercept"].value + new["x"].value * shift == pytest.approx(old["intercept"].value, abs=1e-6)
        difference = new["intercept"] + new["x"] * shift
        assert difference.stderr == pytest.approx(old["intercept"].stderr, rel=1e-5)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(list(FAMILIES)))
def test_order_of_rows_and_samples_does_not_matter(samples, seed, name):
    rng = np.random.default_rng(seed)
    order = {key: rng.permutation(len(rows)) for key, rows in samples.items()}
    shuffled = {key: samples[key].iloc[order[key]].reset_index(drop=True) for key in ("panel", "reference")}
    before, after = fit_of(samples, FAMILIES[name]), fit_of(shuffled, FAMILIES[name])
    expected = np.concatenate(
        [np.asarray(before.weights)[250:][order["panel"]], before.weights[:250][order["reference"]]]
    )
    np.testing.assert_allclose(after.weights, expected, rtol=1e-8)
    for parameter, estimate in before.parameters["panel"].items():
        assert after.parameters["panel"][parameter].value == pytest.approx(estimate.value, rel=1e-7, abs=1e-8)
        assert after.parameters["panel"][parameter].stderr == pytest.approx(estimate.stderr, rel=1e-7)


@pytest.mark.parametrize("name", FAMILIES)
def test_counts_are_duplicates(samples, name):
    rng = np.random.default_rng(3)
    counts = {key: rng.integers(0, 4, len(rows)) for key, rows in samples.items()}
    doubled = {key: rows.loc[rows.index.repeat(counts[key])].reset_index(drop=True) for key, rows in samples.items()}
    counted, repeated = fit_of(samples, FAMILIES[name], counts=counts), fit_of(doubled, FAMILIES[name])
    for parameter, estimate in repeated.parameters["panel"].items():
        mine = counted.parameters["panel"][parameter]
        assert (mine.value, mine.stderr) == pytest.approx((estimate.value, estimate.stderr), rel=1e-8, abs=1e-9)
    both = counted.expectation("y"), repeated.expectation("y")
    assert both[0].value == pytest.approx(both[1].value, rel=1e-9)
    assert both[0].stderr == pytest.approx(both[1].stderr, rel=1e-9)
    assert counted.test_no_bias("panel").statistic == pytest.approx(repeated.test_no_bias("panel").statistic, rel=1e-8)


def test_several_samples_have_parameters_of_their_own_beside_states_that_nobody_drew():
    rng = np.random.default_rng(8)
    drawn = {
        "reference": normal_frame(rng, 200),
        "first": selected(rng, 300, lambda z: expit(2 * z["x"])),
        "second": selected(rng, 300, lambda z: expit(2 * z["x"])),
        "cut": selected(rng, 100, lambda z: z["x"] > 0),
    }
    biases = {"reference": 1, "first": "logistic(x)", "second": "logistic(x)", "cut": "x > 0", "state": "x > 1"}
    fit = vardi.debias(drawn, biases)
    assert list(fit.parameters) == ["first", "second"]
    assert fit.parameters["first"]["x"].value != fit.parameters["second"]["x"].value
    difference = fit.parameters["first"]["x"] - fit.parameters["second"]["x"]
    assert abs(difference.z) < 3
    assert fit.omegas["state"] == pytest.approx(fit.expectation("x > 1").value, rel=1e-12)
    assert fit.normalisers()["state"].stderr == pytest.approx(fit.expectation("x > 1").stderr, rel=1e-9)
    assert np.isfinite(fit.bootstrap(n=5).log_omegas).all()
    labelled = pd.concat([rows.assign(source=name) for name, rows in drawn.items()], ignore_index=True)
    again = vardi.debias(labelled, biases, source="source")
    np.testing.assert_allclose(again.weights, fit.weights, rtol=1e-10)


def test_a_known_factor_stands_before_a_family(samples):
    panel = samples["panel"][samples["panel"]["x"] > 0]
    both = {"reference": samples["reference"], "panel": panel}
    bias = vardi.where("x > 0") * vardi.exponential_tilt("x")
    fit = fit_of(both, bias)
    inside = {key: rows[rows["x"] > 0] for key, rows in both.items()}
    alone = fit_of(inside, vardi.exponential_tilt("x"))
    assert fit.parameters["panel"]["x"].value == pytest.approx(alone.parameters["panel"]["x"].value, rel=1e-8)
    assert (fit.weigh(both["reference"])[both["reference"]["x"] < 0] > 1).all()
    values = vardi.biases.as_bias(np.concatenate([rows["x"] > 0 for rows in both.values()]).astype(float))
    given_by_values = fit_of(both, vardi.exponential_tilt("x") * values)
    np.testing.assert_allclose(given_by_values.weights, fit.weights, rtol=1e-9)


def test_large_columns_do_not_overflow(samples):
    wide = {key: rows.assign(x=2e6 + 300 * rows["x"]) for key, rows in samples.items()}
    fit = fit_of(wide, vardi.exponential_tilt("x"))
    np.testing.assert_allclose(fit.weights, fit_of(samples, vardi.exponential_tilt("x")).weights, rtol=1e-6)
    assert fit.solved.rows.log  # omega itself would not fit a float
    np.testing.assert_allclose(fit.weigh(wide["panel"]), np.asarray(fit.weights)[250:], rtol=1e-8)


# --- functions


def tilt(rows, theta):
    return np.exp(theta[0] * rows["x"] + theta[1] * rows["w"])


def tilt_gradient(rows, theta):
    return np.column_stack([rows["x"], rows["w"]]) * np.asarray(tilt(rows, theta))[:, None]


@pytest.mark.parametrize("gradient", [None, tilt_gradient], ids=["differences", "gradient"])
def test_a_function_is_its_family(samples, gradient):
    family = fit_of(samples, vardi.exponential_tilt("x", "w"))
    bias = vardi.parametric(tilt, start=[0.0, 0.0], names=["x", "w"], gradient=gradient)
    fit = fit_of(samples, bias)
    np.testing.assert_allclose(fit.weights, family.weights, rtol=1e-7)
    for name in ("x", "w"):
        assert fit.parameters["panel"][name].value == pytest.approx(family.parameters["panel"][name].value, rel=1e-7)
        assert fit.parameters["panel"][name].stderr == pytest.approx(family.parameters["panel"][name].stderr, rel=1e-7)
    assert fit.log_normalisers()["panel"].stderr == pytest.approx(family.log_normalisers()["panel"].stderr, rel=1e-6)
    values = {"x": 1.0, "w": -0.5}
    mine, other = fit.test_parameters("panel", values), family.test_parameters("panel", values)
    assert mine.statistic == pytest.approx(other.statistic, rel=1e-7)
    np.testing.assert_allclose(fit.weigh(samples["panel"]), np.asarray(fit.weights)[250:], rtol=1e-9)
    core = fit_of(samples, fit.estimated_biases["panel"])
    np.testing.assert_allclose(core.weights, fit.weights, rtol=1e-9)


def test_the_best_of_several_starts_is_taken(samples):
    def mixed(rows, theta):  # even in theta: where it starts decides where it ends, and both ends are as good
        return np.exp(np.abs(theta[0]) * rows["x"] * np.sign(theta[0]))

    ends = [
        fit_of(samples, vardi.parametric(mixed, start=start)).parameters["panel"]["theta0"].value
        for start in ([0.1], [[-0.1], [0.2]], [[3.0], [0.5]])
    ]
    np.testing.assert_allclose(ends, ends[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("bias", "text"),
    [
        (
            vardi.parametric(lambda rows, t: t[0] - rows["x"], start=[0.5]),
            "is -.* on .* rows of the pool at theta0 = 0.5",
        ),
        (vardi.parametric(lambda rows, t: rows["x"] < 5 + t[0], start=[0.5]), "determine 'theta0' of 'panel'"),
        (
            vardi.parametric(tilt, start=[0, 0], gradient=lambda rows, t: np.zeros(len(rows))),
            r"has shape \(250,\), but should have \(250, 2\)",
        ),
    ],
)
def test_functions_that_are_no_biases_are_refused(samples, bias, text):
    with pytest.raises((vardi.InvalidBiasError, vardi.UnidentifiedParametersError), match=text):
        fit_of(samples, bias)


def test_support_that_depends_on_parameters_is_refused(samples):
    cut = float(samples["reference"]["x"].sort_values().iloc[-3])
    bias = vardi.parametric(lambda rows, t: (rows["x"] <= cut + 1e-3 - t[0]) * np.exp(t[0] * rows["x"]), start=[0.0])
    inside = {"reference": samples["reference"], "panel": samples["panel"][samples["panel"]["x"] < cut - 1]}
    with pytest.raises(vardi.InvalidBiasError, match="Whether the bias of 'panel' is zero depends on its parameters"):
        fit_of(inside, bias)


def test_a_search_that_does_not_end_is_an_error(samples):
    def wrong(rows, theta):
        return -tilt_gradient(rows, theta)

    with pytest.raises(vardi.ConvergenceError, match="of 'panel' were not found in .* Give another start") as caught:
        fit_of(samples, vardi.parametric(tilt, start=[0.0, 0.0], gradient=wrong))
    assert not caught.value.solution.converged


# --- tests


def test_likelihood_ratios_are_those_of_direct_maximisation(samples):
    fit = fit_of(samples, FAMILIES["logistic"])
    best = direct(samples, LOG_OMEGAS["logistic"], np.zeros(3))[1]
    fixed = direct(samples, lambda z, t: LOG_OMEGAS["logistic"](z, [t[0], 1.5, t[1]]), np.zeros(2))[1]
    test = fit.test_parameters("panel", {"x": 1.5})
    assert (test.statistic, test.dof) == (pytest.approx(1500 * (fixed - best), rel=1e-5), 1)
    whole = direct(samples, lambda z, t: LOG_OMEGAS["logistic"](z, [-0.5, 2, -1]), [])[1]
    test = fit.test_parameters("panel", {"intercept": -0.5, "x": 2, "w": -1})
    assert (test.statistic, test.dof) == (pytest.approx(1500 * (whole - best), rel=1e-5), 3)
    assert str(test).startswith("p = 0.0")
    assert "3 degrees of freedom" in str(test)
    at_estimates = {name: estimate.value for name, estimate in fit.parameters["panel"].items()}
    assert fit.test_parameters("panel", at_estimates).pvalue == pytest.approx(1.0)


def test_no_bias_of_a_logistic_curve_is_that_of_its_tilt(samples):
    logistic, tilted = (fit_of(samples, FAMILIES[name]) for name in ("logistic", "tilt"))
    test = logistic.test_no_bias("panel")
    assert test.dof == 2
    assert test.statistic == pytest.approx(tilted.test_no_bias("panel").statistic, rel=1e-8)
    none, best = -np.log([1 / 3, 2 / 3]) @ [1 / 3, 2 / 3], direct(samples, LOG_OMEGAS["tilt"], np.zeros(2))[1]
    assert test.statistic == pytest.approx(2 * 750 * (none - best), rel=1e-8)
    assert test.pvalue < 1e-10
    assert "chi-square" in str(test)


def test_what_cannot_be_tested_is_refused(samples):
    fit = fit_of(samples, FAMILIES["logistic"])
    with pytest.raises(vardi.MismatchError, match="Use test_no_bias"):
        fit.test_parameters("panel", {"x": 0, "w": 0.0})
    with pytest.raises(
        vardi.MismatchError, match="no parameter 'intercpt'. Its parameters are 'intercept', 'x', 'w'. Did you"
    ):
        fit.test_parameters("panel", {"intercpt": 0})
    with pytest.raises(vardi.MismatchError, match="There is nothing to test"):
        fit.test_parameters("panel", {})
    with pytest.raises(vardi.MismatchError, match="not all finite"):
        fit.test_parameters("panel", {"x": np.inf})
    with pytest.raises(
        vardi.MismatchError, match="The bias of 'reference' has no parameters. Those of 'panel' have parameters"
    ):
        fit.test_no_bias("reference")
    with pytest.raises(vardi.MismatchError, match="Give these to test_parameters"):
        fit_of(samples, vardi.parametric(tilt, start=[0.0, 0.0])).test_no_bias("panel")


def test_a_flat_curve_is_compared_with_at_its_limit(samples):
    """Under so flat a slope any intercept is too high: the likelihood tends to that of the tilt by it."""
    fit = fit_of(samples, vardi.logistic("x"))
    tilted = fit_of(samples, vardi.exponential_tilt("x"))
    curve = direct(samples, lambda z, t: -np.logaddexp(0, -(t[0] + t[1] * z["x"])), np.zeros(2))[1]
    better = 2 * 750 * (direct(samples, lambda z, t: t[0] * z["x"], np.zeros(1))[1] - curve)
    expected = tilted.test_parameters("panel", {"x": 0.1}).statistic + better
    assert fit.test_parameters("panel", {"x": 0.1}).statistic == pytest.approx(expected, rel=1e-6)


# --- what is not identified


def test_no_known_bias_is_refused(samples):
    biases = {"reference": vardi.exponential_tilt("x"), "panel": vardi.logistic("x")}
    with pytest.raises(vardi.UnidentifiedParametersError, match="no sample has a known bias.*however small") as caught:
        vardi.debias(samples, biases)
    assert caught.value.groups == (("reference", "panel"),)
    assert caught.value.verdict.identified  # by overlap they are
    verdict = vardi.identify(samples, biases)
    assert not verdict
    assert "no sample has a known bias" in verdict.message
    with pytest.raises(vardi.UnidentifiedParametersError, match="The bias of 'panel' has parameters, and no sample"):
        vardi.debias({"panel": samples["panel"]}, {"panel": vardi.logistic("x")})
    assert vardi.identify(samples, {"reference": 1, "panel": "logistic(x)"})


def test_a_parameter_that_is_a_normaliser_is_refused(samples):
    function = vardi.parametric(lambda rows, t: np.exp(t[0] + t[1] * rows["x"]), start=[0.0, 0.0], names=["a", "b"])
    with pytest.raises(
        vardi.UnidentifiedParametersError, match="determine 'a' of 'panel': it cannot be distinguished from the"
    ):
        fit_of(samples, function)
    constant = {key: rows.assign(w=3) for key, rows in samples.items()}
    with pytest.raises(vardi.UnidentifiedParametersError, match="'w' in the bias .* is the same on all rows") as caught:
        fit_of(constant, FAMILIES["logistic"])
    assert (caught.value.sample, caught.value.parameters) == ("panel", ("w",))


def test_columns_that_say_the_same_are_refused(samples):
    with pytest.raises(
        vardi.UnidentifiedParametersError, match="they cannot be distinguished from one another"
    ) as caught:
        fit_of(samples, vardi.exponential_tilt("x", "2 * x + 1", "w"))
    assert caught.value.parameters == ("x", "2 * x + 1")


def test_steps_that_no_other_sample_reaches_are_refused(samples):
    low = {"reference": samples["reference"].query("x < 1"), "panel": samples["panel"]}
    with pytest.raises(vardi.UnidentifiedParametersError, match="Add rows of a sample with a known bias") as caught:
        vardi.debias(low, {"reference": "x < 1", "panel": vardi.steps("x", [0, 1])})
    assert caught.value.parameters == ("x >= 1",)


def attempted(rows):
    """Return the fit of a logistic curve or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return vardi.debias(rows, {"reference": 1, "panel": "logistic(x)"}), caught
        except vardi.UnidentifiedParametersError as error:
            return error, caught


def test_rare_logistic_selection_is_refused_or_doubted_and_a_tilt_is_the_remedy():
    rng = np.random.default_rng(0)
    refused, doubted = [], []
    for _ in range(12):  # a normal law, tilted: the limit of logistic selection that is ever rarer
        rows = {"reference": rng.normal(size=400), "panel": rng.normal(1, 1, 1200)}
        outcome, caught = attempted(rows)
        if isinstance(outcome, Exception):
            refused.append(outcome)
        elif any(one.category is vardi.WeakParametersWarning for one in caught):
            doubted.append(outcome)
        tilted = vardi.debias(rows, {"reference": 1, "panel": "exponential_tilt(x)"})
        assert tilted.parameters["panel"]["x"].value == pytest.approx(1, abs=0.3)
    assert len(refused) >= 3
    assert all(error.parameters == ("intercept",) for error in refused)
    assert all("vardi.exponential_tilt('x')" in str(error) for error in refused)
    assert all("cannot be distinguished from the normaliser" in str(error) for error in refused)
    assert len(doubted) >= 2
    assert all(fit.parameters["panel"]["intercept"].stderr > 1.5 for fit in doubted)
    assert all(fit.expectation("x").stderr < 0.06 for fit in doubted)  # means do not suffer


def test_draws_that_do_not_determine_the_parameters_are_reported():
    rng = np.random.default_rng(5)
    rows = {"reference": rng.normal(size=6), "panel": rng.normal(2.5, 1, 40)}
    fit = vardi.debias(rows, {"reference": 1, "panel": vardi.exponential_tilt("x")})
    with pytest.raises(vardi.NotIdentifiableError, match="draws have no fit: their rows do not determine the param"):
        fit.bootstrap("x", n=60, kind="rows")


def test_separated_samples_are_refused():
    rng = np.random.default_rng(0)
    rows = {"reference": rng.normal(size=50), "panel": rng.normal(12, 1, 50)}
    with pytest.raises(
        vardi.UnidentifiedParametersError, match="separate the samples.*do not overlap in these columns"
    ):
        vardi.debias(rows, {"reference": 1, "panel": vardi.exponential_tilt("x")})


def test_a_bias_that_nobody_drew_with_is_refused(samples):
    biases = {"reference": 1, "panel": "logistic(x)", "state": "logistic(x)"}
    with pytest.raises(vardi.UnidentifiedParametersError, match="No sample was drawn with the bias of 'state'"):
        vardi.debias(samples, biases)


def test_groups_that_overlap_does_not_join_are_refused(samples):
    low = {"reference": samples["reference"].query("x < 0"), "panel": samples["panel"].query("x > 0.5")}
    with pytest.raises(vardi.NotIdentifiableError, match="share no rows"):
        vardi.debias(low, {"reference": "x < 0", "panel": "(x > 0.5) * exponential_tilt(x)"})


def test_bad_input_is_refused(samples):
    with pytest.raises(vardi.InvalidBiasError, match="A power needs a column above zero, on the rows of every sample"):
        fit_of(samples, vardi.power("x"))
    with pytest.raises(vardi.InvalidBiasError, match="reads -inf at row .* A bias needs finite numbers"):
        fit_of({key: rows.assign(w=0.0) for key, rows in samples.items()}, vardi.logistic("log(w)"))
    missing = {key: rows.assign(w=rows["w"].where(rows["w"] > 0)) for key, rows in samples.items()}
    with pytest.raises(vardi.MissingValuesError, match="missing values in 'w'"):
        fit_of(missing, FAMILIES["logistic"])
    with pytest.raises(vardi.MismatchError, match="Did you mean 'w'"):
        fit_of(samples, vardi.logistic("ww"))
    with pytest.raises(vardi.ImpossibleRowError, match="its own bias forbids"):
        fit_of(samples, "(x > 0) * logistic(x)")
    with pytest.raises(vardi.MismatchError, match="on_unidentified='largest' leaves samples out"):
        fit_of(samples, FAMILIES["logistic"], on_unidentified="largest")
    fit = fit_of(samples, "(x > -9) * logistic(x)")
    with pytest.raises(vardi.MismatchError, match="'x'"):
        fit.weigh(pd.DataFrame({"y": [1.0]}))
    cut = vardi.debias(
        {"reference": samples["reference"].query("x > -1"), "panel": samples["panel"].query("x > -1")},
        {"reference": "x > -1", "panel": "(x > -1) * logistic(x)"},
    )
    with pytest.raises(vardi.ImpossibleRowError, match="No sampled bias covers 1 of the new rows"):
        cut.weigh(pd.DataFrame({"x": [-2.0, 0.0]}))


def test_functions_of_lazy_frames_are_refused(samples):
    lazy = {key: pl.LazyFrame(rows.to_dict("list")) for key, rows in samples.items()}
    for ask in (vardi.debias, vardi.identify):
        with pytest.raises(vardi.NeedsRowsError, match=r"is a function of rows and parameters.*Collect"):
            ask(lazy, {"reference": 1, "panel": vardi.parametric(tilt, start=[0.0, 0.0])})


def test_known_values_stand_beside_parameters(samples):
    biases = {"reference": 1, "panel": FAMILIES["logistic"]}
    assert vardi.identify(samples, biases, known={"x > 0": 0.5})
    fit, without = (fit_of(samples, FAMILIES["logistic"], known=known) for known in ({"x > 0": 0.5}, None))
    assert type(fit) is type(without) is vardi.DebiasedSample
    assert fit.expectation("x > 0").value == pytest.approx(0.5, abs=1e-12)
    assert fit.expectation("x > 0").stderr < 1e-12
    assert fit.expectation("x").stderr < 0.9 * without.expectation("x").stderr
    assert fit.parameters["panel"]["x"].stderr < without.parameters["panel"]["x"].stderr


@pytest.mark.parametrize("lazy", [False, True], ids=["memory", "engine"])
@pytest.mark.parametrize("name", ["logistic", "tilt"])
def test_the_mean_of_a_bias_with_parameters_is_compared_with_what_the_samples_say(samples, name, lazy):
    """By the samples alone it is the normaliser at their own estimates, whose error includes that of the parameters."""
    without = fit_of(samples, FAMILIES[name])
    said = without.normalisers()["panel"]
    rows = {key: pl.LazyFrame(one.to_dict("list")) if lazy else one for key, one in samples.items()}
    fit = fit_of(rows, FAMILIES[name], known={"panel": 0.98 * said.value, "y": 1.0})
    line = fit.known.lines[0]
    assert (line.label, line.known) == ("panel", 0.98 * said.value)
    assert line.estimated == pytest.approx(said.value, rel=1e-8)
    assert line.stderr == pytest.approx(said.value * without.log_normalisers()["panel"].stderr, rel=1e-7)
    assert fit.known.df == 2


# --- values and texts


@pytest.mark.parametrize(
    ("bias", "text"),
    [
        (vardi.logistic("age", "income"), "logistic(age, income)"),
        (vardi.logistic("`household size`", "log(income)"), "logistic(`household size`, log(income))"),
        (vardi.exponential_tilt("x", "sex == 'F'"), "exponential_tilt(x, sex == 'F')"),
        (vardi.power("length"), "power(length)"),
        (vardi.steps("age", [30, 60.5]), "steps(age, [30, 60.5])"),
        (vardi.where("age > 20") * vardi.logistic("age"), "(age > 20) * logistic(age)"),
        (vardi.power("x") * 2 * vardi.proportional_to("y"), "(2 * y) * power(x)"),
        (3 * vardi.power("x"), "3 * power(x)"),
    ],
)
def test_texts_read_back(bias, text):
    assert str(bias) == text
    assert vardi.biases.as_bias(text) == bias
    assert hash(vardi.biases.as_bias(text)) == hash(bias)
    assert repr(bias) == f"where({text!r})"
    assert pickle.loads(pickle.dumps(bias)) == bias


def test_names_of_parameters():
    assert vardi.logistic("age", "log(x)").names == ("intercept", "age", "log(x)")
    assert vardi.logistic("intercept").names == ("(intercept)", "intercept")
    assert vardi.steps("age", [30, 60]).names == ("30 <= age < 60", "age >= 60")
    assert vardi.power("x").names == ("exponent",)
    assert vardi.parametric(tilt, [0, 0]).names == ("theta0", "theta1")
    assert str(vardi.parametric(tilt, [0, 0])) == "<function tilt of theta0, theta1>"
    assert (vardi.where("a > 0") * vardi.logistic("b")).columns == ("a", "b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("logistic(age) + 1", "can only stand alone or be a factor"),
        ("not logistic(age)", "can only stand alone or be a factor"),
        ("logistic()", "logistic has no column"),
        ("power(a, b)", "power reads one column, but 2 were given"),
        ("logistic(age, age)", "A column appears twice"),
        ("logistic(3)", "reads no column"),
        ("logistic('a')", "is used where a number is needed"),
        ("steps(age)", "steps takes a column and its cuts"),
        ("steps(age, 3)", "a list of numbers"),
        ("steps(age, [])", "steps has no cuts"),
        ("steps(age, [a])", "The cuts of steps must be numbers"),
        ("steps(age, [3, 3])", "are not finite, increasing numbers"),
        ("power(a) * power(b)", "this is a second"),
        ("logit(a)", "There is no function logit"),
    ],
)
def test_texts_that_are_no_families_are_refused(text, said):
    with pytest.raises(vardi.ExpressionError, match=said):
        vardi.biases.as_bias(text)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: vardi.logistic(3), vardi.InvalidBiasError, "reads columns, named by strings, not 3"),
        (lambda: vardi.logistic(), vardi.InvalidBiasError, "logistic has no column"),
        (lambda: vardi.logistic("logistic(a)"), vardi.ExpressionError, "can only stand alone or be a factor"),
        (lambda: vardi.steps("a", 3), vardi.InvalidBiasError, "must be a list of numbers, not 3"),
        (lambda: vardi.steps("a", ["b"]), vardi.InvalidBiasError, "The cuts of steps must be numbers"),
        (lambda: vardi.steps("a", [2, 1]), vardi.InvalidBiasError, "Put them in order"),
        (lambda: vardi.power("a") * vardi.power("b"), vardi.InvalidBiasError, "a bias can have only one such factor"),
        (lambda: vardi.power("a") & vardi.where("b > 1"), vardi.InvalidBiasError, "& joins conditions"),
        (lambda: vardi.power("a").at([1, 2]), vardi.MismatchError, "The parameters of power.* are 'exponent'"),
        (lambda: vardi.power("a").at({"a": 1}), vardi.MismatchError, "but \\['a'\\] was given"),
        (lambda: vardi.power("a").at([np.nan]), vardi.InvalidBiasError, "are not all finite"),
        (lambda: vardi.parametric(3, [0]), vardi.InvalidBiasError, "takes a function of"),
        (lambda: vardi.parametric(tilt, [np.nan]), vardi.InvalidBiasError, "Give a finite number for each"),
        (lambda: vardi.parametric(tilt, [0, 0], names=["a"]), vardi.MismatchError, "1 names .* for 2 parameters"),
        (lambda: vardi.parametric(tilt, [0, 0], names=["a", "a"]), vardi.MismatchError, "Give each its own"),
    ],
)
def test_values_that_are_no_families_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make()


# --- what a person sees


def test_summary_shows_the_parameters(samples):
    fit = fit_of(samples, FAMILIES["logistic"])
    text = str(fit)
    assert "logistic(x, w)" in text
    assert f"panel intercept {fit.parameters['panel']['intercept']}" in " ".join(text.split())
    assert f"the equations hold to {fit.solution.residual:.0e}" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    html = fit._repr_html_()
    assert ">panel</th>" in html


def test_what_is_not_established_is_said(samples, tmp_path):
    fit = fit_of(samples, FAMILIES["logistic"])
    assert 0.05 < fit.check_biases().pvalue < 1  # which knows that parameters were fitted to these rows
    with pytest.raises(
        vardi.VardiError, match="known biases alone, but these also rest on known values or on parameters"
    ):
        fit.bounds()
    assert fit.sensitivity("y").method == "linear"
    text = fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The forms of the biases are taken as known." in text


def test_fits_can_be_pickled(samples):
    fit = fit_of(samples, FAMILIES["logistic"])
    before = fit.expectation("y")
    again = pickle.loads(pickle.dumps(fit))
    assert again.expectation("y").stderr == pytest.approx(before.stderr, rel=1e-12)  # J is made again
    slope, wanted = again.parameters["panel"]["x"], fit.parameters["panel"]["x"]
    assert (slope.value, slope.stderr) == (wanted.value, pytest.approx(wanted.stderr, rel=1e-12))
    with pytest.raises(vardi.UnidentifiedParametersError) as caught:
        vardi.debias({"panel": samples["panel"]}, {"panel": "logistic(x)"})
    assert pickle.loads(pickle.dumps(caught.value)).sample == "panel"


def test_learners_take_biases_with_parameters(samples):
    from sklearn.linear_model import LinearRegression

    from vardi.learn import inference

    fit = fit_of(samples, FAMILIES["logistic"])
    slope = inference(fit, LinearRegression(), ["x"], "w")["x"]
    assert slope.value == pytest.approx(0.3, abs=4 * slope.stderr)
    pool = pd.concat(samples.values(), ignore_index=True)
    source = np.repeat(["reference", "panel"], [250, 500])
    model = vardi.DebiasedEstimator(LinearRegression(), biases={"reference": 1, "panel": "logistic(x, w)"})
    model.fit(pool[["x", "w"]], pool["y"], source=source)
    reference = LinearRegression().fit(pool[["x", "w"]], pool["y"], sample_weight=np.asarray(fit.weights))
    np.testing.assert_allclose(model.estimator_.coef_, reference.coef_, rtol=1e-8)
