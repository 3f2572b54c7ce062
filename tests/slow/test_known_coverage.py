"""What known values do to errors, and whether 95% intervals still cover 95% of the time.

1,000 seeded repeats in each design, 400 where a fit has twenty parameters; both were fixed before the first run. Run
with ``make slow``; the tables it prints are those in docs/known.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import vardi
from vardi.learn import inference

REPEATS, FEWER = 1000, 400
SEED = 0


def covers(estimate, truth):
    return estimate.interval[0] <= truth <= estimate.interval[1]


def fitted(samples, biases, known=None):
    """Fit without the warnings of small designs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vardi.VardiWarning)
        return vardi.debias(samples, biases, known=known)


def repeated(function, repeats=REPEATS):
    """Return what a function of a generator gives, one row for each repeat."""
    chunks = np.array_split(np.arange(repeats), 40)

    def part(numbers):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vardi.VardiWarning)
            return [function(np.random.default_rng([SEED, int(number)])) for number in numbers]

    with joblib.parallel_config("loky", n_jobs=2, inner_max_num_threads=1):
        parts = joblib.Parallel()(joblib.delayed(part)(chunk) for chunk in chunks)
    return np.concatenate(parts).astype(float)


@dataclass(frozen=True)
class Spread:
    """What repeats of an estimate say of it."""

    sd: float
    error: float
    mse: float
    coverage: float

    @classmethod
    def of(cls, values, truth):
        """Read pairs of value and standard error, of shape (repeats, 2)."""
        value, stderr = values.T
        inside = np.abs(value - truth) <= stats.norm.ppf(0.975) * stderr
        return cls(value.std(), stderr.mean(), ((value - truth) ** 2).mean(), inside.mean())

    def __str__(self):
        return f"sd {self.sd:.4f}  mean error {self.error:.4f}  coverage {self.coverage:.3f}"


def pair(estimate):
    return [estimate.value, estimate.stderr]


def told(capsys, **lines):
    with capsys.disabled():
        for what, line in lines.items():
            print(f"\n{what.replace('_', ' '):<40} {line}", end="")


# ---------------------------------------------------------------- information that cannot hurt


def three_groups(rng):
    """Groups of 5, 5 and 90%, a panel that hardly sees the first, and the share of the last (f = 1, 0, 1)."""
    shares, omega = np.array([0.05, 0.05, 0.9]), np.array([0.05, 1.0, 1.0])
    g = rng.choice(3, 4000, p=shares * omega / (shares @ omega))
    samples, biases = {"panel": pd.DataFrame({"g": g})}, {"panel": "1 - 0.95 * (g == 0)"}
    return [
        number
        for known in (None, {"g == 2": 0.9})
        for number in pair(fitted(samples, biases, known).expectation("g != 1"))
    ]


def test_a_true_share_makes_no_answer_worse(capsys):
    found = repeated(three_groups)
    without, given = Spread.of(found[:, :2], 0.95), Spread.of(found[:, 2:], 0.95)
    told(capsys, three_groups_without_the_share=without, three_groups_with_the_share=given)
    assert given.mse <= 1.01 * without.mse
    assert 0.92 <= given.coverage <= 0.97


def lengths(rng):
    """Gamma(3) as it is and by the square, and the share above 4."""
    samples = {"plain": rng.gamma(3.0, size=50), "square": rng.gamma(5.0, size=400)}
    known = {"x > 4": float(stats.gamma(3.0).sf(4.0))}
    biases = {"plain": 1, "square": "x ** 2"}
    return [number for given in (None, known) for number in pair(fitted(samples, biases, given).expectation("x"))]


def test_a_share_makes_errors_smaller(capsys):
    found = repeated(lengths)
    without, given = Spread.of(found[:, :2], 3.0), Spread.of(found[:, 2:], 3.0)
    told(capsys, lengths_without_the_share=without, lengths_with_the_share=given)
    assert given.sd <= 0.075
    assert given.sd <= 0.65 * without.sd
    assert 0.93 <= given.coverage <= 0.97


# ---------------------------------------------------------------- parameters and known values together


def tilted(rng):
    """A normal population, a reference and a sample tilted by an unknown slope."""
    return {"reference": rng.normal(size=300), "tilted": rng.normal(1.0, 1.0, 600)}, vardi.exponential_tilt("x")


def selected(rng):
    """The same with logistic selection of unknown intercept and slope."""
    x = rng.normal(size=6000)
    return {"reference": rng.normal(size=300), "tilted": x[rng.random(6000) < expit(-0.5 + 1.5 * x)][:600]}, (
        vardi.logistic("x")
    )


SLOPES = {"tilt": (tilted, 1.0), "logistic": (selected, 1.5)}


@pytest.mark.parametrize("family", SLOPES)
def test_parameters_and_shares_cover_together(family, capsys):
    draw, slope = SLOPES[family]
    known = {f"x > {at}": float(stats.norm.sf(at)) for at in (0.0, 1.0)}

    def one(rng):
        samples, bias = draw(rng)
        try:
            fits = [fitted(samples, {"reference": 1, "tilted": bias}, given) for given in (None, known)]
        except vardi.UnidentifiedParametersError:  # a logistic curve whose intercept runs away, as it should
            return [np.nan] * 8
        return [n for fit in fits for e in (fit.expectation("x"), fit.parameters["tilted"]["x"]) for n in pair(e)]

    found = repeated(one)
    refused = np.isnan(found[:, 0])
    told(capsys, **{f"{family}_refused": f"{refused.sum()} of {len(found)}"})
    assert refused.mean() <= 0.01
    found = found[~refused]
    mean, theta = Spread.of(found[:, :2], 0.0), Spread.of(found[:, 2:4], slope)
    known_mean, known_theta = Spread.of(found[:, 4:6], 0.0), Spread.of(found[:, 6:], slope)
    told(capsys, **{f"{family}_mean": mean, f"{family}_mean_with_two_shares": known_mean})
    told(capsys, **{f"{family}_slope": theta, f"{family}_slope_with_two_shares": known_theta})
    assert known_mean.sd < 0.6 * mean.sd
    assert 0.93 <= known_mean.coverage <= 0.97
    assert 0.93 <= known_theta.coverage <= 0.97


# ---------------------------------------------------------------- correction: raking


CATEGORIES = {"region": 10, "age_group": 8, "school": 5}


def people(rng, n):
    """Return people in three columns that depend on one another, and an income that depends on all."""
    u = rng.uniform(size=n)
    frame = {
        name: np.minimum((rng.uniform(size=n) * 0.7 + 0.3 * u) * m, m - 1).astype(int) for name, m in CATEGORIES.items()
    }
    income = sum(frame[name] / m for name, m in CATEGORIES.items()) + 0.5 * rng.normal(size=n)
    return pd.DataFrame({**frame, "income": income})


POPULATION = people(np.random.default_rng(SEED), 2_000_000)
TRUE_MARGINS = {name: POPULATION[name].value_counts(normalize=True).sort_index() for name in CATEGORIES}
TRUE_INCOME = float(POPULATION["income"].mean())
EFFECTS = {name: np.random.default_rng([SEED, m]).uniform(-0.7, 0.7, m) for name, m in CATEGORIES.items()}


def panel_of(rng, n):
    """Return n people whom a panel took by the product of an effect of each column."""
    pool = people(rng, 12 * n)
    log_omega = sum(EFFECTS[name][pool[name]] for name in CATEGORIES)
    return pool[rng.random(len(pool)) < np.exp(log_omega - 2.1)].head(n).reset_index(drop=True)


def raked(rows, margins):
    """Return weights by iterative proportional fitting."""
    weights = np.ones(len(rows))
    for _ in range(100_000):
        before = weights
        for column, shares in margins.items():
            factor = pd.Series(shares) / pd.Series(weights).groupby(rows[column].to_numpy()).sum() * weights.sum()
            weights = weights * factor.loc[rows[column]].to_numpy()
        if np.abs(weights / before - 1.0).max() < 1e-15:
            break
    return weights / weights.mean()


@pytest.mark.parametrize("number", range(10))
def test_cells_with_margins_off_by_a_factor_of_five_are_raking(number):
    rng = np.random.default_rng([SEED, number])
    rows, margins = panel_of(rng, 1000), {}
    for column in CATEGORIES:
        shares = rows[column].value_counts(normalize=True).sort_index()
        shares = shares * 5.0 ** rng.uniform(-1, 1, len(shares))
        margins[column] = (shares / shares.sum()).to_dict()
    fit = fitted({"panel": rows}, {"panel": vardi.cells(*margins)}, margins)
    np.testing.assert_allclose(np.asarray(fit.weights), raked(rows, margins), rtol=1e-8)


@pytest.mark.parametrize("n", [1000, 5000])
def test_cells_with_known_margins_cover(n, capsys):
    bias, known = vardi.cells(*CATEGORIES), {name: margin.to_dict() for name, margin in TRUE_MARGINS.items()}
    found = repeated(lambda rng: pair(fitted({"p": panel_of(rng, n)}, {"p": bias}, known).expectation("income")), FEWER)
    spread = Spread.of(found, TRUE_INCOME)
    told(capsys, **{f"cells_of_three_columns_n_{n}": spread})
    assert 0.93 <= spread.coverage <= 0.985


def test_margins_of_a_survey_are_taken_with_their_errors(capsys):
    bias = vardi.cells(*CATEGORIES)

    def one(rng):
        panel, exact, uncertain = panel_of(rng, 2000), {}, {}
        for name, m in CATEGORIES.items():
            survey = people(rng, 400)  # of its own: errors of several margins are treated as independent
            p = (survey[name].value_counts().reindex(range(m), fill_value=0) + 0.5) / (400 + 0.5 * m)
            exact[name] = p.to_dict()
            uncertain[name] = {value: (share, float(np.sqrt(share * (1 - share) / 400))) for value, share in p.items()}
        fits = [fitted({"p": panel}, {"p": bias}, known) for known in (exact, uncertain)]
        return [number for fit in fits for number in pair(fit.expectation("income"))]

    found = repeated(one, FEWER)
    exact, uncertain = Spread.of(found[:, :2], TRUE_INCOME), Spread.of(found[:, 2:], TRUE_INCOME)
    told(capsys, margins_of_a_survey_as_exact=exact, margins_of_a_survey_with_their_errors=uncertain)
    assert exact.coverage < 0.9
    assert 0.92 <= uncertain.coverage <= 0.97


def wrong_declaration(rng):
    known = {name: margin.to_dict() for name, margin in TRUE_MARGINS.items()}
    fit = fitted({"p": panel_of(rng, 1000)}, {"p": 1}, known)
    return [*pair(fit.expectation("income")), fit.known.contradicted]


def test_margins_contradict_a_selection_that_is_declared_constant(capsys):
    found = repeated(wrong_declaration, FEWER)
    spread = Spread.of(found[:, :2], TRUE_INCOME)
    told(capsys, declared_constant=f"{spread}  contradicted {found[:, 2].mean():.3f}")
    assert found[:, 2].mean() > 0.99


# ---------------------------------------------------------------- values with an error


def share_of_a_survey(rng):
    """Gamma(3) as it is and by the square, and the share above 4 as 150 others have it."""
    samples = {"plain": rng.gamma(3.0, size=200), "square": rng.gamma(5.0, size=1600)}
    share = float(np.mean(rng.gamma(3.0, size=150) > 4.0))
    error = float(np.sqrt(share * (1 - share) / 150))
    biases = {"plain": 1, "square": "x ** 2"}
    knowns = (None, {"x > 4": share}, {"x > 4": (share, error)})
    return [number for known in knowns for number in pair(fitted(samples, biases, known).expectation("x"))]


def test_a_share_of_a_survey_is_taken_with_its_error(capsys):
    found = repeated(share_of_a_survey)
    without, exact, uncertain = (Spread.of(found[:, j : j + 2], 3.0) for j in (0, 2, 4))
    told(
        capsys, survey_ignored=without, share_of_the_survey_as_exact=exact, share_of_the_survey_with_its_error=uncertain
    )
    assert exact.coverage < 0.8
    assert 0.92 <= uncertain.coverage <= 0.97
    assert uncertain.sd < without.sd


# ---------------------------------------------------------------- groups


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


POINT, HEIGHT, MEDIAN = 1.2, cdf_of_y(1.2), brentq(lambda t: cdf_of_y(t) - 0.5, -1, 3)


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


def groups_with_a_mean(rng):
    samples = {"low": rows(rng, 0, 0.6, 200), "high": rows(rng, 0.6, 1, 150)}
    return samples, {"low": "x0 < 0.6", "high": "x0 >= 0.6"}, {"x0": 0.5}


DESIGNS = {
    "disjoint strata": disjoint,
    "disjoint strata, two margins": disjoint_with_margin,
    "overlap, two shares": overlap_with_margin,
    "two groups, one of two samples": groups_with_overlap,
    "two groups joined by a mean": groups_with_a_mean,
}
UNTESTED = ("disjoint strata", "two groups joined by a mean")


@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_cover(name, capsys):
    def one(rng):
        fit = fitted(*DESIGNS[name](rng))
        cdf, mean = fit.cdf("x2"), fit.expectation("x2")
        difference = mean - fit.expectation("x0")
        covered = [covers(mean, MEAN), covers(difference, MEAN - 0.5), covers(cdf(POINT), HEIGHT)]
        return [*covered, covers(cdf.quantile(0.5), MEDIAN), fit.known.pvalue < 0.05]

    *coverages, rejected = repeated(one).mean(axis=0)
    mean, difference, point, median = coverages
    line = (
        f"mean {mean:.3f}  difference {difference:.3f}  cdf {point:.3f}  median {median:.3f}  rejected {rejected:.3f}"
    )
    told(capsys, **{name: line})
    for coverage in coverages:
        assert 0.93 <= coverage <= 0.975
    assert rejected == 0.0 if name in UNTESTED else 0.03 <= rejected <= 0.08


@pytest.mark.parametrize("number", range(20))
def test_disjoint_strata_are_post_stratified(number):
    samples, biases, shares = disjoint(np.random.default_rng([SEED, number]))
    fit = fitted(samples, biases, shares)
    estimate = fit.expectation("x2")
    mean = sum(shares[k] * samples[k][:, 2].mean() for k in samples)
    variance = sum(shares[k] ** 2 * samples[k][:, 2].var(ddof=1) / len(samples[k]) for k in samples)
    assert estimate.value == pytest.approx(mean, rel=1e-10)
    assert estimate.stderr == pytest.approx(np.sqrt(variance), rel=1e-10)


def case_control(rng):
    x = rng.normal(size=40_000)
    ill = rng.random(len(x)) < 1 / (1 + np.exp(3.0 - x))
    cases, controls = np.column_stack([x, ill])[ill][:250], np.column_stack([x, ill])[~ill][:400]
    prevalence = integrate.quad(lambda z: stats.norm.pdf(z) / (1 + np.exp(3.0 - z)), -12, 12)[0]
    biases = {"cases": "x1 == 1", "controls": "x1 == 0"}
    fit = fitted({"cases": cases, "controls": controls}, biases, {"cases": prevalence})
    result = inference(fit, LogisticRegression(C=np.inf), ["x0"], "x1")
    return [covers(result["intercept"], -3.0), covers(result["x0"], 1.0), covers(fit.expectation("x0"), 0.0)]


def test_case_control_covers(capsys):
    intercept, slope, mean = repeated(case_control).mean(axis=0)
    told(capsys, case_control=f"intercept {intercept:.3f}  slope {slope:.3f}  mean {mean:.3f}")
    for coverage in (intercept, slope, mean):
        assert 0.93 <= coverage <= 0.975
