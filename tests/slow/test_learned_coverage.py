"""Plug-in estimates with learned biases: what their intervals, which leave out the classifier's error, cover."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import vardi

pytestmark = [
    pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning"),  # tails of one sample by e^(-a / 2)
    pytest.mark.timeout(3600),
]
REPEATS = 60  # of a second or more each; Monte Carlo error 3 to 6 points
ROWS = 500


def people(rng, n):
    """Return ages, incomes that nobody selects by, and an outcome whose mean is 2."""
    x = rng.normal(size=(n, 3))
    y = 2 + x[:, 0] + x[:, 1] + 0.5 * (x[:, 0] ** 2 - 1) + rng.normal(size=n)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})


def drawn(rng, chance):
    units = people(rng, 30 * ROWS)
    return units[rng.uniform(size=len(units)) < chance(units)].iloc[:ROWS].reset_index(drop=True)


def logistic(units):
    return expit(1.2 * units.a - 0.6 * units.b)


def band(units):
    return (0.15 + 0.85 * (np.abs(units.a) < 1)) * expit(units.b)


LEARNED = vardi.learned(["a", "b", "c"])


def plain(rng):
    return {"survey": people(rng, ROWS), "panel": drawn(rng, logistic)}, {"survey": 1, "panel": LEARNED}


def biased_reference(rng):
    """Return a survey that was drawn by e^(-a / 2), and two samples that are learned at once."""
    survey = drawn(rng, lambda units: np.exp(np.minimum(-0.5 * units.a - 1.5, 0)))
    given = {"survey": survey, "panel": drawn(rng, logistic), "web": drawn(rng, band)}
    return given, {"survey": "exp(-0.5 * a)", "panel": LEARNED, "web": LEARNED}


def coverage(draw):
    """Return the coverage of learned and naive means and of the median, bias, spread, mean error, and rejections."""
    found = []
    for seed in range(REPEATS):
        given, biases = draw(np.random.default_rng(seed))
        fit = vardi.debias(given, biases)
        mean, low = fit.expectation("y"), fit.cdf("y")(2.0)
        naive = vardi.debias(given, {**biases, "panel": 1, **({"web": 1} if "web" in biases else {})}).expectation("y")
        known = vardi.debias({"survey": given["survey"]}, {"survey": biases["survey"]}).expectation("y")
        found.append(
            [
                *(one.interval[0] <= 2.0 <= one.interval[1] for one in (mean, naive, known)),
                low.interval[0] <= BELOW <= low.interval[1],
                mean.value - 2.0,
                mean.stderr,
                known.value - 2.0,
                fit.check_biases().pvalue < 0.05,
                fit.learned["panel"].clipped,
            ]
        )
    return np.array(found, float)


def share_below():
    y = people(np.random.default_rng(99), 2_000_000).y
    return float(np.mean(y <= 2.0))


BELOW = share_below()


def told(draw):
    found = coverage(draw)
    learned, naive, known, cdf, _, _, _, rejected, clipped = found.mean(axis=0)
    off, error, alone = found[:, 4], found[:, 5], found[:, 6]
    print(
        f"{draw.__name__}: learned {learned:.3f} naive {naive:.3f} known alone {known:.3f} cdf {cdf:.3f}; bias "
        f"{off.mean():.3f} sd {off.std():.3f} error {error.mean():.3f}, sd of the known alone {alone.std():.3f}; "
        f"rejected {rejected:.3f}, clipped {clipped:.2f}"
    )
    return learned, naive, cdf, off


def test_one_learned_sample_beside_a_survey():
    learned, naive, *_ = told(plain)
    assert learned > naive  # as if drawn at random; no bar is set for the plug-in, which leaves out an error


def test_two_learned_samples_beside_a_biased_reference():
    learned, naive, *_ = told(biased_reference)
    assert learned > naive
