"""Intervals against formulas written out here: degrees of freedom, Wilson's ends of shares, scales, what is known."""

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import vardi

Z = 1.959963984540054


def skewed(seed=0, sizes=(30, 40)):
    rng = np.random.default_rng(seed)
    return vardi.debias({"a": rng.gamma(1.0, size=sizes[0]), "b": rng.gamma(2.0, size=sizes[1])}, {"a": 1, "b": "x"})


def degrees(fit, estimate):
    """Return min(2 n / (kappa - 1), V^2 / sum_k V_k^2 / (n_k - 1)), from the influence values of an estimate."""
    phi, source = estimate.influence.of_rows()[:, 0], fit.solved.memory.source
    n, c, by_sample = len(phi), np.empty(len(phi)), []
    for k, size in enumerate(fit.sizes.values()):
        c[source == k] = (phi[source == k] - phi[source == k].mean()) / n
        by_sample.append((c[source == k] ** 2).sum() * size / (size - 1))
    kappa = n * (c**4).sum() / (c**2).sum() ** 2
    below = sum(V**2 / (size - 1) for V, size in zip(by_sample, fit.sizes.values(), strict=True))
    return min(2 * n / (kappa - 1), sum(by_sample) ** 2 / below)


def wilson(p, m, z=Z):
    half = z * math.sqrt(p * (1 - p) / m + z**2 / (4 * m**2))
    return (p + z**2 / (2 * m) - half) / (1 + z**2 / m), (p + z**2 / (2 * m) + half) / (1 + z**2 / m)


def of_t(m, estimate, level=0.95):
    """Return the rows that a share is worth where its error has few degrees of freedom: fewer by (z / t)^2."""
    tail = 0.5 + level / 2
    return m * (stats.norm.ppf(tail) / stats.t.ppf(tail, estimate.df)) ** 2


def count_ends(k, m, level=0.95):
    """Return the means, in log p and log (1 - p), of what Clopper and Pearson say of k and of k + 1."""
    a = (1 - level) / 2
    both = stats.beta(k, m - k + 1), stats.beta(k + 1, m - k)
    return stats.gmean([law.ppf(a) for law in both]), 1 - stats.gmean([1 - law.isf(a) for law in both])


class TestDegreesOfFreedom:
    def test_of_means_normalisers_and_ratios(self):
        fit = skewed()
        log = fit.log_normalisers()["b"]
        for estimate in (fit.expectation("x"), log, fit.expectation("x") / fit.expectation("x ** 2"), log - 0.5 * log):
            df = degrees(fit, estimate)
            assert_allclose(estimate.df, df, rtol=1e-9)
            half = stats.t.ppf(0.975, df) * estimate.stderr
            assert_allclose(estimate.interval, (estimate.value - half, estimate.value + half), rtol=1e-9)
        half = stats.t.ppf(0.975, log.df) * log.stderr
        assert_allclose(fit.normalisers()["b"].interval, np.exp([log.value - half, log.value + half]))

    def test_of_few_rows_it_is_their_number_less_one(self):
        estimate = vardi.debias({"a": np.array([1.0, 2.0, 4.0, 4.5])}, {"a": 1})
        with pytest.warns(vardi.WeakOverlapWarning, match=r"rests on few rows \(3.0 degrees of freedom\)"):
            assert_allclose(estimate.expectation("x").df, 3.0)

    def test_a_count_is_so_many_rows(self):
        rng = np.random.default_rng(0)
        x, counts = rng.gamma(2.0, size=60), rng.integers(1, 5, 60)
        once = vardi.debias({"a": np.repeat(x, counts)}, {"a": "1 + x"})
        counted = vardi.debias({"a": x}, {"a": "1 + x"}, counts=counts)
        assert_allclose(counted.expectation("x").df, once.expectation("x").df, rtol=1e-9)

    def test_the_error_of_a_known_value_is_exact(self):
        design = vardi.datasets.length_bias(seed=0)
        loose = vardi.debias(design.samples, design.biases, known={"x": (3.0, 0.5)}).expectation("x ** 2")
        spread = loose.influence.spread()
        rows, total = spread.within.sum(), spread.within.sum() + spread.known[0]
        assert spread.known[0] > 0
        bare = loose.influence.measure.spread(loose.influence.values, loose.influence.leverage)
        assert_allclose(loose.df, bare.df[0] * (total / rows) ** 2)


class TestTails:
    """Weights of conditions have a few values: rows of the largest are the largest together, and no tail."""

    def tail_of(self, fit, column):
        with warnings.catch_warnings(record=True, action="always") as caught:
            estimate = fit.expectation(column)
        return estimate.law.tail, len(caught)

    @pytest.mark.parametrize("lazy", [False, True])
    def test_rows_of_a_large_weight_are_no_tail(self, lazy):
        design = vardi.datasets.house_prices(seed=1)
        samples = {name: pl.from_pandas(rows).lazy() if lazy else rows for name, rows in design.samples.items()}
        fit = vardi.debias(samples, design.biases)
        for column in ("MEDV", "RM"):
            spread = fit.expectation(column).influence.spread()
            assert spread.kurtosis > 15  # so that its tail is looked at
            tail, warned = self.tail_of(fit, column)
            assert 0 < tail < 0.4  # from which it is called heavy
            assert not warned

    @pytest.mark.parametrize("lazy", [False, True])
    def test_a_function_with_a_tail_has_one_whatever_the_weights(self, lazy):
        rng = np.random.default_rng(0)
        z = {"plain": rng.random(150), "low": 0.6 * rng.random(250)}
        frames = {name: pl.DataFrame({"z": own, "y": rng.pareto(1.6, len(own))}) for name, own in z.items()}
        fit = vardi.debias(
            {name: rows.lazy() if lazy else rows for name, rows in frames.items()}, {"plain": 1, "low": "z <= 0.6"}
        )
        tail, warned = self.tail_of(fit, "y")
        assert tail > 0.5
        assert warned


class TestShares:
    def share(self, text, n=200, seed=0):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"x": rng.gamma(3.0, size=n)})
        return vardi.debias({"a": frame}, {"a": "x"}), text

    def test_many_events_are_worth_what_their_error_says(self):
        fit, text = self.share("x > 3")
        estimate = fit.expectation(text)
        m = estimate.value * (1 - estimate.value) / estimate.stderr**2
        assert_allclose(estimate.interval, wilson(estimate.value, of_t(m, estimate)), rtol=1e-9)
        assert estimate.df == fit.expectation(f"2 * ({text})").df < 199

    @pytest.mark.parametrize("lazy", [False, True])
    @pytest.mark.parametrize("counted", [False, True])
    def test_few_events_are_counted(self, lazy, counted):
        """By their own error as far as their weights are alike, otherwise by no more than Kish's effective rows."""
        x, counts = np.random.default_rng(0).gamma(3.0, size=200), np.ones(200)
        if counted:
            counts[x > 7.5] = [2, 1, 1]
        frame = pd.DataFrame({"x": x, "n": counts})
        rows = pl.from_pandas(frame).lazy() if lazy else frame
        fit = vardi.debias({"a": rows}, {"a": "x"}, counts="n")
        estimate, w = fit.expectation("x > 7.5"), 1 / x
        events, k, n = x > 7.5, counts[x > 7.5].sum(), counts.sum()
        spread = n * (counts @ w**2) / (counts @ w) ** 2 - 1
        own_spread = k * (counts @ (events * w**2)) / (counts @ (events * w)) ** 2 - 1
        kish, own = n / (1 + spread), estimate.value * (1 - estimate.value) / estimate.stderr**2
        shared = 1 / k**2 + own_spread * k / (k - 1) / spread
        assert 0 < shared < 0.5
        assert kish < own
        m = of_t(1 / (shared / kish + (1 - shared) / own), estimate)
        assert_allclose(estimate.interval, count_ends(estimate.value * m, m), rtol=1e-8)
        others = fit.expectation("x <= 7.5")  # the same, seen from the other side
        assert_allclose(others.interval, 1 - np.array(estimate.interval)[::-1], rtol=1e-7)
        assert f"; {k:g} of {n:g} rows have it)" in str(estimate)
        assert f"; {k:g} of {n:g} rows lack it)" in str(others)

    def test_one_event_does_not_tell_how_heavy_events_are(self):
        fit, _ = self.share("")
        estimate = fit.expectation(f"x >= {fit.solved.memory.values('x').max()}")
        m = fit.effective_rows()
        assert m < estimate.value * (1 - estimate.value) / estimate.stderr**2
        m = of_t(m, estimate)
        assert_allclose(estimate.interval, count_ends(estimate.value * m, m), rtol=1e-9)

    def test_few_events_of_equal_weight_are_a_count(self):
        x = np.arange(50.0)
        for k in (1, 3, 12, 19):
            estimate = vardi.debias({"a": x}, {"a": 1}).expectation(f"x < {k}")
            m = of_t(49, estimate, level=0.9)
            assert_allclose(estimate.at(0.9).interval, count_ends(k * m / 50, m, level=0.9), rtol=1e-9)
            assert estimate.interval[0] < k / 50 < estimate.interval[1]

    def test_the_interval_holds_the_share(self):
        """Also where one event has next to no weight."""
        x = np.append(np.linspace(0.5, 1.0, 40), 1e9)
        estimate = vardi.debias({"a": x}, {"a": "x"}).expectation("x > 1000")
        assert estimate.interval[0] <= estimate.value <= estimate.interval[1]

    @pytest.mark.parametrize("text", ["x > 1000", "x < 1000"])
    def test_without_events_there_is_an_error(self, text):
        fit, _ = self.share(text)
        estimate = fit.expectation(text)
        m = of_t(min(fit.effective_rows(), 200 / fit.weights.max()), estimate)
        assert_allclose(estimate.interval, wilson(round(estimate.value), m), atol=1e-12)
        assert estimate.stderr > 0
        assert "none of 200 rows" in str(estimate)
        assert "known" not in str(estimate)
        assert_allclose(fit.cdf("x")(-1.0 if "> " in text else 1e6).interval, estimate.interval)
        column = fit.diagnostics([text]).columns[0]
        assert_allclose((column.low, column.high, column.stderr), (*estimate.interval, estimate.stderr))

    def test_a_ratio_of_shares_is_a_share_of_those_rows(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.gamma(3.0, size=300), "g": rng.integers(0, 4, 300)})
        fit = vardi.debias({"a": frame}, {"a": "x"})
        rows = (frame["g"] == 1).to_numpy()
        ratio = fit.expectation("g == 1 and x > 1000") / fit.expectation("g == 1")
        r = fit.weights[rows]
        m = of_t(min(r.sum() ** 2 / (r**2).sum(), r.sum() / r.max()), ratio)
        assert_allclose(ratio.interval, wilson(0.0, m), atol=1e-12)
        assert f"none of {rows.sum()} rows have it" in str(ratio)
        other = fit.expectation("x > 2") / fit.expectation("g == 1")  # no share: x > 2 holds elsewhere too
        assert other.df < math.inf

    def test_engines_say_the_same(self):
        rng = np.random.default_rng(0)
        frame = pl.DataFrame(
            {"x": rng.gamma(3.0, size=300), "g": rng.integers(0, 4, 300), "n": rng.integers(1, 3, 300)}
        )
        fits = [vardi.debias({"a": rows}, {"a": "x"}, counts="n") for rows in (frame, frame.lazy())]
        for text in ("x > 3", "x > 7.5", "x > 1000", "x < 1000", "g == 1"):
            one, other = (fit.expectation(text) for fit in fits)
            assert str(one) == str(other)
            assert_allclose(one.interval, other.interval, rtol=1e-9, atol=1e-12)
        one, other = (fit.expectation("g == 1 and x > 6") / fit.expectation("g == 1") for fit in fits)
        assert str(one) == str(other)
        assert one.df == other.df < math.inf

    def test_a_share_that_is_passed_on_as_known_has_an_error(self):
        fit, text = self.share("x > 1000")
        again = vardi.debias(
            {"a": np.array([1.0, 2.0, 3.0, 2000.0])}, {"a": 1}, known={"x > 1000": fit.expectation(text)}
        )
        assert again.known.lines[0].known_stderr > 0


class TestScales:
    @pytest.mark.parametrize(("scale", "offset"), [(1e-170, 0.0), (1e160, 0.0), (1.0, 1e12)])
    @pytest.mark.parametrize("lazy", [False, True])
    def test_errors_of_values_of_any_size(self, scale, offset, lazy):
        rng = np.random.default_rng(0)
        x = rng.gamma(3.0, size=300)
        frame = pl.DataFrame({"x": x, "y": x * scale + offset})
        fit = vardi.debias({"a": frame.lazy() if lazy else frame}, {"a": "1 + x"})
        plain, found = fit.expectation("x"), fit.expectation("y")
        digits = 1e-3 if offset else 1e-9  # of 1e12 a number has four decimals
        assert_allclose(found.stderr, plain.stderr * scale, rtol=digits)
        assert_allclose(found.df, plain.df, rtol=10 * digits)
        assert "±" in str(found)
        assert "inf" not in str(found)

    def test_known_is_what_was_declared(self):
        design = vardi.datasets.length_bias(seed=0)
        fit = vardi.debias(design.samples, design.biases, known={"x > 4": 0.25, "x": 3.0})
        for text, value in (("x > 4", "0.25"), ("x", "3"), ("2 * x - 4 * (x > 4)", "5"), ("7", "7")):
            assert str(fit.expectation(text)) == f"{value} (known, up to rounding)"
        assert "±" in str(fit.expectation("x > 3"))
        assert "none of 500 rows have it" in str(fit.expectation("x > 4000"))


class TestSmallestCut:
    def test_a_test_and_a_covariance_that_rest_on_few_rows_warn(self):
        samples = {"low": np.linspace(0.0, 0.5, 40), "high": np.linspace(0.48, 1.0, 40)}
        fit = vardi.debias(samples, {"low": "x <= 0.5", "high": "x >= 0.48"})
        assert fit.bridge.rows < 5
        with pytest.warns(vardi.WeakOverlapWarning, match=r"The p-values rest on few rows.*1 row bridges 'low' and"):
            fit.check_biases("x")
        with pytest.warns(vardi.WeakOverlapWarning, match=r"The covariance rests on few rows.*1 row bridges 'low' and"):
            fit.log_omega_covariance()

    def test_a_test_and_a_covariance_of_firm_samples_do_not(self):
        samples = {"low": np.linspace(0.0, 0.7, 100), "high": np.linspace(0.3, 1.0, 100)}
        fit = vardi.debias(samples, {"low": "x <= 0.7", "high": "x >= 0.3"})
        fit.check_biases("x")
        fit.log_omega_covariance()

    def test_it_is_said_everywhere(self):
        """Eight samples in a row; between the seventh and the eighth there are few rows."""
        rng = np.random.default_rng(0)
        widths = [*np.arange(7.0), 6.93]
        samples = {f"{k}": rng.uniform(at, at + 1.3, 200) for k, at in enumerate(widths[:7])}
        samples["7"] = rng.uniform(7.15, 8.4, 200)
        biases = {f"{k}": f"{at} <= x <= {at + 1.3}" for k, at in enumerate(widths[:7])} | {"7": "7.15 <= x <= 8.4"}
        fit = vardi.debias(samples, biases)
        assert fit.bridge.cut == (tuple("0123456"), ("7",))
        assert fit.trust.cut == fit.bridge.cut
        weakest = fit.identify().weakest
        assert (weakest.first, weakest.second) == ("6", "7")
        assert str(fit.bridge) in fit.identify().message
        overlap = vardi.report.compute(fit).overlap
        assert [(link.first, link.second) for link in overlap.links if link.weakest] == [("6", "7")]
        assert overlap.bridging == fit.bridge.rows
        assert fit.diagnostics().trust.bridging == fit.bridge.rows
