"""Biases are values: they compare, join, print and read back; what they cannot be is refused with a way out."""

import datetime
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from vardi.biases import (
    ExpressionBias,
    FunctionBias,
    ProductBias,
    ValuesBias,
    as_bias,
    at_most,
    between,
    class_shift,
    everywhere,
    isin,
    proportional_to,
    where,
)
from vardi.errors import ExpressionError, InvalidBiasError, MismatchError


@pytest.mark.parametrize(
    ("bias", "text"),
    [
        (everywhere(), "1"),
        (where("price<=22"), "price <= 22"),
        (proportional_to("household size"), "`household size`"),
        (between("age", 20, 60), "20 <= age <= 60"),
        (between("day", datetime.date(2024, 1, 1), "2024-02-01"), "'2024-01-01' <= day <= '2024-02-01'"),
        (isin("region", ["N", "W"]), "region in ('N', 'W')"),
        (isin("zone", np.array([1, 2])), "zone in (1, 2)"),
        (at_most("time", np.float64(5.5)), "time <= 5.5"),
        (class_shift("label", {"a": 0.3, "b": 0.7}), "0.3 * (label == 'a') + 0.7 * (label == 'b')"),
        (class_shift("label", {"a": 2}), "2 * (label == 'a')"),
        (
            class_shift("ill", pd.Series({1: 0.5, 0: 0.5}), population=pd.Series({0: 0.8, 1: 0.2})),
            "2.5 * (ill == 1) + 0.625 * (ill == 0)",
        ),
        (where("a > 1") & where("b > 1") & where("c"), "a > 1 and b > 1 and c"),
        ((where("a > 1") | where("b > 1")) & where("c > 1"), "(a > 1 or b > 1) and c > 1"),
        (~where("a > 1"), "not a > 1"),
        (~isin("a", [1]), "a not in (1,)"),
        (where("a") * where("b > 1"), "a * (b > 1)"),
        (where("a") * where("b / c"), "a * b / c"),
        (2 * where("a + b"), "2 * (a + b)"),
        (where("a") * 0.5, "a * 0.5"),
        (np.float64(2) * where("a"), "2.0 * a"),
        (everywhere() * where("a > 1") * 1, "a > 1"),
    ],
)
def test_text_form_reads_back(bias, text):
    assert str(bias) == text
    assert where(text) == bias
    assert hash(where(text)) == hash(bias)


def test_repr_reads_back():
    assert repr(where("name == 'a'")) == """where("name == 'a'")"""
    assert repr(everywhere()) == repr(as_bias(1)) == "everywhere()"
    assert eval(repr(~where("a > 1"))) == ~where("a > 1")


def test_columns():
    assert where("a > b and a > c").columns == ("a", "b", "c")
    assert everywhere().columns == ()
    assert (where("a") * as_bias(np.ones(3))).columns == ("a",)


@pytest.mark.parametrize("number", [1, 2.5, True, np.int64(3), np.float32(0.5), np.True_, 0])
def test_numbers(number):
    assert as_bias(number) == where(str(number if not isinstance(number, np.generic) else number.item()))


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0],
        (1, 2),
        np.array([1, 2], dtype=np.float32),
        np.array([True, False]),
        pd.Series([1, 2]),
        pl.Series([1.0, 2.0]),
    ],
)
def test_values(values):
    bias = as_bias(values)
    assert isinstance(bias, ValuesBias)
    np.testing.assert_array_equal(bias.values, np.asarray(values))
    assert bias.values.dtype in (np.float64, np.bool)
    assert str(bias) == repr(bias) == "<array of 2 values>"
    assert bias == as_bias(bias)
    assert bias != as_bias(values)


def test_functions():
    def halves(rows):
        return rows / 2

    bias = as_bias(halves)
    assert bias == FunctionBias(halves)
    assert str(bias) == "<function halves>"
    assert str(as_bias(np.exp)) == "<function exp>"


def test_products_with_what_is_no_expression():
    values = as_bias([1.0, 2.0])
    product = where("a > 1") * values * as_bias(abs)
    assert isinstance(product, ProductBias)
    assert str(product) == "(a > 1) * <array of 2 values> * <function abs>"
    assert everywhere() * values is values
    assert isinstance(3 * values, ProductBias)


def test_a_bias_and_its_text_are_one():
    assert as_bias("price <= 22") == where("price <= 22")
    assert as_bias(where("a")) == where("a")
    assert isinstance(as_bias("a"), ExpressionBias)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: as_bias(math.nan), "nan is not finite"),
        (lambda: as_bias(-math.inf), "not finite"),
        (lambda: as_bias({"a": 1}), "cannot be a dict. Give a number, an expression as text"),
        (lambda: as_bias(None), "cannot be a NoneType"),
        (lambda: as_bias(np.ones((2, 2))), "one-dimensional, but these have 2 dimensions"),
        (lambda: as_bias(["a", "b"]), "must be numbers, but these are"),
        (lambda: where(3), "takes an expression as text, not int"),
        (lambda: between("a", 3, 2), "lower bound 3 is above the upper bound 2"),
        (lambda: between("a", 3, "b"), "of different types"),
        (lambda: between("a", math.nan, 2), "not finite"),
        (lambda: between("a", None, 2), "low must be a number or a string, not NoneType"),
        (lambda: between(3, 1, 2), "named by a string, not by int"),
        (lambda: at_most("a", [1]), "tau must be a number or a string"),
        (lambda: isin("a", []), "is true of no row"),
        (lambda: isin("a", "NW"), r"takes a list of values, but got 'NW'. Write \['NW'\]"),
        (lambda: isin("a", 3), "takes a list"),
        (lambda: isin("a", [1, "b"]), "mix numbers and strings"),
        (lambda: class_shift("a", {}), "factors maps each class"),
        (lambda: class_shift("a", [1, 2]), "factors maps each class"),
        (lambda: class_shift("a", {"b": -1}), "Class 'b' has -1 in factors"),
        (lambda: class_shift("a", {"b": math.inf}), "Class 'b' has inf"),
        (lambda: class_shift("a", {"b": "c"}), "Class 'b' has 'c'"),
        (lambda: class_shift("a", {"b": 0, "c": 0.0}), "All factors are zero"),
        (
            lambda: class_shift("a", {"b": 1}, population={"b": 0}),
            "has share 0 in the population, so it has no finite factor",
        ),
        (
            lambda: where("a + 1") & where("b > 1"),
            r"& joins conditions, but the bias a \+ 1 is not one. Use \* to multiply",
        ),
        (lambda: where("b > 1") | as_bias(abs), r"\| joins conditions, but the bias <function abs> is not one"),
        (lambda: ~everywhere(), "~ joins conditions"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InvalidBiasError, match=words):
        make()


def test_classes_must_match():
    with pytest.raises(MismatchError, match="Did you mean 'sick'"):
        class_shift("state", {"sik": 0.5, "well": 0.5}, population={"sick": 0.1, "well": 0.9})


def test_text_that_is_not_in_the_language():
    with pytest.raises(ExpressionError, match="use =="):
        as_bias("price = 22")


@pytest.mark.parametrize("join", [lambda a: a & 3, lambda a: a | "b > 1", lambda a: a * "b", lambda a: "b" * a])
def test_biases_join_biases(join):
    with pytest.raises(TypeError):
        join(where("a > 1"))
