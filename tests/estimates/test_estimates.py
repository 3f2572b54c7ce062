"""Estimates, their arithmetic, and influence values checked by what they claim to be: derivatives and variances."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri, stdtrit

import vardi
from vardi import Estimate

Z = 1.959963984540054


@pytest.fixture
def length():
    design = vardi.datasets.length_bias(seed=3)
    return vardi.debias(design.samples, design.biases)


@pytest.fixture
def strata():
    design = vardi.datasets.strata(seed=3)
    return vardi.debias(design.samples, design.biases)


def pool(fit, column="x"):
    return fit.solved.memory.values(column)


class TestEstimate:
    def test_prints_two_digits_of_its_error(self):
        assert str(Estimate(664.71, 8.12)) == "664.7 ± 8.1 (95%: 648.8 to 680.6)"
        assert str(Estimate(0.012345, 0.00067)) == "0.01235 ± 0.00067 (95%: 0.01103 to 0.01366)"
        assert str(Estimate(123456.0, 789.0)) == "123,456 ± 789 (95%: 121,910 to 125,002)"

    def test_interval_is_normal(self):
        estimate = Estimate(2.0, 0.5)
        assert_allclose(estimate.interval, (2 - Z / 2, 2 + Z / 2))
        assert_allclose(estimate.at(0.5).interval, (2 - 0.337244875, 2 + 0.337244875))

    def test_without_error_it_says_so(self):
        assert str(Estimate(2.0, math.nan)) == "2 (no error can be given)"

    def test_a_small_error_is_one(self):
        assert str(Estimate(1.0, 2.3e-17)) == "1 ± 2.3e-17 (95%: 1 to 1)"
        assert str(Estimate(1.0, 1e-9)) == "1 ± 1e-09 (95%: 1 to 1)"
        assert str(Estimate(1.0, 0.0)) == "1 (the same on all rows)"

    def test_a_level_keeps_the_scale(self, length):
        normaliser = length.normalisers()["square"]
        assert_allclose(normaliser.at(0.5).interval, length.normalisers(level=0.5)["square"].interval)
        assert_allclose(normaliser.log().at(0.5).interval, np.log(normaliser.at(0.5).interval))
        quantile = length.cdf("x").quantile(0.9)
        assert quantile.at(0.5).interval == length.cdf("x").quantile(0.9, 0.5).interval != quantile.interval
        share = length.expectation("x > 9")
        assert_allclose((1 - 2 * share).at(0.5).interval, 1 - 2 * np.array(share.at(0.5).interval)[::-1])

    def test_two_levels_are_refused(self, length):
        with pytest.raises(vardi.MismatchError, match=r"levels 0.95 and 0.9, but their .* e.g. with .at\(0.95\)"):
            length.expectation("x") - length.expectation("x**2", level=0.9)
        joined = length.expectation("x") - length.expectation("x**2", level=0.9).at(0.95)
        assert joined.level == 0.95

    def test_refuses_a_level_that_is_none(self):
        with pytest.raises(vardi.MismatchError, match="The level 95 is not the probability"):
            Estimate(2.0, 1.0, level=95)

    def test_arithmetic_with_numbers(self):
        estimate = Estimate(2.0, 0.5)
        assert (estimate * 3 + 1).value == 7.0
        assert (estimate * 3 + 1).stderr == 1.5
        assert (1 - estimate).value == -1.0
        assert (4 / estimate).value == 2.0
        assert (4 / estimate).stderr == 0.5
        assert (-estimate).value == -2.0
        assert float(estimate) == 2.0
        assert estimate.log().stderr == 0.25
        assert_allclose(estimate.exp().interval, np.exp(estimate.interval))

    def test_refuses_to_join_strangers(self, length, strata):
        with pytest.raises(vardi.MismatchError, match="different fits"):
            length.expectation("x") - strata.expectation("x0")
        with pytest.raises(TypeError):
            length.expectation("x") + "x"


class TestArithmeticCarriesCorrelation:
    def test_difference_and_sum(self, length):
        x, square = length.expectation("x"), length.expectation("x**2")
        direct = length.expectation("x**2 - x")
        assert_allclose((square - x).stderr, direct.stderr, rtol=1e-12)
        assert_allclose((square + x).stderr, length.expectation("x**2 + x").stderr, rtol=1e-12)

    def test_ratio_is_the_mean_of_a_tilted_law(self, length):
        # E_P[x^2] / E_P[x] is the mean of x under the length-biased law: its error by the delta method
        x, square = length.expectation("x"), length.expectation("x**2")
        C = length.expectations(["x", "x**2"]).covariance
        slope = np.array([-square.value / x.value**2, 1 / x.value])
        ratio = square / x
        assert_allclose(ratio.value, square.value / x.value)
        assert_allclose(ratio.stderr, math.sqrt(slope @ C @ slope), rtol=1e-10)

    def test_product_with_itself_is_the_square(self, length):
        x = length.expectation("x")
        assert_allclose((x * x).stderr, 2 * x.value * x.stderr)

    def test_a_thing_less_itself_has_no_error(self, length):
        assert (length.expectation("x") - length.expectation("x")).stderr < 1e-15


class TestInfluence:
    def test_is_the_derivative_by_the_mass_of_a_row(self):
        # move the count of one row by epsilon, refit: (eta' - eta) / (epsilon / n) is phi_i - mean of phi in its sample
        design = vardi.datasets.length_bias(seed=1, sizes=(60, 40, 50))
        rows = np.concatenate(list(design.samples.values()))
        fit = vardi.debias(design.samples, design.biases)
        estimate = fit.expectation("x > 2")
        phi, source = estimate.influence.of_rows()[:, 0], fit.solved.memory.source
        epsilon = 1e-6
        for i in (0, 70, 149):
            counts = np.ones(len(rows))
            counts[i] += epsilon
            # a sample's share must stay n_k / n: take the mass from its other rows
            mine = source == source[i]
            counts[mine] *= mine.sum() / counts[mine].sum()
            whole = np.rint(counts * 1e12)  # only their ratios matter
            moved = vardi.debias(design.samples, design.biases, counts=whole).expectation("x > 2").value
            assert_allclose((moved - estimate.value) / (epsilon / len(rows)), phi[i] - phi[mine].mean(), rtol=2e-4)

    def test_tilted_means_are_b(self, strata):
        # E_{P~_k} phi = b_k, the exact identity of MATH 2.1
        tangent = strata.solved.tangent
        values = pool(strata, "x1")[:, None]
        eta, influence = tangent.influence(values)
        rg = tangent.measure.weights[:, None] * (values - eta)
        b = tangent.jacobian.solve(projected(tangent, rg))[:, 0]
        means = projected(tangent, influence.of_rows())[:, 0] / tangent.measure.sizes
        assert_allclose(means, b, atol=1e-12)
        assert_allclose(influence.b[:, 0], b, atol=1e-12)

    def test_model_and_sample_variance_agree(self, length):
        tangent = length.solved.tangent
        values = pool(length)[:, None]
        eta, influence = tangent.influence(values)
        rg = tangent.measure.weights[:, None] * (values - eta)
        a = projected(tangent, rg)
        model = (rg.T @ rg + a.T @ tangent.jacobian.solve(a)) / tangent.n**2  # MATH 2.1, MBAR's form
        ratio = influence.covariance()[0, 0] / model[0, 0]
        assert 0.82 < ratio < 1.30

    def test_known_weights_are_not_enough(self, strata):
        # treating the weights as known understates the error (MATH section 2, "WRONG")
        p, x = strata.solved.data.chances(strata.solved.tangent.measure), pool(strata, "x0")
        wrong = math.sqrt(p**2 @ (x - p @ x) ** 2)
        assert wrong < 0.9 * strata.expectation("x0").stderr

    def test_counts_equal_replication(self):
        design = vardi.datasets.length_bias(seed=5, sizes=(20, 30, 25))
        counts = np.random.default_rng(0).integers(1, 4, 75)
        source = np.repeat([0, 1, 2], [20, 30, 25])
        x = np.concatenate(list(design.samples.values()))
        counted = vardi.debias(design.samples, design.biases, counts=counts)
        repeated = {name: np.repeat(x[source == k], counts[source == k]) for k, name in enumerate(design.samples)}
        whole = vardi.debias(repeated, design.biases)
        for name in ("x", "x**2", "x > 3"):
            a, b = counted.expectation(name), whole.expectation(name)
            assert_allclose((a.value, a.stderr), (b.value, b.stderr), rtol=1e-10)
        assert_allclose(counted.log_omega_covariance(), whole.log_omega_covariance(), atol=1e-15)
        a, b = counted.cdf("x").band(seed=1), whole.cdf("x").band(seed=1)
        assert_allclose(a.value, b.value)

    def test_collapsed_rows_give_the_same(self):
        rng = np.random.default_rng(2)
        x = {"low": rng.uniform(0, 0.6, 30_000), "high": rng.uniform(0.4, 1, 20_000)}
        biases = {"low": "x <= 0.6", "high": "x >= 0.4"}
        collapsed = vardi.debias(x, biases)
        assert collapsed.solved.rows.inverse is not None
        pooled = np.concatenate(list(x.values()))
        omega = np.column_stack([pooled <= 0.6, pooled >= 0.4]).astype(float)
        assert_allclose(collapsed.expectation("x").stderr, _stderr_by_hand(collapsed, pooled, omega), rtol=1e-9)


def _stderr_by_hand(fit, x, omega):
    """Equations 2.1 and 2.2 of the design notes on n rows, with NumPy alone."""
    source = np.repeat(np.arange(2), list(fit.sizes.values()))
    lam = np.bincount(source) / len(x)
    Omega = np.array(list(fit.omegas.values()))
    S = omega @ (lam / Omega)
    p = omega * (lam / Omega) / S[:, None]
    r = 1 / S
    g = x - np.mean(r * x)
    H = np.diag(p.mean(axis=0)) - p.T @ p / len(x)
    phi = r * g + p @ (np.linalg.pinv(H, rcond=1e-9) @ (p.T @ (r * g) / len(x)))
    return math.sqrt(sum(lam[k] / len(x) * phi[source == k].var(ddof=1) for k in range(2)))


class TestExpectations:
    def test_takes_columns_expressions_and_arrays(self, length):
        x = pool(length)
        for what in ("x", "x + 0", x, x.tolist()):
            assert_allclose(length.expectation(what).value, np.average(x, weights=length.weights))
        assert_allclose(length.expectation("x > 3").value, np.average(x > 3, weights=length.weights))

    def test_several_at_once(self, length):
        both = length.expectations(["x", "x**2"])
        assert len(both) == 2
        assert_allclose(both.values, [e.value for e in both])
        assert_allclose(both.stderr, [length.expectation("x").stderr, length.expectation("x**2").stderr])
        assert both.interval.shape == (2, 2)
        assert str(both).count("±") == 2
        matrix = np.column_stack([pool(length), pool(length) ** 2])
        assert_allclose(length.expectations(matrix).covariance, both.covariance)

    def test_mean_of_the_bias_is_the_normaliser(self, length):
        normaliser = length.normalisers()["length"]
        direct = length.expectation("x")
        assert_allclose(normaliser.value, direct.value)
        assert_allclose(normaliser.stderr, direct.stderr)
        assert normaliser.interval[0] < direct.value < normaliser.interval[1]

    def test_constant_has_no_error(self, length):
        assert length.normalisers()["plain"].stderr < 1e-12
        assert str(length.normalisers()["plain"]) == str(length.expectation("2 - 1")) == "1 (known, up to rounding)"
        assert str(length.expectation(np.full(500, 3.5))) == "3.5 (the same on all rows)"
        twice = length.expectation("x") * 2
        assert str(twice - length.expectation("x") - length.expectation("x")) == "0 (the same on all rows)"

    def test_unsampled_state(self, length):
        design = vardi.datasets.length_bias(seed=3)
        wider = vardi.debias(design.samples, {**design.biases, "cube": "x**3"})
        assert_allclose(wider.normalisers()["cube"].value, length.expectation("x**3").value)
        assert_allclose(wider.normalisers()["cube"].stderr, length.expectation("x**3").stderr)

    def test_refuses(self, length):
        with pytest.raises(vardi.MismatchError, match="shape \\(3,\\), but the pool has 500 rows"):
            length.expectation([1.0, 2.0, 3.0])
        with pytest.raises(vardi.MissingValuesError, match="1 of the values are missing or infinite"):
            length.expectation(np.r_[np.nan, np.ones(499)])
        with pytest.raises(vardi.MismatchError, match="'y'"):
            length.expectation("y")
        with pytest.raises(vardi.MismatchError, match="shape \\(4, 2\\)"):
            length.expectations(np.ones((4, 2)))
        matrix = vardi.debias_matrix(np.ones((40, 2)), np.repeat([0, 1], 20))
        with pytest.raises(vardi.MismatchError, match="has only biases"):
            matrix.expectation("x")

    def test_single_rows_use_the_models_own_form(self):
        rng = np.random.default_rng(0)
        x = rng.standard_normal(60)
        centres = np.linspace(-1, 1, 60)
        fit = vardi.debias_matrix(-0.5 * (x[:, None] - centres) ** 2, np.arange(60), log=True)
        with pytest.warns(vardi.WeakOverlapWarning) as caught:
            estimate = fit.expectation(x)
        assert f"({estimate.df:.1f} degrees of freedom)" in str(caught[0].message)
        assert_allclose(estimate.value, np.average(x, weights=fit.weights))
        assert 0.05 < estimate.stderr < 1.0


def projected(tangent, y):
    """Return sum_i c_i y_i x_i for y of shape (n, m) over the pool."""
    return tangent.measure.total(lambda block, at: at.against(block.columns(y)), y.shape[1])


def with_values(tangent, functions):
    """Return means, and influence values of all rows."""
    eta, influence = tangent.influence(functions.astype(float))
    return eta, influence.of_rows()


class TestCdf:
    def test_is_a_weighted_step_function(self, length):
        cdf, x = length.cdf("x"), pool(length)
        assert_allclose(cdf(2.5).value, np.average(x <= 2.5, weights=length.weights))
        assert_allclose(cdf(2.5).stderr, length.expectation("x <= 2.5").stderr)
        several = cdf([1.0, 2.5])
        assert_allclose(several.values[1], cdf(2.5).value)
        assert_allclose(cdf.heights[-1], 1.0)
        assert (np.diff(cdf.heights) > 0).all()

    def test_quantile_inverts(self, length):
        cdf = length.cdf("x")
        for q in (0.05, 0.5, 0.9):
            estimate = cdf.quantile(q)
            below = cdf.x[cdf.x < estimate.value]
            assert cdf(estimate.value).value >= q
            assert cdf(float(below[-1])).value < q
            assert estimate.interval[0] <= estimate.value <= estimate.interval[1]

    def test_ties(self):
        fit = vardi.debias([np.repeat([1.0, 2.0, 3.0], 40), np.repeat([1.0, 3.0], 40)], [1, 1])
        cdf = fit.cdf("x")
        assert_allclose(cdf.heights, [80 / 200, 120 / 200, 1.0])
        assert cdf.quantile(0.5).value == 2.0

    def test_band_by_brute_force(self, strata):
        # blocks and cells against the n x grid influence values, and the width against multipliers of these
        cdf = strata.cdf("x1")
        band = cdf.band(draws=20_000, seed=7)
        tangent = strata.solved.tangent
        value, phi = with_values(tangent, pool(strata, "x1")[:, None] <= band.x)
        assert_allclose(band.value, value)
        source, sizes = tangent.measure.source, tangent.measure.sizes
        means = np.array([phi[source == k].mean(axis=0) for k in range(len(sizes))])
        scaled = (phi - means[source]) * np.sqrt(sizes / (sizes - 1))[source, None] / len(phi)
        covariance = scaled.T @ scaled
        assert_allclose(cdf._covariance(band.x, value), covariance, rtol=1e-8, atol=1e-12)
        few = slice(0, 2)  # fewer points than coordinates of a row
        assert len(tangent.measure.coordinates) > 2
        found = cdf._covariance(band.x[few], value[few])
        assert_allclose(found, covariance[few, few], rtol=1e-8, atol=1e-12)
        xi = np.random.default_rng(7).standard_normal((len(phi), 4000))
        critical = np.quantile(np.abs(xi.T @ scaled).max(axis=1), 0.95)
        df = cdf(float(band.x[np.searchsorted(value, 0.5)])).df
        margin = critical * stdtrit(df, 0.975) / ndtri(0.975)
        low, high = np.maximum(value - margin, 0), np.minimum(value + margin, 1)
        assert_allclose(band.low, np.maximum.accumulate(low), atol=0.004)
        assert_allclose(band.high, np.minimum.accumulate(high[::-1])[::-1], atol=0.004)

    def test_band_between_its_points_and_beyond_them(self, length):
        band = length.cdf("x").band()
        x, low, high = band.drawn
        assert_allclose(band(x), (band.low, band.high))
        middle = (x[:-1] + x[1:]) / 2
        assert_allclose(band(middle), (band.low[:-1], band.high[1:]))
        assert_allclose((low[:-1], high[:-1]), band(middle))
        assert_allclose(band([x[0] - 1, x[-1] + 1]), ([0.0, band.low[-1]], [band.high[0], 1.0]))
        assert [end.shape for end in band(x[0])] == [(), ()]

    def test_band_as_drawn_covers_what_rises_through_its_points(self):
        # 5,000 rows, 200 points: a function inside the band at every point is inside what is drawn between them
        rng = np.random.default_rng(0)
        cdf = vardi.debias([rng.gamma(3.0, size=5000)], ["x"]).cdf("x")
        band = cdf.band()
        t = np.sort(rng.uniform(band.x[0], band.x[-1], 20_000))
        for at_points in (band.low, band.high):
            low, high = band(t)
            for function in (np.interp(t, band.x, at_points), at_points[np.searchsorted(band.x, t)]):
                assert (low <= function).all()
                assert (function <= high).all()

    def test_band_where_no_point_lies_inside(self):
        rng = np.random.default_rng(0)
        x = (rng.random(400) < 0.005).astype(float)
        band = vardi.debias([x[:200], x[200:]], [1, 1]).cdf("x").band()
        assert_allclose(band.x, [0.0, 1.0])
        assert_allclose((band.value[1], band.low[1], band.high[1]), 1.0)
        assert 0.9 < band.low[0] < band.value[0] < band.high[0] <= 1.0

    def test_band_with_counts_and_samples_of_one_row(self):
        rng = np.random.default_rng(0)
        x = rng.standard_normal(80)
        source = np.r_[0, rng.integers(1, 3, 79)]
        fit = vardi.debias_matrix(-0.5 * (x[:, None] - [-0.5, 0.0, 0.5]) ** 2, source, log=True, counts=np.ones(80))
        cdf = fit.cdf(x)
        tangent = fit.solved.tangent
        value, phi = with_values(tangent, x[:, None] <= cdf.x[20:60])
        laws = tangent.measure.point.model.sizes
        p = np.exp(-0.5 * (x[:, None] - [-0.5, 0.0, 0.5]) ** 2 + tangent.hessian.u)
        p /= p.sum(axis=1, keepdims=True)
        means = np.array([phi[source == k].mean(axis=0) for k in range(3)])
        means[0] = p[:, 0] @ phi / laws[0]  # of a single row: the mean under its fitted law
        factors = np.r_[1.0, laws[1:] / (laws[1:] - 1.0)]
        scaled = (phi - means[source]) * np.sqrt(factors)[source, None] / len(phi)
        assert_allclose(cdf._covariance(cdf.x[20:60], value), scaled.T @ scaled, atol=1e-12)

    def test_band_of_a_constant(self):
        fit = vardi.debias([np.ones(40), np.ones(60)], [1, 1])
        band = fit.cdf("x").band()
        assert_allclose((band.x, band.value), ([1.0], [1.0]))

    def test_band_is_wider_than_intervals(self, length):
        cdf = length.cdf("x")
        band = cdf.band()
        middle = len(band.x) // 2
        assert band.high[middle] - band.low[middle] > 1.2 * np.ptp(cdf(band.x[middle]).interval)

    def test_refuses(self, length):
        with pytest.raises(vardi.MismatchError, match="quantile takes one probability, but 2 were given"):
            length.cdf("x").quantile([0.1, 0.5])
        with pytest.raises(vardi.MismatchError, match="The quantile 50 is not between 0 and 1"):
            length.cdf("x").quantile(50)


class TestLogOmegaCovariance:
    def test_contrast_is_the_laplacian_formula(self, length):
        # Var(log Omega_k - log Omega_l) = [c'H^+c - 1/lam_k - 1/lam_l] / n
        C = length.log_omega_covariance()
        influence = length.solved.tangent
        n, lam = influence.n, influence.hessian.rows.sizes / influence.n
        H = (np.diag(influence.hessian.sums.shares) - influence.hessian.sums.gram.array()) / n
        c = np.array([1.0, 0.0, -1.0])
        expected = (c @ np.linalg.pinv(H) @ c - 1 / lam[0] - 1 / lam[2]) / n
        assert_allclose(C[0, 0] + C[2, 2] - 2 * C[0, 2], expected, rtol=1e-9)

    def test_two_samples_and_the_bridging_count(self):
        design = vardi.datasets.house_prices(seed=0)
        fit = vardi.debias(design.samples, design.biases)
        C = fit.log_omega_covariance()
        assert_allclose(C[0, 0] + C[1, 1] - 2 * C[0, 1], 1 / fit.trust.bridging - 1 / 200 - 1 / 100, rtol=1e-9)


class TestTrust:
    def test_one_row_that_carries_all_refuses_an_error(self):
        rng = np.random.default_rng(0)
        fit = vardi.debias({"a": rng.uniform(size=100), "b": rng.uniform(size=100)}, {"a": 1, "b": "x"})
        values = rng.uniform(size=200)
        values[123] = 50.0
        with pytest.warns(
            vardi.WeakOverlapWarning,
            match=r"No standard error is given for the mean: it rests on too few rows \(2.1 degrees of freedom\). Add "
            "rows like those of 'b'",
        ) as caught:
            estimate = fit.expectation(values)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert math.isnan(estimate.stderr)
        assert str(estimate) == f"{estimate.value:.4g} (no error can be given: it rests on too few rows)"

    def test_few_rows_warn(self):
        rng = np.random.default_rng(0)
        samples = {"low": rng.uniform(0, 0.53, 40), "high": rng.uniform(0.5, 1, 40)}
        fit = vardi.debias(samples, {"low": "x <= 0.53", "high": "x >= 0.5"})
        with pytest.warns(vardi.WeakOverlapWarning, match="The standard error of the mean of 'x' rests on few rows"):
            estimate = fit.expectation("x")
        assert 3 < estimate.df < 10
        assert estimate.stderr > 0
        assert "The standard error of the normaliser of 'low' rests on few rows" in fit.trust.messages[0]  # the worst
        assert fit.trust.messages[-1] == "The weakest link between the samples: 1 row bridges 'low' and 'high'."

    def test_heavy_tail(self):
        # two narrow kernels under a wide population: E_P[g^2 / S] is infinite (MATH 2.2)
        design = vardi.datasets.tilts(seed=0, sizes=(1000, 1000), centres=(-0.5, 0.5), width=0.6)
        fit = vardi.debias(design.samples, design.biases)
        with pytest.warns(vardi.WeakOverlapWarning):
            fit.expectation("x**2")
        trust = fit.diagnostics(["x"]).trust
        assert trust.tail_index > 0.5
        assert any("tail index" in message for message in trust.messages)

    def test_perfect_overlap_has_errors(self):
        """A sample of five rows beside a thousand of the same law: B cannot exceed five, and takes nothing away."""
        rng = np.random.default_rng(0)
        fit = vardi.debias({"many": rng.normal(size=1000), "few": rng.normal(size=5)}, {"many": 1, "few": 1})
        assert fit.bridge.rows < 5
        estimate = fit.expectation("x")
        assert estimate.df > 800
        assert fit.trust.messages == ()
        assert_allclose(estimate.stderr, np.std(pool(fit)) / math.sqrt(1005), rtol=0.01)

    def test_an_oscillator_far_out(self):
        # pymbar issue 490: three oscillators, the third ever farther; its error there shrinks as the overlap vanishes
        rng = np.random.default_rng(1)
        for distance in (4, 6, 8, 12, 20, 60):
            centres = np.array([0.0, 1.0, distance])
            x = (centres + rng.standard_normal((1000, 3))).T.ravel()
            log_omega = -0.5 * (x[:, None] - centres) ** 2
            source = np.repeat([0, 1, 2], 1000)
            if distance >= 12:
                with pytest.raises(vardi.NotIdentifiableError) as caught:
                    vardi.debias_matrix(log_omega, source, log=True)
                assert set(caught.value.groups) == {("0", "1"), ("2",)}
                continue
            fit = vardi.debias_matrix(log_omega, source, log=True)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                normaliser = fit.normalisers()["2"]
            if fit.bridge.rows < 15:
                assert any(issubclass(w.category, vardi.WeakOverlapWarning) for w in caught)
                assert set(fit.bridge.cut) == {("0", "1"), ("2",)}
            if not math.isnan(normaliser.stderr):
                assert abs(math.log(normaliser.value / fit.omegas["0"])) < 5 * normaliser.stderr / normaliser.value

    def test_good_overlap_says_nothing(self, length):
        assert length.trust.messages == ()
        assert length.trust.errors_hold


def test_equal_biases_have_errors():
    """With perfect overlap every contrast is as good as another: the weakest cut must still have two sides."""
    rng = np.random.default_rng(0)
    for K in (2, 3, 4, 8):
        for _ in range(10):
            samples = [rng.normal(size=rng.integers(50, 500)) for _ in range(K)]
            fit = vardi.debias(samples, [1] * K)
            pooled = np.concatenate(samples)
            assert all(fit.trust.cut)
            assert_allclose(fit.expectation("x").stderr, pooled.std() / math.sqrt(len(pooled)), rtol=0.15)


def test_estimates_can_be_pickled_after_use(strata):
    fit = pickle.loads(pickle.dumps(strata))
    estimate = fit.expectation("x1")
    again = pickle.loads(pickle.dumps(estimate))
    assert_allclose((again - again).stderr, 0.0, atol=1e-15)
    fit.cdf("x1").band()
    assert_allclose(pickle.loads(pickle.dumps(fit)).expectation("x1").stderr, estimate.stderr)


@pytest.mark.parametrize("shift", [-800.0, 60.0, 400.0, 800.0])
def test_logs_beyond_the_range_of_numbers(shift):
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    log_omega = np.column_stack([np.zeros(100), x])
    fit = vardi.debias_matrix(log_omega + shift, np.arange(100) % 2, log=True)
    plain = vardi.debias_matrix(log_omega, np.arange(100) % 2, log=True)
    difference = fit.log_normalisers()["1"] - fit.log_normalisers()["0"]
    wanted = plain.log_normalisers()["1"] - plain.log_normalisers()["0"]
    assert_allclose((difference.value, difference.stderr), (wanted.value, wanted.stderr), rtol=1e-9)
    assert "log normaliser" in fit.summary()
    assert max(map(len, fit.summary().splitlines())) <= 80
    fit.normalisers()
    fit._repr_html_()


def test_a_series_of_values_keeps_its_index():
    frame = pd.DataFrame({"x": np.arange(20.0)}, index=np.arange(7, 27))
    fit = vardi.debias({"a": frame}, {"a": 1})
    assert fit.expectation(frame["x"]).value == 9.5
    with pytest.raises(vardi.MismatchError, match="index is not that of the rows"):
        fit.expectation(frame["x"].sort_values(ascending=False))
    with pytest.raises(vardi.MismatchError, match="only numbers have a mean"):
        fit.expectation(np.array(["a"] * 20))


def test_a_constant_bias_has_a_known_normaliser():
    """A difference of sums would leave their rounding, of either sign, where the variance is 0."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=3000)
    source = np.arange(3000) % 3
    found = {}
    for size in (0.0, 1e-6, 1e-3):
        omega = np.column_stack([np.exp(0.1 * x), np.exp(-0.1 * x), 1.0 + size * np.sin(np.arange(3000))])
        found[size] = vardi.debias_matrix(omega, source).log_omega_covariance()[2, 2]
        assert found[size] >= 0
    assert found[0.0] < 1e-25
    assert found[1e-6] == pytest.approx(1e-6 * found[1e-3], rel=1e-2)
