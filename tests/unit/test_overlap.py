"""What overlap is measured by: cuts, eigenvalues, pairs of windows; and how powers of ten are printed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import vardi
from vardi._estimate import bias_test as module
from vardi._estimate.bias_test import quasi_independence
from vardi._estimate.bounds import _power, _second_eigenvalue
from vardi._estimate.reliability import smallest_cut
from vardi._rows.gram import DenseGram, Laplacian


class TestSmallestCut:
    def test_of_random_graphs_by_trying_all(self):
        rng = np.random.default_rng(0)
        for K in (2, 3, 5, 7):
            for _ in range(20):
                links = rng.exponential(size=(K, K)) * (rng.random((K, K)) < 0.7)
                links = links + links.T
                sides = [np.array([i >> k & 1 for k in range(K)], bool) for i in range(1, 2 ** (K - 1))]
                smallest = min(links[side][:, ~side].sum() for side in sides)
                value, side = smallest_cut(links)
                assert 0 < side.sum() < K
                assert_allclose(value, smallest, atol=1e-12)
                assert_allclose(links[side][:, ~side].sum(), smallest, atol=1e-12)

    @pytest.mark.parametrize("K", [3, 4, 9])
    def test_of_a_ring_none_of_whose_nodes_have_common_neighbours(self, K):
        links = np.roll(np.eye(K), 1, axis=0) * np.linspace(1.0, 2.0, K)
        links = links + links.T
        value, side = smallest_cut(links)
        assert_allclose(value, np.sort(links[links > 0])[::2][:2].sum())
        assert_allclose(links[side][:, ~side].sum(), value)


def test_many_samples_have_the_same_second_eigenvalue():
    rng = np.random.default_rng(0)
    K = 330
    G = np.abs(sparse.random_array((K, K), density=0.05, rng=rng).toarray())
    G = G + G.T + np.eye(K)
    expected = np.linalg.eigvalsh(np.diag(G.sum(axis=1)) - G)[1]
    np.testing.assert_allclose(_second_eigenvalue(Laplacian(G.sum(axis=1), DenseGram(G))), expected, rtol=1e-8)


def test_powers_of_ten_are_readable():
    assert [_power(x) for x in (0.0, 3.0, -2.0, 12.34, -4540.2, -4e10, math.inf, -math.inf)] == [
        "1",
        "1e+03",
        "0.01",
        "10^12.3",
        "10^-4540.2",
        "10^-4.0e+10",
        "inf",
        "0",
    ]


def draw(seed, n=80, *, strength=0.0, ties=False):
    """Return values and windows of two ends that vary apart from one another."""
    rng = np.random.default_rng(seed)
    x, u, width = rng.normal(size=20 * n), rng.normal(size=20 * n) - 1.0, rng.uniform(1.0, 4.0, 20 * n)
    u = u + strength * x
    if ties:
        x, u, width = np.round(x, 1), np.round(u, 1), np.round(width, 1)
    seen = np.flatnonzero((u <= x) & (x <= u + width))[:n]
    return x[seen], u[seen], (u + width)[seen]


def by_hand(x, low, high, ends, c):
    """Return U and V by loops over pairs, and the chi-square."""
    rows = np.repeat(np.arange(len(x)), c.astype(int))
    n, m = len(rows), len(ends)
    h = np.zeros((n, n, m))
    for a, i in enumerate(rows):
        for b, j in enumerate(rows):
            if max(low[i], low[j]) <= min(x[i], x[j]) and max(x[i], x[j]) <= min(high[i], high[j]):
                h[a, b] = [np.sign(x[i] - x[j]) * np.sign(end[i] - end[j]) for end in ends]
    U = h.sum(axis=(0, 1)) / (n * (n - 1))
    means = h.sum(axis=1) / (n - 1)
    flat = h.reshape(-1, m)
    V = 4 / n * (means.T @ means) / n - 2 / (n * (n - 1)) * (flat.T @ flat) / (n * (n - 1))
    return float(U @ np.linalg.pinv(V) @ U)


@pytest.mark.parametrize("ties", [False, True])
def test_it_counts_comparable_pairs(ties, monkeypatch):
    x, low, high = draw(0, ties=ties)
    counts = np.random.default_rng(1).integers(1, 3, len(x)).astype(float)
    monkeypatch.setitem(module._sums.__kwdefaults__, "pairs", 700)  # some rows at a time
    for c in (np.ones(len(x)), counts):
        found = quasi_independence("seen", vardi.Windows(x, low, high), {"u": low, "v": high}, {"x": x}, c)
        assert found.statistic == pytest.approx(by_hand(x, low, high, [low, high], c))
        assert (found.df, found.method, found.columns) == (2, "quasi-independence", ("x",))


def test_ends_that_rise_together_count_once():
    x, low, _ = draw(3)
    low = np.minimum(low, x)
    high = low + 5.0
    seen = x <= high
    x, low, high = x[seen], low[seen], high[seen]
    both = quasi_independence("seen", vardi.Windows(x, low, high), {"u": low, "v": high}, {"x": x}, np.ones(len(x)))
    one = quasi_independence("seen", vardi.Windows(x, low, high), {"u": low}, {"x": x}, np.ones(len(x)))
    assert both.df == 1
    assert both.pvalue == pytest.approx(one.pvalue)


def test_it_finds_windows_that_follow_the_value_and_columns_that_do():
    x, low, high = draw(4, n=400, strength=0.7)
    windows, ends = vardi.Windows(x, low, high), {"u": low, "v": high}
    assert quasi_independence("seen", windows, ends, {"x": x}, np.ones(len(x))).pvalue < 0.001
    x, low, high = draw(4, n=400)
    windows, ends = vardi.Windows(x, low, high), {"u": low, "v": high}
    assert quasi_independence("seen", windows, ends, {"x": x}, np.ones(len(x))).pvalue > 0.05
    noise = np.random.default_rng(0).normal(size=len(x))
    assert quasi_independence("seen", windows, ends, {"z": low + noise}, np.ones(len(x))).pvalue < 0.001
    assert quasi_independence("seen", windows, ends, {"z": noise}, np.ones(len(x))).pvalue > 0.05


def test_rows_that_nobody_compares_are_told():
    windows = vardi.Windows([1.0, 5.0], [0.0, 4.0], [2.0, 6.0])
    found = quasi_independence("seen", windows, {"u": windows.low}, {"x": windows.x}, np.ones(len(windows.x)))
    assert np.isnan(found.pvalue)
    assert "no two rows with different values would have been seen" in found.reason
    assert found.untested == {"seen": 1.0}


def test_a_random_part_stands_for_very_many_rows(monkeypatch):
    x, low, high = draw(7, n=600, strength=1.5)
    monkeypatch.setattr(module, "MOST_PAIRED", 300)
    ends = {"u": low, "v": high}
    found = [
        quasi_independence("seen", vardi.Windows(x, low, high), ends, {"x": x}, np.ones(len(x))).pvalue
        for _ in range(2)
    ]
    assert found[0] == found[1] < 0.01
