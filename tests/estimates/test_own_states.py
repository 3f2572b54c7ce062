"""Errors of normalisers whose states all have samples: by the solved shares of rows, the same as by their biases."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import design

import vardi
from vardi._rows.gram import DenseGram


def answers(fit: vardi.DebiasedSample) -> tuple:
    """Return the covariance of log normalisers, their influence values, and the estimates."""
    return fit.solved.log_omega_covariance(), fit.solved.bias_influence().of_rows(), fit.solved.log_normalisers(0.95)


@pytest.mark.parametrize("form", ["dense", "counts", "collapsed"])
@pytest.mark.parametrize("kind", ["indicator", "tilt", "power"])
def test_it_is_the_same_by_shares_of_rows_and_by_biases(kind, form, monkeypatch):
    drawn = design(kind, 5, 300, 1)
    omega, source, counts = drawn.omega, drawn.source, None
    if form == "counts":
        counts = np.random.default_rng(0).integers(1, 5, len(source))
    if form == "collapsed":
        monkeypatch.setattr("vardi._rows.choose.MAX_UNCOLLAPSED_NUMBERS", 0)
        omega, source = np.repeat(omega, 3, axis=0), np.repeat(source, 3)
    fit = vardi.debias_matrix(omega, source, counts=counts)
    covariance, influence, estimates = answers(fit)
    monkeypatch.setattr(DenseGram, "is_formed", False)
    by_rows = answers(vardi.debias_matrix(omega, source, counts=counts))
    assert_allclose(covariance, by_rows[0], rtol=1e-9, atol=1e-13)
    assert_allclose(influence, by_rows[1], rtol=1e-9, atol=1e-10)
    for ours, theirs in zip(estimates, by_rows[2], strict=True):
        assert ours.stderr == pytest.approx(theirs.stderr, rel=1e-9, nan_ok=True)
        assert ours.df == pytest.approx(theirs.df, rel=1e-6)


def test_a_state_without_rows_is_weighed_row_by_row():
    drawn = design("tilt", 5, 300, 1)
    kept = drawn.source > 0
    fit = vardi.debias_matrix(drawn.omega[kept], drawn.source[kept])
    assert np.isfinite(fit.solved.log_omega_covariance()).all()


def test_a_constant_bias_has_a_known_normaliser():
    """A difference of sums would leave their rounding, of either sign, where the variance is 0."""
    drawn = design("tilt", 5, 3000, 1)
    omega, source = drawn.omega.copy(), drawn.source
    for size in (0.0, 1e-6):
        omega[:, 2] = 1.0 + size * np.sin(np.arange(len(source)))
        fit = vardi.debias_matrix(omega, source)
        found = fit.solved.log_omega_covariance()
        with pytest.MonkeyPatch.context() as by_rows:
            by_rows.setattr(DenseGram, "is_formed", False)
            expected = vardi.debias_matrix(omega, source).solved.log_omega_covariance()
        assert found[2, 2] >= 0
        assert_allclose(np.diag(found), np.diag(expected), rtol=1e-6, atol=1e-28)
        assert_allclose(found[2], expected[2], rtol=1e-6, atol=1e-17)
