"""What reports of many rows do differently: cells, not sorts, blocks, threads, and only the links that are shown."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

import vardi
from vardi._facts.links import links_of
from vardi._machine import threads
from vardi._rows import shares


def plain(value):
    """Return frozen values as what can be compared, without how rows move them."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name not in ("found", "influence", "steps")
        }
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    return float(value) if isinstance(value, np.floating) else value


def assert_same(found, expected, where=""):
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, pair in enumerate(zip(found, expected, strict=True)):
            assert_same(*pair, f"{where}[{k}]")
    elif isinstance(expected, float) and math.isfinite(expected):
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-14), where
    elif isinstance(expected, str | int | bool | None):
        assert found == expected, where


def samples(n):
    rng = np.random.default_rng(8)
    found = {}
    for power, name in enumerate(("plain", "long", "longer")):
        length = rng.gamma(2.0 + power, size=n)
        found[name] = pd.DataFrame(
            {
                "length": length,
                "rounded": np.round(length, 1),
                "skewed": np.exp(4.0 * rng.normal(size=n)),
                "children": rng.integers(0, 6, n),
                "region": np.array(["north", "south", "east"])[rng.integers(0, 3, n)],
            }
        )
    return found


BIASES = {"plain": "1", "long": "length", "longer": "length ** 2"}


@pytest.mark.parametrize("labelled", [False, True], ids=["by sample", "mixed"])
@pytest.mark.parametrize("counted", [False, True], ids=["plain", "counted"])
def test_a_report_by_cells_blocks_and_threads_says_the_same(monkeypatch, labelled, counted):
    frames, options = samples(1500), {}
    if labelled:
        joined = pd.concat([frame.assign(who=name) for name, frame in frames.items()])
        frames, options = joined.sample(frac=1.0, random_state=0).reset_index(drop=True), {"source": "who"}
    if counted:
        options["counts"] = np.random.default_rng(1).integers(1, 4, 4500)
    expected = vardi.report.compute(vardi.debias(frames, BIASES, **options))
    monkeypatch.setattr(shares, "MANY", 100)
    monkeypatch.setattr(threads, "THREADED", 1)
    monkeypatch.setattr(threads, "BLOCK", 700)
    monkeypatch.setattr(threads, "cores", lambda: 3)
    found = vardi.report.compute(vardi.debias(frames, BIASES, **options))
    bins = [plain(one.bins) for one in found.distributions]
    for one, other in zip(bins, expected.distributions, strict=True):  # of differences of shares
        np.testing.assert_allclose(one["debiased"], other.bins.debiased, rtol=0, atol=1e-14)
    found, expected = (plain(one) for one in (found, expected))
    for one in (*found["distributions"], *expected["distributions"]):
        del one["bins"]
    del found["solution"], expected["solution"]  # of the same weights, by sums in another order
    assert_same(found, expected)


def test_shares_of_rows_that_some_samples_have_recorded_are_of_these(monkeypatch):
    frames = samples(1000)
    del frames["long"]["rounded"]
    fit = vardi.debias(frames, BIASES)
    expected = fit.cdf("rounded")
    monkeypatch.setattr(shares, "MANY", 100)
    found = fit.cdf("rounded")
    for q in (0.1, 0.5, 0.97):
        assert found.quantile(q).value == expected.quantile(q).value
        assert found.quantile(q).stderr == pytest.approx(expected.quantile(q).stderr, rel=1e-12)
    for name in ("x", "value", "low", "high"):
        np.testing.assert_allclose(getattr(found.band(), name), getattr(expected.band(), name), rtol=1e-12)


def test_variances_without_covariances_are_the_same():
    fit = vardi.debias(samples(1000), BIASES)
    values = np.random.default_rng(2).normal(size=(3000, 4))
    influence = fit.solved.tangent.influence(values)[1]
    alone, whole = influence.spread(joint=False), influence.spread()
    np.testing.assert_allclose(np.diag(alone.covariance), np.diag(whole.covariance), rtol=1e-13)
    np.testing.assert_array_equal(alone.within, whole.within)
    np.testing.assert_array_equal(alone.fourths, whole.fourths)
    assert np.isnan(alone.covariance[0, 1])


@pytest.mark.parametrize("known", [True, False], ids=["bridging rows", "shared rows"])
def test_links_are_chosen_among_all_pairs(known):
    rng = np.random.default_rng(4)
    centres = np.linspace(0.0, 6.0, 9)
    rows = {str(k): np.round(centre + rng.uniform(-1.0, 1.0, 200), 6) for k, centre in enumerate(centres)}
    fit = vardi.debias(rows, {str(k): f"abs(x - {centre}) <= 1" for k, centre in enumerate(centres)})
    verdict, gram = fit.identify(), fit.parts.gram()
    bridging = {(link.first, link.second): gram.matrix[int(link.first), int(link.second)] for link in verdict.links}
    strength = {(link.first, link.second): link.rows for link in verdict.links}
    strength = bridging if known else strength
    weakest = (verdict.weakest.first, verdict.weakest.second)
    others = sorted((pair for pair in strength if set(pair) != set(weakest)), key=lambda pair: strength[pair])
    for first, rest in (("weakest", others), ("strongest", others[::-1])):
        links, pairs = links_of(verdict, gram if known else None, 7, first)
        assert pairs == len(verdict.links)
        assert [link.weakest for link in links] == [True] + [False] * 6
        assert {links[0].first, links[0].second} == set(weakest)
        assert [link.strength for link in links[1:]] == [strength[pair] for pair in rest[:6]]
        for link in links:
            assert verdict.link(link.first, link.second).rows == link.rows
