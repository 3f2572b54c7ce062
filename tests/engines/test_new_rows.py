"""Rows that a fit has not seen weigh the same wherever they are: a weight is a formula of their columns."""

from __future__ import annotations

import sqlite3

import duckdb
import engines
import fits
import narwhals as nw
import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi


def by_place(frame, *, name="weight"):
    """Return a column of a frame of any library, in the order of the rows."""
    found = nw.from_native(frame).lazy().select("place", name).collect().sort("place")
    return found.get_column(name).to_numpy()


@pytest.mark.parametrize("engine", [name for name in engines.ONE_FRAME if name != "polars-streaming"], indirect=True)
@pytest.mark.parametrize("name", fits.FITS)
def test_new_rows_weigh_the_same_in_every_engine(engine, name):
    table = fits.new_rows()
    expected = fits.fit_of(name).weigh(pl.from_arrow(table)).to_numpy()
    found = fits.fit_of(name).weigh(engine.frame(table))
    if not engine.lazy:
        assert_allclose(np.asarray(found), expected, rtol=1e-12)
        return
    assert isinstance(nw.from_native(found), nw.LazyFrame)
    assert nw.from_native(found).collect_schema().names() == [*table.column_names, "weight"]
    assert_allclose(by_place(found), expected, rtol=1e-12)
    assert fits.fit_of(name).uncovered(engine.frame(table)) == 0


@pytest.mark.parametrize("name", sorted(set(fits.FITS) - {"learned"}))  # by models that have not seen the row
def test_the_weights_of_the_fit_itself_are_that_formula(name):
    fit = fits.fit_of(name)
    rows = np.concatenate([fit.weigh(frame.native) for frame in fit.solved.pool.frames])
    assert_allclose(rows, fit.weights, rtol=1e-12)


@pytest.mark.parametrize("name", fits.FITS)
def test_sql_gives_the_same_in_duckdb_and_sqlite(name):
    table, fit = fits.new_rows(), fits.fit_of(name)
    expected = fit.weigh(pl.from_arrow(table)).to_numpy()
    connection = duckdb.connect()
    connection.register("people", table)
    assert_allclose(by_place(connection.sql(fit.to_sql("people"))), expected, rtol=1e-12)
    lite = sqlite3.connect(":memory:")
    pl.from_arrow(table).to_pandas().to_sql("people", lite, index=False)
    try:
        lite.execute("SELECT exp(ln(pow(2, sqrt(1))))")
    except sqlite3.OperationalError as error:
        pytest.skip(f"This SQLite was built without mathematical functions: {error}")
    rows = lite.execute(fit.to_sql("people", "sqlite", name="w") + "ORDER BY place").fetchall()
    assert_allclose([row[-1] for row in rows], expected, rtol=1e-12)


@pytest.mark.parametrize("name", fits.FITS)
@pytest.mark.parametrize("dialect", ["postgres", "bigquery", "snowflake", "spark"])
def test_sql_is_written_for_other_databases(name, dialect):
    sqlglot = pytest.importorskip("sqlglot")
    text = fits.fit_of(name).to_sql("people", dialect)
    (tree,) = sqlglot.parse(text, read=dialect)
    assert set(fits.fit_of(name).weigher().schema) == {column.name for column in tree.find_all(sqlglot.exp.Column)}
    assert not list(tree.find_all(sqlglot.exp.Contains))
    booleans = [one for one in tree.find_all(sqlglot.exp.Cast) if isinstance(one.this, sqlglot.exp.Predicate)]
    assert not booleans


@pytest.mark.parametrize("name", ["conditions", "cells", "both", "powers"])
def test_a_row_without_a_weight_is_null_in_an_engine_and_counted(name):
    few = pl.from_arrow(fits.new_rows()).head(6)
    strange = few.with_columns(
        age=pl.Series([40.0, None, np.nan, 40.0, 40.0, 40.0]),
        region=pl.Series(["N", "N", "N", "X", None, "S"]),
        income=pl.Series([30.0, 30.0, 30.0, 30.0, 30.0, -1.0 if name == "powers" else 30.0]),
    )
    fit = fits.fit_of(name)
    weights = fit.weigh(strange.lazy()).collect()["weight"]
    unknown = {"conditions": [1, 2], "cells": [3, 4], "both": [1, 2, 3, 4], "powers": [5]}[name]
    if name == "conditions":  # a row of rooms or an owner is drawn whatever the age: rooms > 3 or owner is known
        unknown = [place for place in (1, 2, 4) if weights[place] is None]
    assert [place for place, weight in enumerate(weights) if weight is None] == unknown
    assert fit.uncovered(strange.lazy()) == fit.uncovered(strange) == len(unknown)
    known = strange.filter(~pl.int_range(pl.len()).is_in(unknown))
    assert_allclose(fit.weigh(known), weights.drop_nulls(), rtol=1e-12)
    for place in unknown:
        with pytest.raises(vardi.VardiError):
            fit.weigh(strange[place])


def test_rows_between_groups_and_beyond_margins_have_no_weight():
    samples = {"low": np.linspace(0, 1, 20), "high": np.linspace(3, 4, 20)}
    fit = vardi.debias(samples, {"low": "x <= 2.5", "high": "x >= 2"}, known={"low": 0.4})
    rows = pl.LazyFrame({"x": [0.5, 2.2, 3.5]})
    assert fit.weigh(rows).collect()["weight"].is_null().to_list() == [False, True, False]


def test_weights_neither_over_nor_underflow():
    x = np.linspace(0.0, 10.0, 50)
    fit = vardi.debias({"plain": x, "tilted": x[25:] + 0.05}, {"plain": 1, "tilted": vardi.exponential_tilt("x")})
    slope = fit.parameters["tilted"]["x"].value
    far = np.array([0.0, 5.0, -2_000.0 / slope])
    weights = fit.weigh(pl.LazyFrame({"x": far})).collect()["weight"]
    assert_allclose(weights, fit.weigh(far), rtol=1e-12)
    assert weights[2] == pytest.approx(fit.weigh(np.array([-1_000.0 / slope]))[0])
    scaled = vardi.debias({"plain": x, "far": x + 0.1}, {"plain": 1, "far": "exp(x - 700)"})
    assert_allclose(
        scaled.weigh(pl.LazyFrame({"x": x})).collect()["weight"], np.asarray(scaled.weights)[:50], rtol=1e-12
    )


def test_a_weight_that_is_no_formula_says_so():
    x = np.linspace(1.0, 2.0, 40)
    by_function = vardi.debias({"a": x, "b": x + 0.01}, {"a": 1, "b": lambda rows: rows})
    for ask in (
        by_function.expression,
        lambda: by_function.to_sql("t"),
        lambda: by_function.weigh(pl.LazyFrame({"x": x})),
    ):
        with pytest.raises(vardi.NeedsRowsError, match="The bias of 'b', <function <lambda>>, is not an expression"):
            ask()
    matrix = vardi.debias_matrix(np.ones((4, 2)), [0, 0, 1, 1])
    with pytest.raises(vardi.VardiError, match="A matrix of biases has no columns, so the weight is no formula"):
        matrix.expression()
    with pytest.raises(vardi.MismatchError, match="There is no dialect 'postgresql'.* Did you mean 'postgres'"):
        vardi.debias({"a": x}, {"a": "x"}).to_sql("t", "postgresql")
    known = vardi.debias({"a": x}, {"a": "x"}, known={vardi.where("x") * 1: 1.4})
    assert known.expression() is not None


def test_expressions_of_libraries_weigh_lazy_frames():
    x = np.linspace(1.0, 2.0, 40)
    samples = {"a": pl.DataFrame({"x": x}), "b": pl.DataFrame({"x": x[20:] + 0.01})}
    text = vardi.debias(samples, {"a": 1, "b": "x"})
    fit = vardi.debias(samples, {"a": 1, "b": pl.col("x")})
    new = pl.LazyFrame({"x": [1.3, 1.7]})
    assert_allclose(fit.weigh(new).collect()["weight"], text.weigh(new.collect()), rtol=1e-12)


def test_a_column_named_weight_is_not_lost():
    fit = fits.fit_of("numbers")
    with pytest.raises(vardi.MismatchError, match="There is already a column 'weight'"):
        fit.weigh(pl.from_arrow(fits.new_rows()).lazy().with_columns(weight=1.0))
