"""Studies whose variables only some sources have recorded, wherever the rows are."""

from __future__ import annotations

import json

import polars as pl
import pytest
from shell import invoke as run

import vardi
from vardi.study import read

STUDY = """
variables = ["age", "spent", "spent > 100"]
engine = "{engine}"
[sources.survey]
data = "survey.csv"
bias = 1
[sources.panel]
data = "panel.csv"
bias = "100 - age"
"""


@pytest.fixture
def folder(tmp_path):
    ages = pl.Series("age", [20.0 + 60.0 * k / 99 for k in range(100)])
    survey = pl.DataFrame({"age": ages}).with_columns(spent=2.0 * pl.col("age") + 7.0 * (pl.col("age") * 9.7).sin())
    survey = survey.with_columns(brand=pl.when(pl.col("spent") > 100).then(pl.lit("A")).otherwise(pl.lit("B")))
    survey.write_csv(tmp_path / "survey.csv")
    panel = pl.DataFrame({"age": [80.0 - 60.0 * (1.0 - k / 199) ** 0.5 * 0.99 for k in range(200)]})
    panel.with_columns(children=pl.lit(2)).write_csv(tmp_path / "panel.csv")
    return tmp_path


@pytest.mark.parametrize(
    "engine", ["memory", *(pytest.param(name, marks=pytest.mark.long) for name in ("polars", "duckdb"))]
)
def test_means_say_from_which_sources_they_are(folder, engine):
    path, report = folder / "study.toml", folder / "report.html"
    path.write_text(STUDY.format(engine=engine))
    samples = {name: pl.read_csv(folder / f"{name}.csv") for name in ("survey", "panel")}
    fit = vardi.debias(samples, {"survey": 1, "panel": "100 - age"})
    assert run("check", path).exit_code == 0
    told = run("fit", path, "--report", report, "--json")
    found = {line["name"]: line for line in json.loads(told.stdout)["variables"]}
    assert [line["among"] for line in found.values()] == [[], ["survey"], ["survey"]]
    for name, line in found.items():
        expected = fit.expectation(name)
        assert (line["debiased"], line["stderr"]) == pytest.approx((expected.value, expected.stderr), rel=1e-8)
    html = report.read_text()
    assert "spent <small>from survey</small>" in html
    assert "spent &gt; 100 <small>from survey</small>" in html


def test_the_tables_say_so_too(folder):
    path = folder / "study.toml"
    path.write_text(STUDY.format(engine="memory"))
    said = run("fit", path).stdout
    assert "spent (from survey)" in said
    assert read(path).fit().expectation("spent").among == ("survey",)


@pytest.mark.parametrize(
    ("variable", "problem"),
    [
        ("brand", "The variable 'brand' holds text. Only numbers have a mean: write a condition"),
        ("spant", "The variable 'spant' reads column 'spant', which no file has. Did you mean 'spent'?"),
        ("spent * children", "reads 'spent', 'children', but no sample has all of them. Use columns of one sample."),
        ("spent == 'a'", "The variable \"spent == 'a'\", on the rows of survey.csv: "),
    ],
)
def test_variables_that_no_source_can_answer_are_problems(folder, variable, problem):
    path = folder / "study.toml"
    path.write_text(STUDY.format(engine="memory").replace('"spent",', f'"{variable}",'))
    with pytest.raises(vardi.StudyError) as caught:
        read(path)
    (said,) = caught.value.problems
    assert problem in said


def test_sources_that_do_not_cover_the_others_are_refused_with_rows(folder):
    path = folder / "study.toml"
    pl.read_csv(folder / "survey.csv").filter(pl.col("age") > 50).write_csv(folder / "survey.csv")
    path.write_text(STUDY.format(engine="memory").replace("bias = 1", 'bias = "age > 50"'))
    told = run("fit", path)
    assert told.exit_code != 0
    assert "'survey' could not have drawn all rows of the pool: not row 0 of 'panel'" in " ".join(told.output.split())
