"""Design weights that only their own sample has: one over their regression on columns that all have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

import vardi
from vardi.biases._fitted import FittedValues


def population(rng, n):
    """Return units whose chance of being drawn depends on age, on region, and on what no column holds."""
    age, region, hidden = rng.uniform(20, 80, n), rng.choice(["N", "S"], n), rng.normal(size=n)
    chance = 1 / (1 + np.exp(4.0 - 0.04 * (age - 50) - 0.8 * (region == "N") - 0.7 * hidden))
    y = age / 10 + (region == "N") + rng.normal(size=n)
    return pd.DataFrame({"age": age, "region": region, "y": y}), chance


def samples(seed=0, n=300):
    rng = np.random.default_rng(seed)
    units, chance = population(rng, 40 * n)
    drawn = np.flatnonzero(rng.uniform(size=len(units)) < chance)[:n]
    web = np.flatnonzero(rng.uniform(size=len(units)) < np.exp(-0.03 * (units.age - 20)))[:n]
    survey = units.iloc[drawn].assign(pw=1 / chance[drawn]).reset_index(drop=True)
    return {"survey": survey, "web": units.iloc[web].reset_index(drop=True)}


WEB = "exp(-0.03 * (age - 20))"
BIASES = {"survey": vardi.smoothed("pw", ["age", "region"]), "web": WEB}


def test_the_mean_weight_is_one_over_the_mean_chance():
    """In cells of a discrete column the bias is E[pi | c] = 1 / E_s[w | c]; E_s[1/w | c] is another number."""
    rng = np.random.default_rng(0)
    units, chance = population(rng, 400_000)
    drawn = rng.uniform(size=len(units)) < chance
    for region in ("N", "S"):
        there = units.region == region
        weights = 1 / chance[drawn & there]
        assert 1 / weights.mean() == pytest.approx(chance[there].mean(), rel=0.03)
        assert (1 / weights).mean() > 1.5 * chance[there].mean()


def test_it_is_the_mean_of_cells_where_the_regressor_is_one():
    """With a column of two values, a linear regression by folds is the mean weight of the other folds."""
    given = samples()
    bias = vardi.smoothed("pw", "region", LinearRegression(), folds=3, random_state=1)
    fit = vardi.debias(given, {"survey": bias, "web": WEB})
    survey = given["survey"]
    folds = np.random.default_rng(1).permutation(np.arange(len(survey)) % 3)
    values = fit.held.pool.biases[0].values
    for row in (0, 7, 100):
        others = survey[(folds != folds[row]) & (survey.region == survey.region[row])]
        assert values[row] == pytest.approx(1 / others.pw.mean())
    means = [survey[(folds != fold) & (survey.region == "N")].pw.mean() for fold in range(3)]
    north = np.flatnonzero(given["web"].region == "N")[0] + len(survey)
    assert values[north] == pytest.approx(1 / np.mean(means))


def test_a_fit_debiases_and_weighs_new_rows():
    given = samples()
    fit = vardi.debias(given, BIASES)
    found = fit.expectation("y")
    assert abs(found.value - 5.5) < 3 * found.stderr
    assert abs(given["survey"].y.mean() - 5.5) > 5 * found.stderr  # as it came it is far off
    pd.testing.assert_series_equal(fit.weigh(given["web"]), fit.weights[300:], rtol=1e-12)
    assert "smoothed(pw, age, region)" in str(fit)
    assert isinstance(fit.held.pool.biases[0], FittedValues)
    again = vardi.debias(given, {"survey": "smoothed(pw, age, region)", "web": WEB})
    np.testing.assert_allclose(again.weights, fit.weights)


def test_one_frame_with_labels_and_other_libraries_give_the_same():
    given = samples()
    pool = pd.concat([rows.assign(s=name) for name, rows in given.items()], ignore_index=True)
    expected = vardi.debias(given, BIASES).weights.to_numpy()
    np.testing.assert_allclose(vardi.debias(pool, BIASES, source="s").weights, expected)
    polars = {name: pl.from_pandas(rows) for name, rows in given.items()}
    np.testing.assert_allclose(vardi.debias(polars, BIASES).weights, expected)


def test_it_is_a_factor():
    given = samples()
    old = {"survey": given["survey"][given["survey"].age > 40], "web": given["web"]}
    fit = vardi.debias(old, {"survey": vardi.where("age > 40") * BIASES["survey"], "web": WEB})
    assert str(fit.held.pool.biases[0]) == "(age > 40) * smoothed(pw, age, region)"
    assert vardi.where("(age > 40) * smoothed(pw, age, region)") == vardi.where("age > 40") * BIASES["survey"]
    with_parameters = vardi.exponential_tilt("y") * BIASES["survey"]
    assert vardi.debias(given, {"survey": with_parameters, "web": WEB}).parameters["survey"]["y"].stderr > 0


@pytest.mark.parametrize(
    ("change", "bias", "error", "message"),
    [
        (
            {},
            "1 / pw",
            vardi.MismatchError,
            r"which 'web' lacks. A bias is evaluated on .* vardi.smoothed\('pw', \['age', 'reg",
        ),
        ({}, vardi.smoothed("wp", "age"), vardi.MismatchError, "wp"),
        ({}, vardi.smoothed("pw", "agee"), vardi.MismatchError, "agee"),
        ({"pw": np.nan}, BIASES["survey"], vardi.MissingValuesError, "'pw' of 'survey' are missing in 300 of its rows"),
        (
            {"pw": 0.0},
            BIASES["survey"],
            vardi.InvalidBiasError,
            "of row 0 of 'survey' is 0. A design weight is one over",
        ),
        ({"pw": "a"}, BIASES["survey"], vardi.InvalidBiasError, ", not numbers"),
        (
            {"age": np.nan},
            BIASES["survey"],
            vardi.MissingValuesError,
            "regressed on 'age', which is missing in 300 rows",
        ),
    ],
)
def test_what_is_no_design_weight_is_refused(change, bias, error, message):
    given = samples()
    given["survey"] = given["survey"].assign(**change)
    web = 1 if "age" in change else WEB
    with pytest.raises(error, match=message):
        vardi.debias(given, {"survey": bias, "web": web})


def test_a_column_that_another_lazy_sample_lacks_is_said_alike():
    given = {name: pl.from_pandas(rows).lazy() for name, rows in samples().items()}
    with pytest.raises(vardi.MismatchError, match="which 'web' lacks. A bias is evaluated on the rows of all samples"):
        vardi.debias(given, {"survey": "1 / pw", "web": WEB})


class Negative(LinearRegression):
    """A regression that predicts what no weight can be."""

    def predict(self, X):
        return np.full(len(X), -1.0)


def test_what_is_no_regression_is_refused():
    given = samples()
    with pytest.raises(vardi.InvalidBiasError, match="predicts -1, but a mean weight is above zero"):
        vardi.debias(given, {"survey": vardi.smoothed("pw", "age", Negative()), "web": WEB})
    with pytest.raises(vardi.InvalidBiasError, match="too few for 5 folds"):
        vardi.debias({"survey": given["survey"][:6], "web": given["web"]}, BIASES)
    with pytest.raises(vardi.InvalidBiasError, match="No row was drawn with the bias of 'other'"):
        vardi.debias(given, {"survey": 1, "web": 1, "other": vardi.smoothed("pw", "age")})
    with pytest.raises(vardi.NeedsRowsError, match="needs rows in memory"):
        vardi.debias({name: pl.from_pandas(rows).lazy() for name, rows in given.items()}, BIASES)
    for wrong, message in (
        (lambda: vardi.smoothed("pw", []), "has no column"),
        (lambda: vardi.smoothed("pw", ["age", "pw"]), "regresses the weight on itself"),
        (lambda: vardi.smoothed("pw", "age", folds=1), "2 or more"),
        (lambda: vardi.smoothed(3, "age"), "named by a string"),
        (lambda: vardi.where("smoothed(pw)"), "smoothed takes the column of weights"),
        (lambda: vardi.where("smoothed(pw, age + 1)"), "smoothed takes the column of weights"),
    ):
        with pytest.raises(vardi.VardiError, match=message):
            wrong()
