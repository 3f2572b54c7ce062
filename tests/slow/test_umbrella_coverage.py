"""95% intervals of a free energy profile cover where frames follow one another in time: umbrella windows.

500 seeded repeats for each memory, fixed before the first run. The table stands in docs/coverage.md, and its
comparison with subsampling in docs/guides/frames-in-time.md; run it with
``pytest -s tests/slow/test_umbrella_coverage.py``.
"""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

import vardi
from vardi.mbar import statistical_inefficiency

REPEATS, FRAMES = 500, 1000
CENTRES, SPRING = np.linspace(-4.0, 4.0, 11), 6.0  # kT / 2 at 0.41 from the centre
EDGES = np.linspace(-3.5, 3.5, 15)
REFERENCE = 7  # the bin from 0 on, of which all others are differences
TRUTH = -np.log(np.diff(norm.cdf(EDGES)))


def windows(rng, memory):
    """Return frames of each window: of N(0, 1) with a spring the law is normal, so an AR(1) series has it exactly."""
    noise = rng.normal(size=(len(CENTRES), FRAMES))
    noise[:, 1:] *= np.sqrt(1.0 - memory**2)
    x = lfilter([1.0], [1.0, -memory], noise, axis=1)
    return SPRING * CENTRES[:, None] / (1.0 + SPRING) + x / np.sqrt(1.0 + SPRING)


def log_omega(x):
    return -0.5 * SPRING * (x[:, None] - CENTRES) ** 2


def profile(frames, *, series):
    """Return the free energies of bins, relative to one of them, and whether their intervals cover."""
    x, source = np.concatenate(frames), np.repeat(np.arange(len(frames)), [len(own) for own in frames])
    fit = vardi.debias_matrix(log_omega(x), source, log=True, series=True if series else None)
    place = np.digitize(x, EDGES) - 1
    shares = [one.log() for one in fit.expectations((place[:, None] == np.arange(len(TRUTH))).astype(float))]
    found = [shares[REFERENCE] - one for b, one in enumerate(shares) if b != REFERENCE]
    truth = np.delete(TRUTH - TRUTH[REFERENCE], REFERENCE)
    covers = [low <= t <= high for (low, high), t in zip((one.interval for one in found), truth, strict=True)]
    return np.array([covers, [one.value for one in found] - truth, [one.stderr for one in found]], float)


def thinned(frames):
    """Return one frame of each statistical inefficiency of the coordinate, as is usual before MBAR."""
    return [own[:: int(np.ceil(statistical_inefficiency(own)))] for own in frames]


def one(seed, memory):
    frames = windows(np.random.default_rng(seed), memory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of bins with few rows, after thinning
        return (
            profile(frames, series=True),
            profile(frames, series=False),
            profile(thinned(frames), series=False),
        )


@pytest.mark.parametrize("memory", [0.5, 0.8, 0.9])
def test_series_errors_of_a_profile_cover(memory):
    seeds = np.random.SeedSequence(0).spawn(REPEATS)
    found = np.array(joblib.Parallel(n_jobs=2)(joblib.delayed(one)(seed, memory) for seed in seeds))
    covered = found[:, :, 0].mean(axis=(0, 2))
    rmse = np.sqrt(np.nanmean(found[:, :, 1] ** 2, axis=(0, 2)))
    stderr = np.sqrt(np.nanmean(found[:, :, 2] ** 2, axis=(0, 2)))
    by_bin = found[:, 0, 0].mean(axis=0)
    print(f"\nmemory {memory}, {REPEATS} repeats")
    for what, *row in zip(("series", "all frames as if independent", "thinned"), covered, rmse, stderr, strict=True):
        print(f"  {what:28}  covered {row[0]:.3f}  root mean square error {row[1]:.4f}  standard error {row[2]:.4f}")
    print("  series, by bin", by_bin.round(3))
    per_repeat = found[:, 0, 0].mean(axis=1)  # bins of one repeat are alike: the error is that over repeats
    slack = 2.0 * per_repeat.std() / np.sqrt(REPEATS)
    assert 0.93 - slack <= covered[0] <= 0.97 + slack, (covered[0], slack)
