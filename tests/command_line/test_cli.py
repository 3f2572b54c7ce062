"""The command line: what it prints, what it writes, and how it fails."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from shell import FILES, HIGH, LOW, STUDY, Terminal, completed, program, write_demo, write_small
from shell import invoke as run

import vardi
from vardi.cli import main

ROOT = Path(__file__).resolve().parents[2]
VARDI = [sys.executable, "-m", "vardi"]


@pytest.fixture(autouse=True)
def no_width(monkeypatch):
    """What starts the tests may have set a width of lines."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the study of the demo, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    return write_demo(tmp_path)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder with two small samples that overlap."""
    monkeypatch.chdir(tmp_path)
    return write_small(tmp_path)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- fit


def test_truncated_rows_are_checked_fitted_and_drawn_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    design = vardi.datasets.truncation(n=150, seed=0)
    low, high = design.truth["windows"].T
    pl.DataFrame({"x": design.rows, "u": low, "v": high}).write_csv("seen.csv")
    Path("study.toml").write_text('[sources.seen]\ndata = "seen.csv"\nbias = "window(x, u, v)"\n')
    checked = " ".join(run("check", "study.toml").stdout.split())
    assert "'seen' is weighted by the windows of its rows" in checked
    assert "quasi-independence test of x" in checked
    assert "window(x, u, v)" in run("fit", "study.toml", "-o", "weights.csv", "--report", "report.html").stdout
    fit = vardi.debias({"seen": pl.read_csv("seen.csv")}, {"seen": vardi.window("x", "u", "v")})
    np.testing.assert_allclose(pl.read_csv("weights.csv")["weight"], fit.weights)
    assert run("sample", "study.toml", "-n", "20", "-o", "drawn.csv").exit_code == 0
    assert pl.read_csv("drawn.csv").height == 20


def test_fit_names_columns_that_are_left_out(small):
    (small / "low.csv").write_text("x,y,z\n1,1,\n2,,\n4,3,\n")
    (small / "high.csv").write_text("x,y,z\n2,1,\n5,inf,\n8,3,\n")
    assert "Left out because of missing or infinite values: y (2), z (6)." in run("fit", "study.toml").stdout


def test_check_fit_summary_and_report_give_one_verdict(tmp_path, monkeypatch):
    """One row carries the error of a mean, and a sample contradicts its bias: all four say the same of either.

    The summary of a fit, of which no column was asked, names the mean below its table instead.
    """
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, y = np.append(rng.uniform(1, 2, 79), 3.0), np.append(rng.normal(size=79), 60.0)
    samples = {"one": pl.DataFrame({"x": x, "y": y}), "two": pl.DataFrame({"x": rng.uniform(1, 3, 80), "y": 0.0})}
    for name, rows in samples.items():
        rows.write_csv(f"{name}.csv")
    sources = "".join(f'[sources.{name}]\ndata = "{name}.csv"\nbias = "x"\n' for name in samples)
    Path("study.toml").write_text(f'title = "Both"\nvariables = ["x", "y"]\n{sources}', encoding="utf-8")
    fit = vardi.debias(samples, dict.fromkeys(samples, "x"))
    found = vardi.report.compute(fit, variables=["x", "y"])
    assert found.headline.text == "Some estimates rest on too few rows for standard errors, and are rough."
    doubt = found.trust.messages[0]
    assert doubt.startswith("No standard error is given for the mean of 'y'")
    check = "are contradicted (p below 0.0001)"
    checked, fitted = run("check", "study.toml"), run("fit", "study.toml")
    html = fit._repr_html_()
    for said in (checked.stdout, fitted.stdout):
        assert found.headline.text in " ".join(said.split())
        assert doubt in " ".join(said.split())
    for said in (str(fit), html):
        assert "Do not use the weights until that is explained." in " ".join(said.split())
        assert "Errors that rest on few rows: y (none given, 2.5 degrees of freedom)." in " ".join(said.split())
    for said in (fitted.stdout, str(fit), html):
        assert check in " ".join(said.split())
    assert any(doubt in point.text for point in found.headline.points)
    assert any(check in point.text for point in found.headline.points)
    assert checked.exit_code == 1
    asked = (
        json.loads(run("check", "study.toml", "--json").stdout),
        json.loads(run("fit", "study.toml", "--json").stdout),
    )
    assert asked[0]["conclusion"] == asked[1]["conclusion"] == {"level": "bad", "text": found.headline.text}
    assert asked[0]["doubts"] == asked[1]["doubts"] == list(found.trust.messages)


def test_fit_shows_known_shares_and_parameters(folder):
    with Path("study.toml").open("a") as study:
        study.write("[known]\n'CHAS == 1' = 0.07\n")
    shown = run("fit", "study.toml").stdout
    assert re.search(r"known +1 known value is met to", shown)
    text = (
        Path("study.toml").read_text().split("[known]")[0].replace("MEDV <= 22", "(MEDV <= 22) * exponential_tilt(RM)")
    )
    Path("study.toml").write_text(text)
    result = run("fit", "study.toml")
    assert re.search(
        r"^bias of +parameter +estimate\nagency +RM +-?[0-9.]+ ± [0-9.]+ \(95%: .*\)$", result.stdout, re.MULTILINE
    )
    estimate = json.loads(run("fit", "study.toml", "--json").stdout)["parameters"]["agency"]["RM"]
    fit = vardi.study.read(Path("study.toml")).fit()
    assert estimate["value"] == pytest.approx(fit.parameters["agency"]["RM"].value)
    assert "the declared biases are not contradicted" in run("check", "study.toml").stdout


def test_fit_prints_a_summary_and_writes_weights_that_join_back(folder):
    result = run("fit", "study.toml", "-o", "weights.parquet")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0] == "House prices: 300 rows of 2 samples represent the population"
    assert "agency     200  MEDV <= 22  0.590 ± 0.049      45.6%" in lines
    assert "MEDV          19.063       23.22 ± 0.97" in lines
    assert lines[-2:] == ["weights  weights.parquet", "fit      weights.fit.json"]
    assert all(line == line.rstrip() for line in lines)
    weights = pl.read_parquet("weights.parquet")
    agency = pl.read_csv("agency.csv").with_row_index("row").cast({"row": pl.Int64})
    joined = agency.join(weights.filter(pl.col("source") == "agency"), on="row", how="left", validate="1:1")
    assert joined["weight"].null_count() == 0
    assert weights["weight"].mean() == pytest.approx(1.0, rel=1e-12)


def test_fit_without_outputs_says_so(folder):
    result = run("fit", "study.toml")
    assert result.exit_code == 0
    assert "No file was written." in result.stdout
    next_ones = re.findall(r"^  (vardi .*)$", result.stdout, re.MULTILINE)
    assert next_ones == ["vardi report study.toml", "vardi fit study.toml -o weights.csv"]
    assert set(contents(folder)) == {"agency.csv", "national.csv", "study.toml"}


def test_fit_for_machines(folder):
    result = run("fit", "study.toml", "-o", "weights.csv", "--json")
    found = json.loads(result.stdout)
    assert found["title"] == "House prices"
    assert found["format"] == 1
    assert found["files"] == {"weights": "weights.csv", "fit": "weights.fit.json"}
    assert [line["name"] for line in found["samples"]] == ["agency", "national"]
    assert found["variables"][0] == {
        "name": "MEDV",
        "pooled": pytest.approx(19.063),
        "debiased": pytest.approx(23.2183, abs=1e-4),
        "stderr": pytest.approx(0.97255, abs=1e-5),
        "among": [],
    }
    assert found["warnings"] == []


def test_quiet_prints_nothing(folder):
    result = run("fit", "study.toml", "-o", "weights.csv", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_fit_writes_weights_and_report_together(folder):
    result = run("fit", "study.toml", "-o", "weights.parquet", "--report", "report.html")
    assert result.exit_code == 0, result.stderr
    told = [
        "weights  weights.parquet",
        "report   report.html",
        "fit      weights.fit.json",
        "",
        "Open the report in a browser to read and print it.",
    ]
    assert result.stdout.splitlines()[-5:] == told
    assert "House prices" in (folder / "report.html").read_text()


def test_a_report_that_fails_leaves_no_weights(folder, monkeypatch):
    def fail(self, path, **options):
        raise vardi.OutputError("The disk is full.", path=str(path))

    monkeypatch.setattr(vardi.DebiasedSample, "report", fail)
    before = contents(folder)
    result = run("fit", "study.toml", "-o", "weights.parquet", "--report", "report.html")
    assert result.exit_code == 3
    assert contents(folder) == before


def test_a_report_names_its_study_and_the_day(folder):
    run("report", "study.toml", "-o", "page.html")
    page = (folder / "page.html").read_text()
    day = datetime.now(UTC).date()
    assert any(f"study study.toml · {on.isoformat()} ·" in page for on in (day, day - timedelta(days=1)))
    assert "vardi fit study.toml -o weights.parquet --report report.html" in page
    assert hashlib.sha256((folder / "study.toml").read_bytes()).hexdigest() in page


def test_report_alone(folder):
    result = run("report", "study.toml", "-o", "page.html")
    assert result.exit_code == 0, result.stderr
    assert "<html" in (folder / "page.html").read_text()


def test_nothing_is_overwritten_without_force(folder):
    (folder / "weights.csv").write_text("mine")
    result = run("fit", "study.toml", "-o", "weights.csv")
    assert result.exit_code == 3
    assert "weights.csv already exists, and is not overwritten. Give --force" in result.stderr
    assert (folder / "weights.csv").read_text() == "mine"
    assert run("fit", "study.toml", "-o", "weights.csv", "--force").exit_code == 0
    assert (folder / "weights.csv").read_text().startswith("source,row,weight\n")


def test_a_link_that_leads_nowhere_is_not_replaced_without_force(folder):
    (folder / "weights.csv").symlink_to("other.csv")
    result = run("fit", "study.toml", "-o", "weights.csv")
    assert result.exit_code == 3
    assert result.stderr == (
        "error: weights.csv already exists, and is not overwritten. Give --force to overwrite it.\n"
    )
    assert not (folder / "other.csv").exists()
    assert run("fit", "study.toml", "-o", "weights.csv", "--force").exit_code == 0
    assert (folder / "weights.csv").is_symlink()
    assert pl.read_csv("other.csv").height == 300


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_device_is_no_file(folder, force):
    result = run("fit", "study.toml", "-o", "/dev/null", *force)
    assert result.exit_code == 3
    assert result.stderr == "error: /dev/null is a device or a pipe, not a file. Give the name of a file.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "agency.csv", "--force"], "agency.csv is read by the study, so it is not overwritten."),
        (["-o", "a.csv", "--report", "a.csv"], "a.csv is named for two outputs."),
        (["-o", "weights.xlsx"], "has no suffix that names a kind of file. End its name in .parquet, .csv or .jsonl."),
        (["-o", "nowhere/weights.csv"], "there is no folder nowhere."),
        (["-o", "."], "is a folder."),
    ],
)
def test_outputs_are_looked_at_before_any_work(folder, arguments, message):
    before = contents(folder)
    result = run("fit", "study.toml", *arguments)
    assert result.exit_code == 3
    assert message in result.stderr
    assert contents(folder) == before


def test_warnings_are_lines(small):
    (small / "study.toml").write_text(LOW + HIGH.replace('"1"', '"x ** 9"'))
    result = run("fit", "study.toml", "--json")
    found = json.loads(result.stdout)
    said = [*(one["message"] for one in found["warnings"]), *found["doubts"]]
    assert said
    assert all(line.startswith("warning: ") for line in result.stderr.splitlines())


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_lazy_engines_print_the_same_summary(folder, engine):
    expected = run("fit", "study.toml", "-o", "memory.csv")
    (folder / "study.toml").write_text(f'engine = "{engine}"\n{STUDY}')
    result = run("fit", "study.toml", "-o", "lazy.csv")
    assert result.exit_code == 0, result.stderr
    tables = [re.sub(r"(?s)^.*?\n\n|\nweights .*", "", one.stdout) for one in (expected, result)]
    assert tables[0] == tables[1]
    memory, lazy = pl.read_csv("memory.csv"), pl.read_csv("lazy.csv")
    np.testing.assert_allclose(lazy["weight"], memory["weight"], rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "engine", "file"), [("bayesian", "duckdb", "lazy.csv"), ("jackknife", "polars", "lazy.parquet")]
)
def test_replicate_weights_are_columns_beside_the_weights(folder, kind, engine, file):
    options = ["--replicates", "8", "--kind", kind, "--seed", "4", "--with-data"]
    assert run("fit", "study.toml", "-o", "memory.csv", *options).exit_code == 0
    memory = pl.read_csv("memory.csv")
    names = [f"replicate_{r + 1}" for r in range(8)]
    assert memory.columns[: 3 + 8] == ["source", "row", "weight", *names]
    fit = vardi.study.read("study.toml").fit()
    np.testing.assert_allclose(memory.select(names), fit.replicate_weights(8, 4, kind=kind), rtol=1e-12)
    (folder / "study.toml").write_text(f'engine = "{engine}"\n{STUDY}')
    result = run("fit", "study.toml", "-o", file, *options, "--force")
    assert result.exit_code == 0, result.stderr
    lazy = pl.read_parquet(file) if file.endswith("parquet") else pl.read_csv(file)
    assert lazy.columns == memory.columns
    np.testing.assert_allclose(lazy.select(names), memory.select(names), rtol=1e-8)


def test_replicates_need_a_file_and_names_of_their_own(folder):
    result = run("fit", "study.toml", "--replicates", "30")
    assert result.exit_code == 2
    assert "--replicates are written beside the weights. Name their file" in result.stderr
    (folder / "agency.csv").write_text((folder / "agency.csv").read_text().replace("CRIM", "replicate_7", 1))
    before = contents(folder)
    result = run("fit", "study.toml", "-o", "weights.csv", "--with-data", "--replicates", "30")
    assert result.exit_code == 1
    assert "The data have a column 'replicate_7', and so has a weights file" in result.stderr
    assert contents(folder) == before


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_rows_without_count_are_among_the_weights(small, engine):
    (small / "low.csv").write_text("x,times\n1,1\n2,2\n4,0\n")
    (small / "study.toml").write_text(f'engine = "{engine}"\n{LOW}counts = "times"\n{HIGH}')
    assert run("fit", "study.toml", "-o", "weights.csv").exit_code == 0
    written = pl.read_csv("weights.csv")
    assert written["row"].to_list() == [0, 1, 2, 0, 1, 2]
    assert (written["weight"] == 0).to_list() == [False, False, True, False, False, False]


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_counts_are_said_to_stand_beside_the_weights(small, engine):
    (small / "low.csv").write_text("x,times\n1,1\n2,2\n4,3\n")
    (small / "study.toml").write_text(f'engine = "{engine}"\n{LOW}counts = "times"\n{HIGH}')
    line = "Weights are per unit. Rows stand for several units, so multiply each weight by the column count."
    assert line in run("fit", "study.toml", "-o", "weights.csv").stdout.splitlines()
    assert pl.read_csv("weights.csv")["count"].to_list() == [1, 2, 3, 1, 1, 1]
    assert line not in run("fit", "study.toml").stdout


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_an_engine_without_variables_says_why_there_are_no_means(small, engine):
    line = "No variables are named, so no means are computed in the engine."
    assert line not in run("fit", "study.toml").stdout
    (small / "study.toml").write_text(f'engine = "{engine}"\n{LOW}{HIGH}')
    assert line in run("fit", "study.toml").stdout
    (small / "study.toml").write_text(f'engine = "{engine}"\nvariables = ["x"]\n{LOW}{HIGH}')
    assert line not in run("fit", "study.toml").stdout


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_the_report_of_a_lazy_study_knows_nothing_of_the_columns_that_studies_add(small, engine):
    (small / "low.csv").write_text("x,times\n1,1\n2,2\n4,3\n")
    (small / "study.toml").write_text(f'engine = "{engine}"\n{LOW}counts = "times"\n{HIGH}')
    assert run("report", "study.toml").exit_code == 0
    page = (small / "report.html").read_text()
    assert "__row__" not in page
    assert "__counts__" not in page
    assert '<th scope="row" role="rowheader">x</th>' in page
    fit = vardi.study.read(small / "study.toml").fit()
    assert "__row__" not in fit.summary()
    assert "__row__" not in fit.numeric_columns


def test_one_sample_alone_is_no_green_light(small):
    (small / "high.csv").write_text("\n".join(["x", *map(str, range(40))]))
    (small / "study.toml").write_text(HIGH)
    said = run("check", "study.toml").stdout.splitlines()
    assert said[1] == "– One sample, weighted by the inverse of its bias, represents the population."


# --- sample, check, report


def test_one_row_is_one_row(folder):
    assert run("sample", "study.toml", "-n", 1, "-o", "a.csv").stdout.startswith(
        "House prices: 1 row drawn by weight.\n"
    )


@pytest.mark.parametrize("n", [99_999_999_999, 99_999_999_999_999_999_999])
def test_a_draw_larger_than_the_memory_is_refused(small, n):
    result = run("sample", "study.toml", "-n", n, "-o", "drawn.csv", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["error"], found["bytes"]) == ("TooLargeError", 16 * n)
    assert result.stderr == f"error: {found['message']}\n"
    assert re.fullmatch(
        rf"A draw of {n:,} rows need [0-9.,]+ GB of memory, but [0-9.,]+ GB is available. Draw fewer at a time.",
        found["message"],
    )
    assert not (small / "drawn.csv").exists()


def test_sample_draws_the_same_again(folder):
    for name in ("a.csv", "b.csv"):
        result = run("sample", "study.toml", "-n", 50, "--seed", 1, "-o", name)
        assert result.exit_code == 0, result.stderr
    assert re.match(r"House prices: 50 rows drawn by weight, \d+ of them different.", result.stdout)
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    drawn = pl.read_csv("a.csv")
    assert drawn.columns[:2] == ["source", "row"]
    assert len(drawn) == 50
    found = json.loads(run("sample", "study.toml", "-n", 50, "--seed", 1, "-o", "c.parquet", "--json").stdout)
    assert found["by_source"] == dict(drawn["source"].value_counts().iter_rows())


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_rows_are_drawn_where_they_are(folder, engine):
    (folder / "study.toml").write_text(f'engine = "{engine}"\n{STUDY}')
    result = run("sample", "study.toml", "-n", 5, "-o", "a.csv", "--seed", 1)
    assert "5 rows drawn by weight, 5 of them different." in result.stdout
    drawn = pl.read_csv(folder / "a.csv")
    pool = {name: pl.read_csv(folder / f"{name}.csv") for name in ("agency", "national")}
    for row in drawn.iter_rows(named=True):
        assert pool[row["source"]]["MEDV"][row["row"]] == row["MEDV"]
    run("sample", "study.toml", "-n", 5, "-o", "b.csv", "--seed", 1)
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()


def test_check_says_yes(folder):
    result = run("check", "study.toml")
    assert result.exit_code == 0
    assert "✓ 'agency' and 'national' can be compared" in result.stdout
    assert "agency    national             200              59" in result.stdout
    assert "the declared biases are not contradicted" in result.stdout
    found = json.loads(run("check", "study.toml", "--json").stdout)
    assert found["passed"] is found["identified"] is True
    assert found["weakest_rows"] == 59
    assert found["bias_check"]["pvalue"] > 0.05


def test_check_of_many_samples_lists_the_weakest_links(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, text = np.random.default_rng(0), 'title = "Windows"\n'
    for k in range(12):
        rows = 60 if k == 11 else 300
        pl.DataFrame({"x": k / 6 + rng.uniform(0.0, 1.0, rows)}).write_csv(f"s{k}.csv")
        text += f'[sources.s{k}]\ndata = "s{k}.csv"\nbias = "x >= {k / 6!r} and x <= {k / 6 + 1.0!r}"\n'
    (tmp_path / "study.toml").write_text(text)
    shown = run("check", "study.toml").stdout
    found = json.loads(run("check", "study.toml", "--json").stdout)
    lines = re.findall(r"^(s\d+) +(s\d+) +([\d,]+) +([\d,]+)", shown, re.MULTILINE)
    assert set(lines[0][:2]) == {found["weakest"]["first"], found["weakest"]["second"]}
    assert f"The weakest 20 of {len(found['links'])} links; --json lists all" in shown
    assert len(lines) == 20
    left_out = {(one["first"], one["second"]) for one in found["links"]} - {line[:2] for line in lines}
    neighbours = {(f"s{k}", f"s{k + 1}") for k in range(9)}
    assert neighbours <= left_out  # which share most rows


def test_check_says_no_where_samples_contradict_their_biases(folder):
    (folder / "study.toml").write_text(STUDY.replace('"MEDV <= 22"', '"(MEDV <= 22) * MEDV ** 6"'))
    result = run("check", "study.toml")
    assert result.exit_code == 1
    assert "the declared biases are contradicted" in result.stdout


@pytest.mark.parametrize("engine", ["memory", "polars"])
def test_check_says_no_where_samples_contradict_known_shares(folder, engine):
    (folder / "study.toml").write_text(f'engine = "{engine}"\n{STUDY}[known]\nagency = 0.9\n')
    result = run("check", "study.toml")
    assert result.exit_code == 1
    assert "✗ The samples contradict what is known (T2 = " in result.stdout
    assert "A bias or a known value is wrong, or they describe different populations." in result.stdout
    assert re.search(
        r"^mean of  known  by the samples +z\nagency     0\.9   0\.590 ± 0\.049  -6\.\d$", result.stdout, re.MULTILINE
    )
    assert result.stderr == ""
    found = json.loads(run("check", "study.toml", "--json").stdout)
    assert (found["passed"], found["known_check"]["contradicted"]) == (False, True)
    (folder / "study.toml").write_text(STUDY)
    seen = vardi.study.read("study.toml").fit().expectation("MEDV <= 22")
    (line,) = found["known_check"]["lines"]
    assert (line["label"], line["known"]) == ("agency", 0.9)
    assert (line["estimated"], line["stderr"]) == pytest.approx((seen.value, seen.stderr), rel=1e-9)
    assert "vardi check lists the known values." in found["warnings"][0]["message"]
    assert found["warnings"][0]["code"] == "contradicted-known"


def test_check_says_yes_to_known_shares_or_that_they_cannot_be_tested(folder):
    assert json.loads(run("check", "study.toml", "--json").stdout)["known_check"] is None
    (folder / "study.toml").write_text(f"{STUDY}[known]\nagency = 0.56\n")
    result = run("check", "study.toml")
    assert result.exit_code == 0
    assert "✓ The samples do not contradict what is known" in result.stdout
    (folder / "national.csv").write_text("MEDV,RM,LSTAT\n30,6,4\n40,7,5\n")
    apart = STUDY.replace('"1"', '"MEDV > 22"')
    (folder / "study.toml").write_text(f"{apart}[known]\nagency = 0.56\nnational = 0.44\n")
    result = run("check", "study.toml")
    assert "– The samples on their own say nothing about what is known, so it cannot be tested." in result.stdout
    assert re.search(r"^agency +0\.56 +not identified$", result.stdout, re.MULTILINE)


def test_fit_says_once_that_shares_are_contradicted(folder):
    (folder / "study.toml").write_text(f"{STUDY}[known]\nagency = 0.9\n")
    result = run("fit", "study.toml")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("The samples contradict what is known (T2") == 1
    assert (
        "The weights meet known values that the samples contradict. vardi check lists the known values."
        in result.stdout
    )
    quiet = run("fit", "study.toml", "--quiet")
    assert quiet.stdout == ""
    assert quiet.stderr.startswith("warning: The samples contradict what is known")
    assert "fit.known" not in quiet.stderr


def test_check_of_a_lazy_study_says_what_it_left_out(folder):
    (folder / "study.toml").write_text(f'engine = "duckdb"\n{STUDY}')
    result = run("check", "study.toml")
    assert result.exit_code == 0
    assert "The biases were not tested: that needs rows in memory" in result.stdout


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_check_notes_what_is_odd_about_biases_in_every_engine(folder, engine):
    """Also where nothing is solved: in a study whose rows stay in their engine."""
    pl.DataFrame({"x": np.linspace(0.0, 9.0, 80)}).write_csv("all.csv")
    pl.DataFrame({"x": [*np.linspace(0.1, 4.9, 30), *[5.0] * 20]}).write_csv("cut.csv")
    sources = '[sources.cut]\ndata = "cut.csv"\nbias = "x <= 5"\n[sources.all]\ndata = "all.csv"\nbias = "x < 50"\n'
    (folder / "study.toml").write_text(f'engine = "{engine}"\n{sources}')
    notes = json.loads(run("check", "study.toml", "--json").stdout)["notes"]
    assert [note.split(",")[0] for note in notes] == [
        "All rows of the other samples meet x < 50",
        "20 of the 50 rows of 'cut' have exactly x = 5",
    ]
    shown = " ".join(run("check", "study.toml").stdout.split())
    assert all(note in shown for note in notes)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_check_notes_a_bias_that_does_nothing(folder, engine):
    pl.DataFrame({"x": np.linspace(0.0, 9.0, 80)}).write_csv("all.csv")
    for bias, count in (("x < 50", 1), ("x + 1", 0)):
        (folder / "study.toml").write_text(f'engine = "{engine}"\n[sources.all]\ndata = "all.csv"\nbias = "{bias}"\n')
        notes = json.loads(run("check", "study.toml", "--json").stdout)["notes"]
        assert len(notes) == count
        assert all("is the same on all rows" in note for note in notes)


# --- studies that are wrong

WRONG = {
    "missing file": (LOW.replace("low.csv", "lwo.csv") + HIGH, 2, "There is no file lwo.csv. Did you mean 'low.csv'?"),
    "typo in a column": (LOW.replace("x <= 5", "xx <= 5") + HIGH, 2, "reads column 'xx', which no file has."),
    "no overlap": (
        LOW.replace("x <= 5", "region == 'N'").replace("low.csv", "north.csv")
        + HIGH.replace('"1"', "\"region == 'W'\"").replace("high.csv", "west.csv"),
        1,
        "they share no rows that both could have drawn",
    ),
    "one-way overlap": (LOW + HIGH.replace("high.csv", "far.csv"), 1, "they overlap in one direction only"),
    "impossible row": (LOW.replace("x <= 5", "x <= 2") + HIGH, 1, "'low' holds 1 row that its own bias forbids"),
    "NaN": (
        LOW.replace("low.csv", "holes.csv") + HIGH,
        1,
        "is unknown on 1 row, since there are missing values in 'x'",
    ),
    "duplicate source": (LOW + LOW + HIGH, 2, "line 4: [sources.low] is declared twice."),
    "bad expression": (LOW.replace("x <= 5", "x <= 5 &") + HIGH, 2, "To join conditions, use and / or."),
    "code in an expression": (
        LOW.replace('"x <= 5"', "'''open(\"owned\", \"w\") or x'''") + HIGH,
        2,
        "There is no function open. The functions",
    ),
    "unwritable output": (LOW + HIGH, 3, "cannot be written: "),
}


@pytest.mark.parametrize("command", ["fit", "sample", "report"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_study_gives_one_message_a_code_and_no_files(small, wrong, command):
    text, code, message = WRONG[wrong]
    (small / "study.toml").write_text(text)
    (small / "far.csv").write_text("x\n7\n8\n")
    (small / "north.csv").write_text("x,region\n1,N\n")
    (small / "west.csv").write_text("x,region\n2,W\n")
    (small / "holes.csv").write_text("x\n1\nNaN\n2.5\n")
    name = "nowhere/out" if wrong == "unwritable output" else "out"
    name += ".html" if command == "report" else ".csv"
    options = {"fit": [], "report": [], "sample": ["-n", 3]}[command]
    before = contents(small)
    result = run(command, "study.toml", "-o", name, *options)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert result.stderr.count("error: ") == 1
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert contents(small) == before
    again = json.loads(run(command, "study.toml", "-o", name, *options, "--json").stdout)
    assert message in again["message"]
    assert again["error"].endswith("Error")


@pytest.mark.parametrize("wrong", [wrong for wrong in WRONG if wrong != "unwritable output"])
def test_check_finds_a_wrong_study(small, wrong):
    text, code, message = WRONG[wrong]
    (small / "study.toml").write_text(text)
    (small / "far.csv").write_text("x\n7\n8\n")
    (small / "north.csv").write_text("x,region\n1,N\n")
    (small / "west.csv").write_text("x,region\n2,W\n")
    (small / "holes.csv").write_text("x\n1\nNaN\n2.5\n")
    result = run("check", "study.toml")
    assert result.exit_code == code
    assert message in result.output


def test_a_read_only_folder_is_no_place_for_outputs(small):
    (small / "shut").mkdir(mode=0o555)
    shut = "/proc" if os.geteuid() == 0 else "shut"  # root may write into any folder of a disk
    result = run("fit", "study.toml", "-o", f"{shut}/weights.csv")
    assert result.exit_code == 3
    assert f"{shut}/weights.csv cannot be written: " in result.stderr


def test_broken_data_found_while_computing_are_no_traceback(small):
    rows = "".join(f"{k % 5}\n" for k in range(150_000))
    (small / "high.csv").write_text(f"x\n{rows}oops\n")  # beyond the rows from which types are taken
    (small / "study.toml").write_text(f'engine = "polars"\n{LOW}{HIGH}')
    result = run("fit", "study.toml", "-o", "weights.csv")
    said = {
        1: "error: The engine could not compute on the rows of sample 'high' (polars ComputeError: ",
        2: "high.csv cannot be read as csv: ",  # an older Polars sees it when the study is opened
    }
    assert said[result.exit_code] in result.stderr
    assert "could not parse `oops`" in result.stderr
    assert not (small / "weights.csv").exists()


# --- demo and init


def test_demo_needs_nothing_and_repeats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = run("demo")
    assert first.exit_code == 0, first.stderr
    assert "House prices: 300 rows of 2 samples represent the population" in first.stdout
    assert "report   vardi-demo/report.html" in first.stdout
    assert sorted(os.listdir("vardi-demo")) == sorted(FILES)
    assert os.listdir() == ["vardi-demo"]
    (tmp_path / "vardi-demo" / "notes.txt").write_text("mine")
    second = run("demo")
    assert second.exit_code == 0
    assert second.stdout == first.stdout
    assert (tmp_path / "vardi-demo" / "notes.txt").read_text() == "mine"
    for command in re.findall(r"^  (vardi (?:check|sample) .*)$", first.stdout, re.MULTILINE):
        assert run(*shlex.split(command)[1:]).exit_code == 0
    assert json.loads(run("demo", "--json").stdout)["study"] == "vardi-demo/study.toml"


def test_demo_overwrites_only_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text("mine")
    result = run("demo", "--output", ".")
    assert result.exit_code == 3
    assert "study.toml exists, and the demo did not write it." in result.stderr
    assert contents(tmp_path) == {"study.toml": b"mine"}
    result = run("demo", "--output", "study.toml")
    assert result.exit_code == 3
    assert "study.toml is a file. Name a folder with --output." in result.stderr


def test_init_asks_until_the_answers_are_right(folder):
    answers = ["Homes", "agency.cvs", "agency.csv", "", "MEDV <= ", "MEDW < 3", "MEDV <= 22"]
    answers[-1:] = ["0", "MEDV <= 22", "agency.csv", "./agency.csv"]
    answers += ["national.csv", "agency", "  ", "national", "", "", "MEDV, rooms", "RM >", "MEDV, RM > 6"]
    result = run("init", "new.toml", input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    assert "The bias of 'agency' is 0 everywhere." in result.stdout
    assert result.stdout.count("both read agency.csv, so its rows would count twice.") == 2
    assert "A name in [sources] is empty or cannot be printed. Give it another name." in result.stdout
    assert "There is no file agency.cvs. Did you mean 'agency.csv'?" in result.stdout
    assert "Did you mean 'MEDV'?" in result.stdout
    assert "There is already a sample 'agency'." in result.stdout
    assert "The variable 'rooms' reads column 'rooms', which no file has." in result.stdout
    study = vardi.study.read("new.toml")
    assert (study.title, study.variables) == ("Homes", ("MEDV", "RM > 6"))
    assert study.biases == {"agency": "MEDV <= 22", "national": "1"}
    assert run("fit", "new.toml").exit_code == 0


def test_init_tries_a_bias_on_the_rows(folder):
    """Rows that a bias forbids, values that it lacks, and numbers and texts as people write them."""
    rows = pl.read_csv("national.csv")
    rows.with_columns(RM=pl.when(pl.col("MEDV") < 15).then(None).otherwise("RM")).write_csv("gaps.csv")
    answers = ["Homes", "'agency.csv'", "", "MEDV < 22", "MEDV <= 22,000", "CHAS == yes", "RM > 0 and MEDV <= 22"]
    answers += ["gaps.csv", "national.csv", "", "MEDV <= 22", "", "", ""]
    result = run("init", "new.toml", input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "In this folder: agency.csv, gaps.csv, national.csv" in said
    assert re.search(r"Sample 'agency' holds \d+ rows that its own bias forbids \(the first is row \d+", said)
    assert "A number has no commas: write 22000." in said
    assert "reads column 'yes', which no file has. Put a text to compare with in quotes: 'yes'." in said
    assert "there are missing values in 'RM'" in said
    assert "Sample 'national' holds 41 rows that its own bias forbids" in said
    assert "CRIM <= 100 only units for which this is true could be in it" in said
    assert vardi.study.read("new.toml").biases == {"agency": "RM > 0 and MEDV <= 22", "national": "1"}
    result = run("init", "other.toml", "--source", "a=agency.csv", "--bias", "a=MEDV < 22")
    assert result.exit_code == 1
    assert "that its own bias forbids" in result.stderr
    assert not Path("other.toml").exists()


def test_init_names_a_study_that_is_free(folder):
    result = run("init")
    assert result.exit_code == 3
    assert result.stderr.endswith("Name another: vardi init study_2.toml\n")


def test_init_asks_for_variables_where_those_given_cannot_be(folder):
    answers = ["Homes", "agency.csv", "", "", ""]
    result = run("init", "new.toml", "--variable", "RM", input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    assert vardi.study.read("new.toml").variables == ("RM",)
    result = run("init", "newer.toml", "--variable", "rooms", input="\n".join([*answers, "LSTAT"]) + "\n")
    assert result.exit_code == 0, result.output
    assert "The variable 'rooms' reads column 'rooms', which no file has." in result.stdout
    assert vardi.study.read("newer.toml").variables == ("LSTAT",)


def test_init_without_questions_and_never_over_a_study(folder):
    arguments = [
        "init",
        "new.toml",
        "--source",
        "a=agency.csv",
        "--bias",
        "a=MEDV <= 22",
        "--source",
        "b c=national.csv",
    ]
    assert run(*arguments, "--variable", "MEDV", "--title", 'The "homes"').exit_code == 0
    study = vardi.study.read("new.toml")
    assert study.biases == {"a": "MEDV <= 22", "b c": "1"}
    assert study.title == 'The "homes"'
    before = contents(folder)
    result = run(*arguments)
    assert result.exit_code == 3
    assert "new.toml already exists, and is not overwritten. Name another" in result.stderr
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "agency.csv"], "not of the form NAME=VALUE. Give it as in: --source agency=agency.csv"),
        (["--source", "a=agency.csv", "--source", "a=national.csv"], "--source names 'a' twice."),
        (["--source", "a=agency.csv", "--bias", "b=1"], "--bias b=... names no source. The sources are a."),
        (["--source", "a=agency.csv", "--bias", "a=MEDW"], "Did you mean 'MEDV'?"),
        (["--source", "a=nothing.csv"], "There is no file nothing.csv."),
        (
            ["--bias", "a=1"],
            "--bias describes the sample of a --source, and no --source is given. Add one.",
        ),
    ],
)
def test_init_refuses_what_would_not_run(folder, arguments, message):
    result = run("init", "new.toml", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (folder / "new.toml").exists()


def test_commands_to_go_on_with_can_be_pasted(folder):
    result = run("init", "my homes.toml", "--source", "a=agency.csv")
    assert result.stdout.endswith("  vardi check 'my homes.toml'\n")
    assert "vardi check 'my demo/study.toml'\n" in run("demo", "--output", "my demo").stdout


def test_only_near_names_are_suggested(folder):
    result = run("init", "new.toml", "--source", "a=homes.csv")
    assert "There is no file homes.csv. Its folder has: agency.csv, national.csv.\n" in result.stderr
    result = run("check", "abcde.toml")
    assert result.stderr == "error: There is no study abcde.toml. Write one with: vardi init\n"
    assert run("check", ".").stderr == "error: . is a folder. Name the study file in it.\n"
    result = run("check", "agency.csv")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert said.startswith("error: agency.csv holds data. A study is a TOML file")
    assert said.endswith("Write one with: vardi init --source agency=agency.csv")


def test_data_are_written_beside_weights_only(folder):
    result = run("fit", "study.toml", "--with-data")
    assert result.exit_code == 2
    assert "--with-data is written beside the weights." in result.stderr


def test_init_that_is_left_writes_nothing(folder):
    result = run("init", "new.toml", input="Homes\n")
    assert result.exit_code == 130
    assert not (folder / "new.toml").exists()


# --- the program


def test_help_has_examples_and_every_command():
    page = run("--help").stdout
    for command in ("demo", "init", "check", "fit", "sample", "report"):
        assert re.search(rf"^  {command} ", page, re.MULTILINE)
        own = run(command, "--help").stdout
        assert f"vardi {command}" in own.split("Examples:")[1]
        assert all(len(line) <= 80 for line in own.splitlines())
    assert all(len(line) <= 80 for line in page.splitlines())


@pytest.mark.parametrize(("command", "study"), [("fit", True), ("init", False)])
def test_usage_says_what_may_be_left_out(command, study):
    first = run(command, "--help").stdout.splitlines()[0]
    assert "STUDY" in first
    assert ("[STUDY]" not in first) == study


def test_help_tells_defaults_and_what_is_required():
    page = " ".join(run("sample", "--help").stdout.split())
    assert re.search(r"-n N How many rows to draw\. \[.*required", page)
    assert re.search(r"STUDY .*The study file \(TOML\)\.", page)
    assert "-o, --output FILE" in page
    assert "Where the files of the demo go. [default: vardi-demo]" in " ".join(run("demo", "--help").stdout.split())


def test_usage_errors_have_code_2(folder):
    for arguments in (["fit"], ["fti"], ["fit", "study.toml", "--nonsense"], ["sample", "study.toml", "-o", "a.csv"]):
        assert run(*arguments).exit_code == 2
    assert "Did you mean 'fit'?" in run("fti").stderr


def test_names_of_sources_complete(folder):
    assert completed("vardi init --source low=low.csv --source high=high.csv --bias h") == ["high="]


def test_version(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["vardi", "--version"])
    assert main() == 0
    assert capsys.readouterr().out == f"vardi {vardi.__version__}\n"


def test_without_the_extra_one_line_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("vardi.cli.find_spec", lambda name: None if name == "typer" else name)
    assert main() == 2
    assert capsys.readouterr().err == "vardi: the command line needs typer. Install with: pip install 'vardi[cli]'\n"


def test_a_missing_engine_is_named_with_its_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    (folder / "study.toml").write_text(f'engine = "duckdb"\n{STUDY}')
    result = run("fit", "study.toml")
    assert result.exit_code == 2
    assert "pip install 'vardi[duckdb]'" in result.stderr


def test_exit_codes_of_the_program(folder):
    assert program("check", "study.toml", "--quiet") == (0, "")
    assert program("check", "nothing.toml")[0] == 2
    assert program("fit", "study.toml", "-o", "nowhere/a.csv")[0] == 3
    (folder / "study.toml").write_text(STUDY.replace("MEDV <= 22", "MEDV <= 20"))
    assert program("fit", "study.toml")[0] == 1
    assert subprocess.run([*VARDI, "fit", "study.toml"], capture_output=True, check=False).returncode == 1


def test_piped_output_has_no_colour_and_cuts_nothing(folder):
    bias = " or ".join(f"MEDV <= {22 - k / 1000}" for k in range(30))
    (folder / "study.toml").write_text(STUDY.replace("MEDV <= 22", f"MEDV <= 22 or {bias}"))
    # given, since readline may have exported a COLUMNS that os.environ does not know of
    environment = dict(os.environ)
    done = subprocess.run([*VARDI, "fit", "study.toml"], capture_output=True, text=True, check=True, env=environment)
    assert "\x1b" not in done.stdout + done.stderr
    assert bias in done.stdout
    assert "…" not in done.stdout


ENCODINGS = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


SEVERAL = """
import json, sys
from vardi.cli import main

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["vardi", *arguments]
    assert main() == 0
    print(end="\\0", flush=True)
"""


def outputs(*commands, environment):
    """Run commands one after the other in a process of their own, and return the bytes that each prints."""
    several = [sys.executable, "-c", SEVERAL, json.dumps(commands)]
    return subprocess.run(several, capture_output=True, env=environment, check=True).stdout.split(b"\0")[:-1]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=["ascii", "latin-1", "C"])
def test_letters_that_cannot_be_printed_are_no_error(folder, encoding):
    (folder / "study.toml").write_text(STUDY.replace("House prices", "Häuser Ω"), encoding="utf-8")
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONIOENCODING", "PYTHONUTF8")}
    commands = (["fit", "study.toml", "-o", "a.csv"], ["check", "study.toml"], ["fit", "study.toml", "--json"])
    fitted, checked, found = (
        printed.decode("latin-1") for printed in outputs(*commands, environment={**clean, **encoding})
    )
    plus_minus = "±" if "latin-1" in encoding.values() else "?"
    assert f"MEDV          19.063       23.22 {plus_minus} 0.97\n" in fitted
    assert checked.splitlines()[1].startswith("? The 2 samples can be compared")
    assert checked.splitlines()[3].startswith("? 'agency' and 'national' can be compared")
    assert found.isascii()
    assert json.loads(found)["title"] == "Häuser Ω"


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8 always")
def test_a_study_whose_name_is_no_utf8(small):
    study = os.fsdecode(b"caf\xe9.toml")
    (small / "study.toml").rename(small / study)
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    fitted, found = outputs(["fit", study], ["fit", study, "--json"], environment=environment)
    assert fitted.startswith(b"caf\\udce9: 6 rows")
    assert json.loads(found.decode("ascii"))["study"] == study
    for arguments in (["fit", study, "-o"], ["init"]):
        result = run(*arguments, os.fsdecode(b"w\xe9.csv"))
        assert (result.exit_code, result.stderr) == (
            3,
            "error: w\ufffd.csv is not a name in UTF-8. Name another file.\n",
        )


WITHOUT_PROGRESS = """
import sys
from vardi.cli import _console, main

_console.DELAY = 1e6  # or a busy machine would show how far the work is
sys.exit(main())
"""


def on_terminal(*arguments, **environment):
    """Run a command with a terminal of 80 columns, and return what appears on it."""
    ours, theirs = pty.openpty()
    clean = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    environment = {**clean, "COLUMNS": "80", "TERM": "xterm", **environment}
    command = [sys.executable, "-c", WITHOUT_PROGRESS, *arguments]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    printed = b""
    try:
        while block := os.read(ours, 65536):
            printed += block
    except OSError:
        pass  # the terminal is closed when the program ends
    process.wait()
    os.close(ours)
    return printed.decode()


def test_colours_on_a_terminal_unless_no_color(folder):
    (folder / "study.toml").write_text(STUDY.replace("MEDV <= 22", "MEDV <= 20"))
    colour = re.compile("\x1b\\[[0-9;]*3[0-9]")
    assert colour.search(on_terminal("check", "study.toml"))
    assert not colour.search(on_terminal("check", "study.toml", NO_COLOR="1"))


def test_tables_fit_a_terminal_of_80_columns(folder):
    _, printed = program("fit", "study.toml", stream=Terminal, COLUMNS="80", TERM="xterm")
    assert "\x1b" in printed  # it is taken for a terminal
    printed = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", printed)
    lines = printed.replace("\r", "").splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split() == ["agency", "200", "MEDV", "<=", "22", "0.590", "±", "0.049", "45.6%"] for line in lines)


@pytest.mark.parametrize("width", [40, 20, 5])
def test_a_pipe_cuts_nothing_where_a_width_is_set(folder, width):
    for command, line in (
        ("fit", "agency     200  MEDV <= 22  0.590 ± 0.049      45.6%"),
        ("check", "agency          1  "),
    ):
        code, printed = program(command, "study.toml", COLUMNS=str(width))
        assert code == 0
        assert "…" not in printed
        assert line in printed


@pytest.mark.parametrize("width", [40, 20])
def test_a_narrow_terminal_folds_names_and_cuts_nothing(folder, width):
    (folder / "study.toml").write_text(STUDY.replace("sources.national", "sources.national_household_survey"))
    shown = {}
    for command in ("fit", "check"):
        terminal = {"stream": Terminal, "COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}
        _, printed = program(command, "study.toml", **terminal)
        shown[command] = [
            line.rstrip() for line in re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", printed).replace("\r", "").splitlines()
        ]
        assert "…" not in printed
    assert "agency     200  MEDV <=   0.590 ± 0.049   45.6%" in shown["fit"]
    assert "national   100  everywhe              1   54.4%" in shown["fit"]
    assert "_househo        re" in shown["fit"]
    assert [line for line in shown["check"] if line.startswith("agency ")] == [
        f"agency    {'national_household' if width == 40 else 'national'}   200    59",
        f"{'agency':<{19 if width == 40 else 8}}        1          0%",
    ]


@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        (["--help"], "1"),
        (["fit", "study.toml", "-o", "weights.csv"], ""),
        (["check", "study.toml", "--json"], ""),
        (["check", "study.toml", "--json"], "1"),
    ],
)
def test_a_reader_that_left_is_no_error(folder, arguments, unbuffered):
    ours, theirs = os.pipe()
    os.close(ours)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([*VARDI, *arguments], stdout=theirs, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, b"")
    assert (folder / "weights.csv").exists() == ("-o" in arguments)


def test_a_reader_of_errors_that_left_is_none_either(folder):
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([*VARDI, "check", "nothing.toml"], stdout=theirs, stderr=theirs, check=False)
    os.close(theirs)
    assert done.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_disk_under_standard_output_is_no_fault_of_the_data(folder, form):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*VARDI, "check", "study.toml", *form], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == "error: Standard output cannot be written: No space left on device."


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["--version"]])
def test_a_full_disk_under_a_help_text(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*VARDI, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "error: Standard output cannot be written: No space left on device.\n"


@pytest.mark.parametrize("arguments", ["--help", "check study.toml", "fit study.toml -o weights.csv"])
def test_a_standard_output_that_is_closed(folder, arguments):
    done = subprocess.run(
        f"{shlex.join(VARDI)} {arguments} >&-", shell=True, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "weights.csv").exists() == ("-o" in arguments)


STARTING = """
import builtins, os, signal, sys
from vardi.cli import main

load = builtins.__import__

def interrupted(name, *arguments, **options):
    if name == "vardi.cli._app":
        os.kill(os.getpid(), signal.SIGINT)
    return load(name, *arguments, **options)

builtins.__import__ = interrupted
sys.argv = ["vardi", "fit", "study.toml"]
sys.exit(main())
"""


def test_an_interruption_while_commands_are_loaded_is_one_word(folder):
    done = subprocess.run([sys.executable, "-c", STARTING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


LONG = """
import sys, time
import vardi.study._study as study
from vardi.cli import main

def long(*arguments, **options):
    print("solving", file=sys.stderr, flush=True)
    time.sleep(60)

study.debias = long
sys.argv = ["vardi", "fit", "study.toml", "-o", "weights.parquet"]
sys.exit(main())
"""


def test_an_interrupted_fit_leaves_a_clean_line_and_no_files(folder):
    before = contents(folder)
    process = subprocess.Popen([sys.executable, "-c", LONG], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "solving\n"
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate()
    assert process.returncode == 130
    assert said == "interrupted: no file was written.\n"
    assert printed == ""
    assert contents(folder) == before


# --- the pages


def sessions(page):
    """Return the shell sessions of a page: commands with what they print."""
    text = (ROOT / "docs" / page).read_text()
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed.strip("\n")))
    return found


@pytest.mark.parametrize("page", ["cli.md", "studies.md"])
def test_sessions_of_the_pages_print_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shim = tmp_path / "bin" / "vardi"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m vardi "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "80")
    found = sessions(page)
    assert len(found) >= 3
    for command, expected in found:
        name, *arguments = shlex.split(command)
        if name == "vardi" and not {">", "2>", "<", "|"} & {*arguments}:
            _, printed = program(*arguments)
        else:  # of the shell
            options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "check": False}
            printed = subprocess.run(command, shell=True, **options).stdout
        pattern = ".*".join(re.escape(part) for part in expected.split("..."))
        assert re.fullmatch(pattern, printed.strip("\n"), re.DOTALL), f"$ {command}\n{printed}"


BROWSER = """#!{python}
import sys
[page] = [word for word in sys.argv if word.startswith("file:")]
[path] = [word.partition("=")[2] for word in sys.argv if word.startswith("--print-to-pdf=")]
{does}
"""


@pytest.fixture
def browser(tmp_path_factory, monkeypatch):
    """Return what puts a browser of our own, which does as it is told, in the place of Chromium."""
    place = tmp_path_factory.mktemp("bin") / "chromium"

    def put(does):
        place.write_text(BROWSER.format(python=sys.executable, does=does))
        place.chmod(0o755)

    monkeypatch.setenv("PATH", str(place.parent))  # and no other is found
    return put


@pytest.mark.parametrize("command", [("report", "-o"), ("fit", "--report")])
def test_a_pdf_needs_a_browser(folder, command, browser):
    name, option = command
    before = contents(folder)
    result = run(name, "study.toml", option, "x.pdf")
    assert result.exit_code == 3
    said = " ".join(result.stderr.split())
    assert "a PDF is printed by Chromium, Chrome or Edge, and none of them was found. Write x.html instead" in said
    result = run(name, "study.toml", option, "x.txt")
    assert result.exit_code == 3
    assert "x.txt has another suffix" in result.stderr
    assert contents(folder) == before


def test_a_browser_prints_the_page_of_the_report(folder, browser):
    browser(
        "from urllib.request import urlopen\n"
        "html = urlopen(page).read()\n"
        "open(path, 'wb').write(b'%PDF ' + html[html.index(b'<h1'):])"
    )
    result = run("report", "study.toml", "-o", "x.pdf")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("report   x.pdf\n")
    assert Path("x.pdf").read_bytes().startswith(b"%PDF <h1>House prices</h1>")


@pytest.mark.parametrize("does", ["sys.exit('no display')", "open(path, 'w').write('broken')"])
def test_a_browser_that_prints_nothing_leaves_no_file(folder, browser, does):
    browser(does)
    before = contents(folder)
    result = run("report", "study.toml", "-o", "x.pdf")
    assert result.exit_code == 3
    reason = " (no display)" if "exit" in does else ""
    remedy = f"x.pdf was not printed{reason}. Write x.html instead, and print it from a browser."
    assert remedy in " ".join(result.stderr.split())
    assert contents(folder) == before


@pytest.mark.long
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on the path: apt install chromium")
def test_chromium_prints_a_report(folder):
    assert run("report", "study.toml", "-o", "x.pdf").exit_code == 0
    assert Path("x.pdf").read_bytes().startswith(b"%PDF-1.")


@pytest.mark.parametrize(
    ("name", "engine"), [("w.parquet", "memory"), ("w.csv", "polars"), ("w.jsonl", "duckdb"), ("r.html", "memory")]
)
def test_outputs_that_do_not_fit_on_a_disk_are_named_as_they_were_asked_for(folder, name, engine):
    """Files are limited to 4 kB, and what writes them has temporary names for them."""
    study = folder / "study.toml"
    study.write_text(study.read_text().replace("title", f'engine = "{engine}"\ntitle'))
    asked = ["--report", name, "-o", "small.csv"] if name == "r.html" else ["-o", name, "--with-data"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000 if name == "r.html" else 4096, limits[1]))
    try:
        result = run("fit", "study.toml", *asked)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.exit_code == 3, result.output
    assert re.fullmatch(rf"error: {name} was not written: .*File too large.*\n", result.stderr)
    assert set(contents(folder)) == {"agency.csv", "national.csv", "study.toml"}


def test_a_demo_that_does_not_fit_names_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for least in (1000, 20_000):  # the samples, the report
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, limits[1]))
        try:
            result = run("demo", "-o", "houses")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert result.exit_code == 3
        assert re.fullmatch(r"error: houses(/report.html)? was not written: .*File too large.*\n", result.stderr)
        assert os.listdir() == []


@pytest.mark.parametrize("engine", ["memory", "polars", "duckdb"])
def test_what_is_odd_about_columns_and_biases_is_noted(tmp_path, monkeypatch, engine):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, least in (("plain", 0), ("poor", 40)):
        cells = [f"{x:.3f},{'none' if i == 3 else i}" for i, x in enumerate(rng.uniform(least, 100, 200))]
        Path(f"{name}.csv").write_text("\n".join(["meals,pupils", *cells, ""]))
    biases = {"plain": "1", "poor": "meals >= 0.40"}
    sources = [f'[sources.{name}]\ndata = "{name}.csv"\nbias = "{bias}"\n' for name, bias in biases.items()]
    Path("study.toml").write_text(f'engine = "{engine}"\n' + "".join(sources))
    text = "The column 'pupils' of plain.csv is read as text, since it holds 'none', which is not a number."
    unit = "of the rows of the other samples meet meals >= 0.4, so the bias of 'poor' changes almost nothing."
    commands = ["fit", "check"]
    for command in commands:
        shown = " ".join(run(command, "study.toml").stdout.split())
        assert text in shown
        if command == "fit" or engine == "memory":  # rows of an engine are not fitted for a check
            assert unit in shown
    notes = json.loads(run("fit", "study.toml", "--json").stdout)["notes"]
    assert notes[0].startswith(text)
    assert unit in notes[-1]
