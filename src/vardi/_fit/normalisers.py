"""The normalisers of biases, with their errors."""

from __future__ import annotations

from typing import Any

from vardi._estimate.estimates import ROUNDING, Estimates
from vardi._estimate.intervals import Declared, Law, Student
from vardi._estimate.tangent import estimates_with
from vardi.biases import ExpressionBias


def log_normalisers(held: Any, level: float) -> Estimates:
    """Return the log of each normaliser; of a bias that reads no column it is declared, and so is one that is known."""
    influence = held.bias_influence()
    spread = influence.spread()
    stderr, laws = spread.stderr, list[Law](influence.laws(spread))
    for k, error in enumerate(stderr.tolist()):
        if error <= ROUNDING:
            bias = held.pool.biases[k] if held.pool.biases else None
            is_constant = isinstance(bias, ExpressionBias) and not bias.columns
            fixed = is_constant or (held.joint is not None and held.joint.coordinates.known)
            laws[k], stderr[k] = Declared() if fixed else Student(held.tangent.n - 1.0), 0.0
    return estimates_with(held.log_omegas, influence, spread.covariance, stderr, laws, level)
