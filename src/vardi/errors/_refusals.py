"""Errors that are the same wherever the rows are, in memory or in an engine: the same class, data and words.

An engine does not number its rows, so there the error names no rows and states what is known instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from vardi.errors import (
    EmptySampleError,
    ImpossibleRowError,
    InvalidBiasError,
    InvalidCountsError,
    MismatchError,
    MissingValuesError,
    NeedsRowsError,
    UnidentifiedParametersError,
)
from vardi.errors._texts import LISTED, number_of_rows, show, suggest

MOST = 1e150  # most rows in all, whose square is still a float
FROM_SOME = (
    "Means, totals and distributions can be estimated from just the samples that have a column: use fit.expectation, "
    "fit.total or fit.cdf, or give a column that all samples have."
)
WHOLE = 1e-9  # how far a count may be from a whole number, relative to it


def needs_rows(what: str) -> NeedsRowsError:
    """Return the error for something that an engine cannot answer."""
    return NeedsRowsError(
        f"{what} needs rows in memory, but these are in their engine. Collect the columns you need and debias them."
    )


def empty_pool() -> EmptySampleError:
    """Return the error for a pool without rows."""
    return EmptySampleError("The pool has no rows. Give at least one row of one sample.")


def empty_samples(names: Sequence[object]) -> EmptySampleError:
    """Return the error for samples without rows."""
    return EmptySampleError(
        f"No rows in {show(names)}. Leave an empty sample out of the samples; its bias may stay, and its normaliser "
        "is still estimated.",
        samples=map(str, names),
    )


def untold_parameters(names: Sequence[object], bias: Any) -> UnidentifiedParametersError:
    """Return the error for biases with parameters that no sample was drawn with; ``bias`` is the first of them."""
    return UnidentifiedParametersError(
        f"No sample was drawn with the bias of {show(names)}, {bias}, so its parameters cannot be estimated. Give its "
        "rows, fix the parameters with .at(...), or leave it out.",
        sample=str(names[0]),
        parameters=bias.names,
    )


def missing_labels(column: str, count: int) -> MissingValuesError:
    """Return the error for rows whose sample is unknown."""
    return MissingValuesError(
        f"No label in {column!r} for {number_of_rows(count)}, so it is unknown which sample they belong to. Fill in "
        "the labels, or remove these rows.",
        columns={column: count},
    )


def unknown_label(label: object, column: str, labels: Iterable[object], names: Iterable[object]) -> MismatchError:
    """Return the error for a label that has no bias."""
    labels, names = list(labels), list(names)
    return MismatchError(
        f"Label {str(label)!r} of {column!r} has no bias. The labels are {show(labels)}, the biases {show(names)}."
        f"{suggest(label, names)} Give each label a bias."
    )


def missing_counts(column: str, count: int) -> MissingValuesError:
    """Return the error for rows whose count is missing."""
    return MissingValuesError(
        f"The counts in {column!r} are missing in {number_of_rows(count)}. Fill them in, or remove these rows.",
        columns={column: count},
    )


def counts_of_a_kind(kind: object) -> MismatchError:
    """Return the error for counts that are not numbers."""
    return MismatchError(
        f"counts holds {kind}, but counts are numbers. Give the number of rows that each row stands for."
    )


def invalid_counts(fact: str, rows: Iterable[int] = ()) -> InvalidCountsError:
    """Return the error for counts that are negative or infinite, as stated by ``fact``."""
    return InvalidCountsError(
        f"{fact}. A count says how many rows a row stands for, so it is a finite number, zero or more.", rows=rows
    )


def too_many(total: float) -> InvalidCountsError:
    """Return the error for counts whose squares overflow."""
    return InvalidCountsError(
        f"The counts add up to {total:.3g}, whose square overflows floating point. A count is the number of drawn "
        "rows that a row stands for: give those."
    )


def counts_in_part(fact: str, rows: Iterable[int] = ()) -> InvalidCountsError:
    """Return the error for counts that are not whole, as stated by ``fact``."""
    return InvalidCountsError(
        f"{fact}, which is not a whole number. A count is the number of drawn rows that a row stands for, and errors "
        "are computed for that many rows. Design weights, the number of units of the population that a row "
        "represents, are not counts: the chance of being drawn is one over them, so give their sample the bias '1 / "
        "weight', where weight is a column that holds them for the rows of every sample, and leave counts out.",
        rows=rows,
    )


def invalid_bias(
    sample: object, value: object, where: str, *, log: bool = False, rows: Iterable[int] = ()
) -> InvalidBiasError:
    """Return the error for an invalid value of a bias."""
    kind = "log omega below infinity" if log else "a finite number, zero or more"
    return InvalidBiasError(
        f"The bias of {str(sample)!r} is {value} at {where}. A bias says how much likelier a unit is to be drawn, so "
        f"it must be {kind}. Correct the bias, or remove these rows.",
        sample=str(sample),
        rows=rows,
    )


def impossible_rows(sample: object, count: float, first: str = "", rows: Iterable[int] = ()) -> ImpossibleRowError:
    """Return the error for rows that their own sample's bias forbids; ``first`` is the first of them, in words."""
    return ImpossibleRowError(
        f"Sample {str(sample)!r} holds {number_of_rows(count)} that its own bias forbids{first}. A unit with bias 0 "
        "cannot have been drawn, so the declared bias is wrong, or these rows belong to another sample. Correct the "
        "bias, or remove them.",
        sample=str(sample),
        rows=rows,
    )


def not_finite(count: int, name: str | None, lacking: Sequence[object] = (), where: str = "") -> MissingValuesError:
    """Return the error for values some of which are missing or infinite; all of them in samples ``lacking`` them.

    ``where`` is the rows they are in, in words, if known.
    """
    of_name = "" if name is None else f"of {name!r} "
    remedy = "Fill them in, or ask for the mean over the rows that have one: a ratio of two expectations."
    if lacking:
        verb = "has" if len(lacking) == 1 else "have"
        remedy = f"{show(lacking)} {verb} none at all, so a mean over the rest is biased. {FROM_SOME}"
    return MissingValuesError(
        f"{count} of the values {of_name}are missing or infinite{f' ({where})' if where else ''}, so their mean over "
        f"the population is unknown. {remedy}",
        columns={"values" if name is None else name: count},
    )


def no_groups(column: str, known: Sequence[str]) -> MismatchError:
    """Return the error for groups by a column that some frames do not have."""
    return MismatchError(
        f"No column {column!r} with groups in every sample. The columns are {show(known)}.{suggest(column, known)} "
        "Give a column that all samples have, or an array."
    )


def missing_groups(count: int) -> MissingValuesError:
    """Return the error for rows without a group."""
    return MissingValuesError(
        f"{count} rows have no group, so it is unknown which rows they depend on. Fill the groups in; a row that "
        "depends on no other is a group of its own.",
        columns={"groups": count},
    )


def spanning_group(group: object, one: object, other: object) -> MismatchError:
    """Return the error for a group with rows in two samples."""
    return MismatchError(
        f"Group {group!r} has rows in {str(one)!r} and in {str(other)!r}, but samples are drawn independently, "
        "and groups within them. Number the groups of each sample separately, or leave out those that "
        "were drawn twice."
    )


def no_identity(column: str, known: Collection[str]) -> MismatchError:
    """Return the error for a column that should identify rows, but is not there."""
    named = f"Name one of {', '.join(map(repr, known))}."
    remedy = named if known else "Leave it out: rows are identified by their position."
    return MismatchError(f"There is no column {column!r} that identifies rows. {remedy}")


def not_covered(names: Sequence[object], which: str, sample: str | None, rows: Sequence[int]) -> ImpossibleRowError:
    """Return the error for samples that do not cover the pool; ``which`` is the rows they could not draw, in words."""
    they = "it" if len(names) == 1 else "they"
    return ImpossibleRowError(
        f"{show(names)} could not have drawn all rows of the pool: not {which}. So what {they} recorded "
        "represents only part of the population. Add a sample that covers the rest and also recorded it, "
        "or debias that part alone: its rows in all samples, with the same biases.",
        sample=sample,
        rows=rows[:LISTED],
    )


def no_labels(what: str) -> MismatchError:
    """Return the error for values that cannot be labels."""
    return MismatchError(f"{what} holds values that cannot be labels, such as lists. Convert it to text or numbers.")
