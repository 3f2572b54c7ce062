"""95% intervals of every kind of estimate cover where clusters are few or series short, or say that they may not.

1,000 seeded repeats in each design, fixed before the first run. The table stands in docs/coverage.md; run it with
``pytest -s tests/slow/test_few_clusters_coverage.py``.
"""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

import vardi

REPEATS = 1000
TENTH = norm.ppf(0.9)
GRID = np.linspace(-4.0, 4.0, 801)


def in_clusters(rng, clusters, rows, tilt=0.0, share=0.3):
    """Return x and the cluster of each row: N(tilt, 1), of which clusters explain a share."""
    effects = rng.normal(tilt * share, np.sqrt(share), clusters)
    x = np.repeat(effects, rows) + rng.normal(tilt * (1 - share), np.sqrt(1 - share), clusters * rows)
    return pd.DataFrame({"x": x, "g": np.repeat(np.arange(clusters), rows)})


def in_time(rng, n, rho, tilt=0.0):
    noise = rng.normal(size=n) * np.sqrt(1 - rho**2)
    noise[0] = rng.normal()
    return pd.DataFrame({"x": lfilter([1.0], [1.0, -rho], noise) + tilt})


def clusters(a, b):
    """Return a design of clusters in one sample without bias and, perhaps, in one by e^(x/2)."""

    def fit(rng):
        frames, biases = {"a": in_clusters(rng, *a)}, {"a": 1}
        if b is not None:
            own = in_clusters(rng, *b, tilt=0.5)
            frames["b"], biases["b"] = own.assign(g=own["g"] + 1000), "exp(x / 2)"
        return _with_halves(rng, frames, biases, clusters="g")

    return fit


def series(rho, n):
    """Return a design of two series, one without bias and one by e^(x/2)."""

    def fit(rng):
        frames = {"a": in_time(rng, n, rho), "b": in_time(rng, n, rho, 0.5)}
        return _with_halves(rng, frames, {"a": 1, "b": "exp(x / 2)"}, series=True)

    return fit


def _with_halves(rng, frames, biases, **dependence):
    for frame in frames.values():
        frame["half"] = rng.choice(["one", "other"], len(frame))
    return vardi.debias(frames, biases, **dependence)


DESIGNS = {
    "5 clusters of 40": clusters((5, 40), None),
    "8 + 8 clusters of 15": clusters((8, 15), (8, 15)),
    "40 clusters of 10, and 1 of 40": clusters((40, 10), (1, 40)),
    "AR(1) of .95, 2 of 400": series(0.95, 400),
    "AR(1) of .9, 2 of 800": series(0.9, 800),
}
ASKED = {
    "mean": (lambda fit: fit.expectation("x"), 0.0),
    "share of .5": (lambda fit: fit.expectation("x > 0"), 0.5),
    "share of .1": (lambda fit: fit.expectation(f"x > {TENTH}"), 0.1),
    "twice that share": (lambda fit: fit.expectation(f"2 * (x > {TENTH})"), 0.2),
    "median": (lambda fit: fit.cdf("x").quantile(0.5), 0.0),
    ".9 quantile": (lambda fit: fit.cdf("x").quantile(0.9), TENTH),
    "cdf at -1": (lambda fit: fit.cdf("x")(-1.0), norm.cdf(-1.0)),
    "cdf at 1.5": (lambda fit: fit.cdf("x")(1.5), norm.cdf(1.5)),
    "total of a condition": (lambda fit: fit.total("x > 0.5", size=1000.0), 1000.0 * norm.sf(0.5)),
    "difference of domains": (lambda fit: _difference(fit.expectation("x", by="half")), 0.0),
    "band": (lambda fit: fit.cdf("x").band(), None),
}


def _difference(domains):
    return domains["one"] - domains["other"]


def covers(answer, truth):
    """Return whether an interval or a band covers; NaN if it is withheld."""
    low, high = answer(GRID) if truth is None else answer.interval
    if np.isnan(low).any():
        return np.nan
    truth = norm.cdf(GRID) if truth is None else truth
    return float(np.all(low <= truth + 1e-12) and np.all(truth <= np.asarray(high) + 1e-12))


def _part(design, seeds):
    found = []
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that clusters are few
            fit = DESIGNS[design](np.random.default_rng(seed))
        row = []
        for ask, truth in ASKED.values():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                row.append((covers(ask(fit), truth), len(caught) > 0))
        found.append(row)
    return found


def simulated(design, repeats=REPEATS):
    """Return for each draw and estimate whether it is covered, NaN if withheld, and whether there was a warning."""
    seeds = np.random.SeedSequence(0).spawn(repeats)
    parts = joblib.Parallel(n_jobs=2)(joblib.delayed(_part)(design, seeds[k::20]) for k in range(20))
    return np.array([row for part in parts for row in part], float)


@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_cover_or_say_that_they_may_not(design):
    found = simulated(design)
    print(f"\n{design}: estimate, covered of those given, withheld, warned of or withheld")
    missed = {}
    for j, name in enumerate(ASKED):
        covered, warned = found[:, j].T
        given, withheld = covered[~np.isnan(covered)], np.isnan(covered)
        p = given.mean() if len(given) else np.nan
        told = (withheld | (warned > 0)).mean()
        print(f"  {name:<22} {p:.3f}  {withheld.mean():.3f}  {told:.3f}")
        slack = 2 * np.sqrt(max(p * (1 - p), 1e-4) / max(len(given), 1))
        low, high = (0.93, 1.0) if name == "band" else (0.925, 0.975)
        if not (told >= 0.9 or low - slack <= p <= high + slack):
            missed[name] = p
    assert not missed
