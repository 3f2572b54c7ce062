"""Every kind of estimate has degrees of freedom, and is withheld where these are too few: not only means."""

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.signal import lfilter

import vardi

pytestmark = pytest.mark.filterwarnings("ignore:'a' has . clusters", "ignore:All rows of 'b' are in one cluster of")


def clusters(count, rows=40, seed=0, lazy=False, first=0):
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(count), rows)
    x = rng.normal(size=count)[g] + rng.normal(size=count * rows)
    frame = pl.DataFrame({"x": x, "half": rng.choice(["one", "other"], len(x)), "g": g + first})
    return frame.lazy() if lazy else frame


def fit_of(count, **options):
    return vardi.debias({"a": clusters(count, **options)}, {"a": 1}, clusters="g")


def beside_one_cluster():
    samples = {"a": clusters(40, 5), "b": clusters(1, 40, seed=1, first=99)}
    return vardi.debias(samples, {"a": 1, "b": "exp(x / 3)"}, clusters="g")


def answers(fit):
    """Return estimates of every kind, by name."""
    cdf, halves = fit.cdf("x"), fit.expectation("x", by="half")
    return {
        "mean": fit.expectation("x"),
        "share": fit.expectation("x > 0"),
        "twice the share": fit.expectation("2 * (x > 0)"),
        "share within a domain": fit.expectation("x > 0", by="half")["one"],
        "proportion": fit.proportions("half")["one"],
        "cdf": cdf(0.3),
        "median": cdf.quantile(0.5),
        "cdf in a domain": fit.cdf("x", by="half")["one"](0.3),
        "total": fit.total("x > 0", size=1000),
        "difference": halves["one"] - halves["other"],
        "several": fit.expectations(["x", "x > 0"])[1],
    }


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
def test_three_clusters_withhold_every_error(lazy):
    fit = fit_of(3, lazy=lazy)
    for name, estimate in answers(fit).items():
        assert math.isnan(estimate.stderr), name
        assert np.isnan(estimate.interval).all(), name
        assert estimate.df <= 2.0 + 1e-9, name
        assert "no error can be given: it rests on too few rows" in str(estimate), name
    assert np.isnan(fit.cdf("x").band().low).all()


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
def test_one_cluster_of_many_rows_withholds_every_error():
    fit = beside_one_cluster()
    for name, estimate in answers(fit).items():
        assert math.isnan(estimate.stderr), name
        assert estimate.df == 0.0, name
    found = fit.bootstrap(["x", "x > 0"], n=10)
    assert np.isnan(found.stderr).all()
    assert np.isnan(found.interval).all()
    assert math.isnan(fit.bootstrap(lambda w: w.max(), n=10, jobs=1).stderr)


def test_the_warning_says_what_would_help():
    fit = beside_one_cluster()
    said = "the median of|all rows of 'b' are in one cluster, which does not show how much clusters vary. Add clusters"
    for ask in (
        lambda: fit.expectation("x > 0"),
        lambda: fit.cdf("x")(0.0),
        lambda: fit.cdf("x").quantile(0.5),
        lambda: fit.cdf("x").band(),
        lambda: fit.cdf("x", by="half")["one"](0.0),
        lambda: fit.bootstrap("x", n=4),
    ):
        with pytest.warns(vardi.WeakOverlapWarning, match=said):
            ask()
    with pytest.warns(vardi.WeakOverlapWarning, match=r"of 'x' up to 0: it rests on too few clusters \(2.0 degrees"):
        fit_of(3).cdf("x")(0.0)


def test_replicates_of_one_cluster_are_refused():
    with pytest.raises(
        vardi.FewUnitsError, match="No replicate weights are given: all rows of 'b' are in one cluster"
    ) as caught:
        beside_one_cluster().replicate_weights(10)
    assert caught.value.df == 0.0
    with pytest.raises(vardi.FewUnitsError, match="there are only 3 clusters, whose spread says hardly anything"):
        fit_of(3).replicate_weights(10)


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
def test_five_clusters_have_four_degrees_of_freedom():
    """By the formulas: Wilson's with m (z / t)^2 rows, Woodruff's with t, a band of fixed width times t / z."""
    fit = fit_of(5)
    share, twice = fit.expectation("x > 0"), fit.expectation("2 * (x > 0)")
    x = fit.solved.memory.values("x")
    of_clusters = (x > 0).reshape(5, 40).mean(axis=1)
    assert_allclose(share.stderr, of_clusters.std(ddof=1) / np.sqrt(5))
    assert_allclose((share.df, twice.df), (4.0, 4.0))
    t, z = stats.t.ppf(0.975, 4), stats.norm.ppf(0.975)
    p, m = share.value, share.value * (1 - share.value) / share.stderr**2 * (z / t) ** 2
    half, shrunk = z * math.sqrt(p * (1 - p) / m + z**2 / (4 * m**2)), 1 + z**2 / m
    assert_allclose(share.interval, [(p + z**2 / (2 * m) + sign * half) / shrunk for sign in (-1, 1)])
    assert_allclose(twice.interval, 2 * np.array(share.interval))
    cdf = fit.cdf("x")
    median = cdf.quantile(0.5)
    margin = t * cdf(median.value).stderr
    ordered = np.sort(x)
    assert_allclose(median.interval, [ordered[math.ceil(200 * q - 1e-9) - 1] for q in (0.5 - margin, 0.5 + margin)])
    band = cdf.band()
    inside = (band.value > 0.3) & (band.value < 0.7)
    width = (band.high - band.low)[inside]
    assert width.max() - width.min() < 0.05  # up to steps at which neighbours raise it
    phi = (x[:, None] <= band.x).reshape(5, 40, -1).mean(axis=1) - band.value
    covariance = phi.T @ phi / 20
    draws = np.random.default_rng(1).multivariate_normal(np.zeros(len(band.x)), covariance, 20_000)
    assert_allclose(np.median(width) / 2, np.quantile(np.abs(draws).max(axis=1), 0.95) * t / z, rtol=0.1)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("cut", [1.0, 1.6, 2.0, 9.0])
def test_a_condition_and_twice_that_condition_have_one_verdict(cut, lazy):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=200), "half": rng.choice(["one", "other"], 200)})
    fit = vardi.debias({"a": frame.lazy() if lazy else frame}, {"a": 1})
    found = []
    for text in (f"x > {cut}", f"2 * (x > {cut})", f"-3 * (x > {cut})"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimate, within = fit.expectation(text), fit.expectation(text, by="half")["one"]
        found.append((estimate.df, within.df, math.isnan(estimate.stderr), math.isnan(within.stderr), len(caught)))
    assert_allclose(found[1:], [found[0]] * 2)
    if (frame["x"] > cut).any():  # else twice the condition is 0 on all rows, whatever the factor
        one, twice = fit.expectation(f"x > {cut}"), fit.expectation(f"2 * (x > {cut})")
        assert_allclose(np.array(one.interval) * 2, twice.interval)


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
def test_few_clusters_that_carry_events_are_warned_of():
    """Thirty clusters of ten; all events are in two of them, which is no count of twenty rows."""
    frame = pd.DataFrame({"g": np.repeat(np.arange(30), 10), "y": np.repeat(np.arange(30) < 2, 10) * 1.0})
    fit = vardi.debias({"a": frame}, {"a": 1}, clusters="g")
    with pytest.warns(vardi.WeakOverlapWarning, match="rests on few clusters"):
        assert fit.expectation("y == 1").df < 5
    single = vardi.debias({"a": frame.assign(g=np.arange(300))}, {"a": 1}, clusters="g")
    assert_allclose(
        single.expectation("y == 1").interval, vardi.debias({"a": frame}, {"a": 1}).expectation("y == 1").interval
    )


class TestQuantilesOfDiscreteValues:
    def test_an_interval_that_is_a_point_is_said_to_be_one(self):
        fit = vardi.debias({"a": np.arange(200) % 5 + 1.0}, {"a": 1})
        median = fit.cdf("x").quantile(0.5)
        assert median.interval == (3.0, 3.0)
        assert str(median) == "3 (both ends of its interval, since many rows have this value)"
        assert str(2 * median) == "6 (both ends of its interval, since many rows have this value)"

    def test_a_quantile_between_two_values_has_both_ends(self):
        fit = vardi.debias({"a": np.arange(200) % 4 + 1.0}, {"a": 1})
        assert fit.cdf("x").quantile(0.5).interval == (2.0, 3.0)

    def test_a_constant_is_the_same_on_all_rows(self):
        fit = vardi.debias({"a": np.full(50, 3.0)}, {"a": 1})
        assert str(fit.cdf("x").quantile(0.5)) == "3 (the same on all rows)"
        assert str(fit.expectation("x")) == "3 (the same on all rows)"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
def test_batches_of_a_series_show_all_of_its_variance():
    """Sums over batches lose what is correlated across their ends: draws spread .85 to .9 of the analytic error."""
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(2, 800)) * np.sqrt(1 - 0.9**2)
        a, b = lfilter([1.0], [1.0, -0.9], noise) + np.array([[0.0], [0.5]])
        fit = vardi.debias({"a": a, "b": b}, {"a": 1, "b": "exp(x / 2)"}, series=True)
        means = np.asarray(fit.replicate_weights(400)).T @ np.append(a, b) / 1600
        draws = [fit.bootstrap("x", n=400, kind=kind).stderr for kind in ("bayesian", "rows")]
        found.append(np.array([*draws, means.std()]) / fit.expectation("x").stderr)
    assert_allclose(np.median(found, axis=0), 1.0, atol=0.06)


class TestRatiosNearZero:
    def ratio(self, distance, n=400, seed=0):
        """Return numerator and denominator whose mean is so many errors from zero."""
        rng = np.random.default_rng(seed)
        z = rng.normal(size=n)
        b = z / z.std(ddof=1)
        b += distance / np.sqrt(n) - b.mean()
        frame = pd.DataFrame({"a": 1 + b + rng.normal(size=n), "b": b})
        fit = vardi.debias({"s": frame}, {"s": 1})
        return fit.expectation("a"), fit.expectation("b"), frame

    def test_fiellers_interval_is_where_the_line_is_within_its_errors(self):
        a, b, frame = self.ratio(4.0)
        t = stats.t.ppf(0.975, (a / b).df)
        for end in (a / b).interval:
            line = frame["a"] - end * frame["b"]
            assert_allclose(abs(line.mean()), t * line.std(ddof=1) / 20, rtol=1e-9)
        low, high = (1 / b).interval
        t = stats.t.ppf(0.975, (1 / b).df)
        assert_allclose((1 / low, 1 / high), (b.value + t * b.stderr, b.value - t * b.stderr))

    def test_a_denominator_that_may_be_zero_leaves_no_error(self):
        a, b, _ = self.ratio(1.5)
        for ratio in (a / b, 1 / b):
            assert math.isnan(ratio.stderr)
            assert ratio.interval == (-math.inf, math.inf)
            assert "(no error can be given: its denominator may be 0)" in str(ratio)

    def test_a_firm_denominator_changes_nothing(self):
        a, b, _ = self.ratio(20.0)
        t = stats.t.ppf(0.975, (a / b).df)
        assert_allclose((a / b).interval, [(a / b).value + sign * t * (a / b).stderr for sign in (-1, 1)])
