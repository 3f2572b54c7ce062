"""What kappa and epsilon measure: the paper's sketch of two biasing functions that overlap."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from paper.figures.style import INK, MUTED, SAMPLES, in_this_look, new_figure

EPSILON = 0.18
LEFT, RIGHT = (0.0, 6.2), (3.8, 10.0)  # where each biasing function is positive

CAPTION = (
    "Overlap control. Two samples can be compared through the units that both could have drawn: κ is the share of the "
    "population there, the P-mass of {ω₁ > 0 and ω₂ > 0}, and ε the least positive value of a biasing function whose "
    "greatest is at most 1. Without overlap (κε = 0) nothing can be learned; the bounds improve as κε grows."
)


@in_this_look
def overlap_control() -> Figure:
    """Draw two biasing functions, the mass kappa where both are positive, and their least positive value epsilon."""
    figure = new_figure(3.0)
    ax = figure.subplots()
    z = np.linspace(0.0, 10.0, 2001)
    density = 0.30 * np.exp(-0.5 * ((z - 5.0) / 2.1) ** 2)
    both = (z >= RIGHT[0]) & (z <= LEFT[1])
    ax.plot(z, density, color=MUTED, lw=1.1, ls=(0, (4, 2)))
    ax.text(8.15, 0.125, "density of P", color=MUTED, va="center")
    ax.fill_between(z, density, where=both, color="#8c959f", alpha=0.45, lw=0)
    ax.text(5.0, 0.085, "mass κ", ha="center", va="center", fontsize=10, weight="bold")
    first, second = _bias(z, LEFT, 1.9), _bias(z, RIGHT, 8.1)
    for values, (start, end), colour in ((first, LEFT, SAMPLES[0]), (second, RIGHT, SAMPLES[1])):
        ax.plot(z, values, color=colour, lw=2.2)
        for edge in (start, end):
            if 0.0 < edge < 10.0:
                ax.plot([edge, edge], [0.0, EPSILON], color=colour, lw=1.2, ls=":")
    ax.text(1.9, 1.03, "$\\omega_1$", ha="center", va="bottom", fontsize=12)
    ax.text(8.1, 1.03, "$\\omega_2$", ha="center", va="bottom", fontsize=12)
    ax.axhline(EPSILON, color=INK, lw=0.7, ls=(0, (1, 2)), zorder=0)
    ax.vlines([RIGHT[0], LEFT[1]], EPSILON, 0.82, color=MUTED, lw=0.7, ls=":", zorder=0)
    arrow = {"arrowstyle": "<->", "color": INK, "lw": 0.8, "shrinkA": 0.0, "shrinkB": 0.0}
    ax.annotate("", (RIGHT[0], 0.80), (LEFT[1], 0.80), arrowprops=arrow)
    ax.text(5.0, 0.835, "both positive", ha="center")
    ax.set(xlim=(0, 10), ylim=(0, 1.15), xlabel="units $z$", ylabel="bias")
    ax.set_xticks([])
    ax.set_yticks([0.0, EPSILON, 1.0], ["0", "ε", "1"])
    return figure


def _bias(z: np.ndarray, support: tuple[float, float], peak: float) -> np.ndarray:
    """Return a bump that is 1 at its peak, epsilon at the far end of its support, and not drawn outside."""
    far = max(abs(support[0] - peak), abs(support[1] - peak))
    bump = EPSILON + (1.0 - EPSILON) * np.cos(np.clip((z - peak) / far, -1.0, 1.0) * np.pi / 2.0) ** 2
    return np.where((z >= support[0]) & (z <= support[1]), bump, np.nan)
