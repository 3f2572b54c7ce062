"""A dense matrix of many samples, of which only the entries that count are summed: the same fit, to every digit."""

from __future__ import annotations

import extended
import numpy as np
import pytest
from designs import FAMILIES
from judging import WRONG, judge_all
from numpy.testing import assert_allclose, assert_array_equal
from oracle import certify, far_logs

import vardi
from vardi import _machine as threads
from vardi._rows import choose
from vardi._rows import sparse as sparse_rows
from vardi._rows.sparse import SLACK, Thinned
from vardi._solve.newton import REUSED
from vardi.datasets import harmonic_oscillators

K, PER = 150, 12


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    """Of 150 samples those that count are more than of thousands."""
    monkeypatch.setattr(sparse_rows, "MAX_SHARE", 0.2)


@pytest.fixture
def forced(monkeypatch):
    """Hold every dense matrix by the entries that count, however few samples and however many entries these are."""
    monkeypatch.setattr(choose, "MIN_SAMPLES", 1)
    monkeypatch.setattr(sparse_rows, "MAX_SHARE", 1.0)


def oscillators(seed: int = 0, states: int = K, **options) -> tuple[np.ndarray, np.ndarray]:
    design = harmonic_oscillators(states=states, rows_per_state=PER, seed=seed, **options)
    return design.omega, design.source


def rows_of(omega: np.ndarray, source: np.ndarray, counts: np.ndarray | None = None, *, log: bool = True) -> Thinned:
    rows = choose.as_rows(omega, source, counts, range(omega.shape[1]), log=log)
    assert isinstance(rows, Thinned)
    return rows


def compared(omega, source, monkeypatch, **options):
    """Return the same fit with and without the entries that do not count."""
    with monkeypatch.context() as plain:
        plain.setattr(choose, "MIN_SAMPLES", np.inf)
        dense = vardi.debias_matrix(omega, source, **options)
        assert not isinstance(dense.solved.rows, Thinned)
    fit = vardi.debias_matrix(omega, source, **options)
    assert fit.solved.rows.settled(fit.solution.u) is not fit.solved.rows
    return fit, dense


def assert_same_for_any_number_of_threads(monkeypatch, omega, source):
    """Fit log omega in one thread and in three, in small blocks, and compare to the last digit."""
    monkeypatch.setattr(threads, "THREADED", 0)
    monkeypatch.setattr(threads, "BLOCK", 5000)
    found = []
    for workers in (1, 3):
        monkeypatch.setattr("joblib.cpu_count", lambda workers=workers: workers)
        found.append(vardi.debias_matrix(omega, source, log=True))
    assert_array_equal(found[0].solution.u, found[1].solution.u)
    assert_array_equal(found[0].weights, found[1].weights)
    assert found[0].solution.certificate == found[1].solution.certificate


# ---------------------------------------------------------------- what is left out


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("counted", [True, False])
def test_what_is_left_out_is_less_than_the_last_place_of_the_smallest_sample(log, counted):
    omega, source = oscillators()
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 9, len(source)).astype(float) if counted else None
    rows = rows_of(omega if log else np.exp(omega), source, counts, log=log)
    u = rows.start()
    kept = rows.settled(u)
    assert kept.matrix.nnz < 0.2 * omega.size
    there = np.zeros(omega.shape, bool)
    there[np.repeat(np.arange(len(source)), np.diff(kept.matrix.indptr)), kept.matrix.indices] = True
    assert there[np.arange(len(source)), source].all()
    assert_array_equal(kept.matrix.data, rows.matrix[there])  # the values themselves, not rounded anew
    for shift in (np.zeros(K), SLACK * rng.random(K), SLACK * (np.arange(K) % 2)):
        assert rows.settled(u + shift) is kept
        logs = (omega + u + shift).astype(np.longdouble)
        p = np.exp(logs - logs.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        dropped = (np.where(there, 0.0, p) * (1.0 if counts is None else counts[:, None])).sum()
        assert 0 < dropped < np.finfo(float).eps / 16 * rows.sizes.min()


def test_it_is_asked_again_where_u_has_moved_on():
    omega, source = oscillators()
    rows = rows_of(omega, source)
    u = rows.start()
    first = rows.settled(u)
    far = rows.settled(u + 3 * SLACK * (np.arange(K) % 2))
    assert far is not first
    assert far.matrix.nnz != first.matrix.nnz
    assert rows.settled(u + 100.0).matrix.nnz == first.matrix.nnz  # a constant moves nothing


def test_many_entries_are_summed_as_they_stand(monkeypatch):
    omega, source = oscillators(states=100, spacing=0.05)  # each row could be of any sample
    rows = rows_of(omega, source)
    assert rows.settled(rows.start()) is rows
    with monkeypatch.context() as plain:
        plain.setattr(choose, "MIN_SAMPLES", np.inf)
        dense = choose.as_rows(omega, source, None, range(100), log=True)
    u = dense.start()
    ours, theirs = rows.sums(u), dense.sums(u)
    assert ours.log_mass == theirs.log_mass
    assert_array_equal(ours.shares, theirs.shares)
    assert_array_equal(ours.gram.array(), theirs.gram.array())
    assert_array_equal(rows.start(), u)


@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize("exponent", [4, 12, 60])
def test_samples_that_only_what_is_left_out_would_join(exponent):
    """Links that no sum shows are no reason to leave all of them out: the refusal is the one of all entries."""
    omega, source = np.eye(2)[[0, 0, 0, 1, 1]], np.array([0, 0, 0, 1, 1])
    omega[0, 1] = omega[4, 0] = 10.0**-exponent
    rows = rows_of(omega, source, log=False)
    assert (rows.settled(np.zeros(2)) is rows) == (exponent == 60)
    if exponent == 4:
        certify(vardi.debias_matrix(omega, source), omega, source)
        return
    with pytest.raises(vardi.NotIdentifiableError, match="spectral gap") as caught:
        vardi.debias_matrix(omega, source)
    assert caught.value.groups == (("0",), ("1",))


# ---------------------------------------------------------------- the fit


@pytest.mark.parametrize("log", [True, False])
def test_it_is_the_same_fit(log, monkeypatch):
    omega, source = oscillators(int(log), states=105)
    given = omega if log else np.exp(omega)
    fit, dense = compared(given, source, monkeypatch, log=log)
    certify(fit, given, source, log=log)
    truth = extended.solve(given, source, log=log)
    assert np.ptp(np.float64(fit.solution.u - truth.u)) <= fit.solution.certificate + truth.error
    assert fit.solution.certificate <= dense.solution.certificate  # fewer numbers are added up
    assert fit.solution.gap == pytest.approx(dense.solution.gap, rel=REUSED)  # that of a point so near
    values = np.sin(np.arange(len(source)))
    ours, theirs = fit.expectation(values), dense.expectation(values)
    assert_allclose([ours.value, ours.stderr], [theirs.value, theirs.stderr], rtol=1e-9)
    assert_allclose(fit.solved.log_omega_covariance(), dense.solved.log_omega_covariance(), rtol=1e-7, atol=1e-9)
    assert fit.identify().kappa == pytest.approx(dense.identify().kappa)
    assert fit.bridge.rows == pytest.approx(dense.bridge.rows)


def test_states_without_rows_have_their_normalisers(monkeypatch):
    omega, source = oscillators()
    kept = source % 3 > 0
    fit, dense = compared(omega[kept], source[kept], monkeypatch, log=True)
    ours, theirs = (np.array(list(one.log_omegas.values())) for one in (fit, dense))
    assert_allclose(ours, theirs, atol=1e-9)
    assert np.isneginf(fit.solution.u[0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("forced")
def test_large_logs_are_counted_in_the_certificate(seed):
    logs, source, truth = far_logs(seed)
    solution = vardi.debias_matrix(logs, source, log=True).solution
    assert truth.off(solution.u) <= solution.certificate <= 1e-8


@pytest.mark.skipif(not extended.HAS_64_BITS, reason="long doubles are doubles here: no oracle")
@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in ("many samples", "large")])
def test_designs_of_every_family_are_certified_or_rightly_refused(family):
    assert not [str(outcome) for outcome in judge_all(family, range(2)) if outcome.kind == WRONG]


@pytest.mark.long
@pytest.mark.skipif(not extended.HAS_64_BITS, reason="long doubles are doubles here: no oracle")
@pytest.mark.usefixtures("forced")
@pytest.mark.parametrize("family", ["many samples", "large"])
def test_large_designs_are_certified_too(family):
    assert not [str(outcome) for outcome in judge_all(family, range(3)) if outcome.kind == WRONG]


def test_threads_change_no_digit(monkeypatch):
    assert_same_for_any_number_of_threads(monkeypatch, *oscillators())


def test_counts_of_draws_start_anew():
    """What counts depends on the size of the smallest sample."""
    omega, source = oscillators()
    rows = rows_of(omega, source)
    u = rows.start()
    rows.settled(u)
    again = rows.with_counts(np.where(source == 0, 1e-6, 1.0))
    assert again._last_counting is None
    assert again.settled(u).matrix.nnz > rows.settled(u).matrix.nnz
