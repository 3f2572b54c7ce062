"""What is known beside what the samples say: the lines, the verdict, and the remedy of a contradiction."""

from __future__ import annotations

import math
import pickle
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

import vardi

KnownLine = type(vardi.debias({"a": np.arange(4.0)}, {"a": 1}, known={"x": 1.5}).known.lines[0])
AGE = KnownLine("age", 41.2, 0.3, 43.0, 0.4, ("age",))
OLD = KnownLine("age > 65", 0.2, 0.0, 0.25, 0.02, ("age",))
NORTH = KnownLine("region = N", 0.2, 0.0, 0.31, 0.01, ("region",), ("region", "N"))
SOUTH = KnownLine("region = S", 0.8, 0.0, 0.69, 0.01, ("region",), ("region", "S"))
YOUNG = KnownLine("group = young", 0.5, 0.0, 0.56, 0.02, ("group",), ("group", "young"))
PANEL = KnownLine("panel", 0.4, 0.0, 0.5, 0.01)
UNTOLD = KnownLine("north", 0.3, 0.0, 0.3, 0.0)


def check(*lines, pvalue=1e-9, samples=("panel",)):
    return vardi.KnownCheck(lines, 40.0, len(lines), pvalue, 1e-13, samples)


def test_z_counts_both_errors():
    assert AGE.z == pytest.approx(1.8 / 0.5)
    assert NORTH.z == pytest.approx(11.0)
    assert math.isnan(UNTOLD.z)
    assert math.isnan(replace(AGE, stderr=math.nan).z)


@pytest.mark.parametrize(
    ("lines", "samples", "remedy"),
    [
        (
            (NORTH, SOUTH),
            ("panel",),
            "If the selection of 'panel' depends on region, declare it: vardi.cells('region').",
        ),
        (
            (NORTH, SOUTH, YOUNG, replace(OLD, estimated=0.21)),
            ("panel",),
            "If the selection of 'panel' depends on region and group, declare it: vardi.cells('region', 'group').",
        ),
        (
            (NORTH, replace(YOUNG, estimated=0.501)),
            ("panel", "web"),
            "If the selection of a sample depends on region, declare it: vardi.cells('region').",
        ),
        (
            (AGE, UNTOLD),
            ("panel",),
            "If the selection of 'panel' depends on age, declare it: vardi.exponential_tilt('age').",
        ),
        (
            (OLD, replace(AGE, estimated=41.0)),
            ("panel",),
            "If the selection of 'panel' depends on age, declare it: vardi.exponential_tilt('age > 65').",
        ),
    ],
)
def test_a_contradiction_names_the_remedy(lines, samples, remedy):
    verdict = check(*lines, samples=samples).verdict
    assert verdict.startswith("The samples contradict what is known (chi2 = 40, df = ")
    assert verdict.endswith(f"A bias or a known value is wrong, or they describe different populations. {remedy}")


def test_a_bias_that_is_contradicted_has_no_such_remedy():
    verdict = check(PANEL).verdict
    assert "the largest discrepancy is in 'panel': 0.5 ± 0.01 by the samples, 0.4 as known." in verdict
    assert verdict.endswith("they describe different populations.")


def test_what_is_not_contradicted():
    quiet = check(AGE, pvalue=0.3)
    assert not quiet.contradicted
    assert quiet.verdict == (
        "The samples do not contradict what is known (chi2 = 40, df = 1, p = 0.3); the largest discrepancy is in "
        "'age': 43 ± 0.4 by the samples, 41.2 as known."
    )
    assert check(UNTOLD, pvalue=math.nan).verdict == (
        "The samples on their own say nothing about what is known, so it cannot be tested."
    )
    assert not check(UNTOLD, pvalue=math.nan).contradicted


def test_the_summary_is_a_table_in_eighty_columns():
    text = check(AGE, NORTH, UNTOLD, replace(OLD, label="x" * 200), replace(OLD, stderr=math.nan)).summary()
    assert max(map(len, text.splitlines())) <= 80
    table = text.partition("\n\n")[2].splitlines()
    assert table[0].split() == ["mean", "of", "known", "by", "the", "samples", "z"]
    assert table[1].split() == ["age", "41.20", "±", "0.30", "43.00", "±", "0.40", "+3.6"]
    assert table[2].split() == ["region", "=", "N", "0.2", "0.310", "±", "0.010", "+11.0"]
    assert table[3].split() == ["north", "0.3", "not", "identified"]
    assert table[-1].split()[-2:] == ["no", "error"]
    assert sum(line.count("x") for line in table) == 200  # which go on from line to line
    many = check(*[NORTH] * 28)
    assert str(many).endswith("... and 8 more")


def test_lines_of_known_values():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.uniform(30, 50, 200), "region": rng.choice(["N", "S"], 200, p=[0.2, 0.8])})
    known = {"age": (39.0, 0.3), "panel": 39.2, "region": {"N": 0.2, "S": 0.8}}
    found = vardi.debias({"panel": rows}, {"panel": "age"}, known=known).known
    told = [(line.label, line.known, line.known_stderr, line.columns, line.margin) for line in found.lines]
    assert told == [
        ("age", 39.0, pytest.approx(0.3), ("age",), None),
        ("panel", 39.2, 0.0, (), None),
        ("region = N", 0.2, 0.0, ("region",), ("region", "N")),
        ("region = S", 0.8, 0.0, ("region",), ("region", "S")),
    ]
    assert pickle.loads(pickle.dumps(found)) == found
    assert asdict(found)["lines"][2]["margin"] == ("region", "N")


def test_a_fit_says_which_selection_to_declare():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"region": rng.choice(["N", "S"], 500, p=[0.5, 0.5])})
    with pytest.warns(vardi.ContradictedKnownWarning) as caught:
        fit = vardi.debias({"panel": rows}, {"panel": 1}, known={"region": {"N": 0.2, "S": 0.8}})
    text = str(caught[0].message)
    assert "If the selection of 'panel' depends on region, declare it: vardi.cells('region')." in text
    assert text.endswith("The weights meet the known values nevertheless. fit.known has the details.")
    assert fit.known.contradicted
    assert fit.known.samples == ("panel",)


@pytest.mark.parametrize("family", ["logistic(x)", "exponential_tilt(x)", "steps(x, [2, 4])"])
def test_a_known_normaliser_of_a_bias_with_parameters_is_compared_with_that_of_the_samples(family):
    """Both the weights and the parameters of the bias move it: its error is that of the normaliser."""
    rng = np.random.default_rng(0)
    x = rng.gamma(3.0, 1.0, 4000)
    drawn = {"plain": x[:300], "panel": rng.choice(x, 400, p=(law := 1 / (1 + np.exp(3 - x))) / law.sum())}
    samples = {name: pd.DataFrame({"x": values}) for name, values in drawn.items()}
    biases = {"plain": 1, "panel": family}
    wanted = vardi.debias(samples, biases).normalisers()["panel"]
    line = vardi.debias(samples, biases, known={"panel": (wanted.value, wanted.stderr)}).known.lines[0]
    assert (line.estimated, line.stderr) == pytest.approx((wanted.value, wanted.stderr), rel=1e-6)
    assert line.z == pytest.approx(0.0, abs=1e-6)
