"""Sums by cell and by domain in parts: what is too many for memory is asked in several queries."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest
from engines import local_engine
from numpy.testing import assert_allclose
from pools import COLUMNS, LENGTH_BIASED, LENGTHS, PLACES, close, numbers, places_and_years, tables

import vardi
from vardi._estimate.domains import _judged
from vardi._rows import lazy_shares

LOCAL = pytest.mark.parametrize(
    "engine", [local_engine("polars-lazy"), local_engine("duckdb")], ids=["polars", "duckdb"]
)


@cache
def both(engine, column="normal"):
    """Return the same fit of rows in memory and of rows in an engine."""
    found = tables(column=column)
    memory = vardi.debias({name: pl.from_arrow(table) for name, table in found.items()}, LENGTHS)
    return memory, vardi.debias(engine.samples(found), LENGTHS)


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


@pytest.fixture(scope="module")
def samples():
    return places_and_years()


@pytest.fixture(scope="module")
def fit(samples):
    return vardi.debias(samples, LENGTH_BIASED)


# ---------------------------------------------------------------- what a domain's number is


def test_domains_in_blocks_are_domains_at_once(fit, monkeypatch):
    whole = [numbers(one) for one in fit.expectation("y", by=["region", "year"]).values()]
    monkeypatch.setattr(_judged, "__defaults__", (2,))  # domains at once
    close([numbers(one) for one in fit.expectation("y", by=["region", "year"]).values()], whole)


# ---------------------------------------------------------------- engines


@pytest.mark.parametrize("place", ["polars", "duckdb"])
def test_many_domains_are_asked_in_batches_with_the_same_answer(samples, place, monkeypatch):
    many = {name: frame.assign(part=frame.index % 9) for name, frame in samples.items()}
    memory, engine = (vardi.debias(PLACES[one](many), LENGTH_BIASED) for one in ("memory", place))
    monkeypatch.setattr(_judged, "__defaults__", (4,))
    one, other = memory.expectation("y", by="part"), engine.expectation("y", by="part")
    close([numbers(a) for a in other.values()], [numbers(a) for a in one.values()], rtol=1e-8, atol=1e-8)
    close(other.joint.covariance, one.joint.covariance, rtol=1e-8, atol=1e-12)
