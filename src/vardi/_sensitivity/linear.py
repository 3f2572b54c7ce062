r"""The first-order bound: sums over rows only, so it is there for any number of them.

With :math:`b_l = E_{\tilde P_l}\phi`, the derivative of an estimate in the log of a bias (normalisers solved anew) is

.. math::

    G_{il} = \frac{\partial\hat\eta}{\partial\log\omega_l(z_i)} = -m_i p_{il} (\phi_i - b_l),

so errors within :math:`\log\Gamma` move it by at most :math:`\log\Gamma \sum_{il} |G_{il}|`, to first order.
"""

from __future__ import annotations

import numpy as np

from vardi._influence import Influence
from vardi._sensitivity.errors_of_biases import Errors
from vardi._sums import Floats

NUMBERS = 4_000_000  # held at once


def slope(influence: Influence, phi: Floats, errors: Errors) -> float:
    """Return what the estimate with influence values phi moves at worst, for each unit of log Gamma."""
    counts = influence.strata.counts
    m = (np.ones(len(phi)) if counts is None else counts) / influence.n
    wrong = np.flatnonzero(influence.sampled)[errors.wrong]
    b = np.zeros(len(influence.u))
    b[wrong] = influence.project(phi[:, None])[wrong, 0] / influence.rows.sizes[wrong]
    chosen = np.zeros((len(b), len(wrong)))
    chosen[wrong, np.arange(len(wrong))] = 1.0
    if errors.common:
        share, mean = influence.mix(np.column_stack([chosen.sum(axis=1), b])).T
        return float(m @ np.abs(share * phi - mean))
    step = max(NUMBERS // len(phi), 1)
    total = 0.0
    for low in range(0, len(wrong), step):
        columns = slice(low, low + step)
        p = influence.mix(chosen[:, columns])
        total += float(m @ (p * np.abs(phi[:, None] - b[wrong[columns]])).sum(axis=1))
    return total
