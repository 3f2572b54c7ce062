"""MBAR over a fit: an oracle that shares no code with it, awkward potentials, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import root
from scipy.special import logsumexp

import vardi
from vardi.mbar import MBAR

OFF = ~np.eye(4, dtype=bool)


def oscillators(sizes=(120, 80, 0, 100), seed=0):
    """Rows of four oscillators, and their potentials in each."""
    rng = np.random.default_rng(seed)
    centres, stiffness = np.array([0.0, 0.7, 1.2, 1.6]), np.array([1.0, 1.5, 0.7, 2.0])
    source = np.repeat(np.arange(4), sizes)
    x = rng.normal(centres[source], 1 / np.sqrt(stiffness[source]))
    return x, 0.5 * stiffness[:, None] * (x - centres[:, None]) ** 2, np.array(sizes)


def oracle(u_kn, N_k, functions):
    """Free energies by a root finder, weights, and the covariance by a pseudoinverse of order n: Shirts and Chodera."""
    sampled = N_k > 0

    def f_of(f):
        logs = logsumexp(f[:, None] - u_kn[sampled], b=N_k[sampled, None], axis=0)
        return -logsumexp(-u_kn - logs, axis=1)

    def residual(rest):
        f = np.concatenate([[0.0], rest])
        return (f_of(f)[sampled] - f)[1:] - (f_of(f)[sampled] - f)[0]

    f = f_of(np.concatenate([[0.0], root(residual, np.zeros(sampled.sum() - 1), tol=1e-13).x]))
    logs = logsumexp(f[sampled, None] - u_kn[sampled], b=N_k[sampled, None], axis=0)
    W = np.exp(f[:, None] - u_kn - logs).T
    columns = np.hstack([W, *(W[:, [k]] * (A - W[:, k] @ A)[:, None] for A, k in functions)])
    N = np.zeros(columns.shape[1])
    N[: len(N_k)] = N_k
    return f - f[0], W, columns.T @ np.linalg.pinv(np.eye(len(W)) - (columns * N) @ columns.T, rcond=1e-10) @ columns


def test_the_answers_are_those_of_the_defining_formulas():
    x, u_kn, N_k = oscillators((60, 40, 0, 50))
    mbar = MBAR(u_kn, N_k)
    f, W, theta = oracle(u_kn, N_k, [(x, k) for k in range(4)])
    assert_allclose(mbar.f_k, f, atol=1e-10)
    assert_allclose(mbar.W_nk, W, rtol=1e-9)
    assert_allclose(mbar.weights(), np.exp(mbar.Log_W_nk))
    found = mbar.compute_free_energy_differences(return_theta=True)
    variance = np.diag(theta)[:4, None] + np.diag(theta)[:4] - 2 * theta[:4, :4]
    assert_allclose(found["Delta_f"], f - f[:, None], atol=1e-10)
    assert_allclose(found["dDelta_f"][OFF], np.sqrt(variance[OFF]), rtol=1e-7)
    assert_allclose(found["Theta"], theta[:4, :4], atol=1e-10)
    means = mbar.compute_expectations(x)
    assert_allclose(means["mu"], x @ W, rtol=1e-9)
    assert_allclose(means["sigma"], np.sqrt(np.diag(theta)[4:]), rtol=1e-7)


def test_differences_are_those_of_the_fit():
    _, u_kn, N_k = oscillators((120, 80, 90, 100))
    mbar = MBAR(u_kn, N_k)
    covariance = mbar.fit.log_omega_covariance()
    expected = np.diag(covariance)[:, None] + np.diag(covariance) - 2 * covariance
    errors = mbar.compute_free_energy_differences()["dDelta_f"]
    assert_allclose(errors[OFF], np.sqrt(expected[OFF]), rtol=1e-8)
    assert_allclose(mbar.compute_overlap()["matrix"], mbar.fit.diagnostics().overlap, atol=1e-12)
    assert_allclose(mbar.compute_overlap()["scalar"], mbar.fit.solution.gap, rtol=1e-8)


@pytest.mark.parametrize("spread", [300.0, 3e4])
def test_a_reference_that_is_far_from_every_row_disturbs_nothing(spread):
    """Potentials of a solvated system: a constant of each row, hundreds to thousands of kT apart."""
    x, u_kn, N_k = oscillators()
    moved = u_kn + np.random.default_rng(1).normal(-2e4, spread, u_kn.shape[1])
    near, far = MBAR(u_kn, N_k, n_bootstraps=4, rseed=3), MBAR(moved, N_k, n_bootstraps=4, rseed=3)
    assert_allclose(far.f_k, near.f_k, atol=1e-9)
    for method in ("svd-ew", "approximate", "bootstrap"):
        ours = far.compute_free_energy_differences(uncertainty_method=method)["dDelta_f"]
        assert_allclose(ours, near.compute_free_energy_differences(uncertainty_method=method)["dDelta_f"], rtol=1e-6)
        ours, expected = (one.compute_expectations(x, uncertainty_method=method) for one in (far, near))
        assert_allclose(ours["mu"], expected["mu"], atol=1e-9)
        assert_allclose(ours["sigma"], expected["sigma"], rtol=1e-6)


def test_rows_that_a_state_forbids():
    x, u_kn, N_k = oscillators((120, 80, 90, 100))
    walled = np.where(x < np.array([-np.inf, -5.0, -np.inf, 0.0])[:, None], np.inf, u_kn)
    keep = np.isfinite(walled[np.repeat(np.arange(4), N_k), np.arange(len(x))])
    N_k = np.bincount(np.repeat(np.arange(4), N_k)[keep], minlength=4)
    walled, x = walled[:, keep], x[keep]
    assert np.isinf(walled).any()
    mbar, high = MBAR(walled, N_k), MBAR(np.where(np.isinf(walled), 1e5, walled), N_k)
    assert_allclose(mbar.f_k, high.f_k, atol=1e-10)
    ours, theirs = mbar.compute_entropy_and_enthalpy(), high.compute_entropy_and_enthalpy()
    for name in ours:
        assert_allclose(ours[name], theirs[name], atol=1e-8, err_msg=name)


def test_rows_in_any_order():
    x, u_kn, N_k = oscillators()
    order = np.random.default_rng(2).permutation(len(x))
    source = np.repeat(np.arange(4), N_k)
    plain, mixed = MBAR(u_kn, N_k), MBAR(u_kn[:, order], N_k, x_kindices=source[order])
    assert_allclose(mixed.f_k, plain.f_k, atol=1e-11)
    assert_allclose(mixed.W_nk, plain.W_nk[order], rtol=1e-9)
    series = MBAR(u_kn[:, order], N_k, x_kindices=source[order], series=np.arange(len(x))[order])
    straight = MBAR(u_kn, N_k, series=True)
    errors = [one.compute_free_energy_differences()["dDelta_f"] for one in (series, straight)]
    assert_allclose(*errors, rtol=1e-8)


def test_rows_padded_by_sample():
    x, u_kn, N_k = oscillators((5, 3, 0, 4))
    starts = np.cumsum(N_k) - N_k
    u_kln, x_kn = np.full((4, 4, 5), np.nan), np.full((4, 5), np.nan)
    for k, (start, size) in enumerate(zip(starts, N_k, strict=True)):
        u_kln[k, :, :size], x_kn[k, :size] = u_kn[:, start : start + size], x[start : start + size]
    flat, padded = MBAR(u_kn, N_k), MBAR(u_kln, N_k)
    assert_allclose(padded.f_k, flat.f_k)
    assert_allclose(padded.compute_expectations(x_kn)["mu"], flat.compute_expectations(x)["mu"])
    several = padded.compute_multiple_expectations(np.array([x_kn, x_kn**2]), u_kln[:, 1, :])
    assert_allclose(several["mu"], flat.compute_multiple_expectations(np.array([x, x**2]), u_kn[1])["mu"])


def test_covariances_of_several_means():
    x, u_kn, N_k = oscillators()
    mbar = MBAR(u_kn, N_k)
    found = mbar.compute_multiple_expectations(np.array([x, x**2, 2 * x + 1]), u_kn[1], compute_covariance=True)
    C = found["covariances"]
    assert_allclose(np.sqrt(np.diag(C)), found["sigma"])
    assert_allclose([C[2, 2], C[0, 2], C[1, 2]], [4 * C[0, 0], 2 * C[0, 0], 2 * C[0, 1]], rtol=1e-9)


def test_a_constant_has_no_error():
    _, u_kn, N_k = oscillators()
    found = MBAR(u_kn, N_k).compute_expectations(np.full(u_kn.shape[1], 3.0))
    assert_allclose(found["mu"], 3.0)
    assert_allclose(found["sigma"], 0.0, atol=1e-12)


def test_equal_states_do_not_differ():
    _, u_kn, N_k = oscillators((120, 80, 90, 100))
    found = MBAR(np.vstack([u_kn, u_kn[1]]), np.append(N_k, 0)).compute_free_energy_differences()
    assert abs(found["Delta_f"][1, 4]) < 1e-12
    assert found["dDelta_f"][1, 4] == 0.0


@pytest.mark.long
def test_errors_of_refits_are_those_of_the_formula():
    x, u_kn, N_k = oscillators((400, 300, 0, 350))
    mbar = MBAR(u_kn, N_k, n_bootstraps=300, rseed=0)  # the spread of so many has an error of 4%
    boots, formula = (mbar.compute_entropy_and_enthalpy(uncertainty_method=how) for how in ("bootstrap", None))
    for name in ("dDelta_f", "dDelta_u", "dDelta_s"):
        assert_allclose(boots[name][OFF], formula[name][OFF], rtol=0.15, err_msg=name)
    new = u_kn[:2] + 0.3 * x
    boots, formula = (mbar.compute_perturbed_free_energies(new, uncertainty_method=how) for how in ("bootstrap", None))
    assert_allclose(boots["dDelta_f"][0, 1], formula["dDelta_f"][0, 1], rtol=0.15)


def test_refits_are_the_same_for_every_question():
    x, u_kn, N_k = oscillators()
    mbar = MBAR(u_kn, N_k, n_bootstraps=6, rseed=0)
    assert mbar.f_k_boots.shape == (6, 4)
    ours = mbar.compute_free_energy_differences(uncertainty_method="bootstrap")["dDelta_f"]
    assert_allclose(ours, mbar.compute_entropy_and_enthalpy(uncertainty_method="bootstrap")["dDelta_f"], rtol=1e-9)
    means = mbar.compute_expectations(x, uncertainty_method="bootstrap", output="differences")
    found = mbar.compute_multiple_expectations(np.array([x, x]), u_kn[0], uncertainty_method="bootstrap")
    assert_allclose(found["sigma"][0], mbar.compute_expectations(x, uncertainty_method="bootstrap")["sigma"][0])
    assert means["sigma"].shape == (4, 4)


def test_sums_of_differences():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    C = root @ root.T  # of f_0, f_1 of one leg and f_0, f_1 of another
    d = np.sqrt(np.diag(C)[:, None] + np.diag(C) - 2 * C)
    _, u_kn, N_k = oscillators()
    found = MBAR(u_kn, N_k).compute_covariance_of_sums(d, 2, [2.0, -1.0])
    c = np.array([2.0, -2.0, -1.0, 1.0])
    assert_allclose(found, [[0, np.sqrt(c @ C @ c)], [np.sqrt(c @ C @ c), 0]], atol=1e-7)


def test_means_and_states_one_by_one():
    x, u_kn, N_k = oscillators()
    mbar = MBAR(u_kn, N_k, n_bootstraps=5)
    found = mbar.compute_expectations_inner(
        np.array([x, x**2]), u_kn, np.array([[3, 0], [1, 0]]), return_theta=True, uncertainty_method="bootstrap"
    )
    assert_allclose(found["observables"], [mbar.W_nk[:, 3] @ x**2, mbar.W_nk[:, 0] @ x])
    assert_allclose(found["f"], mbar.f_k[[3, 0]], atol=1e-12)
    assert found["Theta"].shape == (4, 4)
    assert found["bootstrapped_observables"].shape == found["bootstrapped_f"].shape == (5, 2)
    alone = mbar.compute_expectations_inner(x, u_kn, np.array([2, 1]))
    assert_allclose(alone["f"], mbar.f_k[[2, 1]], atol=1e-12)


def test_a_series_counts_its_autocorrelation():
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(2, 2000))
    for i in range(1, 2000):
        steps[:, i] = 0.9 * steps[:, i - 1] + np.sqrt(1 - 0.81) * steps[:, i]
    x = (steps + np.array([[0.0], [1.0]])).ravel()
    u_kn = 0.5 * (x - np.array([[0.0], [1.0]])) ** 2
    errors = [MBAR(u_kn, [2000, 2000], series=how).compute_free_energy_differences() for how in (True, None)]
    ratio = errors[0]["dDelta_f"][0, 1] / errors[1]["dDelta_f"][0, 1]
    assert 3.0 < ratio < 5.7  # about sqrt(1.9 / 0.1) = 4.4


def test_samples_that_do_not_overlap_are_refused():
    x = np.array([0.0, 0.1, 9.0, 9.1])
    u_kn = np.where([[True, True, False, False], [False, False, True, True]], 0.0, np.inf)
    with pytest.raises(vardi.NotIdentifiableError):
        MBAR(u_kn + 0 * x, [2, 2])


def test_few_bridging_rows_are_told():
    x = np.concatenate([np.linspace(-2, 2, 60), np.linspace(6.5, 10, 60)])
    u_kn = 0.5 * (x - np.array([[0.0], [8.0]])) ** 2
    with pytest.warns(vardi.WeakOverlapWarning, match="The errors of free energies rest on few rows"):
        MBAR(u_kn, [60, 60]).compute_free_energy_differences()


def test_options_of_other_solvers_change_nothing():
    _, u_kn, N_k = oscillators()
    other = MBAR(u_kn, N_k, 10, 1e-3, True, solver_protocol="robust", initial_f_k=np.zeros(4), initialize="BAR")
    np.testing.assert_array_equal(other.f_k, MBAR(u_kn, N_k).f_k)


def test_how_it_is_shown():
    _, u_kn, N_k = oscillators()
    mbar = MBAR(u_kn, N_k)
    assert repr(mbar) == "MBAR(300 rows of 3 states, 4 states in all)"
    assert mbar.K_nonzero == 3
    assert_allclose(mbar.states_with_samples, [0, 1, 3])


U, N = np.zeros((2, 4)), [2, 2]

REFUSED = {
    "sizes": (lambda: MBAR(U, [2.5, 1.5]), "N_k is [2.5 1.5]. It counts the rows of each state: give whole numbers"),
    "states": (lambda: MBAR(U, [4]), "u_kn has 2 states, but N_k counts the rows of 1. Give 0 rows"),
    "rows": (lambda: MBAR(U, [2, 1]), "u_kn has shape (2, 4), but N_k counts 3 rows. Give a column for each row"),
    "padding": (lambda: MBAR(np.zeros((2, 2, 1)), N), "u_kn has shape (2, 2, 1), but N_k counts up to 2 rows in each"),
    "NaN": (lambda: MBAR(U + np.nan, N), "The reduced potential of row 0 in state 0 is nan, but exp(-u) must be"),
    "source": (lambda: MBAR(U, N, x_kindices=[0, 0, 0, 1]), "x_kindices has [3, 1] rows of each state, but N_k counts"),
    "no source": (lambda: MBAR(U, N, x_kindices=[0, 0, 7, 1]), "x_kindices is not a list of states 0 to 1, but N_k"),
    "refits": (
        lambda: MBAR(U, N, n_bootstraps=1),
        "n_bootstraps is 1, but it must be a number of refits. Give 0 for none, or 2",
    ),
    "method": (
        lambda: MBAR(U, N).compute_free_energy_differences(uncertainty_method="waffles"),
        "uncertainty_method is 'waffles'. Give one of 'svd-ew', 'svd', 'approximate', 'bootstrap'.",
    ),
    "no refits": (
        lambda: MBAR(U, N).compute_expectations(np.arange(4), uncertainty_method="bootstrap"),
        "uncertainty_method is 'bootstrap', but no refits were asked for. Write MBAR(u_kn, N_k, n_bootstraps=200).",
    ),
    "output": (
        lambda: MBAR(U, N).compute_expectations(np.arange(4), output="ratios"),
        "output is 'ratios'. Give 'averages' or 'differences'.",
    ),
    "observable": (
        lambda: MBAR(U, N).compute_expectations(np.arange(3)),
        "A_n has shape (3,), but N_k counts 4 rows. Give a number for each of them.",
    ),
    "observables": (
        lambda: MBAR(U, N).compute_expectations(np.zeros((1, 4)), state_dependent=True),
        "A_n has 1 rows, but there are 2 states. Give one for each state, or state_dependent=False.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, text = REFUSED[case]
    with pytest.raises(vardi.VardiError) as error:
        call()
    assert str(error.value).startswith(text)


def test_a_state_that_forbids_every_row_leaves_the_others_alone():
    _, u_kn, N_k = oscillators((60, 50, 40, 50))
    plain, other = MBAR(u_kn, N_k), MBAR(np.vstack([u_kn, np.full(200, np.inf)]), np.append(N_k, 0))
    ours, expected = other.compute_free_energy_differences(), plain.compute_free_energy_differences()
    assert_allclose(ours["Delta_f"][:4, :4], expected["Delta_f"], atol=1e-10)
    assert_allclose(ours["dDelta_f"][:4, :4], expected["dDelta_f"], rtol=1e-7)
    assert np.isposinf(ours["Delta_f"][0, 4])
    assert_allclose(other.W_nk[:, 4], 0.0)
