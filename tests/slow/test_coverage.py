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
BAND_REPEATS = 500
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


def drawn_covers(band, cdf):
    """Return whether the drawn steps hold the cdf from the first point to the last; it rises between them."""
    x, low, high = band.drawn
    truth = cdf(x)
    return bool((low[:-1] <= truth[:-1]).all() and (truth[1:] <= high[:-1]).all())


def one(name, seed):
    maker, column, other, mean, difference, point, height, median = DESIGNS[name]
    design = maker(seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        fit = vardi.debias(design.samples, design.biases)
        cdf = fit.cdf(column)
        band = cdf.band(draws=BAND_DRAWS, seed=seed)
        return [
            covers(fit.expectation(column), mean),
            covers(fit.expectation(other) - fit.expectation(column), difference),
            covers(cdf(point), height),
            covers(cdf.quantile(0.5), median),
            covers(fit.normalisers()[fit.names[1]], design.truth[f"Omega of {fit.names[1]}"]),
            drawn_covers(band, CDFS[name]),
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
    for coverage in (mean, difference, point, median, omega, band):
        assert 0.93 <= coverage <= 0.97


# one sample by length of 2,000 rows, and two samples: (law of each sample, bias of each), and the law of the population
BANDS = {
    "gamma(3) by length": ([(stats.gamma(4), 2000)], ["x"], stats.gamma(3)),
    "gamma(2) by length": ([(stats.gamma(3), 2000)], ["x"], stats.gamma(2)),
    "lognormal(1) by length": ([(stats.lognorm(1, scale=np.e), 2000)], ["x"], stats.lognorm(1)),
    "gamma(3), 300 rows and 700 by length": (
        [(stats.gamma(3), 300), (stats.gamma(4), 700)],
        ["1", "x"],
        stats.gamma(3),
    ),
    "gamma(3), 30 rows and 30 by length": ([(stats.gamma(3), 30), (stats.gamma(4), 30)], ["1", "x"], stats.gamma(3)),
}


def band_covers(name, seed):
    laws, biases, population = BANDS[name]
    rng = np.random.default_rng([0, seed])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        fit = vardi.debias([law.rvs(size, random_state=rng) for law, size in laws], biases)
        return drawn_covers(fit.cdf("x").band(), population.cdf)


@pytest.mark.parametrize("name", BANDS)
def test_bands_as_drawn_cover(name, capsys):
    chunks = np.array_split(np.arange(BAND_REPEATS), 10)
    with joblib.parallel_config("loky", n_jobs=2, inner_max_num_threads=1):
        results = joblib.Parallel()(
            joblib.delayed(lambda seeds: [band_covers(name, int(s)) for s in seeds])(c) for c in chunks
        )
    coverage = np.concatenate(results).mean()
    with capsys.disabled():
        print(f"\nband as drawn, {name}: {coverage:.3f}")
    assert 0.93 <= coverage <= 0.97
