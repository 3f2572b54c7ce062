"""Weights asked of an engine, against arrays."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from dense import point, problem
from engines import QUICK_TO_ASK, as_lazy_pool, collected, local_engine
from numpy.testing import assert_allclose
from test_moments import EVERYTHING, Oracle, prepared, rescaled

import vardi
from vardi._rows.engine import weights
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.point import KnownMoments, Point

POLARS = local_engine("polars-lazy")
LOCAL = pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)


@LOCAL
@pytest.mark.parametrize(
    ("parts", "form"), [("", "labels"), (EVERYTHING, "frames"), ("known logistic", "labels counts")]
)
def test_weights_by_sample(engine, parts, form):
    given = problem(parts, form)
    measure, functions, oracle, _ = prepared(given, engine)
    at = EngineMoments(given.model(given.pool(engine)), measure.point)
    K = len(given.names)
    source = oracle.dense.source
    sums = weights.weights_by_sample(at)
    mass = np.bincount(source, oracle.c * oracle.r, minlength=K)
    assert_allclose(sums.mass, mass)
    assert_allclose(sums.squares, np.bincount(source, oracle.c * oracle.r**2, minlength=K))
    largest = [oracle.r[source == k].max(initial=-np.inf) for k in range(K)]
    assert_allclose(sums.largest, largest)
    assert_allclose(sums.shares, mass / mass.sum())
    assert_allclose(sums.effective, mass.sum() ** 2 / (oracle.c @ oracle.r**2))
    positive = (oracle.dense.omega > 0) * 1.0
    assert_allclose(weights.overlap(at), (positive.T * (oracle.c * oracle.r)) @ positive / oracle.n)
    assert_allclose(weights.pooled_means(at, functions), oracle.c @ oracle.F / oracle.n)


@LOCAL
@pytest.mark.parametrize("form", ["frames", "labels counts"])
def test_weights_are_a_column_of_the_user_s_frames(engine, form):
    given = problem(EVERYTHING, form)
    v = rescaled(given, point(given))
    model, oracle = given.model(given.pool(engine)), Oracle(given, v)
    at = EngineMoments(model, Point(model.model, v))
    by_id = dict(zip(given.rows["id"].tolist(), oracle.r.tolist(), strict=True))
    counts = dict(zip(given.rows["id"].tolist(), oracle.c.tolist(), strict=True))
    total, seen = 0.0, 0
    for frame, shares, table in zip(
        weights.weights_column(at).values(),
        weights.probabilities_column(at).values(),
        given.tables.values(),
        strict=True,
    ):
        rows = collected(frame)
        assert [name for name in rows if name != "weight"] == table.column_names
        assert_allclose(rows["weight"], [by_id.get(one, 0.0) for one in rows["id"]], rtol=1e-9)
        part = collected(shares)
        wanted = [by_id.get(one, 0.0) * counts.get(one, 0.0) / oracle.n for one in part["id"]]
        assert_allclose(part["probability"], wanted, rtol=1e-9)
        total, seen = total + sum(part["probability"]), seen + len(rows["id"])
    assert_allclose(total, 1.0)
    assert seen == sum(table.num_rows for table in given.tables.values())


def test_a_column_that_is_there_already():
    frames = {"a": pl.LazyFrame({"x": [1.0, 2.0], "weight": [1, 2]})}
    pool = as_lazy_pool(frames, {"a": "x"}, source=None, counts=None)
    model = EngineModel.of(pool, KnownMoments.none())
    at = EngineMoments(model, Point(model.model, np.zeros(1)))
    with pytest.raises(vardi.MismatchError, match="There is already a column 'weight'"):
        weights.weights_column(at)


def test_a_function_of_two_conditions():
    frames = {"a": pl.LazyFrame({"x": [1.0, 2.0, 4.0]})}
    x = EngineFunction(lambda part: nw.col("x"), "x")
    both = x.times(x.map(lambda one: (one > 1.5).cast(nw.Float64)))
    assert_allclose(vardi.debias(frames, {"a": 1}).held.tangent.measure.mean([both]), 2.0)
