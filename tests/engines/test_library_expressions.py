"""Expressions of narwhals in every engine, and of Polars in its own: the fit is that of the text."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from cases import CASES, Case
from engines import ENGINES, LAZY, ONE_FRAME, collected, local_engine
from numpy.testing import assert_allclose

import vardi

NUMPY = local_engine("numpy")
FEW_ON_SPARK = tuple(name for name in ENGINES if name != "spark")  # of the mixed ones one sample is on Spark
OF_POLARS = ("numpy", "pandas", "polars", "polars-lazy", "polars-streaming", "pyarrow")


def houses(col):
    cheap, rooms = col("unit price") <= 30, col("rooms").is_in([2, 3, 4])
    biases = {
        "national": 1,
        "agency": cheap & (col("region") != "S"),
        "web panel": vardi.where("rooms > 1") * vardi.biases.as_bias(rooms & ~col("owner")),
        "unsampled": col("unit price") * 2 + 1,
    }
    texts = {
        "national": 1,
        "agency": "`unit price` <= 30 and region != 'S'",
        "web panel": "rooms > 1 and rooms in (2, 3, 4) and not owner",
        "unsampled": "`unit price` * 2 + 1",
    }
    return biases, texts


def some(case, biases, texts):
    """Return a problem with the samples whose rows the biases allow, in expressions and in texts."""
    tables = {name: table for name, table in CASES[case].tables.items() if name in biases}
    if case == "houses":
        rooms = tables["web panel"].column("rooms").to_numpy()
        owner = tables["web panel"].column("owner").to_numpy(zero_copy_only=False)
        tables["web panel"] = tables["web panel"].filter(pa.array(np.isin(rooms, [2, 3, 4]) & ~owner))
    return Case(tables, biases, (), ""), Case(tables, texts, (), "")


def lengths(col):
    biases = {"plain": 1, "seen": col("x"), "tilted": (col("x") * -0.5).exp() * col("k")}
    return biases, {"plain": 1, "seen": "x", "tilted": "exp(-x / 2) * k"}


PROBLEMS = {"houses": houses, "lengths": lengths}
MEANS = {"houses": ("rooms", "`unit price` > 25"), "lengths": ("x", "k > 2")}


def means(case, col):
    if case == "houses":
        return [col("rooms"), col("unit price") > 25]
    return ["x", col("k") > 2]


@pytest.mark.parametrize(
    ("engine", "case"),
    [(name, case) for name in FEW_ON_SPARK for case in PROBLEMS if case == "houses" or name in ("numpy", "duckdb")],
    indirect=["engine"],
)
def test_expressions_of_narwhals_are_their_texts(engine, case):
    compare(engine, case, nw.col)


@pytest.mark.parametrize("case", PROBLEMS)
@pytest.mark.parametrize("engine", OF_POLARS, indirect=True)
def test_expressions_of_polars_are_their_texts(engine, case):
    compare(engine, case, pl.col)


def compare(engine, case, col):
    given, written = some(case, *PROBLEMS[case](col))
    fit, expected = given.fit(engine), written.fit(NUMPY)
    assert_allclose(fit.solution.u, expected.solution.u, rtol=1e-9, atol=1e-9)
    assert_allclose(list(fit.omegas.values()), list(expected.omegas.values()), rtol=1e-9)
    found, wanted = fit.expectations(means(case, col)), expected.expectations(list(MEANS[case]))
    assert_allclose(found.values, wanted.values, rtol=1e-9)
    assert_allclose(found.covariance, wanted.covariance, rtol=1e-8, atol=1e-14)
    one, other = fit.expectation(means(case, col)[1]), expected.expectation(MEANS[case][1])
    assert_allclose((one.value, one.stderr), (other.value, other.stderr), rtol=1e-8)
    if engine.lazy:
        weights = np.concatenate([collected(frame)["weight"] for frame in fit.weights.values()])
        first = collected(next(iter(fit.weights.values())))
        assert set(first) == {*next(iter(given.tables.values())).column_names, "weight"}  # and no column of ours
    else:
        weights = np.asarray(fit.weights)
    assert_allclose(weights, np.asarray(expected.weights), rtol=1e-8)


@pytest.mark.parametrize("engine", [name for name in ONE_FRAME if "spark" not in name], indirect=True)
def test_the_distribution_of_an_expression_is_that_of_its_text(engine):
    case = CASES["lengths"]
    biases = dict(list(case.biases.items())[:3])
    fit, expected = (vardi.debias(where.samples(case.tables), biases) for where in (engine, NUMPY))
    cdf, wanted = fit.cdf(nw.col("x") * 2), expected.cdf("x * 2")
    assert_allclose(cdf(3.0).value, wanted(3.0).value, rtol=1e-9)
    assert_allclose(cdf(3.0).stderr, wanted(3.0).stderr, rtol=1e-8)
    if engine.name not in ("ibis", "dask"):  # which take their time for each of many queries
        assert_allclose(cdf.quantile(0.5).value, wanted.quantile(0.5).value, rtol=1e-9)


ROWS = {"x": [1.0, 2.0, None, 4.0], "g": ["a", None, "b", "a"], "y": [1.0, 2.0, 3.0, 5.0]}


@pytest.mark.parametrize("engine", FEW_ON_SPARK, indirect=True)
def test_missing_values_are_never_false(engine):
    table = pa.table(ROWS)
    for bias, column in ((nw.col("x") <= 5, "x"), (nw.col("g") != "b", "g")):
        with pytest.raises(vardi.MissingValuesError, match=rf"unknown on 1 row, .*'{column}' \(1\)") as caught:
            vardi.debias(engine.samples({"a": table, "b": table}), {"a": 1, "b": bias})
        assert caught.value.columns == {column: 1}
    fit = vardi.debias(engine.samples({"a": pa.concat_tables([table] * 10)}), {"a": 1})
    with pytest.raises(vardi.MissingValuesError, match=r"'x' \(10\)"):
        fit.expectation(nw.col("x") > 1)


@pytest.mark.parametrize("engine", [name for name in ONE_FRAME if name != "spark"], indirect=True)
def test_an_expression_may_say_what_holds_for_missing_values(engine):
    table = pa.concat_tables([pa.table(ROWS)] * 20)
    bias = nw.when(nw.col("x").is_null()).then(nw.lit(3.0)).otherwise(nw.col("x"))
    fit = vardi.debias(engine.samples({"all": table}), {"all": bias})
    omega = np.array([1.0, 2.0, 3.0, 4.0])  # of each row of ROWS
    found = fit.expectation(nw.col("x").fill_null(0.0) * 2)
    assert found.value == pytest.approx(np.average([2.0, 4.0, 0.0, 8.0], weights=1 / omega))


def test_rows_of_pandas_beside_lazy_ones_are_copied_to_have_nulls():
    table, bias = pa.concat_tables([pa.table(ROWS)] * 20), nw.col("x").fill_null(3.0)
    fit = vardi.debias({"all": table.to_pandas(), "more": pl.from_arrow(table).lazy()}, {"all": bias, "more": bias})
    found = fit.expectation(nw.col("x").fill_null(0.0) * 2)
    assert found.value == pytest.approx(np.average([2.0, 4.0, 0.0, 8.0], weights=1 / np.array([1.0, 2.0, 3.0, 4.0])))


@pytest.mark.parametrize("engine", ["polars", "polars-lazy", "pyarrow", "duckdb"], indirect=True)
def test_nan_is_missing_too(engine):
    table = pa.table({"x": [1.0, float("nan"), 3.0]})
    with pytest.raises(vardi.MissingValuesError, match=r"unknown on 1 row, .*'x' \(1\)"):
        vardi.debias(engine.samples({"a": table}), {"a": nw.col("x") > 0})


@pytest.mark.parametrize("engine", [name for name in FEW_ON_SPARK if name in LAZY], indirect=True)
def test_what_an_engine_cannot_compute_is_refused(engine):
    table = pa.table({"x": [1.0, 2.0, 3.0] * 20, "g": ["a", "b", "c"] * 20})
    samples = engine.samples({"a": table, "b": table})
    refusals = [
        (nw.col("z") > 1, vardi.MismatchError, r"col\(z\).* cannot be computed .*The columns are: x, g"),
        (nw.col("g"), vardi.MismatchError, "gives String, but a number or a condition is needed"),
        (nw.col("x", "g"), vardi.MismatchError, "gives 2 columns|cannot be computed"),
        (nw.col("x") - nw.col("x").min(), vardi.InvalidBiasError, "depends on which rows are present"),
        (nw.col("x") - 2, vardi.InvalidBiasError, "The bias of 'b' is -1.0 at some rows"),
    ]
    if not engine.name.startswith("polars"):
        said = "is a Polars expression, .* text, such as .* narwhals expression"
        refusals.append((pl.col("x") > 1, vardi.InvalidBiasError, said))
    for bias, error, said in refusals:
        with pytest.raises(error, match=said):
            vardi.debias(samples, {"a": 1, "b": bias})
    fit = vardi.debias(samples, {"a": 1, "b": "x"})
    for values, error, said in refusals[:4]:
        with pytest.raises(error, match=said):
            fit.expectation(values)
