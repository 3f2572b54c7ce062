"""Coverage of nominal 95% intervals of totals, domains and differences of domains; `docs/coverage.md` has the table."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.special import expit

import vardi

REPEATS = 1000  # the Monte Carlo error of a coverage is 0.7 points
SIZE, SIZE_ERROR = 5000.0, 250.0
EFFECT = {"north": 1.0, "south": 0.0}


def of_north(x):
    """The chance of a unit to be in the north: a third of the population."""
    return expit(x - 4.0)


def mean(f):
    """Return E f(x) over the population, x ~ gamma(3)."""
    return integrate.quad(lambda x: f(x) * stats.gamma(3).pdf(x), 0.0, np.inf)[0]


def rows(rng, n, shape):
    x = rng.gamma(shape, size=n)
    region = np.where(rng.random(n) < of_north(x), "north", "south")
    y = 0.5 * x + (region == "north") * EFFECT["north"] + rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": y, "region": region})


def two_samples(rng):
    """100 rows without bias and 200 drawn by x."""
    return {"plain": rows(rng, 100, 3.0), "seen": rows(rng, 200, 4.0)}, {"plain": 1, "seen": "x"}


def by_size(rng):
    """200 rows drawn by x alone."""
    return {"seen": rows(rng, 200, 4.0)}, {"seen": "x"}


def windows(rng):
    """150 rows with x below 4 and 150 with x above 2."""
    both = [rows(rng, 3000, 3.0) for _ in range(2)]
    low, high = both[0][both[0]["x"] < 4.0].iloc[:150], both[1][both[1]["x"] > 2.0].iloc[:150]
    return {"low": low, "high": high}, {"low": "x < 4", "high": "x > 2"}


def truths():
    north = mean(of_north)
    in_north = mean(lambda x: of_north(x) * (0.5 * x + 1.0))
    in_south = mean(lambda x: (1.0 - of_north(x)) * 0.5 * x)
    above = mean(lambda x: of_north(x) * stats.norm.sf(3.0 - 0.5 * x - 1.0))
    below = mean(lambda x: (1.0 - of_north(x)) * stats.norm.cdf(1.0 - 0.5 * x))
    y = in_north + in_south
    return {
        "mean, north": in_north / north,
        "mean, south": in_south / (1.0 - north),
        "difference": in_north / north - in_south / (1.0 - north),
        "share in north": above / north,
        "proportion": north,
        "cdf in south": below / (1.0 - north),
        "total by size": SIZE * y,
        "size with error": SIZE * y,
        "total by ratio": SIZE * y,
        "ratio with error": SIZE * y,
        "total of north": SIZE * in_north,
        "difference of totals": SIZE * (in_north - in_south),
    }


def estimates(fit, rng):
    size, known = rng.normal(SIZE, SIZE_ERROR), rng.normal(3.0 * SIZE, 3.0 * SIZE_ERROR)
    means, totals = fit.expectation("y", by="region"), fit.total("y", size=(size, SIZE_ERROR), by="region")
    return {
        "mean, north": means["north"],
        "mean, south": means["south"],
        "difference": means["north"] - means["south"],
        "share in north": fit.expectation("y > 3", by="region")["north"],
        "proportion": fit.proportions("region")["north"],
        "cdf in south": fit.cdf("y", by="region")["south"](1.0),
        "total by size": fit.total("y", size=SIZE),
        "size with error": fit.total("y", size=(size, SIZE_ERROR)),
        "total by ratio": fit.total("y", relative_to=("x", 3.0 * SIZE)),
        "ratio with error": fit.total("y", relative_to=("x", (known, 3.0 * SIZE_ERROR))),
        "total of north": totals["north"],
        "difference of totals": totals["north"] - totals["south"],
    }


def covered(design, seed, truth):
    rng = np.random.default_rng([0, seed])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.WeakOverlapWarning)
        found = estimates(vardi.debias(*design(rng)), rng)
    return [found[name].interval[0] <= truth[name] <= found[name].interval[1] for name in truth]


@pytest.mark.parametrize("design", [two_samples, by_size, windows], ids=lambda design: design.__name__)
def test_totals_and_domains_cover(design, capsys):
    truth = truths()
    chunks = np.array_split(np.arange(REPEATS), 20)
    with joblib.parallel_config("loky", n_jobs=2, inner_max_num_threads=1):
        results = joblib.Parallel()(
            joblib.delayed(lambda seeds: [covered(design, int(s), truth) for s in seeds])(c) for c in chunks
        )
    coverage = dict(zip(truth, np.concatenate(results).mean(axis=0).tolist(), strict=True))
    with capsys.disabled():
        print(f"\n{design.__name__}: " + ", ".join(f"{name} {share:.3f}" for name, share in coverage.items()))
    for name, share in coverage.items():
        assert 0.93 <= share <= 0.97, name
