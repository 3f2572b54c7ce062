"""A model that is deployed: small, without the rows it was fitted to, and safe to open."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vardi

N = 100_000
BIASES = {
    "text": {"plain": 1, "seen": "x0"},
    "parameters": {"plain": 1, "seen": vardi.power("x0")},
    "known": {"plain": 1, "seen": "x0"},
}


def model_of(name, n=N):
    """Return a fitted estimator and its rows."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.gamma(3.0, size=n // 2), rng.gamma(4.0, size=n - n // 2)])
    X, source = np.column_stack([x, rng.normal(size=n)]), np.repeat(["plain", "seen"], [n // 2, n - n // 2])
    known = {"x0": 3.0} if name == "known" else None
    model = vardi.DebiasedEstimator(
        make_pipeline(StandardScaler(), LinearRegression()), biases=BIASES[name], known=known
    )
    return model.fit(X, 2.0 * x + X[:, 1], source=source), X


@pytest.mark.parametrize("name", BIASES)
def test_a_model_of_many_rows_pickles_into_a_few_kilobytes(name):
    model, X = model_of(name)
    beside = len(pickle.dumps(model)) - len(pickle.dumps(model.estimator_))
    assert beside < 10_000
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict(X[:9]), model.predict(X[:9]), rtol=0)
    assert_allclose(again.fit_.weigh(X[:9]), model.fit_.weigh(X[:9]), rtol=1e-12)
    assert str(again.fit_) == str(model.fit_)
    assert str(again.verdict_) == str(model.verdict_)


def test_the_size_does_not_grow_with_the_rows():
    few, many = (len(pickle.dumps(model_of("text", n)[0])) for n in (1_000, 50_000))
    assert abs(many - few) < 100


@pytest.mark.parametrize("name", BIASES)
def test_skops_has_nothing_to_ask_but_of_vardi_itself(name):
    io = pytest.importorskip("skops.io", reason="The safe format needs skops: pip install 'vardi[test]'")
    model, X = model_of(name, 1_000)
    content = io.dumps(model)
    untrusted = io.get_untrusted_types(data=content)
    assert untrusted
    assert {one for one in untrusted if not one.startswith("vardi.")} <= {"scipy.sparse._csr.csr_array"}
    again = io.loads(content, trusted=untrusted)
    assert_allclose(again.predict(X[:9]), model.predict(X[:9]), rtol=0)
    assert_allclose(again.fit_.weigh(X[:9]), model.fit_.weigh(X[:9]), rtol=1e-12)
    assert io.get_untrusted_types(data=io.dumps(model.estimator_)) == []  # what is shipped needs no vardi
    assert io.get_untrusted_types(data=io.dumps(model.fit_)) == ["vardi._fit.weigher.Weigher"]


def test_a_model_of_truncated_rows_has_no_formula():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (400, 2))
    X = X[X[:, 0] > X[:, 1]]
    model = vardi.DebiasedEstimator(LinearRegression(), biases={"seen": vardi.window("x0", "x1", None)})
    model.fit(X, X[:, 0], source=np.repeat("seen", len(X)))
    assert model.fit_ is None
    assert pickle.loads(pickle.dumps(model)).verdict_.identified
