"""The test of quasi-independence: what it counts, and what it finds; sizes are in tests/slow."""

from __future__ import annotations

import numpy as np
import pytest

import vardi
from vardi._estimate import quasi_independence as module
from vardi._estimate.quasi_independence import quasi_independence


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
    monkeypatch.setattr(module, "MOST_ROWS", 300)
    ends = {"u": low, "v": high}
    found = [
        quasi_independence("seen", vardi.Windows(x, low, high), ends, {"x": x}, np.ones(len(x))).pvalue
        for _ in range(2)
    ]
    assert found[0] == found[1] < 0.01
