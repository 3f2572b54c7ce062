"""alchemlyb's own tests of its MBAR estimator and of what uses it, with vardi's in its place, on alchemtest's data."""

import importlib
import logging
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.peers.suites import failures
from vardi.mbar import AlchemicalEstimator

pytestmark = [pytest.mark.peers, pytest.mark.long]

#: The format of each system's files, its name in alchemtest, where its files are there, and how they are read.
ALCHEMTEST = {
    "benzene, Coulomb": ("gmx", "benzene", ["Coulomb"], {"T": 300}),
    "benzene, VDW": ("gmx", "benzene", ["VDW"], {"T": 300}),
    "expanded ensemble": ("gmx", "expanded_ensemble_case_1", ["AllStates"], {"T": 300, "filter": False}),
    "water": ("gmx", "water_particle_with_total_energy", ["AllStates"], {"T": 300}),
    "ABFE": ("gmx", "ABFE", ["complex"], {"T": 300}),
    "BACE": ("amber", "bace_example", ["complex", "vdw"], {"T": 298.0}),
    "benzene, GOMC": ("gomc", "benzene", [], {"T": 298}),
}


@pytest.fixture(autouse=True)
def alchemlyb():
    logging.disable(logging.WARNING)  # pymbar says at import that JAX is absent
    for package in ("alchemtest", "alchemlyb.estimators"):
        pytest.importorskip(package, reason="alchemlyb and alchemtest are not installed: pip install 'vardi[peers]'")
    logging.disable(logging.NOTSET)
    return importlib.import_module("alchemlyb")


def read(system):
    form, name, path, options = ALCHEMTEST[system]
    files = getattr(importlib.import_module(f"alchemtest.{form}"), f"load_{name}")()["data"]
    for key in path:
        files = files[key]
    extract = importlib.import_module(f"alchemlyb.parsing.{form}").extract_u_nk
    return [extract(file, **options) for file in files]


SUITE = (
    "test_fep_estimators",
    "test_convergence",
    "test_visualisation::test_plot_mbar_omatrix",
    "test_visualisation::test_plot_dF_state",
    "test_visualisation::test_plot_convergence",
    "test_workflow_ABFE::TestEstimator",
)


def test_alchemlybs_own_tests_pass():
    modules = [f"alchemlyb.tests.{name}" for name in SUITE]
    failed, ran = failures("in_place_of_alchemlyb", *modules, options=("-k", "not TestBAR"))
    assert ran > 50
    assert not failed


@pytest.mark.parametrize("system", ALCHEMTEST)
def test_the_numbers_are_alchemlybs(alchemlyb, system):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parsers use what pandas deprecates
        u_nk = alchemlyb.concat(read(system))
        theirs = alchemlyb.estimators.MBAR(relative_tolerance=1e-12).fit(u_nk, compute_entropy_enthalpy=True)
    ours = AlchemicalEstimator().fit(u_nk, compute_entropy_enthalpy=True)
    assert ours.states_ == theirs.states_
    assert_allclose(ours.delta_f_, theirs.delta_f_, atol=1e-6)
    assert_allclose(ours.delta_h_, theirs.delta_h_, atol=1e-6)
    assert_allclose(ours.overlap_matrix, theirs.overlap_matrix, atol=1e-8)
    off = ~np.eye(len(ours.states_), dtype=bool)
    for name in ("d_delta_f_", "d_delta_h_", "d_delta_sT_"):
        mine, expected = getattr(ours, name).to_numpy()[off], getattr(theirs, name).to_numpy()[off]
        assert_allclose(mine, expected, rtol=1e-3, err_msg=name)
