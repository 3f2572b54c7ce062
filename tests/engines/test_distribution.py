"""Distribution functions of rows that stay in an engine: as from arrays, in a few queries."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from engines import QUICK_TO_ASK, local_engine
from numpy.testing import assert_allclose

import vardi
from vardi._inputs.lazy_part import Part
from vardi._rows import lazy_shares

LOCAL = pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
BIASES = {"all": 1, "long": "x", "some": "x > 1"}
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
    found = {}
    for place, name in enumerate(BIASES):
        x = 1.0 + rng.gamma(2.0 + place, 1.0, n + 20 * place)
        y, clusters = COLUMNS[column](rng, len(x)), np.arange(len(x)) % 40 + 40 * place
        found[name] = pa.table({"x": x, "y": y, "g": np.where(x > 3.5, "high", "low"), "c": clusters})
    return found


def both(engine, column="normal", **options):
    """Return the same fit of rows in memory and of rows in an engine."""
    found = tables(column=column)
    memory = vardi.debias({name: pl.from_arrow(table) for name, table in found.items()}, BIASES, **options)
    return memory, vardi.debias(engine.samples(found), BIASES, **options)


def same_band(found, wanted):
    for name in ("x", "value", "low", "high"):
        assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-7)


@LOCAL
@pytest.mark.parametrize("held", [100_000, 7])
@pytest.mark.parametrize("column", COLUMNS)
def test_heights_quantiles_and_ends(engine, column, held, monkeypatch):
    memory, fit = both(engine, column)
    y = np.concatenate([table["y"].to_numpy() for table in tables(column=column).values()])
    x, place = np.unique(y, return_inverse=True)
    heights = np.cumsum(np.bincount(place, memory.weights)) / len(y)
    monkeypatch.setattr(lazy_shares, "MOST_STEPS", held)
    monkeypatch.setattr(lazy_shares, "CELLS", 32)
    cdf = fit.cdf("y")
    steps = cdf._steps
    for q in (0.02, 0.3, 0.5, 0.3001, 0.99, 1.0):
        there = min(np.searchsorted(heights, q - 1e-12), len(x) - 1)
        assert steps.inverse(q) == x[there]
    assert steps.before_last(x[-1]) == x[-2]
    assert steps.before_last(x[1]) == x[1]
    assert repr(cdf) == f"DebiasedCdf(steps from {x[0]:.4g} to {x[-1]:.4g})"
    if len(x) <= held:
        assert_allclose(cdf.x, x)
        assert_allclose(cdf.heights, np.minimum(heights, 1.0), rtol=1e-10)
    else:
        with pytest.raises(vardi.errors.TooLargeError, match="more than 7 distinct values"):
            _ = cdf.x


@LOCAL
@pytest.mark.parametrize("held", [100_000, 7])
@pytest.mark.parametrize("column", ["normal", "rounded", "atom"])
def test_the_band_is_that_of_rows_in_memory(engine, column, held, monkeypatch):
    memory, fit = both(engine, column)
    monkeypatch.setattr(lazy_shares, "MOST_STEPS", held)
    same_band(fit.cdf("y").band(draws=50), memory.cdf("y").band(draws=50))


@LOCAL
@pytest.mark.parametrize("options", [{"by": "g"}, {"among": ["all", "some"]}, {"by": "g", "among": ["all", "some"]}])
@pytest.mark.parametrize("held", [100_000, 7])
def test_domains_and_some_samples(engine, options, held, monkeypatch):
    memory, fit = both(engine)
    monkeypatch.setattr(lazy_shares, "MOST_STEPS", held)
    found, wanted = fit.cdf("y", **options), memory.cdf("y", **options)
    for one, other in zip(*((cdf.values() if "by" in options else [cdf]) for cdf in (found, wanted)), strict=True):
        assert_allclose(one.quantile(0.4).value, other.quantile(0.4).value)
        assert_allclose(one.quantile(0.4).interval, other.quantile(0.4).interval, rtol=1e-8)
        same_band(one.band(draws=50), other.band(draws=50))


@pytest.mark.parametrize("depends", [{"known": {"x": 3.8}}, {"clusters": "c"}])
def test_bands_with_known_values_and_with_clusters(depends):
    memory, fit = both(local_engine("polars-lazy"), **depends)
    same_band(fit.cdf("y").band(draws=50), memory.cdf("y").band(draws=50))


@pytest.mark.parametrize("engine", ["polars-lazy", "duckdb", "dask"], indirect=True)
def test_the_grid_is_the_same_where_distinct_values_stay_in_the_engine(engine, monkeypatch):
    memory, fit = both(engine)
    monkeypatch.setattr(lazy_shares, "MOST_STEPS", 3)
    for found, wanted in zip(fit.cdf("y")._grid(40), memory.cdf("y")._grid(40), strict=True):
        assert_allclose(found, wanted, rtol=1e-10)


def test_a_grid_of_frames_that_no_query_joins(monkeypatch):
    memory, fit = both(local_engine("mixed"))
    monkeypatch.setattr(lazy_shares, "MOST_STEPS", 3)
    cdf = memory.cdf("y")
    places = np.searchsorted(cdf.heights, np.linspace(0.02, 0.98, 15) - 1e-12)
    assert_allclose(fit.cdf("y")._grid(15)[0], np.unique(cdf.x[places]))


def test_a_band_with_a_sample_of_a_single_row():
    rng = np.random.default_rng(0)
    frames = {
        "one": pl.LazyFrame({"x": [1.7]}),
        "two": pl.LazyFrame({"x": rng.gamma(2.0, 1.0, 60)}),
        "three": pl.LazyFrame({"x": rng.gamma(3.0, 1.0, 80)}),
    }
    biases = {"one": 1, "two": 1, "three": "x"}
    memory = vardi.debias({name: frame.collect() for name, frame in frames.items()}, biases)
    found = vardi.debias(frames, biases)
    same_band(found.cdf("x").band(draws=50), memory.cdf("x").band(draws=50))


@LOCAL
@pytest.mark.parametrize("column", ["normal", "lognormal", "outliers", "atom"])
def test_a_median_takes_few_queries(engine, column, monkeypatch):
    rng = np.random.default_rng(0)
    x = 1.0 + rng.gamma(2.0, 1.0, 300_000)
    y = COLUMNS[column](rng, len(x))
    table = pa.table({"x": x, "y": y})
    steps = vardi.debias({"long": engine.frame(table)}, {"long": "x"}).cdf("y")._steps
    asked, ask = [], Part.ask
    monkeypatch.setattr(Part, "ask", lambda part, build: asked.append(1) or ask(part, build))
    order = np.argsort(y)
    heights = np.cumsum((1 / x)[order]) / (1 / x).sum()
    assert steps.inverse(0.5) == y[order][np.searchsorted(heights, 0.5)]
    assert len(asked) <= 10
