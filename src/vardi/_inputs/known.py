r"""What is known of the population, as the user gives it -> Known: functions h, the values of their means, and errors.

A mean, a share, a margin and a normaliser are all one thing, :math:`E_P\,h_j(z) = \tau_j`: h is a column or an
expression, a condition, one condition for each value of a column, or the bias of a sample.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

import numpy as np
import scipy

from vardi._inputs.by_row import shared_names
from vardi._inputs.frames import Frame
from vardi._inputs.given import bias_of
from vardi._inputs.pool import Name, Pool
from vardi._types import Floats
from vardi.biases import Bias, ExpressionBias, ParametricBias, as_bias
from vardi.biases._nodes import Column, IsIn, constant, is_condition
from vardi.biases._values import as_numbers, is_missing
from vardi.errors import ExpressionError, InvalidKnownError, MismatchError, MissingValuesError, number_of_rows, suggest
from vardi.errors._refusals import no_labels
from vardi.errors._texts import shortened, show

ROUNDING = 1e-5  # how far the sum of a margin's shares may be from 1: printed shares are rounded

FORMS = "Name a sample, or write a condition or an expression of the columns."

Function: TypeAlias = Bias | int
Kind: TypeAlias = Literal["number", "condition", "other"]
Scale: TypeAlias = Literal["number", "share", "normaliser"]


class HasCovariance(Protocol):
    """Values that were estimated together, such as :class:`~vardi.Estimates`."""

    @property
    def values(self) -> Floats: ...
    @property
    def covariance(self) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Known:
    r"""Known means of the population, :math:`E_P\,h_j = \tau_j`, and how well they are known.

    Attributes
    ----------
    labels : tuple of str
        The name of each function: "age", "x > 4", "region = N", "panel".
    functions : tuple of Bias or int
        :math:`h_j`: what is evaluated on rows, or the position of the state whose declared bias it is.
    values : ndarray of shape (m,)
        :math:`\tau_j`.
    covariance : ndarray of shape (m, m)
        V, the covariance of the values' errors; zero where they are exact.
    margins : tuple of (str, slice)
        Each column whose values all have a share, and the places of their functions; these shares sum to 1.
    """

    labels: tuple[str, ...]
    functions: tuple[Function, ...]
    values: Floats
    covariance: Floats
    margins: tuple[tuple[str, slice], ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def stderr(self) -> Floats:
        """The standard error of each value; zero if it is exact."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def exact(self) -> bool:
        """Whether no value has an error."""
        return not self.covariance.any()

    def margin_of(self, j: int) -> tuple[str, bool | float | str] | None:
        """Return the column and the value whose share function j is in a margin; None if it is in no margin."""
        for column, place in self.margins:
            if place.start <= j < place.stop:
                h = self.functions[j]
                assert isinstance(h, ExpressionBias)
                assert isinstance(h.node, IsIn)
                return column, h.node.values[0].value
        return None

    def moving(self, parametric: Container[int]) -> dict[int, int]:
        """Return the places of the functions that are a bias with parameters, with that bias."""
        return {j: h for j, h in enumerate(self.functions) if isinstance(h, int) and h in parametric}

    @property
    def states(self) -> tuple[int, ...]:
        """The positions of the states whose biases are among the functions."""
        return tuple(h for h in self.functions if isinstance(h, int))


NOTHING_KNOWN = Known((), (), np.empty(0), np.empty((0, 0)))


class TableOfRows(Protocol):
    """What known values need of the rows."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that all samples have."""

    def rows_by_value(self, column: str) -> Mapping[Hashable, int]:
        """Return how many rows have each value of a column."""

    def kind(self, column: str) -> Kind:
        """Return whether a column holds numbers, truth values, or something that has no mean."""


class PoolTable:
    """The columns that all samples of a pool have."""

    def __init__(self, pool: Pool) -> None:
        self._frames = pool.frames
        self.columns = shared_names([frame.columns for frame in pool.frames])

    def rows_by_value(self, column: str) -> Mapping[Hashable, int]:
        """Return how many rows have each value of a column."""
        try:
            return Counter(_plain(value) for frame in self._frames for value in frame.column(column).tolist())
        except TypeError as error:
            raise no_labels(repr(column)) from error

    def kind(self, column: str) -> Kind:
        """Return whether a column holds numbers, truth values, or something that has no mean."""
        kinds = {_kind(frame, column) for frame in self._frames}
        return kinds.pop() if len(kinds) == 1 else "other" if "other" in kinds else "number"


def as_known(known: object, names: tuple[Name, ...], table: TableOfRows) -> Known:
    r"""Return what is known as functions, values and errors, those of a margin one after the other.

    Parameters
    ----------
    known : mapping
        From the name of a sample to the mean of its bias, on the scale on which it is declared; from a column, an
        expression as text or a :class:`~vardi.biases.Bias` to its mean, which for a condition is a share; from a column
        to a mapping (or a pandas Series) of its values to their shares; from a tuple of names, texts and biases, or
        within a margin of values, to an ``Estimates``. A value is a number, (value, standard error) or an ``Estimate``.
    names : tuple
        The states: samples, then those that were not sampled.
    table : TableOfRows
        The rows; without columns for a matrix of biases, whose known values are keyed by the names of its columns.

    Notes
    -----
    Errors of several values are independent. Within a margin they are _multinomial: the values with an error have
    correlations :math:`-\sqrt{p_j p_k / ((1-p_j)(1-p_k))}`, with p their shares of their sum; the sum is known, so its
    error is removed in proportion to p. An ``Estimates`` comes with its covariance.
    """
    if not _is_margin(known):
        raise MismatchError(
            f"known was given as {type(known).__name__}. Give a mapping: from the name of a sample, a column or a "
            "condition to its mean over the population, or from a column to the shares of its values."
        )
    pieces = [_piece(key, value, names, table) for key, value in known.items()]
    if not pieces:
        raise MismatchError("There are no known values. Give at least one, or leave known out.")
    margins: list[tuple[str, slice]] = []
    end = 0
    for piece in pieces:
        start, end = end, end + len(piece)
        margins += [(column, slice(start, end)) for column, _ in piece.margins]
    return Known(
        tuple(label for piece in pieces for label in piece.labels),
        tuple(function for piece in pieces for function in piece.functions),
        np.concatenate([piece.values for piece in pieces]),
        np.asarray(scipy.linalg.block_diag(*(piece.covariance for piece in pieces))),  # keys are independent
        tuple(margins),
    )


def known_biases(known: Mapping[Any, Any], names: Iterable[Name]) -> dict[str, Bias]:
    """Return the biases that known values evaluate on rows, by label; names of samples read nothing."""
    taken = set(names)
    biases: dict[str, Bias] = {}
    for key, value in known.items():
        if _is_margin(value):
            biases[str(key)] = ExpressionBias(Column(str(key)))
            continue
        for part in key if isinstance(key, tuple) and key not in taken else (key,):
            if isinstance(part, Bias) or (isinstance(part, str) and part not in taken):
                with suppress(ExpressionError):  # the name of a column need not be an expression
                    biases[str(part)] = as_bias(part)
    return biases


def _piece(key: Hashable, value: object, names: tuple[Name, ...], table: TableOfRows) -> Known:
    """Return what is known by one key: a margin, a value, or for a tuple several that were estimated together."""
    if _is_margin(value):
        return _margin(key, value, names, table)
    several = isinstance(key, tuple) and not _is_name(key, names)
    keys = key if isinstance(key, tuple) and several else (key,)
    labels = tuple(map(str, keys))
    functions = tuple(_function(one, names, table) for one in keys)
    scales = [_scale_of(function, label, table) for function, label in zip(functions, labels, strict=True)]
    if several:
        values, covariance = _estimates_of(value, labels)
    else:
        number, stderr = value_of(value, labels[0])
        values, covariance = np.array([number]), np.array([[stderr**2]])
    for number, label, scale in zip(values.tolist(), labels, scales, strict=True):
        _require_range(number, label, scale)
    return Known(labels, functions, values, covariance)


def _function(key: Hashable, names: tuple[Name, ...], table: TableOfRows) -> Function:
    """Return the function that a key stands for."""
    label = str(key)
    if not isinstance(key, Bias) and _is_name(key, names):
        if key in table.columns:
            raise MismatchError(
                f"known has {label!r}, which is both a sample and a column of the samples, so it is unclear whether "
                f"the mean of the sample's bias or that of the column is known. Write `{label}` in backticks for the "
                "column; for the sample give its bias itself as the key, or rename one of the two."
            )
        return names.index(key)
    if not isinstance(key, str | Bias) or not table.columns:
        wanted, remedy = "a condition or an expression of columns", FORMS
        if not table.columns:
            wanted = "a column of omega"
            remedy = "A matrix has no rows to evaluate: make the function a column of omega that no row was drawn from."
        raise MismatchError(
            f"known has {label!r}, which is neither a sample nor {wanted}. The samples are {show(names)}"
            f"{f', the columns {show(table.columns)}' if table.columns else ''}.{suggest(key, names)} {remedy}"
        )
    bias = bias_of(key, table.columns)
    if isinstance(bias, ParametricBias):
        raise InvalidKnownError(
            f"known has {label!r}, which has parameters, but a known mean is that of a single function. Name the "
            "sample whose bias it is, or fix the parameters with .at(...).",
            labels=[label],
        )
    strange = [name for name in bias.columns if name not in table.columns]
    if strange:
        reads = "" if label == strange[0] else f", which reads {strange[0]!r}"
        raise MismatchError(
            f"known has {label!r}{reads}: neither a sample nor a column of every sample. The samples are "
            f"{show(names)}, the columns {show(table.columns)}."
            f"{suggest(strange[0], [*names, *table.columns])} {FORMS}"
        )
    return bias


def _scale_of(function: Function, label: str, table: TableOfRows) -> Scale:
    """Return the scale of the mean of a function."""
    if isinstance(function, int):
        return "normaliser"
    if not isinstance(function, ExpressionBias):
        return "number"
    if isinstance(function.node, Column):
        kind = table.kind(function.node.name)
        if kind == "other":
            raise InvalidKnownError(
                f"known has one value for {label!r}, a column that does not hold numbers, so it has no mean. Give the "
                f"share of each of its values, known={{{label!r}: {{value: share, ...}}}}, or that of a condition.",
                labels=[label],
            )
        return "share" if kind == "condition" else "number"
    return "share" if is_condition(function.node) else "number"


def _margin(column: Hashable, margin: Mapping[Hashable, object], names: tuple[Name, ...], table: TableOfRows) -> Known:
    if column not in table.columns:
        sample = " It is a sample, whose known value is one number." if _is_name(column, names) else ""
        raise MismatchError(
            f"known has shares by value for {str(column)!r}, which is not a column of every sample. The columns are "
            f"{show(table.columns)}.{suggest(column, table.columns)}{sample}"
        )
    places, shares, covariance = _shares(str(column), margin)
    labels = tuple(f"{column} = {place}" for place in places)
    for label, share in zip(labels, shares.tolist(), strict=True):
        _require_range(share, label, "share")
    total = math.fsum(shares)
    if abs(total - 1.0) > ROUNDING:
        raise InvalidKnownError(
            f"The shares of {column!r} sum to {total:.6g}, but every member of the population has one of its values. "
            "Give shares that sum to 1; a share of one value alone is given as a condition.",
            labels=[str(column)],
        )
    _require_every_value(str(column), places, table.rows_by_value(str(column)))
    shares = shares / total
    if covariance.ndim == 1:
        covariance = _multinomial(str(column), places, shares, covariance)
    else:
        covariance = _without_sum(covariance, shares)
    functions = tuple(ExpressionBias(IsIn(Column(str(column)), (constant(place, "a value"),))) for place in places)
    return Known(labels, functions, shares, covariance, ((str(column), slice(0, len(labels))),))


def _shares(column: str, margin: Mapping[Hashable, object]) -> tuple[list[Hashable], Floats, Floats]:
    """Return the values of a margin, their shares, and the standard errors or the covariance of these."""
    items = [(_plain(place), share) for place, share in margin.items()]
    if len(items) == 1 and isinstance(items[0][0], tuple):
        places = [_plain(place) for place in items[0][0]]
        shares, covariance = _estimates_of(items[0][1], [f"{column} = {place}" for place in places])
    else:
        places = [place for place, _ in items]
        numbers = np.array([value_of(share, f"{column} = {place}") for place, share in items]).reshape(-1, 2)
        shares, covariance = numbers.T
    twice = [place for place, count in Counter(places).items() if count > 1]
    if twice:
        raise InvalidKnownError(
            f"The margin of {column!r} lists {twice[0]!r} more than once, so its share is ambiguous. List each "
            "value once.",
            labels=[f"{column} = {place}" for place in twice],
        )
    return places, shares, covariance


def _require_every_value(column: str, places: Sequence[Hashable], counts: Mapping[Hashable, int]) -> None:
    """Refuse rows without a value, and values of the pool that a margin does not list."""
    missing = sum(count for value, count in counts.items() if is_missing(value))
    if missing:
        raise MissingValuesError(
            f"The margin of {column!r} needs a value in every row, but {number_of_rows(missing)} of the pool have "
            "none. Fill them in, or give them a value of their own, with its share.",
            columns={column: missing},
        )
    listed = set(places)
    strange = [value for value in counts if value not in listed]
    if strange:
        raise InvalidKnownError(
            f"{number_of_rows(counts[strange[0]])} of the pool have {column} == {strange[0]!r}, which has no share. "
            f"The values with a share are {show(places)}.{suggest(strange[0], places)} Give every value that occurs "
            "its share.",
            labels=[f"{column} = {value}" for value in strange],
        )


def _is_margin(value: object) -> TypeGuard[Mapping[Hashable, object]]:
    return hasattr(value, "keys") and hasattr(value, "items")  # a pandas Series is not a Mapping


def _is_name(key: object, names: tuple[Name, ...]) -> bool:
    try:
        return key in names
    except (TypeError, ValueError):  # it cannot be compared with a name, so it is not one
        return False


def _plain(value: Hashable) -> Hashable:
    return value.item() if isinstance(value, np.generic) else value


def _kind(frame: Frame, column: str) -> Kind:
    values = frame.column(column)
    if values.dtype.kind == "O":
        there = np.array([value for value in values.tolist() if not is_missing(value)], object)
        if len(there) and all(isinstance(value, bool | np.bool) for value in there):
            return "condition"
        return "other" if as_numbers(there) is None else "number"
    return "condition" if values.dtype.kind == "b" else "number" if values.dtype.kind in "fiu" else "other"


def _multinomial(column: str, places: Sequence[Hashable], shares: Floats, stderr: Floats) -> Floats:
    """Return the covariance of shares that sum to 1, from their standard errors."""
    uncertain = np.flatnonzero(stderr)
    if len(uncertain) == 1:
        raise InvalidKnownError(
            f"In the margin of {column!r} only {places[uncertain[0]]!r} has a standard error. The shares sum to 1, so "
            "with all others exact it would be exact too. Give at least one other value its error, or none.",
            labels=[f"{column} = {places[uncertain[0]]}"],
        )
    covariance = np.zeros((len(shares), len(shares)))
    if len(uncertain):
        total = shares[uncertain].sum()
        p = shares[uncertain] / total if total > 0 else np.full(len(uncertain), 1.0 / len(uncertain))
        odds = np.sqrt(np.divide(p, 1.0 - p, out=np.zeros(len(p)), where=p < 1.0))
        correlation = -np.outer(odds, odds)
        np.fill_diagonal(correlation, 1.0)
        scaled = correlation * np.outer(stderr[uncertain], stderr[uncertain])
        covariance[np.ix_(uncertain, uncertain)] = _without_sum(scaled, p)
    return covariance


def _without_sum(covariance: Floats, shares: Floats) -> Floats:
    """Return the covariance of values divided by their sum."""
    project = np.eye(len(shares)) - np.outer(shares, np.ones(len(shares)))
    return np.asarray(project @ covariance @ project.T)


def _estimates_of(estimates: object, labels: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the values and the covariance of an Estimates, one for each label."""
    if not _is_estimates(estimates):
        raise InvalidKnownError(
            f"known has a tuple of keys, {show(labels)}, with {shortened(repr(estimates), 60)}. A tuple stands for "
            "values that were estimated together: give the Estimates that holds them all, or each key its own value.",
            labels=labels,
        )
    values, covariance = np.asarray(estimates.values, np.float64), np.asarray(estimates.covariance, np.float64)
    if len(values) != len(labels):
        raise MismatchError(
            f"known has {len(labels)} keys in a tuple, {show(labels)}, and {len(values)} estimates for them. Give one "
            "key for each estimate, in its order."
        )
    if not np.isfinite(values).all() or not np.isfinite(covariance).all():
        raise _no_error(show(labels))
    return values, (covariance + covariance.T) / 2.0


def value_of(known: object, label: str) -> tuple[float, float]:
    """Return a known value and its standard error, zero if it is exact."""
    if _is_estimates(known):
        raise InvalidKnownError(
            f"The known value of {label!r} was given as {len(known.values)} estimates. Use a tuple of what they "
            f"estimate as the key, ({label!r}, ...), or one of them as the value.",
            labels=[label],
        )
    pair: Sequence[object] = (known, 0)
    if hasattr(known, "value") and hasattr(known, "stderr"):
        pair = (known.value, known.stderr)
        if math.isnan(known.stderr):
            raise _no_error(repr(label))
    elif isinstance(known, tuple | list | np.ndarray) and len(known) == 2:
        pair = tuple(known)
    value, stderr = (_number(part) for part in pair)
    if value is None or stderr is None:
        raise InvalidKnownError(
            f"The known value of {label!r} is {shortened(repr(known), 60)}. Give a finite number, (value, standard "
            "error), or an Estimate; for a column whose values have shares, a mapping from value to share.",
            labels=[label],
        )
    if stderr < 0 or not math.isfinite(stderr * stderr):
        raise InvalidKnownError(
            f"The standard error of {label!r} is {stderr:g}. Give a finite number, zero or more; zero means that the "
            "value is exact.",
            labels=[label],
        )
    return value, stderr


def _require_range(value: float, label: str, scale: Scale) -> None:
    """Refuse a mean that no population has."""
    if scale == "share" and not 0.0 <= value <= 1.0:
        hint = f", {value / 100:g} for {value:g}%" if 1.0 < value <= 100.0 else ""
        raise InvalidKnownError(
            f"The share of {label!r} is {value:g}, but a share lies between 0 and 1. Give it as a fraction of the "
            f"population{hint}.",
            labels=[label],
            allowed={label: (0.0, 1.0)},
        )
    if scale == "normaliser" and value < 0.0:
        raise InvalidKnownError(
            f"The known value of {label!r} is {value:g}. It is the mean of that sample's bias over the population, and "
            "a bias is zero or more. Give the mean on the scale on which the bias is declared.",
            labels=[label],
            allowed={label: (0.0, math.inf)},
        )


def _no_error(labels: str) -> InvalidKnownError:
    return InvalidKnownError(
        f"The estimate known for {labels} has no standard error: its samples overlapped too little to give one. Give "
        "(value, standard error) with an error that you trust, or the value alone if it is exact.",
        labels=[labels],
    )


def _number(number: object) -> float | None:
    """Return a finite number, or None for anything else."""
    if not isinstance(number, bool) and isinstance(number, Real):
        with suppress(OverflowError):  # of a huge integer
            return float(number) if math.isfinite(number) else None
    return None


def _is_estimates(value: object) -> TypeGuard[HasCovariance]:
    """Return whether several values were estimated together."""
    return hasattr(value, "covariance") and hasattr(value, "values") and not hasattr(value, "keys")
