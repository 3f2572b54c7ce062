"""Pictures of reports from their numbers, and reports of very many rows."""

from __future__ import annotations

import dataclasses
import datetime
import math
import re
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pools import along_windows, by_name, houses_by_the_river

import vardi
from vardi import _machine as threads
from vardi._facts.columns import Variable
from vardi._facts.distributions import Bins, Distribution, distributions, weights_of
from vardi._facts.links import links_of
from vardi._rows import shares
from vardi.report import Report, compute, to_html
from vardi.report import _graph as graphs
from vardi.report._charts import histogram, shift_ends, shift_scale, steps, ticks
from vardi.report._recipe import fingerprint


@pytest.fixture(scope="module")
def houses():
    return houses_by_the_river()


@pytest.fixture(scope="module")
def strata():
    design = vardi.datasets.strata()
    return vardi.debias(design.samples, design.biases)


# --- numbers


def test_the_band_is_drawn_from_each_point_up_to_the_upper_end_at_the_next():
    x, ends = (0.0, 1.0, 2.0, 3.0), (0.1, 0.4, 0.7, 0.9)
    low, high = (None, 0.3, 0.6, None), (None, 0.5, 0.8, None)
    curve = steps(Distribution("x", x, ends, ends, low, high, Bins((0.0, 3.0), (1.0,), (1.0,))))
    up = {height: f"{curve.chart.y(height):.1f}" for height in (0.3, 0.6, 0.8)}
    left, right = (f"{curve.chart.x(at):.1f}" for at in (1, 2))
    assert curve.band == f"M{left} {up[0.8]}H{right}V{up[0.8]}L{right} {up[0.6]}V{up[0.3]}H{left}Z"


def test_values_over_all_orders_of_magnitude():
    report = compute(vardi.debias({"p": pd.DataFrame({"x": [1e-300, 1.0, 1e300, 1e300]})}, {"p": 1}))
    (row,) = report.variables
    assert row.stderr == pytest.approx(1e300 * np.std([0.0, 0.0, 1.0, 1.0], ddof=1) / np.sqrt(4))
    assert "worth 3 rows without bias" in to_html(report)
    fit = vardi.debias({"p": np.arange(3.0)}, {"p": 1})
    columns = (Variable("x", np.array([-1.7e308, 0.0, 1.7e308])),)
    described = fit.parts.describe(columns)
    assert math.isnan(described[0].stderr)  # the ends of its interval overflow
    drawn = steps(distributions(fit, columns, described)[0][0])
    places = [drawn.chart.x(at) for at, _ in drawn.chart.x.marks]
    assert len(places) > 2
    assert places == sorted(places)
    assert "nan" not in drawn.before + drawn.after


def test_weights_too_small_for_a_number_are_drawn():
    x = 10.0 ** np.linspace(-300, 300, 60)
    fit = vardi.debias({"p": pd.DataFrame({"x": x})}, {"p": "x"})
    assert min(fit.weights) == 0.0
    weights = weights_of(fit)
    assert sum(sum(bar.rows) for bar in weights.bars) == 60
    assert histogram(weights)[0].x.high == len(weights.bars)


# --- words


def test_what_is_too_much_to_ask_of_an_engine_is_left_out_with_a_sentence(monkeypatch):
    design = vardi.datasets.house_prices(seed=0)
    lazy = {name: pl.from_pandas(rows).lazy() for name, rows in design.samples.items()}
    monkeypatch.setattr("vardi._fit.parts.EngineParts._most_slopes", lambda parts: 0)
    report = compute(vardi.debias(lazy, design.biases), variables=["MEDV"])
    assert report.sensitive == ()
    said = "Not computed for MEDV: there are many rows and samples. fit.sensitivity(...) computes it for any of them."
    assert f'<p class="note">{said}</p>' in to_html(report)


def test_the_hash_is_of_the_rows_and_of_nothing_else(strata):
    design = vardi.datasets.strata()
    frames = {name: pd.DataFrame(rows, columns=["x0", "x1"]) for name, rows in design.samples.items()}
    by_library = [
        compute(vardi.debias({name: make(frame) for name, frame in frames.items()}, design.biases)).fingerprint
        for make in (lambda frame: frame, pl.from_pandas)
    ]
    assert by_library[0] == by_library[1]
    assert by_library[0].columns == ("x0", "x1")
    assert compute(strata).fingerprint.digest == by_library[0].digest
    frames["low"].iloc[0, 1] += 1e-9
    assert compute(vardi.debias(frames, design.biases)).fingerprint.digest != by_library[0].digest
    day = datetime.datetime(2026, 3, 1)
    others = pd.DataFrame({"x": [1.0, 2.0], "text": ["a", None], "day": [day.date()] * 2, "time": [day] * 2})
    others["time"] = others["time"].astype("datetime64[ns]")
    pools = (vardi.debias({"a": make(others)}, {"a": "x"}).solved.pool for make in (lambda one: one, pl.from_pandas))
    assert len({fingerprint(pool, ["text", "day", "time"]) for pool in pools}) == 1
    lazy = vardi.debias({name: pl.from_pandas(frame).lazy() for name, frame in frames.items()}, design.biases)
    assert "The rows have no hash here" in to_html(compute(lazy))


# --- other fits


@pytest.mark.parametrize("K", [2, 3, 5, 9, 20, 21, 300])
def test_any_number_of_samples(K):
    report = compute(along_windows(K))
    html = to_html(report)
    assert len(html) < 1_000_000
    assert ('class="heat"' in html) == (K > 20)
    assert ('class="graph' in html) == (K <= 20)
    assert len(report.overlap.shares) <= 60
    long = "The declared biases were not checked: fit.check_biases() would take a long time here."
    assert (report.check.text == long) == (K == 300)
    if K <= 20:
        drawn = graphs.graph(report.overlap)
        for node in drawn.nodes:
            width = 7.6 * len(node.label)
            left = node.label_x - {"start": 0.0, "middle": width / 2, "end": width}[node.anchor]
            assert 0 <= left <= left + width <= drawn.width
            assert drawn.top <= node.y - node.radius <= node.y + node.radius <= drawn.top + drawn.height
        gaps = [
            math.dist((a.x, a.y), (b.x, b.y)) - a.radius - b.radius
            for a in drawn.nodes
            for b in drawn.nodes
            if a is not b
        ]
        assert min(gaps) > 0


# --- geometry


def test_marks_stand_where_the_numbers_say(houses):
    report = compute(houses)
    scale, row = shift_scale(report.variables), by_name(report.variables, "MEDV")
    one_deviation = {text: scale(at) for at, text in scale.marks}
    per_deviation = (one_deviation["0.5"] - one_deviation["0"]) / 0.5
    assert scale(0.0) == one_deviation["0"]
    assert (scale(row.shift) - scale(0.0)) / per_deviation == pytest.approx(row.shift, abs=1e-3)
    low, high = shift_ends(row)
    assert low < row.shift < high
    assert all(0 <= scale(end) <= 100 for one in report.variables for end in shift_ends(one))
    assert (
        "<title>MEDV: 19.06 in the pool, 23.22 ± 0.97 in the population, worth 107 rows without bias (95%: "
        in to_html(report)
    )


def test_curves_rise_within_their_box(strata):
    curve = steps(compute(strata).distributions[0])
    x, y = curve.chart.x, curve.chart.y
    for path in (curve.before, curve.after):
        heights = [float(y) for y in re.findall(r"V([\d.]+)", path)]
        assert heights == sorted(heights, reverse=True)
        assert y.end <= min(heights) <= max(heights) <= y.start
    assert len(curve.strips) <= 48
    assert x(curve.strips[0].ends[0]) == x.start
    assert x(curve.strips[-1].ends[1]) == x.end


def test_bars_are_as_tall_as_their_rows(houses):
    html = to_html(compute(houses))
    bars = re.findall(r"<g><title>(Weight [^<]*)</title>(.*?)</g>", html)
    heights = [sum(map(float, re.findall(r'class="s\d".*? height="([\d.]+)"', blocks))) for _, blocks in bars]
    totals = [sum(bar.rows) for bar in weights_of(houses).bars]
    assert np.array(heights) / heights[0] == pytest.approx(np.array(totals) / totals[0], rel=1e-3)
    assert bars[0][0] == "Weight 0.6834: 259 rows (200 of agency, 59 of national), 59.0% of all weight"


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2, 7.9), (1e-7, 2e-7), (5e8, 9e8), (2.0, 2.0)])
def test_ticks_lie_between_the_ends(low, high):
    places = ticks(low, high)
    assert 1 <= len(places) <= 8
    assert all(low - 1e-12 <= at <= high * (1 + 1e-12) for at, _ in places)
    assert len({text for _, text in places}) == len(places)


# --- the page


def test_jinja_is_named_where_it_is_missing(strata, monkeypatch):
    from vardi.report import _render

    _render._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError) as error:
        to_html(compute(strata))
    assert str(error.value) == "Reports need jinja2: pip install 'vardi[report]'"


# --- the file


def plain(value):
    """Return frozen values as what can be compared, without how rows move them."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        if isinstance(value, Report):
            names += ["headline", "advice", "gains", "nothing_to_do", "next_rows", "unknowns"]
            names += ["standouts", "groups", "slopes_note"]
        return {name: plain(getattr(value, name)) for name in names if name not in ("found", "influence", "steps")}
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    return float(value) if isinstance(value, np.floating) else value


def assert_same(found, expected, where=""):
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, pair in enumerate(zip(found, expected, strict=True)):
            assert_same(*pair, f"{where}[{k}]")
    elif isinstance(expected, float) and math.isfinite(expected):
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-14), where  # ranks are sums of sums
    elif isinstance(expected, str | int | bool | None):
        assert found == expected, where


def samples(n):
    rng = np.random.default_rng(8)
    found = {}
    for power, name in enumerate(("plain", "long", "longer")):
        length = rng.gamma(2.0 + power, size=n)
        found[name] = pd.DataFrame(
            {
                "length": length,
                "rounded": np.round(length, 1),
                "skewed": np.exp(4.0 * rng.normal(size=n)),
                "children": rng.integers(0, 6, n),
                "region": np.array(["north", "south", "east"])[rng.integers(0, 3, n)],
            }
        )
    return found


BIASES = {"plain": "1", "long": "length", "longer": "length ** 2"}


@pytest.mark.parametrize("labelled", [False, True], ids=["by sample", "mixed"])
@pytest.mark.parametrize("counted", [False, True], ids=["plain", "counted"])
def test_a_report_by_cells_blocks_and_threads_says_the_same(monkeypatch, labelled, counted):
    frames, options = samples(1500), {}
    if labelled:
        joined = pd.concat([frame.assign(who=name) for name, frame in frames.items()])
        frames, options = joined.sample(frac=1.0, random_state=0).reset_index(drop=True), {"source": "who"}
    if counted:
        options["counts"] = np.random.default_rng(1).integers(1, 4, 4500)
    expected = vardi.report.compute(vardi.debias(frames, BIASES, **options))
    monkeypatch.setattr(shares, "MANY", 100)
    monkeypatch.setattr(threads, "THREADED", 1)
    monkeypatch.setattr(threads, "BLOCK", 700)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    found = vardi.report.compute(vardi.debias(frames, BIASES, **options))
    bins = [plain(one.bins) for one in found.distributions]
    for one, other in zip(bins, expected.distributions, strict=True):  # of differences of shares
        np.testing.assert_allclose(one["debiased"], other.bins.debiased, rtol=0, atol=1e-14)
    found, expected = (plain(one) for one in (found, expected))
    for one in (*found["distributions"], *expected["distributions"]):
        del one["bins"]
    del found["solution"], expected["solution"]  # of the same weights, by sums in another order
    assert_same(found, expected)


def test_shares_of_rows_that_some_samples_have_recorded_are_of_these(monkeypatch):
    frames = samples(1000)
    del frames["long"]["rounded"]
    fit = vardi.debias(frames, BIASES)
    expected = fit.cdf("rounded")
    monkeypatch.setattr(shares, "MANY", 100)
    found = fit.cdf("rounded")
    for q in (0.1, 0.5, 0.97):
        assert found.quantile(q).value == expected.quantile(q).value
        assert found.quantile(q).stderr == pytest.approx(expected.quantile(q).stderr, rel=1e-12)
    for name in ("x", "value", "low", "high"):
        np.testing.assert_allclose(getattr(found.band(), name), getattr(expected.band(), name), rtol=1e-12)


def test_variances_without_covariances_are_the_same():
    fit = vardi.debias(samples(1000), BIASES)
    values = np.random.default_rng(2).normal(size=(3000, 4))
    influence = fit.solved.tangent.influence(values)[1]
    alone, whole = influence.spread(joint=False), influence.spread()
    np.testing.assert_allclose(np.diag(alone.covariance), np.diag(whole.covariance), rtol=1e-13)
    np.testing.assert_array_equal(alone.within, whole.within)
    np.testing.assert_array_equal(alone.fourths, whole.fourths)
    assert np.isnan(alone.covariance[0, 1])


@pytest.mark.parametrize("known", [True, False], ids=["bridging rows", "shared rows"])
def test_links_are_chosen_among_all_pairs(known):
    rng = np.random.default_rng(4)
    centres = np.linspace(0.0, 6.0, 9)
    rows = {str(k): np.round(centre + rng.uniform(-1.0, 1.0, 200), 6) for k, centre in enumerate(centres)}
    fit = vardi.debias(rows, {str(k): f"abs(x - {centre}) <= 1" for k, centre in enumerate(centres)})
    verdict, gram = fit.identify(), fit.solved.tangent.hessian.gram
    bridging = {(link.first, link.second): gram.matrix[int(link.first), int(link.second)] for link in verdict.links}
    strength = {(link.first, link.second): link.rows for link in verdict.links}
    strength = bridging if known else strength
    weakest = (verdict.weakest.first, verdict.weakest.second)
    others = sorted((pair for pair in strength if set(pair) != set(weakest)), key=lambda pair: strength[pair])
    for first, rest in (("weakest", others), ("strongest", others[::-1])):
        links, pairs = links_of(verdict, gram if known else None, 7, first)
        assert pairs == len(verdict.links)
        assert [link.weakest for link in links] == [True] + [False] * 6
        assert {links[0].first, links[0].second} == set(weakest)
        assert [link.strength for link in links[1:]] == [strength[pair] for pair in rest[:6]]
        for link in links:
            assert verdict.link(link.first, link.second).rows == link.rows
