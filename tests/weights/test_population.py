"""Schools of three levels, a population whose truth is known, seen through biased samples."""

import os

import numpy as np
import pandas as pd
import pytest
from textbook import origins, read

import vardi

COLUMNS = ["cds", "stype", "api00", "enroll"]
REPEATS = 300 if "VARDI_EVERY_PAIR" in os.environ else 60  # as `make slow` sets it
LEVELS = ("E", "M", "H")


@pytest.fixture(scope="module", params=origins("schools", "schools by level", "schools at random"))
def origin(request):
    return request.param


@pytest.fixture(scope="module")
def schools(origin):
    return read(origin, "schools")[COLUMNS].dropna(subset=["enroll"])


def factors(schools, sizes):
    """Return the bias of a sample with so many schools of each level."""
    shares = schools["stype"].value_counts(normalize=True)
    return vardi.class_shift("stype", {level: sizes[level] / sum(sizes.values()) / shares[level] for level in LEVELS})


def draw(schools, rng):
    by_size = schools.sample(150, weights="enroll", replace=True, random_state=rng)
    sizes = {"E": 100, "M": 50, "H": 50}
    by_level = pd.concat(
        [schools[schools["stype"] == level].sample(n, replace=True, random_state=rng) for level, n in sizes.items()]
    )
    plain = schools.sample(100, replace=True, random_state=rng)
    return (
        {"by size": by_size, "by level": by_level, "plain": plain},
        {"by size": "enroll", "by level": factors(schools, sizes), "plain": 1},
    )


def test_intervals_cover_the_truth(schools):
    truths = {"api00": schools["api00"].mean(), "enroll": schools["enroll"].mean(), "api00 > 700": 0.0}
    truths["api00 > 700"] = (schools["api00"] > 700).mean()
    covered = dict.fromkeys(truths, 0)
    for seed in range(REPEATS):
        fit = vardi.debias(*draw(schools, np.random.RandomState(seed)))
        for text, truth in truths.items():
            low, high = fit.expectation(text).interval
            covered[text] += low <= truth <= high
    for count in covered.values():  # 95% give or take three Monte Carlo errors
        assert abs(count / REPEATS - 0.95) < 3 * np.sqrt(0.95 * 0.05 / REPEATS)


def test_the_samples_as_they_were_drawn(schools, origin):
    strat, plain = (read(origin, f"schools {how}")[COLUMNS] for how in ("by level", "at random"))
    biases = {"by level": factors(schools, {"E": 100, "M": 50, "H": 50}), "plain": 1}
    fit = vardi.debias({"by level": strat, "plain": plain}, biases)
    estimate = fit.expectation("api00")
    pooled = pd.concat([strat, plain])["api00"].mean()
    assert estimate.interval[0] <= schools["api00"].mean() <= estimate.interval[1]
    assert abs(estimate.value - schools["api00"].mean()) < abs(pooled - schools["api00"].mean())
    assert estimate.stderr < fit_alone(plain)
    check = fit.check_biases("api00")
    assert check.pvalue > 0.01


def fit_alone(plain):
    return vardi.debias({"plain": plain}, {"plain": 1}).expectation("api00").stderr
