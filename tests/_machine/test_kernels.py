"""Compiled steps give what NumPy's do, to the last digits, and are found where the extra is installed."""

from __future__ import annotations

import importlib.util
import sys

import extended
import mpmath
import numpy as np
import pytest
from designs import FAMILIES
from judging import CERTIFIED, WRONG, judge_all

import vardi
from vardi._machine import compiled, kernels, threads
from vardi._rows import dense, indicators

UNIT = 2.0**-52


@pytest.fixture
def forced(monkeypatch):
    """Compile whatever the size, and keep no scaled copy, so that each pass makes its own exps."""
    monkeypatch.setattr(kernels, "MIN_COMPILED_NUMBERS", 0)
    monkeypatch.setattr(dense, "MAX_COPIED_NUMBERS", 0)


def tilts(n, K, constants=0.0):
    """Return log omega of tilts, each times e to a power between plus and minus ``constants``, and labels."""
    source = np.arange(n) % K
    x = np.random.default_rng(0).normal(source / 2.0)
    return x[:, None] * np.arange(K) / 2.0 + np.linspace(-constants, constants, K), source


def test_exps_are_right_to_the_last_place():
    x = np.concatenate([np.linspace(-708.0, 709.0, 5003), np.linspace(-1.0, 1.0, 1001)])
    exact = np.array([float(mpmath.exp(value)) for value in x.tolist()])
    found = compiled.exp(x, np.empty_like(x))
    assert np.abs(found / exact - 1.0).max() <= 2 * UNIT


def test_exps_of_what_is_too_small_are_zero():
    x = np.array([-np.inf, -1e300, -1000.0, -708.5, 0.0])
    np.testing.assert_array_equal(compiled.exp(x, np.empty_like(x)), [0.0, 0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize("shape", [(1, 1), (63, 5), (64, 4), (1000, 7), (130, 50), (3, 300)])
def test_exps_and_grams_equal_those_of_numpy(shape):
    rng = np.random.default_rng(1)
    logs, anchor, root = -rng.exponential(20.0, shape), rng.normal(size=shape[1]), rng.random(shape[0])
    logs[rng.random(shape) < 0.1] = -np.inf
    anchor[-1] = -np.inf if shape[1] > 1 else 0.0  # a state without rows
    offset = np.nan_to_num((logs + anchor).max(axis=1), neginf=0.0)
    A = kernels.NUMPY.exp_beyond(logs, anchor, offset, np.empty(shape))
    np.testing.assert_allclose(compiled.exp_beyond(logs, anchor, offset, np.empty(shape)), A, rtol=4 * UNIT)
    expected = kernels.NUMPY.gram(A, root, np.empty(shape))
    np.testing.assert_allclose(compiled.gram(A, root), expected, rtol=1e-13, atol=1e-14 * expected.max())


@pytest.mark.parametrize("draws", [1, 2, 7])
@pytest.mark.parametrize(("n", "K", "m"), [(1, 1, 1), (127, 4, 1), (1000, 5, 3), (128, 9, 8)])
@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_sums_of_draws_equal_those_of_numpy(draws, n, K, m, number):
    rng = np.random.default_rng(4)
    P, Y, moved = rng.dirichlet(np.ones(K), n), rng.normal(size=(n, m)), np.exp(rng.normal(size=(draws, K)))
    counts, first = rng.exponential(size=(draws, n + 9)).astype(number), 5
    own, both = counts[:, first : first + n].astype(float), np.hstack([P, Y])
    found = compiled.draws(P, Y, counts, first, moved, with_products=False)
    np.testing.assert_allclose(found, (own / (moved @ P.T)) @ both, rtol=1e-12, atol=1e-12)
    products = (Y[:, :, None] * P[:, None, :]).reshape(n, -1)
    found = compiled.draws(P, Y, counts, first, None, with_products=True)
    np.testing.assert_allclose(found, own @ np.hstack([both, products]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "values",
    [[3.0], [-1.5, -2.5], [0.0, -0.0, 7.0], [-np.inf, 2.0], [np.inf, 1.0], [-0.0], [5e-324, -5e-324, 1e308]],
)
def test_the_smallest_and_the_largest_number_are_found(values):
    assert compiled.ends(np.array(values)) == kernels.NUMPY.ends(np.array(values)) == (min(values), max(values))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("place", [0, 500, 999])
def test_one_number_that_is_none_is_found(place, sign):
    values = np.linspace(-1.0, 1.0, 1000)
    values[place] = np.copysign(np.nan, sign)
    assert np.isnan(compiled.ends(values)).all()


@pytest.mark.parametrize("K", [1, 2, 3, 4, 7, 8])
def test_tallies_and_weights_of_indicators_equal_those_of_numpy(K):
    rng = np.random.default_rng(2)
    width = next(w for w in indicators.WORDS if w >= K)
    booleans = np.zeros((1001, width), np.bool_)
    booleans[:, :K] = rng.random((1001, K)) < 0.4
    words, source = booleans.view(indicators.WORDS[width])[:, 0], rng.integers(0, K, 1001)
    pairs = []
    for tally in (kernels.NUMPY.tally, kernels.kernels(kernels.MIN_COMPILED_NUMBERS, K).tally):
        codes = np.empty(1001, np.uint16)
        pairs.append((tally(words, source, K, codes), codes))
    expected = source * 2**K + booleans[:, :K] @ 2 ** np.arange(K)
    for counts, codes in pairs:
        np.testing.assert_array_equal(codes, expected)
        np.testing.assert_array_equal(counts, np.bincount(expected, minlength=K << K))
    values, taken = rng.random(K << K), np.empty(1001)
    kernels.kernels(kernels.MIN_COMPILED_NUMBERS, K).take(values, pairs[0][1], taken)
    np.testing.assert_array_equal(taken, values[expected])


@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize("K", [2, 5, 8])
def test_a_fit_of_indicators_is_the_same_to_the_last_bit(K, monkeypatch):
    rng = np.random.default_rng(3)
    source = np.arange(20_000) % K
    omega = rng.random((20_000, K)) < 0.7
    omega[np.arange(20_000), source] = True
    fit = vardi.debias_matrix(omega, source)
    monkeypatch.setattr(kernels, "_compiled", lambda: None)
    np.testing.assert_array_equal(fit.weights, vardi.debias_matrix(omega, source).weights)


@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("constants", [0.0, 400.0])  # used as they stand, and scaled row by row
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_fit_is_the_same_to_1e_12(log, constants, order, monkeypatch):
    logs, source = tilts(3000, 5, constants if log else 200.0)
    matrix = np.asarray(logs if log else np.exp(logs), order=order)
    fit = vardi.debias_matrix(matrix, source, log=log)
    monkeypatch.setattr(kernels, "_compiled", lambda: None)
    by_numpy = vardi.debias_matrix(matrix, source, log=log)
    np.testing.assert_allclose(fit.weights, by_numpy.weights, rtol=1e-12)
    np.testing.assert_allclose(fit.solution.u, by_numpy.solution.u, rtol=1e-12, atol=1e-12)
    assert fit.solution.converged


@pytest.mark.usefixtures("forced")
def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(threads, "THREADED", 0)
    logs, source = tilts(40_000, 12, 400.0)
    fits = []
    for processors in (1, 3):
        monkeypatch.setattr("joblib.cpu_count", lambda processors=processors: processors)
        fits.append(vardi.debias_matrix(logs, source, log=True))
    np.testing.assert_array_equal(fits[0].weights, fits[1].weights)


@pytest.mark.long
@pytest.mark.usefixtures("forced")
@pytest.mark.skipif(not extended.HAS_64_BITS, reason="long doubles are doubles here: no oracle")
def test_the_oracle_finds_nothing_wrong():
    outcomes = [outcome for family in FAMILIES for outcome in judge_all(family, range(20_000, 20_003))]
    assert not [str(outcome) for outcome in outcomes if outcome.kind == WRONG]
    assert sum(outcome.kind == CERTIFIED for outcome in outcomes) > len(outcomes) / 2


def test_small_matrices_are_not_worth_loading_numba():
    assert kernels.kernels(1000, 10) is kernels.NUMPY
    assert kernels.kernels(1_000_000, 10) is not kernels.NUMPY


def test_the_blas_forms_grams_of_many_samples():
    assert kernels.kernels(1_000_000, 65).gram is kernels.NUMPY.gram
    assert kernels.kernels(1_000_000, 64).gram is not kernels.NUMPY.gram


@pytest.mark.parametrize("reason", ["not installed", "too old for this NumPy", "told not to"])
def test_numpy_is_enough(reason, monkeypatch, tmp_path):
    kernels._compiled.cache_clear()
    if reason == "not installed":
        monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    elif reason == "too old for this NumPy":
        (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 2.2 or less')")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "numba")
    else:
        monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    try:
        assert importlib.util.find_spec("numba")
        assert kernels.kernels(1_000_000, 10) is kernels.NUMPY
    finally:
        kernels._compiled.cache_clear()
