"""What is said of columns that only some samples have recorded: summary, diagnostics, report, pictures."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import vardi
from vardi.report import compute, to_html

BIASES = {"survey": 1, "panel": "100 - age", "old": "(100 - age) * (age > 50)"}
HOLDERS = {"memory": lambda rows: rows, "polars": lambda rows: pl.from_pandas(rows).lazy()}


@pytest.fixture(scope="module")
def samples():
    """Return a survey that asked for spending, a panel that did not, and a panel of the old with their pensions."""
    rng = np.random.default_rng(0)
    age = {"survey": rng.uniform(20, 80, 200), "panel": 20 + 60 * rng.beta(1, 1.5, 300), "old": rng.uniform(50, 80, 80)}
    frames = {name: pd.DataFrame({"age": own}) for name, own in age.items()}
    spent = 2.0 * age["survey"] + rng.normal(0, 10, 200)
    brand = np.where(spent > 100, "A", "B")
    frames["survey"] = frames["survey"].assign(spent=spent, buys=spent > 100, brand=brand)
    frames["old"] = frames["old"].assign(pension=rng.gamma(3.0, size=80))
    return frames


@pytest.fixture(scope="module", params=["memory", pytest.param("polars", marks=pytest.mark.long)])
def fit(request, samples):
    return vardi.debias({name: HOLDERS[request.param](rows) for name, rows in samples.items()}, BIASES)


@pytest.fixture(scope="module")
def report(fit):
    return compute(fit)


def test_a_report_shows_them_with_the_samples_that_they_come_from(fit, report, samples):
    facts = {variable.name: variable for variable in report.variables}
    numeric = ["age", "spent", "buys"]
    assert list(facts) == ([*numeric, "brand: A", "brand: B"] if fit.solved.data.in_memory else numeric)
    for name in ("spent", "buys"):
        expected = fit.expectation(name)
        assert facts[name].among == expected.among == ("survey",)
        assert facts[name].debiased == pytest.approx(expected.value, rel=1e-10)
        assert facts[name].stderr == pytest.approx(expected.stderr, rel=1e-8)
        assert facts[name].pooled == pytest.approx(samples["survey"][name].mean(), rel=1e-12)
    mean, square = fit.expectation("spent").value, fit.expectation("spent ** 2").value
    assert facts["spent"].spread == pytest.approx(np.sqrt(square - mean**2))
    assert facts["age"].among == ()
    assert [row.name for row in report.next_rows] == ["age"]
    drawn = {one.name: one for one in report.distributions}
    assert list(drawn) == ["age", "spent (from survey)"]
    cdf, band = fit.cdf("spent"), drawn["spent (from survey)"]
    x = np.array(band.x)[[20, 60]]
    np.testing.assert_allclose(np.array(band.debiased)[[20, 60]], [cdf(float(one)).value for one in x], atol=0.01)
    assert any(low is not None for low in band.low)
    html = to_html(report)
    assert 'rowheader">spent <small>from survey</small></th>' in html
    assert "Not shown: pension (" in html


def test_samples_that_do_not_cover_the_pool_are_said_with_the_rows(fit, report):
    note = report.variables_note
    where = "not row 1 of 'survey', where age is" if fit.solved.data.in_memory else "rows of 'survey'"
    assert "Not shown: pension ('old' could not have drawn all rows of the pool: not " in note
    assert where in note
    with pytest.raises(vardi.ImpossibleRowError, match="'old' could not have drawn all rows of the pool"):
        compute(fit, variables=["age", "pension"])


def test_named_variables_of_a_report_may_be_expressions_of_them(fit):
    facts = compute(fit, variables=["spent > 100", "spent - age"]).variables
    assert [one.among for one in facts] == [("survey",)] * 2
    assert facts[1].debiased == pytest.approx(fit.expectation("spent - age").value, rel=1e-10)


def test_summary_and_diagnostics(samples):
    fit = vardi.debias(samples, BIASES)
    words = " ".join(fit.summary().split())
    spent = fit.expectation("spent")
    assert f"spent (from survey) {samples['survey']['spent'].mean():.5g} {spent.value:.4g} ± " in words
    assert "Left out because only some samples record them: pension. 'old' could not have drawn all" in words
    assert ">spent (from survey)</th>" in fit._repr_html_()
    columns = {column.name: column for column in fit.diagnostics().columns}
    assert list(columns) == ["age", "spent"]
    assert columns["spent"].stderr == pytest.approx(spent.stderr, rel=1e-10)
    assert columns["spent"].gain == {}
    assert columns["age"].collect_next in samples


def test_single_rows_without_a_value_are_left_out_and_counted(samples):
    gap = samples["survey"]["spent"].where(samples["survey"].index != 3)
    fit = vardi.debias({**samples, "survey": samples["survey"].assign(spent=gap)}, BIASES)
    assert "Left out because of missing or infinite values: spent (1)." in fit.summary()
    assert "Not shown: spent (missing or infinite values" in compute(fit).variables_note
    with pytest.raises(vardi.MissingValuesError, match=r"^1 of the values of 'spent' .* \(row 3 of 'survey'\)"):
        compute(fit, variables=["spent"])


def test_labelled_rows_are_told_apart_by_their_label(samples):
    samples = {**samples, "survey": samples["survey"].drop(columns="buys")}  # pandas makes objects of truths with gaps
    pool = pd.concat([rows.assign(s=name) for name, rows in samples.items()], ignore_index=True)
    apart, together = compute(vardi.debias(samples, BIASES)), compute(vardi.debias(pool, BIASES, source="s"))
    for one, other in zip(apart.variables, together.variables, strict=True):
        assert (one.name, one.among) == (other.name, other.among)
        np.testing.assert_allclose([one.debiased, one.stderr], [other.debiased, other.stderr], rtol=1e-8)


@pytest.mark.long
def test_a_frame_of_an_engine_without_any_value_lacks_the_column(samples):
    rows = {**samples, "panel": samples["panel"].assign(spent=np.nan)}
    report = compute(vardi.debias({name: pl.from_pandas(one).lazy() for name, one in rows.items()}, BIASES))
    assert {one.name: one.among for one in report.variables}["spent"] == ("survey",)


def test_that_known_values_are_of_all_samples_is_said(samples):
    fit = vardi.debias(samples, BIASES, known={"age": (52.0, 1.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("error", vardi.KnownOfAllWarning)
        report = compute(fit)
    said = "The means of spent, buys, brand: A, brand: B come from samples whose weights alone do not meet the known"
    assert report.note_on_some.startswith(said)
    assert report.note_on_some in to_html(report).replace("&#39;", "'")


def test_pictures(samples):
    plots = pytest.importorskip("matplotlib") and vardi.plots
    fit = vardi.debias(samples, BIASES)
    drawn = plots.CdfDisplay.from_fit(fit, "spent")
    np.testing.assert_array_equal(drawn.x, np.sort(samples["survey"]["spent"]))
    assert drawn.ax_.get_xlabel() == "spent (from survey)"
    labels = [one.get_text() for one in plots.LoveDisplay.from_fit(fit).ax_.get_yticklabels()]
    assert sorted(labels) == ["age", "spent (from survey)"]
