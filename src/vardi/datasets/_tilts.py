"""Tilted normal laws: biases that are positive everywhere, so that overlap is a matter of degree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vardi.datasets._design import Design, require_positive, sizes_by_name


def tilts(
    sizes: Sequence[int] = (200, 150, 200),
    seed: int = 0,
    *,
    centres: Sequence[float] = (-2.5, 0.0, 2.5),
    width: float = 2.0,
) -> Design:
    """Gaussian kernels: P = N(0, 1), seen through windows without edges.

    The biases are omega_k(x) = exp(-(x - c_k)^2 / (2 s^2)) for centres c_k and one width s. The biased laws are normal
    again, with mean c_k / (1 + s^2) and variance s^2 / (1 + s^2), and

        Omega_k = s / sqrt(1 + s^2) * exp(-c_k^2 / (2 (1 + s^2))).

    Parameters
    ----------
    sizes : sequence of int
        Rows of each sample, in the order of ``centres``.
    seed : int
        Seed of the draws.
    centres : sequence of float
        The c_k, all different.
    width : float
        The s. Below 1 the weights have a heavy tail: the fewer kernels reach it, the less of the tail of P is seen.

    Returns
    -------
    Design
        One column, ``x``; samples "at -2.5", "at 0", ... named by their centres. The truth: ``"mean"`` 0,
        ``"variance"`` 1 and ``"Omega of at -2.5"``, ....

    Examples
    --------
    >>> from vardi.datasets import tilts
    >>> design = tilts()
    >>> design.biases["at 2.5"]
    'exp(-(x - 2.5)**2 / 8.0)'
    >>> round(design.truth["Omega of at 0"], 4)
    0.8944
    """
    require_positive("width", width)
    rng = np.random.default_rng(seed)
    centre = {f"at {c:.15g}": float(c) for c in centres}
    rows = sizes_by_name([f"at {c:.15g}" for c in centres], sizes)
    spread = 1 + width**2
    return Design(
        samples={name: rng.normal(c / spread, width / np.sqrt(spread), rows[name]) for name, c in centre.items()},
        biases={name: f"exp(-({_x_minus(c)})**2 / {2 * float(width) ** 2!r})" for name, c in centre.items()},
        truth={"mean": 0.0, "variance": 1.0}
        | {
            f"Omega of {name}": float(width / np.sqrt(spread) * np.exp(-(c**2) / (2 * spread)))
            for name, c in centre.items()
        },
    )


def exponential_tilts(
    sizes: Sequence[int] = (200, 100, 200), seed: int = 0, *, thetas: Sequence[float] = (-1.2, 0.0, 1.5)
) -> Design:
    """Exponential tilts: P = N(0, 1), biases omega_k(x) = exp(theta_k x).

    The biased laws are N(theta_k, 1), and Omega_k = exp(theta_k^2 / 2).

    Parameters
    ----------
    sizes : sequence of int
        Rows of each sample, in the order of ``thetas``.
    seed : int
        Seed of the draws.
    thetas : sequence of float
        The theta_k, all different.

    Returns
    -------
    Design
        One column, ``x``; samples "theta -1.2", "theta 0", ... named by their tilts. The truth: ``"mean"`` 0,
        ``"variance"`` 1 and ``"Omega of theta -1.2"``, ....

    Examples
    --------
    >>> from vardi.datasets import exponential_tilts
    >>> design = exponential_tilts()
    >>> design.biases
    {'theta -1.2': 'exp(-1.2 * x)', 'theta 0': 'exp(0.0 * x)', 'theta 1.5': 'exp(1.5 * x)'}
    >>> round(design.truth["Omega of theta 1.5"], 4)
    3.0802
    """
    rng = np.random.default_rng(seed)
    theta = {f"theta {t:.15g}": float(t) for t in thetas}
    rows = sizes_by_name([f"theta {t:.15g}" for t in thetas], sizes)
    return Design(
        samples={name: rng.normal(t, 1.0, rows[name]) for name, t in theta.items()},
        biases={name: f"exp({t!r} * x)" for name, t in theta.items()},
        truth={"mean": 0.0, "variance": 1.0}
        | {f"Omega of {name}": float(np.exp(t**2 / 2)) for name, t in theta.items()},
    )


def _x_minus(centre: float) -> str:
    return f"x - {centre!r}" if centre >= 0 else f"x + {-centre!r}"
