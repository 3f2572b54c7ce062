"""The paper by one command: format, determinism, resumption and direction, in a short version."""

import ast
import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from typer.testing import CliRunner

from paper.__main__ import main
from paper.adult import READING_A, READING_B, reading_of
from paper.command import app
from paper.comparison import COLUMNS, Compared, Line, Obtained, agreement, compare, obtained, printed
from paper.experiment import Cell, Experiment
from paper.layout import TITLES, tables
from paper.reproduction import EXPERIMENTS, NAMES, reproduce
from paper.runs import Settings, deaf_to_interruptions, run_all, seeds_of
from paper.trial import Rows, Trial, accuracy, error_rate, explained, forest, mean_squared_error, plain
from vardi import OutputError

TABLES = ("table1", "table2_norm", "table3_first_component", "table4_age")
ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "paper" / "tables.csv"


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """All experiments, three runs, forests of ten trees."""
    folder = tmp_path_factory.mktemp("paper")
    return reproduce(output=folder, runs=3, jobs=1, trees=10)


def test_the_paper_prints_175_cells():
    assert len(printed()) == 175
    assert {cell.table for cell in printed()} == set(TABLES)


@pytest.mark.skipif(not SHARED.exists(), reason="the paper's tables are not beside this project")
def test_the_embedded_cells_are_those_of_the_paper():
    assert (ROOT / "paper" / "printed.csv").read_bytes() == SHARED.read_bytes()


def test_every_printed_cell_is_computed_up_to_the_forests_asked_for(short):
    computed = {line.cell for line in short.lines}
    left_out = {cell for cell in printed() if cell not in computed}
    assert {cell.model for cell in left_out} == {"RF trees=100", "RF trees=1000"}
    assert len(left_out) == 12


def test_tables_have_the_format_of_the_printed_ones(short):
    for name in TABLES:
        with (short.page.parent / "tables" / f"{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert tuple(rows[0]) == (*COLUMNS, "runs")
        assert all(row["table"] == name and row["runs"] == "3" and row["bold"] in "01" for row in rows)
        assert all(float(row["std"]) >= 0 and np.isfinite(float(row["mean"])) for row in rows)


def test_each_model_has_one_winner(short):
    judged = [line for line in short.lines if line.cell.table in TABLES]
    models = {dataclasses.replace(line.cell, method="") for line in judged}
    assert sum(line.bold for line in judged) == len(models)


def test_debiasing_helps_where_print_says_so_clearly(short):
    assert short.agreement.clear >= 15
    assert len(short.agreement.lost) <= 1  # three runs


def test_most_cells_agree_with_print_after_three_runs(short):
    assert short.agreement.within_two >= 0.95 * short.agreement.cells


def test_both_readings_of_adult_are_there_and_each_printed_row_comes_from_its_own(short):
    by_cell = {line.cell: line for line in short.lines}
    readings = {cell.scenario for cell in by_cell if cell.table == "adult_readings"}
    assert readings == {READING_A, READING_B}
    for cell, line in by_cell.items():
        if cell.table == "table1" and cell.dataset == "Adult":
            twin = Cell("adult_readings", "Adult", reading_of(cell.model), cell.model, cell.method)
            assert by_cell[twin].mean == line.mean
    assert reading_of("LogReg C=1") == READING_A
    assert reading_of("RF trees=10") == READING_B


def test_the_page_has_every_table_and_figure_and_asks_for_nothing_else(short):
    text = short.page.read_text(encoding="utf-8")
    for name, title in TITLES.items():
        assert (title in text) == (name != "rates")
    stems = {path.stem for path in (short.page.parent / "figures").iterdir()}
    assert len(stems) == 10
    assert all(f'id="{stem}"' in text for stem in stems)
    assert {path.suffix for path in (short.page.parent / "figures").iterdir()} == {".svg", ".png"}
    assert "http" not in text.replace("http-equiv", "")


def test_the_numbers_do_not_depend_on_jobs_nor_on_interruptions(short, tmp_path):
    names = ["boston", "clusters", "lengths"]
    reproduce(names, output=tmp_path, runs=1, jobs=1, trees=10)
    reproduce(names, output=tmp_path, runs=3, jobs=2, trees=10)
    for name in ("clusters", "lengths"):
        ours = tmp_path / "tables" / f"{name}.csv"
        assert ours.read_bytes() == (short.page.parent / "tables" / f"{name}.csv").read_bytes()
    for run in range(3):
        file = Path("runs", "boston", f"{run:04d}.json")
        assert (tmp_path / file).read_bytes() == (short.page.parent / file).read_bytes()


def test_another_seed_gives_other_numbers(short, tmp_path):
    other = reproduce(["lengths"], output=tmp_path, runs=3, jobs=1, trees=10, seed=1)
    means = {line.cell: line.mean for line in short.lines}
    assert all(line.mean != means[line.cell] for line in other.lines if "error" in line.cell.method)


def test_finished_runs_are_not_computed_again(tmp_path):
    calls = []

    def run(seeds, trees):
        calls.append(trees)
        return {Cell("t", "d", "", "m", "e"): float(seeds.generate_state(1)[0])}

    experiment = Experiment("counted", run)
    first = run_all([experiment], 2, tmp_path, Settings())
    second = run_all([experiment], 3, tmp_path, Settings())
    assert len(calls) == 3
    np.testing.assert_array_equal(next(iter(first.values())), next(iter(second.values()))[:2])


def test_progress_tells_what_was_there_already(tmp_path):
    experiment = Experiment("told", lambda seeds, trees: {Cell("t", "d", "", "m", "e"): 1.0})
    told = []
    run_all([experiment], 2, tmp_path, Settings(), progress=lambda *news: told.append(news))
    run_all([experiment], 3, tmp_path, Settings(), progress=lambda *news: told.append(news))
    assert told == [("told", 0, 2), ("told", 1, 2), ("told", 2, 2), ("told", 2, 3), ("told", 3, 3)]


def test_a_failing_run_keeps_the_others(tmp_path):
    def run(seeds, trees):
        if seeds.entropy[2] == 1:
            raise RuntimeError("no luck")
        return {Cell("t", "d", "", "m", "e"): 1.0}

    with pytest.raises(RuntimeError, match="no luck"):
        run_all([Experiment("lucky", run)], 3, tmp_path, Settings())
    assert [path.name for path in (tmp_path / "lucky").iterdir()] == ["0000.json"]


def test_a_missing_score_is_not_zero(tmp_path):
    cell = Cell("t", "d", "", "m", "e")
    experiment = Experiment("unlucky", lambda seeds, trees: {cell: 1.0 if seeds.entropy[2] else float("nan")})
    scores = run_all([experiment], 3, tmp_path, Settings())
    np.testing.assert_array_equal(scores[cell], [np.nan, 1.0, 1.0])
    (line,) = obtained(scores)
    assert (line.mean, line.runs) == (1.0, 2)
    (line,) = obtained({cell: np.array([np.nan])})
    assert np.isnan(line.mean)
    assert line.runs == 0


def test_runs_of_other_settings_are_not_mixed(tmp_path):
    experiment = Experiment("mixed", lambda seeds, trees: {Cell("t", "d", "", "m", "e"): 1.0})
    run_all([experiment], 1, tmp_path, Settings(seed=0))
    with pytest.raises(
        OutputError, match=r"run with other settings \(seed 0 there and 1 now\), and runs are not mixed"
    ):
        run_all([experiment], 1, tmp_path, Settings(seed=1))


def test_a_file_that_is_no_run_is_named(tmp_path):
    experiment = Experiment("broken", lambda seeds, trees: {Cell("t", "d", "", "m", "e"): 1.0})
    run_all([experiment], 1, tmp_path, Settings())
    (tmp_path / "broken" / "0000.json").write_text("{")
    with pytest.raises(
        OutputError, match=r"0000\.json is not a finished run: .* Remove it, and it will be computed again"
    ):
        run_all([experiment], 1, tmp_path, Settings())


def test_unknown_names_and_numbers_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no experiment 'bosten'. Did you mean 'boston'\? There are boston, adult"):
        reproduce(["bosten"], output=tmp_path)
    with pytest.raises(ValueError, match=r"runs is 0. Give 1 or more."):
        reproduce(["boston"], output=tmp_path, runs=0)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"The folder .*file.* cannot be made"):
        reproduce(["boston"], output=tmp_path / "file", runs=1)


def test_figures_alone_need_no_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, file, **_: None)
    result = reproduce(["figures"], output=tmp_path, jobs=1)
    assert not result.lines
    assert not (tmp_path / "runs").exists()
    assert len(list((tmp_path / "figures").glob("*.svg"))) == 8


def test_seeds_differ_between_experiments_and_runs():
    states = {tuple(seeds_of(name, run, 0).generate_state(2)) for name in EXPERIMENTS for run in range(5)}
    assert len(states) == 5 * len(EXPERIMENTS)


@pytest.mark.parametrize("kind", [RandomForestRegressor, RandomForestClassifier])
def test_the_first_trees_of_a_forest_are_the_smaller_forest(kind):
    rng = np.random.default_rng(0)
    x, test = rng.normal(size=(80, 3)), rng.normal(size=(50, 3))
    y = (x[:, 0] + rng.normal(size=80) > 0).astype(float)
    rows = Rows(x, y, rng.random(80))
    grown = forest({"three": 3, "seven": 7}, kind(random_state=5))(rows, test)
    for name, trees in (("three", 3), ("seven", 7)):
        alone = kind(trees, random_state=5).fit(x, y, sample_weight=rows.weights).predict(test)
        np.testing.assert_allclose(grown[name], alone, rtol=1e-12)


def test_a_trial_trains_in_three_ways():
    class Mean:
        def fit(self, x, y, sample_weight=None):
            self.mean = np.average(y, weights=sample_weight)
            return self

        def predict(self, x):
            return np.full(len(x), self.mean)

    pool = Rows(np.zeros((3, 1)), np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.0, 2.0]))
    test = Rows(np.zeros((1, 1)), np.array([0.0]))
    trial = Trial(pool, np.array([False, True, True]), test)
    scores = trial.scores([plain("mean", Mean())], mean_squared_error)
    assert scores == {
        ("mean", "ERM"): 1.0,
        ("mean", "db-ERM"): pytest.approx((4 / 3) ** 2),
        ("mean", "ub-ERM"): pytest.approx(1.5**2),
    }
    without = Trial(pool, np.zeros(3, bool), test).scores([plain("mean", Mean())], mean_squared_error)
    assert ("mean", "ub-ERM") not in without


def test_scores():
    y, predicted = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0, 0.0])
    assert accuracy(y, predicted) == 75
    assert error_rate(y, predicted) == 25
    assert mean_squared_error(y, predicted) == 0.25
    assert explained(y, y) == 100
    assert explained(y, np.full(4, 0.5)) == 0


def _pair(method, print_, ours, *, std=1.0, bold=(False, False)):
    cell = Cell("table1", "Boston", "", "RR alpha=0", method)
    return Compared(Line(cell, print_, std, bold[0]), Obtained(cell, ours, 1.0, bold[1], 10))


def test_agreement_counts_what_is_far_lost_and_won_by_another():
    erm = _pair("ERM", 10.0, 10.5, bold=(False, True))
    debiased = _pair("db-ERM", 8.0, 10.6, bold=(True, False))
    unbiased = _pair("ub-ERM", 9.0, 10.2)
    found = agreement([erm, debiased, unbiased])
    assert (found.cells, found.within_one, found.within_two) == (3, 1, 2)
    assert found.beyond == (debiased,)
    assert found.winners == (erm,)
    assert (found.clear, found.lost) == (1, (debiased,))


def test_marks_in_a_table(short):
    pairs = {pair.printed.cell: pair for pair in compare(short.lines)}
    for table in tables(short.lines):
        for label, model, entries in table.rows:
            for method, entry in entries.items():
                if entry.deviations is None:
                    assert entry.mark == ""
                    continue
                scenario = label if len(label) == 1 else ""
                dataset = "Gauss" if scenario else label
                pair = pairs[Cell(table.name, dataset, scenario, model, method)]
                far = (abs(pair.deviations) > 1) + (abs(pair.deviations) > 2)
                assert entry.mark == "!" * far + "*" * entry.differs


def run(*arguments, **environment):
    return CliRunner().invoke(app, arguments, env=environment)


def test_the_command_prints_both_numbers_on_80_columns(tmp_path):
    short = ("--runs", "1", "--trees", "10", "--jobs", "1")
    done = run("boston", "lengths", *short, "-o", str(tmp_path / "out"), COLUMNS="80", NO_COLOR="1")
    assert done.exit_code == 0, done.stderr
    assert "…" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if "index.html" not in line) <= 80
    assert any(line.startswith("Boston  RR alpha=0 ") and "27.41" in line for line in done.stdout.splitlines())
    assert "21 printed cells:" in done.stdout
    assert str(tmp_path / "out" / "index.html") in done.stdout.replace("\n", "")


def test_the_command_speaks_json(tmp_path):
    done = run("lengths", "--runs", "1", "--jobs", "1", "-o", str(tmp_path), "--json")
    content = json.loads(done.stdout)
    assert content["cells"] == 0
    assert {row["table"] for row in content["tables"]} == {"lengths"}


def test_the_command_refuses_a_name_with_the_nearest():
    done = run("bostn")
    assert done.exit_code == 2
    assert "Did you mean 'boston'?" in done.stderr


def test_help_names_what_can_be_reproduced_with_defaults_and_examples():
    done = run("--help")
    page = " ".join(done.stdout.split())
    assert done.exit_code == 0
    assert "[OPTIONS] [NAME]..." in page
    assert all(name in page.replace("first- ", "first-") for name in NAMES)
    assert "--seed N Seed of all runs. [default: 0" in page
    assert "python -m paper clusters --runs 10" in page
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_a_folder_that_cannot_be_made_is_refused_before_any_run(tmp_path):
    (tmp_path / "file").touch()
    done = run("lengths", "-o", str(tmp_path / "file"))
    assert done.exit_code == 3
    assert done.stderr.startswith(f"error: The folder {tmp_path / 'file'} cannot be made: ")
    answer = json.loads(run("lengths", "-o", str(tmp_path / "file"), "--json").stdout)
    assert (answer["error"], answer["path"]) == ("OutputError", str(tmp_path / "file"))


def test_quiet_prints_nothing(tmp_path):
    done = run("lengths", "--runs", "1", "--jobs", "1", "-o", str(tmp_path), "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    assert (tmp_path / "index.html").is_file()


def test_without_a_package_one_line_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("paper.__main__.find_spec", lambda name: None if name in ("rich", "typer") else name)
    assert main() == 2
    said = "The paper needs rich and typer. Run make paper, or install with: pip install --editable . --group paper"
    assert capsys.readouterr().err == f"error: {said}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_output_that_nobody_reads_and_one_that_is_full_have_codes_of_their_own(tmp_path):
    command = [sys.executable, "-m", "paper", "lengths", "--runs", "1", "--jobs", "1", "-o", str(tmp_path)]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:
        done = subprocess.run(command, cwd=ROOT, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr == "error: Standard output cannot be written: No space left on device.\n"


def test_only_public_names_of_vardi_are_used():
    for path in (ROOT / "paper").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                names = [module + alias.name for alias in node.names]
                assert not [name for name in names if name.startswith("vardi") and "._" in name], path


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no masks of signals")
def test_what_is_started_for_runs_ignores_an_interruption_from_its_first_moment():
    """Workers take a second to load, in which Ctrl-C printed their tracebacks."""
    asks = [sys.executable, "-c", "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"]
    with deaf_to_interruptions():
        assert subprocess.run(asks, capture_output=True, text=True, check=True).stdout == "True\n"
    assert subprocess.run(asks, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no masks of signals")
def test_an_interruption_while_they_start_arrives_afterwards():
    script = (
        "import os, signal\n"
        "from paper.runs import deaf_to_interruptions\n"
        "try:\n"
        "    with deaf_to_interruptions():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    for _ in range(1000): pass\n"
        "except KeyboardInterrupt:\n"
        "    print('heard')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "heard\n"


def test_an_interrupted_command_goes_on_where_it_stopped(tmp_path):
    arguments = ["clusters", "--runs", "900", "--trees", "10", "--jobs", "2", "-o", str(tmp_path)]
    running = subprocess.Popen(
        [sys.executable, "-m", "paper", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that Ctrl-C reaches its workers too, and not these tests
    )
    finished = tmp_path / "runs" / "clusters"
    while running.poll() is None and not all((finished / f"000{run}.json").exists() for run in range(2)):
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 130
    assert "finished runs are kept in" in said
    assert "Traceback" not in said
    kept = {path.name: path.read_bytes() for path in finished.glob("0*.json")}
    assert 2 <= len(kept) < 900
    assert not (tmp_path / "tables").exists()
    runs = run_all([EXPERIMENTS["clusters"]], 2, tmp_path / "runs", Settings(trees=10))
    assert {path.name: path.read_bytes() for path in finished.glob("0*.json")} == kept
    assert all(len(scores) == 2 for scores in runs.values())
