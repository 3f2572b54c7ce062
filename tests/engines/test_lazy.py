"""Lazy frames give what NumPy gives: every engine against the same suite, and rows that never leave it."""

import re
from functools import partial

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi
from vardi._inputs import lazy_pool
from vardi._inputs.engines import answering
from vardi._rows import lazy_model
from vardi._rows.dense import Dense
from vardi._rows.lazy_rows import LazyRows

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


@pytest.fixture(scope="module", params=[houses, lengths, strata], ids=lambda make: make.__name__)
def case(request):
    return request.param()


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def collected(native):
    return native.collect().to_pandas() if isinstance(native, pl.LazyFrame) else native.df()


def same(a, b):
    assert_allclose((a.value, a.stderr), (b.value, b.stderr), rtol=1e-8, atol=1e-12)
    assert_allclose(a.interval, b.interval, rtol=1e-8, atol=1e-12)


@pytest.fixture(scope="module")
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
        found, wanted = lazy.cdf(texts[0]), eager.cdf(texts[0])
        assert type(found) is type(wanted) is vardi.DebiasedCdf
        ends = repr(wanted).partition(" ")[2]
        assert repr(found) == f"DebiasedCdf({ends}"
        point = wanted.quantile(0.4).value
        same(found(point), wanted(point))
        assert_allclose(found([point, point + 1]).values, wanted([point, point + 1]).values)
        for q in (0.02, 0.5, 0.99):
            same(found.quantile(q), wanted.quantile(q))

    def test_steps_and_band_of_a_cdf(self, both):
        eager, lazy, texts = both
        found, wanted = lazy.cdf(texts[0]), eager.cdf(texts[0])
        assert_allclose(found.x, wanted.x)
        assert_allclose(found.heights, wanted.heights, rtol=1e-8)
        band, expected = found.band(0.9, draws=200, seed=3), wanted.band(0.9, draws=200, seed=3)
        assert_allclose(band.x, expected.x)
        for ends in ("value", "low", "high"):
            assert_allclose(getattr(band, ends), getattr(expected, ends), rtol=1e-8, atol=1e-10)

    def test_differences_and_ratios(self, both):
        eager, lazy, texts = both
        a, b = texts[:2]
        found, wanted = lazy.expectations([a, b]), eager.expectations([a, b])
        same(found[0] - found[1], wanted[0] - wanted[1])
        same(found[0] / found[1], wanted[0] / wanted[1])
        same(2 * found[0] * found[1] + 1, 2 * wanted[0] * wanted[1] + 1)
        same(lazy.expectation(a) - lazy.expectation(b), eager.expectation(a) - eager.expectation(b))
        same(lazy.expectation(a) / lazy.expectation(b), eager.expectation(a) / eager.expectation(b))
        cdf, wanted = lazy.cdf(a), eager.cdf(a)
        low, high = wanted.x[len(wanted.x) // 3], wanted.x[len(wanted.x) // 2]
        same(cdf(high) - cdf(low), wanted(high) - wanted(low))
        nothing = lazy.expectation(a) - lazy.expectation(a)
        assert nothing.value == 0.0
        assert nothing.stderr < 1e-10 * lazy.expectation(a).stderr

    def test_estimates_of_two_fits_are_not_combined(self, both):
        eager, lazy, texts = both
        with pytest.raises(vardi.MismatchError, match="different fits"):
            lazy.expectation(texts[0]) - eager.expectation(texts[0])

    def test_diagnostics(self, both):
        eager, lazy, texts = both
        found, wanted = lazy.diagnostics(texts), eager.diagnostics(texts)
        assert str(found) == str(wanted)
        for one, other in zip(found.columns, wanted.columns, strict=True):
            numbers = [(c.pooled, c.debiased, c.stderr, c.shift, c.df, c.low, c.high) for c in (one, other)]
            assert_allclose(*numbers, rtol=1e-8)

    def test_score_test_and_sensitivity(self, both):
        eager, lazy, texts = both
        found, wanted = lazy.check_biases(texts[:1]), eager.check_biases(texts[:1])
        assert_allclose((found.statistic, found.pvalue), (wanted.statistic, wanted.pvalue), rtol=1e-7)
        found, wanted = lazy.sensitivity(texts[0]), eager.sensitivity(texts[0])
        assert_allclose(found.linear_lower, wanted.linear_lower, rtol=1e-8)
        assert_allclose(found.linear_upper, wanted.linear_upper, rtol=1e-8)

    def test_new_rows_are_weighed(self, both, case):
        eager, lazy, _ = both
        rows = case[0][eager.names[0]]
        assert_allclose(lazy.weigh(rows), eager.weigh(rows), rtol=1e-9)
        assert_allclose(lazy.weigh(pl.from_pandas(rows)), eager.weigh(rows), rtol=1e-9)
        with pytest.raises(vardi.MismatchError, match="lazy frame .* Collect it first"):
            lazy.weigh(pl.from_pandas(rows).lazy())

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
    assert isinstance(vardi.debias({k: engine(v) for k, v in samples.items()}, biases).solved.rows, Dense)
    samples, biases, _ = lengths()
    assert isinstance(vardi.debias({k: engine(v) for k, v in samples.items()}, biases).solved.rows, LazyRows)


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
        with pytest.raises(vardi.MissingValuesError, match=r"missing values in 'x' \(1\)"):
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
        with pytest.raises(vardi.MismatchError, match="source was given as list"):
            vardi.debias(engine(pd.DataFrame({"x": [1.0]})), {"a": 1}, source=["a"])
        with pytest.raises(vardi.MismatchError, match="A NumPy array cannot be combined with lazy frames"):
            vardi.debias({"a": self.frames(engine)["a"], "b": np.ones(3)}, {"a": 1, "b": 1})

    def test_empty(self, engine):
        frames = {"a": engine(pd.DataFrame({"x": np.array([], float)})), "b": engine(pd.DataFrame({"x": [2.0]}))}
        with pytest.raises(vardi.EmptySampleError, match="No rows in 'a'"):
            vardi.debias(frames, {"a": 1, "b": 1})

    def test_what_needs_rows(self, engine):
        samples, biases, _ = houses()
        fit = vardi.debias({k: engine(v) for k, v in samples.items()}, biases)
        for call in (
            lambda: fit.sample(3, replace=True),
            lambda: fit.bootstrap(np.mean, n=3),
            lambda: fit.bounds(),
            lambda: fit.expectation(np.ones(300)),
        ):
            with pytest.raises(vardi.errors.NeedsRowsError, match="needs rows in memory"):
                call()


@pytest.fixture
def asked(monkeypatch):
    """Record the shape of what each query brings back: every query here looks at all rows."""
    shapes = []
    collect = nw.LazyFrame.collect

    def counting(frame, *arguments, **options):
        answer = collect(frame, *arguments, **options)
        shapes.append(answer.shape)
        return answer

    monkeypatch.setattr(nw.LazyFrame, "collect", counting)
    return shapes


def gammas(n, *, ordered=False):
    rng = np.random.default_rng(0)
    values = [rng.gamma(shape, size=size) for shape, size in ((3.0, n), (4.0, n), (5.0, n // 2))]
    frame = {"x": np.concatenate([np.sort(one) if ordered else one for one in values])}
    return pd.DataFrame({**frame, "s": np.repeat(["plain", "length", "square"], [n, n, n // 2])})


LENGTHS = {"plain": 1, "length": "x", "square": "x**2"}


class TestPasses:
    @pytest.mark.parametrize(
        "biases",
        [
            {"plain": "x <= 40", "length": "x > 1 and x < 9", "square": "not x < 0"},
            {"plain": vardi.steps("x", [2, 4]).at([0.5, -1.0]), "length": "0.5 * (x < 3) + 2 * (x >= 3)", "square": 1},
        ],
        ids=["conditions", "made of conditions"],
    )
    def test_one_query_where_biases_are_made_of_conditions(self, engine, asked, biases):
        pool = gammas(2_000)
        pool = pool[(pool["s"] != "length") | ((pool["x"] > 1) & (pool["x"] < 9))]
        lazy = vardi.debias(engine(pool), biases, source="s")
        assert len(asked) == 1
        assert_allclose(lazy.solution.u, vardi.debias(pool, biases, source="s").solution.u, rtol=1e-9)

    def test_one_query_for_each_frame(self, engine, asked):
        samples, biases, _ = houses()
        vardi.debias({k: engine(v) for k, v in samples.items()}, biases)
        assert len(asked) == 2

    @pytest.mark.parametrize("ordered", [False, True])
    def test_six_passes_at_most_where_biases_vary_with_every_row(self, engine, asked, ordered):
        pool = gammas(200_000, ordered=ordered)
        lazy = vardi.debias(engine(pool), LENGTHS, source="s")
        assert isinstance(lazy.solved.rows, LazyRows)
        assert len(asked) <= 6
        assert_allclose(lazy.solution.u, vardi.debias(pool, LENGTHS, source="s").solution.u, rtol=1e-12, atol=1e-12)

    def test_only_a_small_part_of_the_rows_comes_into_memory(self, engine, asked):
        vardi.debias(engine(gammas(200_000)), LENGTHS, source="s")
        assert sorted(rows for rows, _ in asked)[-2] <= 3
        assert max(rows for rows, _ in asked) < 1.1 * lazy_model.ROWS

    def test_more_conditions_than_an_integer_has_bits(self, engine, asked):
        pool = pd.DataFrame({"x": np.arange(120.0) % 40})
        biases = {"0": 1, **{str(k): f"x < {k}" for k in range(1, 40)}}
        lazy = vardi.debias({"0": engine(pool)}, biases)
        assert len(asked) == 1
        assert_allclose(list(lazy.omegas.values()), [1.0, *(k / 40 for k in range(1, 40))])

    def test_few_values_of_a_number_are_solved_in_memory(self, engine):
        pool = gammas(5_000).assign(k=lambda frame: frame["x"].round())
        biases = {"plain": 1, "length": "k + 1", "square": "(k + 1)**2"}
        lazy = vardi.debias(engine(pool), biases, source="s")
        assert isinstance(lazy.solved.rows, Dense)
        assert len(lazy.solved.rows) < 100
        assert_allclose(lazy.solution.u, vardi.debias(pool, biases, source="s").solution.u, rtol=1e-9)

    def test_rows_that_are_all_alike_in_one_sample(self, engine, monkeypatch):
        monkeypatch.setattr(lazy_model, "ROWS", 300)
        monkeypatch.setattr(lazy_model, "subsample", partial(lazy_model.subsample, first=50))
        pool = gammas(2_000)
        pool.loc[pool["s"] == "plain", "x"] = 3.0
        lazy = vardi.debias(engine(pool), LENGTHS, source="s")
        assert isinstance(lazy.solved.rows, LazyRows)
        assert_allclose(lazy.solution.u, vardi.debias(pool, LENGTHS, source="s").solution.u, rtol=1e-9)


def test_sums_at_the_last_point_take_no_query(engine, asked):
    rows = vardi.debias(engine(gammas(1_000)), LENGTHS, source="s").solved.rows
    u = np.array([0.1, -0.2, -0.4])
    there, passes = rows.sums(u), len(asked)
    again = rows.sums(u, gram=False)
    assert again.log_mass == there.log_mass
    assert np.array_equal(again.shares, there.shares)
    rows.weights(u)
    shifted = rows.sums(u + 0.5)  # multiplies every S by the same number
    assert_allclose([shifted.log_mass, *shifted.shares], [there.log_mass + 0.5 * len(rows), *there.shares], rtol=1e-12)
    assert len(asked) == passes
    rows.sums(u + np.array([1e-6, 0.0, 0.0]))
    assert len(asked) == passes + 1


def test_a_gram_is_formed_only_where_it_is_asked_for_or_small(engine, monkeypatch, asked):
    monkeypatch.setattr("vardi._rows.lazy_rows.GRAMS", 1)
    rows = vardi.debias(engine(gammas(1_000)), LENGTHS, source="s").solved.rows
    here, there = np.array([0.1, -0.2, -0.4]), np.array([0.101, -0.2, -0.4])
    rows.sums(here)
    assert rows.sums(there, gram=False).gram is None
    passes = len(asked)
    fresh = rows.sums(there)
    assert len(asked) == passes + 1
    assert_allclose(fresh.gram.array().sum(axis=1), fresh.shares)


class TestMemory:
    def test_distinct_rows_are_as_many_as_memory_holds(self, monkeypatch):
        monkeypatch.setattr(lazy_pool, "available_memory", lambda: 16 * 10**9)
        assert lazy_pool.most_cells(3) == 13_888_888
        assert lazy_pool.most_cells(100) == 16 * 10**9 // 4 // (8 * 103 * 6)
        monkeypatch.setattr(lazy_pool, "available_memory", lambda: 0)
        assert lazy_pool.most_cells(3) == 1

    def test_more_distinct_rows_than_memory_holds_stay_in_the_engine(self, engine, monkeypatch):
        for module in ("_inputs.lazy_pool", "_rows.lazy_model"):
            monkeypatch.setattr(f"vardi.{module}.most_cells", lambda columns: 3)
        pool = gammas(500)
        biases = {"plain": "x <= 40", "length": "x >= 0", "square": "x <= 30 or x > 31"}
        few = vardi.debias(engine(pool), biases, source="s")
        assert isinstance(few.solved.rows, Dense)
        biases = {"plain": "x <= 40", "length": "0.5 + (x >= 3)", "square": "x <= 30 or x > 31"}
        lazy = vardi.debias(engine(pool), biases, source="s")
        assert isinstance(lazy.solved.rows, LazyRows)
        assert_allclose(lazy.solution.u, vardi.debias(pool, biases, source="s").solution.u, rtol=1e-9)


@pytest.mark.parametrize("choice", ["streaming", "in-memory"])
def test_polars_computes_by_the_engine_that_its_user_sets(monkeypatch, choice):
    options = []
    collect = pl.LazyFrame.collect
    monkeypatch.setattr(
        pl.LazyFrame, "collect", lambda frame, **given: options.append(given) or collect(frame, **given)
    )
    pool = gammas(1_000)
    with pl.Config() as config:
        config.set_engine_affinity(choice)
        lazy = vardi.debias(pl.from_pandas(pool).lazy(), LENGTHS, source="s")
    assert options
    assert all(given.get("engine", "auto") == "auto" for given in options)
    assert_allclose(lazy.solution.u, vardi.debias(pool, LENGTHS, source="s").solution.u, rtol=1e-9)


def test_a_summary_says_that_it_has_no_means(engine):
    samples, biases, _ = houses()
    fit = vardi.debias({k: engine(v) for k, v in samples.items()}, biases)
    said = "No means are shown: the rows are in their engine, which would have to read them all again."
    assert f"{said} Ask for those you need, e.g. with fit.expectation('MEDV')." in " ".join(fit.summary().split())
    assert said in fit._repr_html_()
    assert "No means" not in vardi.debias(samples, biases).summary()


class TestEngineErrors:
    def refused(self, frame, *texts, biases=None, cause=Exception):
        with pytest.raises(vardi.EngineError) as caught:
            vardi.debias({"a": frame}, biases or {"a": "x <= 6"})
        assert caught.value.sample == "a"
        assert isinstance(caught.value.__cause__, cause)
        for text in ("The engine could not compute on the rows of sample 'a' (", "Nothing was left half done.", *texts):
            assert text in str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path):
        remedy = "Check that the file is where the frame says"
        self.refused(pl.scan_parquet(tmp_path / "no.parquet"), "FileNotFoundError", remedy, cause=FileNotFoundError)
        path = tmp_path / "soon_gone.parquet"
        pl.DataFrame({"x": [1.0]}).write_parquet(path)
        relation = duckdb.connect().read_parquet(str(path))
        path.unlink()
        self.refused(relation, "duckdb IOException", remedy, cause=duckdb.IOException)

    def test_a_file_of_another_format(self, tmp_path):
        path = tmp_path / "text.parquet"
        path.write_text("this is no Parquet file, but it is long enough to be looked at\n" * 3)
        self.refused(pl.scan_parquet(path), "Check that the file is complete", cause=pl.exceptions.PolarsError)

    def test_a_connection_that_was_closed(self):
        connection = duckdb.connect()
        relation = connection.sql("select 1.0 as x")
        connection.close()
        self.refused(relation, "Keep the connection open", cause=duckdb.Error)

    def test_a_connection_that_is_closed_while_a_fit_is_used(self):
        connection = duckdb.connect()
        connection.execute("create table t as select range::double as x from range(50)")
        fit = vardi.debias({"a": connection.table("t")}, {"a": "x + 1"})
        connection.close()
        with pytest.raises(vardi.EngineError, match="Keep the connection open"):
            fit.expectation("x")

    def test_values_that_fail_in_the_middle_of_a_query(self):
        connection = duckdb.connect()
        relation = connection.sql(
            "select case when range < 5000 then range else error('disk full') end as x from range(9000)"
        )
        self.refused(relation, "disk full", "Collect the first rows of the frame", cause=duckdb.Error)
        frame = pl.LazyFrame({"t": ["1", "2", "three"]}).select(pl.col("t").cast(pl.Float64).alias("x"))
        self.refused(frame, "polars InvalidOperationError", cause=pl.exceptions.InvalidOperationError)

    def test_text_where_a_number_is_needed(self, engine):
        frame = engine(pd.DataFrame({"x": ["1", "2"]}))
        with pytest.raises(vardi.MismatchError, match=r"Column 'x' holds text \(String\), but it is compared with 0.6"):
            vardi.debias({"a": frame}, {"a": "x <= 0.6"})

    def test_one_frame_of_all_samples(self, tmp_path):
        with pytest.raises(vardi.EngineError, match="on the frame of all samples") as caught:
            vardi.debias(pl.scan_parquet(tmp_path / "no.parquet"), {"a": 1}, source="s")
        assert caught.value.sample is None

    @pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), ImportError("no pyarrow")])
    def test_what_is_not_the_engine_s_comes_out_as_it_is(self, monkeypatch, error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(nw.LazyFrame, "collect", fail)
        with pytest.raises(type(error)) as caught:
            vardi.debias({"a": pl.LazyFrame({"x": [1.0]})}, {"a": 1})
        assert caught.value is error

    def test_an_interrupt_that_the_engine_reports(self):
        with pytest.raises(KeyboardInterrupt), answering():
            raise RuntimeError("Query interrupted") from KeyboardInterrupt()

    def test_a_lack_of_memory_that_the_engine_reports(self):
        error = type("OutOfMemoryException", (Exception,), {})("could not allocate block\nand more")
        with (
            pytest.raises(vardi.EngineError, match="could not allocate block\\). .* Give the engine more memory"),
            answering(),
        ):
            raise error


class TestCounts:
    def test_bad_counts_are_named(self, engine):
        fine = engine(pd.DataFrame({"x": [1.0, 2.0], "n": [1.0, 2.0]}))
        for bad in (-1.0, np.inf, 2.5):
            frame = engine(pd.DataFrame({"x": [1.0, 2.0, 3.0], "n": [1.0, bad, 2.0]}))
            with pytest.raises(vardi.InvalidCountsError, match=f"^A count in 'n' of 'b' is {bad}[.,]"):
                vardi.debias({"a": fine, "b": frame}, {"a": 1, "b": "x > 0"}, counts="n")

    def test_bad_counts_of_a_labelled_pool_are_those_of_a_sample(self, engine):
        rows = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "s": ["a", "a", "b", "b"], "n": [1.0, 2.0, -3.0, -2.0]})
        with pytest.raises(vardi.InvalidCountsError, match="^A count in 'n' of 'b' is -3.0[.] A count says"):
            vardi.debias(engine(rows), {"a": 1, "b": 1}, source="s", counts="n")

    def test_rows_that_count_for_nothing_may_be_impossible(self, engine, asked):
        frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, -5.0], "n": [1, 2, 2, 0]})
        fit = vardi.debias({"a": engine(frame)}, {"a": "x > 0"}, counts="n")
        assert fit.sizes == {"a": 5.0}
        assert len(asked) == 1


class TestQueriesOfAnEstimate:
    """One frame with labels; the first estimate of a fit asks once for overlaps."""

    def asked_for(self, asked, call):
        before = len(asked)
        call()
        return len(asked) - before

    @pytest.mark.parametrize("biases", [LENGTHS, {"plain": "x <= 40", "length": "x > 0", "square": "x <= 30"}])
    def test_expectations(self, engine, asked, biases):
        fit = vardi.debias(engine(gammas(1_000)), biases, source="s")
        fit.expectation("x")
        several = self.asked_for(asked, lambda: fit.expectations(["x", "x > 2", "x ** 2"]))
        assert several == 4  # missing values, means, sums against the overlaps, powers of deviations
        estimates = [fit.expectation("x"), fit.expectation("x > 2")]
        assert self.asked_for(asked, lambda: estimates[0] / estimates[1]) == 1
        assert max(rows for rows, _ in asked[-6:]) <= 3

    def test_the_first_estimate_of_conditions_asks_for_no_tail(self, engine, asked):
        pool, biases = gammas(1_000), {"plain": "x <= 40", "length": "x > 0", "square": "x <= 30"}
        fit = vardi.debias(engine(pool), biases, source="s")
        assert self.asked_for(asked, lambda: fit.expectation("x")) == 4

    def test_shares_ask_once_for_the_weights_of_all_rows(self, engine, asked):
        fit = vardi.debias(engine(gammas(1_000)), LENGTHS, source="s")
        fit.expectation("x")
        assert self.asked_for(asked, lambda: fit.expectation("x > 2")) == 4
        assert self.asked_for(asked, lambda: fit.expectation("x > 1000")) == 5
        assert self.asked_for(asked, lambda: fit.expectation("x > 2000")) == 4


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
def test_the_tail_of_collapsed_rows_is_that_of_all(engine):
    rng = np.random.default_rng(0)
    x = np.where(rng.random(4_000) < 0.1, rng.uniform(0.1, 3.0, 4_000), 3.5)
    pool = pd.DataFrame({"x": x, "s": np.repeat(["a", "b"], 2_000)})
    biases = {"a": "x ** 3", "b": "x ** 2"}
    lazy, eager = vardi.debias(engine(pool), biases, source="s"), vardi.debias(pool, biases, source="s")
    assert lazy.solved.prepared.in_memory
    assert eager.expectation("x").law.tail > 0.4
    assert_allclose(lazy.expectation("x").law.tail, eager.expectation("x").law.tail, rtol=1e-8)
    counted = pool.assign(n=rng.integers(1, 3, len(pool)))
    lazy, eager = (vardi.debias(rows, biases, source="s", counts="n") for rows in (engine(counted), counted))
    assert_allclose(lazy.expectation("x").law.tail, eager.expectation("x").law.tail, rtol=1e-8)


def test_a_row_that_carries_a_variance_is_told_as_in_memory(engine):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": np.append(rng.uniform(1, 2, 199), 3.0), "y": np.append(rng.normal(size=199), 60.0)})
    for rows in (frame, engine(frame)):
        with pytest.warns(vardi.WeakOverlapWarning, match="mean of 'y' rests on few rows"):
            vardi.debias({"a": rows}, {"a": "x"}).expectation("y")


@pytest.mark.parametrize("known", [{"x > 3": 0.42}, {"x > 3": (0.42, 0.02), "x": (3.0, 0.05)}], ids=["exact", "errors"])
def test_known_values_join_groups_of_densities(engine, known):
    rng = np.random.default_rng(0)
    x = rng.gamma(3.0, 1.0, 8_000)
    laws = {"low": x * (x <= 3), "lower": 1.0 * (x <= 2), "high": x * (x > 3)}
    drawn = {name: rng.choice(x, 400, p=law / law.sum()) for name, law in laws.items()}
    samples = {name: pd.DataFrame({"x": values}) for name, values in drawn.items()}
    biases = {"low": "x * (x <= 3)", "lower": "x <= 2", "high": "x * (x > 3)"}
    lazy = vardi.debias({name: engine(rows) for name, rows in samples.items()}, biases, known=known)
    eager = vardi.debias(samples, biases, known=known)
    assert isinstance(lazy.solved.rows, LazyRows)
    assert lazy.identify().message == eager.identify().message
    same(lazy.expectation("x"), eager.expectation("x"))
    found, wanted = lazy.known, eager.known
    assert str(found) == str(wanted)
    assert_allclose([line.estimated for line in found.lines], [line.estimated for line in wanted.lines], rtol=1e-8)
    assert_allclose(found.pvalue, wanted.pvalue, rtol=1e-7)
    assert_allclose(lazy.weigh(samples["high"]), eager.weigh(samples["high"]), rtol=1e-8)


def test_a_report_has_the_sections_of_memory(engine, tmp_path):
    samples, biases, texts = houses()
    lazy = vardi.debias({k: engine(v) for k, v in samples.items()}, biases)
    pages = [
        fit.report(tmp_path / f"{name}.html", variables=texts).read_text(encoding="utf-8")
        for name, fit in (("lazy", lazy), ("eager", vardi.debias(samples, biases)))
    ]
    sections = [re.findall(r"<h[23][^>]*>(.*?)</h[23]>", page) for page in pages]
    assert len(sections[1]) > 4
    assert sections[0] == sections[1]
