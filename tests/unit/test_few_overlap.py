"""Questions to fits of many samples, few of which could have drawn a row: sums over these against sums over all."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import vardi
from vardi import _machine as threads
from vardi._estimate.bias_test import Labels
from vardi._rows import sparse as sparse_rows
from vardi._rows.dense import Dense
from vardi._rows.measure import Functions
from vardi._rows.sparse import SparseProbabilities, Thinned
from vardi._solve.identify import judge

pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")

K, EACH = 101, 12  # one sample more than those from which the entries that count are determined


@pytest.fixture(autouse=True)
def few_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the entries that count although these samples are too few for them to be a small part of all."""
    monkeypatch.setattr(sparse_rows, "MAX_SHARE", 0.5)


def along_a_line(shuffled: bool = False, counted: bool = False) -> tuple[vardi.DebiasedSample, np.ndarray]:
    """Oscillators in a row, of which only neighbours overlap; values that no bias explains alone."""
    design = vardi.datasets.harmonic_oscillators(states=K, rows_per_state=EACH, seed=3)
    rng = np.random.default_rng(4)
    order = rng.permutation(len(design.source)) if shuffled else np.arange(len(design.source))
    counts = rng.integers(1, 4, len(order)) if counted else None
    fit = vardi.debias_matrix(design.omega[order], design.source[order], log=True, counts=counts)
    assert isinstance(fit.solved.rows, Thinned)
    return fit, design.rows[order]


def over_all(fit: vardi.DebiasedSample, monkeypatch: pytest.MonkeyPatch) -> vardi.DebiasedSample:
    """Return the same fit, which from here on sums over all samples."""
    monkeypatch.setattr(Thinned, "settled", lambda rows, u: rows)
    held = fit.solved
    again = vardi.debias_matrix(held.rows.matrix, held.memory.source, log=True, counts=held.memory.counts)
    assert_allclose(again.solution.u, fit.solution.u, atol=1e-9)
    return again


VARIANTS = [{}, {"shuffled": True}, {"counted": True}]


@pytest.mark.parametrize("variant", VARIANTS)
def test_sums_over_few_samples_are_those_over_all(variant, monkeypatch):
    fit, x = along_a_line(**variant)
    found = {
        "check": fit.check_biases({"x": x, "noise": np.sin(1e3 * x)}),
        "normalisers": fit.log_normalisers(),
        "band": fit.cdf(x).band(),
        "bridge": fit.bridge,
    }
    again = over_all(fit, monkeypatch)
    assert isinstance(again.solved.tangent.measure.rows.rows, Thinned)
    check = again.check_biases({"x": x, "noise": np.sin(1e3 * x)})
    assert found["check"].df == check.df
    assert_allclose(found["check"].statistic, check.statistic, rtol=1e-6)
    assert_allclose(list(found["check"].by_sample.values()), list(check.by_sample.values()), rtol=1e-5)
    assert str(found["check"].worst) == str(check.worst)
    assert_allclose(list(found["check"].untested.values()), list(check.untested.values()), atol=1e-14)
    normalisers = again.log_normalisers()
    for attribute in ("value", "stderr", "df"):
        mine, others = (
            [getattr(one, attribute) for one in these.values()] for these in (found["normalisers"], normalisers)
        )
        assert_allclose(mine, others, rtol=1e-7)
    difference, other = (these["3"] - these["7"] for these in (found["normalisers"], normalisers))
    assert_allclose([difference.value, difference.stderr], [other.value, other.stderr], rtol=1e-7)
    band = again.cdf(x).band()
    assert_array_equal(found["band"].x, band.x)
    assert_allclose(found["band"].low, band.low, rtol=1e-7, atol=1e-8)  # a width of about 0.1 is taken off, up to 0
    assert_allclose(found["band"].high, band.high, rtol=1e-7, atol=1e-8)
    assert found["bridge"].cut == again.bridge.cut
    assert_allclose(found["bridge"].rows, again.bridge.rows, rtol=1e-9)


def test_answers_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(threads, "THREADED", 0)
    monkeypatch.setattr(threads, "BLOCK", 5000)
    found = []
    for workers in (1, 3):
        monkeypatch.setattr("joblib.cpu_count", lambda workers=workers: workers)
        fit, x = along_a_line(shuffled=True)
        check, band = fit.check_biases({"x": x}), fit.cdf(x).band()
        errors = [one.stderr for one in fit.log_normalisers().values()]
        found.append((check.statistic, check.pvalue, *check.by_sample.values(), *errors, *band.low, *band.high))
    assert_array_equal(*found)


@pytest.mark.parametrize("dense_is_faster", [0.0, np.inf])
@pytest.mark.parametrize("shuffled", [False, True])
def test_products_of_few_samples_are_those_of_all(shuffled, dense_is_faster, monkeypatch):
    monkeypatch.setattr(sparse_rows, "DENSE_IS_FASTER", dense_is_faster)
    fit, x = along_a_line(shuffled)
    weights = np.column_stack([x, np.sin(x), x > np.median(x)])
    entries = fit.solved.tangent.measure.rows.rows.arrays
    (p,) = entries.each(lambda block: fit.solved.tangent.measure.point.at(block).p)
    assert isinstance(p, SparseProbabilities)
    P = p @ np.eye(len(p.step))
    assert_allclose(P.sum(axis=1), 1.0, rtol=1e-14)
    brute = np.vstack([(P * w[:, None]).T @ P for w in weights.T])
    assert_allclose(p.products(weights).toarray(), brute, atol=1e-13)


def test_a_state_that_no_sample_was_drawn_from_takes_no_part():
    design = vardi.datasets.harmonic_oscillators(states=K, rows_per_state=EACH, seed=3)
    wide = np.column_stack([design.omega, np.zeros(len(design.source))])
    alone = vardi.debias_matrix(design.omega, design.source, log=True).check_biases({"x": design.rows})
    beside = vardi.debias_matrix(wide, design.source, log=True).check_biases({"x": design.rows})
    assert (beside.df, str(beside.worst)) == (alone.df, str(alone.worst))
    assert_allclose(beside.statistic, alone.statistic, rtol=1e-5)


def test_samples_without_limits_are_judged_as_by_their_graph():
    rng = np.random.default_rng(0)
    for sizes in ([5, 3, 4], [3, 5, 4], [4, 4, 4], [2, 3]):
        source = np.repeat(np.arange(len(sizes)), sizes)
        rows = Dense(rng.random((len(source), len(sizes))) + 0.1, source, positive=True)
        names = [str(k) for k in range(len(sizes))]
        found = judge(rows, names)
        rows.positive = False
        table = rows.reach
        rows.reach = sparse.csr_array(table)  # a sparse graph is searched
        wanted = judge(rows, names)
        assert (found.reach != wanted.reach).nnz == 0
        assert (found.weakest, found.message, found.groups) == (wanted.weakest, wanted.message, wanted.groups)
        assert found.kappa == pytest.approx(wanted.kappa)


def test_information_of_weights_of_both_signs_is_that_of_rows():
    rng = np.random.default_rng(5)
    centres = np.linspace(-1, 1, K)
    source = np.repeat(np.arange(K), 4)
    x = rng.normal(centres[source])
    fit = vardi.debias_matrix(centres * x[:, None], source, log=True)
    assert isinstance(fit.solved.tangent.measure.rows.rows, Dense)
    P = np.exp(fit.solution.u + centres * x[:, None])
    P, y = P / P.sum(axis=1, keepdims=True), np.column_stack([x, x**2])
    brute = [sum(w * (np.diag(p) - np.outer(p, p)) for w, p in zip(column, P, strict=True)) for column in y.T]
    cross = Labels(fit.solved.tangent).score(Functions(y, 2))[2]
    assert_allclose(cross, brute, atol=1e-11)
