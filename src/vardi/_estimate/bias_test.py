r"""Whether the samples agree with their declared biases, where they overlap.

Given a row z of the pool, the model implies that it came from sample k with probability

.. math:: p_k(z) = e^{u_k}\omega_k(z) \Big/ \sum_l e^{u_l}\omega_l(z),

a multinomial logit with known offsets and free intercepts :math:`u_k`. Labels that do not follow p contradict a
declared bias. Where only one sample can draw, p is 1 and nothing is tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import scipy

from vardi._estimate.bias_check import BiasCheck, Discrepancy, Features
from vardi._estimate.bias_labels import CellSums, Labels, RowFeatures, Varying, indicators, polynomials, varying_of
from vardi._estimate.tangent import Tangent
from vardi._inputs.pool import Name
from vardi._rows.contract import Kept
from vardi._types import Floats, Integers
from vardi.errors._texts import to_digits

#: The inverse information of the normalisers, times numbers of the sampled biases.
Solve: TypeAlias = Callable[[Floats], Floats]

NO_INFORMATION = 1e-300  # below any eigenvalue of a matrix with a unit diagonal
RANK = 1e-8  # eigenvalues of the scaled information, and information in rows, that count as zero
FIFTHS, REGIONS = 5, 10  # cells of a column: as features, and to seek the worst in
INFORMED = 1.0  # information, in rows, from which the z of a region is near a normal variable
ALONE = 0.999  # probability of its own sample above which a row counts as one that no other could draw


def check_biases(
    tangent: Tangent,
    names: Sequence[Name],
    columns: Mapping[str, Kept],
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
    tangent : Tangent
        The fit of the samples alone, without known values.
    names : sequence
        A name for each bias.
    columns : mapping from a name to Kept
        What to compare the samples in: one column each.
    features : {"poly2", "cells"}
        x and x squared of each column (more power), or indicators of its indicators.

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
    >>> print(check_biases(wrong.solved.tangent, wrong.names, {"x": x}))
    p = 0.00032: the declared biases are contradicted (score test of x; chi2 =
    20.95, df = 4). Largest discrepancy: x between 6.821 and 18.37, 28 rows of 'square' where
    18.79 are expected (z = +2.8). ...
    """
    labels = Labels(tangent)
    own = [names[k] for k in labels.sampled.tolist()]
    varying = varying_of(labels.measure, columns)
    statistic, pvalues, df, reason = math.nan, np.full(labels.K + 1, math.nan), None, ""
    if labels.K == 1:
        reason = "there is only one sample, so there is nothing to compare it with."
    elif varying:
        given = list(varying.values())
        made = polynomials(labels.measure, given) if features == "poly2" else indicators(labels.measure, given, FIFTHS)
        statistic, pvalues, df = _tested(labels, made)
    if not reason and math.isnan(pvalues[-1]):
        reason = _untested(df)
    worst = None if reason or labels.measure.rows.dependence.in_units else _worst(labels, own, varying)
    by_sample = dict(zip(own, pvalues[:-1].tolist(), strict=True))
    alone = dict(zip(own, labels.alone(ALONE).tolist(), strict=True))
    return BiasCheck(float(pvalues[-1]), statistic, df, "score", tuple(varying), by_sample, worst, alone, reason)


def _tested(labels: Labels, features: RowFeatures) -> tuple[float, Floats, int]:
    """Return the statistic, the p-values of each sample and of all together, and the degrees of freedom.

    Scores are corrected for everything that was fitted.
    """
    sums = labels.score(features)
    U, M = sums.residual, sums.information
    J, K = U.shape
    M_h0 = sums.cross.reshape(J * K, -1)
    through, freedom = labels.solve_fitted(M_h0.T), math.inf
    if labels.measure.rows.dependence.in_units:
        V, freedom = labels.covariance_by_units(features, through)
    else:
        V = M - (M_h0 @ through).reshape(M.shape)
    V = V.reshape(M.shape)
    least = RANK * np.maximum(np.einsum("jkjk->jk", M), 1.0)
    own = np.moveaxis(np.einsum("jklk->jkl", V), 1, 0)
    pvalues = _chi2_of_each(U.T, own, least.T, freedom)[1]
    statistic, pvalue, df = chi_square(U.ravel(), V.reshape(J * K, J * K), least.ravel(), freedom)
    return statistic, np.append(pvalues, pvalue), df


def chi_square(U: Floats, V: Floats, least: Floats, freedom: float = math.inf) -> tuple[float, float, int]:
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


def _worst(labels: Labels, names: Sequence[Name], columns: Mapping[str, Varying]) -> Discrepancy | None:
    """Return the cell and the sample in which observed and expected rows are the most standard errors apart."""
    worst = None
    for name, column in columns.items():
        worst = _further(worst, name, names, labels.cells(column.values, REGIONS), labels.solve)
    return worst


def _variances(M: Floats, solve: Solve) -> Floats:
    """Return the diagonal of M - M M_00^+ M: only samples that have rows in the cell have any information."""
    there = np.flatnonzero(np.diag(M))
    variances = np.zeros(len(M))
    variances[there] = np.diag(M)[there] - np.einsum("lk,lk->k", M[:, there], solve(M[:, there]))
    return variances


def _further(
    worst: Discrepancy | None, name: str, names: Sequence[Name], cells: CellSums, solve: Solve
) -> Discrepancy | None:
    """Return the cell of a column that is furthest off, if it is further than the worst so far."""
    gap, low, high = cells.observed - cells.expected, cells.low, cells.high
    variance = np.stack([_variances(M, solve) for M in cells.information])
    z = np.where(variance >= INFORMED, gap / np.sqrt(np.maximum(variance, INFORMED)), 0.0)
    largest = np.abs(z) >= np.abs(z).max() * (1.0 - 1e-9)  # two samples differ by the same amount: name the first
    j, k = np.unravel_index(int(largest.argmax()), z.shape)
    if not z[j, k] or (worst is not None and abs(z[j, k]) <= abs(worst.z)):
        return worst
    seen = float(cells.observed[j, k]), float(cells.expected[j, k]), float(z[j, k])
    first, last = to_digits(low[j], 4), to_digits(high[j], 4)
    region = f"between {first} and {last}" if low[j] < high[j] else f"equal to {first}"
    return Discrepancy(name, f"{name} {region}", names[int(k)], *seen)
