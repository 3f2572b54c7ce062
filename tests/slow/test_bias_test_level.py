"""The level of the test of the declared biases, whatever the column and however its rows depend on one another.

2,000 seeded repeats in each cell, fixed before the first run. Run with ``make slow``; the table it prints is that in
docs/coverage.md.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import vardi

REPEATS = 2000
COLUMNS = {
    "normal": lambda u: stats.norm.ppf(u),
    "lognormal(1.5)": lambda u: np.exp(1.5 * stats.norm.ppf(u)),
    "Poisson(2)": lambda u: stats.poisson.ppf(u, 2.0),
    "binary, .2": lambda u: (u > 0.8).astype(float),
    "zero in .6, else exponential": lambda u: np.where(u > 0.6, -np.log(np.minimum((1 - u) / 0.4, 1.0)), 0.0),
}


def independent(rng, quantile, n=150):
    """Return a sample without bias, and one in which the upper half of the ranks is three times as frequent."""
    first, second = rng.random(n), rng.random(20 * n)
    second = second[rng.random(len(second)) < np.where(second > 0.5, 1.0, 1 / 3)][:n]
    frames = {name: pd.DataFrame({"x": quantile(u), "upper": u > 0.5}) for name, u in {"a": first, "b": second}.items()}
    return vardi.debias(frames, {"a": 1, "b": "1 + 2 * upper"})


def in_clusters(rng, quantile, G=25, size=6):
    frames = {}
    for k, name in enumerate("ab"):
        cluster = np.repeat(np.arange(G), size)
        z = (rng.normal(size=G)[cluster] + rng.normal(size=len(cluster))) / np.sqrt(2)
        frames[name] = pd.DataFrame({"x": quantile(stats.norm.cdf(z)), "cluster": cluster + k * G})
    return vardi.debias(frames, {"a": 1, "b": 1}, clusters="cluster")


def in_series(rng, quantile, n=800, rho=0.9):
    from scipy.signal import lfilter

    frames = {}
    for name in "ab":
        noise = rng.normal(size=n + 200) * np.sqrt(1 - rho**2)
        frames[name] = pd.DataFrame({"x": quantile(stats.norm.cdf(lfilter([1.0], [1.0, -rho], noise)[200:]))})
    return vardi.debias(frames, {"a": 1, "b": 1}, series=True)


DESIGNS = {"independent, 150 + 150": independent, "25 + 25 clusters of 6": in_clusters, "AR(.9), 2 of 800": in_series}


def pvalues(make, quantile, features, repeats):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)
        fits = (make(np.random.default_rng([2, number]), quantile) for number in range(repeats))
        return np.array([fit.check_biases("x", features=features).pvalue for fit in fits])


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("design", DESIGNS)
def test_level(design, column, capsys):
    found = pvalues(DESIGNS[design], COLUMNS[column], "ranks", REPEATS)
    at_five, at_one = (float((found < level).mean()) for level in (0.05, 0.01))
    with capsys.disabled():
        print(f"\n| {design} | {column} | {at_five:.3f} | {at_one:.3f} |", end="", flush=True)
    assert 0.035 <= at_five <= 0.065
    assert at_one <= 0.018


@pytest.mark.parametrize("design", list(DESIGNS)[1:])
def test_level_of_cells(design, capsys):
    found = pvalues(DESIGNS[design], COLUMNS["normal"], "cells", REPEATS)
    at_five, at_one = (float((found < level).mean()) for level in (0.05, 0.01))
    with capsys.disabled():
        print(f"\n| {design}, cells | normal | {at_five:.3f} | {at_one:.3f} |", end="", flush=True)
    assert 0.03 <= at_five <= 0.07
