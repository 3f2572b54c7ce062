"""Designs with one bias for each row or each state, given as the matrix of their values."""

from __future__ import annotations

import numpy as np

from vardi._types import Floats
from vardi.datasets._design import MatrixDesign, require_positive


def truncation(n: int = 200, seed: int = 0, *, width: float = 0.5) -> MatrixDesign:
    """Double truncation: each row is seen through its own window, so K = n.

    P is uniform on (0, 1). A unit has a value x ~ P and, independently, a window of width s around a centre b ~
    Beta(1, 2); it is observed if and only if abs(x - b) <= s / 2. Early windows are more frequent, so low values are
    seen more often than high ones: the plain mean of the rows converges to 0.379 for s = 0.5, not to 1/2.

    Given its window, row i is drawn from P with the bias omega_i(x) = 1{b_i - s/2 <= x <= b_i + s/2}: n samples of one
    row each.

    Parameters
    ----------
    n : int
        Rows, and windows.
    seed : int
        Seed of the draws.
    width : float
        The s. Narrow windows and few rows may leave samples that cannot be compared.

    Returns
    -------
    MatrixDesign
        ``omega`` is n x n, of zeros and ones; ``source`` is 0..n-1. The truth: ``"mean"`` 1/2, ``"Omegas"``, the n
        lengths of the windows within (0, 1), and ``"windows"``, the n x 2 ends of the windows.

    Examples
    --------
    >>> from vardi.datasets import truncation
    >>> design = truncation(n=200, seed=0)
    >>> design.omega.shape, bool(design.omega.diagonal().all())
    ((200, 200), True)
    >>> bool(design.rows.mean() < design.truth["mean"])
    True
    """
    require_positive("n", n)
    require_positive("width", width)
    x, windows = _seen_through_windows(np.random.default_rng(seed), n, width / 2)
    omega = (windows[:, 0] <= x[:, None]) & (x[:, None] <= windows[:, 1])
    return MatrixDesign(
        rows=x,
        omega=omega.astype(np.float64),
        source=np.arange(n, dtype=np.int64),
        truth={"mean": 0.5, "Omegas": np.diff(windows.clip(0, 1))[:, 0], "windows": windows},
    )


def harmonic_oscillators(
    states: int = 5, rows_per_state: int = 1000, seed: int = 0, spacing: float = 1.0
) -> MatrixDesign:
    """Harmonic oscillators: K simulated states in a row, as in tests of MBAR.

    State k has the reduced potential U_k(x) = c_k (x - k d)^2 / 2 with spacing d and spring constants c_k rising evenly
    from 1 to 2; its law is N(k d, 1 / c_k). The bias is omega_k = exp(-U_k), the population is the Lebesgue measure, so
    only ratios of normalisers are known:

        log Omega_k - log Omega_0 = -(log c_k - log c_0) / 2.

    Parameters
    ----------
    states : int
        The number K of states.
    rows_per_state : int
        Rows of each state.
    seed : int
        Seed of the draws.
    spacing : float
        The d, in standard deviations of the first state: the greater, the less neighbours overlap.

    Returns
    -------
    MatrixDesign
        ``omega`` holds logarithms (``log`` is true), n x K. The truth: ``"log Omega differences"``, the K numbers
        above.

    Examples
    --------
    >>> from vardi.datasets import harmonic_oscillators
    >>> design = harmonic_oscillators(states=3, rows_per_state=100)
    >>> design.omega.shape, design.log
    ((300, 3), True)
    >>> design.truth["log Omega differences"].round(4).tolist()
    [0.0, -0.2027, -0.3466]
    """
    require_positive("states", states)
    require_positive("rows_per_state", rows_per_state)
    rng = np.random.default_rng(seed)
    centre = spacing * np.arange(states)
    spring = np.linspace(1.0, 2.0, states)
    source = np.repeat(np.arange(states, dtype=np.int64), rows_per_state)
    x = rng.normal(centre[source], 1 / np.sqrt(spring[source]))
    log_omega = x[:, None] - centre
    np.square(log_omega, out=log_omega)
    log_omega *= -spring / 2
    return MatrixDesign(
        rows=x,
        omega=log_omega,
        source=source,
        truth={"log Omega differences": (np.log(spring[0]) - np.log(spring)) / 2},
        log=True,
    )


def _seen_through_windows(rng: np.random.Generator, n: int, reach: float) -> tuple[Floats, Floats]:
    """Draw units (x, window) until n of them are seen."""
    x, windows = np.empty(0), np.empty((0, 2))
    while len(x) < n:
        value, centre = rng.random(4 * n), rng.beta(1, 2, size=4 * n)
        window = np.column_stack([centre - reach, centre + reach])
        seen = (window[:, 0] <= value) & (value <= window[:, 1])
        x, windows = np.append(x, value[seen])[:n], np.concatenate([windows, window[seen]])[:n]
    return x, windows
