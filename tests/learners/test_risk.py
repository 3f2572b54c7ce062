"""debiased_risk and debiased_scorer: the formula, every loss, every form of rows, and a population with known truth."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from pools import CURVED_BIASES, curved_fit, curved_pool, mean_of, population, spread_of
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import get_scorer, make_scorer, max_error, mean_squared_error
from sklearn.model_selection import GridSearchCV, RepeatedKFold, StratifiedKFold, cross_val_predict, cross_validate
from sklearn.neighbors import KernelDensity, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

import vardi
from vardi.learn.estimator import DebiasedEstimator
from vardi.learn.risk import debiased_risk, debiased_scorer

NODES, MASSES = np.polynomial.legendre.leggauss(200)


def true_risk(model):
    """Return E_P (Y - a - b X)^2 of a line, by quadrature."""
    x = 2.0 * NODES
    error = mean_of(x) - model.predict(x[:, None])
    return float(MASSES / 2.0 @ (error**2 + spread_of(x) ** 2))


class Recorded(LinearRegression):
    """A line that keeps what it was fitted to."""

    fits: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight=sample_weight)
        Recorded.fits.append((self, np.asarray(X), np.asarray(sample_weight)))
        return self


def risk(estimator, rows=None, **options):
    X, y, source = curved_pool() if rows is None else rows
    return debiased_risk(estimator, X, y, **{"source": source, "biases": CURVED_BIASES, **options})


def by_hand(model, folds, loss, rows=None, fit=None):
    X, y, _ = curved_pool() if rows is None else rows
    weights = np.asarray((curved_fit(rows) if fit is None else fit).weights)
    losses = np.empty(len(y))
    for train, test in folds:
        fitted = clone(model).fit(X[train], y[train], sample_weight=weights[train])
        losses[test] = loss(y[test], fitted.predict(X[test]))
    return losses


FOLDS = [(np.setdiff1d(np.arange(500), np.arange(k, 500, 5)), np.arange(k, 500, 5)) for k in range(5)]


# ---------------------------------------------------------------- the truth


def test_naive_cross_validation_is_wrong_and_this_is_right():
    """Of 20,000 rows: the debiased risk lies within three errors of the truth, the naive one a hundred away."""
    X, y, source = rows = curved_pool(1, (6000, 14000))
    Recorded.fits.clear()
    estimate = risk(Recorded(), rows)
    truth = np.mean([true_risk(model) for model, *_ in Recorded.fits])
    assert abs(estimate.value - truth) < 3 * estimate.stderr
    assert estimate.stderr < 0.02 * truth
    plain = LinearRegression()
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, source)
    naive = (y - cross_val_predict(plain, X, y, cv=list(folds))) ** 2
    own_truth = true_risk(plain.fit(X, y))
    assert abs(naive.mean() - own_truth) > 30 * naive.std() / len(y) ** 0.5


def test_the_error_includes_the_normalisers():
    losses = by_hand(LinearRegression(), FOLDS, lambda y, p: (y - p) ** 2)
    estimate = risk(LinearRegression(), cv=FOLDS)
    expected = curved_fit().expectation(losses)
    assert estimate.value == pytest.approx(np.average(losses, weights=np.asarray(curved_fit().weights)))
    assert estimate.value == pytest.approx(expected.value)
    assert estimate.stderr == pytest.approx(expected.stderr)
    x, y = population(8000, np.random.default_rng(0))
    chosen = np.concatenate([np.flatnonzero(x < 0.2)[:1600], np.flatnonzero(x > -0.2)[-400:]])
    X, source = x[chosen, None], np.repeat(["low", "high"], [1600, 400])
    y = y[chosen] * np.where(X[:, 0] > 0, 2.0, 0.5)  # so that the risk rests on the share of the high ones
    biases = {"low": "x0 < 0.2", "high": "x0 > -0.2"}
    folds = [(np.flatnonzero(np.arange(2000) % 4 != k), np.arange(k, 2000, 4)) for k in range(4)]
    estimate = risk(LinearRegression(), (X, y, source), biases=biases, cv=folds)
    fit = vardi.debias(X, biases, source=source)
    losses = by_hand(LinearRegression(), folds, lambda y, p: (y - p) ** 2, (X, y, source), fit)
    as_known = ((fit.probabilities * (losses - estimate.value)) ** 2).sum() ** 0.5
    assert estimate.stderr == pytest.approx(fit.expectation(losses).stderr)
    assert estimate.stderr > 1.1 * as_known


def test_differences_of_models_carry_their_correlation():
    line, curve = LinearRegression(), make_pipeline(StandardScaler(), Ridge(100.0))
    both = risk([line, curve], cv=FOLDS)
    assert isinstance(both, vardi.Estimates)
    assert both[0].value == pytest.approx(risk(line, cv=FOLDS).value)
    first = by_hand(line, FOLDS, lambda y, p: (y - p) ** 2)
    difference = both[0] - both[1]
    weights = np.asarray(curved_fit().weights)
    X, y, _ = curved_pool()
    second = np.empty(500)
    for train, test in FOLDS:
        w = weights[train]
        fitted = clone(curve).fit(X[train], y[train], standardscaler__sample_weight=w, ridge__sample_weight=w)
        second[test] = (y[test] - fitted.predict(X[test])) ** 2
    expected = curved_fit().expectation(first - second)
    assert difference.value == pytest.approx(expected.value)
    assert difference.stderr == pytest.approx(expected.stderr)
    assert difference.stderr < both.stderr.min()
    same = risk([line, line])
    assert (same[0] - same[1]).stderr == 0.0
    with pytest.raises(vardi.MismatchError, match="different fits"):
        risk(line) - risk(curve)


# ---------------------------------------------------------------- folds


def test_folds_are_split_within_samples():
    X, _, source = rows = curved_pool()
    Recorded.fits.clear()
    risk(Recorded(), rows, cv=5)
    weights = dict(zip(X[:, 0], np.asarray(curved_fit().weights), strict=True))
    assert len(Recorded.fits) == 5
    sample = dict(zip(X[:, 0], source, strict=True))
    for _, trained, given in Recorded.fits:
        labels = np.array([sample[x] for x in trained[:, 0]])
        assert ((labels == "all").sum(), (labels == "high").sum()) == (120, 280)
        np.testing.assert_allclose(given, [weights[x] for x in trained[:, 0]])  # of the fit of all rows


class Watching(LogisticRegression):
    """A classifier that keeps what it was trained on."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        Watching.seen.append(np.asarray(y))
        return super().fit(X, y, sample_weight=sample_weight)


def test_folds_of_classifiers_are_split_within_classes():
    X, _, source = curved_pool()
    rare = np.zeros(500, int)
    rare[[3, 40, 77, 101, 149, 160, 200, 300, 400, 444]] = 1
    Watching.seen.clear()
    debiased_risk(Watching(), X, rare, source=source, biases={"all": 1, "high": 1})
    assert [labels.sum() for labels in Watching.seen] == [8] * 5


def test_seeds_and_splitters():
    model = LinearRegression()
    assert risk(model).value == risk(model).value == risk(model, random_state=np.random.RandomState(0)).value
    assert risk(model).value != risk(model, random_state=1).value
    splitter = StratifiedKFold(5, shuffle=True, random_state=0)
    X, _, source = curved_pool()
    by_sample = list(splitter.split(X, source))
    assert risk(model, cv=splitter).value == risk(model, cv=by_sample).value
    masks = [(np.isin(np.arange(500), train), np.isin(np.arange(500), test)) for train, test in by_sample]
    assert risk(model, cv=masks).value == risk(model, cv=by_sample).value
    repeated = list(RepeatedKFold(n_splits=5, n_repeats=2, random_state=0).split(X))
    parts = [risk(model, cv=repeated[:5]).value, risk(model, cv=repeated[5:]).value]
    assert risk(model, cv=repeated).value == pytest.approx(np.mean(parts))


def test_folds_that_are_refused():
    model = LinearRegression()
    with pytest.raises(vardi.MismatchError, match="cv is 1, but 500 rows can be split into 2 to 500 folds"):
        risk(model, cv=1)
    with pytest.raises(vardi.MismatchError, match="cv never holds out 400 of 500 rows"):
        risk(model, cv=FOLDS[:1])
    with pytest.raises(vardi.MismatchError, match="trains on rows that it also holds out"):
        risk(model, cv=[(np.arange(500), np.arange(500))])


# ---------------------------------------------------------------- losses


def classes(seed=0):
    X, y, source = curved_pool(seed)
    return X, np.array(["few", "many", "most"])[np.digitize(y, [0.5, 1.8])], source


def test_a_name_of_scikit_learn_is_a_mean_of_the_held_out_rows():
    loss, score = (risk(Ridge(), cv=FOLDS, scoring=name) for name in ("squared_error", "neg_mean_squared_error"))
    assert score.value == -loss.value
    assert score.stderr == pytest.approx(loss.stderr)
    X, y, source = classes()
    options = {"source": source, "biases": {"all": 1, "high": lambda rows: np.ones(len(rows))}, "cv": FOLDS}
    right = debiased_risk(LogisticRegression(), X, y, scoring="accuracy", **options)
    wrong = debiased_risk(LogisticRegression(), X, y, scoring="zero_one", **options)
    assert right.value == pytest.approx(1.0 - wrong.value)


def test_defaults_suit_the_estimator():
    X, y, source = curved_pool(0, (600, 1400))
    labels = y > 1.0
    biases = {"all": 1, "high": lambda rows: np.ones(len(rows))}
    options = {"source": source, "biases": biases}
    one = debiased_risk(LogisticRegression(), X, labels, **options)
    assert one.value == debiased_risk(LogisticRegression(), X, labels, scoring="zero_one", **options).value
    assert risk(Ridge()).value == risk(Ridge(), scoring="squared_error").value
    density = KernelDensity(bandwidth=0.5)
    rows, features = np.column_stack([X, y]), {"all": 1, "high": "x1 > 1.3"}
    some = {"source": source[::4], "biases": features}
    loss = debiased_risk(density, rows[::4], **some)
    named = debiased_risk(density, rows[::4], scoring="negative_log_likelihood", **some)
    assert loss.value == named.value
    clusters = KMeans(3, n_init=3, random_state=0)
    distortion = debiased_risk(clusters, rows, source=source, biases=features, scoring="distortion")
    everyone = debiased_risk(KMeans(1), rows, source=source, biases=features, scoring="distortion")
    assert 0 < distortion.value < everyone.value / 2


def test_a_function_gives_the_loss_of_each_row():
    def pinball(y, prediction):
        return np.maximum(0.9 * (y - prediction), 0.1 * (prediction - y))

    losses = by_hand(LinearRegression(), FOLDS, pinball)
    assert risk(LinearRegression(), cv=FOLDS, scoring=pinball).value == pytest.approx(
        curved_fit().expectation(losses).value
    )


def test_several_outcomes_count_the_same():
    X, y, source = curved_pool()
    frame = pd.DataFrame({"y": y, "other": y**2})
    both = debiased_risk(LinearRegression(), X, frame, source=source, biases=CURVED_BIASES, cv=FOLDS)
    fit = curved_fit()
    squares = by_hand(LinearRegression(), FOLDS, lambda y, p: (y - p) ** 2)
    second = debiased_risk(LinearRegression(), np.column_stack([X, y]), y**2, source=source,
                           biases={"all": 1, "high": "x1 > 1.3"}, cv=FOLDS, scoring=lambda y, p: 0 * y)  # fmt: skip
    assert second.value == 0.0
    weights = np.asarray(fit.weights)
    others = np.empty(500)
    for train, test in FOLDS:
        model = LinearRegression().fit(X[train], y[train] ** 2, sample_weight=weights[train])
        others[test] = (y[test] ** 2 - model.predict(X[test])) ** 2
    assert both.value == pytest.approx(fit.expectation((squares + others) / 2).value)


@pytest.mark.parametrize(
    ("scoring", "match"),
    [
        (
            "roc_auc",
            "'roc_auc' is not a mean over rows, so it is not a mean over the population either. Give 'squared_error', "
            r".* or scikit-learn's 'neg_mean_squared_error', .*'jaccard_samples'. vardi.debiased_scorer\('roc_auc', "
            r"fit=fit\) weights its rows, but gives no standard error.$",
        ),
        ("r2", "'r2' is not a mean over rows"),
        ("neg_root_mean_squared_error", "'neg_root_mean_squared_error' is not a mean over rows"),
        ("neg_max_error", "'neg_max_error' is not a mean over rows, .*'jaccard_samples'.$"),
        ("f1_samples", "compares the labels of a row with those predicted, but y has one value for each row. Give y a"),
        ("accurracy", "'accurracy' is not a known loss. Did you mean 'accuracy'"),
        ("squared_eror", "Did you mean 'squared_error'"),
        (3, "scoring was given as int"),
        (make_scorer(mean_squared_error), "scoring was given as _Scorer"),
        (mean_squared_error, r"'mean_squared_error' returned values of shape \(\) for 100 rows. It must return one"),
        ("log_loss", "needs predict_proba, which LinearRegression does not have"),
    ],
)
def test_scorings_that_are_refused(scoring, match):
    with pytest.raises(vardi.MismatchError, match=match):
        risk(LinearRegression(), scoring=scoring)


def test_losses_that_have_no_mean():
    with pytest.raises(vardi.VardiError, match=r"'poisson_deviance' of LinearRegression is missing or infinite on"):
        risk(LinearRegression(), scoring="poisson_deviance")
    X, _, source = curved_pool()
    with pytest.raises(vardi.MismatchError, match="compares predictions with y, but y is None"):
        debiased_risk(KMeans(2), X, source=source, biases={"all": 1, "high": 1}, scoring="squared_error")
    with pytest.raises(vardi.MismatchError, match="a regressor or a density, so there is no default loss"):
        debiased_risk(KMeans(2), X, source=source, biases={"all": 1, "high": 1})


# ---------------------------------------------------------------- estimators and rows


def test_estimators_that_take_no_weights_are_refused():
    with pytest.raises(vardi.VardiError, match="KNeighborsRegressor takes no sample_weight.*DebiasedResampler"):
        risk(KNeighborsRegressor())
    with pytest.raises(vardi.VardiError, match="KNeighborsRegressor takes no sample_weight"):
        risk([LinearRegression(), make_pipeline(StandardScaler(), KNeighborsRegressor())])
    with pytest.raises(vardi.MismatchError, match="The list of estimators is empty"):
        risk([])


def test_an_estimator_that_debiases_by_itself_gets_the_labels():
    X, y, source = curved_pool(0, (600, 1400))
    wrapped = DebiasedEstimator(LinearRegression(), biases=CURVED_BIASES)
    alone = debiased_risk(wrapped, X, y, source=source)
    plain = risk(LinearRegression(), (X, y, source))
    assert alone.value == pytest.approx(plain.value, rel=0.01)  # normalisers of the training rows, or of all
    assert alone.stderr == pytest.approx(plain.stderr, rel=0.05)
    blind = DebiasedEstimator(KNeighborsRegressor(), biases=CURVED_BIASES, resample=True, random_state=0)
    assert 0 < debiased_risk(blind, X, y, source=source).value < plain.value
    named = DebiasedEstimator(LinearRegression(), biases={"all": 1, "high": "price > 1.3"}, target="price")
    assert debiased_risk(named, X, y, source=source).value == alone.value


@pytest.mark.parametrize("routing", [False, True])
def test_metadata_routing_changes_nothing(routing):
    expected = risk(make_pipeline(StandardScaler(), Ridge()))
    with sklearn.config_context(enable_metadata_routing=routing):
        assert risk(make_pipeline(StandardScaler(), Ridge())).value == expected.value
        search = GridSearchCV(Ridge(), {"alpha": [1.0, 10.0]})
        assert risk(search).value == pytest.approx(expected.value, rel=0.02)


def test_rows_of_every_library():
    X, y, source = curved_pool()
    expected = risk(Ridge())
    frame, series = pd.DataFrame(X, columns=["a"], index=range(5, 505)), pd.Series(y, index=range(5, 505), name="y")
    for as_X, as_y in [
        (frame, series),
        (pl.DataFrame({"a": X[:, 0]}), pl.Series("y", y)),
        (pa.table({"a": X[:, 0]}), pa.chunked_array([y])),
        (sparse.csr_array(X), y),
        (X.tolist(), y.tolist()),
    ]:
        estimate = risk(Ridge(), (as_X, as_y, source))
        assert (estimate.value, estimate.stderr) == pytest.approx((expected.value, expected.stderr))
    labelled = frame.assign(sample=source)
    assert risk(Ridge(), (labelled, series, "sample")).value == pytest.approx(expected.value)


def test_one_sample_without_bias_is_plain_cross_validation():
    X, y, _ = curved_pool()
    X, y = X[:150], y[:150]
    folds = [(np.setdiff1d(np.arange(150), np.arange(k, 150, 5)), np.arange(k, 150, 5)) for k in range(5)]
    estimate = debiased_risk(LinearRegression(), X, y, cv=folds)
    losses = (y - cross_val_predict(LinearRegression(), X, y, cv=folds)) ** 2
    assert estimate.value == pytest.approx(losses.mean())
    assert estimate.stderr == pytest.approx(losses.std(ddof=1) / 150**0.5)


def test_each_mistake_has_its_own_error():
    X, y, source = curved_pool()
    with pytest.raises(vardi.MismatchError, match=r"source has shape \(499,\), but the pool has 500 rows"):
        risk(Ridge(), (X, y, source[:-1]))
    with pytest.raises(vardi.MismatchError, match=r"Label 'hi' .* has no bias"):
        risk(Ridge(), (X, y, np.where(source == "high", "hi", source)))
    with pytest.raises(vardi.MismatchError, match=r"reads 'z', which is neither a column of X \(x0\) nor the"):
        risk(Ridge(), biases={"all": 1, "high": "z > 1.3"})
    with pytest.raises(vardi.MismatchError, match=r"reads 'y', which is not a column of X \(x0\), and y is None"):
        risk(KernelDensity(), (X, None, source))


def test_errors_are_refused_where_samples_hardly_overlap():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 0.53, 40), rng.uniform(0.5, 1, 40)])
    noise = rng.standard_normal(80)
    noise[5] = 30.0
    rows = (x[:, None], x + noise, np.repeat(["low", "high"], 40))
    with pytest.warns(vardi.WeakOverlapWarning, match="standard error of mean 0 rests on few rows"):
        estimate = risk(Ridge(), rows, biases={"low": "x0 <= 0.53", "high": "x0 >= 0.5"})
    assert np.isfinite(estimate.value)
    assert estimate.df < 10


# ---------------------------------------------------------------- the scorer


def held_out_score(model, fit, folds, metric=mean_squared_error):
    X, y, _ = curved_pool()
    w = np.asarray(fit.weights)
    scores = []
    for train, test in folds:
        fitted = clone(model).fit(X[train], y[train], sample_weight=w[train])
        scores.append(-metric(y[test], fitted.predict(X[test]), sample_weight=w[test]))
    return scores


GRID = {"alpha": [0.1, 10.0, 1000.0]}


@pytest.mark.parametrize("scoring", ["squared_error", "neg_mean_squared_error", None, lambda y, p: (y - p) ** 2])
def test_a_search_scores_for_the_population(scoring):
    X, y, source = curved_pool()
    fit = curved_fit()
    search = GridSearchCV(Ridge(), GRID, scoring=debiased_scorer(scoring, fit=fit), cv=FOLDS)
    search.fit(X, y, sample_weight=np.asarray(fit.weights))
    for k, alpha in enumerate(GRID["alpha"]):
        expected = held_out_score(Ridge(alpha), fit, FOLDS)
        found = [search.cv_results_[f"split{fold}_test_score"][k] for fold in range(5)]
        np.testing.assert_allclose(found, expected)
    total = debiased_risk(Ridge(0.1), X, y, source=source, biases=CURVED_BIASES, cv=FOLDS)
    assert -search.cv_results_["mean_test_score"][0] == pytest.approx(total.value, rel=0.02)


def test_a_search_of_an_estimator_that_debiases_by_itself():
    X, y, source = curved_pool()
    scorer = debiased_scorer("squared_error", fit=curved_fit())
    wrapped = DebiasedEstimator(Ridge(), biases=CURVED_BIASES)
    grid = {"estimator__alpha": GRID["alpha"]}
    plain = GridSearchCV(wrapped, grid, scoring=scorer, cv=FOLDS).fit(X, y, source=source)
    with sklearn.config_context(enable_metadata_routing=True):
        asking = DebiasedEstimator(Ridge(), biases=CURVED_BIASES).set_fit_request(source=True)
        routed = GridSearchCV(asking, grid, scoring=scorer, cv=FOLDS).fit(X, y, source=source)
    np.testing.assert_allclose(routed.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    assert routed.best_params_ == plain.best_params_


def test_weights_can_be_routed_where_x_lacks_what_the_biases_read():
    X, y, source = curved_pool()
    fit = vardi.debias(pd.DataFrame({"hidden": y}), {"all": 1, "high": "hidden > 1.3"}, source=source)
    scorer = debiased_scorer("squared_error", fit=fit)
    with pytest.raises(vardi.MismatchError, match="reads 'hidden'") as caught:
        scorer(Ridge().fit(X, y), X, y)
    assert "scorer.set_score_request(sample_weight=True)" in caught.value.__notes__[0]
    expected = [np.mean(held_out_score(Ridge(alpha), fit, FOLDS)) for alpha in GRID["alpha"]]
    weights = np.asarray(fit.weights)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = scorer.set_score_request(sample_weight=True)
        ridge = Ridge().set_fit_request(sample_weight=True)
        search = GridSearchCV(ridge, GRID, scoring=scorer, cv=FOLDS).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)
        renamed = debiased_scorer("squared_error", fit=fit).set_score_request(sample_weight="mine")
        scores = cross_validate(
            ridge, X, y, scoring=renamed, cv=FOLDS, params={"sample_weight": weights, "mine": weights}
        )
    assert scores["test_score"].mean() == pytest.approx(np.mean(held_out_score(Ridge(), fit, FOLDS)))


def test_metrics_of_scikit_learn_are_weighted():
    X, y, source = curved_pool()
    fit = curved_fit()
    labels = (y > 1.0).astype(int)
    weights = np.asarray(fit.weights)
    model = RandomForestClassifier(20, max_depth=3, random_state=0).fit(X, labels, sample_weight=weights)
    for name in ("roc_auc", "f1", "accuracy"):
        by_fit = debiased_scorer(name, fit=fit)(model, X, labels, sample_weight=weights)
        assert by_fit == pytest.approx(get_scorer(name)(model, X, labels, sample_weight=weights))
    frame = pd.DataFrame(X, columns=["a"]).assign(number=y)
    features = vardi.debias(frame, {"all": 1, "high": "number > 1.3"}, source=source)
    both = LogisticRegression().fit(frame, labels)
    scorer = debiased_scorer("roc_auc", fit=features)
    expected = get_scorer("roc_auc")(both, frame, labels, sample_weight=weights)
    assert scorer(both, frame, labels) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(vardi.MismatchError, match="takes no sample_weight, so its rows cannot be weighted"):
        debiased_scorer(make_scorer(max_error), fit=fit)
    with pytest.raises(vardi.MismatchError, match="'roc_ac' is not a known loss. Did you mean 'roc_auc'"):
        debiased_scorer("roc_ac", fit=fit)


def test_several_scores_and_biases_that_are_bound_to_the_pool():
    X, y, source = curved_pool()
    fit = curved_fit()
    scoring = {name: debiased_scorer(name, fit=fit) for name in ("squared_error", "absolute_error")}
    search = GridSearchCV(Ridge(), GRID, scoring=scoring, refit="squared_error", cv=FOLDS)
    search.fit(X, y, sample_weight=np.asarray(fit.weights))
    assert search.cv_results_["mean_test_absolute_error"][0] < 0
    bound = vardi.debias(X, {"all": np.ones(500), "high": y > 1.3}, source=source)
    with pytest.raises(vardi.InvalidBiasError, match="tied to the rows of the pool") as caught:
        debiased_scorer("squared_error", fit=bound)(Ridge().fit(X, y), X, y)
    assert "route the weights" in caught.value.__notes__[0]
    matrix = vardi.debias_matrix(np.column_stack([np.ones(500), y > 1.3]) * 1.0, (source == "high").astype(int))
    scorer = debiased_scorer("squared_error", fit=matrix)
    with pytest.raises(vardi.MismatchError, match="has its biases only as a matrix"):
        scorer(Ridge().fit(X, y), X, y)
    assert scorer(Ridge().fit(X, y), X, y, sample_weight=np.asarray(fit.weights)) < 0


def test_a_scorer_is_cloned_and_pickled_with_its_fit():
    X, y, _ = curved_pool()
    scorer = debiased_scorer("absolute_error", fit=curved_fit())
    search = GridSearchCV(Ridge(), GRID, scoring=scorer)
    assert clone(search).scoring.fit is scorer.fit
    model = Ridge().fit(X, y)
    assert pickle.loads(pickle.dumps(scorer))(model, X, y) == scorer(model, X, y)
    assert repr(scorer) == "debiased_scorer('absolute_error', fit=DebiasedSample(500 rows of 2 samples))"


def test_predictions_that_vary_with_the_row_only():
    """A density scored by its log likelihood, over the population."""

    class Flat(BaseEstimator):
        def fit(self, X, y=None, sample_weight=None):
            return self

        def score_samples(self, X):
            return np.full(len(X), -2.0)

    X, y, source = curved_pool()
    rows = np.column_stack([X, y])
    assert debiased_risk(Flat(), rows, source=source, biases={"all": 1, "high": "x1 > 1.3"}).value == pytest.approx(2.0)


def test_a_classifier_without_probabilities():
    X, _, source = curved_pool()
    rng = np.random.default_rng(0)
    labels = rng.random(500) < expit(X[:, 0])
    options = {"source": source, "biases": {"all": 1, "high": 1}}
    assert 0 < debiased_risk(LinearSVC(), X, labels, **options).value < 0.5
    with pytest.raises(vardi.MismatchError, match="needs predict_proba, which LinearSVC does not have"):
        debiased_risk(LinearSVC(), X, labels, scoring="brier", **options)


@pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning")
def test_learners_by_heart_are_warned_of():
    """Each of two neighbours predicts the other, so their held-out losses are one number."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0.0, 1.0, 60), rng.normal(0.5, 1.0, 60)])
    y, source = np.sin(2 * x) + 0.5 * rng.normal(size=120), np.repeat(["a", "b"], 60)
    options = {"source": source, "biases": {"a": "1", "b": "exp(x0 / 2)"}}
    with pytest.warns(
        vardi.VardiWarning, match=r"DecisionTreeRegressor learns its rows by heart \(mean loss .* on them, 0.63 on held"
    ):
        debiased_risk(DecisionTreeRegressor(random_state=0), x[:, None], y, **options)
    debiased_risk(DecisionTreeRegressor(min_samples_leaf=10, random_state=0), x[:, None], y, **options)  # does not
