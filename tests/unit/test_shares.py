"""Equal rows are found and summed once, and distribution functions come from sums by cell."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import vardi
from vardi._rows import distinct as distinct_module
from vardi._rows import shares as module
from vardi._rows.base import BiasColumns
from vardi._rows.distinct import distinct, distinct_sparse
from vardi._rows.grouping import sums_by_value
from vardi._rows.shares import SharesByCell, SharesByValue, shares_of

COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "rounded": lambda rng, n: np.round(rng.normal(size=n), 2),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=n)),
    "large": lambda rng, n: rng.normal(size=n) * 1e300,
    "tiny": lambda rng, n: rng.random(n) * 1e-300,
    "offset": lambda rng, n: 1e9 + rng.normal(size=n),
    "outliers": lambda rng, n: np.where(rng.random(n) < 1e-3, 1e12, rng.normal(size=n)),
}


@pytest.fixture(params=COLUMNS)
def both(request, monkeypatch):
    """A column, and its shares by cells and by values."""
    monkeypatch.setattr(module, "MANY", 1000)
    rng = np.random.default_rng(5)
    values = COLUMNS[request.param](rng, 20_000)
    masses = [rng.integers(1, 4, len(values)).astype(float), rng.random(len(values))]
    cells = shares_of(values, masses)
    assert isinstance(cells, SharesByCell)
    x = np.unique(values)
    place = np.searchsorted(x, values)
    sums = np.stack([np.cumsum(np.bincount(place, mass)) / mass.sum() for mass in masses], axis=1)
    return values, cells, SharesByValue(x, np.minimum(sums, 1.0))


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
@pytest.mark.parametrize("beyond", [False, True])
def test_cells_find_the_first_value_at_which_shares_reach_a_target(both, weights, beyond):
    _, cells, plain = both
    targets = np.random.default_rng(1).random(200) * sum(weights)
    for found, expected in zip(
        cells.reaching(np.array(weights), targets, beyond=beyond),
        plain.reaching(np.array(weights), targets, beyond=beyond),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_no_target_beyond_all_shares_is_lost(both):
    values, cells, _ = both
    assert cells.reaching(np.ones(2), np.array([np.inf]))[0] == values.max()
    assert cells.reaching(np.ones(2), np.array([0.0]))[0] == values.min()


def test_cells_give_the_shares_up_to_values_and_between_them(both):
    values, cells, plain = both
    rng = np.random.default_rng(2)
    between = np.quantile(values, rng.random(100)) * (1.0 + 1e-9)
    points = np.concatenate([rng.choice(values, 100), between, [-1e308, 1e308]])
    np.testing.assert_allclose(cells.up_to(points), plain.up_to(points), rtol=1e-12, atol=1e-15)


def test_cells_give_neighbours_distinct_values_and_how_many_there_are(both):
    values, cells, plain = both
    low, high = np.quantile(values, [0.2, 0.7])
    np.testing.assert_array_equal(cells.between(low, high), plain.between(low, high))
    for x in (low, high, float(values[7])):
        assert [cells.next_to(x, -1), cells.next_to(x, 1)] == [plain.next_to(x, -1), plain.next_to(x, 1)]
    distinct = len(np.unique(values))
    assert cells.has_more_than(distinct - 1)
    assert not cells.has_more_than(distinct)
    for found, expected in zip(cells.every(), plain.every(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_whole_numbers_are_told_from_others(monkeypatch):
    monkeypatch.setattr(module, "MANY", 1000)
    values = np.random.default_rng(3).integers(0, 40_000, 20_000).astype(float)
    cells = shares_of(values, [np.ones(len(values))])
    assert isinstance(cells, SharesByCell)
    assert cells.are_whole(0.0, 40_000.0)
    values[-1] += 0.5
    assert not shares_of(values, [np.ones(len(values))]).are_whole(0.0, 40_001.0)


@pytest.mark.parametrize(
    "values", [np.repeat([0.0, 1.5], 10_000), np.exp(9.0 * np.random.default_rng(0).normal(size=20_000))]
)
def test_columns_whose_rows_crowd_in_few_cells_are_sorted(monkeypatch, values):
    monkeypatch.setattr(module, "MANY", 1000)
    assert isinstance(shares_of(values, [np.ones(len(values))]), SharesByValue)


def test_sums_by_whole_numbers_are_those_of_a_sort(monkeypatch):
    rng = np.random.default_rng(7)
    values, part = rng.integers(-30, 900, 30_000).astype(float), rng.random(30_000)
    counted, (sums,) = sums_by_value(values, [part])
    monkeypatch.setattr("vardi._rows.grouping.MANY", 10**9)
    x, (expected,) = sums_by_value(values, [part])
    np.testing.assert_array_equal(counted, x)
    np.testing.assert_allclose(sums, expected, rtol=1e-12)


@pytest.mark.parametrize("measure", [0, 1])
def test_one_measure_alone_has_the_shares_that_it_has_beside_others(both, measure):
    values, cells, plain = both
    points = np.random.default_rng(3).choice(values, 50)
    for shares in (cells, plain):
        alone = shares.of_measure(measure)
        np.testing.assert_array_equal(alone.up_to(points)[:, 0], shares.up_to(points)[:, measure])
        np.testing.assert_array_equal(
            alone.reaching(np.ones(1), np.array([0.3]))[0], shares.reaching(np.eye(2)[measure], np.array([0.3]))[0]
        )


def by_sorting(source, matrix):
    return np.unique(np.column_stack([source, matrix]), axis=0, return_counts=True)


def check(found, source, matrix):
    rows = np.column_stack([source, matrix])
    np.testing.assert_array_equal(rows[found.first][found.inverse], rows)
    wanted, counts = by_sorting(source, matrix)
    kinds = rows[found.first]
    order = np.lexsort(kinds.T[::-1])
    np.testing.assert_array_equal(kinds[order], wanted)
    np.testing.assert_array_equal(found.counts(np.ones(len(source)))[order], counts)


@pytest.fixture
def indicators():
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 2, (50_000, 3)) * np.array([1.0, 0.3, 1e5])
    source = rng.integers(0, 3, 50_000)
    return source, matrix


@pytest.fixture
def rows(indicators):
    source, matrix = indicators
    matrix[:, 1] *= np.random.default_rng(1).integers(1, 3, len(matrix))  # more than one value beside zero
    return source, matrix


def test_indicators(indicators):
    source, matrix = indicators
    for biases in (matrix, BiasColumns(matrix.T), matrix.astype(np.float32), np.asfortranarray(matrix)):
        found = distinct(source, biases)
        assert found.inverse.dtype == np.uint8  # their pattern, and not the way of other biases
        check(found, source, biases[:])
    check(distinct(source, matrix > 0), source, matrix > 0)


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 8, 9, 10, 64, 65, 130])
def test_booleans_are_like_numbers(K):
    rng = np.random.default_rng(K)
    matrix = np.abs(rng.integers(0, 40, (20_000, 1)) / 40 - rng.random(K)) < 0.3
    source = rng.integers(0, min(K, 5), len(matrix))
    found = [distinct(source, matrix.astype(dtype)) for dtype in (bool, np.int8, np.int64, float)]
    for one in (*found, distinct(source, np.asfortranarray(matrix))):
        check(one, source, matrix.astype(float))
        np.testing.assert_array_equal(one.first, found[0].first)
        np.testing.assert_array_equal(one.inverse, found[0].inverse)


def test_indicators_of_many_samples():
    rng = np.random.default_rng(2)
    matrix = (rng.random((30_000, 8)) < 0.1).astype(float)
    source = rng.integers(0, 2, 30_000)
    found = distinct(source, matrix)
    assert found.inverse.dtype == np.uint16
    check(found, source, matrix)
    wide = np.column_stack([matrix, matrix[:, :1]])  # a pattern of more bits than a table has
    check(distinct(source, wide), source, wide)


def test_indicators_of_seventy_samples():
    """Too many kinds for a first look, and few for so many rows: a longer one is taken."""
    rng = np.random.default_rng(3)
    source = rng.integers(0, 70, 140_000)
    coarse = np.floor(8 * rng.random((140_000, 1))) >= np.arange(70) % 8
    check(distinct(source, coarse), source, coarse.astype(float))
    late = coarse.astype(float)
    late[139_999, 5] = 2.0  # no indicator after all, where no probe looks
    check(distinct(source, late), source, late)


def test_an_indicator_that_the_probe_does_not_show(indicators):
    source, matrix = indicators
    matrix[:, 2] = 0.0
    matrix[[17, 40_001], 2] = 1.0
    check(distinct(source, matrix), source, matrix)
    matrix[[18, 40_002], 2] = 2.0  # and one that is no indicator after all
    check(distinct(source, matrix), source, matrix)


def test_logs_of_indicators(indicators):
    source, matrix = indicators
    with np.errstate(divide="ignore"):
        logs = np.log(matrix)
    found = distinct(source, logs, -np.inf)
    check(found, source, logs)
    assert found.inverse.dtype == np.uint8
    check(distinct(source, BiasColumns(logs.T), -np.inf), source, logs)


def test_matrix_and_columns(rows):
    source, matrix = rows
    check(distinct(source, matrix), source, matrix)
    check(distinct(source, BiasColumns(matrix.T)), source, matrix)
    check(distinct(source, BiasColumns([matrix[:, 0] > 0, matrix[:, 1] > 0])), source, matrix[:, :2] > 0)


def test_rare_kinds(rows):
    source, matrix = rows
    matrix[[17, 12_345, 49_999]] = [[1.0, 0.3, 7.0], [2.0, 0.0, 0.0], [1.0, 0.3, 7.0]]
    check(distinct(source, matrix), source, matrix)


def test_projections_that_tie(rows, monkeypatch):
    source, matrix = rows
    monkeypatch.setattr(distinct_module, "_project", lambda source, biases: np.zeros(len(source)))
    assert distinct(source, matrix) is None  # every row but those of one kind is a stranger
    monkeypatch.setattr(distinct_module, "RARE", 1)
    check(distinct(source, matrix), source, matrix)


def test_zeros_of_either_sign_are_one_kind(rows):
    """Two kinds of equal rows would leave one of them without rows, and sums over it divided by their number."""
    source, matrix = rows
    signed = np.where((matrix == 0) & (np.random.default_rng(2).random((len(matrix), 1)) < 0.5), -0.0, matrix)
    check(distinct(source, signed), source, matrix)
    signed[np.arange(len(matrix)), source] = 1.0
    assert np.isfinite(vardi.debias_matrix(signed, source).expectation(np.arange(len(matrix)) % 7.0).stderr)


def test_not_worth_it():
    rng = np.random.default_rng(0)
    assert distinct(np.zeros(10_000, int), rng.random((10_000, 2))) is None
    some = rng.random((10_000, 2))
    some[::2] = 1.0  # half the rows are one kind, the rest all differ
    assert distinct(np.zeros(10_000, int), some) is None


def test_nan_is_like_nothing():
    matrix = np.ones((20_000, 2))
    matrix[:10_000, 0] = np.nan
    assert distinct(np.zeros(20_000, int), matrix) is None


def test_sparse(rows):
    source, matrix = rows
    check(distinct_sparse(sparse.csr_array(matrix), source), source, matrix)


def test_errors_name_rows_of_the_pool(rows):
    source, matrix = rows
    matrix = matrix + 1.0
    matrix[31_000, 1] = -1.0
    with pytest.raises(vardi.InvalidBiasError, match="is -1.0 at row 31000 of the pool"):
        vardi.debias_matrix(matrix, source)
