"""Means beside learned biases: what intervals of the doubly robust form cover, with the naive mean and the plug-in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression

import vardi

pytestmark = [
    pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning"),  # tails of one sample by e^(-a / 2)
    pytest.mark.timeout(7200),
]
REPEATS, SEED = 500, 0  # Monte Carlo error of a coverage of 95%: 1.0 point
KNOWN, OTHERS = 600, 900  # rows of the reference, and of each sample that is learned
MEAN = 2.0
COLUMNS = ["a", "b", "c"]


def people(rng, n, curved=True):
    """Return three columns, the last of which matters for nothing, and an outcome whose mean is 2."""
    x = rng.normal(size=(n, 3))
    y = MEAN + x[:, 0] + x[:, 1] + rng.normal(size=n)
    if curved:
        y += 0.5 * (x[:, 0] ** 2 - 1) + 0.5 * x[:, 0] * x[:, 1]
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})


def drawn(rng, n, chance, curved=True):
    units = people(rng, 12 * n, curved)
    return units[rng.uniform(size=len(units)) < chance(units)].iloc[:n].reset_index(drop=True)


def tilted(units):
    return np.minimum(np.exp(-0.5 * units.a - 1.0), 1.0)  # e^(-a / 2) but beyond two standard deviations


def band(units):
    """Neither linear nor logistic: a band of one column, times a logistic of another."""
    return (0.25 + 0.75 * (np.abs(units.a - 0.5) < 1)) * expit(units.b)


def logistic(units):
    return expit(0.8 * units.a - 0.6 * units.b)


REFERENCE = "min(exp(-0.5 * a - 1), 1)"


def boosted(rng):
    """A biased reference that did not record y, and a panel by a band; both models are boosted trees."""
    given = {"survey": drawn(rng, KNOWN, tilted).drop(columns="y"), "panel": drawn(rng, OTHERS, band)}
    return given, {"panel": vardi.learned(COLUMNS)}, {}


def wrong_classifier(rng):
    """The same with a plain logistic classifier, which the band is not, and a linear outcome with its regression."""
    given = {
        "survey": drawn(rng, KNOWN, tilted, False).drop(columns="y"),
        "panel": drawn(rng, OTHERS, band, False),
    }
    return given, {"panel": vardi.learned(COLUMNS, LogisticRegression())}, {"assisted_by": LinearRegression()}


def wrong_outcome(rng):
    """A panel by a logistic function with its classifier, and a linear regression of an outcome that is curved."""
    given = {"survey": drawn(rng, KNOWN, tilted).drop(columns="y"), "panel": drawn(rng, OTHERS, logistic)}
    return given, {"panel": vardi.learned(COLUMNS, LogisticRegression())}, {"assisted_by": LinearRegression()}


def two_learned(rng):
    """A biased reference that did not record y, and two samples that are learned at once."""
    given = {
        "survey": drawn(rng, KNOWN, tilted).drop(columns="y"),
        "panel": drawn(rng, OTHERS, band),
        "web": drawn(rng, OTHERS, logistic),
    }
    return given, dict.fromkeys(["panel", "web"], vardi.learned(COLUMNS)), {}


def recorded_by_all(rng):
    """As the first, with y recorded by the reference too."""
    given, learned, options = boosted(rng)
    given["survey"] = drawn(rng, KNOWN, tilted)
    return given, learned, options


DESIGNS = {
    "boosted classifier, biased reference": boosted,
    "classifier wrong": wrong_classifier,
    "outcome model wrong": wrong_outcome,
    "two learned at once": two_learned,
    "y recorded by all": recorded_by_all,
}


def simulated(draw, repeats, seed):
    """Return value minus truth and whether the interval covers, for the doubly robust, plug-in and naive mean."""
    found = []
    for own in np.random.SeedSequence(seed).spawn(repeats):
        given, learned, options = draw(np.random.default_rng(own))
        fit = vardi.debias(given, {"survey": REFERENCE, **learned})
        naive = vardi.debias(given, dict.fromkeys(given, 1))
        plug_in = fit.expectation("y", assisted_by=None)
        means = [fit.expectation("y", **options), plug_in, naive.expectation("y")]
        found.append([[m.value - MEAN, m.stderr, m.interval[0] <= MEAN <= m.interval[1]] for m in means])
    return np.array(found, float)


def told(name, found):
    """Print bias, deviation, mean error and coverage of each, as a row of the table in docs/coverage.md."""
    cells = [
        f"{one[:, 0].mean():+.3f} {one[:, 0].std():.3f} {one[:, 1].mean():.3f} {one[:, 2].mean():.3f}"
        for one in found.transpose(1, 0, 2)
    ]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


@pytest.mark.parametrize("name", DESIGNS)
def test_coverage(name):
    found = simulated(DESIGNS[name], REPEATS, SEED)
    told(name, found)
    robust, _, naive = found[:, :, 2].mean(axis=0)
    error = 2 * np.sqrt(robust * (1 - robust) / REPEATS)
    assert 0.90 - error <= robust <= 0.97 + error
    assert naive < robust
