"""Columns as expressions of an engine: they record the operators of NumPy that a question is written in."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from vardi._inputs.lazy_part import Term, expression
from vardi._types import Floats
from vardi.biases._compile import literal


class Expressions(np.lib.mixins.NDArrayOperatorsMixin):
    """Columns of an engine, written as arrays are; a term that is the same number on all rows is that number.

    Parameters
    ----------
    terms : sequence of expressions and numbers
        The columns.
    are_named : bool
        Whether the expressions are just names of columns, which need not be computed.
    """

    def __init__(self, terms: Sequence[Term], *, are_named: bool = False) -> None:
        self.terms, self.are_named = tuple(terms), are_named

    @property
    def shape(self) -> tuple[int, int]:
        """One row stands for all of them; and the number of columns."""
        return 1, len(self.terms)

    def column(self, k: int) -> Expressions:
        """Return one column."""
        return Expressions(self.terms[k : k + 1], are_named=self.are_named)

    def __getitem__(self, place: tuple[Any, Any]) -> Expressions:
        """Return some columns, as ``columns[:, [0, 2]]`` does of an array."""
        _, columns = place
        chosen = np.atleast_1d(np.arange(len(self.terms))[columns]).tolist()
        return Expressions([self.terms[j] for j in chosen], are_named=self.are_named)

    def __matmul__(self, numbers: Floats) -> Expressions:
        """Return linear combinations of the columns."""
        matrix = np.reshape(numbers, (len(self.terms), -1)).tolist()
        weighed = [[product(term, x) for x in row] for term, row in zip(self.terms, matrix, strict=True)]
        return Expressions([total(terms) for terms in zip(*weighed, strict=True)])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **_: Any) -> Any:
        if method != "__call__" or ufunc not in OPERATORS:
            return NotImplemented
        widths = [_width(one) for one in inputs]
        width = 0 if 0 in widths else max(widths)
        columns = [_broadcast(one, width) for one in inputs]
        return Expressions([_combined(ufunc, terms) for terms in zip(*columns, strict=True)])

    def __array_function__(self, function: Any, _types: Any, args: Any, _kwargs: Any) -> Any:
        if function is np.where:
            width = max(map(_width, args))
            return Expressions(
                [_where(*terms) for terms in zip(*(_broadcast(one, width) for one in args), strict=True)]
            )
        if function is not np.hstack:
            return NotImplemented
        return Expressions([term for one in args[0] for term in _broadcast(one, _width(one))])


def total(terms: Sequence[Term]) -> Term:
    """Return a sum of terms, nested as little as possible: engines limit the depth of an expression."""
    if not terms:
        return 0.0
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return _plus(total(terms[:half]), total(terms[half:]))


def terms_of(columns: Any) -> Sequence[Term]:
    """Return the terms of columns; a question is typed for arrays."""
    terms: Sequence[Term] = columns.terms
    return terms


def _width(columns: Any) -> int:
    return len(columns.terms) if isinstance(columns, Expressions) else int(np.size(columns))


def _broadcast(columns: Any, width: int) -> Sequence[Term]:
    """Return as many terms; numbers are given for each column, or one for all."""
    if isinstance(columns, Expressions):
        return columns.terms * width if len(columns.terms) == 1 else columns.terms
    return np.broadcast_to(np.asarray(columns, np.float64).reshape(-1), (width,)).tolist()


def _combined(ufunc: np.ufunc, terms: Sequence[Term]) -> Term:
    if all(isinstance(term, float) for term in terms):
        return float(ufunc(*terms))
    return OPERATORS[ufunc](*terms)


def _plus(a: Term, b: Term) -> Term:
    if _is(a, 0.0):
        return b
    return a if _is(b, 0.0) else a + b


def _minus(a: Term, b: Term) -> Term:
    return a if _is(b, 0.0) else product(b, -1.0) if _is(a, 0.0) else a - b


def product(a: Term, b: Term) -> Term:
    """Return a product of terms; factors of 0 and 1 are not written."""
    if _is(a, 0.0) or _is(b, 0.0):
        return 0.0
    if _is(a, 1.0):
        return b
    return a if _is(b, 1.0) else a * b


def _over(a: Term, b: Term) -> Term:
    return 0.0 if _is(a, 0.0) else a if _is(b, 1.0) else a / b


def _is(term: Term, number: float) -> bool:
    return isinstance(term, float) and term == number


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Term, Term], Term]:
    """Return a comparison that is 1 where it holds, and 0 elsewhere."""

    def compared(a: Term, b: Term) -> Term:
        found: nw.Expr = compare(*(literal(one) if isinstance(one, float) else one for one in (a, b)))
        return found.cast(nw.Float64)

    return compared


def _where(condition: Term, a: Term, b: Term) -> Term:
    """Return a where a condition is 1, and b where it is 0."""
    if isinstance(condition, float):
        return a if condition else b
    own, other = (literal(one) if isinstance(one, float) else one for one in (a, b))
    return nw.when(condition > 0.5).then(own).otherwise(other)


#: How terms are combined that are not all numbers; NumPy combines numbers.
OPERATORS: dict[np.ufunc, Callable[..., Term]] = {
    np.add: _plus,
    np.subtract: _minus,
    np.multiply: product,
    np.divide: _over,
    np.power: operator.pow,
    np.negative: lambda x: x * -1.0,
    np.maximum: lambda a, b: nw.max_horizontal(expression(a), expression(b)),
    np.minimum: lambda a, b: nw.min_horizontal(expression(a), expression(b)),
    np.logaddexp: lambda zero, x: (x.exp() + 1.0).log(),  # of log(e^0 + e^x) only
    np.exp: lambda x: x.exp(),
    np.log: lambda x: x.log(),
    np.isfinite: lambda x: nw.when(x.abs() < float("inf")).then(nw.lit(1.0)).otherwise(nw.lit(0.0)),
    np.abs: lambda x: x.abs(),
    np.floor: lambda x: x.floor(),
    np.greater: _comparison(operator.gt),
    np.greater_equal: _comparison(operator.ge),
    np.less: _comparison(operator.lt),
    np.less_equal: _comparison(operator.le),
    np.equal: _comparison(operator.eq),
    np.not_equal: _comparison(operator.ne),
}
