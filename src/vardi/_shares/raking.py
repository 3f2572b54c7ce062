r"""Raking: the weights nearest to given ones that meet known shares.

Of all probabilities on the rows with :math:`E\,c_j = s_j` the one nearest to the base (in Kullback-Leibler divergence)
is :math:`\pi_i \propto b_i\,e^{\mu'c_i}` (Deville, Särndal and Sautory 1993: generalized raking). Iterative
proportional fitting goes there one margin at a time; here :math:`\mu` minimises the convex
:math:`\log\sum_i b_i e^{\mu'(c_i - s)}` by Newton's method. Rows matter through their pattern c_i only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

from vardi._shares.cells import Cell
from vardi._sums import Floats
from vardi.errors import InvalidSharesError

RANK = 1e-9  # relative size of a singular value from which a direction counts
ITERATIONS = 100
EXACT = 1e-13  # how near shares are met, and how short the last step is, before nothing is left but rounding
MET = 1e-10  # how near shares have to be met


@dataclass(frozen=True)
class Basis:
    """The directions in which patterns differ: linear combinations of cells, orthonormal, centred at the shares.

    Attributes
    ----------
    directions : ndarray of shape (J, r)
        Of the space of cells.
    values : ndarray of shape (m, r)
        The coordinates of each pattern.
    off : float
        How far the shares lie from every measure on the patterns, in directions in which these do not differ.
    """

    directions: Floats
    values: Floats
    off: float


def basis_of(patterns: Floats, shares: Floats) -> Basis:
    """Return the directions in which patterns (m, J) differ."""
    centre = patterns.mean(axis=0)
    _, sizes, directions = np.linalg.svd(patterns - centre, full_matrices=False)
    kept = directions[sizes > RANK * max(float(sizes.max(initial=0.0)), 1.0)].T
    gap = centre - shares
    off = float(np.abs(gap - kept @ (kept.T @ gap)).max())
    return Basis(kept, (patterns - shares) @ kept, off)


@dataclass(frozen=True)
class Raked:
    """Where Newton's method stopped.

    Attributes
    ----------
    tilt : ndarray of shape (r,)
        mu in the coordinates of the basis.
    log_factors : ndarray of shape (m,)
        What the log mass of each pattern gains.
    converged : bool
        Whether the shares are met, and at one point only.
    residual : float
        The largest distance from a share.
    iterations : int
        Newton steps.
    """

    tilt: Floats
    log_factors: Floats
    converged: bool
    residual: float
    iterations: int


def rake(mass: Floats, basis: Basis) -> Raked:
    """Tilt masses of patterns, all positive, until the basis has mean zero.

    The third derivative along any direction is at most the range of the step times the second, as for the dual of the
    samples: a step of length log(1 + R) / R descends from anywhere.
    """
    log_mass = np.log(mass / mass.sum())
    Y, tilt = basis.values, np.zeros(basis.values.shape[1])
    best, idle, iterations = np.inf, 0, 0
    while True:
        p = softmax(log_mass + Y @ tilt)
        gradient = p @ Y
        hessian = (Y * p[:, None]).T @ Y - np.outer(gradient, gradient)
        try:
            step = -np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            return _raked(log_mass, basis, tilt, np.inf, iterations)
        length = float(np.ptp(Y @ step)) if len(tilt) else 0.0
        residual = float(np.abs(basis.directions @ gradient).max(initial=0.0))
        best, idle = (residual, 0) if residual < best / 2 else (best, idle + 1)
        at_rest = residual <= EXACT and length <= EXACT
        if at_rest or not np.isfinite(length) or iterations >= ITERATIONS or (idle > 2 and residual <= MET):
            return _raked(log_mass, basis, tilt, length, iterations)
        if length > 1.0:
            fall = logsumexp(log_mass + Y @ tilt) - logsumexp(log_mass + Y @ (tilt + step))
            if not fall >= -(gradient @ step) / 4:
                step = step * (np.log1p(length) / length)
        tilt = tilt + step
        iterations += 1


def _raked(log_mass: Floats, basis: Basis, tilt: Floats, length: float, iterations: int) -> Raked:
    shifted = basis.values @ tilt
    log_factors = shifted - logsumexp(log_mass + shifted)
    residual = float(np.abs(basis.directions @ (np.exp(log_mass + log_factors) @ basis.values)).max(initial=0.0))
    # where the shares can be met on the edge only, they are met ever better by steps that do not get shorter
    return Raked(tilt, log_factors, residual <= MET and length <= 1e-6, residual, iterations)


def infeasible(cells: Sequence[Cell], patterns: Floats) -> InvalidSharesError:
    """Return the error that says why no positive weights on the rows meet the shares."""
    from scipy.optimize import linprog  # slow to load, and needed on the way to an error only

    labels, shares = [cell.label for cell in cells], np.array([cell.share for cell in cells])
    m, J = patterns.shape
    slack = linprog(
        np.concatenate([np.zeros(m), np.ones(2 * J)]),
        A_eq=np.block([[patterns.T, np.eye(J), -np.eye(J)], [np.ones((1, m)), np.zeros((1, 2 * J))]]),
        b_eq=np.append(shares, 1.0),
    )
    met = patterns.T @ slack.x[:m]
    off = np.flatnonzero(np.abs(met - shares) > 1e-9)
    if len(off):
        nearest = ", ".join(f"{met[j]:.4g} instead of {shares[j]:.4g} for {labels[j]!r}" for j in off[:4])
        return InvalidSharesError(
            f"No weights on the rows of the pool meet all shares at once: the nearest that some weights meet have "
            f"{nearest}. The shares contradict one another, or cells that should overlap share no row of the pool. "
            "Correct the shares, or add rows of the cells that are empty.",
            cells=[labels[j] for j in off],
        )
    reach = [
        linprog(-(np.arange(m) == i).astype(float), A_eq=np.vstack([patterns.T, np.ones(m)]), b_eq=np.append(shares, 1))
        for i in range(min(m, 200))
    ]
    empty = next((i for i, one in enumerate(reach) if one.status == 0 and -one.fun < 1e-9), None)
    if empty is None:
        return InvalidSharesError(
            "Weights that meet the shares exist, but they could not be found to rounding: the shares are so far from "
            "those of the samples that some rows would have next to no weight. Look at the smallest shares.",
            cells=[labels[int(np.argmin(shares))]],
        )
    inside = [repr(labels[j]) for j in np.flatnonzero(patterns[empty])]
    place = " and ".join(inside) if inside else "none of the cells"
    return InvalidSharesError(
        f"The shares leave nothing for rows in {place}, but the pool has such rows, so no positive weights meet the "
        "shares. Correct the shares, or the cells.",
        cells=[labels[j] for j in np.flatnonzero(patterns[empty])],
    )
