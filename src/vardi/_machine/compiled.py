"""Exps, grams and tallies of blocks of rows, compiled by Numba, with the extra ``[fast]``.

Loops work on tiles that stay in the first-level cache. Numba compiles them for the processor at hand when they are
first called, and keeps the result for later sessions if it finds a folder to write to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from vardi._types import Floats, Integers

TILE = 2048  # numbers of a tile: 16 kB
ROWS = 64  # rows of a tile of the gram
DRAWN_ROWS = 128  # rows of a tile of draws

LOWEST = -708.0  # exponents below which e^x is set to 0: it would be subnormal
LOG2_E = 1.4426950408889634
LOG_2, LOG_2_REST = 0.6931471805599453, 2.3190468138462996e-17  # their sum has 34 digits of log 2
ROUND = 6755399441055744.0  # 1.5 * 2^52: a number added to it is rounded to a whole number, in the lowest bits
# e^f for |f| <= log(2) / 2, interpolated at Chebyshev's nodes: a relative error of 1.7e-17 before rounding.
C0, C1, C2, C3 = 1.0, 1.0, 0.5000000000000019, 0.1666666666666668
C4, C5, C6, C7 = 0.04166666666648795, 0.008333333333319589, 0.0013888888952352863, 0.00019841269890076403
C8, C9, C10, C11 = 2.4801485441561313e-05, 2.755724088722987e-06, 2.763265472252779e-07, 2.5110049204818658e-08


def _compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for any number of threads, and keep the result if there is a folder for it."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, error_model="numpy", cache=True, **options)(function)
        except RuntimeError:  # no folder that can be written to
            return numba.njit(nogil=True, error_model="numpy", **options)(function)

    return decorate


def _bitcast(signature: Any, to: Any) -> Any:
    """Return a function that reinterprets 64 bits as another type."""

    def read(context: Any, value: Any) -> Any:
        return signature, lambda _, builder, __, args: builder.bitcast(args[0], to)

    return intrinsic(read)


_as_float = _bitcast(types.float64(types.int64), ir.DoubleType())
_as_bits = _bitcast(types.int64(types.float64), ir.IntType(64))


@_compiled(fastmath={"contract"}, inline="always")
def _exp(x: float) -> float:
    """Return e^x = 2^k e^f with k whole and f = x - k log 2, without a branch, so that loops over it use vectors."""
    bounded = max(x, LOWEST)
    shifted = bounded * LOG2_E + ROUND
    k = shifted - ROUND
    f = (bounded - k * LOG_2) - k * LOG_2_REST
    f2 = f * f
    f4 = f2 * f2
    high = (C8 + C9 * f) + f2 * (C10 + C11 * f)
    power = ((C0 + C1 * f) + f2 * (C2 + C3 * f)) + f4 * ((C4 + C5 * f) + f2 * (C6 + C7 * f) + f4 * high)
    scale = _as_float((_as_bits(shifted) << 52) + (1023 << 52))
    return power * scale if x >= LOWEST else 0.0


@_compiled(fastmath={"contract"})
def _exp_all(values: Floats, out: Floats) -> None:
    for j in range(values.size):
        out[j] = _exp(values[j])


@_compiled(fastmath={"contract"})
def _exp_beyond(logs: Floats, anchor: Floats, offset: Floats, out: Floats) -> None:
    n, K = logs.shape
    rows = max(1, TILE // K)
    tile, flat = np.empty(rows * K), out.reshape(n * K)
    for low in range(0, n, rows):
        m = min(rows, n - low)
        for i in range(m):
            beyond = offset[low + i]
            for k in range(K):
                tile[i * K + k] = (logs[low + i, k] + anchor[k]) - beyond
        part = flat[low * K : (low + m) * K]
        for j in range(m * K):
            part[j] = _exp(tile[j])


@_compiled(fastmath={"contract", "reassoc"})
def _gram(A: Floats, root: Floats, G: Floats) -> None:
    """Add sum_i root_i^2 a_i a_i' to the lower half of G, whose size is K rounded up to a multiple of four."""
    n, K = A.shape
    tile = np.zeros((len(G), ROWS))
    for low in range(0, n, ROWS):
        m = min(ROWS, n - low)
        if m < ROWS:
            tile[:] = 0.0
        for i in range(m):
            for k in range(K):
                tile[k, i] = A[low + i, k] * root[low + i]
        for k in range(0, len(G), 4):
            a, b, c, d = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
            for l in range(0, k + 4, 4):  # sixteen sums at a time: two loads for four products
                e, f, g, h = tile[l], tile[l + 1], tile[l + 2], tile[l + 3]
                ae = af = ag = ah = be = bf = bg = bh = ce = cf = cg = ch = de = df = dg = dh = 0.0
                for i in range(ROWS):
                    ai, bi, ci, di, ei, fi, gi, hi = a[i], b[i], c[i], d[i], e[i], f[i], g[i], h[i]
                    ae += ai * ei
                    af += ai * fi
                    ag += ai * gi
                    ah += ai * hi
                    be += bi * ei
                    bf += bi * fi
                    bg += bi * gi
                    bh += bi * hi
                    ce += ci * ei
                    cf += ci * fi
                    cg += ci * gi
                    ch += ci * hi
                    de += di * ei
                    df += di * fi
                    dg += di * gi
                    dh += di * hi
                for r, row in enumerate(((ae, af, ag, ah), (be, bf, bg, bh), (ce, cf, cg, ch), (de, df, dg, dh))):
                    for s, total in enumerate(row):
                        G[k + r, l + s] += total


@_compiled(fastmath={"contract", "reassoc"})
def _draws(
    P: Floats, Y: Floats, counts: NDArray[Any], first: int, moved: Floats, with_products: bool, out: Floats
) -> None:
    """Add to ``out``, whose rows are rounded up to a multiple of two, and columns, as those of ``moved``, of four."""
    n, K = P.shape
    columns, width = K + Y.shape[1], out.shape[1]
    tile, mass, other_mass = np.zeros((width, DRAWN_ROWS)), np.empty(DRAWN_ROWS), np.empty(DRAWN_ROWS)
    r, s = np.zeros(DRAWN_ROWS), np.zeros(DRAWN_ROWS)
    for low in range(0, n, DRAWN_ROWS):
        m, start = min(DRAWN_ROWS, n - low), first + low
        if m < DRAWN_ROWS:
            tile[:], r[:], s[:] = 0.0, 0.0, 0.0
        for i in range(m):
            for k in range(K):
                tile[k, i] = P[low + i, k]
            for j in range(K, columns):
                tile[j, i] = Y[low + i, j - K]
        if with_products:
            for j in range(K, columns):
                for k in range(K):
                    tile[columns + (j - K) * K + k] = tile[j] * tile[k]
        for draw in range(0, len(out), 2):  # two draws and four columns at a time: six loads for eight products
            other = min(draw + 1, len(counts) - 1)
            drawn, other_drawn = counts[draw, start : start + m], counts[other, start : start + m]
            if len(moved):
                mass[:], other_mass[:] = 0.0, 0.0
                for k in range(0, moved.shape[1], 4):
                    a, b, c, d = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
                    ma, mb, mc, md = moved[draw, k], moved[draw, k + 1], moved[draw, k + 2], moved[draw, k + 3]
                    oa, ob, oc, od = moved[other, k], moved[other, k + 1], moved[other, k + 2], moved[other, k + 3]
                    for i in range(DRAWN_ROWS):
                        ai, bi, ci, di = a[i], b[i], c[i], d[i]
                        mass[i] += (ma * ai + mb * bi) + (mc * ci + md * di)
                        other_mass[i] += (oa * ai + ob * bi) + (oc * ci + od * di)
                for i in range(m):
                    r[i], s[i] = drawn[i] / mass[i], other_drawn[i] / other_mass[i]
            else:
                for i in range(m):
                    r[i], s[i] = drawn[i], other_drawn[i]
            for k in range(0, width, 4):
                a, b, c, d = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
                ra = rb = rc = rd = sa = sb = sc = sd = 0.0
                for i in range(DRAWN_ROWS):
                    ri, si, ai, bi, ci, di = r[i], s[i], a[i], b[i], c[i], d[i]
                    ra += ri * ai
                    rb += ri * bi
                    rc += ri * ci
                    rd += ri * di
                    sa += si * ai
                    sb += si * bi
                    sc += si * ci
                    sd += si * di
                for column, (of_r, of_s) in enumerate(((ra, sa), (rb, sb), (rc, sc), (rd, sd))):
                    out[draw, k + column] += of_r
                    out[draw + 1, k + column] += of_s


@_compiled()
def _ends(values: Floats) -> tuple[np.int64, np.int64]:
    """Return the least and the greatest place of numbers in the order of doubles, in which NaN is beyond infinity."""
    low, high = np.int64(2**63 - 1), np.int64(-(2**63))
    for j in range(values.size):
        bits = _as_bits(values[j])
        place = bits ^ ((bits >> 63) & (2**63 - 1))  # the bits of negative numbers count down
        low, high = min(low, place), max(high, place)
    return low, high


@_compiled()
def _tally(
    words: NDArray[Any], multiplier: int, shift: int, source: Integers, K: int, out: NDArray[Any], counts: Integers
) -> None:
    by, top, lowest = np.uint64(multiplier), np.uint64(shift), np.uint64(255)  # else Numba infers signs or floats
    for i in range(words.size):
        pattern = ((np.uint64(words[i]) * by) >> top) & lowest
        code = (source[i] << K) | np.int64(pattern)
        out[i] = code
        counts[i & 3, code] += 1  # four tables: with one, equal rows would wait for the last addition


@_compiled()
def _take(values: NDArray[Any], places: NDArray[Any], out: NDArray[Any]) -> None:
    for i in range(places.size):
        out[i] = values[places[i]]


def ends(values: Floats) -> tuple[float, float]:
    """Return the smallest and the largest number; NaN where there is one."""
    places = np.array(_ends(values.reshape(-1)))
    low, high = (places ^ ((places >> 63) & (2**63 - 1))).view(np.float64).tolist()
    return (math.nan, math.nan) if math.isnan(low) or math.isnan(high) else (low, high)


def tally(words: NDArray[Any], multiplier: int, shift: int, source: Integers, K: int, out: NDArray[Any]) -> Integers:
    """Write the code of each row to ``out``, and return how many rows have each code."""
    counts = np.zeros((4, K << K), np.int64)
    _tally(words, multiplier, shift, source, K, out, counts)
    return np.asarray(counts.sum(axis=0))


def draws(
    P: Floats, Y: Floats, counts: NDArray[Any], first: int, moved: Floats | None, *, with_products: bool
) -> Floats:
    """Return sum_i b_i (p_i, y_i) / (moved'p_i) for the counts b and the point of each draw."""
    B, K, several = len(counts), P.shape[1], Y.shape[1]
    columns = K + several + (K * several if with_products else 0)
    out, steps = np.zeros((B + B % 2, -(-columns // 4) * 4)), np.zeros((0 if moved is None else B, -(-K // 4) * 4))
    if moved is not None:
        steps[:, :K] = moved
    _draws(P, Y, counts, first, steps, with_products, out)
    return out[:B, :columns]


def take(values: NDArray[Any], places: NDArray[Any], out: NDArray[Any]) -> None:
    """Write values[places] to ``out``."""
    _take(values, places, out)


def exp(values: Floats, out: Floats) -> Floats:
    """Return e^values, in ``out``."""
    _exp_all(values.reshape(-1), out.reshape(-1))
    return out


def exp_beyond(logs: Floats, anchor: Floats, offset: Floats, out: Floats) -> Floats:
    """Return e^(logs + anchor - offset), in ``out``."""
    _exp_beyond(logs, anchor, offset, out)
    return out


def gram(A: Floats, root: Floats) -> Floats:
    """Return sum_i root_i^2 a_i a_i'."""
    K = A.shape[1]
    half = np.zeros((-(-K // 4) * 4,) * 2)
    _gram(A, root, half)
    half = half[:K, :K]
    return np.asarray(np.tril(half) + np.tril(half, -1).T)
