r"""Biasing functions as values.

A bias :math:`\omega(z) \ge 0` is how much likelier a unit :math:`z` is to enter a sample, up to a constant. Most are
expressions: they compare by value, can be joined, and have a text form that reads back.
"""

from vardi.biases._constructors import (
    as_bias,
    at_most,
    between,
    cells,
    class_shift,
    everywhere,
    exponential_tilt,
    isin,
    logistic,
    parametric,
    power,
    proportional_to,
    steps,
    where,
    window,
)
from vardi.biases._kinds import (
    Bias,
    ExpressionBias,
    FrameExpressionBias,
    FunctionBias,
    FunctionFamily,
    ParametricBias,
    ProductBias,
    ValuesBias,
    WindowBias,
)
from vardi.biases._learned import LearnedBias, learned

__all__ = [
    "Bias",
    "ExpressionBias",
    "FrameExpressionBias",
    "FunctionBias",
    "FunctionFamily",
    "LearnedBias",
    "ParametricBias",
    "ProductBias",
    "ValuesBias",
    "WindowBias",
    "as_bias",
    "at_most",
    "between",
    "cells",
    "class_shift",
    "everywhere",
    "exponential_tilt",
    "isin",
    "learned",
    "logistic",
    "parametric",
    "power",
    "proportional_to",
    "steps",
    "where",
    "window",
]
