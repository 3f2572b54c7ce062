"""Expectations and their errors, asked of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from vardi._estimates import Estimates, not_finite
from vardi._influence import Influence
from vardi._lazy.pool import LazyPool
from vardi._rows.lazy import PREFIX, Part
from vardi._strata import Strata
from vardi._sums import Floats

Functions = Callable[[Part], Sequence[nw.Expr]]


class LazyInfluence(Influence):
    """Expectations and their errors as queries: three for any number of functions."""

    def __init__(self, pool: LazyPool, rows: Any, u: Floats, weights: Floats) -> None:
        self.pool, self.rows, self.u, self.row_weights = pool, rows, u, weights
        self.n = float(rows.sizes.sum())
        self.strata = Strata(np.empty(0, np.int64), rows.sizes, None, self)

    def query(self, functions: Functions, level: float, *, trusted: bool, names: Sequence[str] = ()) -> Estimates:
        """Return the expectations of expressions, given for each part; of those with names all values are checked."""
        eta, projected = self._moments(functions, names)
        b = self.solve(projected)
        covariance = np.zeros((len(eta), len(eta)))
        for part in self.pool.parts:
            phi = [self._phi(f, float(eta[j]), b[:, j]) for j, f in enumerate(functions(part))]
            covariance += self._within(part, phi)
        return Estimates(eta, covariance if trusted else np.full_like(covariance, np.nan), level)

    def model_query(self, functions: Functions) -> tuple[Floats, Floats]:
        """Return expectations, and their covariance in the model's own form (MBAR's)."""
        eta, projected = self._moments(functions)
        m = len(eta)
        squares = np.zeros((m, m))
        for part in self.pool.parts:
            rg = [(f - float(e)) / nw.col(f"{PREFIX}S") for f, e in zip(functions(part), eta, strict=True)]
            columns, g = _as_columns(rg)
            terms = [g[i] * g[j] * part.count for i in range(m) for j in range(m)]
            squares += part.sums(self.u, terms, columns).reshape(m, m)
        return eta, (squares + projected.T @ self.solve(projected)) / self.n**2

    def _moments(self, functions: Functions, names: Sequence[str] = ()) -> tuple[Floats, Floats]:
        """Return eta and sum_i c_i r_i g_i p_i, by two queries for each part."""
        asked = [(part, list(functions(part))) for part in self.pool.parts]
        m, sampled = len(asked[0][1]), np.flatnonzero(self.sampled)
        eta, endless = np.zeros(m), np.zeros(len(names))
        for part, f in asked:
            terms = [one * part.count / nw.col(f"{PREFIX}S") for one in f]
            terms += [_is_endless(one) for one, _ in zip(f, names, strict=False)]
            found = part.sums(self.u, terms)
            eta += found[:m] / self.n
            endless += found[m:]
        if endless.any():
            place = int(np.flatnonzero(endless)[0])
            raise not_finite(int(endless[place]), names[place])
        projected = np.zeros((len(self.u), m))
        for part, f in asked:
            rg = [(one - float(e)) * part.count / nw.col(f"{PREFIX}S") for one, e in zip(f, eta, strict=True)]
            columns, g = _as_columns(rg)
            terms = [one * nw.col(f"{PREFIX}p_{k}") for k in sampled for one in g]
            projected[sampled] += part.sums(self.u, terms, columns).reshape(len(sampled), m)
        return eta, projected

    def _phi(self, f: nw.Expr, eta: float, b: Floats) -> nw.Expr:
        phi = (f - eta) / nw.col(f"{PREFIX}S")
        for k in np.flatnonzero(self.sampled):
            phi = phi + nw.col(f"{PREFIX}p_{k}") * float(b[k])
        return phi

    def _within(self, part: Part, phi: Sequence[nw.Expr]) -> Floats:
        """Return what a part adds to the covariance: the deviations of phi within its samples."""
        m = len(phi)
        columns, phi = _as_columns(phi)
        upper = [(i, j) for i in range(m) for j in range(i, m)]
        queries = {f"s_{j}": (phi[j] * part.count).sum() for j in range(m)}
        queries |= {f"q_{i}_{j}": (phi[i] * phi[j] * part.count).sum() for i, j in upper}
        covariance = np.zeros((m, m))
        for code, row in part.by_sample(queries, self.u, columns):
            size = self.rows.sizes[code]
            for i, j in upper:
                within = row[f"q_{i}_{j}"] - row[f"s_{i}"] * row[f"s_{j}"] / size
                covariance[i, j] += within / self.n**2 * size / max(size - 1.0, 1.0)
        return np.triu(covariance) + np.triu(covariance, 1).T


def _as_columns(values: Sequence[nw.Expr]) -> tuple[list[nw.Expr], list[nw.Expr]]:
    """Return values as columns to be put on a frame, and the columns to be read from it."""
    names = [f"{PREFIX}value_{j}" for j in range(len(values))]
    return [value.alias(name) for value, name in zip(values, names, strict=True)], [nw.col(name) for name in names]


def _is_endless(f: nw.Expr) -> nw.Expr:
    """Return 1 where a value is no finite number, else 0; a null, as of a quotient by zero in Spark, is none."""
    return nw.when(f.abs() < float("inf")).then(nw.lit(0.0)).otherwise(nw.lit(1.0))
