"""Draws of a bootstrap and replicate weights: shared passes, one step against refits, multipliers."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from pools import PARTS, gammas, gammas_fit, grouped_fit, strata_fit
from scipy.stats import chisquare, kstest, poisson

import vardi
from vardi._estimate import refits as module
from vardi._estimate.refits import DrawPlan, GroupRefits, one_step
from vardi._estimate.replicates import ReplicatesInMemory
from vardi._rows import choose, hashed
from vardi._rows.multipliers import Multipliers, hashed_numbers
from vardi._solve import newton, refit

KINDS = {"bayesian": 1000, "rows": 1000, "jackknife": 200}


@pytest.fixture(scope="module")
def samples():
    return gammas()


@pytest.fixture(scope="module")
def pool(samples):
    return pl.concat(samples.values())


@pytest.mark.parametrize("part", PARTS)
def test_one_step_is_a_refit_but_for_what_is_of_second_order(samples, part, monkeypatch):
    """Half as far, a quarter as wrong."""
    fit = gammas_fit(samples, part)
    held = fit.solved
    rows = ReplicatesInMemory(held, "bayesian", 2, 0, None)
    usual = np.zeros((held.tangent.measure.coordinates.uncertain, 1))  # known values as they are
    drawn = np.random.default_rng(1).standard_exponential(len(held.memory.source)) - 1.0
    values = held.memory.values("y")
    wrong, moved = [], []
    for far in (0.1, 0.05):
        times = 1.0 + far * drawn
        times *= (np.bincount(held.memory.source) / np.bincount(held.memory.source, times))[held.memory.source]
        monkeypatch.setattr(rows, "times", lambda chunk, times=times: times[:, None])
        counted, by_sample, q = rows.drawn(range(1))
        steps = one_step(held.tangent, q, by_sample, usual)
        rows.keep(range(1), counted, steps)
        weights = rows.weights
        refit = held.refit(times, tol=1e-12, may_part=False).weights * times
        wrong.append(abs(np.average(values, weights=weights[:, 0]) - np.average(values, weights=refit)))
        moved.append(abs(np.average(values, weights=refit) - fit.expectation("y").value))
    assert wrong[0] < 0.05 * moved[0]
    assert wrong[1] < 0.35 * wrong[0]


def law(kind="bayesian", n=50, units=20_000, seed=7):
    return Multipliers(kind, n, seed, np.array([float(units)]))


@pytest.fixture(scope="module")
def halves():
    return hashes(20_000)


def hashes(rows, seed=7):
    return [half.astype(float)[:, None] for half in hashed_numbers(np.arange(rows), seed, 0)]


def test_multipliers_look_random(halves):
    found = law().of(*halves, range(50), 1.0)
    assert all(kstest(found[:, r], "expon").pvalue > 1e-4 for r in range(50))
    between = np.corrcoef(found.T) - np.eye(50)
    assert np.abs(between).max() < 5 / np.sqrt(20_000)
    assert np.abs(np.corrcoef((found**2).T) - np.eye(50)).max() < 5 / np.sqrt(20_000)
    for lag in (1, 2, 100):
        assert abs(np.corrcoef(found[:-lag, 0], found[lag:, 0])[0, 1]) < 4 / np.sqrt(20_000)
    counts = law("rows").of(*halves, range(50), 1.0)
    seen = np.bincount(counts.astype(int).ravel(), minlength=9)
    expected = poisson(1).pmf(np.arange(8))
    assert chisquare([*seen[:8], seen[8:].sum()], 10**6 * np.append(expected, 1 - expected.sum())).pvalue > 1e-4


def test_rows_that_stand_for_several_have_the_mean_of_as_many_multipliers(halves):
    counts = np.repeat([1.0, 4.0], 10_000)[:, None]
    for kind in ("bayesian", "rows"):
        found = law(kind).of_counts(*halves, range(10), counts)
        of_one, of_four = found[:10_000], found[10_000:]
        assert_allclose([of_one.mean(), of_four.mean()], 1, atol=0.01)  # three deviations
        assert_allclose([of_one.var(), of_four.var()], [1, 0.25], rtol=0.03)  # three deviations of 100,000 numbers
        assert_allclose(of_one, law(kind).of(*halves, range(10), 1.0)[:10_000], rtol=1e-6)


@pytest.mark.parametrize("g", [3, 5, 8, 15, 30])
def test_few_units_have_the_variance_that_is_due(g):
    """Of m = g e / sum e it has to be 1: within 3%, and within 1% from 8 on, and 3 deviations of this simulation."""
    n = 2 * 10**5 // g
    few = law(n=n, units=g, seed=3)
    found = few.of(*hashes(g, seed=3), range(n), few.powers)
    found *= g / found.sum(axis=0)
    assert_allclose(found.var(), 1.0, atol=(0.03 if g < 8 else 0.01) + 0.012)


def test_samples_have_their_sizes(samples):
    fit = gammas_fit(samples)
    times = ReplicatesInMemory(fit.solved, "rows", 30, 0, None).times(range(30))
    assert_allclose([times[:300].sum(axis=0), times[300:].sum(axis=0)], [[300.0] * 30, [500.0] * 30])


def test_replicates_a_few_at_a_time_are_those_at_once(samples, monkeypatch):
    fit = gammas_fit(samples)
    whole = np.asarray(fit.replicate_weights(40))
    monkeypatch.setattr(ReplicatesInMemory.at_once, "__defaults__", (3 * 800,))
    assert_allclose(np.asarray(fit.replicate_weights(40)), whole, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_count_whole(samples, pool, kind):
    fit, clusters = gammas_fit(samples, clusters="cluster"), pool["cluster"].to_numpy()
    times = ReplicatesInMemory(fit.solved, kind, 80, 0, None).times(range(2))
    firsts = np.unique(clusters, return_index=True, return_inverse=True)
    assert_allclose(times, times[firsts[1]][firsts[2]])


def test_a_sample_that_a_replicate_leaves_out_is_left_as_it_is():
    samples = {"plain": pl.DataFrame({"x": [2.0]}), "seen": pl.DataFrame({"x": np.linspace(1.0, 4.0, 60)})}
    times = ReplicatesInMemory(gammas_fit(samples).solved, "jackknife", 10, 0, None).times(range(10))
    assert_allclose(times[0], 1.0)


def test_more_than_the_memory_holds_is_refused(samples, monkeypatch):
    monkeypatch.setattr("vardi._machine.available_memory", lambda: 2**26)
    with pytest.raises(vardi.TooLargeError, match="10000 replicate weights of 800 rows need .*give lazy frames"):
        gammas_fit(samples).replicate_weights(10_000)


def refits_of(fit, statistic, groups=None):
    return GroupRefits(fit.solved, fit.solved.engine.in_groups(fit.solved, statistic, groups, 0, None), "bayesian")


@pytest.mark.parametrize("part", PARTS)
def test_one_step_is_a_refit_but_for_what_is_of_second_order_group(samples, part, monkeypatch):
    """Each row is a group of its own, so that rows in memory can count as often: half as far, a quarter as wrong."""
    numbered = {name: frame.with_columns(row=pl.lit(name) + pl.col("id").cast(str)) for name, frame in samples.items()}
    memory, refits = (
        grouped_fit(samples, part, lazy=False),
        refits_of(grouped_fit(numbered, part, lazy=True), ["x", "y"], "row"),
    )
    rows = [row for frame in numbered.values() for row in frame["row"]]
    labels = [label for _, label in refits.sums.answers.labels]
    place = np.array([labels.index(row) for row in rows])
    source, drawn = memory.solved.memory.source, np.random.default_rng(1).standard_exponential(len(rows)) - 1.0
    values = np.column_stack([memory.solved.memory.values("x"), memory.solved.memory.values("y")])
    before = np.append(memory.expectations(["x", "y"]).values, list(memory.log_omegas.values()))
    wrong = []
    for far in (0.1, 0.05):
        times = 1.0 + far * drawn
        times *= (np.bincount(source) / np.bincount(source, times))[source]
        counted = np.empty(len(rows))
        counted[place] = times
        monkeypatch.setattr(refits, "_times", lambda rng, counted=counted: counted)
        means, log_omegas = refits(_Still())
        refit = memory.solved.refit(times, tol=1e-12, may_part=False)
        exact = (refit.weights * times) @ values / (refit.weights @ times)
        wrong.append(np.abs(np.append(means - exact, log_omegas - refit.log_omegas)))
    moved = np.abs(np.append(means, log_omegas) - before)
    told = wrong[0] > 1e-7  # what is known has no error to shrink, and refits stop at rounding
    assert told.sum() >= 3
    assert (wrong[1] < np.maximum(0.2 * moved, 1e-7)).all()
    assert (wrong[1][told] < 0.35 * wrong[0][told]).all()


class _Still:
    """Draws known values where they are."""

    def standard_normal(self, size):
        return np.zeros(size)


@pytest.mark.parametrize("part", PARTS)
def test_sums_of_groups_add_up_to_those_of_all_rows(samples, part):
    fit = grouped_fit(samples, part, lazy=True)
    refits = refits_of(fit, "y")
    groups = refits.sums.answers
    sums = groups.drawn(np.ones(len(groups.source)))
    assert_allclose(groups.counts.sum(), 800)
    assert_allclose(sums.total[0] / sums.total[1], fit.expectation("y").value, rtol=1e-12)
    assert_allclose(sums.likelihood.x[:2], fit.solved.rows.sizes[:2], rtol=1e-9)


def test_too_many_groups_are_refused(samples, monkeypatch):
    monkeypatch.setattr(hashed, "_require_few_groups", partial(hashed._require_few_groups, most=50))
    fit = grouped_fit(samples, "none", lazy=True)
    with pytest.raises(vardi.errors.TooLargeError, match="'cluster' has 80 groups"):
        fit.bootstrap("y", n=10, groups="cluster")


@pytest.fixture(scope="module")
def collapsed():
    design = strata_fit(n=20_000)
    assert design[0].solved.rows.inverse is not None
    return design


@pytest.fixture(scope="module")
def tilts():
    design = vardi.datasets.tilts(seed=1)
    fit = vardi.debias(design.samples, design.biases)
    assert fit.solved.rows.inverse is None
    return fit


# ---------------------------------------------------------------- the spread is that of the influence function


def test_draws_of_the_bayesian_bootstrap_are_refits():
    """A draw with given multiplicities is the fit whose counts they are."""
    fit, omega, source, y = strata_fit(n=300)
    weights = []
    boot = fit.bootstrap(lambda w: weights.append(w) or w @ y / w.sum(), n=3)
    plan = DrawPlan(fit.solved.rows, source, np.ones(len(source)), None, None)
    for i in range(3):
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(0, spawn_key=(i,))))
        drawn = np.empty(300)
        drawn[plan.order] = rng.standard_exponential(300)
        drawn *= (np.bincount(source) / np.bincount(source, drawn))[source]
        again = vardi.debias_matrix(omega, source, counts=np.rint(drawn * 2.0**50))  # counts are whole
        np.testing.assert_allclose(weights[i + 1], again.weights * drawn, rtol=1e-9)
        assert weights[i + 1].mean() == pytest.approx(1.0)
        assert boot.values[i, 0] == pytest.approx(again.probabilities @ y)
        np.testing.assert_allclose(boot.log_omegas[i], list(again.log_omegas.values()), atol=1e-9)


# ---------------------------------------------------------------- what must not change a draw


@pytest.mark.parametrize("kind", ["bayesian", "rows"])
def test_collapsed_rows_give_the_same_draws(kind, collapsed, monkeypatch):
    fit, omega, source, y = collapsed
    plan = DrawPlan(fit.solved.rows, source, np.ones(len(source)), fit.solved.rows.inverse, None)
    monkeypatch.setattr(choose, "MAX_UNCOLLAPSED_NUMBERS", np.inf)
    whole = vardi.debias_matrix(omega[plan.order], source[plan.order])
    assert whole.solved.rows.inverse is None
    one, other = (
        fit.bootstrap(y, n=5, kind=kind),
        whole.bootstrap(y[plan.order], n=5, kind=kind),
    )
    np.testing.assert_allclose(one.values, other.values, rtol=1e-10)
    np.testing.assert_allclose(one.log_omegas, other.log_omegas, atol=1e-10)


# ---------------------------------------------------------------- draws without a fit


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")  # means of log biases rest on few rows
@pytest.mark.parametrize("kind", ["bayesian", "rows"])
@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("threaded", [0, 10**6])
def test_draws_that_share_passes_are_those_solved_alone(kind, dtype, threaded, monkeypatch):
    """With logs as given and scaled, with samples in any order, in threads of passes or of draws."""
    monkeypatch.setattr(module, "THREADED", threaded)
    design = vardi.datasets.harmonic_oscillators(states=4, rows_per_state=500, seed=0)
    order = np.random.default_rng(0).permutation(len(design.source))
    for logs in (design.omega, design.omega[order] + 1e3):
        source = design.source if logs is design.omega else design.source[order]
        fit = vardi.debias_matrix(logs.astype(dtype), source, log=True)
        shared = fit.bootstrap(logs[:, 1], n=30, kind=kind)
        with monkeypatch.context() as patch:
            patch.setattr(refit, "SHARED_PASSES", 0)
            alone = fit.bootstrap(logs[:, 1], n=30, kind=kind)
        weights = fit.bootstrap(lambda w, y=logs[:, 1]: w @ y / len(y), n=30, kind=kind)
        np.testing.assert_allclose(weights.values, shared.values, rtol=1e-8)
        np.testing.assert_allclose(shared.log_omegas, alone.log_omegas, rtol=0, atol=1e-8)
        np.testing.assert_allclose(shared.values, alone.values, rtol=1e-8)


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")  # means of log biases rest on few rows
@pytest.mark.parametrize("kind", ["bayesian", "rows"])
def test_draws_of_many_rows_are_those_solved_alone(kind, monkeypatch):
    """Draws that end at the tolerance of a refit, as those of many rows do, are within it of single refits."""
    monkeypatch.setattr(module, "THREADED", 0)
    monkeypatch.setattr(newton, "MAX_DIRECT_NUMBERS", 0)
    design = vardi.datasets.harmonic_oscillators(states=5, rows_per_state=1000, seed=0)
    fit, y = vardi.debias_matrix(design.omega, design.source, log=True), design.omega[:, 1]
    shared = fit.bootstrap(y, n=37, kind=kind)
    weights = fit.bootstrap(lambda w: w @ y / len(y), n=37, kind=kind)
    monkeypatch.setattr(refit, "SHARED_PASSES", 0)
    alone = fit.bootstrap(y, n=37, kind=kind)
    np.testing.assert_allclose(shared.log_omegas, alone.log_omegas, rtol=0, atol=module.TOLERANCE)
    np.testing.assert_allclose(shared.values, alone.values, rtol=module.TOLERANCE)
    np.testing.assert_allclose(weights.values, alone.values, rtol=module.TOLERANCE)


def test_a_refit_that_does_not_converge_is_a_draw_without_a_fit(monkeypatch, tilts):
    real = refit.newton
    calls = iter(range(100))

    def stops(rows, u, *, tol):
        return real(rows, u, tol=tol, max_iterations=0 if next(calls) % 30 == 0 else 100)

    monkeypatch.setattr(refit, "newton", stops)
    monkeypatch.setattr(refit, "SHARED_PASSES", 0)  # so that each draw is solved alone
    with pytest.warns(vardi.WeakOverlapWarning, match="1 of 20 draws have no fit.*Add a sample that lies between"):
        assert tilts.bootstrap("x", n=20, jobs=1).failed == 1


# ---------------------------------------------------------------- refusals


def test_a_draw_of_windows_is_a_fit_of_the_rows_drawn():
    design = vardi.datasets.truncation(n=80, seed=1)
    x, windows = design.rows, design.truth["windows"]
    fit = vardi.debias_matrix(vardi.Windows(x, windows[:, 0], windows[:, 1]), np.arange(80))
    plan = DrawPlan(fit.solved.rows, np.arange(80), np.ones(80), None, None)
    counts = np.empty(80)
    plan.draw(np.random.default_rng(0), "rows", counts)
    assert counts.sum() == pytest.approx(80)
    kept = np.flatnonzero(counts)
    again = vardi.debias_matrix(vardi.Windows(x[kept], *windows[kept].T), np.arange(len(kept)), counts=counts[kept])
    refit = fit.solved.refit(counts, tol=1e-10, may_part=True)
    np.testing.assert_allclose(refit.weights[kept], again.weights, rtol=1e-8)
