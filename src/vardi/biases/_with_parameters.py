"""Biases that are known up to parameters, which are estimated together with the normalisers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from vardi.biases._expressions.families import Cells, ExpressionFamily, Kind
from vardi.biases._expressions.nodes import Node, constant
from vardi.biases._expressions.parse import parse
from vardi.biases._kinds import EVERYWHERE, FunctionFamily, FunctionOfRows, ParametricBias
from vardi.errors import InvalidBiasError, MismatchError


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
    return ParametricBias(Cells(tuple(_terms("cells", group) for group in groups)), EVERYWHERE)


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
    return ParametricBias(FunctionFamily(function, rows, named, gradient), EVERYWHERE)


def _of_family(kind: Kind, texts: Iterable[str], cuts: tuple[float, ...] = ()) -> ParametricBias:
    return ParametricBias(ExpressionFamily(kind, _terms(kind, texts), cuts), EVERYWHERE)


def _terms(kind: str, texts: Iterable[str]) -> tuple[Node, ...]:
    nodes = []
    for text in texts:
        if not isinstance(text, str):
            raise InvalidBiasError(f"{kind} reads columns, named by strings, not {text!r}.")
        nodes.append(parse(text))
    return tuple(nodes)
