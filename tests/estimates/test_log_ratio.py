"""The log ratio of two normalisers: its invariances, and where no error can be given."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vardi


def design(seed, n, K=3):
    rng = np.random.default_rng(seed)
    centres = np.linspace(-1.0, 1.0, K)
    source = np.repeat(np.arange(K), n)
    x = rng.normal(centres[source], 1.0)
    return np.exp(x[:, None] * centres), source


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(-5, 5))
def test_ratios_turned_around_change_sign_and_scales_only_move_them(seed, scale):
    omega, source = design(seed, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        fit = vardi.debias_matrix(omega, source)
        found, turned = fit.log_ratio("0", "2"), fit.log_ratio("2", "0")
        moved = vardi.debias_matrix(omega * np.exp([scale, 0.0, 0.0]), source).log_ratio("0", "2")
    np.testing.assert_allclose(turned.interval, np.negative(found.interval[::-1]), atol=1e-6)
    np.testing.assert_allclose([moved.value, *moved.interval], np.add([found.value, *found.interval], scale), atol=1e-6)


def thin():
    """Two strips that one row of one side and many of the other join."""
    x = np.concatenate([np.linspace(0, 0.9, 60), [1.0], np.linspace(1.0, 1.02, 20), np.linspace(1.1, 2.0, 40)])
    source = np.repeat([0, 1], [61, 60])
    return np.column_stack([x <= 1.03, x >= 0.99]).astype(float), source


def test_where_too_few_rows_join_two_samples_no_error_can_be_given():
    omega, source = thin()
    fit = vardi.debias_matrix(omega, source, names=["left", "right"])
    with pytest.warns(
        vardi.WeakOverlapWarning, match="No standard error is given for the log ratio of 'left' and 'right'"
    ):
        found = fit.log_ratio("left", "right")
    assert np.isnan([found.stderr, *found.interval]).all()
    assert str(found) == f"{found.value:.4g} (no error can be given: it rests on too few rows)"


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
