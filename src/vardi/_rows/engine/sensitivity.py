r"""The first-order bound on the effect of wrong biases, as sums over rows in an engine.

An error of :math:`\log\omega_l` on row i moves an estimate by

.. math::

    G_{il} = -\frac{c_i}{n} p_{il} (\phi^x_i - b_l - b_\theta't_{il}),\qquad \phi^x_i = (f_i - \eta)/S_i + x_i'b.
"""

from __future__ import annotations

from collections.abc import Sequence

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import Part
from vardi._rows.engine.functions import EngineValues
from vardi._rows.engine.moments import DEVIATION, EngineMoments, total
from vardi._types import Floats


def slopes(at: EngineMoments, influence: EngineValues) -> Floats:
    r"""Return :math:`\sum_i |G_{il}|` for each bias l and each estimate, of shape (K, m); 0 for unsampled ones."""
    K, m = at.coordinates.samples, len(influence.eta)
    sampled, found = at.point.sampled.tolist(), np.zeros((K, m))
    parts, influence = at.joined(influence)
    for part in parts:
        moved = _moved(at, part, influence)
        terms = [part.times_count(at.point.x(k) * moved[j][k].abs()) for k in sampled for j in range(m)]
        change = at.with_deviations(part, influence, np.zeros((K, m)))
        found[sampled] += part.sums(terms, at.point, change).reshape(-1, m)
    return found / at.n


def common_slopes(at: EngineMoments, influence: EngineValues, biases: Sequence[int]) -> Floats:
    r"""Return :math:`\sum_i |\sum_l G_{il}|` over some biases, which have the same error, for each estimate: (m,)."""
    K, m = at.coordinates.samples, len(influence.eta)
    found = np.zeros(m)
    parts, influence = at.joined(influence)
    for part in parts:
        moved = _moved(at, part, influence)
        terms = [part.times_count(total([at.point.x(k) * moved[j][k] for k in biases]).abs()) for j in range(m)]
        change = at.with_deviations(part, influence, np.zeros((K, m)))
        found += part.sums(terms, at.point, change)
    return found / at.n


def _moved(at: EngineMoments, part: Part, influence: EngineValues) -> list[dict[int, nw.Expr]]:
    """Return phi^x - b_l - b_theta't_l for each estimate and each sampled bias."""
    found = []
    for j in range(len(influence.eta)):
        b = influence.b[:, j]
        own = at.point.own(part, b)
        phi = nw.col(DEVIATION.format(j)) if own is None else nw.col(DEVIATION.format(j)) + own
        by_bias = {}
        for k in at.point.sampled.tolist():
            by_bias[k] = phi - float(b[k])
            if k in at.model.places:
                slopes = b[at.coordinates.theta][at.model.places[k]]
                terms = [t * float(slope) for t, slope in zip(at.point.gradient(k), slopes, strict=True)]
                by_bias[k] = by_bias[k] - total(terms)
        found.append(by_bias)
    return found
