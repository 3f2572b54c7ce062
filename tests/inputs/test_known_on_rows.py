"""Known values on rows: a basis of their functions, contradictions, and what no weights can meet."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

import vardi
from vardi._inputs.frames import as_frame
from vardi._inputs.known import Known, PoolTable, as_known
from vardi._inputs.known_on_rows import beyond, out_of_reach, reduced, values_on, values_on_frame
from vardi._inputs.pool import as_pool, matrix_pool

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "x": RNG.gamma(3.0, size=400),
        "income": 1e5 + 1e3 * RNG.normal(size=400),
        "region": RNG.choice(list("NSW"), 400),
        "sex": RNG.choice(["f", "m"], 400),
        "group": RNG.choice(list("abcd"), 400),
    }
)
POOL = as_pool({"panel": ROWS[:150], "national": ROWS[150:]}, {"panel": "x", "national": 1})
REGION = {"N": 0.2, "S": 0.3, "W": 0.5}


def on_rows(known):
    read = as_known(known, POOL.names, PoolTable(POOL))
    return read, values_on(read, POOL, POOL.values(), log=False)


def exact(H, values, labels=None):
    m = H.shape[1]
    return Known(labels or tuple("abcdefghij"[:m]), tuple(range(m)), np.asarray(values, float), np.zeros((m, m)))


# ---------------------------------------------------------------- values


def test_functions_on_rows():
    known, H = on_rows({"x": 3.0, "x > 4": 0.3, "panel": 3.0, "region": REGION})
    assert H.dtype == np.float64
    np.testing.assert_array_equal(H[:, 0], ROWS["x"])
    np.testing.assert_array_equal(H[:, 1], ROWS["x"] > 4)
    np.testing.assert_array_equal(H[:, 2], ROWS["x"])
    np.testing.assert_array_equal(H[:, 3:], np.column_stack([ROWS["region"] == value for value in "NSW"]))
    np.testing.assert_array_equal(values_on_frame(known, as_frame(ROWS.head(9)), POOL.biases), H[:9])


def test_functions_of_a_matrix_are_its_columns():
    omega = np.array([[1.0, 0.0, 5.0], [2.0, 1.0, 6.0]])
    pool = matrix_pool(omega, [0, 1], None, None)
    known = as_known({"2": 5.5, "1": 0.5}, pool.names, PoolTable(pool))
    expected = omega[:, [2, 1]]
    np.testing.assert_array_equal(values_on(known, pool, omega, log=False), expected)
    np.testing.assert_array_equal(values_on(known, pool, sparse.csr_array(omega), log=False), expected)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(values_on(known, pool, np.log(omega), log=True), expected, rtol=1e-14)


def test_a_function_of_the_rows_and_an_array_of_values_are_known_too():
    values = np.arange(400.0)
    known = {vardi.biases.as_bias(lambda rows: rows["x"] ** 2): 12.0, vardi.biases.as_bias(values): 200.0}
    _, H = on_rows(known)
    np.testing.assert_array_equal(H, np.column_stack([ROWS["x"] ** 2, values]))


def test_missing_values_and_what_is_not_finite():
    pool = as_pool({"a": ROWS.assign(x=[np.nan, -1.0, *ROWS["x"][2:]])}, {"a": 1})
    known = as_known({"region == 'N'": 0.2, "x > 4": 0.3}, pool.names, PoolTable(pool))
    with pytest.raises(
        vardi.MissingValuesError, match="The known value of 'x > 4' needs a value in every row.*1 row"
    ) as e:
        values_on(known, pool, pool.values(), log=False)
    assert e.value.columns == {"x": 1}
    pool = as_pool({"a": ROWS.assign(x=[0.0, -1.0, *ROWS["x"][2:]])}, {"a": 1})
    known = as_known({"log(x)": 1.0}, pool.names, PoolTable(pool))
    said = r"'log\(x\)' is -inf on 2 of the rows \(the first is row 0\), so it has no mean over them"
    with pytest.raises(vardi.InvalidKnownError, match=said):
        values_on(known, pool, pool.values(), log=False)


# ---------------------------------------------------------------- basis


def test_functions_that_are_independent_stay_as_they_are():
    known, H = on_rows({"x": 3.0, "income": 1e5, "x > 4": 0.3, "sex == 'f'": 0.5})
    np.testing.assert_array_equal(reduced(known, H), np.eye(4))


def test_margins_lose_a_value_each():
    known, H = on_rows({"region": REGION, "sex": {"f": 0.5, "m": 0.5}, "group": dict.fromkeys("abcd", 0.25)})
    directions = reduced(known, H)
    assert directions.shape == (9, 6)
    assert set(np.unique(directions)) == {0.0, 1.0}
    assert (directions.sum(axis=0) == 1).all()
    assert [directions[place].sum() for _, place in known.margins] == [2, 1, 3]


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


def test_shares_of_all_samples_and_a_constant():
    known, H = on_rows({"region": REGION, "region != 'W'": 0.5, "1": 1.0, "national": 1.0, "x < 0": 0.0})
    assert reduced(known, H).shape == (7, 2)


def test_rows_come_in_blocks():
    known, H = on_rows({"x": 3.0, "2 * x + 1": 7.0, "region": REGION})
    whole = reduced(known, H)
    np.testing.assert_array_equal(reduced(known, H, block=7), whole)


@pytest.mark.parametrize(
    ("known", "said", "labels"),
    [
        (
            {"x": 3.0, "2 * x + 1": 8.0},
            "2 * 'x' - '2 * x + 1' is -1 on every row of the pool, but -2 by the values given",
            ("x", "2 * x + 1"),
        ),
        (
            {"region": REGION, "region == 'N'": 0.3},
            "is 0 on every row of the pool, but ",
            None,
        ),
        (
            {"x > 4": 0.2, "x <= 4": 0.7},
            "'x > 4' + 'x <= 4' is 1 on every row of the pool, but 0.9 by the values given",
            ("x > 4", "x <= 4"),
        ),
        (
            {"x": (3.0, 0.01), "2 * x + 1": (8.0, 0.01)},
            "by far more than their standard errors allow",
            ("x", "2 * x + 1"),
        ),
    ],
)
def test_values_that_contradict_one_another(known, said, labels):
    with pytest.raises(vardi.InvalidKnownError, match="contradict one another") as caught:
        reduced(*on_rows(known))
    assert said in str(caught.value)
    if labels is not None:
        assert caught.value.labels == labels


def test_exact_values_may_differ_by_rounding_only():
    assert reduced(*on_rows({"x": 3.0, "2 * x + 1": 7.0 * (1 + 1e-12)})).shape == (2, 1)
    with pytest.raises(vardi.InvalidKnownError):
        reduced(*on_rows({"x": 3.0, "2 * x + 1": 7.0 * (1 + 1e-7)}))


@pytest.mark.parametrize(
    ("known", "said", "constant"),
    [
        ({"x > 99": 0.1}, "No row of the pool is in 'x > 99', so no row can carry its share of 0.1", 0.0),
        ({"x > -1": 0.9}, "'x > -1' is 1 on every row of the pool, so that is its mean whatever the weights", 1.0),
        ({"x - x + 4": 5.0}, "'x - x + 4' is 4 on every row of the pool", 4.0),
        ({"national": 0.5}, "'national' is 1 on every row of the pool", 1.0),
    ],
)
def test_what_is_the_same_on_every_row(known, said, constant):
    with pytest.raises(vardi.InvalidKnownError) as caught:
        reduced(*on_rows(known))
    assert str(caught.value).startswith(said)
    assert caught.value.allowed == {next(iter(known)): (constant, constant)}


def test_two_values_of_one_thing_are_weighted_by_their_errors():
    known, H = on_rows({"x": (3.0, 0.1), "x * 1": (3.3, 0.2), "sex == 'f'": (0.5, 0.01)})
    directions = reduced(known, H)
    assert directions.shape == (3, 2)
    precise = np.array([1 / 0.1**2, 1 / 0.2**2])
    for direction in directions.T:
        scale = direction[:2].sum()
        if abs(scale) > 0.1:
            assert direction @ known.values / scale == pytest.approx(precise @ [3.0, 3.3] / precise.sum(), rel=1e-9)
            assert direction @ known.covariance @ direction / scale**2 == pytest.approx(1 / precise.sum(), rel=1e-9)
    one_exact = reduced(*on_rows({"x": 3.0, "x * 1": (3.3, 0.2)}))
    assert (one_exact[:, 0] @ [3.0, 3.3] / one_exact.sum()) == pytest.approx(3.0, rel=1e-9)


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


@pytest.mark.parametrize(("value", "side"), [(-1.0, "below"), (99.0, "above")])
def test_a_mean_beyond_the_rows(value, side):
    known, H = on_rows({"x": value})
    error = out_of_reach(known, H)
    low, high = float(ROWS["x"].min()), float(ROWS["x"].max())
    assert isinstance(error, vardi.InvalidKnownError)
    assert f"The known value of 'x' is {value:g}, but on the rows of the pool it ranges from {low:.6g} to" in str(error)
    assert f"Correct the value, or add rows {side} {low if side == 'below' else high:.6g}." in str(error)
    assert error.allowed == {"x": (low, high)}
    assert str(beyond(known, H.min(axis=0), H.max(axis=0))) == str(error)


def test_a_normaliser_beyond_the_rows():
    error = out_of_reach(*on_rows({"panel": 99.0, "income": 0.0}))
    assert str(error).endswith("The same holds for 'income'. Correct the value.")
    assert set(error.allowed) == {"panel", "income"}


def test_several_values_at_once():
    error = out_of_reach(*on_rows({"x > 4": 0.2, "x > 5": 0.3}))
    assert "No weights on the rows of the pool meet all known values at once" in str(error)
    assert error.nearest == pytest.approx({"x > 5": 0.2}) or error.nearest == pytest.approx({"x > 4": 0.3})
    tight = out_of_reach(*on_rows({"x": 1.0, "x > 4": 0.3}))
    least = 0.7 * ROWS["x"].min() + 0.3 * ROWS["x"][ROWS["x"] > 4].min()
    assert tight.nearest == pytest.approx({"x": least}, rel=1e-6)


def test_values_that_leave_rows_without_weight():
    error = out_of_reach(*on_rows({"x > 4": 0.2, "x > 3": 0.2}))
    assert str(error).startswith(
        "The known values leave nothing for rows with 'x > 4' = 0 and 'x > 3' = 1, but the pool"
    )
    assert "no positive weights meet 0.2 for 'x > 4' and 0.2 for 'x > 3'" in str(error)
    assert error.labels == ("x > 4", "x > 3")
    zero = out_of_reach(*on_rows({"x > 4": 0.0}))
    assert str(zero).startswith("The known values leave nothing for rows with 'x > 4' = 1")


def test_a_value_with_an_error_bounds_nothing():
    assert out_of_reach(*on_rows({"x": (99.0, 1.0)})) is None
    assert out_of_reach(*on_rows({"x > 4": 0.2, "x > 5": (0.3, 0.01)})) is None
    both = out_of_reach(*on_rows({"x": (99.0, 1.0), "x > 4": 0.2, "x > 5": 0.3}))
    assert isinstance(both, vardi.InvalidKnownError)
    assert set(both.labels) <= {"x > 4", "x > 5"}


def test_margins_in_reach():
    assert out_of_reach(*on_rows({"region": REGION, "sex": {"f": 0.9, "m": 0.1}, "x": 3.0, "panel": 3.0})) is None
