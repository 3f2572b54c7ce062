"""95% intervals cover where rows depend on one another: clusters, series, strata, finite populations.

500 seeded repeats in each design, fixed before the first run. The table stands in docs/coverage.md; run it with
``pytest -s tests/slow/test_design_coverage.py``.
"""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pytest
from scipy.signal import lfilter
from sklearn.linear_model import LinearRegression

import vardi
from vardi.learn import inference

REPEATS = 500
TILT = {"a": 1, "b": "exp(x / 2)"}


def repeated(one):
    """Return what each repeat says: a row of 0 and 1 for each."""
    seeds = np.random.SeedSequence(0).spawn(REPEATS)

    def batch(part):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # counted where that is asked for
            return [one(np.random.default_rng(seed)) for seed in part]

    parts = joblib.Parallel(n_jobs=2)(joblib.delayed(batch)(seeds[k::20]) for k in range(20))
    return np.array([row for part in parts for row in part], float)


def covers(estimate, truth):
    low, high = estimate.interval
    return low <= truth <= high


def require(covered, low=0.93, high=0.97):
    """Assert that a bar lies within two Monte Carlo errors of what was observed."""
    p = covered.mean()
    slack = 2 * np.sqrt(max(p * (1 - p), 1e-4) / REPEATS)
    assert low - slack <= p <= high + slack, p


def in_clusters(rng, tilt, clusters, rows, share=0.5):
    """Return x and the cluster of each row: N(tilt, 1), of which clusters explain a share."""
    effects = rng.normal(tilt * share, np.sqrt(share), clusters)
    x = np.repeat(effects, rows) + rng.normal(tilt * (1 - share), np.sqrt(1 - share), clusters * rows)
    return x, np.repeat(np.arange(clusters), rows)


def sixty_of_twelve(rng):
    (a, own), (b, other) = in_clusters(rng, 0.0, 60, 12), in_clusters(rng, 0.5, 60, 12)
    labels = np.concatenate([own, 1000 + other])
    fit = vardi.debias({"a": a, "b": b}, TILT, clusters=labels)
    apart = vardi.debias({"a": a, "b": b}, TILT)
    omega = np.exp(1 / 8)
    return (
        covers(fit.expectation("x"), 0.0),
        covers(fit.cdf("x")(0.0), 0.5),
        covers(fit.cdf("x").quantile(0.5), 0.0),
        covers(fit.normalisers()["b"], omega),
        covers(apart.expectation("x"), 0.0),
    )


def test_clusters():
    found = repeated(sixty_of_twelve)
    print("\n60 clusters of 12: mean, cdf, median, normaliser, mean as if independent", found.mean(axis=0))
    for column in found.T[:4]:
        require(column)


def spanning(rng):
    """Forty clusters with rows in both samples, of the tilted one as many as it favours them."""
    effects = rng.normal(0.0, np.sqrt(0.5), 40)
    rows = rng.poisson(12 * np.exp(effects / 2 - 1 / 16))
    a = np.repeat(effects, 12) + rng.normal(0, np.sqrt(0.5), 480)
    b = np.repeat(effects, rows) + rng.normal(0.25, np.sqrt(0.5), rows.sum())
    labels = np.concatenate([np.repeat(np.arange(40), 12), np.repeat(np.arange(40), rows)])
    within = np.concatenate([np.repeat(np.arange(40), 12), 100 + np.repeat(np.arange(40), rows)])
    return [
        covers(vardi.debias({"a": a, "b": b}, TILT, clusters=clusters).expectation("x"), 0.0)
        for clusters in (labels, within, None)
    ]


def test_clusters_that_span_samples():
    found = repeated(spanning)
    print("\n40 spanning clusters: as declared, as if within samples, as if independent", found.mean(axis=0))
    require(found[:, 0])


def slopes(rng):
    """Errors and regressors that clusters have in common; the model is right."""
    frames, labels = {}, []
    for name, tilt in (("a", 0.0), ("b", 0.5)):
        x, own = in_clusters(rng, tilt, 50, 8)
        y = 1.0 + 2.0 * x + np.repeat(rng.normal(size=50), 8) + rng.normal(size=400)
        frames[name] = np.column_stack([x, y])
        labels.append(own + (1000 if name == "b" else 0))
    pool = {"a": 1, "b": "exp(x0 / 2)"}
    fit = vardi.debias(frames, pool, clusters=np.concatenate(labels))
    result = inference(fit, LinearRegression(), ["x0"], "x1")
    return covers(result["x0"], 2.0), covers(result["intercept"], 1.0)


def test_regression_coefficients():
    found = repeated(slopes)
    print("\ncoefficients, 50 + 50 clusters of 8: slope, intercept", found.mean(axis=0))
    for column in found.T:
        require(column)


def autoregressive(rng, n, rho, mean):
    noise = rng.normal(size=n) * np.sqrt(1 - rho**2)
    noise[0] = rng.normal()
    return lfilter([1.0], [1.0, -rho], noise) + mean


def series_of(rho, n, samples):
    centres = np.linspace(-1, 1, samples)

    def one(rng):
        rows = {str(k): autoregressive(rng, n, rho, centre) for k, centre in enumerate(centres)}
        biases = {str(k): f"exp({centre} * x)" for k, centre in enumerate(centres)}
        fit = vardi.debias(rows, biases, series=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            square = fit.expectation("x * x")
        apart = vardi.debias(rows, biases).expectation("x * x")
        last = fit.log_normalisers()
        difference = last[str(samples - 1)] - last["0"]
        return (
            covers(square, 1.0),
            covers(fit.expectation("x"), 0.0),
            covers(difference, 0.0),
            len(caught) > 0,
            covers(apart, 1.0),
        )

    return one


@pytest.mark.parametrize(("rho", "n", "samples"), [(0.5, 500, 2), (0.8, 1000, 2), (0.9, 3000, 3)])
def test_series(rho, n, samples):
    found = repeated(series_of(rho, n, samples))
    print(f"\nAR(1) {rho}, {samples} of {n}: x^2, x, difference of logs, warned, as if independent", found.mean(axis=0))
    for column in found.T[:3]:
        require(column)


@pytest.mark.parametrize(("rho", "n", "samples"), [(0.9, 800, 2), (0.95, 400, 2)])
def test_short_series_cover_or_are_warned_of(rho, n, samples):
    found = repeated(series_of(rho, n, samples))
    print(f"\nAR(1) {rho}, {samples} of {n}: x^2, x, difference of logs, warned, as if independent", found.mean(axis=0))
    p, warned = found[:, 0].mean(), found[:, 3].mean()
    assert p + 2 * np.sqrt(p * (1 - p) / REPEATS) >= 0.90 or warned >= 0.9


def by_strata(rng):
    """A sample with so many rows of each of four strata as they have in the population, and one by size."""
    centres, shares = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.4, 0.3, 0.2, 0.1])
    strata = np.repeat(np.arange(4), (200 * shares).astype(int))
    plain = rng.gamma(4.0, centres[strata] / 4.0)
    favoured = rng.choice(4, size=150, p=shares * centres / (shares @ centres))
    sized = rng.gamma(5.0, centres[favoured] / 4.0)
    fit = vardi.debias({"a": plain, "b": sized}, {"a": 1, "b": "x"}, strata=np.concatenate([strata, np.full(150, 9)]))
    return covers(fit.expectation("x"), shares @ centres), covers(
        vardi.debias({"a": plain}, {"a": 1}, strata=strata).expectation("x"), shares @ centres
    )


def test_strata():
    found = repeated(by_strata)
    print("\nstrata: beside a sample by size, alone", found.mean(axis=0))
    for column in found.T:
        require(column)


def finite(rng):
    """Two draws without replacement from 600 units, whose own mean is asked for."""
    units = rng.gamma(3.0, size=600)
    drawn = {name: rng.choice(units, size=n, replace=False) for name, n in (("a", 250), ("b", 150))}
    fit = vardi.debias(drawn, {"a": 1, "b": 1}, population=600)
    alone = vardi.debias({"a": drawn["a"]}, {"a": 1}, population=600)
    apart = vardi.debias({"a": drawn["a"]}, {"a": 1})
    return [covers(one.expectation("x"), units.mean()) for one in (fit, alone, apart)]


@pytest.mark.filterwarnings("ignore::vardi.errors.SharedUnitsWarning")
def test_finite_populations():
    found = repeated(finite)
    print("\n600 units: two samples, one, one as if of a population without end", found.mean(axis=0))
    for column in found.T[:2]:
        require(column)
