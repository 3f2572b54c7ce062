"""Means, influence values and their deviations, asked of an engine, against formulas written down in NumPy."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from dense import point, problem
from engines import QUICK_TO_ASK, as_lazy_pool, local_engine
from numpy.testing import assert_allclose

import vardi
from vardi._rows.lazy_functions import EngineFunction, compiled_functions
from vardi._rows.lazy_model import model_of
from vardi._rows.measure import Functions, Measure, nothing
from vardi._rows.point import KnownMoments, Point

EVERYTHING = "known state logistic tilt steps"
POLARS = local_engine("polars-lazy")
TEXTS = ["y", "x > 2", "x * k"]
VALUES = [lambda r: r["y"], lambda r: r["x"] > 2, lambda r: r["x"] * r["k"]]


class Oracle:
    """What estimates are made of, from arrays."""

    def __init__(self, given, v):
        self.dense = given.dense(v)
        self.F = np.column_stack([np.asarray(f(given.rows), float) for f in VALUES])
        self.c, self.r, self.n = self.dense.c, 1.0 / self.dense.S, self.dense.c.sum()
        self.total = (self.c * self.r) @ self.F
        self.eta = self.total / self.n
        self.sizes = np.bincount(self.dense.source, self.c, minlength=len(given.names))

    def against(self, eta):
        return self.dense.x.T @ ((self.c * self.r)[:, None] * (self.F - eta))

    def phi(self, eta, b):
        return self.r[:, None] * (self.F - eta) + self.dense.q @ b

    def deviations(self, phi, centres):
        d = phi - centres[self.dense.source]
        K = len(centres)
        mine = (self.dense.source == np.arange(K)[:, None]) * self.c
        factors = np.where(self.sizes > 1, self.sizes / np.maximum(self.sizes - 1.0, 1.0), 1.0)
        products = np.einsum("i,ia,ib->ab", self.c * factors[self.dense.source], d, d)
        return mine @ d, mine @ d**2, mine @ d**3, mine @ d**4, products

    def covariance(self, phi):
        V = np.zeros((phi.shape[1], phi.shape[1]))
        for k in np.flatnonzero(self.sizes):
            mine = self.dense.source == k
            c, size = self.c[mine], self.sizes[k]
            centre = c @ phi[mine] / size if size >= 2 else (self.c * self.dense.x[:, k]) @ phi / size
            d = phi[mine] - centre
            V += (d * c[:, None]).T @ d * (size / (size - 1.0) if size >= 2 else 1.0) / self.n**2
        return V

    def df(self, phi):
        """Return min(2 n / (kappa - 1), V^2 / sum_k V_k^2 / (n_k - 1)); a row that counts twice is two."""
        fourths, squares, V, below = 0.0, 0.0, 0.0, 0.0
        for k in np.flatnonzero(self.sizes):
            mine, size = self.dense.source == k, self.sizes[k]
            assert size >= 2
            each = np.repeat((phi[mine] - self.c[mine] @ phi[mine] / size) / self.n, self.c[mine].astype(int), axis=0)
            V_k = (each**2).sum(axis=0) * size / (size - 1.0)
            fourths, squares = fourths + (each**4).sum(axis=0), squares + (each**2).sum(axis=0)
            V, below = V + V_k, below + V_k**2 / (size - 1.0)
        return np.minimum(2.0 * self.n / (self.n * fourths / squares**2 - 1.0), V**2 / below)

    def tail(self, phi, j):
        """Return Hill's index beyond the edge of a sixteenth of an octave, as close to five per cent as can be."""
        means = np.array([self.c @ (phi[:, j] * (self.dense.source == k)) for k in range(len(self.sizes))])
        each = np.repeat(phi[:, j] - (means / np.maximum(self.sizes, 1))[self.dense.source], self.c.astype(int))
        logs = 16 * np.log2(np.abs(each) / np.sqrt((each**2).mean()))
        edge = np.floor(np.sort(logs)[-int(np.ceil(max(10, 0.05 * self.n)))])
        beyond = logs[logs >= edge]
        if 4 * len(np.unique(np.floor(beyond))) < min(len(beyond), 32):  # a few numbers only
            return np.nan
        return np.log(2) / 16 * (beyond - edge).mean()


def rescaled(given, v):
    """Return the point at which the weights have mean 1."""
    dense = given.dense(v)
    shift = np.log((dense.c / dense.S).sum() / dense.c.sum())
    K, p, m = len(given.names), given.parameters(), len(given.known.means)
    v = v.copy()
    v[:K] += shift
    v[K + p : K + p + m] *= np.exp(shift)
    return v


def measure_of(frames, model, v):
    return Measure(frames, Point(model, v))


def prepared(given, engine):
    v = rescaled(given, point(given))
    moments = measure_of(*given.model(given.pool(engine)), v)
    functions = compiled_functions(moments.rows.parts, [vardi.where(text) for text in TEXTS], TEXTS)
    return moments, functions, Oracle(given, v), v


def slopes(given, m, seed=3):
    rng = np.random.default_rng(seed)
    b = rng.normal(0.0, 0.3, (given.size(), m))
    b[given.names.index("none")] = 0.0
    return b


def same_as_formulas(given, engine):
    moments, functions, oracle, _ = prepared(given, engine)
    eta = moments.mean(functions)
    assert_allclose(eta, oracle.eta, rtol=1e-10)
    assert_allclose(moments.means(functions).mean, oracle.eta, rtol=1e-10)
    against = oracle.against(eta)
    size = np.sqrt(np.abs(against).max())
    assert_allclose(moments.against(functions, eta), against, rtol=1e-10, atol=1e-11 * size)
    b = slopes(given, len(functions))
    phi, centres = oracle.phi(eta, b), b[: len(given.names)]
    influence = moments.influence(functions, eta, b)
    *powers, products, extremes = moments._powers(influence, centres, joint=True)
    for one, wanted in zip((*powers, products), oracle.deviations(phi, centres), strict=True):
        assert_allclose(one, wanted, rtol=1e-9, atol=1e-11 * np.abs(wanted).max())
    d = phi - centres[oracle.dense.source]
    assert_allclose(extremes.low, d.min(axis=0), rtol=1e-9)
    assert_allclose(extremes.high, d.max(axis=0), rtol=1e-9)
    V = oracle.covariance(phi)
    assert_allclose(moments.covariance(influence), V, rtol=1e-9, atol=1e-12 * np.abs(V).max())
    spread = moments.spread(influence)
    assert_allclose(spread.stderr, np.sqrt(np.diag(V)), rtol=1e-9)
    assert_allclose(spread.df, oracle.df(phi), rtol=1e-8)
    every = range(len(functions))
    assert_allclose(moments.tails(influence, every), [oracle.tail(phi, j) for j in every], rtol=1e-8)
    large = influence @ np.diag(10.0 ** np.where(np.arange(len(functions)) % 2, 160.0, -170.0))
    assert_allclose(moments.spread(large).df, oracle.df(phi), rtol=1e-8)


@pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
@pytest.mark.parametrize(
    ("parts", "form"),
    [
        ("", "frames"),
        ("known", "labels counts"),
        ("logistic tilt", "counts"),
        (EVERYTHING, "labels"),
        (EVERYTHING, "frames"),
    ],
)
def test_moments_are_those_of_the_formulas(engine, parts, form):
    same_as_formulas(problem(parts, form), engine)


@pytest.mark.parametrize("engine", ["ibis", "dask", "spark"], indirect=True)
def test_moments_in_other_engines(engine):
    parts = "known logistic" if engine.name == "spark" else EVERYTHING  # Spark compiles every sum
    same_as_formulas(problem(parts, "labels counts"), engine)


@pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
def test_sums_and_multiples_of_estimates_of_two_calls(engine):
    given = problem("known logistic", "labels")
    moments, functions, oracle, _ = prepared(given, engine)
    eta = moments.mean(functions)
    b = slopes(given, 3)
    phi = oracle.phi(eta, b)
    first = moments.influence(functions[:2], eta[:2], b[:, :2])
    second = moments.influence(functions[1:], eta[1:], b[:, 1:])
    ratio = first[:, [0]] @ np.array([[2.0]]) + second[:, [1]] @ np.array([[-0.5]])
    assert_allclose(moments.covariance(ratio), oracle.covariance(2.0 * phi[:, [0]] - 0.5 * phi[:, [2]]), rtol=1e-9)
    difference = first[:, [1]] + second[:, [0]] @ np.array([[-1.0]])
    assert abs(moments.covariance(difference)[0, 0]) < 1e-20
    mixed = moments.influence(functions, eta, b) @ np.array([[1.0, 0.0], [-1.0, 3.0], [0.0, 1.0]])
    assert mixed.width == 2
    wanted = oracle.covariance(phi @ np.array([[1.0, 0.0], [-1.0, 3.0], [0.0, 1.0]]))
    assert_allclose(moments.covariance(mixed), wanted, rtol=1e-9)


def test_of_coordinates_needs_no_function():
    given = problem("logistic tilt", "labels")
    moments, _, oracle, _ = prepared(given, POLARS)
    b = slopes(given, 2)
    found = moments.covariance(moments.influence(nothing(2), np.zeros(2), b))
    assert_allclose(found, oracle.covariance(oracle.dense.q @ b), rtol=1e-9)


@pytest.mark.parametrize("labels", [False, True])
def test_a_sample_of_a_single_row(labels):
    given = problem("logistic", "labels" if labels else "frames")
    if labels:
        table = given.tables[None]
        keep = np.array(table.column("origin").to_pylist()) != "plain"
        keep[np.flatnonzero(~keep)[0]] = True
        given.tables[None] = table.filter(keep)
    else:
        given.tables["plain"] = given.tables["plain"].slice(3, 1)
    moments, functions, oracle, _ = prepared(given, POLARS)
    assert oracle.sizes[0] == 1
    eta, b = oracle.eta, slopes(given, 3)
    found = moments.covariance(moments.influence(functions, eta, b))
    assert_allclose(found, oracle.covariance(oracle.phi(eta, b)), rtol=1e-9)


def test_the_mean_of_a_state_with_parameters():
    given = problem("logistic tilt", "counts")
    moments, _, oracle, v = prepared(given, POLARS)
    panel, tilted = given.names.index("panel"), given.names.index("tilted")
    states = Functions((), 2, lambda block, at: np.hstack([at.users_bias(panel), at.users_bias(tilted)]))
    offset = moments.point.model.shift(v[moments.coordinates.theta])[[panel, tilted]]
    wanted = (oracle.c * oracle.r) @ oracle.dense.omega[:, [panel, tilted]] * np.exp(offset) / oracle.n
    assert_allclose(moments.mean(states), wanted)


class TestValues:
    def moments(self, **columns):
        frames = {"a": pl.LazyFrame({"x": [1.0, 2.0, 3.0], **columns})}
        pool = as_lazy_pool(frames, {"a": "x"}, source=None, counts=None)
        return measure_of(*model_of(pool, KnownMoments.none()), np.array([np.log(11 / 18)]))

    def functions(self, moments, text):
        return compiled_functions(moments.rows.parts, [vardi.where(text)], [text])

    def test_missing_values_of_a_function(self):
        moments = self.moments(y=[1.0, None, 3.0])
        with pytest.raises(vardi.MissingValuesError, match=r"missing values in 'y' \(1\)"):
            self.functions(moments, "y > 2")
        with pytest.raises(vardi.MissingValuesError, match="1 of the values of 'y' are missing or infinite"):
            moments.mean([EngineFunction(lambda part: nw.col("y"), "y")])

    def test_infinite_values_of_a_function(self):
        moments = self.moments(y=[1.0, 0.0, 0.0])
        with pytest.raises(
            vardi.MissingValuesError, match="2 of the values of '1 / y' are missing or infinite"
        ) as caught:
            moments.mean(self.functions(moments, "1 / y"))
        assert caught.value.columns == {"1 / y": 2}

    def test_a_column_that_is_not_there(self):
        with pytest.raises(vardi.MismatchError, match="There is no column 'z'"):
            self.functions(self.moments(), "z")

    def test_a_number(self):
        moments = self.moments()
        assert_allclose(moments.mean(self.functions(moments, "2")), 2.0)
        assert_allclose(moments.mean(self.functions(moments, "x")), 18 / 11)
