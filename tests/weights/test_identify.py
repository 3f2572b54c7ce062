"""Whether samples can be compared: verdicts, links, the weakest of them, and what a refusal says."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from oracle import KINDS, design, edges, strongly_connected
from scipy import sparse

import vardi

ROWS = {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([2.5, 4.0]), "c": np.array([3.5, 5.0, 6.0])}


def both(samples, biases, **options):
    """Return the verdict, having checked that the fit agrees with it."""
    verdict = vardi.identify(samples, biases, **options)
    if verdict:
        vardi.debias(samples, biases, **options)
    else:
        with pytest.raises(vardi.NotIdentifiableError) as caught:
            vardi.debias(samples, biases, **options)
        assert str(caught.value) == verdict.message
        assert caught.value.groups == verdict.groups
        assert caught.value.verdict.groups == verdict.groups
    return verdict


# ---------------------------------------------------------------- verdicts


def test_connected():
    verdict = both(ROWS, {"a": "x <= 4", "b": "2 <= x <= 4", "c": "x >= 2.5"})
    assert verdict
    assert verdict.identified
    assert verdict.groups == (("a", "b", "c"),)
    assert {(link.first, link.second): (link.first_in_second, link.second_in_first) for link in verdict.links} == {
        ("a", "b"): (2, 2),
        ("a", "c"): (1, 1),
        ("b", "c"): (2, 1),
    }
    assert all(not link.one_way for link in verdict.links)
    assert [link.rows for link in verdict.links] == [4, 2, 3]
    assert verdict.weakest_rows == 1
    assert " ".join(str(verdict).split()) == verdict.message
    assert max(map(len, str(verdict).splitlines())) <= 80
    assert verdict.message.startswith(
        "All 3 samples can be compared. Counting rows that both biases allow, the weakest link is 1 row: "
    )
    assert verdict.message.endswith(" A fit weights these rows, and names the weakest cut.")
    assert verdict.require() is verdict


def test_two_samples_say_how_many_rows_they_share():
    verdict = both({"a": ROWS["a"], "b": ROWS["b"]}, {"a": 1, "b": "x >= 2"})
    assert verdict.message == (
        "'a' and 'b' can be compared: 2 rows of 'a' could also have come from 'b', and 2 rows of 'b' from 'a'."
    )
    assert str(verdict.weakest) == "2 rows of 'a' could also have come from 'b', and 2 rows of 'b' from 'a'"
    assert verdict.weakest_rows == 2


def test_one_sample_stands_alone():
    verdict = both({"a": ROWS["a"]}, {"a": "x"})
    assert verdict
    assert verdict.groups == (("a",),)
    assert verdict.links == ()
    assert verdict.weakest is None
    assert verdict.kappa == 1
    assert verdict.message == "'a' stands alone: its rows are weighted by the inverse of its bias."


def test_disconnected():
    verdict = both({"a": ROWS["a"], "c": ROWS["c"]}, {"a": "x <= 3", "c": "x > 3"})
    assert not verdict
    assert verdict.identified is False
    assert verdict.groups == (("a",), ("c",))
    assert verdict.links == ()
    assert verdict.weakest is None
    assert verdict.weakest_rows == 0
    assert verdict.kappa == 0
    assert verdict.message == (
        "The samples fall into 2 groups that cannot be compared ('a'; 'c'): they share no rows that both could have "
        "drawn, so their relative weight is undetermined. Add a sample that overlaps both, give "
        "known values, or debias each group alone. The nearest are 'a' and 'c': their rows are 0.5 apart in x."
    )
    with pytest.raises(vardi.NotIdentifiableError):
        verdict.require()


def test_one_way_is_told_apart_from_none():
    """Bias 'all' allows the rows of 'low', but 'all' happened to draw none that 'low' could have."""
    verdict = both({"low": np.array([1.0, 2.0]), "all": np.array([7.0, 8.0, 9.0])}, {"low": "x <= 5", "all": 1})
    assert not verdict
    assert verdict.groups == (("low",), ("all",))
    (link,) = verdict.links
    assert (link.first, link.second, link.first_in_second, link.second_in_first) == ("low", "all", 2, 0)
    assert link.one_way
    assert verdict.message.startswith(
        "The samples fall into 2 groups that cannot be compared ('low'; 'all'): they overlap in one direction only. "
        "2 rows of 'low' could also have come from 'all', but "
    )
    for part in (
        "a bound but no value",
        "Add rows of 'all' that 'low' could have drawn too",
        "debias each group alone",
    ):
        assert part in verdict.message
    assert verdict.kappa > 0  # the biases overlap; it is the draws that do not


def test_several_groups_in_the_order_of_the_samples():
    samples = {name: np.array([float(place)]) for place, name in enumerate("abcdef")}
    biases = {
        "a": "x in (0, 3)",
        "b": "x in (1, 4)",
        "c": "x == 2",
        "d": "x in (0, 3)",
        "e": "x in (1, 4)",
        "f": "x >= 2",
    }
    verdict = both(samples, biases)
    assert verdict.groups == (("a", "d"), ("b", "e"), ("c",), ("f",))
    assert "fall into 4 groups that cannot be compared ('a', 'd'; 'b', 'e'; 'c'; 'f')" in verdict.message


def test_many_groups_are_cut_short_in_the_message_only():
    verdict = vardi.identify([np.array([float(k)]) for k in range(30)], [f"x == {k}" for k in range(30)])
    assert len(verdict.groups) == 30
    assert len(verdict.message) < 600
    assert "30 groups" in verdict.message


def test_three_weak_parts_of_which_two_are_joined_one_way():
    samples = {"a": np.array([1.0]), "b": np.array([2.0]), "c": np.array([3.0])}
    verdict = both(samples, {"a": "x <= 2", "b": "x == 2", "c": "x == 3"})
    assert verdict.groups == (("a",), ("b",), ("c",))
    assert "1 row of 'b' could also have come from 'a', but nothing" in verdict.message


def test_a_directed_cycle_is_one_group():
    samples = {"a": np.array([0.0]), "b": np.array([1.0]), "c": np.array([2.0])}
    verdict = both(samples, {"a": "x in (0, 1)", "b": "x in (1, 2)", "c": "x in (2, 0)"})
    assert verdict
    assert all(link.one_way for link in verdict.links)
    assert len(verdict.links) == 3


def test_unsampled_states_do_not_join_samples():
    samples = {"low": np.array([1.0, 2.0]), "high": np.array([8.0])}
    verdict = both(samples, {"low": "x <= 5", "high": "x > 5", "all": 1})
    assert verdict.groups == (("low",), ("high",))


def test_rows_that_count_zero_join_nothing():
    samples = {"low": np.array([1.0, 2.0, 3.0]), "high": np.array([2.0, 8.0])}
    biases = {"low": "x <= 3", "high": "x >= 2"}
    assert both(samples, biases)
    verdict = both(samples, biases, counts=[1, 1, 1, 0, 1])
    assert verdict.groups == (("low",), ("high",))
    assert verdict.links[0].first_in_second == 2
    heavy = vardi.identify(samples, biases, counts=[1, 5, 1, 7, 1])
    assert (heavy.links[0].first_in_second, heavy.links[0].second_in_first) == (6, 7)
    assert heavy.weakest_rows == 6


@pytest.mark.parametrize("names", [("a", "b"), (1, 2), (("x", 1), ("x", 2))])
def test_names_are_those_of_the_user(names):
    verdict = both(
        dict(zip(names, (np.array([1.0]), np.array([2.0])), strict=True)),
        dict(zip(names, ("x == 1", "x == 2"), strict=True)),
    )
    assert verdict.groups == ((names[0],), (names[1],))


def test_a_verdict_as_html_escapes_names():
    verdict = vardi.identify({"<b>": np.ones(1)}, {"<b>": 1})
    html = verdict._repr_html_()
    assert "&lt;b&gt;" in html
    assert "✓" in html


def test_a_verdict_can_be_pickled():
    verdict = vardi.identify(ROWS, {"a": "x <= 4", "b": "2 <= x <= 4", "c": "x >= 2.5"})
    again = pickle.loads(pickle.dumps(verdict))
    assert (again.groups, again.kappa, again.links) == (verdict.groups, verdict.kappa, verdict.links)


def test_identify_refuses_what_debias_refuses():
    with pytest.raises(vardi.ImpossibleRowError):
        vardi.identify({"a": np.array([1.0, 9.0])}, {"a": "x <= 5"})
    with pytest.raises(vardi.InvalidBiasError):
        vardi.identify({"a": np.array([1.0, -9.0])}, {"a": "x"})


def test_two_thousand_samples_of_which_none_meet_another():
    """A refusal must not take longer than a fit."""
    n = 2000
    with pytest.raises(vardi.NotIdentifiableError) as caught:
        vardi.debias_matrix(sparse.eye_array(n, format="csr"), np.arange(n))
    assert len(caught.value.groups) == n
    assert len(str(caught.value)) < 1000


# ---------------------------------------------------------------- against brute force


def brute_groups(there: np.ndarray) -> set[frozenset[int]]:
    reach = there | np.eye(len(there), dtype=bool)
    for k in range(len(there)):  # Warshall
        reach |= reach[:, [k]] & reach[[k], :]
    return {frozenset(np.flatnonzero(reach[k] & reach[:, k]).tolist()) for k in range(len(there))}


def random_supports(seed: int, most: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([4, seed])
    K = int(rng.integers(2, most + 1))
    n = K + int(rng.integers(0, 3 * K))
    source = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    omega = (rng.random((n, K)) < rng.uniform(0.1, 0.6)).astype(float)
    omega[np.arange(n), source] = 1.0
    return omega, source


def verdict_of(omega, source, counts=None):
    K = omega.shape[1]
    rows = np.arange(len(source), dtype=float)
    return vardi.identify(rows, {k: omega[:, k] for k in range(K)}, source=source, counts=counts)


@pytest.mark.parametrize("block", range(4))
def test_groups_and_links_against_brute_force(block):
    seen = set()
    for seed in range(60 * block, 60 * (block + 1)):
        omega, source = random_supports(seed)
        there = edges(omega, source, omega.shape[1])
        verdict = verdict_of(omega, source)
        assert {frozenset(group) for group in verdict.groups} == brute_groups(there)
        assert verdict.identified == strongly_connected(there)
        assert [group[0] for group in verdict.groups] == sorted(group[0] for group in verdict.groups)
        shared = {
            (k, l): (float(omega[source == k, l].sum()), float(omega[source == l, k].sum()))
            for k, l in itertools.combinations(range(omega.shape[1]), 2)
        }
        found = {(link.first, link.second): (link.first_in_second, link.second_in_first) for link in verdict.links}
        assert found == {pair: rows for pair, rows in shared.items() if any(rows)}
        one_way = any((a > 0) != (b > 0) for a, b in shared.values())
        between_groups = any(
            any(rows) and not any(set(pair) <= set(group) for group in verdict.groups) for pair, rows in shared.items()
        )
        if not verdict:
            assert ("in one direction only" in verdict.message) == between_groups
            assert ("share no rows" in verdict.message) == (not between_groups)
        seen.add((verdict.identified, one_way, between_groups))
    assert len(seen) >= 3  # the draws do cover the kinds of verdict


def connected_without(omega: np.ndarray, source: np.ndarray, lost: tuple[int, ...]) -> bool:
    kept = np.setdiff1d(np.arange(len(source)), lost)
    K = omega.shape[1]
    return len(set(source[kept].tolist())) == K and strongly_connected(edges(omega[kept], source[kept], K))


@pytest.mark.long
def test_any_fewer_than_the_weakest_rows_can_be_lost():
    checked = 0
    for seed in range(700):
        omega, source = random_supports(seed, most=4)
        verdict = verdict_of(omega, source)
        if not verdict or len(source) > 14:
            continue
        bottleneck = int(verdict.weakest_rows)
        for lost in itertools.combinations(range(len(source)), bottleneck - 1):
            assert connected_without(omega, source, lost), (seed, lost)
        # And the number is the bottleneck of the graph: the largest t at which edges of t rows and more connect it.
        reach = np.array([[omega[source == l, k].sum() for l in range(omega.shape[1])] for k in range(omega.shape[1])])
        assert bottleneck == max(t for t in range(1, len(source) + 1) if strongly_connected(reach >= t))
        weakest = verdict.weakest
        assert bottleneck in (weakest.first_in_second, weakest.second_in_first)
        checked += bottleneck > 1
    assert checked >= 20


def brute_kappa(omega: np.ndarray, mass: np.ndarray) -> float:
    """Return the largest t such that the pairs of biases with a shared mass of t or more connect all."""
    positive = (omega > 0).astype(float)
    overlap = positive.T @ (positive * mass[:, None])
    if len(overlap) == 1:
        return float(overlap[0, 0])
    levels = sorted(set(overlap[np.triu_indices(len(overlap), 1)].tolist()), reverse=True)
    return next((t for t in levels if t > 0 and strongly_connected(overlap >= t)), 0.0)


def test_kappa_against_brute_force():
    for seed in range(120):
        omega, source = random_supports(seed)
        counts = np.random.default_rng(seed).integers(1, 4, len(source)) if seed % 3 == 0 else None
        mass = np.ones(len(source)) if counts is None else counts.astype(float)
        verdict = verdict_of(omega, source, counts)
        np.testing.assert_allclose(verdict.kappa, brute_kappa(omega, mass / mass.sum()), rtol=1e-12)
        if verdict:
            fit = vardi.debias_matrix(omega, source, counts=counts)
            np.testing.assert_allclose(fit.identify().kappa, brute_kappa(omega, fit.probabilities), rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("K", "n", "share"), [(10, 200, 0.3), (150, 600, 0.9), (320, 900, 0.5)])
def test_kappa_and_weakest_do_not_depend_on_how_the_matrix_is_held(K, n, share):
    rng = np.random.default_rng(K)
    source = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    omega = (rng.random((n, K)) < share).astype(float)
    omega[np.arange(n), source] = 1.0
    dense = vardi.debias_matrix(omega, source).identify()
    held_sparse = vardi.debias_matrix(sparse.csr_array(omega), source).identify()
    held_log = vardi.debias_matrix(np.where(omega > 0, 0.0, -np.inf), source, log=True).identify()
    for verdict in (held_sparse, held_log):
        assert verdict.weakest_rows == dense.weakest_rows
        assert verdict.kappa == pytest.approx(dense.kappa, rel=1e-10)
        assert len(verdict.links) == len(dense.links)


def test_distinct_rows_count_in_full():
    d = design("indicator", 4, 30_000, 0)
    few = vardi.debias_matrix(d.omega, d.source).identify()
    assert few.kappa == pytest.approx(brute_kappa(d.omega, vardi.debias_matrix(d.omega, d.source).probabilities))
    reach = np.array([[d.omega[d.source == l, k].sum() for l in range(4)] for k in range(4)])
    for link in few.links:
        k, l = int(link.first), int(link.second)
        assert (link.first_in_second, link.second_in_first) == (reach[l, k], reach[k, l])


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_identifies_as_its_samples_do(kind):
    d = design(kind, 4, 80, 0)
    before = verdict_of(d.omega, d.source)
    after = vardi.debias_matrix(d.omega, d.source, names=range(4)).identify()
    assert after
    assert after.groups == before.groups
    assert after.links == before.links
    assert after.weakest_rows == before.weakest_rows


# ---------------------------------------------------------------- connected by the letter only


def windows(K: int, per: int, spacing: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).normal(spacing * np.arange(K)[:, None], 1.0, (K, per)).ravel()
    return -0.5 * (x[:, None] - spacing * np.arange(K)) ** 2, np.repeat(np.arange(K), per)


def is_one_cut(groups, K):
    """Return whether two groups of windows in a row are the windows up to some place, and those after it."""
    left, right = ([int(name) for name in group] for group in groups)
    return left == list(range(len(left))) and right == list(range(len(left), K))


def test_umbrella_windows_ten_deviations_apart_are_refused_with_the_cut():
    log_omega, source = windows(24, 50, 10.0)
    assert np.isfinite(log_omega).all()
    with pytest.raises(vardi.NotIdentifiableError) as caught:
        vardi.debias_matrix(log_omega, source, log=True)
    error = caught.value
    assert len(error.groups) == 2
    assert is_one_cut(error.groups, 24)
    assert error.verdict.groups == error.groups
    assert not error.verdict
    for part in ("overlap so little", "lost in rounding", "spectral gap", "Add a sample that lies between"):
        assert part in str(error)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spacing", [12.0, 20.0, 40.0, 100.0])
@pytest.mark.parametrize("K", [2, 6])
def test_windows_however_far_apart_are_refused_with_a_cut(K, spacing, seed):
    """Also where every overlap underflows and the Hessian is singular to the last bit."""
    log_omega, source = windows(K, 40, spacing, seed)
    with pytest.raises(vardi.NotIdentifiableError) as caught:
        vardi.debias_matrix(log_omega, source, log=True)
    assert len(caught.value.groups) == 2
    assert is_one_cut(caught.value.groups, K)


def test_windows_that_do_meet_are_not_refused():
    log_omega, source = windows(24, 200, 3.0)
    fit = vardi.debias_matrix(log_omega, source, log=True)
    assert fit.solution.gap > 1e-6


def test_sparse_windows_too_far_apart_are_refused_too():
    """Two clusters of 200 samples, joined by rows whose bias on the other side is 1e-30."""
    rng = np.random.default_rng(0)
    K = 400
    source = np.repeat(np.arange(K), 5)
    near = np.abs(source[:, None] // 200 - np.arange(K) // 200) == 0
    omega = np.where(near & (rng.random((len(source), K)) < 0.05), 1.0, 0.0)
    omega[np.arange(len(source)), source] = 1.0
    omega[source == 0, 200] = 1e-30
    omega[source == 200, 0] = 1e-30
    assert strongly_connected(edges(omega, source, K))
    with pytest.raises(vardi.NotIdentifiableError) as caught:
        vardi.debias_matrix(sparse.csr_array(omega), source)
    assert {len(group) for group in caught.value.groups} == {200}


# ---------------------------------------------------------------- on_unidentified="largest"


def test_the_largest_group_is_kept_and_fitted_as_if_alone():
    samples = {
        "a": np.array([1.0, 2.0, 3.0]),
        "far": np.array([50.0, 60.0]),
        "b": np.array([2.0, 2.5, 4.0, 4.5]),
    }
    biases = {"a": "x <= 3", "far": "x >= 50", "b": "2 <= x <= 5"}
    with pytest.warns(vardi.DroppedSamplesWarning) as warned:
        fit = vardi.debias(samples, biases, on_unidentified="largest")
    (warning,) = warned
    assert str(warning.message).startswith("Left out 'far' with 2 rows. The samples fall into 2 groups")
    assert warning.filename == __file__
    alone = vardi.debias({name: samples[name] for name in ("a", "b")}, {name: biases[name] for name in ("a", "b")})
    assert (fit.weights[3:5] == 0).all()
    assert (fit.probabilities[3:5] == 0).all()
    np.testing.assert_allclose(np.delete(fit.probabilities, [3, 4]), alone.probabilities, rtol=1e-12)
    np.testing.assert_allclose(fit.probabilities.sum(), 1.0, rtol=1e-12)
    for name in ("a", "b"):
        assert fit.omegas[name] == pytest.approx(alone.omegas[name], rel=1e-12)
    assert fit.names == ("a", "far", "b")
    assert fit.sizes == {"a": 3, "far": 0, "b": 4}
    assert fit.omegas["far"] == 0
    assert len(fit) == 9
    verdict = fit.identify()
    assert verdict
    assert verdict.groups == (("a", "b"),)


def test_the_weights_of_what_is_kept_have_mean_one():
    """Weights have mean 1 over the pool; rows that were left out weigh 0 and are no part of that mean."""
    omega = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    with pytest.warns(vardi.DroppedSamplesWarning):
        fit = vardi.debias_matrix(omega, [0, 0, 1], on_unidentified="largest")
    np.testing.assert_allclose(fit.weights, [4 / 3, 2 / 3, 0.0], rtol=1e-12)


def test_largest_counts_rows_by_their_counts():
    omega = np.eye(2)[[0, 0, 1]]
    with pytest.warns(vardi.DroppedSamplesWarning, match="Left out '0' with 2 rows"):
        fit = vardi.debias_matrix(omega, [0, 0, 1], counts=[1, 1, 5], on_unidentified="largest")
    assert fit.sizes == {"0": 0, "1": 5}


def test_largest_keeps_one_side_of_an_overlap_in_one_direction():
    samples = {"low": np.array([1.0, 2.0]), "all": np.array([7.0, 8.0, 9.0])}
    with pytest.warns(vardi.DroppedSamplesWarning, match="one direction only"):
        fit = vardi.debias(samples, {"low": "x <= 5", "all": 1}, on_unidentified="largest")
    np.testing.assert_allclose(fit.weights, [0, 0, 1, 1, 1], rtol=1e-12)


def test_largest_with_frames_keeps_index_and_zero_weights():
    samples = {
        "a": pd.DataFrame({"x": [1.0, 2.0]}, index=["p", "q"]),
        "b": pd.DataFrame({"x": [9.0]}, index=["r"]),
    }
    with pytest.warns(vardi.DroppedSamplesWarning):
        fit = vardi.debias(samples, {"a": "x", "b": "x == 9"}, on_unidentified="largest")
    assert fit.weights["r"] == 0
    assert fit.weights["p"] == pytest.approx(2 * fit.weights["q"])
    drawn = fit.sample(200, seed=0)
    assert "r" not in drawn.index


def test_largest_after_a_cut_that_only_rounding_makes():
    log_omega, source = windows(4, 60, 2.0)
    far, source_far = windows(2, 20, 2.0, seed=1)
    whole = np.full((len(source) + len(source_far), 6), -2000.0)
    whole[: len(source), :4] = log_omega
    whole[len(source) :, 4:] = far
    labels = np.concatenate([source, source_far + 4])
    with pytest.warns(vardi.DroppedSamplesWarning, match="lost in rounding"):
        fit = vardi.debias_matrix(whole, labels, log=True, on_unidentified="largest")
    alone = vardi.debias_matrix(log_omega, source, log=True)
    np.testing.assert_allclose(fit.probabilities[: len(source)], alone.probabilities, rtol=1e-10)
    assert (fit.weights[len(source) :] == 0).all()


def test_largest_leaves_an_identified_design_alone():
    d = design("tilt", 3, 40, 0)
    fit = vardi.debias_matrix(d.omega, d.source, on_unidentified="largest")  # a warning would be an error here
    np.testing.assert_array_equal(fit.weights, vardi.debias_matrix(d.omega, d.source).weights)
