"""The same units in two samples are told, and rows that are equal by chance are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from textbook import origins, read

import vardi

BIASES = {"a": 1, "b": 1}


def people(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"height": rng.normal(170, 10, n), "age": rng.integers(0, 90, n), "sex": rng.choice(["f", "m"], n)}
    )


def told(samples, biases=BIASES, **options):
    with pytest.warns(vardi.SharedUnitsWarning) as caught:
        vardi.debias(samples, biases, **options)
    (warning,) = caught
    assert warning.filename == __file__
    return warning.message


def test_one_object_given_twice():
    rows = np.array([1.0, 2.0, 3.0])
    warning = told({"a": rows, "b": rows})
    assert (warning.count, warning.samples) == (3, ("a", "b"))
    assert str(warning) == (
        "3 rows of 'a' are in 'b' too, equal in every column. Errors treat all rows as different units, so they would "
        "be too small, and so would p-values. Keep each unit in one sample. Only if the samples were drawn "
        "independently of one another, and included the same unit by chance, may it stay in both."
    )


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, lambda rows: rows[["height", "age"]].to_numpy()])
def test_a_copy_in_another_order(library):
    rows = people(300, 0)
    others = pd.concat([rows.sample(frac=1.0, random_state=1), people(50, 2)])
    assert told({"a": library(rows), "b": library(others.reset_index(drop=True))}).count == 300


def test_a_pool_with_labels():
    pool = pd.concat([people(300, 0).assign(source="a"), people(300, 0).assign(source="b")], ignore_index=True)
    assert told(pool, source="source").count == 300


def test_many_rows_are_looked_at_in_part_and_counted_in_full():
    rows = people(100_000, 0)
    assert told({"a": rows, "b": pd.concat([rows, people(20_000, 1)])}).count == 100_000


def test_units_with_an_id_are_told_however_few():
    rows = people(400, 0).assign(id=np.random.default_rng(1).permutation(100_000)[:400])
    warning = told({"a": rows[:220], "b": rows[180:]})
    assert (warning.count, warning.samples) == (40, ("a", "b"))


@pytest.mark.parametrize("origin", origins("cohort"))
def test_children_of_the_subcohort_who_are_cases_too(origin):
    children = read(origin, "cohort")
    both = int((children["in.subcohort"] & (children["rel"] == 1)).sum())
    assert both == 85 or origin == "made"
    cases, subcohort = children[children["rel"] == 1], children[children["in.subcohort"]]
    assert told({"cases": cases, "subcohort": subcohort}, {"cases": "rel == 1", "subcohort": 1}).count == both
    vardi.debias({"cases": cases, "controls": subcohort[subcohort["rel"] == 0]}, {"cases": 1, "controls": 1})


def small_numbers(seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.integers(0, 90, 400), "sex": rng.choice(["f", "m"], 400)})


def drawn_again(seed):
    return people(500, 0).sample(400, replace=True, random_state=seed)


def numbered(seed):
    return small_numbers(seed)[["sex"]].assign(row=np.arange(400))


def from_a_short_list(seed):
    return people(500, 0).sample(250, random_state=seed)


@pytest.mark.parametrize("rows", [small_numbers, drawn_again, numbered, from_a_short_list])
def test_what_is_equal_by_chance_is_not_told(rows):
    first, second = rows(1), rows(2)
    columns = list(first)
    assert len(first.drop_duplicates().merge(second.drop_duplicates(), on=columns)) > 10  # there are equal rows
    vardi.debias({"a": first, "b": second}, BIASES)


def test_rows_that_stand_for_several_are_cells():
    cells = people(50, 0)
    vardi.debias({"a": cells, "b": cells.copy()}, BIASES, counts={"a": np.arange(50) + 1, "b": np.arange(50) + 2})
