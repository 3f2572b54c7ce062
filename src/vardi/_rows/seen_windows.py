r"""Rows that each have a window, as one sample of independent units: a value and its window.

Inside, each row is its own sample, with influence values :math:`\phi_i` and their mean :math:`b_i` under the
fitted law of the row's window. Given its window a row has :math:`E[\phi_i - b_i] = 0`, so the same difference is
the influence of the unit, value and window together, and units are independent of one another.
"""

from __future__ import annotations

import numpy as np

from vardi._inputs.dependence import Dependence
from vardi._rows.dependent import strata_of
from vardi._rows.weighted import Weighed, WeightedRows
from vardi._rows.windows import Intervals
from vardi._types import Floats


class SeenRows(WeightedRows):
    """Rows at a solution, each in its window, presented as one sample.

    Parameters
    ----------
    rows : Intervals
        A sample for each row.
    u : ndarray
        The dual point, in the gauge in which weights have mean 1.
    weights : ndarray
        Weight of each row.
    dependence : Dependence
        How rows depend on one another.
    """

    def __init__(self, rows: Intervals, u: Floats, weights: Floats, dependence: Dependence) -> None:
        super().__init__(rows, u, weights, rows.source, rows.counts, Dependence.none(len(rows.sizes)))
        self.sizes = np.array([self.n])
        self.strata = strata_of(np.zeros(len(rows), np.int64), self.sizes, rows.counts, self, dependence)

    def influence(self, functions: Floats | Weighed, eta: Floats, b: Floats) -> Floats:
        """Return phi_i - b_i for every row: its influence minus the expectation given its window."""
        return super().influence(functions, eta, b) - b

    def along_rows(self, influence: Floats, b: Floats) -> Floats:
        """Return r_i (f_i - eta) of influence values."""
        return influence + b - self.mix(b)
