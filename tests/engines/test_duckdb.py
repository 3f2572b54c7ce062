"""Conditions by sign bits and labels in narrow keys: what only DuckDB is asked for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import vardi

duckdb = pytest.importorskip("duckdb")

NUMBERS = (0.3, 0.1 + 0.2, -1.5, 5e-324, 1e300)
ODD = [-np.inf, -1e300, -5e-324, -0.0, 0.0, 5e-324, 1e300, np.inf]


def relation(table):
    return duckdb.from_arrow(pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False))


def near(number):
    """Values at and beside a number, and odd ones."""
    return np.array([number, np.nextafter(number, -np.inf), np.nextafter(number, np.inf), -number, *ODD])


@pytest.mark.parametrize("number", NUMBERS)
def test_conditions_hold_to_the_last_digit(number):
    """By the sign of a difference, which says what a comparison does."""
    x = np.tile(near(number), 20)
    texts = [form.format(number) for op in ("<", "<=", ">", ">=") for form in (f"{{!r}} {op} x", f"x {op} {{!r}}")]
    held = {text: eval(text, {"x": x}) for text in texts}
    biases = {text: text for text in texts if held[text].any()}
    fit = vardi.debias({"all": relation(pd.DataFrame({"x": x}))}, {"all": 1, **biases})
    assert_allclose([fit.omegas[text] for text in biases], [held[text].mean() for text in biases], rtol=1e-12)


def table_of(labels, n=3000, seed=4):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"s": rng.choice(labels, n), "x": rng.random(n).round(2), "y": rng.random(n).round(2)})
    return table[(table["s"] != labels[0]) | (table["x"] <= 0.6)]


def assert_as_in_memory(table, biases):
    fit, wanted = vardi.debias(relation(table), biases, source="s"), vardi.debias(table, biases, source="s")
    assert_allclose(fit.solution.u, wanted.solution.u, atol=1e-10)
    assert_allclose(fit.expectation("y").value, wanted.expectation("y").value, rtol=1e-12)
    assert fit.sizes == wanted.sizes


CONDITIONS = ["x <= 0.6", "1", "x < 2", "y > -0.5 or x > 3", "y < 2", "x >= -2", "y <= 1.5", "x > -0.25"]


@pytest.mark.parametrize("names", [("a", "b", "o'brien"), tuple("abcdefgh"), (1, 2, 3)], ids=["few", "many", "numbers"])
def test_conditions_give_the_fit_of_rows_in_memory(names):
    assert_as_in_memory(table_of(list(names)), dict(zip(names, CONDITIONS[: len(names)], strict=True)))


def test_a_label_without_a_bias_is_named():
    with pytest.raises(vardi.MismatchError, match="'c'"):
        vardi.debias(relation(table_of(["a", "b", "c"])), {"a": "x <= 0.6", "b": "1"}, source="s")


@pytest.mark.parametrize("gap", [np.nan, None])
def test_missing_values_are_counted(gap):
    table = table_of(["a", "b"])
    table.iloc[7, table.columns.get_loc("x")] = gap
    with pytest.raises(vardi.MissingValuesError, match="1 row"):
        vardi.debias(relation(table), {"a": "x <= 0.6", "b": "1"}, source="s")


@pytest.mark.parametrize("extreme", [1e-12, 1e12])
def test_the_scale_of_a_bias_is_free(extreme):
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"s": np.resize(["a", "b", "c"], 3000), "x": rng.random(3000), "y": rng.random(3000)})
    assert_as_in_memory(table, {"a": "1", "b": "x + 0.1", "c": f"(x + 0.1)**2 * {extreme}"})


@pytest.mark.parametrize(("value", "error"), [(0.0, vardi.ImpossibleRowError), (-0.5, vardi.InvalidBiasError)])
def test_a_bias_that_is_not_above_zero_on_one_row_is_found(value, error):
    table = table_of(["a", "b"])
    table["x"] += 0.01
    table.iloc[11, [table.columns.get_loc("s"), table.columns.get_loc("x")]] = ["b", value]
    with pytest.raises(error):
        vardi.debias(relation(table), {"a": "1", "b": "x"}, source="s")
