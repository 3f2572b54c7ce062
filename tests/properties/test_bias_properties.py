"""Biases as values: what each constructor means, their algebra, and a text form that any text tries to break."""

# ruff: noqa: PT017  (a fuzz passes by a result as well as by an error, and looks at either)

from __future__ import annotations

import time

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from properties.common import close, examples, seeds
from sklearn.dummy import DummyClassifier

import vardi
from vardi.biases import ExpressionBias, FunctionBias, ParametricBias, ProductBias, ValuesBias, as_bias
from vardi.biases._compile import NarwhalsTarget, NumpyTarget, compile_node
from vardi.biases._nodes import INTEGERS

FRAME = pd.DataFrame({"x": [0.5, 1.0, 2.0, 3.5, 7.0], "y": [1.0, 1.0, 0.0, 2.0, 5.0], "g": list("abcab")})
X, Y, G = FRAME["x"].to_numpy(), FRAME["y"].to_numpy(), FRAME["g"].to_numpy()


def values(bias, frame=FRAME):
    """Return the values of a bias, by the weights that it gives: 1 / omega, up to their mean."""
    from vardi._inputs.frames import as_frame

    return np.asarray(as_frame(frame).evaluate([as_bias(bias)])[0], float)


def reads_back(bias):
    assert vardi.where(str(bias)) == bias
    assert str(vardi.where(str(bias))) == str(bias)
    return bias


finite = st.floats(-1e9, 1e9)
plain_texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
names = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


@given(finite, finite, st.lists(st.sampled_from("abcd"), min_size=1), st.floats(0.0, 1e6), st.floats(0.01, 1e6))
@examples(50)
def test_each_constructor_means_its_formula(low, high, chosen, first, second):
    low, high = sorted((low, high))
    close(values(reads_back(vardi.between("x", low, high))), (low <= X) & (high >= X))
    close(values(reads_back(vardi.at_most("x", high))), high >= X)
    close(values(reads_back(vardi.isin("g", chosen))), np.isin(G, chosen))
    close(values(reads_back(vardi.proportional_to("x"))), X)
    close(values(reads_back(vardi.everywhere())), np.ones(5))
    shift = reads_back(vardi.class_shift("g", {"a": first, "b": second}))
    close(values(shift), first * (G == "a") + second * (G == "b"))
    assert shift.columns == ("g",)
    close(values(first * vardi.where("x > 1")), first * (X > 1))


@given(st.floats(-3, 3), st.floats(-3, 3), st.lists(st.floats(0.1, 9.0), min_size=1, max_size=3, unique=True))
@examples(50)
def test_each_family_at_its_parameters_means_its_formula(alpha, beta, cuts):
    cuts = sorted(cuts)
    close(values(vardi.logistic("x").at([alpha, beta])), 1 / (1 + np.exp(-alpha - beta * X)))
    close(values(vardi.exponential_tilt("x", "y").at([alpha, beta])), np.exp(alpha * X + beta * Y))
    close(values(vardi.power("x").at({"exponent": beta})), X**beta)
    heights = np.concatenate([[1.0], np.exp(np.linspace(-1, 1, len(cuts)))])
    stepped = vardi.steps("x", cuts).at(np.log(heights[1:]))
    close(values(stepped), heights[np.searchsorted(cuts, X, side="right")])
    own = vardi.parametric(lambda rows, theta: np.exp(theta[0] * rows["x"]), start=[0.0], names=["tilt"])
    close(values(own.at([beta])), np.exp(beta * X))
    for bias in (vardi.logistic("x", "y"), vardi.exponential_tilt("x"), vardi.power("x"), vardi.steps("x", cuts)):
        assert isinstance(reads_back(bias), ParametricBias)
        reads_back(vardi.where("x > 0") * bias)
        assert bias.names


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-3, 3))
@examples(50)
def test_cells_at_their_parameters_are_a_factor_for_each_value(first, second, third):
    main = vardi.cells("g", "x > 1").at({"g": {"a": first, "b": second, "c": 0.0}, "x > 1": {True: third, False: 0}})
    by_group = np.select([G == "a", G == "b"], [first, second], 0.0)
    expected = np.exp(by_group + third * (X > 1))
    close(values(reads_back(main)), expected)
    crossed = {(g, y): first * (g == "a") + second * y for g, y in zip(G, Y, strict=True)}
    factors = values(reads_back(vardi.cells(("g", "y")).at({("g", "y"): crossed})))
    expected = np.exp(first * (G == "a") + second * Y)
    close(factors / factors[0], expected / expected[0])
    reads_back(vardi.where("x > 0") * vardi.cells(("g", "y"), "x > 1"))


conditions = st.sampled_from(["x > 1", "y <= 1", "g == 'a'", "g in ('b', 'c')", "not x > 2", "x > 1 or y > 1", "True"])


@given(conditions, conditions, st.floats(0.001, 1e3))
@examples(60)
def test_the_algebra_of_biases_is_that_of_their_values(a, b, factor):
    first, second = vardi.where(a), vardi.where(b)
    p, q = values(first).astype(bool), values(second).astype(bool)
    close(values(reads_back(first & second)), p & q)
    close(values(reads_back(first | second)), p | q)
    close(values(reads_back(~first)), ~p)
    close(values(first * second), p & q)
    close(values(factor * first), factor * p)
    function = as_bias(lambda rows: rows["x"])
    assert isinstance(function, FunctionBias)
    product = first * function
    assert isinstance(product, ProductBias)
    close(values(product), p * X)
    array = as_bias(X)
    assert isinstance(array, ValuesBias)
    assert len(array.values) == len(X)
    assert set((first & second).columns) == set(first.columns) | set(second.columns)


@given(names, plain_texts, st.integers(INTEGERS.start, INTEGERS.stop - 1) | st.floats(allow_nan=False, width=64))
@examples(150)
def test_any_name_text_and_number_reads_back(name, text, number):
    assume(not isinstance(number, float) or np.isfinite(number))
    for bias in (
        vardi.proportional_to(name),
        vardi.isin(name, [text, "other"]),
        vardi.at_most(name, number),
        vardi.between(name, number, number),
        vardi.class_shift(name, {text: 2.0}),
    ):
        assert isinstance(reads_back(bias), ExpressionBias)
        assert bias.columns == (name,)


# --- any text at all -------------------------------------------------------------------------------------------------

VALID = (
    "price <= 22 and region in ('N', 'W')",
    "20 <= age < 60",
    "0.3 * (label == 'a') + 0.7 * (label == 'b')",
    "not (x is missing or `household size` > 3) and exp(-x ** 2 / 2) >= 1e-3",
    "(age > 20) * logistic(age, log(income))",
    "steps(x, [1, 2.5, 4]) * 2",
    "(x > 1) * cells((region, `household size`), x > 2)",
    "min(a, 2, c) > sqrt(abs(b)) or max(x, -1) != 0",
)
PIECES = [
    "x",
    "y",
    "`a",
    "b`",
    "`",
    "``",
    "'",
    '"',
    "\\",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    ":",
    ";",
    "=",
    "==",
    "<=",
    "<",
    ">",
    "!=",
    "+",
    "-",
    "*",
    "/",
    "**",
    "//",
    "%",
    "@",
    "&",
    "|",
    "~",
    "^",
    "#",
    "$",
    "?",
    "and",
    "or",
    "not",
    "in",
    "is",
    "is",
    "not",
    "missing",
    "None",
    "True",
    "False",
    "1",
    "2.5",
    "1e5",
    "1e999",
    "9223372036854775808",
    "0x1",
    "2j",
    "abs(",
    "min(",
    "logistic(",
    "power(",
    "steps(",
    "cells(",
    "lambda",
    "if",
    "else",
    "for",
    "f'{x}'",
    "b'a'",
    ":=",
    "...",
    "await",
    "yield",
    "import",
    "\x00",
    "�",
    "\u202e",
    "\u2028",
    "ﬁ",
    "ａnd",
    "²",
    "\n",
    "\t",
]


@st.composite
def mutated(draw):
    text = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from(PIECES)) + text[place + draw(st.integers(0, 3)) :]
    return text


def read_or_refused(text):
    """Read a text; anything but a bias that reads back or a VardiError fails the test, as does any warning."""
    try:
        bias = vardi.where(text)
    except vardi.VardiError as error:
        assert str(error)
        return None
    reads_back(bias)
    return bias


@given(
    mutated()
    | st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join)
    | st.text(max_size=60)
    | st.binary(max_size=60).map(lambda data: data.decode("latin-1"))
    | st.text(st.characters(categories=("Cs", "Cc", "Cf", "Nd", "No", "Zs", "Mn")), max_size=20)
)
@examples(600)
def test_any_text_is_a_bias_or_an_error_of_ours(text):
    read_or_refused(text)


HUGE = {
    "10,000 parentheses": "(" * 10_000 + "x" + ")" * 10_000,
    "10,000 open parentheses": "(" * 10_000,
    "10,000 brackets": "x in " + "[" * 10_000,
    "10,000 nots": "not " * 10_000 + "x",
    "10,000 signs": "-" * 10_000 + "x",
    "a tower of powers": "x" + " ** x" * 10_000,
    "nested calls": "min(" * 10_000 + "x" + ", 1)" * 10_000,
    "a long sum": "x" + " + x" * 20_000,
    "a long chain": "x" + " < x" * 8_000,
    "a long list": "x in (" + "1," * 15_000 + ")",
    "a long name": "`" + "a" * 90_000 + "`",
    "a long text": "x == '" + "\\\\" * 40_000 + "'",
    "backticks": "`" * 99_999,
    "spaces": " " * 90_000 + "x",
    "400 digits": "x < " + "9" * 400,
    "a million digits": "x < " + "9" * 1_000_000,
    "a million letters": "x" * 1_000_000,
    "a million parentheses": "(" * 500_000 + ")" * 500_000,
    "a million surrogates": "\ud800" * 1_000_000,
    "a great exponent": "x < 1e" + "9" * 300,
    "a great power": "9 ** 9 ** 9 ** 9",
}


@pytest.mark.parametrize("what", HUGE)
def test_huge_and_deep_texts_end_soon(what):
    start = time.process_time()
    read_or_refused(HUGE[what])
    assert time.process_time() - start < 20.0  # against minutes or forever: a bound on the work, not a timing


@given(seeds)
@examples(5)
def test_a_great_power_is_computed_as_floats_are(seed):
    """No whole number of a million digits is ever made: 9 ** 9 ** 9 overflows to infinity, and is refused as a bias."""
    with pytest.raises(vardi.InvalidBiasError, match="inf"):
        vardi.debias({"a": np.ones(3)}, {"a": f"x * 9 ** 9 ** {9 + seed}"})


# --- what is read means one thing in every engine ---------------------------------------------------------------------

ROWS = {
    "x": [0.5, None, 2.0, float("nan"), -3.0, 4.0],
    "n": [1, 2, None, 4, 5, -6],
    "s": ["a", None, "c", "a", "", "é"],
    "b": [True, False, None, True, False, True],
}
NULLS = ROWS | {"x": [None if value is None or value != value else value for value in ROWS["x"]]}
ARRAYS = {
    "x": np.array([np.nan if value is None else value for value in ROWS["x"]]),
    "n": np.array([np.nan if value is None else value for value in ROWS["n"]], dtype=float),
    "s": np.array(ROWS["s"], dtype=object),
}
leaves = st.sampled_from(["x", "n", "1", "2.5", "-3", "0"])
numbers = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"-{t}" if not t.startswith("-") else t),
        st.tuples(st.sampled_from(["abs", "exp", "log", "sqrt"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
    ),
    max_leaves=4,
)
simple = (
    st.tuples(numbers, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), numbers).map(" ".join)
    | st.sampled_from(["s == 'a'", "s in ('a', 'é')", "s < 'b'", "x is missing", "s is not missing", "n in (1, 4)"])
    | st.tuples(leaves, leaves, leaves).map(lambda t: f"{t[0]} <= {t[1]} < {t[2]}")
)
whole = st.recursive(
    simple,
    lambda inner: st.one_of(
        inner.map(lambda t: f"not ({t})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def engines():
    connection = duckdb.connect()
    arrow = pl.DataFrame(NULLS).to_arrow()
    yield {
        "pandas": nw.from_native(pd.DataFrame({"x": ARRAYS["x"], "n": ARRAYS["n"], "s": ROWS["s"]})),
        "pandas nullable": nw.from_native(pd.DataFrame(NULLS).convert_dtypes()),
        "Polars": nw.from_native(pl.DataFrame(ROWS, strict=False)),
        "Polars lazy": nw.from_native(pl.LazyFrame(NULLS)),
        "DuckDB": nw.from_native(connection.from_arrow(arrow)),
    }
    connection.close()


def known_values(compiled, length=6):
    known = np.ones(length, bool) if compiled.known is None else np.broadcast_to(compiled.known, length)
    return np.broadcast_to(compiled.value, length), known.astype(bool)


@given(whole)
@examples(25)
def test_engines_agree_on_conditions_with_missing_values(engines, text):
    node, missing = vardi.where(text).node, {"x", "n", "s", "b"}
    with np.errstate(all="ignore"):
        expected, where_known = known_values(compile_node(node, NumpyTarget(ARRAYS), missing))
    for name, frame in engines.items():
        with np.errstate(all="ignore"):
            compiled = compile_node(node, NarwhalsTarget(frame.collect_schema()), missing)
            columns = {"value": compiled.value}
            if compiled.known is not None:
                columns["known"] = compiled.known
            found = frame.select(**columns).lazy().collect()
        known = found.get_column("known").to_numpy().astype(bool) if compiled.known is not None else np.ones(1, bool)
        value = found.get_column("value").to_numpy()
        np.testing.assert_array_equal(np.broadcast_to(known, 6), where_known, err_msg=f"{name}: {text}")
        value = np.broadcast_to(value, 6)
        np.testing.assert_array_equal(
            value[where_known].astype(bool), np.asarray(expected)[where_known].astype(bool), err_msg=f"{name}: {text}"
        )


@given(st.integers(0, 10**6), st.integers(2, 4), st.floats(0.1, 3.0))
@examples(20)
def test_a_bias_from_which_nothing_is_learned_is_none(seed, folds, slope):
    """A classifier that knows how many rows each side has gives even odds: the sample is taken as drawn at random."""
    rng = np.random.default_rng(seed)
    given = {name: pd.DataFrame({"x": rng.uniform(0, 1, 12)}) for name in ("known", "other", "panel")}
    bias = vardi.learned("x", DummyClassifier(strategy="prior"), folds, seed)
    assert str(vardi.where(str(bias))) == str(bias)
    known = {"known": 1, "other": f"exp({slope} * x)"}
    fit = vardi.debias(given, {**known, "panel": bias})
    close(fit.weights, vardi.debias(given, {**known, "panel": 1}).weights)
    check = fit.learned["panel"]
    assert isinstance(check, vardi.LearnedCheck)
    assert (check.rows, check.clipped, sum(check.in_bins)) == (12, 0, 36)
    close(check.predicted, 0.5)
    assert check.said_of_clipping.startswith("0 of its 12 rows (0.0%)")
    assert check.off == 0  # as many rows on both sides of the only bin
    before, after = check.balance["x"]
    close(before, after)
    assert fit.expectation("x", assisted_by=None).is_approximate
    assert fit.bootstrap("x", n=2).is_approximate
    assert "'panel' was learned" in fit.check_biases().note
