"""What bad input gets: the class, what it says (fact, reason, remedy, in that order), and the data it carries."""

from __future__ import annotations

import pickle
import re

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import vardi

X = np.array([1.0, 2.0, 3.0, 4.0])
OK = {"a": X, "b": X}


def refused(kind: type[vardi.VardiError], *parts: str, call) -> vardi.VardiError:
    """Return the error of a call, having checked its exact class and that its text has the parts in this order."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert isinstance(caught.value, ValueError)
    text, place = str(caught.value), 0
    for part in parts:
        found = text.find(part, place)
        assert found >= 0, f"{part!r} is not there, or out of order, in:\n{text}"
        place = found + len(part)
    return caught.value


def test_every_error_is_a_vardi_error_and_a_value_error():
    names = [name for name in vardi.__all__ if name.endswith("Error")]
    assert len(names) >= 10
    for name in names:
        assert issubclass(getattr(vardi, name), vardi.VardiError)
    assert issubclass(vardi.VardiError, ValueError)
    assert issubclass(vardi.DroppedSamplesWarning, UserWarning)


# ---------------------------------------------------------------- not identifiable


def test_not_strongly_connected():
    error = refused(
        vardi.NotIdentifiableError,
        "The samples fall into 2 groups that cannot be compared ('agency'; 'web')",
        "share no rows that both could have drawn, so their relative weight is undetermined",
        "Add a sample that overlaps both, give known values, or debias each group alone.",
        "The nearest are",
        "agency",
        "web",
        "6 apart in x",
        call=lambda: vardi.debias({"agency": X, "web": X + 9}, {"agency": "x <= 5", "web": "x >= 6"}),
    )
    assert error.groups == (("agency",), ("web",))
    assert error.verdict.groups == error.groups
    assert error.verdict.message == str(error)


def test_connected_in_one_direction_only():
    error = refused(
        vardi.NotIdentifiableError,
        "2 groups that cannot be compared ('low'; 'all')",
        "they overlap in one direction only",
        "4 rows of 'low' could also have come from 'all'",
        "has a bound but no value",
        "Add rows of 'all' that 'low' could have drawn too, or a sample that overlaps both",
        "or debias each group alone.",
        call=lambda: vardi.debias({"low": X, "all": X + 9}, {"low": "x <= 5", "all": 1}),
    )
    assert error.groups == (("low",), ("all",))


# ---------------------------------------------------------------- impossible rows


def test_a_row_that_its_own_bias_forbids():
    error = refused(
        vardi.ImpossibleRowError,
        "Sample 'b' holds 2 rows that its own bias forbids (the first is row 2 of 'b', where x is 3)",
        "A unit with bias 0 cannot have been drawn, so the declared bias is wrong, or these rows belong to another",
        "Correct the bias, or remove them.",
        call=lambda: vardi.debias(OK, {"a": 1, "b": "x <= 2"}),
    )
    assert error.sample == "b"
    assert error.rows == (6, 7)


@pytest.mark.parametrize("form", ["dense", "log", "sparse", "sparse log"])
def test_a_forbidden_row_of_a_matrix(form):
    omega = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    logs = np.where(omega > 0, 0.0, -np.inf)
    given, log = {
        "dense": (omega, False),
        "log": (logs, True),
        "sparse": (sparse.csr_array(omega), False),
        "sparse log": (sparse.csr_array((np.zeros(5), np.nonzero(omega)), shape=omega.shape), True),
    }[form]
    error = refused(
        vardi.ImpossibleRowError,
        "Sample '1' holds 1 row that its own bias forbids (the first is row 2 of the pool)",
        call=lambda: vardi.debias_matrix(given, [0, 1, 1, 0], log=log),
    )
    assert error.sample == "1"
    assert error.rows == (2,)


@pytest.mark.parametrize("n", [40, 40_000])
def test_only_the_first_ten_impossible_rows_are_carried(n):
    omega = np.column_stack([np.ones(n), np.r_[np.zeros(n // 2), np.ones(n // 2)]])
    error = refused(
        vardi.ImpossibleRowError, f"holds {n // 2} rows", call=lambda: vardi.debias_matrix(omega, np.ones(n, dtype=int))
    )
    assert error.rows == tuple(range(10))


def test_a_row_that_no_bias_covers():
    error = refused(
        vardi.ImpossibleRowError,
        "Sample 'a' holds 1 row that its own bias forbids (the first is row 0 of 'a', where x is 1)",
        call=lambda: vardi.debias(OK, {"a": "x >= 2", "b": "x >= 1"}),
    )
    assert error.rows == (0,)
    error = refused(
        vardi.ImpossibleRowError,
        "row 1 of the pool",
        call=lambda: vardi.debias_matrix(np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]), [0, 1, 1]),
    )
    assert error.rows == (1,)


def test_positions_are_those_of_the_pool_also_beside_rows_that_count_zero():
    omega = np.ones((5, 2))
    omega[3, 1] = 0.0
    error = refused(
        vardi.ImpossibleRowError,
        "row 3 of the pool",
        call=lambda: vardi.debias_matrix(omega, [0, 0, 1, 1, 0], counts=[0, 1, 1, 1, 1]),
    )
    assert error.rows == (3,)
    omega[3, 1] = np.nan
    error = refused(
        vardi.InvalidBiasError,
        "row 3 of the pool",
        call=lambda: vardi.debias_matrix(omega, [0, 0, 1, 1, 0], counts=[0, 1, 1, 1, 1]),
    )
    assert error.rows == (3,)


# ---------------------------------------------------------------- invalid biases


@pytest.mark.parametrize("n", [6, 60_000])
@pytest.mark.parametrize("form", ["dense", "sparse", "columns"])
@pytest.mark.parametrize("bad", [-1.0, -1e-300, np.nan, np.inf, -np.inf])
def test_a_negative_nan_or_infinite_bias(bad, form, n):
    omega = np.ones((n, 2))
    omega[[2, 4], 1] = bad
    source = np.arange(n) % 2
    rows = np.arange(n, dtype=float)
    call = {
        "dense": lambda: vardi.debias_matrix(omega, source),
        "sparse": lambda: vardi.debias_matrix(sparse.csr_array(omega), source),
        "columns": lambda: vardi.debias(rows, {"0": omega[:, 0], "1": omega[:, 1]}, source=source.astype(str)),
    }[form]
    error = refused(
        vardi.InvalidBiasError,
        f"The bias of '1' is {bad} at row 2 of the pool",
        "(2 such rows)",
        "A bias says how much likelier a unit is to be drawn, so it must be a finite number, zero or more",
        "Correct the bias, or remove these rows.",
        call=call,
    )
    assert error.sample == "1"
    assert error.rows == (2, 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_log_bias_that_is_nan_or_infinite(bad, form):
    logs = np.full((5, 2), -3.0)
    logs[3, 0] = bad
    given = logs if form == "dense" else sparse.csr_array(logs)
    error = refused(
        vardi.InvalidBiasError,
        f"The bias of '0' is {bad} at row 3 of the pool (1 such row)",
        "must be log omega below infinity",
        call=lambda: vardi.debias_matrix(given, [0, 1, 0, 1, 0], log=True),
    )
    assert (error.sample, error.rows) == ("0", (3,))


def test_an_invalid_value_of_an_unsampled_state_is_refused_too():
    error = refused(
        vardi.InvalidBiasError,
        "The bias of 'state' is -1.0 at row 0",
        call=lambda: vardi.debias({"a": X}, {"a": 1, "state": "x - 2"}),
    )
    assert error.sample == "state"


@pytest.mark.parametrize(
    ("bias", "part"),
    [
        (None, "A bias cannot be a NoneType. Give a number, an expression as text"),
        ({}, "A bias cannot be a dict"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (np.ones((4, 2)), "one-dimensional"),
        (["p", "q", "r", "s"], "numbers"),
    ],
)
def test_what_cannot_be_a_bias(bias, part):
    error = refused(vardi.InvalidBiasError, "The bias of 'a'", part, call=lambda: vardi.debias({"a": X}, {"a": bias}))
    assert error.sample == "a"
    assert error.rows == ()


def test_a_negative_constant():
    error = refused(vardi.InvalidBiasError, "The bias of 'a' is -1", call=lambda: vardi.debias({"a": X}, {"a": -1}))
    assert error.sample == "a"


def test_an_expression_with_a_mistake_marks_the_place():
    error = refused(vardi.ExpressionError, "^", call=lambda: vardi.debias({"a": X}, {"a": "x <= import"}))
    assert error.text == "x <= import"
    assert error.offset == 5


def test_a_function_that_returns_another_length():
    refused(
        vardi.MismatchError,
        "returned values of shape (3,) for 4 rows",
        "one number for each row",
        call=lambda: vardi.debias({"a": X}, {"a": lambda x: x[1:]}),
    )


# ---------------------------------------------------------------- labels, keys, lengths


def test_a_sample_without_a_bias():
    refused(
        vardi.MismatchError,
        "Sample 'agency' has no bias.",
        "The samples are 'agency', 'web', the biases 'agencies', 'web'.",
        "Did you mean 'agencies'?",
        "Give each sample a bias; 1 means that it was drawn without bias.",
        call=lambda: vardi.debias({"agency": X, "web": X}, {"agencies": 1, "web": 1}),
    )


@pytest.mark.filterwarnings("ignore::vardi.SharedUnitsWarning")
def test_lists_of_unequal_length():
    refused(
        vardi.MismatchError,
        "Sample '2' has no bias.",
        "The samples are '0', '1', '2', the biases '0', '1'.",
        call=lambda: vardi.debias([X, X, X], [1, "x"]),
    )
    assert vardi.debias([X, X], [1, "x", "x**2"]).sizes["2"] == 0  # a bias more is a state that was not sampled


def test_an_unknown_label():
    frame = pd.DataFrame({"x": X, "origin": ["agency", "agency", "web", "agancy"]})
    refused(
        vardi.MismatchError,
        "Label 'agancy' of 'origin' has no bias.",
        "The labels are 'agency', 'web', 'agancy', the biases 'agency', 'web'.",
        "Did you mean 'agency'?",
        "Give each label a bias.",
        call=lambda: vardi.debias(frame, {"agency": 1, "web": 1}, source="origin"),
    )


def test_labels_of_another_type_than_the_keys():
    refused(
        vardi.MismatchError,
        "Label '1' of 'source' has no bias",
        call=lambda: vardi.debias(X, {"0": 1, "1": 1}, source=[1, 1, 0, 0]),
    )


NO_LABEL = {
    "None": pd.Series(["a", "a", None, None], dtype=object),
    "NaN": pd.Series(["a", "a", np.nan, np.nan], dtype=object),
    "float NaN": pd.Series([0.0, 0.0, np.nan, np.nan]),
    "str": pd.Series(["a", "a", None, None], dtype="str"),
    "string": pd.Series(["a", "a", None, None], dtype="string"),
    "Int64": pd.Series([0, 0, None, None], dtype="Int64"),
    "category": pd.Series(["a", "a", None, None], dtype="category"),
}


@pytest.mark.parametrize("how", ["column", "array"])
@pytest.mark.parametrize("labels", NO_LABEL)
def test_a_missing_label(labels, how):
    series = NO_LABEL[labels]
    frame = pd.DataFrame({"x": X, "origin": series})
    source = "origin" if how == "column" else series
    error = refused(
        vardi.MissingValuesError,
        f"No label in '{'origin' if how == 'column' else 'source'}' for 2 rows",
        "unknown which sample they belong to",
        "Fill in the labels, or remove these rows.",
        call=lambda: vardi.debias(frame, {"a": 1, 0: 1}, source=source),
    )
    assert error.columns == {"origin" if how == "column" else "source": 2}


def test_a_missing_label_in_polars_and_pyarrow():
    columns = {"x": X.tolist(), "origin": ["a", None, "a", "a"]}
    for make in (pl.DataFrame, pa.table):
        error = refused(
            vardi.MissingValuesError,
            "No label in 'origin' for 1 row",
            call=lambda make=make: vardi.debias(make(columns), {"a": 1}, source="origin"),
        )
        assert error.columns == {"origin": 1}


def test_source_of_the_wrong_length():
    refused(
        vardi.MismatchError,
        "source has shape (3,), but the pool has 4 rows. Give one label for each row.",
        call=lambda: vardi.debias(X, {"a": 1}, source=["a"] * 3),
    )
    refused(vardi.MismatchError, "source has shape ()", call=lambda: vardi.debias(X, {"a": 1}, source=3))
    refused(
        vardi.MismatchError,
        "source has shape (3,), but the pool has 4 rows",
        call=lambda: vardi.debias_matrix(np.ones((4, 1)), [0] * 3),
    )
    refused(
        vardi.MismatchError,
        "From sizes of successive samples: np.repeat(np.arange(len(sizes)), sizes).",
        call=lambda: vardi.debias_matrix(np.ones((4, 2)), [3, 1]),
    )


@pytest.mark.parametrize("values", [None, 3, {"a": X}])
def test_values_that_are_not_one_for_each_row(values):
    fit = vardi.debias({"a": X}, {"a": 1})
    said = f"The values were given as {type(values).__name__}, which has no value for each row."
    for asked in (fit.expectation, fit.expectations, fit.cdf):
        refused(vardi.MismatchError, said, call=lambda asked=asked: asked(values))
    refused(vardi.MismatchError, "No column was given", "Name a column", call=lambda: fit.proportions(None))
    refused(vardi.MismatchError, "were given as int. Name a column", call=lambda: fit.check_biases(3))
    remedy = "Give a list of columns or expressions" if isinstance(values, dict) else "Name a column"
    refused(vardi.MismatchError, remedy, call=lambda: fit.expectations(values))


def test_a_path_is_not_read():
    refused(
        vardi.MismatchError,
        "Rows cannot be a str. Read the file first, as by pandas.read_csv.",
        call=lambda: vardi.debias({"a": "a.csv"}, {"a": 1}),
    )


def test_a_sample_that_lacks_the_column_of_its_own_bias():
    error = refused(
        vardi.MismatchError,
        "Add the column to 'a', or write the bias in columns that all samples have.",
        call=lambda: vardi.debias(
            {"a": pd.DataFrame({"x": X}), "b": pd.DataFrame({"x": X, "y": X})}, {"a": "y <= 3", "b": 1}
        ),
    )
    assert "how likely was" not in str(error)


def test_source_that_names_no_column():
    refused(
        vardi.MismatchError,
        "There is no column 'orgin'.",
        "The columns are: x, origin.",
        "Did you mean 'origin'?",
        call=lambda: vardi.debias(pd.DataFrame({"x": X, "origin": "a"}), {"a": 1}, source="orgin"),
    )


def test_source_beside_several_samples():
    refused(
        vardi.MismatchError,
        "source= labels the rows of one frame, but several samples were given.",
        "Leave source out, or give one frame.",
        call=lambda: vardi.debias(OK, {"a": 1, "b": 1}, source="origin"),
    )


def test_one_frame_without_source():
    refused(
        vardi.MismatchError,
        "The samples were given as DataFrame. Give a mapping by name, or a list",
        "source=",
        call=lambda: vardi.debias(pd.DataFrame({"x": X}), {"a": 1}),
    )
    refused(vardi.MismatchError, "The biases were given as str.", call=lambda: vardi.debias(OK, "x"))


@pytest.mark.parametrize(
    "source",
    [
        [0, 1, 2, 0],
        [0, -1, 1, 0],
        [0.0, 1.0, 0.0, 1.0],
        ["a", "b", "a", "b"],
        [True, False, True, False],
        [0, None, 1, 0],
    ],
    ids=["too high", "negative", "floats", "texts", "bools", "objects"],
)
def test_labels_of_a_matrix_that_are_no_columns(source):
    refused(
        vardi.MismatchError,
        "source holds",
        "but omega has 2 columns",
        "Number the samples by their columns, 0 to 1; for named samples use vardi.debias.",
        call=lambda: vardi.debias_matrix(np.ones((4, 2)), source),
    )


def test_names_of_a_matrix():
    refused(
        vardi.MismatchError,
        "3 names for 2 columns. Give one for each.",
        call=lambda: vardi.debias_matrix(np.ones((4, 2)), [0, 1, 0, 1], names=["a", "b", "c"]),
    )


def test_a_name_that_stands_for_two_columns():
    refused(
        vardi.MismatchError, "'a'", call=lambda: vardi.debias_matrix(np.ones((4, 2)), [0, 1, 0, 1], names=["a", "a"])
    )


def test_an_array_bias_of_the_wrong_length():
    refused(
        vardi.MismatchError,
        "The bias of 'b' has 4 values, but the pool has 8 rows.",
        "Give one value for each row of the pool, all samples one after the other.",
        call=lambda: vardi.debias(OK, {"a": 1, "b": np.ones(4)}),
    )


def test_a_column_that_is_not_there():
    refused(
        vardi.MismatchError,
        "There is no column 'prize'.",
        "The columns are: price.",
        "Did you mean 'price'?",
        call=lambda: vardi.debias({"a": pd.DataFrame({"price": X})}, {"a": "prize <= 22"}),
    )


@pytest.mark.parametrize("what", ["bias", "source", "counts"])
def test_a_pandas_series_with_another_index_is_not_taken_by_position(what):
    """Labels that say otherwise than the order: nothing is reordered or guessed in silence."""
    frame = pd.DataFrame({"x": X}, index=["p", "q", "r", "s"])
    turned = list("srqp")
    biases = {"a": 1, "b": "x"}
    options = {"source": np.array(["a", "b", "a", "b"])}
    if what == "bias":
        biases["b"] = pd.Series(X, index=turned)
    elif what == "source":
        options["source"] = pd.Series(["a", "b", "a", "b"], index=turned)
    else:
        options["counts"] = pd.Series([1, 2, 3, 4], index=turned)
    refused(vardi.MismatchError, "index", call=lambda: vardi.debias(frame, biases, **options))


def test_omega_that_is_no_matrix_of_numbers():
    for omega in (np.array([["1", "2"]]), np.ones((1, 2), dtype=complex), np.ones((1, 2), dtype=object)):
        refused(
            vardi.MismatchError,
            f"omega holds {omega.dtype}, but biases are numbers.",
            "Give a matrix of floats.",
            call=lambda omega=omega: vardi.debias_matrix(omega, [0]),
        )
    refused(
        vardi.MismatchError,
        "omega holds complex128",
        call=lambda: vardi.debias_matrix(sparse.csr_array(np.ones((2, 2), dtype=complex)), [0, 1]),
    )


@pytest.mark.parametrize("rows", [[1.0, 2.0], "x", 3, None, np.ones((2, 2, 2))])
def test_rows_that_are_no_frame(rows):
    refused(vardi.MismatchError, "Rows ", call=lambda: vardi.debias({"a": rows}, {"a": 1}))


def test_on_unidentified():
    refused(
        vardi.MismatchError,
        "on_unidentified is 'largets'. Give 'raise' or 'largest'.",
        call=lambda: vardi.debias(OK, {"a": 1, "b": 1}, on_unidentified="largets"),
    )


# ---------------------------------------------------------------- counts


def test_a_count_that_is_missing_in_a_column():
    counts = pd.DataFrame({"x": X, "n": [1.0, 1.0, np.nan, 1.0]})
    error = refused(
        vardi.MissingValuesError,
        "The counts in 'n' are missing in 1 row.",
        call=lambda: vardi.debias({"a": counts}, {"a": 1}, counts="n"),
    )
    assert error.columns == {"n": 1}


@pytest.mark.parametrize(
    ("bad", "how"),
    [
        (bad, how)
        for bad in (-1.0, np.nan, np.inf)
        for how in ("array", "mapping", "column", "matrix")
        if not (how == "column" and np.isnan(bad))  # which is a missing value
    ],
)
def test_a_count_that_counts_nothing(bad, how):
    counts = np.array([1.0, 1.0, bad, 1.0])
    call = {
        "array": lambda: vardi.debias({"a": X}, {"a": 1}, counts=counts),
        "mapping": lambda: vardi.debias({"a": X}, {"a": 1}, counts={"a": counts}),
        "column": lambda: vardi.debias({"a": pd.DataFrame({"x": X, "n": counts})}, {"a": 1}, counts="n"),
        "matrix": lambda: vardi.debias_matrix(np.ones((4, 1)), [0] * 4, counts=counts),
    }[how]
    place = "the pool, of '0'" if how == "matrix" else "'a'"
    error = refused(
        vardi.InvalidCountsError,
        f"In row 2 of {place}, the count is {bad}.",
        "how many rows a row stands for",
        "a finite number, zero or more",
        call=call,
    )
    assert error.rows == (2,)


def test_a_bad_count_is_named_by_its_row_in_the_sample():
    counts, names = [1.0] * 5 + [-2.0, 1.0, 1.0], np.array(list("aaaabbbb"))
    rows = pd.DataFrame({"x": np.append(X, X), "s": names})
    refused(
        vardi.InvalidCountsError,
        "In row 1 of 'b', the count is -2.0.",
        call=lambda: vardi.debias({"a": X, "b": X}, {"a": 1, "b": 1}, counts=counts),
    )
    refused(
        vardi.InvalidCountsError,
        "In row 5 of the pool, of 'b', the count is -2.0.",
        call=lambda: vardi.debias(rows, {"a": 1, "b": 1}, source="s", counts=counts),
    )


def test_design_weights_are_no_counts():
    weights = np.array([44.2, 44.2, 6193.99996, 15.0])
    error = refused(
        vardi.InvalidCountsError,
        "In row 0 of 'a', the count is 44.2, which is not a whole number.",
        "Design weights, the number of units of the population that a row represents, are not counts",
        "give their sample the bias '1 / weight'",
        call=lambda: vardi.debias({"a": X}, {"a": 1}, counts=weights),
    )
    assert error.rows == (0, 1, 2)
    assert "Divide" not in str(error)


def test_whole_counts_are_taken_with_their_rounding():
    counts = np.array([3.0, 3 * (1 + 1e-10), 1e15 + 0.5, 0.0])
    assert vardi.debias({"a": X}, {"a": 1}, counts=counts).sizes["a"] == pytest.approx(counts.sum())


def test_counts_of_the_wrong_length_or_for_the_wrong_sample():
    refused(
        vardi.MismatchError,
        "counts has shape (3,), but the pool has 4 rows. Give one count for each row.",
        call=lambda: vardi.debias({"a": X}, {"a": 1}, counts=[1, 1, 1]),
    )
    refused(vardi.MismatchError, "counts has shape ()", call=lambda: vardi.debias({"a": X}, {"a": 1}, counts=2))
    refused(
        vardi.MismatchError,
        "No counts for sample 'agency'. The counts are for 'agancy'. Did you mean 'agancy'?",
        call=lambda: vardi.debias({"agency": X}, {"agency": 1}, counts={"agancy": X}),
    )


@pytest.mark.parametrize("counts", [["many"] * 4, "n"], ids=["texts", "a column of a matrix"])
def test_counts_that_are_no_numbers(counts):
    with pytest.raises(vardi.VardiError, match="counts"):
        vardi.debias_matrix(np.ones((4, 1)), [0] * 4, counts=counts)


def test_counts_that_are_all_zero():
    """No rows are left: an empty pool, not an error from the inside."""
    for call in (
        lambda: vardi.debias_matrix(np.ones((4, 1)), [0] * 4, counts=[0] * 4),
        lambda: vardi.debias({"a": X}, {"a": 1}, counts=[0] * 4),
        lambda: vardi.identify({"a": X}, {"a": 1}, counts=[0] * 4),
    ):
        with pytest.raises((vardi.EmptySampleError, vardi.InvalidCountsError)):
            call()


# ---------------------------------------------------------------- missing values


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("bias", ["price <= 22", "price", "price <= 22 and region == 'N'"])
def test_missing_values_in_a_column_that_a_bias_reads(make, bias):
    columns = {"price": [1.0, None, 3.0, None], "region": ["N", "N", "N", "N"]}
    error = refused(
        vardi.MissingValuesError,
        "is unknown on 2 rows",
        "missing values in 'price' (2)",
        "A missing value is neither true nor false.",
        "Fill or drop these rows, or handle them in the expression",
        call=lambda: vardi.debias({"a": make(columns)}, {"a": bias}),
    )
    assert error.columns == {"price": 2}


def test_missing_values_name_the_sample():
    frames = {"a": pd.DataFrame({"x": X}), "web": pd.DataFrame({"x": [1.0, np.nan]})}
    error = refused(
        vardi.MissingValuesError,
        "of sample 'web'",
        "'x' (1)",
        call=lambda: vardi.debias(frames, {"a": 1, "web": "x <= 3"}),
    )
    assert error.columns == {"x": 1}


def test_missing_values_where_no_bias_looks_are_no_concern():
    frame = pd.DataFrame({"x": X, "remark": [None, "seen", None, None], "z": [np.nan] * 4})
    assert len(vardi.debias({"a": frame}, {"a": "x"}).weights) == 4


# ---------------------------------------------------------------- empty


def test_empty_samples():
    error = refused(
        vardi.EmptySampleError,
        "No rows in 'b', 'c'.",
        "Leave an empty sample out of the samples; its bias may stay",
        call=lambda: vardi.debias({"a": X, "b": X[:0], "c": X[:0]}, {"a": 1, "b": 1, "c": 1}),
    )
    assert error.samples == ("b", "c")


@pytest.mark.parametrize(
    "call",
    [
        lambda: vardi.debias({}, {}),
        lambda: vardi.debias([], []),
        lambda: vardi.debias({}, {"a": 1}),
        lambda: vardi.debias(X[:0], {"a": 1}, source=[]),
        lambda: vardi.debias(pd.DataFrame({"x": [], "s": []}), {"a": 1}, source="s"),
        lambda: vardi.debias_matrix(np.ones((0, 2)), []),
        lambda: vardi.debias_matrix(np.ones((2, 0)), [0, 0]),
        lambda: vardi.debias_matrix(np.ones(3), [0, 0, 0]),
        lambda: vardi.debias_matrix(sparse.csr_array((0, 2)), []),
    ],
)
def test_nothing_at_all(call):
    error = refused(vardi.EmptySampleError, "Give", call=call)
    assert error.samples == ()


# ---------------------------------------------------------------- no convergence


def test_no_convergence_carries_the_point():
    rng = np.random.default_rng(0)
    omega, source = rng.gamma(2.0, size=(30, 3)), np.arange(30) % 3
    error = refused(
        vardi.ConvergenceError,
        "Vardi's equations hold only to ",
        " after 0 iterations, but 1e-10 was asked for (spectral gap ",
        "The samples overlap too little",
        "Raise tol or max_iterations, or add a sample between those that overlap least.",
        call=lambda: vardi.debias_matrix(omega, source, max_iterations=0),
    )
    solution = error.solution
    assert solution.converged is False
    assert solution.iterations == 0
    assert f"{solution.residual:.1e}" in str(error)
    assert solution.u.shape == (3,)
    refused(vardi.ConvergenceError, "-1e+00 was asked for", call=lambda: vardi.debias_matrix(omega, source, tol=-1.0))


# ---------------------------------------------------------------- all of them


def all_errors() -> list[vardi.VardiError]:
    calls = [
        lambda: vardi.debias({"a": X, "b": X + 9}, {"a": "x <= 5", "b": "x >= 6"}),
        lambda: vardi.debias(OK, {"a": 1, "b": "x <= 2"}),
        lambda: vardi.debias({"a": X}, {"a": "x - 2"}),
        lambda: vardi.debias({"a": X}, {"b": 1}),
        lambda: vardi.debias({"a": np.array([1.0, np.nan])}, {"a": "x"}),
        lambda: vardi.debias({}, {}),
        lambda: vardi.debias({"a": X}, {"a": 1}, counts=-X),
        lambda: vardi.debias({"a": X}, {"a": "x <="}),
        lambda: vardi.debias_matrix(np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 5.0]]), [0, 0, 1], max_iterations=0),
    ]
    errors = []
    for call in calls:
        with pytest.raises(vardi.VardiError) as caught:
            call()
        errors.append(caught.value)
    return errors


def test_texts_are_whole_sentences_on_one_line():
    for error in all_errors():
        text = str(error)
        if isinstance(error, vardi.ExpressionError):  # which marks the place in lines below
            text = text.partition("\n")[0]
        assert "\n" not in text
        assert text.endswith(".")
        assert text[0].isupper()
        assert not re.search(r"\{|\}|  |np\.float64|<class", text), text
        assert not re.search(r"\b1 rows\b", text), text


def test_errors_can_be_pickled_with_their_data():
    """As joblib and multiprocessing do when a fit fails in a worker."""
    for error in all_errors():
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert set(vars(again)) == set(vars(error))


def test_a_sample_whose_counts_are_all_zero_is_empty():
    error = refused(
        vardi.EmptySampleError,
        "No rows in 'b'.",
        "Leave an empty sample out",
        call=lambda: vardi.debias({"a": np.ones(2), "b": np.ones(2)}, {"a": 1, "b": 1}, counts=[1, 1, 0, 0]),
    )
    assert error.samples == ("b",)


# ---------------------------------------------------------------- values that are no labels, no levels


def test_labels_that_are_lists():
    rows = pd.DataFrame({"x": X, "s": [[1], [2], [1], [2]]})
    refused(
        vardi.MismatchError,
        "'s' holds values that cannot be labels, such as lists. Convert it to text or numbers.",
        call=lambda: vardi.debias(rows, {"a": 1}, source="s"),
    )
    shares = {"s": {"a": 0.5, "b": 0.5}}
    refused(
        vardi.MismatchError,
        "'s' holds values that cannot be labels",
        call=lambda: vardi.debias({"a": rows}, {"a": 1}, known=shares),
    )
    fit = vardi.debias({"a": rows}, {"a": 1})
    refused(
        vardi.MismatchError, "'s' holds values that cannot be labels", call=lambda: fit.bootstrap("x", n=20, groups="s")
    )


def test_groups_that_pandas_misses():
    rows = pd.DataFrame({"x": X, "g": pd.array(["a", pd.NA, "b", "b"], dtype=object)})
    fit = vardi.debias({"a": rows}, {"a": 1})
    refused(vardi.MissingValuesError, "1 rows have no group", call=lambda: fit.bootstrap("x", n=20, groups="g"))


@pytest.mark.parametrize("level", ["0.95", None, [0.9]])
def test_a_level_that_is_no_number(level):
    fit = vardi.debias({"a": np.linspace(1.0, 9.0, 200)}, {"a": 1})
    refused(
        vardi.MismatchError, f"The level {level} is not the probability", call=lambda: fit.expectation("x", level=level)
    )
    if not isinstance(level, list):
        refused(
            vardi.MismatchError,
            f"The quantile {level} is not between 0 and 1",
            call=lambda: fit.cdf("x").quantile(level),
        )


def test_one_column_where_several_may_be_given():
    fit = vardi.debias({"a": np.linspace(1.0, 9.0, 200)}, {"a": 1})
    assert fit.expectations("x")[0].value == fit.expectation("x").value


# ---------------------------------------------------------------- what whole samples lack

HOLDERS = {
    "pandas": lambda rows: rows,
    "polars": pl.from_pandas,
    "lazy": lambda rows: pl.from_pandas(rows).lazy(),
    "duckdb": lambda rows: duckdb.from_arrow(pa.table(dict(rows))),
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_a_column_that_a_whole_sample_lacks(holder):
    rng = np.random.default_rng(0)
    a, b = (pd.DataFrame({"x": rng.normal(size=60)}) for _ in range(2))
    fit = vardi.debias({"a": holder(a.assign(y=1.0)), "b": holder(b)}, {"a": 1, "b": "x > -9"})
    refused(
        vardi.MismatchError,
        "Column 'y' is in 'a', but not in 'b', and this needs the rows of all samples.",
        "Means, totals and distributions can be estimated from just the samples that have a column: use "
        "fit.expectation",
        call=lambda: fit.bootstrap("y > 0", n=3, id="x"),
    )
    fit = vardi.debias({"a": holder(a.assign(y=1.0)), "b": holder(b.assign(y=np.nan))}, {"a": 1, "b": "x > -9"})
    error = refused(
        vardi.MissingValuesError,
        "60 of the values of 'y' are missing or infinite",
        "'b' has none at all, so a mean over the rest is biased. Means, totals and distributions can be estimated from",
        call=lambda: fit.bootstrap("y", n=3, id="x"),
    )
    assert "ratio" not in str(error)


def test_a_label_without_any_value():
    rng = np.random.default_rng(0)
    pool = pd.DataFrame({"x": rng.normal(size=120), "s": np.repeat(["a", "b"], 60), "y": np.repeat([1.0, np.nan], 60)})
    fit = vardi.debias(pool, {"a": 1, "b": 1}, source="s")
    refused(vardi.MissingValuesError, "'b' has none at all", call=lambda: fit.bootstrap("y", n=3))
    pool.loc[80, "y"] = 2.0
    fit = vardi.debias(pool, {"a": 1, "b": 1}, source="s")
    refused(vardi.MissingValuesError, "a ratio of two expectations", call=lambda: fit.expectation("y"))


# ---------------------------------------------------------------- words


@pytest.mark.parametrize("swapped", [False, True])
def test_a_number_and_a_text_as_keys(swapped):
    samples, biases = {1: X, 2: X + 0.1}, {"1": 1, "2": 1}
    samples, biases = (dict.fromkeys(biases, X), dict.fromkeys(samples, 1)) if swapped else (samples, biases)
    error = refused(
        vardi.MismatchError,
        "Sample '1' has no bias.",
        f"One is {'a string and the other a number' if swapped else 'a number and the other a string'}: make them",
        call=lambda: vardi.debias(samples, biases),
    )
    assert "Did you mean" not in str(error)


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_a_function_is_no_bias(holder):
    rng = np.random.default_rng(0)
    rows = {name: holder(pd.DataFrame({"MEDV": rng.normal(size=60)})) for name in "ab"}
    fit = vardi.debias(rows, {"a": 1, "b": "MEDV > -9"})
    error = refused(
        vardi.InvalidBiasError,
        "The expression log(MEDV) > 0 on rows of sample 'a' compares NaN on",
        call=lambda: fit.expectation("log(MEDV) > 0"),
    )
    assert "The bias" not in str(error)
    near = ("There is no column 'medv'.", "Did you mean 'MEDV'?")
    refused(vardi.MismatchError, *near, call=lambda: fit.cdf("medv"))
    refused(vardi.MismatchError, *near, call=lambda: fit.expectation("medv"))
    refused(vardi.MismatchError, "For 200 draws write bootstrap(n=200)", call=lambda: fit.bootstrap(200))


@pytest.mark.parametrize("library", [lambda rows: rows, pl.from_pandas, lambda rows: rows["x"].to_numpy()])
def test_a_bias_written_for_one_row(library):
    rows = library(pd.DataFrame({"x": [1.0, -2.0, 3.0]}))

    def scalar(row):
        return 1 if (row if isinstance(row, np.ndarray) else row["x"]) > 0 else 2

    error = refused(
        vardi.InvalidBiasError,
        "The bias <function scalar> on rows of sample 'a' failed:",
        "It is called once with all rows",
        "not row by row. Return one number for each row, e.g. with numpy.where instead of if",
        call=lambda: vardi.debias({"a": rows, "b": rows}, {"a": 1, "b": scalar}),
    )
    assert error.__cause__ is not None


def test_a_bias_that_fails_without_a_message():
    def silent(rows):
        raise ValueError

    rows = pd.DataFrame({"x": [1.0, -2.0, 3.0]})
    refused(
        vardi.InvalidBiasError,
        "The bias <function silent> on rows of sample 'a' failed: no message. It is called once",
        call=lambda: vardi.debias({"a": rows, "b": rows}, {"a": 1, "b": silent}),
    )


def test_a_row_is_named_by_its_sample_and_what_the_bias_reads():
    frames = {"a": pd.DataFrame({"x": [1.0, 2.0]}), "b": pd.DataFrame({"x": [3.0, -4.5, 5.0]})}
    error = refused(
        vardi.ImpossibleRowError,
        "(the first is row 1 of 'b', where x is -4.5)",
        call=lambda: vardi.debias(frames, {"a": 1, "b": "x > 0"}),
    )
    assert error.rows == (3,)
    refused(
        vardi.InvalidBiasError,
        "The bias of 'a' is -4.5 at row 1 of 'b', where x is -4.5 (1 such row)",
        call=lambda: vardi.debias(frames, {"a": "x", "b": 1}),
    )
    pool = pd.concat([rows.assign(s=name) for name, rows in frames.items()], ignore_index=True)
    refused(
        vardi.ImpossibleRowError,
        "(the first is row 3 of the pool, of 'b', where x is -4.5)",
        call=lambda: vardi.debias(pool, {"a": 1, "b": "x > 0"}, source="s"),
    )
