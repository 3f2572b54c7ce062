r"""Whether the samples agree with their declared biases, where they overlap.

Given a row z of the pool, the model implies that it came from sample k with probability

.. math:: p_k(z) = e^{u_k}\omega_k(z) \Big/ \sum_l e^{u_l}\omega_l(z),

a multinomial logit with known offsets and free intercepts :math:`u_k`. Labels that do not follow p contradict a
declared bias. Where only one sample can draw, p is 1 and nothing is tested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy

from vardi._estimate.bias_check import BiasCheck, Features, Worst
from vardi._estimate.bias_labels import Cells, Labels, covariance_by_units
from vardi._estimate.tangent import Tangent
from vardi._inputs.pool import Name
from vardi._rows.engine.distribution import EngineDistribution
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.labels import EngineLabels
from vardi._types import Floats, Integers
from vardi.errors._texts import to_digits

NO_INFORMATION = 1e-300  # below any eigenvalue of a matrix with a unit diagonal
RANK = 1e-8  # eigenvalues of the scaled information, and information in rows, that count as zero
FIFTHS, REGIONS = 5, 10  # cells of a column: as features, and to seek the worst in
INFORMED = 1.0  # information, in rows, from which the z of a region is near a normal variable
ALONE = 0.999  # probability of its own sample above which a row counts as one that no other could draw


def check_biases(
    influence: Tangent,
    names: Sequence[Name],
    columns: Mapping[str, Floats],
    *,
    features: Features = "poly2",
) -> BiasCheck:
    r"""Test the declared biases against the samples, by the score test of the logit.

    With features :math:`h_j` of the rows, :math:`h_0 = 1`, and counts c,

    .. math::

        U_{jk} = \sum_i c_i h_{ij} (1\{s_i = k\} - p_{ik}),\quad
        M_{jk,j'l} = \sum_i c_i h_{ij} h_{ij'} p_{ik} (\delta_{kl} - p_{il}),\quad
        V = M_{hh} - M_{h0} M_{00}^+ M_{0h},

    and :math:`U'V^+U` is chi-square with rank V degrees of freedom: :math:`U_k / n_k` is the mean of h over sample k
    minus its mean under the fitted distribution of sample k. Where rows depend on one another, V is the covariance of
    the rows' contributions to U, summed by cluster or over time, and the statistic is Hotelling's.

    Parameters
    ----------
    influence, names, columns : Influence, sequence, mapping of name to ndarray
        The fit, a name for each bias, and what to compare: numbers for the rows of the fit, in the order of the pool.
    features : {"poly2", "cells"}
        x and x squared of each column (more power), or indicators of its fifths.

    Returns
    -------
    BiasCheck
        With NaN and a reason where nothing can be tested: one sample alone, or no column that varies in the overlap.

    Examples
    --------
    >>> import vardi
    >>> design = vardi.datasets.length_bias(seed=1)
    >>> x = np.concatenate(list(design.samples.values()))
    >>> wrong = vardi.debias(design.samples, design.biases | {"square": "x"})
    >>> print(check_biases(wrong.held.tangent, wrong.names, {"x": x}))
    p = 0.00032: the declared biases are contradicted (score test of x; chi2 =
    20.95, df = 4). Largest discrepancy: x between 6.821 and 18.37, 28 rows of 'square' where
    18.79 are expected (z = +2.8). ...
    """
    labels = Labels(influence, names)
    varying = {name: values for name, values in columns.items() if np.ptp(values) > 0}
    statistic, pvalues, df, reason = math.nan, np.full(labels.K + 1, math.nan), None, ""
    if labels.K == 1:
        reason = "there is only one sample, so there is nothing to compare it with."
    elif varying:
        statistic, pvalues, df = _score(labels, np.hstack([_features(x, labels, features) for x in varying.values()]))
    if not reason and math.isnan(pvalues[-1]):
        reason = _untested(df)
    worst = None if reason or labels.depend else _worst(labels, varying)
    by_sample = dict(zip(labels.names, pvalues[:-1].tolist(), strict=True))
    alone = np.bincount(labels.source, labels.counts * (labels.own > ALONE), minlength=labels.K) / labels.sizes
    untested = dict(zip(labels.names, alone.tolist(), strict=True))
    return BiasCheck(float(pvalues[-1]), statistic, df, "score", tuple(varying), by_sample, worst, untested, reason)


def _features(values: Floats, labels: Labels, kind: str) -> Floats:
    """Return x and x^2 with mean 0 (to limit rounding), or the indicators of all cells but the last."""
    if kind == "cells":
        return np.asarray(Cells(values, labels, FIFTHS).rows[:-1].T.toarray())
    n, found = labels.counts.sum(), np.empty((2, len(values)))  # columns in one piece
    x, squared = found
    np.subtract(values, labels.counts @ values / n, out=x)
    x /= max(-x.min(), x.max())  # its square might overflow otherwise
    np.square(x, out=squared)
    scale = math.sqrt(labels.counts @ squared / n)
    x /= scale
    squared /= scale**2
    squared -= 1.0
    return found.T


def _score(labels: Labels, h: Floats) -> tuple[float, Floats, int]:
    """Return the statistic, the p-values of each sample and of all together, and the degrees of freedom."""
    J, K = h.shape[1], labels.K
    pairs = [(j, l) for j in range(J) for l in range(j + 1)]
    sums = labels.information([*h.T, *(h[:, j] * h[:, l] for j, l in pairs)])
    M = np.empty((J, K, J, K))
    for (j, l), product in zip(pairs, sums[J:], strict=True):
        M[j, :, l] = M[l, :, j] = product
    cross = np.stack([labels.cross(h[:, j], sums[j]) for j in range(J)])
    return _tested(labels.scores(h.T), M, cross, labels.solve_fitted, labels.by_units(h))


def _tested(U: Floats, M: Floats, cross: Floats, solve: Any, by_units: Any = None) -> tuple[float, Floats, int]:
    """Return the statistic of scores U (J, K) with information M, corrected for everything that was fitted."""
    J, K = U.shape
    M_h0 = cross.reshape(J * K, -1)
    through = solve(M_h0.T)
    V, freedom = (M - (M_h0 @ through).reshape(M.shape), math.inf) if by_units is None else by_units(through)
    V = V.reshape(M.shape)
    least = RANK * np.maximum(np.einsum("jkjk->jk", M), 1.0)
    own = np.moveaxis(np.einsum("jklk->jkl", V), 1, 0)
    pvalues = _chi2_of_each(U.T, own, least.T, freedom)[1]
    statistic, pvalue, df = _chi2(U.ravel(), V.reshape(J * K, J * K), least.ravel(), freedom)
    return statistic, np.append(pvalues, pvalue), df


def _chi2(U: Floats, V: Floats, least: Floats, freedom: float = math.inf) -> tuple[float, float, int]:
    """Return U' V^+ U, its p-value (NaN without information) and the rank of V, scaled to a unit diagonal.

    Where V has degrees of freedom of its own, the law is Hotelling's.
    """
    (statistic,), (pvalue,), (rank,) = _chi2_of_each(U[None], V[None], least[None], freedom)
    return float(statistic), float(pvalue), int(rank)


def _chi2_of_each(U: Floats, V: Floats, least: Floats, freedom: float) -> tuple[Floats, Floats, Integers]:
    """Return the same of each of several U and V, of shape (B, m) and (B, m, m)."""
    variance = np.einsum("bjj->bj", V)
    informed = variance > least
    root = np.sqrt(np.where(informed, variance, 1.0))
    none = ~(informed[:, :, None] & informed[:, None, :])
    values, vectors = np.linalg.eigh(np.where(none, 0.0, V / (root[:, :, None] * root[:, None, :])))
    kept = values > RANK * np.maximum(values.max(axis=1, initial=0.0), NO_INFORMATION)[:, None]
    along = np.einsum("bji,bj->bi", vectors, np.where(informed, U / root, 0.0))
    statistic = np.divide(along**2, values, out=np.zeros(values.shape), where=kept).sum(axis=1)
    rank = kept.sum(axis=1)
    if math.isinf(freedom):
        return statistic, scipy.special.chdtrc(rank, statistic), rank
    left = freedom - rank + 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        pvalue = scipy.special.fdtrc(rank, left, statistic * left / (freedom * rank))
    return statistic, np.where((rank == 0) | (left < 1.0), math.nan, pvalue), rank


def _untested(df: int | None) -> str:
    """Return why there is no p-value."""
    if df:
        return f"there are too few clusters, or effective rows of series, to compare the samples in {df} ways at once."
    return "no column was given that varies where the samples overlap."


def _worst(labels: Labels, columns: Mapping[str, Floats]) -> Worst | None:
    """Return the cell and the sample in which observed and expected rows are the most standard errors apart."""
    worst = None
    for name, values in columns.items():
        cells = Cells(values, labels, REGIONS)
        gap, both = cells.gaps(labels), cells.cell * labels.K + labels.source
        observed = np.bincount(both, labels.counts, minlength=gap.size).astype(np.float64).reshape(gap.shape)
        table = observed, gap, cells.information(labels), cells.low, cells.high
        worst = _further(worst, name, labels.names, table, labels.solve)
    return worst


def _variances(M: Floats, solve: Any) -> Floats:
    """Return the diagonal of M - M M_00^+ M: only samples that have rows in the cell have any information."""
    there = np.flatnonzero(np.diag(M))
    variances = np.zeros(len(M))
    variances[there] = np.diag(M)[there] - np.einsum("lk,lk->k", M[:, there], solve(M[:, there]))
    return variances


def _further(worst: Worst | None, name: str, names: Sequence[Name], table: tuple[Any, ...], solve: Any) -> Worst | None:
    """Return the cell of a column that is furthest off, if it is further than the worst so far."""
    observed, gap, information, low, high = table
    variance = np.stack([_variances(M, solve) for M in information])
    z = np.where(variance >= INFORMED, gap / np.sqrt(np.maximum(variance, INFORMED)), 0.0)
    largest = np.abs(z) >= np.abs(z).max() * (1.0 - 1e-9)  # two samples differ by the same amount: name the first
    j, k = np.unravel_index(int(largest.argmax()), z.shape)
    if not z[j, k] or (worst is not None and abs(z[j, k]) <= abs(worst.z)):
        return worst
    seen = float(observed[j, k]), float(observed[j, k] - gap[j, k]), float(z[j, k])
    first, last = to_digits(low[j], 4), to_digits(high[j], 4)
    region = f"between {first} and {last}" if low[j] < high[j] else f"equal to {first}"
    return Worst(name, f"{name} {region}", names[int(k)], *seen)


def check_engine_biases(
    labels: EngineLabels,
    tangent: Tangent,
    names: Sequence[Name],
    functions: Mapping[str, EngineFunction],
    *,
    features: Features = "poly2",
) -> BiasCheck:
    """Test the biases of rows in an engine by the score test, as :func:`check_biases` does in memory.

    Parameters
    ----------
    labels : EngineLabels
        The rows, without known values.
    tangent : Tangent
        The tangent at the same point.
    names : sequence
        A name for each bias.
    functions : mapping from name to EngineFunction
        The columns to compare the samples in.
    features : {"poly2", "cells"}
        As for :func:`check_biases`.
    """
    sampled, at = labels.sampled, labels.at.coordinates
    own = [names[k] for k in sampled.tolist()]
    ends = {name: EngineDistribution(labels.at, function).ends for name, function in functions.items()}
    varying = {name: function for name, function in functions.items() if ends[name][0] < ends[name][1]}
    statistic, pvalues, df, reason = math.nan, np.full(labels.K + 1, math.nan), None, ""

    depend = labels.at.dependence.in_units

    def placed(a: Floats) -> Floats:
        whole = np.zeros((len(at), a.shape[1]))
        whole[sampled], whole[at.theta] = a[: labels.K], a[labels.K :]
        return whole

    def solve(a: Floats) -> Floats:
        whole = placed(a)
        solved = tangent.jacobian.solve(whole) if at.parameters else tangent.hessian.solve(whole)
        return np.vstack([solved[sampled], solved[at.theta]])

    def solve_normalisers(a: Floats) -> Floats:
        whole = np.zeros((at.samples, a.shape[1]))
        whole[sampled] = a
        return tangent.hessian.solve(whole)[sampled]

    if labels.K == 1:
        reason = "there is only one sample, so there is nothing to compare it with."
    elif varying:
        h = labels.features(list(varying.values()), features)
        sums = labels.score(h)
        by_units = (
            (lambda through: covariance_by_units(labels.measure, labels.scores(h), placed(through))) if depend else None
        )
        statistic, pvalues, df = _tested(sums.residual, sums.information, sums.cross, solve, by_units)
    if not reason and math.isnan(pvalues[-1]):
        reason = _untested(df)
    worst = None
    for name, function in () if reason or depend else varying.items():
        cells = labels.cells(function, REGIONS)
        table = cells.observed, cells.observed - cells.expected, cells.information, cells.low, cells.high
        worst = _further(worst, name, own, table, solve_normalisers)
    by_sample = dict(zip(own, pvalues[:-1].tolist(), strict=True))
    alone = dict(zip(own, labels.alone(ALONE).tolist(), strict=True))
    return BiasCheck(float(pvalues[-1]), statistic, df, "score", tuple(varying), by_sample, worst, alone, reason)
