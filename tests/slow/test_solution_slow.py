"""The long version of tests/weights/test_solution.py: more designs, more rows, more samples. Run by `make slow`."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import KINDS, certify, design, exact, far_logs
from scipy import sparse

import vardi


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("K", "n"), [(1, 1_000_000), (2, 1_000_000), (20, 1_000_000), (200, 100_000)])
def test_the_two_identities_hold_on_large_designs(kind, K, n):
    d = design(kind, K, n, 1)
    certify(vardi.debias_matrix(d.omega, d.source), d.omega, d.source)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", range(5))
def test_three_hundred_small_designs_to_fifty_digits(kind, block):
    for seed in range(20 * block, 20 * (block + 1)):
        K = 1 + seed % 7
        d = design(kind, K, K + seed // 2, 1000 + seed)
        truth, fit = exact(d.omega, d.source), vardi.debias_matrix(d.omega, d.source)
        np.testing.assert_allclose(fit.weights, truth.weights, rtol=1e-12)
        np.testing.assert_allclose(list(fit.log_omegas.values()), truth.log_omegas, atol=1e-12, rtol=1e-12)
        assert np.ptp(fit.solution.u - truth.u) <= fit.solution.certificate


@pytest.mark.parametrize("block", range(4))
def test_the_certificate_bounds_two_hundred_designs_with_large_logs(block):
    for seed in range(50 * block, 50 * (block + 1)):
        logs, source, truth = far_logs(seed)
        solution = vardi.debias_matrix(logs, source, log=True).solution
        assert truth.off(solution.u) <= solution.certificate, seed


def test_ten_thousand_sparse_samples():
    rng = np.random.default_rng(0)
    K, per, width = 10_000, 25, 1.6
    x = (np.arange(K)[:, None] + width * rng.random((K, per))).ravel()
    column = (np.floor(x).astype(int)[:, None] - np.arange(3)).ravel()
    row, x_of = np.repeat(np.arange(K * per), 3), np.repeat(x, 3)
    inside = (column >= 0) & (column < K) & (x_of - column <= width)
    omega = sparse.csr_array((np.ones(inside.sum()), (row[inside], column[inside])), shape=(K * per, K))
    source = np.repeat(np.arange(K), per)
    try:
        fit = vardi.debias_matrix(omega, source)
    except vardi.NotIdentifiableError as error:  # a chain of 10,000 has a gap of the order of 1e-8
        assert "spectral gap" in str(error)  # noqa: PT017
    else:
        certify(fit, omega, source)


def test_eight_million_sparse_rows():
    """Sums of millions of equal terms must keep their digits: overlap is good here, and tol 1e-10 within reach."""
    d = design("indicator", 3, 8_000_000, 1)
    omega = sparse.csr_array(d.omega)
    fit = vardi.debias_matrix(omega, d.source)
    certify(fit, omega, d.source)
    np.testing.assert_allclose(fit.weights, vardi.debias_matrix(d.omega, d.source).weights, rtol=1e-10)
