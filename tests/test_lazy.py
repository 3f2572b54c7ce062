"""Lazy frames give what NumPy gives: every engine against the same suite, and rows that never leave it."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi
from vardi._rows.dense import Dense
from vardi._rows.lazy import LazyRows

ENGINES = {
    "polars": lambda frame: pl.from_pandas(frame).lazy(),
    "duckdb": duckdb.from_df,
}


def houses():
    design = vardi.datasets.house_prices(seed=0)
    return design.samples, design.biases, ["MEDV", "RM * 2", "CHAS == 1"]


def lengths():
    design = vardi.datasets.length_bias(seed=0)
    return {name: pd.DataFrame({"x": rows}) for name, rows in design.samples.items()}, design.biases, ["x", "x**2"]


def strata():
    design = vardi.datasets.strata(seed=0)
    frames = {name: pd.DataFrame(rows, columns=["x0", "x1"]) for name, rows in design.samples.items()}
    return frames, {**design.biases, "unsampled": "x0 > 0.5"}, ["x0", "x1"]


@pytest.fixture(params=[houses, lengths, strata], ids=lambda make: make.__name__)
def case(request):
    return request.param()


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def collected(native):
    return native.collect().to_pandas() if isinstance(native, pl.LazyFrame) else native.df()


def same(a, b):
    assert_allclose((a.value, a.stderr), (b.value, b.stderr), rtol=1e-8, atol=1e-12)
    assert_allclose(a.interval, b.interval, rtol=1e-8, atol=1e-12)


@pytest.fixture
def both(case, engine):
    samples, biases, texts = case
    lazy = vardi.debias({name: engine(rows) for name, rows in samples.items()}, biases)
    return vardi.debias(samples, biases), lazy, texts


class TestSameAsInMemory:
    def test_solution(self, both):
        eager, lazy, _ = both
        assert_allclose(lazy.solution.u, eager.solution.u, rtol=1e-9)
        assert lazy.sizes == eager.sizes
        assert_allclose(list(lazy.omegas.values()), list(eager.omegas.values()), rtol=1e-9)
        assert_allclose(list(lazy.w.values()), list(eager.w.values()), rtol=1e-9)
        assert lazy.solution.residual < 1e-10

    def test_expectations_and_errors(self, both):
        eager, lazy, texts = both
        for text in texts:
            same(lazy.expectation(text), eager.expectation(text))
        assert_allclose(lazy.expectations(texts).covariance, eager.expectations(texts).covariance, rtol=1e-8)

    def test_cdf_and_quantiles(self, both):
        eager, lazy, texts = both
        assert repr(lazy.cdf(texts[0])) == f"LazyCdf({texts[0]!r})"
        assert repr(eager.cdf(texts[0])).startswith("DebiasedCdf(")
        point = eager.cdf(texts[0]).quantile(0.4).value
        same(lazy.cdf(texts[0])(point), eager.cdf(texts[0])(point))
        assert_allclose(lazy.cdf(texts[0])([point, point + 1]).values, eager.cdf(texts[0])([point, point + 1]).values)
        for q in (0.02, 0.5, 0.99):
            same(lazy.cdf(texts[0]).quantile(q), eager.cdf(texts[0]).quantile(q))

    def test_normalisers(self, both):
        eager, lazy, _ = both
        for name, estimate in eager.normalisers().items():
            same(lazy.normalisers()[name], estimate)
        assert_allclose(lazy.log_omega_covariance(), eager.log_omega_covariance(), rtol=1e-8, atol=1e-14)

    def test_verdict_and_trust(self, both):
        eager, lazy, _ = both
        assert lazy.identify().message == eager.identify().message
        assert_allclose(lazy.identify().kappa, eager.identify().kappa)
        assert_allclose(lazy.trust.bridging, eager.trust.bridging)

    def test_weights_are_a_lazy_column(self, both):
        eager, lazy, _ = both
        start = 0
        for frame in lazy.weights.values():
            assert isinstance(frame, pl.LazyFrame | duckdb.DuckDBPyRelation)
            rows = collected(frame)
            assert not [name for name in rows.columns if name.startswith("__vardi")]
            assert_allclose(rows["weight"], np.asarray(eager.weights)[start : start + len(rows)], rtol=1e-9)
            start += len(rows)
        assert start == len(eager)
        total = sum(collected(frame)["probability"].sum() for frame in lazy.probabilities.values())
        assert_allclose(total, 1.0)


def test_indicators_are_solved_in_memory_and_densities_in_the_engine(engine):
    samples, biases, _ = houses()
    assert isinstance(vardi.debias({k: engine(v) for k, v in samples.items()}, biases)._rows, Dense)
    samples, biases, _ = lengths()
    assert isinstance(vardi.debias({k: engine(v) for k, v in samples.items()}, biases)._rows, LazyRows)


def test_one_frame_with_labels(engine):
    samples, biases, _ = lengths()
    pool = pd.concat([rows.assign(origin=name) for name, rows in samples.items()])
    lazy = vardi.debias(engine(pool), biases, source="origin")
    eager = vardi.debias(pool, biases, source="origin")
    same(lazy.expectation("x"), eager.expectation("x"))
    assert_allclose(collected(lazy.weights)["weight"].sort_values(), eager.weights.sort_values(), rtol=1e-9)


def test_counts_are_a_column(engine):
    samples, biases, _ = lengths()
    rng = np.random.default_rng(0)
    samples = {name: rows.assign(n=rng.integers(0, 4, len(rows))) for name, rows in samples.items()}
    lazy = vardi.debias({k: engine(v) for k, v in samples.items()}, biases, counts="n")
    eager = vardi.debias(samples, biases, counts="n")
    assert lazy.sizes == eager.sizes
    same(lazy.expectation("x"), eager.expectation("x"))


def test_samples_in_different_engines():
    samples, biases, texts = houses()
    mixed = {"agency": pl.from_pandas(samples["agency"]).lazy(), "national": duckdb.from_df(samples["national"])}
    lazy, eager = vardi.debias(mixed, biases), vardi.debias(samples, biases)
    for text in texts:
        same(lazy.expectation(text), eager.expectation(text))
    beside = vardi.debias({"agency": mixed["agency"], "national": samples["national"]}, biases)
    same(beside.expectation("MEDV"), eager.expectation("MEDV"))


def test_identify(engine):
    frames = {"low": pd.DataFrame({"x": [1.0, 2.0]}), "high": pd.DataFrame({"x": [7.0, 8.0]})}
    biases = {"low": "x <= 5", "high": "x >= 6"}
    verdict = vardi.identify({k: engine(v) for k, v in frames.items()}, biases)
    assert verdict.groups == (("low",), ("high",))
    with pytest.raises(vardi.NotIdentifiableError, match="share no rows"):
        vardi.debias({k: engine(v) for k, v in frames.items()}, biases)


class TestRefusals:
    def frames(self, engine, **columns):
        return {
            "a": engine(pd.DataFrame({"x": [1.0, 2.0, 3.0], **columns})),
            "b": engine(pd.DataFrame({"x": [2.0, 3.0]})),
        }

    def test_impossible_rows(self, engine):
        with pytest.raises(
            vardi.ImpossibleRowError, match="Sample 'a' holds 1 row that its own bias forbids"
        ) as caught:
            vardi.debias(self.frames(engine), {"a": "x > 1", "b": 1})
        assert caught.value.sample == "a"

    @pytest.mark.parametrize(("bias", "value"), [("x - 2", "-1"), ("log(x - 1)", "-inf"), ("1 / (x - 1)", "inf")])
    def test_invalid_values(self, engine, bias, value):
        with pytest.raises(vardi.InvalidBiasError, match="The bias of 'a' is") as caught:
            vardi.debias(self.frames(engine), {"a": bias, "b": 1})
        assert caught.value.sample == "a"

    def test_missing_values(self, engine):
        frames = {"a": engine(pd.DataFrame({"x": [1.0, None, 3.0]})), "b": engine(pd.DataFrame({"x": [2.0, 3.0]}))}
        with pytest.raises(vardi.MissingValuesError, match=r"on rows of sample 'a' is unknown on 1 row, .*'x' \(1\)"):
            vardi.debias(frames, {"a": "x > 0", "b": 1})
        fit = vardi.debias(frames, {"a": "x > 0 or x is missing", "b": 1})
        with pytest.raises(vardi.MissingValuesError), pytest.warns(vardi.WeakOverlapWarning):
            fit.expectation("x")

    def test_missing_counts(self, engine):
        frame = engine(pd.DataFrame({"x": [1.0, 2.0, 3.0], "n": [1.0, None, 2.0]}))
        with pytest.raises(
            vardi.MissingValuesError, match="The counts in 'n' are missing in 1 row. Fill them in"
        ) as caught:
            vardi.debias({"a": frame}, {"a": 1}, counts="n")
        assert caught.value.columns == {"n": 1}

    def test_unknown_column_and_label(self, engine):
        with pytest.raises(vardi.MismatchError, match="'y'"):
            vardi.debias(self.frames(engine), {"a": "y > 1", "b": 1})
        pool = engine(pd.DataFrame({"x": [1.0, 2.0], "s": ["a", "c"]}))
        with pytest.raises(vardi.MismatchError, match="Label 'c' of 's' has no bias"):
            vardi.debias(pool, {"a": 1, "b": 1}, source="s")

    def test_functions_and_arrays(self, engine):
        with pytest.raises(vardi.InvalidBiasError, match="which an engine cannot compute"):
            vardi.debias(self.frames(engine), {"a": lambda rows: rows, "b": 1})
        with pytest.raises(vardi.MismatchError, match="source came as list"):
            vardi.debias(engine(pd.DataFrame({"x": [1.0]})), {"a": 1}, source=["a"])
        with pytest.raises(vardi.MismatchError, match="A NumPy array cannot stand beside lazy frames"):
            vardi.debias({"a": self.frames(engine)["a"], "b": np.ones(3)}, {"a": 1, "b": 1})

    def test_empty(self, engine):
        frames = {"a": engine(pd.DataFrame({"x": np.array([], float)})), "b": engine(pd.DataFrame({"x": [2.0]}))}
        with pytest.raises(vardi.EmptySampleError, match="No rows in 'a'"):
            vardi.debias(frames, {"a": 1, "b": 1})

    def test_what_needs_rows(self, engine):
        samples, biases, _ = houses()
        fit = vardi.debias({k: engine(v) for k, v in samples.items()}, biases)
        for call in (
            lambda: fit.sample(3),
            lambda: fit.diagnostics(),
            lambda: fit.check_biases(),
            lambda: fit.bounds(),
            lambda: fit.cdf("MEDV").band(),
            lambda: fit.expectation(np.ones(300)),
        ):
            with pytest.raises(vardi.errors.NeedsRowsError, match="needs rows in memory"):
                call()
