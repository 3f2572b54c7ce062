"""Biases that nobody knows, learned by telling rows from those of known samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import vardi

LINEAR = make_pipeline(StandardScaler(), LogisticRegression())
TILT = "exp(-0.03 * (age - 20))"


def people(rng, n):
    age, region = rng.uniform(20, 80, n), rng.choice(["N", "S"], n)
    return pd.DataFrame({"age": age, "region": region, "y": age / 10 + (region == "N") + rng.normal(size=n)})


def drawn(rng, n, chance):
    units = people(rng, 30 * n)
    return units[rng.uniform(size=len(units)) < chance(units)].iloc[:n].reset_index(drop=True)


def old(units):
    return np.exp((units.age - 80) / 20) * np.where(units.region == "N", 1.0, 0.5)


def samples(n=400, seed=0):
    """Return people at random, and a panel of which nobody knows that old people and the north are frequent in it."""
    rng = np.random.default_rng(seed)
    return {"survey": people(rng, n), "panel": drawn(rng, n, old)}


TWO = vardi.learned("age", LINEAR) * vardi.logistic("y")
BIASES = {"survey": 1, "panel": vardi.learned(["age", "region"], LINEAR)}


def values_of(fit, k=1):
    return fit.solved.pool.biases[k].values


@pytest.mark.long
def test_the_odds_are_the_bias_up_to_a_factor():
    given = samples(4000)
    fit = vardi.debias(given, BIASES)
    pool = pd.concat(given.values(), ignore_index=True)
    off = np.log(values_of(fit)) - np.log(old(pool))
    assert np.std(off) < 0.1  # of log odds that range over 3.7
    found = fit.expectation("y")
    assert abs(found.value - 5.5) < 3 * found.stderr
    assert abs(pool.y.mean() - 5.5) > 10 * found.stderr


def test_the_reference_is_debiased_first():
    """Against young people as they came, the odds would be those of the panel over these, and not over people."""
    rng = np.random.default_rng(1)
    given = {"young": drawn(rng, 4000, lambda units: np.exp(-0.03 * (units.age - 20))), "panel": drawn(rng, 4000, old)}
    fit = vardi.debias(given, {"young": TILT, "panel": BIASES["panel"]})
    pool = pd.concat(given.values(), ignore_index=True)
    slope = np.polyfit(pool.age, np.log(values_of(fit)), 1)[0]
    assert slope == pytest.approx(0.05, abs=0.006)  # and 0.08 without the weights


def test_each_row_by_models_that_have_not_seen_it():
    """Folds, balanced weights and odds, by hand."""
    given = samples(60)
    fit = vardi.debias(given, {"survey": 1, "panel": vardi.learned("age", LogisticRegression(), 3, 7)})
    pool = pd.concat(given.values(), ignore_index=True)
    age, label, fold = pool[["age"]].to_numpy(), np.repeat([0, 1], 60), fit.solved.pool.biases[1].fold
    assert [np.bincount(fold[label == side]).tolist() for side in (0, 1)] == [[20, 20, 20]] * 2
    expected = np.empty(120)
    for k in range(3):
        model = LogisticRegression().fit(age[fold != k], label[fold != k])
        p = np.clip(model.predict_proba(age[fold == k])[:, 1], 0.02, 0.98)
        expected[fold == k] = p / (1 - p)
    np.testing.assert_allclose(values_of(fit), expected, rtol=1e-6)


@pytest.mark.long
def test_several_at_once_beside_several_known():
    rng = np.random.default_rng(2)
    given = {
        "survey": people(rng, 300),
        "young": drawn(rng, 300, lambda units: np.exp(-0.03 * (units.age - 20))),
        "panel": drawn(rng, 300, old),
        "web": drawn(rng, 300, lambda units: expit((50 - units.age) / 10)),
    }
    fit = vardi.debias(
        given, {"survey": 1, "young": TILT, "panel": BIASES["panel"], "web": vardi.learned("age", LINEAR)}
    )
    assert list(fit.learned) == ["panel", "web"]
    assert fit.learned["web"].columns == ("age",)
    found = fit.expectation("y")
    assert abs(found.value - 5.5) < 3 * found.stderr
    known_alone = vardi.debias({k: given[k] for k in ("survey", "young")}, {"survey": 1, "young": TILT})
    assert found.stderr < known_alone.expectation("y").stderr


def test_new_rows_get_the_mean_of_the_models():
    given = samples()
    fit = vardi.debias(given, BIASES)
    bias = fit.solved.pool.biases[1]
    new = people(np.random.default_rng(5), 50)
    X = np.column_stack([new.age, new.region == "N", new.region == "S"])
    p = np.mean([model.predict_proba(X)[:, 1] for model in bias.models], axis=0)
    S = np.exp(fit.solution.u[0]) + np.exp(fit.solution.u[1]) * p / (1 - p)
    np.testing.assert_allclose(fit.weigh(new), 1 / S)
    assert fit.weigh(new.assign(region="W")).notna().all()  # a region that nobody has seen is none of them


def test_libraries_labels_and_texts_give_the_same():
    given = samples(100)
    expected = vardi.debias(given, BIASES).weights.to_numpy()
    pool = pd.concat([rows.assign(s=name) for name, rows in given.items()], ignore_index=True)
    np.testing.assert_allclose(vardi.debias(pool, BIASES, source="s").weights, expected)
    polars = {name: pl.from_pandas(rows) for name, rows in given.items()}
    np.testing.assert_allclose(vardi.debias(polars, BIASES).weights, expected)
    assert vardi.where("learned(age, region)") == vardi.learned(["age", "region"])
    assert str(vardi.where("(age > 30) * learned(age)")) == "(age > 30) * learned(age)"


def test_counts_are_copies_of_the_reference():
    """A survey whose rows stand for two weighs as one of twice its rows does in the classifier: not at all."""
    given = samples(100)
    counts = {"survey": np.full(100, 2), "panel": np.ones(100, int)}
    once, twice = vardi.debias(given, BIASES), vardi.debias(given, BIASES, counts=counts)
    np.testing.assert_allclose(values_of(twice), values_of(once), rtol=1e-9)


def test_the_default_reports_how_it_is_calibrated():
    given = samples(300)
    fit = vardi.debias(given, {"survey": 1, "panel": vardi.learned(["age", "region"])})
    check = fit.learned["panel"]
    assert check.classifier == "HistGradientBoostingClassifier, calibrated"
    assert check.rows == 300
    assert sum(check.in_bins) == 600
    assert 0.6 < check.area < 0.9
    halves = np.average(check.observed, weights=check.in_bins), np.average(check.predicted, weights=check.in_bins)
    assert halves == pytest.approx((0.5, 0.5), abs=0.03)
    lines = str(check).splitlines()
    assert lines[0] == "learned from age, region by HistGradientBoostingClassifier, calibrated"
    assert len(lines) == 5 + len(check.in_bins) + len(check.balance)
    assert list(check.balance) == ["age", "region N", "region S"]
    assert "The bias of 'panel' was learned from age, region" in " ".join(fit.summary().split())
    assert "they are approximate" in " ".join(fit.summary().split())


def test_a_wrong_classifier_is_found_out():
    """One that learns nothing leaves the panel as it came, which the tables tell; one that is right, does not."""
    given = samples(1000)
    blind = vardi.debias(given, {"survey": 1, "panel": vardi.learned("age", DummyClassifier())}).learned["panel"]
    before, after = blind.balance["age"]
    assert before == after > 0.5
    assert blind.area == pytest.approx(0.5)
    half = vardi.debias(given, {"survey": 1, "panel": vardi.learned("region", LINEAR)}).learned["panel"]
    assert "age" not in half.balance  # of what it has not seen it says nothing
    seeing = vardi.debias(given, BIASES).learned["panel"]
    assert max(abs(after) for _, after in seeing.balance.values()) < 0.08  # two standard errors of a difference
    assert seeing.off <= 2
    steep = vardi.debias(given, {"survey": 1, "panel": vardi.learned("age", GaussianNB(var_smoothing=0.2))})
    assert steep.learned["panel"].off < 10


def test_no_p_value_takes_a_learned_bias_for_declared():
    """The score test compares the known samples; of learned ones it says where to look."""
    given = samples(200)
    alone = vardi.debias(given, BIASES).check_biases()
    assert np.isnan(alone.pvalue)
    assert alone.by_sample == {}
    said = " ".join(str(alone).split())
    assert "'survey' is the only known sample. The bias of 'panel' was learned from these rows" in said
    rng = np.random.default_rng(11)
    given["young"] = drawn(rng, 200, lambda units: np.exp(-0.03 * (units.age - 20)))
    both = {"survey": 1, "young": TILT}
    fit, known = vardi.debias(given, {**BIASES, "young": TILT}), vardi.debias({k: given[k] for k in both}, both)
    check = fit.check_biases(["age"])
    assert check.pvalue == pytest.approx(known.check_biases(["age"]).pvalue)
    assert list(check.by_sample) == ["survey", "young"]
    assert "The bias of 'panel' was learned from these rows and has no p-value" in " ".join(str(check).split())
    assert "has no p-value" in " ".join(fit.summary().split())
    wrong = vardi.debias(given, {**BIASES, "young": "exp(0.03 * age)"})
    assert wrong.check_biases(["age"]).pvalue < 1e-6


def test_errors_of_plug_ins_say_that_they_are_approximate():
    fit = vardi.debias(samples(100), BIASES)
    mean, cdf = fit.expectation("y", assisted_by=None), fit.cdf("y")
    said = [mean, cdf(5.0), cdf.quantile(0.5), 2 * mean + 1, mean - cdf(5.0)]
    said += [fit.total("y", size=10, assisted_by=None), fit.expectations(["y", "age"])[0]]
    said += [fit.expectation("y", by="region", assisted_by=None)["N"], fit.proportions("region")["N"]]
    for estimate in said:
        assert estimate.is_approximate
        assert str(estimate).endswith("; its error is approximate)")
    assert str(fit.expectation("y", by="region", assisted_by=None)).endswith("\nerrors are approximate")
    assert str(vardi.learn.inference(fit, LinearRegression(), ["age"], "y")).endswith("\nErrors are approximate.")
    plain = vardi.debias(samples(100), {"survey": 1, "panel": 1})
    assert plain.learned == {}
    for estimate in (plain.expectation("y"), plain.cdf("y").quantile(0.5), plain.expectation("y", by="region")["N"]):
        assert not estimate.is_approximate
        assert "approximate" not in str(estimate)


@pytest.mark.long
def test_known_values_combine():
    given = samples(400)
    fit = vardi.debias(given, BIASES, known={"age": 50.0, "region": {"N": 0.5, "S": 0.5}})
    assert fit.expectation("age").value == pytest.approx(50.0)
    assert fit.expectation("y").stderr < 0.7 * vardi.debias(given, BIASES).expectation("y").stderr
    assert fit.expectation("y").value == pytest.approx(5.5, abs=0.15)


@pytest.mark.long
def test_known_values_join_the_reference():
    """Two regions that nothing else joins represent the population by their known shares, and the panel beside them."""
    rng = np.random.default_rng(3)
    units = people(rng, 600)
    north, south = units[units.region == "N"][:250], units[units.region == "S"][:150]
    given = {"north": north, "south": south, "panel": drawn(rng, 400, old)}
    biases = {"north": "region == 'N'", "south": "region == 'S'", "panel": BIASES["panel"]}
    with pytest.raises(vardi.NotIdentifiableError, match="known, which cannot be debiased among themselves") as caught:
        vardi.debias(given, biases)
    assert caught.value.groups == (("north",), ("south",))
    fit = vardi.debias(given, biases, known={"region": {"N": 0.5, "S": 0.5}})
    found = fit.expectation("y")
    assert abs(found.value - 5.5) < 3.5 * found.stderr


@pytest.mark.long
def test_a_factor_that_is_known_is_not_learned():
    """A panel of people above 40: the reference is compared with where it could have drawn."""
    rng = np.random.default_rng(4)
    given = {"survey": people(rng, 4000), "panel": drawn(rng, 4000, lambda units: old(units) * (units.age > 40))}
    bias = vardi.where("age > 40") * BIASES["panel"]
    fit = vardi.debias(given, {"survey": 1, "panel": bias})
    assert str(fit.solved.pool.biases[1]) == "(age > 40) * learned(age, region)"
    pool = pd.concat(given.values(), ignore_index=True)
    odds = fit.solved.pool.biases[1].factors[1].values
    above = (pool.age > 40).to_numpy()
    assert np.std(np.log(odds[above]) - np.log(old(pool)[above])) < 0.1
    assert fit.expectation("y").value == pytest.approx(5.5, abs=0.1)


def test_clusters_stay_whole():
    given = samples(200)
    households = np.concatenate([np.arange(200) // 4, 100 + np.arange(200) // 4])
    fit = vardi.debias(given, BIASES, clusters=households)
    apart = vardi.debias(given, BIASES)
    assert not np.allclose(values_of(fit), values_of(apart))
    pool = pd.concat(given.values(), ignore_index=True)
    X = np.column_stack([pool.age, pool.region == "N", pool.region == "S"])
    by_model = np.column_stack(
        [np.clip(m.predict_proba(X)[:, 1], 0.02, 0.98) for m in fit.solved.pool.biases[1].models]
    )
    used = np.argmin(np.abs(by_model / (1 - by_model) - values_of(fit)[:, None]), axis=1)  # by which model each row was
    assert all(len(set(used[households == one])) == 1 for one in np.unique(households))
    few = np.concatenate([np.arange(200) // 4, 100 + np.arange(200) // 70])
    with (
        pytest.warns(vardi.VardiWarning, match="3 clusters"),
        pytest.raises(vardi.InvalidBiasError, match="'panel' has too few for that: 200 rows in 3 folds"),
    ):
        vardi.debias(given, BIASES, clusters=few)


class Cut(DummyClassifier):
    """A classifier that is sure of rows beyond 5."""

    def predict_proba(self, X):
        p = np.where(X[:, 0] > 5, 0.99, 0.4)
        return np.column_stack([1 - p, p])


def test_clipping_is_counted_and_warned_of():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(600, 1))
    given = {"survey": x[:400], "panel": np.r_[x[400:540], rng.normal(8, 0.1, (60, 1))]}  # 60 that nobody else has
    bias = vardi.learned("x0", Cut())
    with pytest.warns(vardi.WeakOverlapWarning, match=r"60 of its 200 rows \(30.0%\) have a prob") as told:
        fit = vardi.debias(given, {"survey": 1, "panel": bias})
    assert len(told) == 1
    assert fit.learned["panel"].clipped == 60
    assert values_of(fit).max() == pytest.approx(49.0)


def test_embeddings_take_all_columns_and_a_linear_classifier():
    rng = np.random.default_rng(7)
    survey, units = rng.normal(size=(1000, 40)), rng.normal(size=(12_000, 40))
    panel = units[rng.uniform(size=len(units)) < np.exp(units[:, 0] - 3.0)]
    fit = vardi.debias({"survey": survey, "panel": panel}, {"survey": 1, "panel": vardi.learned()})
    check = fit.learned["panel"]
    assert check.classifier == "StandardScaler and LogisticRegression"
    assert len(check.columns) == 40
    pool = np.vstack([survey, panel])
    # 40 coefficients with errors of about 1 / sqrt(1,000 / 2) each: a noise of 0.28 beside a signal of 1.1
    assert np.corrcoef(np.log(values_of(fit)), pool[:, 0])[0, 1] > 0.9
    assert abs(fit.expectation("x0").value) < abs(pool[:, 0].mean()) / 2
    assert vardi.where("learned()") == vardi.learned()
    with pytest.raises(vardi.MismatchError, match="learned without naming a column, but frames"):
        vardi.debias(samples(50), {"survey": 1, "panel": vardi.learned()})


@pytest.mark.parametrize(
    ("change", "biases", "error", "message"),
    [
        ({}, {"survey": "learned(age)", "panel": "learned(age)"}, vardi.NotIdentifiableError, "at least one sample"),
        (
            {"region": None},
            BIASES,
            vardi.MismatchError,
            "column 'region', which 'survey' lacks, .* have: 'age', 'y'",
        ),
        ({}, {"survey": 1, "panel": "learned(agee)"}, vardi.MismatchError, "agee"),
        ({"age": np.nan}, BIASES, vardi.MissingValuesError, "learned from 'age', which is missing in 60 rows"),
        ({"age": 500.0}, BIASES, vardi.NotIdentifiableError, "can be told from those of 'survey' without error"),
        ({}, {"survey": 1, "panel": TWO}, vardi.InvalidBiasError, "another unknown factor"),
        ({}, {"survey": 1, "panel": 1, "web": "learned(age)"}, vardi.InvalidBiasError, "nothing to learn it from"),
    ],
)
def test_what_cannot_be_learned_from(change, biases, error, message):
    given = samples(60)
    given["survey"] = given["survey"].drop(columns="region") if "region" in change else given["survey"].assign(**change)
    with pytest.raises(error, match=message):
        vardi.debias(given, biases)


def test_what_cannot_learn():
    given = samples(60)
    for wrong, error, message in (
        (lambda: vardi.learned("age", LinearSVC()), vardi.InvalidBiasError, "LinearSVC has no predict_proba"),
        (lambda: vardi.learned("age", KNeighborsClassifier()), vardi.WeightBlindError, "takes no sample_weight in fit"),
        (lambda: vardi.learned([]), vardi.InvalidBiasError, "learned has no column"),
        (lambda: vardi.learned("age", folds=1), vardi.InvalidBiasError, "2 or more"),
        (lambda: vardi.learned(3), vardi.VardiError, "named by a string"),
        (lambda: vardi.where("learned(age + 1)"), vardi.InvalidBiasError, "learned takes the columns that the selec"),
        (
            lambda: vardi.debias({"survey": given["survey"], "panel": given["panel"][:8]}, BIASES),
            vardi.InvalidBiasError,
            "5 folds of rows or whole clusters, but 'panel' has too few for that: 8 rows in 5 folds. Give fewer",
        ),
        (
            lambda: vardi.debias(given, BIASES, known={"panel": 0.5}),
            vardi.InvalidKnownError,
            "mean of the bias of 'panel', which is learned",
        ),
    ):
        with pytest.raises(error, match=message):
            wrong()


def test_lazy_frames_are_read_and_numbers_stand_beside_their_rows():
    given = samples(60)
    lazy = {name: pl.from_pandas(rows).lazy() for name, rows in given.items()}
    fit, eager = vardi.debias(lazy, BIASES), vardi.debias(given, BIASES)
    found, expected = fit.expectation("y"), eager.expectation("y")
    assert (found.value, found.stderr) == pytest.approx((expected.value, expected.stderr), rel=1e-9)
    weights = fit.weights["panel"]
    assert weights.columns == ["age", "region", "y", "weight"]
    np.testing.assert_allclose(weights["weight"], np.asarray(eager.weights)[60:], rtol=1e-9)
    replicates = fit.replicate_weights(2, 1)["survey"]
    np.testing.assert_allclose(replicates["replicate_2"], eager.replicate_weights(2, 1)["replicate_2"][:60], rtol=1e-9)
    pool = pl.concat([rows.with_columns(s=pl.lit(name), c=pl.int_range(60) // 2) for name, rows in lazy.items()])
    one = vardi.debias(pool, BIASES, source="s", clusters="c")
    assert one.weights.columns == ["age", "region", "y", "s", "c", "weight"]
    more = fit.update({"panel": lazy["panel"].head(30)})
    assert more.sizes == {"survey": 60, "panel": 90}
    with pytest.raises(vardi.MismatchError, match="^There is already a column 'weight'"):
        vardi.debias(one.weights.lazy(), BIASES, source="s").weights  # noqa: B018
    with pytest.raises(vardi.MismatchError, match="^series was given as True, but the rows are lazy frames"):
        vardi.debias(lazy, BIASES, series=True)
    with pytest.warns(vardi.errors.SharedUnitsWarning, match="60 rows of 'survey' are in 'panel' too"):
        vardi.debias(dict.fromkeys(given, lazy["panel"]), BIASES)


def test_a_verdict_before_any_fit():
    assert vardi.identify(samples(60), BIASES)
