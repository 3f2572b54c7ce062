r"""The labels of rows against their probabilities under the declared biases: the sums of the score test.

With features :math:`h_j` of the rows, counts c, and :math:`p_{ik}` of the sampled biases alone,

.. math::

    U_{jk} = \sum_i c_i h_{ij} (1\{s_i = k\} - p_{ik}),\qquad
    M_{jk,j'l} = \sum_i c_i h_{ij} h_{ij'} p_{ik} (\delta_{kl} - p_{il}).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vardi._estimate.tangent import Tangent
from vardi._rows.contract import Block, Extremes, Kept, Question
from vardi._rows.engine.shares import SharesInEngine
from vardi._rows.measure import Functions, Measure
from vardi._rows.point import RowsAt
from vardi._rows.queries import Queries
from vardi._rows.shares import shares_of
from vardi._types import Floats


@dataclass(frozen=True, eq=False)
class RowFeatures:
    """Functions of the rows in which labels are compared with their probabilities.

    Attributes
    ----------
    on : callable
        Returns them on the rows of a block, of shape (rows, J).
    width : int
        How many there are.
    """

    on: Question[Floats]
    width: int


@dataclass(frozen=True, eq=False)
class Varying:
    """What the samples are compared in: a column, its mean over the pool, its smallest and its largest value."""

    values: Kept
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class ScoreSums:
    """The sums behind the score test, for K sampled biases, J features and p parameters.

    Attributes
    ----------
    residual : ndarray of shape (J, K)
        U.
    information : ndarray of shape (J, K, J, K)
        M.
    cross : ndarray of shape (J, K, K + p)
        Cross information of each feature with the normalisers and the parameters.
    """

    residual: Floats
    information: Floats
    cross: Floats


@dataclass(frozen=True)
class CellSums:
    """Rows in a column's cells, as observed and as expected from the biases.

    Attributes
    ----------
    low, high : ndarray of shape (cells,)
        The smallest and the largest value of each.
    observed, expected : ndarray of shape (cells, K)
        How many rows of each sample there are, and how many are expected.
    information : ndarray of shape (cells, K, K)
        sum_i c_i (diag(p_i) - p_i p_i') over the rows of each.
    """

    low: Floats
    high: Floats
    observed: Floats
    expected: Floats
    information: Floats


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

    def score(self, features: RowFeatures) -> ScoreSums:
        """Return the sums of the score test of features."""
        J, K, at = features.width, self.K, self.measure.coordinates
        first, second = np.tril_indices(J)

        def question(block: Block, rows: RowsAt) -> tuple[Floats, ...]:
            h = block.let(features.on(block))
            weights = block.let(np.hstack([h, h[:, first] * h[:, second]]))
            found = block.by_sample(h) - block.gram(rows.p, h), block.products(rows.p, weights)
            if not at.parameters:
                return found
            moved = block.let(np.hstack([h[:, [j]] * rows.others for j in range(J)]))
            return *found, block.gram(rows.p, moved), block.sum(moved)

        residual, products, *moved = self.measure.total(question, J * J)
        information, M = self._information(products), np.zeros((J, K, J, K))
        for j, l, one in zip(first, second, information[J:], strict=True):
            M[j, :, l] = M[l, :, j] = one
        cross = [information[:J], *([self._through_parameters(*moved)] if moved else [])]
        return ScoreSums(residual[self.sampled].T, M, np.concatenate(cross, axis=2))

    def _through_parameters(self, mixed: Floats, moved: Floats) -> Floats:
        r"""Return :math:`\sum_i c_i h_{ij} p_{il} (\delta_{kl} - p_{ik}) t_{il}`, of shape (J, K, p)."""
        moved = moved.reshape(-1, self.measure.coordinates.parameters)
        found = -np.swapaxes(mixed.reshape(len(mixed), *moved.shape), 0, 1)
        for k, place in self.measure.point.model.places.items():
            found[:, k, place] += moved[:, place]
        return found[:, self.sampled]

    def covariance_by_units(self, features: RowFeatures, through: Floats) -> tuple[Floats, float]:
        """Return the covariance of scores of rows that depend on one another, and its degrees of freedom.

        Parameters
        ----------
        features : RowFeatures
            The features.
        through : ndarray of shape (K + p, J K)
            The correction for fitted coordinates.
        """

        def make(block: Block, at: RowsAt) -> Floats:
            residual = block.let(block.of_sample(self._each) - at.p @ self._each)
            h = block.let(features.on(block))
            return np.hstack([h[:, [j]] * residual for j in range(features.width)])

        measure, width = self.measure, features.width * self.K
        scores = Functions((), width, make, weighed=True)
        spread = measure.spread(measure.influence(scores, np.zeros(width), self._placed(through)))
        return spread.covariance * measure.n**2, float(spread.freedom.sum(axis=0).min())

    def cells(self, column: Kept, most: int) -> CellSums:
        """Return rows by cells of a column of about equal size."""
        low, high = cells_of(self.measure, column, most)

        def question(block: Block, at: RowsAt) -> tuple[Floats, ...]:
            inside = block.let(_within(block.columns(column), low, high))
            return block.by_sample(inside), block.gram(at.p, inside), block.products(at.p, inside)

        observed, expected, products = self.measure.total(question, len(high))
        return CellSums(low, high, observed[self.sampled].T, expected[self.sampled].T, self._information(products))

    def solve(self, a: Floats) -> Floats:
        """Return M_00^+ a for a of shape (K, m)."""
        return self.tangent.hessian.solve(self._placed(a)[: len(self.measure.rows.sizes)])[self.sampled]

    def solve_fitted(self, a: Floats) -> Floats:
        """Return the inverse information of all that was fitted times a, of shape (K + p, m)."""
        at = self.measure.coordinates
        if not at.parameters:
            return self.solve(a)
        solved = self.tangent.jacobian.solve(self._placed(a))
        return np.vstack([solved[self.sampled], solved[at.theta]])

    def _placed(self, a: Floats) -> Floats:
        """Return rows for the sampled states and the parameters, padded with zeros to all coordinates."""
        at = self.measure.coordinates
        whole = np.zeros((len(at), a.shape[1]))
        whole[self.sampled] = a[: self.K]
        whole[at.theta] = a[self.K :] if len(a) > self.K else 0.0
        return whole

    @property
    def _each(self) -> Floats:
        """The sampled biases among all, of shape (all, K)."""
        return np.eye(len(self.measure.rows.sizes))[:, self.sampled]

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
    found = dict(zip(columns, itertools.starmap(Varying, spans), strict=True))
    return {name: one for name, one in found.items() if one.low < one.high}


def polynomials(measure: Measure, columns: Sequence[Varying]) -> RowFeatures:
    """Return x of each column with mean 0 and deviation 1, which limits rounding, and its square with mean 0."""
    mean = np.array([one.mean for one in columns])
    unit = np.array([max(one.mean - one.low, one.high - one.mean) for one in columns])

    def centred(block: Block) -> Floats:
        return np.hstack([block.columns(one.values) for one in columns]) - mean

    def squares(block: Block) -> Floats:
        x = block.let(centred(block) / unit)  # its square might overflow otherwise
        return block.sum(x * x)

    scale = unit * np.sqrt(measure.rows.total(squares, len(columns)) / measure.n)

    def on(block: Block) -> Floats:
        x = block.let(centred(block) / scale)
        return np.hstack([x, x * x - 1.0])

    return RowFeatures(on, 2 * len(columns))


def indicators(measure: Measure, columns: Sequence[Varying], most: int) -> RowFeatures:
    """Return the indicators of all cells of each column but the last."""
    cells = [(one.values, *cells_of(measure, one.values, most)) for one in columns]

    def on(block: Block) -> Floats:
        return np.hstack([_within(block.columns(values), low[:-1], high[:-1]) for values, low, high in cells])

    return RowFeatures(on, sum(len(high) - 1 for _, _, high in cells))


def _within(x: Floats, low: Floats, high: Floats) -> Floats:
    """Return 1 where one column is in each cell, and 0 elsewhere, of shape (rows, cells)."""
    return (x >= low) * (x <= high) * np.ones(1)


def cells_of(measure: Measure, column: Kept, most: int) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value of cells with about as many rows each; few values are a cell each."""
    if isinstance(measure.rows, Queries):
        return SharesInEngine.of_pool(measure.rows, column).of_equal_mass(most)
    return shares_of(column, [measure.counts]).of_equal_mass(most)
