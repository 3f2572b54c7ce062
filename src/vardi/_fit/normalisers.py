"""The normalisers of a fit with their errors: each of them, and the ratio of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vardi._estimate.estimates import ROUNDING, Estimate
from vardi._estimate.intervals import FixedValue, Law, Student
from vardi._estimate.tangent import Influence, estimates_with
from vardi.biases import ExpressionBias

if TYPE_CHECKING:
    from vardi._fit.solved import Solved


def log_normalisers(solved: Solved, level: float) -> list[Estimate]:
    """Return the log of each normaliser; of a bias that reads no column it is declared, and so is one that is known."""
    influence = solved.bias_influence()
    spread = influence.spread(joint=False)
    stderr, laws = spread.stderr, list[Law](influence.laws(spread))
    for k, error in enumerate(stderr.tolist()):
        if error <= ROUNDING:
            bias = solved.pool.biases[k] if solved.pool.biases else None
            is_constant = isinstance(bias, ExpressionBias) and not bias.columns
            fixed = is_constant or solved.joint.coordinates.known
            laws[k], stderr[k] = FixedValue() if fixed else Student(solved.tangent.n - 1.0), 0.0
    return list(estimates_with(solved.log_omegas, influence, spread.covariance, stderr, laws, level))


def log_ratio(solved: Solved, k: int, l: int, level: float) -> Estimate:
    """Return log(Omega_k / Omega_l), with its error unless too few rows join the two."""
    value = float(solved.log_omegas[k] - solved.log_omegas[l])
    return Estimate.from_influence(value, _influence(solved, k, l), level)


def _influence(solved: Solved, k: int, l: int) -> Influence:
    """Return the influence on a difference of log normalisers; for samples through u alone, whatever their scale."""
    contrast = np.zeros((len(solved.names), 1))
    contrast[k] += 1.0
    contrast[l] -= 1.0
    if solved.is_plain and k != l and solved.rows.sizes[[k, l]].all():
        found: Influence = solved.tangent.of_coordinates(-contrast)
        return found
    return solved.bias_influence() @ contrast
