"""The guard against learners that see no weights, and the repetition test that tells who does."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import Lasso, LogisticRegression, MultiTaskLasso, PoissonRegressor, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KernelDensity, KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler
from sklearn.svm import SVR
from sklearn.utils.validation import has_fit_parameter

from vardi.errors import MismatchError, VardiError, VardiWarning, WeightBlindError, WeightBlindWarning
from vardi.learn.check_weights import WeightUse, check_weight_use, example_rows
from vardi.learn.estimator import DebiasedEstimator

X = np.random.default_rng(0).gamma(2.0, size=(60, 2))
Y = X.sum(axis=1)
HIGH = X.sum(axis=1) > np.median(Y)
BIASES = {"all": 1, "long": "x0"}
SOURCE = np.repeat(["all", "long"], 30)


def fit(estimator, y=Y, **options):
    return DebiasedEstimator(estimator, biases=BIASES, **options).fit(X, y, SOURCE)


# the guard


@pytest.mark.parametrize(
    "estimator",
    [
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
        make_pipeline(KNeighborsClassifier(), "passthrough"),
        GridSearchCV(KNeighborsClassifier(), {}),
    ],
    ids=["alone", "in a pipeline", "before a passthrough", "in a search"],
)
def test_learner_without_sample_weight_is_refused_with_the_way_out(estimator):
    text = "KNeighborsClassifier takes no sample_weight in fit.*resample=True.*DebiasedResampler"
    with pytest.raises(WeightBlindError, match=text) as caught:
        fit(estimator, HIGH)
    assert caught.value.estimator == "KNeighborsClassifier"
    assert isinstance(caught.value, VardiError)
    assert pickle.loads(pickle.dumps(caught.value)).estimator == "KNeighborsClassifier"
    assert fit(estimator.steps[0][1] if "passthrough" in str(estimator) else estimator, HIGH, resample=True)


@pytest.mark.parametrize("estimator", [PCA(), AgglomerativeClustering(), make_pipeline(StandardScaler(), PCA())])
def test_transformers_and_clusterers_without_sample_weight_are_refused(estimator):
    with pytest.raises(WeightBlindError, match="(PCA|AgglomerativeClustering) takes no sample_weight"):
        fit(estimator)


def test_one_blind_learner_among_several_is_refused():
    with pytest.raises(WeightBlindError, match="KNeighborsRegressor takes no sample_weight"):
        fit(VotingRegressor([("a", Ridge()), ("b", KNeighborsRegressor())]))


def test_blind_steps_are_named():
    with pytest.warns(WeightBlindWarning, match=r"biased pool: 'pca' \(PCA\), 'robustscaler' \(RobustScaler\)\. The"):
        fit(make_pipeline(PCA(), StandardScaler(), RobustScaler(), Ridge()))
    assert issubclass(WeightBlindWarning, VardiWarning)


def test_warning_points_to_the_caller():
    with pytest.warns(WeightBlindWarning) as caught:
        DebiasedEstimator(make_pipeline(PCA(), Ridge()), biases=BIASES).fit(X, Y, SOURCE)
    assert caught[0].filename == __file__


def test_steps_that_no_weight_would_change_are_silent():
    steps = [FunctionTransformer(np.log1p), MinMaxScaler(), "passthrough", StandardScaler(), Ridge()]
    fit(make_pipeline(*steps))  # a warning would be an error here
    fit(make_pipeline(OneHotEncoder(), Ridge()))
    with pytest.warns(WeightBlindWarning, match=r"'onehotencoder' \(OneHotEncoder\)"):
        fit(make_pipeline(OneHotEncoder(min_frequency=3), Ridge()))


def test_resample_needs_no_guard():
    model = fit(make_pipeline(PCA(), KNeighborsRegressor()), resample=True, random_state=0)
    assert model.predict(X).shape == (60,)


# the repetition test


class Deaf(RegressorMixin, BaseEstimator):
    """A mean that takes weights and does not look at them."""

    def fit(self, X, y, sample_weight=None):
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.mark.parametrize(
    "estimator",
    [
        Ridge(),
        Lasso(),
        LogisticRegression(),
        PoissonRegressor(),
        pytest.param(
            MultiTaskLasso(),
            marks=pytest.mark.skipif(
                not has_fit_parameter(MultiTaskLasso(), "sample_weight"), reason="this scikit-learn gives it no weights"
            ),
        ),
        MultinomialNB(),
        AdaBoostClassifier(n_estimators=3),
        IsotonicRegression(),
        KMeans(n_clusters=4),
        DBSCAN(),
        KernelDensity(),
        StandardScaler(),
        make_pipeline(StandardScaler(), Ridge()),
        ColumnTransformer([("scale", StandardScaler(), [0, 1])]),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_exact_use(estimator):
    use = check_weight_use(estimator)
    assert use.finding == "exact", use
    assert use
    assert use.difference <= 1e-6
    assert "uses weights exactly: a row of weight 2 is the row twice" in str(use)


@pytest.mark.parametrize(
    "estimator",
    [SVR(), RandomForestRegressor(n_estimators=10), HistGradientBoostingRegressor(max_iter=5)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_approximate_use(estimator):
    use = check_weight_use(estimator)
    assert use.finding == "approximate", use
    assert 1e-6 < use.difference < 1.5


def test_use_in_a_way_of_its_own():
    use = WeightUse("SGDClassifier", "approximate", 2.345)
    assert str(use) == "SGDClassifier uses weights in its own way (difference 2.3 of their effect)"
    assert check_weight_use(SGDClassifier()).finding == "approximate"


@pytest.mark.parametrize("estimator", [Deaf(), IsolationForest(n_estimators=5)])
def test_weights_that_are_ignored(estimator):
    use = check_weight_use(estimator)  # an isolation forest takes all of a few rows, whatever they weigh
    assert use.finding == "ignored"
    assert not use
    assert "ignores weights: it takes sample_weight, and the fit does not change" in str(use)


def test_no_sample_weight():
    use = check_weight_use(KNeighborsClassifier())
    assert use.finding == "absent"
    assert np.isnan(use.difference)
    assert str(use) == "KNeighborsClassifier takes no sample_weight"


def test_nothing_to_see_is_undecided():
    use = check_weight_use(DummyClassifier(strategy="constant", constant=1))
    assert use.finding == "undecided"
    assert "cannot show what weights do" in str(use)


def test_blind_steps_show_in_the_test():
    use = check_weight_use(make_pipeline(PCA(2), Ridge()))
    assert use.finding == "approximate"
    assert str(use).endswith("; learning without weights: 'pca' (PCA)")


def test_rows_of_the_user():
    frame = pd.DataFrame({"length": X[:, 0], "region": np.where(HIGH, "N", "S")})
    columns = ColumnTransformer([("scale", StandardScaler(), ["length"]), ("code", OneHotEncoder(), ["region"])])
    assert check_weight_use(make_pipeline(columns, Ridge()), frame, Y).finding == "exact"
    with pytest.raises(ValueError, match="could not convert string"):
        check_weight_use(Ridge(), frame, Y)


def test_the_estimator_is_left_as_it_is():
    model = RandomForestRegressor(n_estimators=3)
    check_weight_use(model)
    assert model.random_state is None
    assert not hasattr(model, "estimators_")


def test_a_learner_that_says_nothing_of_rows():
    class Mute(BaseEstimator):
        def fit(self, X, y=None, sample_weight=None):
            return self

    with pytest.raises(MismatchError, match="Mute neither predicts, scores, transforms nor labels rows"):
        check_weight_use(Mute())


def test_rows_by_tags():
    rows, counts = example_rows(PoissonRegressor())
    assert rows.shape == (60, 3)
    assert (counts > 0).all()
    assert np.unique(example_rows(LogisticRegression())[1]).tolist() == [0, 1, 2]
    assert (example_rows(MultinomialNB())[0] >= 0).all()
    assert example_rows(MultiTaskLasso())[1].shape == (60, 2)
    assert_allclose(example_rows(Ridge(), seed=1)[0], example_rows(Lasso(), seed=1)[0])
