"""Known values on rows: a basis of their functions, contradictions, and what no weights can meet."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from vardi._inputs.known import Known, PoolTable, as_known
from vardi._inputs.known_on_rows import out_of_reach, reduced, values_on
from vardi._inputs.pool import as_pool

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
