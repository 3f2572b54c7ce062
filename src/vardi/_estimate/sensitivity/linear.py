r"""The first-order bound: sums over rows alone, so it is available for any number of rows and any kind of fit.

An error of log omega_l on row i moves S_i by p_il. With b as in :mod:`vardi._estimate.tangent` the derivative of an
estimate (everything solved anew) is

.. math::

    G_{il} = \frac{\partial\hat\eta}{\partial\log\omega_l(z_i)} = -m_i p_{il} (\phi^x_i - b_l - b_\theta't_{il}),\qquad
    \phi^x_i = r_i (f_i - \eta) + x_i'b,

so errors within :math:`\log\Gamma` move it by at most :math:`\log\Gamma \sum_{il} |G_{il}|`, to first order. With known
biases :math:`\phi^x = \phi`, and there is no theta.
"""

from __future__ import annotations

import numpy as np

from vardi._estimate.sensitivity.errors_of_biases import Errors
from vardi._estimate.tangent import Influence
from vardi._rows.weighted import WeightedRows
from vardi._types import Floats, Integers

NUMBERS = 4_000_000  # held at once


def slopes(rows: WeightedRows, influence: Influence, errors: Errors) -> Floats:
    """Return how far each estimate with the given influence values moves at worst, per unit of log Gamma."""
    counts, (n, m) = rows.counts / rows.n, influence.values.shape
    wrong = np.flatnonzero(rows.sizes > 0)[errors.wrong]
    chosen = np.zeros((len(influence.b), len(wrong)))
    chosen[wrong, np.arange(len(wrong))] = 1.0
    owns = [rows.along(b) for b in influence.b.T]
    step = max(NUMBERS // n, 1)
    total, common = np.zeros(m), np.zeros((n, m if errors.common else 0))
    for low in range(0, len(wrong), step):
        columns = wrong[low : low + step]
        p = rows.mix(chosen[:, low : low + step])
        for j, (own, along) in enumerate(owns):
            moved = (influence.values[:, j] + own)[:, None] - influence.b[columns, j]
            moved -= _columns(along, columns, n)
            if errors.common:
                common[:, j] += (p * moved).sum(axis=1)
            else:
                total[j] += float(counts @ np.einsum("ik,ik->i", p, np.abs(moved, out=moved)))
    return np.asarray(counts @ np.abs(common)) if errors.common else total


def _columns(along: dict[int, Floats], states: Integers, n: int) -> Floats:
    """Return b_theta't_il for some biases, zero for those without parameters."""
    if not along:
        return np.zeros((1, 1))
    columns = np.zeros((n, len(states)))
    for place, k in enumerate(states.tolist()):
        if k in along:
            columns[:, place] = along[k]
    return columns
