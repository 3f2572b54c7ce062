"""What holds for free energies of every set of states: constants, orders, and states that split."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from properties.common import examples, seeds

from vardi.mbar import (
    FES,
    MBAR,
    AlchemicalEstimator,
    bar,
    convergence,
    equilibration,
    exp,
    inefficiencies,
    kT,
    statistical_inefficiency,
    timeseries,
)

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
states = st.integers(2, 5)


def oscillators(K, seed):
    """Rows of K oscillators that overlap, of which all but the first may lack rows, and their potentials."""
    rng = np.random.default_rng(seed)
    centres, stiffness = rng.uniform(0, 1.5, K), rng.uniform(0.5, 2.0, K)
    N_k = rng.integers(8, 40, K) * (rng.random(K) < 0.8)
    N_k[0] = 30
    source = np.repeat(np.arange(K), N_k)
    x = rng.normal(centres[source], 1 / np.sqrt(stiffness[source]))
    return x, 0.5 * stiffness[:, None] * (x - centres[:, None]) ** 2, N_k, source


@given(states, seeds, st.floats(0.0, 1e4))
@examples(15)
def test_constants_of_rows_and_states_and_their_order_move_what_they_must(K, seed, size):
    x, u_kn, N_k, source = oscillators(K, seed)
    rng = np.random.default_rng(seed)
    of_state = size * rng.normal(size=K)
    rows, order = rng.permutation(len(x)), rng.permutation(K)
    moved = (u_kn + size * rng.normal(size=len(x)) + of_state[:, None])[order][:, rows]
    plain, other = MBAR(u_kn, N_k), MBAR(moved, N_k[order], x_kindices=np.argsort(order)[source[rows]])
    found, same = plain.compute_free_energy_differences(), other.compute_free_energy_differences()
    expected = found["Delta_f"] + of_state - of_state[:, None]
    atol = 1e-9 + 1e-13 * size
    assert_allclose(same["Delta_f"], expected[np.ix_(order, order)], atol=10 * atol)
    assert_allclose(same["dDelta_f"], found["dDelta_f"][np.ix_(order, order)], rtol=1e-6, atol=1e-8)
    assert_allclose(other.weights(), plain.weights()[np.ix_(rows, order)], rtol=1e-6, atol=1e-12)
    means = plain.compute_expectations(x), other.compute_expectations(x[rows])
    assert_allclose(means[1]["mu"], means[0]["mu"][order], rtol=1e-6, atol=1e-9)
    assert_allclose(means[1]["sigma"], means[0]["sigma"][order], rtol=1e-5, atol=1e-9)
    assert_allclose(plain.weights().sum(axis=0), 1.0, rtol=1e-9)
    assert_allclose(plain.compute_overlap()["matrix"].sum(axis=1), 1.0, rtol=1e-9)


@given(states, seeds)
@examples(10)
def test_a_state_in_two_is_one_state(K, seed):
    _, u_kn, N_k, source = oscillators(K, seed)
    split = np.where(source == 0, np.arange(len(source)) % 2 * K, source)  # every other row of the first is the last
    whole, parts = (
        MBAR(u_kn, N_k),
        MBAR(np.vstack([u_kn, u_kn[0]]), np.bincount(split, minlength=K + 1), x_kindices=split),
    )
    assert_allclose(parts.f_k[:K], whole.f_k, atol=1e-8)
    assert_allclose(parts.f_k[K], 0.0, atol=1e-8)
    errors = parts.compute_free_energy_differences()["dDelta_f"]
    assert_allclose(errors[:K, :K], whole.compute_free_energy_differences()["dDelta_f"], rtol=1e-6, atol=1e-8)
    assert errors[0, K] < 1e-7


@given(states, seeds, st.sampled_from(["histogram", "kde"]), st.floats(-1e3, 1e3))
@examples(10)
def test_a_surface_moves_with_its_coordinate_and_knows_no_constant(K, seed, kind, shift):
    x, u_kn, N_k, _ = oscillators(K, seed)
    edges, points = np.quantile(x, np.linspace(0, 1, 6)), np.quantile(x, np.linspace(0.05, 0.95, 7))
    edges[-1] += 1.0
    found = []
    for moved in (0.0, shift):
        fes = FES(u_kn, N_k)
        fes.generate_fes(u_kn[0] + moved, x + moved, kind, {"bin_edges": edges + moved}, {"bandwidth": 0.5})
        found.append(fes.get_fes(points + moved, "from-normalization", None, "analytical"))
    inside = np.abs(points[:, None] - edges).min(axis=1) > 1e-9  # rounding may move a point over an edge
    for name in ("f_i", "df_i"):
        assert_allclose(found[1][name][inside], found[0][name][inside], rtol=1e-6, atol=1e-8)
    if kind == "histogram":
        bins = fes.get_fes(edges[:-1] + 1e-6 + shift, "from-normalization")["f_i"]
        assert_allclose(np.exp(-bins).sum(), 1.0, rtol=1e-9)


@given(states, seeds)
@examples(8)
def test_a_frame_of_alchemical_states_knows_no_order_of_rows(K, seed):
    _, u_kn, N_k, source = oscillators(K, seed)
    index = pd.MultiIndex.from_arrays([np.arange(len(source)), source / K], names=["time", "fep-lambda"])
    u_nk = pd.DataFrame(u_kn.T, index=index, columns=np.arange(K) / K)
    shuffled = u_nk.iloc[np.random.default_rng(seed).permutation(len(u_nk))]
    one, other = AlchemicalEstimator().fit(u_nk), AlchemicalEstimator().fit(shuffled)
    assert_allclose(one.delta_f_, MBAR(u_kn, N_k).compute_free_energy_differences()["Delta_f"], atol=1e-8)
    assert_allclose(one.delta_f_, other.delta_f_, atol=1e-8)
    assert_allclose(one.d_delta_f_, other.d_delta_f_, rtol=1e-6, atol=1e-8)
    assert one.states_ == list(np.arange(K) / K)


@given(seeds, st.floats(0.01, 100.0), st.floats(-100.0, 100.0))
@examples(15)
def test_time_knows_no_unit_and_no_other_simulation(seed, scale, shift):
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.normal(size=(2, 60)), axis=1) * rng.random((2, 1)) + rng.normal(size=(2, 60))
    apart = [equilibration(own) for own in x]
    source = rng.permutation(np.repeat([0, 1], 60))
    mixed = np.empty(120)
    mixed[source == 0], mixed[source == 1] = scale * x + shift
    together = equilibration(mixed, source)
    for k, alone in enumerate(apart):
        assert together.start[k] == alone.start[0]
        assert_allclose(together.effective[k], alone.effective[0], rtol=1e-6)
        assert_allclose(together.kept[source == k], alone.kept)
        assert together.effective[k] >= together.all_effective[k] * (1 - 1e-9)
        assert 1.0 <= statistical_inefficiency(x[k]) <= 60.0
        assert_allclose(together.all_effective[k], 60.0 / statistical_inefficiency(x[k]), rtol=1e-6)


@given(seeds)
@examples(8)
def test_backward_is_forward_in_time_that_runs_back(seed):
    rng = np.random.default_rng(seed)
    centres, source = np.array([-0.5, 0.0, 0.5]), np.repeat([0, 1, 2], 40)
    u_kn = 0.5 * (rng.normal(centres[source]) - centres[:, None]) ** 2
    N_k, back = [40, 40, 40], np.concatenate([np.arange(40)[::-1] + 40 * k for k in range(3)])
    fits = MBAR(u_kn, N_k, series=True), MBAR(u_kn[:, back], N_k, series=True)
    first, second = (convergence(mbar, fractions=[0.35, 1.0]) for mbar in fits)
    for one, other in zip(first.forward + first.backward, second.backward + second.forward, strict=True):
        assert_allclose([one.value, one.stderr], [other.value, other.stderr], rtol=1e-6, atol=1e-9)
    assert_allclose(first.forward[-1].value, -(fits[0].f_k[0] - fits[0].f_k[2]), atol=1e-9)
    worth, same = (inefficiencies(mbar.fit) for mbar in fits)
    assert_allclose(list(worth.values()), list(same.values()), rtol=1e-6)
    assert min(worth.values()) >= 1.0


@given(st.floats(1.0, 1e4))
def test_units_are_in_proportion(temperature):
    assert_allclose(kT("kJ/mol", temperature), 4.184 * kT("kcal/mol", temperature), rtol=1e-12)
    assert_allclose(kT("kJ/mol", 2 * temperature), 2 * kT("kJ/mol", temperature), rtol=1e-12)
    assert kT("kT", temperature) == 1.0


@given(seeds, st.floats(-50.0, 50.0), st.sampled_from(["BAR", "MBAR"]))
@examples(15)
def test_works_know_no_zero_of_energy_and_change_sign_with_the_direction(seed, shift, method):
    rng = np.random.default_rng(seed)
    forward, reverse = rng.normal(1.5, 1.0, rng.integers(30, 80)), rng.normal(-0.5, 1.0, rng.integers(30, 80))
    one = bar(forward, reverse, uncertainty_method=method)
    moved = bar(forward + shift, reverse - shift, uncertainty_method=method)
    back = bar(reverse, forward, uncertainty_method=method)
    assert_allclose([moved["Delta_f"] - shift, -back["Delta_f"]], one["Delta_f"], atol=1e-9)
    assert_allclose([moved["dDelta_f"], back["dDelta_f"]], one["dDelta_f"], rtol=1e-7)
    single, above = exp(forward, is_timeseries=True), exp(forward + shift, is_timeseries=True)
    assert_allclose(above["Delta_f"] - shift, single["Delta_f"], atol=1e-9)
    assert_allclose(above["dDelta_f"], single["dDelta_f"], rtol=1e-7)
    scaled = timeseries.statistical_inefficiency(np.exp(shift / 10) * forward + shift)
    assert_allclose(scaled, timeseries.statistical_inefficiency(forward), rtol=1e-6)
