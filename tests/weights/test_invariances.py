"""What the weights must not depend on: scales, orders, labels, splits, containers, threads."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import KINDS, Design, as_sparse_log, certify, design, log_of
from scipy import sparse
from threadpoolctl import threadpool_limits

import vardi

TIGHT = 1e-12

designs = st.builds(
    lambda kind, K, extra, seed: design(kind, K, K + extra, seed),
    st.sampled_from(KINDS),
    st.integers(1, 8),
    st.integers(0, 80),
    st.integers(0, 10_000),
)
seeds = st.integers(0, 10_000)


def same(weights, expected, rtol=TIGHT):
    np.testing.assert_allclose(np.asarray(weights), np.asarray(expected), rtol=rtol)


def fit_of(d: Design, **options) -> vardi.DebiasedSample:
    return vardi.debias_matrix(d.omega, d.source, **options)


# ---------------------------------------------------------------- scales


@given(designs, st.data())
def test_rescaling_a_bias_moves_its_normaliser_only(d, data):
    K = d.omega.shape[1]
    k = data.draw(st.integers(0, K - 1))
    power = data.draw(st.floats(-300, 300))
    column = d.omega[:, k] / d.omega[:, k].max()
    d = Design(d.z, np.column_stack([*d.omega.T[:k], column, *d.omega.T[k + 1 :]]), d.source)
    scaled = d.omega.copy()
    scaled[:, k] *= 10.0**power
    assume(scaled[scaled > 0].min() > np.finfo(float).tiny)  # a denormal has lost its digits before we see it
    fit, moved = fit_of(d), vardi.debias_matrix(scaled, d.source)
    same(moved.weights, fit.weights)
    shift = np.array(list(moved.log_omegas.values())) - list(fit.log_omegas.values())
    np.testing.assert_allclose(shift, np.where(np.arange(K) == k, power * np.log(10), 0), atol=1e-11)


@given(designs, st.lists(st.floats(-300, 300), min_size=8, max_size=8))
def test_rescaling_all_biases_in_the_log_domain(d, powers):
    shift = np.array(powers)[: d.omega.shape[1]] * np.log(10)
    log_omega = log_of(d.omega)
    fit = vardi.debias_matrix(log_omega, d.source, log=True)
    moved = vardi.debias_matrix(log_omega + shift, d.source, log=True)
    same(moved.weights, fit.weights, rtol=1e-11)  # log omega + 690 has lost 10 bits: 1e-13 in every entry
    same(fit.weights, fit_of(d).weights)


@given(designs, seeds)
def test_a_factor_of_the_row_divides_its_probability_and_no_other(d, seed):
    c = np.exp(np.random.default_rng(seed).normal(0, 5, len(d.z)))
    fit = fit_of(d)
    scaled = vardi.debias_matrix(d.omega * c[:, None], d.source)
    expected = fit.probabilities / c
    same(scaled.probabilities, expected / expected.sum())


@given(designs)
def test_one_factor_for_everything_changes_nothing(d):
    same(vardi.debias_matrix(d.omega * 7e80, d.source).weights, fit_of(d).weights)
    same(vardi.debias_matrix(d.omega * 7e-80, d.source).weights, fit_of(d).weights)


# ---------------------------------------------------------------- orders


@given(designs, seeds)
def test_permuting_rows_permutes_weights(d, seed):
    order = np.random.default_rng(seed).permutation(len(d.z))
    same(vardi.debias_matrix(d.omega[order], d.source[order]).weights, fit_of(d).weights[order])


@given(designs, seeds)
def test_permuting_samples_permutes_normalisers(d, seed):
    K = d.omega.shape[1]
    order = np.random.default_rng(seed).permutation(K)
    moved = vardi.debias_matrix(d.omega[:, order], np.argsort(order)[d.source], names=order.tolist())
    fit = fit_of(d, names=range(K))
    same(moved.weights, fit.weights)
    assert moved.names == tuple(order.tolist())
    for k in range(K):
        assert moved.log_omegas[k] == pytest.approx(fit.log_omegas[k], rel=1e-12, abs=1e-12)
        assert moved.sizes[k] == fit.sizes[k]


# ---------------------------------------------------------------- splits, copies, counts, unsampled states


@given(designs, seeds)
def test_splitting_a_sample_in_two_with_the_same_bias(d, seed):
    K = d.omega.shape[1]
    rng = np.random.default_rng(seed)
    k = int(rng.integers(K))
    mine = np.flatnonzero(d.source == k)
    assume(len(mine) > 1)
    source = d.source.copy()
    source[rng.choice(mine, int(rng.integers(1, len(mine))), replace=False)] = K
    split = vardi.debias_matrix(np.column_stack([d.omega, d.omega[:, k]]), source)
    fit = fit_of(d)
    same(split.weights, fit.weights)
    assert split.log_omegas[str(K)] == pytest.approx(fit.log_omegas[str(k)], abs=1e-12)


@given(designs, seeds)
def test_counts_are_copies(d, seed):
    counts = np.random.default_rng(seed).integers(1, 5, len(d.z))
    by_counts = fit_of(d, counts=counts)
    copies = np.repeat(np.arange(len(d.z)), counts)
    by_copies = vardi.debias_matrix(d.omega[copies], d.source[copies])
    same(by_counts.weights[copies], by_copies.weights)
    np.testing.assert_allclose(np.bincount(copies, by_copies.probabilities), by_counts.probabilities, rtol=TIGHT)
    assert by_counts.sizes == by_copies.sizes


@given(designs)
def test_the_whole_pool_twice_is_the_pool_once(d):
    fit = fit_of(d)
    same(vardi.debias_matrix(np.vstack([d.omega] * 2), np.tile(d.source, 2)).weights, np.tile(fit.weights, 2))
    same(fit_of(d, counts=np.full(len(d.z), 2)).weights, fit.weights)
    same(fit_of(d, counts=np.full(len(d.z), 37)).weights, fit.weights)


@given(designs, seeds)
def test_an_unsampled_state_moves_nothing_and_gets_its_normaliser(d, seed):
    rng = np.random.default_rng(seed)
    K = d.omega.shape[1]
    place = int(rng.integers(K + 1))
    state = rng.exponential(1.0, len(d.z)) * (rng.random(len(d.z)) < 0.7)
    assume(state.any())
    omega = np.insert(d.omega, place, state, axis=1)
    fit, more = fit_of(d), vardi.debias_matrix(omega, d.source + (d.source >= place))
    same(more.weights, fit.weights)
    assert more.omegas[str(place)] == pytest.approx(fit.probabilities @ state, rel=1e-12)
    assert more.sizes[str(place)] == 0
    by_log = vardi.debias_matrix(log_of(omega), d.source + (d.source >= place), log=True)
    assert by_log.omegas[str(place)] == pytest.approx(fit.probabilities @ state, rel=1e-12)
    by_sparse = vardi.debias_matrix(sparse.csr_array(omega), d.source + (d.source >= place))
    assert by_sparse.omegas[str(place)] == pytest.approx(fit.probabilities @ state, rel=1e-12)


@pytest.mark.parametrize("height", [1e-100, 1.0, 1e100, 1e300])
@pytest.mark.parametrize("form", ["dense", "sparse", "log"])
def test_an_unsampled_state_of_any_height(height, form):
    """Also beside biases that are tiny themselves: nothing of the state may overflow into the sums."""
    d = design("tilt", 3, 60, 0)
    omega = np.column_stack([d.omega * 1e-90, height * d.z**2])
    given_omega = {"dense": omega, "sparse": sparse.csr_array(omega), "log": log_of(omega)}[form]
    fit = vardi.debias_matrix(given_omega, d.source, log=form == "log")
    same(fit.weights, fit_of(d).weights, rtol=1e-11)
    assert fit.omegas["3"] == pytest.approx(height * (fit.probabilities @ d.z**2), rel=1e-11)


def test_a_state_that_no_row_of_the_pool_could_come_from():
    """Its normaliser is 0: all that the pool knows of the population lies outside."""
    d = design("tilt", 2, 20, 0)
    fit = vardi.debias_matrix(np.column_stack([d.omega, np.zeros(20)]), d.source)
    same(fit.weights, fit_of(d).weights)
    assert fit.omegas["2"] == 0
    assert fit.log_omegas["2"] == -np.inf


@given(designs, seeds)
def test_a_row_that_counts_zero_moves_nothing(d, seed):
    rng = np.random.default_rng(seed)
    extra = rng.integers(0, len(d.z), 5)
    place = rng.integers(0, len(d.z) + 1, 5)
    omega, source = np.insert(d.omega, place, d.omega[extra], axis=0), np.insert(d.source, place, d.source[extra])
    counts = np.insert(np.ones(len(d.z)), place, 0.0)
    fit = vardi.debias_matrix(omega, source, counts=counts)
    certify(fit, omega, source, counts)
    same(fit.weights[counts > 0], fit_of(d).weights)
    assert (fit.probabilities[counts == 0] == 0).all()


# ---------------------------------------------------------------- ways to hold the same matrix


@given(designs)
def test_dense_log_sparse_and_sparse_log_agree(d):
    fit = fit_of(d)
    same(vardi.debias_matrix(log_of(d.omega), d.source, log=True).weights, fit.weights)
    same(vardi.debias_matrix(sparse.csr_array(d.omega), d.source).weights, fit.weights)
    same(vardi.debias_matrix(as_sparse_log(d.omega), d.source, log=True).weights, fit.weights)


@pytest.mark.long
@given(st.integers(2, 6), seeds)
def test_distinct_rows_agree_with_all_rows(K, seed):
    """Past 50,000 numbers equal rows are collapsed: against the same pool given by its distinct rows and counts."""
    d = design("indicator", K, 50_000 // K + 100, seed)
    kinds, first, inverse, counts = np.unique(
        np.column_stack([d.source, d.omega]), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    inverse = inverse.ravel()  # a column in NumPy 2.0
    few = vardi.debias_matrix(kinds[:, 1:], d.source[first], counts=counts)
    same(fit_of(d).weights, few.weights[inverse])
    by_sparse = vardi.debias_matrix(sparse.csr_array(d.omega), d.source)
    off = np.ptp(np.log(by_sparse.weights / few.weights[inverse]))  # thousands of equal terms, added one by one
    assert off <= few.solution.certificate + by_sparse.solution.certificate < 1e-10


@pytest.mark.parametrize("log", [False, True])
def test_an_explicit_zero_of_a_sparse_matrix_is_no_overlap(log):
    data = [0.0, -np.inf, -np.inf, 0.0] if log else [1.0, 0.0, 0.0, 1.0]
    stored = sparse.csr_array((np.array(data), np.array([0, 1, 0, 1]), np.array([0, 2, 4])), shape=(2, 2))
    with pytest.raises(vardi.NotIdentifiableError) as caught:
        vardi.debias_matrix(stored, [0, 1], log=log)
    assert caught.value.groups == (("0",), ("1",))
    assert caught.value.verdict.links == ()


@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "dia", "dok", "lil"])
def test_every_sparse_format_is_the_same_matrix(form):
    omega = np.array([[1.0, 0.0], [1.0, 2.0], [3.0, 1.0], [0.0, 1.0]])
    source, counts = np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3])
    by_row = vardi.debias_matrix(sparse.csr_array(omega), source, counts=counts)
    np.testing.assert_array_equal(
        vardi.debias_matrix(sparse.csr_array(omega).asformat(form), source, counts=counts).weights, by_row.weights
    )


# ---------------------------------------------------------------- containers


RNG = np.random.default_rng(11)
TABLE = {
    "plain": {"x": RNG.gamma(3.0, size=30), "region": RNG.choice(["N", "S", "W"], 30), "size": RNG.integers(1, 9, 30)},
    "long": {"x": RNG.gamma(4.0, size=50), "region": RNG.choice(["N", "S", "W"], 50), "size": RNG.integers(1, 9, 50)},
    "south": {"x": RNG.gamma(3.0, size=20), "region": np.repeat("S", 20), "size": RNG.integers(1, 9, 20)},
}
BIASES = {"plain": 1, "long": "x", "south": "region == 'S'", "large": "size >= 5"}
LABELS = np.repeat(list(TABLE), [30, 50, 20])
MATRIX = np.column_stack(
    [
        np.ones(100),
        np.concatenate([part["x"] for part in TABLE.values()]),
        np.concatenate([part["region"] == "S" for part in TABLE.values()]),
        np.concatenate([part["size"] >= 5 for part in TABLE.values()]),
    ]
)
EXPECTED = vardi.debias_matrix(MATRIX, np.repeat([0, 1, 2], [30, 50, 20]), names=list(BIASES))


def structured(columns: dict) -> np.ndarray:
    rows = np.empty(len(columns["x"]), dtype=[("x", float), ("region", "U1"), ("size", int)])
    for name, values in columns.items():
        rows[name] = values
    return rows


CONTAINERS = {
    "pandas": pd.DataFrame,
    "pandas with pyarrow types": lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "pandas with categories": lambda columns: pd.DataFrame(columns).astype({"region": "category"}),
    "Polars": pl.DataFrame,
    "PyArrow": pa.table,
    "structured array": structured,
}


def joined(tables) -> dict:
    return {name: np.concatenate([part[name] for part in tables]) for name in ("x", "region", "size")}


def numbers(values) -> np.ndarray:
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values, dtype=float)


@pytest.mark.parametrize("container", CONTAINERS)
def test_mapping_list_labelled_frame_and_label_array_agree(container):
    make = CONTAINERS[container]
    parts = {name: make(columns) for name, columns in TABLE.items()}
    whole = make(joined(TABLE.values()))
    fits = {
        "mapping": vardi.debias(parts, BIASES),
        "list": vardi.debias(list(parts.values()), list(BIASES.values())),
        "label array": vardi.debias(whole, BIASES, source=LABELS),
        "label list": vardi.debias(whole, BIASES, source=LABELS.tolist()),
    }
    if container != "structured array":
        labelled = make({**joined(TABLE.values()), "origin": LABELS})
        fits["label column"] = vardi.debias(labelled, BIASES, source="origin")
    for form, fit in fits.items():
        same(numbers(fit.weights), EXPECTED.weights)
        same(numbers(fit.probabilities), EXPECTED.probabilities)
        assert list(fit.omegas.values()) == pytest.approx(list(EXPECTED.omegas.values()), rel=1e-12), form
        assert fit.names == (("0", "1", "2", "3") if form == "list" else tuple(BIASES))
        assert list(fit.sizes.values()) == [30, 50, 20, 0]


@pytest.mark.parametrize("counts_as", ["array", "list", "mapping", "column"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_counts_in_every_form(container, counts_as):
    parts = {name: CONTAINERS[container](columns) for name, columns in TABLE.items()}
    sizes = joined(TABLE.values())["size"]
    counts = {
        "array": sizes,
        "list": sizes.tolist(),
        "mapping": {name: columns["size"] for name, columns in TABLE.items()},
        "column": "size",
    }[counts_as]
    expected = vardi.debias_matrix(MATRIX, np.repeat([0, 1, 2], [30, 50, 20]), counts=sizes)
    same(numbers(vardi.debias(parts, BIASES, counts=counts).weights), expected.weights)


def test_plain_arrays_of_one_and_two_dimensions():
    one = {name: columns["x"] for name, columns in TABLE.items() if name != "south"}
    expected = vardi.debias_matrix(MATRIX[:80, :2], np.repeat([0, 1], [30, 50])).weights
    same(vardi.debias(one, {"plain": 1, "long": "x"}).weights, expected)
    two = {name: np.column_stack([columns["size"], columns["x"]]) for name, columns in TABLE.items() if name != "south"}
    same(vardi.debias(two, {"plain": 1, "long": "x1"}).weights, expected)
    series = {name: pd.Series(x) for name, x in one.items()}
    same(vardi.debias(series, {"plain": 1, "long": "x"}).weights, expected)
    polars = {name: pl.Series("x", x) for name, x in one.items()}
    same(vardi.debias(polars, {"plain": 1, "long": "x"}).weights, expected)


@pytest.mark.parametrize(
    "bias",
    [
        "x",
        vardi.proportional_to("x"),
        lambda rows: rows["x"],
        lambda rows: np.asarray(rows["x"]) * 3.0,
        np.concatenate([part["x"] for part in TABLE.values()]),
        np.concatenate([part["x"] for part in TABLE.values()]).tolist(),
        2 * vardi.proportional_to("x"),
    ],
    ids=["text", "value", "function", "scaled function", "array", "list", "multiple"],
)
def test_every_form_of_one_bias(bias):
    parts = {name: pd.DataFrame(columns) for name, columns in TABLE.items()}
    same(vardi.debias(parts, BIASES | {"long": bias}).weights, EXPECTED.weights)


def test_samples_in_different_libraries():
    parts = {name: make(TABLE[name]) for name, make in zip(TABLE, (pd.DataFrame, pl.DataFrame, pa.table), strict=True)}
    fit = vardi.debias(parts, BIASES)
    assert isinstance(fit.weights, np.ndarray)
    same(fit.weights, EXPECTED.weights)


def test_extra_columns_of_one_sample_are_no_concern():
    parts = {name: pd.DataFrame(columns) for name, columns in TABLE.items()}
    parts["long"]["remark"] = "seen"
    same(vardi.debias(parts, BIASES).weights, EXPECTED.weights)


def test_the_order_of_the_biases_is_free():
    parts = {name: pd.DataFrame(columns) for name, columns in TABLE.items()}
    fit = vardi.debias(parts, dict(reversed(BIASES.items())))
    same(fit.weights, EXPECTED.weights)
    assert fit.names == ("plain", "long", "south", "large")


# ---------------------------------------------------------------- threads


@pytest.fixture(scope="module")
def wide():
    return design("tilt", 8, 300_000, 0)


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_the_number_of_threads_changes_nothing(wide, threads, monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "3")
    expected = fit_of(wide)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", threads)
    same(fit_of(wide).weights, expected.weights)


def test_the_threads_of_the_linear_algebra_change_nothing(wide):
    expected = fit_of(wide)
    with threadpool_limits(1):
        same(fit_of(wide).weights, expected.weights)


def test_a_second_fit_is_the_same_to_the_last_bit(wide):
    np.testing.assert_array_equal(fit_of(wide).weights, fit_of(wide).weights)
