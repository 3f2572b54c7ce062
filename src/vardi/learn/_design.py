"""What a model is fitted to: features and outcome of every row, given as arrays, columns or a formula."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from vardi._fit.weighted import WeightedSample
from vardi._inputs.frames import as_frame
from vardi._types import Floats
from vardi.biases._values import is_missing
from vardi.errors import MismatchError, MissingValuesError, number_of_rows, suggest
from vardi.errors._texts import show
from vardi.learn._given import Rows, is_sparse
from vardi.learn.xy_pool import take

if TYPE_CHECKING:
    import pandas
    from narwhals.typing import IntoDataFrame

Missing: TypeAlias = Literal["refuse", "drop"]
Features: TypeAlias = Rows | str | Sequence[str]
"""Rows in pool order, columns of the pool, or a formula."""
Outcome: TypeAlias = ArrayLike | None
"""A column, a formula or a value for each row; None if the formula has it."""

INTERCEPT = "Intercept"  # what formulaic calls it
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
UNKNOWN = re.compile(r"NameError: (?:name )?['`]([^'`]+)['`] is not")  # the wording of formulaic and of Python
NAME = re.compile(r"`([^`]+)`|(?<![\w.])([^\W\d]\w*)(?!\w|\s*\()")


@dataclass(frozen=True, eq=False)
class Design:
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


def as_design(fit: WeightedSample, X: Features, y: Outcome, missing: Missing) -> Design:
    """Return features and outcome as one design, or refuse what does not match."""
    if missing not in ("refuse", "drop"):
        raise MismatchError(f"missing is {missing!r}. Write 'refuse', or 'drop' to leave out rows with missing values.")
    if isinstance(X, str) and "~" in X:
        return _of_formula(fit, X, y, missing)
    if y is None:
        raise MismatchError("There is no outcome. Give y, or a formula such as 'y ~ x + region' in place of X.")
    native, matrix, names = _features(fit, X, missing)
    kept = fit.solved.memory.kept.positions
    matrix, outcome = matrix[kept], _outcome(fit, y)[kept]
    gaps = dict(zip(names, ~np.isfinite(matrix.T), strict=True))
    complete, left_out, lacking = _complete(fit, {**gaps, y if isinstance(y, str) else "y": _gaps(outcome)}, missing)
    rows = kept[complete]
    features = native if len(rows) == len(fit) else take(native, rows)
    matrix[~complete] = 0.0
    return Design(features, matrix, names, _filled(outcome, complete), complete, None, left_out, lacking)


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
    inside = fit.solved.memory.inside
    asked = fit.solved.memory.kept.of(np.ones(len(fit), bool) if inside is None else inside)
    counts = {name: int((own & asked).sum()) for name, own in gaps.items() if (own & asked).any()}
    complete = asked & ~np.any(list(gaps.values()), axis=0)
    left_out, said = int((asked & ~complete).sum()), _counted(counts)
    if counts and missing == "refuse":
        raise MissingValuesError(
            f"{number_of_rows(left_out)} have missing or infinite values: {said}. Fill them in, or write missing="
            "'drop' to leave these rows out; the model then describes the part of the population that has them all.",
            columns=counts,
        )
    if not complete.any():
        raise MissingValuesError(f"No row has all values: {said} are missing. Leave a feature out.", columns=counts)
    return complete, left_out, counts


def _filled(outcome: np.ndarray, complete: NDArray[np.bool_]) -> np.ndarray:
    """Return outcomes, with that of another row for rows that are left out."""
    return outcome[np.where(complete, np.arange(len(outcome)), np.argmax(complete))]


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} ({count})" for name, count in counts.items())


# ---------------------------------------------------------------- formulas


def _of_formula(fit: WeightedSample, formula: str, y: Outcome, missing: Missing) -> Design:
    """Return the design of a formula: on its left anything that y may be, on its right formulaic's language."""
    left, right = (side.strip() for side in formula.split("~", 1))
    left = left[1:-1] if re.fullmatch("`[^`]+`", left) else left
    if bool(left) == (y is not None):
        raise MismatchError(
            f"The formula {formula!r} has {'an' if left else 'no'} outcome, and y is {'given' if left else 'not'}. "
            "Give the outcome once, on the left of the formula."
        )
    try:
        import formulaic
        import pandas
    except ImportError as error:
        raise ImportError("Formulas need formulaic: pip install 'vardi[formula]'. Or give X and y.") from error
    kept = fit.solved.memory.kept
    columns = {name: kept.of(values) for name, values in _columns_in(fit, right).items()}
    outcome = kept.of(_outcome(fit, left or y))
    gaps = {name: _gaps(values) for name, values in columns.items()}
    complete, left_out, lacking = _complete(fit, {**gaps, left or "y": _gaps(outcome)}, missing)
    rows = range(int(complete.sum()))  # a formula of the intercept alone has no columns to count them by
    frame = pandas.DataFrame({name: values[complete] for name, values in columns.items()}, index=rows)
    for name in columns:
        order = fit.solved.pool.frames_of(fit.solved.states)[0].categories(name)
        if order is not None:
            there = set(frame[name])
            frame[name] = pandas.Categorical(frame[name], [value for value in order if value in there])
    with _answering(formula, [name for own in fit.solved.pool.frames for name in own.columns]):
        terms = formulaic.Formula(right)
        found = terms.get_model_matrix(frame, context={"np": np}, output="pandas", na_action="ignore")
    intercept = INTERCEPT in found.columns
    features = pandas.DataFrame(found).drop(columns=INTERCEPT, errors="ignore").astype(np.float64)
    _require_finite(features)
    matrix = np.zeros((len(complete), len(features.columns)))
    matrix[complete] = features.to_numpy()
    names = tuple(map(str, features.columns))
    return Design(features, matrix, names, _filled(outcome, complete), complete, intercept, left_out, lacking)


@contextmanager
def _answering(formula: str, known: Sequence[str]) -> Iterator[None]:
    """Turn formulaic's exceptions into vardi's errors."""
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"):  # values that are not finite are found by the checks below
            yield
    except FormulaicError as error:
        first = re.sub(r"\x1b?\[[\d;]*m|[⧛⧚]", "", str(error)).strip().splitlines()[0]
        name = UNKNOWN.search(str(error))
        if name is None:
            raise MismatchError(
                f"The formula {formula!r} cannot be read: {first.rstrip('.')}. Write it in the language of formulaic, "
                "such as 'y ~ x + C(region)'."
            ) from error
        raise MismatchError(
            f"The formula {formula!r} has {name[1]!r}, which is not a column of every sample. The columns are "
            f"{show(dict.fromkeys(known))}.{suggest(name[1], known)}"
        ) from error


def _columns_in(fit: WeightedSample, text: str) -> dict[str, np.ndarray]:
    """Return the columns of the pool that a text mentions."""
    pool, states = fit.solved.pool, fit.solved.states
    frames = pool.frames_of(states)
    there = [name for name in _names_in(text) if frames and all(name in frame.columns for frame in frames)]
    return {name: np.asarray(pool.column(name, states)) for name in there}


def _names_in(text: str) -> list[str]:
    return list(dict.fromkeys(quoted or plain for quoted, plain in NAME.findall(QUOTED.sub("", text))))


def _require_finite(features: pandas.DataFrame) -> None:
    """Refuse terms of a formula that are not finite on some rows, such as the logarithm of 0."""
    counts = {str(name): int(np.count_nonzero(~np.isfinite(features[name]))) for name in features.columns}
    bad = {name: count for name, count in counts.items() if count}
    if bad:
        raise MissingValuesError(
            f"Terms of the formula are infinite or not numbers on some rows: {_counted(bad)}. Write terms that are "
            "finite on all rows.",
            columns=bad,
        )


# ---------------------------------------------------------------- arrays and columns


def _features(fit: WeightedSample, X: Features, missing: Missing) -> tuple[Rows, Floats, tuple[str, ...]]:
    """Return the features as the model sees them, as a matrix, and their names."""
    if isinstance(X, list | tuple) and X and all(isinstance(name, str) for name in X):
        return _of_pool(fit, X, missing)
    if is_sparse(X):
        native, matrix, names = X, X.toarray(), None
    elif _is_frame(X):
        frame = as_frame(X)
        native, names = X, frame.columns
        matrix = _matrix([frame.column(name) for name in names], names)
    else:
        native = matrix = np.asarray(X)
        names = None
    if matrix.ndim != 2 or len(matrix) != len(fit) or not matrix.shape[1]:
        raise MismatchError(
            f"X has shape {matrix.shape}, but the pool has {len(fit)} rows. Give a matrix or frame with a row for "
            "each, in pool order, a list of columns of the pool, or a formula."
        )
    names = tuple(f"x{j}" for j in range(matrix.shape[1])) if names is None else names
    return native, _matrix(list(matrix.T), names), tuple(names)


def _of_pool(fit: WeightedSample, names: Sequence[str], missing: Missing) -> tuple[Rows, Floats, tuple[str, ...]]:
    """Return columns of the pool, in the user's library if it has named columns."""
    matrix = np.column_stack([_column(fit, name, missing) for name in names])
    whole = fit.solved.pool.whole()
    native: Rows = matrix
    if whole is not None and _is_frame(whole.native) and all(name in whole.columns for name in names):
        native = nw.from_native(whole.native).select(*names).to_native()
    return native, matrix, tuple(names)


def _column(fit: WeightedSample, name: str, missing: Missing = "refuse") -> Floats:
    if missing == "drop" and name in (columns := _columns_in(fit, f"`{name}`")):
        return _matrix([columns[name]], [name])[:, 0]
    return np.asarray(fit.solved.memory.kept.spread(fit.solved.memory.values(name)))


def _outcome(fit: WeightedSample, y: Outcome) -> np.ndarray:
    """Return the outcome of every row of the pool: numbers or labels."""
    pool, states = fit.solved.pool, fit.solved.states
    if isinstance(y, str) and pool.frames and all(y in frame.columns for frame in pool.frames_of(states)):
        values = np.asarray(pool.column(y, states))
    elif isinstance(y, str):
        values = _column(fit, y)
    else:
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


def _is_frame(X: object) -> TypeGuard[IntoDataFrame]:
    return not isinstance(X, np.ndarray | list | tuple) and hasattr(X, "columns")


def _matrix(columns: Sequence[np.ndarray], names: Sequence[str]) -> Floats:
    for column, name in zip(columns, names, strict=True):
        if column.dtype.kind not in "fiub":
            raise MismatchError(
                f"Feature {name!r} holds {column.dtype}, but a linear model needs numbers. Encode it as numbers, "
                f"one column for each category, or write a formula, such as 'y ~ {name}', which does."
            )
    return np.column_stack([np.asarray(column, np.float64) for column in columns])
