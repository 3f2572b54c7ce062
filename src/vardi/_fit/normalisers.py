"""The normalisers of a fit with their errors: each of them, and the ratio of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vardi._estimate.estimates import ROUNDING, Estimate, estimates_of
from vardi._estimate.intervals import Kind, any_number, constant, known
from vardi._estimate.tangent import Influence
from vardi.biases import ExpressionBias

if TYPE_CHECKING:
    from vardi._fit.solved import Solved


def log_normalisers(solved: Solved, level: float) -> list[Estimate]:
    """Return the log of each normaliser; of a bias that reads no column it is declared, and so is one that is known."""
    influence = solved.bias_influence()
    spread = influence.spread(joint=False)

    def kind(k: int) -> Kind:
        if spread.stderr[k] > ROUNDING:
            return any_number
        bias = solved.pool.biases[k] if solved.pool.biases else None
        is_declared = isinstance(bias, ExpressionBias) and not bias.columns
        return known if is_declared or solved.joint.coordinates.known else constant(solved.tangent.n - 1.0)

    kinds = [kind(k) for k in range(len(solved.names))]
    return list(estimates_of(solved.log_omegas, influence, level, kinds, spread=spread))


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
