"""The labels of rows, their probabilities under the declared biases, and the information about these in the rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from vardi._estimate.tangent import Tangent
from vardi._inputs.pool import Name
from vardi._machine.threads import map_blocks, sum_blocks
from vardi._rows.grouping import membership, sums_by_code
from vardi._rows.patches import Patch, Patches
from vardi._rows.shares import edges_below, shares_of
from vardi._rows.measure import Measure, weighed
from vardi._types import Floats, Integers


class Labels:
    """The label of every row and its probabilities under the biases, for sampled states only.

    Parameters
    ----------
    influence : Tangent
        The fit.
    names : sequence
        A name for each bias.
    """

    def __init__(self, influence: Tangent, names: Sequence[Name]) -> None:
        self.influence, rows, measure = influence, influence.rows, influence.measure
        self.sampled = np.flatnonzero(influence.sampled)
        self.names, self.K = [names[k] for k in self.sampled.tolist()], len(self.sampled)
        self.sizes: Floats = rows.sizes[self.sampled]
        all_sampled = len(influence.sampled) == self.K
        self.source: Integers = measure.source if all_sampled else np.searchsorted(self.sampled, measure.source)
        self.counts: Floats = measure.counts
        self.is_collapsed = rows.inverse is not None

    @cached_property
    def few(self) -> Any:
        """p_ik of every row as a CSR array, if few samples could have drawn it; None otherwise."""
        entries = None if self.is_collapsed else self.influence.rows.entries(self.influence.u)
        return entries if entries is None or entries.shape[1] == self.K else entries[:, self.sampled]

    @cached_property
    def patches(self) -> Patches:
        """The same, in patches."""
        return Patches(self.few, self.source)

    @cached_property
    def P(self) -> Floats:  # noqa: N802 (the letter of the formulas)
        """p_ik of every kind of row."""
        if self.few is not None:
            return np.asarray(self.few.toarray())
        every = np.asarray(self.influence.rows.every(self.influence.u))
        return every if every.shape[1] == self.K else every[:, self.sampled]

    @cached_property
    def own(self) -> Floats:
        """The probability of the label that each row has."""
        if self.few is not None:
            return np.asarray(self.few[np.arange(len(self.source)), self.source])
        return np.asarray(self.P[self.kind, self.source])

    @cached_property
    def residual(self) -> Floats:
        """c_i (1{s_i = k} - p_ik) of every row."""
        n, inverse = len(self.source), self.influence.rows.inverse
        residual = np.empty((self.K, n)).T  # columns in one piece, as those of P where samples are few

        def block(part: slice) -> None:
            P = self.P[inverse[part]] if self.is_collapsed else self.P[part]
            counts, own = self.counts[part], self.source[part]
            of_one = len(own) and bool((own == own[0]).all())
            np.multiply(P, -counts[:, None], out=residual[part])
            residual[part][(slice(None), own[0]) if of_one else (np.arange(len(own)), own)] += counts

        for _ in map_blocks(block, n, self.K):
            pass
        return residual

    def scores(self, h: Any) -> Floats:
        """Return sum_i h_i c_i (1{s_i = k} - p_ik) for h of shape (J, n), an array or sparse."""
        if self.few is None:
            return np.asarray(h @ self.residual)
        counted = h * self.counts if isinstance(h, np.ndarray) else h @ sparse.diags_array(self.counts)
        found = counted @ membership(self.source, self.K).T - counted @ self.few
        return np.asarray(found.toarray() if sparse.issparse(found) else found)

    @cached_property
    def kind(self) -> Integers:
        """Which kind of row each row is."""
        inverse: Integers | None = self.influence.rows.inverse
        return np.arange(len(self.source)) if inverse is None else inverse

    def information(self, features: Sequence[Floats]) -> Floats:
        """Return sum_i c_i y_i (diag(p_i) - p_i p_i') for each feature y, of shape (J, K, K)."""
        if self.few is None:
            return _without_diagonals(np.stack([_products(self.P, self._by_kind(self.counts * y)) for y in features]))
        weights = self.counts[:, None] * np.column_stack(features)

        def products(patch: Patch) -> tuple[Integers, Floats]:
            P, w = patch.values, weights[patch.rows]
            several = (w[:, :, None] * P[:, None, :]).reshape(len(P), -1)  # one product for all weights
            return patch.columns, (P.T @ several).reshape(P.shape[1], w.shape[1], P.shape[1]).swapaxes(0, 1)

        found = np.zeros((len(features), self.K, self.K))
        for columns, product in self.patches.each(products):
            found[:, columns[:, None], columns] += product
        return _without_diagonals(found)

    def _by_kind(self, w: Floats) -> Floats:
        """Return sums of numbers of the rows over each kind of row."""
        return np.bincount(self.kind, w, minlength=len(self.P)).astype(np.float64) if self.is_collapsed else w

    def solve(self, a: Floats) -> Floats:
        """Return M_00^+ a for a of shape (K, m)."""
        whole = np.zeros((len(self.influence.u), a.shape[1]))
        whole[self.sampled] = a
        return self.influence.hessian.solve(whole)[self.sampled]

    def cross(self, y: Floats, information: Floats) -> Floats:
        """Return the information between a feature y and all that was fitted, of shape (K, K + p), given that in u."""
        columns = [information]
        for k, t in self.influence.measure.gradients().items():
            place = int(np.searchsorted(self.sampled, k))
            moved = (self._by_kind(self.counts * y) * self.P[:, place])[:, None] * t
            block = -self.P.T @ moved
            block[place] += moved.sum(axis=0)
            columns.append(block)
        return np.hstack(columns)

    @property
    def depend(self) -> bool:
        """Whether rows depend on one another."""
        return self.influence.measure.rows.is_in_units

    def by_units(self, h: Floats) -> Any:
        """Return a function from the correction for fitted coordinates to the covariance of the features' scores."""
        if not self.depend:
            return None
        residual = (self.source[:, None] == np.arange(self.K)) - self.P[self.kind]
        values = weighed((h[:, :, None] * residual[:, None, :]).reshape(len(h), -1))
        return lambda through: covariance_by_units(self.influence.measure, values, self._placed(through))

    def _placed(self, through: Floats) -> Floats:
        """Return rows for the sampled states and the parameters, padded with zeros to all coordinates."""
        at = self.influence.measure.coordinates
        whole = np.zeros((len(at), through.shape[1]))
        whole[self.sampled], whole[at.theta] = through[: self.K], through[self.K :]
        return whole

    def solve_fitted(self, a: Floats) -> Floats:
        """Return the inverse information of all that was fitted times a, of shape (K + p, m)."""
        at = self.influence.measure.coordinates
        if not at.parameters:
            return self.solve(a)
        solved = self.influence.jacobian.solve(self._placed(a))
        return np.vstack([solved[self.sampled], solved[at.theta]])


class Cells:
    """A column cut into cells of about equal size; where distinct values are few, each is a cell."""

    def __init__(self, values: Floats, labels: Labels, most: int) -> None:
        shares = shares_of(values, [labels.counts])
        if shares.has_more_than(most):
            targets = np.linspace(0.0, 1.0, most + 1)[1:] * (1.0 - 1e-12)
            self.high = np.unique(shares.reaching(np.ones(1), targets)[0])
            self.low = np.array([values.min(), *(shares.next_to(end, 1) for end in self.high[:-1].tolist())])
        else:
            self.low = self.high = shares.every()[0]
        self.cell = edges_below(values, self.high)

    @cached_property
    def rows(self) -> Any:
        """The sparse matrix of cells and rows: times values of the rows it gives their sums within cells."""
        return membership(self.cell, len(self.high))

    def gaps(self, labels: Labels) -> Floats:
        """Return by how many rows each sample has more or less than expected within each cell."""
        if labels.few is not None:
            return labels.scores(self.rows)
        return sums_by_code(self.cell, labels.residual, len(self.high))

    def information(self, labels: Labels) -> Floats:
        """Return M_jj = M_j0 for the indicator of every cell j, of shape (cells, K, K)."""
        if labels.is_collapsed:
            table = (self.rows @ membership(labels.kind, len(labels.P), labels.counts).T).tocsr()
            spans = zip(table.indptr[:-1], table.indptr[1:], strict=True)
            return np.stack([_information(labels.P[table.indices[a:b]], table.data[a:b]) for a, b in spans])
        found = np.zeros((len(self.high), labels.K, labels.K))
        roots = np.sqrt(labels.counts)
        if labels.few is not None:

            def products(patch: Patch) -> list[tuple[int, Integers, Floats]]:
                P, cell = patch.values * roots[patch.rows, None], self.cell[patch.rows]
                return [(j, patch.columns, P[cell == j].T @ P[cell == j]) for j in np.unique(cell).tolist()]

            for parts in labels.patches.each(products):
                for j, columns, product in parts:
                    found[j][columns[:, None], columns] += product
            return _without_diagonals(found)

        def block(part: slice) -> Floats:
            sums = np.zeros(found.shape)
            cell, P = self.cell[part], labels.P[part]
            order = np.argsort(cell.astype(np.uint16), kind="stable")  # 16 bits sort by radix
            rows = np.split(order, np.cumsum(np.bincount(cell, minlength=len(sums)))[:-1])
            for own, one in zip(sums, rows, strict=True):
                scaled = P[one] * roots[part][one, None]
                own[:] = scaled.T @ scaled
            return sums

        return _without_diagonals(sum_blocks(block, len(labels.P), labels.K, sums=found.size))


def covariance_by_units(measure: Measure, functions: Any, b: Floats) -> tuple[Floats, float]:
    """Return the covariance of scores of rows that depend on one another, and its degrees of freedom."""
    spread = measure.spread(measure.influence(functions, np.zeros(b.shape[1]), b))
    return spread.covariance * measure.n**2, float(spread.freedom.sum(axis=0).min())


def _information(P: Floats, w: Any) -> Floats:
    """Return sum_i w_i (diag(p_i) - p_i p_i')."""
    return _without_diagonals(_products(P, w)[None])[0]


def _products(P: Floats, w: Floats) -> Floats:
    """Return sum_i w_i p_i p_i'."""
    return sum_blocks(lambda rows: (P[rows] * w[rows, None]).T @ P[rows], *P.shape)


def _without_diagonals(products: Floats) -> Floats:
    """Return sums of diag(p) - p p', given sums of p p' of shape (J, K, K).

    Their rows sum to zero, so the diagonal is known without cancellation.
    """
    M = np.negative(products)
    each = np.arange(M.shape[1])
    M[:, each, each] = 0.0
    M[:, each, each] = -M.sum(axis=2)
    return M
