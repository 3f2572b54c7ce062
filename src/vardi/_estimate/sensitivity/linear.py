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

NUMBERS, FEW = 4_000_000, 4  # held at once, but for a few numbers of each row


def slopes(rows: WeightedRows, influence: Influence, errors: Errors) -> Floats:
    """Return how far each estimate with the given influence values moves at worst, per unit of log Gamma."""
    counts, (n, m) = rows.strata.counts, influence.values.shape
    wrong = np.flatnonzero(rows.sizes > 0)[errors.wrong]
    chosen = np.zeros((len(influence.b), len(wrong)))
    chosen[wrong, np.arange(len(wrong))] = 1.0
    owns = [rows.along(b) for b in influence.b.T] if rows.has_parameters else []
    step = max(NUMBERS // n, FEW)
    total, common = np.zeros(m), np.zeros((n, m if errors.common else 0))
    for low in range(0, len(wrong), step):
        columns = wrong[low : low + step]

        def block(part: slice, p: Floats, columns: Integers = columns) -> Floats:
            found, shares = np.zeros(m), p * (counts[part] / rows.n)
            for j in range(m):
                moved = influence.values[part, j] - influence.b[columns, j, None]
                if owns:
                    moved += owns[j][0][part] - _columns(owns[j][1], columns, part)
                if errors.common:
                    common[part, j] += (shares * moved).sum(axis=0)
                else:
                    found[j] = np.vdot(shares, np.abs(moved, out=moved))
            return found

        total += rows.sum_mix(chosen[:, low : low + step], block)
    return np.asarray(np.abs(common).sum(axis=0)) if errors.common else total


def _columns(along: dict[int, Floats], states: Integers, part: slice) -> Floats:
    """Return b_theta't_il of some rows for some biases, zero for those without parameters."""
    nothing = np.zeros(part.stop - part.start)
    return np.stack([along[k][part] if k in along else nothing for k in states.tolist()])
