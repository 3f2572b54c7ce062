"""What is odd about declared biases is said: in the summary, in notebooks, in the report, wherever the rows are."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest

import vardi
from vardi.report import compute

HOLDERS = {
    "memory": lambda rows: rows,
    "pandas": pl.DataFrame.to_pandas,
    "polars": pl.DataFrame.lazy,
    "duckdb": lambda rows: duckdb.from_arrow(rows.to_arrow()),
}


@pytest.fixture(params=HOLDERS)
def holder(request):
    return HOLDERS[request.param]


def schools(n, seed):
    """Return the share of free meals, in percent, and the kind of a school."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["elementary", "middle", "high"], n)
    return pl.DataFrame({"meals": 100 * rng.beta(1.2, 1.2, n), "kind": kinds})


def said(samples, biases):
    fit = vardi.debias(samples, biases)
    notes = compute(fit, variables=["meals"]).bias_notes
    for note in notes:
        assert note in " ".join(str(fit).split())
        assert note.split(", ")[-1].replace("'", "&#x27;") in fit._repr_html_()
    return notes


def test_a_condition_in_another_unit_than_its_column(holder):
    plain, poor = schools(300, 0), schools(900, 1).filter(pl.col("meals") >= 40)
    samples = {"plain": holder(plain), "poor": holder(poor)}
    assert said(samples, {"plain": 1, "poor": "meals >= 0.40"}) == (
        "All rows of the other samples meet meals >= 0.4, so the bias of 'poor' changes almost nothing. If "
        "that is a surprise, check the unit of the column and the direction of the comparison.",
    )
    assert said(samples, {"plain": 1, "poor": "meals >= 40"}) == ()


def test_a_condition_that_hardly_any_other_row_meets(holder):
    plain, rich = schools(900, 0), schools(9000, 1).filter(pl.col("meals") <= 0.6)
    (note,) = said({"plain": holder(plain), "rich": holder(rich)}, {"plain": 1, "rich": "meals <= 0.6"})
    assert note.startswith("Only 0.2% of the rows of the other samples meet meals <= 0.6, the bias of 'rich'. If that")


def test_a_bias_that_is_the_same_on_all_rows_of_the_only_sample(holder):
    rows = holder(schools(60, 0))
    assert said({"a": rows}, {"a": "meals <= 100"}) == (
        "The bias meals <= 100 of 'a' is the same on all rows, and there is no other sample, so all weights are the "
        "same and nothing is debiased. Check the unit of the column.",
    )
    assert said({"a": rows}, {"a": 1}) == ()  # which says so itself
    assert said({"a": rows}, {"a": "meals + 1"}) == ()


def test_a_value_that_no_row_has(holder):
    plain, upper = schools(300, 0), schools(300, 1).filter(pl.col("kind") == "high")
    samples = {"plain": holder(plain), "upper": holder(upper)}
    misspelt = "No row has 'midle' in kind, which the bias of 'upper' names. Did you mean 'middle'?"
    assert said(samples, {"plain": 1, "upper": "kind in ['midle', 'high']"}) == (misspelt,)
    assert said(samples, {"plain": 1, "upper": "kind == 'high'"}) == ()
    of_function = {"plain": 1, "upper": vardi.isin("kind", ["midle", "high"])}
    assert said({"plain": plain, "upper": upper}, of_function) == (misspelt,)


def test_a_text_that_is_not_there_in_a_comparison(holder):
    plain, upper = schools(300, 0), schools(300, 1)
    (note,) = said({"a": holder(plain), "b": holder(upper)}, {"a": 1, "b": "2 - (kind == 'hihg')"})
    assert note == "No row has 'hihg' in kind, which the bias of 'b' names. Did you mean 'high'?"


def times(n, seed, *, cut=np.inf, low=-np.inf):
    """Return times until an event; those beyond a cut are recorded as the cut."""
    return pl.DataFrame({"meals": np.clip(np.random.default_rng(seed).exponential(10.0, n), low, cut)})


WAYS = ["meals <= 12", vardi.at_most("meals", 12), "0 <= meals <= 12", "2 * (12 >= meals)"]


@pytest.mark.parametrize(
    ("name", "bias"), [*((name, WAYS[0]) for name in HOLDERS), *(("memory", bias) for bias in WAYS[1:])]
)
def test_values_that_heap_at_the_bound_of_a_window_look_censored(name, bias):
    holder = HOLDERS[name]
    samples = {"plain": holder(times(200, 0)), "cut": holder(times(100, 1, cut=12.0))}
    (note,) = said(samples, {"plain": 1, "cut": bias})
    assert note == (
        "27 of the 100 rows of 'cut' have exactly meals = 12, the bound of their bias, but the other samples have no "
        "such spike: these values look censored, and a censored value is only a bound. If values were cut off there, "
        "leave these rows out and declare meals < 12; or declare no selection by meals, and ask only for means of "
        "min(meals, 12)."
    )


def test_values_that_heap_at_a_lower_bound(holder):
    samples = {"plain": holder(times(200, 0)), "cut": holder(times(100, 1, low=3.0))}
    (note,) = said(samples, {"plain": 1, "cut": "meals >= 3"})
    assert note.startswith("27 of the 100 rows of 'cut' have exactly meals = 3, the bound of their bias")
    assert note.endswith(
        "declare meals > 3; or declare no selection by meals, and ask only for means of max(meals, 3)."
    )


def test_no_heap_is_seen_where_there_is_none():
    """Rows that were truly left out, whole numbers, too few rows to tell."""
    plain, cut = times(200, 0), times(300, 1)
    whole = [rows.select(pl.col("meals").floor()) for rows in (plain, cut)]
    few = times(8, 0)
    for first, second in (
        (plain, cut.filter(pl.col("meals") <= 12)),
        (whole[0], whole[1].filter(pl.col("meals") <= 12)),
        (whole[0], whole[1].filter(pl.col("meals") <= 1)),
        (few, times(100, 1, cut=12.0)),
    ):
        highest = 1 if second["meals"].max() == 1 else 12
        biases = {"plain": 1, "cut": f"meals <= {highest}"}
        assert not any("censored" in note for note in said({"plain": first, "cut": second}, biases))


def test_no_heap_is_seen_where_every_sample_has_it(holder):
    both = [rows.select(pl.col("meals").clip(upper_bound=12.0)) for rows in (times(200, 0), times(300, 1))]
    samples = dict(zip(("plain", "cut"), map(holder, both), strict=True))
    assert not any("censored" in note for note in said(samples, {"plain": 1, "cut": "meals <= 12"}))
