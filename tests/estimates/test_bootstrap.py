"""Bootstrap within samples: against influence functions, and against what must not change."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pools import strata_fit
from scipy import sparse
from scipy.special import stdtrit

import vardi


@pytest.fixture(scope="module")
def collapsed():
    return strata_fit(n=20_000)


@pytest.fixture(scope="module")
def tilts():
    design = vardi.datasets.tilts(seed=1)
    fit = vardi.debias(design.samples, design.biases)
    assert fit.solved.rows.inverse is None
    return fit


# ---------------------------------------------------------------- the spread is that of the influence function


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bayesian", "rows"])
def test_the_spread_is_the_standard_error(kind, tilts):
    """1000 draws give an sd to 2.2%; the linearisation itself is good to a few per cent at n = 550."""
    values = ["x", "x > 1", "x ** 2"]
    boot = tilts.bootstrap(values, n=1000, kind=kind)
    np.testing.assert_allclose(boot.stderr / tilts.expectations(values).stderr, 1.0, atol=0.1)
    np.testing.assert_allclose(boot.value, tilts.expectations(values).values, rtol=1e-12)
    omegas = np.sqrt(np.diag(np.cov(boot.log_omegas.T)))
    influence = tilts.solved.bias_influence()
    np.testing.assert_allclose(omegas / np.sqrt(np.diag(influence.covariance())), 1.0, atol=0.1)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bayesian", "rows"])
def test_the_spread_of_collapsed_rows_is_the_standard_error(kind, collapsed):
    fit, _, _, y = collapsed
    boot = fit.bootstrap(y, n=500, kind=kind)
    assert boot.stderr / fit.expectation(y).stderr == pytest.approx(1.0, abs=0.1)
    only = fit.bootstrap(n=500, kind=kind, seed=3)  # counts of the distinct rows alone
    np.testing.assert_allclose(only.stderr / boot.log_omegas.std(axis=0, ddof=1), 1.0, atol=0.15)
    np.testing.assert_array_equal(only.values, only.log_omegas)
    assert only.names[0] == "log Omega of 0"


@pytest.mark.long
@pytest.mark.parametrize("error", [None, 0.03])
def test_known_values_with_an_error_are_drawn_too(error, tilts):
    """Else the spread would leave out what the error of a known value adds."""
    design = vardi.datasets.tilts(seed=1)
    share = tilts.expectation("x > 0").value
    known = {"x > 0": share if error is None else (share, error)}
    fit = vardi.debias(design.samples, design.biases, known=known)
    boot = fit.bootstrap(["x", "x > 0"], n=300)
    x, above = fit.expectations(["x", "x > 0"])
    assert boot.stderr[0] / x.stderr == pytest.approx(1.0, abs=0.13)
    if error is None:
        assert boot.stderr[1] < 1e-6
    else:
        assert boot.stderr[1] / above.stderr == pytest.approx(1.0, abs=0.13)
        without = fit.solved.tangent.measure.spread(above.influence.values).covariance[0, 0] ** 0.5
        assert without < 0.8 * above.stderr


# ---------------------------------------------------------------- what must not change a draw


@pytest.mark.parametrize("kind", ["bayesian", "rows"])
@pytest.mark.parametrize("data", ["collapsed", "tilts"])
def test_the_number_of_threads_and_of_draws_changes_nothing(kind, data, collapsed, tilts):
    fit, statistic = (collapsed[0], collapsed[3]) if data == "collapsed" else (tilts, "x")
    few, many = (fit.bootstrap(statistic, n=n, kind=kind, jobs=jobs) for n, jobs in ((12, 1), (30, 4)))
    np.testing.assert_array_equal(few.values, many.values[:12])
    np.testing.assert_array_equal(few.log_omegas, many.log_omegas[:12])
    assert not np.array_equal(few.values, fit.bootstrap(statistic, n=12, kind=kind, seed=1).values)


@pytest.mark.parametrize("data", ["collapsed", "tilts"])
def test_a_mean_may_be_spelt_in_many_ways(data, collapsed, tilts):
    if data == "collapsed":
        fit, y = collapsed[0], collapsed[3]
    else:
        fit, y = tilts, np.concatenate([frame.column("x") for frame in tilts.solved.pool.frames])
    wanted = fit.bootstrap(y, n=4)
    assert isinstance(wanted.value, float)
    assert isinstance(wanted.stderr, float)
    function = fit.bootstrap(lambda w: w @ y / len(y), n=4)
    for other in (
        function,
        fit.bootstrap([y], n=4),
        fit.bootstrap(y[:, None], n=4),
        fit.bootstrap(list(y), n=4),
    ):
        np.testing.assert_allclose(other.values, wanted.values, rtol=1e-10)
    if fit is tilts:
        np.testing.assert_array_equal(fit.bootstrap("x", n=4).values, wanted.values)


@pytest.mark.parametrize("kind", ["bayesian", "rows"])
@pytest.mark.parametrize("data", ["collapsed", "tilts"])
def test_groups_of_one_are_no_groups(kind, data, collapsed, tilts):
    fit, statistic = (collapsed[0], collapsed[3]) if data == "collapsed" else (tilts, "x")
    names = np.random.default_rng(0).permutation(len(fit))
    one, other = (fit.bootstrap(statistic, n=4, kind=kind, groups=groups) for groups in (None, names))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-10)


@pytest.mark.long
def test_whole_groups_are_drawn():
    """Twins that are one group have the spread of as many rows; ungrouped, of twice as many."""
    rng = np.random.default_rng(2)
    x = {"plain": rng.gamma(3.0, size=300), "length": rng.gamma(4.0, size=300)}
    frames = {name: pd.DataFrame({"x": np.repeat(v, 2), "twin": np.repeat([f"{name}{i}" for i in range(300)], 2)})
              for name, v in x.items()}  # fmt: skip
    biases = {"plain": 1, "length": "x"}
    single, twins = vardi.debias(x, biases), vardi.debias(frames, biases)
    np.testing.assert_allclose(
        twins.bootstrap("x", n=4, groups="twin").values, single.bootstrap("x", n=4).values, rtol=1e-9
    )
    rows = twins.bootstrap("x", n=600, groups="twin", kind="rows")
    assert rows.stderr / single.expectation("x").stderr == pytest.approx(1.0, abs=0.12)
    assert twins.bootstrap("x", n=600).stderr / rows.stderr == pytest.approx(0.5**0.5, abs=0.1)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bayesian", "rows"])
def test_a_count_is_so_many_rows(kind):
    """In law: the spread with counts is that of rows repeated as often."""
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, 400).astype(float)
    counted, omega, source, y = strata_fit(400, counts=counts)
    times = counts.astype(int)
    repeated = vardi.debias_matrix(np.repeat(omega, times, axis=0), np.repeat(source, times))
    one = counted.bootstrap(y, n=600, kind=kind)
    other = repeated.bootstrap(np.repeat(y, times), n=600, kind=kind, seed=1)
    assert one.value == pytest.approx(other.value)
    assert one.stderr / other.stderr == pytest.approx(1.0, abs=0.13)
    assert one.stderr / repeated.expectation(np.repeat(y, times)).stderr == pytest.approx(1.0, abs=0.09)
    sums = counted.bootstrap(lambda w: [w.sum(), w[counts == 0].sum()], n=3, kind=kind)
    np.testing.assert_allclose(sums.values, [[counts.sum(), 0.0]] * 3, rtol=1e-12)
    grouped = counted.bootstrap(y, n=600, kind=kind, groups=np.arange(400))
    assert grouped.stderr > one.stderr  # copies of a row that go together


def test_a_state_without_a_sample_has_draws_too(tilts):
    rng = np.random.default_rng(0)
    x = {"plain": rng.gamma(3.0, size=200), "length": rng.gamma(4.0, size=200)}
    fit = vardi.debias(x, {"plain": 1, "length": "x", "square": "x ** 2"})
    mean = fit.bootstrap("x ** 2", n=20)
    np.testing.assert_allclose(np.exp(mean.log_omegas[:, 2]), mean.values[:, 0], rtol=1e-9)
    rows = fit.bootstrap("x ** 2", n=20, kind="rows")
    np.testing.assert_allclose(np.exp(rows.log_omegas[:, 2]), rows.values[:, 0], rtol=1e-9)


def test_rows_that_were_left_out_stay_out():
    samples = {"a": np.linspace(0, 1, 30), "b": np.linspace(0.5, 1, 30), "far": np.array([7.0, 8.0])}
    biases = {"a": 1, "b": "x > 0.4 and x < 5", "far": "x > 5"}
    biases["a"] = "x < 5"
    with pytest.warns(vardi.DroppedSamplesWarning):
        fit = vardi.debias(samples, biases, on_unidentified="largest")
    boot = fit.bootstrap(lambda w: w, n=3)
    assert boot.values.shape == (3, 62)
    assert (boot.values[:, -2:] == 0).all()
    assert fit.bootstrap("x", n=3, groups=np.arange(62)).values.max() < 1


def test_sparse_and_log_rows_have_the_same_draws():
    fit, omega, source, y = strata_fit(n=300)
    wanted = fit.bootstrap(y, n=4, kind="rows")
    with np.errstate(divide="ignore"):
        logs = vardi.debias_matrix(np.log(omega), source, log=True)
    for other in (vardi.debias_matrix(sparse.csr_array(omega), source), logs):
        np.testing.assert_allclose(other.bootstrap(y, n=4, kind="rows").values, wanted.values, rtol=1e-9)


# ---------------------------------------------------------------- draws without a fit


def few_links(rows):
    """Two intervals that share one stretch, with so many rows of the first in it."""
    a = np.concatenate([np.linspace(0.0, 0.8, 40), np.linspace(0.91, 0.99, rows)])
    b = np.linspace(0.9, 2.0, 40)
    return vardi.debias({"a": a, "b": b}, {"a": "x < 1", "b": "x >= 0.9"})


def test_draws_without_a_fit_are_counted():
    fit = few_links(4)
    with pytest.warns(
        vardi.WeakOverlapWarning, match=r"of 400 draws have no fit.*\('a'\) and \('b'\) cannot be"
    ) as said:
        boot = fit.bootstrap("x", n=400, kind="rows")
    assert len(said) == 1
    assert 0 < boot.failed <= 40
    lost = np.isnan(boot.values[:, 0])
    assert lost.sum() == boot.failed
    np.testing.assert_array_equal(lost, np.isnan(boot.log_omegas).all(axis=1))
    assert boot.stderr == pytest.approx(boot.values[~lost, 0].std(ddof=1))
    assert np.isfinite(boot.percentile()).all()
    assert f"400 refits, {boot.failed} failed" in str(boot)


def test_too_many_draws_without_a_fit_are_an_error():
    """One joining row is left out of a draw with probability 1/e."""
    with pytest.raises(vardi.NotIdentifiableError, match="Use kind='bayesian', which keeps every row") as caught:
        few_links(1).bootstrap("x", n=100, kind="rows")
    assert caught.value.groups == (("a",), ("b",))
    with pytest.warns(vardi.WeakOverlapWarning, match="The standard error of x rests on few rows"):
        assert few_links(1).bootstrap("x", n=100).failed == 0


# ---------------------------------------------------------------- the result


def test_intervals_and_print(tilts):
    boot = tilts.bootstrap(["x", "x > 1"], n=200, level=0.9)
    t, of_share = (stdtrit(law.df, 0.95) for law in boot.laws)
    np.testing.assert_allclose(boot.interval[0] - boot.value[0], np.array([-1, 1]) * t * boot.stderr[0])
    np.testing.assert_allclose(boot.laws[0].df, tilts.expectation("x").df)
    p, m, z = boot.value[1], boot.value[1] * (1 - boot.value[1]) / boot.stderr[1] ** 2, 1.6448536  # Wilson's
    m *= (z / of_share) ** 2
    half = z * np.sqrt(p * (1 - p) / m + z**2 / (4 * m**2))
    wilson = (p + z**2 / (2 * m) + np.array([-half, half])) / (1 + z**2 / m)
    np.testing.assert_allclose(boot.interval[1], wilson, rtol=1e-6)
    np.testing.assert_allclose(boot.percentile(0.5), np.quantile(boot.values, [0.25, 0.75], axis=0).T)
    assert boot.names == ("x", "x > 1")
    lines = str(boot).splitlines()
    assert lines[0] == "Bayesian bootstrap: 200 refits, none failed"
    assert lines[1].startswith("x      ")
    assert "(90%: " in lines[2]
    one = tilts.bootstrap("x", n=20, kind="rows")
    assert one.interval[0] < one.value < one.interval[1]
    assert one.percentile()[0] < one.percentile()[1]
    assert str(one).startswith("Bootstrap of rows: 20 refits")
    assert len(one) == 20
    assert isinstance(one, vardi.Bootstrap)


def test_functions_may_return_arrays(tilts):
    def table(w):
        return np.array([[w.max(), w.min()], [w.mean(), 1.0]])

    boot = tilts.bootstrap(table, n=10, jobs=2)
    assert boot.value.shape == boot.stderr.shape == (2, 2)
    assert boot.interval.shape == (2, 2, 2)
    assert boot.names[1] == "table[0, 1]"
    np.testing.assert_allclose(boot.values[:, 2], 1.0)
    assert boot.value[0, 0] == pytest.approx(np.max(tilts.weights))


def test_progress_is_told_and_seeds_are_many(tilts):
    told = []
    tilts.bootstrap("x", n=20, progress=lambda done, n: told.append((done, n)))
    assert told[-1] == (20, 20)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    a, b = (tilts.bootstrap("x", n=3, seed=np.random.default_rng(5)).values for _ in range(2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(*(tilts.bootstrap("x", n=3, seed=None).values for _ in range(2)))


# ---------------------------------------------------------------- refusals


def test_refusals(tilts):
    n = len(tilts)
    with pytest.raises(vardi.MismatchError, match=r"kind is 'block'\. Give 'bayesian' .* or 'rows'"):
        tilts.bootstrap("x", kind="block")
    with pytest.raises(vardi.MismatchError, match="1 draws have no spread"):
        tilts.bootstrap("x", n=1)
    with pytest.raises(vardi.MismatchError, match="level 95"):
        tilts.bootstrap("x", level=95)
    with pytest.raises(vardi.MismatchError, match=r"values have shape \(3,\), but the pool has 550 rows"):
        tilts.bootstrap(np.arange(3.0))
    with pytest.raises(vardi.MismatchError, match=r"groups have shape \(3,\), but the pool has 550 rows"):
        tilts.bootstrap("x", groups=[1, 2, 3])
    with pytest.raises(vardi.MismatchError, match=r"No column 'xx' with groups in every sample.* Did you mean 'x'\?"):
        tilts.bootstrap("x", groups="xx")
    with pytest.raises(vardi.MissingValuesError, match="2 rows have no group"):
        tilts.bootstrap("x", groups=np.r_[np.nan, np.nan, np.arange(n - 2)])
    with pytest.raises(vardi.MismatchError, match=r"Group 'g' has rows in 'at -2.5' and in 'at 0'"):
        tilts.bootstrap("x", groups=["g"] * n)
    sizes = iter([1, 2, 1])
    with pytest.raises(vardi.MismatchError, match=r"shape \(1,\) for the fit, but \(2,\) for a draw"):
        tilts.bootstrap(lambda w: w[: next(sizes)], n=2)


def test_one_group_of_a_sample_has_no_spread(tilts):
    groups = np.r_[np.zeros(200, int), np.arange(1, 351)]
    with pytest.warns(vardi.WeakOverlapWarning, match="for x: all rows of 'at -2.5' are in one group, which does not"):
        found = tilts.bootstrap("x", n=3, groups=groups)
    assert math.isnan(found.stderr)
    assert np.isnan([found.interval, found.percentile()]).all()
    single = vardi.debias({"a": np.arange(1.0, 40.0), "b": np.array([2.5])}, {"a": 1, "b": "x"})
    with pytest.warns(vardi.VardiWarning, match="There is only one row in 'b'"):
        single.bootstrap("x", n=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counted = vardi.debias(
            {"a": np.arange(1.0, 40.0), "b": np.array([2.5])}, {"a": 1, "b": "x"}, counts=[2] * 39 + [3]
        )
        counted.bootstrap("x", n=3)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bayesian", "rows"])
def test_rows_with_windows_of_their_own_are_drawn_with_them(kind):
    """Rescaled within samples of one row each, every draw was the fit itself, and the error 0."""
    design = vardi.datasets.truncation(n=150, seed=0)
    x, windows = design.rows, design.truth["windows"]
    fit = vardi.debias_matrix(vardi.Windows(x, windows[:, 0], windows[:, 1]), np.arange(150))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit.bootstrap(x, n=100, kind=kind)
    assert found.failed == 0
    assert 0.7 < found.stderr / fit.expectation(x).stderr < 1.4  # an error of 100 draws is known to 7%


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")  # of four degrees of freedom
@pytest.mark.parametrize("kind", ["bayesian", "rows"])
def test_the_variance_of_few_groups_is_unbiased(kind):
    """Five groups: exponential multiplicities gave 4/6 of the variance, and draws of five groups 4/5."""
    squares = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(5), 6)
        fit = vardi.debias([rng.normal(size=5)[group]], [1])
        between = np.var(np.bincount(group, fit.solved.memory.values("x")) / 6, ddof=1) / 5
        with pytest.warns(vardi.VardiWarning, match="There are fewer than 30 groups in '0', so the spread between"):
            found = fit.bootstrap("x", n=60, kind=kind, groups=group, seed=seed)
        squares.append(found.stderr**2 / between)
    assert np.mean(squares) == pytest.approx(1.0, abs=0.08)  # about 3 standard errors


@pytest.mark.long
@pytest.mark.parametrize("lazy", [False, True])
def test_shares_have_intervals_of_shares(lazy):
    """No row has it, few have it, all have it: never "known", and never beyond 0 and 1."""
    rng = np.random.default_rng(0)
    frames = {name: pl.DataFrame({"x": rng.gamma(shape, size=60)}) for name, shape in (("a", 2.0), ("b", 3.0))}
    fit = vardi.debias({k: v.lazy() if lazy else v for k, v in frames.items()}, {"a": 1, "b": "x"})
    rare = float(np.sort(np.concatenate([frame["x"] for frame in frames.values()]))[-3])
    found = fit.bootstrap(["x > 1000", f"x > {rare!r}", "x > 0", "x"], n=100)
    (none, few, every, mean), wanted = found.interval, fit.expectation("x > 1000")
    assert found.stderr[0] == wanted.stderr > 0
    assert none == pytest.approx(wanted.interval)
    assert 0 < few[0] < found.value[1] < few[1] < 1
    assert every == pytest.approx(fit.expectation("x > 0").interval)
    assert every[1] == 1.0 > every[0]
    t = stdtrit(found.laws[3].df, 0.975)
    assert mean == pytest.approx(found.value[3] + np.array([-1.0, 1.0]) * t * found.stderr[3])
    text = str(found)
    assert "known" not in text
    assert "none of 120 rows have it" in text
