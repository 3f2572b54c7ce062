"""The problems that are solved, and one judge of every solver's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vardi.datasets import harmonic_oscillators

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

INTERVALS = ((0.0, 0.4), (0.2, 0.6), (0.5, 0.9), (0.0, 1.0))


@dataclass(frozen=True)
class Problem:
    """log omega or omega (n x K) and the sample of each row."""

    matrix: NDArray[Any]
    source: Integers

    @property
    def label(self) -> str:
        """Return the size as text."""
        return "n = {:,}, K = {}".format(*self.matrix.shape)

    @property
    def sizes(self) -> Integers:
        """Return the number of rows of each sample."""
        return np.bincount(self.source, minlength=self.matrix.shape[1])

    def exp(self) -> Problem:
        """Return the problem with omega given, from one with log omega."""
        return Problem(np.exp(self.matrix), self.source)

    def log(self) -> Problem:
        """Return the problem with log omega given, from one with omega."""
        with np.errstate(divide="ignore"):
            return Problem(np.log(self.matrix, dtype=np.float64), self.source)


def oscillators(n: int, K: int) -> Problem:
    """K harmonic oscillators, n / K rows each: log omega."""
    design = harmonic_oscillators(states=K, rows_per_state=max(n // K, 2), seed=85)
    return Problem(design.omega, design.source)


def intervals(n: int) -> Problem:
    """Four samples of the uniform law, each through its own interval, which overlaps others: omega as booleans."""
    rng = np.random.default_rng(85)
    source = np.repeat(np.arange(len(INTERVALS)), n // len(INTERVALS))
    low, high = np.array(INTERVALS).T
    x = rng.uniform(low[source], high[source])
    omega = np.empty((len(x), len(INTERVALS)), np.bool_)
    for k in range(len(INTERVALS)):
        omega[:, k] = (low[k] <= x) & (x <= high[k])
    return Problem(omega, source)


def residual(log_omega: Floats, sizes: Integers, log_omegas: Floats, block: int = 2**20) -> float:
    """Return max_k |Gamma_k - 1| of Vardi's system at the given normalisers, in the log domain.

    Gamma_k = sum_i omega_k(z_i) / Omega_k / sum_l n_l omega_l(z_i) / Omega_l. This is plain NumPy, independent of any
    solver; ``block`` is how many numbers are processed at once.
    """
    n, K = log_omega.shape
    gamma = np.zeros(K)
    step = max(block // K, 1)
    for low in range(0, n, step):
        ratio = log_omega[low : low + step] - log_omegas
        mixture = ratio + np.log(sizes)
        top = mixture.max(axis=1, keepdims=True)
        ratio -= top + np.log(np.exp(mixture - top).sum(axis=1, keepdims=True))
        gamma += np.exp(ratio).sum(axis=0)
    return float(np.abs(gamma - 1).max())
