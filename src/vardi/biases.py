r"""Biasing functions as values.

A bias :math:`\omega(z) \ge 0` says how much likelier a unit :math:`z` is to enter a sample, up to a constant. Most are
expressions: they compare by value, can be joined, and have a text form that reads back.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vardi._arrays import as_array, as_numbers
from vardi._expressions.families import Family, Kind
from vardi._expressions.nodes import (
    Call,
    Column,
    Comparison,
    Constant,
    IsIn,
    Node,
    Not,
    Product,
    arithmetic,
    columns,
    conjunction,
    disjunction,
    is_condition,
    to_text,
)
from vardi._expressions.parse import parse, parse_bias
from vardi.errors import InvalidBiasError, MismatchError, suggest

__all__ = [
    "Bias",
    "ExpressionBias",
    "FunctionBias",
    "FunctionFamily",
    "ParametricBias",
    "ProductBias",
    "ValuesBias",
    "as_bias",
    "at_most",
    "between",
    "class_shift",
    "everywhere",
    "exponential_tilt",
    "isin",
    "logistic",
    "parametric",
    "power",
    "proportional_to",
    "steps",
    "where",
]


class Bias(ABC):
    """How much likelier a unit is to enter a sample, up to a constant.

    Biases multiply with ``*``, by each other and by numbers; those that are conditions also join with ``&``, ``|``
    and ``~``. ``str(bias)`` is the text form.

    Attributes
    ----------
    columns : tuple of str
        The columns that the bias reads; empty where that is not known.
    """

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty where that is not known."""

    @abstractmethod
    def __str__(self) -> str: ...

    def __mul__(self, other: object) -> Bias:
        if not isinstance(other, Bias | int | float | np.number):
            return NotImplemented
        return _product(self, as_bias(other))

    def __rmul__(self, other: object) -> Bias:
        if not isinstance(other, int | float | np.number):
            return NotImplemented
        return _product(as_bias(other), self)

    def __and__(self, other: object) -> Bias:
        if not isinstance(other, Bias):
            return NotImplemented
        return ExpressionBias(conjunction([_condition(self, "&"), _condition(other, "&")]))

    def __or__(self, other: object) -> Bias:
        if not isinstance(other, Bias):
            return NotImplemented
        return ExpressionBias(disjunction([_condition(self, "|"), _condition(other, "|")]))

    def __invert__(self) -> Bias:
        return ExpressionBias(Not(_condition(self, "~")))

    __array_ufunc__ = None  # so that np.float64(2) * bias is left to us


@dataclass(frozen=True, repr=False)
class ExpressionBias(Bias):
    """A bias that is an expression of the columns; `where` makes it from text."""

    node: Node

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty where that is not known."""
        return columns(self.node)

    def __str__(self) -> str:
        return to_text(self.node)

    def __repr__(self) -> str:
        return "everywhere()" if self == everywhere() else f"where({str(self)!r})"


@dataclass(frozen=True)
class FunctionBias(Bias):
    """A bias that is a function of the rows, called with what the user gave as rows."""

    function: Callable[[Any], Any]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty where that is not known."""
        return ()

    def __str__(self) -> str:
        return f"<function {getattr(self.function, '__name__', type(self.function).__name__)}>"


@dataclass(frozen=True, eq=False)
class ValuesBias(Bias):
    """A bias given by its values, one for each row of the pool; equal only to itself."""

    values: np.ndarray

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty where that is not known."""
        return ()

    def __str__(self) -> str:
        return f"<array of {len(self.values)} values>"

    __repr__ = __str__


@dataclass(frozen=True)
class ProductBias(Bias):
    """The product of biases of which at least one is no expression."""

    factors: tuple[Bias, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty where that is not known."""
        return tuple(dict.fromkeys(name for factor in self.factors for name in factor.columns))

    def __str__(self) -> str:
        return " * ".join(
            f"({factor})" if isinstance(factor, ExpressionBias) else str(factor) for factor in self.factors
        )


@dataclass(frozen=True)
class FunctionFamily:
    """A bias that is a function of the rows and of parameters; `parametric` makes it.

    Attributes
    ----------
    function : callable
        Of (rows, theta), which returns omega.
    start : tuple of tuple of float
        Where the estimation starts: one point or several.
    names : tuple of str
        The names of the parameters.
    gradient : callable or None
        Of (rows, theta), which returns the derivatives of omega, of shape (n, p).
    """

    function: Callable[[Any, np.ndarray], Any]
    start: tuple[tuple[float, ...], ...]
    names: tuple[str, ...]
    gradient: Callable[[Any, np.ndarray], Any] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """What is not known."""
        return ()

    def at(self, theta: np.ndarray) -> FunctionBias:
        """Return the bias at some value of the parameters."""
        return FunctionBias(partial(_at, self.function, theta))

    def __str__(self) -> str:
        return (
            f"<function {getattr(self.function, '__name__', type(self.function).__name__)} of {', '.join(self.names)}>"
        )


def _at(function: Callable[[Any, np.ndarray], Any], theta: np.ndarray, rows: Any) -> Any:
    return function(rows, theta.copy())


@dataclass(frozen=True, repr=False)
class ParametricBias(Bias):
    """A bias that is known up to parameters, which :func:`vardi.debias` estimates from the samples.

    Attributes
    ----------
    family : Family or FunctionFamily
        What depends on the parameters.
    known : Bias
        The factor that does not.
    """

    family: Family | FunctionFamily
    known: Bias

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the bias reads; empty where that is not known."""
        return tuple(dict.fromkeys((*self.known.columns, *self.family.columns)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self.family.names

    def at(self, theta: Mapping[str, float] | Iterable[float]) -> Bias:
        """Return the bias with its parameters fixed: a known one.

        Parameters
        ----------
        theta : mapping from name to number, or sequence of numbers
            A value for each parameter, by name or in the order of ``names``.

        Examples
        --------
        >>> import vardi
        >>> vardi.logistic("age").at({"intercept": -1, "age": 0.05})
        where('1 / (1 + exp(1.0 + -0.05 * age))')
        >>> vardi.power("length").at([2])
        where('length ** 2.0')
        """
        values = [float(value) for value in self._given(theta)]
        if not all(math.isfinite(value) for value in values):
            raise InvalidBiasError(f"The parameters {values} of {self} are not all finite.", sample="")
        if isinstance(self.family, FunctionFamily):
            return _product(self.known, self.family.at(np.array(values)))
        return _product(self.known, ExpressionBias(self.family.node(values)))

    def _given(self, theta: Any) -> list[Any]:
        if not isinstance(theta, Mapping):
            values = list(theta)
            if len(values) == len(self.names):
                return values
        elif set(theta) == set(self.names):
            return [theta[name] for name in self.names]
        got = list(theta)
        raise MismatchError(
            f"The parameters of {self} are {', '.join(map(repr, self.names))}, and here are {got}. Give a number for "
            "each.",
            expected=self.names,
            got=got,
        )

    def __str__(self) -> str:
        if self.known == everywhere():
            return str(self.family)
        atom = isinstance(self.known, ExpressionBias) and isinstance(self.known.node, Constant | Column | Call)
        return f"{self.known} * {self.family}" if atom else f"({self.known}) * {self.family}"

    def __repr__(self) -> str:
        return str(self) if isinstance(self.family, FunctionFamily) else f"where({str(self)!r})"


def _product(left: Bias, right: Bias) -> Bias:
    if left == everywhere():
        return right
    if right == everywhere():
        return left
    if isinstance(left, ParametricBias) or isinstance(right, ParametricBias):
        return _parametric_product(left, right)
    if isinstance(left, ExpressionBias) and isinstance(right, ExpressionBias):
        if isinstance(right.node, Product):  # a * (b * c) is written a * b * c
            node = arithmetic(left.node, "*", right.node.first)
            for sign, factor in right.node.rest:
                node = arithmetic(node, sign, factor)
            return ExpressionBias(node)
        return ExpressionBias(arithmetic(left.node, "*", right.node))
    parts = [bias.factors if isinstance(bias, ProductBias) else (bias,) for bias in (left, right)]
    return ProductBias((*parts[0], *parts[1]))


def _parametric_product(left: Bias, right: Bias) -> Bias:
    if isinstance(left, ParametricBias) and isinstance(right, ParametricBias):
        raise InvalidBiasError(
            f"Both {left} and {right} have parameters, and a bias has one such factor. Name all columns in one family, "
            "or write the product as a function for vardi.parametric.",
            sample="",
        )
    if isinstance(left, ParametricBias):
        return ParametricBias(left.family, _product(left.known, right))
    assert isinstance(right, ParametricBias)
    return ParametricBias(right.family, _product(left, right.known))


def _condition(bias: Bias, sign: str) -> Node:
    if not isinstance(bias, ExpressionBias) or is_condition(bias.node) is False:
        raise InvalidBiasError(
            f"{sign} joins conditions, and the bias {bias} is none. Use * to multiply factors.", sample=""
        )
    return bias.node


def everywhere() -> Bias:
    r"""Return the bias of a sample drawn from the population itself, :math:`\omega(z) = 1`.

    Examples
    --------
    >>> import vardi.biases as biases
    >>> str(biases.everywhere())
    '1'
    """
    return ExpressionBias(Constant(1))


def where(text: str) -> Bias:
    r"""Return the bias of an expression, :math:`\omega(z) = \mathbb{1}\{z \text{ fulfils it}\}` for a condition.

    Parameters
    ----------
    text : str
        A condition or a number: column names (in backticks where they are no plain words), numbers, texts, ``True``
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
        raise InvalidBiasError(f"where takes an expression in text, not {type(text).__name__}: {text!r}.", sample="")
    node, family = parse_bias(text)
    known = everywhere() if node is None else ExpressionBias(node)
    return known if family is None else ParametricBias(family, known)


def proportional_to(column: str) -> Bias:
    r"""Return the bias of sampling in proportion to a column (length or size bias), :math:`\omega(z) = z_c`.

    Examples
    --------
    >>> from vardi.biases import proportional_to
    >>> proportional_to("length")
    where('length')
    """
    return ExpressionBias(_column(column))


def between(column: str, low: float | str, high: float | str) -> Bias:
    r"""Return the bias of sampling within closed bounds, :math:`\omega(z) = \mathbb{1}\{l \le z_c \le h\}`.

    Parameters
    ----------
    column : str
        The name of the column.
    low, high : number or str
        The bounds, both inside; for dates in ISO form.

    Examples
    --------
    >>> from vardi.biases import between, where
    >>> between("age", 20, 60)
    where('20 <= age <= 60')
    >>> between("age", 20, 60) == where("20 <= age <= 60")
    True
    """
    lower, upper = _constant(low, "low"), _constant(high, "high")
    if isinstance(lower.value, str) != isinstance(upper.value, str):
        raise InvalidBiasError(f"The bounds {low!r} and {high!r} are not of one kind.", sample="")
    if lower.value > upper.value:  # type: ignore[operator]
        raise InvalidBiasError(
            f"The lower bound {low!r} is above the upper bound {high!r}, so no row lies between. Swap them.", sample=""
        )
    return ExpressionBias(Comparison(lower, (("<=", _column(column)), ("<=", upper))))


def isin(column: str, values: Iterable[Any]) -> Bias:
    r"""Return the bias of sampling some groups only, :math:`\omega(z) = \mathbb{1}\{z_c \in V\}`.

    Examples
    --------
    >>> from vardi.biases import isin
    >>> isin("region", ["N", "W"])
    where("region in ('N', 'W')")
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidBiasError(f"isin takes a list of values, and got {values!r}. Write [{values!r}].", sample="")
    constants = tuple(_constant(value, "a value") for value in values)
    if not constants:
        raise InvalidBiasError(f"isin('{column}', []) holds on no row. Give at least one value.", sample="")
    if len({isinstance(constant.value, str) for constant in constants}) > 1:
        raise InvalidBiasError("The values mix numbers and texts, and a column holds one or the other.", sample="")
    return ExpressionBias(IsIn(_column(column), constants))


def at_most(column: str, tau: float | str) -> Bias:
    r"""Return the bias of sampling below a threshold (truncation), :math:`\omega(z) = \mathbb{1}\{z_c \le \tau\}`.

    Examples
    --------
    >>> from vardi.biases import at_most
    >>> at_most("time", 5.5)
    where('time <= 5.5')
    """
    return ExpressionBias(Comparison(_column(column), (("<=", _constant(tau, "tau")),)))


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
        raise InvalidBiasError("All factors are zero, so nothing could be sampled. Give one above zero.", sample="")
    node: Node | None = None
    for label, factor in factors.items():
        chosen = Comparison(_column(column), (("==", _constant(label, "a class")),))
        term = arithmetic(_constant(factor, "a factor"), "*", chosen)
        node = term if node is None else arithmetic(node, "+", term)
    assert node is not None
    return ExpressionBias(node)


def logistic(*columns: str) -> ParametricBias:
    r"""Return the bias of logistic selection, whose intercept and slopes are to be estimated.

    .. math:: \omega(z) = \frac{1}{1 + e^{-\alpha - \beta'z}}

    The intercept is a parameter too: no normaliser makes up for it, since it says how near to 1 the curve comes.

    Parameters
    ----------
    *columns : str
        Columns, or expressions of them; a name that is no plain word stands in backticks.

    Examples
    --------
    >>> import vardi
    >>> bias = vardi.logistic("age", "log(income)")
    >>> str(bias), bias.names
    ('logistic(age, log(income))', ('intercept', 'age', 'log(income)'))
    """
    return _of_family("logistic", columns)


def exponential_tilt(*columns: str) -> ParametricBias:
    r"""Return the bias :math:`\omega(z) = e^{\theta'z}`, whose tilt :math:`\theta` is to be estimated.

    It is what logistic selection is where selection is rare. There is no intercept: it would be a part of the
    normaliser.

    Parameters
    ----------
    *columns : str
        Columns, or expressions of them; a name that is no plain word stands in backticks.

    Examples
    --------
    >>> import vardi
    >>> str(vardi.exponential_tilt("x", "x ** 2"))
    'exponential_tilt(x, x ** 2)'
    """
    return _of_family("exponential_tilt", columns)


def power(column: str) -> ParametricBias:
    r"""Return the bias :math:`\omega(z) = z_c^\theta`, whose exponent is to be estimated; the column is positive.

    Examples
    --------
    >>> import vardi
    >>> str(vardi.power("length").at({"exponent": 1}))
    'length ** 1.0'
    """
    return _of_family("power", (column,))


def steps(column: str, cuts: Iterable[float]) -> ParametricBias:
    r"""Return a bias that is constant between cuts, :math:`\omega(z) = e^{\theta_j}` in interval j.

    The first interval, below all cuts, is what the others are compared with: there the bias is 1. A cut belongs to the
    interval above it.

    Parameters
    ----------
    column : str
        A column or an expression.
    cuts : iterable of numbers
        In rising order.

    Examples
    --------
    >>> import vardi
    >>> vardi.steps("age", [30, 60]).names
    ('30 <= age < 60', 'age >= 60')
    """
    if not isinstance(cuts, Iterable):
        raise InvalidBiasError(f"The cuts of steps are a list of numbers, and here they are {cuts!r}.", sample="")
    values = [_constant(cut, "a cut").value for cut in cuts]
    if any(isinstance(value, bool | str) for value in values):
        raise InvalidBiasError(f"The cuts of steps are numbers, and here they are {values}.", sample="")
    return _of_family("steps", (column,), tuple(value for value in values if isinstance(value, int | float)))


def parametric(
    function: Callable[[Any, np.ndarray], Any],
    start: Any,
    names: Iterable[str] | None = None,
    *,
    gradient: Callable[[Any, np.ndarray], Any] | None = None,
) -> ParametricBias:
    """Return a bias that is any function of the rows and of parameters, which are to be estimated.

    Parameters
    ----------
    function : callable
        Of (rows, theta): gets the rows as they were given and an array of p numbers, and returns omega, zero or more,
        for each row. Which rows have omega = 0 must not depend on theta.
    start : array of shape (p,) or (s, p)
        Where the search for theta starts. Where the likelihood may have several maxima give several starts.
    names : iterable of str, optional
        Names of the parameters; "theta0", "theta1", ... by default.
    gradient : callable, optional
        Of (rows, theta): the derivatives of omega, of shape (n, p). By default they are differences of the function.

    Examples
    --------
    >>> import numpy as np
    >>> import vardi
    >>> bias = vardi.parametric(lambda rows, theta: np.exp(theta[0] * rows), start=[0.0], names=["tilt"])
    >>> bias.names
    ('tilt',)
    """
    if not callable(function):
        raise InvalidBiasError(f"parametric takes a function of (rows, theta), not {function!r}.", sample="")
    points = np.atleast_2d(np.asarray(start, np.float64))
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise InvalidBiasError(
            f"start is {start!r}. Give a finite number for each parameter, or several such rows.", sample=""
        )
    count = points.shape[1]
    named = tuple(f"theta{j}" for j in range(count)) if names is None else tuple(str(name) for name in names)
    if len(named) != count or len(set(named)) != count:
        raise MismatchError(
            f"{len(named)} names ({', '.join(named)}) for {count} parameters. Give each its own.",
            expected=range(count),
            got=named,
        )
    rows = tuple(tuple(row) for row in points.tolist())
    return ParametricBias(FunctionFamily(function, rows, named, gradient), everywhere())


def _of_family(kind: Kind, texts: Iterable[str], cuts: tuple[float, ...] = ()) -> ParametricBias:
    nodes = []
    for text in texts:
        if not isinstance(text, str):
            raise InvalidBiasError(f"{kind} reads columns, named by texts, and not {text!r}.", sample="")
        nodes.append(parse(text))
    return ParametricBias(Family(kind, tuple(nodes), cuts), everywhere())


def _by_class(numbers: Any, what: str) -> dict[Any, float]:
    """Return a mapping (also a pandas Series) as a dictionary whose values are finite and not negative."""
    if not hasattr(numbers, "keys") or not len(numbers):
        raise InvalidBiasError(f"{what} maps each class to a number, and got {numbers!r}.", sample="")
    found = {label: numbers[label] for label in numbers.keys()}  # noqa: SIM118, as a Series iterates over its values
    for label, value in found.items():
        if not isinstance(value, int | float | np.number) or not math.isfinite(value) or value < 0:
            raise InvalidBiasError(
                f"Class {label!r} has {value!r} in {what}. Give a finite number that is not negative.", sample=""
            )
    return found


def _ratios(shares: dict[Any, float], population: dict[Any, float]) -> dict[Any, float]:
    if set(shares) != set(population):
        stranger = next(iter(set(shares) - set(population)), "")
        raise MismatchError(
            f"The classes of the sample are {list(shares)}, those of the population {list(population)}. "
            f"Give each class a share in both.{suggest(stranger, population)}",
            expected=population,
            got=shares,
        )
    absent = [label for label, share in population.items() if share == 0]
    if absent:
        raise InvalidBiasError(
            f"Class {absent[0]!r} has no share of the population, so no factor can describe it. Leave it out.",
            sample="",
        )
    return {label: share / population[label] for label, share in shares.items()}


def _column(name: object) -> Column:
    if not isinstance(name, str):
        raise InvalidBiasError(f"A column is named by a text, not by {type(name).__name__}: {name!r}.", sample="")
    return Column(str(name))


def _constant(value: Any, what: str) -> Constant:
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "isoformat"):  # dates and times are written as ISO texts
        value = value.isoformat()
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return Constant(kind(value))
    raise InvalidBiasError(f"{what} must be a number or a text, not {type(value).__name__}: {value!r}.", sample="")


def as_bias(obj: object) -> Bias:
    """Return a number, an expression in text, a bias, a function of the rows or an array of values as a `Bias`.

    Examples
    --------
    >>> from vardi.biases import as_bias
    >>> as_bias("price <= 22")
    where('price <= 22')
    >>> as_bias(1)
    everywhere()
    >>> as_bias([0.5, 1.0, 2.0])
    <array of 3 values>
    """
    if isinstance(obj, Bias):
        return obj
    if isinstance(obj, str):
        return where(obj)
    if isinstance(obj, bool | int | float | np.bool | np.number):
        return ExpressionBias(_constant(obj, "A bias"))
    if callable(obj):
        return FunctionBias(obj)
    if isinstance(obj, list | tuple | np.ndarray) or hasattr(obj, "__array__"):
        return ValuesBias(_values(obj))
    raise InvalidBiasError(
        f"A bias cannot be a {type(obj).__name__}. Give a number, an expression in text, a Bias, a function of the "
        "rows, or an array of values for the pool.",
        sample="",
    )


def _values(obj: Any) -> np.ndarray:
    values = as_array(obj, "A bias")
    if values.ndim != 1:
        raise InvalidBiasError(f"The values of a bias stand in one dimension, and these have {values.ndim}.", sample="")
    numbers = as_numbers(values)
    if numbers is None:
        raise InvalidBiasError(f"The values of a bias are numbers, and these are {values.dtype}.", sample="")
    return numbers
