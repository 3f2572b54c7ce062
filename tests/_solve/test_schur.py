"""Known values with thousands of samples: solved without a dense J, and equal to what a dense one gives."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from many_samples import along_a_line, anywhere, doubly_truncated
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

import vardi
from vardi._rows import joint as joint_rows
from vardi._rows import sparse as sparse_rows
from vardi._rows import windows as window_rows
from vardi._solve.joint import At, Jacobian
from vardi._solve.parameters import held_of
from vardi._solve.schur import Schur

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")  # small samples, on purpose


def with_columns(omega, *columns):
    """Return a matrix of biases with states that nobody drew from."""
    return sparse.csr_array(sparse.hstack([omega, sparse.csr_array(np.column_stack(columns))]))


def a_line(K=310, per=10):
    omega, source = along_a_line(K, per)
    x = np.random.default_rng(1).standard_normal(len(source))
    return with_columns(omega, x > 0, np.exp(x), np.abs(x)), source, [0.5, np.exp(0.5), np.sqrt(2 / np.pi)], x


def any_other(K=320, per=6):
    omega, source = anywhere(K, per)
    x = np.random.default_rng(2).standard_normal(len(source))
    return with_columns(omega, x > 0, np.exp(x), np.abs(x)), source, [0.5, np.exp(0.5), np.sqrt(2 / np.pi)], x


def windows(K=320):
    own = doubly_truncated(K, 0.3)
    low, high = np.append(own.low, [0.3, 0.1, 0.6]), np.append(own.high, [np.inf, 0.5, np.inf])
    below = (1 - (1 - np.array([0.3, 0.1, 0.5, 0.6])) ** 2) / 0.96
    shares = [1 - below[0], below[2] - below[1], 1 - below[3]]
    return vardi.Windows(own.x, low, high), np.arange(K), shares, own.x


def two_lines(K=170, per=10):
    """Two lines that share no row, joined by the share of the second."""
    (first, source), (second, other) = along_a_line(K, per), along_a_line(K, per, seed=1)
    x = np.random.default_rng(3).standard_normal(2 * K * per)
    far = np.repeat([0.0, 1.0], K * per)
    omega = with_columns(sparse.block_diag([first, second], format="csr"), far, x > 0)
    return omega, np.concatenate([source, other + K]), [0.4, 0.5], x


DESIGNS = {
    "a factor": a_line,
    "products with the rows": any_other,
    "products with windows": windows,
    "two groups": two_lines,
}


def fitted(design, known, uncertain):
    omega, source, values, x = design
    K = omega.shape[1] - len(values)
    names = [*map(str, range(K)), *(f"known {j}" for j in range(len(values)))]
    given = {f"known {j}": (value, 0.01) if uncertain and j else value for j, value in enumerate(values[:known])}
    return vardi.debias_matrix(omega, source, names=names, known=given), x


def unformed(monkeypatch, name):
    """Make designs of hundreds of samples take the way of thousands."""
    monkeypatch.setattr(joint_rows, "MAX_DENSE_SAMPLES", 0)
    monkeypatch.setattr(window_rows, "MAX_DENSE_SAMPLES", 0)
    monkeypatch.setattr(sparse_rows, "MAX_DENSE_SAMPLES", 0)
    monkeypatch.setattr(sparse_rows, "FILLED", 0.0 if name == "products with the rows" else np.inf)
    monkeypatch.setattr(joint_rows, "_array", None)  # no gram is made an array


@pytest.mark.long
@pytest.mark.parametrize(("known", "uncertain"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("name", DESIGNS)
def test_the_same_as_by_a_dense_j(name, known, uncertain, monkeypatch):
    with monkeypatch.context() as dense_way:
        dense_way.setattr(joint_rows, "MAX_DENSE_SAMPLES", 10**6)
        dense, x = fitted(DESIGNS[name](), known, uncertain)
        theirs, checked = dense.expectation(x), dense.known
    unformed(monkeypatch, name)
    fit, _ = fitted(DESIGNS[name](), known, uncertain)
    assert fit.solution.residual <= 1e-10
    np.testing.assert_allclose(fit.weights, dense.weights, rtol=1e-8)
    ours = fit.expectation(x)
    assert ours.value == pytest.approx(theirs.value, rel=1e-8)
    assert ours.stderr == pytest.approx(theirs.stderr, rel=1e-8)
    assert fit.known.statistic == pytest.approx(checked.statistic, rel=1e-7, nan_ok=True)
    assert fit.known.df == checked.df


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_solutions_with_j_and_its_inertia(name, monkeypatch):
    """Solutions differ by the gauge, along which J is flat."""
    fit, x = fitted(DESIGNS[name](), 2, uncertain=True)
    joint, v = fit.held.joint, fit.held.point
    at = joint.coordinates
    monkeypatch.setattr(joint_rows, "MAX_DENSE_SAMPLES", 10**6)
    J = At.of(joint, v, held_of(joint)).jacobian
    unformed(monkeypatch, name)
    joint = pickle.loads(pickle.dumps(joint))
    schur = At.of(joint, v, held_of(joint)).jacobian
    assert isinstance(J, Jacobian)
    assert isinstance(schur, Schur)
    assert schur.inertia == J.inertia
    a = fit.held.tangent.measure.against(
        np.column_stack([x, x**2]), fit.held.tangent.measure.mean(np.column_stack([x, x**2]))
    )
    ours, theirs = schur.solve(a), J.solve(a)
    gauge = np.zeros(len(at))
    gauge[at.u][joint.sizes > 0], gauge[at.mu] = 1.0, v[at.mu]
    ours = ours - np.outer(gauge, ours[held_of(joint)])
    np.testing.assert_allclose(ours, theirs, atol=1e-7 * np.abs(theirs).max())
    np.testing.assert_array_equal(schur.solve(a[:, 0]), schur.solve(a[:, :1])[:, 0])


def test_an_inertia_that_is_not_found_is_not_claimed(monkeypatch):
    fit, _ = fitted(windows(), 1, uncertain=False)
    joint, v = fit.held.joint, fit.held.point
    unformed(monkeypatch, "products with windows")
    joint = pickle.loads(pickle.dumps(joint))
    assert At.of(joint, v, held_of(joint)).holds

    def fails(*_, **__):
        raise sparse_linalg.ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr(sparse_linalg, "eigsh", fails)
    assert not At.of(joint, v, held_of(joint)).holds


def test_a_point_that_is_no_solution_is_told(monkeypatch):
    """With mu as far out as weights allow, what is left in u is no longer positive."""
    fit, _ = fitted(a_line(), 1, uncertain=False)
    joint, v = fit.held.joint, fit.held.point.copy()
    point = joint.at(v)
    falls = point.g[:, 0] < 0
    v[joint.coordinates.mu] = 0.9 * (point.S0 / (point.scale * -point.g[:, 0]))[falls].min()
    unformed(monkeypatch, "a factor")
    joint = pickle.loads(pickle.dumps(joint))
    here = At.of(joint, v, held_of(joint))
    assert here.sums.positive
    assert isinstance(here.jacobian, Schur)
    assert not here.holds


def test_the_fit_is_pickled(monkeypatch):
    unformed(monkeypatch, "products with windows")
    fit, x = fitted(windows(), 2, uncertain=False)
    before = fit.expectation(x)
    after = pickle.loads(pickle.dumps(fit)).expectation(x)
    assert (after.value, after.stderr) == pytest.approx((before.value, before.stderr), rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("name", ["products with the rows", "products with windows"])
def test_five_thousand_samples(name, monkeypatch):
    design = any_other(5000, 6) if name == "products with the rows" else windows(5000)
    monkeypatch.setattr(joint_rows, "_array", None)
    fit, x = fitted(design, 3, uncertain=False)
    omega, _, values, _ = design
    columns = np.column_stack(
        [
            np.asarray(omega[:, [5000 + j]].toarray() if sparse.issparse(omega) else omega[:, 5000 + j]).ravel()
            for j in range(3)
        ]
    )
    np.testing.assert_allclose(fit.probabilities @ columns, values, rtol=1e-9)
    assert 0 < fit.expectation(x).stderr < vardi.debias_matrix(omega, design[1]).expectation(x).stderr
    assert fit.known.df == 3
    assert "known 2" in str(fit.known)
    assert len(str(fit).splitlines()) < 60
    monkeypatch.setattr("vardi._fit.memory.TILTS", 10_000)
    with pytest.raises(vardi.errors.TooLargeError):
        fit.log_normalisers()


# ---------------------------------------------------------------- what else is asked of thousands of samples


@pytest.mark.parametrize("name", ["a factor", "products with windows"])
def test_normalisers_by_weights_of_unsampled_states(name):
    fit, _ = fitted(DESIGNS[name](), 1, uncertain=False)
    omega = fit.held.rows.matrix.toarray()
    np.testing.assert_allclose(list(fit.omegas.values()), fit.probabilities @ omega, rtol=1e-10)


def test_a_state_without_rows_joins_no_samples(monkeypatch):
    omega, source, _, _ = any_other()
    monkeypatch.setattr(sparse_rows, "MAX_DENSE_SAMPLES", 0)
    monkeypatch.setattr(sparse_rows, "FILLED", 0.0)
    own = sparse.csr_array(omega[:, :320])
    alone = vardi.debias_matrix(own, source).identify().kappa
    assert vardi.debias_matrix(omega, source).identify().kappa == pytest.approx(alone, rel=1e-12)
    assert alone > 0
