"""Many samples in a local engine: it gives columns in batches, NumPy sums them, and the answers stay what they are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi
from vardi._rows import batches, lazy_model, queries
from vardi._rows.batches import Batches

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")  # of few rows that weigh most

MANY = 8  # in place of `queries.MANY`: the fewer samples, the quicker
K = MANY + 1
ENGINES = {"polars": pl.DataFrame.lazy, "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow())}
TILTS = {f"s{k}": f"exp({k / K} * x)" for k in range(K)}
UNLIKE = {**TILTS, "s1": "(1 + n) * exp(0.1 * x)", "s2": "(x > -9) * 1e300", "nobody": "exp(-x)"}


def drawn(n=60):
    """Rows of normal samples beside one another, one sample after the other."""
    rng = np.random.default_rng(3)
    x = rng.normal(np.arange(K)[:, None] / K, 1.0, (K, n)).ravel()
    columns = {"label": np.repeat(list(TILTS), n), "x": x, "y": x + rng.normal(size=len(x))}
    return pl.DataFrame(columns).with_columns(n=pl.int_range(pl.len()) % 3, times=1 + pl.int_range(pl.len()) % 2)


def by_sample(rows):
    return {name: rows.filter(pl.col("label") == name) for name in TILTS}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(queries, "MANY", MANY)
    monkeypatch.setattr(lazy_model, "ROWS", 300)
    monkeypatch.setattr(batches, "NUMBERS", 200 * K)


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


@pytest.fixture
def passes(monkeypatch):
    """The passes over the rows that were made in batches."""
    found = []
    total = Batches.total
    monkeypatch.setattr(Batches, "total", lambda self, *given: found.append(self) or total(self, *given))
    return found


def answers(fit):
    """Return numbers that rest on sums over all rows, by sample and of products."""
    means, among = fit.expectations(["x", "y * y", "x > 0.5"]), fit.expectation("y", among=["s0", "s1"])
    normalisers = [one.stderr for one in fit.log_normalisers().values()]
    return [*means.values, *means.covariance.ravel(), *normalisers, among.value, among.stderr]


CASES = {
    "labelled": lambda engine, rows: vardi.debias(engine(rows), TILTS, source="label"),
    "a frame each": lambda engine, rows: vardi.debias({k: engine(own) for k, own in by_sample(rows).items()}, TILTS),
    "counted": lambda engine, rows: vardi.debias(engine(rows), TILTS, source="label", counts="times"),
    "biases of other kinds": lambda engine, rows: vardi.debias(engine(rows), UNLIKE, source="label"),
    "known": lambda engine, rows: vardi.debias(engine(rows), TILTS, source="label", known={"y": 0.1}),
    "a parameter": lambda engine, rows: vardi.debias(
        engine(rows), {**TILTS, "s4": vardi.exponential_tilt("x")}, source="label"
    ),
    "clusters": lambda engine, rows: vardi.debias(engine(rows), TILTS, source="label", clusters="n"),
}


@pytest.mark.parametrize("case", CASES)
def test_many_samples_are_read_in_batches_and_answers_are_those_of_rows_in_memory(case, engine, passes):
    rows = drawn()
    found = answers(CASES[case](engine, rows))
    assert passes
    assert_allclose(found, answers(CASES[case](lambda frame: frame, rows)), rtol=1e-7, atol=1e-9)


def test_answers_are_those_of_queries(engine, passes, monkeypatch):
    frame = engine(drawn())
    found = answers(vardi.debias(frame, TILTS, source="label"))
    passes.clear()
    monkeypatch.setattr(queries, "MANY", 1000)
    wanted = answers(vardi.debias(frame, TILTS, source="label"))
    assert not passes
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_few_samples_are_summed_by_their_engine(engine, passes):
    rows = by_sample(drawn())
    few = list(TILTS)[: MANY - 1]
    vardi.debias({name: engine(rows[name]) for name in few}, {name: TILTS[name] for name in few}).expectation("x")
    assert not passes


def test_engines_that_do_not_give_batches_are_asked_for_sums(passes):
    rows = by_sample(drawn())
    ibis = pytest.importorskip("ibis")
    fit = vardi.debias({name: ibis.memtable(own.to_arrow()) for name, own in rows.items()}, TILTS)
    assert not passes
    assert_allclose(fit.expectation("y").stderr, vardi.debias(rows, TILTS).expectation("y").stderr, rtol=1e-8)


def test_no_batch_is_larger_than_the_limit(engine, monkeypatch):
    sizes = []
    block = batches.BatchBlock
    monkeypatch.setattr(batches, "BatchBlock", lambda batch, *given: sizes.append(batch.size) or block(batch, *given))
    rows = drawn()
    fit = vardi.debias(engine(rows), TILTS, source="label")
    value = fit.expectation("y").stderr
    assert max(sizes) <= 200 * K
    assert len(sizes) > 3 * len(rows) * K // (200 * K)  # each of the passes takes several
    assert_allclose(value, vardi.debias(rows, TILTS, source="label").expectation("y").stderr, rtol=1e-8)


def test_the_last_pass_of_a_solve_tells_the_errors(engine, passes):
    """A shift of u changes no probability, so scaling the weights to mean 1 takes no further gram."""
    fit = vardi.debias(engine(drawn()), TILTS, source="label")
    passes.clear()
    fit.expectation("y")
    assert len(passes) == 3  # the mean, its slope, the deviations


def test_functions_of_python_are_called_in_batches(passes):
    rows, tilt = drawn(), pl.col("x").map_batches(lambda x: x.exp(), return_dtype=pl.Float64)
    fit = vardi.debias(rows.lazy(), {**TILTS, "s3": tilt}, source="label")
    assert passes
    wanted = vardi.debias(rows, {**TILTS, "s3": "exp(x)"}, source="label")
    assert_allclose(fit.expectation("y").stderr, wanted.expectation("y").stderr, rtol=1e-8)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=["interrupt", "memory"])
def test_an_interrupt_passes_through_and_the_engine_answers_again(engine, error, monkeypatch):
    frame = engine(drawn())
    fit = vardi.debias(frame, TILTS, source="label")
    with monkeypatch.context() as patch:
        patch.setattr(batches, "compile_node", lambda *_: (_ for _ in ()).throw(error))
        with pytest.raises(type(error)):
            fit.expectation("y")
    assert fit.expectation("y").stderr > 0


def test_what_an_engine_raises_between_batches_names_the_sample(tmp_path):
    path = tmp_path / "rows.parquet"
    drawn().write_parquet(path)
    connection = duckdb.connect()
    fit = vardi.debias(connection.read_parquet(str(path)), TILTS, source="label")
    connection.close()
    with pytest.raises(vardi.EngineError, match="The engine could not compute on the frame of all samples"):
        fit.expectation("y")
