"""DebiasedEstimator: the same as weights by hand, in every place where scikit-learn puts an estimator."""

from __future__ import annotations

import pickle
from inspect import signature

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier, is_clusterer, is_regressor
from sklearn.cluster import DBSCAN, KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KernelDensity, KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import vardi
from vardi.learn.estimator import DebiasedEstimator

BIASES = {"all": 1, "long": "length", "cheap": "price <= 12 and length > 0.2"}


def pool(seed=0, sizes=(60, 50, 40)):
    """Two features, a category, a price and whether it is high; biases read a feature, and the target."""
    rng = np.random.default_rng(seed)
    length = rng.gamma(2.0, 1.0, 4 * sum(sizes)) + 0.1
    frame = pd.DataFrame({
        "length": length,
        "width": rng.normal(length / 2, 1.0),
        "region": rng.choice(["N", "S", "W"], len(length)),
        "price": 10.0 + 2.0 * np.sin(length) + length + rng.standard_normal(len(length)),
    })  # fmt: skip
    chances = [np.ones(len(frame)), length, (frame["price"] <= 12) & (frame["length"] > 0.2)]
    taken = [
        rng.choice(len(frame), size=n, replace=False, p=chance / chance.sum())
        for n, chance in zip(sizes, chances, strict=True)
    ]
    rows = frame.iloc[np.concatenate(taken)].reset_index(drop=True)
    return rows, np.repeat(list(BIASES), sizes)


ROWS, SOURCE = pool()
X, Y = ROWS[["length", "width"]], ROWS["price"]
HIGH = (Y > 12).astype(int).rename("high")
WEIGHTS = np.asarray(vardi.debias(ROWS, BIASES, source=SOURCE).weights)
CLASS_BIASES = {"all": 1, "long": "length", "cheap": "high == 0"}
ROUTING = pytest.mark.parametrize("routing", [False, True], ids=["routing off", "routing on"])
NEW_SETTINGS = (
    {"use_legacy_attributes": False, "l1_ratios": (0.0,)}  # a newer scikit-learn warns without
    if "use_legacy_attributes" in signature(LogisticRegressionCV).parameters
    else {}
)


def debiased(estimator, **options):
    return DebiasedEstimator(estimator, **{"biases": BIASES, **options})


def high_source():
    """Return labels of which the third is for rows without a high price only, as CLASS_BIASES has it."""
    return np.where((SOURCE == "cheap") & (HIGH == 1), "all", SOURCE)


# the same as by hand


@pytest.mark.parametrize(
    "model",
    [
        Ridge(alpha=3.0),
        SVR(),
        RandomForestRegressor(n_estimators=10, random_state=3),
        HistGradientBoostingRegressor(max_iter=10),
        KMeans(n_clusters=3, n_init=3, random_state=0),
        KernelDensity(),
        StandardScaler(),
        RidgeCV(),
        AdaBoostRegressor(n_estimators=5, random_state=0),
        TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp),
        VotingRegressor([("a", Ridge()), ("b", SVR())]),
        StackingRegressor([("a", Ridge()), ("b", SVR())], cv=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_fit_equals_weights_by_hand(model):
    by_hand = clone(model).fit(X, Y, sample_weight=WEIGHTS)
    fitted = debiased(model).fit(X, Y, source=SOURCE)
    assert_allclose(fitted.fit_.weigh(ROWS), WEIGHTS, rtol=1e-12)
    for method in ("predict", "transform", "score_samples"):
        assert hasattr(fitted, method) == hasattr(by_hand, method)
        if hasattr(by_hand, method):
            assert_allclose(getattr(fitted, method)(X), getattr(by_hand, method)(X), rtol=1e-10, atol=1e-10)
    assert not hasattr(model, "n_features_in_")  # the inner estimator was cloned


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        RandomForestClassifier(n_estimators=10, random_state=3),
        HistGradientBoostingClassifier(max_iter=10),
        SVC(),
        LogisticRegressionCV(cv=3, scoring="neg_log_loss", **NEW_SETTINGS),
    ],
    ids=lambda model: type(model).__name__,
)
def test_classifier_equals_weights_by_hand(model):
    source = high_source()
    weights = vardi.debias(X.assign(high=HIGH), CLASS_BIASES, source=source).weights
    by_hand = clone(model).fit(X, HIGH, sample_weight=weights)
    fitted = DebiasedEstimator(model, biases=CLASS_BIASES).fit(X, HIGH, source=source)
    for method in ("predict", "predict_proba", "decision_function"):
        assert hasattr(fitted, method) == hasattr(by_hand, method)
        if hasattr(by_hand, method):
            assert_allclose(getattr(fitted, method)(X), getattr(by_hand, method)(X), rtol=1e-10, atol=1e-10)
    assert fitted.score(X, HIGH) == by_hand.score(X, HIGH)
    assert fitted.score(X, HIGH, sample_weight=weights) == by_hand.score(X, HIGH, sample_weight=weights)
    assert fitted.classes_.tolist() == [0, 1]


@ROUTING
def test_pipeline_inside_gets_weights_in_every_step(routing):
    pipeline = make_pipeline(StandardScaler(), Ridge(alpha=3.0))
    by_hand = clone(pipeline).fit(X, Y, standardscaler__sample_weight=WEIGHTS, ridge__sample_weight=WEIGHTS)
    with sklearn.config_context(enable_metadata_routing=routing):
        fitted = debiased(pipeline).fit(X, Y, source=SOURCE)
    assert_allclose(fitted.predict(X), by_hand.predict(X), rtol=1e-10)
    assert_allclose(fitted.estimator_[0].mean_, np.average(X, axis=0, weights=WEIGHTS), rtol=1e-10)


@ROUTING
def test_weights_reach_through_column_transformers_unions_and_nested_pipelines(routing):
    columns = ColumnTransformer([
        ("numbers", Pipeline([("range", MinMaxScaler()), ("scale", StandardScaler())]), ["length", "width"]),
        ("regions", OneHotEncoder(), ["region"]),
    ])  # fmt: skip
    both = FeatureUnion([("columns", columns)])
    model = debiased(Pipeline([("features", both), ("model", Ridge())]))
    with sklearn.config_context(enable_metadata_routing=routing):
        fitted = model.fit(ROWS.drop(columns="price"), Y, source=SOURCE).estimator_
    transformed = fitted["features"].transform(ROWS)
    assert_allclose(np.average(transformed[:, :2], axis=0, weights=WEIGHTS), 0.0, atol=1e-12)
    by_hand = Ridge().fit(transformed, Y, sample_weight=WEIGHTS)
    assert_allclose(fitted["model"].coef_, by_hand.coef_, rtol=1e-10)


@ROUTING
def test_search_inside_and_wrapped_pipelines(routing):
    pipeline = make_pipeline(StandardScaler(), Ridge())
    models = [
        GridSearchCV(pipeline, {"ridge__alpha": [2.0]}),
        TransformedTargetRegressor(pipeline, transformer=MinMaxScaler()),
        VotingRegressor([("one", pipeline)]),
    ]
    keys = {"standardscaler__sample_weight": WEIGHTS, "ridge__sample_weight": WEIGHTS}
    for model in models:
        with sklearn.config_context(enable_metadata_routing=routing):
            fitted = debiased(model).fit(X, Y, source=SOURCE)
        by_hand = clone(pipeline).set_params(ridge__alpha=2.0 if isinstance(model, GridSearchCV) else 1.0)
        scale = MinMaxScaler().fit(Y.to_frame()) if isinstance(model, TransformedTargetRegressor) else None
        target = Y if scale is None else scale.transform(Y.to_frame()).ravel()
        predicted = by_hand.fit(X, target, **keys).predict(X)
        if scale is not None:
            predicted = scale.inverse_transform(predicted[:, None]).ravel()
        assert_allclose(fitted.predict(X), predicted, rtol=1e-10)


@ROUTING
def test_weights_reach_what_hands_them_on_with_routing_only(routing):
    source = high_source()
    biases = CLASS_BIASES
    with sklearn.config_context(enable_metadata_routing=routing):
        fitted = DebiasedEstimator(OneVsRestClassifier(LogisticRegression()), biases=biases).fit(X, HIGH, source=source)
    weights = vardi.debias(X.assign(high=HIGH), biases, source=source).weights
    by_hand = LogisticRegression().fit(X, HIGH, sample_weight=weights)
    assert_allclose(fitted.predict_proba(X), by_hand.predict_proba(X), rtol=1e-10)


# what biases read


@pytest.mark.parametrize("library", [np.asarray, pl.from_pandas, sparse.csr_array, pd.DataFrame, np.ndarray.tolist])
def test_biases_read_features_and_target_of_every_container(library):
    features = library(X.to_numpy()) if library in (sparse.csr_array, np.ndarray.tolist) else library(X)
    named = isinstance(features, pl.DataFrame | pd.DataFrame)
    biases = BIASES if named else {k: b if b == 1 else b.replace("length", "x0") for k, b in BIASES.items()}
    model = DebiasedEstimator(Ridge(solver="lsqr", tol=1e-14), biases=biases, target="price")
    model.fit(features, Y.to_numpy(), source=list(SOURCE))
    rows = ROWS if named else ROWS.rename(columns={"length": "x0", "width": "x1"})
    assert_allclose(model.fit_.weigh(rows), WEIGHTS, rtol=1e-10)


def test_series_name_or_y_names_the_target():
    assert_allclose(debiased(Ridge()).fit(X, Y, source=SOURCE).fit_.weigh(ROWS), WEIGHTS)
    renamed = {**BIASES, "cheap": "y <= 12 and length > 0.2"}
    model = DebiasedEstimator(Ridge(), biases=renamed).fit(X, Y.to_numpy(), source=SOURCE)
    assert_allclose(model.fit_.weigh(ROWS.rename(columns={"price": "y"})), WEIGHTS)


def test_one_sample_needs_no_labels():
    unbiased = DebiasedEstimator(Ridge()).fit(X, Y)
    assert_allclose(unbiased.fit_.weigh(ROWS), 1.0, rtol=1e-14)
    assert_allclose(unbiased.predict(X), Ridge().fit(X, Y).predict(X), rtol=1e-12)
    one = DebiasedEstimator(Ridge(), biases={"long": "length"}).fit(X, Y)
    assert_allclose(one.fit_.weigh(ROWS), 1 / X["length"] / np.mean(1 / X["length"]))


@pytest.mark.filterwarnings("ignore::vardi.errors.WeakOverlapWarning")
def test_the_fit_is_kept_without_its_rows():
    fitted = debiased(Ridge()).fit(X, Y, source=SOURCE)
    fit = vardi.debias(ROWS, BIASES, source=SOURCE)
    expected = fit.normalisers()
    for name, found in fitted.fit_.normalisers().items():
        assert (found.value, found.stderr) == pytest.approx((expected[name].value, expected[name].stderr))
    assert fitted.verdict_.weakest_rows == fit.identify().weakest_rows
    assert not {"debiased_", "weights_"} & set(dir(fitted))


# in scikit-learn's places


@ROUTING
def test_grid_search_splits_source(routing):
    folds = KFold(3, shuffle=True, random_state=0)
    grid = {"estimator__alpha": [0.1, 10.0]}
    with sklearn.config_context(enable_metadata_routing=routing):
        model = debiased(Ridge())
        model = model.set_fit_request(source=True) if routing else model
        search = GridSearchCV(model, grid, cv=folds).fit(X, Y, source=SOURCE)
    expected = []
    for alpha in (0.1, 10.0):
        scores = []
        for train, test in folds.split(X):
            weights = vardi.debias(ROWS.iloc[train], BIASES, source=SOURCE[train]).weights
            inner = Ridge(alpha=alpha).fit(X.iloc[train], Y.iloc[train], sample_weight=weights)
            scores.append(inner.score(X.iloc[test], Y.iloc[test]))
        expected.append(np.mean(scores))
    assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-10)
    assert_allclose(search.best_estimator_.fit_.weigh(ROWS), WEIGHTS, rtol=1e-12)


@ROUTING
def test_cross_validate_with_source(routing):
    with sklearn.config_context(enable_metadata_routing=routing):
        model = debiased(make_pipeline(StandardScaler(), Ridge()))
        model = model.set_fit_request(source=True) if routing else model
        folds = KFold(3, shuffle=True, random_state=0)
        results = cross_validate(model, X, Y, cv=folds, params={"source": SOURCE}, return_estimator=True)
    for (train, _), fitted in zip(folds.split(X), results["estimator"], strict=True):
        assert_allclose(
            fitted.fit_.weigh(ROWS.iloc[train]),
            vardi.debias(ROWS.iloc[train], BIASES, source=SOURCE[train]).weights,
            rtol=1e-10,
        )


def test_weighted_scorer_beside_source_with_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(mean_squared_error).set_score_request(sample_weight=True)
        model = debiased(Ridge()).set_fit_request(source=True)
        folds = KFold(3, shuffle=True, random_state=0)
        params = {"source": SOURCE, "sample_weight": WEIGHTS}
        scores = cross_validate(model, X, Y, cv=folds, params=params, scoring=scorer)["test_score"]
    train, test = next(folds.split(X))
    weights = vardi.debias(ROWS.iloc[train], BIASES, source=SOURCE[train]).weights
    inner = Ridge().fit(X.iloc[train], Y.iloc[train], sample_weight=weights)
    expected = mean_squared_error(Y.iloc[test], inner.predict(X.iloc[test]), sample_weight=WEIGHTS[test])
    assert scores[0] == pytest.approx(expected, rel=1e-10)


def test_score_weights_under_another_name_with_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        model = debiased(Ridge().set_score_request(sample_weight="importance"))
        fitted = model.fit(X, Y, source=SOURCE)
        expected = Ridge().fit(X, Y, sample_weight=WEIGHTS).score(X, Y, sample_weight=WEIGHTS)
        assert fitted.score(X, Y, importance=WEIGHTS) == pytest.approx(expected)
        assert fitted.score(X, Y, sample_weight=WEIGHTS) == pytest.approx(expected)


def test_estimator_that_does_not_route_in_a_search():
    with sklearn.config_context(enable_metadata_routing=True):
        model = debiased(AdaBoostRegressor(n_estimators=2, random_state=0)).set_fit_request(source=True)
        results = cross_validate(model, X, Y, params={"source": SOURCE}, cv=2)
    assert len(results["test_score"]) == 2


@ROUTING
def test_inside_a_pipeline(routing):
    scaled = {k: b if b == 1 else b.replace("length", "x0") for k, b in BIASES.items()}
    with sklearn.config_context(enable_metadata_routing=routing):
        last = DebiasedEstimator(Ridge(), biases=scaled)
        first = DebiasedEstimator(StandardScaler(), biases=BIASES)
        if routing:
            last.set_fit_request(source=True)
            first.set_fit_request(source=True)
        keys = {"source": SOURCE} if routing else {"model__source": SOURCE}
        model = Pipeline([("none", "passthrough"), ("array", ToArray()), ("model", last)]).fit(X, Y, **keys)
        keys = {"source": SOURCE} if routing else {"scale__source": SOURCE}
        scaler = Pipeline([("scale", first), ("model", LinearRegression())]).fit(X, Y, **keys)
    arrays = ROWS.rename(columns={"length": "x0", "width": "x1"})
    assert_allclose(model["model"].fit_.weigh(arrays), WEIGHTS, rtol=1e-10)
    assert_allclose(scaler["scale"].mean_, np.average(X, axis=0, weights=WEIGHTS), rtol=1e-10)
    assert_allclose(scaler.predict(X), LinearRegression().fit(X, Y).predict(X), rtol=1e-8)


class ToArray(BaseEstimator):
    """A step whose output has no column names."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X)

    def __sklearn_is_fitted__(self):
        return True


def test_set_output():
    scaler = debiased(StandardScaler()).set_output(transform="pandas")
    frame = scaler.fit_transform(X, Y, SOURCE)
    assert list(frame.columns) == ["length", "width"] == scaler.get_feature_names_out().tolist()
    assert isinstance(clone(scaler).fit(X, Y, SOURCE).transform(X), pd.DataFrame)
    assert isinstance(scaler.set_output(transform="polars").transform(X), pl.DataFrame)
    assert_allclose(scaler.set_output(transform="default").inverse_transform(np.asarray(frame)), X)
    assert not hasattr(debiased(Ridge()), "set_output")


def test_clone_and_pickle():
    model = debiased(RandomForestRegressor(n_estimators=3, random_state=0), target="price")
    assert clone(model).get_params()["biases"] == BIASES
    fitted = pickle.loads(pickle.dumps(model.fit(X, Y, source=SOURCE)))
    assert_allclose(fitted.predict(X), model.predict(X))
    assert_allclose(fitted.fit_.weigh(ROWS), WEIGHTS)
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)


def test_feature_names():
    fitted = debiased(Ridge()).fit(X, Y, source=SOURCE)
    assert fitted.feature_names_in_.tolist() == ["length", "width"]
    assert fitted.n_features_in_ == 2
    assert not hasattr(debiased(Ridge()), "n_features_in_")
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(X.rename(columns={"width": "height"}))


def test_tags_follow_the_inner_estimator():
    assert is_classifier(debiased(LogisticRegression()))
    assert is_regressor(debiased(make_pipeline(StandardScaler(), Ridge())))
    assert is_clusterer(debiased(KMeans()))
    assert get_tags(debiased(HistGradientBoostingRegressor())).input_tags.allow_nan
    assert not get_tags(debiased(KMeans())).target_tags.required


def test_methods_are_those_of_the_inner_estimator():
    model = debiased(Ridge())
    for absent in ("predict_proba", "transform", "fit_transform", "fit_predict", "partial_fit", "score_samples"):
        assert not hasattr(model, absent)
        assert not hasattr(model.fit(X, Y, source=SOURCE), absent)
    assert model.coef_.shape == (2,)
    assert not hasattr(clone(model), "coef_")
    assert not hasattr(debiased(SVC()), "predict_proba")
    assert hasattr(debiased(SVC()), "decision_function")
    forest = debiased(AdaBoostRegressor(n_estimators=3)).fit(X, Y, source=SOURCE)
    assert len(list(forest.staged_predict(X))) == len(forest.estimators_)


def test_fit_predict():
    kmeans = debiased(KMeans(3, n_init=2, random_state=0))
    labels = kmeans.fit_predict(X, Y, SOURCE)
    assert (labels == KMeans(3, n_init=2, random_state=0).fit_predict(X, sample_weight=WEIGHTS)).all()
    assert (debiased(DBSCAN()).fit_predict(X, Y, SOURCE) == DBSCAN().fit_predict(X, sample_weight=WEIGHTS)).all()
    assert len(kmeans.set_params(resample=True).fit_predict(X, Y, SOURCE)) == len(X)


def test_html_and_text():
    model = debiased(make_pipeline(StandardScaler(), Ridge(alpha=7.0)))
    html = model._repr_html_()
    assert all(word in html for word in ("DebiasedEstimator", "StandardScaler", "Ridge"))
    assert "Ridge(alpha=7.0)" in repr(model)
    assert "DebiasedEstimator" in model.fit(X, Y, source=SOURCE)._repr_html_()


def test_further_fit_parameters_reach_the_inner_estimator():
    class Noting(Ridge):
        def fit(self, X, y, sample_weight=None, note=None):
            self.note_ = note
            return super().fit(X, y, sample_weight=sample_weight)

    assert debiased(Noting()).fit(X, Y, source=SOURCE, note="seen").note_ == "seen"
    with sklearn.config_context(enable_metadata_routing=True):
        model = debiased(Noting().set_fit_request(note="remark"))
        assert model.fit(X, Y, source=SOURCE, remark="seen").note_ == "seen"
    model = debiased(Noting(), resample=True, random_state=0).fit(X, Y, source=SOURCE, note=np.arange(len(X)))
    assert_allclose(np.bincount(model.note_, minlength=len(X)), WEIGHTS, atol=1.0)


@parametrize_with_checks(
    [
        DebiasedEstimator(LogisticRegression()),
        DebiasedEstimator(Ridge()),
        DebiasedEstimator(KMeans(n_clusters=2, n_init=2, random_state=0)),
        DebiasedEstimator(StandardScaler()),
        DebiasedEstimator(make_pipeline(StandardScaler(), Ridge())),
        DebiasedEstimator(KNeighborsClassifier(), resample=True, random_state=0),
    ]
)
@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_check_estimator(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it, scikit-learn skips its checks of array libraries
    check(estimator)


# drawing instead of weighing


def test_resample_draws_rows_by_weight():
    model = debiased(KNeighborsRegressor(1), resample=True, random_state=0).fit(X, Y, source=SOURCE)
    assert_allclose(model.fit_.weigh(ROWS), WEIGHTS)
    assert model.estimator_.n_samples_fit_ == len(X)
    drawn = model.estimator_._fit_X[:, 0]
    times = np.array([(drawn == value).sum() for value in X["length"]])
    same = np.array([(X["length"] == value).sum() for value in X["length"]])
    assert (np.abs(times - WEIGHTS * same) < same + 1e-9).all()  # each row comes floor or ceil of its weight times
    again = debiased(KNeighborsRegressor(1), resample=True, random_state=0).fit(X, Y, source=SOURCE)
    assert_allclose(again.predict(X), model.predict(X))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, np.asarray, sparse.coo_array])
def test_resample_of_an_unbiased_sample_is_the_sample(library):
    model = DebiasedEstimator(KNeighborsRegressor(), resample=True).fit(library(X), Y)
    assert_allclose(model.predict(library(X)), KNeighborsRegressor().fit(library(X), Y).predict(library(X)))


# errors


def raises(error, text, *args, **options):
    with pytest.raises(error, match=text) as caught:
        debiased(Ridge(), **options).fit(*args)
    return caught.value


def test_wrong_length_of_source():
    raises(vardi.MismatchError, r"source has shape \(149,\), but the pool has 150 rows", X, Y, SOURCE[:-1])


def test_unknown_label():
    labels = np.where(SOURCE == "cheap", "cheep", SOURCE)
    raises(vardi.MismatchError, "Label 'cheep' of 'source' has no bias.*Did you mean 'cheap'", X, Y, labels)


def test_bias_that_reads_a_column_that_is_not_in_x():
    text = "reads 'length', which is neither a column of X .width. nor the name of y .price."
    raises(vardi.MismatchError, text, X[["width"]], Y, SOURCE)


def test_bias_that_reads_the_target_without_y():
    with pytest.raises(vardi.MismatchError, match="reads 'price'.*and y is None.*give y"):
        debiased(KMeans()).fit(X, None, SOURCE)


def test_no_source_for_several_samples():
    raises(vardi.MismatchError, "'all', 'long', 'cheap', but source=None does not say which sample", X, Y)


def test_source_without_biases():
    raises(vardi.MismatchError, "source names several samples, but there are no biases", X, Y, SOURCE, biases=None)


def test_source_named_as_a_column():
    raises(vardi.MismatchError, "source is the string 'region'.*leave that column out of X", ROWS, Y, "region")


@pytest.mark.parametrize("name", ["sample_weight", "ridge__sample_weight"])
def test_own_weights_are_refused(name):
    with pytest.raises(vardi.MismatchError, match=f"{name} was given to fit.*counts=counts"):
        debiased(make_pipeline(Ridge())).fit(X, Y, SOURCE, **{name: WEIGHTS})


def test_failed_fit_leaves_no_trace():
    model = debiased(Ridge())
    with pytest.raises(vardi.MismatchError):
        model.fit(X, Y, SOURCE[:-1])
    assert not [name for name in vars(model) if name.endswith("_")]
