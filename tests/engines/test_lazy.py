"""Lazy frames give what NumPy gives: every engine against the same suite, and rows that never leave it."""

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi

ENGINES = {
    "polars": lambda frame: pl.from_pandas(frame).lazy(),
    "duckdb": duckdb.from_df,
}


def houses():
    design = vardi.datasets.house_prices(seed=0)
    return design.samples, design.biases, ["MEDV", "RM * 2", "CHAS == 1"]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def same(a, b):
    assert_allclose((a.value, a.stderr), (b.value, b.stderr), rtol=1e-8, atol=1e-12)
    assert_allclose(a.interval, b.interval, rtol=1e-8, atol=1e-12)


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
        assert len(asked) <= 6
        assert_allclose(lazy.solution.u, vardi.debias(pool, LENGTHS, source="s").solution.u, rtol=1e-12, atol=1e-12)

    def test_only_a_small_part_of_the_rows_comes_into_memory(self, engine, asked):
        vardi.debias(engine(gammas(200_000)), LENGTHS, source="s")
        assert sorted(rows for rows, _ in asked)[-2] <= 3
        assert max(rows for rows, _ in asked) < 220_000  # of 500,000

    def test_more_conditions_than_an_integer_has_bits(self, engine, asked):
        pool = pd.DataFrame({"x": np.arange(120.0) % 40})
        biases = {"0": 1, **{str(k): f"x < {k}" for k in range(1, 40)}}
        lazy = vardi.debias({"0": engine(pool)}, biases)
        assert len(asked) == 1
        assert_allclose(list(lazy.omegas.values()), [1.0, *(k / 40 for k in range(1, 40))])

    def test_few_values_of_a_number_are_solved_in_memory(self, engine, asked):
        pool = gammas(5_000).assign(k=lambda frame: frame["x"].round())
        biases = {"plain": 1, "length": "k + 1", "square": "(k + 1)**2"}
        lazy = vardi.debias(engine(pool), biases, source="s")
        assert max(rows for rows, _ in asked) < 100
        assert_allclose(lazy.solution.u, vardi.debias(pool, biases, source="s").solution.u, rtol=1e-9)

    def test_rows_that_are_all_alike_in_one_sample(self, engine, asked):
        pool = gammas(100_000)
        pool.loc[pool["s"] == "plain", "x"] = 3.0
        lazy = vardi.debias(engine(pool), LENGTHS, source="s")
        assert max(rows for rows, _ in asked) < 220_000  # of 250,000
        assert_allclose(lazy.solution.u, vardi.debias(pool, LENGTHS, source="s").solution.u, rtol=1e-9)


def test_a_fit_in_an_engine_and_one_in_memory_are_two_fits(engine):
    pool = gammas(100)
    lazy, eager = (vardi.debias(rows, LENGTHS, source="s") for rows in (engine(pool), pool))
    with pytest.raises(vardi.MismatchError, match="different fits"):
        lazy.expectation("x") - eager.expectation("x")
    assert_allclose(lazy.weigh(pl.from_pandas(pool)), eager.weigh(pool), rtol=1e-9)
    rows = pl.from_pandas(pool).lazy()
    assert_allclose(lazy.weigh(rows).collect()["weight"], eager.weigh(pool), rtol=1e-9)


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

    def test_an_interrupt_that_the_engine_reports(self, monkeypatch):
        def fail(*_, **__):
            raise RuntimeError("Query interrupted") from KeyboardInterrupt()

        monkeypatch.setattr(nw.LazyFrame, "collect", fail)
        with pytest.raises(KeyboardInterrupt):
            vardi.debias({"a": pl.LazyFrame({"x": [1.0]})}, {"a": 1})

    def test_a_lack_of_memory_that_the_engine_reports(self, monkeypatch):
        def fail(*_, **__):
            raise type("OutOfMemoryException", (Exception,), {})("could not allocate block\nand more")

        monkeypatch.setattr(nw.LazyFrame, "collect", fail)
        self.refused(pl.LazyFrame({"x": [1.0]}), "could not allocate block). ", "Give the engine more memory")


class TestCounts:
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
    assert lazy.identify().message == eager.identify().message
    same(lazy.expectation("x"), eager.expectation("x"))
    found, wanted = lazy.known, eager.known
    assert str(found) == str(wanted)
    assert_allclose([line.estimated for line in found.lines], [line.estimated for line in wanted.lines], rtol=1e-8)
    assert_allclose(found.pvalue, wanted.pvalue, rtol=1e-7)
    assert_allclose(lazy.weigh(samples["high"]), eager.weigh(samples["high"]), rtol=1e-8)
