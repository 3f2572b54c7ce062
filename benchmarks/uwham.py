r"""UWHAM's equations by L-BFGS, compiled by Numba: what is left to gain without Newton's method.

The free energies minimise :math:`\frac1N \sum_n \log\sum_k N_k e^{f_k - u_k(x_n)} - \sum_k \frac{N_k}{N} f_k`
(Tan et al. 2012). A pass reads each row once, in parallel, and gives the value and the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from scipy.optimize import minimize

from benchmarks.problems import Floats, Integers

BLOCKS = 64  # parts of the rows, each with its own sums


def _sums(u_nk: Floats, b: Floats, values: Floats, gradients: Floats) -> None:
    n, K = u_nk.shape
    for block in numba.prange(values.shape[0]):
        total, own, p = 0.0, np.zeros(K), np.empty(K)
        for i in range(block * n // values.shape[0], (block + 1) * n // values.shape[0]):
            top = -np.inf
            for k in range(K):
                p[k] = b[k] - u_nk[i, k]
                top = max(top, p[k])
            mass = 0.0
            for k in range(K):
                p[k] = np.exp(p[k] - top)
                mass += p[k]
            total += top + np.log(mass)
            for k in range(K):
                own[k] += p[k] / mass
        values[block] = total
        gradients[block] = own


_compiled: Any = numba.njit(parallel=True, fastmath=True)(_sums)


def prepare(u_kn: Floats, sizes: Integers) -> Callable[[], Floats]:
    """Return the call that solves for the log normalisers, with rows one after the other in memory."""
    u_nk, n = np.ascontiguousarray(u_kn.T), int(sizes.sum())
    sampled = sizes > 0
    share, log_sizes = sizes[sampled] / n, np.log(sizes[sampled])
    own = u_nk if sampled.all() else np.ascontiguousarray(u_nk[:, sampled])
    values, gradients = np.empty(BLOCKS), np.empty((BLOCKS, int(sampled.sum())))

    def dual(f: Floats) -> tuple[float, Floats]:
        _compiled(own, log_sizes + f, values, gradients)
        return float(values.sum() / n - share @ f), gradients.sum(axis=0) / n - share

    def call() -> Floats:
        limits = {"ftol": 0.0, "gtol": 1e-10 * share.min(), "maxiter": 10_000, "maxfun": 100_000, "maxcor": 20}
        found = minimize(dual, np.zeros(len(share)), jac=True, method="L-BFGS-B", options=limits)
        f = np.full(len(sizes), np.nan)
        f[sampled] = found.x
        return -f

    return call
