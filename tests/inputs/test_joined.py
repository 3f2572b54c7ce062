"""Columns of several frames, read one by one: as of one frame of all rows."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from vardi._inputs.frames import JoinedColumns, as_frame, concat

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
    columns = JoinedColumns.of(frames, no_join)
    whole = concat(frames)
    assert columns.frames
    assert columns.names == whole.columns
    for name in ("x", "flag"):
        np.testing.assert_array_equal(columns.column(name), whole.column(name))
        assert not columns.is_text(name)
    assert columns.is_text("text")
    found = np.concatenate(columns.values_at("x", np.array([0, 2, 3])))
    np.testing.assert_array_equal(found, [1.0, 3.0, 4.0])
    assert np.concatenate(columns.values_at("text", np.array([0, 2, 4]))).tolist() == ["a", "b", "c"]


def test_texts_are_coded_as_one_column(frames):
    codes, values = JoinedColumns.of(frames, no_join).coded("text")
    texts = [values[code] if isinstance(values[code], str) else None for code in codes.tolist()]
    assert texts == ["a", None, "b", "a", "c"]
    assert sorted(value for value in values if isinstance(value, str)) == ["a", "b", "c"]


def test_frames_that_differ_are_joined_once(frames):
    other = as_frame(type(frames[0].native)({"x": [5], "more": ["z"]}))
    joins = []

    def join():
        joins.append(1)
        return concat([*frames, other])

    columns = JoinedColumns.of([*frames, other], join)
    assert columns.names == ("x", "text", "flag", "more")
    np.testing.assert_array_equal(columns.column("x"), [1.0, 2.0, 3.0, 4.0, np.nan, 5.0])
    assert len(columns.pieces("text")) == 1
    assert joins == [1]


def test_there_are_no_columns_where_rows_cannot_be_in_one_frame(frames):
    columns = JoinedColumns.of([*frames, as_frame(np.arange(3.0))], lambda: None)
    assert not columns.frames
    assert columns.names == ()
    assert not JoinedColumns.of([], lambda: None).frames
