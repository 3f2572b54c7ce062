"""Weights and distributions asked of an engine, against arrays."""

from __future__ import annotations

from types import SimpleNamespace

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from dense import problem
from engines import QUICK_TO_ASK, as_lazy_pool, local_engine
from numpy.testing import assert_allclose
from test_moments import EVERYTHING, prepared

import vardi
from vardi._rows.engine import distribution as module
from vardi._rows.engine.distribution import EngineDistribution
from vardi._rows.engine.functions import EngineFunction, compiled_functions
from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.moments import EngineMoments

POLARS = local_engine("polars-lazy")
LOCAL = pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)


class Cdf:
    """F of a column and its band's grid, from arrays."""

    def __init__(self, oracle, x):
        self.x, place = np.unique(x, return_inverse=True)
        self.values, self.oracle = x, oracle
        self.heights = np.cumsum(np.bincount(place, oracle.c * oracle.r)) / oracle.n

    def grid(self, most, tail):
        inner = self.x[(self.heights >= tail) & (self.heights <= 1 - tail)]
        return inner[np.unique(np.linspace(0, len(inner) - 1, min(most, len(inner))).astype(int))]

    def at(self, t):
        return self.heights[np.searchsorted(self.x, t, side="right") - 1]

    def covariance(self, grid, b):
        oracle = self.oracle
        below = self.values[:, None] <= grid
        phi = oracle.r[:, None] * (below - self.at(grid)) + oracle.dense.q @ b
        return oracle.covariance(phi)

    def against(self, grid):
        oracle = self.oracle
        below = self.values[:, None] <= grid
        return oracle.dense.x.T @ ((oracle.c * oracle.r)[:, None] * (below - self.at(grid)))


def both(parts, form, engine, column="y"):
    given = problem(parts, form)
    at, _, oracle, _ = prepared(given, engine)
    function = compiled_functions(at.parts, [vardi.where(column)], [column])[0]
    return given, EngineDistribution(at, function), Cdf(oracle, np.asarray(given.rows[column], float))


@LOCAL
@pytest.mark.parametrize(("parts", "form"), [("", "frames"), (EVERYTHING, "labels counts")])
def test_heights_quantiles_and_ends(engine, parts, form):
    _, found, wanted = both(parts, form, engine)
    points = np.array([95.0, 100.0, 103.5, 110.0])
    assert_allclose(found.at_points(points), wanted.at(points), rtol=1e-10)
    assert_allclose(found.at.mean(found.below(points)), wanted.at(points), rtol=1e-10)
    many = np.linspace(90.0, 120.0, 60)
    assert_allclose(found.at_points(many), np.where(many < wanted.x[0], 0.0, wanted.at(many)), rtol=1e-10)
    assert found.ends == (wanted.x[0], wanted.x[-1])
    assert found.before_last(wanted.x[-1]) == wanted.x[-2]
    assert found.before_last(wanted.x[4]) == wanted.x[4]
    assert found.before(wanted.x[4]) == wanted.x[3]
    for q in (0.02, 0.5, 0.9):
        assert found.inverse(q) == wanted.x[np.searchsorted(wanted.heights, q - 1e-12)]
    several = np.array([0.1, 0.3, 0.3001, 0.99, 1.0])
    there = np.minimum(np.searchsorted(wanted.heights, several - 1e-12), len(wanted.x) - 1)
    assert_allclose(found.inverses(several), wanted.x[there], rtol=0)
    assert str(found) == f"steps from {wanted.x[0]:.4g} to {wanted.x[-1]:.4g}"
    assert_allclose(found.x, wanted.x)
    assert_allclose(found.heights, np.minimum(wanted.heights, 1.0), rtol=1e-10)
    assert_allclose(found.inverses(several), wanted.x[there], rtol=0)


@LOCAL
def test_masses_of_intervals(engine):
    given, found, wanted = both("known logistic", "labels counts", engine)
    edges = np.array([96.0, 100.0, 101.0, 106.0])
    place = np.searchsorted(edges, given.rows["y"])
    oracle = wanted.oracle
    assert_allclose(found.masses(edges), np.bincount(place, oracle.c * oracle.r, minlength=5) / oracle.n)
    pooled = np.zeros((len(given.names), 5))
    np.add.at(pooled, (oracle.dense.source, place), oracle.c)
    pool = EngineDistribution(found.at, found.function, weighted=False)
    assert_allclose(pool.masses(edges), pooled.sum(axis=0) / oracle.n)


@LOCAL
@pytest.mark.parametrize("column", ["y", "k"])
@pytest.mark.parametrize("held", [100_000, 3])
def test_cells_of_about_as_many_rows(engine, column, held, monkeypatch):
    monkeypatch.setattr(module, "MOST_STEPS", held)
    given, found, _ = both("", "labels counts", engine, column)
    pool = EngineDistribution(found.at, found.function, weighted=False)
    x, c = np.asarray(given.rows[column], float), given.rows["count"]
    distinct, place = np.unique(x, return_inverse=True)
    below = np.cumsum(np.bincount(place, c))
    last = np.unique(np.searchsorted(below, np.linspace(0, 1, 6)[1:] * below[-1] * (1 - 1e-12)))
    last = np.arange(len(distinct)) if len(distinct) <= 5 else last
    low, high = pool.cells(5)
    if held > 3 or column == "y":
        assert_allclose(high, distinct[last])
        assert_allclose(low, distinct[np.concatenate([[0], last[:-1] + 1])])
    else:  # values that are not all looked at: those that hold a fifth
        assert set(high) <= set(distinct)
        assert high[-1] == distinct[-1]


def test_steps_that_are_too_many_to_hold(monkeypatch):
    monkeypatch.setattr(module, "MOST_STEPS", 3)
    _, found, _ = both("", "labels", POLARS)
    with pytest.raises(vardi.errors.TooLargeError, match="more than 3 distinct values"):
        _ = found.x


@LOCAL
@pytest.mark.parametrize(
    ("parts", "form"), [("", "labels"), ("known logistic tilt", "frames"), (EVERYTHING, "labels counts")]
)
def test_the_covariance_of_a_band(engine, parts, form):
    given, found, wanted = both(parts, form, engine)
    grid = found.grid(25, 0.02)
    assert_allclose(grid.x, wanted.grid(25, 0.02))
    assert_allclose(grid.heights, wanted.at(grid.x), rtol=1e-10)
    rng = np.random.default_rng(5)
    J = rng.normal(size=(given.size(), given.size())) / 300
    J[given.names.index("none")] = 0.0
    b = J @ wanted.against(grid.x)
    tangent = SimpleNamespace(jacobian=SimpleNamespace(solve=lambda a: J @ a))
    covariance = found.covariance(grid.x, grid.heights, tangent)
    beyond = b[given.size() - given.known.root.shape[1] :]
    expected = wanted.covariance(grid.x, b) + beyond.T @ beyond / wanted.oracle.n**2
    assert_allclose(covariance, expected, rtol=1e-8, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("engine", ["polars-lazy", "duckdb", "dask"], indirect=True)
@pytest.mark.parametrize(("form", "column"), [("frames", "y"), ("labels counts", "k")])
def test_the_grid_is_the_same_where_distinct_values_stay_in_the_engine(engine, form, column, monkeypatch):
    monkeypatch.setattr(module, "MOST_STEPS", 3)
    _, found, wanted = both("known tilt", form, engine, column)
    assert found.steps is None
    grid = found.grid(40, 0.02)
    assert_allclose(grid.x, wanted.grid(40, 0.02))
    assert_allclose(grid.heights, wanted.at(grid.x), rtol=1e-10)


def test_a_grid_of_frames_that_no_query_joins(monkeypatch):
    monkeypatch.setattr(module, "MOST_STEPS", 3)
    _, found, wanted = both("", "frames", local_engine("mixed"))
    grid = found.grid(15, 0.02)
    q = np.linspace(0.02, 0.98, 15)
    assert_allclose(grid.x, np.unique(wanted.x[np.searchsorted(wanted.heights, q - 1e-12)]))


def test_a_band_with_a_sample_of_a_single_row():
    rng = np.random.default_rng(0)
    frames = {
        "one": pl.LazyFrame({"x": [1.7]}),
        "two": pl.LazyFrame({"x": rng.gamma(2.0, 1.0, 60)}),
        "three": pl.LazyFrame({"x": rng.gamma(3.0, 1.0, 80)}),
    }
    biases = {"one": 1, "two": 1, "three": "x"}
    pool = as_lazy_pool(frames, biases, source=None, counts=None)
    fit = vardi.debias({name: frame.collect() for name, frame in frames.items()}, biases)
    at = EngineMoments(EngineModel.of(pool), fit.solution.u)
    function = compiled_functions(at.parts, [vardi.where("x")], ["x"])[0]
    found = EngineDistribution(at, function)
    grid = found.grid(30, 0.02)
    V = found.covariance(grid.x, grid.heights, fit.held.tangent)
    wanted = fit.held.steps("x").covariance(grid.x, grid.heights, fit.held.tangent)
    assert_allclose(V, wanted, rtol=1e-8, atol=1e-14)


def test_a_function_of_two_conditions():
    frames = {"a": pl.LazyFrame({"x": [1.0, 2.0, 4.0]})}
    pool = as_lazy_pool(frames, {"a": 1}, source=None, counts=None)
    at = EngineMoments(EngineModel.of(pool), np.zeros(1))
    x = EngineFunction(lambda part: nw.col("x"), "x")
    assert_allclose(at.mean([x.times(x.map(lambda one: (one > 1.5).cast(nw.Float64)))]), 2.0)
