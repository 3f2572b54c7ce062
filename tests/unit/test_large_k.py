"""Thousands of samples: sparse biases whichever way their equations are solved, and windows that are never stored."""

from __future__ import annotations

import numpy as np
import pytest
from many_samples import along_a_line, any_other, anywhere, doubly_truncated
from oracle import certify
from scipy import sparse
from scipy.sparse import csgraph

import vardi
from vardi._estimate import bias_test
from vardi._rows import Checks
from vardi._rows import gram as _gram
from vardi._rows import sparse as sparse_rows
from vardi._rows import windows as _windows
from vardi._rows.choose import window_rows
from vardi._rows.gram import Laplacian
from vardi._rows.measure import Measure
from vardi._rows.point import KnownMoments, Model, Point
from vardi._rows.sparse import Sparse
from vardi._rows.windows import Intervals, Windows
from vardi._solve.identify import Verdict, judge, strong_groups
from vardi._solve.newton import solve

DESIGNS = {
    "line, 0 or 1": lambda: along_a_line(400, 30),
    "line, continuous": lambda: along_a_line(400, 40, continuous=True),
    "anywhere": lambda: anywhere(400, 10),
}


# ---------------------------------------------------------------- sparse biases


@pytest.mark.parametrize("name", DESIGNS)
def test_the_equations_hold(name):
    omega, source = DESIGNS[name]()
    fit = vardi.debias_matrix(omega, source)
    certify(fit, omega, source)
    assert fit.solution.certificate < 1e-7


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("route", ["products with the rows", "products with the gram", "a factor"])
def test_every_route_leads_to_the_same_weights_gap_and_errors(name, route, monkeypatch):
    omega, source = DESIGNS[name]()
    values = np.sin(np.arange(len(source)))
    dense = vardi.debias_matrix(omega.toarray(), source)
    monkeypatch.setattr(sparse_rows, "MAX_DENSE_SAMPLES", 0)
    monkeypatch.setattr(sparse_rows, "FILLED", 0.0 if route == "products with the rows" else np.inf)
    monkeypatch.setattr(_gram, "MAX_FACTOR_WORK", 0.0 if route == "products with the gram" else np.inf)
    monkeypatch.setattr(_gram, "MAX_DENSE_SAMPLES", 0)
    fit = vardi.debias_matrix(omega, source)
    assert fit.solved.tangent.hessian.sums.gram.is_formed == (route != "products with the rows")
    assert fit.solved.tangent.hessian.laplacian.is_factored == (route == "a factor")
    off = np.ptp(np.log(fit.weights / dense.weights))
    assert off <= fit.solution.certificate + dense.solution.certificate < 1e-7
    assert fit.solution.gap == pytest.approx(dense.solution.gap, rel=1e-3)
    ours, theirs = fit.expectation(values), dense.expectation(values)
    assert ours.value == pytest.approx(theirs.value, rel=1e-7)
    assert ours.stderr == pytest.approx(theirs.stderr, rel=1e-6)


def test_where_products_do_not_solve_the_equations_the_error_is_ours(monkeypatch):
    omega, source = along_a_line(400, 30)
    monkeypatch.setattr(sparse_rows, "MAX_DENSE_SAMPLES", 0)
    monkeypatch.setattr(sparse_rows, "FILLED", 0.0)
    fit = vardi.debias_matrix(omega, source)
    assert fit.identify().weakest is None  # the cut is that of an eigenvector, whose rows are in no gram
    assert f"the weakest cut: {fit.bridge}" in fit.identify().message
    assert str(fit.bridge).startswith("about ")
    monkeypatch.setattr(_gram, "PATIENCE", 1)  # so that conjugate gradients give up at once
    with pytest.raises(vardi.VardiError, match="singular to rounding, so estimates have no errors: .* Add a sample"):
        fit.expectation(np.sin(np.arange(len(source))))


def test_a_summary_makes_nothing_for_every_pair_of_samples_or_every_row_and_sample(monkeypatch):
    """Of thousands of samples these are millions: no link but the weakest, and no probability of each label."""
    omega, source = anywhere(700, 3)
    fit = vardi.debias_matrix(omega, source)
    monkeypatch.setattr(Verdict, "links", property(lambda verdict: pytest.fail("all links were made")))
    monkeypatch.setattr(bias_test, "check_biases", lambda *given, **options: pytest.fail("the biases were tested"))
    assert "the weakest cut" in " ".join(str(fit).split())
    weakest = fit.identify().weakest
    monkeypatch.undo()
    assert weakest in fit.identify().links


def test_counts_and_unsampled_states_by_products_with_the_rows(monkeypatch):
    omega, source = along_a_line(400, 6)
    omega = sparse.csr_array(sparse.hstack([omega, omega[:, [7]] * 3.0]))
    counts = 1.0 + np.arange(len(source)) % 3
    monkeypatch.setattr(sparse_rows, "MAX_DENSE_SAMPLES", 0)
    monkeypatch.setattr(sparse_rows, "FILLED", 0.0)
    fit = vardi.debias_matrix(omega, source, counts=counts)
    certify(fit, omega, source, counts)
    assert fit.omegas["400"] == pytest.approx(3.0 * fit.omegas["7"], rel=1e-12)


def test_a_factor_is_made_where_it_stays_narrow():
    K = 3000
    ring = sparse.diags_array([np.ones(K - 1), np.ones(K), np.ones(K - 1)], offsets=[-1, 0, 1]).tocsr()
    hub = ring.tolil()
    hub[0, :], hub[:, 0] = 1.0, 1.0
    rng = np.random.default_rng(0)
    mixed = ring + sparse.random_array((K, K), density=20 / K, rng=rng)
    assert _gram.factor_work(ring) < 10 * K
    assert _gram.factor_work(hub.tocsr()) < 100 * K
    assert _gram.factor_work((mixed + mixed.T).tocsr()) > K**3 / 100


def test_the_gap_is_zero_where_no_factor_and_no_link_are_left():
    """Products cannot factor what falls apart; the smallest eigenvalue tells, and its vector the two sides."""
    K = 800
    half = sparse.csr_array(np.full((K // 2, K // 2), 1.0))
    gram = sparse.block_diag([half, half]).tocsr()
    gap, side = Laplacian(np.full(K, K / 2.0), _gram.UnformedGram(K, lambda v: gram @ v)).gap()
    assert abs(gap) < 1e-12
    assert set(np.sign(side[: K // 2])) == {np.sign(side[0])}
    assert set(np.sign(side[K // 2 :])) == {-np.sign(side[0])}


@pytest.mark.long
def test_hundreds_of_samples_sparse_and_dense_agree():
    omega, source = anywhere(700, 3)
    fit, dense = vardi.debias_matrix(omega, source), vardi.debias_matrix(omega.toarray(), source)
    off = np.ptp(np.log(fit.weights / dense.weights))
    assert off <= fit.solution.certificate + dense.solution.certificate < 1e-9


# ---------------------------------------------------------------- what a person reads


@pytest.mark.long
def test_a_fit_of_thousands_of_samples_prints_on_one_screen():
    omega, source = along_a_line(2500, 4)
    fit = vardi.debias_matrix(omega, source)
    text = str(fit)
    assert len(text.splitlines()) < 40
    assert "... and 2,480 more" in text
    screen, folded = fit._repr_html_().split("<details><summary>2,480 more samples</summary>")
    assert screen.count("<tr") < 40
    assert "<p>... and 1,500 more</p></details>" in folded
    assert len(fit.identify().message) < 300


@pytest.mark.parametrize("K", [3000])
def test_thousands_of_groups_are_told_in_a_few_lines(K):
    blocks = sparse.block_diag([np.ones((2, 2))] * K, format="csr")
    with pytest.raises(vardi.NotIdentifiableError) as caught:
        vardi.debias_matrix(blocks, np.arange(2 * K))
    assert len(caught.value.groups) == K
    assert caught.value.groups[7] == ("14", "15")
    assert str(caught.value).startswith(
        f"The samples fall into {K} groups that cannot be compared ('0', '1'; '2', '3'; '4', '5'; '6', '7'; '8', '9'; "
        "'10', '11'; ...)"
    )
    assert len(str(caught.value)) < 500


# ---------------------------------------------------------------- windows


def test_windows_are_the_matrix_they_stand_for():
    windows = Windows([3.0, 1.0, 2.0, 2.0], low=[0.0, 2.0, -np.inf, 9.0], high=[1.0, 3.0, np.inf, 8.0])
    matrix = np.array([[0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0]], bool)
    assert windows.shape == (4, 4)
    np.testing.assert_array_equal(windows.toarray(), matrix)
    np.testing.assert_array_equal(windows[np.array([2, 0])].toarray(), matrix[[2, 0]])
    for k in range(4):
        np.testing.assert_array_equal(windows[:, k], matrix[:, k])


def held_both_ways(n: int, *, ties: bool, counted: bool, seed: int = 0) -> tuple[Intervals, Sparse]:
    """Windows and their sparse matrix: several rows a sample, open and empty windows, a state without rows."""
    rng = np.random.default_rng(seed)
    K = n // 3
    source = rng.permutation(np.concatenate([np.arange(K), rng.integers(0, K, n - K)]))
    low = rng.normal(0, 1, K + 2)
    high = low + rng.exponential(1.5, K + 2)
    low[0], high[1], (low[K + 1], high[K + 1]) = -np.inf, np.inf, (1.0, 0.0)
    x = np.clip(rng.normal(0, 1.5, n), low[source], high[source])
    if ties:
        x, low, high = np.floor(2 * x), np.floor(2 * low), np.ceil(2 * high)
        x = np.clip(x, low[source], high[source])
    counts = rng.integers(1, 5, n).astype(float) if counted else None
    windows = Windows(x, low, high)
    matrix = sparse.csr_array(windows.toarray().astype(float))
    return Intervals(windows, source, counts, moderate=True), Sparse(matrix, source, counts, moderate=True)


def measure_at(rows, u):
    return Measure(rows.arrays, Point(Model(rows.sizes, {}, KnownMoments.none()), u))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("n", [3, 90, 700])
def test_sums_over_windows_are_those_of_the_sparse_matrix(n, ties, counted, monkeypatch):
    ours, theirs = held_both_ways(n, ties=ties, counted=counted)
    K = len(ours.sizes)
    rng = np.random.default_rng(1)
    u = np.where(ours.sizes > 0, 3 * rng.normal(size=K), -np.inf)
    v, b, y = rng.normal(size=K), rng.normal(size=(K, 3)), rng.normal(size=(n, 3))

    def same(found, expected):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected[expected > -np.inf]).max())

    for dense in (0, 10**6):
        monkeypatch.setattr(_windows, "MAX_DENSE_SAMPLES", dense)
        found, expected = ours.sums(u), theirs.sums(u)
        assert found.log_mass == pytest.approx(expected.log_mass, rel=1e-13)
        same(found.shares, expected.shares)
        same(*(gram @ v for gram in (found.gram, expected.gram)))
    assert ours.sums(u, gram=False, objective=False).gram is None
    assert ours.sums(u, objective=False).log_mass is None
    same(ours.log_row_mass(u), theirs.log_row_mass(u))
    same(ours.log_means(u), theirs.log_means(u))
    ours_at, theirs_at = (measure_at(rows, u) for rows in (ours, theirs))
    same(*(one.column(lambda at: at.q(b), b.shape[1]) for one in (ours_at, theirs_at)))
    same(*(one.total(lambda block, at: at.against(block.columns(y)), y.shape[1]) for one in (ours_at, theirs_at)))
    np.testing.assert_array_equal(ours.reach.toarray(), theirs.reach.toarray())
    mass = rng.random(n)
    same(ours.overlap(mass).toarray(), sparse.csr_array(theirs.overlap(mass)).toarray())
    np.testing.assert_array_equal(ours.log_omega(), theirs.log_omega())
    half = np.arange(0, n, 2)
    same(ours.subset(half).sums(u, gram=False).shares, theirs.subset(half).sums(u, gram=False).shares)


@pytest.mark.parametrize("width", [0.004, 0.02, 0.3])
def test_few_links_show_the_groups_and_each_counts_its_rows(width, monkeypatch):
    windows = doubly_truncated(600, width)
    rows = Intervals(windows, np.arange(600), moderate=True)
    every = rows.reach
    monkeypatch.setattr(_windows, "MAX_LINKS", 1000)
    monkeypatch.setattr(_windows, "FIRST_LINKS", 2)
    few = Intervals(windows, np.arange(600), moderate=True).reach
    same = csgraph.connected_components(every, connection="strong")
    found = csgraph.connected_components(few, connection="strong")
    assert found[0] == same[0] == rows._groups
    np.testing.assert_array_equal(strong_groups(few), found[1])
    pairs = few.tocoo()
    np.testing.assert_array_equal(pairs.data, np.asarray(every[pairs.row, pairs.col]))
    np.testing.assert_array_equal(np.asarray(few[pairs.col, pairs.row]), np.asarray(every[pairs.col, pairs.row]))
    if width == 0.3:
        assert few.nnz < every.nnz / 4


def efron_petrosian(windows: Windows) -> np.ndarray:
    """Return the NPMLE of doubly truncated data by its self-consistency, f_i = 1 / sum_k J_ik / F_k, F = J'f."""
    seen = windows.toarray().astype(float)
    f = np.full(len(seen), 1.0 / len(seen))
    for _ in range(100_000):
        new = 1.0 / (seen @ (1.0 / (f @ seen)))
        new /= new.sum()
        if np.abs(new / f - 1).max() < 1e-15:
            break
        f = new
    return new


@pytest.mark.parametrize("seed", range(5))
def test_doubly_truncated_data_have_the_self_consistent_solution(seed):
    windows = doubly_truncated(80, 0.5, seed)
    source = np.arange(80)
    truth = efron_petrosian(windows)
    rows = window_rows(windows, source, None, Checks([str(k) for k in range(80)], log=False))
    weights, _ = rows.weights(solve(rows).u)
    fit = vardi.debias_matrix(sparse.csr_array(windows.toarray().astype(float)), source)
    np.testing.assert_allclose(weights / 80, truth, rtol=1e-9)
    np.testing.assert_allclose(fit.probabilities, truth, rtol=1e-9)


def test_left_truncated_data_have_the_product_limit_estimate():
    """Lynden-Bell (1971): the survivor function is a product of 1 - 1 / (rows at risk), where no risk set empties."""
    rng = np.random.default_rng(3)
    x, low = rng.exponential(1, 400), rng.exponential(0.4, 400)
    x, low = x[low < x], low[low < x]
    low[:3] = 0.0  # some are at risk from the start, so that no risk set empties early
    order = np.argsort(x)
    at_risk = np.array([((low <= t) & (t <= x)).sum() for t in x[order]])
    assert (at_risk[:-1] > 1).all()
    survivors = np.cumprod(1 - 1 / at_risk)
    rows = window_rows(Windows(x, low, np.full(len(x), np.inf)), np.arange(len(x)), None, Checks([], log=False))
    weights, _ = rows.weights(solve(rows).u)
    np.testing.assert_allclose(1 - np.cumsum(weights[order]) / len(x), survivors, atol=1e-11)


@pytest.mark.long
def test_three_thousand_windows_are_solved_without_their_matrix():
    windows, K = doubly_truncated(3000, 0.1), 3000
    rows = Intervals(windows, np.arange(K), moderate=True)
    solution = solve(rows)
    assert solution.converged
    assert solution.residual <= 1e-10
    assert solution.certificate < 1e-9
    weights, shift = rows.weights(solution.u)
    omegas = np.exp(-(solution.u + shift)) / K
    seen = windows.toarray()
    np.testing.assert_allclose((weights / K) @ seen, omegas, rtol=1e-9)
    np.testing.assert_allclose(1 / weights, seen @ (1 / (K * omegas)), rtol=1e-9)
    verdict = judge(rows, [str(k) for k in range(K)])
    assert verdict
    assert verdict.weakest_rows == 1


@pytest.mark.long
def test_many_samples_of_several_rows_start_from_each_alone():
    ours, _ = held_both_ways(2000, ties=False, counted=True)
    solution = solve(ours)
    assert solution.residual <= 1e-10
    assert np.isneginf(solution.u[ours.sizes == 0]).all()


def test_windows_that_do_not_fit_are_refused():
    with pytest.raises(vardi.MismatchError) as caught:
        Windows([1.0, 2.0], low=[0.0], high=[1.0, 2.0])
    assert str(caught.value) == (
        "x has shape (2,), and low and high have shapes (1,) and (2,). Give a value for each row, and two ends for "
        "each window."
    )
    with pytest.raises(vardi.MissingValuesError) as caught:
        Windows([1.0, np.nan, np.nan], low=[0.0], high=[np.nan])
    assert str(caught.value) == (
        "Missing values in x (2), high (1), so it is unknown which windows show which rows. Fill them in (an open "
        "window ends at inf), or remove them."
    )
    assert caught.value.columns == {"x": 2, "high": 1}
    windows = Windows([1.0, 2.0, 7.0], low=[0.0, 3.0], high=[5.0, 9.0])
    with pytest.raises(vardi.ImpossibleRowError) as caught:
        window_rows(windows, np.array([0, 1, 1]), None, Checks(["early", "late"], log=False))
    assert "Sample 'late' holds 1 row that its own bias forbids (the first is row 1 of the pool)" in str(caught.value)
    with pytest.raises(vardi.MismatchError) as caught:
        window_rows(windows, np.array([0, 0, 1]), None, Checks(["early", "late"], log=True))
    assert str(caught.value) == "Windows are 0 or 1, but log=True says that logs are given. Leave log out."


pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")  # small samples, on purpose


# ---------------------------------------------------------------- what else is asked of thousands of samples


def test_a_state_without_rows_joins_no_samples(monkeypatch):
    omega, source, _, _ = any_other()
    monkeypatch.setattr(sparse_rows, "MAX_DENSE_SAMPLES", 0)
    monkeypatch.setattr(sparse_rows, "FILLED", 0.0)
    own = sparse.csr_array(omega[:, :320])
    alone = vardi.debias_matrix(own, source).identify().kappa
    assert vardi.debias_matrix(omega, source).identify().kappa == pytest.approx(alone, rel=1e-12)
    assert alone > 0
