"""Do 95% intervals cover 95% of the time? 2,000 seeded repeats in each of four designs.

Run with ``make slow``; the table it prints is the one in the documentation.
"""

import warnings

import joblib
import numpy as np
import pytest
from scipy import stats

import vardi

REPEATS = 2000
BAND_DRAWS = 400


def gaussian(seed):
    return vardi.datasets.gaussian_scenario("l", seed=seed)


# design -> (maker, column, second function, truth of mean, of the difference second - column, point, cdf there, median)
DESIGNS = {
    "strata": (vardi.datasets.strata, "x0", "x1", 0.5, (1 - np.cos(3)) / 3 - 0.5, 0.6, 0.6, 0.5),
    "length": (
        vardi.datasets.length_bias,
        "x",
        "x**2",
        3.0,
        9.0,
        2.5,
        stats.gamma(3).cdf(2.5),
        stats.gamma(3).median(),
    ),
    "tilts": (vardi.datasets.tilts, "x", "x**2", 0.0, 1.0, 0.5, stats.norm.cdf(0.5), 0.0),
    "mixed": (gaussian, "x0", "x1**2", 0.0, 1.0, 0.5, stats.norm.cdf(0.5), 0.0),
}
CDFS = {
    "strata": stats.uniform().cdf,
    "length": stats.gamma(3).cdf,
    "tilts": stats.norm.cdf,
    "mixed": stats.norm.cdf,
}


def covers(estimate, truth):
    return estimate.interval[0] <= truth <= estimate.interval[1]


def one(name, seed):
    maker, column, other, mean, difference, point, height, median = DESIGNS[name]
    design = maker(seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        fit = vardi.debias(design.samples, design.biases)
        cdf = fit.cdf(column)
        band = cdf.band(draws=BAND_DRAWS, seed=seed)
        truth = CDFS[name](band.x)
        # a step function must be covered on both sides of each of its jumps, of which the band holds the right one
        inside = (band.low <= truth) & (truth <= band.high)
        return [
            covers(fit.expectation(column), mean),
            covers(fit.expectation(other) - fit.expectation(column), difference),
            covers(cdf(point), height),
            covers(cdf.quantile(0.5), median),
            covers(fit.normalisers()[fit.names[1]], design.truth[f"Omega of {fit.names[1]}"]),
            inside.all(),
        ]


@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_cover(name, capsys):
    chunks = np.array_split(np.arange(REPEATS), 40)
    with joblib.parallel_config("loky", n_jobs=2, inner_max_num_threads=1):
        results = joblib.Parallel()(joblib.delayed(lambda seeds: [one(name, int(s)) for s in seeds])(c) for c in chunks)
    mean, difference, point, median, omega, band = np.concatenate(results).mean(axis=0)
    with capsys.disabled():
        print(
            f"\n{name:<8} mean {mean:.3f}  difference {difference:.3f}  cdf {point:.3f}  median {median:.3f}  "
            f"normaliser {omega:.3f}  band {band:.3f}"
        )
    for coverage in (mean, difference, point, median, omega):
        assert 0.93 <= coverage <= 0.97
    assert band >= 0.92
