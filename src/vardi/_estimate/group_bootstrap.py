r"""Bootstrap of rows that stay in their engine: whole groups of rows are drawn, with a single query.

Rows are put into groups, by a column or at random (random groups, Wolter 2007). All sums of a refit are linear in how
often each group counts, so those of a draw are sums over groups. One step from the solution v, with J taken there,
leads to the solution of the draw, :math:`\delta = -J^{-1} g_b`, and a mean there is

.. math:: \eta_b = \frac{\sum_i b_i f_i (1 - x_i'\delta) / S_i}{\sum_i b_i (1 - x_i'\delta) / S_i},

up to terms of second order in the draw.
"""

from __future__ import annotations

import numpy as np

from vardi._estimate.refits import LONG, Drawn, one_step
from vardi._estimate.resampling import DrawKind
from vardi._estimate.solved import SolvedFit
from vardi._rows.contract import JointSums
from vardi._rows.engine.groups import GroupSums
from vardi._solve.parameters import held_of
from vardi._solve.refit import Refit
from vardi._types import Floats


class GroupRefits:
    """The refit of each draw of groups.

    Parameters
    ----------
    solved : SolvedFit
        The fit.
    sums : GroupSums
        Sums within groups; the functions are those of the statistics, then 1, then biases without rows.
    kind : {"bayesian", "rows"}
        Exponential multiplicities, or groups drawn with replacement.
    """

    def __init__(self, solved: SolvedFit, sums: GroupSums, kind: DrawKind) -> None:
        self.tangent, self.measure, self.sums, self.kind = solved.tangent, solved.tangent.measure, sums, kind
        self.sizes, self.cut, self.point = self.measure.sizes, solved.solution.cut, self.measure.whole_point.v
        self.model = self.measure.whole_point.model
        self.idle, self.fixed = np.flatnonzero(self.sizes == 0), held_of(self.model)

    def __call__(self, rng: np.random.Generator) -> Drawn:
        """Return statistics and log normalisers of a draw, or an unsolved refit if it has no fit."""
        at, drawn = self.measure.coordinates, self.sums.answers.drawn(self._times(rng))
        likelihood = drawn.likelihood
        delta = one_step(self.tangent, likelihood.x - likelihood.own, self.sizes, rng.standard_normal(at.uncertain))
        delta[at.u] -= delta[self.fixed]  # only differences of u matter
        if not delta @ likelihood.gram @ delta <= LONG**2 * self.measure.n:
            return Refit(None, labels=(self.cut[self.sizes > 0] > 0).astype(np.int64))
        total = drawn.total - delta @ drawn.against
        one = len(total) - 1 - len(self.idle)
        log_omegas = self._log_omegas(likelihood, delta, total, one)
        return (total[:one] / total[one] if one else log_omegas), log_omegas

    def _log_omegas(self, sums: JointSums, delta: Floats, total: Floats, one: int) -> Floats:
        """Return the log means of the biases; for one with parameters, from the rows of its sample."""
        at = self.measure.coordinates
        theta = self.point[at.theta] + delta[at.theta]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(sums.x[at.u] - sums.gram[at.u] @ delta) - self.point[at.u]
            for k in self.model.families:
                found[k] = np.log(self.sizes[k]) - self.point[k] - delta[k] + self.model.shift(theta)[k]
            found[self.idle] = np.log(total[one + 1 :])
        return found - float(np.log(total[one]))

    def _times(self, rng: np.random.Generator) -> Floats:
        """Return how often each group counts, rescaled so that each sample keeps its size."""
        source, counts, unit = self.sums.answers.source, self.sums.answers.counts, self.sums.unit
        units = int(unit.max()) + 1
        if self.kind == "bayesian":
            drawn = rng.standard_exponential(units)
        elif units < len(unit):  # some span samples, so all are drawn together
            drawn = rng.multinomial(units, np.full(units, 1.0 / units)).astype(np.float64)
        else:
            groups = np.bincount(source, minlength=len(self.sizes))
            each = [rng.multinomial(size, np.full(size, 1.0 / size)) for size in groups if size]
            drawn = np.concatenate(each).astype(np.float64)  # groups are numbered sample by sample
        times = drawn[unit]
        rows = np.bincount(source, times * counts, minlength=len(self.sizes))
        times *= (self.sizes / np.where(rows > 0, rows, 1.0))[source]
        spread = np.sqrt(self.measure.rows.dependence.remaining)[source]
        return times * spread + (1.0 - spread)
