"""Coverage of nominal 95% intervals where rows or events are few; `docs/coverage.md` has the table that this prints."""

import warnings

import numpy as np
import pytest

import vardi

REPEATS = 4000  # the Monte Carlo error of a coverage is 0.35 points
SHARES = (0.003, 0.005, 0.01, 0.03, 0.1)


def normal(rng, n, tilt=0.0):
    return rng.normal(tilt, 1.0, n)


def two_samples(rng):
    """100 rows without bias and 100 by e^(x/2), of a normal law; events are the largest x."""
    return {"plain": normal(rng, 100), "tilted": normal(rng, 100, 0.5)}, {"plain": 1, "tilted": "exp(x / 2)"}


def by_length(rng):
    """200 rows of gamma(3), drawn by their length; events are the largest x."""
    return {"seen": rng.gamma(4.0, size=200)}, {"seen": "x"}


def plain(rng):
    """200 rows without bias."""
    return {"plain": normal(rng, 200)}, {"plain": 1}


def windows(rng):
    """Two overlapping windows of a uniform law, 100 rows each."""
    return (
        {"low": rng.uniform(0.0, 0.7, 100), "high": rng.uniform(0.3, 1.0, 100)},
        {"low": "x <= 0.7", "high": "x >= 0.3"},
    )


def by_exponent(rng):
    """200 rows of a normal law by e^-x, whose weights spread so much that they are worth 74."""
    return {"seen": normal(rng, 200, -1.0)}, {"seen": "exp(-x)"}


def law_of(design):
    """Return the law of x in the population of a design."""
    from scipy import stats

    return {by_length: stats.gamma(3.0), windows: stats.uniform()}.get(design, stats.norm())


WHERE = {  # which rows are events: any, the largest x, which samples by x draw more often, or the smallest
    "anywhere": lambda x, law, rng: rng.random(len(x))[:, None] < SHARES,
    "largest": lambda x, law, rng: x[:, None] > law.isf(SHARES),
    "smallest": lambda x, law, rng: x[:, None] < law.ppf(SHARES),
}


def coverage_of_shares(design, where):
    rng, covered, wald = np.random.default_rng(0), np.zeros(len(SHARES)), np.zeros(len(SHARES))
    for _ in range(REPEATS):
        fit = vardi.debias(*design(rng))
        events = WHERE[where](fit.solved.memory.values("x"), law_of(design), rng)
        estimates = fit.expectations(events.astype(float))
        errors = np.sqrt(np.diag(estimates.influence.covariance()))
        covered += (estimates.interval[:, 0] <= SHARES) & (estimates.interval[:, 1] >= SHARES)
        wald += np.abs(estimates.values - SHARES) <= 1.96 * errors
    print(f"\n{design.__name__}, {where}: {covered / REPEATS}, value -+ 1.96 errors {wald / REPEATS}")
    return covered / REPEATS


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("design", [plain, two_samples, by_length, windows], ids=lambda design: design.__name__)
def test_shares(design, where):
    """93 to 98.5%, whichever rows are the events, within two Monte Carlo errors."""
    covered = coverage_of_shares(design, where)
    for bar, side in ((0.93, 1.0), (0.985, -1.0)):
        assert (side * (covered - bar) >= -2.0 * np.sqrt(bar * (1.0 - bar) / REPEATS)).all()


def test_shares_of_uneven_rows():
    """Less is covered where weights spread more; the page says how much."""
    assert (coverage_of_shares(by_exponent, "anywhere") >= 0.9).all()


def lognormal(rng):
    return {"plain": np.exp(rng.normal(size=30)), "seen": np.exp(rng.normal(size=30) + 1.0)}, {"plain": 1, "seen": "x"}


def gamma_alone(rng):
    return {"seen": rng.gamma(4.0, size=30)}, {"seen": "x"}


def gamma_heavy(rng):
    return {"seen": rng.gamma(2.5, size=50)}, {"seen": "x"}


def lognormal_squared(rng):
    return {"seen": np.exp(rng.normal(size=50) + 2.0)}, {"seen": "x ** 2"}


def opposite(rng):
    return {"low": normal(rng, 25, -1.0), "high": normal(rng, 25, 1.0)}, {"low": "exp(-x)", "high": "exp(x)"}


def pareto(rng):
    """400 rows by 1 / x of a Pareto law with index 2.2: the variance is infinite."""
    return {"seen": (1.0 - rng.random(400)) ** (-1.0 / 3.2)}, {"seen": "1 / x"}


def thin(rng):
    return (
        {"low": rng.uniform(0.0, 0.54, 100), "high": rng.uniform(0.5, 1.0, 100)},
        {"low": "x <= 0.54", "high": "x >= 0.5"},
    )


def unequal(rng):
    return {"many": normal(rng, 1000), "few": normal(rng, 5)}, {"many": 1, "few": 1}


MEANS = {
    lognormal: np.exp(0.5),
    gamma_alone: 3.0,
    gamma_heavy: 1.5,
    lognormal_squared: np.exp(0.5),
    opposite: 0.0,
    pareto: 2.2 / 1.2,
    thin: 0.5,
    unequal: 0.0,
}


@pytest.mark.parametrize("design", MEANS, ids=lambda design: design.__name__)
def test_means_of_few_rows(design):
    """Intervals cover, or a warning comes with them in nine of ten draws."""
    rng, truth = np.random.default_rng(0), MEANS[design]
    covered, normal_covered, warned, given, degrees = [], [], [], [], []
    while len(covered) < REPEATS:
        samples, biases = design(rng)
        with warnings.catch_warnings(record=True, action="always") as caught:
            try:
                estimate = vardi.debias(samples, biases).expectation("x")
            except vardi.NotIdentifiableError:
                continue
        warned.append(any(issubclass(one.category, vardi.WeakOverlapWarning) for one in caught))
        given.append(not np.isnan(estimate.stderr))
        covered.append(estimate.interval[0] <= truth <= estimate.interval[1])
        normal_covered.append(abs(estimate.value - truth) <= 1.96 * estimate.stderr)
        degrees.append(estimate.df)
    covered, given = np.array(covered), np.array(given)
    print(
        f"\n{design.__name__}: {covered[given].mean():.3f}, normal {np.array(normal_covered)[given].mean():.3f}, "
        f"median df {np.median(degrees):.0f}, warned {np.mean(warned):.3f}, given {given.mean():.3f}"
    )
    assert (np.array(warned) | given).all()
    p = covered[given].mean()  # a bar is met if it lies within two Monte Carlo errors of what was observed
    assert p + 2 * np.sqrt(p * (1 - p) / given.sum()) >= 0.92 or np.mean(warned) >= 0.9
