"""Expressions of Polars and narwhals as biases and as functions of rows in memory; tests/engines has the engines."""

import importlib
import pickle

import narwhals as nw
import narwhals.stable.v1 as nw_v1
import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pytest

import vardi
from vardi._inputs.frames import as_frame
from vardi._inputs.library_expressions import columns_read
from vardi.biases import FrameExpressionBias, ProductBias, as_bias, where

LIBRARIES = {
    "pandas": pd.DataFrame,
    "nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "Polars": pl.DataFrame,
    "PyArrow": pa.table,
}
COLUMNS = {"x": [1.0, 2.0, 5.0], "n": [1, 2, 3], "g": ["a", "b", "a"], "b": [True, False, True]}
GAPS = {"x": [1.0, None, 5.0], "n": [1, 2, 3], "g": ["a", None, "b"], "b": [True, False, True]}


def values(rows, expression):
    return as_frame(rows).evaluate([as_bias(expression)])[0]


# --- a bias


@pytest.mark.parametrize(
    ("expression", "text", "columns"),
    [
        (pl.col("x") <= 3, '<Polars [(col("x")) <= (dyn int: 3)]>', ("x",)),
        (nw.col("x") <= 3, "<narwhals col(x).__le__(3)>", ()),
        (pl.col("a") * pl.col("b") + pl.col("a"), None, ("a", "b")),
        (pl.lit(2), None, ()),
    ],
)
def test_an_expression_is_a_bias(expression, text, columns):
    bias = as_bias(expression)
    assert isinstance(bias, FrameExpressionBias)
    assert bias == as_bias(bias)
    assert bias != as_bias(expression)  # the == of expressions is an expression
    assert bias.columns == columns
    assert repr(bias) == str(bias)
    if text is not None and nw.__version__ >= "2.28":
        assert str(bias) == text
    assert str(pickle.loads(pickle.dumps(bias))) == str(bias)


def test_a_long_expression_is_cut():
    long = sum((pl.col(f"a{j}") for j in range(100)), start=pl.lit(0))
    assert len(str(as_bias(long))) < 220
    assert str(as_bias(long)).endswith("…>")


def test_its_text_does_not_read_back_and_says_so(tmp_path):
    for bias in (as_bias(pl.col("x") <= 3), as_bias(nw.col("x")), as_bias(abs), as_bias([1.0])):
        with pytest.raises(vardi.ExpressionError, match=r"cannot be read back. Write the bias as text") as caught:
            where(str(bias))
        assert caught.value.offset == 0
    (tmp_path / "a.csv").write_text("x\n1\n")
    study = '[sources.a]\ndata = "a.csv"\nbias = "<Polars col(x)>"\n'
    with pytest.raises(
        vardi.StudyError, match="a Polars or narwhals expression is displayed, and it cannot be read back"
    ):
        vardi.study.parse(study, tmp_path / "study.toml")


def test_products_and_conditions():
    bias = where("n > 1") * as_bias(pl.col("x") <= 3) * 2
    assert isinstance(bias, ProductBias)
    assert str(bias).startswith("(n > 1) * <Polars ")
    assert bias.columns == ("n", "x")
    assert values(pl.DataFrame(COLUMNS), bias).tolist() == [0.0, 2.0, 0.0]
    with pytest.raises(vardi.InvalidBiasError, match=r"& joins conditions, but the bias <Polars .* is not one"):
        where("n > 1") & as_bias(pl.col("x") <= 3)
    tilted = as_bias(nw.col("b")) * vardi.exponential_tilt("x")
    assert str(tilted).startswith("(<narwhals")


# --- values, in every library


CASES = [
    (lambda col: col("x") <= 3, [True, True, False]),
    (lambda col: col("n") * 2, [2.0, 4.0, 6.0]),
    (lambda col: col("g") == "a", [True, False, True]),
    (lambda col: ~col("b"), [False, True, False]),
    (lambda col: (col("x") - 1) / col("n"), [0.0, 0.5, 4 / 3]),
    (lambda col: col("g").is_in(["b"]) | (col("n") > 2), [False, True, True]),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("col", [pl.col, nw.col, nw_v1.col], ids=["Polars", "narwhals", "narwhals stable"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_values(library, col, case):
    make, expected = CASES[case]
    found = values(LIBRARIES[library](COLUMNS), make(col))
    assert found.dtype == (bool if isinstance(expected[0], bool) else np.float64)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_literal_is_the_same_on_all_rows(library):
    for expression in (pl.lit(2), nw.lit(2)):
        assert values(LIBRARIES[library](COLUMNS), expression).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("module", [pl, nw], ids=["Polars", "narwhals"])
def test_arrays_have_columns_too(module):
    assert values(np.array([1.0, 2.0]), module.col("x") > 1).tolist() == [False, True]
    assert values(np.array([[1.0, 2.0], [3.0, 4.0]]), module.col("x0") * module.col("x1")).tolist() == [2.0, 12.0]
    fields = np.array([(1, "a"), (2, "b")], dtype=[("n", int), ("g", "U1")])
    assert values(fields, (module.col("g") == "b") & (module.col("n") > 1)).tolist() == [False, True]
    with pytest.raises(vardi.MissingValuesError, match=r"missing values in 'x' \(1\)"):
        values(np.array([1.0, np.nan]), module.col("x") > 0)
    assert values(np.array([1.0, np.nan]), module.col("x").fill_null(7)).tolist() == [1.0, 7.0]


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_arrays_are_computed_by_what_is_there(monkeypatch, library):
    absent = {name for name in ("polars", "pandas", "pyarrow") if name != library}
    real = importlib.import_module

    def load(name, *rest):
        if name in absent:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", load)
    assert values(np.array([1.0, 2.0]), nw.col("x") > 1).tolist() == [False, True]
    with pytest.raises(vardi.MissingValuesError, match="'x'"):
        values(np.array([1.0, np.nan]), nw.col("x") > 1)
    absent.add(library)
    with pytest.raises(ImportError, match=r"pip install 'vardi\[frames\]'. Or write the expression as text"):
        values(np.array([1.0, 2.0]), nw.col("x") > 1)


# --- missing values


@pytest.mark.parametrize("col", [pl.col, nw.col], ids=["Polars", "narwhals"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_values_are_never_false(library, col):
    rows = LIBRARIES[library](GAPS)
    for expression, column in ((col("x") <= 3, "x"), (col("g") != "a", "g"), (col("x") * 2, "x")):
        with pytest.raises(vardi.MissingValuesError, match=rf"unknown on 1 row, .* '{column}' \(1\)") as caught:
            values(rows, expression)
        assert caught.value.columns == {column: 1}
    assert values(rows, col("n") > 1).tolist() == [False, True, True]  # gaps elsewhere do not matter
    assert values(rows, col("x").fill_null(0) <= 3).tolist() == [True, True, False]
    assert values(rows, ~col("x").is_null() & (col("x") <= 3)).tolist() == [True, False, False]
    assert values(rows, (col("g") != "a") | (col("n") < 3)).tolist() == [True, True, True]


@pytest.mark.parametrize("library", ["Polars", "PyArrow", "pandas"])
def test_nan_is_missing_however_a_library_compares_it(library):
    rows = LIBRARIES[library]({"x": [1.0, float("nan"), 3.0]})
    for col in (pl.col, nw.col):
        for expression in (col("x") >= 0, col("x") <= 3):
            with pytest.raises(vardi.MissingValuesError, match=r"'x' \(1\)"):
                values(rows, expression)


def test_a_pandas_column_without_nulls_of_its_own_is_not_guessed_at():
    rows = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", None, "2024-03-01"])})
    with pytest.raises(vardi.MissingValuesError, match="'day'"):
        values(rows, nw.col("day") > pd.Timestamp("2024-02-01").to_pydatetime())


def test_a_pattern_may_read_any_column():
    gaps = pl.DataFrame({"x": [1.0, None], "n": [1.0, 2.0]})
    for expression in (pl.sum_horizontal(cs.numeric()), pl.sum_horizontal(pl.all()), nw.sum_horizontal(nw.all())):
        nan = gaps.with_columns(pl.col("x").fill_null(float("nan")))
        with pytest.raises(vardi.MissingValuesError, match="'x'"):
            values(nan, expression)
        assert values(gaps.fill_null(0), expression).tolist() == [2.0, 2.0]


def test_a_null_without_a_gap_is_missing():
    with pytest.raises(vardi.MissingValuesError, match="since its result is null there") as caught:
        values(pl.DataFrame({"x": [1, 2]}), pl.when(pl.col("x") > 1).then(pl.col("x")))
    assert caught.value.columns == {}


def test_a_nan_that_was_computed_is_no_bias():
    for library in ("pandas", "Polars"):
        rows = LIBRARIES[library]({"x": [1.0, -1.0]})
        with pytest.raises(vardi.InvalidBiasError, match=r"nan|NaN"):
            vardi.debias({"a": rows}, {"a": nw.col("x").sqrt()})


def test_columns_are_found_among_many():
    wide = nw.from_native(pl.DataFrame({f"c{j}": [1.0] for j in range(300)}))
    assert columns_read(as_bias(nw.col("c17") * nw.col("c251") + nw.col("c3")), wide) == ("c3", "c17", "c251")
    assert columns_read(as_bias(pl.col("c17") * pl.col("c3")), wide) == ("c3", "c17")
    assert columns_read(as_bias(nw.lit(1)), wide) == ()


# --- refusals


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_no_function_of_a_row_is_refused(library):
    rows = LIBRARIES[library]({"x": [3.0, 1.0, 2.0, 2.0], "n": [1, 2, 3, 4]})
    expressions = [
        nw.col("x") - nw.col("x").mean(),
        nw.col("x") > nw.col("x").mean(),
        nw.col("x") / nw.col("x").max(),
        nw.col("x").rank("min"),
        nw.col("x").max(),
        nw.col("x").cum_sum(),
        pl.col("x") - pl.col("x").mean().over("n") + pl.col("n").sum(),
        pl.col("x").reverse(),
        pl.len(),
    ]
    for expression in expressions:
        with pytest.raises(vardi.InvalidBiasError, match="so it depends on which rows are present") as caught:
            values(rows, expression)
        assert len(caught.value.rows) == 1


def test_what_gives_no_number_for_each_row_is_refused():
    rows = pl.DataFrame(COLUMNS)
    for expression, said in (
        (pl.col("g"), "gives String, but a number or a condition is needed"),
        (pl.col("x", "n"), "gives 2 columns"),
        (pl.col("x").head(2), "gives 2 rows for 3"),
        (pl.col("z") > 1, r"cannot be computed .*z.*The columns are: x, n, g, b"),
        (nw.col("z") > 1, r"cannot be computed .*z.*The columns are: x, n, g, b"),
        (nw.col("g") > 1, "cannot be computed"),
    ):
        with pytest.raises(vardi.MismatchError, match=said):
            values(rows, expression)
    with pytest.raises(vardi.MismatchError, match="on rows of sample 'web'"):
        as_frame(rows).evaluate([as_bias(pl.col("z"))], "web")


# --- a fit


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    x = rng.gamma(2.0, 2.0, 6000)
    pool = pd.DataFrame({"x": x, "y": 2 * x + rng.normal(size=6000), "g": rng.choice(list("ab"), 6000)})
    drawn = {"low": pool[pool["x"] <= 4][:300], "plain": pool[-200:], "long": pool.sample(250, weights="x")}
    return {name: rows.reset_index(drop=True) for name, rows in drawn.items()}


@pytest.fixture(scope="module")
def by_text(samples):
    return vardi.debias(samples, {"low": "x <= 4", "plain": 1, "long": "x"})


def both(a, b):
    np.testing.assert_allclose(a.value, b.value, rtol=1e-9)
    np.testing.assert_allclose(a.stderr, b.stderr, rtol=1e-8)


@pytest.mark.long
@pytest.mark.parametrize("col", [pl.col, nw.col], ids=["Polars", "narwhals"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_fit_by_expressions_is_that_by_texts(samples, by_text, library, col):
    rows = {name: LIBRARIES[library](one.to_dict("list")) for name, one in samples.items()}
    fit = vardi.debias(rows, {"low": col("x") <= 4, "plain": 1, "long": col("x")})
    np.testing.assert_allclose(np.asarray(fit.weights), by_text.weights, rtol=1e-10)
    np.testing.assert_allclose(np.asarray(fit.weigh(rows["long"])), np.asarray(by_text.weights)[500:], rtol=1e-10)
    both(fit.expectation(col("y") * 2), by_text.expectation("y * 2"))
    both(fit.cdf(col("y"))(5.0), by_text.cdf("y")(5.0))
    both(fit.cdf(col("y")).quantile(0.5), by_text.cdf("y").quantile(0.5))
    both(fit.bootstrap(col("y"), n=20), by_text.bootstrap("y", n=20))
    found = fit.expectations([col("y"), "x", col("g") == "a"])
    wanted = by_text.expectations(["y", "x", "g == 'a'"])
    np.testing.assert_allclose(found.covariance, wanted.covariance, rtol=1e-9)
    both(fit.expectations(col("y"))[0], by_text.expectation("y"))
    several = fit.bootstrap([col("y"), "x"], n=20)
    assert several.names == (str(as_bias(col("y"))), "x")
    both(several, by_text.bootstrap(["y", "x"], n=20))
    difference = fit.expectation(col("y")) - fit.expectation("x")
    assert difference.stderr == pytest.approx((by_text.expectation("y") - by_text.expectation("x")).stderr)
    sensitivity = fit.sensitivity(col("y"), [1.0, 1.5])
    assert "mean of <" in str(sensitivity)
    pool = pd.concat(samples.values(), ignore_index=True)
    source = np.repeat(list(samples), [len(one) for one in samples.values()])
    labelled = vardi.debias(
        LIBRARIES[library](pool.to_dict("list")), {"low": col("x") <= 4, "plain": 1, "long": col("x")}, source=source
    )
    np.testing.assert_allclose(np.asarray(labelled.weights), by_text.weights, rtol=1e-10)
    assert vardi.identify(rows, {"low": col("x") <= 4, "plain": 1, "long": col("x")})


def test_values_that_are_missing_or_endless_are_refused(samples, by_text):
    with pytest.raises(vardi.MismatchError, match="gives String"):
        by_text.expectation(pl.col("g"))
    with pytest.raises(vardi.VardiError, match=r"<narwhals"):
        by_text.expectation((nw.col("x") - 1e9).sqrt())
    matrix = vardi.debias_matrix(np.ones((40, 1)), np.zeros(40, int))
    with pytest.raises(vardi.MismatchError, match="has only biases, no column '<Polars"):
        matrix.expectation(pl.col("x"))


def test_a_report_and_a_summary_show_expressions(samples, tmp_path):
    fit = vardi.debias(samples, {"low": pl.col("x") <= 4, "plain": 1, "long": nw.col("x")})
    assert "<Polars" in str(fit)
    html = fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "&#39;low&#39;: ...,  # &lt;Polars" in html


def test_learners_take_expressions(samples, by_text):
    from sklearn.linear_model import LinearRegression

    pool = pd.concat(samples.values(), ignore_index=True)
    source = np.repeat(list(samples), [len(one) for one in samples.values()])
    biases = {"low": nw.col("x") <= 4, "plain": 1, "long": pl.col("x")}
    model = vardi.DebiasedEstimator(LinearRegression(), biases=biases).fit(pool[["x"]], pool["y"], source=source)
    expected = LinearRegression().fit(pool[["x"]], pool["y"], sample_weight=np.asarray(by_text.weights))
    np.testing.assert_allclose(model.estimator_.coef_, expected.coef_, rtol=1e-8)
