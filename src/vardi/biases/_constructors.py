"""How users make biases: whatever they give as one, and a function for each way in which samples are collected."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from vardi.biases._kinds import (
    EVERYWHERE,
    Bias,
    ExpressionBias,
    FrameExpressionBias,
    FunctionBias,
    FunctionFamily,
    FunctionOfRows,
    ParametricBias,
    ValuesBias,
    WindowBias,
    library_of,
    number,
)
from vardi.biases._nodes import (
    Cells,
    Comparison,
    ExpressionFamily,
    IsIn,
    Node,
    Scalar,
    arithmetic,
    column_named,
    constant,
    total,
)
from vardi.biases._parse import parse, parse_bias
from vardi.biases._values import as_array, as_numbers
from vardi.errors import InvalidBiasError, MismatchError, suggest

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl

BiasLike: TypeAlias = (
    "Bias | str | float | np.number | np.bool | pl.Expr | nw.Expr | Callable[[Any], ArrayLike] | ArrayLike"
)
"""Anything that can be given as a bias."""


def as_bias(obj: BiasLike) -> Bias:
    """Return what a user gives as a bias as a `Bias`.

    Parameters
    ----------
    obj : number, str, Bias, expression, callable or array
        The same everywhere; an expression as text; a bias, which is returned; a Polars or narwhals expression; a
        function of the rows; or values, one for each row of the pool.

    Examples
    --------
    >>> from vardi.biases import as_bias
    >>> as_bias("price <= 22")
    where('price <= 22')
    >>> as_bias(1)
    everywhere()
    >>> as_bias([0.5, 1.0, 2.0])
    <array of 3 values>
    >>> import polars as pl
    >>> as_bias(pl.col("price") <= 22).columns
    ('price',)
    """
    if isinstance(obj, Bias):
        return obj
    if isinstance(obj, str):
        return where(obj)
    if isinstance(obj, int | float | np.bool | np.number):
        return number(obj)
    if library_of(obj) is not None:
        return FrameExpressionBias(obj)
    if callable(obj):
        return FunctionBias(obj)
    if isinstance(obj, list | tuple | np.ndarray) or hasattr(obj, "__array__"):
        return ValuesBias(_values(obj))
    raise InvalidBiasError(
        f"A bias cannot be a {type(obj).__name__}. Give a number, an expression as text, a Bias, a Polars or "
        "narwhals expression, a function of the rows, or an array of values for the pool."
    )


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
    return parse_bias(text)


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
    by_class = {label: numbers[label] for label in numbers.keys()}  # noqa: SIM118, as a Series iterates over its values
    for label, value in by_class.items():
        if not isinstance(value, int | float | np.number) or not math.isfinite(value) or value < 0:
            raise InvalidBiasError(
                f"Class {label!r} has {value!r} in {what}. Give a finite number that is not negative."
            )
    return by_class


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


def logistic(*columns: str) -> ParametricBias:
    r"""Return the bias of logistic selection, whose intercept and slopes are to be estimated.

    .. math:: \omega(z) = \frac{1}{1 + e^{-\alpha - \beta'z}}

    The intercept is a parameter too: the normaliser cannot absorb it, since it decides how close to 1 the curve comes.

    Parameters
    ----------
    *columns : str
        Columns, or expressions of them; a name that is not a plain word goes in backticks.

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

    Logistic selection is close to this where selection is rare. There is no intercept: the normaliser would absorb it.

    Parameters
    ----------
    *columns : str
        Columns, or expressions of them; a name that is not a plain word goes in backticks.

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

    The first interval, below all cuts, is the reference for the others: there the bias is 1. A cut belongs to the
    interval above it.

    Parameters
    ----------
    column : str
        A column or an expression.
    cuts : iterable of numbers
        In increasing order.

    Examples
    --------
    >>> import vardi
    >>> vardi.steps("age", [30, 60]).names
    ('30 <= age < 60', 'age >= 60')
    """
    if not isinstance(cuts, Iterable):
        raise InvalidBiasError(f"The cuts of steps must be a list of numbers, not {cuts!r}.")
    values = [constant(cut, "a cut").value for cut in cuts]
    if any(isinstance(value, bool | str) for value in values):
        raise InvalidBiasError(f"The cuts of steps must be numbers, not {values}.")
    return _of_family("steps", (column,), tuple(value for value in values if isinstance(value, int | float)))


def cells(*columns: str | Sequence[str]) -> ParametricBias:
    r"""Return a bias that is log-linear in categories, :math:`\log\omega(z) = \sum_c \theta_{c, z_c}`.

    There is a parameter for each value of a column except the most frequent one in the pool, which is the reference:
    main effects, as in raking. The values are known only from the rows, so the bias itself names just the columns; the
    parameters of a fit are named by values, such as ``region=N``. ``weigh`` refuses a new row with a value that no row
    of the fit has.

    Parameters
    ----------
    *columns : str or sequence of str
        Columns of text, numbers or booleans, or expressions of columns; a name that is not a plain word goes in
        backticks. A sequence of several crosses them: a parameter for each combination that occurs except the most
        frequent one.

    Examples
    --------
    >>> import vardi
    >>> vardi.cells("region", "sex")
    where('cells(region, sex)')
    >>> str(vardi.isin("region", ["N", "S"]) * vardi.cells(("region", "sex"), "age > 60"))
    "(region in ('N', 'S')) * cells((region, sex), age > 60)"

    With its parameters fixed it is a known bias. Each value has the log of its factor; others could not be drawn:

    >>> vardi.cells("sex").at({"sex": {"f": 0.0, "m": -0.5}})
    where("1.0 * (sex == 'f') + 0.6065306597126334 * (sex == 'm')")
    """
    groups = [(group,) if isinstance(group, str) else group for group in columns]
    if not all(isinstance(group, tuple | list) for group in groups):
        raise InvalidBiasError(f"cells reads columns, named by strings, not {columns}.")
    return ParametricBias(Cells(tuple(_terms("cells", group) for group in groups)))


def parametric(
    function: FunctionOfRows,
    start: ArrayLike,
    names: Iterable[str] | None = None,
    *,
    gradient: FunctionOfRows | None = None,
) -> ParametricBias:
    """Return a bias that is any function of the rows and of parameters, which are to be estimated.

    Parameters
    ----------
    function : callable
        A function of (rows, theta): it gets the rows as they were given and an array of p numbers, and returns omega,
        zero or more, for each row. Which rows have omega = 0 must not depend on theta.
    start : array of shape (p,) or (s, p)
        Where the search for theta starts. If the likelihood may have several maxima, give several starts.
    names : iterable of str, optional
        Names of the parameters; "theta0", "theta1", ... by default.
    gradient : callable, optional
        A function of (rows, theta) that returns the derivatives of omega, of shape (n, p). By default, finite
        differences.

    Examples
    --------
    >>> import numpy as np
    >>> import vardi
    >>> bias = vardi.parametric(lambda rows, theta: np.exp(theta[0] * rows), start=[0.0], names=["tilt"])
    >>> bias.names
    ('tilt',)
    """
    if not callable(function):
        raise InvalidBiasError(f"parametric takes a function of (rows, theta), not {function!r}.")
    points = np.atleast_2d(np.asarray(start, np.float64))
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise InvalidBiasError(f"start is {start!r}. Give a finite number for each parameter, or several such rows.")
    count = points.shape[1]
    named = tuple(f"theta{j}" for j in range(count)) if names is None else tuple(str(name) for name in names)
    if len(named) != count or len(set(named)) != count:
        raise MismatchError(f"{len(named)} names ({', '.join(named)}) for {count} parameters. Give each its own.")
    rows = tuple(tuple(row) for row in points.tolist())
    return ParametricBias(FunctionFamily(function, rows, named, gradient))


def window(x: str, low: str | float | None, high: str | float | None, *, status: str | None = None) -> WindowBias:
    r"""Return the bias of truncated data: a row was seen only if its value lay in its own window.

    .. math:: \omega_i(z) = \mathbb{1}\{u_i \le x(z) \le v_i\}

    Units outside their window left no trace. Otherwise windows are assumed to be independent of the values
    (*quasi-independence*), which ``fit.check_biases()`` tests. The weights are those of the nonparametric likelihood of
    Turnbull (1976) and Efron and Petrosian (1999); for left truncation alone these are the product-limit estimate of
    Lynden-Bell (1971).

    It can only be the bias of a single sample, and the fit has that one sample: ``fit.names`` is ``('seen',)``, and
    ``fit.omegas['seen']`` is the chance :math:`\alpha` that a unit of the population, with a window drawn from the
    population of windows, is seen. With :math:`\Omega_i = F[u_i, v_i]` the chance of being seen through window i,
    windows are seen in proportion to it, so that the population has window i in proportion to :math:`1 / \Omega_i`, and

    .. math:: \hat\alpha = \sum_i \frac{1 / \Omega_i}{\sum_j 1 / \Omega_j}\,\Omega_i = n \Big/ \sum_i 1 / \Omega_i.

    Parameters
    ----------
    x : str
        The column, or an expression of columns, that holds the value.
    low, high : str, number or None
        Where the window begins and ends, both inclusive: columns, expressions or numbers. None if it is open: with
        ``high=None`` rows are truncated on the left (delayed entry), with ``low=None`` on the right.
    status : str, optional
        A column or condition that is 1 (or true) where the value was seen, and 0 where only a bound of it is known:
        such rows are censored, which weights cannot correct, and are refused.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import vardi
    >>> rng = np.random.default_rng(0)
    >>> age, entry = rng.gamma(8.0, 10.0, 2000), rng.uniform(20.0, 100.0, 2000)
    >>> seen = pd.DataFrame({"age": age, "entry": entry})[age >= entry]  # who died before entry was never seen
    >>> fit = vardi.debias({"seen": seen}, {"seen": vardi.window("age", "entry", None)})
    >>> print(f"rows {seen.age.mean():.1f}, truth {age.mean():.1f}, fit {fit.expectation('age')}")
    rows 89.9, truth 80.1, fit 80.52 ± 0.98 (95%: 78.60 to 82.45)
    >>> fit.names, str(vardi.window("age", "entry", None))
    (('seen',), 'window(age, entry, None)')
    """
    return WindowBias(
        _node(x, "The value"), _end(low), _end(high), None if status is None else _node(status, "The status")
    )


def _of_family(kind: str, texts: Iterable[str], cuts: tuple[float, ...] = ()) -> ParametricBias:
    return ParametricBias(ExpressionFamily(kind, _terms(kind, texts), cuts))


def _terms(kind: str, texts: Iterable[str]) -> tuple[Node, ...]:
    nodes = []
    for text in texts:
        if not isinstance(text, str):
            raise InvalidBiasError(f"{kind} reads columns, named by strings, not {text!r}.")
        nodes.append(parse(text))
    return tuple(nodes)


def _values(obj: object) -> np.ndarray:
    values = as_array(obj, "A bias")
    if values.ndim != 1:
        raise InvalidBiasError(
            f"The values of a bias must be one-dimensional, but these have {values.ndim} dimensions."
        )
    numbers = as_numbers(values)
    if numbers is None:
        raise InvalidBiasError(f"The values of a bias must be numbers, but these are {values.dtype}.")
    return numbers


def _node(text: object, what: str) -> Node:
    if not isinstance(text, str):
        raise InvalidBiasError(f"{what} of a window is named by a string, not by {text!r}.")
    return parse(text)


def _end(end: object) -> Node | None:
    if end is None:
        return None
    if isinstance(end, int | float | np.number) and not isinstance(end, bool):
        if np.isinf(float(end)):
            return None
        return constant(end, "An end of a window")
    return _node(end, "An end")
