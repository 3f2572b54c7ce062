"""How much an engine is asked: sums that follow from others are not, and what is asked still tells all."""

from __future__ import annotations

from functools import partial

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi
from vardi._inputs import lazy_pool
from vardi._inputs.lazy_part import OMEGA, Part
from vardi._inputs.lazy_pool import EngineDependence, open_frames
from vardi._rows import lazy_model
from vardi._rows.dense import Dense
from vardi._rows.lazy_model import LazyRows
from vardi._rows.lazy_values import with_levels
from vardi._rows.queries import Queries

duckdb = pytest.importorskip("duckdb")

ENGINES = {"polars": lambda frame: frame.lazy(), "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow())}
EVEN = {"a": "1", "b": "x", "c": "x ** 2"}
UNEVEN = {"a": "x + 1", "b": "x", "c": "x ** 2"}
K = 3


def drawn(biases, n=400):
    """Rows of samples with such biases, by a label."""
    rng = np.random.default_rng(0)
    x = rng.gamma(2.0, 1.0, 20_000)
    frame = pl.DataFrame({"x": x})
    found = []
    for name, bias in biases.items():
        omega = {"1": np.ones(len(x)), "x": x, "x ** 2": x**2, "x + 1": x + 1}[bias]
        rows = frame[rng.choice(len(x), n, p=omega / omega.sum())]
        found.append(rows.with_columns(pl.lit(name).alias("label")))
    return pl.concat(found)


@pytest.fixture
def queries(monkeypatch):
    """The frames that are collected, with the shapes of the answers."""
    found = []
    collect = nw.LazyFrame.collect

    def kept(self, *arguments, **options):
        answer = collect(self, *arguments, **options)
        found.append((self, answer.shape))
        return answer

    monkeypatch.setattr(nw.LazyFrame, "collect", kept)
    monkeypatch.setattr(lazy_model, "ROWS", 300)
    return found


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


@pytest.mark.parametrize("biases", [EVEN, UNEVEN], ids=["one bias is 1", "none is"])
def test_a_pass_asks_for_what_does_not_follow(engine, queries, biases):
    """That is K shares, K (K - 1) / 2 products and, after the first point, the scale of the weights."""
    rows = drawn(biases)
    fit = vardi.debias(engine(rows), biases, source="label")
    sums = [shape[1] for _, shape in queries if shape[0] == 1]
    assert sums[0] == 6
    assert set(sums[1:]) == {7}
    expected = vardi.debias(rows, biases, source="label")
    certified = fit.solution.certificate + expected.solution.certificate
    assert certified < 1e-8
    assert_allclose(fit.solution.u, expected.solution.u, rtol=0, atol=certified)
    assert_allclose(list(fit.omegas.values()), list(expected.omegas.values()), rtol=certified)
    assert fit.solution.residual < 1e-10


def test_a_weak_link_to_the_largest_sample_keeps_its_digits(engine):
    """What two samples have in common is a sum of its own: as a difference it would be lost in the rounding of 1."""
    omega = np.array([[1.0, 1e-14, 1e-17], [1e-15, 1.0, 0.5], [1e-15, 0.25, 1.0]])
    rows, sizes = np.repeat(omega, [300, 200, 100], axis=0), np.array([300.0, 200.0, 100.0])
    columns = {OMEGA.format(k): rows[:, k] for k in range(K)}
    part = Part(nw.from_native(engine(pl.DataFrame(columns))).lazy(), None, {None: 0}, False)
    frames = Queries([part], sizes, EngineDependence.none(K))
    sums = LazyRows(frames, np.ones((K, K)), Dense(rows, np.zeros(600, int)), lambda: np.zeros(K)).sums(np.zeros(K))
    p = rows / rows.sum(axis=1, keepdims=True)
    assert_allclose(sums.gram.array(), p.T @ p, rtol=1e-12)
    assert_allclose(sums.shares, p.sum(axis=0), rtol=1e-12)


def test_the_hash_that_thins_is_not_written_for_each_label(queries):
    """DuckDB writes a column into the condition that reads it, and computes it there as often as it stands."""
    counts = []
    for names in ("abc", "abcdefgh"):
        biases = {name: EVEN.get(name, "x") for name in names}
        queries.clear()
        vardi.debias(ENGINES["duckdb"](drawn(biases)), biases, source="label")
        thinned = next(frame for frame, shape in queries if shape[0] > 100)
        counts.append(thinned.to_native().explain().count("floor"))
    assert counts[0] == counts[1]
    assert counts[0]


def test_rows_to_start_from_lie_everywhere(engine, queries, monkeypatch):
    """A bias is hashed on a scale of its own however many rows there are, also beside one that is 1."""
    # enough for a scale near 1, and not for the sum of all rows
    monkeypatch.setattr(lazy_model, "_drawn", partial(lazy_model._drawn, fine=2.0**14))
    monkeypatch.setattr(lazy_model, "ROWS", 2000)
    biases = {"a": "1", "b": "x"}
    vardi.debias(engine(drawn(biases, 5000)), biases, source="label")
    thinned = next(frame for frame, shape in queries if shape[0] > 100).collect()
    x = thinned.get_column("__vardi_omega_1").to_numpy()
    assert np.histogram(x, 20, (0.5, 2.5))[0].min() > 0


def test_a_bias_that_is_zero_on_rows_of_others_is_told_from_one_below_zero(engine):
    rows = {"a": np.arange(12.0), "b": np.arange(1.0, 13.0)}
    frame = pl.DataFrame({"x": np.concatenate(list(rows.values())), "label": ["a"] * 12 + ["b"] * 12})
    fit = vardi.debias(engine(frame), {"a": "1", "b": "x"}, source="label")
    wanted = vardi.debias(frame, {"a": "1", "b": "x"}, source="label")
    assert_allclose(fit.omegas["b"], wanted.omegas["b"], rtol=1e-9)
    assert fit.identify().links == wanted.identify().links


@pytest.mark.parametrize("value", [-1e-300, -1.0, float("nan"), float("inf")])
def test_one_unsound_value_is_found_by_sums(engine, value):
    frame = pl.DataFrame({"x": [1.0, 2.0, value, 4.0] * 3, "y": np.arange(12.0), "label": ["a", "b"] * 6})
    with pytest.raises((vardi.InvalidBiasError, vardi.MissingValuesError), match="b"):
        vardi.debias(engine(frame), {"a": "1", "b": "x + 0 * y"}, source="label")


def test_biases_whose_sum_is_beyond_any_number(engine):
    x = np.random.default_rng(0).uniform(0.2, 1.0, 600)
    frame = pl.DataFrame({"x": x, "label": ["a", "b"] * 300})
    plain = vardi.debias(engine(frame), {"a": "1", "b": "x"}, source="label")
    large = vardi.debias(engine(frame), {"a": "1", "b": "x * 1e308"}, source="label")
    assert_allclose(large.omegas["b"] / 1e308, plain.omegas["b"], rtol=1e-9)


def test_columns_of_few_values_may_have_many_combinations():
    frame = pl.LazyFrame({"a": np.arange(1800) % 30, "b": np.arange(1800) % 900 // 30})
    opened = open_frames({"p": frame, "q": frame}, {"p": 1, "q": vardi.cells(("a", "b"))}, source=None, counts=None)
    assert len(with_levels(opened).biases[1].names) == 899


class TestMemory:
    def test_distinct_rows_are_as_many_as_memory_holds(self, monkeypatch):
        monkeypatch.setattr(lazy_pool, "available_memory", lambda: 16 * 10**9)
        assert lazy_pool.most_cells(3) == 13_888_888
        assert lazy_pool.most_cells(100) == 16 * 10**9 // 4 // (8 * 103 * 6)
        monkeypatch.setattr(lazy_pool, "available_memory", lambda: 0)
        assert lazy_pool.most_cells(3) == 1

    def test_rows_that_a_model_is_to_see_must_fit_in_memory(self, engine, monkeypatch):
        monkeypatch.setattr("vardi._machine.ALWAYS", 0)
        monkeypatch.setattr("vardi._machine.available_memory", lambda: 2 * 8 * 3 * 40 - 1)
        frame = engine(pl.DataFrame({"x": np.arange(40.0), "y": 1.0, "label": ["a", "b"] * 20}))
        remedy = "which a model is to see, need .* of memory, but .* is available. Select fewer columns or rows"
        with pytest.raises(vardi.TooLargeError, match=f"^The rows of lazy frames, {remedy}"):
            vardi.debias(frame, {"a": 1, "b": vardi.learned("x")}, source="label")

    @pytest.mark.parametrize("biases", [{"a": "x <= 40", "b": "x >= 0"}, {"a": "x <= 40", "b": "0.5 + (x >= 3)"}])
    def test_more_distinct_rows_than_memory_holds_stay_in_the_engine(self, engine, monkeypatch, biases):
        for module in ("_inputs.lazy_pool", "_rows.lazy_model"):
            monkeypatch.setattr(f"vardi.{module}.most_cells", lambda columns: 2)
        rows = drawn({"a": "1", "b": "x"})
        lazy = vardi.debias(engine(rows), biases, source="label")
        assert isinstance(lazy.solved.rows, LazyRows) == ("0.5" in biases["b"])
        assert_allclose(lazy.solution.u, vardi.debias(rows, biases, source="label").solution.u, rtol=1e-9)
