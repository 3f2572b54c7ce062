"""Windows given to debias_matrix: a fit like that of the matrix they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from many_samples import along_a_line, doubly_truncated
from oracle import certify
from scipy import sparse

import vardi


def matrix(windows):
    return sparse.csr_array(windows.toarray().astype(float))


@pytest.fixture(scope="module")
def fits():
    windows = doubly_truncated(500, 0.4)
    return (
        vardi.debias_matrix(windows, np.arange(500)),
        vardi.debias_matrix(matrix(windows), np.arange(500)),
        windows,
    )


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The covariance rests on few rows")
def test_windows_give_the_fit_of_their_matrix(fits):
    ours, theirs, windows = fits
    certify(ours, matrix(windows), np.arange(500))
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-9)
    for one, other in ((ours.expectation(windows.x), theirs.expectation(windows.x)),):
        assert one.value == pytest.approx(other.value, rel=1e-9)
        assert one.stderr == pytest.approx(other.stderr, rel=1e-7)
    assert ours.normalisers()["7"].stderr == pytest.approx(theirs.normalisers()["7"].stderr, rel=1e-7)
    np.testing.assert_allclose(ours.log_omega_covariance(), theirs.log_omega_covariance(), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(ours.weigh(windows.toarray()[:5].astype(float)), ours.weights[:5], rtol=1e-12)
    assert ours.identify().kappa == pytest.approx(theirs.identify().kappa)
    assert ours.cdf(windows.x).quantile(0.5).value == theirs.cdf(windows.x).quantile(0.5).value


def test_the_largest_group_of_windows_is_kept():
    windows = vardi.Windows([1.0, 1.5, 2.0, 9.0], low=[0.0, 0.0, 1.0, 8.0], high=[2.0, 3.0, 3.0, 10.0])
    with pytest.raises(vardi.NotIdentifiableError, match="fall into 2 groups"):
        vardi.debias_matrix(windows, np.arange(4))
    with pytest.warns(vardi.DroppedSamplesWarning, match="Left out '3'"):
        fit = vardi.debias_matrix(windows, np.arange(4), on_unidentified="largest")
    assert fit.weights[3] == 0
    assert fit.weights[:3].all()


def test_known_shares_join_windows():
    windows = vardi.Windows([1.0, 1.5, 9.0, 9.5], low=[0.0, 8.0], high=[2.0, 10.0])
    fit = vardi.debias_matrix(windows, [0, 0, 1, 1], known={"0": 0.25})
    np.testing.assert_allclose(fit.probabilities, [0.125, 0.125, 0.375, 0.375], rtol=1e-12)


def test_diagnostics_of_thousands_of_samples_fit_on_one_screen():
    omega, source = along_a_line(4000, 30)
    found = vardi.debias_matrix(omega, source).diagnostics()
    assert len(found.samples) == 4000
    assert len(found.summary().splitlines()) < 40
    assert "... and 3,980 more" in found.summary()
    assert sparse.issparse(found.overlap)
    np.testing.assert_allclose(found.overlap.sum(axis=1), 1.0, rtol=1e-9)
