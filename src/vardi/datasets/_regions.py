"""Designs whose biases are indicators of regions, drawn by rejection from the population itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import gammainc, gammaincc, ndtr

from vardi._inputs.frames import as_frame
from vardi._types import Floats
from vardi.biases import where
from vardi.datasets._design import Design, require_positive, sizes_by_name
from vardi.errors import MismatchError

Population: TypeAlias = Callable[[np.random.Generator, int], Floats]


class Region(NamedTuple):
    """A region: the condition that is its bias, and its mass Omega under P."""

    text: str
    mass: float


_EVERYWHERE = Region("1", 1.0)


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
    regions = {
        "low": Region("x0 < 0.45", 0.45),
        "middle": Region("0.35 < x0 < 0.8", 0.45),
        "high": Region("x0 > 0.7", 0.3),
    }

    def population(rng: np.random.Generator, size: int) -> Floats:
        x = rng.random(size)
        return np.column_stack([x, rng.normal(np.sin(3 * x), 0.5)])

    mean = (1 - np.cos(3)) / 3
    slope = 12 * ((np.sin(3) - 3 * np.cos(3)) / 9 - mean / 2)
    truth = {"mean": float(mean), "mean of x0": 0.5, "slope": float(slope)}
    return _draw_design(seed, population, regions, sizes, truth)


_NORM = "sqrt(x0**2 + x1**2 + x2**2)"


def _ball(radius: float) -> Region:
    return Region(f"{_NORM} <= {radius}", float(gammainc(1.5, radius**2 / 2)))


def _outside(radius: float) -> Region:
    return Region(f"{_NORM} >= {radius}", float(gammaincc(1.5, radius**2 / 2)))


def _above(edge: float) -> Region:
    return Region(f"x0 > {edge}", float(ndtr(-edge)))


def _slab(edge: float) -> Region:
    return Region(f"abs(x0) < {edge}", float(ndtr(edge) - ndtr(-edge)))


_SIDES = {"left": Region("x0 < 0.1", float(ndtr(0.1))), "slab": _slab(0.1), "right": _above(-0.1)}

# The paper's twelve panels: regions by name, then the rows of each among 1,000.
_SCENARIOS: dict[str, tuple[dict[str, Region], tuple[int, ...]]] = {
    "a": ({"inside": _ball(1.6), "outside": _outside(1.4)}, (500, 500)),
    "b": ({"inside": _ball(0.8), "unbiased": _EVERYWHERE}, (900, 100)),
    "c": ({"inside": _ball(0.8), "unbiased": _EVERYWHERE}, (500, 500)),
    "d": ({"inside": _ball(0.8), "outside": _outside(0.5)}, (500, 500)),
    "e": ({"inside": _ball(0.8), "outside": _outside(0.5)}, (100, 900)),
    "f": ({"inside": _ball(0.8), "outside": _outside(0.5), "unbiased": _EVERYWHERE}, (500, 250, 250)),
    "g": ({"slab": _slab(0.1), "unbiased": _EVERYWHERE}, (900, 100)),
    "h": ({"slab": _slab(0.1), "unbiased": _EVERYWHERE}, (500, 500)),
    "i": ({"tail": _above(1.5), "unbiased": _EVERYWHERE}, (500, 500)),
    "j": (_SIDES, (450, 100, 450)),
    "k": (_SIDES, (250, 500, 250)),
    "l": (_SIDES | {"unbiased": _EVERYWHERE}, (150, 500, 150, 200)),
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
    require_positive("n", n)
    regions, rows_of_1000 = _SCENARIOS[letter]
    cuts = np.rint(np.cumsum([0, *rows_of_1000]) * n / 1000).astype(int)
    truth = {"mean": float(2 * np.sqrt(2 / np.pi))}

    def population(rng: np.random.Generator, size: int) -> Floats:
        return rng.standard_normal((size, 3))

    return _draw_design(seed, population, regions, np.diff(cuts).tolist(), truth, test=300)


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

    regions = {
        "left": Region("x0 <= -0.5", cdf(-0.5)),
        "middle": Region("-0.7 <= x0 <= 0.7", cdf(0.7) - cdf(-0.7)),
        "right": Region("x0 >= 0.5", 1 - cdf(0.5)),
    }

    def population(rng: np.random.Generator, size: int) -> Floats:
        cluster = rng.integers(2, size=size)
        return np.asarray(centres[cluster] + rng.standard_normal((size, 2)))

    truth = {"centres": centres, "mean of x0": 0.0, "mean of x1": 0.0}
    return _draw_design(seed, population, regions, sizes, truth, test=sum(sizes))


def _draw_design(
    seed: int,
    population: Population,
    regions: Mapping[str, Region],
    sizes: Sequence[int],
    truth: Mapping[str, object],
    test: int = 0,
) -> Design:
    rng, rows = np.random.default_rng(seed), sizes_by_name(regions, sizes)
    test_rows = population(rng, test) if test else None
    return Design(
        samples={name: _draw_within(rng, population, region, rows[name]) for name, region in regions.items()},
        biases={name: region.text for name, region in regions.items()},
        truth={**truth} | {f"Omega of {name}": region.mass for name, region in regions.items()},
        test=test_rows,
    )


def _draw_within(
    rng: np.random.Generator, population: Population, region: Region, size: int, most: int = 1 << 20
) -> Floats:
    """Draw from P given the region, exactly: propose from P in batches of bounded size and keep what falls inside."""
    kept: list[Floats] = []
    wanted, condition = size, where(region.text)
    while wanted > 0:
        proposals = population(rng, min(int(1.1 * wanted / region.mass) + 20, most))
        inside = as_frame(proposals).evaluate([condition])[0]
        kept.append(proposals[inside > 0][:wanted])
        wanted -= len(kept[-1])
    return np.concatenate(kept)
