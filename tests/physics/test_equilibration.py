"""Frames in time: statistical inefficiency, and from which frame on a simulation has settled."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

import vardi
from vardi.mbar import equilibration, inefficiencies, statistical_inefficiency


def series(memory, n, seed=0):
    noise = np.random.default_rng(seed).normal(size=n) * np.sqrt(1 - memory**2)
    return lfilter([1.0], [1.0, -memory], noise)


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_inefficiency_of_a_series_with_memory(memory):
    exact = (1 + memory) / (1 - memory)
    found = [statistical_inefficiency(series(memory, 20_000, seed)) for seed in range(20)]
    assert np.mean(found) == pytest.approx(exact, rel=0.1)


def test_a_long_series_is_summed_and_gives_the_same():
    x = series(0.9, 2**16)
    assert statistical_inefficiency(x) == pytest.approx(statistical_inefficiency(x[: 2**15]), rel=0.4)
    assert statistical_inefficiency(3.0 * x + 100.0) == pytest.approx(statistical_inefficiency(x), rel=1e-9)


@pytest.mark.parametrize("x", [np.full(100, 7.3), np.array([1.0]), np.array([1.0, 2.0, 3.0])])
def test_what_has_no_memory_to_tell_is_independent(x):
    assert statistical_inefficiency(x) == 1.0


def test_the_start_leaves_most_effective_frames():
    """By a search over every start."""
    x = series(0.6, 300) + 6.0 * np.exp(-np.arange(300) / 15)
    found = equilibration(x)
    worth = [(300 - t) / statistical_inefficiency(x[t:]) for t in range(0, 300, 3)]
    assert found.effective[0] == pytest.approx(max(worth))
    assert found.start[0] == 3 * int(np.argmax(worth))
    assert 15 <= found.start[0] <= 120
    assert found.kept.sum() == 300 - found.start[0]
    assert not found.kept[: found.start[0]].any()


def test_simulations_settle_each_on_its_own():
    far, near = series(0.5, 400) + 9.0 * np.exp(-np.arange(400) / 20), series(0.5, 500, seed=1)
    mixed = np.random.default_rng(0).permutation(np.repeat([0, 1], [400, 500]))
    x = np.empty(900)
    x[mixed == 0], x[mixed == 1] = far, near
    found = equilibration(x, np.array(["far", "near"])[mixed])
    assert found.states == ("far", "near")
    assert found.start[0] == equilibration(far).start[0] > found.start[1]
    assert " ".join(str(found).splitlines()[0].split()) == "state frames keep from inefficiency worth all worth"
    assert len(str(found).splitlines()) == 3


def test_inefficiencies_are_those_of_the_errors():
    rows = {"left": series(0.8, 2000) - 0.5, "right": series(0.0, 2000, seed=1) + 0.5}
    fit = vardi.debias(rows, {"left": "exp(-x / 2)", "right": "exp(x / 2)"}, series=True)
    found = inefficiencies(fit)
    assert found["left"] == pytest.approx(9.0, rel=0.4)
    assert found["right"] < 1.5
    worth = fit.log_ratio("left", "right").law.effective
    assert found == pytest.approx({"left": 2000 / worth[0], "right": 2000 / worth[1]})


def test_what_does_not_fit_is_refused():
    with pytest.raises(vardi.MismatchError) as caught:
        statistical_inefficiency(np.ones((3, 2)))
    assert str(caught.value) == (
        "The series has shape (3, 2), but a time series has one number for each frame. Give an array of shape "
        "(N,) without missing values, in time order."
    )
    with pytest.raises(vardi.MismatchError, match="has no number at frame 1, but"):
        equilibration([1.0, np.nan])
    with pytest.raises(vardi.MismatchError, match=r"source has shape \(1,\), but there are 2 frames. Give the simul"):
        equilibration([1.0, 2.0], [0])
    fit = vardi.debias({"a": np.arange(5.0)}, {"a": 1})
    with pytest.raises(
        vardi.MismatchError, match="was made without series=, so its errors treat frames as independent"
    ):
        inefficiencies(fit)
