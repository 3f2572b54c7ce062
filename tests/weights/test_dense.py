"""Dense rows: no copy, and the same answer whichever way a block is scaled."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import certify

import vardi


def oscillators(states, rows, seed=0):
    design = vardi.datasets.harmonic_oscillators(states=states, rows_per_state=rows, seed=seed)
    return design.omega, design.source


@pytest.mark.long
@pytest.mark.parametrize("log", [False, True])
def test_no_copy_of_the_matrix(log):
    logs, source = oscillators(40, 10_000)
    matrix = logs if log else np.exp(logs)
    vardi.debias_matrix(matrix, source, log=log)  # loads what only large solves load: packages are no copies
    tracemalloc.start()
    try:
        fit = vardi.debias_matrix(matrix, source, log=log)
        assert len(fit.weights) == len(source)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * matrix.nbytes


@pytest.mark.parametrize("states", [3, 20])
def test_scaled_in_each_pass_or_not_at_all(states):
    logs, source = oscillators(states, 2000)
    given = vardi.debias_matrix(np.exp(logs), source)
    moderate = vardi.debias_matrix(logs, source, log=True)
    lifted = vardi.debias_matrix(logs + 600.0, source, log=True)  # e^600 needs an offset for each row
    tilted = vardi.debias_matrix(logs + np.linspace(-500, 500, len(source))[:, None], source, log=True)
    for fit in (moderate, lifted, tilted):
        assert fit.solution.certificate < 1e-8
    for fit in (moderate, lifted):
        assert_allclose(fit.weights, given.weights, rtol=1e-9)
    certify(moderate, np.exp(logs), source)
    # A factor for each row divides its weight, and leaves the ratios of the normalisers as they are.
    ratios = np.array(list(tilted.log_omegas.values())) - tilted.log_omegas["0"]
    assert_allclose(ratios, np.array(list(given.log_omegas.values())) - given.log_omegas["0"], atol=1e-9)


def test_an_unsampled_state_far_above_the_others():
    logs, source = oscillators(3, 2000)
    with_state = np.column_stack([logs, logs[:, 0] + 900.0])  # e^900 is no float
    fit = vardi.debias_matrix(with_state, source, log=True)
    plain = vardi.debias_matrix(logs, source, log=True)
    assert_allclose(fit.weights, plain.weights, rtol=1e-9)
    assert fit.log_omegas["3"] == pytest.approx(plain.log_omegas["0"] + 900.0, abs=1e-9)


def test_float32_is_stored_as_it_is_and_summed_in_double():
    logs, source = oscillators(10, 60_000)
    single = logs.astype(np.float32)
    tracemalloc.start()
    try:
        fit = vardi.debias_matrix(single, source, log=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < single.nbytes
    double = vardi.debias_matrix(single.astype(np.float64), source, log=True)
    assert_allclose(fit.solution.u, double.solution.u, rtol=0, atol=1e-12)
    assert_allclose(fit.weights, double.weights, rtol=1e-12)
