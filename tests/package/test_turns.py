"""Two versions of vardi by turns: in which order, with which ratios, and what a failure does to the others."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import vardi
from benchmarks.bars import TURNS
from benchmarks.turns import cases, command
from benchmarks.turns.compare import Comparison, Sides, Turns
from benchmarks.turns.page import page
from benchmarks.turns.versions import TurnError, Version

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the environments are those of POSIX")


@pytest.fixture(autouse=True)
def no_collection(monkeypatch):
    """Before each timed call garbage is collected; here that of all the tests."""
    monkeypatch.setattr("benchmarks.turns.cases.gc.collect", lambda: None)


@pytest.fixture
def old(tmp_path):
    """Return a checkout whose environment is the one that runs the tests."""
    python = tmp_path / "old" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "old" / "src").symlink_to(Path(vardi.__file__).parents[1])
    return tmp_path / "old"


@pytest.fixture
def ran(monkeypatch):
    """Return the versions and arguments in the order in which they ran.

    The first turn of the old version has a process of its own; others do not, since to start one takes longer.
    """
    calls, in_a_process = [], Version.run

    def run(self, *arguments):
        calls.append((self.name, *arguments[:1]))
        if calls.count(("old", *arguments[:1])) == 1 and self.name == "old":
            return in_a_process(self, *arguments)
        return cases.turn(*map(str, arguments)) if arguments else cases.about()

    monkeypatch.setattr(Version, "run", run)
    return calls


def run(*arguments):
    return CliRunner().invoke(command.app, [*map(str, arguments)])


def test_turns_are_old_new_new_old_and_the_page_has_their_ratios(old, ran, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "PAGE", tmp_path / "TURNS.md")
    result = run("dense-10", "--old", old, "--shrink", 5000, "--write")
    assert result.exit_code == 0, result.output
    turns = [name for name, *case in ran if case]
    assert turns == ["old", "new", *["old", "new", "new", "old"] * 5]  # the first of each is not measured
    head, _, row = [line.strip("| ").split(" | ") for line in result.stdout.splitlines()[:3]]
    assert head[:5] == ["case", "old", "new", "ratio", "quartiles"]
    assert (row[0], row[1][-2:], row[3][-1:], row[-1]) == ("dense-10: debias", "ms", "x", "no bar")
    assert "dense-10: debias: " in result.stderr  # as soon as it is known
    written = (tmp_path / "TURNS.md").read_text()
    assert "| " + " | ".join(row) + " |" in written
    assert str(tmp_path) not in written
    (kept,) = json.loads((tmp_path / "TURNS.json").read_text())["comparisons"]
    assert len(kept["measured"]["old"]) == len(kept["measured"]["new"]) == len(kept["processor"]["old"]) == 10


def test_ratio_is_that_of_whole_rounds_with_quartiles():
    sides = Sides(old=(1.0, 3.0, 2.0, 2.0, 4.0, 4.0), new=(2.0, 2.0, 1.0, 1.0, 8.0, 16.0))
    assert sides.ratios == [1.0, 0.5, 3.0]  # a drift within a round cancels
    assert (sides.ratio, sides.quartiles) == (1.0, (0.75, 2.0))


def test_bars_are_on_cases_and_judge_the_full_sizes_only():
    assert {name.split(":")[0] for name in TURNS} <= set(cases.CASES)
    half, double = Sides((2.0, 2.0), (1.0, 1.0)), Sides((1.0, 1.0), (2.0, 2.0))
    found = (
        Comparison("numbers-polars", "debias", "seconds", double, half),
        Comparison("thirty-duckdb", "debias", "seconds", half),
        Comparison("memory-log", "extra memory", "bytes", Sides((2e6, 2e6), (3e6, 3e6))),
    )
    text = page(Turns(found, {"spark": "no java"}, {"date": "today"}, 1))
    assert "**Bars**: 1 of 2 reached. Missed: numbers-polars: debias (2x)." in text
    assert "| numbers-polars: debias | 1 s | 2 s | 2x | 2x to 2x | 0.5x | 0.5x to 0.5x | 1.1x | NOT reached |" in text
    assert "| memory-log: extra memory | 2 MB | 3 MB | 1.5x | 1.5x to 1.5x | – | – | – | no bar |" in text
    assert "**spark** failed: no java" in text
    smaller = page(Turns(found, {}, {}, 20))
    assert "**Bars**" not in smaller
    assert "| 1.1x | not judged |" in smaller


def test_a_case_that_fails_is_shown_and_stops_no_other(old, ran, monkeypatch):
    in_turn = Version.run

    def run_or_fail(self, *arguments):
        if arguments[:1] == ("omega-10",) and self.name == "new":
            raise TurnError("Traceback:\n  line\nZeroDivisionError: no rows")
        return in_turn(self, *arguments)

    monkeypatch.setattr(Version, "run", run_or_fail)
    result = run("omega", "dense-10", "--old", old, "--shrink", 5000, "--rounds", 1)
    assert result.exit_code == 1
    assert "omega-10: the new version failed:" in result.stderr
    assert "Traceback:" in result.stderr
    assert "dense-10: debias |" in result.stdout
    assert "**omega-10** failed: ZeroDivisionError: no rows" in result.stdout


def test_process_that_fails_has_its_standard_error_told(old):
    with pytest.raises(TurnError, match=r"(?s)Traceback.*KeyError: 'nothing'"):
        Version("old", old / ".venv" / "bin" / "python", old / "src").run("nothing", 1, "folder")


def test_cases_are_chosen_by_name_or_by_how_names_begin(old):
    assert command._chosen(["chain", "import"]) == ["chain-2000", "import", "chain-500"]
    assert set(cases.CASES) - set(command._chosen([])) == {"spark"}
    result = run("chains", "--old", old)
    assert result.exit_code == 2
    assert "There is no case 'chains'." in result.stderr


def test_old_version_needs_an_environment_that_imports_it(old, tmp_path):
    result = run("import", "--old", tmp_path)
    assert result.exit_code == 2
    assert "There is no .venv/bin/python in" in result.stderr
    (old / "src").unlink()
    (old / "src").mkdir()
    with pytest.raises(vardi.VardiError, match="imports vardi from"):
        Version("old", old / ".venv" / "bin" / "python", old / "src").packages()
