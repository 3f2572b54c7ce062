"""The tables of the guides: what estimates and errors are with and without each part of a design, over many draws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import vardi

pytestmark = pytest.mark.filterwarnings(
    "ignore::vardi.WeakOverlapWarning", "ignore::vardi.DroppedSamplesWarning", "ignore:'survey' has"
)


def summary(found, truth):
    """Return the mean, the mean error, the spread and the coverage of estimates."""
    values, errors = np.array([(one.value, one.stderr) for one in found]).T
    covered = np.mean([one.interval[0] <= truth <= one.interval[1] for one in found])
    return values.mean(), errors.mean(), values.std(), covered


def shown(name, numbers):
    mean, error, spread, covers = numbers
    print(f"{name:<24} mean {mean:7.2f}  error {error:5.2f}  spread {spread:5.2f}  covers {covers:.3f}")
    return numbers


def test_a_survey_in_two_stages():
    """docs/guides/surveys.md: 30 districts of each of three regions, five schools of each."""
    rng = np.random.default_rng(0)
    number = np.array([150, 250, 600])
    districts = pd.DataFrame({"region": np.repeat([0, 1, 2], number), "districts": np.repeat(number, number)})
    districts["schools"] = rng.integers(4, 40, 1000)
    level = np.repeat([660.0, 600.0, 570.0], number) + rng.normal(0, 30, 1000)
    districts["level"] = level - 1.5 * (districts["schools"] - 22)
    schools = districts.loc[districts.index.repeat(districts["schools"])].rename_axis("district").reset_index()
    schools["score"] = schools["level"] + rng.normal(0, 50, len(schools))
    truth, chance = schools["score"].mean(), "30 / districts * min(1, 5 / schools)"
    parts = {
        "nothing": ("1", {}),
        "bias": (chance, {}),
        "clusters": (chance, {"clusters": "district"}),
        "strata": (chance, {"clusters": "district", "strata": "region"}),
        "all": (chance, {"clusters": "district", "strata": "region", "population": len(schools)}),
    }
    found = {name: [] for name in parts}
    for seed in range(400):
        draw = np.random.default_rng(seed)
        drawn = districts.groupby("region").sample(30, random_state=draw).index
        shuffled = schools[schools["district"].isin(drawn)].sample(frac=1, random_state=draw)
        survey = {"survey": shuffled.groupby("district").head(5)}
        for name, (bias, declared) in parts.items():
            found[name].append(vardi.debias(survey, {"survey": bias}, **declared).expectation("score"))
    table = {name: shown(name, summary(ones, truth)) for name, ones in found.items()}
    assert table["nothing"][0] - truth > 20
    assert table["nothing"][3] < 0.01
    assert abs(table["all"][0] - truth) < 3 * table["all"][2] / 20
    assert table["bias"][3] < 0.9
    for name in ("strata", "all"):  # errors are too large by what a fifth of the districts at most, 30 in 150, leaves
        assert 0.95 - 3 * 0.011 < table[name][3] < 0.99
        assert 1.0 - 3 / np.sqrt(800) < table[name][1] / table[name][2] < 1.0 / np.sqrt(0.8) + 3 / np.sqrt(800)


@pytest.mark.parametrize("rate", ["constant", "growing"])
def test_a_prevalent_cohort(rate):
    """docs/guides/prevalent-cohorts.md: durations by their length, or by how long they had lasted on the day."""
    rng, found = np.random.default_rng(0), {"by length": [], "by entry": [], "by rate": []}
    met = []
    for _ in range(300):
        began = 60 * rng.random(20_000) if rate == "constant" else rng.exponential(3.0, 20_000)
        duration = 1 + rng.gamma(2, 1, 20_000)
        frame = pd.DataFrame({"duration": duration, "lasted": began})[duration > began].head(400)
        met.append(frame["duration"].mean())
        chance = "duration" if rate == "constant" else "1 - exp(-duration / 3)"
        biases = {"by length": "duration", "by entry": vardi.window("duration", "lasted", None), "by rate": chance}
        for name, bias in biases.items():
            fit = vardi.debias({"met": frame}, {"met": bias}, on_unidentified="largest")  # the longest may stand alone
            found[name].append(fit.expectation("duration"))
    print(f"{rate}: as met {np.mean(met):.2f}")
    table = {name: shown(name, summary(ones, 3.0)) for name, ones in found.items()}
    for name in ("by entry", "by rate"):
        assert abs(table[name][3] - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 300)
        assert abs(table[name][0] - 3.0) < 4 * table[name][2] / np.sqrt(300)
    if rate == "growing":
        assert table["by length"][3] < 0.5
