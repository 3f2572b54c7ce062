"""What users give beside their rows: series of another order, masks, texts, counts by name; and what they get back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression

import vardi

pytestmark = [
    pytest.mark.filterwarnings("ignore::vardi.WeakOverlapWarning"),
    pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning"),
]

RNG = np.random.default_rng(0)
PLAIN, SEEN = RNG.exponential(size=12) + 0.1, RNG.gamma(2.0, size=15) + 0.1
SAMPLES, BIASES = {"plain": PLAIN, "seen": SEEN}, {"plain": 1, "seen": "x"}
VALUES = np.concatenate([PLAIN, SEEN])
MASKED = np.ma.array(np.arange(1.0, 28.0), mask=np.arange(27) == 0)
SHUFFLED = (
    pd.DataFrame({"x": VALUES, "s": ["plain"] * 12 + ["seen"] * 15, "count": np.arange(27) % 3 + 1.0})
    .sample(frac=1, random_state=0)
    .reset_index(drop=True)
)
BY_GROUP = dict(list(SHUFFLED.groupby("s")))  # whose labels are 0 to 26, in another order
OTHER_ROWS = "index is not that of the rows"


@pytest.fixture
def fit():
    return vardi.debias(SAMPLES, BIASES)


# ---------------------------------------------------------------- series of another order


@pytest.mark.parametrize(
    "ask",
    [
        lambda: vardi.debias(BY_GROUP, BIASES, counts=SHUFFLED["count"]),
        lambda: vardi.debias(BY_GROUP, {"plain": 1, "seen": SHUFFLED["x"]}),
        lambda: vardi.debias(BY_GROUP, BIASES).expectation(SHUFFLED["x"]),
        lambda: vardi.debias(BY_GROUP, BIASES).expectations(SHUFFLED[["x"]]),
        lambda: vardi.debias(BY_GROUP, BIASES).cdf(SHUFFLED["x"]),
        lambda: vardi.debias(BY_GROUP, BIASES).bootstrap("mean", 5, seed=0, groups=SHUFFLED["x"]),
        lambda: vardi.debias(BY_GROUP, BIASES).check_biases({"x": SHUFFLED["x"]}),
        lambda: vardi.debias(SHUFFLED, BIASES, source="s").expectations(SHUFFLED[["x"]][::-1]),
        lambda: vardi.debias(BY_GROUP, BIASES, counts={k: v["count"][::-1] for k, v in BY_GROUP.items()}),
    ],
    ids=["counts", "a bias", "expectation", "expectations", "cdf", "groups", "check_biases", "one frame", "by name"],
)
def test_a_series_that_belongs_to_other_rows_is_refused(ask):
    with pytest.raises(vardi.MismatchError, match=OTHER_ROWS):
        ask()


def test_a_function_that_returns_other_rows_is_refused():
    rows = SHUFFLED.sample(frac=1, random_state=3)
    with pytest.raises(vardi.MismatchError, match=f"{OTHER_ROWS}.*Return them in the order of the rows, or an array"):
        vardi.debias(rows, {"plain": 1, "seen": lambda given: given.sort_index()["x"]}, source="s")


def test_a_new_series_has_the_order_of_the_rows():
    frames = {name: pd.DataFrame({"x": values}) for name, values in SAMPLES.items()}  # labels 0 to 11, and 0 to 14
    fit = vardi.debias(frames, BIASES)
    assert fit.expectation(pd.Series(VALUES)).value == fit.expectation("x").value
    named = {name: frame.set_axis([f"{name} {i}" for i in range(len(frame))]) for name, frame in frames.items()}
    assert vardi.debias(named, BIASES).expectation(pd.Series(VALUES)).value == fit.expectation("x").value
    by_function = vardi.debias(frames, {"plain": 1, "seen": lambda given: pd.Series(given["x"].to_numpy())})
    assert_array_equal(by_function.weights, fit.weights)


@pytest.mark.parametrize(
    "index",
    [
        pd.MultiIndex.from_arrays([np.arange(27) // 3, np.arange(27)]),
        pd.interval_range(0, 27),
        pd.period_range("2020-01", periods=27, freq="M"),
        pd.date_range("2020", periods=27),
    ],
    ids=["several levels", "intervals", "periods", "dates"],
)
def test_every_kind_of_index_is_compared(index):
    rows = pd.DataFrame({"x": VALUES}, index=index)
    fit = vardi.debias({"plain": rows[:12], "seen": rows[12:]}, BIASES)
    assert fit.expectation(rows["x"]).value == fit.expectation("x").value
    assert fit.expectation(pd.Series(VALUES)).value == fit.expectation("x").value
    with pytest.raises(vardi.MismatchError, match=OTHER_ROWS):
        fit.expectation(rows["x"][::-1])


# ---------------------------------------------------------------- masks, texts, complex numbers


@pytest.mark.parametrize(
    "ask",
    [
        lambda fit: vardi.debias(SAMPLES, BIASES, counts=MASKED),
        lambda fit: vardi.debias(SAMPLES, {"plain": 1, "seen": MASKED}),
        lambda fit: vardi.debias(SAMPLES, {"plain": 1, "seen": lambda rows: np.ma.masked_all(len(rows))}),
        lambda fit: vardi.debias(VALUES, BIASES, source=np.ma.array(["plain"] * 27)),
        lambda fit: vardi.debias_matrix(np.ma.ones((27, 2)), [0] * 12 + [1] * 15),
        lambda fit: vardi.debias_matrix(np.ones((27, 2)), np.ma.array([0] * 12 + [1] * 15)),
        lambda fit: vardi.debias_matrix(np.ones((27, 2)), [0] * 12 + [1] * 15).weigh(np.ma.ones((1, 2))),
        lambda fit: fit.expectation(MASKED),
        lambda fit: fit.expectations(MASKED[:, None]),
        lambda fit: fit.cdf(MASKED),
        lambda fit: fit.bootstrap("mean", 5, seed=0, groups=MASKED),
    ],
)
def test_a_mask_is_never_lost(fit, ask):
    with pytest.raises(
        vardi.VardiError, match="was given as a masked array, whose mask would be lost. Fill it, e.g. with"
    ):
        ask(fit)


@pytest.mark.parametrize(
    "values",
    [VALUES + 1j, VALUES.astype(str), np.full(27, np.datetime64("2020")), VALUES.astype(str).astype(object)],
    ids=["complex", "texts", "dates", "texts as objects"],
)
def test_only_numbers_are_numbers(fit, values):
    with pytest.raises(vardi.InvalidBiasError, match="The values of a bias must be numbers, but these are"):
        vardi.debias(SAMPLES, {"plain": 1, "seen": values})
    with pytest.raises(vardi.InvalidBiasError, match="which is not a numeric type"):
        vardi.debias(SAMPLES, {"plain": 1, "seen": lambda rows: values[: len(rows)]})
    with pytest.raises(vardi.MismatchError, match="only numbers have a mean"):
        fit.expectation(values)
    with pytest.raises(vardi.MismatchError, match="only numbers have a mean"):
        fit.expectations(values[:, None])
    by_matrix = vardi.debias_matrix(np.ones((27, 2)), [0] * 12 + [1] * 15)
    with pytest.raises(vardi.InvalidBiasError, match="The new rows hold .*, but biases are numbers"):
        by_matrix.weigh(np.column_stack([values, values]))


def test_rows_of_different_lengths(fit):
    ragged = [[1.0], [2.0, 3.0]]
    for ask in (fit.expectation, fit.expectations, fit.cdf):
        with pytest.raises(vardi.MismatchError, match="has rows of different lengths"):
            ask(ragged)


def test_a_list_mixes_columns_and_arrays(fit):
    both = fit.expectations([VALUES, "x"]).values
    assert both[0] == both[1]
    with pytest.raises(vardi.MismatchError, match=r"The values have shape \(27, 0\)"):
        fit.expectations(np.empty((27, 0)))


def test_rows_as_a_matrix_of_numpy():
    rows = {name: np.asmatrix(values).T for name, values in SAMPLES.items()}
    assert_array_equal(vardi.debias(rows, {"plain": 1, "seen": "x0"}).weights, vardi.debias(SAMPLES, BIASES).weights)


# ---------------------------------------------------------------- counts and labels


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            {"plain": np.ones(15), "seen": np.ones(12)},
            r"The counts of 'plain' have shape \(15,\), but the sample has 12",
        ),
        ({"plain": 2, "seen": 3}, r"The counts of 'plain' have shape \(\)"),
        (
            {"plain": np.ones(12), "seen": np.ones(15), "sean": [1]},
            "counts for 'sean', which is not a sample.*mean 'seen'",
        ),
        ({"plain": np.ones(12)}, "No counts for sample 'seen'. The counts are for 'plain'."),
    ],
)
def test_counts_by_name_fit_each_sample(counts, said):
    with pytest.raises(vardi.MismatchError, match=said):
        vardi.debias(SAMPLES, BIASES, counts=counts)


def test_counts_by_name_may_name_columns():
    by_column = vardi.debias(BY_GROUP, BIASES, counts={"plain": "count", "seen": "count"})
    assert_array_equal(by_column.weights, vardi.debias(BY_GROUP, BIASES, counts="count").weights)


@pytest.mark.parametrize("scale", [2, 37, 1e6, 1e100])
def test_only_ratios_of_counts_matter_to_weights(scale):
    rng = np.random.default_rng(0)
    samples = {name: rng.exponential(size=50) + 0.1 for name in "abcdef"}
    biases = {"a": 1, "b": "x", "c": "sqrt(x)", "d": "x**2", "e": "1+x", "f": "exp(-x)"}
    counts = rng.integers(1, 16, 300)
    whole = vardi.debias(samples, biases, counts=counts)
    part = vardi.debias(samples, biases, counts=counts * scale)
    assert_allclose(part.weights, whole.weights, rtol=1e-9)
    assert part.effective_rows() == pytest.approx(whole.effective_rows() * scale, rel=1e-9)


def test_counts_beyond_floating_point():
    with pytest.raises(vardi.InvalidCountsError, match=r"The counts add up to .*, whose square overflows float"):
        vardi.debias(SAMPLES, BIASES, counts=np.full(27, 1e200))


def test_labels_of_several_types_stay_apart():
    fit = vardi.debias(VALUES, {0: 1, "0": 1, "a": "x"}, source=[0] * 5 + ["0"] * 7 + ["a"] * 15)
    assert fit.sizes == {0: 5, "0": 7, "a": 15}
    with pytest.raises(vardi.MissingValuesError, match="No label in 'source' for 1 row"):
        vardi.debias(VALUES, {"a": 1, "nan": "x"}, source=["a"] * 26 + [np.nan])
    pairs = vardi.debias(VALUES, {(0, 1): 1, (0, 2): "x"}, source=[(0, 1)] * 12 + [(0, 2)] * 15)
    assert pairs.sizes == {(0, 1): 12, (0, 2): 15}


def test_numbers_label_the_places_of_a_list():
    by_place = vardi.debias(VALUES, [1, "x"], source=[0] * 12 + [1] * 15)
    assert_array_equal(by_place.weights, vardi.debias(SAMPLES, BIASES).weights)
    with pytest.raises(vardi.MismatchError, match="One is a number and the other a string: make them the same"):
        vardi.debias(VALUES, {"0": 1, "1": "x"}, source=[0] * 12 + [1] * 15)


def test_dates_as_labels():
    days = pd.to_datetime(["2020-01-01", "2021-01-01"])
    source = days.to_numpy().repeat([12, 15])
    fit = vardi.debias(VALUES, dict(zip(days, [1, "x"], strict=True)), source=source)
    assert_array_equal(fit.weights, vardi.debias(SAMPLES, BIASES).weights)


def test_the_name_of_two_columns_of_arrow():
    twice = pa.table([pa.array(PLAIN), pa.array(PLAIN)], names=["x", "x"])
    with pytest.raises(vardi.MismatchError, match="More than one column is named 'x'"):
        vardi.debias({"a": twice}, {"a": 1})


@pytest.mark.parametrize("n", [100, 10_001])
@pytest.mark.parametrize("make", [pa.table, pl.DataFrame, pd.DataFrame])
def test_whole_numbers_that_no_float_holds(make, n):
    nanoseconds = np.arange(n) + 1_700_000_000_000_000_001
    fit = vardi.debias({"a": make({"t": nanoseconds})}, {"a": "t / 1e18"})
    assert fit.expectation("t / 1e18").value == pytest.approx(1.7, rel=1e-12)


# ---------------------------------------------------------------- what is handed out


@pytest.mark.parametrize(
    "make",
    [
        lambda: vardi.debias(SAMPLES, BIASES, counts=np.arange(27) % 3 + 1),
        lambda: vardi.debias_matrix(np.column_stack([np.ones(27), VALUES]), [0] * 12 + [1] * 15),
    ],
    ids=["arrays", "a matrix"],
)
def test_weights_cannot_be_changed_by_accident(make):
    fit = make()
    for handed_out in (fit.weights, fit.probabilities):
        with pytest.raises(ValueError, match="read-only"):
            handed_out *= 2
    before = fit.omegas
    fit.log_omegas[fit.names[1]] = 100.0
    assert fit.omegas == before


def test_a_distribution_is_asked_at_numbers():
    lazy = {name: pl.LazyFrame({"x": values}) for name, values in SAMPLES.items()}
    for cdf in (vardi.debias(SAMPLES, BIASES).cdf("x"), vardi.debias(lazy, BIASES).cdf("x")):
        for t in (np.nan, None, "a", [], [1.0, np.nan]):
            with pytest.raises(vardi.MismatchError, match="F cannot be evaluated at .*. Give a number, or several."):
                cdf(t)
        assert cdf(np.inf).value == pytest.approx(1.0)


@pytest.mark.parametrize("lazy", [False, True], ids=["in memory", "lazy"])
def test_the_ends_of_a_distribution_are_not_known(lazy):
    x = np.random.default_rng(0).exponential(size=100)
    cdf = vardi.debias({"a": pl.LazyFrame({"x": x}) if lazy else x}, {"a": 1}).cdf("x")
    high, low = cdf.quantile(0.999), cdf.quantile(0.001)
    assert np.isnan([high.stderr, low.stderr]).all()
    assert high.interval[1] == np.inf
    assert high.interval[0] < high.value == x.max()
    assert low.interval == (-np.inf, low.interval[1])
    assert low.value == x.min() < low.interval[1]
    assert str(high) == f"{high.value:.4g} (95%: at least {high.interval[0]:.4g})"
    assert str(low) == f"{low.value:.4g} (95%: at most {low.interval[1]:.4g})"
    assert np.isfinite(cdf.quantile(0.5).stderr)


def test_draws_that_memory_cannot_hold(fit):
    with pytest.raises(vardi.TooLargeError, match="A draw of 1,000,000,000,000 rows"):
        fit.sample(10**12)
    with pytest.raises(vardi.MismatchError, match="True rows cannot be drawn"):
        fit.sample(True)


def test_no_jobs_are_refused(fit):
    with pytest.raises(vardi.MismatchError, match="jobs is 0"):
        fit.bootstrap("mean", 5, seed=0, jobs=0)


def test_learners_of_no_rows_and_of_numbered_samples():
    model = vardi.DebiasedEstimator(LinearRegression(), biases=[1, "x0"])
    with pytest.raises(vardi.EmptySampleError, match="The pool has no rows"):
        model.fit(VALUES[:0, None], VALUES[:0], source=[])
    model.fit(VALUES[:, None], VALUES, source=[0] * 12 + [1] * 15)
    by_hand = LinearRegression().fit(VALUES[:, None], VALUES, sample_weight=vardi.debias(SAMPLES, BIASES).weights)
    assert_array_equal(model.coef_, by_hand.coef_)


def test_one_row_has_no_spread():
    fit = vardi.debias({"a": np.array([5.0])}, {"a": 1})
    with pytest.warns(vardi.WeakOverlapWarning, match="it rests on too few rows \\(0.0 degrees"):
        mean = fit.expectation("x")
    assert str(mean) == "5 (no error can be given: it rests on too few rows)"
    many = vardi.debias({"a": np.array([5.0])}, {"a": 1}, counts=[12])  # rows that are equal
    assert many.expectation("x").stderr == 0.0
