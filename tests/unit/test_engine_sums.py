"""Sums by cell and by domain in parts: what is too many for memory is asked in several queries."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from engines import local_engine
from numpy.testing import assert_allclose

import vardi
from vardi._estimate.domains import _judged
from vardi._rows import lazy_shares

LOCAL = pytest.mark.parametrize(
    "engine", [local_engine("polars-lazy"), local_engine("duckdb")], ids=["polars", "duckdb"]
)
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
@pytest.mark.parametrize("column", COLUMNS)
def test_heights_quantiles_and_ends(engine, column, monkeypatch):
    memory, fit = both(engine, column)
    y = np.concatenate([table["y"].to_numpy() for table in tables(column=column).values()])
    x, place = np.unique(y, return_inverse=True)
    heights = np.cumsum(np.bincount(place, memory.weights)) / len(y)
    monkeypatch.setattr(lazy_shares, "MOST_STEPS", 7)
    monkeypatch.setattr(lazy_shares, "CELLS", 32)
    cdf = fit.cdf("y")
    steps = cdf._steps
    for q in (0.02, 0.3, 0.5, 0.3001, 0.99, 1.0):
        there = min(np.searchsorted(heights, q - 1e-12), len(x) - 1)
        assert steps.inverse(q) == x[there]
    assert steps.before_last(x[-1]) == x[-2]
    assert steps.before_last(x[1]) == x[1]
    assert repr(cdf) == f"DebiasedCdf(steps from {x[0]:.4g} to {x[-1]:.4g})"
    if len(x) > 7:
        with pytest.raises(vardi.errors.TooLargeError, match="more than 7 distinct values"):
            _ = cdf.x


@LOCAL
@pytest.mark.parametrize("column", ["normal", "rounded", "atom"])
def test_the_band_is_that_of_rows_in_memory(engine, column, monkeypatch):
    memory, fit = both(engine, column)
    monkeypatch.setattr(lazy_shares, "MOST_STEPS", 7)
    same_band(fit.cdf("y").band(draws=50), memory.cdf("y").band(draws=50))


@LOCAL
@pytest.mark.parametrize("options", [{"by": "g"}, {"among": ["all", "some"]}, {"by": "g", "among": ["all", "some"]}])
def test_domains_and_some_samples(engine, options, monkeypatch):
    memory, fit = both(engine)
    monkeypatch.setattr(lazy_shares, "MOST_STEPS", 7)
    found, wanted = fit.cdf("y", **options), memory.cdf("y", **options)
    for one, other in zip(*((cdf.values() if "by" in options else [cdf]) for cdf in (found, wanted)), strict=True):
        assert_allclose(one.quantile(0.4).value, other.quantile(0.4).value)
        assert_allclose(one.quantile(0.4).interval, other.quantile(0.4).interval, rtol=1e-8)
        same_band(one.band(draws=50), other.band(draws=50))


@LOCAL
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


pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")

DOMAIN_BIASES = {"plain": 1, "seen": "x"}


def rows(n, shape, rng):
    x = rng.gamma(shape, size=n)
    return pd.DataFrame({
        "x": x,
        "y": 0.5 * x + rng.normal(size=n) + 3.0,
        "region": rng.choice(["W", "N", "S"], n, p=[0.5, 0.3, 0.2]),
        "year": rng.choice([2021, 2020], n),
        "seven": 7.0,
    })  # fmt: skip


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    return {"plain": rows(150, 3.0, rng), "seen": rows(250, 4.0, rng)}


@pytest.fixture(scope="module")
def fit(samples):
    return vardi.debias(samples, DOMAIN_BIASES)


def numbers(estimate):
    return [estimate.value, estimate.stderr, *estimate.interval, estimate.df]


def close(found, expected, rtol=1e-12, atol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


# ---------------------------------------------------------------- what a domain's number is


def test_domains_in_blocks_are_domains_at_once(fit, monkeypatch):
    whole = [numbers(one) for one in fit.expectation("y", by=["region", "year"]).values()]
    monkeypatch.setattr(_judged, "__defaults__", (2,))  # domains at once
    close([numbers(one) for one in fit.expectation("y", by=["region", "year"]).values()], whole)


# ---------------------------------------------------------------- shares


# ---------------------------------------------------------------- distributions


# ---------------------------------------------------------------- names


# ---------------------------------------------------------------- refusals


def lazy_polars(samples):
    return {name: pl.from_pandas(frame).lazy() for name, frame in samples.items()}


def lazy_duckdb(samples):
    connection = duckdb.connect()
    for name, frame in samples.items():
        connection.register(f"rows_{name}", pl.from_pandas(frame).to_arrow())
        connection.execute(f"create table {name} as select * from rows_{name}")
    return {name: connection.table(name) for name in samples}


PLACES = {"memory": lambda samples: samples, "polars": lazy_polars, "duckdb": lazy_duckdb}


# ---------------------------------------------------------------- engines


@pytest.mark.parametrize("place", ["polars", "duckdb"])
def test_many_domains_are_asked_in_batches_with_the_same_answer(samples, place, monkeypatch):
    many = {name: frame.assign(part=frame.index % 9) for name, frame in samples.items()}
    memory, engine = (vardi.debias(PLACES[one](many), DOMAIN_BIASES) for one in ("memory", place))
    monkeypatch.setattr(_judged, "__defaults__", (4,))
    one, other = memory.expectation("y", by="part"), engine.expectation("y", by="part")
    close([numbers(a) for a in other.values()], [numbers(a) for a in one.values()], rtol=1e-8, atol=1e-8)
    close(other.joint.covariance, one.joint.covariance, rtol=1e-8, atol=1e-12)
