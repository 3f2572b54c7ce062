"""The likelihood of a ratio of normalisers, against a search over all laws on the rows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import ndtri

import vardi
from vardi._estimate.intervals import LikelihoodProfile, Transformed
from vardi._solve.profile import Profile


def log_likelihood(omega, source, tau, k, l):
    """Return the largest log likelihood of laws pi on the rows with log(Omega_k / Omega_l) = tau, by SLSQP."""
    n = len(source)
    sizes = np.bincount(source, minlength=omega.shape[1])

    def value(logs):
        pi = np.exp(logs - logs.max())
        return -(logs - logs.max()).sum() + sizes @ np.log(omega.T @ pi)

    def slope(logs):
        pi = np.exp(logs - logs.max())
        return -1.0 + pi * (omega @ (sizes / (omega.T @ pi)))

    def gap(logs):
        means = omega.T @ np.exp(logs - logs.max())
        return np.log(means[k]) - np.log(means[l]) - tau

    def its_slope(logs):
        pi = np.exp(logs - logs.max())
        means = omega.T @ pi
        return pi * (omega[:, k] / means[k] - omega[:, l] / means[l])

    constraint = {"type": "eq", "fun": gap, "jac": its_slope}
    options = {"maxiter": 2000, "ftol": 1e-12}
    found = minimize(value, np.zeros(n), jac=slope, constraints=[constraint], method="SLSQP", options=options)
    assert found.success, found.message
    return -found.fun


def design(seed, n, K=3):
    rng = np.random.default_rng(seed)
    centres = np.linspace(-1.0, 1.0, K)
    source = np.repeat(np.arange(K), n)
    x = rng.normal(centres[source], 1.0)
    return np.exp(x[:, None] * centres), source


def profile(omega, source, k, l):
    fit = vardi.debias_matrix(omega, source)
    return fit, Profile(fit.held.rows, fit.solution.u, k, l)


@pytest.mark.parametrize(("seed", "k", "l"), [(0, 0, 2), (1, 2, 1), (2, 1, 0)])
def test_it_is_the_likelihood_of_all_laws(seed, k, l):
    omega, source = design(seed, 8)
    fit, found = profile(omega, source, k, l)
    s, best = fit.solution.u[k] - fit.solution.u[l], fit.held.log_omegas[k] - fit.held.log_omegas[l]
    most = log_likelihood(omega, source, best, k, l)
    for d in (-1.0, -0.3, 0.4, 1.5):
        at = found.at(s + d, fit.solution.u)
        ratio = 2.0 * (most - log_likelihood(omega, source, at.tau, k, l))
        assert at.ratio == pytest.approx(ratio, rel=1e-4, abs=1e-5)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(-5, 5))
def test_intervals_are_nested_turned_and_know_no_scale(seed, scale):
    omega, source = design(seed, 20)
    fit, found = profile(omega, source, 0, 2)
    inner, outer = found.ends(1.0), found.ends(4.0)
    value = fit.held.log_omegas[0] - fit.held.log_omegas[2]
    assert outer[0] < inner[0] < value < inner[1] < outer[1]
    np.testing.assert_allclose(profile(omega, source, 2, 0)[1].ends(1.0), [-inner[1], -inner[0]], atol=1e-5)
    moved = profile(omega * np.exp([scale, 0.0, 0.0]), source, 0, 2)[1].ends(1.0)
    np.testing.assert_allclose(moved, np.array(inner) + scale, atol=1e-5)


def test_with_many_rows_it_is_walds():
    omega, source = design(0, 3000)
    fit, found = profile(omega, source, 0, 2)
    wald = fit.log_ratio("0", "2")
    z = float(ndtri(0.975))
    np.testing.assert_allclose(
        found.ends(z**2), [wald.value - z * wald.stderr, wald.value + z * wald.stderr], atol=4e-3
    )


def thin():
    """Two strips that one row of one side and many of the other join."""
    x = np.concatenate([np.linspace(0, 0.9, 60), [1.0], np.linspace(1.0, 1.02, 20), np.linspace(1.1, 2.0, 40)])
    source = np.repeat([0, 1], [61, 60])
    return np.column_stack([x <= 1.03, x >= 0.99]).astype(float), source


def test_it_takes_the_place_of_an_error_that_is_withheld():
    omega, source = thin()
    fit = vardi.debias_matrix(omega, source, names=["left", "right"])
    with pytest.warns(vardi.WeakOverlapWarning, match="the log ratio of 'left' and 'right'"):
        found = fit.log_ratio("left", "right")
    assert isinstance(found.law, LikelihoodProfile)
    assert np.isnan(found.stderr)
    low, high = found.interval
    assert low < found.value < high
    assert str(found).endswith(f"(95%: {low:.4g} to {high:.4g} by the likelihood; too few rows for an error)")
    wider = found.at(0.99).interval
    assert wider[0] < low < high < wider[1]
    scaled = found * 2.0
    assert scaled.interval == pytest.approx((2 * low, 2 * high))
    assert isinstance(found.exp().law, Transformed)


def test_rows_that_depend_on_one_another_have_no_such_likelihood():
    omega, source = thin()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = vardi.debias_matrix(omega, source, clusters=np.arange(len(source)))
        found = fit.log_ratio("0", "1")
    assert np.isnan(found.stderr)
    assert not isinstance(found.law, LikelihoodProfile)


def test_ratios_are_differences_of_log_normalisers():
    omega, source = design(0, 40)
    fit = vardi.debias_matrix(omega, source)
    logs = fit.log_normalisers()
    ratio, difference = fit.log_ratio("0", "2"), logs["0"] - logs["2"]
    assert ratio.value == pytest.approx(difference.value, abs=1e-12)
    assert ratio.stderr == pytest.approx(difference.stderr, rel=1e-9)
    unsampled = vardi.debias_matrix(np.column_stack([omega, omega[:, 0] ** 0.5]), source)
    logs = unsampled.log_normalisers()
    found = unsampled.log_ratio("3", "0")
    assert found.stderr == pytest.approx((logs["3"] - logs["0"]).stderr, rel=1e-9)
    with pytest.raises(vardi.MismatchError, match="The fit has no bias '5'. Its biases are '0', '1', '2'"):
        fit.log_ratio("5", "0")
