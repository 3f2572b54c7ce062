"""Rows that stay where they are: frames of an engine, which is asked for sums and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from vardi._rows.dense import Dense
from vardi._sums import Floats, Integers, Sums

OMEGA = "__vardi_omega_{}"
COUNT = "__vardi_count"
PREFIX = "__vardi_"


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
    """

    frame: nw.LazyFrame[Any]
    label: str | None
    codes: dict[Any, int]
    counted: bool

    @property
    def count(self) -> nw.Expr:
        """How many rows a row stands for, as an expression."""
        return nw.col(COUNT) if self.counted else nw.lit(1.0)

    @property
    def rows(self) -> nw.Expr:
        """How many rows there are, as an aggregate."""
        return nw.col(COUNT).sum() if self.counted else nw.len()

    def by_sample(self, expressions: dict[str, nw.Expr]) -> list[tuple[int, dict[str, Any]]]:
        """Ask for sums within samples: the position of each sample and its numbers."""
        named = [expression.alias(name) for name, expression in expressions.items()]
        if self.label is None:
            rows = _collected(self.frame.select(*named)).rows(named=True)
            return [(self.codes[None], row) for row in rows]
        rows = _collected(self.frame.group_by(self.label).agg(*named)).rows(named=True)
        return [(self.codes[row[self.label]], row) for row in rows]


class LazyRows:
    """Several parts as one pool, behind what Newton's method and the verdict ask of rows."""

    log = False
    counts = None
    inverse = None

    def __init__(self, parts: Sequence[Part], K: int, sizes: Floats, reach: Floats, sub: Dense) -> None:
        self.parts, self.K, self.sizes = parts, K, sizes
        self._reach, self._sub = reach, sub

    def __len__(self) -> int:
        return int(self.sizes.sum())

    def sums(self, u: Floats, *, gram: bool = True) -> Sums:
        """Return log_mass, shares and gram at u: one query of 1 + K + K (K + 1) / 2 sums for each part."""
        sampled = np.flatnonzero(np.isfinite(u))
        K = len(sampled)
        upper = np.triu_indices(K) if gram else (np.empty(0, np.int64), np.empty(0, np.int64))
        total = Sums(0.0, np.zeros(self.K), np.zeros((self.K, self.K)) if gram else None)
        for part in self.parts:
            p = [nw.col(f"{PREFIX}p_{k}") for k in sampled]
            queries = [(nw.col(f"{PREFIX}S").log() * part.count).sum().alias("log_mass")]
            queries += [(p[a] * part.count).sum().alias(f"shares_{a}") for a in range(K)]
            queries += [(p[a] * p[b] * part.count).sum().alias(f"gram_{a}_{b}") for a, b in zip(*upper, strict=True)]
            row = _collected(with_probabilities(part.frame, u).select(*queries)).row(0)
            shares, squares = np.zeros(self.K), np.zeros((self.K, self.K))
            shares[sampled] = row[1 : 1 + K]
            squares[sampled[upper[0]], sampled[upper[1]]] = row[1 + K :]
            total = total + Sums(float(row[0]), shares, np.maximum(squares, squares.T))
        return total

    def log_means(self, u: Floats) -> Floats:
        """Return log sum_i c_i omega_ik / S_i(u) for every k."""
        total = np.zeros(self.K)
        for part in self.parts:
            r = part.count / nw.col(f"{PREFIX}S")
            queries = [(nw.col(OMEGA.format(k)) * r).sum().alias(str(k)) for k in range(self.K)]
            total += np.array(_collected(with_probabilities(part.frame, u).select(*queries)).row(0), np.float64)
        with np.errstate(divide="ignore"):
            return np.log(total)

    def weights(self, u: Floats) -> tuple[Floats, float]:
        """Return no weights, which stay in the engine, and the log of the scale at which they have mean 1."""
        total = 0.0
        for part in self.parts:
            query = (part.count / nw.col(f"{PREFIX}S")).sum().alias("total")
            total += float(_collected(with_probabilities(part.frame, u).select(query)).item())
        return np.empty(0), float(np.log(total / self.sizes.sum()))

    def reach(self) -> Floats:
        """Return the K x K counts of rows of sample l (columns) that bias k (rows) could have drawn."""
        return self._reach

    def overlap(self, mass: Floats | None = None, u: Floats | None = None) -> Floats:
        """Return the masses of the rows that both biases could have drawn: shares of the pool, or weighted at u."""
        upper = np.triu_indices(self.K)
        total = np.zeros(len(upper[0]))
        for part in self.parts:
            frame = part.frame if u is None else with_probabilities(part.frame, u)
            one = part.count if u is None else part.count / nw.col(f"{PREFIX}S")
            positive = [(nw.col(OMEGA.format(k)) > 0).cast(nw.Float64) for k in range(self.K)]
            queries = [(positive[a] * positive[b] * one).sum().alias(f"{a}_{b}") for a, b in zip(*upper, strict=True)]
            total += np.array(_collected(frame.select(*queries)).row(0), np.float64)
        overlap = np.zeros((self.K, self.K))
        overlap[upper] = total / self.sizes.sum()
        return np.maximum(overlap, overlap.T)

    def masses(self) -> Floats:
        """Return nothing: shares of the pool are what ``overlap`` takes of itself."""
        return np.empty(0)

    def start(self) -> Floats:
        """Return a first u, from the first rows of every sample."""
        return self._sub.start() + self._sub.shift_to(self.sizes)

    def subsample(self, fraction: float, *, least: int) -> Any:
        """Return the first rows of every sample, in memory."""
        return self._sub


def with_probabilities(frame: nw.LazyFrame[Any], u: Floats) -> nw.LazyFrame[Any]:
    """Add S = sum_l e^{u_l} omega_l and p_k = e^{u_k} omega_k / S of the sampled biases."""
    sampled = np.flatnonzero(np.isfinite(u))
    terms = {k: nw.col(OMEGA.format(k)) * float(np.exp(u[k])) for k in sampled}
    S = sum(list(terms.values())[1:], start=terms[sampled[0]])
    frame = frame.with_columns(S.alias(f"{PREFIX}S"))
    return frame.with_columns(*((term / nw.col(f"{PREFIX}S")).alias(f"{PREFIX}p_{k}") for k, term in terms.items()))


def cells(parts: Sequence[Part], K: int, limit: int, also: Sequence[str] = ()) -> Dense | None:
    """Collapse equal rows by one GROUP BY for each part; None where there are more than the limit.

    Columns ``also`` have to be equal too, and stand in the matrix after those of the biases.
    """
    columns = [*(OMEGA.format(k) for k in range(K)), *also]
    matrices, sources, counts = [], [], []
    for part in parts:
        keys = [*columns] if part.label is None else [part.label, *columns]
        grouped = part.frame.group_by(*keys).agg(part.rows.alias(COUNT)).head(limit + 1)
        found = _collected(grouped)
        if len(found) > limit:
            return None
        matrices.append(np.column_stack([found.get_column(name).to_numpy() for name in columns]).astype(np.float64))
        labels = [None] * len(found) if part.label is None else found.get_column(part.label).to_list()
        sources.append(np.array([part.codes[label] for label in labels], np.int64))
        counts.append(found.get_column(COUNT).to_numpy().astype(np.float64))
    matrix, source, count = np.concatenate(matrices), np.concatenate(sources), np.concatenate(counts)
    kept = count > 0
    return Dense(matrix[kept], source[kept], count[kept])


def head(parts: Sequence[Part], K: int, rows: int) -> tuple[NDArray[np.float64], Integers]:
    """Return the first rows of every sample: their omega, and their sample."""
    columns = [OMEGA.format(k) for k in range(K)]
    matrices, sources = [], []
    for part in parts:
        for label, code in part.codes.items():
            frame = part.frame if label is None else part.frame.filter(nw.col(part.label or "") == label)
            found = _collected(frame.select(*columns).head(rows))
            matrices.append(np.column_stack([found.get_column(name).to_numpy() for name in columns]).astype(np.float64))
            sources.append(np.full(len(found), code, np.int64))
    return np.concatenate(matrices), np.concatenate(sources)


def _collected(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    return frame.collect()
