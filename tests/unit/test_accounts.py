"""Tables of notebooks that are too long, and the hash of the rows."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pools import hostile_fit

import vardi
from vardi._tables import MOST_ROWS, Table
from vardi.report._recipe import fingerprint


def test_samples_beyond_what_a_notebook_holds_are_counted(monkeypatch):
    monkeypatch.setattr("vardi._tables.MOST_ROWS", 21)
    rng = np.random.default_rng(0)
    samples = {f"site {k}": rng.normal(size=40) for k in range(23)}
    html = vardi.debias(samples, dict.fromkeys(samples, 1))._repr_html_()
    folded = html.split("<details><summary>3 more samples</summary>")[1].split("</details>")[0]
    assert ">site 20</th>" in folded
    assert "site 21" not in html
    assert folded.endswith("<p>... and 2 more</p>")


@pytest.fixture(scope="module")
def fit():
    return hostile_fit()


def test_lines_of_a_cell_break_where_it_is_long_and_nowhere_else():
    """A notebook's own style breaks them anywhere, and it sets names to the right."""
    html = Table(("sample", "mean"), [("a sample", "0.1528 ± 0.0072"), ("a " * 30, "1")]).html()
    assert '<th style="text-align:left;white-space:nowrap">a sample</th>' in html
    assert '<td style="white-space:nowrap">0.1528 ± 0.0072</td>' in html
    assert '<th style="text-align:left;min-width:14em">a a ' in html


def test_tables_end_where_they_are_too_long():
    rows = [(str(k), "<&>") for k in range(3)]
    html = Table(("a<", "b"), rows, code=1, beneath="c<d").html()
    assert ">a&lt;</th>" in html
    assert "<code>&lt;&amp;&gt;</code>" in html
    assert html.endswith("<p>c&lt;d</p>")
    assert "<details>" not in html
    many = [(str(k), "") for k in range(MOST_ROWS + 234)]
    assert "<p>... and 234 more</p></details>" in Table(("a", "b"), many).html()


def test_texts_are_folded_where_a_table_is_too_wide_and_numbers_never():
    rows = [("x" * 95, "y <= 3", "1" * 20)]
    lines = Table(("name", "bias", "rows"), rows, texts=(0, 1)).text().splitlines()
    assert max(map(len, lines)) == 80
    assert lines[1].endswith(f"x  y <= 3  {'1' * 20}")
    assert "".join(line[:50].strip() for line in lines[1:]) == "x" * 95


TEXTS = ["north", "süd", "", None, "ÿ", "east"]


def frames(make):
    rng = np.random.default_rng(0)
    return {
        name: make({"x": rng.gamma(2.0, size=500), "t": [TEXTS[k] for k in rng.integers(0, len(TEXTS), 500)]})
        for name in ("a", "b")
    }


def plain_hash(fit):
    """Hash value by value, as the docstring says."""
    pool, found = fit.solved.pool, hashlib.sha256()
    for name in pool.names:
        found.update(name.encode() + b"\0")
    found.update(pool.source.astype("<i8").tobytes())
    for column in ("x", "t"):
        found.update(column.encode() + b"\0")
        for frame in pool.frames:
            for value in frame.column(column).tolist():
                if column == "x":
                    found.update(np.float64(value).tobytes())
                else:
                    found.update((value if isinstance(value, str) else "\1").encode() + b"\0")
    return found.hexdigest()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("rows", [50_000, 7])
def test_texts_are_hashed_as_one_by_one(make, rows):
    fit = vardi.debias(frames(make), {"a": "1", "b": "x"})
    assert fingerprint(fit.solved.pool, ["x", "t"], rows).digest == plain_hash(fit)
