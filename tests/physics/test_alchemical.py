"""AlchemicalEstimator: alchemlyb's conventions on frames as its parsers make them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import vardi
from vardi.mbar import MBAR, AlchemicalEstimator

SIZES = (60, 0, 50, 40)


def frame(states, seed=0):
    """Rows of springs that stiffen from state to state, as alchemlyb lays them out; the second was not simulated."""
    rng = np.random.default_rng(seed)
    stiffness = 1.0 + 0.5 * np.arange(4)
    source = np.repeat(np.arange(4), SIZES)
    x = rng.normal(0.0, 1.0 / np.sqrt(stiffness[source]))
    time = np.concatenate([np.arange(float(size)) for size in SIZES])
    drawn = [states[k] for k in source]
    levels = list(zip(*drawn, strict=True)) if isinstance(drawn[0], tuple) else [drawn]
    index = pd.MultiIndex.from_arrays([time, *levels], names=["time", *(f"lambda {j}" for j in range(len(levels)))])
    u_nk = pd.DataFrame(0.5 * stiffness * x[:, None] ** 2, index=index)
    u_nk.columns = pd.Index(states, tupleize_cols=False)
    u_nk.attrs = {"temperature": 300, "energy_unit": "kT"}
    return u_nk


@pytest.mark.parametrize("states", [[0.0, 0.25, 0.5, 1.0], [(0.0, 0.0), (0.0, 0.5), (0.5, 0.5), (1.0, 1.0)]])
def test_frames_with_one_level_and_with_several(states):
    u_nk = frame(states)
    shuffled = u_nk.iloc[np.random.default_rng(1).permutation(len(u_nk))]
    shuffled.attrs = u_nk.attrs
    direct = MBAR(u_nk.to_numpy().T, SIZES)
    for given in (u_nk, shuffled):
        found = AlchemicalEstimator().fit(given, compute_entropy_enthalpy=True)
        assert found.states_ == states
        assert_allclose(found.delta_f_, direct.compute_free_energy_differences()["Delta_f"], atol=1e-10)
        assert_allclose(found.d_delta_f_, direct.compute_free_energy_differences()["dDelta_f"], rtol=1e-8)
        parts = direct.compute_entropy_and_enthalpy()
        named = {"delta_h_": "Delta_u", "d_delta_h_": "dDelta_u", "delta_sT_": "Delta_s", "d_delta_sT_": "dDelta_s"}
        for name, key in named.items():
            assert_allclose(getattr(found, name), parts[key], atol=1e-9, err_msg=name)
            assert getattr(found, name).attrs == {"temperature": 300, "energy_unit": "kT"}
        assert list(found.delta_f_.index) == list(found.delta_f_.columns) == states
        assert_allclose(found.overlap_matrix, direct.compute_overlap()["matrix"], rtol=1e-8)
        assert found.theta_.shape == (4, 4)


def test_series_are_ordered_by_time():
    u_nk = frame([0.0, 0.25, 0.5, 1.0])
    shuffled = u_nk.iloc[np.random.default_rng(1).permutation(len(u_nk))]
    errors = [AlchemicalEstimator(series=True).fit(one).d_delta_f_ for one in (u_nk, shuffled)]
    assert_allclose(*errors, rtol=1e-8)
    assert abs(errors[0] - AlchemicalEstimator().fit(u_nk).d_delta_f_).to_numpy().max() > 1e-4


def test_errors_by_refits():
    u_nk = frame([0.0, 0.25, 0.5, 1.0])
    plain, refitted = AlchemicalEstimator().fit(u_nk), AlchemicalEstimator(n_bootstraps=20).fit(u_nk)
    assert_allclose(refitted.delta_f_, plain.delta_f_)
    assert 0.4 < refitted.d_delta_f_.iloc[0, 3] / plain.d_delta_f_.iloc[0, 3] < 2.0


def test_it_is_an_estimator():
    estimator = clone(AlchemicalEstimator(n_bootstraps=7, method="adaptive"))
    assert estimator.get_params()["n_bootstraps"] == 7
    assert estimator.delta_f_ is estimator.d_delta_f_ is estimator.states_ is estimator.delta_h_ is None
    with pytest.raises(AttributeError):
        estimator.delta_f_ = 1


def test_what_is_refused():
    u_nk = frame([0.0, 0.25, 0.5, 1.0])
    with pytest.raises(vardi.MismatchError, match=r"Rows of u_nk were drawn in state 0\.5, but no column has"):
        AlchemicalEstimator().fit(u_nk.drop(columns=0.5))
    with pytest.raises(vardi.MismatchError, match="u_nk has no index of time and state. Give a frame"):
        AlchemicalEstimator().fit(u_nk.reset_index(drop=True))
    with pytest.raises(vardi.MismatchError, match="initial_f_k is 'zeros'. Only `BAR` is supported as string input"):
        AlchemicalEstimator(initial_f_k="zeros")
