"""The benchmarks run and say what they found; how fast is not a matter for tests."""

from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import pytest
from typer.testing import CliRunner

import vardi
from benchmarks.command import app
from benchmarks.process import in_fresh_process
from benchmarks.records import Report
from benchmarks.run import BENCHMARKS

NAMES = [
    "dense-log",
    "dense-omega",
    "physics",
    "memory",
    "read",
    "indicator",
    "parquet",
    "lazy",
    "blocks",
    "many",
    "small",
    "growth",
]


@pytest.fixture
def without_peers(monkeypatch):
    from benchmarks import peers

    monkeypatch.setattr(peers, "installed", lambda module: False)


@pytest.fixture(autouse=True)
def no_collection(monkeypatch):
    """Before each timed call garbage is collected; here that of all the tests."""
    monkeypatch.setattr("benchmarks.timing.gc.collect", lambda: None)


@pytest.fixture
def one_process(monkeypatch):
    """Let the first measurement alone have a process of its own: to start one takes longer than to solve."""
    started = []

    def measured(module, *arguments):
        started.append(module)
        if len(started) == 1:
            return in_fresh_process(module, *arguments)
        return import_module(f"benchmarks.{module}").probe(*map(str, arguments))

    for module in ("blocks", "lazy", "many"):
        monkeypatch.setattr(f"benchmarks.{module}.in_fresh_process", measured)


@pytest.fixture
def tiny():
    from benchmarks.records import Settings

    return Settings(shrink=5000, repeats=1)


def tables(page):
    """Return the tables of a page: lists of rows, each a list of cells."""
    found, rows = [], []
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").replace("\\|", "/").split("|")])
        elif rows:
            found.append(rows)
            rows = []
    return found


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_command_writes_well_formed_tables(without_peers, tmp_path):
    output = tmp_path / "RESULTS.md"
    result = run("read", "small", "growth", "--shrink", 5000, "--repeats", 1, "--output", output)
    picture = output.with_suffix(".svg")
    assert (result.exit_code, result.stdout) == (0, f"results  {output}\npicture  {picture}\n")
    page = output.read_text()
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## read", "## small", "## growth"]
    assert "`python -m benchmarks read small growth --shrink 5000 --repeats 1`" in page
    assert str(tmp_path) not in page
    assert {path.name for path in tmp_path.iterdir()} == {"RESULTS.md", "RESULTS.svg"}  # no temporary file is left
    assert "](RESULTS.svg)" in page
    assert "n grows: slope" in picture.read_text()
    facts, *rest = tables(page)
    assert {"date", "processor", "memory", "versions"} <= {row[0] for row in facts}
    assert len(rest) == 6
    for table in rest:
        assert len({len(row) for row in table}) == 1
    records, targets = rest[0], rest[1]
    assert records[0] == ["work", "who", "time", "residual", "extra memory", "note"]
    assert targets[0] == ["target", "measured", "bar", "goal", "verdict", "note"]
    assert {row[4] for row in targets[2:]} == {"not judged"}  # bars are for the full sizes
    again = run("small", "--shrink", 5000, "--output", output)
    assert again.exit_code == 3
    assert output.read_text() == page


def test_part_of_the_benchmarks_is_printed_and_overwrites_nothing(without_peers, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "RESULTS.md").write_text("before")
    result = run("small", "--shrink", 1000)
    assert result.exit_code == 0
    assert "## small" in result.stdout
    assert (tmp_path / "benchmarks" / "RESULTS.md").read_text() == "before"


def test_a_complete_run_in_a_clone_replaces_its_results(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "RESULTS.md").write_text("before")
    monkeypatch.setattr("benchmarks.run.BENCHMARKS", dict.fromkeys(NAMES, lambda settings: Report("none", "Nothing.")))
    assert run().exit_code == 0
    assert "Nothing." in (tmp_path / "benchmarks" / "RESULTS.md").read_text()


def test_one_that_fails_costs_the_others_nothing(monkeypatch):
    def fail(settings):
        raise ZeroDivisionError("no rows")

    monkeypatch.setitem(BENCHMARKS, "read", fail)
    result = run("read", "small", "--shrink", 5000)
    assert result.exit_code == 1
    assert "FAILED: ZeroDivisionError: no rows" in result.stdout
    assert "## small" in result.stdout
    assert "The benchmark read failed" in result.stderr


def test_unknown_name_is_refused_with_the_names_there_are():
    assert list(BENCHMARKS) == NAMES
    result = run("dense")
    assert result.exit_code == 2
    assert "There is no benchmark 'dense'." in result.stderr
    assert "dense-log" in result.stderr


@pytest.mark.parametrize("name", ["dense-log", "indicator"])
def test_missing_peers_are_named_in_the_table(name, without_peers, tiny):

    from benchmarks.render import render

    report = BENCHMARKS[name](tiny)
    absent = [record for record in report.records if record.who != "vardi"]
    assert {record.who.split(",")[0] for record in absent} == {"pymbar", "FastMBAR"}
    assert all(record.seconds is None and record.note.startswith("not installed: ") for record in absent)
    assert all(target.measured is None and target.verdict == "not measured" for target in report.targets)
    assert "not installed: pymbar, jax" in render([report], tiny, "", None)
    mine = [record for record in report.records if record.who == "vardi"]
    assert mine
    assert all(record.seconds > 0 and record.accuracy < 1e-9 for record in mine)


def test_free_energies_without_peers_or_real_systems(without_peers, tiny, monkeypatch):
    monkeypatch.setattr("benchmarks.physics.installed", lambda module: False)
    report = BENCHMARKS["physics"](tiny)
    mine = [record for record in report.records if record.who.startswith("vardi")]
    assert {record.who for record in mine} == {"vardi", "vardi, with W_nk"}
    assert all(record.seconds > 0 and record.accuracy < 1e-9 for record in mine)
    assert "not installed here" in report.remarks[-1]
    assert {target.bar for target in report.targets} == {10.0, 1.0}


@pytest.mark.parametrize("name", ["parquet", "blocks"])
def test_what_goes_to_disk_or_to_other_processes_is_solved_and_leaves_nothing(name, one_process, monkeypatch, tmp_path):
    from benchmarks.records import Settings

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = BENCHMARKS[name](Settings(shrink=500, repeats=1))
    assert len(report.records) >= 3
    solved = [record for record in report.records if record.who == "vardi" and "refits" not in record.work]
    assert all(record.seconds > 0 and record.accuracy < 1e-9 for record in solved), solved
    assert list(tmp_path.iterdir()) == []


def test_lbfgs_baseline_solves_the_same_problem(tiny):
    from benchmarks.dense import dense_omega

    report = dense_omega(tiny)
    settled = [record for record in report.records if record.who == "L-BFGS, until the gradient settles"]
    assert len(settled) == 2
    assert all(record.accuracy < 1e-5 for record in settled)
    assert all(target.measured > 0 for target in report.targets)


def test_memory_is_measured_in_a_process_of_its_own():
    from benchmarks.memory import _measure

    record = _measure("vardi", "log", 2000, 5)
    assert record.extra_memory >= 0
    assert "over an input of" in record.note
    assert _measure("nobody", "log", 2000, 5).note.startswith("failed: ")


def test_residual_is_that_of_vardis_system():
    from benchmarks.problems import oscillators, residual

    problem = oscillators(600, 3)
    fit = vardi.debias_matrix(problem.matrix, problem.source, log=True)
    log_omegas = np.array(list(fit.log_omegas.values()))
    assert residual(problem.matrix, problem.sizes, log_omegas) < 1e-12
    assert residual(problem.matrix, problem.sizes, log_omegas + 5.0, block=7) < 1e-12  # one scale is free
    wrong = log_omegas + np.array([0.0, 0.01, 0.0])
    pi = 1 / (np.exp(problem.matrix - wrong) @ problem.sizes)
    expected = np.abs(pi @ np.exp(problem.matrix - wrong) - 1).max()
    assert residual(problem.matrix, problem.sizes, wrong) == pytest.approx(expected, rel=1e-9)


def test_race_takes_turns_and_a_failure_stops_nobody_else():
    from benchmarks.timing import Contestant, race

    calls = []

    def fail():
        raise ZeroDivisionError("no overlap")

    field = [Contestant("a", lambda: calls.append("a")), Contestant("b", lambda: calls.append("b"))]
    timings = race([*field, Contestant("c", fail)], repeats=3)
    assert calls == ["a", "b"] * 4
    assert timings["a"].calls == timings["b"].calls == 3
    assert timings["c"].failure == "failed: ZeroDivisionError: no overlap"
    assert race(field, repeats=3, patience=-1.0)["a"].best is None


@pytest.mark.parametrize(
    ("measured", "bar", "goal", "higher", "verdict"),
    [
        (12.0, 10.0, 25.0, True, "bar reached"),
        (25.0, 10.0, 25.0, True, "goal reached"),
        (9.0, 10.0, 25.0, True, "NOT reached"),
        (1.04, 1.05, 1.0, False, "bar reached"),
        (0.9, 1.0, None, False, "reached"),
        (1.2, 1.0, None, False, "NOT reached"),
        (None, 1.0, None, False, "not measured"),
        (3.0, None, None, False, "no bar"),
    ],
)
def test_verdict(measured, bar, goal, higher, verdict):
    from benchmarks.records import Target

    assert Target("work", measured, bar, goal, higher_is_better=higher).verdict == verdict


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_page_names_no_host():
    import platform

    from benchmarks.records import Settings
    from benchmarks.render import render

    assert platform.node() not in render([], Settings(), "", 0.0)
