"""Conditions by sign bits, labels in narrow keys and draws by a hash: what only DuckDB is asked for."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import vardi
from vardi._inputs.engines import Aggregate
from vardi._inputs.lazy_part import Part
from vardi._inputs.lazy_survey import CODE, Bit, Codes, as_sign, with_sql
from vardi._rows import lazy_model
from vardi.biases._expressions.targets import NarwhalsTarget

duckdb = pytest.importorskip("duckdb")

NUMBERS = (0.3, 0.1 + 0.2, -1.5, 5e-324, 1e300)
ODD = [-np.inf, -1e300, -5e-324, -0.0, 0.0, 5e-324, 1e300, np.inf]


def relation(table):
    return duckdb.from_arrow(pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False))


def near(number):
    """Values at and beside a number, and odd ones."""
    return np.array([number, np.nextafter(number, -np.inf), np.nextafter(number, np.inf), -number, *ODD])


def sign_of(text, frame):
    return as_sign(vardi.where(text).node, NarwhalsTarget(frame.collect_schema()))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("turned", [False, True], ids=["x first", "number first"])
def test_a_sign_bit_tells_what_a_comparison_does(number, operator, turned):
    x = near(number)
    frame = nw.from_native(relation(pd.DataFrame({"x": x})))
    text = f"{number!r} {operator} x" if turned else f"x {operator} {number!r}"
    sign = sign_of(text, frame)
    assert sign is not None
    found = with_sql(frame.with_columns(d=sign.column), {"bit": sign.sql.format("d")}).collect().to_pandas()
    wanted = eval(text, {"x": x})
    assert_array_equal(found["bit"].to_numpy(), wanted)


@pytest.mark.parametrize(
    "text", ["x > 0", "x <= 0", "0 < x", "x == 0.5", "x < y", "0.1 < x < 0.5", "n < 0.5", "x + y < 1"]
)
def test_other_conditions_are_compared_by_duckdb(text):
    frame = nw.from_native(relation(pd.DataFrame({"x": [0.5], "y": [1.0], "n": [1]})))
    assert sign_of(text, frame) is None


def test_truth_values_are_read_from_the_bits_of_a_key():
    x = [1.0, 2.0, 3.0, None]
    part = Part(nw.from_native(relation(pd.DataFrame({"s": ["a", "b", "c", "d"], "x": x}))), None, {None: 0}, False)
    sign = sign_of("x < 2.5", part.frame)
    codes = Codes([Bit(nw.col("x") > 1.5), sign], in_sql=True)
    assert list(codes.packs) == [CODE.format(0)]
    found = part.groups({"s": Aggregate("s", "min")}, codes.add, key=[*codes.packs])
    held, unknown = codes.read(found)
    names = found.table.get_column("s").to_list()
    known = {name: row.tolist() for name, row, lost in zip(names, held, unknown, strict=True) if not lost}
    assert known == {"a": [False, True], "b": [True, True], "c": [True, False]}
    assert names[int(unknown.argmax())] == "d"


@pytest.mark.parametrize("in_sql", [False, True])
def test_more_truth_values_than_an_integer_has_bits(in_sql):
    rows = np.arange(40.0)
    part = Part(nw.from_native(relation(pd.DataFrame({"x": rows}))), None, {None: 0}, False)
    codes = Codes([Bit(nw.col("x") >= bound) for bound in rows.tolist()], in_sql=in_sql)
    found = part.groups({"x": Aggregate("x", "min")}, codes.add, key=[*codes.packs])
    held, unknown = codes.read(found)
    assert not unknown.any()
    assert_array_equal(held, found.numbers("x")[:, None] >= rows)


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
def test_a_fit_that_starts_from_a_draw_is_that_of_rows_in_memory(extreme, monkeypatch):
    monkeypatch.setattr(lazy_model, "ROWS", 200)
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"s": np.resize(["a", "b", "c"], 3000), "x": rng.random(3000), "y": rng.random(3000)})
    biases = {"a": "1", "b": "x + 0.1", "c": f"(x + 0.1)**2 * {extreme}"}
    assert_as_in_memory(table, biases)


@pytest.mark.parametrize(("value", "error"), [(0.0, vardi.ImpossibleRowError), (-0.5, vardi.InvalidBiasError)])
def test_a_bias_that_is_not_above_zero_on_one_row_is_found(value, error):
    table = table_of(["a", "b"])
    table["x"] += 0.01
    table.iloc[11, [table.columns.get_loc("s"), table.columns.get_loc("x")]] = ["b", value]
    with pytest.raises(error):
        vardi.debias(relation(table), {"a": "1", "b": "x"}, source="s")
