"""Which steps of a pipeline take weights, the losses whose means are compared, and influence."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
from pools import MODELS, curved_fit, curved_pool, debiased, three_tilts
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import vardi
from vardi._estimate.weight_routing import blind_steps, takes_weights
from vardi.learn import inference
from vardi.learn._losses import LOSSES, SCORES, as_loss

# the guard


def test_blind_steps_are_found_at_any_depth():
    numbers = Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())])
    columns = ColumnTransformer([("numbers", numbers, [0]), ("rest", PCA(1), [1])], remainder=RobustScaler())
    model = TransformedTargetRegressor(Pipeline([("columns", columns), ("model", Ridge())]))
    assert blind_steps(model) == (
        "'columns__numbers__fill' (SimpleImputer)",
        "'columns__rest' (PCA)",
        "'columns__remainder' (RobustScaler)",
    )


def test_takes_weights():
    assert takes_weights(make_pipeline(PCA(), Ridge(), "passthrough"))
    assert takes_weights(make_pipeline(StandardScaler(), MinMaxScaler()))
    assert takes_weights(ColumnTransformer([("a", StandardScaler(), [0]), ("b", "drop", [1])]))
    assert not takes_weights(make_pipeline(MinMaxScaler()))
    assert not takes_weights(TransformedTargetRegressor(KNeighborsRegressor()))


# the repetition test


def test_a_blind_step_within_a_step_is_named_once():
    inner = SelectFromModel(KNeighborsRegressor())
    assert blind_steps(make_pipeline(inner, Ridge())) == ("'selectfrommodel' (KNeighborsRegressor)",)


# ---------------------------------------------------------------- losses


def classes(seed=0):
    X, y, source = curved_pool(seed)
    return X, np.array(["few", "many", "most"])[np.digitize(y, [0.5, 1.8])], source


@pytest.mark.parametrize(
    ("scoring", "metric", "model", "kind"),
    [
        ("squared_error", "neg_mean_squared_error", Ridge(), "number"),
        ("absolute_error", "neg_mean_absolute_error", Ridge(), "number"),
        ("poisson_deviance", "neg_mean_poisson_deviance", PoissonRegressor(), "count"),
        ("zero_one", "accuracy", LogisticRegression(), "class"),
        ("log_loss", "neg_log_loss", LogisticRegression(), "class"),
        ("log_loss", "neg_log_loss", LogisticRegression(), "binary"),
        ("brier", "neg_brier_score", LogisticRegression(), "binary"),
    ],
)
def test_losses_are_those_of_scikit_learn(scoring, metric, model, kind):
    X, y, _ = curved_pool()
    target = {"number": y, "count": np.floor(np.abs(y) * 2), "class": classes()[1], "binary": y > 1.0}[kind]
    weights = np.asarray(curved_fit().weights)
    fitted = clone(model).fit(X, target, sample_weight=weights)
    losses = LOSSES[scoring](fitted, X, target)
    score = get_scorer(metric)(fitted, X, target, sample_weight=weights)
    expected = 1 - score if metric == "accuracy" else -score
    assert losses.shape == (500,)
    assert np.average(losses, weights=weights) == pytest.approx(expected)


def labels_of(y):
    """Return sets of labels, some of them empty."""
    return np.column_stack([y > 1.0, y > 1.8, y < -0.2]).astype(int)


@pytest.mark.parametrize(
    ("scoring", "model", "kind"),
    [
        ("neg_mean_squared_error", Ridge(), "number"),
        ("neg_mean_squared_error", Ridge(), "numbers"),
        ("neg_mean_absolute_error", Ridge(), "number"),
        ("neg_mean_absolute_percentage_error", Ridge(), "count"),
        ("neg_mean_squared_log_error", PoissonRegressor(), "count"),
        ("neg_mean_poisson_deviance", PoissonRegressor(), "count"),
        ("neg_mean_gamma_deviance", GammaRegressor(), "positive"),
        ("accuracy", LogisticRegression(), "class"),
        ("accuracy", DecisionTreeClassifier(max_depth=2), "labels"),
        ("top_k_accuracy", LogisticRegression(), "class"),
        ("top_k_accuracy", GaussianNB(), "class"),  # by its probabilities
        ("neg_log_loss", LogisticRegression(), "class"),
        ("neg_log_loss", LogisticRegression(), "binary"),
        ("neg_brier_score", LogisticRegression(), "binary"),
        ("precision_samples", DecisionTreeClassifier(max_depth=2), "labels"),
        ("recall_samples", DecisionTreeClassifier(max_depth=2), "labels"),
        ("f1_samples", DecisionTreeClassifier(max_depth=2), "labels"),
        ("jaccard_samples", DecisionTreeClassifier(max_depth=2), "labels"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")  # rows without labels count as 0
def test_names_of_scikit_learn_have_its_value_and_sign(scoring, model, kind):
    X, y, _ = curved_pool()
    targets = {"number": y, "numbers": np.column_stack([y, y**2]), "count": np.floor(np.abs(y) * 2)}
    targets |= {"positive": np.exp(y), "class": classes()[1], "binary": y > 1.0, "labels": labels_of(y)}
    weights = np.asarray(curved_fit().weights)
    fitted = clone(model).fit(X, targets[kind], sample_weight=weights)
    found = np.average(SCORES[scoring](fitted, X, targets[kind]), weights=weights)
    assert found == pytest.approx(get_scorer(scoring)(fitted, X, targets[kind], sample_weight=weights), rel=1e-12)


def test_two_classes_are_always_among_the_first_two():
    X, y, _ = curved_pool()
    model = LogisticRegression().fit(X, y > 1.0)
    np.testing.assert_array_equal(SCORES["top_k_accuracy"](model, X, y > 1.0), 1.0)


def test_every_scorer_is_a_mean_over_rows_or_refused():
    assert set(SCORES) <= set(get_scorer_names())
    for name in sorted(set(get_scorer_names()) - set(SCORES)):
        with pytest.raises(vardi.MismatchError, match=f"scoring='{name}' is not a mean over rows") as error:
            as_loss(name, None)
        weighted = "sample_weight" in signature(get_scorer(name)._score_func).parameters
        assert str(error.value).endswith("but gives no standard error.") is weighted


def test_brier_of_three_classes_and_of_one_that_was_not_trained_on():
    X, y, _ = classes()
    model = LogisticRegression().fit(X, y)
    p = model.predict_proba(X)
    expected = ((p - (y[:, None] == model.classes_)) ** 2).sum(axis=1)
    np.testing.assert_allclose(LOSSES["brier"](model, X, y), expected)
    stranger = np.array(["none"])
    np.testing.assert_allclose(LOSSES["brier"](model, X[:1], stranger), 1 + (p[0] ** 2).sum())
    assert LOSSES["log_loss"](model, X[:1], stranger) == pytest.approx(-np.log(np.finfo(float).eps))


# ---------------------------------------------------------------- the scorer


#: samples are small here, so that errors rest on few rows: what is said of that is tested where it is meant
pytestmark = pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")


@pytest.fixture(scope="module")
def fit():
    return debiased(*three_tilts())


# ---------------------------------------------------------------- the equations


def refitted(frame, source, biases, counts, model, y, theta):
    """Coefficients where rows stand for so many, normalisers and all: solved by Newton from theta."""
    fit = debiased(frame, source, biases, counts)
    return inference(fit, model, ["x", "v"], y).coefficients


@pytest.mark.parametrize("name", MODELS)
def test_influence_is_the_derivative_in_the_mass_of_a_row(name, monkeypatch):
    """Give row i a little more mass, take it from its sample, and fit everything again."""
    monkeypatch.setattr("vardi.errors._refusals.WHOLE", 1.0)  # counts that are a little more than 1
    frame, source, biases = three_tilts()
    model, y = MODELS[name]
    fit = debiased(frame, source, biases)
    phi = inference(fit, model, ["x", "v"], y).influence.of_rows()
    eps = 1e-4
    for i in (0, 7, 130, 250, 319):
        mine = source == source[i]
        centred = (phi[i] - phi[mine].mean(axis=0)) / len(frame)
        step = np.zeros(len(frame))
        step[mine] = -1.0 / mine.sum()
        step[i] += 1.0
        ends = [refitted(frame, source, biases, 1 + sign * eps * step, model, y, None) for sign in (1, -1)]
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * eps), centred, rtol=2e-4, atol=1e-8)
