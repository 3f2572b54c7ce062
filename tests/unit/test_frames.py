"""Frames of every library as columns, alone and joined."""

from __future__ import annotations

import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import vardi._inputs.frames as frame_module
from vardi._inputs.by_row import alike, concat
from vardi._inputs.frames import as_frame
from vardi.biases import as_bias, everywhere, where
from vardi.biases._values import coded, coded_together
from vardi.errors import InvalidBiasError, MismatchError, MissingValuesError

ROWS = {
    "price": [10.0, 20.0, 30.0, 40.0],
    "age": [20, 40, 60, 80],
    "region": ["N", "S", "W", "N"],
    "owner": [True, False, True, False],
    "income": [1.0, None, 3.0, None],
}
MAKERS = {
    "pandas": lambda rows: pd.DataFrame(
        rows, index=[f"row {place}" for place in range(len(next(iter(rows.values()))))]
    ),
    "pandas categorical": lambda rows: pd.DataFrame(rows).astype({"region": "category"} if "region" in rows else {}),
    "pandas nullable": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "pandas pyarrow": lambda rows: pa.table(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


@pytest.fixture(params=[*MAKERS, "numpy"])
def make(request):
    if request.param == "numpy":
        dtypes = {"price": "f8", "age": "i8", "region": "U1", "owner": "?", "income": "f8"}

        def structured(rows):
            array = np.zeros(len(next(iter(rows.values()))), dtype=[(name, dtypes.get(name, "f8")) for name in rows])
            for name, values in rows.items():
                array[name] = np.array(values, dtype=dtypes.get(name, "f8"))
            return array

        return structured
    return MAKERS[request.param]


@pytest.fixture(params=["NumPy", "its own library"])
def frame(make, request, monkeypatch):
    if request.param != "NumPy":  # as it computes columns of which some are not numbers
        monkeypatch.setattr(frame_module.NarwhalsFrame, "_plain", lambda self, name: None)
    return as_frame(make(ROWS))


BIASES = {
    "price <= 25": [True, True, False, False],
    "30 <= age < 70 and region in ('S', 'W')": [False, True, True, False],
    "owner": [True, False, True, False],
    "not owner or price == 10": [True, True, False, True],
    "price / 10": [1.0, 2.0, 3.0, 4.0],
    "0.5 * (region == 'N') + owner": [1.5, 0.0, 1.0, 0.5],
    "1": [1.0, 1.0, 1.0, 1.0],
    "False": [False, False, False, False],
    "income is missing or income > 2": [False, True, True, True],
    "region is missing": [False, False, False, False],
    "age > 10 or income > 2": [True, True, True, True],
    "max(price, age) - min(price, age)": [10.0, 20.0, 30.0, 40.0],
}


def test_evaluates_all_in_one_call(frame):
    arrays = frame.evaluate([where(text) for text in BIASES])
    for array, (text, expected) in zip(arrays, BIASES.items(), strict=True):
        assert array.tolist() == expected, text
        assert array.dtype == (np.bool if isinstance(expected[0], bool) else np.float64), text
        assert array.shape == (4,)


@pytest.mark.parametrize("text", BIASES)
def test_evaluates_one_by_one(frame, text):
    assert frame.evaluate([where(text)])[0].tolist() == BIASES[text]


def test_shape_and_columns(frame):
    assert len(frame) == 4
    assert frame.columns == tuple(ROWS)
    assert frame.evaluate([]) == []
    assert frame.column("age").tolist() == ROWS["age"]
    assert as_frame(frame) is frame


def test_missing_values_are_never_false(frame):
    with pytest.raises(MissingValuesError) as caught:
        frame.evaluate([everywhere(), where("income > 2 and age < 70")], sample="web")
    assert caught.value.columns == {"income": 2}
    assert str(caught.value) == (
        "The bias income > 2 and age < 70 on rows of sample 'web' is unknown on 1 row, since there are missing values "
        "in "
        "'income' (2). A missing value is neither true nor false. Fill or drop these rows, or handle them in "
        "the expression, e.g. income is not missing and ..."
    )
    with pytest.raises(MissingValuesError, match="The bias income is unknown on 2 rows"):
        frame.evaluate([where("income")])


def test_comparing_nan(frame):
    with pytest.raises(InvalidBiasError, match="compares NaN on 3 rows") as caught:
        frame.evaluate([where("log(15 - price) > 0")], sample="web")
    assert caught.value.sample == "web"
    assert caught.value.rows == (1, 2, 3)


def test_unknown_column(frame):
    message = "no column 'pric'. The columns are: price, age, region, owner, income. Did you mean 'price'?"
    with pytest.raises(MismatchError, match=message.replace("?", r"\?")):
        frame.evaluate([where("pric > 1")])
    for refuse in [frame.column, frame.drop]:
        with pytest.raises(MismatchError, match="no column 'pric'"):
            refuse("pric")


@pytest.mark.parametrize("text", ["region > 3", "price == 'a'", "age and owner", "region * 2"])
def test_mismatched_types(frame, text):
    with pytest.raises(MismatchError, match=r"Column '(region|price|age)' holds"):
        frame.evaluate([where(text)])


def test_functions(frame):
    seen = []

    def double(rows):
        seen.append(rows)
        return np.arange(4) * 2

    values, constant, product = frame.evaluate(
        [as_bias(double), as_bias(lambda rows: 3), where("owner") * as_bias(lambda rows: [1, 2, 3, 4])]
    )
    assert seen[0] is frame.native
    assert values.tolist() == [0, 2, 4, 6]
    assert values.dtype == np.float64
    assert constant.tolist() == [3, 3, 3, 3]
    assert product.tolist() == [1, 0, 3, 0]
    assert frame.evaluate([as_bias(lambda rows: np.arange(4) > 1)])[0].dtype == np.bool


def test_functions_that_return_something_else(frame):
    def wrong(rows):
        return [1, 2, 3]

    with pytest.raises(
        MismatchError, match=r"<function wrong> on rows of sample 'web' returned values of shape \(3,\) for 4 rows"
    ):
        frame.evaluate([as_bias(wrong)], sample="web")
    with pytest.raises(InvalidBiasError, match="which is not a numeric type"):
        frame.evaluate([as_bias(lambda rows: ["a", "b", "c", "d"])])


def test_functions_that_reorder():
    frame = as_frame(pd.DataFrame({"x": [3.0, 1.0, 2.0]}))
    with pytest.raises(MismatchError, match="index is not that of the rows"):
        frame.evaluate([as_bias(lambda rows: rows["x"].sort_values())])
    shuffled = as_frame(frame.native.sort_values("x"))
    assert shuffled.evaluate([as_bias(lambda rows: rows["x"])])[0].tolist() == [1, 2, 3]
    for numbered in (lambda rows: rows["x"].reset_index(drop=True), lambda rows: rows["x"].sort_index()):
        with pytest.raises(
            MismatchError, match="index is not that of the rows"
        ):  # one is right, and looks as the other
            shuffled.evaluate([as_bias(numbered)])
    assert shuffled.evaluate([as_bias(lambda rows: rows["x"].to_numpy())])[0].tolist() == [1, 2, 3]


def test_values_belong_to_the_pool(frame):
    with pytest.raises(InvalidBiasError, match="<array of 4 values> is tied to the rows of the pool"):
        frame.evaluate([as_bias([1.0, 2.0, 3.0, 4.0])], sample="web")


def test_take_and_drop(frame):
    rows = frame.take([3, 0, 3])
    assert type(rows) is type(frame.native)
    assert as_frame(rows).column("age").tolist() == [80, 20, 80]
    assert frame.drop("age").columns == ("price", "region", "owner", "income")


def test_series(frame):
    series = frame.wrap(np.array([1.0, 2.0, 3.0, 4.0]), "weight")
    assert np.asarray(series).tolist() == [1, 2, 3, 4]
    if isinstance(frame.native, pd.DataFrame):
        assert series.index.equals(frame.native.index)
        assert series.name == "weight"
        assert frame.native.assign(weight=series)["weight"].tolist() == [1, 2, 3, 4]
        assert frame.take([2]).index[0] == frame.native.index[2]


def test_concat(make):
    one, two = as_frame(make({"price": [1.0, 2.0], "age": [1, 2]})), as_frame(make({"price": [3.0], "age": [3]}))
    pool = concat([one, two])
    assert type(pool.native) is type(one.native)
    assert pool.column("price").tolist() == [1, 2, 3]
    assert pool.evaluate([where("age >= 2")])[0].tolist() == [False, True, True]
    assert concat([one]) is one


@pytest.mark.parametrize("library", MAKERS)
def test_concat_of_different_columns(library):
    make = MAKERS[library]
    one, two = as_frame(make({"price": [1.0, 2.0], "age": [1, 2]})), as_frame(make({"city": ["N"], "price": [3]}))
    pool = concat([one, two])
    assert set(pool.columns) == {"price", "age", "city"}
    assert pool.evaluate([where("price > 1 and city is missing")])[0].tolist() == [False, True, False]
    with pytest.raises(MissingValuesError, match="'age'"):
        pool.evaluate([where("age > 1")])
    with pytest.raises(MismatchError, match=r"Column 'price' is .* in one sample and .* in another"):
        concat([one, as_frame(make({"price": ["a"], "age": [1]}))])
    swapped = concat([one, as_frame(make({"age": [3], "price": [5.0]}))])
    assert swapped.column("price").tolist() == [1, 2, 5]


def test_concat_keeps_labels():
    one, two = pd.DataFrame({"x": [1, 2]}, index=["a", "b"]), pd.DataFrame({"x": [3]}, index=["a"])
    assert concat([as_frame(one), as_frame(two)]).native.index.tolist() == ["a", "b", "a"]


def test_concat_of_categories():
    one = pd.DataFrame({"c": pd.Categorical(["a", "b"])})
    two = pd.DataFrame({"c": pd.Categorical(["z"])})
    three = pd.DataFrame({"c": ["a"]})
    pool = concat([as_frame(one), as_frame(two), as_frame(three)])
    assert pool.evaluate([where("c == 'a'")])[0].tolist() == [True, False, False, True]


def test_concat_refusals():
    array, table = as_frame(np.ones((2, 2))), as_frame(pl.DataFrame({"x": [1]}))
    with pytest.raises(MismatchError, match="different libraries"):
        concat([array, table])
    with pytest.raises(MismatchError, match=r"differ in their columns: \(2,\), \(3,\)"):
        concat([array, as_frame(np.ones((2, 3)))])


def test_arrays():
    line, plane = as_frame(np.array([1.0, 2.0, 3.0])), as_frame(np.arange(6.0).reshape(3, 2))
    assert line.columns == ("x",)
    assert plane.columns == ("x0", "x1")
    assert line.evaluate([where("x > 1")])[0].tolist() == [False, True, True]
    assert plane.evaluate([where("x0 + x1")])[0].tolist() == [1, 5, 9]
    assert plane.drop("x0").native.tolist() == [[1], [3], [5]]
    assert plane.take([2, 0]).tolist() == [[4, 5], [0, 1]]
    assert concat([line, line]).native.tolist() == [1, 2, 3, 1, 2, 3]


def test_arrays_of_objects():
    frame = as_frame(np.array([["a", 1, b"x"], [None, 2.5, b"y"], ["b", None, b"z"]], dtype=object))
    assert frame.evaluate([where("x0 is missing or x0 == 'a'")])[0].tolist() == [True, True, False]
    assert frame.evaluate([where("x1 is not missing and x1 > 1")])[0].tolist() == [False, True, False]
    with pytest.raises(MismatchError, match="'x2' holds values of a type that a bias cannot read"):
        frame.evaluate([where("x2 == 'a'")])
    with pytest.raises(MissingValuesError, match="'x0'"):
        frame.evaluate([where("x0 == 'a'")])


@pytest.mark.parametrize(
    "native",
    [
        pd.Series([1.0, 2.0, 3.0], index=list("abc")),
        pl.Series("age", [1.0, 2.0, 3.0]),
        pa.chunked_array([[1.0, 2.0], [3.0]]),
    ],
)
def test_series_as_rows(native):
    frame = as_frame(native)
    name = "age" if isinstance(native, pl.Series) else "x"
    assert frame.columns == (name,)
    assert frame.evaluate([where(f"{name} > 1"), as_bias(lambda rows: 2 * np.asarray(rows))])[1].tolist() == [2, 4, 6]
    assert np.asarray(frame.wrap(np.ones(3), "weight")).tolist() == [1, 1, 1]
    assert type(frame.take([0, 2])) is type(native)
    assert concat([frame, frame]).column(name).tolist() == [1, 2, 3, 1, 2, 3]
    assert type(concat([frame, frame]).native) is type(native)


def test_objects_of_pandas():
    native = pd.DataFrame({"mixed": [1, "a"], "flag": [True, None]}, dtype=object)
    assert as_frame(native).evaluate([where("flag is missing")])[0].tolist() == [False, True]
    for text in ["flag", "mixed == 1", "mixed + 1", "not flag"]:
        with pytest.raises(MismatchError, match=r"\(Object\), but .* Convert the column to numbers, text, booleans"):
            as_frame(native).evaluate([where(text)])


def test_two_hundred_biases(frame):
    biases = [where(f"price > {place} and age < {place + 50}") for place in range(200)]
    price, age = np.array(ROWS["price"]), np.array(ROWS["age"])
    for place, array in enumerate(frame.evaluate(biases)):
        np.testing.assert_array_equal(array, (price > place) & (age < place + 50))


def test_no_rows(make):
    frame = as_frame(make(ROWS)).take(np.array([], dtype=int))
    arrays = as_frame(frame).evaluate([where("price > 1 and region == 'N'"), everywhere(), where("True"), where("age")])
    assert [(len(array), array.dtype) for array in arrays] == [(0, bool), (0, float), (0, bool), (0, float)]


def test_pandas_columns_that_are_numbers():
    native = pd.DataFrame(np.arange(4.0).reshape(2, 2))
    frame = as_frame(native)
    assert frame.columns == ("0", "1")
    assert frame.native is native
    assert frame.evaluate([where("`1` > 1")])[0].tolist() == [False, True]
    assert frame.take([1]).columns.tolist() == [0, 1]


@pytest.mark.parametrize(
    "native",
    [pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.DataFrame([[1, 2]], columns=["1", 1])],
)
def test_names_that_stand_twice(native):
    with pytest.raises(MismatchError, match=r"More than one column is named '(a|1)'"):
        as_frame(native)


@pytest.mark.parametrize("make_lazy", [pl.DataFrame.lazy, lambda frame: duckdb.from_arrow(frame.to_arrow())])
def test_lazy_frames(make_lazy):
    native = make_lazy(pl.DataFrame({"x": [1]}))
    with pytest.raises(MismatchError, match="but this needs rows in memory. Collect it first"):
        as_frame(native)


@pytest.mark.parametrize("native", [[1, 2], {"x": [1]}, "rows.csv", None, 3])
def test_what_holds_no_rows(native):
    read = "Read the file first, as by pandas.read_csv. " if isinstance(native, str) else ""
    with pytest.raises(
        MismatchError, match=rf"Rows cannot be a {type(native).__name__}\. {read}Give a NumPy array, or a frame"
    ):
        as_frame(native)


@pytest.mark.parametrize(
    ("native", "words"),
    [
        (np.ones((2, 2, 2)), "3 dimensions"),
        (np.array(1.0), "0 dimensions"),
        (np.ma.masked_array([1.0, 2.0], mask=[True, False]), "mask would be lost"),
    ],
)
def test_arrays_of_another_shape(native, words):
    with pytest.raises(MismatchError, match=words):
        as_frame(native)


@pytest.mark.parametrize("name", ["region", "age", "price", "owner"])
def test_columns_are_coded_in_the_order_in_which_values_appear(make, name):
    """Whichever library does it, as a dict would."""
    codes, values = as_frame(make(ROWS)).coded(name)
    assert values == list(dict.fromkeys(ROWS[name]))
    assert [values[code] for code in codes.tolist()] == ROWS[name]
    assert codes.dtype == np.int64


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a", "b"], object),
        np.array(["b", "a", "b"]),
        np.array([2, True, "2", 2.0, None], object),
        np.array([0.5, -0.0, 0.0, 0.5], np.float16),
        np.array(["2020-02-01", "2020-01-01"], "datetime64[D]"),
        np.array([np.nan, 1.0, np.nan]),
    ],
)
def test_labels_are_coded_the_same_without_pandas(labels, monkeypatch):
    one = coded(labels)
    monkeypatch.delitem(sys.modules, "pandas")
    other = coded(labels)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])  # NaN is one label
    assert [type(value) for value in one[1]] == [type(value) for value in other[1]]


PIECES = [
    {"x": [1.0, 2.0], "text": ["a", None], "flag": [True, False]},
    {"x": [3.0], "text": ["b"], "flag": [True]},
    {"x": [4.0, np.nan], "text": ["a", "c"], "flag": [False, False]},
]


def no_join():
    raise AssertionError("frames that are alike need not be joined")


@pytest.fixture(params=[pd.DataFrame, pl.DataFrame])
def frames(request):
    return [as_frame(request.param(piece)) for piece in PIECES]


def test_frames_that_are_alike_are_not_joined(frames):
    parts = alike(frames, no_join)
    whole = concat(frames)
    assert len(parts) == len(frames)
    assert all(part.columns == whole.columns for part in parts)
    for name in ("x", "flag"):
        np.testing.assert_array_equal(np.concatenate([part.column(name) for part in parts]), whole.column(name))
        assert not any(part.is_text(name) for part in parts)
    assert all(part.is_text("text") for part in parts)


def test_texts_are_coded_as_one_column(frames):
    codes, values = coded_together(frame.coded("text") for frame in alike(frames, no_join))
    texts = [values[code] if isinstance(values[code], str) else None for code in codes.tolist()]
    assert texts == ["a", None, "b", "a", "c"]
    assert sorted(value for value in values if isinstance(value, str)) == ["a", "b", "c"]


def test_frames_that_differ_are_joined_once(frames):
    other = as_frame(type(frames[0].native)({"x": [5], "more": ["z"]}))
    joins = []

    def join():
        joins.append(1)
        return concat([*frames, other])

    (whole,) = alike([*frames, other], join)
    assert whole.columns == ("x", "text", "flag", "more")
    np.testing.assert_array_equal(whole.column("x"), [1.0, 2.0, 3.0, 4.0, np.nan, 5.0])
    assert joins == [1]


def test_there_are_no_columns_where_rows_cannot_be_in_one_frame(frames):
    assert alike([*frames, as_frame(np.arange(3.0))], lambda: None) == ()
    assert alike([], lambda: None) == ()
