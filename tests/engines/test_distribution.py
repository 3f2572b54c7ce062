"""Distribution functions of rows that stay in an engine take few queries."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pyarrow as pa
import pytest
from engines import QUICK_TO_ASK
from pools import COLUMNS

import vardi

LOCAL = pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)


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
