"""The twelve Gaussian scenarios: what each sample sees of the population."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import chi, norm

from paper.figures.style import INK, MUTED, SAMPLES, in_this_look, light_grid, new_figure
from vardi import datasets

Floats = NDArray[np.float64]

POINTS = 221
NEAR = 1e-6
NORM_TEXT = "sqrt(x0**2 + x1**2 + x2**2)"

_HOW_TO_READ = (
    "Each coloured area is the density of one sample, scaled by its share of the 1,000 rows; they are stacked, so that "
    "their upper edge is the density of the pool. The dashed line is the population N(0, I₃). Densities are exact; "
    "samples are named by their rows and their bias."
)
NORM_CAPTION = f"Scenarios a to f, where selection acts on the norm of x. {_HOW_TO_READ}"
COMPONENT_CAPTION = f"Scenarios g to l, where selection acts on the first component of x. {_HOW_TO_READ}"


@in_this_look
def scenarios_of_the_norm() -> Figure:
    """Draw scenarios a to f over the norm of x, whose law is chi with three degrees of freedom."""
    return _six_panels("abcdef", (0.0, 4.2), chi(3).pdf, "norm of $x$")


@in_this_look
def scenarios_of_the_first_component() -> Figure:
    """Draw scenarios g to l over the first component of x, whose law is normal."""
    return _six_panels("ghijkl", (-3.3, 3.3), norm.pdf, "first component $x_0$")


def _six_panels(letters: str, limits: tuple[float, float], law: Callable[[Floats], Floats], label: str) -> Figure:
    figure = new_figure(6.6)
    axes = figure.subplots(3, 2, sharex=True)
    for ax, letter in zip(axes.flat, letters, strict=True):
        _panel(ax, letter, limits, law)
    for ax in axes[-1]:
        ax.set_xlabel(label)
    for ax in axes[:, 0]:
        ax.set_ylabel("density")
    return figure


def _panel(ax: Axes, letter: str, limits: tuple[float, float], law: Callable[[Floats], Floats]) -> None:
    design = datasets.gaussian_scenario(letter)
    grid = _grid(limits, design.biases.values())
    density = law(grid)
    rows = {name: len(sample) for name, sample in design.samples.items()}
    points = pd.DataFrame({"x0": grid, "x1": 0.0, "x2": 0.0})  # points with this norm, or first component
    pool = np.zeros(len(grid))
    for (name, bias), colour in zip(design.biases.items(), SAMPLES, strict=False):
        omega = np.asarray(points.eval(bias, engine="python"), np.float64)
        share = rows[name] / sum(rows.values())
        scaled = share * omega * density / design.truth[f"Omega of {name}"]
        label = f"{rows[name]}: {readable(bias)}"
        ax.fill_between(grid, pool, pool + scaled, color=colour, alpha=0.6, lw=0, label=label)
        pool = pool + scaled
    ax.plot(grid, pool, color=MUTED, lw=0.8)
    ax.plot(grid, density, color=INK, lw=1.2, ls=(0, (4, 2)), label="population")
    ax.set_title(f"{letter})")
    ax.set_xlim(limits)
    ax.set_ylim(0.0, 1.08 * max(density.max(), pool.max()))
    ax.legend(
        loc="upper left" if pool.argmax() > 0.6 * len(grid) else "upper right", handlelength=1.4, borderaxespad=0.0
    )
    light_grid(ax)


def _grid(limits: tuple[float, float], biases: Iterable[str]) -> Floats:
    """Return points from one limit to the other, with one on either side of each edge of a region."""
    numbers = {float(number) for bias in biases for number in re.findall(r"[<>]=? (-?[\d.]+)", bias)}
    edges = np.array(sorted(numbers | {-number for number in numbers}))
    points = np.concatenate([np.linspace(*limits, POINTS), edges - NEAR, edges + NEAR])
    return np.unique(points[(points >= limits[0]) & (points <= limits[1])])


def readable(bias: str) -> str:
    """Return the text of a bias as a formula.

    Examples
    --------
    >>> readable("sqrt(x0**2 + x1**2 + x2**2) <= 0.8"), readable("abs(x0) < 0.1"), readable("1")
    ('‖x‖ ≤ 0.8', '|x₀| < 0.1', 'unbiased')
    """
    if bias == "1":
        return "unbiased"
    text = bias.replace(NORM_TEXT, "‖x‖").replace("abs(x0)", "|x0|").replace("x0", "x₀")
    return text.replace("<=", "≤").replace(">=", "≥").replace("-", "−")
