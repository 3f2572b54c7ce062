"""Do 95% intervals cover 95% of the time where shares are known? 2,000 seeded repeats in each of five designs.

Run with ``make slow``; the table it prints is the one in docs/known.md.
"""

import warnings

import joblib
import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.linear_model import LogisticRegression

import vardi
from vardi.learn import inference

REPEATS = 2000
UNIFORM = stats.uniform()


def covers(estimate, truth):
    return estimate.interval[0] <= truth <= estimate.interval[1]


def rows(rng, low, high, n):
    """Return x uniform between bounds, sex that depends on x, and y that depends on both."""
    x = rng.uniform(low, high, n)
    man = rng.random(n) < 0.3 + 0.4 * x
    y = np.sin(3 * x) + 0.7 * man + rng.normal(0, 0.5, n)
    return np.column_stack([x, man, y])


MEAN = (1 - np.cos(3)) / 3 + 0.7 * 0.5


def cdf_of_y(t):
    def below(x):
        p = 0.3 + 0.4 * x
        at = [stats.norm.cdf((t - np.sin(3 * x) - shift) / 0.5) for shift in (0.7, 0.0)]
        return p * at[0] + (1 - p) * at[1]

    return integrate.quad(below, 0, 1)[0]


def median_of_y():
    from scipy.optimize import brentq

    return brentq(lambda t: cdf_of_y(t) - 0.5, -1, 3)


POINT, HEIGHT, MEDIAN = 1.2, cdf_of_y(1.2), median_of_y()


def disjoint(rng):
    samples = {"low": rows(rng, 0, 0.2, 60), "middle": rows(rng, 0.2, 0.7, 100), "high": rows(rng, 0.7, 1, 150)}
    biases = {"low": "x0 < 0.2", "middle": "0.2 <= x0 < 0.7", "high": "x0 >= 0.7"}
    return samples, biases, {"low": 0.2, "middle": 0.5, "high": 0.3}


def disjoint_with_margin(rng):
    samples, biases, shares = disjoint(rng)
    return samples, biases, {**shares, "x1": {0.0: 0.5, 1.0: 0.5}}


def overlap_with_margin(rng):
    samples = {"low": rows(rng, 0, 0.6, 200), "high": rows(rng, 0.4, 1, 150)}
    return samples, {"low": "x0 < 0.6", "high": "x0 > 0.4"}, {"x1 == 1": 0.5, "x0 < 0.5": 0.5}


def groups_with_overlap(rng):
    samples = {"a": rows(rng, 0, 0.4, 120), "b": rows(rng, 0.2, 0.6, 120), "c": rows(rng, 0.6, 1, 80)}
    return samples, {"a": "x0 < 0.4", "b": "0.2 <= x0 < 0.6", "c": "x0 >= 0.6"}, {"c": 0.4, "x1 == 1": 0.5}


DESIGNS = {
    "disjoint strata": disjoint,
    "disjoint strata, two margins": disjoint_with_margin,
    "overlap, two shares": overlap_with_margin,
    "two groups, one of two samples": groups_with_overlap,
}


def one(name, seed):
    samples, biases, shares = DESIGNS[name](np.random.default_rng([seed, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)
        fit = vardi.debias(samples, biases, known=shares)
        cdf = fit.cdf("x2")
        mean = fit.expectation("x2")
        difference = mean - fit.expectation("x0")
        return [
            covers(mean, MEAN),
            covers(difference, MEAN - 0.5),
            covers(cdf(POINT), HEIGHT),
            covers(cdf.quantile(0.5), MEDIAN),
            fit.known.pvalue < 0.05,
        ]


def case_control(seed):
    rng = np.random.default_rng([seed, 2])
    x = rng.normal(size=40_000)
    ill = rng.random(len(x)) < 1 / (1 + np.exp(3.0 - x))
    cases, controls = np.column_stack([x, ill])[ill][:250], np.column_stack([x, ill])[~ill][:400]
    prevalence = integrate.quad(lambda z: stats.norm.pdf(z) / (1 + np.exp(3.0 - z)), -12, 12)[0]
    biases = {"cases": "x1 == 1", "controls": "x1 == 0"}
    fit = vardi.debias({"cases": cases, "controls": controls}, biases, known={"cases": prevalence})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)
        result = inference(fit, LogisticRegression(C=np.inf), ["x0"], "x1")
        return [covers(result["intercept"], -3.0), covers(result["x0"], 1.0), covers(fit.expectation("x0"), 0.0)]


def repeated(function):
    chunks = np.array_split(np.arange(REPEATS), 40)
    with joblib.parallel_config("loky", n_jobs=2, inner_max_num_threads=1):
        parts = joblib.Parallel()(joblib.delayed(lambda seeds: [function(int(s)) for s in seeds])(c) for c in chunks)
    return np.concatenate(parts).mean(axis=0)


@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_cover(name, capsys):
    *coverages, rejected = repeated(lambda seed: one(name, seed))
    mean, difference, point, median = coverages
    with capsys.disabled():
        print(
            f"\n{name:<32} mean {mean:.3f}  difference {difference:.3f}  cdf {point:.3f}  median {median:.3f}  "
            f"shares rejected {rejected:.3f}"
        )
    for coverage in coverages:
        assert 0.93 <= coverage <= 0.975
    assert rejected == 0.0 if name == "disjoint strata" else 0.03 <= rejected <= 0.08


def test_case_control_covers(capsys):
    intercept, slope, mean = repeated(case_control)
    with capsys.disabled():
        print(f"\n{'case-control':<32} intercept {intercept:.3f}  slope {slope:.3f}  mean {mean:.3f}")
    for coverage in (intercept, slope, mean):
        assert 0.93 <= coverage <= 0.975
