r"""The labels of rows in an engine against the probabilities that the biases give them: the sums of the score test.

With features :math:`h_j` of the rows, counts c, and :math:`p_{ik}` of the sampled biases alone,

.. math::

    U_{jk} = \sum_i c_i h_{ij} (1\{s_i = k\} - p_{ik}),\qquad
    M_{jk,j'l} = \sum_i c_i h_{ij} h_{ij'} p_{ik} (\delta_{kl} - p_{il}).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import narwhals as nw
import numpy as np

from vardi._inputs.engine.part import PREFIX, Part, with_columns
from vardi._rows.engine.distribution import EngineDistribution
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.columns import Block, within
from vardi._rows.engine.model import EngineModel
from vardi._rows.engine.moments import EngineMoments
from vardi._rows.measure import Functions, Measure
from vardi._rows.point import Point, RowsAt
from vardi._rows.queries import Queries
from vardi._types import Floats, Integers
from vardi.biases._expressions.targets import literal

BATCH = 400  # sums in one query
FIFTHS = 5  # cells of a column that serve as features
FEATURE = f"{PREFIX}h_{{}}"


@dataclass(frozen=True)
class ScoreSums:
    """The sums behind the score test of biases, for K sampled biases, J features and p parameters.

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


class EngineLabels:
    """Rows at a solution of the samples alone: without known values, which play no part in the test.

    Parameters
    ----------
    model : EngineModel
        The frames, without known values.
    point : Point
        The point.
    """

    def __init__(self, model: EngineModel, point: Point) -> None:
        self.at = EngineMoments(model, point)
        self.measure = Measure(Queries(model.parts, model.sizes, model.dependence), point)
        self.sampled: Integers = self.at.point.sampled
        self.K = len(self.sampled)

    def alone(self, probability: float) -> Floats:
        """Return the share of each sample's rows that, with more than this probability, no other could have drawn."""
        found = np.zeros(self.K)
        for part in self.at.together()[0]:
            terms = {}
            for j, k in enumerate(self.sampled.tolist()):
                mine = part.only(k, part.times_count((self.at.point.x(k) > probability).cast(nw.Float64)))
                if mine is not None:
                    terms[j] = mine
            found[list(terms)] += part.sums(list(terms.values()), self.at.point)
        return found / self.at.sizes[self.sampled]

    def features(self, functions: Sequence[EngineFunction], kind: Literal["poly2", "cells"]) -> list[EngineFunction]:
        """Return x and its square about their means, or indicators of all fifths but the last, of each function."""
        if kind == "cells":
            return [indicator for function in functions for indicator in self._fifths(function)]
        mean = pooled_means(self.at, functions)
        squares = [function.map(_square_about(float(centre))) for function, centre in zip(functions, mean, strict=True)]
        deviation = np.sqrt(pooled_means(self.at, squares))
        found = []
        for function, centre, scale in zip(functions, mean.tolist(), deviation.tolist(), strict=True):
            found += [function.map(_standard(centre, scale)), function.map(_square_of_standard(centre, scale))]
        return found

    def score(self, h: Sequence[EngineFunction]) -> ScoreSums:
        """Return the sums of the score test of features."""
        J, K, p = len(h), self.K, self.at.coordinates.parameters
        pairs = [(j, l) for j in range(J) for l in range(j + 1)]
        found = np.zeros((1 + J + len(pairs), K, K))  # sums of h, each against p p'
        drawn, expected = np.zeros((J, K)), np.zeros((J, K))
        moved, mixed = np.zeros((J, p)), np.zeros((J, K, p))
        parts, h = self.at.together(h)
        for part in parts:
            terms = self._terms(part, J, pairs)
            sums = self._batches(part, list(terms.values()), h)
            for (what, a, b, c), value in zip(terms, sums, strict=True):
                if what == "pp":
                    found[a, b, c] += value
                elif what == "p":
                    expected[a, b] += value
                elif what == "own":
                    drawn[a, b] += value
                elif what == "t":
                    moved[a, b] += value
                else:
                    mixed[a, b, c] += value
        information = np.stack([_information(one) for one in found[1:]])
        M = np.zeros((J, K, J, K))
        for (j, l), one in zip(pairs, information[J:], strict=True):
            M[j, :, l] = M[l, :, j] = one
        cross = np.concatenate([information[:J], self._through_parameters(moved, mixed)], axis=2)
        return ScoreSums(drawn - expected, M, cross)

    def scores(self, h: Sequence[EngineFunction]) -> Functions:
        """Return the rows' contributions to the scores, h_j (1{s = k} - p_k)."""
        sampled, functions = self.sampled.tolist(), tuple(h)

        def make(block: Block, at: RowsAt) -> Floats:
            residual = np.hstack([within(block, k) - at.p.column(k) for k in sampled])
            columns = block.columns(functions)
            return np.hstack([columns[:, [j]] * residual for j in range(len(functions))])

        return Functions((), len(functions) * len(sampled), make, weighed=True)

    def cells(self, function: EngineFunction, most: int) -> CellSums:
        """Return rows by cells of a column of about equal size, with one query for each part."""
        pool = EngineDistribution(self.at, function, weighted=False)
        low, high = pool.cells(most)
        observed, expected = np.zeros((len(high), self.K)), np.zeros((len(high), self.K))
        squares = np.zeros((len(high), self.K, self.K))
        place_of = np.searchsorted(self.sampled, np.arange(len(self.at.sizes)))
        upper = [(a, b) for a in range(self.K) for b in range(a + 1, self.K)]
        p = [self.at.point.x(k) for k in self.sampled.tolist()]
        for part in pool.parts:
            terms = {f"{PREFIX}n": part.count}
            terms |= {f"{PREFIX}e_{a}": part.times_count(p[a]) for a in range(self.K)}
            terms |= {f"{PREFIX}q_{a}_{b}": part.times_count(p[a] * p[b]) for a, b in upper}
            cell, code, found = pool.by_bin(part, high[:-1], terms)
            observed[cell, place_of[code]] += found[:, 0]
            np.add.at(expected, cell, found[:, 1 : 1 + self.K])
            np.add.at(squares, (cell[:, None], *np.array(upper, np.int64).reshape(-1, 2).T), found[:, 1 + self.K :])
        return CellSums(low, high, observed, expected, np.stack([_information(one) for one in squares]))

    def _terms(self, part: Part, J: int, pairs: Sequence[tuple[int, int]]) -> dict[tuple[str, int, int, int], nw.Expr]:
        """Return the terms to sum over a part; products of p only above the diagonal."""
        at = self.at
        p = [at.point.x(k) for k in self.sampled.tolist()]
        h = [nw.col(FEATURE.format(j)) for j in range(J)]
        weights = [*h, *(h[j] * h[l] for j, l in pairs)]
        terms: dict[tuple[str, int, int, int], nw.Expr] = {}
        for i, weight in enumerate(weights):
            counted = part.times_count(weight)
            for a in range(self.K):
                terms |= {("pp", 1 + i, a, b): counted * p[a] * p[b] for b in range(a + 1, self.K)}
        theta = range(at.coordinates.parameters)
        for j in range(J):
            counted = part.times_count(h[j])
            for a, k in enumerate(self.sampled.tolist()):
                terms["p", j, a, 0] = counted * p[a]
                mine = part.only(k, counted)
                if mine is not None:
                    terms["own", j, a, 0] = mine
            for i in theta:
                x = at.point.x(at.coordinates.theta.start + i)
                terms["t", j, i, 0] = counted * x
                terms |= {("pt", j, a, i): counted * x * p[a] for a in range(self.K)}
        return terms

    def _batches(self, part: Part, terms: Sequence[nw.Expr], h: Sequence[EngineFunction]) -> Floats:
        """Query many sums, some hundreds at a time."""
        columns = with_columns({FEATURE.format(j): f(part) for j, f in enumerate(h)})
        starts = range(0, len(terms), BATCH)
        pieces = [part.sums(terms[start : start + BATCH], self.at.point, columns) for start in starts]
        return np.concatenate(pieces)

    def _through_parameters(self, moved: Floats, mixed: Floats) -> Floats:
        r"""Return :math:`\sum_i c_i h_{ij} p_{il} (\delta_{kl} - p_{ik}) t_{ik}`, of shape (J, K, p)."""
        block = -mixed
        for k, place in self.at.model.places.items():
            block[:, int(np.searchsorted(self.sampled, k)), place] += moved[:, place]
        return block

    def _fifths(self, function: EngineFunction) -> list[EngineFunction]:
        low, high = EngineDistribution(self.at, function, weighted=False).cells(FIFTHS)
        return [function.map(_within(float(a), float(b))) for a, b in zip(low[:-1], high[:-1], strict=True)]


def _information(products: Floats) -> Floats:
    """Return diag(p) - p p' from products above the diagonal; rows sum to zero, so the diagonal is known."""
    M = -(products + products.T)
    np.fill_diagonal(M, 0.0)
    np.fill_diagonal(M, -M.sum(axis=1))
    return M


def _square_about(centre: float) -> Callable[[nw.Expr], nw.Expr]:
    return lambda x: (x - centre) * (x - centre)


def _standard(centre: float, scale: float) -> Callable[[nw.Expr], nw.Expr]:
    return lambda x: (x - centre) / scale


def _square_of_standard(centre: float, scale: float) -> Callable[[nw.Expr], nw.Expr]:
    return lambda x: ((x - centre) / scale) * ((x - centre) / scale) - 1.0


def _within(low: float, high: float) -> Callable[[nw.Expr], nw.Expr]:
    return lambda x: ((x >= literal(low)) & (x <= literal(high))).cast(nw.Float64)


def pooled_means(at: EngineMoments, functions: Sequence[EngineFunction]) -> Floats:
    """Return the means of functions over the pool as it came, without weights."""
    total = np.zeros(len(functions))
    parts, functions = at.together(functions)
    for part in parts:
        columns = {f"{PREFIX}value_{j}": f(part) for j, f in enumerate(functions)}
        total += part.sums([part.times_count(nw.col(name)) for name in columns], at.point, with_columns(columns))
    return total / at.n
