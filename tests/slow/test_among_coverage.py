"""Coverage of means that only some samples recorded, plain and assisted by a model: 500 repeats, seeds fixed before."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import vardi

REPEATS = 500
TRUTH = 1.0

#: Bias of each sample as it draws; as it is declared, where that has parameters; rows; and which recorded y.
DESIGNS = {
    "known": (
        {"low": ("exp(-0.5 * x)", None, 300), "mid": ("1 + x * x", None, 300), "high": ("exp(0.5 * x)", None, 300)},
        ("low", "high"),
    ),
    "logistic": (
        {
            "plain": ("1", None, 800),
            "clinic": ("1 / (1 + exp(-0.5 - 1.3 * x))", vardi.logistic("x"), 800),
            "wide": ("1 + x * x", None, 400),
        },
        ("clinic",),
    ),
    "tilt": (
        {
            "plain": ("1", None, 300),
            "web": ("exp(0.5 * x)", vardi.exponential_tilt("x"), 400),
            "low": ("exp(-0.5 * x)", None, 200),
        },
        ("web", "low"),
    ),
    "middle": (
        {
            "low": ("exp(-0.6 * x)", None, 500),
            "mid": ("exp(-0.2 * x * x)", None, 200),
            "high": ("exp(0.6 * x)", None, 500),
        },
        ("mid",),
    ),
    "gentle": (
        {
            "low": ("exp(-0.6 * x)", None, 500),
            "mid": ("exp(-0.1 * x * x)", None, 200),
            "high": ("exp(0.6 * x)", None, 500),
        },
        ("mid",),
    ),
}
#: By design, outcome and model.
MODELS = {
    "right": ("middle", "y", LinearRegression()),
    "wrong": ("gentle", "curved", LinearRegression()),
    "boosted": ("gentle", "curved", HistGradientBoostingRegressor(max_iter=40, random_state=0)),
}
#: Of the curved outcome in "middle", whose influence values have no fourth moment; None is the plain mean.
HEAVY = {"plain": None, "line": LinearRegression(), "boosted": MODELS["boosted"][2]}
MEMBERS = 4  # of a household, which is drawn as a whole


def drawn(rng, bias, size):
    """Return rows of a normal population that a bias has drawn, with two outcomes of mean 1."""
    x = np.empty(0)
    while len(x) < size:
        more = rng.uniform(-5.0, 5.0, 20 * size)
        accept = np.exp(-0.5 * more**2) * eval(bias, {"exp": np.exp, "x": more})
        x = np.concatenate([x, more[rng.random(len(more)) < accept / accept.max()]])
    x = x[:size]
    noise = rng.normal(size=size)
    return pd.DataFrame({"x": x, "y": 1.0 + x + noise, "curved": 1.0 + x + 0.7 * (x * x - 1.0) + noise})


def households(rng, bias, size):
    """Return households that a bias has drawn by their x, which all members have, as half of the noise of y."""
    rows = drawn(rng, bias, size // MEMBERS)
    shared = np.sqrt(0.5) * rng.normal(size=len(rows))
    rows = rows.loc[np.repeat(rows.index, MEMBERS)].assign(h=np.repeat(rng.random(len(rows)), MEMBERS))
    own = np.sqrt(0.5) * rng.normal(size=len(rows))
    return rows.assign(y=1.0 + rows["x"] + np.repeat(shared, MEMBERS) + own).reset_index(drop=True)


def fitted(name, rng, draw=drawn, **options):
    design, recorded = DESIGNS[name]
    samples = {sample: draw(rng, bias, size) for sample, (bias, _, size) in design.items()}
    samples = {
        sample: rows if sample in recorded else rows.drop(columns=["y", "curved"]) for sample, rows in samples.items()
    }
    biases = {sample: bias if family is None else family for sample, (bias, family, _) in design.items()}
    return vardi.debias(samples, biases, **options)


def repeated(ask, name):
    """Return how often intervals cover, the spread of the values, and where an error was given; print them."""
    found = []
    for repeat in range(REPEATS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vardi.VardiWarning)
            one = ask(np.random.default_rng([0, repeat]))
            found.append([one.value, one.stderr, *one.interval])
    value, stderr, low, high = np.array(found).T
    given = ~np.isnan(stderr)
    covered = float(np.mean((low <= TRUTH) & (high >= TRUTH)))
    bias, spread, error = value.mean() - TRUTH, value.std(), np.nanmean(stderr)
    print(f"| {name} | {covered:.3f} | {bias:.4f} | {spread:.4f} | {error:.4f} | {given.mean():.3f} |")
    return covered, spread, given.mean()


@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_of_what_some_samples_recorded_cover(name):
    covered, _, _ = repeated(lambda rng: fitted(name, rng).expectation("y"), name)
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize("name", MODELS)
def test_intervals_of_means_that_a_model_assists_cover(name):
    design, column, model = MODELS[name]

    def ask(rng):
        return fitted(design, rng).expectation(column, assisted_by=model, columns=["x"])

    covered, spread, _ = repeated(ask, f"{design}, assisted, {name}")
    assert 0.93 <= covered <= 0.97
    if name == "right":  # the model explains half of the variance
        _, plain, _ = repeated(lambda rng: fitted("middle", rng).expectation(column), "middle, plain")
        assert spread < 0.7 * plain


def test_a_right_model_beside_known_values_covers():
    def ask(rng):
        fit = fitted("middle", rng, known={"x": 0.0})
        return fit.expectation("y", assisted_by=LinearRegression(), columns=["x"])

    covered, _, _ = repeated(ask, "middle, assisted, right, known mean of x")
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize("model", [None, "right", "boosted"])
def test_intervals_of_means_of_households_cover(model):
    assisting = {"right": LinearRegression(), "boosted": MODELS["boosted"][2]}.get(model)
    asked = {} if assisting is None else {"assisted_by": assisting, "columns": ["x"]}

    def ask(rng, **dependence):
        return fitted("gentle", rng, households, **dependence).expectation("y", **asked)

    covered, _, _ = repeated(lambda rng: ask(rng, clusters="h"), f"gentle, households, {model}")
    assert 0.93 <= covered <= 0.97
    if model is None:
        apart, _, _ = repeated(ask, "gentle, households as if rows were independent")
        assert apart < 0.9


@pytest.mark.parametrize("name", HEAVY)
def test_intervals_under_heavy_weights_cover_where_an_error_is_given(name):
    """The bound of means of few rows in test_numbers_coverage: 92% of the intervals that are given."""
    asked = {} if HEAVY[name] is None else {"assisted_by": HEAVY[name], "columns": ["x"]}
    covered, _, given = repeated(
        lambda rng: fitted("middle", rng).expectation("curved", **asked), f"middle, curved, {name}"
    )
    p = covered / given
    print(f"of the intervals that are given {p:.3f}")
    assert p + 2 * np.sqrt(p * (1 - p) / (given * REPEATS)) >= 0.92
