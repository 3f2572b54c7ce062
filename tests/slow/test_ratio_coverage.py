"""Intervals of a log ratio of normalisers cover where few rows join two samples.

2,000 seeded repeats in each design, fixed before the first run; the table stands in docs/coverage.md. Run it with
``pytest -s tests/slow/test_ratio_coverage.py``.
"""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pytest

import vardi

REPEATS = 2000


def tilts(rng, shift, n):
    """Two tilts of a normal law, apart by twice the shift: log(Omega_right / Omega_left) is 0."""
    runs = {"left": rng.normal(-shift, 1.0, n), "right": rng.normal(shift, 1.0, n)}
    return runs, {"left": f"exp({-shift} * x)", "right": f"exp({shift} * x)"}, 0.0


def strips(rng, shared, n, m):
    """Two intervals with a strip in common, of n and of m rows."""
    left, right = rng.uniform(0.0, 0.5 + shared / 2, n), rng.uniform(0.5 - shared / 2, 1.0, m)
    return (
        {"left": left, "right": right},
        {"left": f"x <= {0.5 + shared / 2}", "right": f"x >= {0.5 - shared / 2}"},
        0.0,
    )


def in_between(rng, n, m):
    """Two tilts that only a few rows of a third sample join."""
    runs = {"left": rng.normal(-2.5, 1.0, n), "middle": rng.normal(0.0, 1.0, m), "right": rng.normal(2.5, 1.0, n)}
    return runs, {"left": "exp(-2.5 * x)", "middle": 1, "right": "exp(2.5 * x)"}, 0.0


DESIGNS = {
    "tilts 3 deviations apart, 100 + 100": (tilts, 1.5, 100),
    "tilts 4 deviations apart, 100 + 100": (tilts, 2.0, 100),
    "tilts 5 deviations apart, 400 + 400": (tilts, 2.5, 400),
    "strips with 4% in common, 100 + 100": (strips, 0.04, 100, 100),
    "strips with 4% in common, 400 + 50": (strips, 0.04, 400, 50),
    "strips with 2% in common, 1,000 + 50": (strips, 0.02, 1000, 50),
    "tilts 5 deviations apart, 5 rows between": (in_between, 100, 5),
}


def one(rng, design, *arguments):
    """Return whether no error is given, and whether the interval covers; NaN where nothing joins the samples."""
    runs, biases, truth = design(rng, *arguments)
    try:
        fit = vardi.debias(runs, biases)
    except vardi.NotIdentifiableError:
        return np.nan, np.nan
    found = fit.log_ratio("right", "left")
    low, high = found.interval
    return np.isnan(found.stderr), low <= truth <= high


def several(seeds, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array([one(np.random.default_rng(seed), *DESIGNS[name]) for seed in seeds])


@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_of_a_ratio_cover(name):
    seeds = np.random.SeedSequence(0).spawn(REPEATS)
    parts = joblib.Parallel(n_jobs=2)(joblib.delayed(several)(seeds[k::20], name) for k in range(20))
    withheld, covers = np.concatenate(parts).T
    given = withheld == 0
    covered = covers[given].mean()
    joined, refused = np.isfinite(withheld).mean(), np.nanmean(withheld)
    print(f"\n{name}: joined {joined:.3f}; covered {covered:.3f}, no error in {refused:.3f}")
    slack = 2.0 * np.sqrt(covered * (1.0 - covered) / given.sum())
    assert covered >= 0.93 - slack, covered  # more where Student's t has few degrees of freedom
