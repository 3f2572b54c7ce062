"""The innermost steps of a pass over a dense matrix: with NumPy, or compiled if the extra ``[fast]`` is installed."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np

from vardi._types import Floats

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


class Kernels(NamedTuple):
    """The steps of a pass over a block."""

    exp: Exp
    exp_beyond: ExpBeyond
    gram: Gram


def _exp(values: Floats, out: Floats) -> Floats:
    return np.asarray(np.exp(values, out=out))


def _exp_beyond(logs: Floats, anchor: Floats, offset: Floats, out: Floats) -> Floats:
    np.add(logs, anchor, out=out)
    np.subtract(out, offset[:, None], out=out)
    return np.asarray(np.exp(out, out=out))


def _gram(A: Floats, root: Floats, room: Floats) -> Floats:
    P = np.multiply(A, root[:, None], out=room)
    return np.asarray(P.T @ P)


NUMPY = Kernels(_exp, _exp_beyond, _gram)


def kernels(n: int, K: int) -> Kernels:
    """Return the steps for an n x K matrix. They depend on its size alone, and so do results to the last bit."""
    compiled = _compiled() if n * K >= MIN_COMPILED_NUMBERS else None
    if compiled is None:
        return NUMPY
    return compiled if K <= MAX_COMPILED_SAMPLES else compiled._replace(gram=_gram)


@functools.cache
def _compiled() -> Kernels | None:
    """Return the compiled steps; None if Numba is not installed, too old for NumPy, or disabled."""
    if find_spec("numba") is None:
        return None
    try:
        import numba
    except ImportError:  # raised for a NumPy newer than it supports
        return None

    config: Any = numba.config
    if config.DISABLE_JIT:
        return None
    from vardi._machine import compiled

    def exp(values: Floats, out: Floats) -> Floats:
        return (compiled.exp if values.flags.c_contiguous else _exp)(values, out)

    def exp_beyond(logs: Floats, anchor: Floats, offset: Floats, out: Floats) -> Floats:
        return (compiled.exp_beyond if logs.flags.c_contiguous else _exp_beyond)(logs, anchor, offset, out)

    def gram(A: Floats, root: Floats, room: Floats) -> Floats:
        return compiled.gram(A, root) if A.flags.c_contiguous else _gram(A, root, room)

    return Kernels(exp, exp_beyond, gram)
