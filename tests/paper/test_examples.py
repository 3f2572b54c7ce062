"""The experiments of ``python -m paper`` with known truth: clusters, lengths, rates."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

import vardi
from paper import rates
from paper.clusters import CLUSTERS, COORDINATES, match
from paper.clusters import METHODS as EM_METHODS
from paper.experiment import Cell
from paper.lengths import DIMENSIONS, LENGTHS, METHODS, cell, truths
from paper.rates import EXCESS, EXPONENTS, KAPPAS, OMEGA, POOLED, RATES, SIZES, SUP, UNBIASED

TREES = 10  # no experiment here grows any


def scores_of(experiment, runs, entropy=0):
    of_runs = [experiment.run(np.random.SeedSequence(entropy, spawn_key=(run,)), TREES) for run in range(runs)]
    assert all(scores.keys() == of_runs[0].keys() for scores in of_runs)
    return {at: np.array([scores[at] for scores in of_runs]) for at in of_runs[0]}


@pytest.mark.parametrize("experiment", [CLUSTERS, LENGTHS, RATES], ids=lambda experiment: experiment.name)
def test_a_seed_gives_one_run_and_is_left_as_it_was(experiment):
    seeds = np.random.SeedSequence(3, spawn_key=(1,))
    first, again = experiment.run(seeds, TREES), experiment.run(seeds, 1000)
    assert list(first) == list(again)
    np.testing.assert_array_equal(list(first.values()), list(again.values()))
    assert seeds.n_children_spawned == 0
    other = experiment.run(np.random.SeedSequence(3, spawn_key=(2,)), TREES)
    assert list(first.values()) != list(other.values())
    assert {at.table for at in first} == {experiment.name}


@pytest.fixture(scope="module")
def cluster_scores():
    return scores_of(CLUSTERS, 26)


def of_method(scores, model, method):
    return scores[Cell("clusters", "TwoGaussians", "", model, method)]


def test_debiased_em_is_nearer_wherever_the_samples_can_be_compared(cluster_scores):
    unbiased, plain, debiased = (of_method(cluster_scores, "GaussianMixture", method) for method in EM_METHODS)
    identified = ~np.isnan(debiased)
    assert identified.sum() >= 20
    assert (debiased[identified] < plain[identified]).all()
    assert np.mean(debiased[identified]) < 0.5 * plain.mean()
    assert unbiased.mean() < np.mean(debiased[identified])


def test_vanilla_em_is_drawn_to_the_middle(cluster_scores):
    assert (of_method(cluster_scores, "centroid left x0", "EM") > -1.0).all()
    assert (of_method(cluster_scores, "centroid right x0", "EM") < 1.0).all()
    left = of_method(cluster_scores, "centroid left x0", "debiased EM")
    assert np.nanmean(left) == pytest.approx(-1.5, abs=4 * np.nanstd(left) / np.sqrt(20))


def test_samples_that_cannot_be_compared_have_no_debiased_score_and_all_others(cluster_scores):
    lost = np.isnan(of_method(cluster_scores, "GaussianMixture", "debiased EM"))
    assert lost.any()
    for name in COORDINATES:
        np.testing.assert_array_equal(np.isnan(of_method(cluster_scores, f"centroid {name}", "debiased EM")), lost)
    others = [values for at, values in cluster_scores.items() if at.method != "debiased EM"]
    assert np.isfinite(others).all()


def test_match_is_the_best_of_all_orders():
    centres = np.array([[0.0, 0.0], [3.0, 0.0]])
    matched, distance = match(np.array([[3.0, 1.0], [0.0, 3.0]]), centres)
    assert matched.tolist() == [[0.0, 3.0], [3.0, 1.0]]
    assert distance == 2.0


LENGTH_RUNS = 100


@pytest.fixture(scope="module")
def length_scores():
    return scores_of(LENGTHS, LENGTH_RUNS)


def each_quantity():
    return [(dimensions, model) for dimensions in DIMENSIONS for model in truths(dimensions)]


def test_truths():
    for dimensions in DIMENSIONS:
        sizes = (1,) * (dimensions + 1)
        known = vardi.datasets.multivariate_length_bias(dimensions, sizes).truth
        found = truths(dimensions)
        assert all(known[name] == value for name, value in found.items() if name in known)
        assert len(found.keys() & known.keys()) == dimensions
    density = (lambda x: x * np.exp(-x), lambda x: x**2 * np.exp(-x) / 2)
    squares = sum(quad(lambda x, law=law: x**2 * law(x), 0, np.inf)[0] for law in density)
    assert truths(2)["mean squared length"] == pytest.approx(squares)


def test_the_pool_is_biased_upwards_and_debiased_rows_are_not(length_scores):
    for dimensions, model in each_quantity():
        pooled, alone, debiased = (length_scores[cell(dimensions, model, f"error, {method}")] for method in METHODS)
        noise = 4 / np.sqrt(LENGTH_RUNS)
        assert pooled.mean() > noise * pooled.std(ddof=1)
        assert abs(debiased.mean()) < noise * debiased.std(ddof=1)
        assert debiased.std() < alone.std()


def test_debiased_intervals_cover_as_they_say(length_scores):
    # 0.95 less 4 standard errors of a coverage over this many runs
    lowest = 0.95 - 4 * np.sqrt(0.95 * 0.05 / LENGTH_RUNS)
    for dimensions, model in each_quantity():
        pooled, _, debiased = (
            length_scores[cell(dimensions, model, f"coverage, {method}")].mean() for method in METHODS
        )
        assert debiased >= lowest
        assert pooled < 0.2


def risk(t):
    """The chance that 1{abs(x) > t} errs, by integration over the population."""

    def wrong(x):
        p = float(rates.probability(x))
        return (1 - p if abs(x) > t else p) / 2

    edges = sorted({-1.0, -t, -0.5, 0.0, 0.5, t, 1.0})
    return sum(quad(wrong, low, high)[0] for low, high in pairwise(edges))


RATE_RUNS = 12


@pytest.fixture(scope="module")
def rate_scores():
    return scores_of(RATES, RATE_RUNS)


@pytest.mark.parametrize("t", [0.0, 0.2, 0.45, 0.5, 0.8, 1.0])
def test_excess_risk_is_that_of_the_population(t):
    assert rates.excess_risk(t) == pytest.approx(risk(t) - risk(0.5), abs=1e-10)


def test_probabilities_are_probabilities():
    p = rates.probability(np.linspace(-1, 1, 1001))
    assert p.min() >= 0.0
    assert p.max() <= 1.0
    assert p.min() < 0.1
    assert p.max() > 0.9


def test_best_threshold_is_the_smallest_minimiser():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(1, 9))
        x, y = rng.uniform(-1, 1, n).round(1), rng.random(n) < 0.5
        weights = rng.integers(1, 4, n).astype(float)
        candidates = np.unique([0.0, *np.abs(x)])
        errors = [weights[(np.abs(x) > t) != y].sum() for t in candidates]
        assert rates.best_threshold(x, y, weights) == candidates[int(np.argmin(errors))]


def test_sup_distance_is_over_all_points():
    rng = np.random.default_rng(1)
    grid = np.linspace(-1, 1, 200_001)
    for _ in range(5):
        x, weights = rng.uniform(-1, 1, 7), rng.random(7)
        steps = (weights[:, None] * (x[:, None] <= grid)).sum(axis=0) / weights.sum()
        expected = np.abs(steps - (grid + 1) / 2).max()
        assert rates.sup_distance(x, weights) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kappa", KAPPAS)
def test_samples_fill_their_intervals_and_overlap_on_kappa(kappa):
    place = (np.arange(400) % 100 + 0.5) / 100
    rows = rates.draw(place, np.zeros(400), kappa)
    assert np.bincount(rows.source).tolist() == [100, 300]
    assert (rows.omega[np.arange(400), rows.source] == 1).all()
    left, right = rows.x[rows.source == 0], rows.x[rows.source == 1]
    assert (left.min(), left.max()) == pytest.approx((-1, kappa), abs=0.02)
    assert (right.min(), right.max()) == pytest.approx((-kappa, 1), abs=0.02)
    shared = rows.omega.all(axis=1)[rows.source == 0].mean() * (1 + kappa) / 2
    assert shared == pytest.approx(kappa, abs=0.01)


def test_samples_that_cannot_be_compared_have_nan():
    place = np.repeat([0.0, 1.0], [25, 75])
    rows = rates.draw(place, np.full(100, 0.5), 0.02)
    found = rates._debiased(rows, 0.02)
    assert list(found) == [EXCESS, SUP, OMEGA]
    assert np.isnan(list(found.values())).all()


def test_slopes_are_those_of_power_laws():
    scores = {rates.cell(UNBIASED, n, SUP): np.array([1.0, 3.0]) * n**-0.5 for n in SIZES}
    scores |= {rates.cell("kappa=0.1", n, OMEGA): np.array([7.0 * n**-0.75]) for n in SIZES}
    scores[rates.cell("kappa=0.1", SIZES[0], OMEGA)] = np.array([np.nan])
    scores |= {rates.cell("kappa=0.02", n, OMEGA): np.array([1.0, np.nan]) for n in SIZES[:-2]}
    scores |= {rates.cell("kappa=0.02", n, OMEGA): np.array([1.0, 1.0]) for n in SIZES[-2:]}
    found = rates.slopes(scores | {Cell("other", "", "", "", ""): np.zeros(2)})
    assert set(found) == {(UNBIASED, SUP), ("kappa=0.1", OMEGA), ("kappa=0.02", OMEGA)}
    assert found[UNBIASED, SUP] == pytest.approx(-0.5)
    assert found["kappa=0.1", OMEGA] == pytest.approx(-0.75)
    assert np.isnan(found["kappa=0.02", OMEGA])
    n, means = rates.curves(scores)["kappa=0.1", OMEGA]
    assert n.tolist() == list(SIZES[1:])
    assert means == pytest.approx(7.0 * n**-0.75)


def test_slopes_of_runs_are_those_of_the_theory(rate_scores):
    """Within four standard errors, by the spread of the runs, where these are small enough to tell."""
    found = rates.slopes(rate_scores)
    for scenario, quantity in [(UNBIASED, SUP), *((f"kappa={kappa}", SUP) for kappa in KAPPAS[:3])]:
        error = slope_error(rate_scores, scenario, quantity)
        assert error < 0.05
        assert abs(found[scenario, quantity] - EXPONENTS[quantity]) < 4 * error
    for scenario, quantity in [("kappa=0.4", OMEGA), ("kappa=0.1", OMEGA), (UNBIASED, EXCESS)]:
        error = slope_error(rate_scores, scenario, quantity)
        assert error < 0.2
        assert abs(found[scenario, quantity] - EXPONENTS[quantity]) < 4 * error
    assert found[POOLED, SUP] == pytest.approx(0.0, abs=0.02)
    assert found[POOLED, EXCESS] == pytest.approx(0.0, abs=0.15)


def slope_error(scores, scenario, quantity):
    """The delta method: relative errors of the means, which are independent, through least squares."""
    of_sizes = [scores[rates.cell(scenario, n, quantity)] for n in SIZES]
    relative = np.array([values.std(ddof=1) / values.mean() / np.sqrt(RATE_RUNS) for values in of_sizes])
    centred = np.log(SIZES) - np.mean(np.log(SIZES))
    return float(np.sqrt(centred**2 @ relative**2) / (centred @ centred))


def test_a_smaller_overlap_costs_more(rate_scores):
    # neighbours among the overlaps are too near to be told apart by so few runs
    large = [n for n in SIZES if n >= 4096]
    for quantity in (SUP, OMEGA):
        means = [np.mean([rate_scores[rates.cell(f"kappa={k}", n, quantity)] for n in large]) for k in KAPPAS[::2]]
        assert means == sorted(means)
    narrow, wide = (
        np.mean([rate_scores[rates.cell(name, n, EXCESS)] for n in large]) for name in ("kappa=0.02", UNBIASED)
    )
    assert narrow > wide


def test_no_error_of_omega_without_a_fit(rate_scores):
    assert not [at for at in rate_scores if at.method == OMEGA and at.scenario in (UNBIASED, POOLED)]
    assert {at.scenario for at in rate_scores} == {UNBIASED, POOLED, *(f"kappa={kappa}" for kappa in KAPPAS)}
