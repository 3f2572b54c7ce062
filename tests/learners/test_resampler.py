"""DebiasedResampler: draws by weight in every form of rows, and what bad input gets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import vardi
from vardi.learn.resampler import DebiasedResampler, draw

SIZES = {"agency": 60, "national": 40}
BIASES = {"agency": "price <= 22", "national": 1}


def pool(seed=0):
    """Houses: an agency sells cheap ones only; the rows of both samples, and the label of each."""
    rng = np.random.default_rng(seed)
    rooms = rng.normal(6.0, 1.0, 4000)
    price = 4 * rooms - 2 + rng.normal(0, 3, 4000)
    cheap = np.flatnonzero(price[:2000] <= 22)[: SIZES["agency"]]
    rows = np.concatenate([cheap, 2000 + np.arange(SIZES["national"])])
    X = np.column_stack([rooms, np.arange(4000)])[rows]  # the second column tells the rows apart
    return X, price[rows], np.repeat(list(SIZES), list(SIZES.values()))


@pytest.fixture(scope="module")
def fit():
    X, y, source = pool()
    frame = pd.DataFrame(X, columns=["rooms", "row"]).assign(price=y)
    return vardi.debias(frame, BIASES, source=source)


# ---------------------------------------------------------------- draws


probabilities = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40).filter(lambda p: sum(p) > 1e-3)


@given(probabilities, st.integers(1, 200), st.integers(0, 10**6))
def test_systematic_counts_are_within_one_of_their_expectation(weights, size, seed):
    p = np.array(weights) / np.sum(weights)
    drawn = draw(p, size, np.random.default_rng(seed), method="systematic")
    counts = np.bincount(drawn, minlength=len(p))
    assert counts.sum() == size
    assert (counts >= np.floor(size * p - 1e-9)).all()
    assert (counts <= np.ceil(size * p + 1e-9)).all()
    assert (np.diff(drawn) >= 0).all()


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("method", ["multinomial", "systematic"])
def test_draws_are_unbiased(method, replace):
    """Mean counts over 4,000 draws lie within five of their standard errors of size times probability."""
    p = np.array([0.05, 0.3, 0.15, 0.2, 0.02, 0.28])
    rng, repeats, size = np.random.default_rng(0), 4000, 3
    counts = np.array([
        np.bincount(draw(p, size, rng, replace=replace, method=method), minlength=6) for _ in range(repeats)
    ])  # fmt: skip
    off = counts.mean(axis=0) - size * p
    assert (np.abs(off) <= 5 * counts.std(axis=0) / repeats**0.5).all()
    variance = counts.var(axis=0)
    if replace and method == "multinomial":
        np.testing.assert_allclose(variance, size * p * (1 - p), rtol=0.15)
    else:  # one more or one less, nothing else
        part = size * p % 1
        np.testing.assert_allclose(variance, part * (1 - part), rtol=0.15)
    assert replace or counts.max() == 1


def test_without_replacement_all_rows_of_equal_weight_can_be_drawn():
    for method in ("multinomial", "systematic"):
        drawn = draw(np.full(1000, 1e-3), None, np.random.default_rng(0), replace=False, method=method)
        assert sorted(drawn) == list(range(1000))
        assert (method == "multinomial") != (list(drawn) == sorted(drawn))


def test_a_row_without_probability_is_never_drawn():
    p = np.array([0.0, 0.5, 0.0, 0.5, 0.0])
    for seed in range(50):
        for method in ("multinomial", "systematic"):
            assert set(draw(p, 7, np.random.default_rng(seed), method=method)) <= {1, 3}


def test_more_rows_than_fit_without_replacement_are_refused():
    with pytest.raises(vardi.MismatchError, match=r"3 rows cannot be drawn .* at most 2 rows, or with"):
        draw(np.array([0.5, 0.3, 0.2]), 3, np.random.default_rng(0), replace=False)


# ---------------------------------------------------------------- the resampler


@pytest.mark.parametrize(
    ("size", "rows"), [(None, 100), (17, 17), (np.int64(17), 17), (0.5, 50), (2.0, 200), (1, 1), (1.0, 100)]
)
def test_size_is_rows_or_a_share(size, rows):
    X, y, source = pool()
    X_drawn, y_drawn = DebiasedResampler(biases=BIASES, target="price", size=size).fit_resample(X, y, source=source)
    assert len(X_drawn) == len(y_drawn) == rows


def test_without_replacement_the_largest_draw_is_the_default(fit):
    X, y, source = pool()
    resampler = DebiasedResampler(biases=BIASES, target="price", replace=False, random_state=0)
    resampler.fit_resample(X, y, source=source)
    assert len(resampler.sample_indices_) == int(1 / fit.probabilities.max())
    assert len(np.unique(resampler.sample_indices_)) == len(resampler.sample_indices_)


MANY = 1_000_000
ROUNDED = 1.01 * len(pool()[0]) / MANY  # a systematic draw has each row as often as its weight says, up to one


def drawn_weights(biases, X, y, source, **options):
    """Return how often each row is drawn, for one on average."""
    resampler = DebiasedResampler(biases=biases, method="systematic", size=MANY, random_state=0, **options)
    resampler.fit_resample(X, y, source)
    return np.bincount(resampler.sample_indices_) * (len(source) / MANY)


def test_weights_are_those_of_debias(fit):
    X, y, source = pool()
    resampler = DebiasedResampler(biases=BIASES, target="price").fit(X, y, source=source)
    assert resampler.n_features_in_ == 2
    assert not {"debiased_", "weights_"} & set(vars(resampler))
    np.testing.assert_allclose(drawn_weights(BIASES, X, y, source, target="price"), fit.weights, atol=ROUNDED)


def test_the_draw_speaks_for_the_population(fit):
    X, y, source = pool()
    resampler = DebiasedResampler(biases=BIASES, target="price", size=100_000, random_state=0)
    _, drawn = resampler.fit_resample(X, y, source=source)
    debiased = fit.expectation("price").value
    assert abs(drawn.mean() - debiased) < 5 * drawn.std() / 100_000**0.5
    assert abs(y.mean() - debiased) > 1.0


FORMS = {
    "numpy": (lambda X: X, lambda y: y),
    "list": (lambda X: X.tolist(), lambda y: y.tolist()),
    "csr": (sparse.csr_array, lambda y: y),
    "csc": (sparse.csc_matrix, lambda y: y),
    "coo": (sparse.coo_array, lambda y: y),
    "pandas": (
        lambda X: pd.DataFrame(X, columns=["x0", "x1"], index=np.arange(len(X))[::-1] + 7),
        lambda y: pd.Series(y, name="price", index=np.arange(len(y))[::-1] + 7),
    ),
    "polars": (lambda X: pl.DataFrame(X, schema=["x0", "x1"]), lambda y: pl.Series("price", y)),
    "pyarrow": (lambda X: pa.table({"x0": X[:, 0], "x1": X[:, 1]}), lambda y: pa.chunked_array([y])),
}


def dense(rows):
    if isinstance(rows, pa.Table):
        return rows.to_pandas().to_numpy()
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


@pytest.mark.parametrize("form", FORMS)
def test_rows_come_back_in_the_form_they_were_given(form, fit):
    X, y, source = pool()
    as_X, as_y = FORMS[form]
    given_X, given_y = as_X(X), as_y(y)
    target = None if form in ("pandas", "polars") else "price"
    resampler = DebiasedResampler(biases=BIASES, target=target, random_state=3)
    X_drawn, y_drawn = resampler.fit_resample(given_X, given_y, source=source)
    chosen = resampler.sample_indices_
    np.testing.assert_array_equal(dense(X_drawn), X[chosen])
    np.testing.assert_array_equal(np.asarray(y_drawn), y[chosen])
    if form != "list":
        assert type(X_drawn) is type(given_X)
        assert type(y_drawn) is type(given_y)
    if form == "pandas":
        assert list(X_drawn.index) == list(given_X.index[chosen]) == list(y_drawn.index)
        assert y_drawn.name == "price"
        assert list(resampler.feature_names_in_) == ["x0", "x1"]


def test_labels_as_target_of_every_library():
    """Classes in text, read by a bias: case-control sampling."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 2)), np.array(["ill"] * 40 + ["well"] * 40)
    source = np.array(["cases"] * 20 + ["all"] * 60)
    biases = {"cases": vardi.isin("state", ["ill"]), "all": 1}
    weights = [
        drawn_weights(biases, as_X, as_y, source, target="state")
        for as_X, as_y in [
            (X, y),
            (X, y[:, None]),
            (sparse.csr_array(X), y),
            (pd.DataFrame(X, columns=["a", "b"]), pd.Series(y, dtype="category")),
            (pl.DataFrame(X, schema=["a", "b"]), pl.Series(y)),
            (pa.table({"a": X[:, 0], "b": X[:, 1]}), y),
            (pd.DataFrame(X), pd.DataFrame({"s": y})),
        ]
    ]
    for other in weights:
        np.testing.assert_allclose(other, weights[0])
    assert weights[0][0] < weights[0][-1]


def test_several_targets_have_their_own_names():
    X, y, source = pool()
    two = pd.DataFrame({"price": y, "tax": y / 10})
    by_name = drawn_weights(BIASES, pd.DataFrame(X), two, source)
    numbered = {"agency": "t0 <= 22", "national": 1}
    np.testing.assert_allclose(by_name, drawn_weights(numbered, X, two.to_numpy(), source, target="t"))


def test_a_function_reads_the_target_in_the_last_column():
    X, y, source = pool()
    biases = {"agency": lambda rows: rows[:, -1] <= 22, "national": 1}
    expected = drawn_weights(BIASES, X, y, source, target="price")
    np.testing.assert_allclose(drawn_weights(biases, X, y, source), expected)


def test_without_y_the_pair_has_none():
    X, y, source = pool()
    both = np.column_stack([X, y])
    resampler = DebiasedResampler(biases={"agency": "x2 <= 22", "national": 1}, random_state=0)
    X_drawn, nothing = resampler.fit_resample(both, source=source)
    assert nothing is None
    np.testing.assert_array_equal(X_drawn, both[resampler.sample_indices_])


def test_source_may_be_a_column():
    X, y, source = pool()
    frame = pd.DataFrame(X, columns=["rooms", "row"]).assign(sample=source)
    resampler = DebiasedResampler(biases=BIASES, target="price", random_state=0)
    drawn, _ = resampler.fit_resample(frame, y, source="sample")
    assert list(drawn["sample"]) == list(source[resampler.sample_indices_])


def test_one_sample_needs_no_labels():
    X, y, _ = pool()
    everyone = DebiasedResampler(method="systematic", random_state=0)
    everyone.fit_resample(X, y)
    assert (np.bincount(everyone.sample_indices_) == 1).all()
    only = DebiasedResampler(biases={"seen": "x0"}, method="systematic", size=MANY, random_state=0)
    only.fit_resample(X)
    seen = np.bincount(only.sample_indices_) * X[:, 0]
    np.testing.assert_allclose(seen, seen.mean(), atol=1.01 * X[:, 0].max())


def test_a_seed_gives_the_same_draw():
    X, y, source = pool()

    def drawn(state, method="multinomial"):
        resampler = DebiasedResampler(biases=BIASES, target="price", method=method, random_state=state)
        resampler.fit_resample(X, y, source=source)
        return resampler.sample_indices_.tolist()

    for method in ("multinomial", "systematic"):
        assert drawn(1, method) == drawn(1, method) == drawn(np.random.RandomState(1), method)
        assert drawn(np.random.default_rng(1), method) == drawn(np.random.default_rng(1), method)
        assert drawn(1, method) != drawn(2, method)


def test_parameters_are_kept_and_cloned():
    resampler = DebiasedResampler(biases=BIASES, size=0.5, replace=False, method="systematic", target="price")
    assert clone(resampler).get_params() == resampler.get_params()
    assert resampler.set_params(size=3).size == 3
    X, y, source = pool()
    fitted = resampler.fit(X, y, source)
    assert fitted is resampler
    assert not hasattr(clone(fitted), "n_features_in_")


# ---------------------------------------------------------------- what bad input gets


def refused(error, match, X=None, y=None, source=None, **parameters):
    X_there, y_there, labels = pool()
    resampler = DebiasedResampler(**{"biases": BIASES, "target": "price", **parameters})
    with pytest.raises(error, match=match) as caught:
        resampler.fit_resample(
            X_there if X is None else X, y_there if y is None else y, source=labels if source is None else source
        )
    return caught.value


def test_wrong_length_of_source():
    refused(vardi.MismatchError, r"source has shape \(99,\), but the pool has 100 rows", source=["agency"] * 99)


def test_unknown_label():
    labels = pool()[2].astype(object)
    labels[3] = "agncy"
    refused(vardi.MismatchError, r"Label 'agncy' .* has no bias.*Did you mean 'agency'", source=labels)


def test_missing_label():
    labels = pool()[2].astype(object)
    labels[3] = None
    refused(vardi.MissingValuesError, "No label in 'source' for 1 row", source=labels)


def test_column_that_x_lacks():
    biases = {"agency": "prise <= 22", "national": 1}
    refused(
        vardi.MismatchError,
        r"of 'agency' reads 'prise', which is neither a column of X \(x0, x1\) nor the name of y \(price\)\. "
        r"Did you mean 'price'\? .* target='prise'",
        biases=biases,
    )


def test_target_without_y():
    X, _, source = pool()
    with pytest.raises(vardi.MismatchError, match=r"reads 'price', .* y is None\..* if it is the target, give y"):
        DebiasedResampler(biases=BIASES, target="price").fit_resample(X, source=source)


def test_column_of_x_with_the_name_of_y():
    X = pd.DataFrame(pool()[0], columns=["rooms", "price"])
    refused(vardi.MismatchError, "'price', which is both a column of X and the name of y. Give y another name", X=X)
    X, y, source = X.assign(row=0), *pool()[1:]
    biases = {"agency": "rooms <= 6", "national": 1}  # no bias reads it, so nothing is ambiguous
    with pytest.raises(vardi.ImpossibleRowError):
        DebiasedResampler(biases=biases, target="price").fit(X, y, source)


def test_labels_without_biases_and_biases_without_labels():
    X, y, source = pool()
    with pytest.raises(vardi.MismatchError, match=r"source names several samples, but there are no biases"):
        DebiasedResampler().fit(X, y, source)
    with pytest.raises(vardi.MismatchError, match=r"biases for 'agency', 'national', but source=None"):
        DebiasedResampler(biases=BIASES, target="price").fit(X, y)


def test_lengths_and_order_of_y():
    refused(vardi.MismatchError, "y has 99 values, but X has 100 rows", y=np.zeros(99))
    X, y, source = pool()
    shuffled = pd.Series(y, index=np.arange(100)[::-1], name="price")
    with pytest.raises(vardi.MismatchError, match="y is a series whose index is not that of the rows"):
        DebiasedResampler(biases=BIASES).fit(pd.DataFrame(X), shuffled, source)


@pytest.mark.parametrize("size", [0, -1, True, 0.001, float("nan"), float("inf"), "all"])
def test_sizes_that_are_none(size):
    refused(vardi.MismatchError, r"which is not a number of rows to draw\. Give an integer", size=size)


def test_unknown_method():
    refused(vardi.MismatchError, "The method is 'stratified'. Give 'multinomial' or 'systematic'", method="stratified")
