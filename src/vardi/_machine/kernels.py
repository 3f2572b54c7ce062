"""The innermost steps of a pass over many rows: with NumPy, or compiled if the extra ``[fast]`` is installed."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vardi._machine.threads import loaded
from vardi._types import Floats, Integers

MIN_COMPILED_NUMBERS = 10_000_000  # of a matrix, above which loading Numba (half a second, once) is worth it
MAX_COMPILED_SAMPLES = 64  # beyond, the BLAS forms a gram faster


class Exp(Protocol):
    """e^values, written to ``out``."""

    def __call__(self, values: Floats, out: Floats) -> Floats: ...


class ExpBeyond(Protocol):
    """e^(logs + anchor - offset), written to ``out``: an anchor for each column, an offset for each row."""

    def __call__(self, logs: Floats, anchor: Floats, offset: Floats, out: Floats) -> Floats: ...


class Gram(Protocol):
    """sum_i root_i^2 a_i a_i'; ``room`` may be written to."""

    def __call__(self, A: Floats, root: Floats, room: Floats) -> Floats: ...


class Ends(Protocol):
    """The smallest and the largest of numbers; NaN where there is one."""

    def __call__(self, values: NDArray[Any]) -> tuple[float, float]: ...


class Tally(Protocol):
    """The code s_i 2^K + sum_k 2^k b_ik of each row, written to ``out``, and how many rows have each code.

    ``words`` are the booleans of each row, one byte each, as one number.
    """

    def __call__(self, words: NDArray[Any], source: Integers, K: int, out: NDArray[Any]) -> Integers: ...


class Take(Protocol):
    """values[places], written to ``out``; all places are within bounds."""

    def __call__(self, values: NDArray[Any], places: NDArray[Any], out: NDArray[Any]) -> None: ...


class Draws(Protocol):
    """sum_i b_i (p_i, y_i) / (moved'p_i) for the counts b and the point of each draw; without points, no quotient.

    With products, y_i is followed by the products of each of its numbers with p_i. The counts are those of all rows, of
    which P and Y have some: from ``first`` on.
    """

    def __call__(
        self, P: Floats, Y: Floats, counts: NDArray[Any], first: int, moved: Floats | None, *, with_products: bool
    ) -> Floats: ...


class Kernels(NamedTuple):
    """The steps of a pass over a block; None for what only compiled code does in one step."""

    exp: Exp
    exp_beyond: ExpBeyond
    gram: Gram
    ends: Ends
    tally: Tally
    take: Take
    draws: Draws | None


def _exp(values: Floats, out: Floats) -> Floats:
    return np.asarray(np.exp(values, out=out))


def _exp_beyond(logs: Floats, anchor: Floats, offset: Floats, out: Floats) -> Floats:
    np.add(logs, anchor, out=out)
    np.subtract(out, offset[:, None], out=out)
    return np.asarray(np.exp(out, out=out))


def _gram(A: Floats, root: Floats, room: Floats) -> Floats:
    P = np.multiply(A, root[:, None], out=room)
    return np.asarray(P.T @ P)


def _ends(values: NDArray[Any]) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def multiplier_and_shift(width: int) -> tuple[int, int]:
    """Return the multiplier and shift that give sum_k 2^k b_k of that many booleans, one byte each, in the lowest byte.

    The multiplier moves each byte to its own bit of the highest byte; no other products coincide, so nothing carries.
    """
    top = 8 * (width - 1)
    return sum(1 << (top - 7 * k) for k in range(width)), top


def packed(words: NDArray[Any]) -> NDArray[np.uint8]:
    """Return sum_k 2^k b_k of booleans, one byte each, given as machine words."""
    number = words.dtype.type
    multiplier, shift = multiplier_and_shift(words.itemsize)
    return np.asarray((words * number(multiplier)) >> number(shift), np.uint8)


def _tally(words: NDArray[Any], source: Integers, K: int, out: NDArray[Any]) -> Integers:
    np.left_shift(source, K, out=out, casting="unsafe")
    out |= packed(words)
    return np.bincount(out, minlength=K << K)


def _take(values: NDArray[Any], places: NDArray[Any], out: NDArray[Any]) -> None:
    values.take(places, axis=0, out=out, mode="clip")  # a bounds check would cost more


NUMPY = Kernels(_exp, _exp_beyond, _gram, _ends, _tally, _take, None)


def kernels(n: int, K: int) -> Kernels:
    """Return the steps for an n x K matrix. They depend on its size alone, and so do results to the last bit."""
    compiled = _compiled() if n * K >= MIN_COMPILED_NUMBERS else None
    if compiled is None:
        return NUMPY
    return compiled if K <= MAX_COMPILED_SAMPLES else compiled._replace(gram=_gram, draws=None)


@functools.cache
def _compiled() -> Kernels | None:
    """Return the compiled steps; None if Numba is not installed, too old for NumPy, or disabled."""
    if find_spec("numba") is None:
        return None
    try:
        numba = loaded("numba")
    except ImportError:  # raised for a NumPy newer than it supports
        return None

    if numba.config.DISABLE_JIT:
        return None
    from vardi._machine import compiled

    def exp(values: Floats, out: Floats) -> Floats:
        return (compiled.exp if values.flags.c_contiguous else _exp)(values, out)

    def exp_beyond(logs: Floats, anchor: Floats, offset: Floats, out: Floats) -> Floats:
        return (compiled.exp_beyond if logs.flags.c_contiguous else _exp_beyond)(logs, anchor, offset, out)

    def gram(A: Floats, root: Floats, room: Floats) -> Floats:
        return compiled.gram(A, root) if A.flags.c_contiguous else _gram(A, root, room)

    def ends(values: NDArray[Any]) -> tuple[float, float]:
        plain = values.dtype == np.float64 and values.flags.c_contiguous
        return (compiled.ends if plain else _ends)(values)

    def tally(words: NDArray[Any], source: Integers, K: int, out: NDArray[Any]) -> Integers:
        return compiled.tally(words, *multiplier_and_shift(words.itemsize), source, K, out)

    def take(values: NDArray[Any], places: NDArray[Any], out: NDArray[Any]) -> None:
        (compiled.take if values.ndim == 1 else _take)(values, places, out)

    return Kernels(exp, exp_beyond, gram, ends, tally, take, compiled.draws)
