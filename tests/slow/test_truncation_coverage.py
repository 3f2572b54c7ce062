"""Intervals of truncated rows cover as they say; size and power of the test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import vardi

REPEATS = 500  # fixed before the first run

pytestmark = pytest.mark.filterwarnings("ignore::vardi.errors.WeakOverlapWarning")
LAW = stats.gamma(3.0)


def left(rng, n):
    """Values with law gamma(3), seen from an entry on that is uniform on (-0.5, 3.5)."""
    x, u = rng.gamma(3.0, 1.0, 8 * n), rng.uniform(-0.5, 3.5, 8 * n)
    seen = np.flatnonzero(x >= u)[:n]
    return pd.DataFrame({"x": x[seen], "u": u[seen]}), vardi.window("x", "u", None)


def double(rng, n):
    """Uniform values, seen through windows of width a half around a centre with law Beta(1, 2)."""
    x, b = rng.uniform(size=8 * n), rng.beta(1, 2, 8 * n)
    seen = np.flatnonzero(np.abs(x - b) <= 0.25)[:n]
    return pd.DataFrame({"x": x[seen], "u": b[seen] - 0.25, "v": b[seen] + 0.25}), vardi.window("x", "u", "v")


LEFT = [3.0, *LAW.cdf([1.5, 2.7, 4.5]), integrate.quad(lambda u: LAW.sf(u) / 4, -0.5, 3.5)[0]]
DOUBLE = [
    0.5,
    0.25,
    0.5,
    0.75,
    integrate.quad(lambda b: (min(b + 0.25, 1) - max(b - 0.25, 0)) * 2 * (1 - b), 0, 1)[0],
]


@pytest.mark.parametrize(
    ("draw", "n", "points", "truth"),
    [(left, 200, [1.5, 2.7, 4.5], LEFT), (double, 300, [0.25, 0.5, 0.75], DOUBLE)],
    ids=["left", "double"],
)
def test_a_mean_a_cdf_and_the_chance_to_be_seen_are_covered(draw, n, points, truth):
    hits, values, errors = [], [], []
    for seed in range(REPEATS):
        frame, bias = draw(np.random.default_rng(seed), n)
        fit = vardi.debias({"seen": frame}, {"seen": bias})
        found = [fit.expectation("x"), *fit.cdf("x")(points), fit.normalisers()["seen"]]
        hits.append([one.interval[0] <= true <= one.interval[1] for one, true in zip(found, truth, strict=True)])
        values.append([one.value for one in found])
        errors.append([one.stderr for one in found])
    print(draw.__name__, "coverage", np.mean(hits, axis=0), "sd", np.std(values, axis=0), "se", np.mean(errors, axis=0))
    assert np.mean(hits, axis=0) == pytest.approx(0.95, abs=0.03)  # three standard errors of 500 repeats
    assert np.std(values, axis=0) == pytest.approx(np.mean(errors, axis=0), rel=0.15)


@pytest.mark.parametrize("draw", [left, double])
def test_errors_are_those_of_a_bootstrap_of_whole_rows(draw):
    ratios = []
    for seed in range(10):
        frame, bias = draw(np.random.default_rng(seed), 250)
        fit = vardi.debias({"seen": frame}, {"seen": bias})
        means, logs = fit.bootstrap("x", n=200), fit.bootstrap(n=200)
        ratios.append(
            [means.stderr / fit.expectation("x").stderr, logs.stderr[0] / fit.log_normalisers()["seen"].stderr]
        )
    print(draw.__name__, "bootstrap / influence", np.mean(ratios, axis=0))
    assert np.mean(ratios, axis=0) == pytest.approx(1.0, abs=0.1)


def dependent(rng, n, strength):
    """Entries that grow with the value by a normal copula of some correlation."""
    a, b = rng.multivariate_normal([0, 0], [[1, strength], [strength, 1]], 8 * n).T
    x, u = LAW.ppf(stats.norm.cdf(a)), 4 * stats.norm.cdf(b) - 0.5
    return x, u


@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("draw", [left, double])
def test_the_size_of_the_test_of_quasi_independence(draw, n):
    rejected = 0
    for seed in range(1000):
        frame, _ = draw(np.random.default_rng(seed), n)
        rejected += pvalue(frame) < 0.05
    print(draw.__name__, n, "size", rejected / 1000)
    assert 0.025 <= rejected / 1000 <= 0.08


def test_the_power_of_the_test_grows_with_dependence():
    shares = []
    for strength in (0.0, 0.3, 0.6):
        rejected = 0
        for seed in range(200):
            x, u = dependent(np.random.default_rng(seed), 200, strength)
            seen = np.flatnonzero(x >= u)[:200]
            rejected += pvalue(pd.DataFrame({"x": x[seen], "u": u[seen]})) < 0.05
        shares.append(rejected / 200)
    print("power at correlations 0, 0.3, 0.6:", shares)
    assert shares[0] < 0.08
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.9


def pvalue(frame):
    bias = vardi.window("x", "u", "v" if "v" in frame else None)
    return vardi.debias({"seen": frame}, {"seen": bias}).check_biases("x").pvalue
