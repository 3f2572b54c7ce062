"""Rows that stay where they are: frames of an engine, which is asked for sums and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._rows.base import additions
from vardi._rows.dense import Dense
from vardi._rows.engine import answering, collected
from vardi._sums import Floats, Sums

OMEGA = "__vardi_omega_{}"
COUNT = "__vardi_count"
PREFIX = "__vardi_"
GRAMS = 100  # products of p whose sums come along with every pass
TAYLOR = 1e-14  # relative error of sums up to which they are worked out from those of a point nearby


@dataclass(frozen=True)
class Part:
    """One frame, with a column for each bias, and the samples that its rows belong to.

    Attributes
    ----------
    frame : nw.LazyFrame
        The user's columns, omega_k as ``__vardi_omega_k``, and ``__vardi_count`` where rows stand for several.
    label : str or None
        Column with the label of each row's sample; None where all rows are of one.
    codes : dict
        Position of the sample of each label; of the one sample under None.
    counted : bool
        Whether there is a column of counts.
    whole : nw.LazyFrame or None
        The frame with the rows whose count is 0 as well, where there is a column of counts.
    name : str or None
        Name of the sample, for messages; None where the frame holds all samples.
    """

    frame: nw.LazyFrame[Any]
    label: str | None
    codes: dict[Any, int]
    counted: bool
    whole: nw.LazyFrame[Any] | None = None
    name: str | None = None

    def ask(self, build: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]]) -> nw.DataFrame[Any]:
        """Return the answer to a query of the rows: the only way that anything leaves the engine."""
        with answering(self.name):  # DuckDB complains while a query is built
            return collected(build(self.frame), self.name)

    def map(self, change: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]]) -> Part:
        """Return the part with a change of columns made to its rows, and to those that do not count."""
        with answering(self.name):
            whole = None if self.whole is None else change(self.whole)
            return replace(self, frame=change(self.frame), whole=whole)

    @property
    def count(self) -> nw.Expr:
        """How many rows a row stands for, as an expression."""
        return nw.col(COUNT) if self.counted else nw.lit(1.0)

    @property
    def rows(self) -> nw.Expr:
        """How many rows there are, as an aggregate."""
        return nw.col(COUNT).sum() if self.counted else nw.len()

    def by_sample(
        self, expressions: dict[str, nw.Expr], u: Floats, columns: Sequence[nw.Expr] = ()
    ) -> list[tuple[int, dict[str, Any]]]:
        """Ask for sums within samples, of what may use S and p at u: the position of each sample and its numbers.

        What stands in many sums is better a column of its own: engines compute it once, and queries stay short.
        """
        named = [expression.alias(name) for name, expression in expressions.items()]

        def query(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
            weighed = with_probabilities(frame, u)
            weighed = weighed.with_columns(*columns) if columns else weighed
            return weighed.select(*named) if self.label is None else weighed.group_by(self.label).agg(*named)

        rows = self.ask(query).rows(named=True)
        return [(self.codes[None if self.label is None else row[self.label]], row) for row in rows]

    def sums(self, u: Floats | None, terms: Sequence[nw.Expr], columns: Sequence[nw.Expr] = ()) -> Floats:
        """Ask for the sums of expressions, which may use S and p at u if it is given, all in one query."""
        named = [term.sum().alias(str(place)) for place, term in enumerate(terms)]

        def query(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
            weighed = frame if u is None else with_probabilities(frame, u)
            return (weighed.with_columns(*columns) if columns else weighed).select(*named)

        return np.array(self.ask(query).row(0), np.float64)


@dataclass(frozen=True)
class Point:
    """What a pass has found at u, and by it what one would find nearby.

    Along a step of largest entry d each p changes by a factor of at most e^{2d}, so what a second-order expansion of
    the objective leaves out of the shares is less than 2 d^2 of each, and a Hessian of an earlier point, a distance
    ``age`` away, adds less than 4 d age to that.

    Attributes
    ----------
    u : ndarray of shape (K,)
        The point; -inf for states that were not sampled.
    log_mass, shares, gram
        As in :class:`~vardi._sums.Sums`; the gram may be that of an earlier point.
    inverse : float
        sum_i c_i / S_i, what the weights at u add up to.
    inverse_shares : ndarray of shape (K,)
        sum_i c_i p_i / S_i, minus the derivative of ``inverse``.
    age : float
        Largest entry of what u has moved since the gram was computed.
    """

    u: Floats
    log_mass: float
    shares: Floats
    gram: Floats
    inverse: float
    inverse_shares: Floats
    age: float

    def reaches(self, u: Floats) -> bool:
        """Tell whether sums at u can be worked out from these without a loss that rounding would not hide."""
        if not np.array_equal(np.isfinite(u), np.isfinite(self.u)):
            return False
        far = np.abs(self.moved(u)).max()
        return bool(2 * far**2 + 4 * far * self.age <= TAYLOR)

    def moved(self, u: Floats) -> Floats:
        """Return u minus the point, 0 for states that were not sampled."""
        step = np.zeros(len(u))
        np.subtract(u, self.u, out=step, where=np.isfinite(u))
        return step

    def sums(self, u: Floats, *, gram: bool) -> Sums:
        """Return the sums at u."""
        step = self.moved(u)
        change = self.shares * step - self.gram @ step
        log_mass = self.log_mass + float(self.shares @ step + change @ step / 2)
        return Sums(log_mass, self.shares + change, self.gram if gram else None)

    def inverse_at(self, u: Floats) -> float:
        """Return sum_i c_i / S_i at u."""
        return self.inverse - float(self.inverse_shares @ self.moved(u))


class LazyRows:
    """Several parts as one pool, behind what Newton's method and the verdict ask of rows."""

    log = False
    dear = True
    counts = None
    inverse = None

    def __init__(
        self,
        parts: Sequence[Part],
        K: int,
        sizes: Floats,
        reach: Floats,
        few: Dense,
        start: Callable[[], Floats],
    ) -> None:
        self.parts, self.K, self.sizes = parts, K, sizes
        self._reach, self._few, self._start = reach, few, start
        self._point: Point | None = None

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def additions(self) -> int:
        """How many numbers an engine adds one after the other: taken to be as many as of rows in memory."""
        return additions(len(self), self.K)

    def sums(self, u: Floats, *, gram: bool = True, objective: bool = True) -> Sums:
        """Return log_mass, shares and gram at u: a pass over the rows, unless the last one was as good as there."""
        point = self._point
        if point is None or not point.reaches(u) or (gram and point.age):
            point = self._point = self._pass(u, gram=gram)
        return point.sums(u, gram=gram or not point.age)

    def _pass(self, u: Floats, *, gram: bool) -> Point:
        """Ask each part for 2 + 2 K sums, and for K (K + 1) / 2 more if they are few or asked for."""
        sampled = np.flatnonzero(np.isfinite(u))
        K = len(sampled)
        fresh = gram or K * (K + 1) // 2 <= GRAMS or self._point is None
        rows, columns = np.triu_indices(K) if fresh else (np.empty(0, np.int64), np.empty(0, np.int64))
        total = np.zeros(2 + 2 * K + len(rows))
        for part in self.parts:
            S, p = nw.col(f"{PREFIX}S"), [nw.col(f"{PREFIX}p_{k}") for k in sampled]
            counted = [one * part.count if part.counted else one for one in p]
            terms = [S.log() * part.count, part.count / S, *counted, *(one / S for one in counted)]
            terms += [counted[a] * p[b] for a, b in zip(rows, columns, strict=True)]
            total += part.sums(u, terms)
        shares, inverse_shares, squares = np.zeros(self.K), np.zeros(self.K), np.zeros((self.K, self.K))
        shares[sampled], inverse_shares[sampled] = total[2 : 2 + K], total[2 + K : 2 + 2 * K]
        squares[sampled[rows], sampled[columns]] = total[2 + 2 * K :]
        if not fresh and self._point is not None:
            age = self._point.age + float(np.abs(self._point.moved(u)).max())
            return Point(u, total[0], shares, self._point.gram, total[1], inverse_shares, age)
        return Point(u, total[0], shares, np.maximum(squares, squares.T), total[1], inverse_shares, 0.0)

    def log_means(self, u: Floats) -> Floats:
        """Return log sum_i c_i omega_ik / S_i(u) for every k."""
        total = np.zeros(self.K)
        for part in self.parts:
            r = part.count / nw.col(f"{PREFIX}S")
            total += part.sums(u, [nw.col(OMEGA.format(k)) * r for k in range(self.K)])
        with np.errstate(divide="ignore"):
            return np.log(total)

    def weights(self, u: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        if self._point is None or not self._point.reaches(u):
            self._point = self._pass(u, gram=True)
        return np.empty(0), float(np.log(self._point.inverse_at(u) / self.sizes.sum()))

    def reach(self) -> Floats:
        """Return the K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        return self._reach

    def overlap(self, mass: Floats | None = None, u: Floats | None = None) -> Floats:
        """Return the masses of the rows that both biases could have drawn: shares of the pool, or weighted at u."""
        upper = np.triu_indices(self.K)
        total = np.zeros(len(upper[0]))
        for part in self.parts:
            one = part.count if u is None else part.count / nw.col(f"{PREFIX}S")
            positive = [(nw.col(OMEGA.format(k)) > 0).cast(nw.Float64) for k in range(self.K)]
            terms = [positive[a] * positive[b] * one for a, b in zip(*upper, strict=True)]
            total += part.sums(u, terms)
        overlap = np.zeros((self.K, self.K))
        overlap[upper] = total / self.sizes.sum()
        return np.maximum(overlap, overlap.T)

    def masses(self) -> Floats:
        """Return nothing: shares of the pool are what ``overlap`` takes of itself."""
        return np.empty(0)

    def start(self) -> Floats:
        """Return a first u, from a small part of the rows."""
        return self._start()

    def subsample(self, fraction: float, *, least: int) -> Any:
        """Return a small part of the rows, in memory."""
        return self._few


def with_probabilities(frame: nw.LazyFrame[Any], u: Floats) -> nw.LazyFrame[Any]:
    """Add S = sum_l e^{u_l} omega_l and p_k = e^{u_k} omega_k / S of the sampled biases."""
    sampled = np.flatnonzero(np.isfinite(u))
    terms = {k: nw.col(OMEGA.format(k)) * float(np.exp(u[k])) for k in sampled}
    S = sum(list(terms.values())[1:], start=terms[sampled[0]])
    frame = frame.with_columns(S.alias(f"{PREFIX}S"))
    return frame.with_columns(*((term / nw.col(f"{PREFIX}S")).alias(f"{PREFIX}p_{k}") for k, term in terms.items()))


def cells(
    parts: Sequence[Part],
    K: int,
    limit: int,
    also: Sequence[str] = (),
    only: Callable[[Part], nw.Expr | None] | None = None,
) -> Dense | None:
    """Collapse equal rows by one GROUP BY for each part; None where there are more than the limit.

    Columns ``also`` have to be equal too, and stand in the matrix after those of the biases. With ``only`` those rows
    are looked at for which it holds; all of a part for which it is None.
    """
    columns = [*(OMEGA.format(k) for k in range(K)), *also]
    matrices, sources, counts = [], [], []
    for part in parts:
        found = part.ask(partial(_grouped, part, columns, limit, None if only is None else only(part)))
        if len(found) > limit:
            return None
        matrices.append(np.column_stack([found.get_column(name).to_numpy() for name in columns]).astype(np.float64))
        labels = [None] * len(found) if part.label is None else found.get_column(part.label).to_list()
        sources.append(np.array([part.codes[label] for label in labels], np.int64))
        counts.append(found.get_column(COUNT).to_numpy().astype(np.float64))
    matrix, source, count = np.concatenate(matrices), np.concatenate(sources), np.concatenate(counts)
    kept = np.flatnonzero(count > 0)
    order = kept[np.lexsort((*matrix[kept].T, source[kept]))]  # engines give groups in any order
    return Dense(matrix[order], source[order], count[order])


def _grouped(
    part: Part, columns: Sequence[str], limit: int, only: nw.Expr | None, frame: nw.LazyFrame[Any]
) -> nw.LazyFrame[Any]:
    keys = [*columns] if part.label is None else [part.label, *columns]
    chosen = frame if only is None else frame.filter(only)
    return chosen.group_by(*keys).agg(part.rows.alias(COUNT)).head(limit + 1)


def head(part: Part, label: Any, K: int, rows: int) -> NDArray[np.float64]:
    """Return omega of the first rows of a sample."""
    columns = [OMEGA.format(k) for k in range(K)]

    def first(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        mine = frame if part.label is None else frame.filter(nw.col(part.label) == label)
        return mine.select(*columns).head(rows)

    found = part.ask(first)
    return np.column_stack([found.get_column(name).to_numpy() for name in columns]).astype(np.float64)
