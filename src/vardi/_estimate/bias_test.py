r"""Whether the samples agree with their declared biases, where they overlap.

Given a row z of the pool, the model implies that it came from sample k with probability

.. math:: p_k(z) = e^{u_k}\omega_k(z) \Big/ \sum_l e^{u_l}\omega_l(z),

a multinomial logit with known offsets and free intercepts :math:`u_k`. Labels that do not follow p contradict a
declared bias. Where only one sample can draw, p is 1 and nothing is tested.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from vardi._estimate.bias_check import BiasCheck, Worst
from vardi._estimate.tangent import Tangent
from vardi._inputs.pool import Name
from vardi._machine.threads import map_blocks, sum_blocks
from vardi._rows.dependent import DependentRows
from vardi._rows.engine.distribution import EngineDistribution
from vardi._rows.engine.functions import EngineFunction
from vardi._rows.engine.labels import EngineLabels
from vardi._rows.grouping import membership, sums_by_code
from vardi._rows.shares import edges_below, shares_of
from vardi._rows.weighted import Weighed
from vardi._solve.newton import newton
from vardi._types import Floats, Integers
from vardi.errors import MismatchError, suggest
from vardi.errors._texts import show, to_digits

RANK = 1e-8  # eigenvalues of the scaled information, and information in rows, that count as zero
FIFTHS, REGIONS, GRID = 5, 10, 200  # cells of a column: as features, to seek the worst in, for distances between cdfs
FEW = 5  # samples up to which a sum for each pair costs less than to sort rows by cell
INFORMED = 1.0  # information, in rows, from which the z of a region is near a normal variable
ALONE = 0.999  # probability of its own sample above which a row counts as one that no other could draw
METHODS = {"score": 0, "ks": 999, "ks-bootstrap": 199}  # method -> default number of draws


Method: TypeAlias = Literal["score", "ks", "ks-bootstrap"]
Features: TypeAlias = Literal["poly2", "cells"]


def check_biases(
    influence: Tangent,
    names: Sequence[Name],
    columns: Mapping[str, Floats],
    *,
    method: Method = "score",
    features: Features = "poly2",
    seed: int = 0,
    draws: int | None = None,
) -> BiasCheck:
    r"""Test the declared biases against the samples.

    The default is the score test of the logit. With features :math:`h_j` of the rows, :math:`h_0 = 1`, and counts c,

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
    method : {"score", "ks", "ks-bootstrap"}
        "ks" compares the cdf of each sample with its fitted one, by labels drawn from p; "ks-bootstrap" by draws
        from the fitted distributions, each refitted.
    features : {"poly2", "cells"}
        Of the score test: x and x squared of each column (more power), or indicators of its fifths.
    seed, draws : int, optional
        Of the ks methods: 999 draws of labels or 199 refits by default.

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
    for given, known in ((method, METHODS), (features, ("poly2", "cells"))):
        if given not in known:
            message = (
                f"There is no method {given!r} to check biases. Choose one of {show(known)}.{suggest(given, known)}"
            )
            raise MismatchError(message, expected=known, got=(given,))
    if draws is not None and draws < 1:
        raise MismatchError(f"{draws} draws are too few. Give one or more.", expected=("1 or more",), got=(draws,))
    labels = _Labels(influence, names)
    varying = {name: values for name, values in columns.items() if np.ptp(values) > 0}
    statistic, pvalues, df, reason = math.nan, np.full(labels.K + 1, math.nan), None, ""
    if labels.K == 1:
        reason = "there is only one sample, so there is nothing to compare it with."
    elif varying and method == "score":
        statistic, pvalues, df = _score(labels, np.hstack([_features(x, labels, features) for x in varying.values()]))
    elif varying:
        grids = [_Cells(x, labels, GRID) for x in varying.values()]
        draw = _relabelled if method == "ks" else _refits
        rng = np.random.default_rng(seed)
        statistic, pvalues = _ks(labels, grids, draw(labels, grids, draws or METHODS[method], rng))
    if not reason and math.isnan(pvalues[-1]):
        reason = _untested(df)
    worst = None if reason or labels.depend else _worst(labels, varying)
    by_sample = dict(zip(labels.names, pvalues[:-1].tolist(), strict=True))
    alone = np.bincount(labels.source, labels.counts * (labels.own > ALONE), minlength=labels.K) / labels.sizes
    untested = dict(zip(labels.names, alone.tolist(), strict=True))
    return BiasCheck(float(pvalues[-1]), statistic, df, method, tuple(varying), by_sample, worst, untested, reason)


class _Labels:
    """The label of every row and its probabilities under the biases, for sampled states only."""

    def __init__(self, influence: Tangent, names: Sequence[Name]) -> None:
        self.influence, rows, strata = influence, influence.rows, influence.strata
        self.sampled = np.flatnonzero(influence.sampled)
        self.names, self.K = [names[k] for k in self.sampled.tolist()], len(self.sampled)
        self.sizes: Floats = rows.sizes[self.sampled]
        all_sampled = len(influence.sampled) == self.K
        self.source: Integers = strata.source if all_sampled else np.searchsorted(self.sampled, strata.source)
        self.counts: Floats = np.ones(len(self.source)) if strata.counts is None else strata.counts
        self.is_collapsed = rows.inverse is not None
        self.P = self.probabilities(rows, influence.u)
        n = len(self.source)
        self.own, self.residual = np.empty(n), np.empty((self.K, n)).T  # columns in one piece, as those of P

        def block(part: slice) -> None:
            P = self.P[rows.inverse[part]] if self.is_collapsed else self.P[part]
            counts, own = self.counts[part], self.source[part]
            of_one = len(own) and bool((own == own[0]).all())
            places = (slice(None), own[0]) if of_one else (np.arange(len(own)), own)
            self.own[part] = P[places]
            np.multiply(P, -counts[:, None], out=self.residual[part])
            self.residual[part][places] += counts

        for _ in map_blocks(block, n, self.K):
            pass

    @cached_property
    def kind(self) -> Integers:
        """Which kind of row each row is."""
        inverse: Integers | None = self.influence.rows.inverse
        return np.arange(len(self.source)) if inverse is None else inverse

    def probabilities(self, rows: Any, u: Floats) -> Floats:
        """Return p_ik of every kind of row."""
        return np.asarray(rows.mix(u, np.eye(len(u))[:, self.sampled]))

    def residual_of(self, drawn: Floats, P: Floats) -> Floats:
        """Return c_i (1{s_i = k} - p_ik): how often each sample drew a row, minus the share p of all draws of it."""
        return np.asarray(drawn - drawn.sum(axis=1)[:, None] * P[self.kind])

    def information(self, y: Floats) -> Floats:
        """Return sum_i c_i y_i (diag(p_i) - p_i p_i')."""
        return _information(self.P, self._by_kind(self.counts * y))

    def _by_kind(self, w: Floats) -> Floats:
        """Return sums of numbers of the rows over each kind of row."""
        return np.bincount(self.kind, w, minlength=len(self.P)).astype(np.float64) if self.is_collapsed else w

    def solve(self, a: Floats) -> Floats:
        """Return M_00^+ a for a of shape (K, m)."""
        whole = np.zeros((len(self.influence.u), a.shape[1]))
        whole[self.sampled] = a
        return self.influence.hessian.solve(whole)[self.sampled]

    def cross(self, y: Floats) -> Floats:
        """Return the information between a feature y and all that was fitted, of shape (K, K + p)."""
        w = self._by_kind(self.counts * y)
        columns = [_information(self.P, w)]
        for k, t in self.influence.measure.gradients().items():
            place = int(np.searchsorted(self.sampled, k))
            moved = (w * self.P[:, place])[:, None] * t
            block = -self.P.T @ moved
            block[place] += moved.sum(axis=0)
            columns.append(block)
        return np.hstack(columns)

    @property
    def depend(self) -> bool:
        """Whether rows depend on one another."""
        return isinstance(self.influence.strata, DependentRows)

    def by_units(self, h: Floats) -> Any:
        """Return a function from the correction for fitted coordinates to the covariance of the features' scores."""
        if not self.depend:
            return None
        residual = (self.source[:, None] == np.arange(self.K)) - self.P[self.kind]
        values = Weighed((h[:, :, None] * residual[:, None, :]).reshape(len(h), -1))
        return lambda through: _by_units(self.influence.measure, values, self._placed(through))

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


class _Cells:
    """A column cut into cells of about equal size; where distinct values are few, each is a cell."""

    def __init__(self, values: Floats, labels: _Labels, most: int) -> None:
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
        return membership(self.cell, len(self.high), None)

    def sums(self, values: Floats) -> Floats:
        """Return sums of values of the rows within cells."""
        return sums_by_code(self.cell, values, len(self.high))

    def information(self, labels: _Labels) -> Floats:
        """Return M_jj = M_j0 for the indicator of every cell j, of shape (cells, K, K)."""
        if not labels.is_collapsed:

            def block(part: slice) -> Floats:
                found = np.zeros((len(self.high), labels.K, labels.K))
                cell, P, counts = self.cell[part], labels.P[part], labels.counts[part]
                if labels.K <= FEW:  # a sum for each pair of samples
                    for k, l in itertools.combinations_with_replacement(range(labels.K), 2):
                        sums = np.bincount(cell, P[:, k] * P[:, l] * counts, minlength=len(found))
                        found[:, k, l] = found[:, l, k] = sums
                    return found
                order = np.argsort(cell.astype(np.uint16), kind="stable")  # 16 bits sort by radix
                rows = np.split(order, np.cumsum(np.bincount(cell, minlength=len(found)))[:-1])
                for own, one in zip(found, rows, strict=True):
                    own[:] = (P[one] * counts[one, None]).T @ P[one]
                return found

            sums = len(self.high) * labels.K**2
            return np.stack([_without_diagonal(M) for M in sum_blocks(block, len(labels.P), labels.K, sums=sums)])
        table = (self.rows @ membership(labels.kind, len(labels.P), labels.counts).T).tocsr()
        spans = zip(table.indptr[:-1], table.indptr[1:], strict=True)
        return np.stack([_information(labels.P[table.indices[a:b]], table.data[a:b]) for a, b in spans])


def _information(P: Floats, w: Any) -> Floats:
    """Return sum_i w_i (diag(p_i) - p_i p_i'); its rows sum to zero, so the diagonal is known without cancellation."""
    return _without_diagonal(sum_blocks(lambda rows: (P[rows] * w[rows, None]).T @ P[rows], *P.shape))


def _without_diagonal(products: Floats) -> Floats:
    """Return sum_i w_i (diag(p_i) - p_i p_i'), given the sums of products."""
    M = np.asarray(-products)
    np.fill_diagonal(M, 0.0)
    np.fill_diagonal(M, -M.sum(axis=1))
    return M


def _features(values: Floats, labels: _Labels, kind: str) -> Floats:
    """Return x and x^2 with mean 0 (to limit rounding), or the indicators of all cells but the last."""
    if kind == "cells":
        return np.asarray(_Cells(values, labels, FIFTHS).rows[:-1].T.toarray())
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


def _score(labels: _Labels, h: Floats) -> tuple[float, Floats, int]:
    """Return the statistic, the p-values of each sample and of all together, and the degrees of freedom."""
    J, K = h.shape[1], labels.K
    cross = np.stack([labels.cross(h_j) for h_j in h.T])
    M = np.empty((J, K, J, K))
    for j in range(J):
        for l in range(j + 1):
            M[j, :, l] = M[l, :, j] = labels.information(h[:, j] * h[:, l])
    return _tested(h.T @ labels.residual, M, cross, labels.solve_fitted, labels.by_units(h))


def _tested(U: Floats, M: Floats, cross: Floats, solve: Any, by_units: Any = None) -> tuple[float, Floats, int]:
    """Return the statistic of scores U (J, K) with information M, corrected for everything that was fitted."""
    J, K = U.shape
    M_h0 = cross.reshape(J * K, -1)
    through = solve(M_h0.T)
    V, freedom = (M - (M_h0 @ through).reshape(M.shape), math.inf) if by_units is None else by_units(through)
    V = V.reshape(M.shape)
    least = RANK * np.maximum(np.einsum("jkjk->jk", M), 1.0)
    parts = [_chi2(U[:, k], V[:, k, :, k], least[:, k], freedom) for k in range(K)]
    statistic, pvalue, df = _chi2(U.ravel(), V.reshape(J * K, J * K), least.ravel(), freedom)
    return statistic, np.array([*(p for _, p, _ in parts), pvalue]), df


def _by_units(measure: Any, functions: Any, b: Floats) -> tuple[Floats, float]:
    """Return the covariance of scores of rows that depend on one another, and its degrees of freedom."""
    spread = measure.spread(measure.influence(functions, np.zeros(b.shape[1]), b))
    return spread.covariance * measure.n**2, float(spread.freedom.sum(axis=0).min())


def _chi2(U: Floats, V: Floats, least: Floats, freedom: float = math.inf) -> tuple[float, float, int]:
    """Return U' V^+ U, its p-value (NaN without information) and the rank of V, scaled to a unit diagonal.

    Where V has degrees of freedom of its own, the law is Hotelling's.
    """
    informed = np.flatnonzero(np.diag(V) > least)
    root = np.sqrt(np.diag(V)[informed])
    values, vectors = np.linalg.eigh(V[np.ix_(informed, informed)] / (root[:, None] * root))
    kept = values > RANK * values.max(initial=0.0)
    statistic = float(((vectors.T @ (U[informed] / root))[kept] ** 2 / values[kept]).sum())
    rank = int(kept.sum())
    if math.isinf(freedom):
        return statistic, float(scipy.special.chdtrc(rank, statistic)), rank
    left = freedom - rank + 1.0
    if not rank or left < 1.0:
        return statistic, math.nan, rank
    return statistic, float(scipy.special.fdtrc(rank, left, statistic * left / (freedom * rank))), rank


def _untested(df: int | None) -> str:
    """Return why there is no p-value."""
    if df:
        return f"there are too few clusters, or effective rows of series, to compare the samples in {df} ways at once."
    return "no column was given that varies where the samples overlap."


def _ks(labels: _Labels, grids: Sequence[_Cells], drawn: Floats) -> tuple[float, Floats]:
    """Return the largest T_k, and the p-values of each sample and of all together among draws of the null."""
    T = _suprema([grid.rows @ labels.residual for grid in grids], labels.sizes)
    tied = T * (1.0 - 1e-6)  # equal distances count as exceeded, up to the tolerance of refits
    exceeded = np.column_stack([drawn >= tied, drawn.max(axis=1) >= tied.max()]).sum(axis=0)
    untestable = np.append(drawn.max(axis=0), drawn.max()) < RANK
    return float(T.max()), np.where(untestable, math.nan, (1 + exceeded) / (1 + len(drawn)))


def _suprema(gaps: Sequence[Floats], sizes: Floats) -> Floats:
    r"""Return :math:`T_k = \sqrt{n_k} \sup_t |\hat F_k(t) - \tilde F_k(t)|` from residuals by cell and sample."""
    return np.asarray(np.max([np.abs(np.cumsum(gap, axis=0)).max(axis=0) for gap in gaps], axis=0) / np.sqrt(sizes))


def _relabelled(labels: _Labels, grids: Sequence[_Cells], draws: int, rng: np.random.Generator) -> Floats:
    r"""Draw T_k from labels distributed as p, minus what a refit would absorb to first order.

    .. math:: Z(t) = \sum_i 1\{x_i \le t\}\,e_i - M(t) M_{00}^+ \sum_i e_i,\qquad
              M(t) = \sum_i c_i 1\{x_i \le t\} (\mathrm{diag}(p_i) - p_i p_i'),

    with :math:`e_{ik} = c^*_{ik} - c_i p_{ik}`. Random multiples of the observed residuals would not work: where a few
    rare values all come from the sample that is likely to draw them, residuals are small and of one sign.
    """
    P = labels.P[labels.kind]
    P /= P.sum(axis=1, keepdims=True)
    counts, ends = np.rint(labels.counts).astype(np.int64), np.cumsum(P, axis=1)[:, :-1]
    JH = [np.stack([labels.solve(M).T for M in np.cumsum(grid.information(labels), axis=0)]) for grid in grids]
    T = np.zeros((draws, labels.K))
    for drawn in T:
        if counts.max() > 1:
            label = rng.multinomial(counts, P).astype(np.float64)
        else:
            label = np.eye(labels.K)[(rng.random((len(P), 1)) > ends).sum(axis=1)]
        residual = labels.residual_of(label, labels.P)
        through_u = residual.sum(axis=0)
        for grid, J in zip(grids, JH, strict=True):
            Z = np.cumsum(grid.rows @ residual, axis=0) - J @ through_u
            np.maximum(drawn, np.abs(Z).max(axis=0), out=drawn)
    return T / np.sqrt(labels.sizes)


def _refits(labels: _Labels, grids: Sequence[_Cells], draws: int, rng: np.random.Generator) -> Floats:
    r"""Draw T_k from samples of the fitted laws, :math:`m_i p_{ik} / \lambda_k` on row i, each fitted anew."""
    law = np.cumsum(labels.P[labels.kind] * labels.counts[:, None], axis=0).T
    groups = _Group.all_of(labels)
    sizes: Floats = np.rint(labels.sizes)
    drawn = np.full((draws, labels.K), np.inf)  # stays infinite for a draw that cannot be fitted
    for T in drawn:
        picked = [p.searchsorted(p[-1] * rng.random(int(n_k)), "right") for n_k, p in zip(sizes, law, strict=True)]
        rows = np.array([np.bincount(row, minlength=len(labels.kind)) for row in picked], np.float64).T
        counts = np.bincount(labels.kind, rows.sum(axis=1), minlength=len(labels.P)).astype(np.float64)
        u = labels.influence.u.copy()
        if all(group.refitted(u, counts) for group in groups):
            residual = labels.residual_of(rows, labels.probabilities(labels.influence.rows, u))
            T[:] = _suprema([grid.rows @ residual for grid in grids], sizes)
    return drawn


@dataclass(frozen=True, eq=False)
class _Group:
    """Samples joined by overlap, and their rows, to be refitted with other counts.

    Attributes
    ----------
    states : ndarray of bool
        The samples.
    places : ndarray of int
        Positions of their rows among all rows.
    rows : Rows
        Their rows.
    sizes : ndarray of shape (K,)
        How many rows each sample draws, rounded.
    """

    states: NDArray[np.bool_]
    places: Integers
    rows: Any
    sizes: Floats

    @classmethod
    def all_of(cls, labels: _Labels) -> list[_Group]:
        """Return all groups of two samples or more."""
        rows, hessian = labels.influence.rows, labels.influence.hessian
        found = []
        for states, _ in hessian.blocks:
            whole = states.sum() == hessian.sampled.sum()
            places = np.arange(len(rows)) if whole else np.flatnonzero(states[rows.source])
            found.append(cls(states, places, rows if whole else rows.subset(places), np.rint(rows.sizes)))
        return found

    def refitted(self, u: Floats, counts: Floats) -> bool:
        """Solve with other counts of all rows, starting from u and writing to it, and return whether it converged."""
        star = self.rows.with_counts(counts[self.places])
        star.sizes = np.where(self.states, self.sizes, 0.0)  # labels matter through the sizes only
        solution = newton(star, np.where(self.states, u, -np.inf), tol=1e-6)
        u[self.states] = solution.u[self.states]
        return solution.converged


def _worst(labels: _Labels, columns: Mapping[str, Floats]) -> Worst | None:
    """Return the cell and the sample in which observed and expected rows are the most standard errors apart."""
    worst = None
    for name, values in columns.items():
        cells = _Cells(values, labels, REGIONS)
        gap, both = cells.sums(labels.residual), cells.cell * labels.K + labels.source
        observed = np.bincount(both, labels.counts, minlength=gap.size).astype(np.float64).reshape(gap.shape)
        table = observed, gap, cells.information(labels), cells.low, cells.high
        worst = _further(worst, name, labels.names, table, labels.solve)
    return worst


def _further(worst: Worst | None, name: str, names: Sequence[Name], table: tuple[Any, ...], solve: Any) -> Worst | None:
    """Return the cell of a column that is furthest off, if it is further than the worst so far."""
    observed, gap, information, low, high = table
    variance = np.stack([np.diag(M - M @ solve(M)) for M in information])
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

    depend = labels.at.dependence is not None and labels.at.dependence.in_units

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
        by_units = (lambda through: _by_units(labels.at, labels.scores(h), placed(through))) if depend else None
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
