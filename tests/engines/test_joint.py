"""Sums at a point with parameters and known moments, asked of an engine, against formulas written down in NumPy."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from cases import labelled
from dense import Known, Problem, point, problem
from engines import QUICK_TO_ASK, as_lazy_pool, local_engine
from numpy.testing import assert_allclose

import vardi
from vardi._inputs.lazy_part import Part
from vardi._inputs.lazy_pool import open_frames
from vardi._rows import lazy_model
from vardi._rows.joint import Joint
from vardi._rows.lazy_model import few_rows, functions_on, in_memory, joint_rows, model_of
from vardi._rows.lazy_rows import EngineRows
from vardi._rows.point import KnownMoments
from vardi._solve.joint import hold, stationary

EVERYTHING = "known state logistic tilt steps"
PARTS = [
    "",
    "known",
    "logistic",
    "tilt",
    "steps",
    "logistic tilt steps",
    "known logistic tilt steps",
    "known state logistic",
    EVERYTHING,
]
FORMS = ["frames", "labels", "counts", "labels counts"]
POLARS = local_engine("polars-lazy")


@pytest.fixture
def asked(monkeypatch):
    """Every query of a part."""
    queries = []
    ask = Part.ask
    monkeypatch.setattr(Part, "ask", lambda part, build: queries.append(build) or ask(part, build))
    return queries


def rows_of(given, engine):
    return EngineRows(*given.model(given.pool(engine)), None)


def same(found, wanted):
    assert found.positive is True
    root = np.sqrt(np.diag(wanted["gram"]))
    sums = {name: getattr(found, name) for name in wanted if name not in ("positive", "curvature")}
    sums["curvature"] = found.jacobian() + found.gram
    for name, sum_ in sums.items():
        value = wanted[name]
        # Entries that are small by cancellation are as exact as their row and column.
        size = np.outer(root, root) if np.ndim(value) == 2 else root if np.ndim(value) == 1 else 0.0
        gap = np.abs(sum_ - value)
        assert (gap <= 1e-10 * np.maximum(np.abs(value), 1e-2 * np.maximum(size, 1.0))).all(), (name, gap, value)


@pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
@pytest.mark.parametrize(
    ("parts", "form"), [*((parts, "labels counts") for parts in PARTS), *((EVERYTHING, form) for form in FORMS[:-1])]
)
def test_every_sum_is_that_of_the_formulas(engine, parts, form, asked):
    given = problem(parts, form)
    v = point(given)
    rows = rows_of(given, engine)
    same(rows.joint_sums(v), given.dense(v).sums())
    asked.clear()
    v[0] += 0.01
    same(rows.joint_sums(v), given.dense(v).sums())
    assert len(asked) == len(given.tables), "one query for each part"


@pytest.mark.parametrize("engine", ["ibis", "dask", "spark"], indirect=True)
def test_every_sum_in_other_engines(engine):
    parts = "known state logistic" if engine.name == "spark" else EVERYTHING  # Spark compiles every sum
    given = problem(parts, "labels counts")
    v = point(given)
    same(rows_of(given, engine).joint_sums(v), given.dense(v).sums())


def test_the_gradient_is_the_derivative_of_the_objective():
    given = problem(EVERYTHING, "labels")
    rows, v = rows_of(given, POLARS), point(given)
    here = rows.joint_sums(v)
    for place in np.flatnonzero(np.isfinite(v)):
        step = np.zeros(len(v))
        step[place] = 1e-5
        rise = rows.joint_sums(v + step).log_mass - rows.joint_sums(v - step).log_mass
        assert_allclose(rise / 2e-5, (here.x - here.own)[place], rtol=1e-6, atol=1e-4)


def test_another_gauge_needs_no_query(asked):
    given = problem(EVERYTHING, "labels counts")
    rows, v = rows_of(given, POLARS), point(given)
    rows.joint_sums(v)
    asked.clear()
    there = rows.coordinates.rescaled(v, 0.7)
    same(rows.joint_sums(there), given.dense(there).sums())
    weights, shift = rows.weights(v)
    assert len(weights) == 0
    assert_allclose(shift, np.log(given.dense(v).sums()["inverse"] / rows.sizes.sum()))
    assert not asked
    moved = v.copy()
    moved[0] += 1e-9
    rows.joint_sums(moved)
    assert len(asked) == 1


def test_the_objective_is_asked_for_only_where_it_is_wanted(asked):
    given = problem("known logistic tilt", "labels")
    rows, v = rows_of(given, POLARS), point(given)
    sums = rows.joint_sums(v, objective=False)
    assert np.isnan(sums.log_mass)
    assert_allclose(sums.gram, given.dense(v).sums()["gram"], rtol=1e-9)
    before = len(asked)
    assert_allclose(rows.joint_sums(v).log_mass, given.dense(v).sums()["log_mass"], rtol=1e-12)
    assert len(asked) == before + 1


@pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
def test_a_mass_below_zero_is_told(engine):
    given = problem("known logistic")
    v = point(given)
    v[len(given.names) + given.parameters()] = -50.0
    assert (given.dense(v).S <= 0).any()
    sums = rows_of(given, engine).joint_sums(v)
    assert sums.positive is False
    assert np.isnan(sums.gram).all()


def test_parameters_out_of_range_are_told():
    given = problem("tilt")
    v = point(given)
    v[len(given.names) :] = 900.0
    assert rows_of(given, POLARS).joint_sums(v).positive is False


@pytest.mark.parametrize("form", FORMS)
def test_features_have_mean_0_and_deviation_1(form):
    given = problem("logistic tilt steps", form)
    _, model = given.model(given.pool(POLARS))
    for k, (_, mean, deviation) in given.features.items():
        assert_allclose(model.families[k].mean, mean, rtol=1e-12)
        assert_allclose(model.families[k].deviation, deviation, rtol=1e-10)
        theta = np.arange(1.0, 1.0 + len(model.families[k].names))
        assert_allclose((model.families[k].scale @ theta)[-len(mean) :], theta[-len(mean) :] / deviation, rtol=1e-10)


def conditions(form):
    """Biases, features and known functions that are made of conditions."""
    rng = np.random.default_rng(1)
    n = 3000
    k, sex = rng.integers(0, 6, n), rng.choice(["f", "m"], n)
    tables = {}
    for name, omega, size in (("plain", np.ones(n), 400), ("panel", 1.0 + (k >= 3), 500), ("low", k <= 4, 300)):
        chosen = rng.choice(n, size, p=omega / omega.sum())
        tables[name] = pa.table({"k": k[chosen], "sex": sex[chosen], "n rows": rng.integers(0, 3, size)})
    options = {"source": None, "counts": "n rows" if "counts" in form else None}
    if "labels" in form:
        tables, options["source"] = labelled(tables, "origin"), "origin"
    return Problem(
        tables,
        {"plain": 1, "panel": "steps(k, [3])", "low": "k <= 4"},
        {"plain": lambda r: 1.0, "panel": lambda r: 1.0, "low": lambda r: r["k"] <= 4},
        {"panel": ("linear", [lambda r: r["k"] >= 3], False)},
        Known(("sex == 'f'", 2), np.eye(2), np.array([0.48, 0.81]), np.array([[0.01], [0.0]])),
        (lambda r: r["sex"] == "f", None),
        options,
    )


@pytest.mark.parametrize("engine", ["polars-lazy", "duckdb", "ibis", "dask"], indirect=True)
@pytest.mark.parametrize("form", FORMS)
def test_conditions_collapse_by_one_query(engine, form, asked):
    given = conditions(form)
    pool = given.pool(engine)
    assert len(asked) == len(given.tables)
    found, is_all = few_rows(pool)
    frames, model = given.model(pool)
    joint = joint_rows(pool, frames, model, found, in_memory(pool, found, is_all=is_all), is_all=is_all)
    assert len(asked) == len(given.tables), "the query that checks brings the distinct rows, features included"
    assert isinstance(joint, Joint)
    assert len(joint) <= 3 * 2 * 3 * 2
    v = np.array([-1.0, -0.8, -1.2, 0.5, 0.02, -0.03, 0.4])
    wanted = given.dense(v).sums()
    same(joint.joint_sums(v), wanted)
    same(EngineRows(frames, model, joint).joint_sums(v), wanted)


@pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
def test_few_distinct_numbers_collapse_by_one_more_query(engine, asked):
    given = conditions("labels")
    given = Problem(
        given.tables,
        given.biases | {"panel": "exponential_tilt(k)"},
        given.factors,
        {"panel": ("linear", [lambda r: r["k"]], True)},
        Known(("k",), np.eye(1), np.array([2.4]), np.empty((1, 0))),
        (lambda r: r["k"],),
        given.options,
    )
    pool = given.pool(engine)
    found, is_all = few_rows(pool)
    assert is_all
    frames, model = given.model(pool)
    joint = joint_rows(pool, frames, model, found, in_memory(pool, found, is_all=is_all), is_all=is_all)
    assert isinstance(joint, Joint)
    assert len(joint) <= 3 * 6
    v = np.array([-1.0, -0.8, -1.2, 0.5, 0.02])
    wanted = given.dense(v).sums()
    same(joint.joint_sums(v), wanted)
    same(EngineRows(frames, model, joint).joint_sums(v), wanted)


@pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
@pytest.mark.parametrize("form", ["frames", "labels counts"])
def test_newton_ends_where_it_ends_in_memory(engine, form, monkeypatch):
    monkeypatch.setattr(lazy_model, "ROWS", 240)
    given = problem("known logistic tilt", form)
    pool = given.pool(engine)
    found, is_all = few_rows(pool)
    assert not is_all
    rows = joint_rows(pool, *given.model(pool), found, in_memory(pool, found, is_all=is_all), is_all=is_all)
    assert isinstance(rows, EngineRows)
    assert len(rows.few) < 0.9 * len(given.rows["count"])
    assert_allclose(rows.few.sizes, rows.sizes)
    held = hold(rows.sizes, np.isin(np.arange(len(rows.sizes)), list(rows.families)))
    start = point(given)
    start[rows.coordinates.theta] = start[rows.coordinates.mu] = start[rows.coordinates.epsilon] = 0.0
    first = stationary(rows.few, start, held, tol=1e-8)
    assert first.converged
    walk = stationary(rows, first.v, held)
    assert walk.converged
    assert walk.iterations <= 8
    gradient = given.dense(walk.v).sums()
    off = gradient["x"] - gradient["own"]
    off[rows.coordinates.u] -= rows.sizes
    off[rows.coordinates.epsilon] += walk.v[rows.coordinates.epsilon]
    assert_allclose(off / np.sqrt(np.maximum(np.diag(gradient["gram"]), 1.0)), 0.0, atol=1e-8)


@pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
def test_biases_at_their_parameters_are_known_ones(engine):
    given = problem("known logistic tilt steps", "labels counts")
    pool = given.pool(engine)
    found, _ = few_rows(pool)
    frames, model = given.model(pool)
    joint = joint_rows(pool, frames, model, found, in_memory(pool, found, is_all=True), is_all=True)
    rows = EngineRows(frames, model, joint, pool.reach)
    v = point(given)
    theta = v[rows.coordinates.theta]
    fixed, omega = rows.rows_at(theta), given.dense(v).omega * np.exp(rows.model.shift(theta))
    u = v[rows.coordinates.u]
    p = omega * np.exp(u) / (omega @ np.exp(u))[:, None]
    sums = fixed.sums(u)
    c = given.rows["count"]
    assert_allclose(sums.shares, c @ p, rtol=1e-9)
    assert_allclose(sums.gram.array(), (p * c[:, None]).T @ p, rtol=1e-9, atol=1e-9)
    assert_allclose(sums.log_mass, c @ np.log(omega @ np.exp(u)), rtol=1e-10)
    assert_allclose(fixed.log_means(u), np.log((c / (omega @ np.exp(u))) @ omega), rtol=1e-9)


class TestTable:
    def test_columns_and_their_kinds(self):
        frames = {
            "a": pl.LazyFrame({"x": [1.0, None], "k": [1, 2], "b": [True, False], "t": ["u", "v"], "only": [1, 2]}),
            "b": pl.LazyFrame({"x": [np.inf, np.nan], "k": [1, None], "b": [True, None], "t": ["u", "u"]}),
        }
        opened = open_frames(frames, {"a": 1, "b": 1}, source=None, counts=None)
        table = opened.table
        assert table.columns == ("x", "k", "b", "t")
        assert table.counts("t") == {"u": 3, "v": 1}
        assert [table.kind(name) for name in table.columns] == ["number", "number", "condition", "other"]


def test_a_rare_value_of_a_known_function_is_among_the_few(monkeypatch):
    monkeypatch.setattr(lazy_model, "ROWS", 200)
    rng = np.random.default_rng(0)
    x = rng.gamma(2.0, 1.0, 4000)
    rare = np.zeros(4000, bool)
    rare[1234] = True
    frame = pl.LazyFrame({"x": x, "rare": rare, "s": np.where(np.arange(4000) % 2, "a", "b")})
    pool = as_lazy_pool(frame, {"a": "x", "b": 1}, source="s", counts=None, functions=[vardi.where("rare")])
    found, is_all = few_rows(pool)
    assert not is_all
    assert set(functions_on(pool, found)[:, 0]) == {0.0, 1.0}


class TestRefusals:
    def frames(self, **columns):
        columns = {"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 4.0, 5.0], **columns}
        return {name: pl.LazyFrame(columns) for name in ("a", "b")}

    def pool(self, bias, functions=(), **columns):
        frames = self.frames(**columns)
        return as_lazy_pool(frames, {"a": 1, "b": bias}, source=None, counts=None, functions=functions)

    def test_missing_values_in_a_feature(self):
        with pytest.raises(vardi.MissingValuesError, match=r"unknown on 1 row.* missing values in 'y' \(1\)"):
            self.pool("steps(y, [2])", y=[1.0, None, 3.0, 4.0])

    def test_a_power_of_zero(self):
        with pytest.raises(vardi.InvalidBiasError, match=r"reads log\(x\), which is -inf at some rows of 'a'.*a power"):
            self.pool("power(x)", x=[1.0, 0.0, 3.0, 4.0])

    def test_an_infinite_feature(self):
        with pytest.raises(vardi.InvalidBiasError, match=r"The bias logistic\(x\) of 'b' reads x, which is inf"):
            self.pool("logistic(x)", x=[1.0, np.inf, 3.0, 4.0])

    def test_a_feature_that_does_not_vary(self):
        pool = self.pool("exponential_tilt(x)", x=[2.0, 2.0, 2.0, 2.0])
        with pytest.raises(vardi.UnidentifiedParametersError, match="is the same on all rows of the pool"):
            model_of(pool, KnownMoments.none())

    def test_an_infinite_known_function(self):
        with pytest.raises(vardi.InvalidBiasError, match=r"1 / x, whose mean is known, is inf at some rows of 'a'"):
            self.pool(1, [vardi.where("1 / x")], x=[0.0, 1.0, 2.0, 3.0])

    def test_a_function_of_rows_and_parameters(self):
        bias = vardi.parametric(lambda rows, theta: rows["x"] ** theta[0], [1.0], ["power"])
        with pytest.raises(vardi.NeedsRowsError, match="is a function of rows and parameters"):
            self.pool(bias)

    def test_a_function_whose_mean_is_known(self):
        function = vardi.biases.FunctionBias(np.sin)
        with pytest.raises(vardi.InvalidBiasError, match="which an engine cannot compute"):
            self.pool(1, [function])


@pytest.mark.parametrize("engine", QUICK_TO_ASK, indirect=True)
@pytest.mark.parametrize("family", [vardi.logistic("x"), vardi.exponential_tilt("x"), vardi.steps("x", [0.0, 0.5])])
def test_likelihood_ratios_are_those_of_memory(engine, family):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3000))
    kept = rng.random(3000) < 1 / (1 + np.exp(0.5 - x[1]))
    tables = {"plain": pa.table({"x": x[0]}), "seen": pa.table({"x": x[1][kept]})}
    biases = {"plain": 1, "seen": family}
    lazy, memory = (vardi.debias(where.samples(tables), biases) for where in (engine, local_engine("polars")))
    first = next(iter(memory.parameters["seen"]))
    for fit in (lazy, memory):
        assert fit.test_no_bias("seen").pvalue < 1e-6
    pairs = [(fit.test_no_bias("seen"), fit.test_parameters("seen", {first: 0.1})) for fit in (lazy, memory)]
    for found, wanted in zip(*pairs, strict=True):
        assert_allclose(found.statistic, wanted.statistic, rtol=1e-8)
        assert found.dof == wanted.dof
