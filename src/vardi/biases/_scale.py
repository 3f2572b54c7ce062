"""Expressions times an exponential, and what is known of their sign and of missing values without any row."""

from __future__ import annotations

import math

from vardi.biases._nodes import (
    And,
    Call,
    Constant,
    IsMissing,
    Node,
    Or,
    Power,
    Product,
    Sum,
    arithmetic,
    children,
    is_condition,
)

LARGEST = 709.0  # whose exponential is finite


def times_exp(node: Node, u: float) -> Node:
    """Return e^u times a number or condition, with u inside of exponentials, where neither over- nor underflows.

    Examples
    --------
    >>> from vardi.biases._nodes import to_text
    >>> from vardi.biases._parse import parse
    >>> to_text(times_exp(parse("x * exp(2 * x)"), -800.0))
    'x * exp(2 * x + -800.0)'
    >>> to_text(times_exp(parse("1 / (1 + exp(800 - x))"), 300.0))
    '1 / (5.148200222412013e-131 + exp(800 - x + -300.0))'
    >>> to_text(times_exp(parse("x <= 3"), 0.0))
    'x <= 3'
    """
    match node:
        case Call("exp", (power,)):
            return Call("exp", (arithmetic(power, "+", Constant(u)),))
        case Sum(first, rest) if _has_exponential(node):
            return Sum(times_exp(first, u), tuple((sign, times_exp(part, u)) for sign, part in rest))
        case Product(first, rest) if _has_exponential(node):
            factors = [("*", first), *rest]
            place = next(j for j, (_, part) in enumerate(factors) if _has_exponential(part))
            sign, part = factors[place]
            factors[place] = sign, times_exp(part, u if sign == "*" else -u)
            return Product(factors[0][1], tuple(factors[1:]))
        case Constant(value) if not isinstance(value, str):
            return Constant(float(value) * _exp(u)) if u else node
    return arithmetic(Constant(_exp(u)), "*", node) if u else node


def _exp(u: float) -> float:
    return math.exp(min(u, LARGEST))


def _has_exponential(node: Node) -> bool:
    return (isinstance(node, Call) and node.function == "exp") or (
        isinstance(node, Sum | Product) and any(map(_has_exponential, children(node)))
    )


def never_negative(node: Node) -> bool:
    """Return whether a node cannot be below zero, whatever the row."""
    match node:
        case Constant(value):
            return not isinstance(value, str) and value >= 0
        case Call("exp" | "sqrt" | "abs"):
            return True
        case Call("max", arguments):
            return any(map(never_negative, arguments))
        case Power(first):
            return never_negative(first)
        case Sum(_, rest):
            return all(sign == "+" for sign, _ in rest) and all(map(never_negative, children(node)))
        case Product() | Call("min"):
            return all(map(never_negative, children(node)))
    return is_condition(node) is True


def needs_no_value(node: Node) -> bool:
    """Return whether a node may be known where a column that it reads is missing: by Kleene's logic."""
    return isinstance(node, IsMissing | And | Or) or any(map(needs_no_value, children(node)))
