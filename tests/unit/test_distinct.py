"""Equal rows collapse exactly, also those of kinds too rare for a probe to show."""

import numpy as np
import pytest
from scipy import sparse

import vardi
from vardi._rows import distinct as module
from vardi._rows.checks import BiasColumns
from vardi._rows.distinct import distinct, distinct_sparse


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
    monkeypatch.setattr(module, "_project", lambda source, biases: np.zeros(len(source)))
    assert distinct(source, matrix) is None  # every row but those of one kind is a stranger
    monkeypatch.setattr(module, "RARE", 1)
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
