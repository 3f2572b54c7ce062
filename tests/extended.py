"""Vardi's system solved in 64-bit mantissas for designs of any size, with a bound on its own error.

Shares no code with the package, nor with the 50-digit solver of tests/oracle.py, which it is checked against. Three
things keep the digits where samples hardly overlap, so that the answer does not lose what the condition number takes:

- the gradient is a divergence of flows. With F_kl = sum_{i of sample k} m_i p_il the flow from k to l is positive, and
  q_k - lambda_k = sum_l F_lk - F_kl has no term of the rows that stay where they are;
- the Hessian diag(q) - G is the Laplacian of the graph with weights G_kl, and is eliminated from these alone, without a
  subtraction (Grassmann, Taksar and Heyman);
- the distance to the solution has a bound. Along d = u* - u the third derivative of the dual is at most range(d) times
  the second, so 0 = D'(1) >= g.d + |d|_H^2 (1 - e^{-r}) / r with r = range(d). With N^2 = g'H^+ g and c^2 the largest
  effective resistance, -g.d <= N |d|_H and r <= c |d|_H, hence 1 - e^{-r} <= c N and r <= -log(1 - c N). What rounding
  adds to g is a flow of at most epsilon F_kl along each edge, whose N is at most epsilon sqrt(sum F_kl^2 / G_kl).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from threadpoolctl import ThreadpoolController

Long = np.longdouble
THREADS = ThreadpoolController()
HAS_64_BITS = np.finfo(Long).nmant >= 63
EPSILON = float(np.finfo(Long).eps)
FAINT = 1e-250  # links below this are summed again in extended range: doubles end at 1e-308
BLOCK = 128  # rows that are summed one after the other
DISTANT = 30.0  # steps beyond which Newton's model is no guide: self-consistent ones descend from anywhere
NEAR = 1e-6  # steps below which Newton's method must converge at once


class UnsolvedError(ArithmeticError):
    """The oracle did not converge."""


@dataclass(frozen=True)
class Extended:
    """The solution, and what is known of it; arrays of states have a number for every state, sampled or not."""

    u: np.ndarray  # log(lambda_k / Omega_k), -inf for states that were not sampled
    log_omegas: np.ndarray
    log_weights: np.ndarray  # -inf for rows that do not count
    error: float  # bound on range(u - u*); infinite where a link is below the range of extended numbers
    gap: float  # second smallest eigenvalue of Q^{-1/2} H Q^{-1/2}
    condition: float  # range of u per relative error of the shares, at worst
    magnitude: float  # largest |u_k| + |log omega_ik| that matters: what a sum in the log domain rounds
    links: np.ndarray  # G, of all states
    iterations: int


@dataclass(frozen=True)
class _Rows:
    x: np.ndarray  # log omega of the counted rows and sampled states, sorted by source
    m: np.ndarray
    lam: np.ndarray
    starts: np.ndarray  # where the rows of each sampled state begin


@dataclass(frozen=True)
class _Point:
    u: np.ndarray
    dual: Any
    p: np.ndarray
    flows: np.ndarray  # F, without diagonal
    links: np.ndarray  # G, without diagonal

    @property
    def gradient(self) -> np.ndarray:
        return (self.flows - self.flows.T).sum(axis=0)


def log_matrix(omega: Any, *, log: bool) -> np.ndarray:
    """Return log omega in extended precision, -inf for zero."""
    if sparse.issparse(omega):
        stored = sparse.coo_array(omega)
        values = np.full(stored.shape, -np.inf, Long)
        data = stored.data.astype(Long)
        values[stored.row, stored.col] = data if log else _log(data)
        return values
    values = np.asarray(omega).astype(Long)
    return values if log else _log(values)


def solve(omega: Any, source: Any, counts: Any = None, *, log: bool = False) -> Extended:
    """Solve a strongly connected design from the definition of the biases alone."""
    with THREADS.limit(limits=1):
        return _solve(omega, source, counts, log=log)


def _solve(omega: Any, source: Any, counts: Any, *, log: bool) -> Extended:
    x, source = log_matrix(omega, log=log), np.asarray(source)
    n, K = x.shape
    c = np.ones(n, Long) if counts is None else np.asarray(counts).astype(Long)
    counted = np.flatnonzero(c > 0)
    order = counted[np.argsort(source[counted], kind="stable")]
    sampled, starts = np.unique(source[order], return_index=True)
    m = c[order] / c[order].sum()
    rows = _Rows(x[np.ix_(order, sampled)], m, np.add.reduceat(m, starts), starts)
    point, iterations = _descend(rows, np.searchsorted(sampled, source[order]))
    u = np.full(K, -np.inf, Long)
    u[sampled] = point.u
    log_pi = np.full(n, -np.inf, Long)
    log_pi[order] = _log(m) - _log_sum(rows.x + point.u, 1)
    shift = _log_sum(log_pi[order][:, None], 0)[0]  # the gauge in which the probabilities sum to 1
    log_pi -= shift
    u[sampled] += shift
    links = np.zeros((K, K))
    links[np.ix_(sampled, sampled)] = point.links.astype(float)
    log_c = np.full(n, -np.inf, Long)
    log_c[order] = _log(m)
    matters, resistance, gap = point.p > 1e-25, _resistance(point.links), _gap(point, rows.lam)
    return Extended(
        u=u,
        log_omegas=_log_sum(x[order] + log_pi[order, None], 0),
        log_weights=np.where(np.isfinite(log_c), log_pi - np.where(np.isfinite(log_c), log_c, 0), -np.inf),
        error=_bound(rows, point, resistance),
        gap=gap,
        condition=float(np.sqrt(resistance / gap)) if gap > 0 else np.inf,
        magnitude=float((np.abs(u[sampled]) + np.abs(rows.x))[matters].max()),
        links=links,
        iterations=iterations,
    )


def _descend(rows: _Rows, labels: np.ndarray) -> tuple[_Point, int]:
    """Descend from where each sample alone would be, or where that is too far from pairs of samples."""
    mean = np.add.reduceat(rows.m * rows.x[np.arange(len(labels)), labels], rows.starts) / rows.lam
    for start, most in ((lambda: _log(rows.lam) - mean, 60), (lambda: _start_from_pairs(rows, labels), 500)):
        u, before = start(), 0
        short = _Rows(rows.x.astype(float), rows.m.astype(float), rows.lam.astype(float), rows.starts)
        with np.errstate(all="ignore"):  # doubles first, which are faster, and which may fail
            rough, _, before = _newton(short, u.astype(float), enough=1e-7, most=60)
        if np.isfinite(rough.u).all():
            u = rough.u.astype(Long)
        point, delta, iterations = _newton(rows, u, enough=1e-15, most=most)
        if delta is not None and np.ptp(delta) < NEAR:
            return point, before + iterations
    raise UnsolvedError


def _start_from_pairs(rows: _Rows, labels: np.ndarray) -> np.ndarray:
    """Solve pairs of samples by bisection, and add them up along the tree of those that overlap most."""
    K = len(rows.lam)
    shift, weight = np.zeros((K, K), Long), np.full((K, K), -np.inf)
    for k in range(K):
        for l in range(k):
            both = ((labels == k) | (labels == l)) & np.isfinite(rows.x[:, k]) & np.isfinite(rows.x[:, l])
            mine = float(rows.m[both & (labels == k)].sum()), float(rows.m[both & (labels == l)].sum())
            if min(mine) > 0:
                d, m = (rows.x[both, k] - rows.x[both, l]).astype(float), rows.m[both].astype(float)
                low, high = -d.max() - 50.0, -d.min() + 50.0
                for _ in range(80):  # sum m / (1 + e^{-d - t}) = mass of k
                    t = (low + high) / 2
                    low, high = (low, t) if m @ expit(d + t) > mine[0] else (t, high)
                shift[k, l], shift[l, k] = t, -t
                weight[k, l] = weight[l, k] = np.log((m * expit(d + t) * expit(-d - t)).sum() + 1e-300)
    u, near, done = np.zeros(K, Long), np.zeros(K, int), np.arange(K) == 0
    for _ in range(K - 1):  # Prim's tree
        best = np.where(done, -np.inf, weight[near, np.arange(K)])
        new = int(np.argmax(best)) if np.isfinite(best).any() else int(np.flatnonzero(~done)[0])
        u[new], done[new] = u[near[new]] + shift[new, near[new]], True
        near = np.where(weight[new] > weight[near, np.arange(K)], new, near)
    return u


def _newton(rows: _Rows, u: np.ndarray, *, enough: float, most: int) -> tuple[_Point, np.ndarray | None, int]:
    """Return the last point, the step that led there (None where there is none) and the number of steps."""
    point, before = _point(rows, u), np.inf
    for iterations in range(1, most + 1):  # noqa: B007 it is returned
        delta = _step(point)
        if delta is None or not np.isfinite(delta).all():
            delta, spread, new = None, np.inf, _consistent(rows, point)
        else:
            spread, new = float(np.ptp(delta)), _point(rows, point.u + delta)
        if DISTANT < spread < np.inf:
            damped = _point(rows, point.u + delta * (np.log1p(spread) / spread))
            new = min(_consistent(rows, point), new, damped, key=lambda other: other.dual)
        elif 1e-3 < spread < np.inf and not new.dual <= point.dual + point.gradient @ delta / 4:
            new = _point(rows, point.u + delta * (np.log1p(spread) / spread))
        point = new
        if spread < enough or before / 2 < spread < NEAR:  # the second: only rounding is left
            break
        before = spread
    return point, delta, iterations


def _point(rows: _Rows, u: np.ndarray) -> _Point:
    u = u - u.max()
    arguments = rows.x + u
    top = arguments.max(axis=1, keepdims=True)
    p = np.exp(arguments - top)
    mass = p.sum(axis=1, keepdims=True)
    p /= mass
    flows = _sums(rows.m[:, None] * p, rows.starts)
    scaled = (np.sqrt(rows.m)[:, None] * p).astype(float)
    links = (scaled.T @ scaled).astype(p.dtype)
    np.fill_diagonal(flows, 0)
    np.fill_diagonal(links, 0)
    for k, l in zip(*np.nonzero(np.triu((flows + flows.T > 0) & (links < FAINT))), strict=True):
        links[k, l] = links[l, k] = (rows.m * p[:, k] * p[:, l]).sum()
    dual = rows.m @ (top + np.log(mass))[:, 0] - rows.lam @ u
    return _Point(u, dual, p, flows, links)


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the sums of rows from each start to the next, of blocks first: rounding grows with the root of n only."""
    ends = np.append(starts[1:], len(values))
    within = np.concatenate([np.arange(start, end, BLOCK) for start, end in zip(starts, ends, strict=True)])
    return np.add.reduceat(np.add.reduceat(values, within, axis=0), np.searchsorted(within, starts), axis=0)


def _consistent(rows: _Rows, point: _Point) -> _Point:
    """Return the point at which each sample alone would have its share."""
    arguments = rows.x + point.u
    log_shares = _log_sum(arguments + (_log(rows.m) - _log_sum(arguments, 1))[:, None], 0)
    return _point(rows, point.u + _log(rows.lam) - log_shares)


def _step(point: _Point) -> np.ndarray | None:
    step = eliminate(point.links, -point.gradient[:, None])
    return None if step is None else step[:, 0]


def eliminate(links: np.ndarray, right: np.ndarray) -> Any:
    """Solve L x = right for the Laplacian of the links, with x = 0 in the last state; None where it falls apart."""
    if links[links > 0].min(initial=1.0) > FAINT:  # then doubles lose nothing but their last digits: there is no minus
        links, right = links.astype(float), right.astype(float)
    w, b = links.copy(), right.copy()
    K = len(w)
    pivots, factors = np.zeros(K, w.dtype), []
    for k in range(K - 1):
        pivots[k] = w[k, k + 1 :].sum()
        if not pivots[k] > 0:
            return None
        factor = w[k, k + 1 :] / pivots[k]
        b[k + 1 :] += factor[:, None] * b[k]
        w[k + 1 :, k + 1 :] += factor[:, None] * w[k, k + 1 :]
        factors.append(factor)
    x = np.zeros_like(b)
    for k in reversed(range(K - 1)):
        x[k] = b[k] / pivots[k] + factors[k] @ x[k + 1 :]
    return x


def _resistance(links: np.ndarray) -> float:
    if len(links) == 1:
        return 0.0
    inverse = eliminate(links, np.eye(len(links), dtype=Long))
    if inverse is None:
        return np.inf
    diagonal = np.diag(inverse)
    return float((diagonal[:, None] + diagonal - inverse - inverse.T).max())


def _bound(rows: _Rows, point: _Point, resistance: float) -> float:
    if len(point.u) == 1:
        return 0.0
    decrement = float(point.gradient @ eliminate(point.links, point.gradient[:, None])[:, 0])
    finite = rows.x[np.isfinite(rows.x)]
    epsilon = EPSILON * float(
        np.abs(point.u).max() + 2 * np.abs(finite).max() + len(point.u) + BLOCK + len(rows.m) / BLOCK + 8
    )
    edges = point.flows > 0
    rounding = epsilon * float(np.sqrt((point.flows[edges] * (point.flows[edges] / point.links[edges])).sum()))
    reach = np.sqrt(resistance) * (np.sqrt(max(decrement, 0.0)) + rounding)
    return float(-np.log1p(-reach)) if reach < 1 else np.inf


def _gap(point: _Point, lam: np.ndarray) -> float:
    if len(lam) == 1:
        return 1.0
    root = np.sqrt(lam)
    scaled = point.links / (root[:, None] * root)
    laplacian = np.diag(point.links.sum(axis=1) / lam) - scaled + 2 * root[:, None] * root
    return float(np.linalg.eigvalsh(laplacian.astype(float))[0])


def _log(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _log_sum(values: np.ndarray, axis: int) -> np.ndarray:
    top = values.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    return np.squeeze(top, axis) + _log(np.exp(values - top).sum(axis=axis))
