"""Pools of biased samples, and fits of them, that several files of tests ask about."""

from __future__ import annotations

import builtins
import itertools

import duckdb
import numpy as np
import oracle
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge

import vardi

PARTS = {
    "none": ("x", None),
    "known values": ("x", {"x > 4": 0.24, "y": (3.1, 0.1)}),
    "parameters": (vardi.power("x"), None),
    "both": (vardi.power("x"), {"x > 4": (0.24, 0.01)}),
}


def gammas(n=300):
    """Return two samples, one length-biased, with clusters and with ids in no order."""
    rng = np.random.default_rng(0)
    samples = {}
    for place, (name, size, shape) in enumerate([("plain", n, 3.0), ("seen", 5 * n // 3, 4.0)]):
        x = rng.gamma(shape, size=size)
        cluster = np.arange(size) // 10
        y = x + rng.normal(size=size) + rng.normal(size=cluster[-1] + 1)[cluster]
        ids = rng.permutation(size) - size // 3
        samples[name] = pl.DataFrame({"x": x, "y": y, "id": ids, "cluster": cluster + 1000 * place})
    return samples


def gammas_fit(samples, part="none", **options):
    bias, known = PARTS[part]
    return vardi.debias(samples, {"plain": 1, "seen": bias}, known=known, **options)


def grouped_fit(samples, part, *, lazy):
    """Return a fit of gammas, in Polars if lazy, that also knows of a state without rows."""
    bias, known = PARTS[part]
    rows = {name: frame.lazy() for name, frame in samples.items()} if lazy else samples
    return vardi.debias(rows, {"plain": 1, "seen": bias, "beyond": "x > 5"}, known=known)


def strata_fit(n=400, seed=0, counts=None):
    """Three indicator biases and a column y; omega has few distinct rows."""
    rng = np.random.default_rng(seed)
    low, high = np.array([0.0, 0.3, 0.6]), np.array([0.45, 0.75, 1.0])
    source = rng.integers(0, 3, n)
    x = low[source] + (high - low)[source] * rng.random(n)
    y = np.sin(3 * x) + 0.3 * rng.standard_normal(n)
    omega = ((x[:, None] >= low) & (x[:, None] <= high)).astype(float)
    return vardi.debias_matrix(omega, source, counts=counts), omega, source, y


def three_tilts(seed=0, sizes=(120, 90, 110)):
    """Three tilts, two features, and outcomes of three sorts that no linear model gets right."""
    rng = np.random.default_rng(seed)
    design = vardi.datasets.tilts(sizes, seed, centres=(0.0, 1.5, 3.0))
    x = np.concatenate(list(design.samples.values()))
    v = rng.normal(0.5 * x, 1.0)
    frame = pd.DataFrame({
        "x": x,
        "v": v,
        "number": np.sin(x) + v**2 / 4 + rng.standard_normal(len(x)),
        "yes": (rng.random(len(x)) < expit(x - v**2 / 2)).astype(int),
        "events": rng.poisson(np.exp(0.3 * x + np.cos(v))),
    })  # fmt: skip
    return frame, np.repeat(list(design.biases), sizes), design.biases


def debiased(frame, source, biases, counts=None):
    return vardi.debias(frame, biases, source=source, counts=counts)


MODELS = {
    "linear": (LinearRegression(), "number"),
    "linear through 0": (LinearRegression(fit_intercept=False), "number"),
    "ridge": (Ridge(alpha=20.0), "number"),
    "ridge through 0": (Ridge(alpha=20.0, fit_intercept=False), "number"),
    "logistic": (LogisticRegression(C=np.inf), "yes"),
    "logistic l2": (LogisticRegression(C=0.05), "yes"),
    "logistic through 0": (LogisticRegression(C=0.05, fit_intercept=False), "yes"),
    "poisson": (PoissonRegressor(alpha=0.0), "events"),
    "poisson l2": (PoissonRegressor(alpha=0.3), "events"),
}


CURVED_BIASES = {"all": 1, "high": "y > 1.3"}


def mean_of(x):
    return 0.3 + 0.8 * x + np.sin(2 * x)


def spread_of(x):
    return 0.4 + 0.3 * np.abs(x)


def population(n, rng):
    """Return X uniform on (-2, 2), and a curved outcome whose spread grows away from the middle."""
    x = rng.uniform(-2.0, 2.0, n)
    return x, mean_of(x) + spread_of(x) * rng.uniform(-(3**0.5), 3**0.5, n)


def curved_pool(seed=0, sizes=(150, 350)):
    """Return rows of the population, and rows with an outcome above 1.3 only."""
    rng = np.random.default_rng(seed)
    x, y = population(sum(sizes) * 10, rng)
    rows = np.concatenate([np.arange(sizes[0]), sizes[0] + np.flatnonzero(y[sizes[0] :] > 1.3)[: sizes[1]]])
    return x[rows, None], y[rows], np.repeat(["all", "high"], sizes)


def curved_fit(rows=None):
    X, y, source = curved_pool() if rows is None else rows
    return vardi.debias(pd.DataFrame({"x0": X[:, 0], "y": y}), CURVED_BIASES, source=source)


def places_and_years():
    """Return two samples, one length-biased, with domains of several sizes."""
    rng = np.random.default_rng(0)
    samples = {}
    for name, n, shape in (("plain", 150, 3.0), ("seen", 250, 4.0)):
        x = rng.gamma(shape, size=n)
        samples[name] = pd.DataFrame({
            "x": x,
            "y": 0.5 * x + rng.normal(size=n) + 3.0,
            "region": rng.choice(["W", "N", "S"], n, p=[0.5, 0.3, 0.2]),
            "year": rng.choice([2021, 2020], n),
            "seven": 7.0,
        })  # fmt: skip
    return samples


#: Where frames of pandas may live.
PLACES = {
    "memory": lambda frames: frames,
    "polars": lambda frames: {name: pl.from_pandas(frame).lazy() for name, frame in frames.items()},
    "duckdb": lambda frames: {
        name: duckdb.from_arrow(pl.from_pandas(frame).to_arrow()) for name, frame in frames.items()
    },
}

LENGTH_BIASED = {"plain": 1, "seen": "x"}

LENGTHS = {"all": 1, "long": "x", "some": "x > 1"}


COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "rounded": lambda rng, n: np.round(rng.normal(size=n), 1),
    "lognormal": lambda rng, n: np.exp(3.0 * rng.normal(size=n)),
    "large": lambda rng, n: rng.normal(size=n) * 1e300,
    "tiny": lambda rng, n: rng.random(n) * 1e-300,
    "offset": lambda rng, n: 1e9 + rng.normal(size=n),
    "outliers": lambda rng, n: np.where(rng.random(n) < 0.02, 1e12, rng.normal(size=n)),
    "atom": lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.normal(size=n)),
}


def tables(n=60, column="normal"):
    rng = np.random.default_rng(0)
    pool = {}
    for place, name in enumerate(LENGTHS):
        x = 1.0 + rng.gamma(2.0 + place, 1.0, n + 20 * place)
        y, clusters = COLUMNS[column](rng, len(x)), np.arange(len(x)) % 40 + 40 * place
        pool[name] = pa.table({"x": x, "y": y, "g": np.where(x > 3.5, "high", "low"), "c": clusters})
    return pool


FAMILIES = {
    "logistic": vardi.logistic("x", "w"),
    "tilt": vardi.exponential_tilt("x", "w"),
    "power": vardi.power("exp(x)"),
    "steps": vardi.steps("x", [-0.5, 0.8]),
    "cells": vardi.cells("g", "h"),
}


def normal_frame(rng, n):
    x = rng.normal(size=n)
    rows = pd.DataFrame({"x": x, "w": 0.3 * x + rng.normal(size=n), "y": x**2 + rng.normal(size=n)})
    return rows.assign(g=np.select([rows["w"] < -0.7, rows["w"] > 0.4], ["a", "c"], "b"), h=rows["x"] > 0.2)


def selected(rng, n, accept):
    rows = normal_frame(rng, 60 * n)
    return rows[rng.random(len(rows)) < accept(rows)][:n].reset_index(drop=True)


def reference_and_panel():
    """Return rows of a population, and those of a panel that large x made likelier and large w less likely."""
    rng = np.random.default_rng(1)
    panel = selected(rng, 500, lambda z: expit(-0.5 + 2.0 * z["x"] - z["w"]))
    return {"reference": normal_frame(rng, 250), "panel": panel}


def fit_of(samples, bias, **options):
    return vardi.debias(samples, {"reference": 1, "panel": bias}, **options)


def small_design(kind="power", K=3, n=32, seed=0):
    return oracle.design(kind, K, n, seed)


def refitted(omega, source, f, delta):
    """Return the estimate under omega e^delta, by the public way."""
    fit = vardi.debias_matrix(omega * np.exp(delta), source)
    return float(np.average(f, weights=fit.weights))


def along_windows(K, rows=40, seed=0):
    """K samples along a line, each of which overlaps its neighbours."""
    rng = np.random.default_rng(seed)
    samples = {f"window {k}": rng.uniform(k, k + 2, rows) for k in range(K)}
    return vardi.debias(samples, {f"window {k}": f"{k} <= x <= {k + 2}" for k in range(K)})


def by_name(rows, name):
    return next(row for row in rows if row.name == name)


def said(report):
    return " ".join(point.text for point in report.headline.points)


def numbers(estimate):
    return [estimate.value, estimate.stderr, *estimate.interval, estimate.df]


def close(found, expected, rtol=1e-12, atol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def differences(values, n, K, kind, step=1e-4):
    """Return the sum of the sizes of all derivatives of ``values(delta)``, each by two refits."""
    moves = np.eye(K) if kind == "free" else np.ones((1, K))
    total = 0.0
    for i, move in itertools.product(range(n), moves):
        delta = np.zeros((n, K))
        delta[i] = step * move
        total = total + np.abs(values(delta) - values(-delta)) / (2 * step)
    return total


def houses_by_the_river():
    """Return the fit of house prices, with a state that no sample was drawn from."""
    design = vardi.datasets.house_prices(seed=0)
    return vardi.debias(design.samples, {**design.biases, "river": "CHAS == 1"})


def large():
    """A pool that is solved in threads."""
    design = vardi.datasets.harmonic_oscillators(states=6, rows_per_state=40_000, seed=0)
    return design.omega, design.source


def solved(_=None):
    omega, source = large()
    fit = vardi.debias_matrix(omega, source, log=True)
    return fit.solution.u, float(fit.weights[17])


HOSTILE = "<script>x</script>"
MANY_SAMPLES = 23


def hostile_fit():
    """Return a fit of many samples, with names that would be markup."""
    rng = np.random.default_rng(0)
    samples = {}
    for k in range(MANY_SAMPLES):
        x = rng.gamma(3.0, size=60)
        samples[f"{HOSTILE} {k}"] = pd.DataFrame({"x": x, HOSTILE: rng.normal(x), "kind": rng.choice(["a", "<b>"], 60)})
    return vardi.debias(samples, dict.fromkeys(samples, "1 + 0 * x"), known={"x < 2": 0.323})


def without_matplotlib(monkeypatch):
    """Let imports of Matplotlib fail, as where it is not installed."""
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
