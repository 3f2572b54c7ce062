"""Known values on rows: contradictions, and what no weights can meet, by the words that users get."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import vardi

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "x": RNG.gamma(3.0, size=400),
        "income": 1e5 + 1e3 * RNG.normal(size=400),
        "region": RNG.choice(list("NSW"), 400),
        "sex": RNG.choice(["f", "m"], 400),
        "group": RNG.choice(list("abcd"), 400),
    }
)
SAMPLES = {"panel": ROWS[:150], "national": ROWS[150:]}
REGION = {"N": 0.2, "S": 0.3, "W": 0.5}

pytestmark = pytest.mark.filterwarnings("ignore::vardi.VardiWarning")  # values that are far off, on purpose


def fitted(known, samples=SAMPLES):
    return vardi.debias(samples, {"panel": "x", "national": 1}, known=known)


def refused(known, said=None, samples=SAMPLES):
    with pytest.raises(vardi.InvalidKnownError, match=said) as caught:
        fitted(known, samples)
    return caught.value


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("known", "columns"),
    [
        ({"x": 2.9, "x > 4": 0.25, "panel": 2.9}, lambda rows: [rows["x"], rows["x"] > 4, rows["x"]]),
        ({"region": REGION}, lambda rows: [rows["region"] == value for value in "NSW"]),
        ({vardi.biases.as_bias(lambda rows: rows["x"] ** 2): 11.0}, lambda rows: [rows["x"] ** 2]),
    ],
)
def test_weights_meet_the_means_of_functions_of_rows(known, columns):
    fit = fitted(known)
    values = [value for one in known.values() for value in (one.values() if isinstance(one, dict) else [one])]
    np.testing.assert_allclose([fit.probabilities @ column for column in columns(ROWS)], values, rtol=1e-9)


def test_missing_values_and_what_is_not_finite():
    gaps = {"panel": ROWS[:150], "national": ROWS[150:].assign(income=[np.nan, *ROWS["income"][151:]])}
    with pytest.raises(
        vardi.MissingValuesError, match="The known value of 'income > 1' needs a value in every row.*1 row"
    ) as caught:
        fitted({"region == 'N'": 0.2, "income > 1": 0.3}, gaps)
    assert caught.value.columns == {"income": 1}
    zeros = {"panel": ROWS[:150], "national": ROWS[150:].assign(income=[0.0, 0.0, *ROWS["income"][152:]])}
    said = r"'log\(income\)' is -inf on 2 of the rows \(the first is row 150\), so it has no mean over them"
    refused({"log(income)": 1.0}, said, zeros)


# ---------------------------------------------------------------- basis


@pytest.mark.parametrize(
    ("known", "rank"),
    [
        ({"x": 2.9, "income": 1e5, "x > 4": 0.25, "sex == 'f'": 0.5}, 4),
        ({"region": REGION, "sex": {"f": 0.5, "m": 0.5}, "group": dict.fromkeys("abcd", 0.25)}, 6),
        ({"region": REGION, "region != 'W'": 0.5, "x < 0": 0.0}, 2),
        ({"x": 2.9, "2 * x + 1": 6.8 * (1 + 1e-12)}, 1),
    ],
)
def test_functions_that_follow_from_others_count_once(known, rank):
    fit = fitted(known)
    assert fit.known.df == rank
    assert fit.solution.residual < 1e-9


@pytest.mark.parametrize("constant", ["1", "national"])
def test_a_constant_says_nothing(constant):
    found, wanted = (fitted({"region": REGION, **more}).known for more in ({constant: 1.0}, {}))
    assert found.df == wanted.df
    assert found.statistic == pytest.approx(wanted.statistic, rel=1e-8)


@pytest.mark.parametrize(
    ("known", "said", "labels"),
    [
        (
            {"x": 3.0, "2 * x + 1": 8.0},
            "2 * 'x' - '2 * x + 1' is -1 on every row of the pool, but -2 by the values given",
            ("x", "2 * x + 1"),
        ),
        (
            {"region": REGION, "region == 'N'": 0.3},
            "is 0 on every row of the pool, but ",
            None,
        ),
        (
            {"x > 4": 0.2, "x <= 4": 0.7},
            "'x > 4' + 'x <= 4' is 1 on every row of the pool, but 0.9 by the values given",
            ("x > 4", "x <= 4"),
        ),
        (
            {"x": (3.0, 0.01), "2 * x + 1": (8.0, 0.01)},
            "by far more than their standard errors allow",
            ("x", "2 * x + 1"),
        ),
    ],
)
def test_values_that_contradict_one_another(known, said, labels):
    error = refused(known, "contradict one another")
    assert said in str(error)
    if labels is not None:
        assert error.labels == labels


def test_exact_values_may_differ_by_rounding_only():
    refused({"x": 3.0, "2 * x + 1": 7.0 * (1 + 1e-7)})


@pytest.mark.parametrize(
    ("known", "said", "constant"),
    [
        ({"x > 99": 0.1}, "No row of the pool is in 'x > 99', so no row can carry its share of 0.1", 0.0),
        ({"x > -1": 0.9}, "'x > -1' is 1 on every row of the pool, so that is its mean whatever the weights", 1.0),
        ({"x - x + 4": 5.0}, "'x - x + 4' is 4 on every row of the pool", 4.0),
        ({"national": 0.5}, "'national' is 1 on every row of the pool", 1.0),
    ],
)
def test_what_is_the_same_on_every_row(known, said, constant):
    error = refused(known)
    assert str(error).startswith(said)
    assert error.allowed == {next(iter(known)): (constant, constant)}


def test_two_values_of_one_thing_are_weighted_by_their_errors():
    precise = np.array([1 / 0.1**2, 1 / 0.2**2])
    both = fitted({"x": (2.9, 0.1), "x * 1": (3.1, 0.2)})
    one = fitted({"x": (precise @ [2.9, 3.1] / precise.sum(), precise.sum() ** -0.5)})
    np.testing.assert_allclose(both.weights, one.weights, rtol=1e-8)
    assert both.expectation("income").stderr == pytest.approx(one.expectation("income").stderr, rel=1e-8)
    np.testing.assert_allclose(fitted({"x": 2.9, "x * 1": (3.1, 0.2)}).weights, fitted({"x": 2.9}).weights, rtol=1e-8)


# ---------------------------------------------------------------- reach


@pytest.mark.parametrize(("value", "side"), [(-1.0, "below"), (99.0, "above")])
def test_a_mean_beyond_the_rows(value, side):
    error = refused({"x": value})
    low, high = float(ROWS["x"].min()), float(ROWS["x"].max())
    assert f"The known value of 'x' is {value:g}, but on the rows of the pool it ranges from {low:.6g} to" in str(error)
    assert f"Correct the value, or add rows {side} {low if side == 'below' else high:.6g}." in str(error)
    assert error.allowed == {"x": (low, high)}


def test_a_normaliser_beyond_the_rows():
    error = refused({"panel": 99.0, "income": 0.0})
    assert str(error).endswith("The same holds for 'income'. Correct the value.")
    assert set(error.allowed) == {"panel", "income"}


def test_several_values_at_once():
    error = refused({"x > 4": 0.2, "x > 5": 0.3}, "No weights on the rows of the pool meet all known values at once")
    assert error.nearest == pytest.approx({"x > 5": 0.2}) or error.nearest == pytest.approx({"x > 4": 0.3})
    least = 0.7 * ROWS["x"].min() + 0.3 * ROWS["x"][ROWS["x"] > 4].min()
    assert refused({"x": 1.0, "x > 4": 0.3}).nearest == pytest.approx({"x": least}, rel=1e-6)


def test_values_that_leave_rows_without_weight():
    error = refused({"x > 4": 0.2, "x > 3": 0.2})
    assert str(error).startswith(
        "The known values leave nothing for rows with 'x > 4' = 0 and 'x > 3' = 1, but the pool"
    )
    assert "no positive weights meet 0.2 for 'x > 4' and 0.2 for 'x > 3'" in str(error)
    assert error.labels == ("x > 4", "x > 3")
    refused({"x > 4": 0.0}, "^The known values leave nothing for rows with 'x > 4' = 1")


def test_a_value_with_an_error_bounds_nothing():
    assert fitted({"x > 4": 0.2, "x > 5": (0.3, 0.01)}).solution.converged
    assert set(refused({"x": (99.0, 1.0), "x > 4": 0.2, "x > 5": 0.3}).labels) <= {"x > 4", "x > 5"}
