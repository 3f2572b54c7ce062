r"""The first-order bound: sums over rows only, so it is there for any number of them, whatever the fit rests on.

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


def slope(rows: WeightedRows, influence: Influence, errors: Errors) -> float:
    """Return what an estimate with the given influence values moves at worst, for each unit of log Gamma."""
    b, m = influence.b[:, 0], rows.counts / rows.n
    wrong = np.flatnonzero(rows.sizes > 0)[errors.wrong]
    own, along = rows.along(b)
    phi = influence.values[:, 0] + own
    chosen = np.zeros((len(b), len(wrong)))
    chosen[wrong, np.arange(len(wrong))] = 1.0
    step = max(NUMBERS // len(phi), 1)
    total, common = 0.0, np.zeros(len(phi))
    for low in range(0, len(wrong), step):
        columns = wrong[low : low + step]
        p = rows.mix(chosen[:, low : low + step])
        moved = phi[:, None] - b[columns] - _columns(along, columns, len(phi))
        if errors.common:
            common += (p * moved).sum(axis=1)
        else:
            total += float(m @ (p * np.abs(moved)).sum(axis=1))
    return float(m @ np.abs(common)) if errors.common else total


def _columns(along: dict[int, Floats], states: Integers, n: int) -> Floats:
    """Return b_theta't_il for some biases, zero for those without parameters."""
    columns = np.zeros((n, len(states)))
    for place, k in enumerate(states.tolist()):
        if k in along:
            columns[:, place] = along[k]
    return columns
