"""What was not simulated before: ranges of sensitivity, certificates, known values with errors.

Two designs each, written down before the first run, 500 seeded repeats. Run with ``make slow``; the table it prints is
in docs/coverage.md.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import vardi

REPEATS = 500


def by_size_of_gamma(rng, n, factor=lambda x: np.ones_like(x)):
    """Return n rows of gamma(3), drawn by x times a factor between 1/1.5 and 1.5."""
    x = rng.gamma(4.0, size=6 * n)
    return x[rng.random(len(x)) < factor(x) / 1.5][:n]


def wrong_about_large_values(rng):
    """One sample by x, but values above 4 came 1.5 times as often as declared, others 1.5 times as seldom."""
    x = by_size_of_gamma(rng, 200, lambda x: np.where(x > 4.0, 1.5, 1 / 1.5))
    interval = vardi.debias({"sample": x}, {"sample": "x"}).sensitivity("x", gammas=1.5).interval()[0]
    return interval[0] <= 3.0 <= interval[1]


def wrong_in_waves(rng):
    """Normal rows without bias and by e^(x/2), the latter really times 1.5^sin(2x)."""
    x = rng.normal(0.5, size=1500)
    second = x[rng.random(len(x)) < 1.5 ** (np.sin(2 * x) - 1)][:150]
    fit = vardi.debias({"a": rng.normal(size=150), "b": second}, {"a": 1, "b": "exp(x / 2)"})
    interval = fit.sensitivity("x ** 2", gammas=1.5).interval()[0]
    return interval[0] <= 1.0 <= interval[1]


def certified(fit, weights):
    """Return whether all ratios of weights to those of known normalisers are within the certified factor."""
    ratio = np.log(fit.weights / fit.weights.sum()) - np.log(weights / weights.sum())
    return np.abs(ratio).max() <= fit.bounds(delta=0.05).r


def three_windows(rng, n=2000):
    low, high = np.array([0.0, 0.3, 0.5]), np.array([0.6, 0.8, 1.0])
    samples = {name: rng.uniform(low[k], high[k], n) for k, name in enumerate("abc")}
    biases = {name: f"({low[k]} <= x) and (x <= {high[k]})" for k, name in enumerate("abc")}
    x = np.concatenate(list(samples.values()))[:, None]
    oracle = 1 / (((low <= x) & (x <= high)) / (high - low)).sum(axis=1)
    return certified(vardi.debias(samples, biases), oracle)


def two_tilts(rng):
    samples = {"a": rng.normal(-0.5, size=3000), "b": rng.normal(0.5, size=1000)}
    x = np.concatenate(list(samples.values()))
    oracle = 1 / (3000 * np.exp(-x / 2 - 1 / 8) + 1000 * np.exp(x / 2 - 1 / 8))
    return certified(vardi.debias(samples, {"a": "exp(-x / 2)", "b": "exp(x / 2)"}), oracle)


def share_from_a_small_survey(rng):
    """40 rows without bias and 60 by x, the share above 4 known from a survey of 100 rows."""
    survey = rng.gamma(3.0, size=100)
    p = (survey > 4.0).mean()
    samples = {"plain": rng.gamma(3.0, size=40), "by x": by_size_of_gamma(rng, 60)}
    known = {"x > 4": (p, math.sqrt(p * (1 - p) / 100))}
    low, high = vardi.debias(samples, {"plain": 1, "by x": "x"}, known=known).expectation("x").interval
    return low <= 3.0 <= high


def cells_from_a_survey(rng):
    """150 rows selected among five cells in an unknown way, whose shares come from a survey of 200 rows."""
    shares, rates = np.array([0.3, 0.25, 0.2, 0.15, 0.1]), np.array([1.0, 0.6, 0.4, 1.0, 0.7])
    panel = rng.choice(5, 150, p=shares * rates / (shares @ rates))
    survey = pd.DataFrame({"cell": rng.choice(5, 200, p=shares)})
    conditions = [f"cell == {j}" for j in range(4)]
    known = {tuple(conditions): vardi.debias({"survey": survey}, {"survey": 1}).expectations(conditions)}
    frame = pd.DataFrame({"cell": panel, "y": panel + rng.normal(size=150)})
    fit = vardi.debias({"panel": frame}, {"panel": vardi.cells("cell")}, known=known)
    low, high = fit.expectation("y").interval
    return low <= shares @ np.arange(5) <= high


DESIGNS = {
    "sensitivity, one sample, wrong about large values": wrong_about_large_values,
    "sensitivity, two samples, wrong in waves": wrong_in_waves,
    "certificate, three windows": three_windows,
    "certificate, two tilts": two_tilts,
    "known share with an error, survey of 100": share_from_a_small_survey,
    "known cells with errors, survey of 200": cells_from_a_survey,
}


@pytest.mark.parametrize("name", DESIGNS)
def test_truth_is_held(name, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)
        held = np.mean([DESIGNS[name](np.random.default_rng([3, number])) for number in range(REPEATS)])
    with capsys.disabled():
        print(f"\n| {name} | {held:.3f} |", end="", flush=True)
    assert held >= 0.92
