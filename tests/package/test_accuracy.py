"""The race of accuracy: everyone answers for the same draws, wherever he runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.accuracy import contestants, elsewhere, race
from benchmarks.accuracy.designs import PANEL, SURVEY, designs
from benchmarks.accuracy.elsewhere import Elsewhere

SCRIPT = """
import sys
import pandas as pd

source, target, *names = sys.argv[1:]
rows = pd.read_csv(source)
assert names == ["x1", "x2"]
found = rows.groupby("draw")["y"].mean().rename("value").reset_index().assign(who="mean", low=None, high=None)
found.to_csv(target, index=False)
"""


@pytest.fixture(scope="module")
def lines():
    return designs()[0]


def test_panels_are_selected_and_surveys_lack_the_answer():
    for design in designs():
        panel, survey = design.drawn(0)
        assert (len(panel), len(survey)) == (PANEL, SURVEY)
        assert list(survey.columns) == list(design.columns)
        rows = design.people(np.random.default_rng(1), 20_000)
        assert abs(rows["y"].mean() - design.truth) < 4 * rows["y"].std() / np.sqrt(20_000)
        assert abs(panel["y"].mean() - design.truth) > 4 * panel["y"].std() / np.sqrt(PANEL)
        chance = design.chance(rows)
        assert ((chance > 0) & (chance <= 1)).all()
        pd.testing.assert_frame_equal(panel, design.drawn(0)[0])


def test_what_answers_say_together():
    answers = np.array([[1.0, 0.0, 2.0], [3.0, 2.5, 3.5], [np.nan] * 3, [2.0, np.nan, np.nan]])
    line = race.summed("one", answers, 1.5, "told")
    assert (line.bias, line.deviation, line.refused) == (0.5, pytest.approx(np.std([1, 3, 2])), 1)
    assert line.covered == pytest.approx(1 / 3)  # an interval that is not given covers nothing
    assert line.error == pytest.approx(np.mean([2.0, 1.0]) / 3.92)
    assert line.cells[-1] == "told; refused 1 of the draws"
    assert race.summed("one", np.full((2, 3), np.nan), 1.0, "").cells[1:6] == ("–",) * 5


def test_plain_weighting_has_the_interval_of_fixed_weights():
    y, weights = np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 2.0])
    value, low, high = contestants.weighted(y, weights)
    assert value == 2.75
    error = np.sqrt(1.75**2 + 0.75**2 + (2 * 1.25) ** 2) / 4
    assert (high - low) / 2 == pytest.approx(1.959964 * error)


def test_a_page_has_those_who_run_here_and_elsewhere_and_why_one_does_not(lines, monkeypatch, tmp_path):
    (tmp_path / "there_script.py").write_text(SCRIPT)
    monkeypatch.setattr(elsewhere, "HERE", tmp_path)
    monkeypatch.setattr(elsewhere, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(Elsewhere, "python", property(lambda self: Path(sys.executable)))
    monkeypatch.setattr(Elsewhere, "missing", lambda self: "" if self.name == "there" else f"{self.name}: no network")
    monkeypatch.setattr(Elsewhere, "versions", lambda self: "there 1.0 (apart)")
    monkeypatch.setattr(race, "CONTESTANTS", contestants.CONTESTANTS[:2])
    peers = [Elsewhere("there", {"mean": "a note"}), Elsewhere("absent", {"nobody": ""})]
    page = race.race([lines], peers, 2, "the command", lambda stage: None)
    assert "absent: no network" in page
    assert "| command | `the command` |" in page
    assert "there 1.0 (apart)" in page
    told = {row.split(" | ")[0][2:]: row for row in page.splitlines() if row.startswith("| ")}
    assert {"the panel as it is", "scikit-learn, odds of a logistic regression", "mean"} <= set(told)
    draws = [lines.drawn(seed)[0]["y"].mean() for seed in range(2)]
    bias = f"{np.mean(draws) - lines.truth:.4f}"
    assert told["mean"].split(" | ")[1] == told["the panel as it is"].split(" | ")[1] == bias
    (answers,) = tmp_path.glob("there-*.csv")  # the same rows are asked once
    before = answers.stat().st_mtime_ns
    race.race([lines], peers, 2, "the command", lambda stage: None)
    assert answers.stat().st_mtime_ns == before


def test_a_peer_that_fails_is_a_line_that_says_how(lines, monkeypatch, tmp_path):
    (tmp_path / "there_script.py").write_text("raise SystemExit('it does not take two columns')")
    monkeypatch.setattr(elsewhere, "HERE", tmp_path)
    monkeypatch.setattr(elsewhere, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(Elsewhere, "python", property(lambda self: Path(sys.executable)))
    monkeypatch.setattr(Elsewhere, "versions", lambda self: "")
    (line,) = race._of_peer(Elsewhere("there", {"mean": ""}), lines, [lines.drawn(0)])
    assert line.cells[1] == "–"
    assert line.note == "there: it does not take two columns"
