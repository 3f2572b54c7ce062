"""Frames with strange names, types, gaps and shapes: a result or an error of ours, and never another column."""

# ruff: noqa: PT017  (a fuzz passes by a result as well as by an error, and looks at either)

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.common import close, examples

import vardi

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")
N = 12
RNG = np.random.default_rng(0)
V, W = RNG.gamma(2.0, size=N) + 0.5, RNG.gamma(3.0, size=N) + 0.5


def ticked(name):
    return "`" + name.replace("`", "``") + "`"


NAMES = [
    "", " ", "a b", "'", '"', "`", "``", "é", "ﬁ", "select", "x0", "x", "__vardi_", "weight", "source", "a\nb", "a\tb",
    "\x00", "<b>", "a.b", "a,b", "[a]", "{a}", "{{a}}", "%s", "$a", "\\", "None", "True", "missing", "and", "nan", "0",
    "𝐱", "\u202e", "a" * 300, "__row__", "count", "literal", "len", "index", "level_0", "columns", "probability",
    "=cmd|' /C calc'!A0", "*", "^other$", "^o.*$",
]  # fmt: skip
MAKERS = {
    "pandas": pd.DataFrame,
    "Polars": pl.DataFrame,
    "PyArrow": pa.table,
}


def uses(fit, column):
    """Ask for all that names a column."""
    return [
        fit.expectation(column).value,
        fit.expectation(ticked(column)).value,
        fit.cdf(column).quantile(0.5).value,
        float(np.asarray(fit.weigh(fit.solved.pool.frames[0].native))[0]),
    ]


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize("name", NAMES, ids=[repr(name)[:20] for name in NAMES])
def test_a_column_of_any_name_is_that_column(name, library):
    parts = {
        "p": MAKERS[library]({name: V, "other": V[::-1].copy()}),
        "q": MAKERS[library]({name: W, "other": W[::-1].copy()}),
    }
    if library == "Polars" and (name == "*" or (name.startswith("^") and name.endswith("$"))):
        for call in (vardi.debias, vardi.identify):
            with pytest.raises(vardi.MismatchError, match="Polars takes the column name .* for a pattern"):
                call(parts, {"p": 1, "q": ticked(name)})
        return
    fit = vardi.debias(parts, {"p": 1, "q": ticked(name)})
    expected = vardi.debias({"p": V, "q": W}, {"p": 1, "q": "x"})
    close(fit.weights, expected.weights)
    close(uses(fit, name), uses(expected, "x"))
    assert len(fit.sample(5, 0)) == 5
    assert name[:9] in fit.summary() or not name.isprintable() or name != name.strip()


def test_a_name_that_polars_takes_for_a_pattern_does_not_read_another_column():
    """Polars would give the column 'x' for '^x$': other numbers than those asked for, without a word."""
    many = 20_000  # from here on Polars computes, and not NumPy
    frame = pl.DataFrame({"^x$": np.full(many, 2.0), "x": np.arange(1.0, many + 1)})
    with pytest.raises(vardi.MismatchError, match=r"'\^x\$'"):
        vardi.debias({"p": frame, "q": frame}, {"p": 1, "q": "`^x$`"})


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=6), min_size=2, max_size=4, unique=True))
@examples(25)
def test_frames_with_any_names_keep_their_columns_apart(names):
    data = {name: np.arange(1.0, 5.0) * 10.0**place for place, name in enumerate(names)}
    for make in MAKERS.values():
        try:
            fit = vardi.debias({"p": make(data), "q": make(data)}, {"p": 1, "q": ticked(names[0])})
        except vardi.MismatchError as error:
            assert "Polars takes the column name" in str(error)
            continue
        first = fit.expectation(names[0]).value
        for place, name in enumerate(names):
            close(fit.expectation(name).value, first * 10.0**place)


def column(values, dtype=None):
    return pd.Series(values, dtype=dtype) if dtype is not None else pd.Series(values)


arrow = pd.ArrowDtype
PANDAS = {
    "mixed objects": column([1, "a", None, 2.5, True, b"b"] * 2, object),
    "texts with None": column(["a", None] * 6, object),
    "objects that are whole": column(list(range(N)), object),
    "objects that are decimals": column([decimal.Decimal("1.5")] * N, object),
    "lists": column([[1, 2]] * N, object),
    "dictionaries": column([{"a": 1}] * N, object),
    "dates as objects": column([datetime.date(2024, 1, 1)] * N, object),
    "bytes": column([b"a"] * N, object),
    "only NA": column([pd.NA] * N, object),
    "only None": column([None] * N, object),
    "great whole objects": column([2**70] * N, object),
    "categories": column(pd.Categorical(list("ab") * 6)),
    "categories of numbers": column(pd.Categorical([1, 2] * 6)),
    "categories with gaps": column(pd.Categorical(["a", None] * 6)),
    "empty categories": column(pd.Categorical([None] * N)),
    "booleans": column([True, False] * 6),
    "nullable booleans": column([True, None] * 6, "boolean"),
    "nullable integers": column([1, None] * 6, "Int64"),
    "nullable floats": column([1.5, None] * 6, "Float64"),
    "unsigned past 63 bits": column([2**64 - 1, 3] * 6, "uint64"),
    "integers past 53 bits": column([2**53 + 1, 2**62] * 6),
    "half floats": column([1, 2] * 6, "float16"),
    "complex": column(np.ones(N) * 1j),
    "infinities": column([np.inf, -np.inf] * 6),
    "NaN": column([np.nan, 1.0] * 6),
    "strings": column(["a", None] * 6, "string"),
    "times": column(pd.date_range("2024", periods=N)),
    "times with NaT": column([pd.Timestamp("2024"), pd.NaT] * 6),
    "only NaT": column([pd.NaT] * N),
    "times in a zone": column(pd.date_range("2024", periods=N, tz="Europe/Paris")),
    "durations": column(pd.timedelta_range("1D", periods=N)),
    "periods": column(pd.period_range("2024", periods=N, freq="M")),
    "intervals": column(pd.interval_range(0, N)),
    "sparse": column(pd.arrays.SparseArray([0.0, 1.0] * 6)),
    "Arrow integers": column([1, None] * 6, "int64[pyarrow]"),
    "Arrow booleans": column([True, None] * 6, "bool[pyarrow]"),
    "Arrow decimals": column([decimal.Decimal("1.50"), None] * 6, arrow(pa.decimal128(10, 2))),
    "Arrow lists": column([[1, 2], None] * 6, arrow(pa.list_(pa.int64()))),
    "Arrow structures": column([{"a": 1}, None] * 6, arrow(pa.struct([("a", pa.int64())]))),
    "Arrow dates": column([datetime.date(2024, 1, 1), None] * 6, arrow(pa.date32())),
    "Arrow nulls": column([None] * N, arrow(pa.null())),
}
POLARS = {
    "nulls": pl.Series([None] * N),
    "lists": pl.Series([[1, 2]] * N),
    "arrays": pl.Series([[1, 2]] * N, dtype=pl.Array(pl.Int64, 2)),
    "structures": pl.Series([{"a": 1}] * N),
    "decimals": pl.Series([decimal.Decimal("1.5")] * N),
    "enumerations": pl.Series(["a", "b"] * 6, dtype=pl.Enum(["a", "b"])),
    "dates": pl.Series([datetime.date(2024, 1, 1), None] * 6),
    "times of day": pl.Series([datetime.time(1)] * N),
    "durations": pl.Series([datetime.timedelta(1)] * N),
    "bytes": pl.Series([b"a"] * N),
    "128 bits": pl.Series([2**100, 1] * 6, dtype=pl.Int128),
    "64 bits": pl.Series([2**64 - 1, 1] * 6, dtype=pl.UInt64),
    "NaN and null": pl.Series([float("nan"), None] * 6),
}
BIASES = (
    "z", "z > 1", "z == 'a'", "z in (1, 2)", "z in ('a', 'b')", "z is missing", "z is not missing and z > 0",
    "log(z) > 0", "z >= '2024-01-01'", "z and v > 0", "z == 9007199254740993", "max(z, 1)", "logistic(z)",
)  # fmt: skip


def any_use(frame):
    """Do all there is to do with a column z; each either works or is an error of ours."""
    parts = {"p": frame, "q": frame}
    for bias in BIASES:
        attempt(lambda bias=bias: vardi.debias(parts, {"p": 1, "q": bias}))
    fit = vardi.debias(parts, {"p": 1, "q": "v"})
    assert np.isfinite(np.asarray(fit.weights)).all()
    assert fit.summary()
    assert len(fit.sample(3, 0)) == 3
    fit.diagnostics()
    for ask in (fit.expectation, fit.cdf, fit.check_biases, lambda z: fit.sensitivity(z, [1.0, 1.5])):
        attempt(lambda ask=ask: ask("z"))
    for option in ({"counts": "z"}, {"known": {"z > 1": 0.5}}, {"known": {"z == 'a'": 0.5}}):
        attempt(lambda option=option: vardi.debias(parts, {"p": 1, "q": "v"}, **option))


def attempt(call):
    try:
        return call()
    except vardi.VardiError as error:
        assert str(error)
        return None


@pytest.mark.parametrize("kind", PANDAS)
def test_any_type_of_a_pandas_column(kind):
    any_use(pd.DataFrame({"v": V, "z": PANDAS[kind]}))


@pytest.mark.parametrize("kind", POLARS)
def test_any_type_of_a_polars_column(kind):
    any_use(pl.DataFrame({"v": V, "z": POLARS[kind]}))


def test_numbers_of_128_bits_are_numbers():
    """NumPy has none such, and Polars said so in its own words."""
    frame = pl.DataFrame({"v": V, "z": pl.Series([2**100, 1] * 6, dtype=pl.Int128)})
    fit = vardi.debias({"p": frame, "q": frame}, {"p": 1, "q": "z > 5 or v > 0"})
    close(fit.expectation("z").value, (2.0**100 + 1) / 2)
    close(fit.expectation("z > 5").value, 0.5)


@pytest.mark.parametrize("library", ["pandas", "Polars"])
def test_whole_numbers_that_would_turn_into_others_are_refused(library):
    """pandas would write 2**64 - 1 as -1 where two samples have the column in different types."""
    make = MAKERS[library]
    first = make({"v": V, "id": np.full(N, 2**64 - 1, np.uint64)})
    second = make({"v": V, "id": np.arange(N, dtype=np.int64)})
    fit = vardi.debias({"p": first, "q": second}, {"p": 1, "q": "v"})
    with pytest.raises(vardi.MismatchError, match=r"'id' is Int64 in one sample and UInt64 .*64-bit.*to text"):
        fit.sample(3, 0)
    assert fit.summary()
    small = make({"v": V, "id": np.arange(N, dtype=np.uint64)})
    assert len(vardi.debias({"p": small, "q": second}, {"p": 1, "q": "v"}).sample(3, 0)) == 3


def test_great_whole_numbers_are_compared_to_the_last_digit():
    frame = pl.DataFrame({"v": np.ones(2), "z": [2**53, 2**53 + 1]})
    fit = vardi.debias({"p": frame}, {"p": 1})
    assert fit.expectation("z == 9007199254740993").value == 0.5
    assert fit.expectation("z in (9007199254740992, 5)").value == 0.5


# --- shapes ----------------------------------------------------------------------------------------------------------

TWICE = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["x", "x"])
PLAIN = pd.DataFrame({"x": [1.0, 2.0, 4.0]})


@pytest.mark.parametrize(
    "call",
    [
        lambda: vardi.debias({"a": TWICE, "b": TWICE}, {"a": 1, "b": "x"}),
        lambda: vardi.debias([TWICE, PLAIN], [1, "x"]),
        lambda: vardi.debias(TWICE, {"a": 1, "b": "x"}, source=["a", "b"]),
        lambda: vardi.identify({"a": TWICE, "b": PLAIN}, {"a": 1, "b": "x"}),
        lambda: vardi.debias({"a": PLAIN, "b": PLAIN}, {"a": 1, "b": "x"}).weigh(TWICE),
    ],
    ids=["mapping", "list", "labels", "identify", "weigh"],
)
def test_two_columns_of_one_name_are_refused(call):
    with pytest.raises(vardi.MismatchError, match="More than one column is named 'x'"):
        call()


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (PLAIN.iloc[:0], vardi.EmptySampleError),
        (pl.DataFrame(), vardi.EmptySampleError),
        (pl.DataFrame({"x": []}), vardi.EmptySampleError),
        (pa.table({}), vardi.EmptySampleError),
        (np.empty((0, 2)), vardi.EmptySampleError),
        (np.empty((2, 2, 2)), vardi.MismatchError),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), vardi.MismatchError),
        (None, vardi.VardiError),
        ("text", vardi.VardiError),
        (5, vardi.VardiError),
    ],
    ids=range(10),
)
def test_shapes_that_hold_no_sample_are_refused(frame, expected):
    with pytest.raises(expected):
        vardi.debias({"a": frame, "b": frame}, {"a": 1, "b": 1})


@pytest.mark.parametrize("frame", [pd.DataFrame(index=range(3)), np.empty((3, 0))], ids=["pandas", "NumPy"])
def test_rows_without_columns_are_rows(frame):
    fit = vardi.debias({"a": frame, "b": frame}, {"a": 1, "b": 2})
    close(fit.weights, np.ones(6))
    assert fit.summary()


def test_one_row_is_a_sample():
    fit = vardi.debias({"a": PLAIN.iloc[:1], "b": PLAIN.iloc[:1]}, {"a": 1, "b": "x"})
    close(fit.weights, [1.0, 1.0])
    assert fit.summary()


def test_columns_of_several_levels_are_named_by_their_text():
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]))
    fit = vardi.debias({"a": frame, "b": frame}, {"a": 1, "b": "`('a', 'b')`"})
    close(fit.weights, vardi.debias({"a": frame.to_numpy(), "b": frame.to_numpy()}, {"a": 1, "b": "x0"}).weights)


def test_an_index_with_labels_twice_moves_nothing():
    twice = PLAIN.set_index(pd.Index([0, 0, 1]))
    fit, plain = (vardi.debias({"a": part, "b": part}, {"a": 1, "b": "x"}) for part in (twice, PLAIN))
    close(fit.weights, plain.weights)
    assert fit.weights.index.tolist() == [0, 0, 1] * 2
    close(fit.expectation(pd.concat([twice, twice])["x"]).value, plain.expectation("x").value)
