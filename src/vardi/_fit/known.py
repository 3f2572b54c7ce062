r"""What is known of the population, tested against the samples.

The samples are fitted without the known values; groups that overlap does not join keep the masses that these give
them. The means of the known functions are then compared with what is known, each and all together. If only the known
values determine the parameters of a bias, the samples alone have no fit, and what can be tested is that
:math:`\mu = 0`, in the directions in which mu varies: it does not in those that determine parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from vardi._estimate.intervals import REFUSED
from vardi._estimate.known_check import KnownCheck, known_lines
from vardi._estimate.tangent import Influence, Tangent
from vardi._inputs.known import Known
from vardi._rows.arrays import Arrays
from vardi._rows.contract import Block, Kept
from vardi._rows.joint import JointRows
from vardi._rows.measure import Functions
from vardi._rows.point import RowsAt
from vardi._solve.identify import Verdict, joined_verdict
from vardi._solve.joint import At
from vardi._solve.parameters import held_of
from vardi._types import Floats
from vardi.errors import ContradictedKnownWarning
from vardi.errors._warn import warn

if TYPE_CHECKING:
    from vardi._fit.solved import Solved

RANK = 1e-8  # relative size above which an eigenvalue of a covariance counts
NOTHING = 1e-10  # variance relative to that of one row below which it is only rounding


def check_known(solved: Solved) -> KnownCheck | None:
    """Compare known values with the samples."""
    known: Known = solved.prepared.known
    if not known:
        return None
    alone = _alone(solved)
    values, covariance, own_df = known.values, np.zeros((len(known), len(known))), np.full(len(known), np.inf)
    if alone is not None:
        tangent: Tangent = solved.tangent_of(*alone, quick=True)
        values, influence = _means_at(solved, tangent, *alone)
        spread = influence.spread()
        covariance, own_df = spread.covariance, spread.df
    variances, least = np.diag(covariance), _least(solved)
    stderr = np.where(variances > least, np.sqrt(np.maximum(variances, 0.0)), 0.0)
    withheld = (stderr > 0) & (own_df < REFUSED)
    lines = known_lines(known, values, np.where(withheld, math.nan, stderr))
    samples = tuple(str(name) for name, size in zip(solved.names, solved.rows.sizes, strict=True) if size)
    residual = float(np.abs(known_means(solved) - solved.moved_known()).max())
    if withheld.any():
        return KnownCheck(lines, math.nan, 0, math.nan, residual, samples)
    if alone is None:
        statistic, df = _test_of_multipliers(solved)
    else:
        told = np.outer(stderr > 0, stderr > 0)
        from vardi._estimate.bias_test import chi_square  # which few fits need

        total = np.where(told, covariance + known.covariance, 0.0)
        statistic, _, df = chi_square(values - known.values, total, least)
    pvalue = float(scipy.special.chdtrc(df, statistic)) if df else math.nan
    return KnownCheck(lines, statistic if df else math.nan, df, pvalue, residual, samples)


def known_means(solved: Solved) -> Floats:
    """Return the means of the known functions under the weights."""
    return solved.tangent.measure.mean(_functions(solved, solved.tangent))


def _functions(solved: Solved, tangent: Tangent) -> Functions:
    """Return the functions with known means on the rows of a tangent; biases are those at its point."""
    known: Known = solved.prepared.known
    moving, m = known.moving(solved.joint.families), len(known)
    values: Kept = solved.prepared.values
    if not solved.data.in_memory and not isinstance(tangent.measure.rows, Arrays):
        values = solved.engine.model.known.values  # as columns of the engine

    def make(block: Block, at: RowsAt) -> Floats:
        columns = block.solved(values)
        own = {j: at.users_bias(k) for j, k in moving.items()}
        return np.hstack([own.get(j, columns[:, [j]]) for j in range(m)]) if own else columns

    return Functions((), m, make)


def _means_at(solved: Solved, tangent: Tangent, joint: JointRows, v: Floats) -> tuple[Floats, Influence]:
    """Return the means of the known functions at another point, and the influence on them."""
    functions = _functions(solved, tangent)
    eta, gradients = tangent.measure.mean(functions), joint.mean_gradients(v)
    moved = np.zeros((len(joint.coordinates), len(eta)))
    for j, k in solved.prepared.known.moving(joint.families).items():
        moved[:, j] = tangent.n * eta[j] * gradients[:, k]
    return tangent.influence(functions, moved)


def _least(solved: Solved) -> Floats:
    """Return the variances of the known functions' means below which they are only rounding.

    A constant has no variance of its own: its rounding is relative to its size.
    """
    values = solved.prepared.values
    rounded = np.square(1e-8 * np.abs(values).max(axis=0, initial=0.0))
    return np.asarray(NOTHING * np.maximum(np.maximum(values.var(axis=0), rounded), 1e-300) / solved.tangent.n)


def warn_of_contradiction(check: KnownCheck | None) -> None:
    """Warn if the samples contradict what is known."""
    if check is not None and check.contradicted:
        said = f"{check.verdict} The weights meet the known values nevertheless. fit.known has the details."
        warn(ContradictedKnownWarning(said))


def joined(solved: Solved) -> Verdict:
    """Return the verdict on the overlap, and on groups that known values join."""
    verdict: Verdict = solved.judge()
    if solved.joining is None or solved.groups is None:
        return verdict
    return joined_verdict(verdict, solved.joining, solved.joint.masses_of(solved.groups, solved.point))


def _alone(solved: Solved) -> tuple[JointRows, Floats] | None:
    """Return the samples without known values except the masses of groups; None if known values fix parameters."""
    if solved.alone is None:
        return None
    joint, groups = solved.joint, solved.groups
    v, own = solved.alone[: joint.coordinates.theta.stop], joint.without_known()
    if solved.joining is None or groups is None:
        return own, v
    masses = joint.masses_of(groups, solved.point)
    v = v.copy()
    v[: joint.coordinates.samples] += np.append(np.log(own.masses_of(groups, v) / masses), 0.0)[groups]
    return joint.with_masses_of(groups, masses), np.append(v, np.zeros(len(masses) - 1))


def _test_of_multipliers(solved: Solved) -> tuple[float, int]:
    """Return the statistic of mu = 0, and its degrees of freedom."""
    at, v = solved.joint.coordinates, solved.point.copy()
    v[at.mu] = v[at.epsilon] = 0.0
    tangent = solved.tangent_of(solved.joint, v, quick=True)
    influence = tangent.of_coordinates(np.eye(len(at))[:, at.mu])
    scale = At.of(solved.joint, v, held_of(solved.joint)).scale[at.mu]
    covariance = influence.covariance() * np.outer(scale, scale)
    values, vectors = np.linalg.eigh(covariance)
    kept = values > RANK * max(float(values.max(initial=0.0)), 1.0)
    along = vectors[:, kept].T @ (solved.point[at.mu] * scale)
    return float((along**2 / values[kept]).sum()), int(kept.sum())
