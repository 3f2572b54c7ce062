"""Known biases: what a user can write down about how a sample was collected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vardi.biases._expressions.families import total
from vardi.biases._expressions.nodes import Column, Comparison, IsIn, Scalar, arithmetic, column_named, constant
from vardi.biases._expressions.parse import OfRows, parse_bias
from vardi.biases._kinds import EVERYWHERE, Bias, ExpressionBias, ParametricBias
from vardi.biases._learned import LearnedBias
from vardi.biases._window import WindowBias, as_end
from vardi.errors import InvalidBiasError, MismatchError, suggest


def everywhere() -> Bias:
    r"""Return the bias of a sample drawn from the population itself, :math:`\omega(z) = 1`.

    Examples
    --------
    >>> import vardi.biases as biases
    >>> str(biases.everywhere())
    '1'
    """
    return EVERYWHERE


def where(text: str) -> Bias:
    r"""Return the bias of an expression, :math:`\omega(z) = \mathbb{1}\{z \text{ satisfies it}\}` for a condition.

    Parameters
    ----------
    text : str
        A condition or a number: column names (in backticks unless they are plain words), numbers, strings, ``True``
        and ``False``, comparisons and chains of them, ``and``, ``or``, ``not``, ``in`` and ``not in`` with a list,
        ``is missing``, ``is not missing``, ``+ - * / **`` and the functions abs, exp, log, max, min, sqrt. In
        arithmetic a condition counts as 0 or 1.

    Examples
    --------
    >>> from vardi.biases import where
    >>> where("price <= 22") & where("region in ['N', 'W']")
    where("price <= 22 and region in ('N', 'W')")
    >>> where("20 <= age < 60").columns
    ('age',)
    >>> 0.5 * where("`household size`")
    where('0.5 * `household size`')
    >>> where("(age > 20) * logistic(age)").names  # parameters that are to be estimated
    ('intercept', 'age')
    """
    if not isinstance(text, str):
        raise InvalidBiasError(f"where takes an expression as text, not {type(text).__name__}: {text!r}.")
    node, family = parse_bias(text)
    known = EVERYWHERE if node is None else ExpressionBias(node)
    if isinstance(family, OfRows):
        own = _of_rows(family)
        return own if node is None else known * own
    return known if family is None else ParametricBias(family, known)


def _of_rows(written: OfRows) -> Bias:
    """Return a bias that is determined by the rows; raise if its arguments are invalid."""
    kind, arguments = written.kind, written.arguments
    if kind == "window" and len(arguments) in (3, 4) and arguments[0] is not None:
        return WindowBias(arguments[0], as_end(arguments[1]), as_end(arguments[2]), *arguments[3:])
    columns = tuple(argument.name for argument in arguments if isinstance(argument, Column))
    if kind == "learned" and len(columns) == len(arguments):
        return LearnedBias(columns)
    wanted = {
        "window": "the column of the value and the two ends of its window, None for one that is open, such as "
        "window(age, entry, None)",
        "learned": "the columns that the selection may depend on, such as learned(age, region)",
    }
    raise InvalidBiasError(f"{kind} takes {wanted[kind]}.")


def proportional_to(column: str) -> Bias:
    r"""Return the bias of sampling in proportion to a column (length or size bias), :math:`\omega(z) = z_c`.

    Examples
    --------
    >>> from vardi.biases import proportional_to
    >>> proportional_to("length")
    where('length')
    """
    return ExpressionBias(column_named(column))


def between(column: str, low: Scalar, high: Scalar) -> Bias:
    r"""Return the bias of sampling within closed bounds, :math:`\omega(z) = \mathbb{1}\{l \le z_c \le h\}`.

    Parameters
    ----------
    column : str
        The name of the column.
    low, high : number or str
        The bounds, both inclusive; for dates in ISO form.

    Examples
    --------
    >>> from vardi.biases import between, where
    >>> between("age", 20, 60)
    where('20 <= age <= 60')
    >>> between("age", 20, 60) == where("20 <= age <= 60")
    True
    """
    lower, upper = constant(low, "low"), constant(high, "high")
    if isinstance(lower.value, str) != isinstance(upper.value, str):
        raise InvalidBiasError(f"The bounds {low!r} and {high!r} are of different types.")
    if lower.value > upper.value:  # type: ignore[operator]
        raise InvalidBiasError(
            f"The lower bound {low!r} is above the upper bound {high!r}, so no row lies between. Swap them."
        )
    return ExpressionBias(Comparison(lower, (("<=", column_named(column)), ("<=", upper))))


def isin(column: str, values: Iterable[Scalar]) -> Bias:
    r"""Return the bias of sampling only some groups, :math:`\omega(z) = \mathbb{1}\{z_c \in V\}`.

    Examples
    --------
    >>> from vardi.biases import isin
    >>> isin("region", ["N", "W"])
    where("region in ('N', 'W')")
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidBiasError(f"isin takes a list of values, but got {values!r}. Write [{values!r}].")
    constants = tuple(constant(value, "a value") for value in values)
    if not constants:
        raise InvalidBiasError(f"isin('{column}', []) is true of no row. Give at least one value.")
    if len({isinstance(constant.value, str) for constant in constants}) > 1:
        raise InvalidBiasError("The values mix numbers and strings, but a column holds one or the other.")
    return ExpressionBias(IsIn(column_named(column), constants))


def at_most(column: str, tau: Scalar) -> Bias:
    r"""Return the bias of sampling below a threshold (truncation), :math:`\omega(z) = \mathbb{1}\{z_c \le \tau\}`.

    Examples
    --------
    >>> from vardi.biases import at_most
    >>> at_most("time", 5.5)
    where('time <= 5.5')
    """
    return ExpressionBias(Comparison(column_named(column), (("<=", constant(tau, "tau")),)))


def class_shift(column: str, factors: Mapping[Any, float], population: Mapping[Any, float] | None = None) -> Bias:
    r"""Return the bias of a sample in which classes are over- or under-represented, :math:`\omega(z) = f_{z_c}`.

    Parameters
    ----------
    column : str
        The name of the column with the class.
    factors : mapping
        Each class with its factor. With ``population``, each class with its share in the sample.
    population : mapping, optional
        Each class with its share in the population: the factor is the sample's share over it.

    Examples
    --------
    >>> from vardi.biases import class_shift
    >>> class_shift("label", {"a": 0.3, "b": 0.7})
    where("0.3 * (label == 'a') + 0.7 * (label == 'b')")
    >>> str(class_shift("ill", {1: 0.5, 0: 0.5}, population={1: 0.125, 0: 0.875}))
    '4.0 * (ill == 1) + 0.5714285714285714 * (ill == 0)'
    """
    factors = _by_class(factors, "factors")
    if population is not None:
        factors = _ratios(factors, _by_class(population, "population"))
    if not any(factors.values()):
        raise InvalidBiasError("All factors are zero, so nothing could be sampled. Give one above zero.")
    name = column_named(column)
    classes = {label: Comparison(name, (("==", constant(label, "a class")),)) for label in factors}
    terms = [arithmetic(constant(factor, "a factor"), "*", classes[label]) for label, factor in factors.items()]
    return ExpressionBias(total(terms))


def _by_class(numbers: Mapping[Any, float], what: str) -> dict[Scalar, float]:
    """Return a mapping (also a pandas Series) as a dictionary whose values are finite and not negative."""
    if not hasattr(numbers, "keys") or not len(numbers):
        raise InvalidBiasError(f"{what} maps each class to a number, but got {numbers!r}.")
    found = {label: numbers[label] for label in numbers.keys()}  # noqa: SIM118, as a Series iterates over its values
    for label, value in found.items():
        if not isinstance(value, int | float | np.number) or not math.isfinite(value) or value < 0:
            raise InvalidBiasError(
                f"Class {label!r} has {value!r} in {what}. Give a finite number that is not negative."
            )
    return found


def _ratios(shares: Mapping[Scalar, float], population: Mapping[Scalar, float]) -> dict[Scalar, float]:
    if set(shares) != set(population):
        stranger = next(iter(set(shares) - set(population)), "")
        raise MismatchError(
            f"The classes of the sample are {list(shares)}, those of the population {list(population)}. "
            f"Give each class a share in both.{suggest(stranger, population)}"
        )
    absent = [label for label, share in population.items() if share == 0]
    if absent:
        raise InvalidBiasError(
            f"Class {absent[0]!r} has share 0 in the population, so it has no finite factor. Leave it out."
        )
    return {label: share / population[label] for label, share in shares.items()}
