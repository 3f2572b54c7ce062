"""known= as users write it: every form of keys and values, what bad ones get, and a basis of functions on rows."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import vardi
from vardi._inputs.known import Known, PoolTable, as_known, known_biases
from vardi._inputs.known_on_rows import out_of_reach, reduced, values_on
from vardi._inputs.lazy_pool import open_frames
from vardi._inputs.pool import as_pool

NAMES = ("panel", "national", 7)
ROWS = pd.DataFrame(
    {
        "age": [30, 41, 52, 63],
        "x": [1.0, 5.0, 7.0, 2.0],
        "region": list("NSNW"),
        "urban": [True, False, True, True],
        "house hold": [1, 2, 3, 4],
        "level": [0, 1, 1, 2],
    }
)


def table(rows: pd.DataFrame = ROWS) -> PoolTable:
    return PoolTable(as_pool({"panel": rows, "national": rows}, {"panel": 1, "national": 1}))


class NoTable:
    columns: tuple[str, ...] = ()

    def rows_by_value(self, column: str) -> dict[Any, int]:
        raise AssertionError(column)

    def kind(self, column: str) -> Any:
        raise AssertionError(column)


def read(known: Any, names: tuple[Any, ...] = NAMES, rows: Any = None) -> Known:
    return as_known(known, names, table() if rows is None else rows)


# ---------------------------------------------------------------- keys


def test_every_kind_of_key():
    known = read({"age": 41.2, "x > 4": 0.31, "panel": 0.4, vardi.isin("region", ["N"]): 0.2, "house hold": 2, 7: 3.0})
    assert known.labels == ("age", "x > 4", "panel", "region in ('N',)", "house hold", "7")
    assert known.functions == (
        vardi.where("age"),
        vardi.where("x > 4"),
        0,
        vardi.isin("region", ["N"]),
        vardi.where("`house hold`"),
        2,
    )
    assert known.values.tolist() == [41.2, 0.31, 0.4, 0.2, 2.0, 3.0]
    assert known.exact
    assert known.margins == ()
    assert known.states == (0, 2)
    assert len(known) == 6


def test_a_margin_is_a_function_for_each_value():
    known = read({"age": 41.2, "region": {"N": 0.2, "S": 0.3, "W": 0.5}, "urban": {True: 0.4, False: 0.6}})
    assert known.labels == ("age", "region = N", "region = S", "region = W", "urban = True", "urban = False")
    assert known.functions[1:4] == tuple(vardi.isin("region", [value]) for value in "NSW")
    assert known.margins == (("region", slice(1, 4)), ("urban", slice(4, 6)))
    assert [known.margin_of(j) for j in (0, 1, 5)] == [None, ("region", "N"), ("urban", False)]


def test_a_margin_may_be_a_series_and_is_rescaled_to_sum_to_one():
    whole = read({"region": {"N": 0.2, "S": 0.3, "W": 0.5}})
    series = read({"region": pd.Series({"N": 0.2, "S": 0.3, "W": 0.5})})
    assert (series.labels, series.values.tolist()) == (whole.labels, whole.values.tolist())
    thirds = read({"region": dict.fromkeys("NSW", 0.333333)})
    assert thirds.values == pytest.approx([1 / 3] * 3, rel=1e-15)
    with pytest.raises(vardi.InvalidKnownError, match="sum to 0.9999"):
        read({"region": {"N": 0.2, "S": 0.3, "W": 0.4999}})
    counted = read({"level": ROWS["level"].value_counts(normalize=True)})
    assert counted.margin_of(0) == ("level", 1)


def test_the_name_of_a_sample_comes_before_an_expression_and_never_before_a_column():
    assert read({"x > 4": 0.31}, ("x > 4",)).functions == (0,)
    assert read({"region": {"N": 0.2, "S": 0.3, "W": 0.5}}, ("region",)).margins == (("region", slice(0, 3)),)
    with pytest.raises(vardi.MismatchError) as caught:
        read({"age": 0.4}, ("age", "b"))
    assert "known has 'age', which is both a sample and a column of the samples" in str(caught.value)
    assert "Write `age` in backticks for the column" in str(caught.value)
    assert read({"`age`": 41}, ("age", "b")).functions == (vardi.where("age"),)


def test_a_column_that_only_one_sample_has_is_none():
    pool = as_pool({"a": ROWS, "b": ROWS.drop(columns="age")}, {"a": 1, "b": 1})
    with pytest.raises(vardi.MismatchError, match="'age': neither a sample nor a column of every sample"):
        as_known({"age": 41}, pool.names, PoolTable(pool))
    assert as_known({"age": 0.4}, ("age", "b"), PoolTable(pool)).functions == (0,)


def test_a_matrix_has_the_names_of_its_columns_only():
    assert as_known({"1": 0.5}, ("0", "1"), NoTable()).functions == (1,)
    for key in ("age", vardi.where("age > 4"), 3):
        with pytest.raises(vardi.MismatchError, match="neither a sample nor a column of omega") as caught:
            as_known({key: 0.5}, ("0", "1"), NoTable())
        assert "make the function a column of omega that no row was drawn from" in str(caught.value)
    with pytest.raises(
        vardi.MismatchError, match="which is not a column of every sample.* It is a sample, whose known"
    ):
        as_known({"1": {"a": 1.0}}, ("0", "1"), NoTable())


@pytest.mark.parametrize("engine", ["memory", "polars"])
def test_tables_agree(engine):
    samples = {"a": ROWS, "b": ROWS.assign(age=ROWS["age"].astype(float))}
    if engine == "memory":
        found: Any = PoolTable(as_pool(samples, {"a": 1, "b": 1}))
    else:
        lazy = {name: pl.from_pandas(rows).lazy() for name, rows in samples.items()}
        found = open_frames(lazy, {"a": 1, "b": 1}, source=None, counts=None)
    assert set(found.columns) == set(ROWS.columns)
    assert {column: found.kind(column) for column in found.columns} == {
        "age": "number",
        "x": "number",
        "region": "other",
        "urban": "condition",
        "house hold": "number",
        "level": "number",
    }
    assert dict(found.rows_by_value("region")) == {"N": 4, "S": 2, "W": 2}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None, False], "condition"),
        ([1, None, 2], "number"),
        (["a", None], "other"),
        (pd.array([1, None], dtype="Int64"), "number"),
        (pd.to_datetime(["2020-01-01"]), "other"),
        (pd.Categorical(["a", "b"]), "other"),
    ],
)
def test_kinds_of_columns_with_missing_values(values, kind):
    pool = as_pool({"a": pd.DataFrame({"z": values})}, {"a": 1})
    assert PoolTable(pool).kind("z") == kind


def test_what_known_values_read():
    known = {"panel": 0.4, "region": {"N": 1.0}, ("age", "x > 4"): None, vardi.where("urban"): 0.5, "house hold": 3}
    found = known_biases(known, ("panel",))
    assert {label: bias.columns for label, bias in found.items()} == {
        "region": ("region",),
        "age": ("age",),
        "x > 4": ("x",),
        "urban": ("urban",),
    }


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("given", "value", "stderr"),
    [
        (41, 41.0, 0.0),
        (np.float32(41.5), 41.5, 0.0),
        (Fraction(83, 2), 41.5, 0.0),
        ((41, 0.3), 41.0, 0.3),
        ([41, 0], 41.0, 0.0),
        (np.array([41.0, 0.3]), 41.0, 0.3),
        (vardi.Estimate(41.0, 0.3), 41.0, 0.3),
    ],
)
def test_every_kind_of_value(given, value, stderr):
    known = read({"age": given})
    assert (known.values.tolist(), known.stderr.tolist()) == ([value], pytest.approx([stderr], rel=1e-15))
    assert known.exact is (stderr == 0)


def test_errors_of_several_values_are_independent():
    known = read({"age": (41, 0.3), "x > 4": (0.3, 0.02), "panel": 0.4})
    assert known.covariance.tolist() == np.diag(np.square([0.3, 0.02, 0.0])).tolist()


@given(st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3), st.integers(10, 10_000))
def test_errors_of_a_margin_are_multinomial(sizes, m):
    p = np.array(sizes) / sum(sizes)
    errors = np.sqrt(p * (1 - p) / m)
    known = read({"region": dict(zip("NSW", zip(p, errors, strict=True), strict=True))})
    np.testing.assert_allclose(known.covariance, (np.diag(p) - np.outer(p, p)) / m, atol=1e-15 / m)


@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3), st.lists(st.floats(0.0, 0.2), min_size=3, max_size=3))
def test_the_sum_of_a_margin_has_no_error_whatever_the_errors(sizes, errors):
    if sum(sizes) < 0.1 or np.count_nonzero(errors) == 1:
        return
    p = np.array(sizes) / sum(sizes)
    known = read({"region": dict(zip("NSW", zip(p, errors, strict=True), strict=True))})
    np.testing.assert_allclose(known.covariance.sum(axis=0), 0.0, atol=1e-15)
    assert np.linalg.eigvalsh(known.covariance).min() >= -1e-15
    assert (known.stderr[np.array(errors) == 0] == 0).all()


def test_exact_values_of_a_margin_stay_exact_and_two_others_balance():
    known = read({"region": {"N": (0.2, 0.01), "S": (0.2, 0.01), "W": 0.6}})
    expected = np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]]) * 1e-4
    np.testing.assert_allclose(known.covariance, expected, atol=1e-18)
    with pytest.raises(vardi.InvalidKnownError, match="only 'N' has a standard error. The shares sum to 1") as caught:
        read({"region": {"N": (0.2, 0.01), "S": 0.2, "W": 0.6}})
    assert caught.value.labels == ("region = N",)


def test_estimates_bring_their_covariance():
    covariance = np.array([[0.09, 0.002], [0.002, 0.0004]])
    both = vardi.Estimates(np.array([41.0, 0.3]), covariance)
    known = read({("age", "x > 4"): both, "panel": (0.4, 0.1)})
    assert known.labels == ("age", "x > 4", "panel")
    np.testing.assert_allclose(known.covariance[:2, :2], covariance)
    assert (known.covariance[2] == [0, 0, pytest.approx(0.01)]).all()


def test_estimates_of_a_margin():
    p, m = np.array([0.2, 0.3, 0.5]), 400
    estimates = vardi.Estimates(p, (np.diag(p) - np.outer(p, p)) / m)
    known = read({"region": {("N", "S", "W"): estimates}})
    assert known.labels == ("region = N", "region = S", "region = W")
    assert known.margins == (("region", slice(0, 3)),)
    np.testing.assert_allclose(known.covariance, estimates.covariance, atol=1e-18)


def test_estimates_of_a_fit_are_known_of_another():
    survey = vardi.debias({"s": ROWS.sample(200, replace=True, random_state=1)}, {"s": 1})
    estimates = survey.expectations(["age", "x"])
    known = read({("age", "x"): estimates})
    np.testing.assert_allclose(known.covariance, estimates.covariance)
    single = read({"age": survey.expectation("age")})
    assert single.stderr == pytest.approx([survey.expectation("age").stderr])


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "given", ["0.3", True, None, math.nan, math.inf, (1, 2, 3), [], (0.3, "a"), Decimal("0.3"), 10**400, 1j, object()]
)
@pytest.mark.parametrize("key", ["panel", "age", "x > 4"])
def test_what_is_no_value(key, given):
    with pytest.raises(vardi.InvalidKnownError) as caught:
        read({key: given})
    assert str(caught.value).startswith(f"The known value of {key!r} is ")
    assert "Give a finite number, (value, standard error), or an Estimate" in str(caught.value)
    assert caught.value.labels == (key,)


@pytest.mark.parametrize("given", [(0.3, -0.1), [0.3, -1], (0.3, 1e200)])
def test_what_is_no_standard_error(given):
    with pytest.raises(vardi.InvalidKnownError, match="The standard error of 'x > 4' is .*a finite number, "):
        read({"x > 4": given})


def test_an_estimate_without_an_error():
    with pytest.raises(vardi.InvalidKnownError, match="estimate known for 'age' has no standard error: .* Give .value"):
        read({"age": vardi.Estimate(41.0, math.nan)})
    with pytest.raises(vardi.InvalidKnownError, match="estimate known for 'age', 'x' has no standard error"):
        read({("age", "x"): vardi.Estimates(np.zeros(2), np.full((2, 2), np.nan))})


@pytest.mark.parametrize(
    ("known", "label"), [({"x > 4": 31}, "x > 4"), ({"urban": 31}, "urban"), ({"region": {"N": 31}}, "region = N")]
)
def test_shares_in_per_cent(known, label):
    with pytest.raises(vardi.InvalidKnownError) as caught:
        read(known)
    assert str(caught.value) == (
        f"The share of {label!r} is 31, but a share lies between 0 and 1. Give it as a fraction of the population, "
        "0.31 for 31%."
    )
    assert caught.value.allowed == {label: (0.0, 1.0)}
    assert pickle.loads(pickle.dumps(caught.value)).allowed == caught.value.allowed


def test_ends_of_the_range_of_a_share_are_taken():
    assert read({"x > 4": 0, "urban": 1}).values.tolist() == [0.0, 1.0]
    with pytest.raises(vardi.InvalidKnownError, match="The share of 'x > 4' is -0.1"):
        read({"x > 4": -0.1})
    assert read({"x": -3.0}).values.tolist() == [-3.0]


def test_a_normaliser_is_not_negative_and_may_be_above_one():
    assert read({"panel": 41.0}).values.tolist() == [41.0]
    with pytest.raises(vardi.InvalidKnownError, match="The known value of 'panel' is -1. It is the mean of that"):
        read({"panel": -1})


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ([0.3], "known was given as list. Give a mapping"),
        (0.3, "known was given as float. Give a mapping"),
        ({}, "There are no known values. Give at least one, or leave known out."),
        ({"reigon == 'N'": 0.2}, "which reads 'reigon': neither a sample nor a column of every sample."),
        ({"panle": 0.4}, "Did you mean 'panel'?"),
        ({3: 0.2}, "known has '3', which is neither a sample nor a condition or an expression of columns."),
        ({"regions": {"N": 1.0}}, "known has shares by value for 'regions', which is not a column of every sample."),
        ({("age", "x"): vardi.Estimates(np.zeros(3), np.eye(3))}, "2 keys in a tuple, 'age', 'x', and 3 estimates"),
    ],
)
def test_what_does_not_match(known, said):
    with pytest.raises(vardi.MismatchError) as caught:
        read(known)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("known", "said", "labels"),
    [
        (
            {"region": 0.2},
            "a column that does not hold numbers, so it has no mean. Give the share of each",
            ("region",),
        ),
        ({vardi.logistic("x"): 0.2}, "which has parameters, but a known mean is that of a single", ("logistic(x)",)),
        (
            {"region": {"N": 0.2, "S": 0.8}},
            "2 rows of the pool have region == 'W', which has no share",
            ("region = W",),
        ),
        ({"level": {"0": 0.5, "1": 0.5}}, "One is a number and the other a string: make them the same", None),
        ({"region": {}}, "The shares of 'region' sum to 0, but every member", ("region",)),
        ({"region": pd.Series([0.5, 0.5], index=["N", "N"])}, "lists 'N' more than once", ("region = N",)),
        ({"age": vardi.Estimates(np.zeros(2), np.eye(2))}, "was given as 2 estimates. Use a tuple", ("age",)),
        ({("age", "x"): (1, 2)}, "known has a tuple of keys, 'age', 'x', with (1, 2)", ("age", "x")),
        ({"region": {("N", "S", "W"): 0.3}}, "known has a tuple of keys", ("region = N", "region = S", "region = W")),
    ],
)
def test_what_cannot_be_known(known, said, labels):
    with pytest.raises(vardi.InvalidKnownError) as caught:
        read(known)
    assert said in str(caught.value)
    if labels is not None:
        assert caught.value.labels == labels


def test_a_margin_of_a_column_with_missing_values():
    rows = ROWS.assign(region=["N", None, "S", None])
    with pytest.raises(
        vardi.MissingValuesError, match="needs a value in every row, but 4 rows of the pool have"
    ) as caught:
        read({"region": {"N": 0.5, "S": 0.5}}, rows=table(rows))
    assert caught.value.columns == {"region": 4}


def test_a_column_of_lists_is_no_margin():
    rows = ROWS.assign(region=[[1], [2], [1], [2]])
    with pytest.raises(vardi.MismatchError, match="'region' holds values that cannot be labels"):
        read({"region": {1: 0.5, 2: 0.5}}, rows=table(rows))


RNG = np.random.default_rng(0)
POOL_ROWS = pd.DataFrame(
    {
        "x": RNG.gamma(3.0, size=400),
        "income": 1e5 + 1e3 * RNG.normal(size=400),
        "region": RNG.choice(list("NSW"), 400),
        "sex": RNG.choice(["f", "m"], 400),
        "group": RNG.choice(list("abcd"), 400),
    }
)
POOL = as_pool({"panel": POOL_ROWS[:150], "national": POOL_ROWS[150:]}, {"panel": "x", "national": 1})
REGION = {"N": 0.2, "S": 0.3, "W": 0.5}


def on_rows(known):
    read = as_known(known, POOL.names, PoolTable(POOL))
    return read, values_on(read, POOL, POOL.evaluate(POOL.biases, POOL.names), log=False)


def exact(H, values, labels=None):
    m = H.shape[1]
    return Known(labels or tuple("abcdefghij"[:m]), tuple(range(m)), np.asarray(values, float), np.zeros((m, m)))


# ---------------------------------------------------------------- basis


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 4), st.floats(-6, 6))
def test_dependent_functions_are_reduced_to_their_rank(seed, rank, more, size):
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(50, rank)) * 10.0**size + rng.normal(size=rank) * 10.0**size
    mixed = np.column_stack([H, H @ rng.normal(size=(rank, more)) + rng.normal(size=more)])
    values = np.append(1.0, np.full(49, 0.0) + 1.0) @ mixed / 50  # those of equal weights agree with one another
    known = exact(mixed, values, tuple(f"h{j}" for j in range(rank + more)))
    directions = reduced(known, mixed)
    g = (mixed - values) @ directions
    assert directions.shape == (rank + more, rank)
    assert np.linalg.matrix_rank(g / np.linalg.norm(g, axis=0)) == rank


def test_rows_come_in_blocks():
    known, H = on_rows({"x": 3.0, "2 * x + 1": 7.0, "region": REGION})
    whole = reduced(known, H)
    np.testing.assert_array_equal(reduced(known, H, block=7), whole)


# ---------------------------------------------------------------- reach


def feasible(G):
    """Tell by one linear programme over all rows whether positive weights exist: the largest least weight."""
    n, m = G.shape
    found = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.column_stack([-np.eye(n), np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=np.vstack([np.column_stack([G.T, np.zeros(m)]), np.append(np.ones(n), 0.0)]),
        b_eq=np.append(np.zeros(m), 1.0),
        bounds=[(0, None)] * n + [(None, None)],
    )
    return found.status == 0 and -found.fun > 1e-9


@given(st.integers(0, 100_000), st.integers(1, 4), st.integers(5, 120), st.floats(0.0, 1.6))
def test_out_of_reach_is_what_a_linear_programme_over_all_rows_says(seed, m, n, far):
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(n, m)) if seed % 2 else rng.integers(0, 2, (n, m)).astype(float)
    values = H.mean(axis=0) + far * rng.normal(size=m)
    if seed % 3 == 0:
        values = rng.dirichlet(np.ones(n)) @ H
    error = out_of_reach(exact(H, values), H)
    assert (error is None) is feasible(H - values)


def test_many_rows_are_brought_in_as_they_are_needed():
    rng = np.random.default_rng(3)
    H = rng.normal(size=(20_000, 3))
    on_hull = H[np.argmax(H @ [1.0, 2.0, 3.0])]
    assert out_of_reach(exact(H, 0.999 * on_hull), H) is None
    error = out_of_reach(exact(H, 1.001 * on_hull), H)
    assert error is not None
    assert (
        max(
            abs(error.nearest[name] - value)
            for name, value in zip("abc", on_hull, strict=True)
            if name in error.nearest
        )
        < 0.1
    )
