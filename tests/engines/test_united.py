"""Frames of many samples, of which the sums at a point are asked by one query and not by one for each."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("ibis")

K = 9  # frames, from which on they are asked together
TILTS = {f"s{k}": f"exp({k / K} * x)" for k in range(K)}


def as_ibis(frame):
    return pytest.importorskip("ibis").memtable(frame.to_arrow())


def on_a_connection_of_its_own(frame):
    return duckdb.connect().from_arrow(frame.to_arrow())


ENGINES = {
    "polars": pl.DataFrame.lazy,
    "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow()),
    "ibis": as_ibis,
}


@pytest.fixture
def passes(monkeypatch):
    """The answers of one row, which are sums over all rows of a query."""
    found = []
    collect = nw.LazyFrame.collect

    def kept(self, *arguments, **options):
        answer = collect(self, *arguments, **options)
        if all(name.removeprefix("__vardi_").isdigit() for name in answer.columns):
            found.append(answer.shape)
        return answer

    monkeypatch.setattr(nw.LazyFrame, "collect", kept)
    return found


@pytest.fixture
def asked(monkeypatch):
    """All queries."""
    found = []
    collect = nw.LazyFrame.collect
    monkeypatch.setattr(nw.LazyFrame, "collect", lambda self, *a, **o: found.append(1) or collect(self, *a, **o))
    return found


def drawn(n=200):
    """Rows of normal samples that lie one beside the other, as the tilts have them."""
    rng = np.random.default_rng(3)
    return {name: pl.DataFrame({"x": rng.normal(k / K, 1.0, n)}) for k, name in enumerate(TILTS)}


def labelled(frames):
    return pl.concat([rows.with_columns(pl.lit(name).alias("label")) for name, rows in frames.items()]).lazy()


@pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))
def test_one_query_tells_the_sums_of_all_frames(engine, passes):
    frames = drawn()
    fit = vardi.debias({name: engine(rows) for name, rows in frames.items()}, TILTS)
    asked = len(passes)
    passes.clear()
    one = vardi.debias(labelled(frames), TILTS, source="label")
    assert 0 < asked == len(passes)
    assert_allclose(fit.solution.u, one.solution.u, atol=1e-9)
    assert_allclose(fit.expectation("x").stderr, one.expectation("x").stderr, rtol=1e-8)


@pytest.mark.parametrize(
    "more",
    [
        {"known": {"x": 0.1}},
        {"biases": {**TILTS, "s4": vardi.exponential_tilt("x")}},
    ],
    ids=["known mean", "parameter"],
)
def test_rows_with_parameters_and_known_means_too(more, passes):
    frames, biases = drawn(), more.get("biases", TILTS)
    known = {"known": more["known"]} if "known" in more else {}
    fit = vardi.debias({name: rows.lazy() for name, rows in frames.items()}, biases, **known)
    wanted = vardi.debias(frames, biases, **known)
    assert len(passes) < 3 * K
    assert_allclose(fit.expectation("x * x").value, wanted.expectation("x * x").value, rtol=1e-7)
    assert_allclose(fit.expectation("x * x").stderr, wanted.expectation("x * x").stderr, rtol=1e-6)


def test_frames_that_no_query_reads_together_are_asked_one_by_one(passes):
    frames = drawn()
    wanted = vardi.debias(frames, TILTS)
    apart = {name: on_a_connection_of_its_own(rows) for name, rows in frames.items()}
    mixed = {name: ENGINES["duckdb" if name == "s0" else "polars"](rows) for name, rows in frames.items()}
    for samples in (apart, mixed):
        passes.clear()
        fit = vardi.debias(samples, TILTS)
        assert len(passes) >= K
        assert_allclose(fit.expectation("x").value, wanted.expectation("x").value, rtol=1e-9)


QUESTIONS = {
    "normalisers": lambda fit: [(one.value, one.stderr) for one in fit.log_normalisers().values()],
    "covariance": lambda fit: fit.log_omega_covariance(),
    "means": lambda fit: [(one.value, one.stderr) for one in fit.expectations(["x", "x * x", "x > 0.5"])],
    "quantile": lambda fit: [fit.cdf("x").quantile(0.3).value, fit.cdf("x").quantile(0.3).stderr],
    "band": lambda fit: [fit.cdf("x").band().low, fit.cdf("x").band().high],
    "check": lambda fit: list(fit.check_biases(["x"]).by_sample.values()),
    "diagnostics": lambda fit: [fit.diagnostics().effective, *fit.diagnostics().overlap.ravel()],
    "sensitivity": lambda fit: fit.sensitivity("x").linear_lower,
}


@pytest.fixture(scope="module", params=["polars", "duckdb"])
def fits(request):
    """The fit of many frames in an engine, and that of one."""
    frames = drawn()
    fit = vardi.debias({name: ENGINES[request.param](rows) for name, rows in frames.items()}, TILTS)
    return fit, vardi.debias(labelled(frames), TILTS, source="label")


@pytest.mark.parametrize("question", QUESTIONS)
def test_estimates_of_many_frames_are_those_of_one_and_take_few_queries(question, fits, asked):
    fit, one = fits
    found = QUESTIONS[question](fit)
    queries = len(asked)
    asked.clear()
    wanted = QUESTIONS[question](one)
    assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    assert queries <= len(asked) + 2 * K  # frames are checked for missing values one by one
