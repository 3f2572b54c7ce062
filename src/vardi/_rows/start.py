"""Where Newton's method starts: pairwise ratios along the maximum spanning tree of the overlaps."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from vardi._rows.grouping import by_sample
from vardi._types import Floats, Integers


def mean_log_start(log_omega_sums: Floats, sizes: Floats) -> Floats:
    """Return u_k = log n_k - (mean of log omega_k over the rows of sample k): crude, but always there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sizes > 0, np.log(sizes) - log_omega_sums / sizes, -np.inf)


def tree_start(log_omega: Floats, source: Integers, c: Floats, sizes: Floats) -> Floats:
    """Estimate u from pairs of samples only, and sum the differences along a tree.

    For samples k and l alone, t = u_k - u_l solves sum_i expit(t + log omega_k - log omega_l) = n_k over their rows
    that both allow (Bennett's acceptance ratio). The tree joins the pairs that overlap most: many shared rows, and
    close log ratios (their Jeffreys divergence is a difference of means, so no pair need be solved to be judged).
    """
    K = len(sizes)
    rows_of = by_sample(source, K)
    finite = np.isfinite(log_omega)
    L = np.where(finite, log_omega, 0.0)
    own = L[np.arange(len(source)), source]
    u = mean_log_start(np.array([c[rows] @ own[rows] for rows in rows_of]), sizes)
    shared = np.stack([c[rows] @ finite[rows] for rows in rows_of])  # rows of k (rows) that l (columns) allows
    drops = np.stack([(c * own)[rows] @ finite[rows] - c[rows] @ L[rows] for rows in rows_of])
    with np.errstate(divide="ignore", invalid="ignore"):
        drop = drops / shared  # the mean of log omega_k / omega_l over the rows of k
        weight = np.log(np.minimum(shared, shared.T)) - (drop + drop.T) / 4.0
    for k, l in _tree(np.where(np.isfinite(weight), weight, -np.inf)):
        rows = np.concatenate([rows_of[k], rows_of[l]])
        rows = rows[finite[rows, k] & finite[rows, l]]
        u[l] = u[k] - _ratio(L[rows, k] - L[rows, l], c[rows], float(c[rows] @ (source[rows] == k)))
    return u


def _tree(weight: Floats) -> list[tuple[int, int]]:
    """Return (parent, child) along the maximum spanning forest, parents first; -inf is no edge."""
    ordered = []
    nearest, best = np.zeros(len(weight), np.intp), np.full(len(weight), -np.inf)
    left = np.ones(len(weight), bool)
    for _ in range(len(weight)):  # Prim's way, in K^2 comparisons and without sorting as many edges
        child = int(np.argmax(np.where(left, best, -np.inf)))
        if np.isneginf(best[child]) or not left[child]:
            child = int(np.argmax(left))  # the first that no edge leads to: the root of another tree
        else:
            ordered.append((int(nearest[child]), child))
        left[child] = False
        closer = left & (weight[child] > best)
        nearest[closer], best[closer] = child, weight[child][closer]
    return ordered


def _ratio(d: Floats, counts: Floats, target: float) -> float:
    """Solve sum_i c_i expit(d_i + t) = target for t, by Newton's method inside a bracket."""
    total = float(counts.sum())
    half = min(0.5, total / 4)
    target = min(max(target, half), total - half)  # rows of one side only: half a row keeps the ratio finite
    level = np.log(target / (total - target))
    low, high = level - float(d.max()), level - float(d.min())
    t = level - float(np.median(d))
    for _ in range(60):
        p = np.exp(-np.logaddexp(0.0, -(d + t)))  # expit, without loading scipy.special
        excess = float(counts @ p) - target
        low, high = (low, t) if excess > 0 else (t, high)
        slope = float(counts @ (p * (1.0 - p)))
        t_new = t - excess / slope if slope > 0 else np.inf
        t_new = t_new if low < t_new < high else 0.5 * (low + high)
        if abs(t_new - t) <= 1e-3:
            return t_new
        t = t_new
    return t


def widest_tree(weight: sparse.sparray) -> sparse.coo_array:
    """Return the maximum spanning forest of a sparse graph, as a COO array of the weights of its edges."""
    graph = sparse.csr_array(-weight)
    for name in ("indices", "indptr"):  # SciPy before 1.17.1 accepts no others
        setattr(graph, name, getattr(graph, name).astype(np.int32, copy=False))
    return -sparse.csgraph.minimum_spanning_tree(graph).tocoo()
