"""Biases that read a column which other samples lack."""

from __future__ import annotations

import polars as pl
import pytest

import vardi

SURVEY = pl.DataFrame({"age": [30.0, 50.0], "region": ["N", "S"], "y": [1.0, 2.0], "pw": [10.0, 20.0]})
WEB = pl.DataFrame({"age": [20.0, 25.0], "region": ["S", "S"], "y": [2.5, 3.5]})


@pytest.mark.parametrize("lazy", [False, True])
def test_the_column_is_named_with_what_to_write_instead(lazy):
    survey, web = (rows.lazy() if lazy else rows for rows in (SURVEY, WEB))
    message = (
        r"'survey', 1 / pw, reads column 'pw', which 'web' lacks. A bias is evaluated on the rows of all samples: how "
        r"likely was 'survey' to draw those of 'web'\?.* one over its mean given columns that all samples have "
        r"\('age', 'region', 'y'\): the guide 'Pooling surveys'"
    )
    with pytest.raises(vardi.MismatchError, match=message):
        vardi.debias({"survey": survey, "web": web}, {"survey": "1 / pw", "web": 1})
