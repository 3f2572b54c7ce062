"""A known value: a number, (value, standard error) or an estimate -> value and error; and the errors of several."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Sequence
from typing import Literal, Protocol, TypeAlias, TypeGuard

import numpy as np

from vardi._types import Floats
from vardi.errors import InvalidKnownError, MismatchError
from vardi.errors._texts import shortened, show

Scale: TypeAlias = Literal["number", "share", "normaliser"]


class HasCovariance(Protocol):
    """Values that were estimated together, such as :class:`~vardi.Estimates`."""

    @property
    def values(self) -> Floats: ...
    @property
    def covariance(self) -> Floats: ...


def multinomial(column: str, places: Sequence[Hashable], shares: Floats, stderr: Floats) -> Floats:
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
        covariance[np.ix_(uncertain, uncertain)] = without_sum(scaled, p)
    return covariance


def without_sum(covariance: Floats, shares: Floats) -> Floats:
    """Return the covariance of values divided by their sum."""
    project = np.eye(len(shares)) - np.outer(shares, np.ones(len(shares)))
    return np.asarray(project @ covariance @ project.T)


def estimates_of(estimates: object, labels: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the values and the covariance of an Estimates, one for each label."""
    if not is_estimates(estimates):
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
    if is_estimates(known):
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


def require_range(value: float, label: str, scale: Scale) -> None:
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
    if isinstance(number, bool | np.bool) or not isinstance(number, numbers.Real):
        return None
    try:
        value = float(number)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def is_estimates(value: object) -> TypeGuard[HasCovariance]:
    """Return whether several values were estimated together."""
    return hasattr(value, "covariance") and hasattr(value, "values") and not hasattr(value, "keys")
