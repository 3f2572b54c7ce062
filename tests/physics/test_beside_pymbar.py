"""pymbar's test systems and solver identities, and its numbers beside those of vardi.mbar."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from vardi.mbar import MBAR

logging.disable(logging.WARNING)  # pymbar says at import that JAX is absent
pymbar = pytest.importorskip("pymbar", reason="pymbar is not installed: pip install 'vardi[test]'")
from pymbar import mbar_solvers, other_estimators, testsystems  # noqa: E402

logging.disable(logging.NOTSET)
pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore::scipy.optimize.OptimizeWarning"),  # pymbar's options, not ours
]

N_K = (400, 300, 0, 500)  # the third state is not sampled


def oscillators() -> testsystems.HarmonicOscillatorsTestCase:
    return testsystems.HarmonicOscillatorsTestCase(O_k=[1.0, 2.0, 3.0, 4.0], K_k=[0.5, 1.0, 1.5, 2.0])


def exponentials() -> testsystems.ExponentialTestCase:
    return testsystems.ExponentialTestCase(rates=[1.0, 2.0, 3.0, 4.0])


SYSTEMS = {"oscillators": oscillators, "exponentials": exponentials}

MANY_STATES = {
    "oscillators": lambda K: testsystems.HarmonicOscillatorsTestCase(np.linspace(1, 5, K), np.linspace(1, 3, K)),
    "exponentials": lambda K: testsystems.ExponentialTestCase(np.linspace(1, 3, K)),
}


@pytest.fixture(params=SYSTEMS)
def system(request):
    return SYSTEMS[request.param]()


def sample(system, N_k=N_K, seed=0):
    x_n, u_kn, N_k, _ = system.sample(N_k, mode="u_kn", seed=seed)
    return x_n, u_kn, N_k


# ---------------------------------------------------------------- solver identities


@pytest.mark.parametrize(("states", "rows"), [(50, 100), (100, 50)])
@pytest.mark.parametrize("kind", MANY_STATES)
def test_pymbars_own_equations_hold(kind, states, rows):
    """pymbar's gradient vanishes and its self-consistent step stands still at vardi's free energies."""
    _, u_kn, N_k = sample(MANY_STATES[kind](states), [rows] * states)
    mbar = MBAR(u_kn, N_k)
    W = mbar.W_nk
    assert_allclose(mbar_solvers.mbar_gradient(u_kn, N_k.astype(float), mbar.f_k), 0, atol=1e-9 * rows)
    assert_allclose(mbar_solvers.self_consistent_update(u_kn, N_k.astype(float), mbar.f_k), mbar.f_k, atol=1e-10)
    assert_allclose(W.sum(axis=0), 1, rtol=1e-10)
    assert_allclose(W @ N_k, 1, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_weights_sum_to_one_over_rows_and_over_states(system, seed):
    _, u_kn, N_k = sample(system, seed=seed)
    W = MBAR(u_kn, N_k).W_nk
    assert_allclose(W.sum(axis=0), 1, rtol=1e-12)  # of the state that was not sampled too
    assert_allclose(W @ N_k, 1, rtol=1e-12)
    assert_allclose(W, mbar_solvers.mbar_W_nk(u_kn, N_k.astype(float), MBAR(u_kn, N_k).f_k), rtol=1e-10)


def test_a_constant_added_to_a_state_moves_its_free_energy_and_nothing_else(system):
    _, u_kn, N_k = sample(system)
    shift = np.array([0.0, 3.0, -700.0, 500.0])
    plain, moved = MBAR(u_kn, N_k), MBAR(u_kn + shift[:, None], N_k)
    assert_allclose(moved.f_k - shift, plain.f_k, atol=1e-10)
    assert_allclose(moved.W_nk, plain.W_nk, rtol=1e-10)
    assert_allclose(
        moved.compute_free_energy_differences()["dDelta_f"],
        plain.compute_free_energy_differences()["dDelta_f"],
        rtol=1e-8,
    )


def test_a_constant_added_to_a_row_changes_nothing(system):
    _, u_kn, N_k = sample(system)
    rows = np.random.default_rng(0).normal(0, 30, u_kn.shape[1])
    plain, moved = MBAR(u_kn, N_k), MBAR(u_kn + rows, N_k)
    assert_allclose(moved.f_k, plain.f_k, atol=1e-11)
    assert_allclose(moved.W_nk, plain.W_nk, rtol=1e-10)


def test_states_and_rows_in_another_order(system):
    _, u_kn, N_k = sample(system, (400, 300, 250, 500))
    rng = np.random.default_rng(1)
    states = rng.permutation(4)
    source = np.repeat(np.arange(4), N_k)
    columns = np.concatenate([rng.permutation(np.flatnonzero(source == k)) for k in states])
    plain, permuted = MBAR(u_kn, N_k), MBAR(u_kn[states][:, columns], N_k[states])
    assert_allclose(permuted.f_k, plain.f_k[states] - plain.f_k[states[0]], atol=1e-11)
    assert_allclose(permuted.W_nk, plain.W_nk[columns][:, states], rtol=1e-10)
    errors = plain.compute_free_energy_differences()["dDelta_f"]
    assert_allclose(permuted.compute_free_energy_differences()["dDelta_f"], errors[states][:, states], atol=1e-10)


def test_a_state_without_rows_changes_nothing_for_the_others(system):
    _, u_kn, N_k = sample(system)
    sampled = np.flatnonzero(N_k)
    every, only = MBAR(u_kn, N_k), MBAR(u_kn[sampled], N_k[sampled])
    assert_allclose(every.f_k[sampled], only.f_k, atol=1e-12)
    assert_allclose(every.W_nk[:, sampled], only.W_nk, rtol=1e-11)
    perturbed = only.compute_perturbed_free_energies(u_kn)
    direct = every.compute_free_energy_differences()
    assert_allclose(perturbed["Delta_f"], direct["Delta_f"], atol=1e-11)
    assert_allclose(perturbed["dDelta_f"], direct["dDelta_f"], atol=1e-9)


# ---------------------------------------------------------------- the same numbers as pymbar


def pair(system, seed):
    x_n, u_kn, N_k = sample(system, seed=seed)
    first = pymbar.MBAR(u_kn, N_k, relative_tolerance=1e-12)
    return x_n, u_kn, MBAR(u_kn, N_k), first


@pytest.mark.parametrize("seed", range(4))
def test_free_energies_and_errors_are_pymbars(system, seed):
    _, _, ours, theirs = pair(system, seed)
    mine, expected = ours.compute_free_energy_differences(), theirs.compute_free_energy_differences()
    assert_allclose(mine["Delta_f"], expected["Delta_f"], atol=1e-10)
    assert_allclose(mine["dDelta_f"], expected["dDelta_f"], rtol=1e-8)
    assert_allclose(ours.W_nk, theirs.W_nk, rtol=1e-9)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("output", ["averages", "differences"])
def test_expectations_and_errors_are_pymbars(system, seed, output):
    x_n, u_kn, ours, theirs = pair(system, seed)
    for values, dependent in ((x_n, False), (x_n**2, False), (u_kn, True)):
        mine = ours.compute_expectations(values, output=output, state_dependent=dependent)
        expected = theirs.compute_expectations(values, output=output, state_dependent=dependent)
        assert_allclose(mine["mu"], expected["mu"], rtol=1e-10, atol=1e-10)
        off = ~np.eye(4, dtype=bool) if output == "differences" else slice(None)
        assert_allclose(mine["sigma"][off], expected["sigma"][off], rtol=1e-8)


@pytest.mark.parametrize("seed", range(2))
def test_perturbed_free_energies_are_pymbars(system, seed):
    _, u_kn, N_k = sample(system, (400, 300, 250, 500), seed)
    rows = int(N_k[:2].sum())
    ours, theirs = MBAR(u_kn[:2, :rows], N_k[:2]), pymbar.MBAR(u_kn[:2, :rows], N_k[:2], relative_tolerance=1e-12)
    mine = ours.compute_perturbed_free_energies(u_kn[2:, :rows])
    expected = theirs.compute_perturbed_free_energies(u_kn[2:, :rows])
    assert_allclose(mine["Delta_f"], expected["Delta_f"], atol=1e-10)
    assert_allclose(mine["dDelta_f"], expected["dDelta_f"], rtol=1e-8)


def test_entropies_and_enthalpies_are_pymbars(system):
    _, _, ours, theirs = pair(system, 0)
    mine, expected = ours.compute_entropy_and_enthalpy(), theirs.compute_entropy_and_enthalpy()
    for name in mine:
        off = ~np.eye(4, dtype=bool)
        assert_allclose(mine[name][off], expected[name][off], rtol=1e-8, err_msg=name)


@pytest.mark.parametrize("seed", range(2))
def test_overlap_and_effective_numbers_are_pymbars(system, seed):
    _, u_kn, N_k = sample(system, (400, 300, 250, 500), seed)
    ours, theirs = MBAR(u_kn, N_k), pymbar.MBAR(u_kn, N_k, relative_tolerance=1e-12)
    mine, expected = ours.compute_overlap(), theirs.compute_overlap()
    assert_allclose(mine["scalar"], expected["scalar"].real, atol=1e-9)
    assert_allclose(mine["eigenvalues"], expected["eigenvalues"].real, atol=1e-9)
    assert_allclose(mine["matrix"], expected["matrix"], atol=1e-9)
    assert_allclose(ours.compute_effective_sample_number(), theirs.compute_effective_sample_number(), rtol=1e-9)


# ---------------------------------------------------------------- what must come out


def test_overlap_of_identical_states():
    case = testsystems.HarmonicOscillatorsTestCase(O_k=[2.0] * 4, K_k=[0.5] * 4)
    _, u_kn, N_k = sample(case, (100,) * 4)
    overlap = MBAR(u_kn, N_k).compute_overlap()
    assert_allclose(overlap["matrix"], np.full((4, 4), 0.25), atol=1e-13)
    assert_allclose(overlap["eigenvalues"], [1, 0, 0, 0], atol=1e-8)
    assert_allclose(overlap["scalar"], 1.0, atol=1e-12)
    assert_allclose(MBAR(u_kn, N_k).f_k, 0, atol=1e-13)


def test_rows_of_the_overlap_sum_to_one(system):
    _, u_kn, N_k = sample(system, (400, 300, 250, 500))
    overlap = MBAR(u_kn, N_k).compute_overlap()
    assert_allclose(overlap["matrix"].sum(axis=1), 1, rtol=1e-12)
    assert_allclose(overlap["eigenvalues"][0], 1, rtol=1e-12)


def test_effective_numbers_lie_between_the_rows_of_a_state_and_all_rows(system):
    _, u_kn, N_k = sample(system)
    effective = MBAR(u_kn, N_k).compute_effective_sample_number()
    assert (effective > N_k).all()
    assert (effective < N_k.sum()).all()


# ---------------------------------------------------------------- two states: Bennett's acceptance ratio


def two_states(w_F: np.ndarray, w_R: np.ndarray) -> MBAR:
    """Rows of the first state with potentials 0 and w_F, rows of the second with w_R and 0."""
    u_kn = np.array([np.concatenate([0 * w_F, w_R]), np.concatenate([w_F, 0 * w_R])])
    return MBAR(u_kn, np.array([len(w_F), len(w_R)]))


def work(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if name == "Gaussian work":
        return tuple(testsystems.gaussian_work_example(N_F=300, N_R=200, mu_F=None, DeltaF=2.0, sigma_F=1.5, seed=seed))
    case = (
        testsystems.HarmonicOscillatorsTestCase(O_k=[1.0, 2.0], K_k=[0.5, 2.0])
        if name == "oscillators"
        else testsystems.ExponentialTestCase(rates=[1.0, 4.0])
    )
    return case.sample([500, 800], mode="wFwR", seed=seed)[:2]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["Gaussian work", "oscillators", "exponentials"])
def test_two_states_are_the_acceptance_ratio(name, seed):
    w_F, w_R = work(name, seed)
    ours = two_states(w_F, w_R)
    for method in ("false-position", "bisection", "self-consistent-iteration"):
        bar = other_estimators.bar(w_F, w_R, method=method, relative_tolerance=1e-12, uncertainty_method="MBAR")
        assert_allclose(ours.f_k[1], bar["Delta_f"], atol=1e-8)
    errors = ours.compute_free_energy_differences()["dDelta_f"]
    assert_allclose(errors[0, 1], bar["dDelta_f"], rtol=1e-6)
    assert_allclose(ours.compute_overlap()["scalar"], other_estimators.bar_overlap(w_F, w_R), atol=1e-8)


# ---------------------------------------------------------------- analytical answers

RUNS = 60
FAR = 1e-6  # of all correct programs so many would fail


def calibrated(z: np.ndarray) -> None:
    """Standard normal over the runs: their squares sum to a chi-square number, and none is far out."""
    low, high = stats.chi2.ppf([FAR, 1 - FAR], len(z))
    assert (low < (z**2).sum(axis=0)).all()
    assert ((z**2).sum(axis=0) < high).all()
    assert abs(z).max() < stats.norm.isf(FAR / z.size)


def test_free_energies_of_the_systems(system):
    z = []
    for seed in range(RUNS):
        _, u_kn, N_k = sample(system, seed=seed)
        found = MBAR(u_kn, N_k).compute_free_energy_differences()
        truth = system.analytical_free_energies()
        z.append((found["Delta_f"][0, 1:] - (truth[1:] - truth[0])) / found["dDelta_f"][0, 1:])
    calibrated(np.array(z))


@pytest.mark.parametrize("observable", ["position", "position^2", "potential energy"])
def test_expectations_of_the_systems(system, observable):
    z = []
    for seed in range(RUNS):
        x_n, u_kn, N_k = sample(system, seed=seed)
        values = {"position": x_n, "position^2": x_n**2, "potential energy": u_kn}[observable]
        found = MBAR(u_kn, N_k).compute_expectations(values, state_dependent=observable == "potential energy")
        z.append((found["mu"] - system.analytical_observable(observable)) / found["sigma"])
    calibrated(np.array(z))


def test_free_energies_of_gaussian_work():
    z = []
    for seed in range(RUNS):
        found = two_states(*work("Gaussian work", seed)).compute_free_energy_differences()
        z.append([(found["Delta_f"][0, 1] - 2.0) / found["dDelta_f"][0, 1]])
    calibrated(np.array(z))
