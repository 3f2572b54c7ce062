"""alchemlyb's own tests of its MBAR estimator and of what uses it, with vardi's in its place, on alchemtest's data."""

import logging
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.mbar.suites import failures
from vardi.mbar import AlchemicalEstimator

reason = "alchemlyb and alchemtest are not installed: pip install 'vardi[peers]'"
logging.disable(logging.WARNING)  # pymbar says at import that JAX is absent
alchemlyb = pytest.importorskip("alchemlyb", reason=reason)
pytest.importorskip("alchemtest", reason=reason)
from alchemlyb.estimators import MBAR  # noqa: E402
from alchemlyb.parsing import amber, gmx, gomc  # noqa: E402
from alchemtest import amber as of_amber  # noqa: E402
from alchemtest import gmx as of_gromacs  # noqa: E402
from alchemtest import gomc as of_gomc  # noqa: E402

logging.disable(logging.NOTSET)
pytestmark = [pytest.mark.peers, pytest.mark.long]

ALCHEMTEST = {
    "benzene, Coulomb": lambda: [
        gmx.extract_u_nk(file, T=300) for file in of_gromacs.load_benzene()["data"]["Coulomb"]
    ],
    "benzene, VDW": lambda: [gmx.extract_u_nk(file, T=300) for file in of_gromacs.load_benzene()["data"]["VDW"]],
    "expanded ensemble": lambda: [
        gmx.extract_u_nk(file, T=300, filter=False)
        for file in of_gromacs.load_expanded_ensemble_case_1()["data"]["AllStates"]
    ],
    "water": lambda: [
        gmx.extract_u_nk(file, T=300)
        for file in of_gromacs.load_water_particle_with_total_energy()["data"]["AllStates"]
    ],
    "ABFE": lambda: [gmx.extract_u_nk(file, T=300) for file in of_gromacs.load_ABFE()["data"]["complex"]],
    "BACE": lambda: [
        amber.extract_u_nk(file, T=298.0) for file in of_amber.load_bace_example()["data"]["complex"]["vdw"]
    ],
    "benzene, GOMC": lambda: [gomc.extract_u_nk(file, T=298) for file in of_gomc.load_benzene()["data"]],
}


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
def test_the_numbers_are_alchemlybs(system):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parsers use what pandas deprecates
        u_nk = alchemlyb.concat(ALCHEMTEST[system]())
        theirs = MBAR(relative_tolerance=1e-12).fit(u_nk, compute_entropy_enthalpy=True)
    ours = AlchemicalEstimator().fit(u_nk, compute_entropy_enthalpy=True)
    assert ours.states_ == theirs.states_
    assert_allclose(ours.delta_f_, theirs.delta_f_, atol=1e-6)
    assert_allclose(ours.delta_h_, theirs.delta_h_, atol=1e-6)
    assert_allclose(ours.overlap_matrix, theirs.overlap_matrix, atol=1e-8)
    off = ~np.eye(len(ours.states_), dtype=bool)
    for name in ("d_delta_f_", "d_delta_h_", "d_delta_sT_"):
        mine, expected = getattr(ours, name).to_numpy()[off], getattr(theirs, name).to_numpy()[off]
        assert_allclose(mine, expected, rtol=1e-3, err_msg=name)
