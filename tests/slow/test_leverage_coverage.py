"""Coverage where known values and parameters rest on few rows, and the level of their test.

1,000 seeded repeats in each design, 2,000 for levels; both were fixed before the first run. Run with ``make slow``; the
tables it prints are those in docs/coverage.md and docs/known.md.
"""

from __future__ import annotations

import math
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import vardi

REPEATS, TESTS = 1000, 2000
QUESTIONS = ("mean", "share", "median")


def truth_of(y, above):
    return {"mean": y.mean(), "share": (y > above).mean(), "median": np.median(y)}


def truth_of_mixture(shares, centres, above):
    """Return the truth of normal variables of deviation 1 with these centres."""

    def below(t):
        return shares @ norm.cdf(t - centres)

    return {"mean": shares @ centres, "share": 1 - below(above), "median": brentq(lambda t: below(t) - 0.5, -9, 9)}


def sparse_cells(rng):
    """Twelve cells, six of about two rows, in a sample whose selection among them is estimated."""
    shares, centres = np.r_[np.full(6, 0.7 / 6), np.full(6, 0.05)], np.arange(12) / 6
    cell = np.repeat(np.arange(12), np.r_[np.full(6, 18), 1 + rng.poisson(1, 6)])
    names = np.array([f"c{j:02d}" for j in range(12)])
    frame = pd.DataFrame({"cell": names[cell], "y": centres[cell] + rng.normal(size=len(cell))})
    known = {"cell": dict(zip(names, shares, strict=True))}
    fit = vardi.debias({"panel": frame}, {"panel": vardi.cells("cell")}, known=known)
    return fit, truth_of_mixture(shares, centres, 1.0), 1.0


@cache
def population_of_margins(N=400_000):
    rng = np.random.default_rng(5)
    a = rng.choice(6, N, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    b = (a + rng.choice(8, N, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])) % 8
    y = 0.3 * a + 0.2 * b + 0.02 * a * b + rng.normal(size=N)
    effects = np.array([0, 0.5, -0.5, 0.8, -0.8, 0.3])[a] + np.array([0, 0.4, -0.4, 0.6, -0.6, 0.2, 0.7, -0.3])[b]
    known = {
        "a": {f"a{j}": (a == j).mean() for j in range(6)},
        "b": {f"b{j}": (b == j).mean() for j in range(8)},
    }
    return a, b, y, np.cumsum(np.exp(effects)), known, truth_of(y, 1.5)


def margins(rng, n=300):
    """Margins of 6 and 8 values, a selection that depends on both."""
    a, b, y, mass, known, truth = population_of_margins()
    while True:
        rows = np.searchsorted(mass, rng.random(n) * mass[-1])
        if len(set(a[rows])) == 6 and len(set(b[rows])) == 8:
            break
    frame = pd.DataFrame({"a": [f"a{j}" for j in a[rows]], "b": [f"b{j}" for j in b[rows]], "y": y[rows]})
    return vardi.debias({"panel": frame}, {"panel": vardi.cells("a", "b")}, known=known), truth, 1.5


@cache
def truth_of_means():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(10**6, 3))
    return truth_of(x.sum(axis=1) / 2 + 0.4 * x[:, 0] ** 2 + rng.normal(size=len(x)), 0.5) | {"mean": 0.4}


def columns_with_known_means(rng, n, p):
    x = rng.normal(size=(n, p))
    y = x[:, :3].sum(axis=1) / 2 + 0.4 * x[:, 0] ** 2 + rng.normal(size=n)
    return pd.DataFrame({f"x{j}": x[:, j] for j in range(p)} | {"y": y}), {f"x{j}": 0.0 for j in range(p)}


def known_means(rng, n, p):
    frame, known = columns_with_known_means(rng, n, p)
    return vardi.debias({"sample": frame}, {"sample": 1}, known=known), truth_of_means(), 0.5


def strata(rng, rows):
    """Strata as samples, each by the condition that it is, with known shares."""
    H = len(rows)
    shares, centres = np.sqrt(np.arange(1, H + 1)), np.sin(np.arange(H))
    shares = shares / shares.sum()
    stratum = np.repeat(np.arange(H), rows)
    frame = pd.DataFrame({"stratum": stratum, "y": centres[stratum] + rng.normal(size=len(stratum))})
    samples = {f"h{h}": frame[stratum == h].reset_index(drop=True) for h in range(H)}
    known = {f"h{h}": shares[h] for h in range(H)}
    fit = vardi.debias(samples, {f"h{h}": f"stratum == {h}" for h in range(H)}, known=known)
    return fit, truth_of_mixture(shares, centres, 0.3), 0.3


def without_replacement(rng, n, N):
    """Units drawn by size, systematically from a random order."""
    size = rng.gamma(4, 1, N)
    y = size + rng.normal(size=N)
    drawn = np.minimum(n * size / size.sum(), 1.0)
    while True:
        certain = drawn >= 1.0
        again = np.where(certain, 1.0, (n - certain.sum()) * size / size[~certain].sum())
        if (again <= 1.0).all():
            break
        drawn = np.minimum(again, 1.0)
    order = rng.permutation(N)
    ends = np.floor(np.cumsum(again[order]) - rng.random())
    units = order[np.diff(ends, prepend=-1.0) > 0]
    frame = pd.DataFrame({"size": size[units], "y": y[units]})
    return vardi.debias({"units": frame}, {"units": "size"}, population=N), truth_of(y, 4.0), 4.0


def clusters_with_known_means(rng, G=15, p=3, size=8):
    cluster, effect = np.repeat(np.arange(G), size), rng.normal(size=(G, p + 1))
    x = (effect[cluster][:, :p] + rng.normal(size=(len(cluster), p))) / math.sqrt(2)
    noise = (effect[cluster][:, p] + rng.normal(size=len(cluster))) / math.sqrt(2)
    frame, known = pd.DataFrame({f"x{j}": x[:, j] for j in range(p)}), {f"x{j}": 0.0 for j in range(p)}
    return frame.assign(y=x.sum(axis=1) / 2 + 0.4 * x[:, 0] ** 2 + noise, cluster=cluster), known


def known_means_of_clusters(rng):
    frame, known = clusters_with_known_means(rng)
    return vardi.debias({"sample": frame}, {"sample": 1}, known=known, clusters="cluster"), truth_of_means(), 0.5


DESIGNS = {
    "12 cells, six of about two rows": sparse_cells,
    "margins of 6 and 8, n = 300": margins,
    "10 known means, n = 60": lambda rng: known_means(rng, 60, 10),
    "30 known means, n = 100": lambda rng: known_means(rng, 100, 30),
    "250 of 500 by size": lambda rng: without_replacement(rng, 250, 500),
    "160 of 400 by size": lambda rng: without_replacement(rng, 160, 400),
    "3 known means, 15 clusters of 8": known_means_of_clusters,
    "20 strata of 2": lambda rng: strata(rng, [2] * 20),
    "20 strata of 1 to 3": lambda rng: strata(rng, rng.integers(1, 4, 20)),
    "20 strata of 1": lambda rng: strata(rng, [1] * 20),
}


def asked(fit, above):
    estimates = fit.expectation("y"), fit.expectation(f"y > {above}"), fit.cdf("y").quantile(0.5)
    return dict(zip(QUESTIONS, estimates, strict=True))


def covered(make, repeats):
    """Return how often each interval covers, where there is one; how often there is none; and warnings."""
    inside = {question: [] for question in QUESTIONS}
    warned = 0
    for number in range(repeats):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", vardi.VardiWarning)
            fit, truth, above = make(np.random.default_rng([0, number]))
            found = asked(fit, above)
        warned += any(word in str(one.message) for one in caught for word in ("few rows", "alone", "clusters"))
        for question, estimate in found.items():
            low, high = estimate.interval
            inside[question].append(math.nan if math.isnan(estimate.stderr) else low <= truth[question] <= high)
    withheld = {question: float(np.isnan(one).mean()) for question, one in inside.items()}
    given = {
        question: float(np.nanmean(one)) if withheld[question] < 1 else math.nan for question, one in inside.items()
    }
    return given, withheld, warned / repeats


def line_of(name, given, withheld, warned):
    cells = [f"{given[q]:.3f}" + (f" ({withheld[q]:.0%} withheld)" if withheld[q] else "") for q in QUESTIONS]
    return f"| {name} | {' | '.join(cells)} | {warned:.0%} |"


def told(capsys, line):
    with capsys.disabled():
        print(f"\n{line}", end="", flush=True)


@pytest.mark.parametrize("name", DESIGNS)
def test_coverage_where_constraints_take_a_part_of_the_rows(name, capsys):
    given, withheld, warned = covered(DESIGNS[name], REPEATS)
    told(capsys, line_of(name, given, withheld, warned))
    for question in QUESTIONS:
        error = math.sqrt(0.05 * 0.95 / REPEATS)
        within = 0.925 - 2 * error <= given[question] <= 0.975 + 2 * error
        assert within or withheld[question] >= 0.9 or warned >= 0.9, question


def normal_means(rng, n, p):
    frame, known = columns_with_known_means(rng, n, p)
    return vardi.debias({"sample": frame}, {"sample": 1}, known=known).known.pvalue


def means_of_clusters(rng):
    frame, known = clusters_with_known_means(rng)
    return vardi.debias({"sample": frame}, {"sample": 1}, known=known, clusters="cluster").known.pvalue


def skewed_means(rng, n=60, p=5):
    frame = pd.DataFrame(rng.exponential(size=(n, p)), columns=[f"x{j}" for j in range(p)])
    return vardi.debias({"sample": frame}, {"sample": 1}, known=dict.fromkeys(frame, 1.0)).known.pvalue


LEVELS = {
    "10 normal means, n = 60": (lambda rng: normal_means(rng, 60, 10), 0.065, 0.018),
    "30 normal means, n = 100": (lambda rng: normal_means(rng, 100, 30), 0.065, 0.018),
    "3 means, 15 clusters of 8": (means_of_clusters, 0.065, 0.018),
    "5 exponential means, n = 60": (skewed_means, 0.09, 0.04),
}


@pytest.mark.parametrize("name", LEVELS)
def test_level_of_the_test_of_known_values(name, capsys):
    make, most, rarely = LEVELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)
        pvalues = np.array([make(np.random.default_rng([1, number])) for number in range(TESTS)])
    at_five, at_one = (float((pvalues < level).mean()) for level in (0.05, 0.01))
    told(capsys, f"| {name} | {at_five:.3f} | {at_one:.3f} |")
    assert 0.035 <= at_five <= most
    assert at_one <= rarely
