"""Designs, and simulated ones whose truth is known: drawn by rejection within regions, else by their biased laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.special import gammainc, gammaincc, ndtr

from vardi._inputs.frames import as_frame
from vardi._types import Floats, Integers
from vardi.biases import where
from vardi.errors import EmptySampleError, MismatchError


@dataclass(frozen=True, eq=False)
class Design:
    """Biased samples of one population, ready for ``vardi.debias(design.samples, design.biases)``.

    Attributes
    ----------
    samples : dict of str to rows
        Simulated rows are NumPy arrays: one dimension is the column ``x`` of the text expressions, two dimensions are
        the columns ``x0, x1, ...``.
    biases : dict of str to str
        For each sample, its bias omega_k as a text expression.
    truth : mapping of str to number or array
        True values of the population P. ``"Omega of name"`` is the normaliser E_P omega of that sample; ``"mean"``
        is the mean of the quantity that the design is about. Each function documents its keys.
    test : rows or None
        Unbiased rows of the population that are in no sample, if the design has any.
    """

    samples: dict[str, Any]
    biases: dict[str, str]
    truth: Mapping[str, Any]
    test: Any = None


@dataclass(frozen=True, eq=False)
class MatrixDesign:
    """A design given by the values of its biases, for ``vardi.debias_matrix(d.omega, d.source, log=d.log)``.

    Attributes
    ----------
    rows : array of n
        The points z_i.
    omega : array of n x K
        omega_k(z_i), or log omega_k(z_i) if ``log`` is true.
    source : integer array of n
        The label 0..K-1 of the sample that each row came from.
    truth : mapping of str to number or array
        What is known; each function documents its keys.
    log : bool
        Whether ``omega`` holds logarithms.
    """

    rows: Floats
    omega: Floats
    source: Integers
    truth: Mapping[str, Any]
    log: bool = False


Law: TypeAlias = Callable[[np.random.Generator, int], Floats]
"""Draws as many rows as are asked for."""


@dataclass(frozen=True)
class Sample:
    """A sample: its bias, the normaliser Omega, and its law; without one the bias is a region, and Omega its mass."""

    name: str
    bias: str
    Omega: float
    law: Law | None = None


_UNBIASED = Sample("unbiased", "1", 1.0)


def strata(sizes: Sequence[int] = (350, 120, 130), seed: int = 0) -> Design:
    """Overlapping strata: X uniform on (0, 1), Y = sin(3 X) + a normal error of variance 1/4.

    The biases are the indicators of x0 < 0.45 ("low"), 0.35 < x0 < 0.8 ("middle") and x0 > 0.7 ("high").

    Parameters
    ----------
    sizes : sequence of 3 int
        Rows of "low", "middle" and "high".
    seed : int
        Seed of the draws.

    Returns
    -------
    Design
        Columns ``x0`` = X and ``x1`` = Y. The truth: ``"mean"`` E Y = (1 - cos 3) / 3, ``"mean of x0"`` 0.5,
        ``"slope"`` of the least squares line of Y on X, 12 Cov(X, sin 3X), and ``"Omega of low"`` 0.45, ``"Omega of
        middle"`` 0.45, ``"Omega of high"`` 0.3.

    Examples
    --------
    >>> from vardi.datasets import strata
    >>> design = strata()
    >>> design.biases
    {'low': 'x0 < 0.45', 'middle': '0.35 < x0 < 0.8', 'high': 'x0 > 0.7'}
    >>> round(design.truth["mean"], 4), round(design.truth["slope"], 3)
    (0.6633, 0.168)
    """
    samples = (
        Sample("low", "x0 < 0.45", 0.45),
        Sample("middle", "0.35 < x0 < 0.8", 0.45),
        Sample("high", "x0 > 0.7", 0.3),
    )

    def population(rng: np.random.Generator, size: int) -> Floats:
        x = rng.random(size)
        return np.column_stack([x, rng.normal(np.sin(3 * x), 0.5)])

    mean = (1 - np.cos(3)) / 3
    slope = 12 * ((np.sin(3) - 3 * np.cos(3)) / 9 - mean / 2)
    truth = {"mean": float(mean), "mean of x0": 0.5, "slope": float(slope)}
    return _draw_design(seed, population, samples, sizes, truth)


_NORM = "sqrt(x0**2 + x1**2 + x2**2)"


def _inside(radius: float) -> Sample:
    return Sample("inside", f"{_NORM} <= {radius}", float(gammainc(1.5, radius**2 / 2)))


def _outside(radius: float) -> Sample:
    return Sample("outside", f"{_NORM} >= {radius}", float(gammaincc(1.5, radius**2 / 2)))


_LEFT = Sample("left", "x0 < 0.1", float(ndtr(0.1)))
_SLAB = Sample("slab", "abs(x0) < 0.1", float(ndtr(0.1) - ndtr(-0.1)))
_RIGHT = Sample("right", "x0 > -0.1", float(ndtr(0.1)))
_TAIL = Sample("tail", "x0 > 1.5", float(ndtr(-1.5)))

# The paper's twelve panels: samples, then the rows of each among 1,000.
_SCENARIOS: dict[str, tuple[tuple[Sample, ...], tuple[int, ...]]] = {
    "a": ((_inside(1.6), _outside(1.4)), (500, 500)),
    "b": ((_inside(0.8), _UNBIASED), (900, 100)),
    "c": ((_inside(0.8), _UNBIASED), (500, 500)),
    "d": ((_inside(0.8), _outside(0.5)), (500, 500)),
    "e": ((_inside(0.8), _outside(0.5)), (100, 900)),
    "f": ((_inside(0.8), _outside(0.5), _UNBIASED), (500, 250, 250)),
    "g": ((_SLAB, _UNBIASED), (900, 100)),
    "h": ((_SLAB, _UNBIASED), (500, 500)),
    "i": ((_TAIL, _UNBIASED), (500, 500)),
    "j": ((_LEFT, _SLAB, _RIGHT), (450, 100, 450)),
    "k": ((_LEFT, _SLAB, _RIGHT), (250, 500, 250)),
    "l": ((_LEFT, _SLAB, _RIGHT, _UNBIASED), (150, 500, 150, 200)),
}


def gaussian_scenario(letter: str, seed: int = 0, n: int = 1000) -> Design:
    """Draw one of the paper's twelve Gaussian scenarios: P = N(0, I_3), the target is the norm of x.

    Rows of each sample when n = 1000, with r = ||x||:

    ======  ============================================================
    letter  samples
    ======  ============================================================
    a       500 "inside" r <= 1.6, 500 "outside" r >= 1.4
    b       900 "inside" r <= 0.8, 100 "unbiased"
    c       500 "inside" r <= 0.8, 500 "unbiased"
    d       500 "inside" r <= 0.8, 500 "outside" r >= 0.5
    e       100 "inside" r <= 0.8, 900 "outside" r >= 0.5
    f       500 "inside" r <= 0.8, 250 "outside" r >= 0.5, 250 "unbiased"
    g       900 "slab" abs(x0) < 0.1, 100 "unbiased"
    h       500 "slab" abs(x0) < 0.1, 500 "unbiased"
    i       500 "tail" x0 > 1.5, 500 "unbiased"
    j       450 "left" x0 < 0.1, 100 "slab", 450 "right" x0 > -0.1
    k       250 "left", 500 "slab", 250 "right"
    l       150 "left", 500 "slab", 150 "right", 200 "unbiased"
    ======  ============================================================

    The paper shows the sizes in its figures only; these reproduce its printed tables.

    Parameters
    ----------
    letter : {"a", "b", ..., "l"}
        The scenario.
    seed : int
        Seed of the draws. The test rows depend on it alone.
    n : int
        Rows in total, shared out in the proportions of the table.

    Returns
    -------
    Design
        Columns ``x0, x1, x2``, and 300 unbiased rows in ``test``. The truth: ``"mean"`` E r = 2 sqrt(2 / pi), and the
        exact ``"Omega of name"``, from the cdf of chi(3) for r and of the normal law for x0.

    Examples
    --------
    >>> from vardi.datasets import gaussian_scenario
    >>> design = gaussian_scenario("b", seed=0)
    >>> {name: rows.shape for name, rows in design.samples.items()}, design.test.shape
    ({'inside': (900, 3), 'unbiased': (100, 3)}, (300, 3))
    >>> design.biases["inside"]
    'sqrt(x0**2 + x1**2 + x2**2) <= 0.8'
    >>> round(design.truth["mean"], 4), round(design.truth["Omega of inside"], 4)
    (1.5958, 0.1128)
    """
    if letter not in _SCENARIOS:
        raise MismatchError(f"There is no Gaussian scenario {letter!r}. Give a letter a to l.")
    _require_positive("n", n)
    samples, rows_of_1000 = _SCENARIOS[letter]
    cuts = np.rint(np.cumsum([0, *rows_of_1000]) * n / 1000).astype(int)
    truth = {"mean": float(2 * np.sqrt(2 / np.pi))}

    def population(rng: np.random.Generator, size: int) -> Floats:
        return rng.standard_normal((size, 3))

    return _draw_design(seed, population, samples, np.diff(cuts).tolist(), truth, test=300)


def two_gaussians(seed: int = 0, sizes: Sequence[int] = (30, 300, 30)) -> Design:
    """Two clusters seen mostly between them, the paper's clustering example.

    P is an equal mixture of N((-1.5, -2), I_2) and N((1.5, 2), I_2); the paper gives only the centres. The biases
    are the indicators of x0 <= -0.5 ("left"), -0.7 <= x0 <= 0.7 ("middle") and x0 >= 0.5 ("right").

    Parameters
    ----------
    seed : int
        Seed of the draws.
    sizes : sequence of 3 int
        Rows of "left", "middle" and "right".

    Returns
    -------
    Design
        Columns ``x0, x1``, and in ``test`` as many unbiased rows as the samples have together. The truth:
        ``"centres"``, a 2 x 2 array with one centre a row; ``"mean of x0"`` and ``"mean of x1"``, both 0; and the exact
        ``"Omega of name"``.

    Examples
    --------
    >>> from vardi.datasets import two_gaussians
    >>> design = two_gaussians(seed=0)
    >>> design.truth["centres"].tolist(), round(design.truth["Omega of middle"], 4)
    ([[-1.5, -2.0], [1.5, 2.0]], 0.198)
    >>> design.test.shape
    (360, 2)
    """
    centres = np.array([[-1.5, -2.0], [1.5, 2.0]])

    def cdf(x: float) -> float:
        return float(ndtr(x - centres[:, 0]).mean())

    samples = (
        Sample("left", "x0 <= -0.5", cdf(-0.5)),
        Sample("middle", "-0.7 <= x0 <= 0.7", cdf(0.7) - cdf(-0.7)),
        Sample("right", "x0 >= 0.5", 1 - cdf(0.5)),
    )

    def population(rng: np.random.Generator, size: int) -> Floats:
        cluster = rng.integers(2, size=size)
        return np.asarray(centres[cluster] + rng.standard_normal((size, 2)))

    truth = {"centres": centres, "mean of x0": 0.0, "mean of x1": 0.0}
    return _draw_design(seed, population, samples, sizes, truth, test=sum(sizes))


def _draw_design(
    seed: int,
    population: Law,
    samples: Sequence[Sample],
    sizes: Sequence[int],
    truth: Mapping[str, object],
    test: int = 0,
) -> Design:
    """Draw each sample by its law, or from the population given its region; test rows come first."""
    _require_sizes([sample.name for sample in samples], sizes)
    rng = np.random.default_rng(seed)
    test_rows = population(rng, test) if test else None
    laws = {sample.name: sample.law or partial(_draw_within, population, sample) for sample in samples}
    return Design(
        samples={name: law(rng, size) for (name, law), size in zip(laws.items(), sizes, strict=True)},
        biases={sample.name: sample.bias for sample in samples},
        truth={**truth} | {f"Omega of {sample.name}": sample.Omega for sample in samples},
        test=test_rows,
    )


def _draw_within(population: Law, region: Sample, rng: np.random.Generator, size: int, most: int = 1 << 20) -> Floats:
    """Draw from P given the region, exactly: propose from P in batches of bounded size and keep what falls inside."""
    kept: list[Floats] = []
    wanted, condition = size, where(region.bias)
    while wanted > 0:
        proposals = population(rng, min(int(1.1 * wanted / region.Omega) + 20, most))
        inside = as_frame(proposals).evaluate([condition])[0]
        kept.append(proposals[inside > 0][:wanted])
        wanted -= len(kept[-1])
    return np.concatenate(kept)


def _require_sizes(names: Sequence[str], sizes: Sequence[int]) -> None:
    """Refuse sizes that are not one row or more for each sample."""
    if len(names) != len(sizes):
        raise MismatchError(
            f"The design has {len(names)} samples ({', '.join(names)}), but {len(sizes)} sizes were given: "
            f"{tuple(sizes)}. Give one size for each sample, in this order."
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise MismatchError(
            f"Two samples have the same name and bias: {', '.join(repeated)}. Give each parameter once, and add up "
            "the sizes."
        )
    empty = [name for name, size in zip(names, sizes, strict=True) if size < 1]
    if empty:
        raise EmptySampleError(
            f"No rows for {', '.join(empty)} among the sizes {tuple(sizes)}. Each sample needs one row or more.",
            samples=empty,
        )


def _require_positive(name: str, value: float) -> None:
    """Raise unless the named parameter is greater than zero."""
    if not value > 0:
        raise MismatchError(f"{name} must be greater than 0, got {value}.")


def _gamma(shape: float | Sequence[float]) -> Law:
    return lambda rng, size: rng.gamma(shape, size=(size, *np.shape(shape)))


def _normal(mean: float, deviation: float = 1.0) -> Law:
    return lambda rng, size: rng.normal(mean, deviation, size)


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
    samples = (
        Sample("plain", "1", 1.0, _gamma(3.0)),
        Sample("length", "x", 3.0, _gamma(4.0)),
        Sample("square", "x**2", 12.0, _gamma(5.0)),
    )
    return _draw_design(seed, _gamma(3.0), samples, sizes, {"mean": 3.0, "variance": 3.0})


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
    _require_positive("dimensions", dimensions)
    means = (2.0 + np.arange(dimensions)).tolist()
    samples = [Sample("unbiased", "1", 1.0, _gamma(means))]
    for j, mean in enumerate(means):
        samples.append(Sample(f"by x{j}", f"x{j}", mean, _gamma([*means[:j], mean + 1.0, *means[j + 1 :]])))
    truth = {f"mean of x{j}": mean for j, mean in enumerate(means)}
    return _draw_design(seed, _gamma(means), samples, sizes, truth)


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
    _require_positive("width", width)
    spread = 1 + width**2
    samples = []
    for c in map(float, centres):
        bias = f"exp(-({_x_minus(c)})**2 / {2 * float(width) ** 2!r})"
        mass = float(width / np.sqrt(spread) * np.exp(-(c**2) / (2 * spread)))
        law = _normal(c / spread, width / np.sqrt(spread))
        samples.append(Sample(f"at {c:.15g}", bias, mass, law))
    return _draw_design(seed, _normal(0.0), samples, sizes, {"mean": 0.0, "variance": 1.0})


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
    samples = [
        Sample(f"theta {t:.15g}", f"exp({t!r} * x)", float(np.exp(t**2 / 2)), _normal(t)) for t in map(float, thetas)
    ]
    return _draw_design(seed, _normal(0.0), samples, sizes, {"mean": 0.0, "variance": 1.0})


def _x_minus(centre: float) -> str:
    return f"x - {centre!r}" if centre >= 0 else f"x + {-centre!r}"


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
    _require_positive("n", n)
    _require_positive("width", width)
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
    _require_positive("states", states)
    _require_positive("rows_per_state", rows_per_state)
    rng = np.random.default_rng(seed)
    centre = spacing * np.arange(states)
    spring = np.linspace(1.0, 2.0, states)
    source = np.repeat(np.arange(states, dtype=np.int64), rows_per_state)
    x = rng.normal(centre[source], 1 / np.sqrt(spring[source]))
    return MatrixDesign(
        rows=x,
        omega=np.square(x[:, None] - centre) * (-spring / 2),
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
