r"""Families of biases with parameters: the columns they read, the names of their parameters, and their text.

========================  ===========================================================  ==========================
text                      bias                                                         parameters
========================  ===========================================================  ==========================
logistic(x, y)            :math:`1 / (1 + e^{-\alpha - \beta_x x - \beta_y y})`         intercept, x, y
exponential_tilt(x, y)    :math:`e^{\theta_x x + \theta_y y}`                           x, y
power(x)                  :math:`x^\theta`                                              exponent
steps(x, [a, b])          1 below a, :math:`e^{\theta_1}` below b, :math:`e^{\theta_2}`  a <= x < b, x >= b
========================  ===========================================================  ==========================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Literal

from vardi.biases._expressions.nodes import Call, Comparison, Constant, Node, Power, arithmetic, columns, to_text
from vardi.errors import InvalidBiasError

Kind = Literal["logistic", "exponential_tilt", "power", "steps"]
FAMILIES: tuple[Kind, ...] = ("exponential_tilt", "logistic", "power", "steps")


@dataclass(frozen=True, slots=True)
class ExpressionFamily:
    """A bias up to its parameters.

    Attributes
    ----------
    kind : str
        One of `FAMILIES`.
    terms : tuple of Node
        What it reads: columns, or expressions of them.
    cuts : tuple of float
        The cuts of steps, in increasing order.
    """

    kind: Kind
    terms: tuple[Node, ...]
    cuts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind in ("power", "steps") and len(self.terms) > 1:
            raise InvalidBiasError(f"{self.kind} reads one column, but {len(self.terms)} were given.")
        require_terms(self, self.kind, self.terms, "Name it once.")
        if self.kind == "steps":
            self._require_cuts()

    def _require_cuts(self) -> None:
        if not self.cuts:
            raise InvalidBiasError("steps has no cuts. Give at least one number, such as [30, 60].")
        if not all(math.isfinite(cut) for cut in self.cuts) or any(low >= high for low, high in pairwise(self.cuts)):
            raise InvalidBiasError(
                f"The cuts {list(self.cuts)} of steps are not finite, increasing numbers. Put them in order."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(name for term in self.terms for name in columns(term)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters."""
        texts = tuple(to_text(term) for term in self.terms)
        if self.kind == "logistic":
            return ("(intercept)" if "intercept" in texts else "intercept", *texts)
        if self.kind == "power":
            return ("exponent",)
        if self.kind == "steps":
            return tuple(to_text(interval) for interval in self.intervals()[1:])
        return texts

    def __str__(self) -> str:
        arguments = [to_text(term) for term in self.terms]
        if self.kind == "steps":
            arguments.append(repr(list(self.cuts)))
        return f"{self.kind}({', '.join(arguments)})"

    def intervals(self) -> tuple[Comparison, ...]:
        """Return the intervals of steps, the reference first."""
        term, cuts = self.terms[0], [Constant(cut) for cut in self.cuts]
        inner = [Comparison(low, (("<=", term), ("<", high))) for low, high in pairwise(cuts)]
        return (Comparison(term, (("<", cuts[0]),)), *inner, Comparison(term, ((">=", cuts[-1]),)))

    def features(self) -> tuple[Node, ...]:
        """Return what the parameters, except the intercept, multiply in the log of the bias or its odds."""
        if self.kind == "power":
            return (Call("log", self.terms),)
        return self.intervals()[1:] if self.kind == "steps" else self.terms

    def node(self, theta: Sequence[float]) -> Node:
        """Return the expression of the bias with its parameters fixed."""
        if self.kind == "power":
            return Power(self.terms[0], Constant(float(theta[0])))
        if self.kind == "steps":
            heights = [1.0, *(factor(value) for value in theta)]
            return total([times(height, interval) for height, interval in zip(heights, self.intervals(), strict=True)])
        if self.kind == "exponential_tilt":
            return Call("exp", (total([times(value, term) for value, term in zip(theta, self.terms, strict=True)]),))
        slopes = [times(-value, term) for value, term in zip(theta[1:], self.terms, strict=True)]
        odds_against = Call("exp", (total([Constant(-float(theta[0])), *slopes]),))
        return arithmetic(Constant(1), "/", arithmetic(Constant(1), "+", odds_against))


def require_terms(bias: object, kind: str, terms: Sequence[Node], remedy: str) -> None:
    """Refuse a family without a term, or whose parameters cannot be told apart."""
    if not terms:
        raise InvalidBiasError(f"{kind} has no column. Name what the bias depends on.")
    if len(set(terms)) < len(terms):
        raise InvalidBiasError(f"A column appears twice in {bias}, so its parameters cannot be told apart. {remedy}")
    if any(not columns(term) for term in terms):
        raise InvalidBiasError(f"A term of {bias} reads no column, so it is the same for all rows.")


def factor(value: float) -> float:
    """Return e to a value; raise if it overflows."""
    try:
        return math.exp(value)
    except OverflowError:
        raise InvalidBiasError(
            f"A parameter is {value:g}, whose exponential overflows floating point. Parameters are logs of factors."
        ) from None


def times(value: float, node: Node) -> Node:
    """Return a number times a node."""
    return arithmetic(Constant(float(value)), "*", node)


def total(nodes: Sequence[Node]) -> Node:
    """Return the sum of nodes."""
    return reduce(lambda whole, node: arithmetic(whole, "+", node), nodes)
