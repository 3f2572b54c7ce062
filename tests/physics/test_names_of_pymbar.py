"""pymbar's functions of time and of work beside ours, on pymbar's own test systems, and the module in its place."""

from __future__ import annotations

import importlib
import logging
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter

import vardi
import vardi.mbar.pymbar
from vardi.mbar import ParameterError, timeseries

STAND_IN = """
import sys
import vardi.mbar.pymbar
sys.modules.update(vardi.mbar.pymbar.MODULES)
import numpy as np
import pymbar.timeseries
from pymbar import FES, MBAR, bar
from pymbar.mbar import MBAR as the_same
from pymbar.utils import ParameterError
assert MBAR is the_same is vardi.mbar.MBAR
assert pymbar.other_estimators.exp is vardi.mbar.exp
for refused in (lambda: pymbar.timeseries.statistical_inefficiency(np.ones(9)), lambda: bar([900.0], [900.0])):
    try:
        refused()
    except ParameterError:
        print("refused")
"""


@pytest.fixture(scope="module")
def pymbar():
    """pymbar, which says at import that JAX is absent."""
    logging.disable(logging.WARNING)
    found = pytest.importorskip("pymbar", reason="pymbar is not installed: pip install 'vardi[test]'")
    logging.disable(logging.NOTSET)
    return found


def remembered(memory, n, seed=0):
    noise = np.random.default_rng(seed).normal(size=n) * np.sqrt(1 - memory**2)
    return lfilter([1.0], [1.0, -memory], noise)


# ---------------------------------------------------------------- correlation in time


@pytest.fixture(params=[0, 1, 2])
def series(request, pymbar):
    """In double precision, since pymbar's own is single, and its mean too."""
    return pymbar.testsystems.correlated_timeseries_example(N=2000, tau=5.0, seed=request.param).astype(float)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("mintime", [3, 20])
def test_inefficiencies_are_pymbars(pymbar, series, fast, mintime):
    other = series + remembered(0.5, len(series))
    for given in ((series,), (series, other), (series[:2],), (series[:4],), (np.round(series).astype(int),)):
        found = timeseries.statistical_inefficiency(*given, fast=fast, mintime=mintime)
        expected = pymbar.timeseries.statistical_inefficiency(*given, fast=fast, mintime=mintime)
        assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("fast", [False, True])
def test_inefficiencies_of_several_series_are_pymbars(pymbar, series, fast):
    theirs = pymbar.timeseries.statistical_inefficiency_multiple
    for runs in ([series[:300], series[300:1500], series[1500:]], series.reshape(4, -1), series, [series, series[:5]]):
        found, lags = timeseries.statistical_inefficiency_multiple(runs, fast, return_correlation_function=True)
        expected, their_lags = theirs(runs, fast, return_correlation_function=True)
        assert_allclose(found, expected, rtol=1e-10)
        assert_allclose(lags, their_lags, rtol=1e-10, atol=1e-12)
        assert timeseries.statistical_inefficiency_multiple(runs, fast) == found


@pytest.mark.parametrize("options", [{}, {"fast": True}, {"conservative": True}, {"g": 1.0}, {"g": 2.5}])
def test_subsamples_are_pymbars(pymbar, series, options):
    found = timeseries.subsample_correlated_data(series, **options)
    assert found == list(pymbar.timeseries.subsample_correlated_data(series, **options))
    assert all(isinstance(frame, int) for frame in found)


@pytest.mark.parametrize(("fast", "nskip"), [(True, 1), (False, 20)])
def test_equilibration_is_pymbars(pymbar, series, fast, nskip):
    settling = series[:500] + 6.0 * np.exp(-np.arange(500) / 30)
    constant_at_last = np.append(series[:200], np.full(50, 3.0))
    for x in (settling, constant_at_last, np.full(10, 0.5), series[:3]):
        found = timeseries.detect_equilibration(x, fast=fast, nskip=nskip)
        assert_allclose(found, pymbar.timeseries.detect_equilibration(x, fast=fast, nskip=nskip), rtol=1e-10)


# ---------------------------------------------------------------- work


def works(pymbar, seed, name):
    systems = pymbar.testsystems
    if name == "Gaussian work":
        return systems.gaussian_work_example(N_F=300, N_R=200, mu_F=None, DeltaF=2.0, sigma_F=1.5, seed=seed)
    if name == "oscillators":
        case = systems.HarmonicOscillatorsTestCase(O_k=[1.0, 2.0], K_k=[0.5, 2.0])
    else:
        case = systems.ExponentialTestCase(rates=[1.0, 4.0])
    return case.sample([500, 800], mode="wFwR", seed=seed)[:2]


@pytest.fixture(params=[(seed, name) for seed in range(2) for name in ("Gaussian work", "oscillators", "exponentials")])
def both_works(request, pymbar):
    return works(pymbar, *request.param)


def agree(found, expected):
    assert found.keys() == expected.keys()
    assert_allclose(found["Delta_f"], expected["Delta_f"], rtol=0, atol=1e-10)
    if "dDelta_f" in found:
        assert_allclose(found["dDelta_f"], expected["dDelta_f"], rtol=1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"uncertainty_method": "MBAR"},
        {"compute_uncertainty": False},
        {"method": "bisection"},
        {"iterated_solution": False, "DeltaF": 1.5},
    ],
)
def test_the_acceptance_ratio_is_pymbars(pymbar, both_works, options):
    agree(vardi.mbar.bar(*both_works, **options), pymbar.bar(*both_works, **options))


@pytest.mark.parametrize("options", [{}, {"is_timeseries": True}, {"compute_uncertainty": False}])
def test_an_average_of_one_side_is_pymbars(pymbar, both_works, options):
    for work in both_works:
        agree(vardi.mbar.exp(work, **options), pymbar.exp(work, **options))


def test_the_equation_is_pymbars(pymbar, both_works):
    for difference in (-3.0, 0.0, 5.0):
        found = vardi.mbar.pymbar.bar_zero(*both_works, difference)
        assert_allclose(found, pymbar.bar_zero(*both_works, difference), atol=1e-10)


def test_works_that_do_not_overlap_are_refused():
    with pytest.raises(vardi.errors.NotIdentifiableError):
        vardi.mbar.bar(np.full(50, 900.0), np.full(50, 900.0))


# ---------------------------------------------------------------- what is refused


REFUSED = [
    (lambda: timeseries.statistical_inefficiency(np.ones(10)), "The covariance of the series is 0"),
    (lambda: timeseries.statistical_inefficiency(np.arange(4.0), np.arange(3.0)), "A_n has 4 frames, and B_n has 3"),
    (lambda: timeseries.statistical_inefficiency_multiple([]), "A_kn has no series"),
    (lambda: timeseries.subsample_correlated_data(np.arange(4.0), g=-1.0), "g is -1.0"),
    (lambda: vardi.mbar.bar([0.0, np.nan], [0.0]), "w_F has no number at frame 1"),
    (lambda: vardi.mbar.bar([0.0], [0.0], method="secant"), "method is 'secant'"),
    (lambda: vardi.mbar.exp([]), r"w_F has shape \(0,\)"),
    (lambda: vardi.mbar.MBAR(np.zeros((2, 3)), [2, 2]), "u_kn has shape"),
]


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_what_is_refused_is_an_error_of_both(pymbar, call, text):
    with pytest.raises(pymbar.utils.ParameterError, match=text) as caught:
        call()
    assert isinstance(caught.value, ParameterError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), isinstance(again, pymbar.utils.ParameterError)) == (str(caught.value), True)


def test_pymbar_is_not_imported_and_an_error_is_ours_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, "pymbar.utils", raising=False)
    with pytest.raises(ParameterError) as caught:
        timeseries.statistical_inefficiency(np.ones(10))
    assert type(caught.value) is ParameterError
    code = "import sys, vardi.mbar.pymbar; print('pymbar' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# ---------------------------------------------------------------- in place of pymbar


def test_another_package_imports_it_as_pymbar():
    done = subprocess.run([sys.executable, "-c", STAND_IN], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("refused\nrefused\n", "")


LACKS = [
    *("bar_overlap", "exp_gauss", "confidenceintervals", "mbar_solvers", "testsystems"),
    *("kln_to_kn", "kn_to_n", "ensure_type", "logsumexp", "check_w_normalized", "TypeCastPerformanceWarning"),
    *("BoundsError", "ConvergenceError", "DataError"),
]


def test_what_pymbar_has_is_there_or_said_to_be_lacking(pymbar):
    ours = vardi.mbar.pymbar
    for module in ("", ".other_estimators", ".utils"):
        theirs = importlib.import_module(f"pymbar{module}")
        for name, value in vars(theirs).items():
            own = getattr(value, "__module__", getattr(value, "__name__", "")) or ""
            if not name.startswith("_") and own.startswith("pymbar"):
                assert hasattr(ours, name) or name in LACKS, name
    for name in LACKS:
        with pytest.raises(AttributeError, match=f"has no '{name}'. It stands in for FES, MBAR, "):
            getattr(ours, name)
