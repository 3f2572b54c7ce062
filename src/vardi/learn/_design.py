"""What a model is fitted to: features and outcome of every row, given as arrays, columns or a formula."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from vardi._estimate.weight_routing import Rows
from vardi._fit.weighted import WeightedSample
from vardi._inputs.frames import as_frame
from vardi._types import Floats
from vardi.biases._values import is_missing
from vardi.errors import MismatchError, MissingValuesError, number_of_rows, suggest
from vardi.errors._texts import show
from vardi.learn.xy_pool import is_sparse, take

if TYPE_CHECKING:
    import pandas

Missing: TypeAlias = Literal["refuse", "drop"]
Features: TypeAlias = Rows | str | Sequence[str]
"""Rows in pool order, columns of the pool, or a formula."""
Outcome: TypeAlias = ArrayLike | None
"""A column, a formula or a value for each row; None if the formula has it."""
Columns: TypeAlias = list[tuple[str, np.ndarray]]
"""Names, perhaps the same one twice, and values of all rows."""

INTERCEPT = "Intercept"  # what formulaic calls it
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
UNKNOWN = re.compile(r"NameError: (?:name )?['`]([^'`]+)['`] is not")  # the wording of formulaic and of Python
NAME = re.compile(r"`([^`]+)`|(?<![\w.])([^\W\d]\w*)(?!\w|\s*\()")


@dataclass(frozen=True, eq=False)
class ModelRows:
    """Features and outcome of the rows that a fit rests on.

    Attributes
    ----------
    features : array or frame
        Of the complete rows, as the model sees them.
    Z : ndarray of shape (n, p)
        Of all rows, as numbers; zero on those that are left out.
    names : tuple of str
        Of the features.
    outcome : ndarray of shape (n,)
        Numbers or labels; rows that are left out carry the outcome of another row.
    complete : ndarray of bool
        Which rows of the samples in question have no missing value.
    intercept : bool or None
        Whether a formula has one; None if the model decides.
    left_out : int
        How many rows of these samples have one.
    missing : mapping from name to int
        How many rows were left out because a feature, or the outcome, is missing.
    """

    features: Rows
    Z: Floats
    names: tuple[str, ...]
    outcome: np.ndarray
    complete: NDArray[np.bool_]
    intercept: bool | None
    left_out: int
    missing: Mapping[str, int]


def model_rows(fit: WeightedSample, X: Features, y: Outcome, missing: Missing) -> ModelRows:
    """Return features and outcome of all rows, or refuse what does not match."""
    if missing not in ("refuse", "drop"):
        raise MismatchError(f"missing is {missing!r}. Write 'refuse', or 'drop' to leave out rows with missing values.")
    formula = X if isinstance(X, str) and "~" in X else ""
    right, y = _sides(formula, y) if formula else ("", y)
    if y is None:
        raise MismatchError("There is no outcome. Give y, or a formula such as 'y ~ x + region' in place of X.")
    if formula:
        read = {name: _as_it_is(fit, name) for name in _names_in(right)}
        columns: Columns = [(name, values) for name, values in read.items() if values is not None]
    else:
        table, columns = _features(fit, X, missing)
    kept = fit.solved.memory.kept
    outcome = kept.of(_outcome(fit, y))
    gaps = {name: _gaps(kept.of(values)) for name, values in columns}
    complete, left_out, lacking = _complete(fit, {**gaps, y if isinstance(y, str) else "y": _gaps(outcome)}, missing)
    rows = kept.positions[complete]
    columns = [(name, values[rows]) for name, values in columns]
    if formula:
        features, intercept = _terms(fit, formula, right, dict(columns), len(rows))
        columns = [(str(name), values.to_numpy()) for name, values in features.items()]
    else:
        features, intercept = table if len(rows) == len(fit) else take(table, rows), None
    Z = np.zeros((len(complete), len(columns)))
    for j, (_, values) in enumerate(columns):
        Z[complete, j] = values
    outcome = outcome[np.where(complete, np.arange(len(outcome)), np.argmax(complete))]
    names = tuple(name for name, _ in columns)
    return ModelRows(features, Z, names, outcome, complete, intercept, left_out, lacking)


def recording(fit: WeightedSample, X: Features, y: Outcome) -> WeightedSample:
    """Return the rows of the samples that recorded the outcome and the features given by name."""
    named: list[str | np.ndarray] = [y] if isinstance(y, str) else []
    columns: list[str] = []
    if isinstance(X, str) and "~" in X:
        left, right = X.split("~", 1)
        named += [left.strip()] if left.strip() else []
        columns = _names_in(right)
    elif isinstance(X, list | tuple) and all(isinstance(name, str) for name in X):
        named += X
    if y is not None and not isinstance(y, str) and np.asarray(y).dtype.kind == "f":
        named.append(np.asarray(y))
    has = fit.solved.data.recorded_by(named, columns)
    return fit.among([fit.names[k] for k in has]) if has else fit


def _complete(
    fit: WeightedSample, gaps: Mapping[str, NDArray[np.bool_]], missing: Missing
) -> tuple[NDArray[np.bool_], int, dict[str, int]]:
    """Return which rows of the samples in question are complete, how many are not, and how many lack each value.

    Raise if rows are incomplete and are not to be left out.
    """
    mask = fit.solved.memory.inside
    inside = fit.solved.memory.kept.of(np.ones(len(fit), bool) if mask is None else mask)
    counts = {name: int((gap & inside).sum()) for name, gap in gaps.items() if (gap & inside).any()}
    complete = inside & ~np.any(list(gaps.values()), axis=0)
    left_out, lacking = int((inside & ~complete).sum()), _counted(counts)
    if counts and missing == "refuse":
        raise MissingValuesError(
            f"{number_of_rows(left_out)} have missing or infinite values: {lacking}. Fill them in, or write missing="
            "'drop' to leave these rows out; the model then describes the part of the population that has them all.",
            columns=counts,
        )
    if not complete.any():
        raise MissingValuesError(f"No row has all values: {lacking} are missing. Leave a feature out.", columns=counts)
    return complete, left_out, counts


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} ({count})" for name, count in counts.items())


# ---------------------------------------------------------------- formulas


def _sides(formula: str, y: Outcome) -> tuple[str, Outcome]:
    """Return the right side of a formula, and the outcome: its left side, which is anything that y may be, or y."""
    left, right = (side.strip() for side in formula.split("~", 1))
    left = left[1:-1] if re.fullmatch("`[^`]+`", left) else left
    if bool(left) == (y is not None):
        raise MismatchError(
            f"The formula {formula!r} has {'an' if left else 'no'} outcome, and y is {'given' if left else 'not'}. "
            "Give the outcome once, on the left of the formula."
        )
    return right, left or y


def _terms(
    fit: WeightedSample, formula: str, right: str, columns: Mapping[str, np.ndarray], rows: int
) -> tuple[pandas.DataFrame, bool]:
    """Return the terms on the right of a formula, in formulaic's language, and whether there is an intercept."""
    try:
        import formulaic
        import pandas
    except ImportError as error:
        raise ImportError("Formulas need formulaic: pip install 'vardi[formula]'. Or give X and y.") from error
    frame = pandas.DataFrame(columns, index=range(rows))  # the intercept alone has no columns to count rows by
    for name in columns:
        order = fit.solved.pool.frames_of(fit.solved.data.states)[0].categories(name)
        if order is not None:
            there = set(frame[name])
            frame[name] = pandas.Categorical(frame[name], [value for value in order if value in there])
    try:
        with np.errstate(all="ignore"):  # values that are not finite are found by the checks below
            terms = formulaic.Formula(right)
            matrix = terms.get_model_matrix(frame, context={"np": np}, output="pandas", na_action="ignore")
    except formulaic.errors.FormulaicError as error:
        known = [name for part in fit.solved.pool.frames for name in part.columns]
        raise MismatchError(_unreadable(formula, str(error), known)) from error
    features = pandas.DataFrame(matrix).drop(columns=INTERCEPT, errors="ignore").astype(np.float64)
    infinite = {str(name): int(count) for name, count in (~np.isfinite(features)).sum().items() if count}
    if infinite:
        raise MissingValuesError(
            f"Terms of the formula are infinite or not numbers on some rows: {_counted(infinite)}. Write terms that "
            "are finite on all rows.",
            columns=infinite,
        )
    return features, INTERCEPT in matrix.columns


def _unreadable(formula: str, reason: str, known: Sequence[str]) -> str:
    """Return why formulaic cannot read a formula of some columns, for the reason that it gives."""
    name = UNKNOWN.search(reason)
    if name is None:
        first = re.sub(r"\x1b?\[[\d;]*m|[⧛⧚]", "", reason).strip().splitlines()[0]
        return (
            f"The formula {formula!r} cannot be read: {first.rstrip('.')}. Write it in the language of formulaic, "
            "such as 'y ~ x + C(region)'."
        )
    return (
        f"The formula {formula!r} has {name[1]!r}, which is not a column of every sample. The columns are "
        f"{show(dict.fromkeys(known))}.{suggest(name[1], known)}"
    )


def _names_in(text: str) -> list[str]:
    return list(dict.fromkeys(quoted or plain for quoted, plain in NAME.findall(QUOTED.sub("", text))))


# ---------------------------------------------------------------- arrays and columns


def _features(fit: WeightedSample, X: Features, missing: Missing) -> tuple[Rows, Columns]:
    """Return the features as the model sees them, and as columns of numbers."""
    if isinstance(X, list | tuple) and X and all(isinstance(name, str) for name in X):
        return _of_pool(fit, X, missing)
    rows = X if is_sparse(X) or hasattr(X, "columns") else np.asarray(X)
    frame = as_frame(rows.toarray() if is_sparse(rows) else rows)
    shape: tuple[int, ...] = frame.native.shape
    if len(shape) != 2 or shape[0] != len(fit) or not shape[1]:
        raise MismatchError(
            f"X has shape {shape}, but the pool has {len(fit)} rows. Give a matrix or frame with a row for "
            "each, in pool order, a list of columns of the pool, or a formula."
        )
    return rows, [(name, _numbers(frame.column(name), name)) for name in frame.columns]


def _of_pool(fit: WeightedSample, names: Sequence[str], missing: Missing) -> tuple[Rows, Columns]:
    """Return columns of the pool, in the user's library if it has named columns."""
    columns = [(name, _column(fit, name, missing)) for name in names]
    whole = fit.solved.pool.whole()
    if whole is not None and hasattr(whole.native, "columns") and all(name in whole.columns for name in names):
        return nw.from_native(whole.native).select(*names).to_native(), columns
    return np.column_stack([values for _, values in columns]), columns


def _column(fit: WeightedSample, name: str, missing: Missing = "refuse") -> Floats:
    if missing == "drop" and (values := _as_it_is(fit, name)) is not None:
        return _numbers(values, name)
    return np.asarray(fit.solved.memory.kept.spread(fit.solved.memory.values(name)))


def _as_it_is(fit: WeightedSample, name: str) -> np.ndarray | None:
    """Return a column of the pool: numbers or labels, perhaps missing; None if a sample in question lacks it."""
    pool, states = fit.solved.pool, fit.solved.data.states
    frames = pool.frames_of(states)
    there = frames and all(name in frame.columns for frame in frames)
    return np.asarray(pool.column(name, states)) if there else None


def _outcome(fit: WeightedSample, y: Outcome) -> np.ndarray:
    """Return the outcome of every row of the pool: numbers or labels."""
    if isinstance(y, str):
        column = _as_it_is(fit, y)
        return _column(fit, y) if column is None else column
    values = np.asarray(y)
    if values.shape != (len(fit),):
        raise MismatchError(
            f"y has shape {values.shape}, but the pool has {len(fit)} rows. Give one outcome for each, in pool order."
        )
    return values


def _gaps(values: np.ndarray) -> NDArray[np.bool_]:
    """Return where a value is missing."""
    if values.dtype.kind in "fiub":
        return ~np.isfinite(values)
    return np.fromiter((is_missing(value) for value in values.tolist()), bool, len(values))


def _numbers(column: np.ndarray, name: str) -> Floats:
    if column.dtype.kind not in "fiub":
        raise MismatchError(
            f"Feature {name!r} holds {column.dtype}, but a linear model needs numbers. Encode it as numbers, "
            f"one column for each category, or write a formula, such as 'y ~ {name}', which does."
        )
    return np.asarray(column, np.float64)
