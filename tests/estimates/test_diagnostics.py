"""Diagnostics against what they are by definition, on designs small enough to compute by hand."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import vardi


@pytest.fixture
def fit():
    design = vardi.datasets.strata(seed=3)
    return vardi.debias(design.samples, design.biases)


@pytest.fixture
def houses():
    design = vardi.datasets.house_prices(seed=0)
    return vardi.debias(design.samples, design.biases)


def test_effective_rows_are_kish(fit):
    p = fit.solved.data.chances(fit.solved.tangent.measure)
    assert_allclose(fit.diagnostics().effective, 1 / (p @ p))


def test_samples(fit):
    diagnostics = fit.diagnostics()
    source = np.repeat(np.arange(3), [350, 120, 130])
    for k, sample in enumerate(diagnostics.samples):
        weights = fit.weights[source == k]
        assert sample.rows == len(weights)
        assert_allclose(sample.share, len(weights) / 600)
        assert_allclose(sample.weight_share, weights.sum() / 600)
        assert_allclose(sample.effective, weights.sum() ** 2 / (weights**2).sum())
        assert_allclose(sample.largest_weight, weights.max())
    assert_allclose(sum(sample.weight_share for sample in diagnostics.samples), 1.0)


def test_overlap_rows_sum_to_one_and_give_the_hessian(fit):
    diagnostics = fit.diagnostics()
    O = diagnostics.overlap
    assert_allclose(O.sum(axis=1), 1.0)
    influence = fit.solved.tangent
    lam, n = influence.hessian.rows.sizes / influence.n, influence.n
    H = (np.diag(influence.hessian.sums.shares) - influence.hessian.sums.gram.array()) / n
    assert_allclose(np.eye(3) - O, H / lam[:, None], atol=1e-12)
    values = np.sort(np.linalg.eigvals(O).real)
    assert_allclose(diagnostics.second_eigenvalue, values[-2])
    assert_allclose(1 - diagnostics.second_eigenvalue, fit.solution.gap)


def test_columns_before_and_after(houses):
    column = houses.diagnostics(["MEDV"]).columns[0]
    design = vardi.datasets.house_prices(seed=0)
    x = np.concatenate([rows["MEDV"] for rows in design.samples.values()])
    p = houses.solved.data.chances(houses.solved.tangent.measure)
    estimate = houses.expectation("MEDV")
    variance = p @ (x - p @ x) ** 2
    assert_allclose(column.pooled, x.mean())
    assert_allclose(column.debiased, p @ x)
    assert_allclose(column.stderr, estimate.stderr)
    assert_allclose(column.difference, (p @ x - x.mean()) / np.sqrt(variance))
    assert_allclose(column.equivalent, variance / estimate.stderr**2)
    assert_allclose(column.design_effect, 300 * estimate.stderr**2 / variance)


def test_largest_weights(houses):
    largest = houses.diagnostics(()).largest
    assert [weight for _, weight in largest] == sorted(houses.weights, reverse=True)[:10]
    assert all(houses.weights.iloc[row] == weight for row, weight in largest)


def test_gain_is_the_derivative_of_the_variance():
    # enlarge one sample of a large pool by a hundredth: the model's own variance must fall as the gain says
    sizes = np.array([8000, 25000, 17000])
    design = vardi.datasets.length_bias(sizes=tuple(sizes), seed=0)
    fit = vardi.debias(design.samples, {**design.biases, "cube": "x**3"})
    gain = fit.diagnostics(["x"]).columns[0].gain
    source = np.repeat(np.arange(3), sizes)

    def model_variance(counts):
        other = vardi.debias(design.samples, design.biases, counts=counts)
        tangent = other.solved.tangent
        x = other.solved.memory.values("x")
        rg = tangent.measure.weights * (x - other.expectation(x).value)
        a = tangent.measure.total(lambda block, at: at.against(block.columns(rg)), 1)
        return (counts @ rg**2 + (a.T @ tangent.jacobian.solve(a))[0, 0]) / tangent.n**2

    before = model_variance(np.full(len(source), 100.0))
    for k, name in enumerate(design.samples):
        counts = np.where(source == k, 101.0, 100.0)
        fall = (before - model_variance(counts)) / before / (0.01 * sizes[k])
        assert_allclose(gain[name], fall, rtol=0.03)
    assert gain["plain"] == max(gain[name] for name in design.samples)
    assert gain["cube"] > 0  # a state that was not sampled can be judged too


def test_collect_next(fit):
    for column in fit.diagnostics().columns:
        assert column.collect_next == max(column.gain, key=column.gain.get) == "middle"


def test_disconnection_bounds_what_happens(fit):
    assert 0 < fit.diagnostics(()).disconnection < 1e-6
    rng = np.random.default_rng(0)
    low, high = rng.uniform(0, 0.55, 20), np.r_[0.52, rng.uniform(0.5, 1, 19)]
    low[0] = 0.53
    thin = vardi.debias({"low": low, "high": high}, {"low": "x <= 0.55", "high": "x >= 0.5"})
    assert thin.diagnostics(()).disconnection > 0.01


def test_tidy_frame(fit):
    frame = fit.diagnostics().to_frame("pandas")
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["part", "name", "measure", "value"]
    found = frame.query("part == 'sample' and name == 'middle' and measure == 'rows'")["value"]
    assert found.tolist() == [120.0]
    assert isinstance(fit.diagnostics().to_frame("polars"), pl.DataFrame)


def test_summary_fits_a_terminal(houses):
    text = str(houses.diagnostics())
    assert max(map(len, text.splitlines())) <= 80
    assert "effective rows  183.7 of 300" in text
    assert "bridging rows   45.6 over the weakest cut" in text
    assert "A few rows dominate the mean of 'CRIM'" in text


def test_unsampled_and_collapsed():
    rng = np.random.default_rng(2)
    samples = {"low": rng.uniform(0, 0.6, 40_000), "high": rng.uniform(0.4, 1, 20_000)}
    fit = vardi.debias(samples, {"low": "x <= 0.6", "high": "x >= 0.4", "middle": "0.3 < x < 0.7"})
    assert fit.solved.rows.inverse is not None
    diagnostics = fit.diagnostics()
    assert diagnostics.samples[2].rows == 0
    assert np.isnan(diagnostics.samples[2].largest_weight)
    assert diagnostics.overlap.shape == (2, 2)
    assert_allclose(diagnostics.effective, 60_000 / (np.asarray(fit.weights) ** 2).mean())


def test_matrix_fits_have_no_columns():
    fit = vardi.debias_matrix(np.ones((60, 2)), np.repeat([0, 1], 30))
    assert fit.diagnostics().columns == ()
    assert fit.numeric_columns == ()


@pytest.mark.parametrize("value", [0.1, 5.0, 1e6])
def test_a_constant_column_does_not_move(value):
    rng = np.random.default_rng(1)
    samples = {name: pd.DataFrame({"x": rng.gamma(2.0, size=40) + 0.1, "c": value}) for name in ("plain", "seen")}
    line = next(c for c in vardi.debias(samples, {"plain": 1, "seen": "x"}).diagnostics().columns if c.name == "c")
    assert (line.difference, line.stderr) == (0.0, 0.0)
    assert line.debiased == pytest.approx(value)


def test_checks_of_huge_values():
    rng = np.random.default_rng(0)
    samples = {name: pd.DataFrame({"x": rng.gamma(2.0, size=200) + 0.1}) for name in ("plain", "seen")}
    fit = vardi.debias(samples, {"plain": 1, "seen": "x"})
    x = np.concatenate([rows["x"] for rows in samples.values()])
    assert fit.check_biases({"x": x * 1e200}).pvalue == pytest.approx(fit.check_biases({"x": x}).pvalue, rel=1e-9)


@pytest.mark.parametrize("count", [1, 200])
def test_a_row_that_stands_for_many_is_not_one_row(count):
    """Diagnostics, report, summary and the warning of an expectation say the same of an error that one row carries."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": np.append(rng.uniform(1, 2, 199), 3.0), "y": np.append(rng.normal(size=199), 60.0)})
    counts = np.append(rng.integers(1, 4, 199), count)
    fit = vardi.debias({"a": frame}, {"a": "x"}, counts=counts)
    repeated = frame.loc[np.repeat(frame.index, counts)].reset_index(drop=True)
    expected = vardi.debias({"a": repeated}, {"a": "x"}).diagnostics(["y"])
    found = fit.diagnostics(["y"])
    reported = vardi.report.compute(fit, variables=["y"])
    assert_allclose(found.columns[0].df, expected.columns[0].df, rtol=1e-9)
    assert_allclose(found.columns[0].tail_index, expected.columns[0].tail_index)
    assert reported.variables[0].df == found.columns[0].df
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert_allclose(fit.expectation("y").df, found.columns[0].df)
    single = count == 1
    said = "tandard error of the mean of 'y' rests on few rows"
    assert any(said in str(one.message) for one in caught) == single
    assert any(said in text for text in found.warnings) == single
    assert ("Errors that rest on few rows: y" in " ".join(str(fit).split())) == single
    assert any(said in point.text for point in reported.headline.points) == single


def test_an_engine_says_the_same_of_single_rows():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": np.append(rng.uniform(1, 2, 199), 3.0), "y": np.append(rng.normal(size=199), 60.0)})
    for counts in (np.ones(200, int), np.append(rng.integers(1, 4, 199), 90)):
        counted = frame.with_columns(n=counts)
        eager, lazy = (vardi.debias({"a": one}, {"a": "x"}, counts="n") for one in (counted, counted.lazy()))
        one, other = lazy.diagnostics(["y"]).columns[0], eager.diagnostics(["y"]).columns[0]
        assert_allclose((one.df, one.tail_index), (other.df, other.tail_index), rtol=1e-9)


def test_known_values_with_an_error_are_part_of_every_error():
    design = vardi.datasets.length_bias(seed=0)
    fit = vardi.debias(design.samples, design.biases, known={"x > 4": (0.25, 0.05)})
    wanted = fit.expectation("x > 4").stderr
    column = fit.diagnostics(["x > 4"]).columns[0]
    reported = vardi.report.compute(fit, variables=["x > 4"]).variables[0]
    assert (column.stderr, reported.stderr) == pytest.approx((wanted, wanted), rel=1e-9)
