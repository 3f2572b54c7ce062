"""The language of biases: what is read, what is refused and where, and that every engine says the same."""

import datetime
import math
from functools import partial

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vardi.biases._compile import NarwhalsTarget, NumpyTarget, compile_node
from vardi.biases._nodes import (
    FUNCTIONS,
    INTEGERS,
    Call,
    Column,
    Comparison,
    Constant,
    IsIn,
    IsMissing,
    Not,
    Sum,
    arithmetic,
    columns,
    is_condition,
    is_text,
    junction,
    negative,
    to_text,
)
from vardi.biases._parse import MAX_DEPTH, MAX_LENGTH, MAX_TERMS, parse
from vardi.errors import ExpressionError, InvalidBiasError, MismatchError

# --- reading and writing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("price<=22", "price <= 22"),
        ("20<=age<60", "20 <= age < 60"),
        ("(a) and (b or (c))", "a and (b or c)"),
        ("(a and b) and c", "a and b and c"),
        ("not (x in [1,2])", "x not in (1, 2)"),
        ("x in {'a'}", "x in ('a',)"),
        ("not x is missing", "x is not missing"),
        ("`education-num` >= 12", "`education-num` >= 12"),
        ("`plain` > 0", "plain > 0"),
        ("`a``b` > 0", "`a``b` > 0"),
        ("name == '`not a column`'", "name == '`not a column`'"),
        ('name == "it\'s"', 'name == "it\'s"'),
        (r"name == 'a\n\x41\u00e9\\'", r"name == 'a\nAé\\'"),
        ("-(5) + +x - -x", "-5 + x - -x"),
        ("-2 ** 2", "-2 ** 2"),
        ("(-2) ** 2", "(-2) ** 2"),
        ("2 ** -x ** 3", "2 ** -x ** 3"),
        ("a - (b - c)", "a - (b - c)"),
        ("a / (b * c) * d", "a / (b * c) * d"),
        ("0.3*(label=='a')+0.7*(label=='b')", "0.3 * (label == 'a') + 0.7 * (label == 'b')"),
        ("min(a, 2, c) > sqrt(abs(b))", "min(a, 2, c) > sqrt(abs(b))"),
        ("  a\n  and\tb \n", "a and b"),
        ("`missing` > 0", "`missing` > 0"),
        ("`if` > 0", "`if` > 0"),
        ("`` > 0", "`` > 0"),
        ("1e-3 * x", "0.001 * x"),
        ("True", "True"),
    ],
)
def test_reads_and_writes(text, canonical):
    assert to_text(parse(text)) == canonical
    assert parse(canonical) == parse(text)


def test_names_are_what_the_user_wrote():
    # Python's own parser would turn both of these into other letters.
    assert columns(parse("ﬁnal > 1 and µ < 2")) == ("ﬁnal", "µ")


def test_a_line_break_in_a_text_is_a_letter():
    assert parse("x == 'a\nb'") == parse(r"x == 'a\nb'")


def test_columns_once_and_in_order():
    assert columns(parse("b > a and min(c, b) > 0 and d in (1, 2) and e is missing")) == ("b", "a", "c", "d", "e")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a > 1", True), ("True", True), ("a", None), ("1", False), ("a + 1", False), ("not a", True)],
)
def test_is_condition(text, expected):
    assert is_condition(parse(text)) is expected


def test_nodes_are_values():
    assert parse("a>1") == parse("a > 1")
    assert len({parse("a>1"), parse("a > 1"), parse("a > 2")}) == 2
    assert parse("1") != parse("True")
    assert parse("a + b + c") == Sum(Column("a"), (("+", Column("b")), ("+", Column("c"))))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 2**63, "\ud800"])
def test_constants_that_no_engine_holds(value):
    with pytest.raises(InvalidBiasError):
        Constant(value)


names = st.text(min_size=0, max_size=6) | st.sampled_from(["x", "missing", "if", "True", "a b", "`", "``", "ﬁ", "abs"])
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
numbers = st.integers(INTEGERS.start, INTEGERS.stop - 1) | st.floats(allow_nan=False, allow_infinity=False)
numeric_leaves = numbers.map(Constant) | names.map(Column)
compare_signs = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])


def _comparisons(operands):
    pairs = st.lists(st.tuples(compare_signs, operands), min_size=1, max_size=2).map(tuple)
    with_numbers = st.builds(Comparison, operands, pairs)
    with_text = st.builds(Comparison, names.map(Column), st.tuples(st.tuples(compare_signs, texts.map(Constant))))
    members = st.builds(IsIn, operands, st.lists(numbers.map(Constant), min_size=1, max_size=3).map(tuple))
    text_members = st.builds(IsIn, names.map(Column), st.lists(texts.map(Constant), min_size=1, max_size=3).map(tuple))
    return with_numbers | with_text | members | text_members | st.builds(IsMissing, names.map(Column))


def _grow(nodes):
    conditions = nodes.filter(lambda node: is_condition(node) is not False)
    several = st.lists(conditions, min_size=2, max_size=3)
    unary = st.sampled_from([name for name, least in FUNCTIONS.items() if least == 1])
    return (
        _comparisons(nodes)
        | conditions.map(Not)
        | several.map(partial(junction, "and"))
        | several.map(partial(junction, "or"))
        | st.builds(arithmetic, nodes, st.sampled_from(["+", "-", "*", "/", "**"]), nodes)
        | nodes.map(negative)
        | st.builds(Call, unary, st.tuples(nodes))
        | st.builds(Call, st.sampled_from(["min", "max"]), st.lists(nodes, min_size=2, max_size=3).map(tuple))
    )


nodes = st.recursive(numeric_leaves | st.booleans().map(Constant), _grow, max_leaves=8)


@pytest.mark.long
@given(nodes)
@settings(max_examples=200, deadline=None)
def test_round_trip(node):
    assert parse(to_text(node)) == node
    assert to_text(parse(to_text(node))) == to_text(node)
    assert not is_text(node)


# --- refusing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("price = 22", 6, "use =="),
        ("a & b", 2, "use and / or"),
        ("a | b", 2, "use and / or"),
        ("a && b", 2, "use and / or"),
        ("~a", 0, "use not"),
        ("x ^ 2", 2, r"use \*\*"),
        ("x == missing", 5, "Write x is missing"),
        ("x != None", 5, "Write x is missing"),
        ("x is None", 5, "write x is missing"),
        ("x + 1 is missing", 0, "Only a column"),
        ("a < b is missing", 0, "chain"),
        ("a < b in (1, 2)", 0, "chain"),
        ("missing > 3", 0, "Write 3 is missing"),
        ("abs(missing)", 4, "in backticks"),
        ("sqr(x)", 0, "abs, exp, log, max, min, sqrt, and .* Did you mean 'sqrt'"),
        ("a > 1 and foo(x)", 10, "no function foo"),
        ("abs(x, y)", 0, "one argument, but 2 were given"),
        ("min(x)", 0, "two or more arguments"),
        ("length and 3", 11, "join conditions, but 3 is not one"),
        ("not (a + b)", 5, "join conditions"),
        ("é > 3 and 'x'", 10, "join conditions"),
        ("'a' + x", 0, "number is needed"),
        ("x * 2 == 'a'", 0, "cannot be compared"),
        ("x in (1, 'a')", 5, "cannot be compared"),
        ("x in ()", 5, "empty"),
        ("x in y", 5, "list of constants"),
        ("x in (1, y)", 9, "only constants"),
        ("x in (1, *y)", 9, "only constants"),
        ("x in ('a')", 6, "list of constants"),
        ("x in ['a' 'b']", 6, "comma"),
        ("x.y", 1, "backticks"),
        ("x[0]", 0, "subscript"),
        ("lambda: 1", 6, "':'"),
        ("[x for x in y]", 0, "ListComp"),
        ("f'{x}'", 0, "f-string"),
        ("(x := 1)", 3, "':='"),
        ("x // 2", 2, "'//'"),
        ("x % 2", 2, "'%'"),
        ("x @ y", 2, "'@'"),
        ("x << 2", 2, "'<<'"),
        ("abs(*x)", 4, "star"),
        ("abs(**x)", 0, "call"),
        ("abs(x=1)", 5, "use =="),
        ("(abs)(x)(y)", 0, "call"),
        ("b'a' == x", 0, "bytes"),
        ("r'a' == x", 0, "prefix"),
        ("2j * x", 0, "followed by a letter"),
        ("0x10", 0, "followed by a letter"),
        ("1or 2", 0, "followed by a letter"),
        ("...", 0, "'.'"),
        ("None", 0, "None"),
        ("import os", 0, "cannot be read"),
        ("a; b", 1, "';'"),
        ("a # b", 2, "'#'"),
        ("a AND b", 2, "lower case"),
        ("x if y else z", 0, "if ... else"),
        ("(a, b)", 0, "comma"),
        ("'a'", 0, "number or a condition"),
        ("1e999", 0, "not finite"),
        ("9" * 30, 0, "64 bits"),
        ("9" * 5000, 0, "5,000 digits"),
        ("x == 'a", 5, "not closed"),
        ("`x > 1", 0, "not closed"),
        ("a`b` > 1", 0, "spaces around"),
        (r"x == '\d'", 6, "escape"),
        (r"x == '\U00110000'", 6, "escape"),
        (r"x == '\ud800'", 5, "surrogate"),
        ("\0", 0, "x00"),
        ("", 0, "empty"),
        ("  \n ", 0, "empty"),
        ("(a", 0, "never closed"),
        ("age > 3 and my col < 2", None, "Put a name of several words in backticks: `my col`"),
        ("x is not missing y", None, r"invalid syntax\.\n"),
        ("(" * 5000, None, "nested"),
        ("-" * 5000 + "x", MAX_DEPTH + 1, "nested"),
        ("not " * 5000 + "x", 4 * (MAX_DEPTH + 1), "nested"),
        ("-" * (MAX_DEPTH + 1) + "x", MAX_DEPTH + 1, "nested"),
        ("x - " + "-" * (MAX_DEPTH + 1) + "x", None, "nested"),
        ("+".join(["x"] * (MAX_TERMS + 1)), 0, "nested"),
        ("+".join(["x"] * 40_000), 0, "nested"),
        ("x" * (MAX_LENGTH + 1), 60, "characters"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_refuses_with_the_place_and_a_way_out(text, offset, words):
    with pytest.raises(ExpressionError, match=words) as caught:
        parse(text)
    assert offset is None or caught.value.offset == offset
    assert caught.value.offset <= len(text)
    assert str(caught.value).splitlines()[-1] == "    " + " " * caught.value.offset + "^"


def test_depth():
    inside = "(x + " * (MAX_DEPTH - 2) + "1" + ")" * (MAX_DEPTH - 2)
    assert parse(to_text(parse(inside))) == parse(inside)
    more = MAX_DEPTH + 1
    for deep in ["abs(" * more + "x" + ")" * more, "(" * more + "x" + " + 1) * 2" * more]:
        with pytest.raises(ExpressionError, match="nested"):
            parse(deep)


def test_a_long_sum_is_not_deep():
    text = " + ".join(f"{place} * (label == {place})" for place in range(500))
    assert to_text(parse(text)) == text


alphabet = st.text(st.sampled_from(list("xy `'\"\\()[]{}.,<>=!+-*/:#\n\t\0é²ﬁ0123e_&|~%@;")), max_size=40)
WORDS = (
    "x y `a b` 'a' \"b\" ( ) [ ] { } , . : = == <= < > != + - * / ** // % @ & | ~ ^ and or not in is missing None "
    "True 1 2.5 1e5 1_0 0x1 2j abs( min( lambda if else for f'{x}' b'a' := ... await yield \\"
)
fragments = st.lists(st.sampled_from(WORDS.split()), max_size=14).map(" ".join)


@pytest.mark.long
@given(st.text(max_size=60) | alphabet | fragments | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
@settings(max_examples=700, deadline=None)
def test_any_text_is_read_or_refused(text):
    try:
        node = parse(text)
    except ExpressionError:
        return
    assert parse(to_text(node)) == node


# --- every engine says the same --------------------------------------------------------------------------------------

ROWS = {
    "n": [1, 2, 3, 4, 5, 6],
    "x": [0.5, -1.0, 2.0, 0.0, 1e3, 4.0],
    "s": ["a", "b", "é", "a'b", "", "B"],
    "b": [True, False, True, True, False, False],
    "d": [datetime.datetime(2024, 1, day, 12) for day in range(1, 7)],
    "xm": [0.5, None, 2.0, None, 1e3, 4.0],
    "nm": [1, 2, None, 4, None, 6],
    "sm": ["a", None, "c", None, "e", ""],
    "bm": [True, None, False, None, True, False],
}
TABLE = pa.table(ROWS)
PANDAS = pd.DataFrame({name: ROWS[name] for name in ["n", "x", "s", "b", "d", "xm", "nm", "sm"]}).assign(
    bm=pd.array(ROWS["bm"], dtype="boolean")
)
WITH_NAN = pl.from_arrow(TABLE).with_columns(pl.col("xm").fill_null(float("nan")))
FRAMES = {
    "pandas": PANDAS,
    "pandas nullable": TABLE.to_pandas().convert_dtypes(),
    "pandas pyarrow": TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow(TABLE),
    "polars with NaN": WITH_NAN,
    "polars narrow": pl.from_arrow(TABLE).with_columns(
        pl.col("n").cast(pl.UInt8), pl.col("s").cast(pl.Categorical), pl.col("nm").cast(pl.Int16)
    ),
    "pyarrow": TABLE,
    "polars lazy": pl.from_arrow(TABLE).lazy(),
    "duckdb lazy": None,  # made in the fixture, so that its connection is closed
}
ARRAYS = {
    "n": np.array(ROWS["n"]),
    "x": np.array(ROWS["x"]),
    "s": np.array(ROWS["s"]),
    "b": np.array(ROWS["b"]),
    "d": np.array(ROWS["d"], dtype="datetime64[us]"),
    "xm": np.array(ROWS["xm"], dtype=float),
    "nm": np.array(ROWS["nm"], dtype=float),
    "sm": np.array(ROWS["sm"], dtype=object),
}
MISSING = {"xm", "nm", "sm", "bm"}


def on_numpy(text):
    part = compile_node(parse(text), NumpyTarget(ARRAYS), MISSING)
    known = True if part.known is None else part.known
    return np.broadcast_to(part.value, 6), np.broadcast_to(known, 6)


@pytest.fixture(params=list(FRAMES))
def on_engine(request):
    connection = duckdb.connect() if request.param == "duckdb lazy" else None
    frame = nw.from_native(connection.from_arrow(TABLE) if connection else FRAMES[request.param])

    def evaluate(text):
        part = compile_node(parse(text), NarwhalsTarget(frame.collect_schema()), MISSING)
        known = nw.lit(True) if part.known is None else part.known
        value = nw.lit(part.value) if isinstance(part.value, float) else part.value
        with np.errstate(all="ignore"):
            result = frame.select(nw.col("n").alias("row"), value.alias("value"), known.alias("known"))
            if isinstance(result, nw.LazyFrame):
                result = result.collect()
        result = result.sort("row")
        return result["value"].to_numpy(), result["known"].to_numpy()

    yield evaluate
    if connection:
        connection.close()


EXPRESSIONS = {
    "n <= 3": [1, 1, 1, 0, 0, 0],
    "2 <= n < 5": [0, 1, 1, 1, 0, 0],
    "n > -1": [1, 1, 1, 1, 1, 1],
    "n >= 2.5": [0, 0, 1, 1, 1, 1],
    "n in (1, 2, 9)": [1, 1, 0, 0, 0, 0],
    "n in (1, 2.5)": [1, 0, 0, 0, 0, 0],
    "x not in (0, 2)": [1, 1, 0, 0, 1, 1],
    "s == 'a'": [1, 0, 0, 0, 0, 0],
    "s in ('é', \"a'b\", '')": [0, 0, 1, 1, 1, 0],
    "s < 'b'": [1, 0, 0, 1, 1, 1],
    "'B' <= s <= 'b'": [1, 1, 0, 1, 0, 1],
    "b": [1, 0, 1, 1, 0, 0],
    "not b or n == 1": [1, 1, 0, 0, 1, 1],
    "b == True": [1, 0, 1, 1, 0, 0],
    "b in (0,)": [0, 1, 0, 0, 1, 1],
    "b == (n > 3)": [0, 1, 0, 1, 0, 0],
    "d >= '2024-01-03'": [0, 0, 1, 1, 1, 1],
    "'2024-01-02T12:00' <= d < '2024-01-04'": [0, 1, 1, 0, 0, 0],
    "d in ('2024-01-01T12:00:00',)": [1, 0, 0, 0, 0, 0],
    "d is missing": [0, 0, 0, 0, 0, 0],
    "True": [1, 1, 1, 1, 1, 1],
    "True and n > 5": [0, 0, 0, 0, 0, 1],
    "1 < 2": [1, 1, 1, 1, 1, 1],
    "2 in (1, 2)": [1, 1, 1, 1, 1, 1],
    "n": [1, 2, 3, 4, 5, 6],
    "2": [2, 2, 2, 2, 2, 2],
    "-n + 2 * x": [0, -4, 1, -4, 1995, 2],
    "n / 2 ** n": [0.5, 0.5, 0.375, 0.25, 0.15625, 0.09375],
    "1 / x": [2, -1, 0.5, math.inf, 0.001, 0.25],
    "0 / 0": [math.nan] * 6,
    "9 ** 9 ** 9 ** 9": [math.inf] * 6,
    "n ** 0.5 - sqrt(n)": [0, 0, 0, 0, 0, 0],
    "log(exp(1)) + abs(x)": [1.5, 2, 3, 1, 1001, 5],
    "min(n, x, 3)": [0.5, -1, 2, 0, 3, 3],
    "max(n, 2)": [2, 2, 3, 4, 5, 6],
    "0.25 * (s == 'a') + 0.75 * b": [1, 0, 0.75, 0.75, 0, 0],
    "min(n, x) > 1": [0, 0, 1, 0, 1, 1],
    "n * 2 > 5": [0, 0, 1, 1, 1, 1],
    "log(n) in (0,)": [1, 0, 0, 0, 0, 0],
    # None: unknown
    "log(x) > 0": [0, None, 1, 0, 1, 1],
    "x > 0 and log(x) > 0": [0, 0, 1, 0, 1, 1],
    "xm > 1": [0, None, 1, None, 1, 1],
    "xm != 2": [1, None, 0, None, 1, 1],
    "not xm > 1": [1, None, 0, None, 0, 0],
    "xm is missing or xm > 1": [0, 1, 1, 1, 1, 1],
    "xm is not missing and xm > 1": [0, 0, 1, 0, 1, 1],
    "xm > 1 and n > 2": [0, 0, 1, None, 1, 1],
    "xm > 1 or n > 2": [0, None, 1, 1, 1, 1],
    "0 < xm < n": [1, None, 1, None, 0, 1],
    "3 < n < xm": [0, 0, 0, None, 1, 0],
    "nm in (1, 6)": [1, 0, None, 0, None, 1],
    "nm not in (1, 6)": [0, 1, None, 1, None, 0],
    "nm + 1": [2, 3, None, 5, None, 7],
    "nm * (n > 3) > 0": [0, 0, None, 1, None, 1],
    "max(nm, 2)": [2, 2, None, 4, None, 6],
    "sm == 'a'": [1, None, 0, None, 0, 0],
    "sm >= 'b'": [0, None, 1, None, 1, 0],
    "sm in ('a', '')": [1, None, 0, None, 0, 1],
    "sm is missing": [0, 1, 0, 1, 0, 0],
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_engines_agree(text, on_engine):
    _agrees(EXPRESSIONS[text], *on_engine(text))


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_numpy_agrees(text):
    _agrees(EXPRESSIONS[text], *on_numpy(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "bm": [1, None, 0, None, 1, 0],
        "not bm": [0, None, 1, None, 0, 1],
        "bm and n > 3": [0, 0, 0, None, 1, 0],
        "bm or n > 3": [1, None, 0, 1, 1, 1],
        "2 * bm": [2, None, 0, None, 2, 0],
    }.items(),
)
def test_booleans_with_nulls(text, expected, on_engine):
    _agrees(expected, *on_engine(text))


def _agrees(expected, value, known):
    assert known.astype(bool).tolist() == [part is not None for part in expected]
    certain = known.astype(bool)
    wanted = [part for part in expected if part is not None]
    np.testing.assert_allclose(value[certain].astype(float), np.array(wanted, dtype=float), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n == 'a'", r"Column 'n' holds whole numbers \(\w+\), but it is compared with 'a'"),
        ("s > 3", r"Column 's' holds text \(\w+\), but it is compared with 3"),
        ("3 < s", r"Column 's' holds text \(\w+\), but it is compared with 3"),
        ("s in (1, 2)", r"Column 's' holds text \(\w+\), but it is compared with 1"),
        ("s == n", r"Column 's' holds text \(\w+\), but it is compared with n"),
        ("s + 1", r"Column 's' holds text \(\w+\), but a number is needed here"),
        ("n and b", r"Column 'n' holds whole numbers \(\w+\), but and, or, not join conditions. Compare it"),
        ("s", r"holds text \(\w+\), but a bias is a number or a condition"),
        ("d in (1, 2)", r"Column 'd' holds times \(Datetime.*\), but it is compared with 1"),
        ("d in ('2024-01-01', 'soon')", r"Column 'd' holds times .* compared with 'soon'"),
        ("-s", r"Column 's' holds text \(\w+\), but a number is needed here"),
        ("d > 3", r"Column 'd' holds times \(Datetime.*\), but it is compared with 3"),
        ("d > 'soon'", r"Column 'd' holds times .* compared with 'soon'. Invalid isoformat string: 'soon'. Compare"),
        ("d > '2024-01-01T00:00+01:00'", "no time zone"),
        ("pirce > 1 or n > 1", "There is no column 'pirce'. The columns are: n, x, s, b, d"),
        ("nn > 1", "Did you mean 'n"),
    ],
)
def test_mismatches_read_the_same(text, message, on_engine):
    with pytest.raises(MismatchError, match=message):
        on_engine(text)
    with pytest.raises(MismatchError, match=message):
        on_numpy(text)


def test_dates_and_time_zones():
    frame = pl.DataFrame(
        {
            "day": [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)],
            "time": pl.Series([datetime.datetime(2024, 1, 1, 23), datetime.datetime(2024, 1, 2)]).dt.replace_time_zone(
                "Europe/Paris"
            ),
        }
    )
    frames = [frame, frame.lazy(), frame.to_arrow(), frame.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)]
    for text, expected in {
        "day >= '2024-01-15'": [False, True],
        "day in ('2024-01-01',)": [True, False],
        "time < '2024-01-02'": [True, False],
        "time < '2024-01-01T22:30:00+00:00'": [True, False],
        "time >= '2024-01-01T22:00Z'": [True, True],
    }.items():
        for native in frames:
            data = nw.from_native(native)
            part = compile_node(parse(text), NarwhalsTarget(data.collect_schema()))
            result = data.lazy().select(part.value.alias("value")).collect()
            assert result["value"].to_list() == expected, (text, type(native))
    fixed = nw.from_native(pa.table({"time": pa.array([0, 1], pa.timestamp("s", tz="+02:00"))}))
    part = compile_node(parse("time > '1970-01-01T02:00'"), NarwhalsTarget(fixed.schema))
    assert fixed.select(part.value.alias("value"))["value"].to_list() == [False, True]
    with pytest.raises(MismatchError, match="Column 'day' holds dates"):
        compile_node(parse("day > '2024-01-01T12:00'"), NarwhalsTarget(nw.from_native(frame).schema))
