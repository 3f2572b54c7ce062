"""The report: what it says is computed as values, and laid out with every text escaped."""

import dataclasses
import hashlib
import math
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pools import along_windows, by_name, houses_by_the_river, said

import vardi
from vardi.report import compute, to_html

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def houses():
    return houses_by_the_river()


@pytest.fixture(scope="module")
def strata():
    design = vardi.datasets.strata()
    return vardi.debias(design.samples, design.biases)


@pytest.fixture(scope="module")
def weak():
    rng = np.random.default_rng(0)
    samples = {"low": np.append(rng.uniform(0, 0.5, 100), 50.0), "high": rng.uniform(0.2, 1, 100)}
    return vardi.debias(samples, {"low": "x <= 0.5 or x > 2", "high": "x >= 0.2"})


# --- numbers


def test_samples_are_those_of_the_fit(houses):
    report = compute(houses)
    agency, national, river = report.samples
    normaliser = houses.normalisers()["agency"]
    diagnosed = houses.diagnostics(()).samples[1]
    assert (agency.name, agency.bias, agency.rows) == ("agency", "MEDV <= 22", 200)
    assert (agency.normaliser, agency.stderr) == pytest.approx((normaliser.value, normaliser.stderr))
    assert (national.effective, national.largest_weight) == pytest.approx(
        (diagnosed.effective, diagnosed.largest_weight)
    )
    assert (national.share, national.weight_share) == pytest.approx((diagnosed.share, diagnosed.weight_share))
    assert (river.rows, river.effective, river.left_out) == (0, 0.0, False)
    assert math.isnan(river.largest_weight)
    assert report.effective == pytest.approx(houses.effective_rows())


def test_variables_are_those_of_the_diagnostics(houses):
    rows = compute(houses).variables
    assert [row.name for row in rows][:2] == ["CHAS", "MEDV"]
    for diagnosed in houses.diagnostics().columns:
        row = by_name(rows, diagnosed.name)
        assert (row.pooled, row.debiased, row.stderr, row.shift, row.worth, row.df) == pytest.approx(
            (
                diagnosed.pooled,
                diagnosed.debiased,
                diagnosed.stderr,
                diagnosed.difference,
                diagnosed.equivalent,
                diagnosed.df,
            )
        )
    price, estimate = by_name(rows, "MEDV"), houses.expectation("MEDV")
    assert (price.low, price.high) == pytest.approx(estimate.interval)
    assert sum(price.carried) == pytest.approx(1.0)
    assert by_name(rows, "CHAS").is_share
    assert not price.is_share


def test_distribution_and_band_are_those_of_the_cdf(strata):
    drawn = compute(strata).distributions[0]
    cdf, x = strata.cdf("x0"), np.array(drawn.x)
    assert drawn.name == "x0"
    assert len(drawn.x) <= 200
    np.testing.assert_allclose(drawn.debiased, cdf(x).values, atol=1e-12)
    pooled = np.concatenate([rows[:, 0] for rows in vardi.datasets.strata().samples.values()])
    np.testing.assert_allclose(drawn.pooled, (pooled[:, None] <= x).mean(axis=0), atol=1e-12)
    band = cdf.band()
    place = [k for k, value in enumerate(drawn.x) if value in band.x]
    assert len(place) > 20
    at = np.searchsorted(band.x, x[place])
    np.testing.assert_allclose([drawn.low[k] for k in place], band.low[at], atol=1e-12)
    np.testing.assert_allclose([drawn.high[k] for k in place], band.high[at], atol=1e-12)
    assert drawn.low[0] is None  # the band leaves the ends out
    inside = [k for k, end in enumerate(drawn.low) if end is not None]
    np.testing.assert_allclose([[drawn.low[k] for k in inside], [drawn.high[k] for k in inside]], band(x[inside]))


@pytest.mark.parametrize("constant", [5.0, 0.1, 1e6])
def test_a_constant_column_moves_by_nothing(constant):
    rng = np.random.default_rng(0)
    samples = {name: pd.DataFrame({"x": rng.uniform(1, 2, 40), "c": constant}) for name in "ab"}
    report = compute(vardi.debias(samples, {"a": "x", "b": 1}))
    row = by_name(report.variables, "c")
    assert (row.shift, row.spread, row.stderr) == (0.0, 0.0, 0.0)
    assert np.isnan(row.worth)
    assert row.carried == ()
    assert "c" not in [one.name for one in report.next_rows]
    assert "No mean moves by 0.1 standard deviations or more" in said(report)


def test_a_column_that_varies_little_beside_its_largest_value_is_not_constant():
    x = 10.0 ** np.linspace(-8, 8, 40)
    row = by_name(compute(vardi.debias({"a": pd.DataFrame({"x": x})}, {"a": "x ** 2"})).variables, "x")
    assert 0 < row.spread < 1e-12 * x.max()
    assert row.shift == pytest.approx((row.debiased - x.mean()) / row.spread)


@pytest.mark.parametrize("scale", [2.0**1000, 2.0**-1000], ids=["large", "small"])
def test_values_whose_squares_are_no_numbers(scale):
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 2, 60)
    plain, scaled = (
        compute(vardi.debias({"a": pd.DataFrame({"x": x, "y": y})}, {"a": "x"}), variables=["y"])
        for y in (x - 1.5, (x - 1.5) * scale)
    )
    (row,), (other,) = plain.variables, scaled.variables
    for name in ("pooled", "debiased", "stderr", "low", "high", "spread"):
        assert getattr(other, name) == getattr(row, name) * scale, name
    for name in ("shift", "worth", "df", "carried"):
        assert getattr(other, name) == getattr(row, name), name
    assert "nan" not in re.sub(r"<style.*?</style>", "", to_html(scaled), flags=re.DOTALL)


def test_overlap_is_that_of_the_verdict(strata):
    overlap = compute(strata).overlap
    assert overlap.names == ("low", "middle", "high")
    links = {(link.first, link.second): link for link in overlap.links}
    assert (links["low", "middle"].first_in_second, links["low", "middle"].second_in_first) == (90, 33)
    assert [link.weakest for link in overlap.links if (link.first, link.second) == ("middle", "high")] == [True]
    assert overlap.bridging == pytest.approx(strata.trust.bridging)
    assert sum(link.bridging for link in overlap.links if "high" in (link.first, link.second)) == pytest.approx(
        strata.trust.bridging
    )
    assert overlap.shares[0] == pytest.approx((1.0, 33 / 120, 0.0))
    assert not overlap.complete


def test_where_all_rows_are_shared_bridging_rows_tell_the_weakest_link():
    design = vardi.datasets.length_bias(seed=1)
    overlap = compute(vardi.debias(design.samples, design.biases)).overlap
    assert overlap.complete
    weakest = next(link for link in overlap.links if link.weakest)
    joined = sorted(link.bridging for link in overlap.links)
    assert weakest.bridging == joined[1]  # the smallest edge of the best tree of three
    assert "bridging rows" in to_html(compute(vardi.debias(design.samples, design.biases)))


def test_neighbours_stand_near_one_another():
    rng = np.random.default_rng(1)
    order = rng.permutation(12).tolist()
    samples = {f"w{k}": rng.uniform(k, k + 2, 60) for k in order}
    names = compute(vardi.debias(samples, {f"w{k}": f"{k} <= x <= {k + 2}" for k in order})).overlap.names
    places = [int(name[1:]) for name in names]
    assert places in (sorted(places), sorted(places, reverse=True))


def test_weights_add_up(houses, strata):
    for fit in (houses, strata):
        weights = compute(fit).weights
        assert sum(sum(bar.rows) for bar in weights.bars) == len(fit)
        assert sum(bar.weight_share for bar in weights.bars) == pytest.approx(1.0)
        assert weights.is_discrete
        assert weights.largest[0][2] == pytest.approx(np.max(np.asarray(fit.weights)))
    smooth = vardi.datasets.length_bias(seed=0)
    weights = compute(vardi.debias(smooth.samples, smooth.biases)).weights
    assert not weights.is_discrete
    assert sum(sum(bar.rows) for bar in weights.bars) == 500
    assert sum(bar.weight_share for bar in weights.bars) == pytest.approx(1.0)


def test_top_rows_carry_their_share():
    smooth = vardi.datasets.length_bias(seed=0)
    fit = vardi.debias(smooth.samples, smooth.biases)
    weights = compute(fit).weights
    assert weights.top_rows == 10
    assert weights.top_share == pytest.approx(np.sort(fit.weights)[-10:].sum() / fit.weights.sum())


def test_counts_are_rows_that_were_repeated():
    design = vardi.datasets.strata(sizes=(60, 50, 40), seed=3)
    counts = {name: np.arange(len(rows)) % 3 + 1 for name, rows in design.samples.items()}
    repeated = {name: np.repeat(rows, counts[name], axis=0) for name, rows in design.samples.items()}
    a = compute(vardi.debias(design.samples, design.biases, counts=counts))
    b = compute(vardi.debias(repeated, design.biases))
    for one, other in zip(a.samples, b.samples, strict=True):
        assert (one.rows, one.effective, one.weight_share) == pytest.approx(
            (other.rows, other.effective, other.weight_share)
        )
    for one, other in zip(a.variables, b.variables, strict=True):
        assert (one.pooled, one.debiased, one.stderr) == pytest.approx((other.pooled, other.debiased, other.stderr))
    assert [sum(bar.rows) for bar in a.weights.bars] == pytest.approx([sum(bar.rows) for bar in b.weights.bars])
    assert (a.weights.top_rows, a.weights.top_share) == pytest.approx((b.weights.top_rows, b.weights.top_share))
    np.testing.assert_allclose(a.distributions[0].pooled, b.distributions[0].pooled)
    assert "counts=..." in a.recipe.code


# --- words


def test_a_sound_fit_is_called_sound(strata):
    headline = compute(strata).headline
    assert headline.level == "good"
    assert headline.text == "The 3 samples can be compared, and together they represent the population."
    assert "the weakest cut: 15 rows bridge 'high' and 2 other samples." in said(compute(strata))
    assert "The mean of x0 is 0.477 ± 0.035 in the population, while the pooled rows alone give 0.4288" in said(
        compute(strata)
    )


def test_a_row_that_carries_an_error_is_warned_of(houses):
    report = compute(houses, variables=["CRIM"])
    assert report.headline.level == "doubt"
    assert report.headline.points[0].text.startswith("A few rows dominate the mean of 'CRIM'")
    assert report.headline.text == "The debiased sample can be used with care: read the warnings first."


def test_withheld_errors_are_said_and_not_shown(weak):
    report = compute(weak, variables=["x"])
    assert report.headline.level == "bad"
    assert report.headline.text.startswith("Some estimates rest on too few rows for standard errors, and are rough.")
    assert np.isnan([(row.stderr, row.low) for row in report.variables]).all()
    assert report.next_rows == ()
    assert report.advice[0].text.startswith("Rows that both sides of the weakest cut could draw, or a new sample")
    html = to_html(report)
    assert "error withheld" in html
    assert not re.search(r">[^<]*\bnan\b[^<]*<", html)


def test_a_contradicted_bias_is_the_first_news():
    design = vardi.datasets.length_bias(seed=1)
    report = compute(vardi.debias(design.samples, {**design.biases, "square": 1}))
    assert report.headline.level == report.check.level == "bad"
    assert report.headline.text.startswith("The samples contradict their declared biases. Do not use the weights")
    assert "p below 0.0001" in report.headline.points[0].text
    assert report.check.rows[0].pvalue == min(row.pvalue for row in report.check.rows)


def test_a_small_p_value_is_a_reason_to_look():
    design = vardi.datasets.length_bias(seed=1)
    report = compute(vardi.debias(design.samples, {**design.biases, "square": "x"}))
    assert report.headline.level == report.check.level == "doubt"
    assert report.headline.text == (
        "Look at the test of the declared biases: p = 0.00014, and 1 in 7,000 right fits has one as small."
    )
    assert "Look at how the rows of 'square' were drawn" in report.headline.points[0].text


def test_the_verdict_rests_on_what_was_asked_for(houses):
    asked = compute(houses, variables=["CRIM"])
    assert compute(houses).headline.level == "good"
    assert compute(houses).trust.messages == ()
    assert asked.rough == ""
    assert compute(houses).rough.startswith("Errors that rest on few rows: CRIM (tail index ")


def test_what_cannot_be_told_is_told(houses):
    unknowns = " ".join(compute(houses).unknowns)
    assert "41% of the rows of 'national' no other sample could have drawn." in unknowns
    assert "a large p-value validates nothing" in unknowns
    assert "no test of these data can tell whether that is all of it" in unknowns


def test_what_to_collect_next_is_a_bound_that_a_larger_sample_keeps():
    design = vardi.datasets.strata(sizes=(350, 120, 130), seed=2)
    row = by_name(compute(vardi.debias(design.samples, design.biases)).next_rows, "x0")
    assert (row.sample, row.more) == ("middle", 60)
    errors = []
    for seed in range(20):  # the design with 60 rows more, as it would come out
        larger = vardi.datasets.strata(sizes=(350, 180, 130), seed=seed)
        errors.append(vardi.debias(larger.samples, larger.biases).expectation("x0").stderr)
    assert row.stderr_then < row.stderr
    assert np.mean(errors) < row.stderr
    assert np.mean(errors) == pytest.approx(row.stderr_then, rel=0.1)


@pytest.mark.filterwarnings("ignore::vardi.SharedUnitsWarning")
def test_samples_left_out_are_named():
    samples = {"a": np.arange(50.0), "b": np.arange(40.0), "c": np.arange(100.0, 120.0)}
    with pytest.warns(vardi.DroppedSamplesWarning):
        fit = vardi.debias(samples, {"a": "x < 60", "b": "x < 60", "c": "x > 99"}, on_unidentified="largest")
    report = compute(fit)
    assert [sample.left_out for sample in report.samples] == [False, False, True]
    assert "Left out: 'c', which cannot be compared with the others." in said(report)
    assert "on_unidentified='largest'" in report.recipe.code
    assert "'c': ...,  # left out" in report.recipe.code
    assert "left out</span>" in to_html(report)


def test_one_sample_alone():
    report = compute(vardi.debias({"only": np.arange(10.0, 90.0)}, {"only": "x"}))
    assert report.headline.text.startswith(
        "One sample, weighted by the inverse of its bias, represents the population."
    )
    assert math.isnan(report.overlap.bridging)
    assert "A single sample is compared with no other" in to_html(report)


def test_one_row_alone():
    report = compute(vardi.debias({"p": np.array([2.0])}, {"p": 1}))
    assert report.headline.text.startswith("Some estimates rest on too few rows for standard errors, and are rough.")
    assert "There is one row, and its weight is 1." in said(report)
    assert math.isnan(report.overlap.bridging)
    page = " ".join(re.sub("<[^>]*>", "", to_html(report)).split())
    assert "One row carries all weight." in page
    assert not re.search(r"\b1 rows|\b1 row are|\b1 row of largest weight carry\b|join the samples", page)


def test_one_row_that_carries_nearly_all_weight():
    report = compute(vardi.debias({"p": pd.DataFrame({"x": [1e-9, 1.0, 2.0]})}, {"p": "x"}))
    assert "3 rows are worth about one equal one." in said(report)
    assert "are worth about <b>1</b> row of equal weight." in to_html(report)


def test_known_shares_are_said():
    rng = np.random.default_rng(0)
    samples = {"north": rng.uniform(0, 5, 80), "south": rng.uniform(5.1, 14, 90)}
    fit = vardi.debias(samples, {"north": "x <= 5", "south": "x > 5"}, known={"north": 0.25})
    report = compute(fit)
    assert "Known values were used. The samples on their own say nothing about what is known" in said(report)
    assert "known = {\n    'north': 0.25,\n}\nfit = vardi.debias(samples, biases, known=known)" in report.recipe.code
    assert "The samples share no rows." in to_html(report)


def test_the_recipe_gives_known_values_back_as_they_were_given():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.gamma(3.0, size=60), "s": rng.choice(["f", "m"], 60)})
    known = {"x > 2.5": 0.5, "s": {"f": 0.5, "m": 0.5}}
    fit = vardi.debias({"all": rows}, {"all": 1}, known=known)
    code = compute(fit).recipe.code
    start = code.index("known = {")
    found = {}
    exec(code[start : code.index("\n}", start) + 2], found)
    assert found["known"] == known


def test_green_only_where_the_biases_were_tested(strata):
    alone = compute(vardi.debias({"only": np.arange(10.0, 90.0)}, {"only": "x"}))
    assert (compute(strata).headline.level, alone.headline.level) == ("good", "fact")
    assert 'class="verdict fact"' in to_html(alone)


def test_a_weak_link_is_weak_in_text_graph_and_advice(weak, strata):
    bad, sound = compute(weak, variables=["x"]), compute(strata)
    assert bad.overlap.weak
    assert any("weakest cut" in one.text for one in bad.advice)
    assert "That link is weak" in to_html(bad)
    assert 'class="graph weak"' in to_html(bad)
    assert not sound.overlap.weak
    assert "That link is not weak" in to_html(sound)
    assert 'class="graph weak"' not in to_html(sound)


def test_where_nothing_has_to_be_done_that_is_said(strata):
    report = compute(strata)
    assert report.advice == ()
    assert "Nothing has to be done: no link is weak, no error rests on a few rows, and the samples do not" in to_html(
        report
    )
    assert report.gains[0].text == "More rows of 'middle'."


def test_a_contradiction_is_the_first_thing_to_look_into():
    design = vardi.datasets.length_bias(seed=1)
    report = compute(vardi.debias(design.samples, {**design.biases, "square": "x"}))
    worst = report.check.rows[0].name
    assert report.advice[0].text == f"How the rows of '{worst}' were really drawn: its declared bias fits worst."


def test_wrong_biases_move_means_as_the_sensitivity_says(houses):
    report = compute(houses, variables=["MEDV", "CHAS > 0"])
    price, found = by_name(report.sensitive, "MEDV"), houses.sensitivity("MEDV", [1.1, 1.5])
    ends = [price.if_wrong_by(factor) for factor in (1.1, 1.5)]
    np.testing.assert_allclose(ends, np.column_stack([found.linear_lower, found.linear_upper]))
    assert price.factor_to(price.stderr) == pytest.approx(found.one_stderr_gamma)
    tipping = price.factor_to(abs(price.debiased - price.pooled))
    assert price.if_wrong_by(tipping)[0] == pytest.approx(price.pooled)
    assert "1.594" in to_html(report)
    low, high = by_name(report.sensitive, "CHAS > 0").if_wrong_by(1e9)
    assert 0.0 == low < high == 1.0


def test_histograms_are_the_differences_of_the_distribution_functions(strata):
    drawn = compute(strata).distributions[0]
    cdf, edges = strata.cdf("x0"), np.array(drawn.bins.edges)
    inside = cdf(edges).values
    np.testing.assert_allclose(drawn.bins.debiased, np.diff(inside), atol=1e-12)
    counts = pd.DataFrame({"n": [0.0] * 5 + [1.0] * 20 + [2.0] * 15 + [3.0] * 10})
    (whole,) = compute(vardi.debias({"a": counts}, {"a": 1})).distributions
    assert whole.bins.edges == (-0.5, 0.5, 1.5, 2.5, 3.5)
    assert whole.bins.pooled == pytest.approx((0.1, 0.4, 0.3, 0.2))


def test_many_samples_that_share_all_rows_and_are_of_one_size_are_told_so_and_not_drawn():
    rng = np.random.default_rng(0)
    samples = {f"s{k}": pd.DataFrame({"x": rng.uniform(1.0, 2.0, 20)}) for k in range(25)}
    report = compute(vardi.debias(samples, {name: f"x ** {k % 3}" for k, name in enumerate(samples)}))
    html = to_html(report)
    assert 'class="heat"' not in html
    assert "Every bias allows every row: each of the 25 samples could have drawn any row" in html
    assert "<dt>Rows of a sample</dt><dd>20</dd>" in html
    assert not any("fewest rows" in one.why for one in report.standouts)
    assert " and 24 other samples." in said(report)
    assert "</b> and the 24 other samples, with " in html


def test_what_is_said_of_one_sample_takes_the_number_of_samples_into_account():
    rng = np.random.default_rng(2)
    samples = {f"s{k}": pd.DataFrame({"x": rng.uniform(1.0, 2.0, 20)}) for k in range(25)}
    report = compute(vardi.debias(samples, dict.fromkeys(samples, 1)))
    rows = report.check.rows
    assert rows[0].pvalue < 0.01
    assert {row.outcome for row in rows} == {"not contradicted"}
    samples["s3"] = samples["s3"] / 4 + 1.5
    rows = compute(vardi.debias(samples, dict.fromkeys(samples, 1))).check.rows
    assert (rows[0].name, rows[0].outcome) == ("s3", "contradicted")


def test_many_samples_have_an_overview_and_a_second_page():
    report = compute(along_windows(60, rows=30))
    assert sum(len(group.lines) for group in report.groups) == 60
    assert [len(group.lines) for group in report.groups] == [12] * 5
    assert report.groups[0].name == "window 0 to window 11"
    assert {line.neighbour for line in report.groups[0].lines[1:2]} <= {"window 0", "window 2"}
    assert len({one.sample.name for one in report.standouts}) == len(report.standouts) > 0
    html = to_html(report)
    assert all(f">window {k}</th>" in html for k in range(60))
    assert compute(along_windows(20)).groups == ()


def test_a_study_is_repeated_by_its_command(strata, tmp_path):
    path = tmp_path / "my study.toml"
    path.write_bytes(b'title = "Strata"\n')
    report = compute(strata, study=path, date="2024-05-01")
    assert report.recipe.code == "vardi fit 'my study.toml' -o weights.parquet --report report.html"
    html = to_html(report)
    assert hashlib.sha256(b'title = "Strata"\n').hexdigest() in html
    assert "title = &#34;Strata&#34;" in html
    assert "study my study.toml · 2024-05-01" in html
    assert str(tmp_path) not in html


def test_declared_dependence_is_what_the_unknowns_speak_of():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(1, 2, 80), "house": np.repeat(np.arange(40), 2)})
    report = compute(vardi.debias({"a": frame}, {"a": "x"}, clusters="house"), variables=["x"])
    assert any("independent beyond that" in text for text in report.unknowns)
    assert not any("clusters= or series=" in text for text in report.unknowns)


# --- variables


def test_variables_that_were_asked_for(strata):
    report = compute(strata, variables=["x1", "x1 > 1"])
    assert [row.name for row in report.variables] == ["x1", "x1 > 1"]
    assert report.variables[1].is_share
    assert [one.name for one in report.distributions] == ["x1"]
    assert "variables=['x1', 'x1 > 1']" in report.recipe.code
    assert compute(strata, variables="x1").variables[0].debiased == pytest.approx(report.variables[0].debiased)


def test_variables_of_another_kind_are_refused(strata):
    with pytest.raises(vardi.MismatchError) as error:
        compute(strata, variables=3)
    assert str(error.value) == (
        "The variables were given as int. Give a list of columns and expressions, or a mapping from name to values."
    )
    with pytest.raises(vardi.MismatchError, match="The variables were given as list"):
        compute(strata, variables=[1, 2])


@pytest.mark.filterwarnings("ignore::vardi.SharedUnitsWarning")
def test_a_variable_with_gaps_is_refused_when_asked_for_and_named_when_not():
    frame = pd.DataFrame({"x": np.arange(40.0), "y": [np.nan, *range(39)]})
    fit = vardi.debias({"a": frame, "b": frame}, {"a": 1, "b": "x >= 0"})
    assert compute(fit).variables_note == "Not shown: y (missing or infinite values, or neither numbers nor text)."
    with pytest.raises(vardi.MissingValuesError):
        compute(fit, variables=["y"])


def test_categories_of_text_columns_and_what_is_left_out():
    rng = np.random.default_rng(0)
    kinds = np.array(["red", "green", None], dtype=object)[rng.integers(3, size=300)]
    frame = pd.DataFrame(
        {
            "x": rng.uniform(size=300),
            "colour": kinds,
            "many": [f"{k % 9}" for k in range(300)],
            "key": [f"id {k}" for k in range(300)],
            "flag": rng.uniform(size=300) < 0.5,
            "source": ["a"] * 150 + ["b"] * 150,
        }
    )
    report = compute(vardi.debias(frame, {"a": 1, "b": "x"}, source="source"))
    names = [row.name for row in report.variables]
    assert names[:2] == ["x", "flag"]
    assert {"colour: red", "colour: green", "colour: (missing)", "many: 3 others"} < set(names)
    shares = [row.debiased for row in report.categories["colour"]]
    assert sum(shares) == pytest.approx(1.0)
    assert [row.category for row in report.categories["many"]][-1] == "3 others"
    assert [row.name for row in report.means] == ["x", "flag"]
    assert '<section id="categories">' in to_html(report)
    red = by_name(report.variables, "colour: red")
    assert red.pooled == pytest.approx(np.mean(kinds == "red"))
    assert "Not shown: key (too many distinct texts)." in report.variables_note
    assert "Not shown: source (the label of the samples)." in report.variables_note
    assert "vardi.debias(rows, biases, source=...)" in report.recipe.code


@pytest.mark.filterwarnings("ignore::vardi.SharedUnitsWarning")
def test_many_columns_are_capped_and_the_cap_is_said():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 25)), columns=[f"c{k}" for k in range(25)])
    report = compute(vardi.debias({"a": frame, "b": frame}, {"a": 1, "b": "c0 > -9"}))
    assert len(report.variables) == 20
    assert report.variables_note == "5 more numeric columns are not shown; name columns in variables= to choose."
    assert len(report.distributions) == 6
    assert report.distributions_note.startswith("14 more columns are not drawn")


def test_samples_of_different_libraries_say_so():
    rows = np.arange(30.0)
    fit = vardi.debias({"a": pd.DataFrame({"x": rows}), "b": pl.DataFrame({"x": rows})}, {"a": 1, "b": "x >= 0"})
    assert "held by different libraries" in compute(fit).variables_note
    assert compute(fit, variables=["x"]).variables[0].pooled == pytest.approx(14.5)


# --- other fits


def test_a_fit_of_a_matrix():
    design = vardi.datasets.harmonic_oscillators(states=3, rows_per_state=100, seed=0)
    fit = vardi.debias_matrix(design.omega, design.source, log=True)
    report = compute(fit)
    assert report.log_scale
    assert report.variables == ()
    assert report.variables_note == "The fit has only biases, no columns. Give values by name in variables=."
    assert "vardi.debias_matrix(omega, source, log=True, names=['0', '1', '2'])" in report.recipe.code
    html = to_html(report)
    assert "The biases were given as a matrix." in html
    assert "log normaliser" in html
    with_values = compute(fit, variables={"position": design.rows})
    with warnings.catch_warnings(action="ignore"):
        expected = fit.expectation(design.rows)
    assert with_values.variables[0].debiased == pytest.approx(expected.value)
    assert not math.isnan(with_values.check.rows[0].pvalue)


@pytest.mark.parametrize("make", [vardi.datasets.house_prices, vardi.datasets.length_bias], ids=["cells", "densities"])
def test_lazy_fits_have_the_same_sections(make, tmp_path):
    design = make(seed=0)
    frames = {
        name: pl.from_pandas(rows) if isinstance(rows, pd.DataFrame) else pl.DataFrame({"x": rows})
        for name, rows in design.samples.items()
    }
    eager = compute(vardi.debias(frames, design.biases))
    fit = vardi.debias({name: frame.lazy() for name, frame in frames.items()}, design.biases)
    lazy = compute(fit)
    for one, other in zip((*lazy.variables, *lazy.samples), (*eager.variables, *eager.samples), strict=True):
        if hasattr(one, "law"):
            assert (one.df, one.tail_index) == pytest.approx((other.df, other.tail_index), rel=1e-8, nan_ok=True)
        for name, value in vars(other).items():
            if name == "law":
                continue
            found = getattr(one, name)
            assert found == (value if isinstance(value, str | dict) else pytest.approx(value, rel=1e-8)), name
    headings = [re.findall(r"<h[23][^>]*>(.*?)</h[23]>", to_html(report)) for report in (lazy, eager)]
    assert headings[0] == headings[1]
    assert len(headings[1]) > 4
    assert lazy.overlap.bridging == pytest.approx(eager.overlap.bridging)
    assert lazy.effective == pytest.approx(eager.effective)
    assert [bar.rows for bar in lazy.weights.bars] == [bar.rows for bar in eager.weights.bars]
    carried = [bar.weight_share for bar in eager.weights.bars]
    assert [bar.weight_share for bar in lazy.weights.bars] == pytest.approx(carried)
    assert lazy.weights.top_share == pytest.approx(eager.weights.top_share, rel=2e-3)  # to within a bin
    assert lazy.next_rows == tuple(
        dataclasses.replace(row, stderr=pytest.approx(row.stderr), stderr_then=pytest.approx(row.stderr_then))
        for row in eager.next_rows
    )
    pooled = pl.concat(frames.values())
    for drawn in lazy.distributions:
        values = pooled[drawn.name].to_numpy()
        np.testing.assert_allclose(drawn.pooled, (values[:, None] <= np.array(drawn.x)).mean(axis=0), atol=1e-12)
    assert [one.name for one in lazy.distributions] == [one.name for one in eager.distributions]
    assert lazy.check.text == eager.check.text
    assert [row.pvalue for row in lazy.check.rows] == pytest.approx([row.pvalue for row in eager.check.rows], rel=1e-6)
    html = fit.report(tmp_path / "lazy.html").read_text(encoding="utf-8")
    assert "nan" not in re.sub(r"<style.*?</style>", "", html, flags=re.DOTALL)


def test_lazy_columns_with_gaps_are_named():
    units = [f"unit {k}" for k in range(40)]
    frame = pl.DataFrame({"x": np.arange(40.0), "y": [None, *range(39)], "z": [np.inf, *range(39)], "t": units})
    fit = vardi.debias({"a": frame.lazy(), "b": frame.lazy()}, {"a": 1, "b": "x >= 0"})
    report = compute(fit)
    assert [row.name for row in report.variables] == ["x"]
    assert report.variables_note == (
        "Not shown: y, z (missing or infinite values). Not shown: t (too many distinct texts)."
    )


def test_categories_in_an_engine_are_those_of_memory():
    rng = np.random.default_rng(0)
    texts = np.array(["it's", '"b"', None, "", "d\\", *"efghij"], dtype=object)

    def drawn(kinds):
        return pl.Series(texts[rng.integers(kinds, size=90)].tolist(), dtype=pl.String)

    frames = {name: pl.DataFrame({"x": rng.uniform(1, 2, 90), "r": drawn(4), "many": drawn(11)}) for name in "ab"}
    eager, lazy = (
        compute(vardi.debias({name: make(frame) for name, frame in frames.items()}, {"a": 1, "b": "x"})).categories
        for make in (lambda frame: frame, pl.DataFrame.lazy)
    )
    assert eager.keys() == lazy.keys() == {"r", "many"}
    for name, own in eager.items():
        assert [one.category for one in lazy[name]] == [one.category for one in own]
        for one, other in zip(lazy[name], own, strict=True):
            assert (one.pooled, one.debiased, one.stderr) == pytest.approx((other.pooled, other.debiased, other.stderr))


def test_a_large_pool_is_bounded():
    rng = np.random.default_rng(0)
    rows = rng.gamma(3.0, size=(210_000, 3))
    report = compute(vardi.debias({"a": rows[:100_000], "b": rows[100_000:]}, {"a": 1, "b": "x0 >= 0"}))
    assert [one.low[50] is None for one in report.distributions] == [False, False, True]
    assert "Bands are computed for the first 2 columns only" in report.distributions_note
    assert len(to_html(report)) < 1_000_000


# --- the page


@pytest.mark.filterwarnings("ignore::vardi.SharedUnitsWarning")
def test_what_comes_from_data_is_escaped():
    frame = pd.DataFrame({HOSTILE: np.arange(60.0), "kind": [HOSTILE] * 30 + ["plain"] * 30})
    fit = vardi.debias({HOSTILE: frame, "b": frame}, {HOSTILE: f"`{HOSTILE}` >= 0", "b": 1})
    html = to_html(compute(fit, title=HOSTILE, date=HOSTILE))
    assert HOSTILE not in html
    assert html.count("<script>") == 1
    assert "<h1>&lt;script&gt;alert(1)&lt;/script&gt;</h1>" in html
    assert "kind: &lt;script&gt;" in html
    broken = {'" onload="alert(1)': frame, "'": frame}
    html = to_html(compute(vardi.debias(broken, dict.fromkeys(broken, 1))))
    assert 'onload="' not in html


def test_the_same_fit_gives_the_same_bytes(strata):
    design = vardi.datasets.strata()
    again = vardi.debias(design.samples, design.biases)
    assert to_html(compute(strata)) == to_html(compute(again))
    assert compute(strata) == compute(again)


def test_a_report_is_frozen(strata):
    report = compute(strata)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.title = "another"


def test_the_page_stands_alone(houses):
    html = to_html(compute(houses, title="House prices", date="1 May 2020"))
    assert html.startswith("<!DOCTYPE html>")
    assert "Content-Security-Policy\" content=\"default-src 'none';" in html
    assert not re.search(r"(src|href)=\"(?!#|data:,)", html)
    assert "style=" not in html
    assert "1 May 2020" in html
    for section in (
        "verdict",
        "overlap",
        "samples",
        "changes",
        "distributions",
        "weights",
        "check",
        "next",
        "reproduce",
    ):
        assert f'<section id="{section}"' in html
        assert f'href="#{section}"' in html
    assert "Vardi (1985)" in html
    assert f"vardi {vardi.__version__}" in html


def test_the_recipe_repeats_the_fit(houses):
    design = vardi.datasets.house_prices(seed=0)
    code = compute(houses).recipe.code
    assert "'agency': ...,  # 200 rows" in code
    runnable = re.sub(r"samples = \{.*?\n\}", "samples = given", code, flags=re.DOTALL).replace("fit.report", "str")
    scope = {"given": design.samples}
    exec(runnable, scope)
    assert scope["fit"].omegas == pytest.approx(houses.omegas)


def test_functions_as_biases_leave_a_blank_in_the_recipe():
    def twice(rows):
        return 2.0 * rows

    code = compute(
        vardi.debias({"a": np.arange(1.0, 40.0), "b": np.arange(1.0, 30.0)}, {"a": 1, "b": twice})
    ).recipe.code
    assert "'b': ...,  # " in code
    compile(code, "recipe", "exec")


# --- the file


def test_the_file_is_written_whole(strata, tmp_path):
    target = strata.report(tmp_path / "strata.html", title="Strata", variables=["x1"])
    assert target == tmp_path / "strata.html"
    assert target.read_text(encoding="utf-8") == to_html(compute(strata, title="Strata", variables=["x1"]))
    assert [path.name for path in tmp_path.iterdir()] == ["strata.html"]


def test_a_file_that_is_there_stays_unless_told_otherwise(strata, tmp_path):
    target = tmp_path / "strata.html"
    target.write_text("mine")
    with pytest.raises(vardi.OutputError, match=r"already exists, and is not overwritten\. Give overwrite=True"):
        strata.report(target)
    assert target.read_text() == "mine"
    strata.report(str(target), overwrite=True)
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_nothing_is_written_where_the_report_fails(strata, tmp_path):
    with pytest.raises(vardi.MismatchError):
        strata.report(tmp_path / "strata.html", variables=["nonsense"])
    assert list(tmp_path.iterdir()) == []


def test_weak_overlap_warns_in_the_report_and_not_beside_it(weak, tmp_path):
    with warnings.catch_warnings(action="error"):
        weak.report(tmp_path / "weak.html")


def test_estimated_parameters_are_said():
    rng = np.random.default_rng(0)
    samples = {"reference": rng.normal(size=300), "panel": rng.normal(1.0, size=400)}
    fit = vardi.debias(samples, {"reference": 1, "panel": "exponential_tilt(x)"})
    report = vardi.report.compute(fit)
    assert "The bias of 'panel' has parameters, estimated with the normalisers: x " in said(report)
    assert any(text.startswith("The forms of the biases are taken as known.") for text in report.unknowns)
    assert "'panel': 'exponential_tilt(x)'," in report.recipe.code
