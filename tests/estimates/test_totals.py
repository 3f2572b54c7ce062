"""Totals: by a size or relative to a known total; Hansen-Hurwitz and Horvitz-Thompson for a single sample by size."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from textbook import origins, read

import vardi

pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")


def farms(n=40, seed=0):
    rng = np.random.default_rng(seed)
    acres = rng.gamma(3.0, 40.0, size=n)
    kind = rng.choice(["dairy", "beef"], n)
    return pd.DataFrame({"acres": acres, "cows": rng.poisson(acres / 4.0).astype(float), "kind": kind})


@pytest.fixture(scope="module")
def fit():
    return vardi.debias({"by acres": farms()}, {"by acres": "acres"})


@pytest.fixture(scope="module")
def two():
    rng = np.random.default_rng(1)
    return vardi.debias({"plain": farms(60, 1), "seen": farms(80, 2)}, {"plain": 1, "seen": "acres"}), rng


def numbers(estimate):
    return [estimate.value, estimate.stderr, *estimate.interval]


def close(found, expected, rtol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol)


# ---------------------------------------------------------------- textbook estimators


def test_relative_to_its_own_bias_it_is_hansen_and_hurwitz_with_their_variance(fit):
    """X mean(y / x), and X^2 / (n (n - 1)) times the sum of squares of y / x about its mean (Cochran, 9A.3)."""
    frame, X = farms(), 50_000.0
    ratio, n = frame["cows"] / frame["acres"], len(frame)
    total = fit.total("cows", relative_to=("acres", X))
    close(total.value, X * ratio.mean())
    close(total.stderr, np.sqrt(X**2 / (n * (n - 1)) * ((ratio - ratio.mean()) ** 2).sum()))


def test_relative_to_inclusion_probabilities_it_is_horvitz_and_thompson():
    """These sum to the sample size over the population: relative to that total it is sum y / pi, whatever the sizes."""
    frame = farms().assign(p=lambda one: 40 * one["acres"] / 50_000.0)
    fit = vardi.debias({"drawn": frame}, {"drawn": "p"})
    total = fit.total("cows", relative_to=("p", len(frame)))
    close(total.value, (frame["cows"] / frame["p"]).sum())


def test_by_size_it_is_hajek(fit):
    frame = farms()
    close(fit.total("cows", size=900).value, 900 * (frame["cows"] / frame["acres"]).sum() / (1 / frame["acres"]).sum())


def test_the_domains_of_a_sample_by_size_are_hansen_and_hurwitz_too(fit):
    frame, X = farms(), 50_000.0
    n = len(frame)
    for kind, total in fit.total("cows", relative_to=("acres", X), by="kind").items():
        ratio = (frame["cows"] * (frame["kind"] == kind)) / frame["acres"]
        close(total.value, X * ratio.mean())
        close(total.stderr, X * ratio.std(ddof=1) / np.sqrt(n))


@pytest.mark.parametrize("origin", origins("counties", "counties drawn"))
def test_the_votes_of_40_counties_are_those_that_the_survey_package_prints(origin):
    """Horvitz-Thompson totals of counties drawn by votes: for those of 2004 it prints 64518472, 51202102, 478530."""
    counties, every = read(origin, "counties drawn"), read(origin, "counties")
    fit = vardi.debias({"pps": counties}, {"pps": "votes"})
    votes = float(every["votes"].sum())
    printed = {"Bush": 64518472, "Kerry": 51202102, "Nader": 478530}
    for name, value in printed.items():
        total = fit.total(name, relative_to=("votes", votes))
        assert abs(total.value - value) < 1.0 or origin == "made"
        close(total.value, (counties[name] / counties["p"]).sum(), rtol=1e-9)
        ratio = counties[name] / counties["votes"]
        close(total.stderr, votes * ratio.std(ddof=1) / np.sqrt(len(counties)))
        assert total.at(0.99).interval[0] <= every[name].sum() <= total.at(0.99).interval[1]


@pytest.mark.parametrize("origin", origins("schools", "schools by level"))
def test_the_enrolment_of_a_stratified_sample_is_that_of_the_survey_package(origin):
    """The bias of a school is the rate of its stratum; of 6194 schools, 3687178 pupils, mean api00 662.29."""
    frame, levels = read(origin, "schools by level"), read(origin, "schools")["stype"].value_counts()
    N = levels.sum()
    fit = vardi.debias({"strata": frame}, {"strata": "1 / pw"})
    close(fit.total("enroll", size=N).value, (frame["pw"] * frame["enroll"]).sum(), rtol=1e-6)
    if origin == "published":
        assert round(fit.total("enroll", size=6194).value) == 3687178
        assert round(fit.expectation("api00").value, 2) == 662.29
    means = fit.expectation("api00", by="stype")
    for kind, mean in means.items():
        close(mean.value, frame.loc[frame["stype"] == kind, "api00"].mean())
    shares = fit.proportions("stype")
    close([shares[kind].value * N for kind in "EHM"], [levels[kind] for kind in "EHM"], rtol=1e-6)  # pw has 7 digits


# ---------------------------------------------------------------- sizes


def test_an_exact_size_is_a_factor(two):
    fit, _ = two
    mean = fit.expectation("cows")
    close(numbers(fit.total("cows", size=900)), [900 * one for one in numbers(mean)])
    share = fit.expectation("cows > 20")
    close(numbers(fit.total("cows > 20", size=900)), [900 * one for one in numbers(share)])  # Wilson's, as a number


def test_a_size_with_an_error_adds_it_by_the_delta_method(two):
    fit, _ = two
    mean = fit.expectation("cows")
    for size in [(900, 40), vardi.Estimate(900, 40), [900, 40]]:
        total = fit.total("cows", size=size)
        close(total.value, 900 * mean.value)
        close(total.stderr**2, (900 * mean.stderr) ** 2 + (mean.value * 40) ** 2)
    other = vardi.debias({"other": farms(50, 5)}, {"other": "acres"}).expectation("acres")  # of another fit
    total = fit.total("cows", size=other)
    close(total.stderr**2, (other.value * mean.stderr) ** 2 + (mean.value * other.stderr) ** 2)


def test_the_error_of_a_size_is_shared_by_totals_that_rest_on_it(two):
    fit, _ = two
    cows, acres = (fit.total(name, size=(900, 40)) for name in ("cows", "acres"))
    ratio = fit.expectation("cows") / fit.expectation("acres")
    close((cows / acres).stderr, ratio.stderr)  # in which the size cancels
    apart = cows - fit.total("acres", size=(900, 41))
    together = cows - acres
    a, b = fit.expectation("cows"), fit.expectation("acres")
    close(together.stderr**2, (900 * (a - b).stderr) ** 2 + (40 * (a - b).value) ** 2)
    close(apart.stderr**2, (900 * (a - b).stderr) ** 2 + (40 * a.value) ** 2 + (41 * b.value) ** 2)


def test_a_size_of_the_same_fit_keeps_its_covariance(two):
    fit, _ = two
    close(
        numbers(fit.total("cows", size=fit.expectation("acres"))),
        numbers(fit.expectation("cows") * fit.expectation("acres")),
    )
    twice = fit.total("cows", size=10 / fit.expectation("cows"))
    assert twice.value == pytest.approx(10.0)
    assert twice.stderr == 0.0


def test_a_known_total_with_an_error(two):
    fit, _ = two
    ratio = fit.expectation("cows") / fit.expectation("acres")
    total = fit.total("cows", relative_to=("acres", (9e4, 5e3)))
    close(total.value, 9e4 * ratio.value)
    close(total.stderr**2, (9e4 * ratio.stderr) ** 2 + (5e3 * ratio.value) ** 2)


@pytest.mark.parametrize(
    "known",
    [{"size": 900}, {"size": (900, 40)}, {"relative_to": ("acres", 9e4)}, {"relative_to": ("acres", (9e4, 5e3))}],
    ids=str,
)
def test_the_totals_of_domains_add_up_and_are_totals_of_products(two, known):
    fit, _ = two
    table = fit.total("cows", **known, by="kind")
    for kind, total in table.items():
        close(numbers(total), numbers(fit.total(f"cows * (kind == '{kind}')", **known)), rtol=1e-11)
    whole = table["beef"] + table["dairy"]
    close(numbers(whole), numbers(fit.total("cows", **known)), rtol=1e-9)
    assert str(table).startswith("total of cows by kind\n")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("given", [{}, {"size": 5, "relative_to": ("acres", 4.0)}], ids=["none", "both"])
def test_one_of_size_and_relative_to_is_needed(fit, given):
    with pytest.raises(vardi.MismatchError, match="^A total needs size=.*or relative_to=.*Give one of them"):
        fit.total("cows", **given)


def test_what_is_no_size_is_refused(fit):
    for size in ("many", (1, 2, 3), (5, -1), np.nan):
        with pytest.raises(vardi.InvalidKnownError, match="'size'"):
            fit.total("cows", size=size)
    for size in (0, -3.0):
        with pytest.raises(vardi.MismatchError, match="^The size is .*more than 0"):
            fit.total("cows", size=size)
    for relative in ("acres", ("acres",), ("acres", 1.0, 2.0)):
        with pytest.raises(vardi.MismatchError, match="^relative_to is .*Give a column and its total"):
            fit.total("cows", relative_to=relative)
    with pytest.raises(vardi.InvalidKnownError, match="'total of acres'"):
        fit.total("cows", relative_to=("acres", "much"))
    with pytest.raises(vardi.MismatchError, match="^The mean of 'cows > 1e9' is 0"):
        fit.total("cows", relative_to=("cows > 1e9", 5))
    with pytest.raises(vardi.MismatchError, match="acrse"):
        fit.total("cows", relative_to=("acrse", 5))


def test_a_doubtful_total_says_so_of_itself():
    few = vardi.debias({"few": farms(5)}, {"few": "acres"})
    with pytest.warns(vardi.WeakOverlapWarning, match="the total of 'cows'"):
        few.total("cows", relative_to=("acres", 5e4))
    with pytest.warns(vardi.WeakOverlapWarning, match="the total where kind = "):
        few.total("cows", size=900, by="kind")
