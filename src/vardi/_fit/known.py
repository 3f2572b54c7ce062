r"""What is known of the population against what the samples say of it.

Where overlap joins the samples and determines the parameters, the samples are fitted without the known values, and the
means of the known functions compared with these. Else each value is compared with what the samples *and the other known
values* say of it: leaving constraint j out moves :math:`\mu_j` to 0, to first order by a change of the mean of
:math:`-\mu_j / (n (J^{-1})_{jj})`. The test of all together is that of :math:`\mu = 0`, in the directions in which mu
has a spread: those that join groups or tell parameters have none.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import chdtrc

from vardi._estimate.known_check import KnownCheck, known_lines
from vardi._estimate.tangent import Hessian, Tangent
from vardi._inputs.known import Known
from vardi._rows.contract import Floats
from vardi._rows.joint import Joint
from vardi._rows.weighted import WeightedRows
from vardi._solve.identify import Verdict, joined_verdict
from vardi._solve.joint import At
from vardi._solve.parameters import alone, held_of
from vardi.errors import ContradictedKnownWarning

RANK = 1e-8  # relative size of an eigenvalue of a covariance from which a direction counts
NOTHING = 1e-10  # of the variance of one row, below which only rounding is left


def check_known(held: Any, *, trusted: bool) -> KnownCheck | None:
    """Compare known values with what the samples say."""
    known: Known | None = held.prepared.known
    if known is None:
        return None
    values, covariance = _alone(held) if held.alone is not None else _left_out(held)
    variances = np.diag(covariance)
    H = held.prepared.values
    least = NOTHING * np.maximum(H.var(axis=0), 1e-300) / held.tangent.n
    stderr = np.where(variances > least, np.sqrt(np.maximum(variances, 0.0)), 0.0)
    lines = known_lines(known, values, stderr if trusted else np.full(len(stderr), math.nan))
    samples = tuple(str(name) for name, size in zip(held.names, held.rows.sizes, strict=True) if size)
    residual = float(np.abs(held.measured_known() - held.moved_known()).max())
    if not trusted:
        return KnownCheck(lines, math.nan, 0, math.nan, residual, samples)
    statistic, df = _test(held)
    pvalue = float(chdtrc(df, statistic)) if df else math.nan
    return KnownCheck(lines, statistic if df else math.nan, df, pvalue, residual, samples)


def warn_of_contradiction(check: KnownCheck | None) -> None:
    """Warn where the samples contradict what is known."""
    if check is not None and check.contradicted:
        warnings.warn(
            f"{check.verdict} The weights meet the known values all the same. fit.known has the details.",
            ContradictedKnownWarning,
            stacklevel=5,
        )


def joined(held: Any) -> Verdict:
    """Return the verdict on the overlap, and on groups that known values join."""
    verdict: Verdict = held.judge()
    if held.groups is None or held.groups.max() <= 0:
        return verdict
    return joined_verdict(verdict, np.bincount(held.groups[held.rows.source], held.masses).astype(np.float64))


def _alone(held: Any) -> tuple[Floats, Floats]:
    """Return the means of the known functions by the samples alone, and their covariance."""
    joint: Joint = alone(held.joint)
    v = held.alone[: len(joint.coordinates)]
    weights, shift = joint.weights(v)
    v = joint.rescaled(v, shift)
    measure = WeightedRows(joint, v, weights, held.source, held.counts)
    rows = joint.rows_at(v[joint.coordinates.theta])
    hessian = Hessian(rows, v[joint.coordinates.u] - joint.shift(v[joint.coordinates.theta]))
    tangent = Tangent(measure, At.of(joint, v, held_of(joint)).jacobian, hessian)
    eta, influence = tangent.influence(joint.spread(held.prepared.values))
    return eta, influence.covariance()


def _left_out(held: Any) -> tuple[Floats, Floats]:
    """Return what the samples and all other known values say of each, and the covariance."""
    joint: Joint = held.joint
    at, known = joint.coordinates, held.prepared.known
    mu, influence = _multipliers(held)
    inverse = held.tangent.jacobian.solve(np.eye(len(at))[:, at.mu])[at.mu]
    diagonal = np.diag(inverse)
    moved = np.where(np.abs(diagonal) > 0, -1.0 / np.where(diagonal != 0, diagonal * held.tangent.n, 1.0), 0.0)
    # combinations of the known functions that are independent stand for all: the others follow from these
    back = np.linalg.pinv(held.prepared.directions.T)
    covariance = influence.covariance() * np.outer(moved, moved)
    return known.values + back @ (moved * mu), back @ covariance @ back.T


def _multipliers(held: Any) -> tuple[Floats, Any]:
    at = held.joint.coordinates
    directions = np.eye(len(at))[:, at.mu]
    return held.point[at.mu], held.tangent.of_coordinates(directions, held.nothing(at.known))


def _test(held: Any) -> tuple[float, int]:
    """Return the statistic of mu = 0, and its degrees of freedom."""
    mu, influence = _multipliers(held)
    covariance = influence.covariance()
    at, joint = held.joint.coordinates, held.joint
    scale = At.of(joint, held.point, held_of(joint)).scale[at.mu]
    values, vectors = np.linalg.eigh(covariance * np.outer(scale, scale))
    kept = values > RANK * max(float(values.max(initial=0.0)), 1.0 / held.tangent.n)
    along = vectors[:, kept].T @ (mu * scale)
    return float((along**2 / values[kept]).sum()), int(kept.sum())


def as_identified(verdict: Verdict, message: str) -> Verdict:
    """Return a verdict that known values do not join the samples."""
    return replace(verdict, identified=False, message=message)
