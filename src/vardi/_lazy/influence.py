"""Expectations and their errors, asked of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from vardi._estimates import Estimates
from vardi._influence import Influence
from vardi._lazy.pool import LazyPool
from vardi._rows.lazy import PREFIX, Part, with_probabilities
from vardi._strata import Strata
from vardi._sums import Floats

Functions = Callable[[Part], Sequence[nw.Expr]]


class LazyInfluence(Influence):
    """Expectations and their errors as queries: three for any number of functions."""

    def __init__(self, pool: LazyPool, rows: Any, u: Floats, weights: Floats) -> None:
        self.pool, self.rows, self.u, self.row_weights = pool, rows, u, weights
        self.n = float(rows.sizes.sum())
        self.strata = Strata(np.empty(0, np.int64), rows.sizes, None, self)

    def query(self, functions: Functions, level: float, *, trusted: bool) -> Estimates:
        """Return the expectations of expressions, given for each part."""
        eta, projected = self._moments(functions)
        b = self.solve(projected)
        covariance = np.zeros((len(eta), len(eta)))
        for part in self.pool.parts:
            frame = with_probabilities(part.frame, self.u)
            phi = [self._phi(f, float(eta[j]), b[:, j]) for j, f in enumerate(functions(part))]
            covariance += self._within(part, frame, phi)
        return Estimates(eta, covariance if trusted else np.full_like(covariance, np.nan), level)

    def model_query(self, functions: Functions) -> tuple[Floats, Floats]:
        """Return expectations, and their covariance in the model's own form (MBAR's)."""
        eta, projected = self._moments(functions)
        m = len(eta)
        squares = np.zeros((m, m))
        for part in self.pool.parts:
            rg = [(f - float(e)) / nw.col(f"{PREFIX}S") for f, e in zip(functions(part), eta, strict=True)]
            terms = [rg[i] * rg[j] * part.count for i in range(m) for j in range(m)]
            squares += sums_of(with_probabilities(part.frame, self.u), terms).reshape(m, m)
        return eta, (squares + projected.T @ self.solve(projected)) / self.n**2

    def _moments(self, functions: Functions) -> tuple[Floats, Floats]:
        """Return eta and sum_i c_i r_i g_i p_i, by two queries for each part."""
        frames = [(part, with_probabilities(part.frame, self.u), list(functions(part))) for part in self.pool.parts]
        m, sampled = len(frames[0][2]), np.flatnonzero(self.sampled)
        eta = np.zeros(m)
        for part, frame, f in frames:
            eta += sums_of(frame, [one * part.count / nw.col(f"{PREFIX}S") for one in f]) / self.n
        projected = np.zeros((len(self.u), m))
        for part, frame, f in frames:
            rg = [(one - float(e)) * part.count / nw.col(f"{PREFIX}S") for one, e in zip(f, eta, strict=True)]
            terms = [one * nw.col(f"{PREFIX}p_{k}") for k in sampled for one in rg]
            projected[sampled] += sums_of(frame, terms).reshape(len(sampled), m)
        return eta, projected

    def _phi(self, f: nw.Expr, eta: float, b: Floats) -> nw.Expr:
        phi = (f - eta) / nw.col(f"{PREFIX}S")
        for k in np.flatnonzero(self.sampled):
            phi = phi + nw.col(f"{PREFIX}p_{k}") * float(b[k])
        return phi

    def _within(self, part: Part, frame: nw.LazyFrame[Any], phi: Sequence[nw.Expr]) -> Floats:
        """Return what a part adds to the covariance: the deviations of phi within its samples."""
        m = len(phi)
        upper = [(i, j) for i in range(m) for j in range(i, m)]
        queries = {f"s_{j}": (phi[j] * part.count).sum() for j in range(m)}
        queries |= {f"q_{i}_{j}": (phi[i] * phi[j] * part.count).sum() for i, j in upper}
        covariance = np.zeros((m, m))
        for code, row in Part(frame, part.label, part.codes, part.counted).by_sample(queries):
            size = self.rows.sizes[code]
            for i, j in upper:
                within = row[f"q_{i}_{j}"] - row[f"s_{i}"] * row[f"s_{j}"] / size
                covariance[i, j] += within / self.n**2 * size / max(size - 1.0, 1.0)
        return np.triu(covariance) + np.triu(covariance, 1).T


def sums_of(frame: nw.LazyFrame[Any], terms: Sequence[nw.Expr]) -> Floats:
    """Ask for the sums of expressions, all in one query."""
    named = [term.sum().alias(str(place)) for place, term in enumerate(terms)]
    return np.array(frame.select(*named).collect().row(0), np.float64)
