"""Sensitivity to wrong biases: derivatives, exact and attained ranges, tipping points, and what is refused."""

import itertools
import pickle
import re
import warnings

import matplotlib as mpl
import numpy as np
import oracle
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pools import differences, refitted, small_design, without_matplotlib
from scipy import optimize
from sklearn.linear_model import LinearRegression, LogisticRegression

import vardi
from vardi.learn import coefficient_sensitivity, inference
from vardi.plots import SensitivityDisplay

mpl.use("Agg")
from matplotlib import pyplot as plt

# samples are small here: that their overlap is weak is not what is tested
pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")

# ---------------------------------------------------------------- the derivative, and what is linear in it


def test_linear_range_of_a_common_error_is_a_mean_deviation():
    design = small_design()
    fit = vardi.debias_matrix(design.omega, design.source)
    found = fit.sensitivity(design.z, [2.0], kind="common")
    deviation = np.abs(design.z - found.estimate.value) @ fit.probabilities
    np.testing.assert_allclose(found.linear_upper - found.estimate.value, np.log(2.0) * deviation, rtol=1e-10)


def test_linear_range_is_right_to_first_order():
    design = small_design()
    fit = vardi.debias_matrix(design.omega, design.source)
    found = fit.sensitivity(design.z, [1.0001, 1.001])
    far = np.abs(found.upper - found.linear_upper) / (found.upper - found.estimate.value)
    assert (far < [1e-4, 1e-3]).all()


def test_one_standard_error():
    design = vardi.datasets.length_bias(seed=0)
    fit = vardi.debias(design.samples, design.biases)
    found = fit.sensitivity("x")
    assert fit.sensitivity("x", [found.one_stderr_gamma]).linear_upper[0] == pytest.approx(
        found.estimate.value + found.estimate.stderr, rel=1e-12
    )
    assert 1.05 < found.one_stderr_gamma < 1.08


def test_direction():
    """Rows of large values were drawn more often than declared: the population has fewer of them, so a lower mean."""
    design = small_design()
    delta = np.tile(0.001 * np.sign(design.z - np.median(design.z))[:, None], 3)
    declared, true = (refitted(design.omega, design.source, design.z, move) for move in (0 * delta, delta))
    found = vardi.debias_matrix(design.omega, design.source).sensitivity(design.z, [np.exp(0.001)])
    assert found.lower[0] <= true < declared


# ---------------------------------------------------------------- exact ranges


def vertices(n):
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n)))


@pytest.mark.parametrize("kind", ["free", "common"])
def test_one_sample_is_exact(kind):
    rng = np.random.default_rng(0)
    omega, f = rng.uniform(0.2, 2.0, (11, 1)), np.round(rng.normal(size=11), 1)  # with ties
    fit = vardi.debias_matrix(omega, np.zeros(11, int))
    found = fit.sensitivity(f, [1.0, 1.2, 3.0], kind=kind)
    for j, gamma in enumerate([1.0, 1.2, 3.0]):
        weights = gamma ** vertices(11) / omega[:, 0]
        means = weights @ f / weights.sum(axis=1)
        np.testing.assert_allclose([found.lower[j], found.upper[j]], [means.min(), means.max()], rtol=1e-12)
    assert found.sharp
    assert found.method == "sharp"


@pytest.mark.long
def test_common_error_of_all_samples_is_exact():
    design = small_design(n=9, K=3, seed=4)
    fit = vardi.debias_matrix(design.omega, design.source)
    found = fit.sensitivity(design.z, 2.0, kind="common")
    means = [refitted(design.omega, design.source, design.z, np.log(2.0) * v[:, None]) for v in vertices(9)]
    np.testing.assert_allclose([found.lower[0], found.upper[0]], [min(means), max(means)], rtol=1e-9)
    assert found.sharp


# ---------------------------------------------------------------- attained ranges


def largest_by_programmes(design, f, gamma):
    """Return the exact upper end for two samples, up to a grid.

    For a fixed ratio of normalisers, e^u, the probabilities r_i m_i and p_il = r_i x_il, with x_il within gamma of
    e^{u_l} omega_il, meet linear constraints only: each row of p sums to 1, sum_i m_i p_il = lambda_l. So the largest
    mean is a linear programme (homogeneous in a factor t), and the largest of these over u is what is sought.
    """
    n = len(f)
    m, share = np.full(n, 1 / n), float(np.mean(design.source == 0))
    zero, eye = np.zeros((n, n)), np.eye(n)

    def programme(u):
        low, high = (design.omega * factor * np.exp([0.0, u]) for factor in (1 / gamma, gamma))
        column = np.zeros((n, 1))
        inequalities = np.block(
            [
                [np.diag(low[:, 0]), -eye, zero, column],
                [np.diag(low[:, 1]), zero, -eye, column],
                [-np.diag(high[:, 0]), eye, zero, column],
                [-np.diag(high[:, 1]), zero, eye, column],
            ]
        )
        equalities = np.block(
            [
                [zero, eye, eye, -np.ones((n, 1))],
                [np.zeros(n), m, np.zeros(n), -share],
                [m, np.zeros(n), np.zeros(n), 0.0],
            ]
        )
        target = np.append(np.zeros(n + 1), 1.0)
        cost = np.concatenate([-m * f, np.zeros(2 * n + 1)])
        result = optimize.linprog(cost, inequalities, np.zeros(4 * n), equalities, target, method="highs")
        return result.fun if result.status == 0 else np.inf

    centre = np.diff(vardi.debias_matrix(design.omega, design.source).solution.u)[0]
    grid = centre + 2 * np.log(gamma) * np.linspace(-1, 1, 25)  # errors of two biases differ by no more
    values = [programme(u) for u in grid]
    assert programme(grid[0] - 0.1) == programme(grid[-1] + 0.1) == np.inf
    best = int(np.argmin(values))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, 24)])
    return -min(optimize.minimize_scalar(programme, bounds=bounds, method="bounded").fun, values[best])


@pytest.mark.parametrize("gamma", [1.5, 3.0])
@pytest.mark.parametrize("kind", ["power", "tilt", "indicator"])
def test_two_samples_reach_the_global_optimum(kind, gamma):
    design = small_design(kind, K=2, n=20, seed=2)
    f = np.random.default_rng(0).normal(size=20) + design.z
    found = vardi.debias_matrix(design.omega, design.source).sensitivity(f, gamma)
    width = found.upper[0] - found.estimate.value
    assert abs(found.upper[0] - largest_by_programmes(design, f, gamma)) <= 1e-3 * width


@pytest.mark.long
@given(seed=st.integers(0, 10_000), K=st.integers(1, 4), shape=st.sampled_from(oracle.KINDS))
def test_ranges_begin_at_the_estimate_and_are_nested(seed, K, shape):
    design = oracle.design(shape, K, 30, seed % 50)
    f = np.random.default_rng(seed).normal(size=30)
    fit = vardi.debias_matrix(design.omega, design.source)
    for kind in ("free", "common"):
        found = fit.sensitivity(f, [1, 1.05, 1.3, 2, 4], kind=kind)
        assert found.lower[0] == found.upper[0] == found.estimate.value == fit.expectation(f).value
        assert (np.diff(found.upper) >= 0).all()
        assert (np.diff(found.lower) <= 0).all()
        assert f.min() <= found.lower[-1] <= found.upper[-1] <= f.max()
        assert (np.diff(found.linear_upper) >= 0).all()


@pytest.mark.long
@given(seed=st.integers(0, 10_000), gamma=st.sampled_from([1.1, 2.0, 5.0]))
def test_no_other_biases_within_the_factor_leave_the_range(seed, gamma):
    design = oracle.design("power", 3, 30, seed % 50)
    rng = np.random.default_rng(seed)
    fit = vardi.debias_matrix(design.omega, design.source)
    found = fit.sensitivity(design.z, gamma)
    random = np.log(gamma) * rng.choice([-1.0, 1.0], (30, 3))
    ordered = np.log(gamma) * np.sign(design.z[:, None] - np.quantile(design.z, rng.random(3)))
    for delta in (random, ordered, -ordered):
        assert found.lower[0] <= refitted(design.omega, design.source, design.z, delta) <= found.upper[0]


@pytest.mark.long
@given(seed=st.integers(0, 10_000))
def test_fewer_wrong_biases_move_it_less(seed):
    design = oracle.design("power", 3, 30, seed % 50)
    fit = vardi.debias_matrix(design.omega, design.source)
    every, common, one = (
        fit.sensitivity(design.z, 2.0, **options) for options in ({}, {"kind": "common"}, {"samples": "1"})
    )
    rounding = 1e-12
    assert every.upper[0] >= max(common.upper[0], one.upper[0]) - rounding
    assert every.lower[0] <= min(common.lower[0], one.lower[0]) + rounding


def test_figures_of_two_designs():
    """Iterated and linear ranges at two factors, as an independent prototype gave them on other draws."""
    design = vardi.datasets.strata(seed=0)
    found = vardi.debias(design.samples, design.biases).sensitivity("x1", [1.5, 2.0])
    np.testing.assert_allclose(found.upper - found.lower, [0.923 - 0.454, 1.074 - 0.294], rtol=0.05)
    np.testing.assert_allclose(found.linear_upper - found.linear_lower, [0.928 - 0.450, 1.097 - 0.280], rtol=0.05)
    design = vardi.datasets.length_bias(seed=0)
    found = vardi.debias(design.samples, design.biases).sensitivity("x", [1.5, 3.0])
    np.testing.assert_allclose(found.upper - found.lower, [3.623 - 2.483, 4.841 - 1.784], rtol=0.1)
    np.testing.assert_allclose(found.linear_upper - found.linear_lower, [3.577 - 2.438, 4.551 - 1.463], rtol=0.1)
    assert (found.upper > found.linear_upper).all()  # so the linear range is no outer bound


# ---------------------------------------------------------------- the ways rows are held


def same(a, b):
    for name in ("lower", "upper", "linear_lower", "linear_upper", "lower_stderr", "upper_stderr"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-8)
    assert a.one_stderr_gamma == pytest.approx(b.one_stderr_gamma, rel=1e-10)


@pytest.mark.parametrize("kind", ["free", "common"])
def test_collapsed_rows(kind):
    design = small_design("indicator", n=200)
    f = np.sin(9 * design.z)
    times = 300  # so many that equal rows are collapsed
    omega, source, values = np.repeat(design.omega, times, axis=0), np.repeat(design.source, times), np.repeat(f, times)
    apart = vardi.debias_matrix(design.omega, design.source, counts=np.full(200, times))
    collapsed = vardi.debias_matrix(omega, source)
    same(apart.sensitivity(f, [1.2, 2], kind=kind), collapsed.sensitivity(values, [1.2, 2], kind=kind))


def test_sparse_and_log_matrices():
    design = small_design("indicator", n=200)
    dense, log = (
        vardi.debias_matrix(matrix, design.source, log=log)
        for matrix, log in ((design.omega, False), (oracle.as_sparse_log(design.omega), True))
    )
    same(dense.sensitivity(design.z, [1.2, 2]), log.sensitivity(design.z, [1.2, 2]))


def test_huge_biases_and_column_scales():
    design = small_design("tilt", n=40)
    plain = vardi.debias_matrix(design.omega, design.source)
    scaled = vardi.debias_matrix(np.log(design.omega) + np.array([400.0, -900.0, 5.0]), design.source, log=True)
    same(plain.sensitivity(design.z, [1.2, 2]), scaled.sensitivity(design.z, [1.2, 2]))


@pytest.mark.parametrize("K", [1, 3])
def test_counts_are_repeated_rows(K):
    design = small_design(n=30, K=K)
    counts = np.random.default_rng(0).integers(1, 4, 30)
    rows = np.repeat(np.arange(30), counts)
    counted = vardi.debias_matrix(design.omega, design.source, counts=counts)
    repeated = vardi.debias_matrix(design.omega[rows], design.source[rows])
    for kind in ("free", "common"):
        a = counted.sensitivity(design.z, [1.2, 2], kind=kind)
        b = repeated.sensitivity(design.z[rows], [1.2, 2], kind=kind)
        same(a, b)


def test_a_state_that_was_not_sampled_has_no_part():
    design = small_design(n=40)
    with_state = np.column_stack([design.z**0.5, design.omega])
    alone = vardi.debias_matrix(design.omega, design.source).sensitivity(design.z, [1.2, 2])
    same(alone, vardi.debias_matrix(with_state, design.source + 1).sensitivity(design.z, [1.2, 2]))


def test_samples_that_were_left_out():
    rng = np.random.default_rng(0)
    samples = {"a": rng.uniform(0, 0.6, 50), "far": rng.uniform(3, 4, 20), "b": rng.uniform(0.3, 1, 40)}
    biases = {"a": "x < 0.6", "far": "x >= 3", "b": "0.3 < x < 1"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.DroppedSamplesWarning)
        fit = vardi.debias(samples, biases, on_unidentified="largest")
    kept = [name for name in samples if name != "far"]
    alone = vardi.debias({name: samples[name] for name in kept}, {name: biases[name] for name in kept})
    same(fit.sensitivity("x", [1.2, 2]), alone.sensitivity("x", [1.2, 2]))
    assert fit.sensitivity("x").samples == ("a", "b")


# ---------------------------------------------------------------- errors and doubts


def test_sharp_ends_have_the_errors_of_refits():
    design = small_design(n=200)
    fit = vardi.debias_matrix(design.omega, design.source)
    found = fit.sensitivity(design.z, 2.0, kind="common")
    above = design.z >= found.upper[0]  # the threshold of a ratio is its own value
    delta = np.where(above, -1.0, 1.0)[:, None] * np.log(2.0)
    there = vardi.debias_matrix(design.omega * np.exp(delta), design.source).expectation(design.z)
    assert found.upper[0] == pytest.approx(there.value, rel=1e-10)
    assert found.upper_stderr[0] == pytest.approx(there.stderr, rel=1e-8)


def test_weak_overlap_withholds_errors_and_keeps_ranges():
    rng = np.random.default_rng(0)
    samples = {"low": np.append(rng.uniform(0, 0.5, 100), 50.0), "high": rng.uniform(0.2, 1, 100)}
    fit = vardi.debias(samples, {"low": "x <= 0.5 or x > 2", "high": "x >= 0.2"})
    with pytest.warns(vardi.WeakOverlapWarning, match="No standard error is given") as caught:
        found = fit.sensitivity("x", threshold=0.7)
    assert caught[0].filename == __file__
    assert np.isnan(found.estimate.stderr)
    assert np.isnan(found.one_stderr_gamma)
    assert np.isnan(found.interval()).all()
    assert found.lower[-1] < found.estimate.value < found.upper[-1]
    assert found.tipping > 1
    assert "One standard error" not in str(found)


def test_a_constant_does_not_move():
    design = small_design(n=40)
    found = vardi.debias_matrix(design.omega, design.source).sensitivity(np.full(40, 3.0), threshold=3.1)
    np.testing.assert_allclose(found.upper - found.lower, 0, atol=1e-12)
    assert found.tipping is None
    assert "3.1 is not reached by a factor of 100" in str(found)


# ---------------------------------------------------------------- the tipping point


@pytest.mark.parametrize("options", [{}, {"kind": "common"}, {"samples": ["0", "1"]}])
@pytest.mark.parametrize("side", [-1, 1])
def test_tipping_point_is_where_the_range_reaches_the_value(options, side):
    design = small_design(n=60)
    fit = vardi.debias_matrix(design.omega, design.source)
    found = fit.sensitivity(design.z, **options)
    value = found.estimate.value + side * 0.4
    tipping = found.tipping_point(value)
    ends = fit.sensitivity(design.z, [tipping / 1.01, tipping * 1.01], **options)
    reached = side * (ends.upper if side > 0 else ends.lower) >= side * value
    assert reached.tolist() == [False, True]
    assert fit.sensitivity(design.z, threshold=value, **options).tipping == tipping


def test_tipping_point_beyond_the_factors_asked_for():
    design = small_design(n=60)
    fit = vardi.debias_matrix(design.omega, design.source)
    far = fit.sensitivity(design.z, 8.0).upper[0]
    assert fit.sensitivity(design.z, [1.0, 1.1]).tipping_point(far) == pytest.approx(8.0, rel=0.01)


def test_tipping_point_out_of_reach():
    design = small_design(n=60)
    found = vardi.debias_matrix(design.omega, design.source).sensitivity(design.z, threshold=design.z.max() + 1)
    assert found.tipping_point() is None
    assert found.tipping_point(found.estimate.value) == 1.0


# ---------------------------------------------------------------- coefficients


@pytest.fixture
def houses():
    design = vardi.datasets.house_prices(seed=0)
    return vardi.debias(design.samples, design.biases)


MODELS = [(LinearRegression(), "MEDV"), (LogisticRegression(C=5.0), "MEDV > 25")]


@pytest.mark.parametrize(("model", "y"), MODELS)
def test_coefficient_begins_at_its_estimate_and_is_nested(houses, model, y):
    result = inference(houses, model, ["RM", "LSTAT"], y)
    found = coefficient_sensitivity(houses, model, ["RM", "LSTAT"], y, "RM", [1, 1.2, 2])
    assert found.lower[0] == found.upper[0] == result["RM"].value
    assert found.estimate.stderr == pytest.approx(result["RM"].stderr, rel=1e-12)
    assert (np.diff(found.upper) > 0).all()
    assert (np.diff(found.lower) < 0).all()
    assert found.method == "attained"
    assert found.name == "coefficient of RM"


@pytest.mark.long
@pytest.mark.parametrize("logistic", [False, True])
def test_coefficient_slopes_are_those_of_refits(logistic):
    design = small_design("tilt", n=15)
    rng = np.random.default_rng(0)
    y = design.z + rng.normal(size=15)
    y, model = (y > 0, LogisticRegression(C=1.0)) if logistic else (y, LinearRegression())
    X = np.column_stack([design.z, rng.normal(size=15)])

    def coefficient(delta):
        fit = vardi.debias_matrix(design.omega * np.exp(delta), design.source)
        return inference(fit, model, X, y)["x0"].value

    fit = vardi.debias_matrix(design.omega, design.source)
    slope = coefficient_sensitivity(fit, model, X, y, "x0", 1.1)
    total, step = 0.0, 1e-4
    for i, l in zip(*np.nonzero(design.omega), strict=True):
        delta = np.zeros(design.omega.shape)
        delta[i, l] = step
        total += abs(coefficient(delta) - coefficient(-delta)) / (2 * step)
    assert (slope.linear_upper[0] - slope.estimate.value) / np.log(1.1) == pytest.approx(total, rel=1e-5)
    near = coefficient_sensitivity(fit, model, X, y, "x0", 1.0001)
    assert near.upper[0] == pytest.approx(near.linear_upper[0], abs=1e-3 * (near.upper[0] - near.estimate.value))


def test_coefficient_range_of_one_sample_is_wide_enough():
    rng = np.random.default_rng(3)
    x = rng.normal(size=10)
    y = x + rng.normal(size=10)
    fit = vardi.debias_matrix(np.ones((10, 1)), np.zeros(10, int))
    found = coefficient_sensitivity(fit, LinearRegression(), x[:, None], y, "x0", 2.0)
    slopes = []
    for signs in vertices(10):
        w = 2.0**signs
        w /= w.sum()
        slopes.append(w @ ((x - w @ x) * (y - w @ y)) / (w @ (x - w @ x) ** 2))
    assert found.upper[0] == pytest.approx(max(slopes), rel=1e-3)
    assert found.lower[0] == pytest.approx(min(slopes), rel=1e-3)
    assert not found.sharp


def test_coefficient_of_a_fitted_model(houses):
    model = LinearRegression().fit(*(houses_columns(houses)), sample_weight=houses.weights)
    X, y = houses_columns(houses)
    a = coefficient_sensitivity(houses, model, X, y, "RM", [1, 2])
    b = coefficient_sensitivity(houses, LinearRegression(), X, y, "RM", [1, 2])
    np.testing.assert_allclose(a.upper, b.upper, rtol=1e-8)


def houses_columns(fit):
    whole = fit.solved.pool.whole().native
    return whole[["RM", "LSTAT"]], whole["MEDV"]


def test_coefficient_that_is_not_there(houses):
    with pytest.raises(vardi.MismatchError) as caught:
        coefficient_sensitivity(houses, LinearRegression(), ["RM", "LSTAT"], "MEDV", "LSTATT")
    assert str(caught.value) == (
        "No coefficient 'LSTATT'. The coefficients are 'intercept', 'RM', 'LSTAT'. Did you mean 'LSTAT'?"
    )


# ---------------------------------------------------------------- text, pictures, pickles


def test_text(houses):
    assert str(houses.sensitivity("MEDV", [1, 1.5], samples=["agency"], threshold=20)) == (
        "mean of MEDV: 23.22 ± 0.97 (95%: 21.27 to 25.17), if the bias of 'agency' is\n"
        "wrong by up to this factor:\n"
        "factor  lowest  highest  linear from  linear to\n"
        "     1   23.22    23.22        23.22      23.22\n"
        "   1.5   22.58    23.80        22.60      23.84\n"
        "Attained: some biases within the factor give these ends, and the worst ones may\n"
        "lie a little beyond.\n"
        "One standard error (0.97) is reached at 1.889.\n"
        "20 is reached at 20.1."
    )
    common = str(houses.sensitivity(np.ones(len(houses)), 1.5, kind="common"))
    assert "mean of values" in common
    assert "are wrong, all alike, by" in " ".join(common.split())
    assert "Sharp: no biases within the factor give a value outside the range." in common


def test_html_escapes(houses):
    found = houses.sensitivity("MEDV > 25", [1, 2], threshold=0.5)
    html = found._repr_html_()
    assert "<b>mean of MEDV &gt; 25:</b>" in html
    assert html.count("<tr>") == 3
    assert "0.5 is reached at" in html


def test_pickle(houses):
    found = houses.sensitivity("MEDV", [1, 2])
    copy = pickle.loads(pickle.dumps(found))
    assert str(copy) == str(found)
    assert copy.tipping_point(20) == found.tipping_point(20)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_display(houses, ax):
    display = SensitivityDisplay.from_fit(houses, "MEDV", [1, 1.5, 2], threshold=20, ax=ax)
    assert display.ax_ is ax
    found = display.sensitivity
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), found.lower)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), found.upper)
    np.testing.assert_array_equal(ax.lines[2].get_ydata(), found.linear_lower)
    assert ax.lines[-1].get_xdata().tolist() == [found.tipping]
    assert legend(ax) == [
        "range (attained)",
        "to first order",
        "estimate",
        "one standard error",
        "20 reached at 1.45",
    ]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "1.5", "2"]
    assert ax.get_ylabel() == "mean of MEDV"


def test_display_without_a_tipping_point_in_the_picture(houses, ax):
    SensitivityDisplay.from_fit(houses, "MEDV", [1, 1.1], threshold=20, ax=ax)
    assert "20 reached at 1.45" in legend(ax)
    ax.clear()
    SensitivityDisplay.from_fit(houses, "MEDV", [1, 1.1], threshold=1000, ax=ax)
    assert "1000 not reached" in legend(ax)
    ax.clear()
    SensitivityDisplay.from_fit(houses, "MEDV", [1, 1.1], ax=ax)
    assert not any("reached" in text for text in legend(ax))


def test_display_without_matplotlib(houses, monkeypatch):
    without_matplotlib(monkeypatch)
    with pytest.raises(ImportError, match=r"pip install 'vardi\[plot\]'"):
        SensitivityDisplay.from_fit(houses, "MEDV", 1.5)


# ---------------------------------------------------------------- what is refused


def refused(kind, text, call):
    with pytest.raises(kind, match=re.escape(text)) as caught:
        call()
    assert str(caught.value) == text
    return caught.value


@pytest.mark.parametrize("gammas", [[], [0.9, 2], [1, 1], [2, 1.5], [1, np.inf], [1, np.nan], [[1, 2]]])
def test_gammas(houses, gammas):
    refused(
        vardi.MismatchError,
        f"gammas is {gammas!r}. A bias is wrong by a factor of 1 (not at all) or more: give finite numbers from 1 on, "
        "each larger than the one before.",
        lambda: houses.sensitivity("MEDV", gammas),
    )


def test_kind(houses):
    refused(
        vardi.MismatchError,
        "kind is 'fre'. Give 'free', where each bias errs on its own, or 'common', where all err alike.",
        lambda: houses.sensitivity("MEDV", kind="fre"),
    )


def test_samples(houses):
    refused(
        vardi.MismatchError,
        "No sample 'agncy' whose bias enters the weights. The samples are 'agency', 'national'. Did you mean "
        "'agency'? Name those whose biases may be wrong, or leave samples out for all.",
        lambda: houses.sensitivity("MEDV", samples=["national", "agncy"]),
    )
    refused(
        vardi.MismatchError,
        "No sample was named. The samples are 'agency', 'national'. Name those whose biases may be wrong, or leave "
        "samples out for all.",
        lambda: houses.sensitivity("MEDV", samples=[]),
    )


def test_a_state_that_was_not_sampled_cannot_be_wrong():
    design = small_design(n=40)
    fit = vardi.debias_matrix(np.column_stack([design.z, design.omega]), design.source + 1)
    refused(
        vardi.MismatchError,
        "No sample '0' whose bias enters the weights. The samples are '1', '2', '3'. Name those whose biases "
        "may be wrong, or leave samples out for all.",
        lambda: fit.sensitivity(design.z, samples="0"),
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, "20"])
def test_threshold(houses, value):
    text = f"{value!r} is not a value that an estimate could reach. Give a number."
    refused(vardi.MismatchError, text, lambda: houses.sensitivity("MEDV", threshold=value))
    refused(vardi.MismatchError, text, lambda: houses.sensitivity("MEDV", 1.1).tipping_point(value))


def test_no_threshold(houses):
    refused(
        vardi.MismatchError,
        "No value was given whose tipping point is sought. Give one here, or earlier as threshold=.",
        lambda: houses.sensitivity("MEDV", 1.1).tipping_point(),
    )


def test_values(houses):
    with pytest.raises(vardi.MismatchError, match="The values have shape"):
        houses.sensitivity(np.ones(3))
    with pytest.raises(vardi.MissingValuesError, match="missing or infinite"):
        houses.sensitivity(np.full(len(houses), np.nan))


@pytest.mark.parametrize("kind", ["free", "common"])
def test_lazy_rows_are_answered_to_first_order(kind):
    rng = np.random.default_rng(0)
    samples = {"a": pl.DataFrame({"x": rng.gamma(2.0, size=60)}), "b": pl.DataFrame({"x": rng.gamma(3.0, size=50)})}
    eager = vardi.debias(samples, {"a": 1, "b": "x"}).sensitivity("x > 2", kind=kind)
    lazy = vardi.debias({name: rows.lazy() for name, rows in samples.items()}, {"a": 1, "b": "x"})
    found = lazy.sensitivity("x > 2", kind=kind)
    assert found.method == "linear"
    np.testing.assert_allclose([found.lower, found.upper], [eager.linear_lower, eager.linear_upper], rtol=1e-8)
    assert found.one_stderr_gamma == pytest.approx(eager.one_stderr_gamma, rel=1e-8)


# ---------------------------------------------------------------- known values and parameters, which are fitted anew


@pytest.mark.long
@pytest.mark.parametrize("kind", ["free", "common"])
@pytest.mark.parametrize("error", [None, 0.05])
def test_known_values_are_met_whatever_the_biases_are(kind, error):
    """The known function is a column of its own, of which no error is supposed."""
    design = small_design(n=24, seed=1)
    h, f = (design.z > np.median(design.z)).astype(float), np.sin(design.z)
    share = float(np.average(h, weights=vardi.debias_matrix(design.omega, design.source).weights)) + 0.04
    known = {"3": share if error is None else (share, error)}

    def fitted(delta):
        omega = np.column_stack([design.omega * np.exp(delta), h])
        return vardi.debias_matrix(omega, design.source, known=known)

    def values(delta):
        weights = fitted(delta).weights
        return np.array([np.average(f, weights=weights), np.polyfit(design.z, f, 1, w=np.sqrt(weights))[0]])

    fit = fitted(np.zeros((24, 3)))
    mean = fit.sensitivity(f, [1.3], kind=kind)
    slope = coefficient_sensitivity(fit, LinearRegression(), design.z[:, None], f, "x0", [1.3], kind=kind)
    halves = np.log(1.3) * differences(values, 24, 3, kind)
    for found, half in zip((mean, slope), halves, strict=True):
        assert found.method == "linear"
        assert "refitted" in found.note
        assert found.upper[0] - found.estimate.value == pytest.approx(half, rel=1e-6)
        assert found.estimate.value - found.lower[0] == pytest.approx(half, rel=1e-6)


def test_errors_of_known_values_are_part_of_those_of_the_ends():
    design = vardi.datasets.length_bias(seed=0)
    fit = vardi.debias(design.samples, design.biases, known={"x > 4": (0.25, 0.05)})
    found = fit.sensitivity("x > 4", [1.0, 1.2])
    np.testing.assert_allclose([found.lower_stderr, found.upper_stderr], found.estimate.stderr, rtol=1e-12)


def test_biases_as_they_were_estimated():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    samples = {"reference": rng.normal(size=200), "panel": x[rng.random(3000) < 1 / (1 + np.exp(0.5 - 2 * x))][:400]}
    fit = vardi.debias(samples, {"reference": 1, "panel": vardi.logistic("x")})
    linear = fit.sensitivity("x", 1.0)
    assert linear.method == "linear"
    assert linear.upper[0] == fit.expectation("x").value
    known = vardi.debias(samples, {"reference": 1, **fit.estimated_biases})
    assert known.sensitivity("x", 1.0).upper[0] == pytest.approx(fit.expectation("x").value, rel=1e-6)
