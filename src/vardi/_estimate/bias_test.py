r"""Whether the samples agree with their declared biases, where they overlap.

Given a row z of the pool, the model implies that it came from sample k with probability

.. math:: p_k(z) = e^{u_k}\omega_k(z) \Big/ \sum_l e^{u_l}\omega_l(z),

a multinomial logit with known offsets and free intercepts :math:`u_k`. Labels that do not follow p contradict a
declared bias. Where only one sample can draw, p is 1 and nothing is tested. With features :math:`h_j` of the rows,
counts c, and :math:`p_{ik}` of the sampled biases alone, the score test rests on

.. math::

    U_{jk} = \sum_i c_i h_{ij} (1\{s_i = k\} - p_{ik}),\qquad
    M_{jk,j'l} = \sum_i c_i h_{ij} h_{ij'} p_{ik} (\delta_{kl} - p_{il}).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from vardi._estimate.check_results import MOST_PAIRED, QUASI_INDEPENDENCE, BiasCheck, Discrepancy, Features
from vardi._estimate.hotelling import hotelling
from vardi._estimate.tangent import Influence, Tangent
from vardi._inputs.pool import Name
from vardi._rows.contract import Block, Extremes, Kept
from vardi._rows.lazy_shares import SharesInEngine
from vardi._rows.measure import Functions, Measure
from vardi._rows.point import RowsAt
from vardi._rows.queries import Queries
from vardi._rows.shares import shares_of
from vardi._rows.windows import Windows
from vardi._types import Floats, Integers
from vardi.errors._texts import to_digits


def check_biases(
    tangent: Tangent,
    names: Sequence[Name],
    columns: Mapping[str, Kept],
    *,
    features: Features = "ranks",
    fifths: int = 5,
    alone: float = 0.999,
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
    features : {"ranks", "poly2", "cells"}
        F(x) and F(x) squared of each column, with F its debiased distribution function: heavy tails do no harm to them.
        x and x squared, or indicators of cells of x.
    fifths : int
        How many cells a column then has.
    alone : float
        Probability of its own sample above which a row counts as one that no other could draw.

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
    p = 0.00014: the declared biases are doubtful (score test of x; chi2 = 22.74, df
    = 4). Look at it: ...
    """
    labels = Labels(tangent)
    sampled = [names[k] for k in labels.sampled.tolist()]
    varying = varying_of(labels.measure, columns)
    statistic, pvalues, df, reason = math.nan, np.full(labels.K + 1, math.nan), None, ""
    if labels.K == 1:
        reason = "there is only one sample, so there is nothing to compare it with."
    elif varying:
        chosen, measure = list(varying.values()), labels.measure
        makes: dict[Features, Callable[[Measure, Sequence[Varying]], Functions]] = {
            "ranks": ranks,
            "poly2": polynomials,
            "cells": partial(indicators, most=fifths),
        }
        compared = makes[features](measure, chosen)
        statistic, pvalues, df = _tested(labels, compared)
    if not reason and math.isnan(pvalues[-1]):
        reason = "no column was given that varies where the samples overlap."
        if df:
            few = "there are too few clusters, or effective rows of series, to compare the samples in"
            reason = f"{few} {df} ways at once."
    worst = None
    if not reason and not labels.measure.rows.dependence.in_units:
        furthest = [labels.furthest(name, column.values, sampled) for name, column in varying.items()]
        worst = max((one for one in furthest if one.z), key=lambda one: abs(one.z), default=None)
    by_sample = dict(zip(sampled, pvalues[:-1].tolist(), strict=True))
    without_others = dict(zip(sampled, labels.alone(alone).tolist(), strict=True))
    tested = tuple(varying)
    return BiasCheck(float(pvalues[-1]), statistic, df, "score", tested, by_sample, worst, without_others, reason)


def _tested(labels: Labels, features: Functions) -> tuple[float, Floats, int]:
    """Return the statistic, the p-values of each sample and of all together, and the degrees of freedom.

    Scores are corrected for everything that was fitted.
    """
    U, M, cross = labels.score(features)
    J, K = U.shape
    M_h0 = cross.reshape(J * K, -1)
    through, freedom, n = labels.solve(M_h0.T), math.inf, labels.measure.n
    least = 1e-8 * np.maximum(np.einsum("jkjk->jk", M), 1.0)  # information, in rows, that counts as zero
    if labels.measure.rows.dependence.in_units:
        influence = labels.influence_by_units(features, through)
        V = influence.covariance() * n**2
        freedom = hotelling(influence, U.ravel() / n, V / n**2, least.ravel() / n**2).freedom
    else:
        V = M - (M_h0 @ through).reshape(M.shape)
    V = V.reshape(M.shape)
    of_samples = np.moveaxis(np.einsum("jklk->jkl", V), 1, 0)
    pvalues = _chi2_of_each(U.T, of_samples, least.T, freedom)[1]
    statistic, pvalue, df = chi_square(U.ravel(), V.reshape(J * K, J * K), least.ravel(), freedom)
    return statistic, np.append(pvalues, pvalue), df


def chi_square(U: Floats, V: Floats, least: Floats, freedom: float = math.inf) -> tuple[float, float, int]:
    """Return U' V^+ U, its p-value (NaN without information) and the rank of V, scaled to a unit diagonal.

    Where V has degrees of freedom of its own, the law is Hotelling's.
    """
    (statistic,), (pvalue,), (df,) = _chi2_of_each(U[None], V[None], least[None], freedom)
    return float(statistic), float(pvalue), int(df)


def _chi2_of_each(
    U: Floats, V: Floats, least: Floats, freedom: float, *, rank_from: float = 1e-8
) -> tuple[Floats, Floats, Integers]:
    """Return the same of each of several U and V, of shape (B, m) and (B, m, m).

    Eigenvalues of the scaled V count from ``rank_from`` of the largest on, which is at least 1 if there is any.
    """
    variance = np.einsum("bjj->bj", V)
    informed = variance > least
    root = np.sqrt(np.where(informed, variance, 1.0))
    none = ~(informed[:, :, None] & informed[:, None, :])
    values, vectors = np.linalg.eigh(np.where(none, 0.0, V / (root[:, :, None] * root[:, None, :])))
    kept = values > rank_from * np.maximum(values.max(axis=1, initial=0.0), 1e-300)[:, None]
    along = np.einsum("bji,bj->bi", vectors, np.where(informed, U / root, 0.0))
    statistic = np.divide(along**2, values, out=np.zeros(values.shape), where=kept).sum(axis=1)
    rank = kept.sum(axis=1)
    if math.isinf(freedom) or math.isnan(freedom):  # it is NaN without any information
        return statistic, scipy.special.chdtrc(rank, statistic), rank
    left = freedom - rank + 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        pvalue = scipy.special.fdtrc(rank, left, statistic * left / (freedom * rank))
    return statistic, np.where((rank == 0) | (left < 1.0), math.nan, pvalue), rank


@dataclass(frozen=True, eq=False)
class Varying:
    """What the samples are compared in: a column, its mean over the pool, its smallest and its largest value."""

    values: Kept
    mean: float
    low: float
    high: float


class Labels:
    """The rows at a solution of the samples alone: known values play no part in the test.

    Parameters
    ----------
    tangent : Tangent
        The solution.
    """

    def __init__(self, tangent: Tangent) -> None:
        self.tangent, self.measure = tangent, tangent.measure
        self.sampled = np.flatnonzero(self.measure.rows.sizes > 0)
        self.K = len(self.sampled)

    def alone(self, probability: float) -> Floats:
        """Return the share of each sample's rows that, with more than this probability, no other could have drawn."""

        def question(block: Block, at: RowsAt) -> Floats:
            return block.by_sample((block.of_own(at.p) > probability) * np.ones(1))

        return self.measure.total(question)[self.sampled, 0] / self.measure.rows.sizes[self.sampled]

    def score(self, features: Functions) -> tuple[Floats, Floats, Floats]:
        """Return the sums of the score test, for K sampled biases, J features and p parameters.

        They are U of shape (J, K), M of shape (J, K, J, K), and the cross information of each feature with the
        normalisers and the parameters, of shape (J, K, K + p).
        """
        J, K, at = features.width, self.K, self.measure.coordinates
        first, second = np.tril_indices(J)

        def question(block: Block, rows: RowsAt) -> tuple[Floats, ...]:
            h = block.let(features.of(block, rows))
            weights = block.let(np.hstack([h, h[:, first] * h[:, second]]))
            sums = block.by_sample(h) - block.gram(rows.p, h), block.products(rows.p, weights)
            if not at.parameters:
                return sums
            by_parameters = block.let(np.hstack([h[:, [j]] * rows.others for j in range(J)]))
            return *sums, block.gram(rows.p, by_parameters), block.sum(by_parameters)

        residual, products, *by_parameters = self.measure.total(question, J * J)
        information, M = self._information(products), np.zeros((J, K, J, K))
        for j, l, one in zip(first, second, information[J:], strict=True):
            M[j, :, l] = M[l, :, j] = one
        cross = [information[:J], *([self._through_parameters(*by_parameters)] if by_parameters else [])]
        return residual[self.sampled].T, M, np.concatenate(cross, axis=2)

    def _through_parameters(self, mixed: Floats, by_parameters: Floats) -> Floats:
        r"""Return :math:`\sum_i c_i h_{ij} p_{il} (\delta_{kl} - p_{ik}) t_{il}`, of shape (J, K, p)."""
        by_parameters = by_parameters.reshape(-1, self.measure.coordinates.parameters)
        sums = -np.swapaxes(mixed.reshape(len(mixed), *by_parameters.shape), 0, 1)
        for k, place in self.measure.point.model.places.items():
            sums[:, k, place] += by_parameters[:, place]
        return sums[:, self.sampled]

    def influence_by_units(self, features: Functions, through: Floats) -> Influence:
        """Return the influence of rows that depend on one another on the scores, divided by their number.

        Parameters
        ----------
        features : Functions
            The features.
        through : ndarray of shape (K + p, J K)
            The correction for fitted coordinates.
        """
        measure, width = self.measure, features.width * self.K
        each = np.eye(len(measure.rows.sizes))[:, self.sampled]  # the sampled biases among all

        def make(block: Block, at: RowsAt) -> Floats:
            residual = block.let(block.of_sample(each) - at.p @ each)
            h = block.let(features.of(block, at))
            return np.hstack([h[:, [j]] * residual for j in range(features.width)])

        scores = Functions((), width, make, weighed=True)
        b = self._placed(through)
        return Influence(measure, measure.influence(scores, np.zeros(width), b), b)

    def furthest(
        self, name: str, column: Kept, samples: Sequence[Name], regions: int = 10, informed: float = 1.0
    ) -> Discrepancy:
        """Return the cell of a column and the sample in which observed and expected rows are the most errors apart.

        The z of a cell is near a normal variable from an information of one row on.
        """
        low, high = cells_of(self.measure, column, regions)

        def question(block: Block, at: RowsAt) -> tuple[Floats, ...]:
            inside = block.let(_within(block.columns(column), low, high))
            return block.by_sample(inside), block.gram(at.p, inside), block.products(at.p, inside)

        observed, expected, products = self.measure.total(question, len(high))
        observed, expected = observed[self.sampled].T, expected[self.sampled].T
        variance = np.stack([self._variances(M) for M in self._information(products)])
        z = np.where(variance >= informed, (observed - expected) / np.sqrt(np.maximum(variance, informed)), 0.0)
        largest = np.abs(z) >= np.abs(z).max() * (1.0 - 1e-9)  # two samples differ by the same amount: name the first
        j, k = np.unravel_index(int(largest.argmax()), z.shape)
        first, last = (to_digits(ends[j], 4) for ends in (low, high))
        region = f"{name} between {first} and {last}" if low[j] < high[j] else f"{name} equal to {first}"
        numbers = (float(one[j, k]) for one in (observed, expected, z))
        return Discrepancy(name, region, samples[int(k)], *numbers)

    def _variances(self, M: Floats) -> Floats:
        """Return the diagonal of M - M M_00^+ M: only samples that have rows in the cell have any information."""
        there = np.flatnonzero(np.diag(M))
        variances = np.zeros(len(M))
        variances[there] = np.diag(M)[there] - np.einsum("lk,lk->k", M[:, there], self.solve(M[:, there]))
        return variances

    def solve(self, a: Floats) -> Floats:
        """Return M_00^+ a for a of shape (K, m); of shape (K + p, m) that of all that was fitted, parameters too."""
        at, whole = self.measure.coordinates, self._placed(a)
        if len(a) == self.K:
            return self.tangent.hessian.solve(whole[at.u])[self.sampled]
        solved = self.tangent.jacobian.solve(whole)
        return np.vstack([solved[self.sampled], solved[at.theta]])

    def _placed(self, a: Floats) -> Floats:
        """Return rows for the sampled states and the parameters, padded with zeros to all coordinates."""
        at = self.measure.coordinates
        whole = np.zeros((len(at), a.shape[1]))
        whole[self.sampled] = a[: self.K]
        if len(a) > self.K:
            whole[at.theta] = a[self.K :]
        return whole

    def _information(self, products: Floats | sparse.sparray) -> Floats:
        """Return sums of diag(p) - p p' of the sampled biases, (m, K, K), given those of p p' of all biases.

        Their rows sum to zero, so the diagonal is known without cancellation.
        """
        whole = products if isinstance(products, np.ndarray) else products.toarray()
        M = -whole.reshape(-1, whole.shape[1], whole.shape[1])[:, self.sampled[:, None], self.sampled]
        each = np.arange(self.K)
        M[:, each, each] = 0.0
        M[:, each, each] = -M.sum(axis=2)
        return M


def varying_of(measure: Measure, columns: Mapping[str, Kept]) -> dict[str, Varying]:
    """Return the columns that are not the same on all rows."""
    if not columns:
        return {}

    def question(block: Block) -> tuple[Floats, Extremes]:
        x = np.hstack([block.columns(one) for one in columns.values()])
        return block.sum(x), block.extremes(x)

    total, ends = measure.rows.total(question, len(columns))
    spans = zip(columns.values(), (total / measure.n).tolist(), ends.low.tolist(), ends.high.tolist(), strict=True)
    every = dict(zip(columns, itertools.starmap(Varying, spans), strict=True))
    return {name: one for name, one in every.items() if one.low < one.high}


def polynomials(measure: Measure, columns: Sequence[Varying]) -> Functions:
    """Return x of each column with mean 0 and deviation 1, which limits rounding, and its square with mean 0."""
    mean = np.array([one.mean for one in columns])
    unit = np.array([max(one.mean - one.low, one.high - one.mean) for one in columns])

    def centred(block: Block) -> Floats:
        return np.hstack([block.columns(one.values) for one in columns]) - mean

    def squares(block: Block) -> Floats:
        x = block.let(centred(block) / unit)  # its square might overflow otherwise
        return block.sum(x * x)

    scale = unit * np.sqrt(measure.rows.total(squares, len(columns)) / measure.n)

    def features(block: Block, at: RowsAt) -> Floats:
        x = block.let(centred(block) / scale)
        return np.hstack([x, x * x - 1.0])

    return Functions((), 2 * len(columns), features)


def ranks(measure: Measure, columns: Sequence[Varying], most: int = 32) -> Functions:
    r"""Return F(x) of each column, scaled to -1 up to 1, and its square less a third.

    F is the debiased distribution function of all samples, in the middle of so many cells of x. Given the rows, labels
    are multinomial, so that an estimated F changes nothing to first order.
    """
    cells = [(one.values, cells_of(measure, one.values, most)[1][:-1]) for one in columns]
    places = np.cumsum([len(ends) for _, ends in cells])

    def above(block: Block) -> list[Floats]:
        found: list[Floats] = [np.multiply(block.columns(values) > ends, 1.0) for values, ends in cells]
        return [block.let(one) for one in found]

    beyond = measure.mean(Functions((), int(places[-1]), lambda block, at: np.hstack(above(block))))
    heights = [np.concatenate([[0.0], 1.0 - one, [1.0]]) for one in np.split(beyond, places[:-1])]
    middles = [one[1:] + one[:-1] - 1.0 for one in heights]

    def features(block: Block, at: RowsAt) -> Floats:
        pairs = zip(above(block), middles, strict=True)
        scaled: Floats = np.hstack([one @ np.diff(middle)[:, None] + middle[0] for one, middle in pairs])
        x = block.let(scaled)
        return np.hstack([x, x * x - 1.0 / 3.0])

    return Functions((), 2 * len(columns), features)


def indicators(measure: Measure, columns: Sequence[Varying], most: int) -> Functions:
    """Return the indicators of all cells of each column but the last."""
    cells = [(one.values, *cells_of(measure, one.values, most)) for one in columns]

    def features(block: Block, at: RowsAt) -> Floats:
        return np.hstack([_within(block.columns(values), low[:-1], high[:-1]) for values, low, high in cells])

    return Functions((), sum(len(high) - 1 for _, _, high in cells), features)


def _within(x: Floats, low: Floats, high: Floats) -> Floats:
    """Return 1 where one column is in each cell, and 0 elsewhere, of shape (rows, cells)."""
    return (x >= low) * (x <= high) * np.ones(1)


def cells_of(measure: Measure, column: Kept, most: int) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value of cells with about as many rows each; few values are a cell each."""
    if isinstance(measure.rows, Queries):
        return SharesInEngine.of_pool(measure.rows, column).of_equal_mass(most)
    return shares_of(column, [measure.counts]).of_equal_mass(most)


def quasi_independence(
    name: Name, windows: Windows, ends: Mapping[str, Floats], columns: Mapping[str, Floats], counts: Floats
) -> BiasCheck:
    r"""Test whether the windows of truncated rows are independent of their values, but for containing them.

    Two rows are comparable if each would have been seen through the other's window. If windows and values are
    independent in the population (quasi-independence), two comparable rows are as likely to have had their windows
    swapped, so

    .. math::

        h_{ij} = 1\{i, j \text{ comparable}\}\,\mathrm{sign}(x_i - x_j)\,\mathrm{sign}(u_i - u_j)

    has mean zero: Tsai's (1990) conditional Kendall's tau for left truncation, and that of Martin and Betensky (2005)
    for windows with two ends, where the upper ones :math:`v` are compared as well. Any column of the rows may stand for
    x. The mean over pairs is a U-statistic; with :math:`h_i` the mean of :math:`h_{ij}` over j its covariance is

    .. math:: V = \frac4n\,\overline{h_i h_i'} - \frac{2}{n (n - 1)}\,\overline{h_{ij} h_{ij}'}

    and :math:`U'V^+U` is chi-square with rank V degrees of freedom. Values that are tied add nothing.

    Parameters
    ----------
    name : hashable
        The name of the sample.
    windows : Windows
        The value and the window of each row.
    ends : mapping of str to ndarray
        The lower or upper ends, or both.
    columns : mapping of str to ndarray
        What to compare with them: the value, or anything else that the rows hold.
    counts : ndarray
        How many rows each stands for.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x, u = rng.exponential(size=(2, 400))
    >>> seen = x >= u
    >>> windows = Windows(x[seen], u[seen], np.full(seen.sum(), np.inf))
    >>> bool(quasi_independence("seen", windows, {"u": u[seen]}, {"x": x[seen]}, np.ones(seen.sum())).pvalue > 0.05)
    True
    """
    if len(windows.x) > MOST_PAIRED:
        rows = np.sort(np.random.default_rng(0).choice(len(windows.x), MOST_PAIRED, replace=False))
        windows = Windows(windows.x[rows], windows.low[rows], windows.high[rows])
        ends, columns = ({key: values[rows] for key, values in part.items()} for part in (ends, columns))
        counts = counts[rows]
    first, second, partners = _sums(windows, list(ends.values()), list(columns.values()), counts)
    n = counts.sum()
    U = counts @ first / (n * (n - 1.0)) if n > 1 else np.zeros(first.shape[1])
    means = first / max(n - 1.0, 1.0)
    V = 4.0 * (means.T * counts) @ means / n**2 - 2.0 * second / (n * max(n - 1.0, 1.0)) ** 2
    statistic, pvalue, df = chi_square(U, V, np.zeros(len(U)))
    if not df:
        statistic = pvalue = math.nan
    reason = "" if df else "no two rows with different values would have been seen through each other's windows."
    untested = {name: float(counts @ (partners == 0) / n)}
    return BiasCheck(
        pvalue, statistic, df or None, QUASI_INDEPENDENCE, tuple(columns), {name: pvalue}, None, untested, reason
    )


def _sums(
    windows: Windows, ends: list[Floats], columns: list[Floats], c: Floats, *, pairs: int = 2**20
) -> tuple[Floats, Floats, Floats]:
    """Return sum_j c_j h_ij for every row i, sum_ij c_i c_j h_ij h_ij', and how many rows each is compared with.

    So many pairs are compared at once.
    """
    n, m = len(windows.x), len(ends) * len(columns)
    first, second, partners = np.zeros((n, m)), np.zeros((m, m)), np.zeros(n)
    x, low, high = windows.x, windows.low, windows.high
    step = max(pairs // n, 1)
    for start in range(0, n, step):
        i = slice(start, min(start + step, n))
        values = x[i, None]
        comparable = (low <= values) & (values <= high) & (low[i, None] <= x) & (x <= high[i, None])
        partners[i] = _summed(comparable.view(np.int8), c) - c[i]
        signs = [_signs(end, i) * comparable for end in ends]
        concordant = [_signs(column, i) * sign for column in columns for sign in signs]
        for a, h in enumerate(concordant):
            first[i, a] = _summed(h, c)
            for b in range(a + 1):
                second[a, b] = second[b, a] = second[a, b] + c[i] @ _summed(h * concordant[b], c)
    return first, second, partners


def _summed(h: NDArray[np.int8], c: Floats) -> Floats:
    """Return sum_j c_j h_ij, without an array of floats if all counts are 1."""
    return h.sum(axis=1, dtype=np.int64).astype(np.float64) if (c == 1.0).all() else np.asarray(h @ c)


def _signs(values: Floats, i: slice) -> NDArray[np.int8]:
    """Return the signs of the differences between the values at i and all values."""
    return (values[i, None] > values).astype(np.int8) - (values[i, None] < values).astype(np.int8)
