"""The benchmarks run and say what they found; how fast is not a matter for tests."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from typer.testing import CliRunner

import vardi
from benchmarks.bars import BARS
from benchmarks.command import app
from benchmarks.machine import facts, versions
from benchmarks.process import in_fresh_process
from benchmarks.records import Bar, Record, Report, Run, Settings, Target, Times, ratio
from benchmarks.render import render
from benchmarks.run import BENCHMARKS
from benchmarks.standing import read_tried
from benchmarks.stored import from_json, to_json

NAMES = [
    "dense-log",
    "dense-omega",
    "gram",
    "indicator",
    "memory",
    "parquet",
    "bootstrap",
    "identify",
    "report",
    "errors",
    "questions",
    "import",
    "growth",
    "read",
    "lazy",
    "median",
    "blocks",
    "many",
    "small",
    "physics",
]


@pytest.fixture
def without_peers(monkeypatch):
    from benchmarks import peers

    monkeypatch.setattr(peers, "installed", lambda module: False)


@pytest.fixture(autouse=True)
def no_collection(monkeypatch):
    """Before each timed call garbage is collected; here that of all the tests."""
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(f"benchmarks.timing.gc.{name}", lambda: None)


@pytest.fixture
def one_process(monkeypatch):
    """Let the first measurement alone have a process of its own: to start one takes longer than to solve."""
    started = []

    def measured(module, *arguments):
        started.append(module)
        if len(started) == 1:
            return in_fresh_process(module, *arguments)
        return import_module(f"benchmarks.{module}").probe(*map(str, arguments))

    for module in ("blocks", "lazy", "many", "median"):
        monkeypatch.setattr(f"benchmarks.{module}.in_fresh_process", measured)


@pytest.fixture
def tiny():
    return Settings(shrink=5000, repeats=1, calls=1)


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


def page_of(*reports, settings=None, tried=None):
    return render(Run(reports, settings or Settings(), "", facts(0.0), versions(), {}), tried or {})


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_command_writes_well_formed_tables(without_peers, tmp_path):
    output = tmp_path / "RESULTS.md"
    result = run("small", "growth", "read", "--shrink", 5000, "--repeats", 1, "--output", output)
    numbers, picture = output.with_suffix(".json"), output.with_suffix(".svg")
    assert (result.exit_code, result.stdout) == (0, f"results  {output}\nnumbers  {numbers}\npicture  {picture}\n")
    page = output.read_text()
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## growth", "## read", "## small"]
    assert "`python -m benchmarks small growth read --shrink 5000 --repeats 1`" in page
    assert str(tmp_path) not in page
    assert {path.name for path in tmp_path.iterdir()} == {
        "RESULTS.md",
        "RESULTS.json",
        "RESULTS.svg",
    }  # no temporary file is left
    assert "](RESULTS.svg)" in page
    assert "n grows: slope" in picture.read_text()
    facts, *rest = tables(page)
    assert {"date", "processor", "memory", "versions"} <= {row[0] for row in facts}
    assert len(rest) == 6
    for table in rest:
        assert len({len(row) for row in table}) == 1
    records, targets = rest[0], rest[1]
    times = ["time", "quartiles", "processor", "calls"]
    assert records[0] == ["work", "who", *times, "residual", "extra memory", "note"]
    assert targets[0] == ["target", "measured", "between", "in processor time", "bar", "verdict", "note"]
    assert {row[5] for row in targets[2:]} == {"not judged"}  # bars are for the full sizes
    assert "Missed" not in page
    assert run("small", "--shrink", 5000, "--output", picture).exit_code == 2
    again = run("small", "--shrink", 5000, "--output", output)
    assert again.exit_code == 3
    assert output.read_text() == page
    output.write_text("edited")
    assert run("--page-of", numbers).exit_code == 0
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

    def nothing(name, settings):
        return Report(name, f"Nothing of {name}.")

    monkeypatch.setattr("benchmarks.run.BENCHMARKS", {name: partial(nothing, name) for name in NAMES})
    assert run(*NAMES[1:]).exit_code == 0
    assert (tmp_path / "benchmarks" / "RESULTS.md").read_text() == "before"
    assert run().exit_code == 0
    page = (tmp_path / "benchmarks" / "RESULTS.md").read_text()
    assert "Nothing of import." in page
    assert "physics" not in page  # it has a page of its own
    unmeasured = next(line for line in page.splitlines() if line.startswith("**Not measured**"))
    assert all(bar.name in unmeasured for bar in BARS.values() if bar.benchmark != "physics")


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
    report = BENCHMARKS[name](tiny)
    absent = [record for record in report.records if not record.who.startswith("vardi")]
    absent = [record for record in absent if not record.who.startswith("one read")]
    assert {record.who.split(",")[0] for record in absent} == {"pymbar", "FastMBAR", "bayesmbar's FastMBAR"}
    assert all(record.seconds is None and record.note.startswith("not installed: ") for record in absent)
    raced = [target for target in report.targets if target.race]
    assert raced
    assert all(target.measured is None and target.verdict == "not measured" for target in raced)
    assert "not installed: pymbar, jax" in page_of(report, settings=tiny)
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
    assert {target.bar for target in report.targets} == {None}
    assert [target.race for target in report.targets] == [False, True] * 2


@pytest.mark.parametrize("name", ["parquet", "blocks"])
def test_what_goes_to_disk_or_to_other_processes_is_solved_and_leaves_nothing(name, one_process, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = BENCHMARKS[name](Settings(shrink=500, repeats=1, calls=1))
    assert len(report.records) >= 3
    solved = [record for record in report.records if record.who.endswith("vardi") and "refits" not in record.work]
    assert all(record.seconds > 0 and record.accuracy < 1e-9 for record in solved), solved
    assert list(tmp_path.iterdir()) == []


def test_median_in_an_engine_is_counted_in_queries(one_process, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = BENCHMARKS["median"](Settings(shrink=5000, repeats=1))
    assert [target.bar.name for target in report.targets] == ["median"] * 4  # two engines, biases of two kinds
    assert all(target.measured >= 1 for target in report.targets), report.records
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
    timings = race([*field, Contestant("c", fail)], Settings(repeats=3, calls=2))
    assert calls == [*"ab", *"aabb" * 3]  # a turn of short calls has several
    assert timings["a"].times.calls == timings["b"].times.calls == len(timings["a"].times.processor) == 6
    assert timings["c"].failure == "failed: ZeroDivisionError: no overlap"
    calls.clear()
    race(field, Settings(repeats=2, turn=0.0))
    assert calls == [*"ab"] * 3  # and one of long calls has one
    assert race(field, Settings(repeats=3, patience=-1.0))["a"].times is None


def test_what_is_asked_of_a_fit_is_asked_of_a_new_one_that_takes_no_time():
    from benchmarks.timing import Contestant, race

    made, asked = [], []

    def prepare():
        made.append(len(made))
        return made[-1]

    race([Contestant("a", asked.append, prepare)], Settings(repeats=2, calls=1))
    assert asked == made == [0, 1, 2]


@pytest.mark.parametrize(
    ("measured", "bar", "verdict"),
    [
        (12.0, Bar("a", "b", 10.0, higher_is_better=True), "reached"),
        (9.0, Bar("a", "b", 10.0, higher_is_better=True), "NOT reached"),
        (1.04, Bar("a", "b", 1.05), "reached"),
        (1.2, Bar("a", "b", 1.0), "NOT reached"),
        (None, Bar("a", "b", 1.0), "not measured"),
        (3.0, None, "no bar"),
    ],
)
def test_verdict(measured, bar, verdict):
    assert Target("work", measured, bar).verdict == verdict


def test_ratio_is_of_medians_with_what_the_quartiles_allow():
    over, under = Times((4.0, 8.0, 6.0, 10.0, 2.0), (9.0, 9.0)), Times((2.0, 1.0, 3.0), (3.0,))
    found = ratio("work", over, under)
    assert (found.measured, found.between, found.processor) == (3.0, (4.0 / 2.5, 8.0 / 1.5), 3.0)
    assert ratio("work", over.scaled(2.0), under).measured == 6.0
    assert ratio("work", None, under).verdict == "not measured"


def test_page_begins_with_the_bars_that_are_missed_and_what_was_tried():
    reports = [
        Report("gram", "", targets=(Target("solve", 3.0, BARS["gram"]),)),
        Report("dense-omega", "", targets=(Target("speed", 4.5, BARS["dense-omega"], race=True),)),
        Report("growth", "", targets=(Target("slope in n", 0.9, BARS["growth-rows"], ""),)),
        Report("report", "", targets=(Target("page", None, BARS["report"]),)),
    ]
    page = page_of(*reports, tried={"gram": ("one way", "another"), "growth-rows": ("not needed",)})
    head = page[: page.index("| command |")]
    assert "**Bars**: 1 of 3 reached." in head
    assert "- **gram** (`gram`), solve: 3x, bar 1x, 200% over.\n  - Tried: one way\n  - Tried: another\n-" in head
    assert "(`dense-omega`), speed: 4.5x, bar 6x, 25% short.\n  - 0 of 2 ways noted in `tried.toml`." in head
    assert "**Not measured**: report (page); growth-samples. The" in head
    assert "not needed" not in page
    assert "**Fastest on PyPI, with these versions**" in head


def test_run_reads_back_from_its_json():
    record = Record("work", "vardi", Times((1.0, 2.0), (3.0, 4.0)), 1e-12, 0.1, "note")
    bare = Record("work", "absent", note="not installed")
    targets = (ratio("solve", record.times, record.times, BARS["gram"]), Target("passes", 3.0, unit=""))
    report = Report("gram", "About.", (record, bare), targets, ("remark",), failed=True)
    found = Run((report,), Settings(shrink=20, full=True), "command", facts(0.5), versions(), {"gram": 1.5})
    assert from_json(to_json(found)) == found


def test_page_says_where_another_is_faster():
    slower = Report("dense-omega", "", targets=(Target("speed over it", 0.8, BARS["dense-omega"], race=True),))
    page = page_of(slower)
    assert "**NOT the fastest on PyPI, with these versions**" in page
    assert "speed over it: 0.8x." in page


def test_notes_of_what_was_tried_are_on_bars_that_there_are(tmp_path):
    assert set(read_tried()) <= set(BARS)
    path = tmp_path / "tried.toml"
    path.write_text('[grams]\ntried = ["a"]')
    with pytest.raises(ValueError, match="on unknown bars: grams"):
        read_tried(path)
    path.write_text('[gram]\ntried = ["a", "b"]')
    assert read_tried(path) == {"gram": ("a", "b")}


def test_every_bar_is_of_a_benchmark_that_there_is():
    assert {bar.benchmark for bar in BARS.values()} == {
        "dense-log",
        "dense-omega",
        "gram",
        "indicator",
        "memory",
        "parquet",
        "bootstrap",
        "report",
        "import",
        "growth",
        "median",
    }


@pytest.mark.parametrize(("name", "bar"), [("gram", "gram"), ("bootstrap", "bootstrap-draw"), ("report", "report")])
def test_what_is_compared_with_a_solve_is_measured(name, bar, tiny, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = BENCHMARKS[name](tiny)
    assert [target.bar.name for target in report.targets] == [bar]
    assert report.targets[0].measured > 0
    assert report.targets[0].processor > 0
    assert not any(record.note.startswith("failed") for record in report.records)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "targets"), [("identify", 1), ("errors", 1), ("questions", 7)])
def test_what_has_no_bar_is_measured_too(name, targets, tiny, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = BENCHMARKS[name](tiny)
    assert len(report.targets) == targets
    assert all(target.bar is None and target.measured > 0 for target in report.targets)
    assert not any(record.note.startswith("failed") for record in report.records)
    assert list(tmp_path.iterdir()) == []


def test_import_is_timed_in_fresh_processes(monkeypatch):
    def measured(module, *names):
        fresh.append(names)
        return {"wall": [2.0 if names == ("vardi:debias",) else 1.0], "processor": [1.0]}

    fresh = []
    monkeypatch.setattr("benchmarks.importing.in_fresh_process", measured)
    report = BENCHMARKS["import"](Settings(shrink=20))
    assert report.targets[0].measured == 2.0
    assert fresh[:3] == fresh[3:6] == [("vardi:debias",), ("vardi",), ("numpy", "scipy.sparse")]  # by turns
    probe = in_fresh_process("import_probe", "json:loads")
    assert min(probe["wall"]) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_page_names_no_host():
    import platform

    assert platform.node() not in page_of()
