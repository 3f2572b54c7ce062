"""Means beside learned biases: the doubly robust form, by hand, and what it combines with."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vardi

LINEAR = make_pipeline(StandardScaler(), LogisticRegression())
LEARNED = vardi.learned(["age", "region"], LINEAR)
REGRESSION = {"assisted_by": LinearRegression(), "columns": ["age"]}


def people(rng, n):
    age, region = rng.uniform(20, 80, n), rng.choice(["N", "S"], n)
    y = age / 10 + (region == "N") + rng.normal(size=n)
    return pd.DataFrame({"age": age, "region": region, "y": y})


def drawn(rng, n, chance):
    units = people(rng, 30 * n)
    return units[rng.uniform(size=len(units)) < chance(units)].iloc[:n].reset_index(drop=True)


def samples(n=200, seed=0, *, recorded=False):
    """Return a survey that did not ask for y, unless it was recorded, and a panel of which more are old."""
    rng = np.random.default_rng(seed)
    survey, panel = people(rng, n), drawn(rng, n, lambda units: expit((units.age - 50) / 20))
    return {"survey": survey if recorded else survey.drop(columns="y"), "panel": panel}


def learned_with(given, **options):
    return vardi.debias(given, {"survey": 1, "panel": LEARNED}, **options)


def by_hand(fit, given, model, X):
    """Return E_ref y^ + E_k (y - y^) and its error, with the folds of the odds, for a survey drawn at random."""
    bias, y, n = fit.solved.pool.biases[1], given["panel"].y.to_numpy(), len(given["survey"])
    fold, over = bias.fold[n:], 1 / bias.values[n:]
    predicted, survey = np.empty(len(y)), np.zeros(n)
    for k in range(5):
        seen = fold != k
        fitted = model.fit(X[n:][seen], y[seen], sample_weight=over[seen])
        predicted[fold == k] = fitted.predict(X[n:][fold == k])
        survey += fitted.predict(X[:n]) / 5
    missed = y - predicted
    off = np.average(missed, weights=over)
    phi = over / over.mean() * (missed - off)
    variance = survey.var(ddof=1) / n + phi.var(ddof=1) / len(y)
    return survey.mean() + off, np.sqrt(variance)


def encoded(given):
    pool = pd.concat(given.values(), ignore_index=True)
    return np.column_stack([pool.age, pool.region == "N", pool.region == "S"]).astype(float)


@pytest.mark.long
def test_the_default_is_boosted_on_the_learned_columns():
    given = {name: rows.assign(age=rows.age.round()) for name, rows in samples().items()}  # with 255 values or fewer
    fit = learned_with(given)
    found = fit.expectation("y")
    model = default_model()
    value, error = by_hand(fit, given, model, encoded(given))
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.stderr == pytest.approx(error, rel=1e-6)
    assert found.among == ("panel",)
    assert not found.is_approximate
    assert "approximate" not in str(found)
    assert "without the model" not in str(found)  # whose error is approximate, and so no standard to compare with
    assert found.plain.is_approximate
    assert fit.expectation("y", columns=["age", "region"]).value == found.value


def default_model():
    """Return what assists means where nothing else is asked for."""
    return HistGradientBoostingRegressor(max_leaf_nodes=4, early_stopping=False, random_state=0)


def test_a_model_of_ones_own():
    given = samples()
    fit = learned_with(given)
    found = fit.expectation("y", **REGRESSION)
    value, error = by_hand(fit, given, LinearRegression(), encoded(given)[:, :1])
    assert (found.value, found.stderr) == pytest.approx((value, error), rel=1e-6)
    plug_in = fit.expectation("y", assisted_by=None)
    assert plug_in.value == pytest.approx(
        np.average(given["panel"].y, weights=1 / fit.solved.pool.biases[1].values[200:])
    )
    assert (found - plug_in).is_approximate


def test_domains_add_up_to_the_whole():
    given = samples()
    fit = learned_with(given)
    whole, parts = fit.total("y", size=100.0, **REGRESSION), fit.total("y", size=100.0, by="region", **REGRESSION)
    assert sum(part.value for part in parts.values()) == pytest.approx(whole.value)
    assert (parts["N"] + parts["S"]).stderr == pytest.approx(whole.stderr)
    assert whole.value == pytest.approx(100 * fit.expectation("y", **REGRESSION).value)
    means = fit.expectation("y", by="region", **REGRESSION)
    bias, n = fit.solved.pool.biases[1], 200
    north, survey_north = given["panel"].region == "N", given["survey"].region == "N"
    over = (1 / bias.values[n:])[north]
    x, y = given["panel"].age.to_numpy()[:, None], given["panel"].y.to_numpy()
    predicted, survey = np.empty(n), np.zeros(n)
    for k in range(5):
        seen = bias.fold[n:] != k
        model = LinearRegression().fit(x[seen], y[seen], sample_weight=1 / bias.values[n:][seen])
        predicted[~seen] = model.predict(x[~seen])
        survey += model.predict(given["survey"][["age"]].to_numpy()) / 5
    expected = survey[survey_north].mean() + np.average((y - predicted)[north], weights=over)
    assert means["N"].value == pytest.approx(expected)
    assert not means["N"].is_approximate
    given["survey"] = given["survey"].assign(region="N")
    with pytest.raises(vardi.MismatchError, match="No row of 'survey' has region = 'S', so only a learned"):
        vardi.debias(given, {"survey": 1, "panel": vardi.learned("age", LINEAR)}).expectation("y", by="region")


def test_what_the_learned_columns_determine_is_told_by_the_reference():
    """Odds are free to make the panel agree with the survey in these columns, so it has nothing to add there."""
    fit = learned_with(samples())
    age = fit.expectation("age > 50")
    alone = vardi.debias({"survey": samples()["survey"]}, {"survey": 1}).expectation("age > 50")
    assert (age.value, age.stderr, *age.interval) == pytest.approx((alone.value, alone.stderr, *alone.interval))
    assert age.among == ("survey",)
    by = fit.expectation("age", by="region")
    assert by["N"].value == pytest.approx(samples()["survey"].query("region == 'N'").age.mean())
    chosen = fit.expectation("age", among=["panel"], assisted_by=LinearRegression(), columns=["age"])
    assert chosen.value == pytest.approx(samples()["survey"].age.mean())  # which a model that sees it predicts
    relative = fit.total("y", relative_to=("age", 5000.0), **REGRESSION)
    assert relative.value == pytest.approx(
        5000 * fit.expectation("y", **REGRESSION).value / fit.expectation("age").value
    )


def test_values_that_the_reference_alone_recorded():
    given = samples()
    given["survey"]["z"] = np.arange(200.0)
    found = learned_with(given).expectation("z")
    assert (found.value, found.among) == (pytest.approx(99.5), ("survey",))
    assert not found.is_approximate


def test_values_that_all_have_recorded():
    """E_ref y^ + E_all (y - y^): a model that predicts nothing leaves the plug-in, and a perfect one the reference."""
    given = samples(recorded=True)
    fit = learned_with(given)
    nothing = fit.expectation("y", assisted_by=DummyRegressor(strategy="constant", constant=3.0), columns=["age"])
    assert nothing.value == pytest.approx(fit.expectation("y", assisted_by=None).value)
    exact = {name: rows.assign(y=3 * rows.age) for name, rows in given.items()}
    fit = learned_with(exact)
    found = fit.expectation("y", **REGRESSION)
    alone = vardi.debias({"survey": exact["survey"]}, {"survey": 1}).expectation("y")
    assert (found.value, found.stderr) == pytest.approx((alone.value, alone.stderr))
    assert found.among == ()


def test_a_biased_reference_of_two_samples_has_a_tangent_of_its_own():
    """What the model predicts has the error that the known samples give it by themselves, normalisers included."""
    rng = np.random.default_rng(2)
    given = {
        "survey": people(rng, 150),
        "young": drawn(rng, 150, lambda units: np.exp(-0.02 * (units.age - 20))),
        "panel": drawn(rng, 200, lambda units: expit((units.age - 50) / 10)),
    }
    known = {"survey": 1, "young": "exp(-0.02 * age)"}
    exact = {name: rows.assign(y=3 * rows.age) for name, rows in given.items()}
    fit = vardi.debias(exact, {**known, "panel": LEARNED})
    alone = vardi.debias({name: exact[name] for name in known}, known)
    found, expected = fit.expectation("y", **REGRESSION), alone.expectation("y")
    assert (found.value, found.stderr, found.df) == pytest.approx(
        (expected.value, expected.stderr, expected.df), rel=1e-6
    )
    some, own = fit.expectation("age", among=["young"]), alone.expectation("age", among=["young"])
    assert (some.value, some.stderr, some.among) == (pytest.approx(own.value), pytest.approx(own.stderr), ("young",))


@pytest.mark.parametrize("known", [{"age": 50.0}, {"age": (50.0, 0.5), "region": {"N": 0.5, "S": 0.5}}])
def test_known_values_hold_in_the_reference(known):
    given = samples()
    fit = learned_with(given, known=known)
    exact = learned_with(
        {name: rows.assign(y=3 * rows.age) for name, rows in samples(recorded=True).items()}, known=known
    )
    found, expected = exact.expectation("y", **REGRESSION), 3 * exact.expectation("age")
    alone = vardi.debias({"survey": given["survey"]}, {"survey": 1}, known=known).expectation("age")
    assert found.value == pytest.approx(3 * alone.value)
    assert found.stderr == pytest.approx(3 * alone.stderr, abs=1e-9)
    assert fit.expectation("y", **REGRESSION).stderr < learned_with(given).expectation("y", **REGRESSION).stderr
    alone = vardi.debias({"survey": given["survey"]}, {"survey": 1}, known=known)
    assert fit.known.pvalue == pytest.approx(alone.known.pvalue, rel=1e-12)
    # both parts of an estimate are moved by one error of a known value
    assert (found - expected).stderr == pytest.approx(0.0, abs=1e-6)


def test_clusters_make_errors_larger():
    given = samples(100)
    doubled = {name: pd.concat([rows, rows], ignore_index=True) for name, rows in given.items()}
    households = np.r_[np.tile(np.arange(100), 2), 100 + np.tile(np.arange(100), 2)]
    fit = learned_with(doubled, clusters=households)
    fold = fit.solved.pool.biases[1].fold
    assert all(len(set(fold[households == one])) == 1 for one in range(200))
    rows = learned_with(doubled)
    assert fit.expectation("y", **REGRESSION).stderr > 1.2 * rows.expectation("y", **REGRESSION).stderr


def test_a_known_bias_that_reads_the_values():
    """The model then learns from the learned samples alone, which keeps the estimate free of errors of the odds."""
    rng = np.random.default_rng(3)
    given = {
        "survey": people(rng, 200),
        "low": drawn(rng, 200, lambda units: units.y < 6),
        "panel": drawn(rng, 200, lambda units: expit((units.age - 50) / 20)),
    }
    fit = vardi.debias(given, {"survey": 1, "low": "y < 6", "panel": LEARNED})
    found = fit.expectation("y", **REGRESSION)
    assert abs(found.value - 5.5) < 3 * found.stderr
    assert not found.is_approximate


@pytest.mark.long
def test_embeddings_are_assisted_by_a_ridge_regression():
    rng = np.random.default_rng(7)
    survey, units = rng.normal(size=(400, 40)), rng.normal(size=(6000, 40))
    panel = units[rng.uniform(size=len(units)) < np.exp(units[:, 0] - 3.0)]
    fit = vardi.debias({"survey": survey, "panel": panel}, {"survey": 1, "panel": vardi.learned()})
    y = np.r_[np.full(400, np.nan), panel @ np.linspace(1, 0, 40) + rng.normal(size=len(panel))]
    found = fit.expectation(y)
    assert found.among == ("panel",)
    assert abs(found.value) < 3 * found.stderr < 1.0


def test_there_is_one_word_for_the_default():
    with pytest.raises(vardi.MismatchError, match="assisted_by is str, which does not predict numbers"):
        learned_with(samples()).expectation("y", assisted_by="boosting")
    plain = vardi.debias(samples(recorded=True), {"survey": 1, "panel": 1})
    assert plain.expectation("y", assisted_by="auto").value == plain.expectation("y").value


def test_sensitivity_is_that_of_what_the_model_misses():
    """The mean of what it predicts is of the reference, which no learned bias has a part in."""
    given = samples(100)
    fit = learned_with(given)
    found, mean = fit.sensitivity("y", gammas=[1.0, 2.0]), fit.expectation("y")
    assert (found.estimate.value, found.samples, found.method) == (mean.value, ("panel",), "sharp")
    bias, X, y = fit.solved.pool.biases[1], encoded(given), given["panel"].y.to_numpy()
    predicted, survey = np.empty(100), np.zeros(100)
    for k in range(5):
        seen = bias.fold[100:] != k
        model = default_model().fit(X[100:][seen], y[seen], sample_weight=1 / bias.values[100:][seen])
        predicted[~seen] = model.predict(X[100:][~seen])
        survey += model.predict(X[:100]) / 5
    missed, pi = y - predicted, 1 / bias.values[100:]
    ends = []
    for cut in np.sort(missed):
        weights = [np.where((missed >= cut) == up, 2.0, 0.5) * pi for up in (True, False)]
        ends += [survey.mean() + np.average(missed, weights=w) for w in weights]
    assert (found.lower[1], found.upper[1]) == pytest.approx((min(ends), max(ends)))
    assert found.lower_stderr[0] == pytest.approx(mean.stderr)
    with pytest.raises(vardi.MismatchError, match="No sample 'survey' whose bias enters the weights"):
        fit.sensitivity("y", samples=["survey"])
    given["web"] = samples(100, seed=1)["panel"]
    two = vardi.debias(given, {"survey": 1, "panel": LEARNED, "web": LEARNED})
    assert "The factor applies to their bias as a whole." in " ".join(str(two.sensitivity("y")).split())
    with pytest.raises(vardi.MismatchError, match="recorded by 'panel', 'web', and it is their bias as a whole"):
        two.sensitivity("y", samples="panel")


def test_sensitivity_where_all_have_recorded_the_values():
    fit = learned_with(samples(100, recorded=True))
    found, mean = fit.sensitivity("y", gammas=[1.0, 1.5]), fit.expectation("y")
    assert found.estimate.value == mean.value
    assert found.lower_stderr[0] == pytest.approx(mean.stderr)
    assert found.linear_lower[1] == pytest.approx(found.lower[1], abs=0.02)  # which a search with refits attains
    assert found.lower[1] < mean.value < found.upper[1]
    with pytest.raises(
        vardi.MismatchError, match="The bias of 'survey' is known, and others were learned by comparison with it"
    ):
        fit.sensitivity("y", samples=["survey"])


def test_sensitivity_of_a_column_that_one_sample_recorded():
    """Without anything learned: exact, and of the bias of that sample."""
    rng = np.random.default_rng(5)
    given = {"survey": people(rng, 100).drop(columns="y"), "panel": people(rng, 80)}
    fit = vardi.debias(given, {"survey": 1, "panel": 1})
    found = fit.sensitivity("y", gammas=[2.0])
    alone = vardi.debias({"panel": given["panel"]}, {"panel": 1}).sensitivity("y", gammas=[2.0])
    assert (*found.lower, *found.upper) == pytest.approx((*alone.lower, *alone.upper))
    assert found.samples == ("panel",)


def test_what_an_estimate_says_of_a_bootstrap_and_of_bounds():
    fit = learned_with(samples(50, recorded=True))
    assert "learned biases are held fixed, so errors are approximate" in str(fit.bootstrap("y", n=3))
    with pytest.raises(
        vardi.VardiError, match="bounds are for weights that follow from known biases alone, but one of"
    ):
        fit.bounds()
