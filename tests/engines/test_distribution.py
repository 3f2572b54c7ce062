"""Distribution functions of rows that stay in an engine: as from arrays, in a few queries."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from engines import QUICK_TO_ASK
from numpy.testing import assert_allclose
from pools import COLUMNS, LENGTHS, tables

import vardi

LOCAL = pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)


@LOCAL
@pytest.mark.parametrize("column", COLUMNS)
def test_heights_and_quantiles(engine, column):
    rows = tables(column=column)
    weights = vardi.debias({name: pl.from_arrow(table) for name, table in rows.items()}, LENGTHS).weights
    y = np.concatenate([table["y"].to_numpy() for table in rows.values()])
    x, place = np.unique(y, return_inverse=True)
    heights = np.cumsum(np.bincount(place, weights)) / len(y)
    cdf = vardi.debias(engine.samples(rows), LENGTHS).cdf("y")
    for q in (0.02, 0.3, 0.5, 0.3001, 0.99):
        assert cdf.quantile(q).value == x[np.searchsorted(heights, q - 1e-12)]
    assert_allclose(cdf.x, x)
    assert_allclose(cdf.heights, np.minimum(heights, 1.0), rtol=1e-10)
    assert f"steps from {x[0]:.4g} to {x[-1]:.4g}" in repr(cdf)


@LOCAL
@pytest.mark.parametrize("column", ["normal", "lognormal", "outliers", "atom"])
def test_a_median_takes_few_queries(engine, column, monkeypatch):
    rng = np.random.default_rng(0)
    x = 1.0 + rng.gamma(2.0, 1.0, 300_000)
    y = COLUMNS[column](rng, len(x))
    table = pa.table({"x": x, "y": y})
    cdf = vardi.debias({"long": engine.frame(table)}, {"long": "x"}).cdf("y")
    asked, collect = [], nw.LazyFrame.collect
    monkeypatch.setattr(
        nw.LazyFrame, "collect", lambda *given, **options: asked.append(1) or collect(*given, **options)
    )
    order = np.argsort(y)
    heights = np.cumsum((1 / x)[order]) / (1 / x).sum()
    assert cdf.quantile(0.5).value == y[order][np.searchsorted(heights, 0.5)]
    assert len(asked) <= 10  # for the median and its error
