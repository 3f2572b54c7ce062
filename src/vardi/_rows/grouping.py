"""Rows by sample: sizes, sums within samples, a subsample that keeps every sample, and where Newton's method starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vardi._machine import sum_blocks
from vardi._types import Floats, Integers
from vardi.biases._values import are_once

FIRST = 100  # values that are looked at before all others
MANY, MOST_WHOLE = 10_000, 2**16  # rows, and whole numbers from the least to the largest, that are counted
NARROW = 16  # columns up to which one after the other is reduced: rows at once take more than ten times as long


def sizes_of(source: Integers, K: int, counts: Floats) -> Floats:
    """Return n_k, the (counted) number of rows of each sample."""
    return np.bincount(source, None if are_once(counts) else counts, minlength=K).astype(np.float64)


def scaled_to_mean_one(weights: Floats, counts: Floats, *, are_logs: bool) -> tuple[Floats, float]:
    """Return weights, given as they are or as logs, scaled in place to mean 1 over counted rows; and its log."""
    top = float(weights.max()) if are_logs else 0.0
    if are_logs:
        weights -= top
        np.exp(weights, out=weights)
    total = sum_blocks(lambda rows: float((counts[rows] * weights[rows]).sum()), len(weights), 1)
    mean = total / float(counts.sum())
    weights *= 1.0 / mean
    return weights, top + float(np.log(mean))


def variance_factors(sizes: Floats) -> Floats:
    """Return n_k / (n_k - 1), which turns a sum of squared deviations into a variance, and 1 for a single row."""
    return np.where(sizes < 2, 1.0, sizes / np.maximum(sizes - 1.0, 1.0))


def membership(source: Integers, K: int, counts: Floats | float = 1.0) -> sparse.csc_array:
    """Return the K x n matrix with c_i at (s_i, i): multiplied with a matrix of rows, it sums within samples."""
    data = np.ascontiguousarray(np.broadcast_to(counts, len(source)))
    return sparse.csc_array((data, source, np.arange(len(source) + 1)), shape=(K, len(source)))


def sums_by_code(codes: Integers, values: Floats, size: int) -> Floats:
    """Return sums of the rows with each code below a size, of shape (size, m)."""
    if values.shape[1] > NARROW:
        return np.asarray(membership(codes, size) @ values)
    sums = [np.bincount(codes, column, minlength=size) for column in values.T]
    return np.stack(sums, axis=1).astype(np.float64, copy=False) if sums else np.zeros((size, 0))


def extremes_by_code(codes: Integers, low: Floats, high: Floats, size: int) -> tuple[Floats, Floats]:
    """Return the smallest of some and the largest of other numbers of the rows with each code, of shape (size, m)."""
    lows, highs = np.full((low.shape[1], size), np.inf), np.full((high.shape[1], size), -np.inf)
    for found, column in zip(lows, low.T, strict=True):
        np.fmin.at(found, codes, column)  # a number may be missing
    for found, column in zip(highs, high.T, strict=True):
        np.fmax.at(found, codes, column)
    return lows.T, highs.T


def sums_by_sample(values: Floats, source: Integers | int, K: int) -> Floats:
    """Return sums of the rows of each sample, of shape (K, m); the source is a number if they all are of one."""
    if not isinstance(source, int):
        return sums_by_code(source, values, K)
    found = np.zeros((K, values.shape[1]))
    found[source] = [column.sum() for column in values.T] if values.shape[1] <= NARROW else values.sum(axis=0)
    return found


def by_sample(source: Integers, K: int) -> list[Integers]:
    """Return the row numbers of each sample, in order."""
    order = np.argsort(source.astype(np.int16) if K < 2**15 else source, kind="stable")  # 16 bits sort by radix
    return np.split(order, np.cumsum(np.bincount(source, minlength=K))[:-1])


def stratified(source: Integers, K: int, fraction: float, least: int) -> NDArray[np.intp]:
    """Return evenly spaced rows of every sample: the given fraction, but at least ``least`` of each."""
    lengths = np.bincount(source, minlength=K)
    sizes = np.minimum(lengths, np.maximum(least, (lengths * fraction).astype(np.int64)))
    starts = np.cumsum(lengths) - lengths
    steps = lengths / np.maximum(sizes, 1)
    by_label = zip(starts, sizes, steps, strict=True)
    places = np.concatenate([start + (np.arange(size) * step).astype(np.intp) for start, size, step in by_label])
    if is_sorted(source):  # the usual case: samples one after the other
        return places
    return np.concatenate(by_sample(source, K))[places]


def is_sorted(source: Integers) -> bool:
    """Return whether the rows of each sample follow one another, sample by sample."""
    return bool((source[1:] >= source[:-1]).all())


def are_whole(values: Floats) -> bool:
    """Return whether all are whole numbers; mostly the first ones tell that they are not."""
    return all(bool((part == np.floor(part)).all()) for part in (values[:FIRST], values[FIRST:]))


def sums_by_value(values: Floats, parts: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
    """Return the distinct values in order, and sums of other numbers of rows by value."""
    low = float(values.min(initial=np.inf))
    if len(values) >= MANY and float(values.max()) - low < MOST_WHOLE and are_whole(values):
        place = (values - low).astype(np.int64)  # whole numbers need not be sorted
        there = np.flatnonzero(np.bincount(place))
        sums = [np.bincount(place, part)[there].astype(np.float64, copy=False) for part in parts]
        return there.astype(np.float64) + low, sums
    order = np.argsort(values)
    x = values[order]
    starts = np.flatnonzero(np.append(True, x[1:] != x[:-1]))[: len(x)]
    return x[starts], [np.add.reduceat(part[order], starts) for part in parts]


def mean_log_start(own: Floats, source: Integers, counts: Floats, sizes: Floats) -> Floats:
    """Return u_k = log n_k - (mean of log omega_k over the rows of sample k): crude, but always there.

    ``own`` are the logs of each row under the bias of its own sample.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.bincount(source, counts * own, minlength=len(sizes)) / sizes
        return np.where(sizes > 0, np.log(sizes) - means, -np.inf)


def tree_start(log_omega: Floats, source: Integers, c: Floats, sizes: Floats) -> Floats:
    """Estimate u from pairs of samples only, and sum the differences along the maximum spanning tree of the overlaps.

    For samples k and l alone, t = u_k - u_l solves sum_i expit(t + log omega_k - log omega_l) = n_k over their rows
    that both allow (Bennett's acceptance ratio). The tree joins the pairs that overlap most: many shared rows, and
    close log ratios (their Jeffreys divergence is a difference of means, so no pair need be solved to be judged).
    """
    K = len(sizes)
    rows_of = by_sample(source, K)
    finite = np.isfinite(log_omega)
    L = np.where(finite, log_omega, 0.0)
    own = L[np.arange(len(source)), source]
    u = mean_log_start(own, source, c, sizes)
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
    for _ in range(len(weight)):  # Prim's way, in K^2 comparisons and without loading scipy's graphs
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
