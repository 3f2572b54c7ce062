"""Designs whose biases are sizes: the longer a unit, the more likely it is to be drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vardi.datasets._design import Design, require_positive, sizes_by_name


def length_bias(sizes: Sequence[int] = (80, 250, 170), seed: int = 0) -> Design:
    """Length bias: P = Gamma(3), drawn plainly, by length and by squared length.

    P has the density x^2 e^{-x} / 2 on x > 0. The biases are omega = 1 ("plain"), x ("length") and x^2 ("square"). A
    Gamma(a) law biased by x^j is Gamma(a + j), so the samples come from Gamma(3), Gamma(4) and Gamma(5).

    Parameters
    ----------
    sizes : sequence of 3 int
        Rows of the samples "plain", "length" and "square".
    seed : int
        Seed of the draws.

    Returns
    -------
    Design
        One column, ``x``. The truth: ``"mean"`` E x = 3, ``"variance"`` 3, and ``"Omega of plain"`` 1, ``"Omega of
        length"`` E x = 3, ``"Omega of square"`` E x^2 = 12.

    Examples
    --------
    >>> from vardi.datasets import length_bias
    >>> design = length_bias()
    >>> design.biases
    {'plain': '1', 'length': 'x', 'square': 'x**2'}
    >>> [len(x) for x in design.samples.values()], design.truth["Omega of square"]
    ([80, 250, 170], 12.0)
    """
    rng = np.random.default_rng(seed)
    biases = {"plain": "1", "length": "x", "square": "x**2"}
    rows = sizes_by_name(biases, sizes)
    return Design(
        samples={name: rng.gamma(3.0 + power, size=size) for power, (name, size) in enumerate(rows.items())},
        biases=biases,
        truth={"mean": 3.0, "variance": 3.0, "Omega of plain": 1.0, "Omega of length": 3.0, "Omega of square": 12.0},
    )


def multivariate_length_bias(dimensions: int = 2, sizes: Sequence[int] = (100, 200, 200), seed: int = 0) -> Design:
    """Length bias in several dimensions, the paper's Example 1.

    Under P the coordinates are independent, x_j ~ Gamma(2 + j) for j = 0..d-1. The first sample is drawn from P, each
    further one with a density proportional to one coordinate: omega = x_j, which turns that coordinate into
    Gamma(3 + j) and leaves the others alone.

    Parameters
    ----------
    dimensions : int
        The number of coordinates d.
    sizes : sequence of d + 1 int
        Rows of the unbiased sample, then of the sample biased by each coordinate.
    seed : int
        Seed of the draws.

    Returns
    -------
    Design
        Columns ``x0, x1, ...``; samples "unbiased", "by x0", "by x1", .... The truth: ``"mean of x0"`` 2, ``"mean of
        x1"`` 3, ..., and the same numbers as ``"Omega of by x0"``, ``"Omega of by x1"``, ...; ``"Omega of unbiased"``
        is 1.

    Examples
    --------
    >>> from vardi.datasets import multivariate_length_bias
    >>> design = multivariate_length_bias(dimensions=2, sizes=(50, 30, 20), seed=0)
    >>> design.biases
    {'unbiased': '1', 'by x0': 'x0', 'by x1': 'x1'}
    >>> [rows.shape for rows in design.samples.values()]
    [(50, 2), (30, 2), (20, 2)]
    """
    require_positive("dimensions", dimensions)
    rng = np.random.default_rng(seed)
    columns = [f"x{j}" for j in range(dimensions)]
    means = 2.0 + np.arange(dimensions)
    shapes = {"unbiased": means} | {f"by {c}": means + (np.arange(dimensions) == j) for j, c in enumerate(columns)}
    rows = sizes_by_name(shapes, sizes)
    truth = {"Omega of unbiased": 1.0}
    for column, mean in zip(columns, means.tolist(), strict=True):
        truth |= {f"mean of {column}": mean, f"Omega of by {column}": mean}
    return Design(
        samples={name: rng.gamma(shape, size=(rows[name], dimensions)) for name, shape in shapes.items()},
        biases={"unbiased": "1"} | {f"by {column}": column for column in columns},
        truth=truth,
    )
