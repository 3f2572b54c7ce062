"""``vardi weigh``: rows of files and tables through a saved fit, whole or not at all."""

from __future__ import annotations

import json

import duckdb
import fits
import polars as pl
import pytest
from numpy.testing import assert_allclose
from shell import invoke, program, write_demo

import vardi

READERS = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".jsonl": pl.read_ndjson}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a saved fit, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    fits.fit_of("both").save("fit.json")
    return tmp_path


@pytest.mark.parametrize("name", fits.FITS)
def test_weights_are_those_of_the_fit(name, folder):
    rows = pl.from_arrow(fits.new_rows())
    rows.write_parquet("new.parquet")
    fits.fit_of(name).save("fit.json", overwrite=True)
    assert invoke("weigh", "fit.json", "new.parquet", "-o", "out.parquet").exit_code == 0
    found = pl.read_parquet("out.parquet")
    assert found.drop("weight").equals(rows)
    assert_allclose(found["weight"], fits.fit_of(name).weigh(rows), rtol=1e-12)


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".jsonl", ".duckdb"])
@pytest.mark.parametrize("output", READERS)
def test_every_kind_of_file_is_read_and_written(kind, output, folder):
    rows, options = pl.from_arrow(fits.new_rows(500)), []
    if kind == ".duckdb":
        with duckdb.connect("new.duckdb") as connection:
            connection.execute("CREATE TABLE people AS SELECT * FROM rows")
        options = ["--table", "people"]
    else:
        writers = {".parquet": rows.write_parquet, ".csv": rows.write_csv, ".jsonl": rows.write_ndjson}
        writers[kind](f"new{kind}")
    result = invoke("weigh", "fit.json", f"new{kind}", *options, "-o", f"out{output}")
    assert result.exit_code == 0, result.output
    found = READERS[output](f"out{output}")
    assert found.columns == [*rows.columns, "weight"]
    assert_allclose(found.sort("place")["weight"], fits.fit_of("both").weigh(rows), rtol=1e-12)


def test_the_fit_is_written_beside_the_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_demo(tmp_path)
    assert invoke("fit", "study.toml", "-o", "weights.parquet").exit_code == 0
    assert vardi.load("weights.fit.json").names == ("agency", "national")
    assert invoke("weigh", "weights.fit.json", "agency.csv", "-o", "again.csv", "--quiet").output == ""
    weights = pl.read_parquet("weights.parquet").filter(pl.col("source") == "agency")["weight"]
    assert_allclose(pl.read_csv("again.csv")["weight"], weights, rtol=1e-12)
    refused = invoke("fit", "study.toml", "-o", "weights.csv")
    assert (refused.exit_code, "weights.fit.json already exists" in refused.output) == (3, True)
    assert not (tmp_path / "weights.csv").exists()


def test_a_fit_that_is_no_formula_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"x": [3.0, 4.0, 5.0, 6.0], "low": [1.0, 2.0, 3.0, 1.0]}).write_csv("seen.csv")
    (tmp_path / "study.toml").write_text('[sources.seen]\ndata = "seen.csv"\nbias = "window(x, low, None)"\n')
    result = invoke("fit", "study.toml", "-o", "weights.csv")
    assert "The fit was not saved for new rows: its weight is no formula of columns." in result.output
    assert not (tmp_path / "weights.fit.json").exists()


def test_rows_without_a_weight_are_counted(folder):
    pl.DataFrame({"age": [30.0, None], "income": [20.0, 20.0], "region": ["N", "S"]}).write_csv("new.csv")
    result = invoke("weigh", "fit.json", "new.csv", "-o", "out.csv", "--json")
    found = json.loads(result.stdout)
    assert (found["format"], found["rows"], found["uncovered"]) == (1, 2, 1)
    assert "warning: 1 of 2 rows have no weight: no sample of the fit could have drawn them" in result.stderr
    assert pl.read_csv("out.csv")["weight"].is_null().to_list() == [False, True]


def test_codes_of_texts_are_read_as_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pl.DataFrame({"zip": ["007", "012", "007", "012"], "x": [1.0, 2.0, 3.0, 4.0]})
    vardi.debias({"a": rows, "b": rows[:3]}, {"a": 1, "b": "1 + (zip == '007')"}).save("fit.json")
    rows.write_csv("new.csv")
    assert invoke("weigh", "fit.json", "new.csv", "-o", "out.parquet").exit_code == 0
    assert pl.read_parquet("out.parquet")["zip"].to_list() == rows["zip"].to_list()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["no.json", "new.csv", "-o", "out.csv"], 2, "no.json cannot be read: No such file"),
        (["new.csv", "new.csv", "-o", "out.csv"], 2, "new.csv is not a saved fit: it is not JSON"),
        (["fit.json", "no.csv", "-o", "out.csv"], 2, "There is no file no.csv"),
        (["fit.json", "new.csv", "-o", "new.csv", "--force"], 3, "new.csv is read, so it is not overwritten"),
        (["fit.json", "new.csv", "-o", "out.xlsx"], 3, "out.xlsx has no suffix that names a kind of file"),
        (["fit.json", "new.csv", "-o", "there.csv"], 3, "there.csv already exists"),
        (["fit.json", "new.csv", "-o", "out.csv", "--table", "t"], 2, "new.csv has no tables. Leave --table out."),
        (["fit.json", "new.duckdb", "-o", "out.csv"], 2, "new.duckdb is a database. Name its table: --table NAME."),
        (["fit.json", "new.duckdb", "-o", "out.csv", "--table", "u"], 2, "new.duckdb has no table 'u'. It has: t."),
        (["fit.json", "few.csv", "-o", "out.csv"], 1, "There is no column 'income'"),
        (["fit.json", "weighed.csv", "-o", "out.csv"], 1, "There is already a column 'weight'"),
    ],
)
def test_what_cannot_be_weighed_is_refused_and_nothing_is_written(arguments, code, said, folder):
    rows = pl.from_arrow(fits.new_rows(5))
    rows.write_csv("new.csv")
    rows.select("age", "region").write_csv("few.csv")
    rows.with_columns(weight=1.0).write_csv("weighed.csv")
    (folder / "there.csv").write_text("x\n1\n")
    with duckdb.connect("new.duckdb") as connection:
        connection.execute("CREATE TABLE t (x DOUBLE)")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found, shown = program("weigh", *arguments, COLUMNS="500")
    assert (found, said in shown) == (code, True), shown
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
