"""What holds for every number with an error: means, distribution functions, bootstraps, bounds, sensitivity."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.common import case, cases, close, examples, seeds

import vardi

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")

slopes = st.floats(-100.0, 100.0).filter(lambda a: abs(a) > 1e-3)


@given(cases, slopes, st.floats(-100.0, 100.0))
@examples(20)
def test_a_mean_follows_an_affine_map(one, a, b):
    fit, y = one.fit(), one.pool["y"].to_numpy()
    plain, mapped = fit.expectation("y"), fit.expectation(a * y + b)
    size = abs(a) * np.abs(y).max() + abs(b)
    close(mapped.value, a * plain.value + b, atol=1e-12 * size)
    close(mapped.stderr, abs(a) * plain.stderr, rtol=1e-6, atol=1e-10 * size)
    close(mapped.interval, sorted(a * end + b for end in plain.interval), rtol=1e-6, atol=1e-9 * size)
    close(mapped.df, plain.df, rtol=1e-5)
    assert plain.df == plain.law.df > 0
    close(plain.value, np.asarray(fit.probabilities) @ y)
    close(fit.expectation(np.full(len(y), b)).value, b)


@given(cases)
@examples(15)
def test_several_means_at_once_are_those_means(one):
    fit = one.fit()
    names = ["x", "y", "x * y", "g == 'a'"]
    together = fit.expectations(names)
    assert isinstance(together, vardi.Estimates)
    for place, name in enumerate(names):
        alone = fit.expectation(name)
        close([together[place].value, together[place].stderr], [alone.value, alone.stderr])
        close(together.interval[place], alone.interval)
        close(together.df[place], alone.df)
        assert type(together.laws[place]) is type(alone.law)
    close(together.errors, together.stderr)
    close(together.stderr, np.sqrt(np.diag(together.covariance)))
    close(together.covariance, together.covariance.T)
    assert np.linalg.eigvalsh(together.covariance).min() > -1e-12
    matrix = np.column_stack([one.pool["x"], one.pool["y"]])
    close(fit.expectations(matrix).values, together.values[:2])


@given(cases, slopes)
@examples(20)
def test_arithmetic_of_estimates_is_that_of_their_functions(one, a):
    fit = one.fit()
    x, y = fit.expectation("x"), fit.expectation("y")
    for found, asked in ((x + y, "x + y"), (x - y, "x - y"), (a * x, f"{a!r} * x"), (-x, "-x"), (x + a, f"x + {a!r}")):
        expected = fit.expectation(asked)
        close([found.value, found.stderr], [expected.value, expected.stderr], rtol=1e-7, atol=1e-10)
    close([(x - x).value, (x - x).stderr, (x / x).stderr], [0.0, 0.0, 0.0], atol=1e-12)
    back = x.log().exp()
    close([back.value, back.stderr], [x.value, x.stderr])


@given(cases, st.floats(0.1, 1e6))
@examples(15)
def test_domains_are_ratios_whose_totals_add_up(one, size):
    fit = one.fit()
    means, shares = fit.expectation("y", by="g"), fit.proportions("g")
    totals = fit.total("y", size=size, by="g")
    for g, mean in means.items():
        base = fit.expectation(f"g == '{g}'")
        ratio = fit.expectation(f"y * (g == '{g}')") / base
        close([mean.value, mean.stderr], [ratio.value, ratio.stderr], rtol=1e-9, atol=1e-10)
        close([shares[g].value, shares[g].stderr], [base.value, base.stderr], rtol=1e-9)
        close(fit.cdf("y", by="g")[g](0.0).value, (fit.expectation(f"y <= 0 and g == '{g}'") / base).value)
    close(sum(share.value for share in shares.values()), 1.0)
    close(sum(total.value for total in totals.values()), fit.total("y", size=size).value, atol=1e-9 * size)
    assert list(means) == list(means.keys()) == sorted(one.pool["g"].unique())
    assert means.get("none") is None
    close(means.joint.values, [mean.value for mean in means.values()])
    assert all(len(line) <= 80 for line in means.table().splitlines())


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1e6), st.floats(0.01, 0.98), st.floats(0.01, 0.98))
@examples(40)
def test_intervals_grow_with_their_level(value, stderr, first, second):
    first, second = sorted((first, second))
    estimate = vardi.Estimate(value, stderr)
    inner, outer = estimate.at(first), estimate.at(second)
    assert outer.interval[0] <= inner.interval[0] <= value <= inner.interval[1] <= outer.interval[1]
    assert (inner.value, inner.stderr, inner.level) == (value, stderr, first)
    assert math.isnan(inner.z) if stderr == 0.0 else inner.z == value / stderr
    assert str(estimate)


@given(cases, st.floats(0.01, 0.99), slopes)
@examples(20)
def test_a_cdf_rises_from_0_to_1_and_its_quantile_is_the_inverse(one, q, a):
    fit = one.fit()
    cdf, y = fit.cdf("y"), one.pool["y"].to_numpy()
    assert isinstance(cdf, vardi.DebiasedCdf)
    points = np.concatenate([[y.min() - 1.0], np.sort(y), [y.max() + 1.0]])
    heights = cdf(points).values
    assert (np.diff(heights) >= -1e-12).all()
    close(heights[[0, -2, -1]], [0.0, 1.0, 1.0])
    assert (np.diff(cdf.x) > 0).all()
    close(cdf(cdf.x).values, cdf.heights)
    found = cdf.quantile(q)
    assert found.value in y
    assert cdf(found.value).value >= q - 1e-9
    assert cdf(np.nextafter(found.value, -np.inf)).value < q + 1e-9
    assert found.interval[0] <= found.value <= found.interval[1]
    scaled = fit.cdf(abs(a) * y).quantile(q)
    close(scaled.value, abs(a) * found.value)


@given(cases, st.floats(0.5, 0.9))
@examples(5)
def test_a_band_holds_its_function_and_grows_with_the_level(one, level):
    cdf = one.fit().cdf("y")
    band, wider = cdf.band(level, draws=200), cdf.band(0.99, draws=200)
    assert isinstance(band, vardi.Band)
    assert (band.low >= 0.0).all()
    assert (band.low <= band.value).all()
    assert (band.value <= band.high).all()
    assert (band.high <= 1.0).all()
    assert (wider.high >= band.high).all()
    close(band.value, cdf(band.x).values)
    close(cdf.band(level, draws=200).high, band.high, rtol=0)
    low, high = band(band.x)
    close(low, band.low, rtol=0)
    close(high, band.high, rtol=0)
    x, below, above = band.drawn
    between = (x[1:] + x[:-1]) / 2.0
    close(band(between), np.stack([below[:-1], above[:-1]]), rtol=0)


@given(cases)
@examples(15)
def test_normalisers_and_their_logs_agree(one):
    fit = one.fit()
    plain, logs = fit.normalisers(), fit.log_normalisers()
    for name in fit.names:
        close(plain[name].value, fit.omegas[name])
        close(logs[name].value, fit.log_omegas[name], atol=1e-9)
        close(plain[name].stderr, logs[name].stderr * plain[name].value, atol=1e-9)
        close(np.log(plain[name].interval), logs[name].interval, atol=1e-9)
    covariance = fit.log_omega_covariance()
    close(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12
    assert abs(covariance[0]).max() < 1e-10  # of a sample of the population itself nothing is to be estimated


@given(seeds, st.sampled_from(["bayesian", "rows"]))
@examples(6)
def test_a_bootstrap_repeats_by_its_seed_on_any_number_of_threads(seed, kind):
    fit = case(seed).fit()
    first = fit.bootstrap("y", n=40, seed=seed, kind=kind, jobs=1)
    second = fit.bootstrap("y", n=40, seed=seed, kind=kind, jobs=2)
    assert isinstance(first, vardi.Bootstrap)
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.log_omegas, second.log_omegas)
    close(first.value, fit.expectation("y").value)
    close(first.stderr, np.std(first.values, axis=0, ddof=1))
    inner, outer = np.ravel(first.percentile(0.5)), np.ravel(first.percentile(0.9))
    assert outer[0] <= inner[0] <= inner[1] <= outer[1]
    assert np.ravel(first.interval)[0] <= first.value <= np.ravel(first.interval)[1]
    close(first.interval, first.laws[0].ends(first.value, first.stderr, first.level))
    other = fit.bootstrap("y", n=40, seed=seed + 1, kind=kind)
    assert not np.array_equal(first.values, other.values)


@given(cases, st.lists(st.floats(1e-6, 0.999), min_size=2, max_size=4, unique=True))
@examples(15)
def test_bounds_are_wider_for_a_smaller_risk(one, deltas):
    fit = one.fit()
    found = [fit.bounds(delta) for delta in sorted(deltas)]
    assert all(isinstance(bounds, vardi.Bounds) for bounds in found)
    for strict, lax in pairwise(found):
        assert strict.r >= lax.r
        assert strict.n_certificate >= lax.n_certificate
        assert strict.dkw.log10_n >= lax.dkw.log10_n
        assert strict.sigma2 == lax.sigma2
    assert 0.0 < found[0].kappa <= 1.0
    assert found[0].lambda_min == pytest.approx(min(fit.sizes.values()) / len(fit))
    assert found[0].rho <= found[0].lambda_min
    assert found[0].U >= 0.0
    assert str(found[0].summary())


@pytest.mark.parametrize("delta", ["x", "0.05", None, [0.1], np.array([0.1, 0.2]), {}, math.nan, 0, 1, -1, True])
def test_bounds_refuse_what_is_no_probability(delta):
    with pytest.raises(vardi.MismatchError, match="delta is .*probability"):
        case(0).fit().bounds(delta)


@given(seeds, st.sampled_from(["free", "common"]))
@examples(8)
def test_sensitivity_is_nested_in_its_factor_and_mirrored_by_the_sign(seed, kind):
    one = case(seed)
    fit, gammas = one.fit(), [1.0, 1.1, 1.5, 2.5]
    found = fit.sensitivity("y", gammas, kind=kind)
    assert isinstance(found, vardi.Sensitivity)
    close([found.lower[0], found.upper[0]], [found.estimate.value] * 2)
    assert (np.diff(found.lower) <= 1e-9).all()
    assert (np.diff(found.upper) >= -1e-9).all()
    assert (one.pool["y"].min() <= found.lower).all()
    assert (found.upper <= one.pool["y"].max()).all()
    mirrored = fit.sensitivity(-one.pool["y"].to_numpy(), gammas, kind=kind)
    close(mirrored.lower, -found.upper, rtol=1e-5)
    close(mirrored.upper, -found.lower, rtol=1e-5)
    half = (found.upper[1] + found.upper[2]) / 2.0
    tipping = found.tipping_point(half)
    assert tipping is not None
    assert 1.1 - 1e-9 <= tipping <= 1.5 + 1e-9
    assert found.interval().shape == (4, 2)
    assert found.sharp in (True, False)
    assert str(found)
    assert isinstance(found.note, str)


@given(cases)
@examples(8)
def test_a_check_of_the_biases_knows_no_order_of_rows_and_no_unit(one):
    check = one.fit().check_biases("x")
    assert isinstance(check, vardi.BiasCheck)
    assert 0.0 <= check.pvalue <= 1.0
    assert check.statistic >= 0.0
    reversed_rows = {name: rows.iloc[::-1] for name, rows in one.samples.items()}
    close(vardi.debias(reversed_rows, one.biases).check_biases("x").statistic, check.statistic, rtol=1e-6)
    close(one.fit().check_biases({"x": 7.0 * one.pool["x"].to_numpy()}).statistic, check.statistic, rtol=1e-6)
    assert f"are {check.outcome} (" in " ".join(check.summary().split())
    assert (check.outcome == "contradicted") == (check.pvalue < 0.01)
    assert sorted(check.worst_first) == sorted(check.by_sample)
    assert isinstance(check.reason, str)


@given(cases)
@examples(4)
def test_diagnostics_count_what_there_is(one):
    fit = one.fit()
    found = fit.diagnostics()
    assert isinstance(found, vardi.Diagnostics)
    close(found.effective, fit.effective_rows())
    assert found.rows == len(fit)
    assert {line.name for line in found.columns} == {"x", "y"}
    for line in found.columns:
        close(line.debiased, fit.expectation(line.name).value)
        close(line.pooled, one.pool[line.name].mean())
    assert str(found.summary())
    assert found.to_frame().query("measure == 'effective'")["value"].iloc[0] == found.effective
    assert isinstance(found.warnings, tuple | list)


@given(seeds, st.sampled_from(["bayesian", "rows", "jackknife"]))
@examples(6)
def test_replicate_weights_follow_the_row_wherever_it_stands(seed, kind):
    one = case(seed)
    named = {name: rows.assign(id=np.arange(len(rows))) for name, rows in one.samples.items()}
    order = {name: np.random.default_rng(seed).permutation(len(rows)) for name, rows in named.items()}
    moved = {name: rows.iloc[order[name]] for name, rows in named.items()}
    first, second = (
        vardi.debias(rows, one.biases).replicate_weights(8, seed, kind=kind, id="id") for rows in (named, moved)
    )
    starts = np.cumsum([0, *map(len, named.values())])
    places = np.concatenate([start + order[name] for start, name in zip(starts, named, strict=False)])
    close(second, first.to_numpy()[places])
    close(first.mean(), 1.0)
    assert (first.to_numpy() >= 0).all()
    by_place = vardi.debias(named, one.biases).replicate_weights(8, seed, kind=kind)
    close(by_place, first)  # ids count the rows
