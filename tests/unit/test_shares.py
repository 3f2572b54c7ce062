"""Shares of rows up to a value: from cells, without a sort, as from all values in order."""

import numpy as np
import pytest

from vardi._rows import shares as module
from vardi._rows.grouping import sums_by_value
from vardi._rows.shares import SharesByCell, SharesByValue, edges_below, shares_of

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


@pytest.mark.parametrize("edges", [np.sort(np.random.default_rng(4).normal(size=60)), np.array([0.5]), np.empty(0)])
def test_edges_below_values_are_those_of_a_search(monkeypatch, edges):
    monkeypatch.setattr(module, "MANY", 100)
    values = np.concatenate([np.random.default_rng(6).normal(size=5000) * 2.0, edges, [1e300, -1e300]])
    np.testing.assert_array_equal(edges_below(values, edges), np.searchsorted(edges, values))


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
