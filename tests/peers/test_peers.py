"""The same numbers as pymbar, on pymbar's own test systems."""

import logging

import numpy as np
import pytest
from numpy.testing import assert_allclose

import vardi

logging.disable(logging.WARNING)  # pymbar says at import that JAX is absent
pymbar = pytest.importorskip("pymbar", reason="pymbar is not installed: pip install 'vardi[test]'")
from pymbar import testsystems  # noqa: E402

logging.disable(logging.NOTSET)
pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore::scipy.optimize.OptimizeWarning"),  # pymbar's options, not ours
]


@pytest.mark.parametrize("system", ["HarmonicOscillatorsTestCase", "ExponentialTestCase"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_free_energies_and_their_errors(system, seed):
    case = getattr(testsystems, system)()
    _, u_kn, N_k, s_n = case.sample(N_k=[300, 500, 200, 400, 500][: case.n_states], mode="u_kn", seed=seed)
    theirs = pymbar.MBAR(u_kn, N_k)
    differences = theirs.compute_free_energy_differences(uncertainty_method="svd")
    fit = vardi.debias_matrix(-u_kn.T, s_n.astype(int), log=True)
    log_omegas = np.array(list(fit.log_omegas.values()))
    assert_allclose(log_omegas - log_omegas[0], -(theirs.f_k - theirs.f_k[0]), atol=1e-7)
    C = fit.log_omega_covariance()
    errors = np.sqrt(np.maximum(np.diag(C)[:, None] + np.diag(C) - 2 * C, 0))
    off = ~np.eye(len(C), dtype=bool)
    assert_allclose(errors[off], differences["dDelta_f"][off], rtol=0.01)


def test_expectation_and_overlap():
    case = testsystems.HarmonicOscillatorsTestCase()
    x_n, u_kn, N_k, s_n = case.sample(N_k=[300] * case.n_states, mode="u_kn", seed=3)
    # the population is a state that nobody sampled, with potential 0.5 x^2
    target = 0.5 * x_n**2
    theirs = pymbar.MBAR(np.vstack([u_kn, target]), np.r_[N_k, 0])
    expected = theirs.compute_expectations(x_n, state_dependent=False)
    log_omega = -(u_kn - target).T  # biases relative to the target
    fit = vardi.debias_matrix(log_omega, s_n.astype(int), log=True)
    estimate = fit.expectation(x_n)
    assert_allclose(estimate.value, expected["mu"][-1], atol=1e-7)
    tangent, eta = fit.solved.tangent, np.array([estimate.value])
    a = tangent.measure.against(x_n[:, None], eta)
    variance = (tangent.measure.squares(x_n[:, None], eta) + a.T @ tangent.hessian.solve(a)) / tangent.n**2
    assert_allclose(np.sqrt(variance[0, 0]), expected["sigma"][-1], rtol=1e-3)  # in MBAR's form
    overlap = pymbar.MBAR(u_kn, N_k).compute_overlap()["matrix"]
    assert_allclose(fit.diagnostics().overlap, overlap, atol=1e-7)
