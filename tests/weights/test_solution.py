"""The weights solve Vardi's system: two identities from the outside, and 50 digits where that is affordable."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import (
    KINDS,
    as_sparse_log,
    certify,
    design,
    edges,
    exact,
    far_logs,
    log_of,
    strongly_connected,
    vardi_residual,
)
from scipy import sparse

import vardi

SHAPES = [(1, 1), (1, 60), (2, 2), (2, 300), (3, 3), (5, 40), (10, 10), (20, 400), (50, 5000), (200, 200)]
SMALL = [(1, 6), (2, 2), (2, 7), (3, 12), (5, 30), (8, 8), (9, 40)]


def log_omegas(fit: vardi.DebiasedSample) -> np.ndarray:
    return np.array([fit.log_omegas[name] for name in fit.names])


def assert_exact(fit, omega, source, counts=None, *, log=False):
    """Compare with 50 digits: weights to 1e-12 of their size, normalisers to 1e-12 of theirs."""
    truth = exact(omega, source, counts, log=log)
    np.testing.assert_allclose(np.asarray(fit.weights), truth.weights, rtol=1e-12, atol=1e-290)
    scale = np.maximum(np.abs(truth.log_omegas), 1.0)  # a log of 4000 has no digits beyond 1e-12 itself
    np.testing.assert_allclose(log_omegas(fit) / scale, truth.log_omegas / scale, rtol=0, atol=1e-12)
    if len(truth.u) <= 12:  # beyond, the oracle leaves the eigenvalues out
        np.testing.assert_allclose(fit.solution.gap, truth.gap, rtol=1e-6, atol=1e-12)
    sampled = np.isfinite(truth.u)
    assert (np.isfinite(fit.solution.u) == sampled).all()
    off = np.ptp(fit.solution.u[sampled] - truth.u[sampled])
    assert off <= fit.solution.certificate + 1e-15 * np.abs(truth.u[sampled]).max()  # u itself is rounded


# ---------------------------------------------------------------- random designs


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("K", "n"), SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_two_identities_hold_on_random_designs(kind, K, n, seed):
    d = design(kind, K, n, seed)
    certify(vardi.debias_matrix(d.omega, d.source), d.omega, d.source)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_samples_of_a_hundred_rows(kind):
    d = design(kind, 200, 20_000, 0)
    certify(vardi.debias_matrix(d.omega, d.source), d.omega, d.source)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_million_rows(kind):
    d = design(kind, 6, 1_000_000, 0)
    certify(vardi.debias_matrix(d.omega, d.source), d.omega, d.source)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("K", "n"), SMALL)
@pytest.mark.parametrize("kind", KINDS)
def test_small_designs_to_fifty_digits(kind, K, n, seed):
    d = design(kind, K, n, 100 + seed)
    assert_exact(vardi.debias_matrix(d.omega, d.source), d.omega, d.source)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_and_unsampled_states_to_fifty_digits(kind):
    d = design(kind, 4, 25, 7)
    counts = np.random.default_rng(7).integers(1, 5, 25)
    omega = np.column_stack([d.omega[:, :2], d.z**2 + 0.1, d.omega[:, 2:]])  # state 2 has no sample
    source = d.source + (d.source >= 2)
    fit = vardi.debias_matrix(omega, source, counts=counts)
    certify(fit, omega, source, counts)
    assert_exact(fit, omega, source, counts)


# ---------------------------------------------------------------- ways to hold the rows


def forms(omega: np.ndarray) -> dict:
    return {
        "dense": (omega, False),
        "Fortran order": (np.asfortranarray(omega), False),
        "every second column": (np.repeat(omega, 2, axis=1)[:, ::2], False),
        "log": (log_of(omega), True),
        "csr": (sparse.csr_array(omega), False),
        "csc matrix": (sparse.csc_matrix(omega), False),
        "coo": (sparse.coo_array(omega), False),
        "sparse log": (as_sparse_log(omega), True),
    }


@pytest.mark.parametrize("form", forms(np.ones((1, 1))))
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_to_hold_a_matrix_gives_the_same_weights(kind, form):
    d = design(kind, 12, 300, 1)
    expected = vardi.debias_matrix(d.omega, d.source).weights
    given, log = forms(d.omega)[form]
    fit = vardi.debias_matrix(given, d.source, log=log)
    certify(fit, given, d.source, log=log)
    np.testing.assert_allclose(fit.weights, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint8, np.int64, bool])
def test_every_dtype_of_an_indicator(dtype):
    d = design("indicator", 5, 200, 2)
    expected = vardi.debias_matrix(d.omega, d.source).weights
    np.testing.assert_allclose(vardi.debias_matrix(d.omega.astype(dtype), d.source).weights, expected, rtol=1e-12)
    by_sparse = vardi.debias_matrix(sparse.csr_array(d.omega.astype(dtype)), d.source).weights
    np.testing.assert_allclose(by_sparse, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_debias(kind):
    d = design(kind, 6, 500, 3)
    biases = {k: d.omega[:, k] for k in range(6)}
    fit = vardi.debias(d.z, biases, source=d.source)
    certify(fit, d.omega, d.source)
    np.testing.assert_allclose(fit.weights, vardi.debias_matrix(d.omega, d.source).weights, rtol=1e-12)


def test_many_mostly_empty_columns_of_debias():
    """More than 64 biases of which few cover each row: stored sparse behind the scenes, with the same weights."""
    omega, source = chain(80, 40)
    biases = {k: omega[:, k] for k in range(80)}
    fit = vardi.debias(np.arange(len(source), dtype=float), biases, source=source)
    certify(fit, omega, source)


@pytest.mark.parametrize("n", [20_000, 400_000])
def test_distinct_rows_are_collapsed_without_a_trace(n):
    """Few distinct rows against the same biases with a row factor that makes all rows differ."""
    d = design("indicator", 6, n, 4)
    collapsed = vardi.debias_matrix(d.omega, d.source)
    certify(collapsed, d.omega, d.source)
    c = np.random.default_rng(0).uniform(0.5, 2.0, n)
    whole = vardi.debias_matrix(d.omega * c[:, None], d.source)
    certify(whole, d.omega * c[:, None], d.source)
    ratio = whole.probabilities * c / collapsed.probabilities
    np.testing.assert_allclose(ratio / ratio.mean(), 1.0, rtol=1e-10)
    counts = np.random.default_rng(1).integers(1, 4, n)
    certify(vardi.debias_matrix(d.omega, d.source, counts=counts), d.omega, d.source, counts)


def test_distinct_rows_with_values_that_differ_in_the_last_bit():
    rng = np.random.default_rng(0)
    kinds = np.array([[1.0, 1.0], [1.0, np.nextafter(1.0, 2)], [1.0, 0.0], [0.0, 1.0], [1.0, -0.0]])
    source = rng.integers(0, 2, 60_000)
    allowed = [np.array([0, 1, 2, 4]), np.array([0, 1, 3])]
    omega = kinds[np.where(source == 0, rng.choice(allowed[0], 60_000), rng.choice(allowed[1], 60_000))]
    fit = vardi.debias_matrix(omega, source)
    certify(fit, omega, source)


# ---------------------------------------------------------------- the log domain


def umbrella(K: int, per: int, spacing: float, seed: int = 0, cutoff: float | None = None):
    rng = np.random.default_rng(seed)
    x = rng.normal(spacing * np.arange(K)[:, None], 1.0, (K, per)).ravel()
    source = np.repeat(np.arange(K), per)
    log_omega = -0.5 * (x[:, None] - spacing * np.arange(K)) ** 2
    if cutoff is not None:
        log_omega[np.abs(x[:, None] - spacing * np.arange(K)) > cutoff] = -np.inf
    return log_omega, source


@pytest.mark.parametrize("cutoff", [None, 6.0])
def test_a_log_range_of_thousands(cutoff):
    log_omega, source = umbrella(60, 50, 2.0, cutoff=cutoff)
    finite = log_omega[np.isfinite(log_omega)]
    assert np.ptp(finite) > (7000 if cutoff is None else 15)
    certify(vardi.debias_matrix(log_omega, source, log=True), log_omega, source, log=True)


@pytest.mark.parametrize("sizes", [(20, 40), (4, 12)])
def test_column_offsets_of_thousands(sizes):
    K, per = sizes
    log_omega, source = umbrella(K, per, 1.5, cutoff=5.0)
    offsets = np.random.default_rng(1).uniform(-4000, 4000, K)
    offsets[:2] = 4000, -4000
    fit = vardi.debias_matrix(log_omega + offsets, source, log=True)
    certify(fit, log_omega + offsets, source, log=True)
    plain = vardi.debias_matrix(log_omega, source, log=True)
    np.testing.assert_allclose(fit.weights, plain.weights, rtol=1e-10)  # sums near 4000 keep 12 digits
    np.testing.assert_allclose(log_omegas(fit) - offsets, log_omegas(plain), atol=1e-10)
    if K == 4:
        assert_exact(fit, log_omega + offsets, source, log=True)


def test_row_offsets_of_thousands():
    log_omega, source = umbrella(10, 30, 1.5)
    rows = np.random.default_rng(2).normal(0, 1500, len(source))
    certify(
        vardi.debias_matrix(log_omega + rows[:, None], source, log=True), log_omega + rows[:, None], source, log=True
    )


def test_omega_near_the_ends_of_the_floating_point_range():
    d = design("power", 4, 200, 5)
    omega = d.omega / d.omega.max() * np.array([1e-300, 1e300, 1.0, 1e150])
    fit = vardi.debias_matrix(omega, d.source)
    certify(fit, omega, d.source)
    np.testing.assert_allclose(fit.weights, vardi.debias_matrix(d.omega, d.source).weights, rtol=1e-11)


# ---------------------------------------------------------------- hard designs


def chain(K: int, per: int, shared: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Windows in a row: of each sample so many rows lie in the next window, and so many in the last."""
    source = np.repeat(np.arange(K), per)
    omega = np.zeros((K * per, K))
    omega[np.arange(K * per), source] = 1.0
    for k in range(K):
        if k + 1 < K:
            omega[k * per : k * per + shared, k + 1] = 1.0
        if k > 0:
            omega[(k + 1) * per - shared : (k + 1) * per, k - 1] = 1.0
    return omega, source


@pytest.mark.parametrize("per", [3, 10, 1000])
def test_a_chain_of_sixty_windows_that_share_one_row_each_way(per):
    omega, source = chain(60, per)
    fit = vardi.debias_matrix(omega, source)
    certify(fit, omega, source)
    if per == 3:
        assert_exact(fit, omega, source)
    # Neighbours k, k+1 share two rows, one of each. Along a chain every pair is solved alone: by symmetry all equal.
    np.testing.assert_allclose(list(fit.omegas.values()), fit.omegas["0"], rtol=1e-9)


def test_a_chain_of_very_unequal_samples():
    omega, source = chain(12, 2000)
    keep = np.concatenate(
        [np.flatnonzero(source == k)[[0, *range(2000 - 1 - (1999 if k % 2 else 2), 2000)]] for k in range(12)]
    )
    keep = np.unique(keep)
    omega, source = omega[keep], source[keep]
    assert strongly_connected(edges(omega, source, 12))
    certify(vardi.debias_matrix(omega, source), omega, source)


@pytest.mark.parametrize("per", [(1, 1, 1), (3, 5, 2), (1, 400, 7)])
def test_a_directed_cycle_without_any_two_way_pair(per):
    """Bias 2 allows rows of sample 0, bias 0 those of 1, bias 1 those of 2: never both ways, and still one group."""
    source = np.repeat([0, 1, 2], per)
    rng = np.random.default_rng(0)
    omega = np.zeros((len(source), 3))
    omega[np.arange(len(source)), source] = rng.uniform(0.5, 2.0, len(source))
    omega[np.arange(len(source)), (source + 2) % 3] = rng.uniform(0.5, 2.0, len(source))
    there = edges(omega, source, 3)
    assert strongly_connected(there)
    assert not (there & there.T & ~np.eye(3, dtype=bool)).any()
    fit = vardi.debias_matrix(omega, source)
    certify(fit, omega, source)
    assert_exact(fit, omega, source)


def test_a_directed_cycle_of_forty_samples():
    rng = np.random.default_rng(1)
    source = np.repeat(np.arange(40), 5)
    omega = np.zeros((200, 40))
    omega[np.arange(200), source] = rng.uniform(0.5, 2.0, 200)
    omega[np.arange(200), (source + 39) % 40] = rng.uniform(0.5, 2.0, 200)
    certify(vardi.debias_matrix(omega, source), omega, source)


@pytest.mark.long
@pytest.mark.parametrize("block", range(4))
def test_extreme_designs_end_in_a_certified_fit_or_in_a_refusal(block):
    """Log ranges up to thousands, zeros, unsampled states, counts with zeros: never a wrong weight, a stray warning or
    an error of another kind.
    """
    for seed in range(150 * block, 150 * (block + 1)):
        rng = np.random.default_rng([85, seed])
        K = int(rng.integers(1, 8))
        n = K + int(rng.integers(0, 40))
        source = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
        log_omega = rng.normal(0, 10 ** rng.uniform(-1, 3), (n, K)) + rng.normal(0, 10 ** rng.uniform(0, 3.5), K)
        zero = rng.random((n, K)) < rng.choice([0, 0.3, 0.7])
        zero[np.arange(n), source] = False
        log_omega[zero] = -np.inf
        counts = rng.integers(0, 4, n) if rng.random() < 0.3 else np.ones(n)
        counts[:K] = 1  # no sample is empty
        try:
            fit = vardi.debias_matrix(log_omega, source, log=True, counts=counts)
        except vardi.NotIdentifiableError as error:
            groups = error.groups
        else:
            certify(fit, log_omega, source, counts, log=True)
            continue
        assert len(groups) > 1, seed
        assert sorted(name for group in groups for name in group) == sorted(map(str, range(K))), seed


# ---------------------------------------------------------------- large n, large K


def test_the_subsample_start_with_rows_sorted_by_value_and_a_rare_sample():
    """Evenly spaced picks of sorted rows, and one sample of three rows beside one of 99,000."""
    d = design("tilt", 4, 100_000, 1)
    source = np.concatenate([np.zeros(99_000, int), np.ones(600, int), np.full(397, 2), np.full(3, 3)])
    order = np.argsort(d.z, kind="stable")
    omega = d.omega[order]
    certify(vardi.debias_matrix(omega, source), omega, source)


def window_chain(K: int, per: int, width: float = 1.6, seed: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = (np.arange(K)[:, None] + width * rng.random((K, per))).ravel()
    column = np.floor(x).astype(int)[:, None] - np.arange(3)
    row = np.repeat(np.arange(len(x)), 3)
    column, x_of = column.ravel(), np.repeat(x, 3)
    inside = (column >= 0) & (column < K) & (x_of - column <= width)
    omega = sparse.csr_array((np.ones(inside.sum()), (row[inside], column[inside])), shape=(len(x), K))
    return omega, np.repeat(np.arange(K), per)


def test_two_thousand_sparse_samples():
    omega, source = window_chain(2000, 25)
    fit = vardi.debias_matrix(omega, source)
    certify(fit, omega, source)
    verdict = fit.identify()
    assert verdict.identified
    assert verdict.weakest_rows >= 1


def long_rows(K: int, n: int, share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    source = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    there = rng.random((n, K)) < share
    there[np.arange(n), source] = True
    return np.where(there, np.exp(rng.normal(size=(n, K))), 0.0), source


@pytest.mark.long
@pytest.mark.parametrize(("K", "n", "share"), [(200, 1500, 0.7), (400, 1500, 0.5), (1500, 4000, 0.1)])
def test_sparse_rows_too_long_to_form_the_gram(K, n, share):
    omega, source = long_rows(K, n, share)
    given = sparse.csr_array(omega)
    assert (np.diff(given.indptr) > 100).mean() > 0.9
    fit = vardi.debias_matrix(given, source)
    certify(fit, given, source)
    np.testing.assert_allclose(fit.weights, vardi.debias_matrix(omega, source).weights, rtol=1e-11)
    logs = as_sparse_log(omega)
    certify(vardi.debias_matrix(logs, source, log=True), logs, source, log=True)


def test_unsampled_states_among_many_sparse_columns():
    omega, source = long_rows(400, 1500, 0.5, seed=1)
    source[source >= 390] -= 390
    omega[np.arange(len(source)), source] += 1.0
    given = sparse.csr_array(omega)
    fit = vardi.debias_matrix(given, source)
    certify(fit, given, source)
    sampled = vardi.debias_matrix(given[:, :390], source)
    np.testing.assert_allclose(fit.weights, sampled.weights, rtol=1e-11)
    assert [name for name, size in fit.sizes.items() if size == 0] == [str(k) for k in range(390, 400)]


# ---------------------------------------------------------------- what a solution says of itself


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_residual_and_certificate_at_points_that_are_not_the_solution(kind, seed):
    """A fit that is stopped early carries its point: the residual there is exact, and the certificate a bound."""
    d = design(kind, 5, 60, 20 + seed)
    truth = exact(d.omega, d.source)
    bounds = []
    for most in range(4):
        try:
            solution = vardi.debias_matrix(d.omega, d.source, max_iterations=most).solution
        except vardi.ConvergenceError as error:
            solution = error.solution
            assert not solution.converged
        residual = vardi_residual(solution.u, d.omega, d.source)
        np.testing.assert_allclose(solution.residual, residual, rtol=1e-9, atol=1e-14)
        assert np.ptp(solution.u - truth.u) <= solution.certificate
        assert solution.iterations <= most
        bounds.append(solution.certificate)
    assert bounds[-1] < 1e-2  # and the bound says something


@pytest.mark.parametrize("kind", KINDS)
def test_u_is_the_log_of_share_over_normaliser(kind):
    d = design(kind, 5, 60, 3)
    fit = vardi.debias_matrix(d.omega, d.source)
    lam = np.array([fit.sizes[name] for name in fit.names]) / 60
    np.testing.assert_allclose(fit.solution.u, np.log(lam) - log_omegas(fit), atol=1e-13)
    assert vardi_residual(fit.solution.u, d.omega, d.source) <= 1e-13


def test_the_certificate_covers_weights():
    """Every ratio of weights is within e^certificate of its exact value."""
    d = design("tilt", 5, 60, 20)
    truth = exact(d.omega, d.source)
    fit = vardi.debias_matrix(d.omega, d.source)
    assert np.ptp(np.log(fit.weights / truth.weights)) <= fit.solution.certificate
    assert fit.solution.certificate < 1e-10


@pytest.mark.parametrize("seed", range(30))
def test_the_certificate_counts_what_large_logs_lose(seed):
    """Offsets of up to 1e6 take ten digits from every exponent; the bound stays one, and stays near."""
    logs, source, truth = far_logs(seed)
    there = np.nonzero(np.isfinite(logs))
    for omega in (logs, sparse.csr_array((logs[there], there), shape=logs.shape)):
        solution = vardi.debias_matrix(omega, source, log=True).solution
        assert truth.off(solution.u) <= solution.certificate <= 1e-8


def test_a_solution_prints_what_matters():
    fit = vardi.debias_matrix(np.ones((3, 1)), [0, 0, 0])
    assert repr(fit.solution).startswith("Solution(converged in ")
    with pytest.raises(vardi.ConvergenceError) as caught:
        vardi.debias_matrix(np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 5.0]]), [0, 0, 1], max_iterations=0)
    assert repr(caught.value.solution).startswith("Solution(did not converge in 0 iterations, residual=")


# ---------------------------------------------------------------- the input is left as it was


@pytest.mark.parametrize("log", [False, True])
def test_nothing_that_was_given_is_changed(log):
    d = design("tilt", 4, 30_000, 0)
    omega = log_of(d.omega) if log else d.omega
    before, source = omega.copy(), d.source.copy()
    vardi.debias_matrix(omega, d.source, log=log)
    np.testing.assert_array_equal(omega, before)
    np.testing.assert_array_equal(d.source, source)


def test_a_sparse_matrix_with_repeated_entries_is_summed_and_left_as_it_was():
    """SciPy adds entries that are stored twice; so does the fit, but in a copy of its own."""
    parts = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([1, 0, 0, 0, 1]), np.array([0, 3, 5])
    given = sparse.csr_array(tuple(part.copy() for part in parts), shape=(2, 2))
    fit = vardi.debias_matrix(given, [0, 1])
    certify(fit, np.array([[5.0, 1.0], [4.0, 5.0]]), [0, 1])
    for array, part in zip((given.data, given.indices, given.indptr), parts, strict=True):
        np.testing.assert_array_equal(array, part)


def test_a_read_only_matrix_will_do():
    d = design("tilt", 4, 300, 0)
    d.omega.flags.writeable = d.source.flags.writeable = False
    certify(vardi.debias_matrix(d.omega, d.source), d.omega, d.source)
